// Vectors of the processor's own width, for inner loops whose working set must stay in registers: sixteen lanes are two
// registers on AVX2, four on SSE2 and NEON, and compilers move such pairs through memory.
#pragma once
#include "simd.h"

namespace {

#if defined(__AVX512F__)
constexpr int LANES = 16;
#elif defined(__AVX2__)
constexpr int LANES = 8;
#else
constexpr int LANES = 4;
#endif

typedef float f32v __attribute__((vector_size(LANES * 4)));
typedef int32_t i32v __attribute__((vector_size(LANES * 4)));
typedef uint32_t u32v __attribute__((vector_size(LANES * 4)));
typedef uint16_t u16v __attribute__((vector_size(LANES * 2)));
typedef uint8_t u8v __attribute__((vector_size(LANES)));
typedef int8_t i8v __attribute__((vector_size(LANES)));

template <class Vector>
inline Vector lanes_at(const void* p) {
    Vector v;
    memcpy(&v, p, sizeof v);
    return v;
}

inline f32v every_lane(float x) { return x - f32v{}; }
inline i32v every_lane(int32_t x) { return x + i32v{}; }
inline f32v to_floats(i32v v) { return __builtin_convertvector(v, f32v); }

inline f32v to_floats(u16v halves) {
#if defined(__AVX512F__)
    return (f32v)_mm512_cvtph_ps((__m256i)halves);
#elif defined(__AVX2__) && defined(__F16C__)
    return (f32v)_mm256_cvtph_ps((__m128i)halves);
#else
    f32v v;
    for (int i = 0; i < LANES; i++) v[i] = half_to_float(halves[i]);
    return v;
#endif
}

inline f32v floats_at(const float* p) { return lanes_at<f32v>(p); }
inline f32v floats_at(const f16* p) { return to_floats(lanes_at<u16v>(p)); }
inline f32v floats_at(const bf16* p) { return (f32v)(__builtin_convertvector(lanes_at<u16v>(p), u32v) << 16); }
inline f32v floats_at(const int8_t* p) { return to_floats(__builtin_convertvector(lanes_at<i8v>(p), i32v)); }

// Each byte of v, 0 to 15, becomes that entry of the table.
inline u32v look_up(const uint8_t* table, u32v v) {
#if defined(__AVX512F__)
    return (u32v)_mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i*)table)), (__m512i)v);
#elif defined(__AVX2__)
    return (u32v)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i*)table)), (__m256i)v);
#else
    uint8_t bytes[sizeof v];
    memcpy(bytes, &v, sizeof v);
    for (uint8_t& byte : bytes) byte = table[byte];
    memcpy(&v, bytes, sizeof v);
    return v;
#endif
}

// Sign and the rest, moved to their places in a half, mean 2^-8 of the value; 0x7f becomes a half's NaN.
inline f32v floats_at(const f8* p) {
    const u16v codes = __builtin_convertvector(lanes_at<u8v>(p), u16v), magnitude = codes & 0x7f;
    const u16v nan = (u16v)(magnitude == 0x7f) & 0x4000;
    return to_floats((u16v)((codes & 0x80) << 8 | magnitude << 7 | nan)) * 256.0f;
}

#if !defined(__AVX512F__)  // where f32v is f32x16
inline f32v fma(f32v a, f32v b, f32v c) {
#if defined(__AVX2__) && defined(__FMA__)
    return (f32v)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}
#endif

}  // namespace
