// The Reducer port: where a server's sums are computed.
//
// Thread: a reducer belongs to one loop's thread. Start() takes the job; Poll() says which jobs are done. Between the
// two the memory named in the job, the array of inputs included, is the reducer's. At most as many jobs are open as the
// server has slots. (tests/conformance/reducer)
#ifndef SHOAL_SERVER_LOOP_REDUCER_H_
#define SHOAL_SERVER_LOOP_REDUCER_H_

#include <cstdint>
#include <span>

#include "reduce/reduce.h"

namespace shoal {

struct ReduceJob {
  ReduceSpec spec;
  std::span<const std::byte* const> inputs;  // in rank order
  std::byte* output = nullptr;               // may be one of the inputs
  uint32_t elements = 0;
  uint64_t token = 0;
};

class Reducer {
 public:
  virtual ~Reducer() = default;
  virtual void Start(const ReduceJob& job) = 0;
  // Tokens of the jobs that are done since the last Poll; valid until the next.
  virtual std::span<const uint64_t> Poll() = 0;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_LOOP_REDUCER_H_
