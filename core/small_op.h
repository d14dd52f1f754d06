// Which ops are small: their time is that of waking threads, not of moving bytes.
//
// A thread that such an op keeps waiting looks for work for a while, yielding its core between looks, before it sleeps:
// to sleep and be woken costs more than the op itself (docs/adr/0012). In a worker the caller looks itself
// (docs/adr/0016). A large op's threads sleep at once.
#ifndef SHOAL_CORE_SMALL_OP_H_
#define SHOAL_CORE_SMALL_OP_H_

#include <cstdint>

namespace shoal {

inline constexpr uint64_t kSmallOpBytes = 256 << 10;
// How long such a thread looks before it sleeps.
inline constexpr uint64_t kSmallOpSpinNs = 500'000;

}  // namespace shoal

#endif  // SHOAL_CORE_SMALL_OP_H_
