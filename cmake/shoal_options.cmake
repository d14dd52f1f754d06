# Compiler options and the helpers that every folder uses to declare its targets.

set(SHOAL_WARNINGS -Wall -Wextra -Wpedantic -Werror -Wshadow -Wnon-virtual-dtor -Wimplicit-fallthrough -Wvla
    -Wno-missing-field-initializers)  # designated initialisers name what differs from the default
# Clang, which builds the fuzzers, warns of other things.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU OR NOT SHOAL_WARNINGS_ARE_ERRORS)
  list(REMOVE_ITEM SHOAL_WARNINGS -Werror)
endif()
# It knows which mutex guards what (process/mutex.h).
if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
  list(APPEND SHOAL_WARNINGS -Wthread-safety -Werror=thread-safety)
endif()

# GCC takes a third less time over tests without the second level; what they test keeps it.
if(NOT CMAKE_BUILD_TYPE STREQUAL Debug)
  set(SHOAL_TEST_OPTIMIZATION -O1)
endif()
if(SHOAL_SANITIZE)
  add_compile_options(-fsanitize=${SHOAL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${SHOAL_SANITIZE})
  # Optimising what sanitizers add takes GCC three times as long as compiling the code itself. Tests go without any.
  set(SHOAL_SANITIZED_OPTIMIZATION -O1 CACHE STRING "Optimization of what is built with sanitizers")
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "${SHOAL_SANITIZED_OPTIMIZATION} -g1 -DNDEBUG")
  set(SHOAL_TEST_OPTIMIZATION -O0)
  # What they add hides from GCC that a variant holds another type: it warns of members that nobody reads.
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    list(APPEND SHOAL_WARNINGS -Wno-maybe-uninitialized)
  endif()
endif()

# All sources of a target at once take half the time of one after the other: most of it goes into what they all
# instantiate. build/dev, which clang-tidy looks at, compiles each by itself. Turn it off while you work at one of them.
option(SHOAL_JOINED_SOURCES "Compile all sources of a target at once" OFF)
# What sanitizers add takes memory with the size of a source: some at once.
set(SHOAL_SOURCES_COMPILED_AT_ONCE 0)
if(SHOAL_SANITIZE)
  set(SHOAL_SOURCES_COMPILED_AT_ONCE 6)
endif()
# shoal_join_sources(TARGET)
function(shoal_join_sources target)
  if(SHOAL_JOINED_SOURCES)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${SHOAL_SOURCES_COMPILED_AT_ONCE})
    # A source that another one includes looks like a header to GCC, which warns of its nameless namespaces.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# GCC looks again and again for memory that it could use again, a tenth of its time and more, while it has little. It
# may have a GiB first, which is within what a compile job is counted with (scripts/progress.sh).
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_compile_options("SHELL:--param ggc-min-heapsize=1048576")
endif()

# Floating point must give the same bits everywhere (invariant I1): no fused multiply-add behind our back.
add_compile_options(-ffp-contract=off)

# What one clone compiled serves another one on the same machine: paths below the sources count as relative.
find_program(SHOAL_CCACHE ccache)
if(SHOAL_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${SHOAL_CCACHE})
endif()

# shoal_add_library(NAME SOURCES file... [DEPENDS target...]): a static library with our warnings, included from the root.
function(shoal_add_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_compile_options(${name} PRIVATE ${SHOAL_WARNINGS})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_DEPENDS})
  shoal_join_sources(${name})
  shoal_use_library_headers(${name} ${ARG_DEPENDS})
endfunction()

# shoal_use_library_headers(TARGET DEPENDS...)
function(shoal_use_library_headers name)
  if("shoal_proto" IN_LIST ARGN)
    shoal_use_precompiled_headers(${name} shoal_proto)
  else()
    shoal_use_precompiled_headers(${name} shoal_library_headers)
  endif()
endfunction()

# shoal_add_program(NAME SOURCES file... DEPENDS target...): an executable in build/bin.
function(shoal_add_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_compile_options(${name} PRIVATE ${SHOAL_WARNINGS})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS})
  shoal_join_sources(${name})
  # As libraries are, whose precompiled headers GCC refuses otherwise.
  if(SHOAL_PRECOMPILED_HEADERS)
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${name} PRIVATE -fPIC)
  endif()
  shoal_use_library_headers(${name} ${ARG_DEPENDS})
endfunction()

# shoal_add_test(NAME SOURCES file... DEPENDS target... LABEL unit|conformance|scenario|sim|process|fuzz [TIMEOUT seconds]
# [SEPARATE] [GRPC]): a GoogleTest program, registered with CTest as one test. SEPARATE: its sources have names in common,
# and are never compiled at once. GRPC: they include gRPC or the messages.
function(shoal_add_test name)
  cmake_parse_arguments(ARG "SEPARATE;GRPC" "LABEL;TIMEOUT" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_compile_options(${name} PRIVATE ${SHOAL_WARNINGS} ${SHOAL_TEST_OPTIMIZATION})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} GTest::gtest GTest::gmock GTest::gtest_main)
  if(ARG_GRPC)
    shoal_use_precompiled_headers(${name} shoal_grpc_test_headers)
  else()
    shoal_use_precompiled_headers(${name} shoal_test_headers)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(NOT ARG_SEPARATE)
    shoal_join_sources(${name})
  endif()
  add_test(NAME ${name} COMMAND ${name})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * ${SHOAL_TEST_TIME_FACTOR}")
  set_tests_properties(${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT})
endfunction()
