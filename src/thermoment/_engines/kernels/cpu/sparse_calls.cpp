#include "sparse_calls.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "dispatch.hpp"
#include "pack.hpp"

namespace thermoment {

namespace {

using Indices = std::vector<std::int32_t>;

// Nodes at a time in x^T M: of 128 samples they take 32 KB, as much as the first cache of a core has.
constexpr std::size_t slice = 64;

// What XLA hands over, as sparse_calls.hpp lists it.
struct Arguments {
    const std::int32_t* columns;
    const float *values, *matrix;
    Indices begin, end;  // of each sample of the batch, in columns and values
    std::size_t n_rows, n_nodes;
    float* out;
    const Kernel* kernel;

    explicit Arguments(const xla::Call& call) {
        const auto at = [&](int number) { return call.arguments.at[number]->data; };
        const auto* offsets = static_cast<const std::int32_t*>(at(0));
        const auto* rows = static_cast<const std::int32_t*>(at(3));
        columns = static_cast<const std::int32_t*>(at(1));
        values = static_cast<const float*>(at(2));
        matrix = static_cast<const float*>(at(4));
        for (std::int64_t b = 0; b < call.arguments.at[3]->shape[0]; ++b) {
            begin.push_back(rows[b] < 0 ? 0 : offsets[rows[b]]);
            end.push_back(rows[b] < 0 ? 0 : offsets[rows[b] + 1]);
        }
        const xla::Buffer& result = *call.results.at[0];
        n_rows = result.shape[0];
        n_nodes = result.shape[1];
        out = static_cast<float*>(result.data);
        kernel = kernels()[*static_cast<const std::int32_t*>(call.attributes.at[0]->value)].kernel;
    }
};

}  // namespace

xla::Error* sparse_product(xla::Call* call) {
    if (xla::answered(*call)) return nullptr;
    const Arguments x(*call);
    x.kernel->sum_rows({x.n_rows, x.n_nodes, x.begin.data(), x.end.data(), x.columns, x.values, x.matrix, x.n_nodes, x.out,
                        x.n_nodes});
    return nullptr;
}

xla::Error* sparse_transposed_product(xla::Call* call) {
    if (xla::answered(*call)) return nullptr;
    const Arguments x(*call);
    // For every input the samples of the batch in which it is not zero, in order.
    const std::size_t n_samples = x.begin.size();
    Indices begin(x.n_rows + 1);
    for (std::size_t b = 0; b < n_samples; ++b)
        for (std::int32_t k = x.begin[b]; k < x.end[b]; ++k) ++begin[x.columns[k] + 1];
    for (std::size_t i = 0; i < x.n_rows; ++i) begin[i + 1] += begin[i];
    Indices end(begin.begin(), begin.end() - 1), samples(begin.back());
    std::vector<float> values(begin.back());
    for (std::size_t b = 0; b < n_samples; ++b)
        for (std::int32_t k = x.begin[b]; k < x.end[b]; ++k) {
            const std::int32_t to = end[x.columns[k]]++;
            samples[to] = static_cast<std::int32_t>(b);
            values[to] = x.values[k];
        }
    // A slice of M is copied together: rows that are a power of two apart would compete for few lines of the cache.
    Buffer aligned = buffer(n_samples * slice * sizeof(float));
    auto* part = reinterpret_cast<float*>(aligned.data());
    for (std::size_t node = 0; node < x.n_nodes; node += slice) {
        const std::size_t width = std::min(slice, x.n_nodes - node);
        for (std::size_t b = 0; b < n_samples; ++b)
            std::memcpy(part + b * slice, x.matrix + b * x.n_nodes + node, width * sizeof(float));
        x.kernel->sum_rows({x.n_rows, width, begin.data(), end.data(), samples.data(), values.data(), part, slice,
                            x.out + node, x.n_nodes});
    }
    return nullptr;
}

}  // namespace thermoment
