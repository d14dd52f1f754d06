// What runs on a device for one all-reduce: a kernel that copies chunks between the tensor and host memory, as the host
// tells it while it runs, and that ends when the all-reduce has ended.
//
// It is put into a stream at the call, behind the work that makes the contribution, and whoever wants the result waits
// for its end by stream. From then on the worker makes no call to the driver: it writes commands to memory that both
// see, and reads there what is done. So nothing that holds the driver's locks (loading of kernels, freeing of memory)
// can stand between the network and a device that waits for it, and no order of calls can deadlock. A block of threads
// takes every kBlocks-th command. NCCL's kernels and their proxy work in the same way.
//
// This text is compiled for devices (copy_kernel.cu, whose PTX is in copy_kernel_ptx.cc) and, for tests, as threads of
// the host (tests/simulated_cuda). Plain integers and no library, therefore.
#ifndef SHOAL_WORKER_DEVICE_COPY_KERNEL_H_
#define SHOAL_WORKER_DEVICE_COPY_KERNEL_H_

namespace shoal::device {

using Uint16 = unsigned short;
using Uint32 = unsigned int;
using Uint64 = unsigned long long;

inline constexpr Uint32 kBlocks = 8;
inline constexpr Uint32 kThreads = 256;  // of a block
inline constexpr Uint32 kCommands = 64;  // that may be under way

enum class CopyType : Uint32 {
  kBytes,     // as they are
  kBfloat16,  // float32 in the tensor, rounded to 16 bits in host memory
  kFloat16,   // likewise
};

struct CopyCommand {
  Uint64 tensor = 0;  // address
  Uint64 host = 0;    // likewise
  Uint64 count = 0;   // of bytes; of elements where they are converted
  CopyType type = CopyType::kBytes;
  Uint32 to_device = 0;
};

enum class OpEnd : Uint64 {
  kNone = 0,
  kWell = 1,
  kFailed = 2,  // the tensor is filled with ones: NaN, where it holds floating-point numbers
};

// In host memory, the same address on all devices. Before a kernel starts all of it is zero.
struct OpControl {
  // Written by the host.
  Uint64 published;  // commands so far; command i is in commands[i % kCommands]
  Uint64 end;        // an OpEnd; nothing is published after it is set
  Uint64 unused[14];
  // Written by the device.
  Uint64 exited[kBlocks];  // 1: the block touches nothing any more
  Uint64 done[kCommands];  // of command i: i + 1
  // Written by the host.
  CopyCommand commands[kCommands];
};

#if defined(__CUDA_ARCH__)

#define SHOAL_DEVICE __attribute__((device)) inline

SHOAL_DEVICE Uint32 BlockIndex() { return __nvvm_read_ptx_sreg_ctaid_x(); }
SHOAL_DEVICE Uint32 ThreadIndex() { return __nvvm_read_ptx_sreg_tid_x(); }
SHOAL_DEVICE Uint32 ThreadCount() { return kThreads; }
SHOAL_DEVICE void Barrier() { __nvvm_bar_sync(0); }
// What this thread wrote is seen, also by the host, before what follows the next barrier.
SHOAL_DEVICE void FenceForHost() { __nvvm_membar_sys(); }
SHOAL_DEVICE Uint64 LoadAcquire(const Uint64* from) {
  Uint64 value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}
SHOAL_DEVICE void StoreRelease(Uint64* to, Uint64 value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}
SHOAL_DEVICE void Pause() { asm volatile("nanosleep.u32 500;"); }
template <typename Unit>
SHOAL_DEVICE Unit* InTensor(Uint64 address) {
  return reinterpret_cast<Unit*>(address);
}
template <typename Unit>
SHOAL_DEVICE Unit* InHostMemory(Uint64 address) {
  return reinterpret_cast<Unit*>(address);
}

#else

#define SHOAL_DEVICE inline

// A block is one thread of the host, whose number `block_of_this_thread` is.
inline thread_local Uint32 block_of_this_thread = 0;
inline Uint32 BlockIndex() { return block_of_this_thread; }
inline Uint32 ThreadIndex() { return 0; }
inline Uint32 ThreadCount() { return 1; }
inline void Barrier() {}
inline void FenceForHost() {}
inline Uint64 LoadAcquire(const Uint64* from) { return __atomic_load_n(from, __ATOMIC_ACQUIRE); }
inline void StoreRelease(Uint64* to, Uint64 value) { __atomic_store_n(to, value, __ATOMIC_RELEASE); }
// The test's: it does not let the host touch a tensor, or the device what is not registered.
void Pause();
void* DeviceMemory(Uint64 address);
void* RegisteredMemory(Uint64 address);
template <typename Unit>
Unit* InTensor(Uint64 address) {
  return static_cast<Unit*>(DeviceMemory(address));
}
template <typename Unit>
Unit* InHostMemory(Uint64 address) {
  return static_cast<Unit*>(RegisteredMemory(address));
}

#endif

// ---- 16-bit numbers: the bits of reduce/convert.h ----

inline constexpr Uint32 kSignBit = 0x80000000u;
inline constexpr Uint32 kInfinity32 = 0x7f800000u;
inline constexpr Uint32 kCanonicalNan32 = 0x7fc00000u;

SHOAL_DEVICE bool IsNan32(Uint32 bits) { return (bits & ~kSignBit) > kInfinity32; }

SHOAL_DEVICE Uint16 NarrowToBfloat16(Uint32 bits) {
  if (IsNan32(bits)) bits = kCanonicalNan32;
  return static_cast<Uint16>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

SHOAL_DEVICE Uint32 WidenBfloat16(Uint16 half) {
  const Uint32 bits = Uint32{half} << 16;
  return IsNan32(bits) ? kCanonicalNan32 : bits;
}

SHOAL_DEVICE Uint16 NarrowToFloat16(Uint32 bits) {
  const Uint32 sign = (bits & kSignBit) >> 16;
  const Uint32 magnitude = bits & ~kSignBit;
  if (magnitude > kInfinity32) return 0x7e00;                                // NaN
  if (magnitude >= 0x477ff000u) return static_cast<Uint16>(sign | 0x7c00u);  // 65520 and above round to infinity
  if (magnitude < 0x33000001u) return static_cast<Uint16>(sign);             // up to half the smallest one: zero
  Uint32 significand = (magnitude & 0x7fffffu) | 0x800000u;
  const Uint32 exponent = magnitude >> 23;
  Uint32 result;
  Uint32 dropped_bits;
  if (exponent >= 113) {
    result = ((exponent - 112) << 10) + ((significand >> 13) & 0x3ffu);
    dropped_bits = 13;
  } else {  // subnormal in 16 bits
    dropped_bits = 126 - exponent;
    result = significand >> dropped_bits;
  }
  const Uint32 rest = significand & ((1u << dropped_bits) - 1);
  const Uint32 half_of_last = 1u << (dropped_bits - 1);
  if (rest > half_of_last || (rest == half_of_last && (result & 1u) != 0)) ++result;
  return static_cast<Uint16>(sign | result);
}

SHOAL_DEVICE Uint32 WidenFloat16(Uint16 half) {
  const Uint32 sign = (Uint32{half} & 0x8000u) << 16;
  Uint32 exponent = (half >> 10) & 0x1fu;
  Uint32 fraction = half & 0x3ffu;
  if (exponent == 0x1f) return fraction != 0 ? kCanonicalNan32 : (sign | kInfinity32);
  if (exponent == 0) {
    if (fraction == 0) return sign;
    exponent = 1;
    while ((fraction & 0x400u) == 0) {
      fraction <<= 1;
      --exponent;  // below zero: wraps, and is added to below
    }
    fraction &= 0x3ffu;
  }
  return sign | ((exponent + 112u) << 23) | (fraction << 13);
}

// ---- copies ----

// All threads of the block, element by element of a type; four at a time are under way in each thread.
template <typename Unit>
SHOAL_DEVICE void CopyUnits(void* to, const void* from, Uint64 count) {
  Unit* const target = static_cast<Unit*>(to);
  const Unit* const source = static_cast<const Unit*>(from);
  const Uint64 step = ThreadCount();
  Uint64 i = ThreadIndex();
  for (; i + 3 * step < count; i += 4 * step) {
    const Unit a = source[i];
    const Unit b = source[i + step];
    const Unit c = source[i + 2 * step];
    const Unit d = source[i + 3 * step];
    target[i] = a;
    target[i + step] = b;
    target[i + 2 * step] = c;
    target[i + 3 * step] = d;
  }
  for (; i < count; i += step) target[i] = source[i];
}

struct alignas(16) SixteenBytes {
  Uint64 low;
  Uint64 high;
};

SHOAL_DEVICE void CopyBytes(unsigned char* to, const unsigned char* from, Uint64 bytes) {
  const Uint64 alignment = reinterpret_cast<Uint64>(to) | reinterpret_cast<Uint64>(from);
  if ((alignment & 15) == 0) {
    CopyUnits<SixteenBytes>(to, from, bytes / 16);
    const Uint64 done = bytes / 16 * 16;
    CopyUnits<unsigned char>(to + done, from + done, bytes - done);
  } else if (((alignment | bytes) & 3) == 0) {
    CopyUnits<Uint32>(to, from, bytes / 4);
  } else if (((alignment | bytes) & 1) == 0) {
    CopyUnits<Uint16>(to, from, bytes / 2);
  } else {
    CopyUnits<unsigned char>(to, from, bytes);
  }
}

SHOAL_DEVICE void Narrow(const CopyCommand& command) {
  Uint16* const halves = InHostMemory<Uint16>(command.host);
  const Uint32* const numbers = InTensor<const Uint32>(command.tensor);
  const bool is_bfloat16 = command.type == CopyType::kBfloat16;
  for (Uint64 i = ThreadIndex(); i < command.count; i += ThreadCount()) {
    halves[i] = is_bfloat16 ? NarrowToBfloat16(numbers[i]) : NarrowToFloat16(numbers[i]);
  }
}

SHOAL_DEVICE void Widen(const CopyCommand& command) {
  Uint32* const numbers = InTensor<Uint32>(command.tensor);
  const Uint16* const halves = InHostMemory<const Uint16>(command.host);
  const bool is_bfloat16 = command.type == CopyType::kBfloat16;
  for (Uint64 i = ThreadIndex(); i < command.count; i += ThreadCount()) {
    numbers[i] = is_bfloat16 ? WidenBfloat16(halves[i]) : WidenFloat16(halves[i]);
  }
}

SHOAL_DEVICE void CarryOut(const CopyCommand& command) {
  if (command.type == CopyType::kBytes) {
    unsigned char* const tensor = InTensor<unsigned char>(command.tensor);
    unsigned char* const host = InHostMemory<unsigned char>(command.host);
    return command.to_device != 0 ? CopyBytes(tensor, host, command.count) : CopyBytes(host, tensor, command.count);
  }
  if (command.to_device != 0) return Widen(command);
  Narrow(command);
}

// What the threads of a block share while they wait.
struct BlockState {
  Uint32 has_command;
  OpEnd end;
};

// `tensor`: all of the op's, for the case that it fails.
SHOAL_DEVICE void RunBlock(OpControl* control, BlockState* state, Uint64 tensor, Uint64 tensor_bytes) {
  const bool leads = ThreadIndex() == 0;
  for (Uint64 next = BlockIndex();; next += kBlocks) {
    if (leads) {
      for (;;) {
        // The end first: nothing is published after it.
        state->end = static_cast<OpEnd>(LoadAcquire(&control->end));
        // Of an op that has failed nothing is copied any more: another block may be filling the tensor.
        const bool is_published = next < LoadAcquire(&control->published);
        state->has_command = is_published && state->end != OpEnd::kFailed ? 1 : 0;
        if (state->has_command != 0 || state->end != OpEnd::kNone) break;
        Pause();
      }
    }
    Barrier();
    if (state->has_command == 0) break;
    CarryOut(control->commands[next % kCommands]);
    FenceForHost();
    Barrier();
    if (leads) StoreRelease(&control->done[next % kCommands], next + 1);
  }
  if (state->end == OpEnd::kFailed) {
    const Uint64 step = Uint64{kBlocks} * ThreadCount();
    unsigned char* const bytes = InTensor<unsigned char>(tensor);
    for (Uint64 i = Uint64{BlockIndex()} * ThreadCount() + ThreadIndex(); i < tensor_bytes; i += step) bytes[i] = 0xff;
  }
  FenceForHost();
  Barrier();
  if (leads) StoreRelease(&control->exited[BlockIndex()], 1);
}

#undef SHOAL_DEVICE

}  // namespace shoal::device

#endif  // SHOAL_WORKER_DEVICE_COPY_KERNEL_H_
