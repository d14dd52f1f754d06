// The functions of NCCL that the worker calls, found in NCCL's library when the program runs.
//
// Declared here because nothing of NCCL is needed to build the worker. They are those of nccl.h from version 2.14 on
// (tests/pytorch checks them against the header). Any thread; but NCCL allows only one call at a time with a
// communicator, its end included.
#ifndef SHOAL_WORKER_DEVICE_NCCL_API_H_
#define SHOAL_WORKER_DEVICE_NCCL_API_H_

#include <climits>
#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/device/cuda_api.h"

namespace shoal::nccl {

using Result = int;    // ncclResult_t
using DataType = int;  // ncclDataType_t
using RedOp = int;     // ncclRedOp_t
using Comm = struct ncclComm*;
using cuda::Stream;

// What the ranks of a communicator meet by: one of them makes it, and all have it.
struct UniqueId {
  char bytes[128];
};

inline constexpr Result kSuccess = 0;
inline constexpr Result kInProgress = 7;

inline constexpr DataType kInt8 = 0;
inline constexpr DataType kUint8 = 1;
inline constexpr DataType kInt32 = 2;
inline constexpr DataType kInt64 = 4;
inline constexpr DataType kFloat16 = 6;
inline constexpr DataType kFloat32 = 7;
inline constexpr DataType kFloat64 = 8;
inline constexpr DataType kBfloat16 = 9;

inline constexpr RedOp kSum = 0;
inline constexpr RedOp kProd = 1;
inline constexpr RedOp kMax = 2;
inline constexpr RedOp kMin = 3;
inline constexpr RedOp kAvg = 4;

inline constexpr int kScalarHostImmediate = 1;

// As it was in version 2.14: later ones take it as it was then, and their own defaults for what came later.
struct Config {
  size_t size = sizeof(Config);
  unsigned int magic = 0xcafebeef;
  unsigned int version = 21400;
  int blocking = INT_MIN;  // undefined
};

struct Api {
  // Of the library at that path; "": the one that the process has loaded already (torch does), else the system's.
  // NotFound: there is none, or it lacks a function (the text says which).
  static absl::StatusOr<std::unique_ptr<const Api>> Load(const std::string& library);

  // OK, or Internal: what NCCL says of the result, and of its last error; `what` says what was tried.
  absl::Status Check(Result result, const char* what) const;

  Result (*get_version)(int* version);
  Result (*get_unique_id)(UniqueId* id);
  const char* (*get_error_string)(Result result);
  const char* (*get_last_error)(Comm comm);
  Result (*comm_init_rank_config)(Comm* comm, int ranks, UniqueId id, int rank, Config* config);
  Result (*comm_get_async_error)(Comm comm, Result* state);
  Result (*comm_abort)(Comm comm);
  Result (*comm_destroy)(Comm comm);
  Result (*reduce_scatter)(const void* send, void* receive, size_t receive_count, DataType type, RedOp op, Comm comm,
                           Stream stream);
  Result (*all_gather)(const void* send, void* receive, size_t send_count, DataType type, Comm comm, Stream stream);
  Result (*reduce)(const void* send, void* receive, size_t count, DataType type, RedOp op, int root, Comm comm,
                   Stream stream);
  Result (*broadcast)(const void* send, void* receive, size_t count, DataType type, int root, Comm comm, Stream stream);
  Result (*group_start)();
  Result (*group_end)();
  Result (*red_op_create_pre_mul_sum)(RedOp* op, void* scalar, DataType type, int residence, Comm comm);
  Result (*red_op_destroy)(RedOp op, Comm comm);
};

}  // namespace shoal::nccl

#endif  // SHOAL_WORKER_DEVICE_NCCL_API_H_
