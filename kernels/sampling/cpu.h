// What drawing one token needs of one row of logits, in two passes over it: nothing of the row's size is written but
// the few candidates.
// Slots: p0 x [width], p1 sums double [blocks of 512 tokens], p2 tokens int32 [width], p3 peak float [1],
// p4 count int64 [1]; i0 width; f0 scale, f1 depth.
#pragma once
#include <cmath>
#include "../native/lanes.h"
#include "../native/ops.h"

namespace {

constexpr int64_t SURVEY_BLOCK = 512;  // as BLOCK in reference.py

inline bool any(i32v mask) {  // lanes are 0 or -1
#if defined(__AVX512DQ__)
    return _mm512_movepi32_mask((__m512i)mask) != 0;
#elif defined(__AVX2__)
    return _mm256_movemask_ps((__m256)mask) != 0;
#else
    int32_t found = 0;
    for (int j = 0; j < LANES; j++) found |= mask[j];
    return found != 0;
#endif
}

// exp as in simd.h for exponents of at most 0, and nothing at all below -87: a masked token must not weigh.
inline f32v weight_of(f32v exponent) {
    const f32v magic = every_lane(12582912.0f), least = every_lane(-87.0f);
    i32v weighs = exponent >= least;
    f32v x = (f32v)(((i32v)exponent & weighs) | ((i32v)least & ~weighs));
    f32v shifted = x * 1.44269504088896341f + magic, n = shifted - magic;
    f32v r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    f32v p = every_lane(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    i32v power = ((i32v)shifted - (i32v)magic + 127) << 23;
    return (f32v)((i32v)(p * (f32v)power) & weighs);
}

inline float peak_of(const float* x, int64_t width) {
    f32v best = every_lane(-INFINITY);
    int64_t i = 0;
    for (; i + LANES <= width; i += LANES) {
        f32v v = floats_at(x + i);
        best = v > best ? v : best;
    }
    float peak = -INFINITY;
    for (int64_t j = 0; j < LANES; j++) peak = best[j] > peak ? best[j] : peak;
    for (; i < width; i++) peak = x[i] > peak ? x[i] : peak;
    return peak;
}

void survey(const Op& op, const Step&, Pool&) {
    const float* x = (const float*)op.p[0];
    double* sums = (double*)op.p[1];
    int32_t* tokens = (int32_t*)op.p[2];
    int64_t width = op.i[0], count = 0;
    float peak = peak_of(x, width), scale = op.f[0], least = -op.f[1];
    for (int64_t start = 0; start < width; start += SURVEY_BLOCK) {
        int64_t end = std::min(start + SURVEY_BLOCK, width), i = start;
        f32v total = {};
        auto look_at = [&](f32v logits, int64_t valid) {
            f32v exponent = (logits - peak) * scale;
            total += weight_of(exponent);
            if (!any(exponent >= least)) return;
            float lanes[LANES];
            memcpy(lanes, &exponent, sizeof lanes);
            for (int64_t j = 0; j < valid; j++)
                if (lanes[j] >= least) tokens[count++] = (int32_t)(i + j);
        };
        for (; i + LANES <= end; i += LANES) look_at(floats_at(x + i), LANES);
        if (i < end) {
            float rest[LANES];
            for (int64_t j = 0; j < LANES; j++) rest[j] = i + j < end ? x[i + j] : -INFINITY;
            look_at(floats_at(rest), end - i);  // without bounds every lane would pass, those past the row too
        }
        double sum = 0;
        for (int64_t j = 0; j < LANES; j++) sum += total[j];
        sums[start / SURVEY_BLOCK] = sum;
    }
    *(float*)op.p[3] = peak;
    *(int64_t*)op.p[4] = count;
}

}  // namespace
