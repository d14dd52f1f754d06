// The functions of NCCL, with its names, on simulated devices (README.md).
#include "tests/simulated_nccl/simulated_nccl.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "process/mutex.h"
#include "tests/simulated_nccl/collective.h"
#include "tests/simulated_nccl/driver.h"
#include "tests/simulated_nccl/meeting.h"

namespace shoal::simulated_nccl {
namespace {

using Result = int;

constexpr Result kSuccess = 0;
constexpr Result kUnhandledCudaError = 1;
constexpr Result kSystemError = 2;
constexpr Result kInternalError = 3;
constexpr Result kInvalidArgument = 4;
constexpr Result kRemoteError = 6;
constexpr Result kInProgress = 7;

constexpr int kVersion = 22100;
constexpr int32_t kFirstUserOp = 5;
constexpr char kIdMark[] = "simulated NCCL";
constexpr auto kLookAtDeviceEvery = std::chrono::milliseconds(100);

struct UniqueId {
  char bytes[128];
};

// The attributes that version 2.14 had.
struct Config {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;
};

struct UserOp {
  int32_t type = 0;
  uint64_t scalar = 0;
};

// All but the atomics is of the call that is under way, or of the thread that goes on with it.
struct Comm {
  uint32_t rank = 0;
  uint32_t size = 0;
  bool is_blocking = true;
  void* context = nullptr;
  std::unique_ptr<Meeting> meeting;
  std::map<int32_t, UserOp> user_ops;
  int32_t next_user_op = kFirstUserOp;
  uint64_t calls = 0;
  uint64_t groups = 0;
  void* last_stream = nullptr;
  std::thread going_on;
  std::atomic<Result> state = kInProgress;
  std::atomic<bool> is_in_call = false;
  std::atomic<bool> is_aborted = false;
  std::atomic<uint64_t> kernels = 0;  // that have not ended
  std::atomic<uint64_t> turns = 0;    // kernels that have ended: one communicator's run one after the other

  // Of a call that goes on, unless it has failed meanwhile.
  void Finish(Result result) {
    Result in_progress = kInProgress;
    state.compare_exchange_strong(in_progress, result);
  }
};

// Of one collective.
struct Kernel {
  std::shared_ptr<Comm> comm;
  Call call;
  uint64_t send = 0;
  uint64_t receive = 0;
  void* stream = nullptr;
};

std::atomic<uint64_t> kernel_count;
std::atomic<uint64_t> destroy_delay_ms;
std::atomic<const char*> last_error = "";

Mutex library_mutex;
std::string refuse_next SHOAL_GUARDED_BY(library_mutex);
std::map<Comm*, std::shared_ptr<Comm>>& Comms() SHOAL_REQUIRES(library_mutex) {
  static auto* const comms = new std::map<Comm*, std::shared_ptr<Comm>>;
  return *comms;
}
// Where a device fails the driver forgets them.
std::map<Kernel*, std::unique_ptr<Kernel>>& Kernels() SHOAL_REQUIRES(library_mutex) {
  static auto* const kernels = new std::map<Kernel*, std::unique_ptr<Kernel>>;
  return *kernels;
}

bool IsRefused(const char* function) {
  const MutexLock lock(library_mutex);
  if (refuse_next != function) return false;
  refuse_next.clear();
  last_error = "the simulated NCCL was told to refuse a call";
  return true;
}

// The calls of a thread between ncclGroupStart and ncclGroupEnd.
struct Group {
  int depth = 0;
  Result error = kSuccess;
  std::vector<Kernel> kernels;

  ~Group() {
    if (depth > 0) End("a thread ends between ncclGroupStart and ncclGroupEnd");
  }
};

Group& GroupOfThread() {
  static thread_local Group group;
  return group;
}

// A communicator, for one call with it.
class InCall {
 public:
  InCall(Comm* comm, const char* function, bool may_be_in_progress = false) {
    {
      const MutexLock lock(library_mutex);
      const auto found = Comms().find(comm);
      if (found == Comms().end()) {
        End(std::string(function) + ": the communicator was destroyed or aborted, or never made");
      }
      comm_ = found->second;
    }
    if (comm_->is_in_call.exchange(true)) {
      End(std::string(function) + ": another thread is in a call with the communicator");
    }
    if (comm_->state != kInProgress) {
      if (comm_->going_on.joinable()) comm_->going_on.join();
    } else if (!may_be_in_progress) {
      End(std::string(function) + ": what was called before is still in progress");
    }
  }
  ~InCall() { comm_->is_in_call = false; }
  InCall(const InCall&) = delete;
  InCall& operator=(const InCall&) = delete;

  Comm* operator->() const { return comm_.get(); }
  const std::shared_ptr<Comm>& comm() const { return comm_; }

 private:
  std::shared_ptr<Comm> comm_;
};

Result Fail(const InCall& comm, Result result) {
  if (!comm->is_blocking) comm->state = result;
  if (GroupOfThread().depth > 0) GroupOfThread().error = result;
  return result;
}

// ---- kernels ----

void RunKernel(void* user_data) {
  BeLate();
  std::unique_ptr<Kernel> kernel;
  {
    const MutexLock lock(library_mutex);
    const auto found = Kernels().find(static_cast<Kernel*>(user_data));
    kernel = std::move(found->second);
    Kernels().erase(found);
  }
  Comm& comm = *kernel->comm;
  const Driver& driver = Driver::Get();
  while (comm.turns != kernel->call.number && !comm.is_aborted) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  RunCollective(comm.meeting.get(), comm.rank, comm.size, kernel->call,
                static_cast<const std::byte*>(driver.in_kernels(kernel->send)),
                static_cast<std::byte*>(driver.in_kernels(kernel->receive)),
                [&comm]() -> bool { return comm.is_aborted; });
  ++comm.turns;
  --kernel_count;
  --comm.kernels;
}

Result PutIntoStream(Kernel kernel) {
  Comm& comm = *kernel.comm;
  if (comm.is_aborted) return kInternalError;
  void* const stream = kernel.stream;
  comm.last_stream = stream;
  auto owned = std::make_unique<Kernel>(std::move(kernel));
  Kernel* const put = owned.get();
  {
    const MutexLock lock(library_mutex);
    Kernels().emplace(put, std::move(owned));
  }
  ++kernel_count;
  ++comm.kernels;
  if (Driver::Get().run(stream, &RunKernel, put) == 0) return kSuccess;
  const MutexLock lock(library_mutex);
  --kernel_count;
  --comm.kernels;
  Kernels().erase(put);
  return kUnhandledCudaError;
}

void PutAll(Comm* comm, std::vector<Kernel> kernels) {
  BeLate();
  void* context = nullptr;
  Driver::Get().context_push(comm->context);
  Result result = kSuccess;
  for (Kernel& kernel : kernels) {
    if (result == kSuccess) result = PutIntoStream(std::move(kernel));
  }
  Driver::Get().context_pop(&context);
  comm->Finish(result);
}

// All of one communicator. As NCCL does, a thread of its own goes on with it where the communicator is non-blocking: so
// a program that does not wait for it finds its own work before these kernels.
Result Launch(const InCall& comm, std::vector<Kernel> kernels) {
  for (Kernel& kernel : kernels) {
    kernel.call.number = comm->calls++;
    kernel.call.group = comm->groups;
  }
  ++comm->groups;
  comm->state = kInProgress;
  if (comm->is_blocking) {
    PutAll(comm.comm().get(), std::move(kernels));
    return comm->state;
  }
  comm->going_on = std::thread([of_thread = comm.comm(), kernels = std::move(kernels)]() mutable {
    PutAll(of_thread.get(), std::move(kernels));
  });
  return kInProgress;
}

// `error`: instead of launching what is in the group.
Result EndGroup(Result error) {
  Group& group = GroupOfThread();
  if (group.depth == 0) End("ncclGroupEnd: there was no ncclGroupStart");
  if (--group.depth > 0) return kSuccess;
  if (group.error != kSuccess) error = std::exchange(group.error, kSuccess);
  std::map<Comm*, std::vector<Kernel>> by_comm;
  for (Kernel& kernel : std::exchange(group.kernels, {})) by_comm[kernel.comm.get()].push_back(std::move(kernel));
  Result result = error;
  for (auto& [comm, kernels] : by_comm) {
    const InCall in_call(comm, "ncclGroupEnd", /*may_be_in_progress=*/error != kSuccess);
    result = error == kSuccess ? Launch(in_call, std::move(kernels)) : Fail(in_call, error);
  }
  return result;
}

Result PutCollective(const char* function, Comm* comm, Call call, const void* send, void* receive, void* stream) {
  const InCall in_call(comm, function);
  if (const Result state = in_call->state; state != kSuccess) return state;
  if (IsRefused(function)) return Fail(in_call, kSystemError);
  if (SizeOf(call.type) == 0) End(std::string(function) + ": there is no such type: " + std::to_string(call.type));
  if (call.root < 0 || call.root >= static_cast<int32_t>(in_call->size)) return Fail(in_call, kInvalidArgument);
  if (call.op >= kFirstUserOp) {
    const auto found = in_call->user_ops.find(call.op);
    if (found == in_call->user_ops.end()) End(std::string(function) + ": the operation was destroyed, or never made");
    if (found->second.type != call.type) End(std::string(function) + ": the operation is of another type");
    call.op = kPremulSum;
    call.scalar = found->second.scalar;
  } else if (call.op < kSum || call.op > kAvg) {
    End(std::string(function) + ": not simulated: operation " + std::to_string(call.op));
  }
  if (call.count == 0) return kSuccess;
  Kernel kernel{.comm = in_call.comm(),
                .call = call,
                .send = reinterpret_cast<uint64_t>(send),
                .receive = reinterpret_cast<uint64_t>(receive),
                .stream = stream};
  Group& group = GroupOfThread();
  if (group.depth == 0) return Launch(in_call, {std::move(kernel)});
  group.kernels.push_back(std::move(kernel));
  return kSuccess;
}

// ---- communicators ----

void Meet(Comm* comm, const std::string& name) {
  BeLate();
  comm->meeting = std::make_unique<Meeting>(name, comm->rank, comm->size);
  const bool met = comm->meeting->AwaitAll([comm] { return comm->is_aborted || comm->state != kInProgress; });
  comm->Finish(met ? kSuccess : kInternalError);
}

std::string NameOf(const UniqueId& id) {
  if (std::memcmp(id.bytes, kIdMark, sizeof(kIdMark)) != 0) End("the id is not one of ncclGetUniqueId");
  std::string name = "/simulated-nccl-";
  for (size_t i = sizeof(kIdMark); i < sizeof(kIdMark) + 16; ++i) {
    name += "0123456789abcdef"[static_cast<unsigned char>(id.bytes[i]) / 16];
    name += "0123456789abcdef"[static_cast<unsigned char>(id.bytes[i]) % 16];
  }
  return name;
}

// Its kernels have to end first, as NCCL waits for them; those on a device that has failed never run.
void AwaitKernels(const InCall& comm) {
  auto look_at = std::chrono::steady_clock::now() + kLookAtDeviceEvery;
  while (comm->kernels > 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (std::chrono::steady_clock::now() < look_at) continue;
    void* context = nullptr;
    Driver::Get().context_push(comm->context);
    const int state = Driver::Get().run(
        comm->last_stream, [](void* /*user_data*/) {}, nullptr);
    Driver::Get().context_pop(&context);
    if (state != 0) return;
    look_at = std::chrono::steady_clock::now() + kLookAtDeviceEvery;
  }
}

Result Leave(const InCall& comm) {
  if (comm->going_on.joinable()) comm->going_on.join();
  AwaitKernels(comm);
  const MutexLock lock(library_mutex);
  Comms().erase(comm.comm().get());
  return kSuccess;
}

}  // namespace
}  // namespace shoal::simulated_nccl

using namespace shoal::simulated_nccl;  // NOLINT: the functions below are of NCCL's interface

extern "C" {

void simulated_nccl_refuse_next(const char* function) {
  const shoal::MutexLock lock(library_mutex);
  refuse_next = function;
}

void simulated_nccl_delay_destroy(uint64_t milliseconds) { destroy_delay_ms = milliseconds; }

uint64_t simulated_nccl_comms() {
  const shoal::MutexLock lock(library_mutex);
  return Comms().size();
}

uint64_t simulated_nccl_kernels() { return kernel_count; }

Result ncclGetVersion(int* version) {
  *version = kVersion;
  return kSuccess;
}

const char* ncclGetErrorString(Result result) {
  static const std::map<Result, const char*> kTexts = {
      {kSuccess, "no error"},
      {kUnhandledCudaError, "unhandled cuda error"},
      {kSystemError, "unhandled system error"},
      {kInternalError, "internal error"},
      {kInvalidArgument, "invalid argument"},
      {kRemoteError, "remote process exited or there was a network error"},
      {kInProgress, "NCCL operation in progress"}};
  const auto found = kTexts.find(result);
  return found == kTexts.end() ? "unknown result code" : found->second;
}

const char* ncclGetLastError(Comm* /*comm*/) { return last_error; }

Result ncclGetUniqueId(UniqueId* id) {
  if (IsRefused("ncclGetUniqueId")) return kSystemError;
  std::random_device random;
  for (char& byte : id->bytes) byte = static_cast<char>(random());
  std::memcpy(id->bytes, kIdMark, sizeof(kIdMark));
  return kSuccess;
}

Result ncclCommInitRankConfig(Comm** comm, int ranks, UniqueId id, int rank, Config* config) {
  *comm = nullptr;
  if (IsRefused("ncclCommInitRankConfig")) return kSystemError;
  if (GroupOfThread().depth > 0) End("not simulated: ncclCommInitRankConfig in a group");
  const bool is_valid = ranks > 0 && rank >= 0 && rank < ranks && config->size >= sizeof(Config) &&
                        config->magic == 0xcafebeef && config->version >= 21400;
  if (!is_valid) return kInvalidArgument;
  if (ranks > static_cast<int>(Meeting::kMostRanks)) End("not simulated: so many ranks");
  auto made = std::make_shared<Comm>();
  made->rank = static_cast<uint32_t>(rank);
  made->size = static_cast<uint32_t>(ranks);
  made->is_blocking = config->blocking != 0;
  made->context = Driver::Get().CurrentContext();
  if (made->context == nullptr) return kUnhandledCudaError;
  {
    const shoal::MutexLock lock(library_mutex);
    Comms().emplace(made.get(), made);
  }
  *comm = made.get();
  if (made->is_blocking) {
    Meet(made.get(), NameOf(id));
    return made->state;
  }
  made->going_on = std::thread([made, name = NameOf(id)] { Meet(made.get(), name); });
  return kInProgress;
}

Result ncclCommGetAsyncError(Comm* comm, Result* state) {
  const InCall in_call(comm, "ncclCommGetAsyncError", /*may_be_in_progress=*/true);
  if (IsRefused("ncclCommGetAsyncError")) in_call->state = kRemoteError;
  *state = in_call->state;
  return kSuccess;
}

Result ncclCommAbort(Comm* comm) {
  const InCall in_call(comm, "ncclCommAbort", /*may_be_in_progress=*/true);
  in_call->is_aborted = true;
  return Leave(in_call);
}

// Where the communicator has failed it only says so, as NCCL does.
Result ncclCommDestroy(Comm* comm) {
  const InCall in_call(comm, "ncclCommDestroy");
  if (const Result state = in_call->state; state != kSuccess) return state;
  std::this_thread::sleep_for(std::chrono::milliseconds(destroy_delay_ms.load()));
  return Leave(in_call);
}

Result ncclReduceScatter(const void* send, void* receive, size_t receive_count, int type, int op, Comm* comm,
                         void* stream) {
  const Call call{.function = kReduceScatter, .type = type, .op = op, .count = receive_count};
  return PutCollective("ncclReduceScatter", comm, call, send, receive, stream);
}

Result ncclAllGather(const void* send, void* receive, size_t send_count, int type, Comm* comm, void* stream) {
  const Call call{.function = kAllGather, .type = type, .count = send_count};
  return PutCollective("ncclAllGather", comm, call, send, receive, stream);
}

Result ncclReduce(const void* send, void* receive, size_t count, int type, int op, int root, Comm* comm, void* stream) {
  const Call call{.function = kReduce, .type = type, .op = op, .root = root, .count = count};
  return PutCollective("ncclReduce", comm, call, send, receive, stream);
}

Result ncclBroadcast(const void* send, void* receive, size_t count, int type, int root, Comm* comm, void* stream) {
  const Call call{.function = kBroadcast, .type = type, .root = root, .count = count};
  return PutCollective("ncclBroadcast", comm, call, send, receive, stream);
}

Result ncclGroupStart() {
  if (IsRefused("ncclGroupStart")) return kSystemError;
  ++GroupOfThread().depth;
  return kSuccess;
}

Result ncclGroupEnd() { return EndGroup(IsRefused("ncclGroupEnd") ? kSystemError : kSuccess); }

Result ncclRedOpCreatePreMulSum(int* op, void* scalar, int type, int residence, Comm* comm) {
  const InCall in_call(comm, "ncclRedOpCreatePreMulSum");
  if (const Result state = in_call->state; state != kSuccess) return state;
  if (IsRefused("ncclRedOpCreatePreMulSum")) return kSystemError;
  if (residence != 1) End("not simulated: a scalar on a device");
  if (SizeOf(type) == 0) return kInternalError;
  UserOp made{.type = type};
  std::memcpy(&made.scalar, scalar, SizeOf(type));
  *op = in_call->next_user_op++;
  in_call->user_ops.emplace(*op, made);
  return kSuccess;
}

Result ncclRedOpDestroy(int op, Comm* comm) {
  const InCall in_call(comm, "ncclRedOpDestroy");
  if (IsRefused("ncclRedOpDestroy")) return kSystemError;
  if (in_call->user_ops.erase(op) == 0) End("ncclRedOpDestroy: the operation was destroyed, or never made");
  return kSuccess;
}
}
