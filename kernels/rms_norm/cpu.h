// y = x / sqrt(mean(x^2) + eps) * weight, plus the residual where there is one, row by row.
// Slots: p0 x, p1 weight, p2 y, p3 residual or null; i0 width; f0 eps.
#pragma once
#include <cmath>
#include "../native/ops.h"
#include "../native/simd.h"

namespace {

inline void rms_norm_row(const float* x, const float* weight, float* y, int64_t width, float eps, const float* residual = nullptr) {
    f32x16 squares = {};
    for (int64_t i = 0; i < width; i += 16) squares = fma(load(x + i), load(x + i), squares);
    const float scale = 1.0f / std::sqrt(sum(squares) / (float)width + eps);
    for (int64_t i = 0; i < width; i += 16) {
        const f32x16 normed = load(x + i) * scale * load(weight + i);
        store(y + i, residual ? normed + load(residual + i) : normed);
    }
}

void rms_norm(const Op& op, const Step& step, Pool& pool) {
    const int64_t width = op.i[0], rows = rows_of(op, step), per_chunk = 8;
    pool.parallel((int)((rows + per_chunk - 1) / per_chunk), [&](int chunk) {
        int64_t last = std::min(rows, (chunk + 1) * per_chunk);
        for (int64_t row = chunk * per_chunk; row < last; row++)
            rms_norm_row((const float*)op.p[0] + row * width, (const float*)op.p[1], (float*)op.p[2] + row * width, width,
                         op.f[0], op.p[3] ? (const float*)op.p[3] + row * width : nullptr);
    });
}

}  // namespace
