// Sums over draws from the laws of single nodes, as a function that XLA calls.
#pragma once

#include "xla_call.hpp"

namespace thermoment {

// Sums of x^p over draws, (S, orders, N) in float32. Takes mean and spread (S, N) in float32; the row of each node's shape, (S, N)
// in int32; the shapes (L, Z) in float32; sample ids (S,) in uint64; seed and stream (2,) in uint32; the number of draws, () in
// uint32; and the orders in int32, ascending. The attributes are the last point of the shapes, and the number of a kernel, as
// `kernels` counts.
xla::Error* draw_sums(xla::Call* call);

}  // namespace thermoment
