# Headers that most sources include, compiled once: they are most of the time that a source takes to compile. A source
# still includes all that it uses; clang-tidy, the fuzzers' and the images' builds, which go without these, show where
# one does not.

option(SHOAL_PRECOMPILED_HEADERS "Compile the headers that most sources include once" OFF)
if(NOT SHOAL_PRECOMPILED_HEADERS)
  # shoal_use_precompiled_headers(TARGET HEADERS)
  function(shoal_use_precompiled_headers)
  endfunction()
  return()
endif()

# GCC writes into what ccache looks at which precompiled header it read, and ccache has to accept that the macros defined
# in one can not be seen.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_compile_options(-fpch-preprocess)
endif()
if(SHOAL_CCACHE)
  list(INSERT CMAKE_CXX_COMPILER_LAUNCHER 1 CCACHE_SLOPPINESS=pch_defines,time_macros)
endif()

# GCC refuses headers that were compiled with other macros, which these two options define: all sources get the first
# one, and those with our warnings have the second. No clock, no thread: pure code sees these headers too.
add_compile_options(-pthread)
set(SHOAL_WARNINGS_OF_PRECOMPILED_HEADERS -Wpedantic)
set(SHOAL_STANDARD_HEADERS
    <algorithm> <array> <atomic> <cstdint> <cstring> <deque> <functional> <map> <memory> <optional> <set> <span>
    <string> <string_view> <utility> <variant> <vector>
    <absl/container/flat_hash_map.h> <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/strings/str_format.h>
    <absl/strings/str_join.h>)

# What libraries reuse. Those that use gRPC reuse the headers of shoal_proto (proto/CMakeLists.txt).
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/precompiled_headers.cc CONTENT "// Only its headers count.\n")
add_library(shoal_library_headers OBJECT ${CMAKE_BINARY_DIR}/precompiled_headers.cc)
target_precompile_headers(shoal_library_headers PRIVATE ${SHOAL_STANDARD_HEADERS})
target_compile_options(shoal_library_headers PRIVATE ${SHOAL_WARNINGS_OF_PRECOMPILED_HEADERS})

# shoal_add_test_headers(NAME [HEADER...]): what tests reuse, with more headers than all have. They are compiled as
# programs are, without which GCC refuses the headers.
function(shoal_add_test_headers name)
  add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/precompiled_headers.cc)
  target_precompile_headers(${name} PRIVATE <gmock/gmock.h> <gtest/gtest.h> ${SHOAL_STANDARD_HEADERS} ${ARGN})
  target_link_libraries(${name} PRIVATE GTest::gtest GTest::gmock)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIE ${SHOAL_WARNINGS_OF_PRECOMPILED_HEADERS} ${SHOAL_TEST_OPTIMIZATION})
endfunction()
if(SHOAL_BUILD_TESTS)
  shoal_add_test_headers(shoal_test_headers)
endif()

# shoal_use_precompiled_headers(TARGET HEADERS): TARGET's sources see the precompiled headers of the target HEADERS. A
# source with another optimisation or instruction set than the rest must not (SKIP_PRECOMPILE_HEADERS): GCC 12 crashes.
function(shoal_use_precompiled_headers target headers)
  target_precompile_headers(${target} REUSE_FROM ${headers})
endfunction()
