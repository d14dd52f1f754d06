// What ShoalBackend gives to the inner backends.
#include <utility>

#include "pytorch/src/shoal_backend.h"
#include "pytorch/src/works.h"

namespace shoal::pytorch {
namespace {

c10::Device DeviceOf(const std::vector<at::Tensor>& tensors) {
  return tensors.empty() ? c10::Device(c10::kCPU) : tensors.front().device();
}

// Gloo goes through the memory from the first element of a tensor on: past gaps, and in an order that may be another
// one on another rank.
void CheckGlooCanWrite(const char* name, const std::vector<at::Tensor>& results) {
  for (const at::Tensor& tensor : results) {
    TORCH_CHECK_VALUE(tensor.layout() != at::kStrided || tensor.is_contiguous(), "shoal: ", name,
                      " with its result in a tensor that is not contiguous (sizes ", tensor.sizes(), ", strides ",
                      tensor.strides(),
                      "): Gloo would put the elements in the wrong places; pass tensor.contiguous(), and copy the "
                      "result from that");
  }
}

// Gloo sums, and fails when it divides: the sum would stay in the tensor.
void CheckGlooCanAverage(const char* name, const std::vector<at::Tensor>& tensors, const c10d::ReduceOp& op) {
  if (op.op_ != c10d::ReduceOp::AVG || tensors.empty()) return;
  const at::ScalarType type = tensors.front().scalar_type();
  TORCH_CHECK_TYPE(!at::isIntegralType(type, /*includeBool=*/true), "shoal: ", name, " with AVG of a torch.",
                   c10::getDtypeNames(type).first,
                   " tensor, which Gloo can't divide; use SUM and divide the result, or convert the tensor first");
}

at::Tensor Contiguous(const at::Tensor& input) { return input.layout() == at::kStrided ? input.contiguous() : input; }

template <typename Inputs>
std::vector<Inputs> Contiguous(const std::vector<Inputs>& inputs) {
  std::vector<Inputs> contiguous;
  contiguous.reserve(inputs.size());
  for (const Inputs& input : inputs) contiguous.push_back(Contiguous(input));
  return contiguous;
}

// Absent if none is set.
std::optional<std::chrono::steady_clock::time_point> DeadlineOf(const c10d::BarrierOptions& opts) {
  if (opts.timeout <= kNoTimeout) return std::nullopt;
  return std::chrono::steady_clock::now() + opts.timeout;
}

}  // namespace

ShoalBackend::Members ShoalBackend::members() const {
  MutexLock lock(mutex_);
  return members_;
}

ShoalBackend::BackendPtr ShoalBackend::Inner(const c10::Device& device) const {
  return device.is_cpu() ? CpuInner() : CudaInner();
}

ShoalBackend::BackendPtr ShoalBackend::CpuInner() const {
  BackendPtr inner = members().cpu_inner;
  TORCH_CHECK(inner, "shoal: a collective was called on a process group that ", WhyNoRanks());
  return inner;
}

ShoalBackend::BackendPtr ShoalBackend::CudaInner() const {
  BackendPtr inner = members().cuda_inner;
  return inner ? inner : CpuInner();
}

ShoalBackend::WorkPtr ShoalBackend::Gathered(WorkPtr work, bool on_cpu) {
  if (!coalescing_ || !on_cpu || !work) return work;
  MutexLock lock(mutex_);
  gathered_.push_back(work);
  return work;
}

ShoalBackend::WorkPtr ShoalBackend::ReduceByInner(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  const c10::Device device = DeviceOf(tensors);
  if (IsForGloo(device)) {
    CheckGlooCanAverage("all-reduce", tensors, opts.reduceOp);
    CheckGlooCanWrite("all-reduce", tensors);
  }
  return Delegate(device, [&](c10d::Backend& inner) { return inner.allreduce(tensors, opts); });
}

ShoalBackend::WorkPtr ShoalBackend::ReduceByInner(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) {
  const c10::Device device = DeviceOf(tensors);
  if (IsForGloo(device)) CheckGlooCanAverage("all-reduce", tensors, opts.reduceOp);  // it copies them, in any layout
  return Delegate(device, [&](c10d::Backend& inner) { return inner.allreduce_coalesced(tensors, opts); });
}

ShoalBackend::WorkPtr ShoalBackend::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  return Delegate(DeviceOf(tensors), [&](c10d::Backend& inner) { return inner.allreduce_sparse(tensors, opts); });
}

ShoalBackend::WorkPtr ShoalBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) {
  if (IsForGloo(DeviceOf(tensors))) CheckGlooCanWrite("broadcast", tensors);
  return Delegate(DeviceOf(tensors), [&](c10d::Backend& inner) { return inner.broadcast(tensors, opts); });
}

ShoalBackend::WorkPtr ShoalBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& opts) {
  if (IsForGloo(DeviceOf(tensors))) {
    CheckGlooCanAverage("reduce", tensors, opts.reduceOp);
    CheckGlooCanWrite("reduce", tensors);
  }
  return Delegate(DeviceOf(tensors), [&](c10d::Backend& inner) { return inner.reduce(tensors, opts); });
}

ShoalBackend::WorkPtr ShoalBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& opts) {
  return Delegate(DeviceOf(inputs), [&](c10d::Backend& inner) { return inner.allgather(outputs, inputs, opts); });
}

ShoalBackend::WorkPtr ShoalBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                    const c10d::AllgatherOptions& opts) {
  return Delegate(input.device(), [&](c10d::Backend& inner) { return inner._allgather_base(output, input, opts); });
}

ShoalBackend::WorkPtr ShoalBackend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                                        const c10d::AllgatherOptions& opts) {
  return Delegate(DeviceOf(inputs),
                  [&](c10d::Backend& inner) { return inner.allgather_coalesced(outputs, inputs, opts); });
}

ShoalBackend::WorkPtr ShoalBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                    const c10d::AllgatherOptions& opts) {
  return Delegate(DeviceOf(inputs),
                  [&](c10d::Backend& inner) { return inner.allgather_into_tensor_coalesced(outputs, inputs, opts); });
}

ShoalBackend::WorkPtr ShoalBackend::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                           const c10d::GatherOptions& opts) {
  return Delegate(DeviceOf(inputs), [&](c10d::Backend& inner) { return inner.gather(outputs, inputs, opts); });
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
  return Delegate(input.device(), [&](c10d::Backend& inner) { return GatherIntoTensor(inner, output, input, opts); });
}

ShoalBackend::WorkPtr ShoalBackend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                            const c10d::ScatterOptions& opts) {
  const c10::Device device = DeviceOf(outputs);
  if (!IsForGloo(device)) {
    return Delegate(device, [&](c10d::Backend& inner) { return inner.scatter(outputs, inputs, opts); });
  }
  CheckGlooCanWrite("scatter", outputs);
  std::vector<Tensors> contiguous = Contiguous(inputs);
  return Delegate(device, [&](c10d::Backend& inner) { return inner.scatter(outputs, contiguous, opts); });
}

ShoalBackend::WorkPtr ShoalBackend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                   const c10d::ReduceScatterOptions& opts) {
  const c10::Device device = DeviceOf(outputs);
  if (!IsForGloo(device)) {
    return Delegate(device, [&](c10d::Backend& inner) { return inner.reduce_scatter(outputs, inputs, opts); });
  }
  CheckGlooCanAverage("reduce-scatter", outputs, opts.reduceOp);
  CheckGlooCanWrite("reduce-scatter", outputs);
  std::vector<Tensors> contiguous = Contiguous(inputs);
  return Delegate(device, [&](c10d::Backend& inner) { return inner.reduce_scatter(outputs, contiguous, opts); });
}

ShoalBackend::WorkPtr ShoalBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                         const c10d::ReduceScatterOptions& opts) {
  const c10::Device device = input.device();
  if (!IsForGloo(device)) {
    return Delegate(device, [&](c10d::Backend& inner) { return inner._reduce_scatter_base(output, input, opts); });
  }
  CheckGlooCanAverage("reduce-scatter", {input}, opts.reduceOp);
  at::Tensor contiguous = Contiguous(input);
  return Delegate(device, [&](c10d::Backend& inner) { return inner._reduce_scatter_base(output, contiguous, opts); });
}

ShoalBackend::WorkPtr ShoalBackend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                    const c10d::ReduceScatterOptions& opts) {
  const c10::Device device = DeviceOf(inputs);
  if (!IsForGloo(device)) {
    return Delegate(device,
                    [&](c10d::Backend& inner) { return inner.reduce_scatter_tensor_coalesced(outputs, inputs, opts); });
  }
  CheckGlooCanAverage("reduce-scatter", inputs, opts.reduceOp);
  Tensors contiguous = Contiguous(inputs);
  return Delegate(
      device, [&](c10d::Backend& inner) { return inner.reduce_scatter_tensor_coalesced(outputs, contiguous, opts); });
}

ShoalBackend::WorkPtr ShoalBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                  std::vector<int64_t>& output_sizes, std::vector<int64_t>& input_sizes,
                                                  const c10d::AllToAllOptions& opts) {
  if (IsForGloo(input.device())) CheckGlooCanWrite("all-to-all", {output});
  return Delegate(input.device(), [&](c10d::Backend& inner) {
    return inner.alltoall_base(output, input, output_sizes, input_sizes, opts);
  });
}

ShoalBackend::WorkPtr ShoalBackend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) {
  return Delegate(DeviceOf(inputs), [&](c10d::Backend& inner) { return inner.alltoall(outputs, inputs, opts); });
}

ShoalBackend::WorkPtr ShoalBackend::send(Tensors& tensors, int destination, int tag) {
  return Gathered(Inner(DeviceOf(tensors))->send(tensors, destination, tag), DeviceOf(tensors).is_cpu());
}

ShoalBackend::WorkPtr ShoalBackend::recv(Tensors& tensors, int source, int tag) {
  return Gathered(Inner(DeviceOf(tensors))->recv(tensors, source, tag), DeviceOf(tensors).is_cpu());
}

ShoalBackend::WorkPtr ShoalBackend::recvAnysource(Tensors& tensors, int tag) {
  return Gathered(Inner(DeviceOf(tensors))->recvAnysource(tensors, tag), DeviceOf(tensors).is_cpu());
}

std::optional<OperationsOnDevices> ShoalBackend::OnDevices() {
  const Members now = members();
  if (!now.group || now.group->takes_devices() == 0) return std::nullopt;
  return OperationsOnDevices(now.group->StartedOnDevices(), [failures = now.failures] {
    MutexLock lock(failures->mutex);
    return failures->unheard_error;
  });
}

ShoalBackend::WorkPtr ShoalBackend::barrier(const c10d::BarrierOptions& opts) {
  const bool on_cuda = opts.device ? opts.device->is_cuda() : !opts.device_ids.empty();
  std::optional<OperationsOnDevices> operations = OnDevices();
  const std::optional<std::chrono::steady_clock::time_point> until = DeadlineOf(opts);
  // NCCL may block in the call, and for as long as a rank is missing.
  if (operations && !opts.asyncOp) operations->Await(until);
  return Delegate(on_cuda ? c10::kCUDA : c10::kCPU, [&](c10d::Backend& inner) -> WorkPtr {
    WorkPtr barrier = inner.barrier(opts);
    if (!operations || !opts.asyncOp || !barrier) return barrier;
    return c10::make_intrusive<BarrierWork>(getRank(), std::move(*operations), std::move(barrier), until);
  });
}

void ShoalBackend::monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) {
  const std::optional<OperationsOnDevices> operations = OnDevices();
  const std::optional<std::chrono::steady_clock::time_point> until = DeadlineOf(opts);
  if (operations) {
    if (std::exception_ptr error = operations->Error()) std::rethrow_exception(error);
  }
  // First: it names the ranks that did not come, and an all-reduce may be open because they did not.
  CpuInner()->monitoredBarrier(opts, wait_all_ranks);
  if (operations) operations->Await(until);
}

void ShoalBackend::startCoalescing() {
  if (coalescing_) {
    // torch does not end a block in which something was raised: whoever began it has that error.
    try {
      endCoalescing();
    } catch (const std::exception& error) {
      TORCH_WARN("shoal: ending a coalescing block in which something was raised failed: ", TextOf(error));
    }
  }
  if (const BackendPtr nccl = members().cuda_inner) nccl->startCoalescing();
  coalescing_ = true;
}

ShoalBackend::WorkPtr ShoalBackend::endCoalescing() {
  std::vector<WorkPtr> works = DropBlock();
  const BackendPtr nccl = members().cuda_inner;
  WorkPtr of_cuda = nccl ? nccl->endCoalescing() : nullptr;
  if (of_cuda && works.empty()) return of_cuda;
  if (of_cuda) works.push_back(std::move(of_cuda));
  return c10::make_intrusive<Works>(getRank(), std::move(works));
}

std::vector<ShoalBackend::WorkPtr> ShoalBackend::DropBlock() {
  MutexLock lock(mutex_);
  coalescing_ = false;
  return std::exchange(gathered_, {});
}

void ShoalBackend::eagerConnectSingleDevice(at::Device device) { Inner(device)->eagerConnectSingleDevice(device); }

void ShoalBackend::setBoundDeviceId(std::optional<at::Device> device) {
  Backend::setBoundDeviceId(device);
  const BackendPtr nccl = members().cuda_inner;
  if (device && device->is_cuda() && nccl) nccl->setBoundDeviceId(device);
}

void ShoalBackend::setGroupUid(const std::string& uid) {
  Backend::setGroupUid(uid);
  const Members now = members();
  if (now.cpu_inner) now.cpu_inner->setGroupUid(uid);
  if (now.cuda_inner) now.cuda_inner->setGroupUid(uid);
}

std::shared_ptr<c10::Allocator> ShoalBackend::getMemAllocator() { return CudaInner()->getMemAllocator(); }

at::Tensor ShoalBackend::allocateTensor(long size, at::TensorOptions options) {
  return CudaInner()->allocateTensor(size, std::move(options));
}

bool ShoalBackend::supportsTensorAlloc(c10::DeviceIndex device) { return CudaInner()->supportsTensorAlloc(device); }

// ---- delegated where torch has it ----

template <typename AnyBackend>
void Suspend(AnyBackend& inner) {
  if constexpr (requires { inner.suspend(); }) {
    inner.suspend();
  } else {
    TORCH_CHECK(false, "shoal: this version of torch has no suspend");
  }
}

template <typename AnyBackend>
void Resume(AnyBackend& inner) {
  if constexpr (requires { inner.resume(); }) {
    inner.resume();
  } else {
    TORCH_CHECK(false, "shoal: this version of torch has no resume");
  }
}

template <typename AnyBackend>
std::unordered_map<std::string, uint64_t> MemoryStatsOf(AnyBackend& inner) {
  if constexpr (requires { inner.getMemoryStats(); }) {
    return inner.getMemoryStats();
  } else {
    TORCH_CHECK(false, "shoal: this version of torch has no memory statistics");
  }
}

void ShoalBackend::suspend() { Suspend(*CudaInner()); }

void ShoalBackend::resume() { Resume(*CudaInner()); }

std::unordered_map<std::string, uint64_t> ShoalBackend::getMemoryStats() { return MemoryStatsOf(*CudaInner()); }

}  // namespace shoal::pytorch
