// Made by scripts/copy_kernel.py from program_kernels.cu. Do not change it by hand.
#ifndef SHOAL_TESTS_SIMULATED_CUDA_PROGRAM_KERNELS_PTX_H_
#define SHOAL_TESTS_SIMULATED_CUDA_PROGRAM_KERNELS_PTX_H_

namespace shoal {

inline constexpr char kProgramKernelsPtx[] = R"ptx(
.version 6.3
.target sm_70
.address_size 64
.visible .entry test_fill(
.param .u64 test_fill_param_0,
.param .u64 test_fill_param_1,
.param .f32 test_fill_param_2
)
{ .reg .pred %p<3>; .reg .b32 %r<4>; .reg .f32 %f<4>; .reg .b64 %rd<27>; ld.param.u64 %rd12, [test_fill_param_1];
mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd14, %r1, 256; mov.u32 %r2, %tid.x; cvt.u64.u32 %rd3, %r2;
add.s64 %rd26, %rd14, %rd3; setp.ge.u64 %p1, %rd26, %rd12; @%p1 bra $L__BB0_3; ld.param.f32 %f1, [test_fill_param_2];
ld.param.u64 %rd13, [test_fill_param_0]; cvta.to.global.u64 %rd1, %rd13; cvt.u64.u32 %rd2, %r1;
mov.u32 %r3, %nctaid.x; mul.wide.u32 %rd5, %r3, 256; shl.b64 %rd15, %rd2, 10; shl.b64 %rd16, %rd3, 2;
add.s64 %rd17, %rd15, %rd16; add.s64 %rd25, %rd1, %rd17; mul.wide.u32 %rd7, %r3, 1024; $L__BB0_2: .pragma "nounroll";
mul.hi.u64 %rd18, %rd26, 367465021388636487; sub.s64 %rd19, %rd26, %rd18; shr.u64 %rd20, %rd19, 1;
add.s64 %rd21, %rd20, %rd18; shr.u64 %rd22, %rd21, 7; mul.lo.s64 %rd23, %rd22, -251; add.s64 %rd24, %rd26, %rd23;
cvt.rn.f32.u64 %f2, %rd24; add.f32 %f3, %f2, %f1; st.global.f32 [%rd25], %f3; add.s64 %rd26, %rd26, %rd5;
add.s64 %rd25, %rd25, %rd7; setp.lt.u64 %p2, %rd26, %rd12; @%p2 bra $L__BB0_2; $L__BB0_3: ret; }
.visible .entry test_scale( .param .u64 test_scale_param_0, .param .u64 test_scale_param_1,
.param .f32 test_scale_param_2 ) { .reg .pred %p<3>; .reg .b32 %r<4>; .reg .f32 %f<4>; .reg .b64 %rd<20>;
ld.param.u64 %rd12, [test_scale_param_1]; mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd14, %r1, 256; mov.u32 %r2, %tid.x;
cvt.u64.u32 %rd3, %r2; add.s64 %rd19, %rd14, %rd3; setp.ge.u64 %p1, %rd19, %rd12; @%p1 bra $L__BB1_3;
ld.param.f32 %f1, [test_scale_param_2]; ld.param.u64 %rd13, [test_scale_param_0]; cvta.to.global.u64 %rd1, %rd13;
cvt.u64.u32 %rd2, %r1; mov.u32 %r3, %nctaid.x; mul.wide.u32 %rd5, %r3, 256; shl.b64 %rd15, %rd2, 10;
shl.b64 %rd16, %rd3, 2; add.s64 %rd17, %rd15, %rd16; add.s64 %rd18, %rd1, %rd17; mul.wide.u32 %rd7, %r3, 1024;
$L__BB1_2: .pragma "nounroll"; ld.global.f32 %f2, [%rd18]; mul.f32 %f3, %f2, %f1; st.global.f32 [%rd18], %f3;
add.s64 %rd19, %rd19, %rd5; add.s64 %rd18, %rd18, %rd7; setp.lt.u64 %p2, %rd19, %rd12; @%p2 bra $L__BB1_2; $L__BB1_3:
ret; } .visible .entry test_wait( .param .u64 test_wait_param_0 ) { .reg .pred %p<2>; .reg .b32 %r<2>;
.reg .b64 %rd<3>; ld.param.u64 %rd2, [test_wait_param_0]; $L__BB2_1: .pragma "nounroll";
ld.acquire.sys.global.u32 %r1, [%rd2]; setp.eq.s32 %p1, %r1, 0; @%p1 bra $L__BB2_1; ret; }
)ptx";

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATED_CUDA_PROGRAM_KERNELS_PTX_H_
