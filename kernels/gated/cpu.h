// y = activation(gate) * up, where x holds gate and up side by side. All activations are gate * sigmoid(z):
// silu has z = gate, the tanh form of gelu z = 2 sqrt(2 / pi) (gate + 0.044715 gate^3), as (1 + tanh(u)) / 2 = sigmoid(2 u).
// clamped_silu, of gpt-oss, has z = 1.702 gate, clamps gate and up, and multiplies by up + 1.
// Slots: p0 x [rows, 2 * width], p2 y [rows, width]; i0 width, i1 activation (0 silu, 1 gelu_tanh, 2 clamped_silu).
#pragma once
#include <cmath>
#include "../native/ops.h"
#include "../native/simd.h"

namespace {

inline f32x16 gelu_exponent(f32x16 gate) {
    return gate * 1.5957691216057308f * fma(gate * 0.044715f, gate, splat(1.0f));
}

inline f32x16 clamp(f32x16 x, float low, float high) { return x > high ? splat(high) : x < low ? splat(low) : x; }

inline void gated_row(const float* x, float* y, int64_t width, int64_t activation) {
    for (int64_t i = 0; i < width; i += 16) {
        f32x16 gate = load(x + i), up = load(x + width + i), z = gate;
        if (activation == 1) z = gelu_exponent(gate);
        if (activation == 2) {
            gate = clamp(gate, -INFINITY, 7.0f);
            up = clamp(up, -7.0f, 7.0f) + 1.0f;
            z = gate * 1.702f;
        }
        store(y + i, gate / (exp(-z) + 1.0f) * up);
    }
}

void gated(const Op& op, const Step& step, Pool& pool) {
    const int64_t width = op.i[0], rows = rows_of(op, step), per_chunk = 2;
    pool.parallel((int)((rows + per_chunk - 1) / per_chunk), [&](int chunk) {
        int64_t last = std::min(rows, (chunk + 1) * per_chunk);
        for (int64_t row = chunk * per_chunk; row < last; row++)
            gated_row((const float*)op.p[0] + row * 2 * width, (float*)op.p[2] + row * width, width, op.i[1]);
    });
}

}  // namespace
