// Prints how fast one core reduces, by element type, operation and kernel, beside a loop that adds input after input.
//
//   reduce_bench [INPUTS] [KIBIBYTES_PER_INPUT]      default: 4 inputs of 256 KiB
//
// Bytes are those read from the inputs (n inputs of m bytes count n * m), in 10^9 bytes a second; the best of several
// runs.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "reduce/kernel_table.h"
#include "reduce/reduce.h"

namespace shoal {
namespace {

constexpr int kRuns = 30;

class Inputs {
 public:
  Inputs(size_t input_count, size_t bytes_per_input) : memory_(input_count, std::vector<std::byte>(bytes_per_input)) {
    std::mt19937 random(1);
    for (std::vector<std::byte>& input : memory_) {
      // Bytes 0x3c..0x3f make moderate numbers of every type.
      for (std::byte& byte : input) byte = static_cast<std::byte>(0x3c + random() % 4);
      pointers_.push_back(input.data());
    }
  }
  const std::vector<const std::byte*>& pointers() const { return pointers_; }

 private:
  std::vector<std::vector<std::byte>> memory_;
  std::vector<const std::byte*> pointers_;
};

template <typename Body>
double BestSeconds(const Body& body) {
  double best = 1e9;
  for (int run = 0; run < kRuns; ++run) {
    const auto start = std::chrono::steady_clock::now();
    body();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

void AddPairwise(const Inputs& inputs, std::byte* output, size_t bytes) {
  float* const sum = reinterpret_cast<float*>(output);
  std::memcpy(output, inputs.pointers()[0], bytes);
  for (size_t input = 1; input < inputs.pointers().size(); ++input) {
    const float* const next = reinterpret_cast<const float*>(inputs.pointers()[input]);
    for (size_t i = 0; i < bytes / sizeof(float); ++i) sum[i] += next[i];
  }
}

int Run(size_t input_count, size_t bytes) {
  const Inputs inputs(input_count, bytes);
  std::vector<std::byte> output(bytes);
  const double read_gigabytes = static_cast<double>(input_count * bytes) / 1e9;
  std::printf("# %zu inputs of %zu bytes each; this machine runs \"%s\"\n", input_count, bytes, ReduceKernelName());
  std::printf("%-10s %-11s %-10s %10s\n", "type", "op", "kernel", "GB/s");
  std::printf("%-10s %-11s %-10s %10.2f\n", "float32", "sum", "pairwise",
              read_gigabytes / BestSeconds([&] { AddPairwise(inputs, output.data(), bytes); }));
  for (int type = 1; type <= kReduceDataTypes; ++type) {
    const size_t element_count = bytes / DataTypeSize(static_cast<DataType>(type));
    for (int op = 1; op <= kReduceOps; ++op) {
      for (const KernelTable* const* table = RunnableKernels(); *table != nullptr; ++table) {
        const ReduceKernel kernel = (*table)->kernels[type - 1][op - 1];
        const double seconds =
            BestSeconds([&] { kernel(inputs.pointers().data(), input_count, output.data(), element_count, 0.5); });
        std::printf("%-10s %-11s %-10s %10.2f\n", std::string(DataTypeName(static_cast<DataType>(type))).c_str(),
                    std::string(ReduceOpName(static_cast<ReduceOp>(op))).c_str(), (*table)->name,
                    read_gigabytes / seconds);
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) {
  const long input_count = argc > 1 ? std::atol(argv[1]) : 4;
  const long kibibytes = argc > 2 ? std::atol(argv[2]) : 256;
  if (input_count < 1 || input_count > static_cast<long>(shoal::kMaxReduceInputs) || kibibytes < 1) {
    std::fprintf(stderr, "usage: %s [INPUTS, 1 to %zu] [KIBIBYTES_PER_INPUT, at least 1]\n", argv[0],
                 shoal::kMaxReduceInputs);
    return 2;
  }
  return shoal::Run(static_cast<size_t>(input_count), static_cast<size_t>(kibibytes) * 1024);
}
