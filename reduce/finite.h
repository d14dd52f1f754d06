// Whether numbers are finite, and the sum of their squares: what a worker that guards against NaN looks at.
//
// Pure functions, any thread, no allocation. `data` holds element_count elements of the type, in any alignment.
#ifndef SHOAL_REDUCE_FINITE_H_
#define SHOAL_REDUCE_FINITE_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/dtype.h"

namespace shoal {

// The index of the first element that is NaN or infinite; nothing if there is none. Integers are finite.
std::optional<uint64_t> FirstNonFinite(DataType dtype, const std::byte* data, uint64_t element_count);

// In double, in an order that depends on element_count alone: the same bits give the same sum. 0 for integers.
double SquareSum(DataType dtype, const std::byte* data, uint64_t element_count);

}  // namespace shoal

#endif  // SHOAL_REDUCE_FINITE_H_
