// Ranks of a node as threads of the test's process, each with a tensor on a simulated device and a DeviceComm.
//
// Threads: each rank's functions on its own thread; what is no rank's on any.
#ifndef SHOAL_TESTS_UNIT_WORKER_DEVICE_DEVICE_COMM_RANKS_H_
#define SHOAL_TESTS_UNIT_WORKER_DEVICE_DEVICE_COMM_RANKS_H_

#include <dlfcn.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/node_parts.h"
#include "gtest/gtest.h"
#include "reduce/convert.h"
#include "tests/simulated_cuda/program_on_device.h"
#include "worker/device/device_comm.h"

namespace shoal {

inline constexpr auto kPatience = std::chrono::seconds(30);

inline absl::Status IsNotOver() { return absl::OkStatus(); }

inline std::shared_ptr<const nccl::Api> LoadNccl() {
  // It looks for the driver that is loaded.
  static auto* const driver = new ProgramOnDevice(SHOAL_SIMULATED_CUDA);
  static_cast<void>(driver);
  return nccl::Api::Load(SHOAL_SIMULATED_NCCL).value();
}

inline nccl::UniqueId MakeId() {
  nccl::UniqueId id;
  EXPECT_EQ(LoadNccl()->get_unique_id(&id), nccl::kSuccess);
  return id;
}

template <typename Function>
Function FindInNccl(const char* name) {
  return reinterpret_cast<Function>(dlsym(dlopen(SHOAL_SIMULATED_NCCL, RTLD_NOW | RTLD_LOCAL), name));
}
inline void RefuseNext(const char* function) {
  FindInNccl<void (*)(const char*)>("simulated_nccl_refuse_next")(function);
}
inline uint64_t Comms() { return FindInNccl<uint64_t (*)()>("simulated_nccl_comms")(); }
inline uint64_t Kernels() { return FindInNccl<uint64_t (*)()>("simulated_nccl_kernels")(); }

template <typename Condition>
bool Await(Condition condition) {
  const auto give_up_at = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < give_up_at) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return false;
}

// A test of this program, in a process of its own.
class OtherProcess {
 public:
  explicit OtherProcess(const std::string& test) {
    std::string filter = "--gtest_filter=DeviceCommProcess.DISABLED_" + test;
    std::string program = "/proc/self/exe";
    std::string with_disabled = "--gtest_also_run_disabled_tests";
    char* const arguments[] = {program.data(), with_disabled.data(), filter.data(), nullptr};
    EXPECT_EQ(posix_spawn(&process_, program.c_str(), nullptr, nullptr, arguments, environ), 0);
  }
  ~OtherProcess() {
    if (has_ended_) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  bool EndsWell() {
    int status = 0;
    has_ended_ = Await([&] { return waitpid(process_, &status, WNOHANG) == process_; });
    return has_ended_ && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  pid_t process_ = 0;
  bool has_ended_ = false;
};

// ---- numbers of a type, and what is to come of them ----

template <typename Number>
void Append(double value, std::vector<std::byte>* bytes) {
  const auto number = static_cast<Number>(value);
  const auto* const start = reinterpret_cast<const std::byte*>(&number);
  bytes->insert(bytes->end(), start, start + sizeof(number));
}

// The values are small whole numbers and halves, which all types have.
inline std::vector<std::byte> BytesOf(DataType dtype, const std::vector<double>& values) {
  std::vector<std::byte> bytes;
  for (const double value : values) {
    switch (dtype) {
      case DataType::kFloat64:
        Append<double>(value, &bytes);
        break;
      case DataType::kInt8:
      case DataType::kUint8:
        Append<int8_t>(value, &bytes);
        break;
      case DataType::kInt32:
        Append<int32_t>(value, &bytes);
        break;
      case DataType::kInt64:
        Append<int64_t>(value, &bytes);
        break;
      default:
        Append<float>(value, &bytes);
    }
  }
  const std::optional<WireCodec> codec = WireCodec::FromWire(static_cast<uint8_t>(dtype), /*narrowed=*/true);
  if (!codec.has_value() || codec->is_in_blocks()) return bytes;
  std::vector<std::byte> encoded(codec->WireBytes(values.size()));
  Encode(*codec, bytes.data(), encoded.data(), values.size());
  return encoded;
}

inline double InputOf(uint32_t rank, uint64_t element) { return 1.0 + static_cast<double>((element + rank) % 3); }

inline double ResultOf(ReduceOp op, double factor, uint32_t size, uint64_t element) {
  double result = op == ReduceOp::kPremulSum ? factor * InputOf(0, element) : InputOf(0, element);
  for (uint32_t rank = 1; rank < size; ++rank) {
    const double input = InputOf(rank, element);
    switch (op) {
      case ReduceOp::kPremulSum:
        result += factor * input;
        break;
      case ReduceOp::kMin:
        result = std::min(result, input);
        break;
      case ReduceOp::kMax:
        result = std::max(result, input);
        break;
      case ReduceOp::kProd:
        result *= input;
        break;
      default:
        result += input;
    }
  }
  return result;
}

// ---- ranks ----

// On a thread, with its device and a stream.
class Rank {
 public:
  Rank(const nccl::UniqueId& id, uint32_t rank, uint32_t size) : program_(SHOAL_SIMULATED_CUDA, rank) {
    const std::shared_ptr<const cuda::Api> driver = cuda::Api::Load(SHOAL_SIMULATED_CUDA).value();
    // One that knows the driver, and one that does not.
    comm_ = DeviceComm::Make(LoadNccl(), id, {.rank = rank, .size = size}, IsNotOver, rank % 2 == 0 ? driver : nullptr)
                .value();
  }

  DeviceComm& comm() { return *comm_; }
  void Leave() { comm_.reset(); }
  ProgramOnDevice& program() { return program_; }
  cuda::Stream stream() { return static_cast<cuda::Stream>(stream_); }

  std::byte* Allocate(uint64_t bytes) { return program_.Allocate(bytes + 4); }
  // The same memory each time, unless more is wanted. Nothing is freed: that waits for all that runs on the device,
  // other ranks' kernels too, and they may wait for this rank.
  std::byte* Scratch(uint64_t bytes) {
    if (scratch_ == nullptr || scratch_bytes_ < bytes) {
      scratch_ = Allocate(bytes);
      scratch_bytes_ = bytes;
    }
    return scratch_;
  }
  void Write(std::byte* tensor, const std::vector<std::byte>& bytes) {
    if (!bytes.empty()) program_.Write(stream_, tensor, bytes.data(), bytes.size());
  }
  std::vector<std::byte> Read(const std::byte* tensor, uint64_t bytes) {
    if (bytes == 0) return {};
    const std::vector<float> words = program_.Read(stream_, tensor, (bytes + 3) / 4);
    const auto* const start = reinterpret_cast<const std::byte*>(words.data());
    return {start, start + bytes};
  }

 private:
  ProgramOnDevice program_;
  void* const stream_ = program_.MakeStream();
  std::unique_ptr<DeviceComm> comm_;
  std::byte* scratch_ = nullptr;
  uint64_t scratch_bytes_ = 0;
};

// Calls it with each rank, on threads, when all are made.
template <typename Function>
void WithRanks(uint32_t size, Function function) {
  const nccl::UniqueId id = MakeId();
  std::latch all(size);
  std::vector<std::thread> threads;
  for (uint32_t number = 0; number < size; ++number) {
    threads.emplace_back([&, number] {
      Rank rank(id, number, size);
      all.arrive_and_wait();
      function(&rank, number);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

inline void ReduceAndGather(Rank* rank, uint32_t number, uint32_t size, uint64_t count, DataType dtype, ReduceOp op) {
  constexpr double factor = 0.5;
  std::vector<double> input(count);
  std::vector<double> expected(count);
  for (uint64_t i = 0; i < count; ++i) {
    input[i] = InputOf(number, i);
    expected[i] = ResultOf(op, factor, size, i);
  }
  const std::vector<std::byte> expected_bytes = BytesOf(dtype, expected);
  std::byte* const tensor = rank->Scratch(expected_bytes.size());
  rank->Write(tensor, BytesOf(dtype, input));
  const absl::Status reduced = rank->comm().Reduce(rank->stream(), tensor, count, dtype, op, factor);
  ASSERT_TRUE(reduced.ok()) << reduced;
  const ElementRange own = NodePart(count, size, number);
  const size_t bytes = DataTypeSize(dtype);
  const std::vector<std::byte> own_expected(
      expected_bytes.begin() + static_cast<ptrdiff_t>(own.first * bytes),
      expected_bytes.begin() + static_cast<ptrdiff_t>((own.first + own.count) * bytes));
  ASSERT_EQ(rank->Read(tensor + own.first * bytes, own.count * bytes), own_expected)
      << "reduced: " << count << " " << DataTypeName(dtype) << " " << ReduceOpName(op);
  const absl::Status gathered = rank->comm().Gather(rank->stream(), tensor, count, dtype);
  ASSERT_TRUE(gathered.ok()) << gathered;
  ASSERT_EQ(rank->Read(tensor, count * bytes), expected_bytes)
      << "gathered: " << count << " " << DataTypeName(dtype) << " " << ReduceOpName(op);
}

// What the simulated NCCL has is given back at the end.
class DeviceCommTest : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(Comms(), 0u);
    EXPECT_EQ(Kernels(), 0u);
  }
};

}  // namespace shoal

#endif  // SHOAL_TESTS_UNIT_WORKER_DEVICE_DEVICE_COMM_RANKS_H_
