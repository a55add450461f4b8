// The rows of the embedding table of this step's tokens, as float32; and the choice of the rows to sample.
// embedding slots: p0 table as the file has it [vocabulary, width], p2 y; i0 width, i1 format, i2 bytes per row; f0 scale.
// gather slots: p0 x [rows, width], p2 y [sampled, width]; i0 width.
#pragma once
#include "../linear/formats.h"
#include "../native/ops.h"
#include "../native/simd.h"

namespace {

template <class F>
inline void embedding_row(F format, const uint8_t* raw, int64_t width, float scale, float* out) {
    for (int64_t step = 0; step < width / F::STEP; step++) {
        if constexpr (F::STEP == 1) out[step] = format.value(raw, step) * scale;
        else {
            const Decoded group = format.read(raw, step);
            for (int i = 0; i < GROUP; i++)
                out[step * GROUP + i] = (group.d[i / 16] * (float)(group.codes[i] - F::ZERO) + group.m) * scale;
        }
    }
}

void embedding(const Op& op, const Step& step, Pool&) {
    with_format(op.i[1], [&](auto format) {
        for (int64_t row = 0; row < step.num_rows; row++)
            embedding_row(format, (const uint8_t*)op.p[0] + step.token_ids[row] * op.i[2], op.i[0], op.f[0],
                          (float*)op.p[2] + row * op.i[0]);
    });
}

void gather(const Op& op, const Step& step, Pool&) {
    for (int64_t i = 0; i < step.num_sampled; i++)
        memcpy((float*)op.p[2] + i * op.i[0], (const float*)op.p[0] + step.sample_rows[i] * op.i[0], op.i[0] * 4);
}

}  // namespace
