// The position of the largest value of each sampled row, the first of equals; -1 where the row holds NaN or infinity.
// Slots: p0 x [sampled, width], p2 out int32 [sampled]; i0 width.
#pragma once
#include <cmath>
#include "../native/ops.h"
#include "../native/simd.h"

namespace {

inline int32_t argmax_row(const float* x, int64_t width) {
    f32x16 best = splat(-INFINITY), poison = {};
    int64_t i = 0;
    for (; i + 16 <= width; i += 16) {
        f32x16 v = load(x + i);
        best = max(best, v);
        poison += v - v;
    }
    float largest = max(best), bad = sum(poison);
    for (; i < width; i++) {
        largest = x[i] > largest ? x[i] : largest;
        bad += x[i] - x[i];
    }
    if (bad != 0.0f || bad != bad) return -1;
    for (int64_t j = 0; j < width; j++)
        if (x[j] == largest) return (int32_t)j;
    return -1;
}

void argmax(const Op& op, const Step& step, Pool& pool) {
    pool.parallel((int)step.num_sampled, [&](int row) {
        ((int32_t*)op.p[2])[row] = argmax_row((const float*)op.p[0] + row * op.i[0], op.i[0]);
    });
}

}  // namespace
