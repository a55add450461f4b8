// x = cap * tanh(x / cap), in place; the rows lie end to end, so they are one long row.
// Slots: p0 x [rows, width]; i0 width; f0 cap.
#pragma once
#include "../native/ops.h"
#include "../native/simd.h"

namespace {

void soft_cap(const Op& op, const Step& step, Pool& pool) {
    const int64_t total = rows_of(op, step) * op.i[0], per_chunk = 16384;
    const float cap = op.f[0];
    pool.parallel((int)((total + per_chunk - 1) / per_chunk), [&](int chunk) {
        const int64_t last = std::min(total, (chunk + 1) * per_chunk);
        for (int64_t i = chunk * per_chunk; i < last; i += 16) {
            const int64_t bytes = std::min<int64_t>(last - i, 16) * 4;
            float* x = (float*)op.p[0] + i;
            f32x16 v = {};
            memcpy(&v, x, bytes);
            v = tanh(v / cap) * cap;
            memcpy(x, &v, bytes);
        }
    });
}

}  // namespace
