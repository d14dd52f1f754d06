#include "pytorch/src/shoal_backend.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <utility>

namespace shoal::pytorch {
namespace {

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

// What Gloo (for CPU tensors) and NCCL are sure to reduce.
bool InnerReduces(at::ScalarType type, shoal_reduce_op op, bool on_cpu) {
  if (op == SHOAL_PREMUL_SUM || (on_cpu && op == SHOAL_AVG)) return false;
  return type != at::kShort && !(on_cpu && type == at::kBFloat16);
}

// What neither the servers nor Gloo know. NCCL knows some of them.
bool IsUnknownOnCpu(at::ScalarType type) {
  return at::isFloat8Type(type) || type == at::ScalarType::Float4_e2m1fn_x2 || at::isBarebonesUnsignedType(type) ||
         at::isBitsType(type) || at::isQIntType(type);
}

// Refuses what no path can reduce, so that nothing is sent and the ranks stay in step.
void CheckTensors(const std::vector<at::Tensor>& tensors) {
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
    TORCH_CHECK_TYPE(!device.is_cpu() || !IsUnknownOnCpu(tensor.scalar_type()), "shoal: an all-reduce of a torch.",
                     c10::getDtypeNames(tensor.scalar_type()).first,
                     " tensor, which neither the servers nor Gloo can sum; convert it first, for example with "
                     "tensor.to(torch.bfloat16) or tensor.to(torch.int32)");
    TORCH_CHECK_VALUE(tensor.layout() != at::kStrided || at::has_internal_overlap(tensor) != at::MemOverlap::Yes,
                      "shoal: an all-reduce of an expanded tensor (sizes ", tensor.sizes(), ", strides ",
                      tensor.strides(),
                      "): more than one element lies in the same memory, so the result has no place; "
                      "pass tensor.contiguous() and use that");
  }
}

double PremulFactor(const c10d::ReduceOp& op) {
  const auto* supplement = dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  TORCH_CHECK(supplement != nullptr, "shoal: ReduceOp.PREMUL_SUM has no factor");
  return supplement->tensor_factor.defined() ? supplement->tensor_factor.item().toDouble() : supplement->double_factor;
}

c10::Device DeviceOf(const std::vector<at::Tensor>& tensors) {
  return tensors.empty() ? c10::Device(c10::kCPU) : tensors.front().device();
}

}  // namespace

ShoalBackend::ShoalBackend(int rank, int size, std::chrono::milliseconds timeout, std::shared_ptr<Session> session,
                           std::shared_ptr<Group> group, BackendPtr cpu_inner, BackendPtr cuda_inner,
                           InnerLimits inner_limits)
    : Backend(rank, size),
      options_(c10::make_intrusive<Options>("shoal", timeout)),
      inner_limits_(inner_limits),
      cpu_inner_(std::move(cpu_inner)),
      cuda_inner_(std::move(cuda_inner)),
      session_(std::move(session)),
      group_(std::move(group)) {
  TORCH_CHECK(cpu_inner_, "shoal: the inner CPU backend is missing");
  TORCH_CHECK(size == 1 || (session_ && group_), "shoal: a group of ", size, " ranks needs a session");
}

// ---- all-reduce ----

ShoalBackend::WorkPtr ShoalBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  CheckTensors(tensors);
  ++sequence_number_;
  if (tensors.size() != 1 || !GoesToServers(tensors, opts.reduceOp)) return Inner(tensors).allreduce(tensors, opts);
  return ReduceOnServers(tensors, c10d::OpType::ALLREDUCE, opts);
}

ShoalBackend::WorkPtr ShoalBackend::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) {
  CheckTensors(tensors);
  ++sequence_number_;
  if (!GoesToServers(tensors, opts.reduceOp)) return Inner(tensors).allreduce_coalesced(tensors, opts);
  return ReduceOnServers(tensors, c10d::OpType::ALLREDUCE_COALESCED, opts);
}

bool ShoalBackend::GoesToServers(const Tensors& tensors, const c10d::ReduceOp& op) const {
  const std::optional<shoal_reduce_op> reduce_op = OpOf(op);
  if (!reduce_op || coalescing_) return false;
  const at::ScalarType type = tensors.front().scalar_type();
  if (!DtypeOf(type) || (*reduce_op == SHOAL_PREMUL_SUM && !at::isFloatingType(type))) return false;
  const bool dense = std::all_of(tensors.begin(), tensors.end(),
                                 [](const at::Tensor& tensor) { return tensor.layout() == at::kStrided; });
  return dense && !IsCapturing(tensors.front()) && !IsForInner(tensors, *reduce_op);
}

bool ShoalBackend::IsForInner(const Tensors& tensors, shoal_reduce_op op) const {
  const bool on_cpu = tensors.front().is_cpu();
  const uint64_t below = on_cpu ? inner_limits_.cpu_below : inner_limits_.cuda_below;
  if (below == 0 || !InnerReduces(tensors.front().scalar_type(), op, on_cpu)) return false;
  uint64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += tensor.nbytes();
  return bytes < below;
}

ShoalBackend::WorkPtr ShoalBackend::ReduceOnServers(const Tensors& tensors, c10d::OpType type,
                                                    const c10d::AllreduceOptions& opts) {
  TORCH_CHECK(!shut_down_, "shoal: all-reduce was called on a process group that is destroyed");
  const std::chrono::milliseconds timeout = opts.timeout > kNoTimeout ? opts.timeout : options_->timeout;
  auto on_error = [state = state_](shoal_code code) {
    int none = SHOAL_OK;
    state->first_error.compare_exchange_strong(none, code);
  };
  auto work = c10::make_intrusive<AllReduceWork>(getRank(), type, sequence_number_, tensors, timeout, group_, on_error);
  if (getSize() == 1) {
    ReduceAlone(tensors, opts.reduceOp);
    work->CompleteNow();
    return work;
  }
  Operation model;
  model.dtype = *DtypeOf(tensors.front().scalar_type());
  model.op = *OpOf(opts.reduceOp);
  if (model.op == SHOAL_PREMUL_SUM) model.premul_factor = PremulFactor(opts.reduceOp);
  model.timeout_ms = static_cast<uint64_t>(timeout.count());
  AllReduceWork::Start(work, model);
  return work;
}

void ShoalBackend::ReduceAlone(const Tensors& tensors, const c10d::ReduceOp& op) const {
  if (op.op_ != c10d::ReduceOp::PREMUL_SUM) return;  // the result is the input
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  const double factor = PremulFactor(op);
  for (at::Tensor tensor : tensors) tensor.mul_(factor);
}

// ---- delegated ----

c10d::Backend& ShoalBackend::Inner(const c10::Device& device) const {
  return device.is_cpu() ? CpuInner() : CudaInner();
}

c10d::Backend& ShoalBackend::CpuInner() const {
  TORCH_CHECK(cpu_inner_, "shoal: a collective was called on a process group that is destroyed");
  return *cpu_inner_;
}

c10d::Backend& ShoalBackend::Inner(const Tensors& tensors) const { return Inner(DeviceOf(tensors)); }

ShoalBackend::WorkPtr ShoalBackend::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  ++sequence_number_;
  return Inner(tensors).allreduce_sparse(tensors, opts);
}

ShoalBackend::WorkPtr ShoalBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) {
  ++sequence_number_;
  return Inner(tensors).broadcast(tensors, opts);
}

ShoalBackend::WorkPtr ShoalBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& opts) {
  ++sequence_number_;
  return Inner(tensors).reduce(tensors, opts);
}

ShoalBackend::WorkPtr ShoalBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& opts) {
  ++sequence_number_;
  return Inner(inputs).allgather(outputs, inputs, opts);
}

ShoalBackend::WorkPtr ShoalBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                    const c10d::AllgatherOptions& opts) {
  ++sequence_number_;
  return Inner(input.device())._allgather_base(output, input, opts);
}

ShoalBackend::WorkPtr ShoalBackend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                                        const c10d::AllgatherOptions& opts) {
  ++sequence_number_;
  return Inner(inputs).allgather_coalesced(outputs, inputs, opts);
}

ShoalBackend::WorkPtr ShoalBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                    const c10d::AllgatherOptions& opts) {
  ++sequence_number_;
  return Inner(inputs).allgather_into_tensor_coalesced(outputs, inputs, opts);
}

ShoalBackend::WorkPtr ShoalBackend::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                           const c10d::GatherOptions& opts) {
  ++sequence_number_;
  return Inner(inputs).gather(outputs, inputs, opts);
}

template <typename AnyBackend>
c10::intrusive_ptr<c10d::Work> GatherIntoTensor(AnyBackend& inner, at::Tensor& output, at::Tensor& input,
                                                const c10d::GatherOptions& opts) {
  if constexpr (requires { inner.gather_into_tensor(output, input, opts); }) {
    return inner.gather_into_tensor(output, input, opts);
  } else {
    TORCH_CHECK(false, "shoal: this version of torch has no gather into one tensor");
  }
}

ShoalBackend::WorkPtr ShoalBackend::gather_into_tensor(at::Tensor& output, at::Tensor& input,
                                                       const c10d::GatherOptions& opts) {
  ++sequence_number_;
  return GatherIntoTensor(Inner(input.device()), output, input, opts);
}

ShoalBackend::WorkPtr ShoalBackend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                            const c10d::ScatterOptions& opts) {
  ++sequence_number_;
  return Inner(outputs).scatter(outputs, inputs, opts);
}

ShoalBackend::WorkPtr ShoalBackend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                   const c10d::ReduceScatterOptions& opts) {
  ++sequence_number_;
  return Inner(outputs).reduce_scatter(outputs, inputs, opts);
}

ShoalBackend::WorkPtr ShoalBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                         const c10d::ReduceScatterOptions& opts) {
  ++sequence_number_;
  return Inner(input.device())._reduce_scatter_base(output, input, opts);
}

ShoalBackend::WorkPtr ShoalBackend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                    const c10d::ReduceScatterOptions& opts) {
  ++sequence_number_;
  return Inner(inputs).reduce_scatter_tensor_coalesced(outputs, inputs, opts);
}

ShoalBackend::WorkPtr ShoalBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                  std::vector<int64_t>& output_sizes, std::vector<int64_t>& input_sizes,
                                                  const c10d::AllToAllOptions& opts) {
  ++sequence_number_;
  return Inner(input.device()).alltoall_base(output, input, output_sizes, input_sizes, opts);
}

ShoalBackend::WorkPtr ShoalBackend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) {
  ++sequence_number_;
  return Inner(inputs).alltoall(outputs, inputs, opts);
}

ShoalBackend::WorkPtr ShoalBackend::send(Tensors& tensors, int destination, int tag) {
  return Inner(tensors).send(tensors, destination, tag);
}

ShoalBackend::WorkPtr ShoalBackend::recv(Tensors& tensors, int source, int tag) {
  return Inner(tensors).recv(tensors, source, tag);
}

ShoalBackend::WorkPtr ShoalBackend::recvAnysource(Tensors& tensors, int tag) {
  return Inner(tensors).recvAnysource(tensors, tag);
}

ShoalBackend::WorkPtr ShoalBackend::barrier(const c10d::BarrierOptions& opts) {
  ++sequence_number_;
  const bool on_cuda = opts.device ? opts.device->is_cuda() : !opts.device_ids.empty();
  return (on_cuda ? CudaInner() : CpuInner()).barrier(opts);
}

void ShoalBackend::monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) {
  CpuInner().monitoredBarrier(opts, wait_all_ranks);
}

bool ShoalBackend::supportsCoalescing() const { return CudaInner().supportsCoalescing(); }

void ShoalBackend::startCoalescing() {
  CudaInner().startCoalescing();
  coalescing_ = true;
}

ShoalBackend::WorkPtr ShoalBackend::endCoalescing() {
  coalescing_ = false;
  return CudaInner().endCoalescing();
}

void ShoalBackend::eagerConnectSingleDevice(at::Device device) { Inner(device).eagerConnectSingleDevice(device); }

void ShoalBackend::setBoundDeviceId(std::optional<at::Device> device) {
  Backend::setBoundDeviceId(device);
  if (device && device->is_cuda() && cuda_inner_) cuda_inner_->setBoundDeviceId(device);
}

std::shared_ptr<c10::Allocator> ShoalBackend::getMemAllocator() { return CudaInner().getMemAllocator(); }

at::Tensor ShoalBackend::allocateTensor(long size, at::TensorOptions options) {
  return CudaInner().allocateTensor(size, std::move(options));
}

bool ShoalBackend::supportsTensorAlloc(c10::DeviceIndex device) { return CudaInner().supportsTensorAlloc(device); }

// ---- the group's life ----

void ShoalBackend::setTimeout(std::chrono::milliseconds timeout) {
  options_->timeout = timeout;
  CpuInner().setTimeout(timeout);
  if (cuda_inner_) cuda_inner_->setTimeout(timeout);
}

template <typename AnyBackend>
void AddEphemeralTimeout(AnyBackend& inner, const std::chrono::milliseconds& timeout) {
  if constexpr (requires { inner.addEphemeralTimeout(timeout); }) inner.addEphemeralTimeout(timeout);
}

void ShoalBackend::addEphemeralTimeout(const std::chrono::milliseconds& timeout) {
  AddEphemeralTimeout(CpuInner(), timeout);
  if (cuda_inner_) AddEphemeralTimeout(*cuda_inner_, timeout);
}

c10d::ErrorType ShoalBackend::getError() {
  switch (state_->first_error.load()) {
    case SHOAL_OK:
      return shut_down_ ? c10d::ErrorType::SUCCESS : CudaInner().getError();
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
  std::shared_ptr<Group> group;
  BackendPtr cpu_inner;
  BackendPtr cuda_inner;
  {
    std::lock_guard lock(mutex_);
    group = group_;
    cpu_inner = cpu_inner_;
    cuda_inner = cuda_inner_;
  }
  if (group) group->Abort("the process group was aborted by its process");
  if (cpu_inner) cpu_inner->abort();
  if (cuda_inner) cuda_inner->abort();
}

void ShoalBackend::shutdown() {
  if (shut_down_.exchange(true)) return;
  std::shared_ptr<Session> session;
  std::shared_ptr<Group> group;
  BackendPtr cpu_inner;
  BackendPtr cuda_inner;
  {
    std::lock_guard lock(mutex_);
    session.swap(session_);
    group.swap(group_);
    cpu_inner.swap(cpu_inner_);
    cuda_inner.swap(cuda_inner_);
  }
  if (session && session->forked()) {
    // The parent's: its threads don't exist here, so that nothing can be joined.
    cpu_inner.release();
    cuda_inner.release();
    return;
  }
  cpu_inner->shutdown();
  if (cuda_inner) cuda_inner->shutdown();
  // Ends Gloo's threads now. Left to the interpreter's end, where DDP would keep them, one of them may be about to drop
  // a tensor of Python's and takes the process down.
  cpu_inner.reset();
  cuda_inner.reset();
  if (session) session->CloseGroup(group);
}

}  // namespace shoal::pytorch
