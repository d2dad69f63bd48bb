// The kernel of processors that also multiply bfloat16: twice the rate in W x.
#include "curves.hpp"
#include "draws.hpp"
#include "narrow.hpp"
#include "simd_avx512.hpp"
#include "sparse.hpp"
#include "tile.hpp"

namespace thermoment {

struct Avx512Bf16 : Avx512 {
    // sum + w_even x_even + w_odd x_odd
    static Float dot(Word w, Word x, Float sum) {
        return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(w), reinterpret_cast<__m512bh>(x));
    }

    // Lane by lane, the even node in the lower half.
    static Word to_bfloat16(Float even, Float odd) {
        const auto apart = reinterpret_cast<Word>(_mm512_cvtne2ps_pbh(odd, even));
        return _mm512_permutexvar_epi16(interleave(), apart);
    }

   private:
    static Word interleave() {
        alignas(64) static constexpr std::uint16_t order[32] = {
            0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
            8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31,
        };
        return _mm512_load_si512(order);
    }
};

static void run(const Problem& problem, const Block& block, void* workspace, double* sums, std::uint64_t* clipped,
                const std::atomic<bool>* stop) {
    // Work is summed from float32 products alone.
    const auto run =
        block.segments[0].W.halved ? run_tiles<Avx512Bf16, Bfloat16, false> : run_block<Avx512Bf16, Float32>;
    run(problem, block, workspace, sums, clipped, stop);
}

extern const Kernel avx512bf16_kernel = {
    "avx512bf16",
    "AVX-512 with bfloat16",
    true,
    2 * Avx512Bf16::lanes,
    workspace_bytes<Avx512Bf16>,
    run,
    sum_rows<Avx512Bf16>,
    draw<Avx512Bf16>,
    sum_curves<Avx512Bf16>,
    project<Avx512Bf16>,
    collect<Avx512Bf16>,
};

}  // namespace thermoment
