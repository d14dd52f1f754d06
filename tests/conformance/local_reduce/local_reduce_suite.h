// The conformance suite of worker/local_reduce/local_reduce.h (rules L1 to L6). A test program includes this and
// instantiates it:
//
//   INSTANTIATE_TEST_SUITE_P(Name, LocalReduceSuite, testing::Values(LocalReduceKind{...}), LocalReduceKindName);
#ifndef SHOAL_TESTS_CONFORMANCE_LOCAL_REDUCE_LOCAL_REDUCE_SUITE_H_
#define SHOAL_TESTS_CONFORMANCE_LOCAL_REDUCE_LOCAL_REDUCE_SUITE_H_

#include "tests/conformance/local_reduce/local_reduce_clauses.h"
#include "tests/conformance/local_reduce/local_reduce_ends.h"
#include "tests/conformance/local_reduce/local_reduce_harness.h"
#include "tests/conformance/local_reduce/local_reduce_parts.h"

namespace shoal {

inline std::string LocalReduceKindName(const testing::TestParamInfo<LocalReduceKind>& kind) { return kind.param.name; }

}  // namespace shoal

#endif  // SHOAL_TESTS_CONFORMANCE_LOCAL_REDUCE_LOCAL_REDUCE_SUITE_H_
