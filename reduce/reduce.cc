#include "reduce/reduce.h"

#include <array>
#include <cfenv>

#include "reduce/convert.h"
#include "reduce/kernel_table.h"

namespace shoal {
namespace {

// Rounds to nearest and keeps denormals while it lives, whatever the thread was set to: a thread inherits its mode from
// the thread that made it, and torch.set_flush_denormal or a library built with -ffast-math may have changed that one.
class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatEnvironment() { std::fesetenv(&saved_); }
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

 private:
  std::fenv_t saved_;
};

using TableList = std::array<const KernelTable*, 4>;  // ends with nullptr

TableList ListRunnable() {
  TableList list{};
  size_t count = 0;
#if defined(SHOAL_REDUCE_X86)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq")) {
    list[count++] = &kAvx512Kernels;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c")) list[count++] = &kAvx2Kernels;
#endif
  list[count++] = &kPortableKernels;
  return list;
}

const ConvertKernels& ConvertKernelsFor(DataType type) {
  const KernelTable& table = *RunnableKernels()[0];
  return type == DataType::kFloat16 ? table.float16 : table.bfloat16;
}

}  // namespace

const KernelTable* const* RunnableKernels() {
  static const TableList list = ListRunnable();
  return list.data();
}

const char* ReduceKernelName() { return RunnableKernels()[0]->name; }

void Reduce(const ReduceSpec& spec, std::span<const std::byte* const> inputs, std::byte* output, size_t element_count) {
  if (inputs.empty() || element_count == 0) return;
  const KernelTable& table = *RunnableKernels()[0];
  const ReduceKernel kernel = table.kernels[static_cast<int>(spec.dtype) - 1][static_cast<int>(spec.op) - 1];
  const DefaultFloatEnvironment environment;
  kernel(inputs.data(), inputs.size(), output, element_count, spec.premul_factor, spec.ranks_per_input);
}

void NarrowFloat32(DataType type, const std::byte* input, std::byte* output, size_t element_count) {
  const DefaultFloatEnvironment environment;
  ConvertKernelsFor(type).narrow(input, output, element_count);
}

void WidenToFloat32(DataType type, const std::byte* input, std::byte* output, size_t element_count) {
  const DefaultFloatEnvironment environment;
  ConvertKernelsFor(type).widen(input, output, element_count);
}

}  // namespace shoal
