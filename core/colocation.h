// Whether the processes of a job offer themselves as reduction servers of that job, beside the dedicated ones.
//
// The numbers are part of the control plane and of the public C header: never renumber. Values; any thread.
#ifndef SHOAL_CORE_COLOCATION_H_
#define SHOAL_CORE_COLOCATION_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace shoal {

enum class Colocation : uint8_t {
  kOff = 0,
  // Where there are fewer dedicated servers than the job has ranks (than it has nodes, if ranks reduce within theirs
  // first), and none of them is on the rank's node.
  kAuto = 1,
  kOn = 2,  // the first rank of each node
};

// "off", "auto", "on": the names that users read and type.
std::string_view ColocationName(Colocation colocation);

// nullopt for a number or name that is none of the above, whatever a peer or a user may have sent.
std::optional<Colocation> ColocationFromNumber(uint32_t number);
std::optional<Colocation> ColocationFromName(std::string_view name);

}  // namespace shoal

#endif  // SHOAL_CORE_COLOCATION_H_
