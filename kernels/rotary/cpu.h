// Rotary embedding of q and k (optionally normalised per head first), then k and v into their KV blocks.
// The first 2 * width dimensions of a head turn, the others stay as they are.
// x is the fused projection [rows, (heads + 2 * kv_heads) * head_dim]: q is rotated in place, k and v leave for the cache.
// Keys lie [block, kv_head, head_dim, 16 tokens] so that one vector holds one dimension of a whole block; values [block, kv_head, 16 tokens, head_dim].
// Slots: p0 x, p1 cos [positions, width], p2 sin, p3 key cache, p4 value cache, p5 q norm or null, p6 k norm or null;
//        i0 heads, i1 kv_heads, i2 head_dim, i3 cache type, i4 width of the tables;
//        f0 eps of the norms, f1 and f2 what k and v are multiplied by on their way into the cache.
#pragma once
#include "../attention/cache.h"
#include "../native/ops.h"
#include "../native/simd.h"
#include "../rms_norm/cpu.h"

namespace {

inline void rotate_head(float* x, const float* cos, const float* sin, int64_t width) {  // pairs (i, i + width), as Hugging Face
    for (int64_t i = 0; i < width; i += 16) {
        f32x16 a = load(x + i), b = load(x + width + i), c = load(cos + i), s = load(sin + i);
        store(x + i, a * c - b * s);
        store(x + width + i, b * c + a * s);
    }
}

template <class T>
void rotary_row(const Op& op, const Step& step, int64_t row) {
    const int64_t heads = op.i[0], kv_heads = op.i[1], dim = op.i[2], width = op.i[4];
    float* x = (float*)op.p[0] + row * (heads + 2 * kv_heads) * dim;
    const float* cos = (const float*)op.p[1] + step.positions[row] * width;
    const float* sin = (const float*)op.p[2] + step.positions[row] * width;
    for (int64_t h = 0; h < heads + kv_heads; h++) {
        const float* norm = (const float*)(h < heads ? op.p[5] : op.p[6]);
        if (norm) rms_norm_row(x + h * dim, norm, x + h * dim, dim, op.f[0]);
        rotate_head(x + h * dim, cos, sin, width);
    }
    const int64_t block = step.slots[row] / BLOCK_SIZE, offset = step.slots[row] % BLOCK_SIZE;
    for (int64_t h = 0; h < kv_heads; h++) {
        const float *k = x + (heads + h) * dim, *v = x + (heads + kv_heads + h) * dim;
        T* keys = (T*)op.p[3] + (block * kv_heads + h) * dim * BLOCK_SIZE + offset;
        T* values = (T*)op.p[4] + ((block * kv_heads + h) * BLOCK_SIZE + offset) * dim;
        for (int64_t i = 0; i < dim; i++) from_float(k[i] * op.f[1], keys + i * BLOCK_SIZE);
        for (int64_t i = 0; i < dim; i++) from_float(v[i] * op.f[2], values + i);
    }
}

void rotary(const Op& op, const Step& step, Pool& pool) {
    const int64_t per_chunk = 4;
    pool.parallel((int)((step.num_rows + per_chunk - 1) / per_chunk), [&](int chunk) {
        int64_t last = std::min(step.num_rows, (chunk + 1) * per_chunk);
        for (int64_t row = chunk * per_chunk; row < last; row++) {
            with_cache_type(op.i[3], [&](auto element) { rotary_row<decltype(element)>(op, step, row); });
        }
    });
}

}  // namespace
