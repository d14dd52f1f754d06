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
  Uint64 unused_by_host[14];
  // Written by the device.
  Uint64 exited[kBlocks];  // 1: the block touches nothing any more
  Uint64 done[kCommands];  // of command i: i + 1
  Uint64 left_copying;     // so many blocks copy nothing any more
  Uint64 unused_by_device[7];
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
// Adds one, and returns what was there. For blocks of one kernel alone: it is not atomic for the host.
SHOAL_DEVICE Uint64 CountUp(Uint64* counter) {
  Uint64 before;
  asm volatile("atom.acq_rel.gpu.global.add.u64 %0, [%1], 1;" : "=l"(before) : "l"(counter) : "memory");
  return before;
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
inline Uint64 CountUp(Uint64* counter) { return __atomic_fetch_add(counter, 1, __ATOMIC_ACQ_REL); }
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

// Without branches: where threads of a device take different ones, all of them wait for each.
SHOAL_DEVICE Uint16 NarrowToFloat16(Uint32 bits) {
  const Uint32 sign = (bits & kSignBit) >> 16;
  const Uint32 magnitude = bits & ~kSignBit;
  const Uint32 significand = (magnitude & 0x7fffffu) | 0x800000u;
  const Uint32 exponent = magnitude >> 23;
  const bool is_subnormal = exponent < 113;  // in 16 bits
  // To drop 25 bits leaves nothing, of numbers up to half the smallest one.
  const Uint32 dropped_bits = !is_subnormal ? 13 : exponent > 101 ? 126 - exponent : 25;
  const Uint32 last_bit = (significand >> dropped_bits) & 1u;
  const Uint32 rounded = (significand + (1u << (dropped_bits - 1)) - 1 + last_bit) >> dropped_bits;
  // The significand's highest bit, or what rounding carries, adds one to the exponent.
  const Uint32 result = rounded + (is_subnormal ? 0 : (exponent - 113) << 10);
  if (magnitude > kInfinity32) return 0x7e00;  // NaN
  return static_cast<Uint16>(sign | (result < 0x7c00u ? result : 0x7c00u));
}

SHOAL_DEVICE Uint32 WidenFloat16(Uint16 half) {
  const Uint32 sign = (Uint32{half} & 0x8000u) << 16;
  const Uint32 magnitude = half & 0x7fffu;
  if (magnitude > 0x7c00u) return kCanonicalNan32;
  // Of a subnormal number, which is normal in 32 bits: so far up, its highest bit adds one to the exponent.
  const Uint32 shift = magnitude < 0x400u ? static_cast<Uint32>(__builtin_clz(magnitude | 1u)) - 21 : 0;
  const Uint32 result = (magnitude << (shift + 13)) + ((112 - shift) << 23);
  if (magnitude == 0) return sign;
  return sign | (magnitude < 0x7c00u ? result : kInfinity32);
}

// ---- copies ----

// Four elements, which a thread loads or stores at once. (A structure would not do: compilers copy one through memory
// of the thread, and each load then waits for the one before it.)
template <typename Element>
struct Four;
template <>
struct Four<Uint16> {
  using Type = Uint16 __attribute__((vector_size(8)));
};
template <>
struct Four<Uint32> {
  using Type = Uint32 __attribute__((vector_size(16)));
};

template <typename Unit>
SHOAL_DEVICE Unit AsItIs(Unit unit) {
  return unit;
}

template <typename To, typename From, To (*kConvert)(From)>
SHOAL_DEVICE typename Four<To>::Type ConvertFour(typename Four<From>::Type four) {
  return typename Four<To>::Type{kConvert(four[0]), kConvert(four[1]), kConvert(four[2]), kConvert(four[3])};
}

// All threads of the block, unit by unit; four at a time are under way in each thread.
template <typename To, typename From, To (*kConvert)(From)>
SHOAL_DEVICE void ConvertUnits(To* to, const From* from, Uint64 count) {
  const Uint64 step = ThreadCount();
  Uint64 i = ThreadIndex();
  for (; i + 3 * step < count; i += 4 * step) {
    const From a = from[i];
    const From b = from[i + step];
    const From c = from[i + 2 * step];
    const From d = from[i + 3 * step];
    to[i] = kConvert(a);
    to[i + step] = kConvert(b);
    to[i + 2 * step] = kConvert(c);
    to[i + 3 * step] = kConvert(d);
  }
  for (; i < count; i += step) to[i] = kConvert(from[i]);
}

// Four elements a unit, where their addresses allow it.
template <typename To, typename From, To (*kConvert)(From)>
SHOAL_DEVICE void ConvertElements(To* to, const From* from, Uint64 count) {
  using FourTo = typename Four<To>::Type;
  using FourFrom = typename Four<From>::Type;
  Uint64 done = 0;
  if (reinterpret_cast<Uint64>(to) % sizeof(FourTo) == 0 && reinterpret_cast<Uint64>(from) % sizeof(FourFrom) == 0) {
    ConvertUnits<FourTo, FourFrom, ConvertFour<To, From, kConvert>>(reinterpret_cast<FourTo*>(to),
                                                                    reinterpret_cast<const FourFrom*>(from), count / 4);
    done = count / 4 * 4;
  }
  ConvertUnits<To, From, kConvert>(to + done, from + done, count - done);
}

template <typename Unit>
SHOAL_DEVICE void CopyUnits(unsigned char* to, const unsigned char* from, Uint64 bytes) {
  ConvertUnits<Unit, Unit, AsItIs<Unit>>(reinterpret_cast<Unit*>(to), reinterpret_cast<const Unit*>(from),
                                         bytes / sizeof(Unit));
}

SHOAL_DEVICE void CopyBytes(unsigned char* to, const unsigned char* from, Uint64 bytes) {
  const Uint64 alignment = reinterpret_cast<Uint64>(to) | reinterpret_cast<Uint64>(from);
  if ((alignment & 15) == 0) {
    CopyUnits<Four<Uint32>::Type>(to, from, bytes);
    const Uint64 done = bytes / 16 * 16;
    CopyUnits<unsigned char>(to + done, from + done, bytes - done);
  } else if (((alignment | bytes) & 3) == 0) {
    CopyUnits<Uint32>(to, from, bytes);
  } else if (((alignment | bytes) & 1) == 0) {
    CopyUnits<Uint16>(to, from, bytes);
  } else {
    CopyUnits<unsigned char>(to, from, bytes);
  }
}

SHOAL_DEVICE void CarryOut(const CopyCommand& command) {
  if (command.type == CopyType::kBytes) {
    unsigned char* const tensor = InTensor<unsigned char>(command.tensor);
    unsigned char* const host = InHostMemory<unsigned char>(command.host);
    return command.to_device != 0 ? CopyBytes(tensor, host, command.count) : CopyBytes(host, tensor, command.count);
  }
  Uint32* const numbers = InTensor<Uint32>(command.tensor);
  Uint16* const halves = InHostMemory<Uint16>(command.host);
  if (command.type == CopyType::kBfloat16) {
    return command.to_device != 0 ? ConvertElements<Uint32, Uint16, WidenBfloat16>(numbers, halves, command.count)
                                  : ConvertElements<Uint16, Uint32, NarrowToBfloat16>(halves, numbers, command.count);
  }
  return command.to_device != 0 ? ConvertElements<Uint32, Uint16, WidenFloat16>(numbers, halves, command.count)
                                : ConvertElements<Uint16, Uint32, NarrowToFloat16>(halves, numbers, command.count);
}

template <typename Unit>
SHOAL_DEVICE void FillUnits(unsigned char* bytes, Uint64 count, Unit value) {
  Unit* const units = reinterpret_cast<Unit*>(bytes);
  for (Uint64 i = ThreadIndex(); i < count / sizeof(Unit); i += ThreadCount()) units[i] = value;
}

SHOAL_DEVICE void FillWithOnes(unsigned char* bytes, Uint64 count) {
  if ((reinterpret_cast<Uint64>(bytes) & 15) != 0) return FillUnits<unsigned char>(bytes, count, 0xff);
  FillUnits(bytes, count, Four<Uint32>::Type{~0u, ~0u, ~0u, ~0u});
  FillUnits<unsigned char>(bytes + count / 16 * 16, count % 16, 0xff);
}

// What the threads of a block share while they wait.
struct BlockState {
  Uint32 has_command;
  Uint32 fills;
};

// `tensor`: all of the op's, for the case that it fails.
SHOAL_DEVICE void RunBlock(OpControl* control, BlockState* state, Uint64 tensor, Uint64 tensor_bytes) {
  const bool leads = ThreadIndex() == 0;
  for (Uint64 next = BlockIndex();; next += kBlocks) {
    if (leads) {
      for (;;) {
        // The end first: nothing is published after it.
        const auto end = static_cast<OpEnd>(LoadAcquire(&control->end));
        // Of an op that has failed nothing is copied any more.
        const bool is_published = next < LoadAcquire(&control->published);
        state->has_command = is_published && end != OpEnd::kFailed ? 1 : 0;
        if (state->has_command != 0 || end != OpEnd::kNone) break;
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
  if (leads) {
    // The last block fills the tensor: what others still copied would come on top. No block waits for another one,
    // which may not have begun.
    const bool is_last = CountUp(&control->left_copying) == kBlocks - 1;
    state->fills = is_last && static_cast<OpEnd>(LoadAcquire(&control->end)) == OpEnd::kFailed ? 1 : 0;
  }
  Barrier();
  if (state->fills != 0) FillWithOnes(InTensor<unsigned char>(tensor), tensor_bytes);
  FenceForHost();
  Barrier();
  if (leads) StoreRelease(&control->exited[BlockIndex()], 1);
}

#undef SHOAL_DEVICE

}  // namespace shoal::device

#endif  // SHOAL_WORKER_DEVICE_COPY_KERNEL_H_
