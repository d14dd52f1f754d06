// Sums on the loop's own thread, at once: a chunk is in the cache when its last contribution has just landed.
#ifndef SHOAL_SERVER_INLINE_REDUCER_H_
#define SHOAL_SERVER_INLINE_REDUCER_H_

#include <vector>

#include "server/reducer.h"

namespace shoal {

class InlineReducer : public Reducer {
 public:
  void Start(const ReduceJob& job) override;
  std::span<const uint64_t> Poll() override;

 private:
  std::vector<const std::byte*> inputs_;
  std::vector<uint64_t> done_;
  std::vector<uint64_t> polled_;
};

// Computes a job, on the caller's thread. `inputs` is scratch space.
void RunReduceJob(const ReduceJob& job, std::vector<const std::byte*>* inputs);

}  // namespace shoal

#endif  // SHOAL_SERVER_INLINE_REDUCER_H_
