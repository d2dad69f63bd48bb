// The kernel of processors with AVX-512.
#include "curves.hpp"
#include "draws.hpp"
#include "narrow.hpp"
#include "simd_avx512.hpp"
#include "sparse.hpp"
#include "tile.hpp"

namespace thermoment {

extern const Kernel avx512_kernel = {
    "avx512",
    "AVX-512",
    false,
    2 * Avx512::lanes,
    workspace_bytes<Avx512>,
    run_block<Avx512, Float32>,
    sum_rows<Avx512>,
    draw<Avx512>,
    sum_curves<Avx512>,
    project<Avx512>,
    collect<Avx512>,
};

}  // namespace thermoment
