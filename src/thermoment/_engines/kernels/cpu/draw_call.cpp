#include "draw_call.hpp"

#include "dispatch.hpp"

namespace thermoment {

xla::Error* draw_sums(xla::Call* call) {
    if (xla::answered(*call)) return nullptr;
    const auto at = [&](int number) -> const xla::Buffer& { return *call->arguments.at[number]; };
    const auto* key = static_cast<const std::uint32_t*>(at(5).data);
    const xla::Buffer &mean = at(0), &shapes = at(3), &orders = at(7);
    const Kernel* kernel = kernels()[*static_cast<const std::int32_t*>(call->attributes.at[1]->value)].kernel;
    kernel->draw({static_cast<std::size_t>(mean.shape[0]), static_cast<std::size_t>(mean.shape[1]),
                  *static_cast<const std::uint32_t*>(at(6).data), static_cast<const std::int32_t*>(orders.data),
                  static_cast<std::size_t>(orders.shape[0]), key[0], key[1], 0xFFFFFFFF,
                  static_cast<const std::uint64_t*>(at(4).data), static_cast<const float*>(mean.data),
                  static_cast<const float*>(at(1).data), static_cast<const std::int32_t*>(at(2).data),
                  static_cast<const float*>(shapes.data), static_cast<std::size_t>(shapes.shape[1]),
                  *static_cast<const float*>(call->attributes.at[0]->value),
                  static_cast<float*>(call->results.at[0]->data)});
    return nullptr;
}

}  // namespace thermoment
