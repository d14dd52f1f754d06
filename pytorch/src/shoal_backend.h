// The c10d backend "shoal": all-reduce of dense tensors through the reduction servers, everything else through inner
// backends (Gloo for the CPU, NCCL for CUDA).
//
// What goes to the servers is a function of device, dtype, operation and layout alone, so that all ranks choose alike:
// strided CPU or CUDA tensors of float32, float64, float16, bfloat16, int8, int16, int32, int64 or uint8, with SUM,
// AVG, MIN, MAX, PRODUCT, or PREMUL_SUM of floating types. CUDA tensors not inside start/endCoalescing, not while a
// CUDA graph records, and not in a session without devices (SHOAL_DEVICES=none).
//
// What Gloo would do wrong without a word is refused before it begins: results in tensors that are not contiguous, and
// averages of integers. It gets inputs contiguous. docs/numerics.md has what differs from the servers.
//
// Coalescing: NCCL coalesces what is called for CUDA tensors. Works of CPU tensors are gathered, and endCoalescing
// returns one work for all of them: torch drops those that the calls return. It also drops a block in which something
// is raised, without its end: startCoalescing ends such a block, and abort lets go of what it has gathered.
//
// A backend may be made without ranks, for torch's reconfigure: it has some between BeginRoster and EndRoster, and
// calls of collectives in between throw. What a roster's all-reduces still do when it has ended is not the next one's.
//
// Threads: calls of one backend come from one thread at a time, as c10d asks; shutdown and abort from any. A call that
// is inside when the backend is shut down goes on with what it has; later ones throw. Errors: c10::Error; those of the
// servers arrive through the work as DistBackendError. torch renames and adds virtual functions in every release. Those
// that not every supported release has are declared here without `override`: they override where the base class has
// them, and are plain methods elsewhere.
#ifndef SHOAL_PYTORCH_SRC_SHOAL_BACKEND_H_
#define SHOAL_PYTORCH_SRC_SHOAL_BACKEND_H_

#include <torch/version.h>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "process/mutex.h"
#include "pytorch/src/all_reduce_work.h"
#include "pytorch/src/group_options.h"
#include "pytorch/src/hook_table.h"
#include "pytorch/src/session.h"

// torch 2.14 has that macro for other hooks.
#if defined(C10D_BACKEND_HAS_HOOKS) && (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 15)
#define SHOAL_HAS_COMPLETION_HOOKS
#endif

namespace shoal::pytorch {

class OperationsOnDevices;

class ShoalBackend : public c10d::Backend {
 public:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using BackendPtr = c10::intrusive_ptr<c10d::Backend>;
  using Tensors = std::vector<at::Tensor>;

  // `options` has the group's timeout. `session` and `group` are nullptr for a group of one rank, which needs no
  // servers. `cuda_inner` may be nullptr: then cpu_inner gets CUDA tensors too. `blocking_wait`: wait() of all-reduces
  // on devices blocks the host and has their errors. Where the session is in an open job, `group` and both inner
  // backends are nullptr: BeginRoster says what they are. The session is closed with the backend then.
  ShoalBackend(int rank, int size, c10::intrusive_ptr<GroupOptions> options, std::shared_ptr<Session> session,
               std::shared_ptr<Group> group, BackendPtr cpu_inner, BackendPtr cuda_inner, bool blocking_wait);
  ~ShoalBackend() override = default;  // after shutdown()

  const std::string getBackendName() const override { return "shoal"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) override;

  // ---- delegated ----
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& opts) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& opts) override;
  WorkPtr allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& opts) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& opts) override;
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& opts) override;
  WorkPtr gather_into_tensor(at::Tensor& output, at::Tensor& input, const c10d::GatherOptions& opts);
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& opts) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& opts) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& opts) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& opts) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_sizes,
                        std::vector<int64_t>& input_sizes, const c10d::AllToAllOptions& opts) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) override;
  WorkPtr send(Tensors& tensors, int destination, int tag) override;
  WorkPtr recv(Tensors& tensors, int source, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  // Both wait for the all-reduces on devices that were called before as well, and have their errors: in the call or, of
  // an asynchronous barrier, in the work's wait().
  WorkPtr barrier(const c10d::BarrierOptions& opts) override;
  void monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) override;

  // Splitting and reconfigure are in module.cc: they take the policy in Python.
  bool supportsCoalescing() const { return true; }
  void startCoalescing() override;
  WorkPtr endCoalescing() override;
  void eagerConnectSingleDevice(at::Device device) override;
  void setBoundDeviceId(std::optional<at::Device> device);  // not virtual in torch 2.11
  void setGroupUid(const std::string& uid) override;
  std::shared_ptr<c10::Allocator> getMemAllocator() override;
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;
  bool supportsTensorAlloc(c10::DeviceIndex device) override;
  void suspend();
  void resume();
  std::unordered_map<std::string, uint64_t> getMemoryStats();

  // ---- the group's life ----
  uint64_t getSequenceNumberForGroup() override { return sequence_number_; }
  void setTimeout(std::chrono::milliseconds timeout) override;
  // Lengthens the timeouts of the operations that are called until the first of them is complete.
  void addEphemeralTimeout(const std::chrono::milliseconds& timeout);
  // Called with each of our all-reduces that has ended, and NCCL's operations where the inner NCCL takes such a hook
  // (torch 2.15's does not). A hook that throws fails the group, with its text.
  void registerOnCompletionHook(std::function<void(std::shared_ptr<c10d::WorkInfo>)>&& hook) override;
  // Waits until the hook was called for all operations that were called before. Throws where that takes longer than the
  // group's timeout.
  void waitForPendingWorks() override;
#ifdef SHOAL_HAS_COMPLETION_HOOKS
  // Called with each collective that has succeeded, which is how torch's flight recorder learns of that. Gloo's sends,
  // receives and reduce-scatters tell nobody when they end. A hook that throws is reported by a warning.
  bool supportsCompletionHooks() const override { return true; }
  void registerCompletionHook(int64_t hook_id, c10d::CompletionHook hook) override;
  void unregisterCompletionHook(int64_t hook_id) override;
#endif
  void enableCollectivesTiming() override;  // ours are always timed
  c10d::ErrorType getError() override;
  // Why getError says so, if an all-reduce or the loss of a rank is the reason; else "".
  std::string FailureText();
  // What error_feedback has kept, by the order in which tensors came first; and the way back, on the CPU. Throw
  // DistBackendError.
  std::vector<at::Tensor> ErrorFeedback();
  void AddErrorFeedback(const std::vector<at::Tensor>& values);
  void abort() override;
  // Closes the group, and with the last group of the process the session; lets go of the inner backends, which the last
  // call that is inside frees. Idempotent.
  void shutdown() override;

#ifdef C10D_BACKEND_HAS_RECONFIGURE
  // Of a backend that was made without ranks. Ends what is under way with an error and lets go of the ranks. Throws
  // after shutdown, and in a forked child.
  void EndRoster();
  // Where it has no ranks: it is another member of the job from now on. Returns the session that it had.
  std::shared_ptr<Session> TakeSession(std::shared_ptr<Session> session);
  // Only where it has no ranks. `ranks_of_job`: the group's, in its order. `group` is nullptr for one rank.
  void BeginRoster(int rank, std::vector<uint64_t> ranks_of_job, std::shared_ptr<Group> group, BackendPtr cpu_inner,
                   BackendPtr cuda_inner);
#endif

 private:
  // For Work::abort: outlives the backend while works are open.
  struct State {
    Mutex mutex;
    std::condition_variable hook_was_called;
    uint64_t hooks_to_call SHOAL_GUARDED_BY(mutex) = 0;
#ifdef SHOAL_HAS_COMPLETION_HOOKS
    void CallCompletionHooks(const c10d::CompletionHookArgs& args) const;
    HookTable<c10d::CompletionHookArgs> completion_hooks;
#endif
  };
  // What went wrong in all-reduces with the ranks of a roster.
  struct Failures {
    std::atomic<bool> aborted{false};  // by the caller, which is no error
    Mutex mutex;
    std::exception_ptr unheard_error SHOAL_GUARDED_BY(mutex);  // of the first one on a device that failed
  };
  // Shared: a copy of what torch gives would copy an object of Python's, for which the GIL has to be held.
  using OnCompletionHook = std::shared_ptr<const std::function<void(std::shared_ptr<c10d::WorkInfo>)>>;
  struct TimeoutExtension {
    const std::chrono::milliseconds timeout;
    std::atomic<bool> over{false};
  };

  // What a group works with. A call takes what it needs once, so that a shutdown meanwhile frees nothing that it uses.
  struct Members {
    std::shared_ptr<Session> session;
    std::shared_ptr<Group> group;
    BackendPtr cpu_inner;
    BackendPtr cuda_inner;  // nullptr without NCCL
    std::shared_ptr<Failures> failures = std::make_shared<Failures>();
  };

  // Calls `call` with the inner backend of the device, and keeps the work of a CPU tensor in a coalescing block.
  template <typename Call>
  WorkPtr Delegate(const c10::Device& device, const Call& call);
  // Calls what a device may refuse before an all-reduce has begun. That is this rank's matter alone: as in Group, the
  // group is aborted then.
  template <typename Call>
  auto OrAbort(const Call& call) const;
  WorkPtr ReduceByInner(Tensors& tensors, const c10d::AllreduceOptions& opts);
  WorkPtr ReduceByInner(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts);
  WorkPtr Gathered(WorkPtr work, bool on_cpu);
  // No coalescing block is open from now on. Returns what the one that was has gathered.
  std::vector<WorkPtr> DropBlock();
  // Has the completion hooks called when the inner CPU backend's work has succeeded.
  void Watch(const WorkPtr& work);
  // What the library says of the group. An abort by this process is no error.
  static shoal_error FailureOf(const Members& now);
  Members members() const;  // all nullptr, but for `failures`, after shutdown and without ranks
  // Leaves the session, and what went wrong.
  Members TakeMembers();
  // Of an inner backend that is let go of.
  static void WarnIfThrows(const std::function<void()>& call);
  // Of a call that needs ranks.
  std::string WhyNoRanks() const;
  // Throw after shutdown, and without ranks.
  BackendPtr Inner(const c10::Device& device) const;
  BackendPtr CpuInner() const;
  BackendPtr CudaInner() const;
  bool IsForGloo(const c10::Device& device) const { return device.is_cpu() || !has_nccl_; }
  // Absent: the group takes no tensors on devices.
  std::optional<OperationsOnDevices> OnDevices();
  bool GoesToServers(const Tensors& tensors, const c10d::ReduceOp& op) const;
  WorkPtr ReduceOnServers(const Tensors& tensors, c10d::OpType type, const c10d::AllreduceOptions& opts);
  AllReduceWork::OnEnd OnEnd(c10d::OpType type, uint64_t completion_key, const Members& now,
                             std::vector<std::shared_ptr<TimeoutExtension>> extensions);
  // Those that are not over yet.
  std::vector<std::shared_ptr<TimeoutExtension>> TimeoutExtensions();
  double PremulFactor(const c10d::ReduceOp& op) const;
  static void ReduceAlone(const Tensors& tensors, const Operation& model);
  // Where results of all-reduces on the tensor's device come back, one stream for each group, as they end in the order
  // of the calls. Absent: it is in host memory.
  std::optional<c10::Stream> ReturnStream(const at::Tensor& tensor);
  // Throws DistBackendError if a contribution on a device has NaN or infinity: the library looks at those in host
  // memory.
  void CheckFiniteOnDevice(const Tensors& tensors) const;

  const c10::intrusive_ptr<GroupOptions> options_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
  const bool blocking_wait_;
  std::atomic<bool> has_nccl_;
  const bool takes_devices_;  // the servers reduce CUDA tensors, and not the inner backend
  const bool checks_finite_;
  mutable Mutex mutex_;
  Members members_ SHOAL_GUARDED_BY(mutex_);
  std::atomic<bool> roster_is_due_{false};  // reconfigure has begun, and has not given it ranks
  std::atomic<bool> is_timed_{false};       // enableCollectivesTiming was called
  std::atomic<bool> shut_down_{false};
  std::atomic<uint64_t> sequence_number_{0};
  OnCompletionHook on_completion_hook_;  // nullptr: none
  bool inner_has_hook_ = false;          // the CUDA one, a completion hook
  std::vector<std::shared_ptr<TimeoutExtension>> timeout_extensions_ SHOAL_GUARDED_BY(mutex_);
  std::map<c10::DeviceIndex, c10::Stream> return_streams_;
  std::atomic<bool> coalescing_{false};
  std::vector<WorkPtr> gathered_ SHOAL_GUARDED_BY(mutex_);  // of CPU tensors, in the coalescing block
};

template <typename Call>
ShoalBackend::WorkPtr ShoalBackend::Delegate(const c10::Device& device, const Call& call) {
  const BackendPtr inner = Inner(device);
  ++sequence_number_;
  WorkPtr work = call(*inner);
  if (IsForGloo(device)) Watch(work);
  return Gathered(std::move(work), device.is_cpu());
}

template <typename Call>
auto ShoalBackend::OrAbort(const Call& call) const {
  try {
    return call();
  } catch (const std::exception& error) {
    if (const std::shared_ptr<Group> group = members().group) {
      group->Abort("rank " + std::to_string(getRank()) + " could not start all-reduce " +
                   std::to_string(sequence_number_ + 1) + ": " + TextOf(error));
    }
    throw;
  }
}

}  // namespace shoal::pytorch

#endif  // SHOAL_PYTORCH_SRC_SHOAL_BACKEND_H_
