// The Reducer port: where a server's sums are computed.
//
// Thread: a reducer belongs to one loop's thread. Start() takes the job; Poll() says which jobs are done. Between the
// two the memory named in the job is the reducer's. At most as many jobs are open as the server has slots.
#ifndef SHOAL_SERVER_REDUCER_H_
#define SHOAL_SERVER_REDUCER_H_

#include <cstdint>
#include <span>

#include "reduce/reduce.h"

namespace shoal {

struct ReduceJob {
  ReduceSpec spec;
  std::byte* first_input = nullptr;  // the result replaces it
  uint64_t stride_bytes = 0;         // from one input to the next
  uint32_t input_count = 0;
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

#endif  // SHOAL_SERVER_REDUCER_H_
