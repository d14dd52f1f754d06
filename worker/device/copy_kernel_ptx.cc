// Made by scripts/copy_kernel.py from copy_kernel.cu. Do not change it by hand.
#include "worker/device/copy_kernel_ptx.h"

namespace shoal {

const char kCopyKernelPtx[] = R"ptx(
.version 6.3
.target sm_70
.address_size 64
.visible .entry shoal_copy(
.param .u64 shoal_copy_param_0,
.param .u64 shoal_copy_param_1,
.param .u64 shoal_copy_param_2
)
{ .local .align 16 .b8 __local_depot0[48]; .reg .b64 %SP; .reg .b64 %SPL; .reg .pred %p<81>; .reg .b16 %rs<32>;
.reg .b32 %r<88>; .reg .b64 %rd<340>; .shared .align 8 .u32 _ZZ10shoal_copyE5state_$_0;
.shared .align 8 .u64 _ZZ10shoal_copyE5state_$_1; mov.u64 %SPL, __local_depot0; cvta.local.u64 %SP, %SPL;
ld.param.u64 %rd181, [shoal_copy_param_2]; ld.param.u64 %rd180, [shoal_copy_param_1];
ld.param.u64 %rd179, [shoal_copy_param_0]; cvta.to.global.u64 %rd1, %rd179; mov.u32 %r28, %tid.x;
mov.u32 %r29, %ctaid.x; cvt.u64.u32 %rd2, %r29; add.s64 %rd185, %rd179, 8; cvt.u64.u32 %rd4, %r28;
add.s64 %rd5, %rd4, 768; add.s64 %rd182, %rd1, 192; cvta.global.u64 %rd6, %rd182; mul.wide.u32 %rd7, %r28, 4;
mul.wide.u32 %rd8, %r28, 2; add.s64 %rd9, %rd8, 1024; add.s64 %rd10, %rd7, 2048; mul.wide.u32 %rd183, %r28, 16;
add.s64 %rd11, %rd183, 8192; cvt.u32.u64 %r30, %rd4; setp.ne.s32 %p1, %r30, 0; mov.pred %p55, 0; mov.u16 %rs7, 32256;
mov.u64 %rd282, %rd2; bra.uni $L__BB0_1; $L__BB0_22: and.b64 %rd263, %rd17, -16; add.s64 %rd264, %rd15, %rd263;
add.s64 %rd265, %rd264, %rd4; add.s64 %rd266, %rd16, %rd263; add.s64 %rd267, %rd266, %rd4; ld.u8 %rs29, [%rd267];
st.u8 [%rd265], %rs29; $L__BB0_98: membar.sys; bar.sync 0; @%p1 bra $L__BB0_100; bra.uni $L__BB0_99; $L__BB0_100:
add.s64 %rd282, %rd282, 8; $L__BB0_1: @%p1 bra $L__BB0_4; bra.uni $L__BB0_2; $L__BB0_3: nanosleep.u32 500; $L__BB0_2:
ld.acquire.sys.global.u64 %rd184, [%rd185]; st.shared.u64 [_ZZ10shoal_copyE5state_$_1], %rd184;
ld.acquire.sys.global.u64 %rd186, [%rd179]; setp.lt.u64 %p2, %rd282, %rd186; selp.u32 %r31, 1, 0, %p2;
st.shared.u32 [_ZZ10shoal_copyE5state_$_0], %r31; ld.shared.u64 %rd188, [_ZZ10shoal_copyE5state_$_1];
setp.ne.s64 %p3, %rd188, 0; or.pred %p4, %p2, %p3; @%p4 bra $L__BB0_4; bra.uni $L__BB0_3; $L__BB0_4: bar.sync 0;
ld.shared.u32 %r32, [_ZZ10shoal_copyE5state_$_0]; setp.ne.s32 %p5, %r32, 0; @%p5 bra $L__BB0_12; bra.uni $L__BB0_5;
$L__BB0_12: and.b64 %rd13, %rd282, 63; shl.b64 %rd190, %rd13, 5; add.s64 %rd14, %rd1, %rd190;
ld.global.u32 %r1, [%rd14+728]; setp.ne.s32 %p6, %r1, 0; @%p6 bra $L__BB0_69; bra.uni $L__BB0_13; $L__BB0_69:
ld.global.u32 %r33, [%rd14+732]; setp.eq.s32 %p7, %r33, 0; ld.global.u64 %rd148, [%rd14+720];
setp.le.u64 %p79, %rd148, %rd4; @%p7 bra $L__BB0_81; @%p79 bra $L__BB0_98; ld.global.u64 %rd149, [%rd14+704];
ld.global.u64 %rd150, [%rd14+712]; add.s64 %rd332, %rd149, %rd7; add.s64 %rd331, %rd150, %rd8;
setp.ne.s32 %p9, %r1, 1; mov.u64 %rd333, %rd4; bra.uni $L__BB0_72; $L__BB0_73: shl.b32 %r46, %r2, 16;
and.b32 %r47, %r2, 32767; setp.gt.u32 %p14, %r47, 32640; selp.b32 %r84, 2143289344, %r46, %p14; $L__BB0_80:
st.u32 [%rd332], %r84; add.s64 %rd333, %rd333, 256; add.s64 %rd332, %rd332, 1024; add.s64 %rd331, %rd331, 512;
setp.lt.u64 %p15, %rd333, %rd148; @%p15 bra $L__BB0_72; bra.uni $L__BB0_98; $L__BB0_72: ld.u16 %rs1, [%rd331];
cvt.u32.u16 %r2, %rs1; @%p9 bra $L__BB0_74; bra.uni $L__BB0_73; $L__BB0_74: cvt.s32.s16 %r34, %rs1;
and.b32 %r84, %r34, -2147483648; bfe.u32 %r82, %r2, 10, 5; and.b32 %r83, %r2, 1023; setp.eq.s32 %p10, %r82, 0;
@%p10 bra $L__BB0_77; setp.ne.s32 %p11, %r82, 31; @%p11 bra $L__BB0_79; setp.eq.s32 %p13, %r83, 0;
or.b32 %r41, %r84, 2139095040; selp.b32 %r84, %r41, 2143289344, %p13; bra.uni $L__BB0_80; $L__BB0_77:
setp.eq.s32 %p12, %r83, 0; @%p12 bra $L__BB0_80; clz.b32 %r35, %r83; xor.b32 %r36, %r35, 31; mov.b32 %r37, 10;
sub.s32 %r38, %r37, %r36; shl.b32 %r39, %r2, %r38; mov.b32 %r40, 22; sub.s32 %r82, %r40, %r35;
and.b32 %r83, %r39, 1022; $L__BB0_79: shl.b32 %r42, %r82, 23; shl.b32 %r43, %r83, 13; or.b32 %r44, %r42, %r43;
add.s32 %r45, %r44, 939524096; or.b32 %r84, %r45, %r84; bra.uni $L__BB0_80; $L__BB0_99: shl.b64 %rd268, %rd13, 3;
add.s64 %rd269, %rd6, %rd268; add.s64 %rd270, %rd282, 1; st.release.sys.global.u64 [%rd269], %rd270;
bra.uni $L__BB0_100; $L__BB0_13: ld.global.u64 %rd15, [%rd14+704]; ld.global.u64 %rd16, [%rd14+712];
ld.global.u32 %r68, [%rd14+732]; setp.eq.s32 %p29, %r68, 0; ld.global.u64 %rd17, [%rd14+720];
or.b64 %rd18, %rd16, %rd15; and.b64 %rd19, %rd18, 15; setp.ne.s64 %p80, %rd19, 0; add.u64 %rd279, %SP, 0;
add.u64 %rd280, %SP, 16; add.u64 %rd281, %SP, 32; @%p29 bra $L__BB0_42; @%p80 bra $L__BB0_23; bra.uni $L__BB0_15;
$L__BB0_23: or.b64 %rd40, %rd17, %rd18; and.b64 %rd191, %rd40, 3; setp.ne.s64 %p31, %rd191, 0; @%p31 bra $L__BB0_30;
bra.uni $L__BB0_24; $L__BB0_30: and.b64 %rd192, %rd40, 1; setp.eq.b64 %p32, %rd192, 1; xor.pred %p34, %p32, %p55;
@%p34 bra $L__BB0_37; shr.u64 %rd59, %rd17, 1; setp.ge.u64 %p39, %rd5, %rd59; mov.u64 %rd303, %rd4;
@%p39 bra $L__BB0_34; add.s64 %rd299, %rd15, %rd9; add.s64 %rd298, %rd16, %rd9; mov.u64 %rd300, %rd4; $L__BB0_33:
ld.u16 %rs14, [%rd298+-1024]; ld.u16 %rs15, [%rd298+-512]; ld.u16 %rs16, [%rd298]; ld.u16 %rs17, [%rd298+512];
st.u16 [%rd299+-1024], %rs14; st.u16 [%rd299+-512], %rs15; st.u16 [%rd299], %rs16; st.u16 [%rd299+512], %rs17;
add.s64 %rd303, %rd300, 1024; add.s64 %rd299, %rd299, 2048; add.s64 %rd298, %rd298, 2048;
add.s64 %rd198, %rd300, 1792; setp.lt.u64 %p40, %rd198, %rd59; mov.u64 %rd300, %rd303; @%p40 bra $L__BB0_33;
$L__BB0_34: setp.ge.u64 %p41, %rd303, %rd59; @%p41 bra $L__BB0_98; shl.b64 %rd199, %rd303, 1;
add.s64 %rd302, %rd15, %rd199; add.s64 %rd301, %rd16, %rd199; $L__BB0_36: ld.u16 %rs18, [%rd301];
st.u16 [%rd302], %rs18; add.s64 %rd303, %rd303, 256; add.s64 %rd302, %rd302, 512; add.s64 %rd301, %rd301, 512;
setp.lt.u64 %p42, %rd303, %rd59; @%p42 bra $L__BB0_36; bra.uni $L__BB0_98; $L__BB0_81: @%p79 bra $L__BB0_98;
ld.global.u64 %rd159, [%rd14+712]; ld.global.u64 %rd160, [%rd14+704]; add.s64 %rd335, %rd159, %rd8;
add.s64 %rd334, %rd160, %rd7; setp.ne.s32 %p17, %r1, 1; mov.u64 %rd336, %rd4; bra.uni $L__BB0_83; $L__BB0_84:
setp.gt.u32 %p27, %r81, 2139095040; selp.b32 %r64, 2143289344, %r14, %p27; bfe.u32 %r65, %r64, 16, 1;
add.s32 %r66, %r64, %r65; add.s32 %r67, %r66, 32767; { .reg .b16 tmp; mov.b32 {tmp, %rs31}, %r67; } $L__BB0_97:
st.u16 [%rd335], %rs31; add.s64 %rd336, %rd336, 256; add.s64 %rd335, %rd335, 512; add.s64 %rd334, %rd334, 1024;
setp.lt.u64 %p28, %rd336, %rd148; @%p28 bra $L__BB0_83; bra.uni $L__BB0_98; $L__BB0_83: ld.u32 %r14, [%rd334];
and.b32 %r81, %r14, 2147483647; @%p17 bra $L__BB0_85; bra.uni $L__BB0_84; $L__BB0_85:
setp.gt.u32 %p18, %r81, 2139095040; mov.u16 %rs31, %rs7; @%p18 bra $L__BB0_97; shr.u32 %r48, %r14, 16;
and.b32 %r15, %r48, 32768; setp.lt.u32 %p19, %r81, 1199566848; @%p19 bra $L__BB0_88; cvt.u16.u32 %rs8, %r15;
or.b16 %rs31, %rs8, 31744; bra.uni $L__BB0_97; $L__BB0_88: setp.gt.u32 %p20, %r81, 855638016; @%p20 bra $L__BB0_90;
cvt.u16.u32 %rs31, %r15; bra.uni $L__BB0_97; $L__BB0_90: and.b32 %r49, %r14, 8388607; or.b32 %r17, %r49, 8388608;
shr.u32 %r18, %r81, 23; setp.lt.u32 %p21, %r81, 947912704; @%p21 bra $L__BB0_92; shl.b32 %r52, %r18, 10;
bfe.u32 %r53, %r14, 13, 10; or.b32 %r54, %r52, %r53; add.s32 %r87, %r54, -114688; mov.b32 %r86, 13;
bra.uni $L__BB0_93; $L__BB0_92: mov.b32 %r50, 126; sub.s32 %r86, %r50, %r18; shr.u32 %r87, %r17, %r86; $L__BB0_93:
mov.b32 %r55, -1; shl.b32 %r56, %r55, %r86; not.b32 %r57, %r56; and.b32 %r24, %r17, %r57; add.s32 %r58, %r86, -1;
mov.b32 %r59, 1; shl.b32 %r25, %r59, %r58; setp.gt.u32 %p22, %r24, %r25; @%p22 bra $L__BB0_95;
setp.ne.s32 %p23, %r24, %r25; and.b32 %r61, %r87, 1; setp.eq.b32 %p24, %r61, 1; not.pred %p25, %p24;
or.pred %p26, %p23, %p25; @%p26 bra $L__BB0_96; $L__BB0_95: add.s32 %r87, %r87, 1; $L__BB0_96:
or.b32 %r62, %r87, %r15; cvt.u16.u32 %rs31, %r62; bra.uni $L__BB0_97; $L__BB0_42: @%p80 bra $L__BB0_50;
bra.uni $L__BB0_43; $L__BB0_50: or.b64 %rd104, %rd17, %rd18; and.b64 %rd227, %rd104, 3; setp.ne.s64 %p53, %rd227, 0;
@%p53 bra $L__BB0_57; bra.uni $L__BB0_51; $L__BB0_57: and.b64 %rd228, %rd104, 1; setp.eq.b64 %p54, %rd228, 1;
xor.pred %p56, %p54, %p55; @%p56 bra $L__BB0_64; shr.u64 %rd123, %rd17, 1; setp.ge.u64 %p61, %rd5, %rd123;
mov.u64 %rd327, %rd4; @%p61 bra $L__BB0_61; add.s64 %rd323, %rd16, %rd9; add.s64 %rd322, %rd15, %rd9;
mov.u64 %rd324, %rd4; $L__BB0_60: ld.u16 %rs24, [%rd322+-1024]; ld.u16 %rs25, [%rd322+-512]; ld.u16 %rs26, [%rd322];
ld.u16 %rs27, [%rd322+512]; st.u16 [%rd323+-1024], %rs24; st.u16 [%rd323+-512], %rs25; st.u16 [%rd323], %rs26;
st.u16 [%rd323+512], %rs27; add.s64 %rd327, %rd324, 1024; add.s64 %rd323, %rd323, 2048; add.s64 %rd322, %rd322, 2048;
add.s64 %rd234, %rd324, 1792; setp.lt.u64 %p62, %rd234, %rd123; mov.u64 %rd324, %rd327; @%p62 bra $L__BB0_60;
$L__BB0_61: setp.ge.u64 %p63, %rd327, %rd123; @%p63 bra $L__BB0_98; shl.b64 %rd235, %rd327, 1;
add.s64 %rd326, %rd16, %rd235; add.s64 %rd325, %rd15, %rd235; $L__BB0_63: ld.u16 %rs28, [%rd325];
st.u16 [%rd326], %rs28; add.s64 %rd327, %rd327, 256; add.s64 %rd326, %rd326, 512; add.s64 %rd325, %rd325, 512;
setp.lt.u64 %p64, %rd327, %rd123; @%p64 bra $L__BB0_63; bra.uni $L__BB0_98; $L__BB0_15: shr.u64 %rd20, %rd17, 4;
setp.ge.u64 %p47, %rd5, %rd20; mov.u64 %rd289, %rd4; @%p47 bra $L__BB0_18; add.s64 %rd285, %rd15, %rd11;
add.s64 %rd284, %rd16, %rd11; mov.u64 %rd286, %rd4; $L__BB0_17: or.b64 %rd203, %rd279, 8;
ld.u64 %rd204, [%rd284+-4088]; st.u64 [%rd203], %rd204; ld.u64 %rd205, [%rd284+-4096]; st.u64 [%SP+0], %rd205;
or.b64 %rd207, %rd280, 8; ld.u64 %rd208, [%rd284+8]; st.u64 [%rd207], %rd208; ld.u64 %rd209, [%rd284];
st.u64 [%SP+16], %rd209; or.b64 %rd211, %rd281, 8; ld.u64 %rd212, [%rd284+4104]; st.u64 [%rd211], %rd212;
ld.u64 %rd213, [%rd284+4096]; st.u64 [%SP+32], %rd213; ld.u64 %rd214, [%rd284+-8184]; st.u64 [%rd285+-8184], %rd214;
ld.u64 %rd215, [%rd284+-8192]; st.u64 [%rd285+-8192], %rd215; ld.u64 %rd216, [%rd203]; st.u64 [%rd285+-4088], %rd216;
ld.u64 %rd217, [%SP+0]; st.u64 [%rd285+-4096], %rd217; ld.u64 %rd218, [%rd207]; st.u64 [%rd285+8], %rd218;
ld.u64 %rd219, [%SP+16]; st.u64 [%rd285], %rd219; ld.u64 %rd220, [%rd211]; st.u64 [%rd285+4104], %rd220;
ld.u64 %rd221, [%SP+32]; st.u64 [%rd285+4096], %rd221; add.s64 %rd289, %rd286, 1024; add.s64 %rd285, %rd285, 16384;
add.s64 %rd284, %rd284, 16384; add.s64 %rd222, %rd286, 1792; setp.lt.u64 %p48, %rd222, %rd20; mov.u64 %rd286, %rd289;
@%p48 bra $L__BB0_17; $L__BB0_18: setp.ge.u64 %p49, %rd289, %rd20; @%p49 bra $L__BB0_21; shl.b64 %rd223, %rd289, 4;
add.s64 %rd288, %rd15, %rd223; add.s64 %rd287, %rd16, %rd223; $L__BB0_20: ld.u64 %rd224, [%rd287+8];
st.u64 [%rd288+8], %rd224; ld.u64 %rd225, [%rd287]; st.u64 [%rd288], %rd225; add.s64 %rd289, %rd289, 256;
add.s64 %rd288, %rd288, 4096; add.s64 %rd287, %rd287, 4096; setp.lt.u64 %p50, %rd289, %rd20; @%p50 bra $L__BB0_20;
$L__BB0_21: and.b64 %rd226, %rd17, 15; setp.gt.u64 %p51, %rd226, %rd4; @%p51 bra $L__BB0_22; bra.uni $L__BB0_98;
$L__BB0_24: shr.u64 %rd41, %rd17, 2; setp.ge.u64 %p43, %rd5, %rd41; mov.u64 %rd296, %rd4; @%p43 bra $L__BB0_27;
add.s64 %rd292, %rd15, %rd10; add.s64 %rd291, %rd16, %rd10; mov.u64 %rd293, %rd4; $L__BB0_26:
ld.u32 %r69, [%rd291+-2048]; ld.u32 %r70, [%rd291+-1024]; ld.u32 %r71, [%rd291]; ld.u32 %r72, [%rd291+1024];
st.u32 [%rd292+-2048], %r69; st.u32 [%rd292+-1024], %r70; st.u32 [%rd292], %r71; st.u32 [%rd292+1024], %r72;
add.s64 %rd296, %rd293, 1024; add.s64 %rd292, %rd292, 4096; add.s64 %rd291, %rd291, 4096;
add.s64 %rd200, %rd293, 1792; setp.lt.u64 %p44, %rd200, %rd41; mov.u64 %rd293, %rd296; @%p44 bra $L__BB0_26;
$L__BB0_27: setp.ge.u64 %p45, %rd296, %rd41; @%p45 bra $L__BB0_98; shl.b64 %rd201, %rd296, 2;
add.s64 %rd295, %rd15, %rd201; add.s64 %rd294, %rd16, %rd201; $L__BB0_29: ld.u32 %r73, [%rd294];
st.u32 [%rd295], %r73; add.s64 %rd296, %rd296, 256; add.s64 %rd295, %rd295, 1024; add.s64 %rd294, %rd294, 1024;
setp.lt.u64 %p46, %rd296, %rd41; @%p46 bra $L__BB0_29; bra.uni $L__BB0_98; $L__BB0_43: shr.u64 %rd84, %rd17, 4;
setp.ge.u64 %p69, %rd5, %rd84; mov.u64 %rd313, %rd4; @%p69 bra $L__BB0_46; add.s64 %rd309, %rd16, %rd11;
add.s64 %rd308, %rd15, %rd11; mov.u64 %rd310, %rd4; $L__BB0_45: or.b64 %rd239, %rd279, 8;
ld.u64 %rd240, [%rd308+-4088]; st.u64 [%rd239], %rd240; ld.u64 %rd241, [%rd308+-4096]; st.u64 [%SP+0], %rd241;
or.b64 %rd243, %rd280, 8; ld.u64 %rd244, [%rd308+8]; st.u64 [%rd243], %rd244; ld.u64 %rd245, [%rd308];
st.u64 [%SP+16], %rd245; or.b64 %rd247, %rd281, 8; ld.u64 %rd248, [%rd308+4104]; st.u64 [%rd247], %rd248;
ld.u64 %rd249, [%rd308+4096]; st.u64 [%SP+32], %rd249; ld.u64 %rd250, [%rd308+-8184]; st.u64 [%rd309+-8184], %rd250;
ld.u64 %rd251, [%rd308+-8192]; st.u64 [%rd309+-8192], %rd251; ld.u64 %rd252, [%rd239]; st.u64 [%rd309+-4088], %rd252;
ld.u64 %rd253, [%SP+0]; st.u64 [%rd309+-4096], %rd253; ld.u64 %rd254, [%rd243]; st.u64 [%rd309+8], %rd254;
ld.u64 %rd255, [%SP+16]; st.u64 [%rd309], %rd255; ld.u64 %rd256, [%rd247]; st.u64 [%rd309+4104], %rd256;
ld.u64 %rd257, [%SP+32]; st.u64 [%rd309+4096], %rd257; add.s64 %rd313, %rd310, 1024; add.s64 %rd309, %rd309, 16384;
add.s64 %rd308, %rd308, 16384; add.s64 %rd258, %rd310, 1792; setp.lt.u64 %p70, %rd258, %rd84; mov.u64 %rd310, %rd313;
@%p70 bra $L__BB0_45; $L__BB0_46: setp.ge.u64 %p71, %rd313, %rd84; @%p71 bra $L__BB0_49; shl.b64 %rd259, %rd313, 4;
add.s64 %rd312, %rd16, %rd259; add.s64 %rd311, %rd15, %rd259; $L__BB0_48: ld.u64 %rd260, [%rd311+8];
st.u64 [%rd312+8], %rd260; ld.u64 %rd261, [%rd311]; st.u64 [%rd312], %rd261; add.s64 %rd313, %rd313, 256;
add.s64 %rd312, %rd312, 4096; add.s64 %rd311, %rd311, 4096; setp.lt.u64 %p72, %rd313, %rd84; @%p72 bra $L__BB0_48;
$L__BB0_49: mov.u64 %rd103, %rd15; and.b64 %rd262, %rd17, 15; setp.gt.u64 %p73, %rd262, %rd4; mov.u64 %rd15, %rd16;
mov.u64 %rd16, %rd103; @%p73 bra $L__BB0_22; bra.uni $L__BB0_98; $L__BB0_37: setp.ge.u64 %p35, %rd5, %rd17;
mov.u64 %rd306, %rd4; @%p35 bra $L__BB0_40; add.s64 %rd77, %rd15, 512; add.s64 %rd78, %rd16, 768;
mov.u64 %rd305, %rd4; $L__BB0_39: add.s64 %rd193, %rd78, %rd305; ld.u8 %rs9, [%rd193+-768];
ld.u8 %rs10, [%rd193+-512]; ld.u8 %rs11, [%rd193+-256]; ld.u8 %rs12, [%rd193]; add.s64 %rd194, %rd77, %rd305;
st.u8 [%rd194+-512], %rs9; st.u8 [%rd194+-256], %rs10; st.u8 [%rd194], %rs11; st.u8 [%rd194+256], %rs12;
add.s64 %rd306, %rd305, 1024; add.s64 %rd195, %rd305, 1792; setp.lt.u64 %p36, %rd195, %rd17; mov.u64 %rd305, %rd306;
@%p36 bra $L__BB0_39; $L__BB0_40: setp.ge.u64 %p37, %rd306, %rd17; @%p37 bra $L__BB0_98; $L__BB0_41:
add.s64 %rd196, %rd16, %rd306; ld.u8 %rs13, [%rd196]; add.s64 %rd197, %rd15, %rd306; st.u8 [%rd197], %rs13;
add.s64 %rd306, %rd306, 256; setp.lt.u64 %p38, %rd306, %rd17; @%p38 bra $L__BB0_41; bra.uni $L__BB0_98; $L__BB0_51:
shr.u64 %rd105, %rd17, 2; setp.ge.u64 %p65, %rd5, %rd105; mov.u64 %rd320, %rd4; @%p65 bra $L__BB0_54;
add.s64 %rd316, %rd16, %rd10; add.s64 %rd315, %rd15, %rd10; mov.u64 %rd317, %rd4; $L__BB0_53:
ld.u32 %r74, [%rd315+-2048]; ld.u32 %r75, [%rd315+-1024]; ld.u32 %r76, [%rd315]; ld.u32 %r77, [%rd315+1024];
st.u32 [%rd316+-2048], %r74; st.u32 [%rd316+-1024], %r75; st.u32 [%rd316], %r76; st.u32 [%rd316+1024], %r77;
add.s64 %rd320, %rd317, 1024; add.s64 %rd316, %rd316, 4096; add.s64 %rd315, %rd315, 4096;
add.s64 %rd236, %rd317, 1792; setp.lt.u64 %p66, %rd236, %rd105; mov.u64 %rd317, %rd320; @%p66 bra $L__BB0_53;
$L__BB0_54: setp.ge.u64 %p67, %rd320, %rd105; @%p67 bra $L__BB0_98; shl.b64 %rd237, %rd320, 2;
add.s64 %rd319, %rd16, %rd237; add.s64 %rd318, %rd15, %rd237; $L__BB0_56: ld.u32 %r78, [%rd318];
st.u32 [%rd319], %r78; add.s64 %rd320, %rd320, 256; add.s64 %rd319, %rd319, 1024; add.s64 %rd318, %rd318, 1024;
setp.lt.u64 %p68, %rd320, %rd105; @%p68 bra $L__BB0_56; bra.uni $L__BB0_98; $L__BB0_64: setp.ge.u64 %p57, %rd5, %rd17;
mov.u64 %rd330, %rd4; @%p57 bra $L__BB0_67; add.s64 %rd141, %rd16, 512; add.s64 %rd142, %rd15, 768;
mov.u64 %rd329, %rd4; $L__BB0_66: add.s64 %rd229, %rd142, %rd329; ld.u8 %rs19, [%rd229+-768];
ld.u8 %rs20, [%rd229+-512]; ld.u8 %rs21, [%rd229+-256]; ld.u8 %rs22, [%rd229]; add.s64 %rd230, %rd141, %rd329;
st.u8 [%rd230+-512], %rs19; st.u8 [%rd230+-256], %rs20; st.u8 [%rd230], %rs21; st.u8 [%rd230+256], %rs22;
add.s64 %rd330, %rd329, 1024; add.s64 %rd231, %rd329, 1792; setp.lt.u64 %p58, %rd231, %rd17; mov.u64 %rd329, %rd330;
@%p58 bra $L__BB0_66; $L__BB0_67: setp.ge.u64 %p59, %rd330, %rd17; @%p59 bra $L__BB0_98; $L__BB0_68:
add.s64 %rd232, %rd15, %rd330; ld.u8 %rs23, [%rd232]; add.s64 %rd233, %rd16, %rd330; st.u8 [%rd233], %rs23;
add.s64 %rd330, %rd330, 256; setp.lt.u64 %p60, %rd330, %rd17; @%p60 bra $L__BB0_68; bra.uni $L__BB0_98; $L__BB0_5:
ld.shared.u64 %rd271, [_ZZ10shoal_copyE5state_$_1]; setp.eq.s64 %p75, %rd271, 2; @%p75 bra $L__BB0_6;
bra.uni $L__BB0_9; $L__BB0_6: shl.b64 %rd272, %rd2, 8; add.s64 %rd339, %rd272, %rd4; setp.ge.u64 %p76, %rd339, %rd181;
@%p76 bra $L__BB0_9; cvta.to.global.u64 %rd174, %rd180; mov.u16 %rs30, 255; $L__BB0_8: add.s64 %rd273, %rd174, %rd339;
st.global.u8 [%rd273], %rs30; add.s64 %rd339, %rd339, 2048; setp.lt.u64 %p77, %rd339, %rd181; @%p77 bra $L__BB0_8;
$L__BB0_9: membar.sys; bar.sync 0; @%p1 bra $L__BB0_11; add.s64 %rd274, %rd1, 128; cvta.global.u64 %rd275, %rd274;
shl.b64 %rd276, %rd2, 3; add.s64 %rd277, %rd275, %rd276; mov.u64 %rd278, 1;
st.release.sys.global.u64 [%rd277], %rd278; $L__BB0_11: ret; }
)ptx";

}  // namespace shoal
