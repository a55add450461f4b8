// What a KV cache may hold: the types of CACHE_TYPES in cache.py, in that order.
#pragma once
#include "../native/simd.h"

namespace {

// Calls body with a value of the cache's element type.
template <class Body>
inline void with_cache_type(int64_t number, const Body& body) {
    switch (number) {
        case 0: return body(float{});
        case 1: return body(f16{});
        case 2: return body(bf16{});
        default: return body(f8{});
    }
}

}  // namespace
