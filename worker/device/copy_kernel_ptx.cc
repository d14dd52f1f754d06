// Made by scripts/copy_kernel.py from copy_kernel.cu. Do not change it by hand.
#include "worker/device/copy_kernel_ptx.h"

namespace shoal {

const char kCopyKernelPtx[] = R"ptx(
.version 6.3
.target sm_70
.address_size 64
.weak .func _ZN5shoal6device8CarryOutERKNS0_11CopyCommandE
(
.param .b64 _ZN5shoal6device8CarryOutERKNS0_11CopyCommandE_param_0
)
;
.weak .func _ZN5shoal6device15ConvertElementsItjTnPFT_T0_EXadL_ZNS0_15NarrowToFloat16EjEEEEvPS2_PKS3_y
(
.param .b64 _ZN5shoal6device15ConvertElementsItjTnPFT_T0_EXadL_ZNS0_15NarrowToFloat16EjEEEEvPS2_PKS3_y_param_0,
.param .b64 _ZN5shoal6device15ConvertElementsItjTnPFT_T0_EXadL_ZNS0_15NarrowToFloat16EjEEEEvPS2_PKS3_y_param_1,
.param .b64 _ZN5shoal6device15ConvertElementsItjTnPFT_T0_EXadL_ZNS0_15NarrowToFloat16EjEEEEvPS2_PKS3_y_param_2
)
;
.visible .entry shoal_copy(
.param .u64 shoal_copy_param_0,
.param .u64 shoal_copy_param_1,
.param .u64 shoal_copy_param_2
)
{ .reg .pred %p<20>; .reg .b16 %rs<3>; .reg .b32 %r<11>; .reg .b64 %rd<55>;
.shared .align 4 .u32 _ZZ10shoal_copyE5state_$_0; .shared .align 4 .u32 _ZZ10shoal_copyE5state_$_1;
ld.param.u64 %rd23, [shoal_copy_param_2]; ld.param.u64 %rd22, [shoal_copy_param_1];
ld.param.u64 %rd29, [shoal_copy_param_0]; cvta.to.global.u64 %rd1, %rd29; mov.u32 %r1, %tid.x; mov.u32 %r4, %ctaid.x;
cvt.u64.u32 %rd2, %r4; add.s64 %rd39, %rd29, 8; add.s64 %rd24, %rd1, 768; cvta.global.u64 %rd4, %rd24;
add.s64 %rd25, %rd1, 192; cvta.global.u64 %rd5, %rd25; setp.ne.s32 %p1, %r1, 0; mov.u64 %rd51, %rd2;
bra.uni $L__BB0_1; $L__BB0_16: add.s64 %rd51, %rd51, 8; $L__BB0_1: .pragma "nounroll"; @%p1 bra $L__BB0_4;
bra.uni $L__BB0_2; $L__BB0_3: nanosleep.u32 500; $L__BB0_2: ld.acquire.sys.global.u64 %rd26, [%rd39];
ld.acquire.sys.global.u64 %rd28, [%rd29]; setp.lt.u64 %p2, %rd51, %rd28; setp.ne.s64 %p3, %rd26, 2;
and.pred %p4, %p3, %p2; selp.u32 %r5, 1, 0, %p4; st.shared.u32 [_ZZ10shoal_copyE5state_$_0], %r5;
setp.ne.s64 %p5, %rd26, 0; or.pred %p6, %p5, %p2; @%p6 bra $L__BB0_4; bra.uni $L__BB0_3; $L__BB0_4: bar.sync 0;
ld.shared.u32 %r6, [_ZZ10shoal_copyE5state_$_0]; setp.ne.s32 %p7, %r6, 0; @%p7 bra $L__BB0_14; bra.uni $L__BB0_5;
$L__BB0_14: and.b64 %rd30, %rd51, 63; shl.b64 %rd31, %rd30, 5; add.s64 %rd32, %rd4, %rd31; { .param .b64 param0;
st.param.b64 [param0+0], %rd32; call.uni _ZN5shoal6device8CarryOutERKNS0_11CopyCommandE, ( param0 ); } membar.sys;
bar.sync 0; @%p1 bra $L__BB0_16; shl.b64 %rd33, %rd30, 3; add.s64 %rd34, %rd5, %rd33; add.s64 %rd35, %rd51, 1;
st.release.sys.global.u64 [%rd34], %rd35; bra.uni $L__BB0_16; $L__BB0_5: setp.eq.s32 %p9, %r1, 0; @%p9 bra $L__BB0_6;
bra.uni $L__BB0_9; $L__BB0_6: add.s64 %rd37, %rd29, 704; atom.acq_rel.gpu.global.add.u64 %rd36, [%rd37], 1;
setp.ne.s64 %p10, %rd36, 7; mov.b32 %r10, 0; @%p10 bra $L__BB0_8; ld.acquire.sys.global.u64 %rd38, [%rd39];
setp.eq.s64 %p11, %rd38, 2; selp.u32 %r10, 1, 0, %p11; $L__BB0_8: st.shared.u32 [_ZZ10shoal_copyE5state_$_1], %r10;
$L__BB0_9: bar.sync 0; ld.shared.u32 %r8, [_ZZ10shoal_copyE5state_$_1]; setp.eq.s32 %p12, %r8, 0;
@%p12 bra $L__BB0_22; and.b64 %rd40, %rd22, 15; setp.eq.s64 %p13, %rd40, 0; cvt.u64.u32 %rd52, %r1;
@%p13 bra $L__BB0_17; setp.ge.u64 %p14, %rd52, %rd23; @%p14 bra $L__BB0_22; mov.u16 %rs1, 255; $L__BB0_13:
.pragma "nounroll"; add.s64 %rd41, %rd22, %rd52; st.u8 [%rd41], %rs1; add.s64 %rd52, %rd52, 256;
setp.lt.u64 %p15, %rd52, %rd23; @%p15 bra $L__BB0_13; bra.uni $L__BB0_22; $L__BB0_17: shr.u64 %rd13, %rd23, 4;
setp.le.u64 %p16, %rd13, %rd52; @%p16 bra $L__BB0_20; shl.b64 %rd42, %rd52, 4; add.s64 %rd53, %rd22, %rd42;
mov.b32 %r9, -1; mov.u64 %rd54, %rd52; $L__BB0_19: .pragma "nounroll"; st.v4.u32 [%rd53], {%r9, %r9, %r9, %r9};
add.s64 %rd54, %rd54, 256; add.s64 %rd53, %rd53, 4096; setp.lt.u64 %p17, %rd54, %rd13; @%p17 bra $L__BB0_19;
$L__BB0_20: and.b64 %rd43, %rd23, 15; setp.le.u64 %p18, %rd43, %rd52; @%p18 bra $L__BB0_22; and.b64 %rd44, %rd23, -16;
add.s64 %rd45, %rd22, %rd44; add.s64 %rd19, %rd45, %rd52; mov.u16 %rs2, 255; st.u8 [%rd19], %rs2; $L__BB0_22:
membar.sys; bar.sync 0; @%p1 bra $L__BB0_24; add.s64 %rd46, %rd1, 128; cvta.global.u64 %rd47, %rd46;
shl.b64 %rd48, %rd2, 3; add.s64 %rd49, %rd47, %rd48; mov.u64 %rd50, 1; st.release.sys.global.u64 [%rd49], %rd50;
$L__BB0_24: ret; } .weak .func _ZN5shoal6device8CarryOutERKNS0_11CopyCommandE(
.param .b64 _ZN5shoal6device8CarryOutERKNS0_11CopyCommandE_param_0 ) { .reg .pred %p<227>; .reg .b16 %rs<131>;
.reg .b32 %r<760>; .reg .b64 %rd<536>; ld.param.u64 %rd286, [_ZN5shoal6device8CarryOutERKNS0_11CopyCommandE_param_0];
ld.v2.u32 {%r112, %r1}, [%rd286+24]; ld.u64 %rd1, [%rd286]; ld.u64 %rd2, [%rd286+8]; ld.u64 %rd3, [%rd286+16];
setp.eq.s32 %p1, %r112, 1; @%p1 bra $L__BB1_59; setp.ne.s32 %p2, %r112, 0; @%p2 bra $L__BB1_90;
setp.eq.s32 %p72, %r1, 0; or.b64 %rd4, %rd2, %rd1; and.b64 %rd5, %rd4, 15; @%p72 bra $L__BB1_31;
setp.ne.s64 %p73, %rd5, 0; @%p73 bra $L__BB1_12; bra.uni $L__BB1_4; $L__BB1_12: or.b64 %rd27, %rd3, %rd4;
and.b64 %rd349, %rd27, 3; setp.ne.s64 %p74, %rd349, 0; @%p74 bra $L__BB1_19; bra.uni $L__BB1_13; $L__BB1_19:
and.b64 %rd350, %rd27, 1; setp.eq.b64 %p75, %rd350, 1; mov.pred %p76, 0; xor.pred %p77, %p75, %p76;
@%p77 bra $L__BB1_26; shr.u64 %rd47, %rd3, 1; mov.u32 %r373, %tid.x; cvt.u64.u32 %rd454, %r373;
add.s64 %rd357, %rd454, 768; setp.ge.u64 %p82, %rd357, %rd47; @%p82 bra $L__BB1_23; shl.b64 %rd358, %rd454, 1;
add.s64 %rd359, %rd358, 1024; add.s64 %rd450, %rd1, %rd359; add.s64 %rd449, %rd2, %rd359; mov.u64 %rd451, %rd454;
$L__BB1_22: .pragma "nounroll"; ld.u16 %rs74, [%rd449+-1024]; ld.u16 %rs75, [%rd449+-512]; ld.u16 %rs76, [%rd449];
ld.u16 %rs77, [%rd449+512]; st.u16 [%rd450+-1024], %rs74; st.u16 [%rd450+-512], %rs75; st.u16 [%rd450], %rs76;
st.u16 [%rd450+512], %rs77; add.s64 %rd454, %rd451, 1024; add.s64 %rd450, %rd450, 2048; add.s64 %rd449, %rd449, 2048;
add.s64 %rd360, %rd451, 1792; setp.lt.u64 %p83, %rd360, %rd47; mov.u64 %rd451, %rd454; @%p83 bra $L__BB1_22;
$L__BB1_23: setp.ge.u64 %p84, %rd454, %rd47; @%p84 bra $L__BB1_182; shl.b64 %rd361, %rd454, 1;
add.s64 %rd453, %rd1, %rd361; add.s64 %rd452, %rd2, %rd361; $L__BB1_25: .pragma "nounroll"; ld.u16 %rs78, [%rd452];
st.u16 [%rd453], %rs78; add.s64 %rd454, %rd454, 256; add.s64 %rd453, %rd453, 512; add.s64 %rd452, %rd452, 512;
setp.lt.u64 %p85, %rd454, %rd47; @%p85 bra $L__BB1_25; bra.uni $L__BB1_182; $L__BB1_59: setp.eq.s32 %p3, %r1, 0;
@%p3 bra $L__BB1_75; and.b64 %rd287, %rd1, 15; and.b64 %rd288, %rd2, 7; or.b64 %rd289, %rd288, %rd287;
setp.eq.s64 %p4, %rd289, 0; @%p4 bra $L__BB1_62; mov.u32 %r113, %tid.x; cvt.u64.u32 %rd492, %r113;
add.s64 %rd495, %rd492, 768; mov.u64 %rd491, 0; bra.uni $L__BB1_69; $L__BB1_90: setp.eq.s32 %p117, %r1, 0;
@%p117 bra $L__BB1_181; and.b64 %rd403, %rd1, 15; and.b64 %rd404, %rd2, 7; or.b64 %rd405, %rd404, %rd403;
setp.eq.s64 %p118, %rd405, 0; mov.u32 %r733, %tid.x; @%p118 bra $L__BB1_93; cvt.u64.u32 %rd532, %r733;
add.s64 %rd531, %rd532, 768; mov.u64 %rd527, 0; bra.uni $L__BB1_160; $L__BB1_31: setp.ne.s64 %p95, %rd5, 0;
@%p95 bra $L__BB1_40; bra.uni $L__BB1_32; $L__BB1_40: or.b64 %rd95, %rd3, %rd4; and.b64 %rd376, %rd95, 3;
setp.ne.s64 %p96, %rd376, 0; @%p96 bra $L__BB1_47; bra.uni $L__BB1_41; $L__BB1_47: and.b64 %rd377, %rd95, 1;
setp.eq.b64 %p97, %rd377, 1; mov.pred %p98, 0; xor.pred %p99, %p97, %p98; @%p99 bra $L__BB1_54;
shr.u64 %rd115, %rd3, 1; mov.u32 %r402, %tid.x; cvt.u64.u32 %rd478, %r402; add.s64 %rd384, %rd478, 768;
setp.ge.u64 %p104, %rd384, %rd115; @%p104 bra $L__BB1_51; shl.b64 %rd385, %rd478, 1; add.s64 %rd386, %rd385, 1024;
add.s64 %rd474, %rd2, %rd386; add.s64 %rd473, %rd1, %rd386; mov.u64 %rd475, %rd478; $L__BB1_50: .pragma "nounroll";
ld.u16 %rs85, [%rd473+-1024]; ld.u16 %rs86, [%rd473+-512]; ld.u16 %rs87, [%rd473]; ld.u16 %rs88, [%rd473+512];
st.u16 [%rd474+-1024], %rs85; st.u16 [%rd474+-512], %rs86; st.u16 [%rd474], %rs87; st.u16 [%rd474+512], %rs88;
add.s64 %rd478, %rd475, 1024; add.s64 %rd474, %rd474, 2048; add.s64 %rd473, %rd473, 2048;
add.s64 %rd387, %rd475, 1792; setp.lt.u64 %p105, %rd387, %rd115; mov.u64 %rd475, %rd478; @%p105 bra $L__BB1_50;
$L__BB1_51: setp.ge.u64 %p106, %rd478, %rd115; @%p106 bra $L__BB1_182; shl.b64 %rd388, %rd478, 1;
add.s64 %rd477, %rd2, %rd388; add.s64 %rd476, %rd1, %rd388; $L__BB1_53: .pragma "nounroll"; ld.u16 %rs89, [%rd476];
st.u16 [%rd477], %rs89; add.s64 %rd478, %rd478, 256; add.s64 %rd477, %rd477, 512; add.s64 %rd476, %rd476, 512;
setp.lt.u64 %p107, %rd478, %rd115; @%p107 bra $L__BB1_53; bra.uni $L__BB1_182; $L__BB1_75: and.b64 %rd318, %rd2, 7;
and.b64 %rd319, %rd1, 15; or.b64 %rd320, %rd318, %rd319; setp.eq.s64 %p38, %rd320, 0; @%p38 bra $L__BB1_77;
mov.u32 %r215, %tid.x; cvt.u64.u32 %rd510, %r215; add.s64 %rd513, %rd510, 768; mov.u64 %rd509, 0; bra.uni $L__BB1_84;
$L__BB1_181: { .param .b64 param0; st.param.b64 [param0+0], %rd2; .param .b64 param1; st.param.b64 [param1+0], %rd1;
.param .b64 param2; st.param.b64 [param2+0], %rd3; call.uni
_ZN5shoal6device15ConvertElementsItjTnPFT_T0_EXadL_ZNS0_15NarrowToFloat16EjEEEEvPS2_PKS3_y, ( param0, param1, param2
); } bra.uni $L__BB1_182; $L__BB1_4: shr.u64 %rd6, %rd3, 4; mov.u32 %r380, %tid.x; cvt.u64.u32 %rd7, %r380;
add.s64 %rd367, %rd7, 768; setp.ge.u64 %p90, %rd367, %rd6; mov.u64 %rd440, %rd7; @%p90 bra $L__BB1_7;
shl.b64 %rd368, %rd7, 4; add.s64 %rd369, %rd368, 8192; add.s64 %rd436, %rd1, %rd369; add.s64 %rd435, %rd2, %rd369;
mov.u64 %rd437, %rd7; $L__BB1_6: .pragma "nounroll"; ld.v4.u32 {%r381, %r382, %r383, %r384}, [%rd435+-8192];
ld.v4.u32 {%r385, %r386, %r387, %r388}, [%rd435+-4096]; ld.v4.u32 {%r389, %r390, %r391, %r392}, [%rd435];
ld.v4.u32 {%r393, %r394, %r395, %r396}, [%rd435+4096]; st.v4.u32 [%rd436+-8192], {%r381, %r382, %r383, %r384};
st.v4.u32 [%rd436+-4096], {%r385, %r386, %r387, %r388}; st.v4.u32 [%rd436], {%r389, %r390, %r391, %r392};
st.v4.u32 [%rd436+4096], {%r393, %r394, %r395, %r396}; add.s64 %rd440, %rd437, 1024; add.s64 %rd436, %rd436, 16384;
add.s64 %rd435, %rd435, 16384; add.s64 %rd370, %rd437, 1792; setp.lt.u64 %p91, %rd370, %rd6; mov.u64 %rd437, %rd440;
@%p91 bra $L__BB1_6; $L__BB1_7: setp.ge.u64 %p92, %rd440, %rd6; @%p92 bra $L__BB1_10; shl.b64 %rd371, %rd440, 4;
add.s64 %rd439, %rd1, %rd371; add.s64 %rd438, %rd2, %rd371; $L__BB1_9: .pragma "nounroll";
ld.v4.u32 {%r397, %r398, %r399, %r400}, [%rd438]; st.v4.u32 [%rd439], {%r397, %r398, %r399, %r400};
add.s64 %rd440, %rd440, 256; add.s64 %rd439, %rd439, 4096; add.s64 %rd438, %rd438, 4096;
setp.lt.u64 %p93, %rd440, %rd6; @%p93 bra $L__BB1_9; $L__BB1_10: and.b64 %rd372, %rd3, 15;
setp.le.u64 %p94, %rd372, %rd7; @%p94 bra $L__BB1_182; and.b64 %rd373, %rd3, -16; add.s64 %rd374, %rd1, %rd373;
add.s64 %rd25, %rd374, %rd7; add.s64 %rd375, %rd2, %rd373; add.s64 %rd26, %rd375, %rd7; ld.u8 %rs79, [%rd26];
st.u8 [%rd25], %rs79; bra.uni $L__BB1_182; $L__BB1_62: shr.u64 %rd144, %rd3, 2; mov.u32 %r114, %tid.x;
cvt.u64.u32 %rd492, %r114; add.s64 %rd495, %rd492, 768; setp.ge.u64 %p5, %rd495, %rd144; mov.u64 %rd488, %rd492;
@%p5 bra $L__BB1_65; shl.b64 %rd291, %rd492, 3; add.s64 %rd484, %rd2, %rd291; shl.b64 %rd292, %rd492, 4;
add.s64 %rd293, %rd292, %rd1; add.s64 %rd483, %rd293, 8192; mov.u64 %rd485, %rd492; $L__BB1_64: .pragma "nounroll";
ld.v4.u16 {%rs29, %rs30, %rs31, %rs32}, [%rd484+2048]; ld.v4.u16 {%rs33, %rs34, %rs35, %rs36}, [%rd484+4096];
ld.v4.u16 {%rs37, %rs38, %rs39, %rs40}, [%rd484+6144]; ld.v4.u16 {%rs41, %rs42, %rs43, %rs44}, [%rd484];
cvt.u32.u16 %r115, %rs41; shl.b32 %r116, %r115, 16; and.b32 %r117, %r115, 32767; setp.gt.u32 %p6, %r117, 32640;
selp.b32 %r118, 2143289344, %r116, %p6; cvt.u32.u16 %r119, %rs42; shl.b32 %r120, %r119, 16;
and.b32 %r121, %r119, 32767; setp.gt.u32 %p7, %r121, 32640; selp.b32 %r122, 2143289344, %r120, %p7;
cvt.u32.u16 %r123, %rs43; shl.b32 %r124, %r123, 16; and.b32 %r125, %r123, 32767; setp.gt.u32 %p8, %r125, 32640;
selp.b32 %r126, 2143289344, %r124, %p8; cvt.u32.u16 %r127, %rs44; shl.b32 %r128, %r127, 16;
and.b32 %r129, %r127, 32767; setp.gt.u32 %p9, %r129, 32640; selp.b32 %r130, 2143289344, %r128, %p9;
st.v4.u32 [%rd483+-8192], {%r118, %r122, %r126, %r130}; cvt.u32.u16 %r131, %rs29; shl.b32 %r132, %r131, 16;
and.b32 %r133, %r131, 32767; setp.gt.u32 %p10, %r133, 32640; selp.b32 %r134, 2143289344, %r132, %p10;
cvt.u32.u16 %r135, %rs30; shl.b32 %r136, %r135, 16; and.b32 %r137, %r135, 32767; setp.gt.u32 %p11, %r137, 32640;
selp.b32 %r138, 2143289344, %r136, %p11; cvt.u32.u16 %r139, %rs31; shl.b32 %r140, %r139, 16;
and.b32 %r141, %r139, 32767; setp.gt.u32 %p12, %r141, 32640; selp.b32 %r142, 2143289344, %r140, %p12;
cvt.u32.u16 %r143, %rs32; shl.b32 %r144, %r143, 16; and.b32 %r145, %r143, 32767; setp.gt.u32 %p13, %r145, 32640;
selp.b32 %r146, 2143289344, %r144, %p13; st.v4.u32 [%rd483+-4096], {%r134, %r138, %r142, %r146};
cvt.u32.u16 %r147, %rs33; shl.b32 %r148, %r147, 16; and.b32 %r149, %r147, 32767; setp.gt.u32 %p14, %r149, 32640;
selp.b32 %r150, 2143289344, %r148, %p14; cvt.u32.u16 %r151, %rs34; shl.b32 %r152, %r151, 16;
and.b32 %r153, %r151, 32767; setp.gt.u32 %p15, %r153, 32640; selp.b32 %r154, 2143289344, %r152, %p15;
cvt.u32.u16 %r155, %rs35; shl.b32 %r156, %r155, 16; and.b32 %r157, %r155, 32767; setp.gt.u32 %p16, %r157, 32640;
selp.b32 %r158, 2143289344, %r156, %p16; cvt.u32.u16 %r159, %rs36; shl.b32 %r160, %r159, 16;
and.b32 %r161, %r159, 32767; setp.gt.u32 %p17, %r161, 32640; selp.b32 %r162, 2143289344, %r160, %p17;
st.v4.u32 [%rd483], {%r150, %r154, %r158, %r162}; cvt.u32.u16 %r163, %rs37; shl.b32 %r164, %r163, 16;
and.b32 %r165, %r163, 32767; setp.gt.u32 %p18, %r165, 32640; selp.b32 %r166, 2143289344, %r164, %p18;
cvt.u32.u16 %r167, %rs38; shl.b32 %r168, %r167, 16; and.b32 %r169, %r167, 32767; setp.gt.u32 %p19, %r169, 32640;
selp.b32 %r170, 2143289344, %r168, %p19; cvt.u32.u16 %r171, %rs39; shl.b32 %r172, %r171, 16;
and.b32 %r173, %r171, 32767; setp.gt.u32 %p20, %r173, 32640; selp.b32 %r174, 2143289344, %r172, %p20;
cvt.u32.u16 %r175, %rs40; shl.b32 %r176, %r175, 16; and.b32 %r177, %r175, 32767; setp.gt.u32 %p21, %r177, 32640;
selp.b32 %r178, 2143289344, %r176, %p21; st.v4.u32 [%rd483+4096], {%r166, %r170, %r174, %r178};
add.s64 %rd488, %rd485, 1024; add.s64 %rd484, %rd484, 8192; add.s64 %rd294, %rd485, 1792;
add.s64 %rd483, %rd483, 16384; setp.lt.u64 %p22, %rd294, %rd144; mov.u64 %rd485, %rd488; @%p22 bra $L__BB1_64;
$L__BB1_65: setp.ge.u64 %p23, %rd488, %rd144; @%p23 bra $L__BB1_68; shl.b64 %rd295, %rd488, 4;
add.s64 %rd487, %rd1, %rd295; shl.b64 %rd296, %rd488, 3; add.s64 %rd297, %rd296, %rd2; add.s64 %rd486, %rd297, 4;
$L__BB1_67: .pragma "nounroll"; ld.v4.u16 {%rs45, %rs46, %rs47, %rs48}, [%rd486+-4]; cvt.u32.u16 %r179, %rs45;
shl.b32 %r180, %r179, 16; and.b32 %r181, %r179, 32767; setp.gt.u32 %p24, %r181, 32640;
selp.b32 %r182, 2143289344, %r180, %p24; cvt.u32.u16 %r183, %rs46; shl.b32 %r184, %r183, 16;
and.b32 %r185, %r183, 32767; setp.gt.u32 %p25, %r185, 32640; selp.b32 %r186, 2143289344, %r184, %p25;
cvt.u32.u16 %r187, %rs47; shl.b32 %r188, %r187, 16; and.b32 %r189, %r187, 32767; setp.gt.u32 %p26, %r189, 32640;
selp.b32 %r190, 2143289344, %r188, %p26; cvt.u32.u16 %r191, %rs48; shl.b32 %r192, %r191, 16;
and.b32 %r193, %r191, 32767; setp.gt.u32 %p27, %r193, 32640; selp.b32 %r194, 2143289344, %r192, %p27;
st.v4.u32 [%rd487], {%r182, %r186, %r190, %r194}; add.s64 %rd488, %rd488, 256; add.s64 %rd487, %rd487, 4096;
add.s64 %rd486, %rd486, 2048; setp.lt.u64 %p28, %rd488, %rd144; @%p28 bra $L__BB1_67; $L__BB1_68:
and.b64 %rd491, %rd3, -4; $L__BB1_69: shl.b64 %rd298, %rd491, 2; shl.b64 %rd299, %rd491, 1;
sub.s64 %rd170, %rd3, %rd491; setp.ge.u64 %p29, %rd495, %rd170; @%p29 bra $L__BB1_72; add.s64 %rd168, %rd1, %rd298;
add.s64 %rd169, %rd2, %rd299; shl.b64 %rd301, %rd492, 1; add.s64 %rd302, %rd299, %rd301; add.s64 %rd303, %rd302, %rd2;
add.s64 %rd494, %rd303, 1024; shl.b64 %rd305, %rd492, 2; add.s64 %rd306, %rd298, %rd305; add.s64 %rd307, %rd306, %rd1;
add.s64 %rd493, %rd307, 2048; mov.u64 %rd496, %rd492; $L__BB1_71: .pragma "nounroll"; ld.u16 %r195, [%rd494+-1024];
ld.u16 %r196, [%rd494+-512]; ld.u16 %r197, [%rd494]; shl.b64 %rd308, %rd495, 1; add.s64 %rd309, %rd169, %rd308;
ld.u16 %r198, [%rd309]; shl.b32 %r199, %r195, 16; and.b32 %r200, %r195, 32767; setp.gt.u32 %p30, %r200, 32640;
selp.b32 %r201, 2143289344, %r199, %p30; st.u32 [%rd493+-2048], %r201; shl.b32 %r202, %r196, 16;
and.b32 %r203, %r196, 32767; setp.gt.u32 %p31, %r203, 32640; selp.b32 %r204, 2143289344, %r202, %p31;
st.u32 [%rd493+-1024], %r204; shl.b32 %r205, %r197, 16; and.b32 %r206, %r197, 32767; setp.gt.u32 %p32, %r206, 32640;
selp.b32 %r207, 2143289344, %r205, %p32; st.u32 [%rd493], %r207; shl.b32 %r208, %r198, 16;
and.b32 %r209, %r198, 32767; setp.gt.u32 %p33, %r209, 32640; selp.b32 %r210, 2143289344, %r208, %p33;
shl.b64 %rd310, %rd495, 2; add.s64 %rd311, %rd168, %rd310; st.u32 [%rd311], %r210; add.s64 %rd492, %rd496, 1024;
add.s64 %rd495, %rd496, 1792; add.s64 %rd494, %rd494, 2048; add.s64 %rd493, %rd493, 4096;
setp.lt.u64 %p34, %rd495, %rd170; mov.u64 %rd496, %rd492; @%p34 bra $L__BB1_71; $L__BB1_72:
setp.ge.u64 %p35, %rd492, %rd170; @%p35 bra $L__BB1_182; shl.b64 %rd313, %rd492, 2; add.s64 %rd314, %rd298, %rd313;
add.s64 %rd498, %rd1, %rd314; shl.b64 %rd316, %rd492, 1; add.s64 %rd317, %rd299, %rd316; add.s64 %rd497, %rd2, %rd317;
$L__BB1_74: .pragma "nounroll"; ld.u16 %r211, [%rd497]; shl.b32 %r212, %r211, 16; and.b32 %r213, %r211, 32767;
setp.gt.u32 %p36, %r213, 32640; selp.b32 %r214, 2143289344, %r212, %p36; st.u32 [%rd498], %r214;
add.s64 %rd492, %rd492, 256; add.s64 %rd498, %rd498, 1024; add.s64 %rd497, %rd497, 512;
setp.lt.u64 %p37, %rd492, %rd170; @%p37 bra $L__BB1_74; bra.uni $L__BB1_182; $L__BB1_93: shr.u64 %rd240, %rd3, 2;
cvt.u64.u32 %rd532, %r733; add.s64 %rd531, %rd532, 768; setp.ge.u64 %p119, %rd531, %rd240; mov.u64 %rd521, %rd532;
@%p119 bra $L__BB1_144; shl.b64 %rd407, %rd532, 4; add.s64 %rd408, %rd407, %rd1; add.s64 %rd520, %rd408, 8192;
shl.b64 %rd409, %rd532, 3; add.s64 %rd410, %rd409, %rd2; add.s64 %rd519, %rd410, 4096; mov.b32 %r432, 2143289344;
mov.u64 %rd521, %rd532; bra.uni $L__BB1_95; $L__BB1_143: st.v4.u32 [%rd520+4096], {%r747, %r748, %r749, %r750};
add.s64 %rd521, %rd250, 1024; add.s64 %rd520, %rd520, 16384; add.s64 %rd519, %rd519, 8192;
add.s64 %rd411, %rd250, 1792; setp.lt.u64 %p184, %rd411, %rd240; @%p184 bra $L__BB1_95; bra.uni $L__BB1_144;
$L__BB1_95: .pragma "nounroll"; mov.u64 %rd250, %rd521; ld.v4.u16 {%rs91, %rs92, %rs93, %rs94}, [%rd519+-4096];
and.b16 %rs1, %rs91, 32767; setp.gt.u16 %p120, %rs1, 31744; mov.u32 %r735, %r432; @%p120 bra $L__BB1_98;
cvt.s32.s16 %r433, %rs91; and.b32 %r735, %r433, -2147483648; setp.eq.s16 %p121, %rs1, 0; @%p121 bra $L__BB1_98;
cvt.u32.u16 %r11, %rs1; setp.lt.u16 %p122, %rs1, 1024; or.b32 %r434, %r11, 1; clz.b32 %r435, %r434;
add.s32 %r436, %r435, -21; selp.b32 %r437, %r436, 0, %p122; add.s32 %r438, %r437, 13; shl.b32 %r439, %r11, %r438;
shl.b32 %r440, %r437, 23; sub.s32 %r441, %r439, %r440; add.s32 %r442, %r441, 939524096;
setp.eq.s16 %p123, %rs1, 31744; selp.b32 %r443, 2139095040, %r442, %p123; or.b32 %r735, %r443, %r735; $L__BB1_98:
mov.b32 %r2, {%rs91, %rs92}; { .reg .b16 tmp; mov.b32 {tmp, %rs107}, %r2; } and.b16 %rs2, %rs107, 32767;
setp.gt.u16 %p124, %rs2, 31744; mov.u32 %r736, %r432; @%p124 bra $L__BB1_101; cvt.s32.s16 %r445, %rs107;
and.b32 %r736, %r445, -2147483648; setp.eq.s16 %p125, %rs2, 0; @%p125 bra $L__BB1_101; cvt.u32.u16 %r15, %rs2;
setp.lt.u16 %p126, %rs2, 1024; or.b32 %r446, %r15, 1; clz.b32 %r447, %r446; add.s32 %r448, %r447, -21;
selp.b32 %r449, %r448, 0, %p126; add.s32 %r450, %r449, 13; shl.b32 %r451, %r15, %r450; shl.b32 %r452, %r449, 23;
sub.s32 %r453, %r451, %r452; add.s32 %r454, %r453, 939524096; setp.eq.s16 %p127, %rs2, 31744;
selp.b32 %r455, 2139095040, %r454, %p127; or.b32 %r736, %r455, %r736; $L__BB1_101: mov.b32 %r3, {%rs93, %rs94};
{ .reg .b16 tmp; mov.b32 {%rs108, tmp}, %r3; } and.b16 %rs3, %rs108, 32767; setp.gt.u16 %p128, %rs3, 31744;
mov.u32 %r737, %r432; @%p128 bra $L__BB1_104; cvt.s32.s16 %r457, %r3; and.b32 %r737, %r457, -2147483648;
setp.eq.s16 %p129, %rs3, 0; @%p129 bra $L__BB1_104; cvt.u32.u16 %r19, %rs3; setp.lt.u16 %p130, %rs3, 1024;
or.b32 %r458, %r19, 1; clz.b32 %r459, %r458; add.s32 %r460, %r459, -21; selp.b32 %r461, %r460, 0, %p130;
add.s32 %r462, %r461, 13; shl.b32 %r463, %r19, %r462; shl.b32 %r464, %r461, 23; sub.s32 %r465, %r463, %r464;
add.s32 %r466, %r465, 939524096; setp.eq.s16 %p131, %rs3, 31744; selp.b32 %r467, 2139095040, %r466, %p131;
or.b32 %r737, %r467, %r737; $L__BB1_104: ld.v4.u16 {%rs95, %rs96, %rs97, %rs98}, [%rd519+-2048];
mov.b32 %r4, {%rs95, %rs96}; { .reg .b16 tmp; mov.b32 {tmp, %rs109}, %r3; } and.b16 %rs4, %rs109, 32767;
setp.gt.u16 %p132, %rs4, 31744; mov.u32 %r738, %r432; @%p132 bra $L__BB1_107; cvt.s32.s16 %r469, %rs109;
and.b32 %r738, %r469, -2147483648; setp.eq.s16 %p133, %rs4, 0; @%p133 bra $L__BB1_107; cvt.u32.u16 %r23, %rs4;
setp.lt.u16 %p134, %rs4, 1024; or.b32 %r470, %r23, 1; clz.b32 %r471, %r470; add.s32 %r472, %r471, -21;
selp.b32 %r473, %r472, 0, %p134; add.s32 %r474, %r473, 13; shl.b32 %r475, %r23, %r474; shl.b32 %r476, %r473, 23;
sub.s32 %r477, %r475, %r476; add.s32 %r478, %r477, 939524096; setp.eq.s16 %p135, %rs4, 31744;
selp.b32 %r479, 2139095040, %r478, %p135; or.b32 %r738, %r479, %r738; $L__BB1_107:
ld.v4.u16 {%rs99, %rs100, %rs101, %rs102}, [%rd519]; ld.v4.u16 {%rs103, %rs104, %rs105, %rs106}, [%rd519+2048];
st.v4.u32 [%rd520+-8192], {%r735, %r736, %r737, %r738}; { .reg .b16 tmp; mov.b32 {%rs110, tmp}, %r4; }
and.b16 %rs5, %rs110, 32767; setp.gt.u16 %p136, %rs5, 31744; mov.u32 %r739, %r432; @%p136 bra $L__BB1_110;
cvt.s32.s16 %r481, %r4; and.b32 %r739, %r481, -2147483648; setp.eq.s16 %p137, %rs5, 0; @%p137 bra $L__BB1_110;
cvt.u32.u16 %r27, %rs5; setp.lt.u16 %p138, %rs5, 1024; or.b32 %r482, %r27, 1; clz.b32 %r483, %r482;
add.s32 %r484, %r483, -21; selp.b32 %r485, %r484, 0, %p138; add.s32 %r486, %r485, 13; shl.b32 %r487, %r27, %r486;
shl.b32 %r488, %r485, 23; sub.s32 %r489, %r487, %r488; add.s32 %r490, %r489, 939524096;
setp.eq.s16 %p139, %rs5, 31744; selp.b32 %r491, 2139095040, %r490, %p139; or.b32 %r739, %r491, %r739; $L__BB1_110:
{ .reg .b16 tmp; mov.b32 {tmp, %rs111}, %r4; } and.b16 %rs6, %rs111, 32767; setp.gt.u16 %p140, %rs6, 31744;
mov.u32 %r740, %r432; @%p140 bra $L__BB1_113; cvt.s32.s16 %r493, %rs111; and.b32 %r740, %r493, -2147483648;
setp.eq.s16 %p141, %rs6, 0; @%p141 bra $L__BB1_113; cvt.u32.u16 %r31, %rs6; setp.lt.u16 %p142, %rs6, 1024;
or.b32 %r494, %r31, 1; clz.b32 %r495, %r494; add.s32 %r496, %r495, -21; selp.b32 %r497, %r496, 0, %p142;
add.s32 %r498, %r497, 13; shl.b32 %r499, %r31, %r498; shl.b32 %r500, %r497, 23; sub.s32 %r501, %r499, %r500;
add.s32 %r502, %r501, 939524096; setp.eq.s16 %p143, %rs6, 31744; selp.b32 %r503, 2139095040, %r502, %p143;
or.b32 %r740, %r503, %r740; $L__BB1_113: mov.b32 %r5, {%rs97, %rs98}; { .reg .b16 tmp; mov.b32 {%rs112, tmp}, %r5; }
and.b16 %rs7, %rs112, 32767; setp.gt.u16 %p144, %rs7, 31744; mov.u32 %r741, %r432; @%p144 bra $L__BB1_116;
cvt.s32.s16 %r505, %r5; and.b32 %r741, %r505, -2147483648; setp.eq.s16 %p145, %rs7, 0; @%p145 bra $L__BB1_116;
cvt.u32.u16 %r35, %rs7; setp.lt.u16 %p146, %rs7, 1024; or.b32 %r506, %r35, 1; clz.b32 %r507, %r506;
add.s32 %r508, %r507, -21; selp.b32 %r509, %r508, 0, %p146; add.s32 %r510, %r509, 13; shl.b32 %r511, %r35, %r510;
shl.b32 %r512, %r509, 23; sub.s32 %r513, %r511, %r512; add.s32 %r514, %r513, 939524096;
setp.eq.s16 %p147, %rs7, 31744; selp.b32 %r515, 2139095040, %r514, %p147; or.b32 %r741, %r515, %r741; $L__BB1_116:
{ .reg .b16 tmp; mov.b32 {tmp, %rs113}, %r5; } and.b16 %rs8, %rs113, 32767; setp.gt.u16 %p148, %rs8, 31744;
mov.u32 %r742, %r432; @%p148 bra $L__BB1_119; cvt.s32.s16 %r517, %rs113; and.b32 %r742, %r517, -2147483648;
setp.eq.s16 %p149, %rs8, 0; @%p149 bra $L__BB1_119; cvt.u32.u16 %r39, %rs8; setp.lt.u16 %p150, %rs8, 1024;
or.b32 %r518, %r39, 1; clz.b32 %r519, %r518; add.s32 %r520, %r519, -21; selp.b32 %r521, %r520, 0, %p150;
add.s32 %r522, %r521, 13; shl.b32 %r523, %r39, %r522; shl.b32 %r524, %r521, 23; sub.s32 %r525, %r523, %r524;
add.s32 %r526, %r525, 939524096; setp.eq.s16 %p151, %rs8, 31744; selp.b32 %r527, 2139095040, %r526, %p151;
or.b32 %r742, %r527, %r742; $L__BB1_119: mov.b32 %r6, {%rs99, %rs100};
st.v4.u32 [%rd520+-4096], {%r739, %r740, %r741, %r742}; { .reg .b16 tmp; mov.b32 {%rs114, tmp}, %r6; }
and.b16 %rs9, %rs114, 32767; setp.gt.u16 %p152, %rs9, 31744; mov.u32 %r743, %r432; @%p152 bra $L__BB1_122;
cvt.s32.s16 %r529, %r6; and.b32 %r743, %r529, -2147483648; setp.eq.s16 %p153, %rs9, 0; @%p153 bra $L__BB1_122;
cvt.u32.u16 %r43, %rs9; setp.lt.u16 %p154, %rs9, 1024; or.b32 %r530, %r43, 1; clz.b32 %r531, %r530;
add.s32 %r532, %r531, -21; selp.b32 %r533, %r532, 0, %p154; add.s32 %r534, %r533, 13; shl.b32 %r535, %r43, %r534;
shl.b32 %r536, %r533, 23; sub.s32 %r537, %r535, %r536; add.s32 %r538, %r537, 939524096;
setp.eq.s16 %p155, %rs9, 31744; selp.b32 %r539, 2139095040, %r538, %p155; or.b32 %r743, %r539, %r743; $L__BB1_122:
{ .reg .b16 tmp; mov.b32 {tmp, %rs115}, %r6; } and.b16 %rs10, %rs115, 32767; setp.gt.u16 %p156, %rs10, 31744;
mov.u32 %r744, %r432; @%p156 bra $L__BB1_125; cvt.s32.s16 %r541, %rs115; and.b32 %r744, %r541, -2147483648;
setp.eq.s16 %p157, %rs10, 0; @%p157 bra $L__BB1_125; cvt.u32.u16 %r47, %rs10; setp.lt.u16 %p158, %rs10, 1024;
or.b32 %r542, %r47, 1; clz.b32 %r543, %r542; add.s32 %r544, %r543, -21; selp.b32 %r545, %r544, 0, %p158;
add.s32 %r546, %r545, 13; shl.b32 %r547, %r47, %r546; shl.b32 %r548, %r545, 23; sub.s32 %r549, %r547, %r548;
add.s32 %r550, %r549, 939524096; setp.eq.s16 %p159, %rs10, 31744; selp.b32 %r551, 2139095040, %r550, %p159;
or.b32 %r744, %r551, %r744; $L__BB1_125: mov.b32 %r7, {%rs101, %rs102}; { .reg .b16 tmp; mov.b32 {%rs116, tmp}, %r7; }
and.b16 %rs11, %rs116, 32767; setp.gt.u16 %p160, %rs11, 31744; mov.u32 %r745, %r432; @%p160 bra $L__BB1_128;
cvt.s32.s16 %r553, %r7; and.b32 %r745, %r553, -2147483648; setp.eq.s16 %p161, %rs11, 0; @%p161 bra $L__BB1_128;
cvt.u32.u16 %r51, %rs11; setp.lt.u16 %p162, %rs11, 1024; or.b32 %r554, %r51, 1; clz.b32 %r555, %r554;
add.s32 %r556, %r555, -21; selp.b32 %r557, %r556, 0, %p162; add.s32 %r558, %r557, 13; shl.b32 %r559, %r51, %r558;
shl.b32 %r560, %r557, 23; sub.s32 %r561, %r559, %r560; add.s32 %r562, %r561, 939524096;
setp.eq.s16 %p163, %rs11, 31744; selp.b32 %r563, 2139095040, %r562, %p163; or.b32 %r745, %r563, %r745; $L__BB1_128:
{ .reg .b16 tmp; mov.b32 {tmp, %rs117}, %r7; } and.b16 %rs12, %rs117, 32767; setp.gt.u16 %p164, %rs12, 31744;
mov.u32 %r746, %r432; @%p164 bra $L__BB1_131; cvt.s32.s16 %r565, %rs117; and.b32 %r746, %r565, -2147483648;
setp.eq.s16 %p165, %rs12, 0; @%p165 bra $L__BB1_131; cvt.u32.u16 %r55, %rs12; setp.lt.u16 %p166, %rs12, 1024;
or.b32 %r566, %r55, 1; clz.b32 %r567, %r566; add.s32 %r568, %r567, -21; selp.b32 %r569, %r568, 0, %p166;
add.s32 %r570, %r569, 13; shl.b32 %r571, %r55, %r570; shl.b32 %r572, %r569, 23; sub.s32 %r573, %r571, %r572;
add.s32 %r574, %r573, 939524096; setp.eq.s16 %p167, %rs12, 31744; selp.b32 %r575, 2139095040, %r574, %p167;
or.b32 %r746, %r575, %r746; $L__BB1_131: mov.b32 %r8, {%rs103, %rs104};
st.v4.u32 [%rd520], {%r743, %r744, %r745, %r746}; { .reg .b16 tmp; mov.b32 {%rs118, tmp}, %r8; }
and.b16 %rs13, %rs118, 32767; setp.gt.u16 %p168, %rs13, 31744; mov.u32 %r747, %r432; @%p168 bra $L__BB1_134;
cvt.s32.s16 %r577, %r8; and.b32 %r747, %r577, -2147483648; setp.eq.s16 %p169, %rs13, 0; @%p169 bra $L__BB1_134;
cvt.u32.u16 %r59, %rs13; setp.lt.u16 %p170, %rs13, 1024; or.b32 %r578, %r59, 1; clz.b32 %r579, %r578;
add.s32 %r580, %r579, -21; selp.b32 %r581, %r580, 0, %p170; add.s32 %r582, %r581, 13; shl.b32 %r583, %r59, %r582;
shl.b32 %r584, %r581, 23; sub.s32 %r585, %r583, %r584; add.s32 %r586, %r585, 939524096;
setp.eq.s16 %p171, %rs13, 31744; selp.b32 %r587, 2139095040, %r586, %p171; or.b32 %r747, %r587, %r747; $L__BB1_134:
{ .reg .b16 tmp; mov.b32 {tmp, %rs119}, %r8; } and.b16 %rs14, %rs119, 32767; setp.gt.u16 %p172, %rs14, 31744;
mov.u32 %r748, %r432; @%p172 bra $L__BB1_137; cvt.s32.s16 %r589, %rs119; and.b32 %r748, %r589, -2147483648;
setp.eq.s16 %p173, %rs14, 0; @%p173 bra $L__BB1_137; cvt.u32.u16 %r63, %rs14; setp.lt.u16 %p174, %rs14, 1024;
or.b32 %r590, %r63, 1; clz.b32 %r591, %r590; add.s32 %r592, %r591, -21; selp.b32 %r593, %r592, 0, %p174;
add.s32 %r594, %r593, 13; shl.b32 %r595, %r63, %r594; shl.b32 %r596, %r593, 23; sub.s32 %r597, %r595, %r596;
add.s32 %r598, %r597, 939524096; setp.eq.s16 %p175, %rs14, 31744; selp.b32 %r599, 2139095040, %r598, %p175;
or.b32 %r748, %r599, %r748; $L__BB1_137: mov.b32 %r9, {%rs105, %rs106}; { .reg .b16 tmp; mov.b32 {%rs120, tmp}, %r9; }
and.b16 %rs15, %rs120, 32767; setp.gt.u16 %p176, %rs15, 31744; mov.u32 %r749, %r432; @%p176 bra $L__BB1_140;
cvt.s32.s16 %r601, %r9; and.b32 %r749, %r601, -2147483648; setp.eq.s16 %p177, %rs15, 0; @%p177 bra $L__BB1_140;
cvt.u32.u16 %r67, %rs15; setp.lt.u16 %p178, %rs15, 1024; or.b32 %r602, %r67, 1; clz.b32 %r603, %r602;
add.s32 %r604, %r603, -21; selp.b32 %r605, %r604, 0, %p178; add.s32 %r606, %r605, 13; shl.b32 %r607, %r67, %r606;
shl.b32 %r608, %r605, 23; sub.s32 %r609, %r607, %r608; add.s32 %r610, %r609, 939524096;
setp.eq.s16 %p179, %rs15, 31744; selp.b32 %r611, 2139095040, %r610, %p179; or.b32 %r749, %r611, %r749; $L__BB1_140:
{ .reg .b16 tmp; mov.b32 {tmp, %rs121}, %r9; } and.b16 %rs16, %rs121, 32767; setp.gt.u16 %p180, %rs16, 31744;
mov.u32 %r750, %r432; @%p180 bra $L__BB1_143; cvt.s32.s16 %r613, %rs121; and.b32 %r750, %r613, -2147483648;
setp.eq.s16 %p181, %rs16, 0; @%p181 bra $L__BB1_143; cvt.u32.u16 %r71, %rs16; setp.lt.u16 %p182, %rs16, 1024;
or.b32 %r614, %r71, 1; clz.b32 %r615, %r614; add.s32 %r616, %r615, -21; selp.b32 %r617, %r616, 0, %p182;
add.s32 %r618, %r617, 13; shl.b32 %r619, %r71, %r618; shl.b32 %r620, %r617, 23; sub.s32 %r621, %r619, %r620;
add.s32 %r622, %r621, 939524096; setp.eq.s16 %p183, %rs16, 31744; selp.b32 %r623, 2139095040, %r622, %p183;
or.b32 %r750, %r623, %r750; bra.uni $L__BB1_143; $L__BB1_144: setp.ge.u64 %p185, %rd521, %rd240;
@%p185 bra $L__BB1_159; shl.b64 %rd412, %rd521, 4; add.s64 %rd523, %rd1, %rd412; shl.b64 %rd413, %rd521, 3;
add.s64 %rd522, %rd2, %rd413; mov.b32 %r624, 2143289344; bra.uni $L__BB1_146; $L__BB1_158:
st.v4.u32 [%rd523], {%r751, %r752, %r753, %r754}; add.s64 %rd521, %rd521, 256; add.s64 %rd523, %rd523, 4096;
add.s64 %rd522, %rd522, 2048; setp.lt.u64 %p202, %rd521, %rd240; @%p202 bra $L__BB1_146; bra.uni $L__BB1_159;
$L__BB1_146: .pragma "nounroll"; ld.v4.u16 {%rs122, %rs123, %rs124, %rs125}, [%rd522]; and.b16 %rs17, %rs122, 32767;
setp.gt.u16 %p186, %rs17, 31744; mov.u32 %r751, %r624; @%p186 bra $L__BB1_149; cvt.s32.s16 %r625, %rs122;
and.b32 %r751, %r625, -2147483648; setp.eq.s16 %p187, %rs17, 0; @%p187 bra $L__BB1_149; cvt.u32.u16 %r77, %rs17;
setp.lt.u16 %p188, %rs17, 1024; or.b32 %r626, %r77, 1; clz.b32 %r627, %r626; add.s32 %r628, %r627, -21;
selp.b32 %r629, %r628, 0, %p188; add.s32 %r630, %r629, 13; shl.b32 %r631, %r77, %r630; shl.b32 %r632, %r629, 23;
sub.s32 %r633, %r631, %r632; add.s32 %r634, %r633, 939524096; setp.eq.s16 %p189, %rs17, 31744;
selp.b32 %r635, 2139095040, %r634, %p189; or.b32 %r751, %r635, %r751; $L__BB1_149: mov.b32 %r74, {%rs122, %rs123};
{ .reg .b16 tmp; mov.b32 {tmp, %rs126}, %r74; } and.b16 %rs18, %rs126, 32767; setp.gt.u16 %p190, %rs18, 31744;
mov.u32 %r752, %r624; @%p190 bra $L__BB1_152; cvt.s32.s16 %r637, %rs126; and.b32 %r752, %r637, -2147483648;
setp.eq.s16 %p191, %rs18, 0; @%p191 bra $L__BB1_152; cvt.u32.u16 %r81, %rs18; setp.lt.u16 %p192, %rs18, 1024;
or.b32 %r638, %r81, 1; clz.b32 %r639, %r638; add.s32 %r640, %r639, -21; selp.b32 %r641, %r640, 0, %p192;
add.s32 %r642, %r641, 13; shl.b32 %r643, %r81, %r642; shl.b32 %r644, %r641, 23; sub.s32 %r645, %r643, %r644;
add.s32 %r646, %r645, 939524096; setp.eq.s16 %p193, %rs18, 31744; selp.b32 %r647, 2139095040, %r646, %p193;
or.b32 %r752, %r647, %r752; $L__BB1_152: mov.b32 %r75, {%rs124, %rs125};
{ .reg .b16 tmp; mov.b32 {%rs127, tmp}, %r75; } and.b16 %rs19, %rs127, 32767; setp.gt.u16 %p194, %rs19, 31744;
mov.u32 %r753, %r624; @%p194 bra $L__BB1_155; cvt.s32.s16 %r649, %r75; and.b32 %r753, %r649, -2147483648;
setp.eq.s16 %p195, %rs19, 0; @%p195 bra $L__BB1_155; cvt.u32.u16 %r85, %rs19; setp.lt.u16 %p196, %rs19, 1024;
or.b32 %r650, %r85, 1; clz.b32 %r651, %r650; add.s32 %r652, %r651, -21; selp.b32 %r653, %r652, 0, %p196;
add.s32 %r654, %r653, 13; shl.b32 %r655, %r85, %r654; shl.b32 %r656, %r653, 23; sub.s32 %r657, %r655, %r656;
add.s32 %r658, %r657, 939524096; setp.eq.s16 %p197, %rs19, 31744; selp.b32 %r659, 2139095040, %r658, %p197;
or.b32 %r753, %r659, %r753; $L__BB1_155: { .reg .b16 tmp; mov.b32 {tmp, %rs128}, %r75; } and.b16 %rs20, %rs128, 32767;
setp.gt.u16 %p198, %rs20, 31744; mov.u32 %r754, %r624; @%p198 bra $L__BB1_158; cvt.s32.s16 %r661, %rs128;
and.b32 %r754, %r661, -2147483648; setp.eq.s16 %p199, %rs20, 0; @%p199 bra $L__BB1_158; cvt.u32.u16 %r89, %rs20;
setp.lt.u16 %p200, %rs20, 1024; or.b32 %r662, %r89, 1; clz.b32 %r663, %r662; add.s32 %r664, %r663, -21;
selp.b32 %r665, %r664, 0, %p200; add.s32 %r666, %r665, 13; shl.b32 %r667, %r89, %r666; shl.b32 %r668, %r665, 23;
sub.s32 %r669, %r667, %r668; add.s32 %r670, %r669, 939524096; setp.eq.s16 %p201, %rs20, 31744;
selp.b32 %r671, 2139095040, %r670, %p201; or.b32 %r754, %r671, %r754; bra.uni $L__BB1_158; $L__BB1_159:
and.b64 %rd527, %rd3, -4; $L__BB1_160: shl.b64 %rd414, %rd527, 2; shl.b64 %rd415, %rd527, 1;
sub.s64 %rd266, %rd3, %rd527; setp.ge.u64 %p203, %rd531, %rd266; @%p203 bra $L__BB1_175; add.s64 %rd264, %rd1, %rd414;
add.s64 %rd265, %rd2, %rd415; shl.b64 %rd417, %rd532, 1; add.s64 %rd418, %rd415, %rd417; add.s64 %rd419, %rd418, %rd2;
add.s64 %rd530, %rd419, 1024; shl.b64 %rd421, %rd532, 2; add.s64 %rd422, %rd414, %rd421; add.s64 %rd423, %rd422, %rd1;
add.s64 %rd529, %rd423, 2048; mov.b32 %r672, 2143289344; bra.uni $L__BB1_162; $L__BB1_174: shl.b64 %rd426, %rd531, 2;
add.s64 %rd427, %rd264, %rd426; st.u32 [%rd427], %r758; add.s64 %rd532, %rd275, 1024; add.s64 %rd531, %rd275, 1792;
add.s64 %rd530, %rd530, 2048; add.s64 %rd529, %rd529, 4096; setp.lt.u64 %p220, %rd531, %rd266; @%p220 bra $L__BB1_162;
bra.uni $L__BB1_175; $L__BB1_162: .pragma "nounroll"; mov.u64 %rd275, %rd532; ld.u16 %rs129, [%rd530+-1024];
and.b16 %rs24, %rs129, 32767; setp.gt.u16 %p204, %rs24, 31744; mov.u32 %r755, %r672; @%p204 bra $L__BB1_165;
cvt.s32.s16 %r673, %rs129; and.b32 %r755, %r673, -2147483648; setp.eq.s16 %p205, %rs24, 0; @%p205 bra $L__BB1_165;
cvt.u32.u16 %r93, %rs24; setp.lt.u16 %p206, %rs24, 1024; or.b32 %r674, %r93, 1; clz.b32 %r675, %r674;
add.s32 %r676, %r675, -21; selp.b32 %r677, %r676, 0, %p206; add.s32 %r678, %r677, 13; shl.b32 %r679, %r93, %r678;
shl.b32 %r680, %r677, 23; sub.s32 %r681, %r679, %r680; add.s32 %r682, %r681, 939524096;
setp.eq.s16 %p207, %rs24, 31744; selp.b32 %r683, 2139095040, %r682, %p207; or.b32 %r755, %r683, %r755; $L__BB1_165:
ld.u16 %rs21, [%rd530+-512]; ld.u16 %rs22, [%rd530]; shl.b64 %rd424, %rd531, 1; add.s64 %rd425, %rd265, %rd424;
ld.u16 %rs23, [%rd425]; st.u32 [%rd529+-2048], %r755; and.b16 %rs25, %rs21, 32767; setp.gt.u16 %p208, %rs25, 31744;
mov.u32 %r756, %r672; @%p208 bra $L__BB1_168; cvt.s32.s16 %r685, %rs21; and.b32 %r756, %r685, -2147483648;
setp.eq.s16 %p209, %rs25, 0; @%p209 bra $L__BB1_168; cvt.u32.u16 %r97, %rs25; setp.lt.u16 %p210, %rs25, 1024;
or.b32 %r686, %r97, 1; clz.b32 %r687, %r686; add.s32 %r688, %r687, -21; selp.b32 %r689, %r688, 0, %p210;
add.s32 %r690, %r689, 13; shl.b32 %r691, %r97, %r690; shl.b32 %r692, %r689, 23; sub.s32 %r693, %r691, %r692;
add.s32 %r694, %r693, 939524096; setp.eq.s16 %p211, %rs25, 31744; selp.b32 %r695, 2139095040, %r694, %p211;
or.b32 %r756, %r695, %r756; $L__BB1_168: st.u32 [%rd529+-1024], %r756; and.b16 %rs26, %rs22, 32767;
setp.gt.u16 %p212, %rs26, 31744; mov.u32 %r757, %r672; @%p212 bra $L__BB1_171; cvt.s32.s16 %r697, %rs22;
and.b32 %r757, %r697, -2147483648; setp.eq.s16 %p213, %rs26, 0; @%p213 bra $L__BB1_171; cvt.u32.u16 %r101, %rs26;
setp.lt.u16 %p214, %rs26, 1024; or.b32 %r698, %r101, 1; clz.b32 %r699, %r698; add.s32 %r700, %r699, -21;
selp.b32 %r701, %r700, 0, %p214; add.s32 %r702, %r701, 13; shl.b32 %r703, %r101, %r702; shl.b32 %r704, %r701, 23;
sub.s32 %r705, %r703, %r704; add.s32 %r706, %r705, 939524096; setp.eq.s16 %p215, %rs26, 31744;
selp.b32 %r707, 2139095040, %r706, %p215; or.b32 %r757, %r707, %r757; $L__BB1_171: st.u32 [%rd529], %r757;
and.b16 %rs27, %rs23, 32767; setp.gt.u16 %p216, %rs27, 31744; mov.u32 %r758, %r672; @%p216 bra $L__BB1_174;
cvt.s32.s16 %r709, %rs23; and.b32 %r758, %r709, -2147483648; setp.eq.s16 %p217, %rs27, 0; @%p217 bra $L__BB1_174;
cvt.u32.u16 %r105, %rs27; setp.lt.u16 %p218, %rs27, 1024; or.b32 %r710, %r105, 1; clz.b32 %r711, %r710;
add.s32 %r712, %r711, -21; selp.b32 %r713, %r712, 0, %p218; add.s32 %r714, %r713, 13; shl.b32 %r715, %r105, %r714;
shl.b32 %r716, %r713, 23; sub.s32 %r717, %r715, %r716; add.s32 %r718, %r717, 939524096;
setp.eq.s16 %p219, %rs27, 31744; selp.b32 %r719, 2139095040, %r718, %p219; or.b32 %r758, %r719, %r758;
bra.uni $L__BB1_174; $L__BB1_175: setp.ge.u64 %p221, %rd532, %rd266; @%p221 bra $L__BB1_182;
mov.b32 %r734, 2143289344; shl.b64 %rd429, %rd532, 2; add.s64 %rd430, %rd414, %rd429; add.s64 %rd534, %rd1, %rd430;
shl.b64 %rd432, %rd532, 1; add.s64 %rd433, %rd415, %rd432; add.s64 %rd533, %rd2, %rd433; bra.uni $L__BB1_177;
$L__BB1_180: st.u32 [%rd534], %r759; add.s64 %rd532, %rd532, 256; add.s64 %rd534, %rd534, 1024;
add.s64 %rd533, %rd533, 512; setp.lt.u64 %p226, %rd532, %rd266; @%p226 bra $L__BB1_177; bra.uni $L__BB1_182;
$L__BB1_177: .pragma "nounroll"; ld.u16 %rs130, [%rd533]; and.b16 %rs28, %rs130, 32767;
setp.gt.u16 %p222, %rs28, 31744; mov.u32 %r759, %r734; @%p222 bra $L__BB1_180; cvt.s32.s16 %r721, %rs130;
and.b32 %r759, %r721, -2147483648; setp.eq.s16 %p223, %rs28, 0; @%p223 bra $L__BB1_180; cvt.u32.u16 %r109, %rs28;
setp.lt.u16 %p224, %rs28, 1024; or.b32 %r722, %r109, 1; clz.b32 %r723, %r722; add.s32 %r724, %r723, -21;
selp.b32 %r725, %r724, 0, %p224; add.s32 %r726, %r725, 13; shl.b32 %r727, %r109, %r726; shl.b32 %r728, %r725, 23;
sub.s32 %r729, %r727, %r728; add.s32 %r730, %r729, 939524096; setp.eq.s16 %p225, %rs28, 31744;
selp.b32 %r731, 2139095040, %r730, %p225; or.b32 %r759, %r731, %r759; bra.uni $L__BB1_180; $L__BB1_13:
shr.u64 %rd28, %rd3, 2; mov.u32 %r374, %tid.x; cvt.u64.u32 %rd447, %r374; add.s64 %rd362, %rd447, 768;
setp.ge.u64 %p86, %rd362, %rd28; @%p86 bra $L__BB1_16; shl.b64 %rd363, %rd447, 2; add.s64 %rd364, %rd363, 2048;
add.s64 %rd443, %rd1, %rd364; add.s64 %rd442, %rd2, %rd364; mov.u64 %rd444, %rd447; $L__BB1_15: .pragma "nounroll";
ld.u32 %r375, [%rd442+-2048]; ld.u32 %r376, [%rd442+-1024]; ld.u32 %r377, [%rd442]; ld.u32 %r378, [%rd442+1024];
st.u32 [%rd443+-2048], %r375; st.u32 [%rd443+-1024], %r376; st.u32 [%rd443], %r377; st.u32 [%rd443+1024], %r378;
add.s64 %rd447, %rd444, 1024; add.s64 %rd443, %rd443, 4096; add.s64 %rd442, %rd442, 4096;
add.s64 %rd365, %rd444, 1792; setp.lt.u64 %p87, %rd365, %rd28; mov.u64 %rd444, %rd447; @%p87 bra $L__BB1_15;
$L__BB1_16: setp.ge.u64 %p88, %rd447, %rd28; @%p88 bra $L__BB1_182; shl.b64 %rd366, %rd447, 2;
add.s64 %rd446, %rd1, %rd366; add.s64 %rd445, %rd2, %rd366; $L__BB1_18: .pragma "nounroll"; ld.u32 %r379, [%rd445];
st.u32 [%rd446], %r379; add.s64 %rd447, %rd447, 256; add.s64 %rd446, %rd446, 1024; add.s64 %rd445, %rd445, 1024;
setp.lt.u64 %p89, %rd447, %rd28; @%p89 bra $L__BB1_18; bra.uni $L__BB1_182; $L__BB1_32: shr.u64 %rd74, %rd3, 4;
mov.u32 %r409, %tid.x; cvt.u64.u32 %rd75, %r409; add.s64 %rd394, %rd75, 768; setp.ge.u64 %p112, %rd394, %rd74;
mov.u64 %rd464, %rd75; @%p112 bra $L__BB1_35; shl.b64 %rd395, %rd75, 4; add.s64 %rd396, %rd395, 8192;
add.s64 %rd460, %rd2, %rd396; add.s64 %rd459, %rd1, %rd396; mov.u64 %rd461, %rd75; $L__BB1_34: .pragma "nounroll";
ld.v4.u32 {%r410, %r411, %r412, %r413}, [%rd459+-8192]; ld.v4.u32 {%r414, %r415, %r416, %r417}, [%rd459+-4096];
ld.v4.u32 {%r418, %r419, %r420, %r421}, [%rd459]; ld.v4.u32 {%r422, %r423, %r424, %r425}, [%rd459+4096];
st.v4.u32 [%rd460+-8192], {%r410, %r411, %r412, %r413}; st.v4.u32 [%rd460+-4096], {%r414, %r415, %r416, %r417};
st.v4.u32 [%rd460], {%r418, %r419, %r420, %r421}; st.v4.u32 [%rd460+4096], {%r422, %r423, %r424, %r425};
add.s64 %rd464, %rd461, 1024; add.s64 %rd460, %rd460, 16384; add.s64 %rd459, %rd459, 16384;
add.s64 %rd397, %rd461, 1792; setp.lt.u64 %p113, %rd397, %rd74; mov.u64 %rd461, %rd464; @%p113 bra $L__BB1_34;
$L__BB1_35: setp.ge.u64 %p114, %rd464, %rd74; @%p114 bra $L__BB1_38; shl.b64 %rd398, %rd464, 4;
add.s64 %rd463, %rd2, %rd398; add.s64 %rd462, %rd1, %rd398; $L__BB1_37: .pragma "nounroll";
ld.v4.u32 {%r426, %r427, %r428, %r429}, [%rd462]; st.v4.u32 [%rd463], {%r426, %r427, %r428, %r429};
add.s64 %rd464, %rd464, 256; add.s64 %rd463, %rd463, 4096; add.s64 %rd462, %rd462, 4096;
setp.lt.u64 %p115, %rd464, %rd74; @%p115 bra $L__BB1_37; $L__BB1_38: and.b64 %rd399, %rd3, 15;
setp.le.u64 %p116, %rd399, %rd75; @%p116 bra $L__BB1_182; and.b64 %rd400, %rd3, -16; add.s64 %rd401, %rd2, %rd400;
add.s64 %rd93, %rd401, %rd75; add.s64 %rd402, %rd1, %rd400; add.s64 %rd94, %rd402, %rd75; ld.u8 %rs90, [%rd94];
st.u8 [%rd93], %rs90; bra.uni $L__BB1_182; $L__BB1_77: shr.u64 %rd192, %rd3, 2; mov.u32 %r216, %tid.x;
cvt.u64.u32 %rd510, %r216; add.s64 %rd513, %rd510, 768; setp.ge.u64 %p39, %rd513, %rd192; mov.u64 %rd506, %rd510;
@%p39 bra $L__BB1_80; shl.b64 %rd322, %rd510, 3; add.s64 %rd323, %rd322, %rd2; add.s64 %rd502, %rd323, 4096;
shl.b64 %rd324, %rd510, 4; add.s64 %rd325, %rd324, %rd1; add.s64 %rd501, %rd325, 8192; mov.u64 %rd503, %rd510;
$L__BB1_79: .pragma "nounroll"; ld.v4.u32 {%r217, %r218, %r219, %r220}, [%rd501+-8192];
ld.v4.u32 {%r221, %r222, %r223, %r224}, [%rd501+-4096]; ld.v4.u32 {%r225, %r226, %r227, %r228}, [%rd501];
ld.v4.u32 {%r229, %r230, %r231, %r232}, [%rd501+4096]; and.b32 %r233, %r217, 2147483647;
setp.gt.u32 %p40, %r233, 2139095040; selp.b32 %r234, 2143289344, %r217, %p40; bfe.u32 %r235, %r234, 16, 1;
add.s32 %r236, %r234, %r235; add.s32 %r237, %r236, 32767; { .reg .b16 tmp; mov.b32 {tmp, %rs49}, %r237; }
and.b32 %r238, %r218, 2147483647; setp.gt.u32 %p41, %r238, 2139095040; selp.b32 %r239, 2143289344, %r218, %p41;
bfe.u32 %r240, %r239, 16, 1; add.s32 %r241, %r239, %r240; add.s32 %r242, %r241, 32767;
{ .reg .b16 tmp; mov.b32 {tmp, %rs50}, %r242; } and.b32 %r243, %r219, 2147483647; setp.gt.u32 %p42, %r243, 2139095040;
selp.b32 %r244, 2143289344, %r219, %p42; bfe.u32 %r245, %r244, 16, 1; add.s32 %r246, %r244, %r245;
add.s32 %r247, %r246, 32767; { .reg .b16 tmp; mov.b32 {tmp, %rs51}, %r247; } and.b32 %r248, %r220, 2147483647;
setp.gt.u32 %p43, %r248, 2139095040; selp.b32 %r249, 2143289344, %r220, %p43; bfe.u32 %r250, %r249, 16, 1;
add.s32 %r251, %r249, %r250; add.s32 %r252, %r251, 32767; { .reg .b16 tmp; mov.b32 {tmp, %rs52}, %r252; }
st.v4.u16 [%rd502+-4096], {%rs49, %rs50, %rs51, %rs52}; and.b32 %r253, %r221, 2147483647;
setp.gt.u32 %p44, %r253, 2139095040; selp.b32 %r254, 2143289344, %r221, %p44; bfe.u32 %r255, %r254, 16, 1;
add.s32 %r256, %r254, %r255; add.s32 %r257, %r256, 32767; { .reg .b16 tmp; mov.b32 {tmp, %rs53}, %r257; }
and.b32 %r258, %r222, 2147483647; setp.gt.u32 %p45, %r258, 2139095040; selp.b32 %r259, 2143289344, %r222, %p45;
bfe.u32 %r260, %r259, 16, 1; add.s32 %r261, %r259, %r260; add.s32 %r262, %r261, 32767;
{ .reg .b16 tmp; mov.b32 {tmp, %rs54}, %r262; } and.b32 %r263, %r223, 2147483647; setp.gt.u32 %p46, %r263, 2139095040;
selp.b32 %r264, 2143289344, %r223, %p46; bfe.u32 %r265, %r264, 16, 1; add.s32 %r266, %r264, %r265;
add.s32 %r267, %r266, 32767; { .reg .b16 tmp; mov.b32 {tmp, %rs55}, %r267; } and.b32 %r268, %r224, 2147483647;
setp.gt.u32 %p47, %r268, 2139095040; selp.b32 %r269, 2143289344, %r224, %p47; bfe.u32 %r270, %r269, 16, 1;
add.s32 %r271, %r269, %r270; add.s32 %r272, %r271, 32767; { .reg .b16 tmp; mov.b32 {tmp, %rs56}, %r272; }
st.v4.u16 [%rd502+-2048], {%rs53, %rs54, %rs55, %rs56}; and.b32 %r273, %r225, 2147483647;
setp.gt.u32 %p48, %r273, 2139095040; selp.b32 %r274, 2143289344, %r225, %p48; bfe.u32 %r275, %r274, 16, 1;
add.s32 %r276, %r274, %r275; add.s32 %r277, %r276, 32767; { .reg .b16 tmp; mov.b32 {tmp, %rs57}, %r277; }
and.b32 %r278, %r226, 2147483647; setp.gt.u32 %p49, %r278, 2139095040; selp.b32 %r279, 2143289344, %r226, %p49;
bfe.u32 %r280, %r279, 16, 1; add.s32 %r281, %r279, %r280; add.s32 %r282, %r281, 32767;
{ .reg .b16 tmp; mov.b32 {tmp, %rs58}, %r282; } and.b32 %r283, %r227, 2147483647; setp.gt.u32 %p50, %r283, 2139095040;
selp.b32 %r284, 2143289344, %r227, %p50; bfe.u32 %r285, %r284, 16, 1; add.s32 %r286, %r284, %r285;
add.s32 %r287, %r286, 32767; { .reg .b16 tmp; mov.b32 {tmp, %rs59}, %r287; } and.b32 %r288, %r228, 2147483647;
setp.gt.u32 %p51, %r288, 2139095040; selp.b32 %r289, 2143289344, %r228, %p51; bfe.u32 %r290, %r289, 16, 1;
add.s32 %r291, %r289, %r290; add.s32 %r292, %r291, 32767; { .reg .b16 tmp; mov.b32 {tmp, %rs60}, %r292; }
st.v4.u16 [%rd502], {%rs57, %rs58, %rs59, %rs60}; and.b32 %r293, %r229, 2147483647;
setp.gt.u32 %p52, %r293, 2139095040; selp.b32 %r294, 2143289344, %r229, %p52; bfe.u32 %r295, %r294, 16, 1;
add.s32 %r296, %r294, %r295; add.s32 %r297, %r296, 32767; { .reg .b16 tmp; mov.b32 {tmp, %rs61}, %r297; }
and.b32 %r298, %r230, 2147483647; setp.gt.u32 %p53, %r298, 2139095040; selp.b32 %r299, 2143289344, %r230, %p53;
bfe.u32 %r300, %r299, 16, 1; add.s32 %r301, %r299, %r300; add.s32 %r302, %r301, 32767;
{ .reg .b16 tmp; mov.b32 {tmp, %rs62}, %r302; } and.b32 %r303, %r231, 2147483647; setp.gt.u32 %p54, %r303, 2139095040;
selp.b32 %r304, 2143289344, %r231, %p54; bfe.u32 %r305, %r304, 16, 1; add.s32 %r306, %r304, %r305;
add.s32 %r307, %r306, 32767; { .reg .b16 tmp; mov.b32 {tmp, %rs63}, %r307; } and.b32 %r308, %r232, 2147483647;
setp.gt.u32 %p55, %r308, 2139095040; selp.b32 %r309, 2143289344, %r232, %p55; bfe.u32 %r310, %r309, 16, 1;
add.s32 %r311, %r309, %r310; add.s32 %r312, %r311, 32767; { .reg .b16 tmp; mov.b32 {tmp, %rs64}, %r312; }
st.v4.u16 [%rd502+2048], {%rs61, %rs62, %rs63, %rs64}; add.s64 %rd506, %rd503, 1024; add.s64 %rd502, %rd502, 8192;
add.s64 %rd501, %rd501, 16384; add.s64 %rd326, %rd503, 1792; setp.lt.u64 %p56, %rd326, %rd192; mov.u64 %rd503, %rd506;
@%p56 bra $L__BB1_79; $L__BB1_80: setp.ge.u64 %p57, %rd506, %rd192; @%p57 bra $L__BB1_83; shl.b64 %rd327, %rd506, 3;
add.s64 %rd505, %rd2, %rd327; shl.b64 %rd328, %rd506, 4; add.s64 %rd504, %rd1, %rd328; $L__BB1_82: .pragma "nounroll";
ld.v4.u32 {%r313, %r314, %r315, %r316}, [%rd504]; and.b32 %r317, %r313, 2147483647;
setp.gt.u32 %p58, %r317, 2139095040; selp.b32 %r318, 2143289344, %r313, %p58; bfe.u32 %r319, %r318, 16, 1;
add.s32 %r320, %r318, %r319; add.s32 %r321, %r320, 32767; { .reg .b16 tmp; mov.b32 {tmp, %rs65}, %r321; }
and.b32 %r322, %r314, 2147483647; setp.gt.u32 %p59, %r322, 2139095040; selp.b32 %r323, 2143289344, %r314, %p59;
bfe.u32 %r324, %r323, 16, 1; add.s32 %r325, %r323, %r324; add.s32 %r326, %r325, 32767;
{ .reg .b16 tmp; mov.b32 {tmp, %rs66}, %r326; } and.b32 %r327, %r315, 2147483647; setp.gt.u32 %p60, %r327, 2139095040;
selp.b32 %r328, 2143289344, %r315, %p60; bfe.u32 %r329, %r328, 16, 1; add.s32 %r330, %r328, %r329;
add.s32 %r331, %r330, 32767; { .reg .b16 tmp; mov.b32 {tmp, %rs67}, %r331; } and.b32 %r332, %r316, 2147483647;
setp.gt.u32 %p61, %r332, 2139095040; selp.b32 %r333, 2143289344, %r316, %p61; bfe.u32 %r334, %r333, 16, 1;
add.s32 %r335, %r333, %r334; add.s32 %r336, %r335, 32767; { .reg .b16 tmp; mov.b32 {tmp, %rs68}, %r336; }
st.v4.u16 [%rd505], {%rs65, %rs66, %rs67, %rs68}; add.s64 %rd506, %rd506, 256; add.s64 %rd505, %rd505, 2048;
add.s64 %rd504, %rd504, 4096; setp.lt.u64 %p62, %rd506, %rd192; @%p62 bra $L__BB1_82; $L__BB1_83:
and.b64 %rd509, %rd3, -4; $L__BB1_84: shl.b64 %rd329, %rd509, 1; shl.b64 %rd330, %rd509, 2;
sub.s64 %rd218, %rd3, %rd509; setp.ge.u64 %p63, %rd513, %rd218; @%p63 bra $L__BB1_87; add.s64 %rd216, %rd2, %rd329;
add.s64 %rd217, %rd1, %rd330; shl.b64 %rd332, %rd510, 2; add.s64 %rd333, %rd330, %rd332; add.s64 %rd334, %rd333, %rd1;
add.s64 %rd512, %rd334, 2048; shl.b64 %rd336, %rd510, 1; add.s64 %rd337, %rd329, %rd336; add.s64 %rd338, %rd337, %rd2;
add.s64 %rd511, %rd338, 1024; mov.u64 %rd514, %rd510; $L__BB1_86: .pragma "nounroll"; ld.u32 %r337, [%rd512+-2048];
ld.u32 %r338, [%rd512+-1024]; ld.u32 %r339, [%rd512]; shl.b64 %rd339, %rd513, 2; add.s64 %rd340, %rd217, %rd339;
ld.u32 %r340, [%rd340]; and.b32 %r341, %r337, 2147483647; setp.gt.u32 %p64, %r341, 2139095040;
selp.b32 %r342, 2143289344, %r337, %p64; bfe.u32 %r343, %r342, 16, 1; add.s32 %r344, %r342, %r343;
add.s32 %r345, %r344, 32767; shr.u32 %r346, %r345, 16; st.u16 [%rd511+-1024], %r346; and.b32 %r347, %r338, 2147483647;
setp.gt.u32 %p65, %r347, 2139095040; selp.b32 %r348, 2143289344, %r338, %p65; bfe.u32 %r349, %r348, 16, 1;
add.s32 %r350, %r348, %r349; add.s32 %r351, %r350, 32767; shr.u32 %r352, %r351, 16; st.u16 [%rd511+-512], %r352;
and.b32 %r353, %r339, 2147483647; setp.gt.u32 %p66, %r353, 2139095040; selp.b32 %r354, 2143289344, %r339, %p66;
bfe.u32 %r355, %r354, 16, 1; add.s32 %r356, %r354, %r355; add.s32 %r357, %r356, 32767; shr.u32 %r358, %r357, 16;
st.u16 [%rd511], %r358; and.b32 %r359, %r340, 2147483647; setp.gt.u32 %p67, %r359, 2139095040;
selp.b32 %r360, 2143289344, %r340, %p67; bfe.u32 %r361, %r360, 16, 1; add.s32 %r362, %r360, %r361;
add.s32 %r363, %r362, 32767; shr.u32 %r364, %r363, 16; shl.b64 %rd341, %rd513, 1; add.s64 %rd342, %rd216, %rd341;
st.u16 [%rd342], %r364; add.s64 %rd510, %rd514, 1024; add.s64 %rd513, %rd514, 1792; add.s64 %rd512, %rd512, 4096;
add.s64 %rd511, %rd511, 2048; setp.lt.u64 %p68, %rd513, %rd218; mov.u64 %rd514, %rd510; @%p68 bra $L__BB1_86;
$L__BB1_87: setp.ge.u64 %p69, %rd510, %rd218; @%p69 bra $L__BB1_182; shl.b64 %rd344, %rd510, 1;
add.s64 %rd345, %rd329, %rd344; add.s64 %rd516, %rd2, %rd345; shl.b64 %rd347, %rd510, 2;
add.s64 %rd348, %rd330, %rd347; add.s64 %rd515, %rd1, %rd348; $L__BB1_89: .pragma "nounroll"; ld.u32 %r365, [%rd515];
and.b32 %r366, %r365, 2147483647; setp.gt.u32 %p70, %r366, 2139095040; selp.b32 %r367, 2143289344, %r365, %p70;
bfe.u32 %r368, %r367, 16, 1; add.s32 %r369, %r367, %r368; add.s32 %r370, %r369, 32767; shr.u32 %r371, %r370, 16;
st.u16 [%rd516], %r371; add.s64 %rd510, %rd510, 256; add.s64 %rd516, %rd516, 512; add.s64 %rd515, %rd515, 1024;
setp.lt.u64 %p71, %rd510, %rd218; @%p71 bra $L__BB1_89; bra.uni $L__BB1_182; $L__BB1_26: mov.u32 %r372, %tid.x;
cvt.u64.u32 %rd457, %r372; add.s64 %rd351, %rd457, 768; setp.ge.u64 %p78, %rd351, %rd3; @%p78 bra $L__BB1_29;
add.s64 %rd67, %rd1, 512; add.s64 %rd68, %rd2, 768; mov.u64 %rd456, %rd457; $L__BB1_28: .pragma "nounroll";
add.s64 %rd352, %rd68, %rd456; ld.u8 %rs69, [%rd352+-768]; ld.u8 %rs70, [%rd352+-512]; ld.u8 %rs71, [%rd352+-256];
ld.u8 %rs72, [%rd352]; add.s64 %rd353, %rd67, %rd456; st.u8 [%rd353+-512], %rs69; st.u8 [%rd353+-256], %rs70;
st.u8 [%rd353], %rs71; st.u8 [%rd353+256], %rs72; add.s64 %rd457, %rd456, 1024; add.s64 %rd354, %rd456, 1792;
setp.lt.u64 %p79, %rd354, %rd3; mov.u64 %rd456, %rd457; @%p79 bra $L__BB1_28; $L__BB1_29:
setp.ge.u64 %p80, %rd457, %rd3; @%p80 bra $L__BB1_182; $L__BB1_30: .pragma "nounroll"; add.s64 %rd355, %rd2, %rd457;
ld.u8 %rs73, [%rd355]; add.s64 %rd356, %rd1, %rd457; st.u8 [%rd356], %rs73; add.s64 %rd457, %rd457, 256;
setp.lt.u64 %p81, %rd457, %rd3; @%p81 bra $L__BB1_30; bra.uni $L__BB1_182; $L__BB1_41: shr.u64 %rd96, %rd3, 2;
mov.u32 %r403, %tid.x; cvt.u64.u32 %rd471, %r403; add.s64 %rd389, %rd471, 768; setp.ge.u64 %p108, %rd389, %rd96;
@%p108 bra $L__BB1_44; shl.b64 %rd390, %rd471, 2; add.s64 %rd391, %rd390, 2048; add.s64 %rd467, %rd2, %rd391;
add.s64 %rd466, %rd1, %rd391; mov.u64 %rd468, %rd471; $L__BB1_43: .pragma "nounroll"; ld.u32 %r404, [%rd466+-2048];
ld.u32 %r405, [%rd466+-1024]; ld.u32 %r406, [%rd466]; ld.u32 %r407, [%rd466+1024]; st.u32 [%rd467+-2048], %r404;
st.u32 [%rd467+-1024], %r405; st.u32 [%rd467], %r406; st.u32 [%rd467+1024], %r407; add.s64 %rd471, %rd468, 1024;
add.s64 %rd467, %rd467, 4096; add.s64 %rd466, %rd466, 4096; add.s64 %rd392, %rd468, 1792;
setp.lt.u64 %p109, %rd392, %rd96; mov.u64 %rd468, %rd471; @%p109 bra $L__BB1_43; $L__BB1_44:
setp.ge.u64 %p110, %rd471, %rd96; @%p110 bra $L__BB1_182; shl.b64 %rd393, %rd471, 2; add.s64 %rd470, %rd2, %rd393;
add.s64 %rd469, %rd1, %rd393; $L__BB1_46: .pragma "nounroll"; ld.u32 %r408, [%rd469]; st.u32 [%rd470], %r408;
add.s64 %rd471, %rd471, 256; add.s64 %rd470, %rd470, 1024; add.s64 %rd469, %rd469, 1024;
setp.lt.u64 %p111, %rd471, %rd96; @%p111 bra $L__BB1_46; bra.uni $L__BB1_182; $L__BB1_54: mov.u32 %r401, %tid.x;
cvt.u64.u32 %rd481, %r401; add.s64 %rd378, %rd481, 768; setp.ge.u64 %p100, %rd378, %rd3; @%p100 bra $L__BB1_57;
add.s64 %rd135, %rd2, 512; add.s64 %rd136, %rd1, 768; mov.u64 %rd480, %rd481; $L__BB1_56: .pragma "nounroll";
add.s64 %rd379, %rd136, %rd480; ld.u8 %rs80, [%rd379+-768]; ld.u8 %rs81, [%rd379+-512]; ld.u8 %rs82, [%rd379+-256];
ld.u8 %rs83, [%rd379]; add.s64 %rd380, %rd135, %rd480; st.u8 [%rd380+-512], %rs80; st.u8 [%rd380+-256], %rs81;
st.u8 [%rd380], %rs82; st.u8 [%rd380+256], %rs83; add.s64 %rd481, %rd480, 1024; add.s64 %rd381, %rd480, 1792;
setp.lt.u64 %p101, %rd381, %rd3; mov.u64 %rd480, %rd481; @%p101 bra $L__BB1_56; $L__BB1_57:
setp.ge.u64 %p102, %rd481, %rd3; @%p102 bra $L__BB1_182; $L__BB1_58: .pragma "nounroll"; add.s64 %rd382, %rd1, %rd481;
ld.u8 %rs84, [%rd382]; add.s64 %rd383, %rd2, %rd481; st.u8 [%rd383], %rs84; add.s64 %rd481, %rd481, 256;
setp.lt.u64 %p103, %rd481, %rd3; @%p103 bra $L__BB1_58; $L__BB1_182: ret; }
.weak .func _ZN5shoal6device15ConvertElementsItjTnPFT_T0_EXadL_ZNS0_15NarrowToFloat16EjEEEEvPS2_PKS3_y(
.param .b64 _ZN5shoal6device15ConvertElementsItjTnPFT_T0_EXadL_ZNS0_15NarrowToFloat16EjEEEEvPS2_PKS3_y_param_0,
.param .b64 _ZN5shoal6device15ConvertElementsItjTnPFT_T0_EXadL_ZNS0_15NarrowToFloat16EjEEEEvPS2_PKS3_y_param_1,
.param .b64 _ZN5shoal6device15ConvertElementsItjTnPFT_T0_EXadL_ZNS0_15NarrowToFloat16EjEEEEvPS2_PKS3_y_param_2 ) {
.reg .pred %p<85>; .reg .b16 %rs<103>; .reg .b32 %r<678>; .reg .b64 %rd<101>;
ld.param.u64 %rd51, [_ZN5shoal6device15ConvertElementsItjTnPFT_T0_EXadL_ZNS0_15NarrowToFloat16EjEEEEvPS2_PKS3_y_param_2];
ld.param.u64 %rd50, [_ZN5shoal6device15ConvertElementsItjTnPFT_T0_EXadL_ZNS0_15NarrowToFloat16EjEEEEvPS2_PKS3_y_param_1];
ld.param.u64 %rd49, [_ZN5shoal6device15ConvertElementsItjTnPFT_T0_EXadL_ZNS0_15NarrowToFloat16EjEEEEvPS2_PKS3_y_param_0];
and.b64 %rd52, %rd49, 7; and.b64 %rd53, %rd50, 15; or.b64 %rd54, %rd53, %rd52; setp.eq.s64 %p1, %rd54, 0;
mov.u32 %r675, %tid.x; mov.b32 %r676, 126; mov.b32 %r677, 1; @%p1 bra $L__BB2_2; cvt.u64.u32 %rd93, %r675;
add.s64 %rd96, %rd93, 768; mov.u64 %rd92, 0; bra.uni $L__BB2_49; $L__BB2_2: shr.u64 %rd3, %rd51, 2;
cvt.u64.u32 %rd93, %r675; add.s64 %rd96, %rd93, 768; setp.ge.u64 %p2, %rd96, %rd3; mov.u64 %rd89, %rd93;
@%p2 bra $L__BB2_37; shl.b64 %rd56, %rd93, 3; add.s64 %rd57, %rd56, %rd49; add.s64 %rd85, %rd57, 4096;
shl.b64 %rd58, %rd93, 4; add.s64 %rd59, %rd58, %rd50; add.s64 %rd84, %rd59, 8192; mov.u16 %rs51, 32256;
mov.u64 %rd86, %rd93; bra.uni $L__BB2_4; $L__BB2_36: st.v4.u16 [%rd85+2048], {%rs90, %rs91, %rs92, %rs93};
add.s64 %rd89, %rd86, 1024; add.s64 %rd85, %rd85, 8192; add.s64 %rd84, %rd84, 16384; add.s64 %rd60, %rd86, 1792;
setp.lt.u64 %p51, %rd60, %rd3; mov.u64 %rd86, %rd89; @%p51 bra $L__BB2_4; bra.uni $L__BB2_37; $L__BB2_4:
.pragma "nounroll"; ld.v4.u32 {%r17, %r2, %r3, %r4}, [%rd84+-8192]; and.b32 %r18, %r17, 2147483647;
setp.gt.u32 %p3, %r18, 2139095040; mov.u16 %rs78, %rs51; @%p3 bra $L__BB2_6; setp.lt.u32 %p4, %r18, 947912704;
setp.gt.u32 %p5, %r18, 855638015; shr.u32 %r73, %r18, 23; sub.s32 %r75, %r676, %r73; selp.b32 %r76, %r75, 25, %p5;
selp.b32 %r77, %r76, 13, %p4; and.b32 %r78, %r17, 8388607; or.b32 %r79, %r78, 8388608; shr.u32 %r80, %r17, 16;
and.b32 %r81, %r80, 32768; add.s32 %r82, %r77, -1; shl.b32 %r84, %r677, %r82; shr.u32 %r85, %r79, %r77;
and.b32 %r86, %r85, 1; add.s32 %r87, %r78, %r84; add.s32 %r88, %r87, %r86; add.s32 %r89, %r88, 8388607;
shr.u32 %r90, %r89, %r77; shl.b32 %r91, %r73, 10; add.s32 %r92, %r91, -115712; selp.b32 %r93, 0, %r92, %p4;
add.s32 %r94, %r90, %r93; min.u32 %r95, %r94, 31744; or.b32 %r96, %r95, %r81; cvt.u16.u32 %rs78, %r96; $L__BB2_6:
and.b32 %r20, %r2, 2147483647; setp.gt.u32 %p6, %r20, 2139095040; mov.u16 %rs79, %rs51; @%p6 bra $L__BB2_8;
setp.lt.u32 %p7, %r20, 947912704; setp.gt.u32 %p8, %r20, 855638015; shr.u32 %r97, %r20, 23; sub.s32 %r99, %r676, %r97;
selp.b32 %r100, %r99, 25, %p8; selp.b32 %r101, %r100, 13, %p7; and.b32 %r102, %r2, 8388607;
or.b32 %r103, %r102, 8388608; shr.u32 %r104, %r2, 16; and.b32 %r105, %r104, 32768; add.s32 %r106, %r101, -1;
shl.b32 %r108, %r677, %r106; shr.u32 %r109, %r103, %r101; and.b32 %r110, %r109, 1; add.s32 %r111, %r102, %r108;
add.s32 %r112, %r111, %r110; add.s32 %r113, %r112, 8388607; shr.u32 %r114, %r113, %r101; shl.b32 %r115, %r97, 10;
add.s32 %r116, %r115, -115712; selp.b32 %r117, 0, %r116, %p7; add.s32 %r118, %r114, %r117;
min.u32 %r119, %r118, 31744; or.b32 %r120, %r119, %r105; cvt.u16.u32 %rs79, %r120; $L__BB2_8:
and.b32 %r22, %r3, 2147483647; setp.gt.u32 %p9, %r22, 2139095040; mov.u16 %rs80, %rs51; @%p9 bra $L__BB2_10;
setp.lt.u32 %p10, %r22, 947912704; setp.gt.u32 %p11, %r22, 855638015; shr.u32 %r121, %r22, 23;
sub.s32 %r123, %r676, %r121; selp.b32 %r124, %r123, 25, %p11; selp.b32 %r125, %r124, 13, %p10;
and.b32 %r126, %r3, 8388607; or.b32 %r127, %r126, 8388608; shr.u32 %r128, %r3, 16; and.b32 %r129, %r128, 32768;
add.s32 %r130, %r125, -1; shl.b32 %r132, %r677, %r130; shr.u32 %r133, %r127, %r125; and.b32 %r134, %r133, 1;
add.s32 %r135, %r126, %r132; add.s32 %r136, %r135, %r134; add.s32 %r137, %r136, 8388607; shr.u32 %r138, %r137, %r125;
shl.b32 %r139, %r121, 10; add.s32 %r140, %r139, -115712; selp.b32 %r141, 0, %r140, %p10; add.s32 %r142, %r138, %r141;
min.u32 %r143, %r142, 31744; or.b32 %r144, %r143, %r129; cvt.u16.u32 %rs80, %r144; $L__BB2_10:
and.b32 %r24, %r4, 2147483647; setp.gt.u32 %p12, %r24, 2139095040; mov.u16 %rs81, %rs51; @%p12 bra $L__BB2_12;
setp.lt.u32 %p13, %r24, 947912704; setp.gt.u32 %p14, %r24, 855638015; shr.u32 %r145, %r24, 23;
sub.s32 %r147, %r676, %r145; selp.b32 %r148, %r147, 25, %p14; selp.b32 %r149, %r148, 13, %p13;
and.b32 %r150, %r4, 8388607; or.b32 %r151, %r150, 8388608; shr.u32 %r152, %r4, 16; and.b32 %r153, %r152, 32768;
add.s32 %r154, %r149, -1; shl.b32 %r156, %r677, %r154; shr.u32 %r157, %r151, %r149; and.b32 %r158, %r157, 1;
add.s32 %r159, %r150, %r156; add.s32 %r160, %r159, %r158; add.s32 %r161, %r160, 8388607; shr.u32 %r162, %r161, %r149;
shl.b32 %r163, %r145, 10; add.s32 %r164, %r163, -115712; selp.b32 %r165, 0, %r164, %p13; add.s32 %r166, %r162, %r165;
min.u32 %r167, %r166, 31744; or.b32 %r168, %r167, %r153; cvt.u16.u32 %rs81, %r168; $L__BB2_12:
ld.v4.u32 {%r5, %r6, %r7, %r8}, [%rd84+-4096]; ld.v4.u32 {%r9, %r10, %r11, %r12}, [%rd84];
ld.v4.u32 {%r13, %r14, %r15, %r16}, [%rd84+4096]; st.v4.u16 [%rd85+-4096], {%rs78, %rs79, %rs80, %rs81};
and.b32 %r26, %r5, 2147483647; setp.gt.u32 %p15, %r26, 2139095040; mov.u16 %rs82, %rs51; @%p15 bra $L__BB2_14;
setp.lt.u32 %p16, %r26, 947912704; setp.gt.u32 %p17, %r26, 855638015; shr.u32 %r169, %r26, 23;
sub.s32 %r171, %r676, %r169; selp.b32 %r172, %r171, 25, %p17; selp.b32 %r173, %r172, 13, %p16;
and.b32 %r174, %r5, 8388607; or.b32 %r175, %r174, 8388608; shr.u32 %r176, %r5, 16; and.b32 %r177, %r176, 32768;
add.s32 %r178, %r173, -1; shl.b32 %r180, %r677, %r178; shr.u32 %r181, %r175, %r173; and.b32 %r182, %r181, 1;
add.s32 %r183, %r174, %r180; add.s32 %r184, %r183, %r182; add.s32 %r185, %r184, 8388607; shr.u32 %r186, %r185, %r173;
shl.b32 %r187, %r169, 10; add.s32 %r188, %r187, -115712; selp.b32 %r189, 0, %r188, %p16; add.s32 %r190, %r186, %r189;
min.u32 %r191, %r190, 31744; or.b32 %r192, %r191, %r177; cvt.u16.u32 %rs82, %r192; $L__BB2_14:
and.b32 %r28, %r6, 2147483647; setp.gt.u32 %p18, %r28, 2139095040; mov.u16 %rs83, %rs51; @%p18 bra $L__BB2_16;
setp.lt.u32 %p19, %r28, 947912704; setp.gt.u32 %p20, %r28, 855638015; shr.u32 %r193, %r28, 23;
sub.s32 %r195, %r676, %r193; selp.b32 %r196, %r195, 25, %p20; selp.b32 %r197, %r196, 13, %p19;
and.b32 %r198, %r6, 8388607; or.b32 %r199, %r198, 8388608; shr.u32 %r200, %r6, 16; and.b32 %r201, %r200, 32768;
add.s32 %r202, %r197, -1; shl.b32 %r204, %r677, %r202; shr.u32 %r205, %r199, %r197; and.b32 %r206, %r205, 1;
add.s32 %r207, %r198, %r204; add.s32 %r208, %r207, %r206; add.s32 %r209, %r208, 8388607; shr.u32 %r210, %r209, %r197;
shl.b32 %r211, %r193, 10; add.s32 %r212, %r211, -115712; selp.b32 %r213, 0, %r212, %p19; add.s32 %r214, %r210, %r213;
min.u32 %r215, %r214, 31744; or.b32 %r216, %r215, %r201; cvt.u16.u32 %rs83, %r216; $L__BB2_16:
and.b32 %r30, %r7, 2147483647; setp.gt.u32 %p21, %r30, 2139095040; mov.u16 %rs84, %rs51; @%p21 bra $L__BB2_18;
setp.lt.u32 %p22, %r30, 947912704; setp.gt.u32 %p23, %r30, 855638015; shr.u32 %r217, %r30, 23;
sub.s32 %r219, %r676, %r217; selp.b32 %r220, %r219, 25, %p23; selp.b32 %r221, %r220, 13, %p22;
and.b32 %r222, %r7, 8388607; or.b32 %r223, %r222, 8388608; shr.u32 %r224, %r7, 16; and.b32 %r225, %r224, 32768;
add.s32 %r226, %r221, -1; shl.b32 %r228, %r677, %r226; shr.u32 %r229, %r223, %r221; and.b32 %r230, %r229, 1;
add.s32 %r231, %r222, %r228; add.s32 %r232, %r231, %r230; add.s32 %r233, %r232, 8388607; shr.u32 %r234, %r233, %r221;
shl.b32 %r235, %r217, 10; add.s32 %r236, %r235, -115712; selp.b32 %r237, 0, %r236, %p22; add.s32 %r238, %r234, %r237;
min.u32 %r239, %r238, 31744; or.b32 %r240, %r239, %r225; cvt.u16.u32 %rs84, %r240; $L__BB2_18:
and.b32 %r32, %r8, 2147483647; setp.gt.u32 %p24, %r32, 2139095040; mov.u16 %rs85, %rs51; @%p24 bra $L__BB2_20;
setp.lt.u32 %p25, %r32, 947912704; setp.gt.u32 %p26, %r32, 855638015; shr.u32 %r241, %r32, 23;
sub.s32 %r243, %r676, %r241; selp.b32 %r244, %r243, 25, %p26; selp.b32 %r245, %r244, 13, %p25;
and.b32 %r246, %r8, 8388607; or.b32 %r247, %r246, 8388608; shr.u32 %r248, %r8, 16; and.b32 %r249, %r248, 32768;
add.s32 %r250, %r245, -1; shl.b32 %r252, %r677, %r250; shr.u32 %r253, %r247, %r245; and.b32 %r254, %r253, 1;
add.s32 %r255, %r246, %r252; add.s32 %r256, %r255, %r254; add.s32 %r257, %r256, 8388607; shr.u32 %r258, %r257, %r245;
shl.b32 %r259, %r241, 10; add.s32 %r260, %r259, -115712; selp.b32 %r261, 0, %r260, %p25; add.s32 %r262, %r258, %r261;
min.u32 %r263, %r262, 31744; or.b32 %r264, %r263, %r249; cvt.u16.u32 %rs85, %r264; $L__BB2_20:
st.v4.u16 [%rd85+-2048], {%rs82, %rs83, %rs84, %rs85}; and.b32 %r34, %r9, 2147483647;
setp.gt.u32 %p27, %r34, 2139095040; mov.u16 %rs86, %rs51; @%p27 bra $L__BB2_22; setp.lt.u32 %p28, %r34, 947912704;
setp.gt.u32 %p29, %r34, 855638015; shr.u32 %r265, %r34, 23; sub.s32 %r267, %r676, %r265;
selp.b32 %r268, %r267, 25, %p29; selp.b32 %r269, %r268, 13, %p28; and.b32 %r270, %r9, 8388607;
or.b32 %r271, %r270, 8388608; shr.u32 %r272, %r9, 16; and.b32 %r273, %r272, 32768; add.s32 %r274, %r269, -1;
shl.b32 %r276, %r677, %r274; shr.u32 %r277, %r271, %r269; and.b32 %r278, %r277, 1; add.s32 %r279, %r270, %r276;
add.s32 %r280, %r279, %r278; add.s32 %r281, %r280, 8388607; shr.u32 %r282, %r281, %r269; shl.b32 %r283, %r265, 10;
add.s32 %r284, %r283, -115712; selp.b32 %r285, 0, %r284, %p28; add.s32 %r286, %r282, %r285;
min.u32 %r287, %r286, 31744; or.b32 %r288, %r287, %r273; cvt.u16.u32 %rs86, %r288; $L__BB2_22:
and.b32 %r36, %r10, 2147483647; setp.gt.u32 %p30, %r36, 2139095040; mov.u16 %rs87, %rs51; @%p30 bra $L__BB2_24;
setp.lt.u32 %p31, %r36, 947912704; setp.gt.u32 %p32, %r36, 855638015; shr.u32 %r289, %r36, 23;
sub.s32 %r291, %r676, %r289; selp.b32 %r292, %r291, 25, %p32; selp.b32 %r293, %r292, 13, %p31;
and.b32 %r294, %r10, 8388607; or.b32 %r295, %r294, 8388608; shr.u32 %r296, %r10, 16; and.b32 %r297, %r296, 32768;
add.s32 %r298, %r293, -1; shl.b32 %r300, %r677, %r298; shr.u32 %r301, %r295, %r293; and.b32 %r302, %r301, 1;
add.s32 %r303, %r294, %r300; add.s32 %r304, %r303, %r302; add.s32 %r305, %r304, 8388607; shr.u32 %r306, %r305, %r293;
shl.b32 %r307, %r289, 10; add.s32 %r308, %r307, -115712; selp.b32 %r309, 0, %r308, %p31; add.s32 %r310, %r306, %r309;
min.u32 %r311, %r310, 31744; or.b32 %r312, %r311, %r297; cvt.u16.u32 %rs87, %r312; $L__BB2_24:
and.b32 %r38, %r11, 2147483647; setp.gt.u32 %p33, %r38, 2139095040; mov.u16 %rs88, %rs51; @%p33 bra $L__BB2_26;
setp.lt.u32 %p34, %r38, 947912704; setp.gt.u32 %p35, %r38, 855638015; shr.u32 %r313, %r38, 23;
sub.s32 %r315, %r676, %r313; selp.b32 %r316, %r315, 25, %p35; selp.b32 %r317, %r316, 13, %p34;
and.b32 %r318, %r11, 8388607; or.b32 %r319, %r318, 8388608; shr.u32 %r320, %r11, 16; and.b32 %r321, %r320, 32768;
add.s32 %r322, %r317, -1; shl.b32 %r324, %r677, %r322; shr.u32 %r325, %r319, %r317; and.b32 %r326, %r325, 1;
add.s32 %r327, %r318, %r324; add.s32 %r328, %r327, %r326; add.s32 %r329, %r328, 8388607; shr.u32 %r330, %r329, %r317;
shl.b32 %r331, %r313, 10; add.s32 %r332, %r331, -115712; selp.b32 %r333, 0, %r332, %p34; add.s32 %r334, %r330, %r333;
min.u32 %r335, %r334, 31744; or.b32 %r336, %r335, %r321; cvt.u16.u32 %rs88, %r336; $L__BB2_26:
and.b32 %r40, %r12, 2147483647; setp.gt.u32 %p36, %r40, 2139095040; mov.u16 %rs89, %rs51; @%p36 bra $L__BB2_28;
setp.lt.u32 %p37, %r40, 947912704; setp.gt.u32 %p38, %r40, 855638015; shr.u32 %r337, %r40, 23;
sub.s32 %r339, %r676, %r337; selp.b32 %r340, %r339, 25, %p38; selp.b32 %r341, %r340, 13, %p37;
and.b32 %r342, %r12, 8388607; or.b32 %r343, %r342, 8388608; shr.u32 %r344, %r12, 16; and.b32 %r345, %r344, 32768;
add.s32 %r346, %r341, -1; shl.b32 %r348, %r677, %r346; shr.u32 %r349, %r343, %r341; and.b32 %r350, %r349, 1;
add.s32 %r351, %r342, %r348; add.s32 %r352, %r351, %r350; add.s32 %r353, %r352, 8388607; shr.u32 %r354, %r353, %r341;
shl.b32 %r355, %r337, 10; add.s32 %r356, %r355, -115712; selp.b32 %r357, 0, %r356, %p37; add.s32 %r358, %r354, %r357;
min.u32 %r359, %r358, 31744; or.b32 %r360, %r359, %r345; cvt.u16.u32 %rs89, %r360; $L__BB2_28:
st.v4.u16 [%rd85], {%rs86, %rs87, %rs88, %rs89}; and.b32 %r42, %r13, 2147483647; setp.gt.u32 %p39, %r42, 2139095040;
mov.u16 %rs90, %rs51; @%p39 bra $L__BB2_30; setp.lt.u32 %p40, %r42, 947912704; setp.gt.u32 %p41, %r42, 855638015;
shr.u32 %r361, %r42, 23; sub.s32 %r363, %r676, %r361; selp.b32 %r364, %r363, 25, %p41;
selp.b32 %r365, %r364, 13, %p40; and.b32 %r366, %r13, 8388607; or.b32 %r367, %r366, 8388608; shr.u32 %r368, %r13, 16;
and.b32 %r369, %r368, 32768; add.s32 %r370, %r365, -1; shl.b32 %r372, %r677, %r370; shr.u32 %r373, %r367, %r365;
and.b32 %r374, %r373, 1; add.s32 %r375, %r366, %r372; add.s32 %r376, %r375, %r374; add.s32 %r377, %r376, 8388607;
shr.u32 %r378, %r377, %r365; shl.b32 %r379, %r361, 10; add.s32 %r380, %r379, -115712; selp.b32 %r381, 0, %r380, %p40;
add.s32 %r382, %r378, %r381; min.u32 %r383, %r382, 31744; or.b32 %r384, %r383, %r369; cvt.u16.u32 %rs90, %r384;
$L__BB2_30: and.b32 %r44, %r14, 2147483647; setp.gt.u32 %p42, %r44, 2139095040; mov.u16 %rs91, %rs51;
@%p42 bra $L__BB2_32; setp.lt.u32 %p43, %r44, 947912704; setp.gt.u32 %p44, %r44, 855638015; shr.u32 %r385, %r44, 23;
sub.s32 %r387, %r676, %r385; selp.b32 %r388, %r387, 25, %p44; selp.b32 %r389, %r388, 13, %p43;
and.b32 %r390, %r14, 8388607; or.b32 %r391, %r390, 8388608; shr.u32 %r392, %r14, 16; and.b32 %r393, %r392, 32768;
add.s32 %r394, %r389, -1; shl.b32 %r396, %r677, %r394; shr.u32 %r397, %r391, %r389; and.b32 %r398, %r397, 1;
add.s32 %r399, %r390, %r396; add.s32 %r400, %r399, %r398; add.s32 %r401, %r400, 8388607; shr.u32 %r402, %r401, %r389;
shl.b32 %r403, %r385, 10; add.s32 %r404, %r403, -115712; selp.b32 %r405, 0, %r404, %p43; add.s32 %r406, %r402, %r405;
min.u32 %r407, %r406, 31744; or.b32 %r408, %r407, %r393; cvt.u16.u32 %rs91, %r408; $L__BB2_32:
and.b32 %r46, %r15, 2147483647; setp.gt.u32 %p45, %r46, 2139095040; mov.u16 %rs92, %rs51; @%p45 bra $L__BB2_34;
setp.lt.u32 %p46, %r46, 947912704; setp.gt.u32 %p47, %r46, 855638015; shr.u32 %r409, %r46, 23;
sub.s32 %r411, %r676, %r409; selp.b32 %r412, %r411, 25, %p47; selp.b32 %r413, %r412, 13, %p46;
and.b32 %r414, %r15, 8388607; or.b32 %r415, %r414, 8388608; shr.u32 %r416, %r15, 16; and.b32 %r417, %r416, 32768;
add.s32 %r418, %r413, -1; shl.b32 %r420, %r677, %r418; shr.u32 %r421, %r415, %r413; and.b32 %r422, %r421, 1;
add.s32 %r423, %r414, %r420; add.s32 %r424, %r423, %r422; add.s32 %r425, %r424, 8388607; shr.u32 %r426, %r425, %r413;
shl.b32 %r427, %r409, 10; add.s32 %r428, %r427, -115712; selp.b32 %r429, 0, %r428, %p46; add.s32 %r430, %r426, %r429;
min.u32 %r431, %r430, 31744; or.b32 %r432, %r431, %r417; cvt.u16.u32 %rs92, %r432; $L__BB2_34:
and.b32 %r48, %r16, 2147483647; setp.gt.u32 %p48, %r48, 2139095040; mov.u16 %rs93, %rs51; @%p48 bra $L__BB2_36;
setp.lt.u32 %p49, %r48, 947912704; setp.gt.u32 %p50, %r48, 855638015; shr.u32 %r433, %r48, 23;
sub.s32 %r435, %r676, %r433; selp.b32 %r436, %r435, 25, %p50; selp.b32 %r437, %r436, 13, %p49;
and.b32 %r438, %r16, 8388607; or.b32 %r439, %r438, 8388608; shr.u32 %r440, %r16, 16; and.b32 %r441, %r440, 32768;
add.s32 %r442, %r437, -1; shl.b32 %r444, %r677, %r442; shr.u32 %r445, %r439, %r437; and.b32 %r446, %r445, 1;
add.s32 %r447, %r438, %r444; add.s32 %r448, %r447, %r446; add.s32 %r449, %r448, 8388607; shr.u32 %r450, %r449, %r437;
shl.b32 %r451, %r433, 10; add.s32 %r452, %r451, -115712; selp.b32 %r453, 0, %r452, %p49; add.s32 %r454, %r450, %r453;
min.u32 %r455, %r454, 31744; or.b32 %r456, %r455, %r441; cvt.u16.u32 %rs93, %r456; bra.uni $L__BB2_36; $L__BB2_37:
setp.ge.u64 %p52, %rd89, %rd3; @%p52 bra $L__BB2_48; shl.b64 %rd61, %rd89, 3; add.s64 %rd88, %rd49, %rd61;
shl.b64 %rd62, %rd89, 4; add.s64 %rd87, %rd50, %rd62; mov.u16 %rs67, 32256; bra.uni $L__BB2_39; $L__BB2_47:
st.v4.u16 [%rd88], {%rs94, %rs95, %rs96, %rs97}; add.s64 %rd89, %rd89, 256; add.s64 %rd88, %rd88, 2048;
add.s64 %rd87, %rd87, 4096; setp.lt.u64 %p65, %rd89, %rd3; @%p65 bra $L__BB2_39; bra.uni $L__BB2_48; $L__BB2_39:
.pragma "nounroll"; ld.v4.u32 {%r53, %r50, %r51, %r52}, [%rd87]; and.b32 %r54, %r53, 2147483647;
setp.gt.u32 %p53, %r54, 2139095040; mov.u16 %rs94, %rs67; @%p53 bra $L__BB2_41; setp.lt.u32 %p54, %r54, 947912704;
setp.gt.u32 %p55, %r54, 855638015; shr.u32 %r457, %r54, 23; sub.s32 %r459, %r676, %r457;
selp.b32 %r460, %r459, 25, %p55; selp.b32 %r461, %r460, 13, %p54; and.b32 %r462, %r53, 8388607;
or.b32 %r463, %r462, 8388608; shr.u32 %r464, %r53, 16; and.b32 %r465, %r464, 32768; add.s32 %r466, %r461, -1;
shl.b32 %r468, %r677, %r466; shr.u32 %r469, %r463, %r461; and.b32 %r470, %r469, 1; add.s32 %r471, %r462, %r468;
add.s32 %r472, %r471, %r470; add.s32 %r473, %r472, 8388607; shr.u32 %r474, %r473, %r461; shl.b32 %r475, %r457, 10;
add.s32 %r476, %r475, -115712; selp.b32 %r477, 0, %r476, %p54; add.s32 %r478, %r474, %r477;
min.u32 %r479, %r478, 31744; or.b32 %r480, %r479, %r465; cvt.u16.u32 %rs94, %r480; $L__BB2_41:
and.b32 %r56, %r50, 2147483647; setp.gt.u32 %p56, %r56, 2139095040; mov.u16 %rs95, %rs67; @%p56 bra $L__BB2_43;
setp.lt.u32 %p57, %r56, 947912704; setp.gt.u32 %p58, %r56, 855638015; shr.u32 %r481, %r56, 23;
sub.s32 %r483, %r676, %r481; selp.b32 %r484, %r483, 25, %p58; selp.b32 %r485, %r484, 13, %p57;
and.b32 %r486, %r50, 8388607; or.b32 %r487, %r486, 8388608; shr.u32 %r488, %r50, 16; and.b32 %r489, %r488, 32768;
add.s32 %r490, %r485, -1; shl.b32 %r492, %r677, %r490; shr.u32 %r493, %r487, %r485; and.b32 %r494, %r493, 1;
add.s32 %r495, %r486, %r492; add.s32 %r496, %r495, %r494; add.s32 %r497, %r496, 8388607; shr.u32 %r498, %r497, %r485;
shl.b32 %r499, %r481, 10; add.s32 %r500, %r499, -115712; selp.b32 %r501, 0, %r500, %p57; add.s32 %r502, %r498, %r501;
min.u32 %r503, %r502, 31744; or.b32 %r504, %r503, %r489; cvt.u16.u32 %rs95, %r504; $L__BB2_43:
and.b32 %r58, %r51, 2147483647; setp.gt.u32 %p59, %r58, 2139095040; mov.u16 %rs96, %rs67; @%p59 bra $L__BB2_45;
setp.lt.u32 %p60, %r58, 947912704; setp.gt.u32 %p61, %r58, 855638015; shr.u32 %r505, %r58, 23;
sub.s32 %r507, %r676, %r505; selp.b32 %r508, %r507, 25, %p61; selp.b32 %r509, %r508, 13, %p60;
and.b32 %r510, %r51, 8388607; or.b32 %r511, %r510, 8388608; shr.u32 %r512, %r51, 16; and.b32 %r513, %r512, 32768;
add.s32 %r514, %r509, -1; shl.b32 %r516, %r677, %r514; shr.u32 %r517, %r511, %r509; and.b32 %r518, %r517, 1;
add.s32 %r519, %r510, %r516; add.s32 %r520, %r519, %r518; add.s32 %r521, %r520, 8388607; shr.u32 %r522, %r521, %r509;
shl.b32 %r523, %r505, 10; add.s32 %r524, %r523, -115712; selp.b32 %r525, 0, %r524, %p60; add.s32 %r526, %r522, %r525;
min.u32 %r527, %r526, 31744; or.b32 %r528, %r527, %r513; cvt.u16.u32 %rs96, %r528; $L__BB2_45:
and.b32 %r60, %r52, 2147483647; setp.gt.u32 %p62, %r60, 2139095040; mov.u16 %rs97, %rs67; @%p62 bra $L__BB2_47;
setp.lt.u32 %p63, %r60, 947912704; setp.gt.u32 %p64, %r60, 855638015; shr.u32 %r529, %r60, 23;
sub.s32 %r531, %r676, %r529; selp.b32 %r532, %r531, 25, %p64; selp.b32 %r533, %r532, 13, %p63;
and.b32 %r534, %r52, 8388607; or.b32 %r535, %r534, 8388608; shr.u32 %r536, %r52, 16; and.b32 %r537, %r536, 32768;
add.s32 %r538, %r533, -1; shl.b32 %r540, %r677, %r538; shr.u32 %r541, %r535, %r533; and.b32 %r542, %r541, 1;
add.s32 %r543, %r534, %r540; add.s32 %r544, %r543, %r542; add.s32 %r545, %r544, 8388607; shr.u32 %r546, %r545, %r533;
shl.b32 %r547, %r529, 10; add.s32 %r548, %r547, -115712; selp.b32 %r549, 0, %r548, %p63; add.s32 %r550, %r546, %r549;
min.u32 %r551, %r550, 31744; or.b32 %r552, %r551, %r537; cvt.u16.u32 %rs97, %r552; bra.uni $L__BB2_47; $L__BB2_48:
and.b64 %rd92, %rd51, -4; $L__BB2_49: shl.b64 %rd63, %rd92, 1; shl.b64 %rd64, %rd92, 2; sub.s64 %rd29, %rd51, %rd92;
setp.ge.u64 %p66, %rd96, %rd29; @%p66 bra $L__BB2_60; add.s64 %rd27, %rd49, %rd63; add.s64 %rd28, %rd50, %rd64;
shl.b64 %rd66, %rd93, 2; add.s64 %rd67, %rd64, %rd66; add.s64 %rd68, %rd67, %rd50; add.s64 %rd95, %rd68, 2048;
shl.b64 %rd70, %rd93, 1; add.s64 %rd71, %rd63, %rd70; add.s64 %rd72, %rd71, %rd49; add.s64 %rd94, %rd72, 1024;
mov.u16 %rs71, 32256; mov.u64 %rd97, %rd93; bra.uni $L__BB2_51; $L__BB2_59: shl.b64 %rd75, %rd96, 1;
add.s64 %rd76, %rd27, %rd75; st.u16 [%rd76], %rs101; add.s64 %rd93, %rd97, 1024; add.s64 %rd96, %rd97, 1792;
add.s64 %rd95, %rd95, 4096; add.s64 %rd94, %rd94, 2048; setp.lt.u64 %p79, %rd96, %rd29; mov.u64 %rd97, %rd93;
@%p79 bra $L__BB2_51; bra.uni $L__BB2_60; $L__BB2_51: .pragma "nounroll"; ld.u32 %r61, [%rd95+-2048];
and.b32 %r65, %r61, 2147483647; setp.gt.u32 %p67, %r65, 2139095040; mov.u16 %rs98, %rs71; @%p67 bra $L__BB2_53;
setp.lt.u32 %p68, %r65, 947912704; setp.gt.u32 %p69, %r65, 855638015; shr.u32 %r553, %r65, 23;
sub.s32 %r555, %r676, %r553; selp.b32 %r556, %r555, 25, %p69; selp.b32 %r557, %r556, 13, %p68;
and.b32 %r558, %r61, 8388607; or.b32 %r559, %r558, 8388608; shr.u32 %r560, %r61, 16; and.b32 %r561, %r560, 32768;
add.s32 %r562, %r557, -1; shl.b32 %r564, %r677, %r562; shr.u32 %r565, %r559, %r557; and.b32 %r566, %r565, 1;
add.s32 %r567, %r558, %r564; add.s32 %r568, %r567, %r566; add.s32 %r569, %r568, 8388607; shr.u32 %r570, %r569, %r557;
shl.b32 %r571, %r553, 10; add.s32 %r572, %r571, -115712; selp.b32 %r573, 0, %r572, %p68; add.s32 %r574, %r570, %r573;
min.u32 %r575, %r574, 31744; or.b32 %r576, %r575, %r561; cvt.u16.u32 %rs98, %r576; $L__BB2_53:
ld.u32 %r62, [%rd95+-1024]; ld.u32 %r63, [%rd95]; shl.b64 %rd73, %rd96, 2; add.s64 %rd74, %rd28, %rd73;
ld.u32 %r64, [%rd74]; st.u16 [%rd94+-1024], %rs98; and.b32 %r66, %r62, 2147483647; setp.gt.u32 %p70, %r66, 2139095040;
mov.u16 %rs99, %rs71; @%p70 bra $L__BB2_55; setp.lt.u32 %p71, %r66, 947912704; setp.gt.u32 %p72, %r66, 855638015;
shr.u32 %r577, %r66, 23; sub.s32 %r579, %r676, %r577; selp.b32 %r580, %r579, 25, %p72;
selp.b32 %r581, %r580, 13, %p71; and.b32 %r582, %r62, 8388607; or.b32 %r583, %r582, 8388608; shr.u32 %r584, %r62, 16;
and.b32 %r585, %r584, 32768; add.s32 %r586, %r581, -1; shl.b32 %r588, %r677, %r586; shr.u32 %r589, %r583, %r581;
and.b32 %r590, %r589, 1; add.s32 %r591, %r582, %r588; add.s32 %r592, %r591, %r590; add.s32 %r593, %r592, 8388607;
shr.u32 %r594, %r593, %r581; shl.b32 %r595, %r577, 10; add.s32 %r596, %r595, -115712; selp.b32 %r597, 0, %r596, %p71;
add.s32 %r598, %r594, %r597; min.u32 %r599, %r598, 31744; or.b32 %r600, %r599, %r585; cvt.u16.u32 %rs99, %r600;
$L__BB2_55: st.u16 [%rd94+-512], %rs99; and.b32 %r67, %r63, 2147483647; setp.gt.u32 %p73, %r67, 2139095040;
mov.u16 %rs100, %rs71; @%p73 bra $L__BB2_57; setp.lt.u32 %p74, %r67, 947912704; setp.gt.u32 %p75, %r67, 855638015;
shr.u32 %r601, %r67, 23; sub.s32 %r603, %r676, %r601; selp.b32 %r604, %r603, 25, %p75;
selp.b32 %r605, %r604, 13, %p74; and.b32 %r606, %r63, 8388607; or.b32 %r607, %r606, 8388608; shr.u32 %r608, %r63, 16;
and.b32 %r609, %r608, 32768; add.s32 %r610, %r605, -1; shl.b32 %r612, %r677, %r610; shr.u32 %r613, %r607, %r605;
and.b32 %r614, %r613, 1; add.s32 %r615, %r606, %r612; add.s32 %r616, %r615, %r614; add.s32 %r617, %r616, 8388607;
shr.u32 %r618, %r617, %r605; shl.b32 %r619, %r601, 10; add.s32 %r620, %r619, -115712; selp.b32 %r621, 0, %r620, %p74;
add.s32 %r622, %r618, %r621; min.u32 %r623, %r622, 31744; or.b32 %r624, %r623, %r609; cvt.u16.u32 %rs100, %r624;
$L__BB2_57: st.u16 [%rd94], %rs100; and.b32 %r68, %r64, 2147483647; setp.gt.u32 %p76, %r68, 2139095040;
mov.u16 %rs101, %rs71; @%p76 bra $L__BB2_59; setp.lt.u32 %p77, %r68, 947912704; setp.gt.u32 %p78, %r68, 855638015;
shr.u32 %r625, %r68, 23; sub.s32 %r627, %r676, %r625; selp.b32 %r628, %r627, 25, %p78;
selp.b32 %r629, %r628, 13, %p77; and.b32 %r630, %r64, 8388607; or.b32 %r631, %r630, 8388608; shr.u32 %r632, %r64, 16;
and.b32 %r633, %r632, 32768; add.s32 %r634, %r629, -1; shl.b32 %r636, %r677, %r634; shr.u32 %r637, %r631, %r629;
and.b32 %r638, %r637, 1; add.s32 %r639, %r630, %r636; add.s32 %r640, %r639, %r638; add.s32 %r641, %r640, 8388607;
shr.u32 %r642, %r641, %r629; shl.b32 %r643, %r625, 10; add.s32 %r644, %r643, -115712; selp.b32 %r645, 0, %r644, %p77;
add.s32 %r646, %r642, %r645; min.u32 %r647, %r646, 31744; or.b32 %r648, %r647, %r633; cvt.u16.u32 %rs101, %r648;
bra.uni $L__BB2_59; $L__BB2_60: setp.ge.u64 %p80, %rd93, %rd29; @%p80 bra $L__BB2_65; mov.u16 %rs77, 32256;
shl.b64 %rd78, %rd93, 1; add.s64 %rd79, %rd63, %rd78; add.s64 %rd99, %rd49, %rd79; shl.b64 %rd81, %rd93, 2;
add.s64 %rd82, %rd64, %rd81; add.s64 %rd98, %rd50, %rd82; bra.uni $L__BB2_62; $L__BB2_64: st.u16 [%rd99], %rs102;
add.s64 %rd93, %rd93, 256; add.s64 %rd99, %rd99, 512; add.s64 %rd98, %rd98, 1024; setp.lt.u64 %p84, %rd93, %rd29;
@%p84 bra $L__BB2_62; bra.uni $L__BB2_65; $L__BB2_62: .pragma "nounroll"; ld.u32 %r69, [%rd98];
and.b32 %r70, %r69, 2147483647; setp.gt.u32 %p81, %r70, 2139095040; mov.u16 %rs102, %rs77; @%p81 bra $L__BB2_64;
setp.lt.u32 %p82, %r70, 947912704; setp.gt.u32 %p83, %r70, 855638015; shr.u32 %r649, %r70, 23;
sub.s32 %r651, %r676, %r649; selp.b32 %r652, %r651, 25, %p83; selp.b32 %r653, %r652, 13, %p82;
and.b32 %r654, %r69, 8388607; or.b32 %r655, %r654, 8388608; shr.u32 %r656, %r69, 16; and.b32 %r657, %r656, 32768;
add.s32 %r658, %r653, -1; shl.b32 %r660, %r677, %r658; shr.u32 %r661, %r655, %r653; and.b32 %r662, %r661, 1;
add.s32 %r663, %r654, %r660; add.s32 %r664, %r663, %r662; add.s32 %r665, %r664, 8388607; shr.u32 %r666, %r665, %r653;
shl.b32 %r667, %r649, 10; add.s32 %r668, %r667, -115712; selp.b32 %r669, 0, %r668, %p82; add.s32 %r670, %r666, %r669;
min.u32 %r671, %r670, 31744; or.b32 %r672, %r671, %r657; cvt.u16.u32 %rs102, %r672; bra.uni $L__BB2_64; $L__BB2_65:
ret; }
)ptx";

}  // namespace shoal
