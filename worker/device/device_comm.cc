#include "worker/device/device_comm.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/node_parts.h"
#include "reduce/convert.h"

namespace shoal {
namespace {

// NCCL's thread takes some ten microseconds, unless it waits for other ranks.
constexpr auto kYieldFor = std::chrono::microseconds(200);
constexpr auto kShortestSleep = std::chrono::microseconds(20);
constexpr auto kLongestSleep = std::chrono::microseconds(1000);

std::optional<nccl::DataType> TypeOf(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat32:
      return nccl::kFloat32;
    case DataType::kFloat64:
      return nccl::kFloat64;
    case DataType::kFloat16:
      return nccl::kFloat16;
    case DataType::kBfloat16:
      return nccl::kBfloat16;
    case DataType::kInt8:
      return nccl::kInt8;
    case DataType::kInt32:
      return nccl::kInt32;
    case DataType::kInt64:
      return nccl::kInt64;
    case DataType::kUint8:
      return nccl::kUint8;
    case DataType::kInt16:
      break;
  }
  return std::nullopt;
}

// Of all but kPremulSum. kAvg: with other nodes the servers divide, who know how many contributions there are.
nccl::RedOp OpOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kMin:
      return nccl::kMin;
    case ReduceOp::kMax:
      return nccl::kMax;
    case ReduceOp::kProd:
      return nccl::kProd;
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
    case ReduceOp::kPremulSum:
      break;
  }
  return nccl::kSum;
}

// A factor in the bits of the tensor's type, at the start of 8 bytes.
struct Scalar {
  alignas(8) std::byte bytes[8] = {};
};

template <typename Number>
Scalar ScalarAs(double factor) {
  Scalar scalar;
  const auto number = static_cast<Number>(factor);
  std::memcpy(scalar.bytes, &number, sizeof(number));
  return scalar;
}

Scalar EncodedScalar(WireFormat format, double factor) {
  const Scalar wide = ScalarAs<float>(factor);
  Scalar encoded;
  Encode(WireCodec(DataType::kFloat32, format), wide.bytes, encoded.bytes, 1);
  return encoded;
}

// Of a floating type; integers have no factor.
Scalar ScalarOf(DataType dtype, double factor) {
  switch (dtype) {
    case DataType::kFloat64:
      return ScalarAs<double>(factor);
    case DataType::kFloat16:
      return EncodedScalar(WireFormat::kFloat16, factor);
    case DataType::kBfloat16:
      return EncodedScalar(WireFormat::kBfloat16, factor);
    default:
      return ScalarAs<float>(factor);
  }
}

// Of the parts, where they have one length; 0: they have not.
uint64_t CommonLength(uint64_t element_count, uint32_t parts) {
  const uint64_t first = NodePart(element_count, parts, 0).count;
  return first * parts == element_count ? first : 0;
}

absl::Status AbortedError() {
  return absl::AbortedError("the reduction among the devices of the node was aborted: another rank is gone, or left");
}

}  // namespace

// Without a driver it changes nothing.
class DeviceComm::Entered {
 public:
  explicit Entered(const DeviceComm& comm) : comm_(comm) {
    is_entered_ = comm.context_ != nullptr && comm.driver_->context_push(comm.context_) == cuda::kSuccess;
  }
  ~Entered() {
    cuda::Context context = nullptr;
    if (is_entered_) comm_.driver_->context_pop(&context);
  }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

 private:
  const DeviceComm& comm_;
  bool is_entered_ = false;
};

// ---- beginning and end ----

absl::StatusOr<std::unique_ptr<DeviceComm>> DeviceComm::Make(std::shared_ptr<const nccl::Api> api,
                                                             const nccl::UniqueId& id, Place place,
                                                             const std::function<absl::Status()>& is_over,
                                                             std::shared_ptr<const cuda::Api> driver) {
  auto comm = std::unique_ptr<DeviceComm>(new DeviceComm(std::move(api), place, std::move(driver)));
  if (absl::Status met = comm->Meet(id, is_over); !met.ok()) {
    comm->Abort();
    return met;
  }
  return comm;
}

DeviceComm::DeviceComm(std::shared_ptr<const nccl::Api> api, Place place, std::shared_ptr<const cuda::Api> driver)
    : api_(std::move(api)), place_(place), driver_(std::move(driver)) {
  // The driver gives out the current context where it is taken from the thread.
  if (driver_ == nullptr || driver_->context_pop(&context_) != cuda::kSuccess) return;
  if (driver_->context_push(context_) != cuda::kSuccess) context_ = nullptr;
}

absl::Status DeviceComm::Meet(const nccl::UniqueId& id, const std::function<absl::Status()>& is_over) {
  nccl::Config config;
  config.blocking = 0;
  {
    const MutexLock lock(mutex_);
    const nccl::Result result =
        api_->comm_init_rank_config(&comm_, static_cast<int>(place_.size), id, static_cast<int>(place_.rank), &config);
    if (absl::Status status = CheckPut(result, "ncclCommInitRankConfig"); !status.ok()) return status;
  }
  return AwaitPut("ncclCommInitRankConfig", is_over);
}

DeviceComm::~DeviceComm() {
  if (aborter_.joinable()) aborter_.join();
  // What comes of it is of no use to anyone.
  const MutexLock lock(mutex_);
  if (comm_ == nullptr) return;
  const Entered entered(*this);
  if (has_failed_) {
    api_->comm_abort(comm_);
    return;
  }
  if (premul_sum_ != nullptr) api_->red_op_destroy(premul_sum_->op, comm_);
  api_->comm_destroy(comm_);
}

void DeviceComm::Abort() {
  if (is_aborted_.exchange(true)) return;
  try {
    aborter_ = std::thread([this] {
      nccl::Comm comm = nullptr;
      {
        const MutexLock lock(mutex_);
        comm = std::exchange(comm_, nullptr);
      }
      if (comm == nullptr) return;
      const Entered entered(*this);
      api_->comm_abort(comm);
    });
  } catch (const std::system_error&) {
    // The process has no thread left for it: what waits on the device waits on, and the op has failed all the same.
  }
}

// ---- calls ----

absl::Status DeviceComm::CheckPut(nccl::Result result, const char* what) const {
  return result == nccl::kInProgress ? absl::OkStatus() : api_->Check(result, what);
}

absl::Status DeviceComm::Call(const char* what, absl::FunctionRef<absl::Status()> put) {
  {
    const MutexLock lock(mutex_);
    if (is_aborted_ || comm_ == nullptr) return AbortedError();
    absl::Status status = put();
    has_failed_ = has_failed_ || absl::IsInternal(status);
    if (!status.ok()) return status;
  }
  return AwaitPut(what, [] { return absl::OkStatus(); });
}

absl::Status DeviceComm::AwaitPut(const char* what, const std::function<absl::Status()>& is_over) {
  const auto sleep_from = std::chrono::steady_clock::now() + kYieldFor;
  auto sleep = kShortestSleep;
  for (;;) {
    {
      const MutexLock lock(mutex_);
      if (is_aborted_ || comm_ == nullptr) return AbortedError();
      nccl::Result state = nccl::kSuccess;
      const nccl::Result asked = api_->comm_get_async_error(comm_, &state);
      if (asked != nccl::kSuccess || state != nccl::kInProgress) {
        absl::Status status =
            asked != nccl::kSuccess ? api_->Check(asked, "ncclCommGetAsyncError") : api_->Check(state, what);
        has_failed_ = has_failed_ || !status.ok();
        return status;
      }
    }
    if (absl::Status over = is_over(); !over.ok()) return over;
    if (std::chrono::steady_clock::now() < sleep_from) {
      std::this_thread::yield();
      continue;
    }
    std::this_thread::sleep_for(sleep);
    sleep = std::min(2 * sleep, kLongestSleep);
  }
}

absl::Status DeviceComm::CheckReduces(DataType dtype) {
  if (TypeOf(dtype).has_value()) return absl::OkStatus();
  const std::string_view name = DataTypeName(dtype);
  return absl::UnimplementedError(absl::StrCat(
      "a tensor of ", absl::string_view(name.data(), name.size()),
      " on a device can't be reduced among the ranks of its node: NCCL has no such type; use another dtype, or send it "
      "to the servers from each rank (SHOAL_NODE_REDUCE=off)"));
}

absl::Status DeviceComm::Reduce(cuda::Stream stream, std::byte* tensor, uint64_t element_count, DataType dtype,
                                ReduceOp op, double premul_factor, bool all) {
  if (absl::Status status = CheckReduces(dtype); !status.ok()) return status;
  const Collective collective{
      .stream = stream, .tensor = tensor, .element_count = element_count, .dtype = dtype, .type = *TypeOf(dtype)};
  return Call("a reduction", [&]() SHOAL_REQUIRES(mutex_) -> absl::Status {
    if (op == ReduceOp::kAvg && all) return PutReduce(collective, nccl::kAvg);
    if (op != ReduceOp::kPremulSum) return PutReduce(collective, OpOf(op));
    const absl::StatusOr<nccl::RedOp> premul_sum = FindPremulSum(dtype, collective.type, premul_factor);
    return premul_sum.ok() ? PutReduce(collective, *premul_sum) : premul_sum.status();
  });
}

absl::Status DeviceComm::Gather(cuda::Stream stream, std::byte* tensor, uint64_t element_count, DataType dtype) {
  if (absl::Status status = CheckReduces(dtype); !status.ok()) return status;
  const Collective collective{
      .stream = stream, .tensor = tensor, .element_count = element_count, .dtype = dtype, .type = *TypeOf(dtype)};
  return Call("a gathering", [&]() SHOAL_REQUIRES(mutex_) { return PutGather(collective); });
}

absl::StatusOr<nccl::RedOp> DeviceComm::FindPremulSum(DataType dtype, nccl::DataType type, double factor) {
  const bool is_known = premul_sum_ != nullptr && premul_sum_->dtype == dtype &&
                        std::bit_cast<uint64_t>(premul_sum_->factor) == std::bit_cast<uint64_t>(factor);
  if (is_known) return premul_sum_->op;
  Scalar scalar = ScalarOf(dtype, factor);
  // NCCL has read it when a collective's call has returned.
  if (premul_sum_ != nullptr) {
    const nccl::Result destroyed = api_->red_op_destroy(premul_sum_->op, comm_);
    premul_sum_.reset();
    if (absl::Status status = CheckPut(destroyed, "ncclRedOpDestroy"); !status.ok()) return status;
  }
  nccl::RedOp op = 0;
  const nccl::Result created =
      api_->red_op_create_pre_mul_sum(&op, scalar.bytes, type, nccl::kScalarHostImmediate, comm_);
  if (absl::Status status = CheckPut(created, "ncclRedOpCreatePreMulSum"); !status.ok()) return status;
  premul_sum_ = std::make_unique<PremulSum>(PremulSum{.dtype = dtype, .factor = factor, .op = op});
  return op;
}

// ---- parts ----

absl::Status DeviceComm::PutReduce(const Collective& collective, nccl::RedOp op) {
  if (const uint64_t length = CommonLength(collective.element_count, place_.size); length > 0) {
    std::byte* const own = collective.tensor + place_.rank * length * DataTypeSize(collective.dtype);
    const nccl::Result result =
        api_->reduce_scatter(collective.tensor, own, length, collective.type, op, comm_, collective.stream);
    return CheckPut(result, "ncclReduceScatter");
  }
  return PutParts(collective, "ncclReduce",
                  [&, this](std::byte* part, uint64_t count, int owner) SHOAL_REQUIRES(mutex_) {
                    return api_->reduce(part, part, count, collective.type, op, owner, comm_, collective.stream);
                  });
}

absl::Status DeviceComm::PutGather(const Collective& collective) {
  if (const uint64_t length = CommonLength(collective.element_count, place_.size); length > 0) {
    const std::byte* const own = collective.tensor + place_.rank * length * DataTypeSize(collective.dtype);
    const nccl::Result result =
        api_->all_gather(own, collective.tensor, length, collective.type, comm_, collective.stream);
    return CheckPut(result, "ncclAllGather");
  }
  return PutParts(collective, "ncclBroadcast",
                  [&, this](std::byte* part, uint64_t count, int owner) SHOAL_REQUIRES(mutex_) {
                    return api_->broadcast(part, part, count, collective.type, owner, comm_, collective.stream);
                  });
}

absl::Status DeviceComm::PutParts(const Collective& collective, const char* what,
                                  absl::FunctionRef<nccl::Result(std::byte*, uint64_t, int)> put) {
  if (absl::Status status = CheckPut(api_->group_start(), "ncclGroupStart"); !status.ok()) return status;
  absl::Status status;
  for (uint32_t owner = 0; owner < place_.size && status.ok(); ++owner) {
    const ElementRange part = NodePart(collective.element_count, place_.size, owner);
    if (part.count == 0) break;
    std::byte* const start = collective.tensor + part.first * DataTypeSize(collective.dtype);
    status = CheckPut(put(start, part.count, static_cast<int>(owner)), what);
  }
  // A group is this thread's until it is closed, whatever came of it.
  const nccl::Result ended = api_->group_end();
  return status.ok() ? CheckPut(ended, "ncclGroupEnd") : status;
}

}  // namespace shoal
