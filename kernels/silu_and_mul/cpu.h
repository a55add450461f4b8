// y = silu(gate) * up, where x holds gate and up side by side.
// Slots: p0 x [rows, 2 * width], p2 y [rows, width]; i0 width.
#pragma once
#include "../native/ops.h"
#include "../native/simd.h"

namespace {

void silu_and_mul(const Op& op, const Step& step, Pool& pool) {
    const int64_t width = op.i[0], rows = rows_of(op, step), per_chunk = 2;
    pool.parallel((int)((rows + per_chunk - 1) / per_chunk), [&](int chunk) {
        int64_t last = std::min(rows, (chunk + 1) * per_chunk);
        for (int64_t row = chunk * per_chunk; row < last; row++) {
            const float* x = (const float*)op.p[0] + row * 2 * width;
            float* y = (float*)op.p[2] + row * width;
            for (int64_t i = 0; i < width; i += 16) {
                f32x16 gate = load(x + i);
                store(y + i, gate / (exp(-gate) + 1.0f) * load(x + width + i));
            }
        }
    });
}

}  // namespace
