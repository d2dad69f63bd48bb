#include "narrow_calls.hpp"

#include "dispatch.hpp"

namespace thermoment {

namespace {

// What XLA hands over, as narrow_calls.hpp lists it, of n_rows samples.
NarrowProduct read(const xla::Call& call, std::int64_t n_rows) {
    const xla::Buffer &x = *call.arguments.at[0], &matrix = *call.arguments.at[2];
    const std::int64_t first = *static_cast<const std::int32_t*>(call.arguments.at[1]->data), n_features = x.shape[1];
    return {static_cast<std::size_t>(n_rows),
            static_cast<std::size_t>(n_features),
            static_cast<std::size_t>(matrix.shape[0]),
            static_cast<const float*>(x.data) + first * n_features,
            static_cast<const float*>(matrix.data),
            static_cast<float*>(call.results.at[0]->data)};
}

const Kernel& kernel(const xla::Call& call) {
    return *kernels()[*static_cast<const std::int32_t*>(call.attributes.at[0]->value)].kernel;
}

}  // namespace

xla::Error* narrow_product(xla::Call* call) {
    if (xla::answered(*call)) return nullptr;
    kernel(*call).project(read(*call, call->results.at[0]->shape[1]));
    return nullptr;
}

xla::Error* narrow_sums(xla::Call* call) {
    if (xla::answered(*call)) return nullptr;
    kernel(*call).collect(read(*call, call->arguments.at[2]->shape[1]));
    return nullptr;
}

}  // namespace thermoment
