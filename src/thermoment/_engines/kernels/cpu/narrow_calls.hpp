// Products of some samples with a narrow matrix, as functions that XLA calls.
#pragma once

#include "xla_call.hpp"

namespace thermoment {

// Both take all samples x (S, F) and the number of the first one that counts, in int32, and a matrix in float32. How many
// samples count is in the shapes: B. The attribute is the number of a kernel, as `kernels` counts.

// M x^T: (C, B), from M (C, F).
xla::Error* narrow_product(xla::Call* call);

// M x: (C, F), from M (C, B).
xla::Error* narrow_sums(xla::Call* call);

}  // namespace thermoment
