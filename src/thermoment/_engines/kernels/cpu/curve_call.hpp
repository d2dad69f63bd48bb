// Combinations of tabulated curves, as a function that XLA calls.
#pragma once

#include "xla_call.hpp"

namespace thermoment {

// Takes, in float32 unless said otherwise, the piece that each of S x N cells is in, (S, N) in int32, and how far along it, (S, N);
// the coefficients of the cubics, (U, 4, B); the rows of combinations, (E, B); and fields (K, S, N). Gives all E combinations where
// K is 0, (E, S, N), and otherwise sums over k of field k times combination a K + k, (E / K, S, N). The attribute is the number of
// a kernel, as `kernels` counts. B must be at most `Curves::most_shapes`, and S N at least 16.
xla::Error* curve_sums(xla::Call* call);

}  // namespace thermoment
