// y = activation(gate) * up, where x holds gate and up side by side. Both activations are gate * sigmoid(z):
// silu has z = gate, the tanh form of gelu z = 2 sqrt(2 / pi) (gate + 0.044715 gate^3), as (1 + tanh(u)) / 2 = sigmoid(2 u).
// Slots: p0 x [rows, 2 * width], p2 y [rows, width]; i0 width, i1 activation (0 silu, 1 gelu_tanh).
#pragma once
#include "../native/ops.h"
#include "../native/simd.h"

namespace {

inline f32x16 gelu_exponent(f32x16 gate) {
    return gate * 1.5957691216057308f * fma(gate * 0.044715f, gate, splat(1.0f));
}

inline void gated_row(const float* x, float* y, int64_t width, bool gelu) {
    for (int64_t i = 0; i < width; i += 16) {
        f32x16 gate = load(x + i), z = gelu ? gelu_exponent(gate) : gate;
        store(y + i, gate / (exp(-z) + 1.0f) * load(x + width + i));
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
