// y = x W^T (+ bias) (+ residual), W packed as in pack.h.
//
// Quantised weights: each activation row is quantised to int8 in groups of 32 with its own scale (as llama.cpp's Q8_0 does),
// so a group costs eight integer dot products of 64 multiply-adds and three float operations for sixteen columns.
// A row's sums run over k in one order whatever the number of rows: the batch never changes a result.
// Slots: p0 x, p1 packed W, p2 y, p3 bias or null, p4 residual or null, p5 scratch; i0 k, i1 n, i2 format, i3 stride of y, i4 stride of residual.
#pragma once
#include <type_traits>
#include "../native/ops.h"
#include "../native/simd.h"
#include "pack.h"

namespace {

constexpr int ROW_TILE = 8;

// One group of 32 columns of eight activation rows, quantised: everything that a weight block meets, side by side.
struct Activations {
    int8_t codes[ROW_TILE][GROUP];
    float scales[ROW_TILE];
    float sums[ROW_TILE];         // AFFINE4: scale * sum of codes, to be multiplied by m
    int32_t zero_sums[ROW_TILE];  // SYMM*: -zero * sum of codes, where the integer sum starts
};

inline void quantise_group(const float* x, int zero, Activations& out, int row) {
    f32x16 a = load(x), b = load(x + 16);
    // Magnitudes compare as integers, and there NaN and infinity are the largest: they reach the scale, and so the logits.
    const int32_t magnitude = max(max((i32x16)a & 0x7fffffff, (i32x16)b & 0x7fffffff));
    float largest;
    memcpy(&largest, &magnitude, 4);
    const float scale = largest / 127.0f, inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
    const f32x16 magic = splat(12582912.0f);  // rounds to nearest even and leaves the integer in the low bits
    i32x16 qa = (i32x16)(a * inverse + magic) - (i32x16)magic, qb = (i32x16)(b * inverse + magic) - (i32x16)magic;
    int32_t total = sum(qa + qb);
    typedef int8_t i8x16 __attribute__((vector_size(16)));
    i8x16 ca = __builtin_convertvector(qa, i8x16), cb = __builtin_convertvector(qb, i8x16);
    memcpy(out.codes[row], &ca, 16);
    memcpy(out.codes[row] + 16, &cb, 16);
    out.scales[row] = scale;
    out.sums[row] = scale * (float)total;
    out.zero_sums[row] = -zero * total;
}

inline i32x16 dot4(i32x16 acc, u32x16 codes, const int8_t* x) {  // codes: 16 columns x 4 k, unsigned
    int32_t four;
    memcpy(&four, x, 4);
#if defined(__AVX512VNNI__)
    return (i32x16)_mm512_dpbusd_epi32((__m512i)acc, (__m512i)codes, _mm512_set1_epi32(four));
#else
    for (int i = 0; i < 4; i++) acc += (i32x16)(codes >> (8 * i) & 0xff) * (int32_t)x[i];
    return acc;
#endif
}

template <int FORMAT>
inline void unpack(const uint8_t* w, u32x16* codes) {
    if (FORMAT == SYMM8) memcpy(codes, w, 8 * 64);
    else
        for (int v = 0; v < 4; v++) {
            u32x16 nibbles;
            memcpy(&nibbles, w + v * 64, 64);
            codes[v] = nibbles & 0x0f0f0f0f;
            codes[v + 4] = nibbles >> 4 & 0x0f0f0f0f;
        }
}

template <int ROWS, int FORMAT>
inline void quantised_tile(const uint8_t* w, int64_t groups, const Activations* x, f32x16* acc) {
    for (int64_t g = 0; g < groups; g++, x++, w += packed_block_bytes(FORMAT)) {
        u32x16 codes[8];
        unpack<FORMAT>(w, codes);
        const f16* scale = (const f16*)(w + (FORMAT == SYMM8 ? 8 : 4) * 64);
        f32x16 d = load(scale), m = FORMAT == AFFINE4 ? load(scale + 16) : f32x16{};
        i32x16 totals[ROWS];
        for (int r = 0; r < ROWS; r++) totals[r] = FORMAT == AFFINE4 ? i32x16{} : splat(x->zero_sums[r]);
        // Row by row within a vector: neighbouring dot products are independent, a row's own wait for each other.
#pragma GCC unroll 8
        for (int v = 0; v < 8; v++)
#pragma GCC unroll 8
            for (int r = 0; r < ROWS; r++) totals[r] = dot4(totals[r], codes[v], x->codes[r] + v * 4);
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; r++) {
            acc[r] = fma(__builtin_convertvector(totals[r], f32x16), d * x->scales[r], acc[r]);
            if (FORMAT == AFFINE4) acc[r] = fma(m, splat(x->sums[r]), acc[r]);
        }
    }
}

template <int ROWS, class T>
inline void float_tile(const T* w, int64_t k, const float* const* x, f32x16* acc) {
    for (int64_t i = 0; i < k; i++) {
        f32x16 column = load(w + i * TILE);
        for (int r = 0; r < ROWS; r++) acc[r] = fma(column, splat(x[r][i]), acc[r]);
    }
}

inline void finish(const Op& op, int64_t row, int64_t column, f32x16 value) {
    const int64_t left = op.i[1] - column;
    float* y = (float*)op.p[2] + row * op.i[3] + column;
    const float* bias = (const float*)op.p[3];
    const float* residual = (const float*)op.p[4];
    if (left >= TILE) {
        if (bias) value += load(bias + column);
        if (residual) value += load(residual + row * op.i[4] + column);
        store(y, value);
        return;
    }
    for (int c = 0; c < left; c++)
        y[c] = value[c] + (bias ? bias[column + c] : 0.0f) + (residual ? residual[row * op.i[4] + column + c] : 0.0f);
}

template <int ROWS, int FORMAT>
inline void tile_rows(const Op& op, int64_t row, int64_t tile) {
    const int64_t k = op.i[0];
    const uint8_t* w = (const uint8_t*)op.p[1] + tile * packed_tile_bytes(FORMAT, k);
    f32x16 acc[ROWS] = {};
    if constexpr (FORMAT < FLOAT32) {
        quantised_tile<ROWS, FORMAT>(w, k / GROUP, (const Activations*)op.p[5] + row / ROW_TILE * (k / GROUP), acc);
    } else {
        const float* x[ROWS];
        for (int r = 0; r < ROWS; r++) x[r] = (const float*)op.p[0] + (row + r) * k;
        if constexpr (FORMAT == FLOAT32) float_tile<ROWS>((const float*)w, k, x, acc);
        if constexpr (FORMAT == FLOAT16) float_tile<ROWS>((const f16*)w, k, x, acc);
        if constexpr (FORMAT == BFLOAT16) float_tile<ROWS>((const bf16*)w, k, x, acc);
    }
    for (int r = 0; r < ROWS; r++) finish(op, row + r, tile * TILE, acc[r]);
}

template <int FORMAT>
inline void tile_all_rows(const Op& op, int64_t rows, int64_t tile) {
    int64_t row = 0;
    for (; row + ROW_TILE <= rows; row += ROW_TILE) tile_rows<ROW_TILE, FORMAT>(op, row, tile);
    switch (rows - row) {
        case 7: return tile_rows<7, FORMAT>(op, row, tile);
        case 6: return tile_rows<6, FORMAT>(op, row, tile);
        case 5: return tile_rows<5, FORMAT>(op, row, tile);
        case 4: return tile_rows<4, FORMAT>(op, row, tile);
        case 3: return tile_rows<3, FORMAT>(op, row, tile);
        case 2: return tile_rows<2, FORMAT>(op, row, tile);
        case 1: return tile_rows<1, FORMAT>(op, row, tile);
    }
}

// Row `row` of x to int8, where the format wants it so.
template <int FORMAT>
inline void quantise_row(const Op& op, int64_t row) {
    if (FORMAT >= FLOAT32) return;
    const int64_t k = op.i[0], groups = k / GROUP;
    Activations* tile = (Activations*)op.p[5] + row / ROW_TILE * groups;
    for (int64_t g = 0; g < groups; g++)
        quantise_group((const float*)op.p[0] + row * k + g * GROUP, FORMAT == SYMM4 ? 8 : 128, tile[g], row % ROW_TILE);
}

template <int FORMAT>
void linear_format(const Op& op, int64_t rows, Pool& pool) {
    const int64_t k = op.i[0], tiles = (op.i[1] + TILE - 1) / TILE;
    if (FORMAT < FLOAT32) {
        pool.parallel((int)((rows + ROW_TILE - 1) / ROW_TILE), [&](int chunk) {
            for (int64_t row = chunk * ROW_TILE; row < std::min<int64_t>(rows, (chunk + 1) * ROW_TILE); row++)
                quantise_row<FORMAT>(op, row);
        });
    }
    // A few chunks a thread even the load; a chunk should still be worth the claim (about 8 KiB of weights).
    const int64_t worth = std::max<int64_t>(1, 8192 / (packed_tile_bytes(FORMAT, k) * rows));
    const int64_t per_chunk = std::max(worth, tiles / (pool.size() * 6));
    pool.parallel((int)((tiles + per_chunk - 1) / per_chunk), [&](int chunk) {
        int64_t last = std::min(tiles, (chunk + 1) * per_chunk);
        for (int64_t tile = chunk * per_chunk; tile < last; tile++) tile_all_rows<FORMAT>(op, rows, tile);
    });
}

// Calls body with the format as a constant: the one list of the formats that have a product.
template <class Body>
inline void with_format(int64_t format, const Body& body) {
    switch (format) {
        case AFFINE4: return body(std::integral_constant<int, AFFINE4>{});
        case SYMM4: return body(std::integral_constant<int, SYMM4>{});
        case SYMM8: return body(std::integral_constant<int, SYMM8>{});
        case FLOAT32: return body(std::integral_constant<int, FLOAT32>{});
        case FLOAT16: return body(std::integral_constant<int, FLOAT16>{});
        case BFLOAT16: return body(std::integral_constant<int, BFLOAT16>{});
    }
}

void linear(const Op& op, const Step& step, Pool& pool) {
    const int64_t rows = rows_of(op, step);
    if (rows == 0) return;  // a step of prompt chunks only samples nothing
    with_format(op.i[2], [&](auto format) { linear_format<format>(op, rows, pool); });
}

}  // namespace
