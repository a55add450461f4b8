// Sixteen-lane vectors in GCC/Clang vector extensions: one source for AVX-512, AVX2, SSE2 and NEON.
// Intrinsics appear only where the extensions cannot say it (fused multiply-add, half floats).
// The library is compiled with -ffp-contract=off: what is fused is written fused, so a row's result never
// depends on how many rows shared its step.
#pragma once
#include <cstdint>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

typedef float f32x16 __attribute__((vector_size(64)));
typedef int32_t i32x16 __attribute__((vector_size(64)));
typedef uint32_t u32x16 __attribute__((vector_size(64)));
typedef uint16_t u16x16 __attribute__((vector_size(32)));

struct f16 { uint16_t bits; };
struct bf16 { uint16_t bits; };
struct f8 { uint8_t bits; };  // OCP E4M3: no infinity, one NaN of each sign

inline f32x16 splat(float x) { return f32x16{x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }
inline i32x16 splat(int32_t x) { return i32x16{x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }

inline f32x16 load(const float* p) { f32x16 v; memcpy(&v, p, sizeof v); return v; }
inline void store(float* p, f32x16 v) { memcpy(p, &v, sizeof v); }

inline f32x16 fma(f32x16 a, f32x16 b, f32x16 c) {
#if defined(__AVX512F__)
    return (f32x16)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    __m256 x[2], y[2], z[2];
    memcpy(x, &a, 64); memcpy(y, &b, 64); memcpy(z, &c, 64);
    for (int i = 0; i < 2; i++) z[i] = _mm256_fmadd_ps(x[i], y[i], z[i]);
    memcpy(&c, z, 64);
    return c;
#else
    return a * b + c;
#endif
}

inline float half_to_float(uint16_t h) {  // IEEE binary16, for processors without F16C
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = (h >> 10) & 31, mantissa = h & 1023, bits;
    if (exponent == 31) bits = sign | 0x7f800000u | mantissa << 13;
    else if (exponent) bits = sign | (exponent + 112) << 23 | mantissa << 13;
    else {
        float f = (float)mantissa * 5.9604644775390625e-8f;  // subnormal: mantissa * 2^-24
        memcpy(&bits, &f, 4);
        bits |= sign;
    }
    float out;
    memcpy(&out, &bits, 4);
    return out;
}

inline uint16_t float_to_half(float x) {  // round to nearest even
    uint32_t bits;
    memcpy(&bits, &x, 4);
    uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return sign | 0x7e00;
    if (magnitude >= 0x477ff000) return sign | 0x7c00;
    if (magnitude < 0x38800000) {
        float shifted, f;
        memcpy(&f, &magnitude, 4);
        shifted = f + 0.5f;  // adding 0.5 leaves the rounded subnormal in the low mantissa bits
        memcpy(&bits, &shifted, 4);
        return sign | (bits - 0x3f000000);
    }
    magnitude += 0xc8000fff + (magnitude >> 13 & 1);
    return sign | magnitude >> 13;
}

inline f32x16 load(const f16* p) {
#if defined(__AVX512F__)
    return (f32x16)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p));
#elif defined(__F16C__)
    f32x16 v;
    __m256 halves[2];
    for (int i = 0; i < 2; i++) halves[i] = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p + i));
    memcpy(&v, halves, 64);
    return v;
#else
    f32x16 v;
    for (int i = 0; i < 16; i++) v[i] = half_to_float(p[i].bits);
    return v;
#endif
}

inline f32x16 load(const bf16* p) {
    u16x16 bits;
    memcpy(&bits, p, sizeof bits);
    return (f32x16)(__builtin_convertvector(bits, u32x16) << 16);
}

inline float to_float(float x) { return x; }
inline float to_float(f16 x) { return half_to_float(x.bits); }
inline float to_float(bf16 x) { uint32_t b = (uint32_t)x.bits << 16; float f; memcpy(&f, &b, 4); return f; }

inline void from_float(float x, float* out) { *out = x; }
inline void from_float(float x, f16* out) { out->bits = float_to_half(x); }
inline void from_float(float x, bf16* out) {
    uint32_t b;
    memcpy(&b, &x, 4);
    out->bits = x != x ? 0x7fc0 : (b + 0x7fff + (b >> 16 & 1)) >> 16;
}

inline void from_float(float x, f8* out) {  // round to nearest even; what is larger than 448 becomes 448
    uint32_t bits;
    memcpy(&bits, &x, 4);
    const uint32_t sign = bits >> 24 & 0x80, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) out->bits = sign | 0x7f;
    else if (magnitude >= 0x43e00000) out->bits = sign | 0x7e;
    else if (magnitude < 0x3c800000) {  // adding 2^14 leaves the rounded subnormal, a multiple of 2^-9, in the low bits
        float f;
        memcpy(&f, &magnitude, 4);
        f += 16384.0f;
        memcpy(&bits, &f, 4);
        out->bits = sign | (bits - 0x46800000);
    } else out->bits = sign | (((magnitude + 0x7ffff + (magnitude >> 20 & 1)) >> 20) - (120 << 3));
}

inline f32x16 max(f32x16 a, f32x16 b) { return a > b ? a : b; }
inline i32x16 max(i32x16 a, i32x16 b) { return a > b ? a : b; }

inline float sum(f32x16 v) {
#if defined(__AVX512F__)
    return _mm512_reduce_add_ps((__m512)v);
#else
    float lanes[16];
    store(lanes, v);
    for (int width = 8; width; width /= 2)
        for (int i = 0; i < width; i++) lanes[i] += lanes[i + width];
    return lanes[0];
#endif
}

inline int32_t sum(i32x16 v) {
#if defined(__AVX512F__)
    return _mm512_reduce_add_epi32((__m512i)v);
#else
    int32_t total = 0;
    for (int i = 0; i < 16; i++) total += v[i];
    return total;
#endif
}

inline int32_t max(i32x16 v) {
#if defined(__AVX512F__)
    return _mm512_reduce_max_epi32((__m512i)v);
#else
    int32_t best = v[0];
    for (int i = 1; i < 16; i++) best = v[i] > best ? v[i] : best;
    return best;
#endif
}

inline float max(f32x16 v) {
#if defined(__AVX512F__)
    return _mm512_reduce_max_ps((__m512)v);
#else
    float best = v[0];
    for (int i = 1; i < 16; i++) best = v[i] > best ? v[i] : best;
    return best;
#endif
}

// exp by range reduction to |r| <= ln2 / 2 and a degree-6 polynomial (Cephes expf); relative error below 2e-7.
// Inputs under -87 give about 1e-38 rather than 0; NaN stays NaN.
inline f32x16 exp(f32x16 x) {
    x = x < splat(-87.0f) ? splat(-87.0f) : x;
    x = x > splat(88.0f) ? splat(88.0f) : x;
    const f32x16 magic = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer kept in the low bits
    f32x16 shifted = fma(x, splat(1.44269504088896341f), magic);
    f32x16 n = shifted - magic;
    f32x16 r = fma(n, splat(-0.693359375f), x);
    r = fma(n, splat(2.12194440e-4f), r);
    f32x16 p = splat(1.9875691500e-4f);
    p = fma(p, r, splat(1.3981999507e-3f));
    p = fma(p, r, splat(8.3334519073e-3f));
    p = fma(p, r, splat(4.1665795894e-2f));
    p = fma(p, r, splat(1.6666665459e-1f));
    p = fma(p, r, splat(5.0000001201e-1f));
    p = fma(p, r * r, r) + 1.0f;
    i32x16 power = ((i32x16)shifted - (i32x16)magic + 127) << 23;
    return p * (f32x16)power;
}

inline f32x16 tanh(f32x16 x) { return 1.0f - 2.0f / (exp(x * 2.0f) + 1.0f); }  // absolute error below 2e-7

}  // namespace
