// Sums at once, on the loop's own thread: a chunk is still in the cache when its last contribution has landed.
#ifndef SHOAL_SERVER_LOOP_INLINE_REDUCER_H_
#define SHOAL_SERVER_LOOP_INLINE_REDUCER_H_

#include <vector>

#include "server/loop/reducer.h"

namespace shoal {

class InlineReducer : public Reducer {
 public:
  void Start(const ReduceJob& job) override;
  std::span<const uint64_t> Poll() override;

 private:
  std::vector<uint64_t> done_;
  std::vector<uint64_t> polled_;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_LOOP_INLINE_REDUCER_H_
