#include "curve_call.hpp"

#include <cstring>

#include "dispatch.hpp"
#include "pack.hpp"

namespace thermoment {

xla::Error* curve_sums(xla::Call* call) {
    if (xla::answered(*call)) return nullptr;
    const auto at = [&](int number) -> const xla::Buffer& { return *call->arguments.at[number]; };
    const xla::Buffer &piece = at(0), &pieces = at(2), &result = *call->results.at[0];
    const auto n_shapes = static_cast<std::size_t>(pieces.shape[2]);
    const std::size_t n_coefficients = pieces.shape[0] * 4, stride = round_up(n_shapes, 16);
    // Each coefficient of all shapes in whole vectors.
    Buffer padded = buffer(n_coefficients * stride * sizeof(float));
    auto* to = reinterpret_cast<float*>(padded.data());
    for (std::size_t k = 0; k < n_coefficients; ++k)
        std::memcpy(to + k * stride, static_cast<const float*>(pieces.data) + k * n_shapes, n_shapes * sizeof(float));
    const auto n_combinations = static_cast<std::size_t>(at(3).shape[0]);
    Buffer turned = buffer(round_up(n_combinations, Curves::rows_together) * n_shapes * sizeof(float));
    auto* matrix = reinterpret_cast<float*>(turned.data());
    for (std::size_t e = 0; e < n_combinations; ++e)
        for (std::size_t b = 0; b < n_shapes; ++b) {
            const std::size_t block = e / Curves::rows_together, place = e % Curves::rows_together;
            matrix[(block * n_shapes + b) * Curves::rows_together + place] =
                static_cast<const float*>(at(3).data)[e * n_shapes + b];
        }
    const Kernel* kernel = kernels()[*static_cast<const std::int32_t*>(call->attributes.at[0]->value)].kernel;
    kernel->sum_curves({static_cast<std::size_t>(piece.shape[0] * piece.shape[1]), static_cast<const std::int32_t*>(piece.data),
                        static_cast<const float*>(at(1).data), n_shapes, stride, to, matrix,
                        static_cast<std::size_t>(result.shape[0]), static_cast<std::size_t>(at(4).shape[0]),
                        static_cast<const float*>(at(4).data), static_cast<float*>(result.data)});
    return nullptr;
}

}  // namespace thermoment
