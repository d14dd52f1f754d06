#include "pytorch/src/shoal_backend.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <utility>

namespace shoal::pytorch {
namespace {

// A timeout that is longer is none, and would be too long for a clock to count.
constexpr std::chrono::hours kLongestTimeout{365 * 24};

std::optional<shoal_dtype> DtypeOf(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return SHOAL_FLOAT32;
    case at::kDouble:
      return SHOAL_FLOAT64;
    case at::kHalf:
      return SHOAL_FLOAT16;
    case at::kBFloat16:
      return SHOAL_BFLOAT16;
    case at::kChar:
      return SHOAL_INT8;
    case at::kShort:
      return SHOAL_INT16;
    case at::kInt:
      return SHOAL_INT32;
    case at::kLong:
      return SHOAL_INT64;
    case at::kByte:
      return SHOAL_UINT8;
    default:
      return std::nullopt;
  }
}

std::optional<shoal_reduce_op> OpOf(const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      return SHOAL_SUM;
    case c10d::ReduceOp::AVG:
      return SHOAL_AVG;
    case c10d::ReduceOp::PREMUL_SUM:
      return SHOAL_PREMUL_SUM;
    case c10d::ReduceOp::MIN:
      return SHOAL_MIN;
    case c10d::ReduceOp::MAX:
      return SHOAL_MAX;
    case c10d::ReduceOp::PRODUCT:
      return SHOAL_PROD;
    default:
      return std::nullopt;
  }
}

// What neither the servers nor the inner backend know.
bool IsUnknown(at::ScalarType type, bool inner_is_nccl) {
  // On devices that have these two. On others NCCL refuses them.
  if (inner_is_nccl && (type == at::kFloat8_e4m3fn || type == at::kFloat8_e5m2)) return false;
  return at::isFloat8Type(type) || type == at::ScalarType::Float4_e2m1fn_x2 || at::isBarebonesUnsignedType(type) ||
         at::isBitsType(type) || at::isQIntType(type);
}

struct Dimension {
  int64_t size;
  int64_t stride;
};

// Whether steps in these dimensions, of which the longest comes first, lead from `distance` back to 0: less than `size`
// of them in each, and not none at all. False as well after so many `tries`, which no tensor's usual layout needs.
bool LeadBack(std::span<const Dimension> dimensions, int64_t distance, bool has_stepped, int* tries) {
  if (dimensions.empty()) return has_stepped && distance == 0;
  if (--*tries < 0) return false;
  const auto [size, stride] = dimensions.front();
  const std::span<const Dimension> rest = dimensions.subspan(1);
  int64_t reach = 0;
  for (const Dimension& each : rest) reach += (each.size - 1) * each.stride;
  // The rest leads back from no farther than that. In a tensor's usual layout only 0 is left.
  const auto floor_of = [stride](int64_t length) {
    return length >= 0 ? length / stride : -((stride - 1 - length) / stride);
  };
  const int64_t least = std::max(1 - size, -floor_of(reach + distance));
  const int64_t most = std::min(size - 1, floor_of(reach - distance));
  for (int64_t steps = least; steps <= most; ++steps) {
    if (LeadBack(rest, distance + steps * stride, has_stepped || steps != 0, tries)) return true;
  }
  return false;
}

// Whether several elements lie in the same memory. Exact, also for views whose elements lie between each
// other's, but for those that take too long to be sure of.
bool Overlaps(const at::Tensor& tensor) {
  // Of dense tensors and of strides of 0 torch knows it.
  const at::MemOverlap known = at::has_internal_overlap(tensor);
  if (known != at::MemOverlap::TooHard) return known == at::MemOverlap::Yes;
  if (tensor.numel() == 0) return false;
  std::vector<Dimension> dimensions;
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.size(i) > 1) dimensions.push_back({.size = tensor.size(i), .stride = tensor.stride(i)});
  }
  std::ranges::sort(dimensions, std::ranges::greater(), &Dimension::stride);
  int tries = 100'000;
  return LeadBack(dimensions, 0, /*has_stepped=*/false, &tries);
}

// Refuses what no path can reduce, so that nothing is sent and the ranks stay in step.
void CheckTensors(const std::vector<at::Tensor>& tensors, bool has_nccl) {
  TORCH_CHECK_VALUE(!tensors.empty(), "shoal: an all-reduce of no tensor; pass at least one");
  const at::Tensor& first = tensors.front();
  for (const at::Tensor& tensor : tensors) {
    const c10::Device device = tensor.device();
    TORCH_CHECK_VALUE(device == first.device(), "shoal: an all-reduce of tensors on ", first.device(), " and ", device,
                      "; move them to one device, or make a call for each device");
    TORCH_CHECK_VALUE(device.is_cpu() || device.is_cuda(), "shoal: an all-reduce of a tensor on ", device,
                      "; move it to the CPU or a CUDA device first, for example with tensor.to(\"cpu\")");
    TORCH_CHECK_TYPE(tensor.scalar_type() == first.scalar_type(), "shoal: an all-reduce of tensors of ",
                     first.scalar_type(), " and ", tensor.scalar_type(),
                     "; convert them to one dtype, or make a call for each dtype");
    const bool inner_is_nccl = has_nccl && device.is_cuda();
    TORCH_CHECK_TYPE(
        !IsUnknown(tensor.scalar_type(), inner_is_nccl), "shoal: an all-reduce of a torch.",
        c10::getDtypeNames(tensor.scalar_type()).first, " tensor, which neither the servers nor ",
        inner_is_nccl ? "NCCL" : "Gloo",
        " can sum; convert it first, for example with tensor.to(torch.bfloat16) or tensor.to(torch.int32)");
    TORCH_CHECK_VALUE(tensor.layout() != at::kStrided || !Overlaps(tensor),
                      "shoal: an all-reduce of an expanded or overlapping tensor (sizes ", tensor.sizes(), ", strides ",
                      tensor.strides(),
                      "): more than one element lies in the same memory, so the result has no place; "
                      "pass tensor.contiguous() and use that");
  }
}

// Never the address of a work, which is the key of those of torch: it is odd.
uint64_t NextCompletionKey() {
  static std::atomic<uint64_t> last{1};
  return last.fetch_add(2);
}

}  // namespace

ShoalBackend::ShoalBackend(int rank, int size, c10::intrusive_ptr<GroupOptions> options,
                           std::shared_ptr<Session> session, std::shared_ptr<Group> group, BackendPtr cpu_inner,
                           BackendPtr cuda_inner, bool blocking_wait)
    : Backend(rank, size),
      options_(std::move(options)),
      blocking_wait_(blocking_wait),
      has_nccl_(cuda_inner != nullptr),
      takes_devices_(session == nullptr || session->reduces_on_devices()),
      checks_finite_(session != nullptr && session->checks_finite()),
      members_{.session = std::move(session),
               .group = std::move(group),
               .cpu_inner = std::move(cpu_inner),
               .cuda_inner = std::move(cuda_inner)} {
  if (members_.session && members_.session->in_open_job()) {
    TORCH_CHECK(!members_.group && !members_.cpu_inner && !members_.cuda_inner,
                "shoal: a group in an open job begins without ranks");
    return;
  }
  TORCH_CHECK(members_.cpu_inner, "shoal: the inner CPU backend is missing");
  TORCH_CHECK(size == 1 || (members_.session && members_.group), "shoal: a group of ", size, " ranks needs a session");
}

// ---- all-reduce ----

ShoalBackend::WorkPtr ShoalBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  CheckTensors(tensors, has_nccl_);
  if (tensors.size() == 1 && GoesToServers(tensors, opts.reduceOp)) {
    return ReduceOnServers(tensors, c10d::OpType::ALLREDUCE, opts);
  }
  return ReduceByInner(tensors, opts);
}

ShoalBackend::WorkPtr ShoalBackend::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) {
  CheckTensors(tensors, has_nccl_);
  if (GoesToServers(tensors, opts.reduceOp)) {
    return ReduceOnServers(tensors, c10d::OpType::ALLREDUCE_COALESCED, opts);
  }
  return ReduceByInner(tensors, opts);
}

bool ShoalBackend::GoesToServers(const Tensors& tensors, const c10d::ReduceOp& op) const {
  const std::optional<shoal_reduce_op> reduce_op = OpOf(op);
  if (!reduce_op || (!tensors.front().is_cpu() && (coalescing_ || !takes_devices_))) return false;
  const at::ScalarType type = tensors.front().scalar_type();
  if (!DtypeOf(type) || (*reduce_op == SHOAL_PREMUL_SUM && !at::isFloatingType(type))) return false;
  const bool dense = std::all_of(tensors.begin(), tensors.end(),
                                 [](const at::Tensor& tensor) { return tensor.layout() == at::kStrided; });
  if (!dense) return false;
  if (!OrAbort([&] { return IsCapturing(tensors.front()); })) return true;
  TORCH_WARN_ONCE(
      "shoal: an all-reduce that is captured into a CUDA graph is reduced by the inner backend, not by the "
      "servers, each time the graph runs: a graph can't wait for the network. Keep all-reduces out of graphs "
      "to have them on the servers");
  return false;
}

ShoalBackend::WorkPtr ShoalBackend::ReduceOnServers(const Tensors& tensors, c10d::OpType type,
                                                    const c10d::AllreduceOptions& opts) {
  const Members now = members();
  const std::shared_ptr<Group>& group = now.group;
  TORCH_CHECK(now.cpu_inner, "shoal: all-reduce was called on a process group that ", WhyNoRanks());
  Operation model;
  model.dtype = *DtypeOf(tensors.front().scalar_type());
  model.op = *OpOf(opts.reduceOp);
  // What can throw comes before the op has a number and a hook that is waited for.
  if (model.op == SHOAL_PREMUL_SUM) model.premul_factor = PremulFactor(opts.reduceOp);
  TORCH_CHECK_TYPE(
      tensors.front().is_cpu() || !group || group->takes_devices() != 2 || tensors.front().scalar_type() != at::kShort,
      "shoal: an all-reduce of an int16 tensor on a CUDA device, in a group whose ranks reduce within their "
      "node by NCCL, which has no such type; convert it first, for example with tensor.to(torch.int32)");
  std::optional<c10::Stream> return_stream;
  if (group) return_stream = OrAbort([&] { return ReturnStream(tensors.front()); });
  if (return_stream && checks_finite_) OrAbort([&] { CheckFiniteOnDevice(tensors); });
  if (getSize() == 1) ReduceAlone(tensors, model);
  ++sequence_number_;
  std::vector<std::shared_ptr<TimeoutExtension>> extensions = TimeoutExtensions();
  std::chrono::milliseconds timeout = opts.timeout > kNoTimeout ? opts.timeout : options_->timeout;
  for (const auto& extension : extensions) timeout += extension->timeout;
  model.timeout_ms = static_cast<uint64_t>(timeout.count());
  const uint64_t completion_key = NextCompletionKey();
  auto work = c10::make_intrusive<AllReduceWork>(getRank(), type, sequence_number_, tensors, timeout, group,
                                                 return_stream, blocking_wait_, completion_key,
                                                 OnEnd(type, completion_key, now, std::move(extensions)));
  if (getSize() == 1) {
    work->CompleteNow();
  } else {
    work->Start(model);
    if (on_completion_hook_) work->CompleteByItself();
  }
  return Gathered(std::move(work), tensors.front().is_cpu());
}

AllReduceWork::OnEnd ShoalBackend::OnEnd(c10d::OpType type, uint64_t completion_key, const Members& now,
                                         std::vector<std::shared_ptr<TimeoutExtension>> extensions) {
  if (on_completion_hook_) {
    MutexLock lock(state_->mutex);
    ++state_->hooks_to_call;
  }
  return [state = state_, failures = now.failures, extensions = std::move(extensions), hook = on_completion_hook_,
          group = now.group, rank = getRank(), type, completion_key,
          number = sequence_number_.load()](shoal_code code, uint64_t duration_ns, const std::exception_ptr& unheard) {
    if (unheard) {
      MutexLock lock(failures->mutex);
      if (!failures->unheard_error) failures->unheard_error = unheard;
    }
    for (const auto& extension : extensions) extension->over = true;
#ifdef SHOAL_HAS_COMPLETION_HOOKS
    if (code == SHOAL_OK) {
      state->CallCompletionHooks(
          {.completionKey = completion_key, .duration_ms = static_cast<float>(duration_ns) * 1e-6F});
    }
#endif
    if (!hook) return;
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::nanoseconds duration(duration_ns);
    try {
      (*hook)(std::make_shared<c10d::WorkInfo>(type, number, now - duration, now, duration));
    } catch (const std::exception& error) {
      // Nobody waits here who could be told. The group's next operation has the error, on all ranks.
      const std::string reason = "the completion hook of rank " + std::to_string(rank) + " raised: " + TextOf(error);
      TORCH_WARN("shoal: ", reason);
      if (group) group->Abort(reason);
    }
    MutexLock lock(state->mutex);
    --state->hooks_to_call;
    state->hook_was_called.notify_all();
  };
}

std::optional<c10::Stream> ShoalBackend::ReturnStream(const at::Tensor& tensor) {
  const c10::Device device = tensor.device();
  if (device.is_cpu()) return std::nullopt;
  if (const auto found = return_streams_.find(device.index()); found != return_streams_.end()) return found->second;
  const c10::impl::VirtualGuardImpl guard(device.type());
  return return_streams_.emplace(device.index(), guard.getStreamFromGlobalPool(device, true)).first->second;
}

void ShoalBackend::CheckFiniteOnDevice(const Tensors& tensors) const {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  for (const at::Tensor& tensor : tensors) {
    if (!at::isFloatingType(tensor.scalar_type())) continue;
    const at::Tensor content = tensor.to(at::kCPU).flatten();
    const at::Tensor others = at::nonzero(at::isfinite(content).logical_not());
    if (others.numel() == 0) continue;
    const auto index = others[0].item<int64_t>();
    const auto& ranks_of_job = options_->global_ranks_in_group;
    const auto rank = static_cast<size_t>(getRank());
    TORCH_CHECK_WITH(DistBackendError, false, "the contribution of rank ",
                     rank < ranks_of_job.size() ? ranks_of_job[rank] : rank, " of the job to all-reduce ",
                     sequence_number_ + 1, " of group \"", options_->group_name, "\" (", tensor.numel(), " ",
                     tensor.scalar_type(), ") has ", std::isnan(content[index].item<double>()) ? "NaN" : "infinity",
                     " at element ", index);
  }
}

std::vector<std::shared_ptr<ShoalBackend::TimeoutExtension>> ShoalBackend::TimeoutExtensions() {
  MutexLock lock(mutex_);
  std::erase_if(timeout_extensions_, [](const auto& extension) { return extension->over.load(); });
  return timeout_extensions_;
}

double ShoalBackend::PremulFactor(const c10d::ReduceOp& op) const {
  const auto* supplement = dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  TORCH_CHECK(supplement != nullptr, "shoal: ReduceOp.PREMUL_SUM has no factor");
  const at::Tensor& factor = supplement->tensor_factor;
  if (!factor.defined()) return supplement->double_factor;
  const auto read = [&] { return factor.item().toDouble(); };
  return factor.is_cuda() ? OrAbort(read) : read();
}

void ShoalBackend::ReduceAlone(const Tensors& tensors, const Operation& model) {
  if (model.op != SHOAL_PREMUL_SUM) return;  // the result is the input
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  for (at::Tensor tensor : tensors) tensor.mul_(model.premul_factor);
}

// ---- the group's life ----

void ShoalBackend::setTimeout(std::chrono::milliseconds timeout) {
  options_->timeout = timeout;
  const Members now = members();
  if (now.cpu_inner) now.cpu_inner->setTimeout(timeout);
  if (now.cuda_inner) now.cuda_inner->setTimeout(timeout);
}

template <typename AnyBackend>
void AddEphemeralTimeout(AnyBackend& inner, const std::chrono::milliseconds& timeout) {
  if constexpr (requires { inner.addEphemeralTimeout(timeout); }) inner.addEphemeralTimeout(timeout);
}

void ShoalBackend::addEphemeralTimeout(const std::chrono::milliseconds& timeout) {
  {
    MutexLock lock(mutex_);
    timeout_extensions_.push_back(std::make_shared<TimeoutExtension>(timeout));
  }
  AddEphemeralTimeout(*CpuInner(), timeout);
  if (const BackendPtr nccl = members().cuda_inner) AddEphemeralTimeout(*nccl, timeout);
}

void ShoalBackend::registerOnCompletionHook(std::function<void(std::shared_ptr<c10d::WorkInfo>)>&& hook) {
  TORCH_CHECK(!on_completion_hook_, "shoal: a process group has one completion hook, which is registered already");
  TORCH_CHECK(sequence_number_ == 0, "shoal: register the completion hook before the first collective of the group");
  if (const BackendPtr nccl = members().cuda_inner) {
    try {
      nccl->registerOnCompletionHook(std::function(hook));
      inner_has_hook_ = true;
    } catch (const std::exception& error) {
      TORCH_WARN(
          "shoal: the completion hook is called for Shoal's own all-reduces only, since the inner backend of "
          "CUDA tensors takes none: ",
          TextOf(error));
    }
  }
  on_completion_hook_ = std::make_shared<const std::function<void(std::shared_ptr<c10d::WorkInfo>)>>(std::move(hook));
  onCompletionHook_ = *on_completion_hook_;  // for hasHooks()
}

void ShoalBackend::waitForPendingWorks() {
  if (const BackendPtr nccl = members().cuda_inner; nccl && inner_has_hook_) nccl->waitForPendingWorks();
  MutexLock lock(state_->mutex);
  const auto timeout = std::min<std::chrono::milliseconds>(options_->timeout, kLongestTimeout);
  const bool all_called = state_->hook_was_called.wait_for(
      lock, timeout, [this]() SHOAL_REQUIRES(state_->mutex) { return state_->hooks_to_call == 0; });
  TORCH_CHECK_WITH(DistBackendError, all_called, "shoal: the completion hook of rank ", getRank(),
                   " was not called, or has not returned, for ", state_->hooks_to_call,
                   " all-reduces within the group's timeout of ", options_->timeout.count(), " ms");
}

#ifdef SHOAL_HAS_COMPLETION_HOOKS
void ShoalBackend::State::CallCompletionHooks(const c10d::CompletionHookArgs& args) const {
  completion_hooks.CallAll(args, [](const std::exception& error) {
    TORCH_WARN("shoal: a completion hook of torch's raised: ", TextOf(error));
  });
}

void ShoalBackend::registerCompletionHook(int64_t hook_id, c10d::CompletionHook hook) {
  const BackendPtr nccl = members().cuda_inner;
  if (nccl && nccl->supportsCompletionHooks()) nccl->registerCompletionHook(hook_id, hook);
  TORCH_CHECK(state_->completion_hooks.Add(hook_id, std::move(hook)), "shoal: completion hook ", hook_id,
              " is registered already");
}

void ShoalBackend::unregisterCompletionHook(int64_t hook_id) {
  const BackendPtr nccl = members().cuda_inner;
  if (nccl && nccl->supportsCompletionHooks()) nccl->unregisterCompletionHook(hook_id);
  state_->completion_hooks.Remove(hook_id);
}
#endif

void ShoalBackend::Watch([[maybe_unused]] const WorkPtr& work) {
#ifdef SHOAL_HAS_COMPLETION_HOOKS
  if (state_->completion_hooks.empty() || !work) return;
  c10::intrusive_ptr<c10::ivalue::Future> future;
  try {
    future = work->getFuture();
  } catch (const c10::Error&) {
    return;  // Gloo's reduce-scatter, for example, tells nobody when it ends
  }
  future->addCallback([state = state_, key = work->getCompletionKey()](c10::ivalue::Future& ended) {
    if (!ended.hasError()) state->CallCompletionHooks({.completionKey = key});
  });
#endif
}

void ShoalBackend::enableCollectivesTiming() {
  is_timed_ = true;
  const Members now = members();
  for (const BackendPtr& inner : {now.cpu_inner, now.cuda_inner}) {
    if (inner) inner->enableCollectivesTiming();
  }
}

shoal_error ShoalBackend::FailureOf(const Members& now) {
  if (!now.group) return {};
  const shoal_error failure = now.group->failure();
  return failure.code == SHOAL_CANCELLED && now.failures->aborted ? shoal_error{} : failure;
}

std::string ShoalBackend::FailureText() {
  const shoal_error failure = FailureOf(members());
  return failure.code == SHOAL_OK ? "" : failure.message;
}

c10d::ErrorType ShoalBackend::getError() {
  if (roster_is_due_) return c10d::ErrorType::COMM_ERROR;
  const Members now = members();
  switch (FailureOf(now).code) {
    case SHOAL_OK:
      if (now.cuda_inner) return now.cuda_inner->getError();
      return now.cpu_inner ? now.cpu_inner->getError() : c10d::ErrorType::SUCCESS;
    case SHOAL_DEADLINE_EXCEEDED:
      return c10d::ErrorType::TIMEOUT;
    case SHOAL_ABORTED:
    case SHOAL_UNAVAILABLE:
      return c10d::ErrorType::REMOTE_ERROR;
    default:
      return c10d::ErrorType::COMM_ERROR;
  }
}

void ShoalBackend::abort() {
  const Members now = members();
  // NCCL's block stays: it is of the thread that began it, and torch aborts groups within one.
  const std::vector<WorkPtr> let_go_of = DropBlock();
  now.failures->aborted = true;
  if (now.group) now.group->Abort("the process group was aborted by its process");
  if (now.cpu_inner) now.cpu_inner->abort();
  if (now.cuda_inner) now.cuda_inner->abort();
}

void ShoalBackend::shutdown() {
  if (shut_down_.exchange(true)) return;
  Members before = TakeMembers();
  std::shared_ptr<Session> session;
  {
    MutexLock lock(mutex_);
    session.swap(members_.session);
  }
  if (session && session->forked()) {
    // The parent's: its threads don't exist here, so that nothing can be joined.
    before.cpu_inner.release();
    before.cuda_inner.release();
    return;
  }
  // Whatever fails, the process leaves the job.
  std::exception_ptr first_error;
  const auto attempt = [&first_error](const auto& call) {
    try {
      call();
    } catch (const std::exception&) {
      if (!first_error) first_error = std::current_exception();
    }
  };
  // Ends Gloo's threads now. Left to the interpreter's end, where DDP would keep them, one of them may be about to drop
  // a tensor of Python's and takes the process down.
  for (BackendPtr* inner : {&before.cpu_inner, &before.cuda_inner}) {
    if (!*inner) continue;
    attempt([&] { (*inner)->shutdown(); });
    inner->reset();
  }
  if (before.group) attempt([&] { session->CloseGroup(before.group); });
  if (session && session->in_open_job()) attempt([&] { session->Close(); });
  if (first_error) std::rethrow_exception(first_error);
}

void ShoalBackend::WarnIfThrows(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    TORCH_WARN("shoal: ending the inner backend of ranks that a process group had failed: ", TextOf(error));
  }
}

ShoalBackend::Members ShoalBackend::TakeMembers() {
  MutexLock lock(mutex_);
  return {.group = std::exchange(members_.group, nullptr),
          .cpu_inner = std::exchange(members_.cpu_inner, nullptr),
          .cuda_inner = std::exchange(members_.cuda_inner, nullptr)};
}

std::string ShoalBackend::WhyNoRanks() const {
  if (shut_down_) return "is destroyed";
  return "has no ranks; reconfigure() gives it some, and must be called again if it has failed";
}

// ---- reconfigure ----

#ifdef C10D_BACKEND_HAS_RECONFIGURE
void ShoalBackend::EndRoster() {
  const std::shared_ptr<Session> session = members().session;
  TORCH_CHECK_WITH(DistBackendError, session, "shoal: the process group ", WhyNoRanks());
  session->ThrowIfForked();
  const std::vector<WorkPtr> let_go_of = DropBlock();
  roster_is_due_ = true;
  Members before = TakeMembers();
  if (before.group) before.group->Abort("its process takes other ranks into the process group");
  for (const BackendPtr& inner : {before.cuda_inner, before.cpu_inner}) {
    if (inner) WarnIfThrows([&] { inner->abort(); });
  }
  if (before.group) session->CloseGroup(before.group);
  if (!before.cpu_inner && !before.cuda_inner) return;
  // Gloo takes 10 ms to let go of each peer.
  auto inners = std::make_shared<std::vector<BackendPtr>>();
  *inners = {std::move(before.cuda_inner), std::move(before.cpu_inner)};
  session->RunBeside([inners] {
    for (BackendPtr& inner : *inners) {
      if (inner) WarnIfThrows([&] { inner->shutdown(); });
      inner.reset();
    }
  });
}

std::shared_ptr<Session> ShoalBackend::TakeSession(std::shared_ptr<Session> session) {
  MutexLock lock(mutex_);
  TORCH_CHECK_WITH(DistBackendError, members_.session,
                   "shoal: the process group was destroyed while it was reconfigured");
  members_.session.swap(session);
  return session;
}

void ShoalBackend::BeginRoster(int rank, std::vector<uint64_t> ranks_of_job, std::shared_ptr<Group> group,
                               BackendPtr cpu_inner, BackendPtr cuda_inner) {
  TORCH_CHECK(cpu_inner && (group != nullptr) == (ranks_of_job.size() > 1), "shoal: a roster of ", ranks_of_job.size(),
              " ranks needs an inner CPU backend, and a group if they are several");
  for (const BackendPtr& inner : {cpu_inner, cuda_inner}) {
    if (!inner) continue;
    inner->setTimeout(options_->timeout);
    if (!getGroupUid().empty()) inner->setGroupUid(getGroupUid());
    if (is_timed_) inner->enableCollectivesTiming();
  }
  if (const std::optional<at::Device> device = getBoundDeviceId(); device && device->is_cuda() && cuda_inner) {
    cuda_inner->setBoundDeviceId(device);
  }
  options_->global_ranks_in_group = ranks_of_job;
  rank_ = rank;
  size_ = static_cast<int>(ranks_of_job.size());
  sequence_number_ = 0;
  has_nccl_ = cuda_inner != nullptr;
  inner_has_hook_ = false;
  MutexLock lock(mutex_);
  TORCH_CHECK_WITH(DistBackendError, members_.session,
                   "shoal: the process group was destroyed while it was reconfigured");
  members_ = {.session = members_.session,
              .group = std::move(group),
              .cpu_inner = std::move(cpu_inner),
              .cuda_inner = std::move(cuda_inner)};
  roster_is_due_ = false;
}
#endif

}  // namespace shoal::pytorch
