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
.reg .b32 %r<89>; .reg .b64 %rd<343>; .shared .align 8 .u32 _ZZ10shoal_copyE5state_$_0;
.shared .align 8 .u64 _ZZ10shoal_copyE5state_$_1; mov.u64 %SPL, __local_depot0; cvta.local.u64 %SP, %SPL;
ld.param.u64 %rd183, [shoal_copy_param_2]; ld.param.u64 %rd182, [shoal_copy_param_1];
ld.param.u64 %rd181, [shoal_copy_param_0]; cvta.to.global.u64 %rd1, %rd181; mov.u32 %r28, %tid.x;
mov.u32 %r29, %ctaid.x; cvt.u64.u32 %rd2, %r29; add.s64 %rd187, %rd181, 8; cvt.u64.u32 %rd4, %r28;
add.s64 %rd5, %rd4, 768; add.s64 %rd184, %rd1, 192; cvta.global.u64 %rd6, %rd184; mul.wide.u32 %rd7, %r28, 4;
mul.wide.u32 %rd8, %r28, 2; add.s64 %rd9, %rd8, 1024; add.s64 %rd10, %rd7, 2048; mul.wide.u32 %rd185, %r28, 16;
add.s64 %rd11, %rd185, 8192; cvt.u32.u64 %r30, %rd4; setp.ne.s32 %p1, %r30, 0; mov.b32 %r31, 0; mov.pred %p55, 0;
mov.u16 %rs7, 32256; mov.u64 %rd284, %rd2; bra.uni $L__BB0_1; $L__BB0_25: and.b64 %rd265, %rd19, -16;
add.s64 %rd266, %rd17, %rd265; add.s64 %rd267, %rd266, %rd4; add.s64 %rd268, %rd18, %rd265;
add.s64 %rd269, %rd268, %rd4; ld.u8 %rs29, [%rd269]; st.u8 [%rd267], %rs29; $L__BB0_101: membar.sys; bar.sync 0;
@%p1 bra $L__BB0_103; bra.uni $L__BB0_102; $L__BB0_103: add.s64 %rd284, %rd284, 8; $L__BB0_1: @%p1 bra $L__BB0_4;
bra.uni $L__BB0_2; $L__BB0_14: nanosleep.u32 500; $L__BB0_2: ld.acquire.sys.global.u64 %rd186, [%rd187];
st.shared.u64 [_ZZ10shoal_copyE5state_$_1], %rd186; ld.acquire.sys.global.u64 %rd188, [%rd181];
setp.ge.u64 %p2, %rd284, %rd188; @%p2 bra $L__BB0_12; ld.shared.u64 %rd191, [_ZZ10shoal_copyE5state_$_1];
setp.ne.s64 %p3, %rd191, 2; selp.u32 %r32, 1, 0, %p3; st.shared.u32 [_ZZ10shoal_copyE5state_$_0], %r32;
mov.u64 %rd285, 2; @%p3 bra $L__BB0_4; bra.uni $L__BB0_13; $L__BB0_12:
st.shared.u32 [_ZZ10shoal_copyE5state_$_0], %r31; ld.shared.u64 %rd285, [_ZZ10shoal_copyE5state_$_1]; $L__BB0_13:
setp.ne.s64 %p4, %rd285, 0; @%p4 bra $L__BB0_4; bra.uni $L__BB0_14; $L__BB0_4: bar.sync 0;
ld.shared.u32 %r33, [_ZZ10shoal_copyE5state_$_0]; setp.ne.s32 %p5, %r33, 0; @%p5 bra $L__BB0_15; bra.uni $L__BB0_5;
$L__BB0_15: and.b64 %rd15, %rd284, 63; shl.b64 %rd192, %rd15, 5; add.s64 %rd16, %rd1, %rd192;
ld.global.u32 %r1, [%rd16+728]; setp.ne.s32 %p6, %r1, 0; @%p6 bra $L__BB0_72; bra.uni $L__BB0_16; $L__BB0_72:
ld.global.u32 %r34, [%rd16+732]; setp.eq.s32 %p7, %r34, 0; ld.global.u64 %rd150, [%rd16+720];
setp.le.u64 %p79, %rd150, %rd4; @%p7 bra $L__BB0_84; @%p79 bra $L__BB0_101; ld.global.u64 %rd151, [%rd16+704];
ld.global.u64 %rd152, [%rd16+712]; add.s64 %rd335, %rd151, %rd7; add.s64 %rd334, %rd152, %rd8;
setp.ne.s32 %p9, %r1, 1; mov.u64 %rd336, %rd4; bra.uni $L__BB0_75; $L__BB0_76: shl.b32 %r47, %r2, 16;
and.b32 %r48, %r2, 32767; setp.gt.u32 %p14, %r48, 32640; selp.b32 %r85, 2143289344, %r47, %p14; $L__BB0_83:
st.u32 [%rd335], %r85; add.s64 %rd336, %rd336, 256; add.s64 %rd335, %rd335, 1024; add.s64 %rd334, %rd334, 512;
setp.lt.u64 %p15, %rd336, %rd150; @%p15 bra $L__BB0_75; bra.uni $L__BB0_101; $L__BB0_75: ld.u16 %rs1, [%rd334];
cvt.u32.u16 %r2, %rs1; @%p9 bra $L__BB0_77; bra.uni $L__BB0_76; $L__BB0_77: cvt.s32.s16 %r35, %rs1;
and.b32 %r85, %r35, -2147483648; bfe.u32 %r83, %r2, 10, 5; and.b32 %r84, %r2, 1023; setp.eq.s32 %p10, %r83, 0;
@%p10 bra $L__BB0_80; setp.ne.s32 %p11, %r83, 31; @%p11 bra $L__BB0_82; setp.eq.s32 %p13, %r84, 0;
or.b32 %r42, %r85, 2139095040; selp.b32 %r85, %r42, 2143289344, %p13; bra.uni $L__BB0_83; $L__BB0_80:
setp.eq.s32 %p12, %r84, 0; @%p12 bra $L__BB0_83; clz.b32 %r36, %r84; xor.b32 %r37, %r36, 31; mov.b32 %r38, 10;
sub.s32 %r39, %r38, %r37; shl.b32 %r40, %r2, %r39; mov.b32 %r41, 22; sub.s32 %r83, %r41, %r36;
and.b32 %r84, %r40, 1022; $L__BB0_82: shl.b32 %r43, %r83, 23; shl.b32 %r44, %r84, 13; or.b32 %r45, %r43, %r44;
add.s32 %r46, %r45, 939524096; or.b32 %r85, %r46, %r85; bra.uni $L__BB0_83; $L__BB0_102: shl.b64 %rd270, %rd15, 3;
add.s64 %rd271, %rd6, %rd270; add.s64 %rd272, %rd284, 1; st.release.sys.global.u64 [%rd271], %rd272;
bra.uni $L__BB0_103; $L__BB0_16: ld.global.u64 %rd17, [%rd16+704]; ld.global.u64 %rd18, [%rd16+712];
ld.global.u32 %r69, [%rd16+732]; setp.eq.s32 %p29, %r69, 0; ld.global.u64 %rd19, [%rd16+720];
or.b64 %rd20, %rd18, %rd17; and.b64 %rd21, %rd20, 15; setp.ne.s64 %p80, %rd21, 0; add.u64 %rd281, %SP, 0;
add.u64 %rd282, %SP, 16; add.u64 %rd283, %SP, 32; @%p29 bra $L__BB0_45; @%p80 bra $L__BB0_26; bra.uni $L__BB0_18;
$L__BB0_26: or.b64 %rd42, %rd19, %rd20; and.b64 %rd193, %rd42, 3; setp.ne.s64 %p31, %rd193, 0; @%p31 bra $L__BB0_33;
bra.uni $L__BB0_27; $L__BB0_33: and.b64 %rd194, %rd42, 1; setp.eq.b64 %p32, %rd194, 1; xor.pred %p34, %p32, %p55;
@%p34 bra $L__BB0_40; shr.u64 %rd61, %rd19, 1; setp.ge.u64 %p39, %rd5, %rd61; mov.u64 %rd306, %rd4;
@%p39 bra $L__BB0_37; add.s64 %rd302, %rd17, %rd9; add.s64 %rd301, %rd18, %rd9; mov.u64 %rd303, %rd4; $L__BB0_36:
ld.u16 %rs14, [%rd301+-1024]; ld.u16 %rs15, [%rd301+-512]; ld.u16 %rs16, [%rd301]; ld.u16 %rs17, [%rd301+512];
st.u16 [%rd302+-1024], %rs14; st.u16 [%rd302+-512], %rs15; st.u16 [%rd302], %rs16; st.u16 [%rd302+512], %rs17;
add.s64 %rd306, %rd303, 1024; add.s64 %rd302, %rd302, 2048; add.s64 %rd301, %rd301, 2048;
add.s64 %rd200, %rd303, 1792; setp.lt.u64 %p40, %rd200, %rd61; mov.u64 %rd303, %rd306; @%p40 bra $L__BB0_36;
$L__BB0_37: setp.ge.u64 %p41, %rd306, %rd61; @%p41 bra $L__BB0_101; shl.b64 %rd201, %rd306, 1;
add.s64 %rd305, %rd17, %rd201; add.s64 %rd304, %rd18, %rd201; $L__BB0_39: ld.u16 %rs18, [%rd304];
st.u16 [%rd305], %rs18; add.s64 %rd306, %rd306, 256; add.s64 %rd305, %rd305, 512; add.s64 %rd304, %rd304, 512;
setp.lt.u64 %p42, %rd306, %rd61; @%p42 bra $L__BB0_39; bra.uni $L__BB0_101; $L__BB0_84: @%p79 bra $L__BB0_101;
ld.global.u64 %rd161, [%rd16+712]; ld.global.u64 %rd162, [%rd16+704]; add.s64 %rd338, %rd161, %rd8;
add.s64 %rd337, %rd162, %rd7; setp.ne.s32 %p17, %r1, 1; mov.u64 %rd339, %rd4; bra.uni $L__BB0_86; $L__BB0_87:
setp.gt.u32 %p27, %r82, 2139095040; selp.b32 %r65, 2143289344, %r14, %p27; bfe.u32 %r66, %r65, 16, 1;
add.s32 %r67, %r65, %r66; add.s32 %r68, %r67, 32767; { .reg .b16 tmp; mov.b32 {tmp, %rs31}, %r68; } $L__BB0_100:
st.u16 [%rd338], %rs31; add.s64 %rd339, %rd339, 256; add.s64 %rd338, %rd338, 512; add.s64 %rd337, %rd337, 1024;
setp.lt.u64 %p28, %rd339, %rd150; @%p28 bra $L__BB0_86; bra.uni $L__BB0_101; $L__BB0_86: ld.u32 %r14, [%rd337];
and.b32 %r82, %r14, 2147483647; @%p17 bra $L__BB0_88; bra.uni $L__BB0_87; $L__BB0_88:
setp.gt.u32 %p18, %r82, 2139095040; mov.u16 %rs31, %rs7; @%p18 bra $L__BB0_100; shr.u32 %r49, %r14, 16;
and.b32 %r15, %r49, 32768; setp.lt.u32 %p19, %r82, 1199566848; @%p19 bra $L__BB0_91; cvt.u16.u32 %rs8, %r15;
or.b16 %rs31, %rs8, 31744; bra.uni $L__BB0_100; $L__BB0_91: setp.gt.u32 %p20, %r82, 855638016; @%p20 bra $L__BB0_93;
cvt.u16.u32 %rs31, %r15; bra.uni $L__BB0_100; $L__BB0_93: and.b32 %r50, %r14, 8388607; or.b32 %r17, %r50, 8388608;
shr.u32 %r18, %r82, 23; setp.lt.u32 %p21, %r82, 947912704; @%p21 bra $L__BB0_95; shl.b32 %r53, %r18, 10;
bfe.u32 %r54, %r14, 13, 10; or.b32 %r55, %r53, %r54; add.s32 %r88, %r55, -114688; mov.b32 %r87, 13;
bra.uni $L__BB0_96; $L__BB0_95: mov.b32 %r51, 126; sub.s32 %r87, %r51, %r18; shr.u32 %r88, %r17, %r87; $L__BB0_96:
mov.b32 %r56, -1; shl.b32 %r57, %r56, %r87; not.b32 %r58, %r57; and.b32 %r24, %r17, %r58; add.s32 %r59, %r87, -1;
mov.b32 %r60, 1; shl.b32 %r25, %r60, %r59; setp.gt.u32 %p22, %r24, %r25; @%p22 bra $L__BB0_98;
setp.ne.s32 %p23, %r24, %r25; and.b32 %r62, %r88, 1; setp.eq.b32 %p24, %r62, 1; not.pred %p25, %p24;
or.pred %p26, %p23, %p25; @%p26 bra $L__BB0_99; $L__BB0_98: add.s32 %r88, %r88, 1; $L__BB0_99:
or.b32 %r63, %r88, %r15; cvt.u16.u32 %rs31, %r63; bra.uni $L__BB0_100; $L__BB0_45: @%p80 bra $L__BB0_53;
bra.uni $L__BB0_46; $L__BB0_53: or.b64 %rd106, %rd19, %rd20; and.b64 %rd229, %rd106, 3; setp.ne.s64 %p53, %rd229, 0;
@%p53 bra $L__BB0_60; bra.uni $L__BB0_54; $L__BB0_60: and.b64 %rd230, %rd106, 1; setp.eq.b64 %p54, %rd230, 1;
xor.pred %p56, %p54, %p55; @%p56 bra $L__BB0_67; shr.u64 %rd125, %rd19, 1; setp.ge.u64 %p61, %rd5, %rd125;
mov.u64 %rd330, %rd4; @%p61 bra $L__BB0_64; add.s64 %rd326, %rd18, %rd9; add.s64 %rd325, %rd17, %rd9;
mov.u64 %rd327, %rd4; $L__BB0_63: ld.u16 %rs24, [%rd325+-1024]; ld.u16 %rs25, [%rd325+-512]; ld.u16 %rs26, [%rd325];
ld.u16 %rs27, [%rd325+512]; st.u16 [%rd326+-1024], %rs24; st.u16 [%rd326+-512], %rs25; st.u16 [%rd326], %rs26;
st.u16 [%rd326+512], %rs27; add.s64 %rd330, %rd327, 1024; add.s64 %rd326, %rd326, 2048; add.s64 %rd325, %rd325, 2048;
add.s64 %rd236, %rd327, 1792; setp.lt.u64 %p62, %rd236, %rd125; mov.u64 %rd327, %rd330; @%p62 bra $L__BB0_63;
$L__BB0_64: setp.ge.u64 %p63, %rd330, %rd125; @%p63 bra $L__BB0_101; shl.b64 %rd237, %rd330, 1;
add.s64 %rd329, %rd18, %rd237; add.s64 %rd328, %rd17, %rd237; $L__BB0_66: ld.u16 %rs28, [%rd328];
st.u16 [%rd329], %rs28; add.s64 %rd330, %rd330, 256; add.s64 %rd329, %rd329, 512; add.s64 %rd328, %rd328, 512;
setp.lt.u64 %p64, %rd330, %rd125; @%p64 bra $L__BB0_66; bra.uni $L__BB0_101; $L__BB0_18: shr.u64 %rd22, %rd19, 4;
setp.ge.u64 %p47, %rd5, %rd22; mov.u64 %rd292, %rd4; @%p47 bra $L__BB0_21; add.s64 %rd288, %rd17, %rd11;
add.s64 %rd287, %rd18, %rd11; mov.u64 %rd289, %rd4; $L__BB0_20: or.b64 %rd205, %rd281, 8;
ld.u64 %rd206, [%rd287+-4088]; st.u64 [%rd205], %rd206; ld.u64 %rd207, [%rd287+-4096]; st.u64 [%SP+0], %rd207;
or.b64 %rd209, %rd282, 8; ld.u64 %rd210, [%rd287+8]; st.u64 [%rd209], %rd210; ld.u64 %rd211, [%rd287];
st.u64 [%SP+16], %rd211; or.b64 %rd213, %rd283, 8; ld.u64 %rd214, [%rd287+4104]; st.u64 [%rd213], %rd214;
ld.u64 %rd215, [%rd287+4096]; st.u64 [%SP+32], %rd215; ld.u64 %rd216, [%rd287+-8184]; st.u64 [%rd288+-8184], %rd216;
ld.u64 %rd217, [%rd287+-8192]; st.u64 [%rd288+-8192], %rd217; ld.u64 %rd218, [%rd205]; st.u64 [%rd288+-4088], %rd218;
ld.u64 %rd219, [%SP+0]; st.u64 [%rd288+-4096], %rd219; ld.u64 %rd220, [%rd209]; st.u64 [%rd288+8], %rd220;
ld.u64 %rd221, [%SP+16]; st.u64 [%rd288], %rd221; ld.u64 %rd222, [%rd213]; st.u64 [%rd288+4104], %rd222;
ld.u64 %rd223, [%SP+32]; st.u64 [%rd288+4096], %rd223; add.s64 %rd292, %rd289, 1024; add.s64 %rd288, %rd288, 16384;
add.s64 %rd287, %rd287, 16384; add.s64 %rd224, %rd289, 1792; setp.lt.u64 %p48, %rd224, %rd22; mov.u64 %rd289, %rd292;
@%p48 bra $L__BB0_20; $L__BB0_21: setp.ge.u64 %p49, %rd292, %rd22; @%p49 bra $L__BB0_24; shl.b64 %rd225, %rd292, 4;
add.s64 %rd291, %rd17, %rd225; add.s64 %rd290, %rd18, %rd225; $L__BB0_23: ld.u64 %rd226, [%rd290+8];
st.u64 [%rd291+8], %rd226; ld.u64 %rd227, [%rd290]; st.u64 [%rd291], %rd227; add.s64 %rd292, %rd292, 256;
add.s64 %rd291, %rd291, 4096; add.s64 %rd290, %rd290, 4096; setp.lt.u64 %p50, %rd292, %rd22; @%p50 bra $L__BB0_23;
$L__BB0_24: and.b64 %rd228, %rd19, 15; setp.gt.u64 %p51, %rd228, %rd4; @%p51 bra $L__BB0_25; bra.uni $L__BB0_101;
$L__BB0_27: shr.u64 %rd43, %rd19, 2; setp.ge.u64 %p43, %rd5, %rd43; mov.u64 %rd299, %rd4; @%p43 bra $L__BB0_30;
add.s64 %rd295, %rd17, %rd10; add.s64 %rd294, %rd18, %rd10; mov.u64 %rd296, %rd4; $L__BB0_29:
ld.u32 %r70, [%rd294+-2048]; ld.u32 %r71, [%rd294+-1024]; ld.u32 %r72, [%rd294]; ld.u32 %r73, [%rd294+1024];
st.u32 [%rd295+-2048], %r70; st.u32 [%rd295+-1024], %r71; st.u32 [%rd295], %r72; st.u32 [%rd295+1024], %r73;
add.s64 %rd299, %rd296, 1024; add.s64 %rd295, %rd295, 4096; add.s64 %rd294, %rd294, 4096;
add.s64 %rd202, %rd296, 1792; setp.lt.u64 %p44, %rd202, %rd43; mov.u64 %rd296, %rd299; @%p44 bra $L__BB0_29;
$L__BB0_30: setp.ge.u64 %p45, %rd299, %rd43; @%p45 bra $L__BB0_101; shl.b64 %rd203, %rd299, 2;
add.s64 %rd298, %rd17, %rd203; add.s64 %rd297, %rd18, %rd203; $L__BB0_32: ld.u32 %r74, [%rd297];
st.u32 [%rd298], %r74; add.s64 %rd299, %rd299, 256; add.s64 %rd298, %rd298, 1024; add.s64 %rd297, %rd297, 1024;
setp.lt.u64 %p46, %rd299, %rd43; @%p46 bra $L__BB0_32; bra.uni $L__BB0_101; $L__BB0_46: shr.u64 %rd86, %rd19, 4;
setp.ge.u64 %p69, %rd5, %rd86; mov.u64 %rd316, %rd4; @%p69 bra $L__BB0_49; add.s64 %rd312, %rd18, %rd11;
add.s64 %rd311, %rd17, %rd11; mov.u64 %rd313, %rd4; $L__BB0_48: or.b64 %rd241, %rd281, 8;
ld.u64 %rd242, [%rd311+-4088]; st.u64 [%rd241], %rd242; ld.u64 %rd243, [%rd311+-4096]; st.u64 [%SP+0], %rd243;
or.b64 %rd245, %rd282, 8; ld.u64 %rd246, [%rd311+8]; st.u64 [%rd245], %rd246; ld.u64 %rd247, [%rd311];
st.u64 [%SP+16], %rd247; or.b64 %rd249, %rd283, 8; ld.u64 %rd250, [%rd311+4104]; st.u64 [%rd249], %rd250;
ld.u64 %rd251, [%rd311+4096]; st.u64 [%SP+32], %rd251; ld.u64 %rd252, [%rd311+-8184]; st.u64 [%rd312+-8184], %rd252;
ld.u64 %rd253, [%rd311+-8192]; st.u64 [%rd312+-8192], %rd253; ld.u64 %rd254, [%rd241]; st.u64 [%rd312+-4088], %rd254;
ld.u64 %rd255, [%SP+0]; st.u64 [%rd312+-4096], %rd255; ld.u64 %rd256, [%rd245]; st.u64 [%rd312+8], %rd256;
ld.u64 %rd257, [%SP+16]; st.u64 [%rd312], %rd257; ld.u64 %rd258, [%rd249]; st.u64 [%rd312+4104], %rd258;
ld.u64 %rd259, [%SP+32]; st.u64 [%rd312+4096], %rd259; add.s64 %rd316, %rd313, 1024; add.s64 %rd312, %rd312, 16384;
add.s64 %rd311, %rd311, 16384; add.s64 %rd260, %rd313, 1792; setp.lt.u64 %p70, %rd260, %rd86; mov.u64 %rd313, %rd316;
@%p70 bra $L__BB0_48; $L__BB0_49: setp.ge.u64 %p71, %rd316, %rd86; @%p71 bra $L__BB0_52; shl.b64 %rd261, %rd316, 4;
add.s64 %rd315, %rd18, %rd261; add.s64 %rd314, %rd17, %rd261; $L__BB0_51: ld.u64 %rd262, [%rd314+8];
st.u64 [%rd315+8], %rd262; ld.u64 %rd263, [%rd314]; st.u64 [%rd315], %rd263; add.s64 %rd316, %rd316, 256;
add.s64 %rd315, %rd315, 4096; add.s64 %rd314, %rd314, 4096; setp.lt.u64 %p72, %rd316, %rd86; @%p72 bra $L__BB0_51;
$L__BB0_52: mov.u64 %rd105, %rd17; and.b64 %rd264, %rd19, 15; setp.gt.u64 %p73, %rd264, %rd4; mov.u64 %rd17, %rd18;
mov.u64 %rd18, %rd105; @%p73 bra $L__BB0_25; bra.uni $L__BB0_101; $L__BB0_40: setp.ge.u64 %p35, %rd5, %rd19;
mov.u64 %rd309, %rd4; @%p35 bra $L__BB0_43; add.s64 %rd79, %rd17, 512; add.s64 %rd80, %rd18, 768;
mov.u64 %rd308, %rd4; $L__BB0_42: add.s64 %rd195, %rd80, %rd308; ld.u8 %rs9, [%rd195+-768];
ld.u8 %rs10, [%rd195+-512]; ld.u8 %rs11, [%rd195+-256]; ld.u8 %rs12, [%rd195]; add.s64 %rd196, %rd79, %rd308;
st.u8 [%rd196+-512], %rs9; st.u8 [%rd196+-256], %rs10; st.u8 [%rd196], %rs11; st.u8 [%rd196+256], %rs12;
add.s64 %rd309, %rd308, 1024; add.s64 %rd197, %rd308, 1792; setp.lt.u64 %p36, %rd197, %rd19; mov.u64 %rd308, %rd309;
@%p36 bra $L__BB0_42; $L__BB0_43: setp.ge.u64 %p37, %rd309, %rd19; @%p37 bra $L__BB0_101; $L__BB0_44:
add.s64 %rd198, %rd18, %rd309; ld.u8 %rs13, [%rd198]; add.s64 %rd199, %rd17, %rd309; st.u8 [%rd199], %rs13;
add.s64 %rd309, %rd309, 256; setp.lt.u64 %p38, %rd309, %rd19; @%p38 bra $L__BB0_44; bra.uni $L__BB0_101; $L__BB0_54:
shr.u64 %rd107, %rd19, 2; setp.ge.u64 %p65, %rd5, %rd107; mov.u64 %rd323, %rd4; @%p65 bra $L__BB0_57;
add.s64 %rd319, %rd18, %rd10; add.s64 %rd318, %rd17, %rd10; mov.u64 %rd320, %rd4; $L__BB0_56:
ld.u32 %r75, [%rd318+-2048]; ld.u32 %r76, [%rd318+-1024]; ld.u32 %r77, [%rd318]; ld.u32 %r78, [%rd318+1024];
st.u32 [%rd319+-2048], %r75; st.u32 [%rd319+-1024], %r76; st.u32 [%rd319], %r77; st.u32 [%rd319+1024], %r78;
add.s64 %rd323, %rd320, 1024; add.s64 %rd319, %rd319, 4096; add.s64 %rd318, %rd318, 4096;
add.s64 %rd238, %rd320, 1792; setp.lt.u64 %p66, %rd238, %rd107; mov.u64 %rd320, %rd323; @%p66 bra $L__BB0_56;
$L__BB0_57: setp.ge.u64 %p67, %rd323, %rd107; @%p67 bra $L__BB0_101; shl.b64 %rd239, %rd323, 2;
add.s64 %rd322, %rd18, %rd239; add.s64 %rd321, %rd17, %rd239; $L__BB0_59: ld.u32 %r79, [%rd321];
st.u32 [%rd322], %r79; add.s64 %rd323, %rd323, 256; add.s64 %rd322, %rd322, 1024; add.s64 %rd321, %rd321, 1024;
setp.lt.u64 %p68, %rd323, %rd107; @%p68 bra $L__BB0_59; bra.uni $L__BB0_101; $L__BB0_67:
setp.ge.u64 %p57, %rd5, %rd19; mov.u64 %rd333, %rd4; @%p57 bra $L__BB0_70; add.s64 %rd143, %rd18, 512;
add.s64 %rd144, %rd17, 768; mov.u64 %rd332, %rd4; $L__BB0_69: add.s64 %rd231, %rd144, %rd332;
ld.u8 %rs19, [%rd231+-768]; ld.u8 %rs20, [%rd231+-512]; ld.u8 %rs21, [%rd231+-256]; ld.u8 %rs22, [%rd231];
add.s64 %rd232, %rd143, %rd332; st.u8 [%rd232+-512], %rs19; st.u8 [%rd232+-256], %rs20; st.u8 [%rd232], %rs21;
st.u8 [%rd232+256], %rs22; add.s64 %rd333, %rd332, 1024; add.s64 %rd233, %rd332, 1792;
setp.lt.u64 %p58, %rd233, %rd19; mov.u64 %rd332, %rd333; @%p58 bra $L__BB0_69; $L__BB0_70:
setp.ge.u64 %p59, %rd333, %rd19; @%p59 bra $L__BB0_101; $L__BB0_71: add.s64 %rd234, %rd17, %rd333;
ld.u8 %rs23, [%rd234]; add.s64 %rd235, %rd18, %rd333; st.u8 [%rd235], %rs23; add.s64 %rd333, %rd333, 256;
setp.lt.u64 %p60, %rd333, %rd19; @%p60 bra $L__BB0_71; bra.uni $L__BB0_101; $L__BB0_5:
ld.shared.u64 %rd273, [_ZZ10shoal_copyE5state_$_1]; setp.eq.s64 %p75, %rd273, 2; @%p75 bra $L__BB0_6;
bra.uni $L__BB0_9; $L__BB0_6: shl.b64 %rd274, %rd2, 8; add.s64 %rd342, %rd274, %rd4; setp.ge.u64 %p76, %rd342, %rd183;
@%p76 bra $L__BB0_9; cvta.to.global.u64 %rd176, %rd182; mov.u16 %rs30, 255; $L__BB0_8: add.s64 %rd275, %rd176, %rd342;
st.global.u8 [%rd275], %rs30; add.s64 %rd342, %rd342, 2048; setp.lt.u64 %p77, %rd342, %rd183; @%p77 bra $L__BB0_8;
$L__BB0_9: membar.sys; bar.sync 0; @%p1 bra $L__BB0_11; add.s64 %rd276, %rd1, 128; cvta.global.u64 %rd277, %rd276;
shl.b64 %rd278, %rd2, 3; add.s64 %rd279, %rd277, %rd278; mov.u64 %rd280, 1;
st.release.sys.global.u64 [%rd279], %rd280; $L__BB0_11: ret; }
)ptx";

}  // namespace shoal
