#include "reduce/reduce.h"

#include <array>
#include <cfenv>
#include <cstring>

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include "reduce/convert.h"
#include "reduce/kernel_table.h"

namespace shoal {
namespace {

// Rounds to nearest and keeps denormals while it lives, whatever the thread was set to: a thread inherits its mode from
// the thread that made it, and torch.set_flush_denormal or a library built with -ffast-math may have changed that one.
class DefaultFloatEnvironment {
 public:
#ifdef __SSE2__
  // Kernels use this register alone; the older unit's state, which fesetenv sets as well, takes longer than a small
  // sum.
  DefaultFloatEnvironment() : saved_(_mm_getcsr()) { _mm_setcsr(kDefault); }
  ~DefaultFloatEnvironment() { _mm_setcsr(saved_); }
#elif defined(__aarch64__)
  // Of all bits: among those that fesetenv is not about is the one for halves without infinities.
  DefaultFloatEnvironment() {
    asm volatile("mrs %0, fpcr" : "=r"(saved_)::"memory");
    Set(0);  // after a reset
  }
  ~DefaultFloatEnvironment() { Set(saved_); }
#else
  DefaultFloatEnvironment() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatEnvironment() { std::fesetenv(&saved_); }
#endif
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

 private:
#ifdef __SSE2__
  static constexpr unsigned kDefault = 0x1F80;  // all exceptions masked, to nearest, denormals kept: after a reset
  const unsigned saved_;
#elif defined(__aarch64__)
  static void Set(uint64_t mode) { asm volatile("msr fpcr, %0" ::"r"(mode) : "memory"); }
  uint64_t saved_;
#else
  std::fenv_t saved_;
#endif
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
#elif defined(SHOAL_REDUCE_NEON)
  list[count++] = &kNeonKernels;
#endif
  list[count++] = &kPortableKernels;
  return list;
}

// nullptr: nothing is converted.
const ConvertKernels* ConvertKernelsFor(WireFormat format) {
  switch (format) {
    case WireFormat::kAsIs:
      return nullptr;
    case WireFormat::kFloat16:
      return &RunnableKernels()[0]->float16;
    case WireFormat::kBfloat16:
      return &RunnableKernels()[0]->bfloat16;
    case WireFormat::kInt8:
      return &RunnableKernels()[0]->int8_blocks.convert;
    case WireFormat::kFloat8:
      return &RunnableKernels()[0]->float8_blocks.convert;
  }
  return nullptr;
}

ReduceKernel KernelFor(WireCodec codec, ReduceOp op) {
  const KernelTable& table = *RunnableKernels()[0];
  const int column = static_cast<int>(op) - 1;
  if (codec.format() == WireFormat::kInt8) return table.int8_blocks.reduce[column];
  if (codec.format() == WireFormat::kFloat8) return table.float8_blocks.reduce[column];
  return table.kernels[codec.type_number() - 1][column];
}

}  // namespace

const KernelTable* const* RunnableKernels() {
  static const TableList list = ListRunnable();
  return list.data();
}

const char* ReduceKernelName() { return RunnableKernels()[0]->name; }

void Reduce(const ReduceSpec& spec, std::span<const std::byte* const> inputs, std::byte* output, size_t element_count) {
  if (inputs.empty() || element_count == 0) return;
  const ReduceKernel kernel = KernelFor(spec.codec, spec.op);
  const DefaultFloatEnvironment environment;
  kernel(inputs.data(), inputs.size(), output, element_count, spec.premul_factor, spec.ranks_per_input);
}

void Encode(WireCodec codec, const std::byte* tensor, std::byte* wire, size_t element_count) {
  const ConvertKernels* const kernels = ConvertKernelsFor(codec.format());
  if (kernels == nullptr) {
    std::memcpy(wire, tensor, codec.WireBytes(element_count));
    return;
  }
  const DefaultFloatEnvironment environment;
  kernels->narrow(tensor, wire, element_count);
}

void Decode(WireCodec codec, const std::byte* wire, std::byte* tensor, size_t element_count) {
  const ConvertKernels* const kernels = ConvertKernelsFor(codec.format());
  if (kernels == nullptr) {
    std::memcpy(tensor, wire, codec.WireBytes(element_count));
    return;
  }
  const DefaultFloatEnvironment environment;
  kernels->widen(wire, tensor, element_count);
}

}  // namespace shoal
