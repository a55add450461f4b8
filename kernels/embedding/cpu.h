// The rows of the embedding table of this step's tokens, as float32; and the choice of the rows to sample.
// embedding slots: p0 table as the file has it [vocabulary, width], p2 y; i0 width, i1 format of pack.h, i2 bytes per row; f0 scale.
// gather slots: p0 x [rows, width], p2 y [sampled, width]; i0 width.
#pragma once
#include "../linear/pack.h"
#include "../native/ops.h"
#include "../native/simd.h"

namespace {

inline void dequantise_group(int format, const uint8_t* raw, float* out) {
    f16 d, m = {0};
    memcpy(&d, raw, 2);
    if (format == AFFINE4) memcpy(&m, raw + 2, 2);
    const float scale = to_float(d), low = to_float(m);
    const uint8_t* codes = raw + (format == AFFINE4 ? 4 : 2);
    for (int i = 0; i < GROUP; i++) {
        if (format == SYMM8) out[i] = scale * (float)(int8_t)codes[i];
        else {
            int code = i < 16 ? codes[i] & 15 : codes[i - 16] >> 4;
            out[i] = format == AFFINE4 ? scale * (float)code + low : scale * (float)(code - 8);
        }
    }
}

template <class T>
inline void convert_row(const uint8_t* raw, int64_t width, float* out) {
    for (int64_t i = 0; i < width; i += 16) store(out + i, load((const T*)raw + i));
}

inline void embedding_row(int format, const uint8_t* raw, int64_t width, float* out) {
    constexpr int64_t group_bytes[] = {20, 18, 34};
    switch (format) {
        case FLOAT32: return convert_row<float>(raw, width, out);
        case FLOAT16: return convert_row<f16>(raw, width, out);
        case BFLOAT16: return convert_row<bf16>(raw, width, out);
    }
    for (int64_t g = 0; g < width / GROUP; g++) dequantise_group(format, raw + g * group_bytes[format], out + g * GROUP);
}

void embedding(const Op& op, const Step& step, Pool&) {
    for (int64_t row = 0; row < step.num_rows; row++) {
        float* out = (float*)op.p[2] + row * op.i[0];
        embedding_row((int)op.i[1], (const uint8_t*)op.p[0] + step.token_ids[row] * op.i[2], op.i[0], out);
        if (op.f[0] != 1.0f)
            for (int64_t i = 0; i < op.i[0]; i += 16) store(out + i, load(out + i) * op.f[0]);
    }
}

void gather(const Op& op, const Step& step, Pool&) {
    for (int64_t i = 0; i < step.num_sampled; i++)
        memcpy((float*)op.p[2] + i * op.i[0], (const float*)op.p[0] + step.sample_rows[i] * op.i[0], op.i[0] * 4);
}

}  // namespace
