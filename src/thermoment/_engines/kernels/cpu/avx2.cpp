// The kernel of processors with AVX2 and FMA.
#include "curves.hpp"
#include "draws.hpp"
#include "narrow.hpp"
#include "simd_avx2.hpp"
#include "sparse.hpp"
#include "tile.hpp"

namespace thermoment {

extern const Kernel avx2_kernel = {
    "avx2",
    "AVX2",
    false,
    2 * Avx2::lanes,
    workspace_bytes<Avx2>,
    run_block<Avx2, Float32>,
    sum_rows<Avx2>,
    draw<Avx2>,
    sum_curves<Avx2>,
    project<Avx2>,
    collect<Avx2>,
};

}  // namespace thermoment
