// The kernel of every other processor.
#include "curves.hpp"
#include "draws.hpp"
#include "narrow.hpp"
#include "simd_plain.hpp"
#include "sparse.hpp"
#include "tile.hpp"

namespace thermoment {

extern const Kernel plain_kernel = {
    "plain",
    "plain C++",
    false,
    2 * Plain::lanes,
    workspace_bytes<Plain>,
    run_block<Plain, Float32>,
    sum_rows<Plain>,
    draw<Plain>,
    sum_curves<Plain>,
    project<Plain>,
    collect<Plain>,
};

}  // namespace thermoment
