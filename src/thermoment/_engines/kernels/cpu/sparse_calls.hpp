// Products with inputs that are mostly zeros, as functions that XLA calls.
#pragma once

#include "xla_call.hpp"

namespace thermoment {

// Both take, of all S samples, the inputs that are not zero, as compressed rows: offsets (S + 1,), columns and values; the rows
// (B,) of a batch, -1 for none; and a matrix in float32. The attribute is the number of a kernel, as `kernels` counts.

// x M: (B, N), from M (D, N).
xla::Error* sparse_product(xla::Call* call);

// x^T M: (D, N), from M (B, N).
xla::Error* sparse_transposed_product(xla::Call* call);

}  // namespace thermoment
