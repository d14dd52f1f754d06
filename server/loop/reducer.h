// The Reducer port: where a server's sums are computed.
//
// Thread: a reducer belongs to one loop's thread. Start() takes the job, Work() may do a part of it, Poll() says which
// jobs are done. From Start() to Poll() the memory named in the job, the array of inputs included, is the reducer's. At
// most as many jobs are open as the server has slots. (tests/conformance/reducer)
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
  uint32_t group = 0;  // the server's number for it: groups take turns
  uint64_t token = 0;
};

class Reducer {
 public:
  virtual ~Reducer() = default;
  virtual void Start(const ReduceJob& job) = 0;
  // A reducer that sums on the caller's thread works here. It subtracts the bytes that it reads from *budget_bytes and
  // stops when nothing is left; its last step may read slightly more. It stops sooner when jobs are done, whose
  // results need not wait for what is left.
  virtual void Work(uint64_t* budget_bytes) = 0;
  // Work() is to be called again, without sleeping before.
  virtual bool HasWork() const = 0;
  // Tokens of the jobs that are done since the last Poll; valid until the next.
  virtual std::span<const uint64_t> Poll() = 0;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_LOOP_REDUCER_H_
