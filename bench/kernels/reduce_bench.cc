// How fast one core reduces.
//
//   reduce_bench bounds [ROUNDS]                      beside what its memory gives and a pairwise sum; prints JSON
//   reduce_bench types [INPUTS] [KIBIBYTES_PER_INPUT] by type, op and instruction set; prints a table
//   reduce_bench wires [KIBIBYTES]                    float32 to the wire and back, and sums of 4; prints a table
//
// Rates are bytes read from the inputs (n inputs of m bytes count n * m) in 10^9 bytes a second; of the conversions of
// `wires` the bytes of the float32 tensor, which is read or written. `bounds` and `wires` interleave all they compare,
// round by round, and give for each the best round, as STREAM does: noise only ever slows. Time is the thread's own
// processor time, so that a busy machine's other threads cost caches and memory bandwidth only.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "bench/kernels/stream_loops.h"
#include "core/dtype.h"
#include "reduce/kernel_table.h"
#include "reduce/reduce.h"

namespace shoal {
namespace {

constexpr int kRunsPerType = 30;
constexpr double kShortestTimingS = 3e-3;
constexpr size_t kHugePageBytes = 2u << 20;

// Memory that starts at a huge page and is made of such where the kernel has them; filled with moderate numbers of any
// floating point type.
class Memory {
 public:
  explicit Memory(size_t bytes) : mapped_bytes_(bytes + kHugePageBytes) {
    mapped_ = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped_ == MAP_FAILED) {
      std::fprintf(stderr, "reduce_bench: no memory for %zu bytes\n", bytes);
      std::exit(1);
    }
    const uintptr_t start =
        (reinterpret_cast<uintptr_t>(mapped_) + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
    start_ = reinterpret_cast<std::byte*>(start);
    madvise(start_, bytes, MADV_HUGEPAGE);
    for (size_t i = 0; i < bytes; ++i) start_[i] = static_cast<std::byte>(0x3c + i * 7 / 5 % 4);
  }
  ~Memory() { munmap(mapped_, mapped_bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* bytes() const { return start_; }
  uint64_t* words() const { return reinterpret_cast<uint64_t*>(start_); }
  float* floats() const { return reinterpret_cast<float*>(start_); }

 private:
  void* mapped_;
  size_t mapped_bytes_;
  std::byte* start_;
};

double ThreadSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Seconds of one run. The first is not counted: it fetches what others have driven out of the caches.
double Seconds(const std::function<void()>& run) {
  run();
  for (int runs = 1;; runs *= 2) {
    const double start = ThreadSeconds();
    for (int i = 0; i < runs; ++i) run();
    const double elapsed = ThreadSeconds() - start;
    if (elapsed >= kShortestTimingS) return elapsed / runs;
  }
}

struct Candidate {
  const char* name;
  double bytes;  // what counts for the rate
  std::function<void()> run;
  double best_s = 1e9;
};

void Compete(std::vector<Candidate>* candidates, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    for (Candidate& candidate : *candidates) candidate.best_s = std::min(candidate.best_s, Seconds(candidate.run));
  }
}

struct Place {
  const char* name;
  size_t total_bytes;      // all inputs and one output
  size_t least_per_input;  // so that no single input stays in the cache
};

void PrintBounds(const Place& place, size_t input_count, int rounds, bool first) {
  const size_t bytes = std::max(place.total_bytes / (input_count + 1), place.least_per_input) / 512 * 512;
  const Memory memory(input_count * bytes);
  const Memory output(bytes);
  std::vector<const std::byte*> inputs;
  std::vector<const float*> floats;
  for (size_t k = 0; k < input_count; ++k) {
    inputs.push_back(memory.bytes() + k * bytes);
    floats.push_back(memory.floats() + k * bytes / sizeof(float));
  }
  const size_t words = input_count * bytes / sizeof(uint64_t);
  volatile uint64_t sink = 0;
  const auto reduce = [&](DataType type, std::byte* to) {
    Reduce({WireCodec(type), ReduceOp::kSum, 1.0}, inputs, to, bytes / DataTypeSize(type));
  };
  const double read = static_cast<double>(input_count * bytes);
  std::vector<Candidate> candidates = {
      {"read_one_stream", read, [&] { sink = ReadStream(memory.words(), words); }},
      {"read_four_streams", read, [&] { sink = ReadFourStreams(memory.words(), words); }},
      {"copy_loop", 2.0 * bytes, [&] { CopyStream(memory.words(), output.words(), bytes / sizeof(uint64_t)); }},
      {"copy_memcpy", 2.0 * bytes, [&] { std::memcpy(output.bytes(), memory.bytes(), bytes); }},
      {"float32_in_place", read, [&] { reduce(DataType::kFloat32, memory.bytes()); }},
      {"float32_elsewhere", read, [&] { reduce(DataType::kFloat32, output.bytes()); }},
      {"bfloat16_in_place", read, [&] { reduce(DataType::kBfloat16, memory.bytes()); }},
      {"float16_in_place", read, [&] { reduce(DataType::kFloat16, memory.bytes()); }},
      {"pairwise", read, [&] { SumPairwise(floats, output.floats(), bytes / sizeof(float)); }},
  };
  Compete(&candidates, rounds);
  std::printf("%s    {\"place\": \"%s\", \"inputs\": %zu, \"bytes_per_input\": %zu", first ? "" : ",\n", place.name,
              input_count, bytes);
  for (const Candidate& candidate : candidates) {
    std::printf(", \"%s\": %.3f", candidate.name, candidate.bytes / candidate.best_s / 1e9);
  }
  std::printf("}");
  std::fflush(stdout);
}

// Of the first processor's cache of this level, as the kernel knows it (the C library reads what the processor says,
// which in a virtual machine may be the node's). 0: there is none.
size_t CacheBytes(int level) {
  size_t bytes = 0;
  for (int index = 0; index < 8; ++index) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    int its_level = 0;
    size_t kibibytes = 0;
    if (std::ifstream(folder + "level") >> its_level && its_level == level &&
        std::ifstream(folder + "size") >> kibibytes) {
      bytes = kibibytes << 10;
    }
  }
  return bytes;
}

int Bounds(int rounds) {
  const size_t second_level = std::max<size_t>(CacheBytes(2), 256u << 10);
  const size_t last_level = std::max(CacheBytes(3), 2 * second_level);
  const auto memory = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  // Of the last level a quarter: other cores, and on a rented machine other people, use it too.
  const Place places[] = {
      {"L2", second_level / 2, 0}, {"LLC", last_level / 4, 0}, {"memory", 4 * last_level, last_level * 3 / 2}};
  std::printf(
      "{\n  \"kernel\": \"%s\",\n  \"l2_bytes\": %zu,\n  \"llc_bytes\": %zu,\n  \"rounds\": %d,\n  \"rows\": [\n",
      ReduceKernelName(), second_level, last_level, rounds);
  bool first = true;
  for (const Place& place : places) {
    for (const size_t input_count : {2, 4, 8, 16, 32, 64}) {
      if (place.least_per_input * (input_count + 1) > memory / 3) continue;
      PrintBounds(place, input_count, rounds, first);
      first = false;
    }
  }
  std::printf("\n  ]\n}\n");
  return 0;
}

int Types(size_t input_count, size_t bytes) {
  const Memory memory(input_count * bytes);
  const Memory output(bytes);
  std::vector<const std::byte*> inputs;
  for (size_t k = 0; k < input_count; ++k) inputs.push_back(memory.bytes() + k * bytes);
  std::printf("# %zu inputs of %zu bytes each; this machine runs \"%s\"\n", input_count, bytes, ReduceKernelName());
  std::printf("%-10s %-11s %-10s %10s\n", "type", "op", "kernel", "GB/s");
  for (int type = 1; type <= kReduceDataTypes; ++type) {
    const size_t element_count = bytes / DataTypeSize(static_cast<DataType>(type));
    for (int op = 1; op <= kReduceOps; ++op) {
      for (const KernelTable* const* table = RunnableKernels(); *table != nullptr; ++table) {
        const ReduceKernel kernel = (*table)->kernels[type - 1][op - 1];
        if (kernel == nullptr) continue;
        double best_s = 1e9;
        for (int run = 0; run < kRunsPerType; ++run) {
          const double start = ThreadSeconds();
          kernel(inputs.data(), input_count, output.bytes(), element_count, 0.5, 1);
          best_s = std::min(best_s, ThreadSeconds() - start);
        }
        std::printf("%-10s %-11s %-10s %10.2f\n", std::string(DataTypeName(static_cast<DataType>(type))).c_str(),
                    std::string(ReduceOpName(static_cast<ReduceOp>(op))).c_str(), (*table)->name,
                    static_cast<double>(input_count * bytes) / best_s / 1e9);
      }
    }
  }
  return 0;
}

struct WireKernels {
  const char* name;
  WireCodec codec;
  ConvertKernels convert;
  ReduceKernel sum;
};

std::vector<WireKernels> WiresOf(const KernelTable& table) {
  const auto codec = [](WireFormat wire) { return WireCodec(DataType::kFloat32, wire); };
  const auto sum_of = [&](DataType type) { return table.kernels[static_cast<int>(type) - 1][0]; };
  return {{"fp16", codec(WireFormat::kFloat16), table.float16, sum_of(DataType::kFloat16)},
          {"bf16", codec(WireFormat::kBfloat16), table.bfloat16, sum_of(DataType::kBfloat16)},
          {"int8", codec(WireFormat::kInt8), table.int8_blocks.convert, table.int8_blocks.reduce[0]},
          {"fp8", codec(WireFormat::kFloat8), table.float8_blocks.convert, table.float8_blocks.reduce[0]}};
}

int Wires(size_t tensor_bytes) {
  constexpr size_t kInputs = 4;
  constexpr int kRounds = 15;
  const size_t count = tensor_bytes / sizeof(float);
  const Memory tensor(tensor_bytes);
  const Memory back(tensor_bytes);
  std::vector<Candidate> copies = {
      {"memcpy", static_cast<double>(tensor_bytes), [&] { std::memcpy(back.bytes(), tensor.bytes(), tensor_bytes); }},
      {"read", static_cast<double>(tensor_bytes), [&] {
         volatile uint64_t sink = ReadFourStreams(tensor.words(), tensor_bytes / sizeof(uint64_t));
         (void)sink;
       }}};
  Compete(&copies, kRounds);
  std::printf("# a tensor of %zu bytes; GB/s of it: read alone %.2f, memcpy %.2f\n", tensor_bytes,
              copies[1].bytes / copies[1].best_s / 1e9, copies[0].bytes / copies[0].best_s / 1e9);
  std::printf("%-6s %-10s %10s %10s %18s\n", "wire", "kernel", "encode", "decode", "sum of 4, elements");
  for (const KernelTable* const* table = RunnableKernels(); *table != nullptr; ++table) {
    for (const WireKernels& wire : WiresOf(**table)) {
      const size_t stride_bytes = (wire.codec.WireBytes(count) + 63) / 64 * 64;
      const Memory encoded(stride_bytes * (kInputs + 1));
      std::vector<const std::byte*> inputs;
      for (size_t k = 0; k < kInputs; ++k) {
        std::byte* const input = encoded.bytes() + k * stride_bytes;
        wire.convert.narrow(tensor.bytes(), input, count);
        inputs.push_back(input);
      }
      std::byte* const sum = encoded.bytes() + kInputs * stride_bytes;
      const auto bytes = static_cast<double>(tensor_bytes);
      std::vector<Candidate> candidates = {
          {"encode", bytes, [&] { wire.convert.narrow(tensor.bytes(), sum, count); }},
          {"decode", bytes, [&] { wire.convert.widen(inputs[0], back.bytes(), count); }},
          {"sum", static_cast<double>(kInputs * count), [&] { wire.sum(inputs.data(), kInputs, sum, count, 1, 1); }}};
      Compete(&candidates, kRounds);
      std::printf("%-6s %-10s %10.2f %10.2f %14.2f G/s\n", wire.name, (*table)->name,
                  candidates[0].bytes / candidates[0].best_s / 1e9, candidates[1].bytes / candidates[1].best_s / 1e9,
                  candidates[2].bytes / candidates[2].best_s / 1e9);
    }
  }
  return 0;
}

int Main(const std::vector<std::string>& words) {
  const auto number = [&](size_t at, long otherwise) {
    return words.size() > at ? std::atol(words[at].c_str()) : otherwise;
  };
  if (!words.empty() && words[0] == "bounds" && number(1, 15) > 0) return Bounds(static_cast<int>(number(1, 15)));
  if (!words.empty() && words[0] == "wires" && number(1, 1024) > 0) {
    return Wires(static_cast<size_t>(number(1, 1024)) * 1024);
  }
  const long input_count = number(1, 4);
  const long kibibytes = number(2, 256);
  if (!words.empty() && words[0] == "types" && input_count > 0 && kibibytes > 0 &&
      static_cast<size_t>(input_count) <= kMaxReduceInputs) {
    return Types(static_cast<size_t>(input_count), static_cast<size_t>(kibibytes) * 1024);
  }
  std::fprintf(stderr,
               "usage: reduce_bench bounds [ROUNDS] | reduce_bench types [INPUTS] [KIBIBYTES_PER_INPUT] | "
               "reduce_bench wires [KIBIBYTES]\n");
  return 2;
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) { return shoal::Main({argv + 1, argv + argc}); }
