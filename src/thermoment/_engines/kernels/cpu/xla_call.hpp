// How XLA calls a function of ours from within a compiled program: the part of its foreign function interface that is needed
// here, in the layout that jaxlib has had since 0.8. XLA hands over the addresses and shapes of arrays.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thermoment::xla {

struct Extension {
    std::size_t struct_size;
    int type;
    Extension* next;
};
constexpr int metadata_type = 1;

struct Version {
    std::size_t struct_size;
    Extension* extensions;
    int major, minor;
};

struct Metadata {
    std::size_t struct_size;
    Version version;
    std::uint32_t traits;
};

struct MetadataExtension {
    Extension base;
    Metadata* metadata;
};

struct Buffer {
    std::size_t struct_size;
    Extension* extensions;
    int dtype;
    void* data;
    std::int64_t rank;
    std::int64_t* shape;
};

struct Scalar {
    int dtype;
    void* value;
};

struct Buffers {
    std::size_t struct_size;
    Extension* extensions;
    std::int64_t size;
    int* types;
    Buffer** at;
};

struct Attributes {
    std::size_t struct_size;
    Extension* extensions;
    std::int64_t size;
    int* types;
    void** names;
    Scalar** at;
};

struct Call {
    std::size_t struct_size;
    Extension* extensions;
    const void* api;
    void* context;
    int stage;
    Buffers arguments, results;
    Attributes attributes;
};

struct Error;  // a null pointer is success

// Whether XLA only asks which version of the interface a function was written for; then it is answered.
inline bool answered(const Call& call) {
    if (call.extensions == nullptr || call.extensions->type != metadata_type) return false;
    Metadata& metadata = *reinterpret_cast<MetadataExtension*>(call.extensions)->metadata;
    metadata.version = {sizeof(Version), nullptr, 0, 1};
    metadata.traits = 0;
    return true;
}

}  // namespace thermoment::xla
