// y = x W^T (+ bias) (+ residual), W packed in tiles as in formats.h.
//
// Quantised weights: each activation row is quantised to int8 in groups of 32 with its own scale (as llama.cpp's Q8_0 does),
// so a group costs eight integer dot products of 64 multiply-adds and a few float operations for sixteen columns.
// Weights that become floats one by one (plain types, FP8) meet float32 activations.
// A row's sums run over k in one order whatever the number of rows: the batch never changes a result.
// Slots: p0 x, p1 packed W, p2 y, p3 bias or null, p4 residual or null, p5 scratch, p6 order of x's columns or null;
//        i0 k, i1 n, i2 format, i3 stride of y, i4 stride of residual, i7 bytes of a row of W.
#pragma once
#include "../native/ops.h"
#include "../native/simd.h"
#include "formats.h"

namespace {

constexpr int ROW_TILE = 8;

// One group of 32 columns of eight activation rows, quantised: everything that a weight block meets, side by side.
struct Activations {
    int8_t codes[ROW_TILE][GROUP];
    float scales[ROW_TILE];
    float sums[ROW_TILE];             // scale * sum of codes: what AFFINE formats multiply by m
    int32_t code_sums[2][ROW_TILE];   // of each half: what ZERO is multiplied by
};

inline void quantise_group(const float* x, const int32_t* order, Activations& out, int row) {
    float ordered[GROUP];
    if (order) {
        for (int i = 0; i < GROUP; i++) ordered[i] = x[order[i]];
        x = ordered;
    }
    f32x16 a = load(x), b = load(x + 16);
    // Magnitudes compare as integers, and there NaN and infinity are the largest: they reach the scale, and so the logits.
    const int32_t magnitude = max(max((i32x16)a & 0x7fffffff, (i32x16)b & 0x7fffffff));
    float largest;
    memcpy(&largest, &magnitude, 4);
    const float scale = largest / 127.0f, inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
    const f32x16 magic = splat(12582912.0f);  // rounds to nearest even and leaves the integer in the low bits
    i32x16 qa = (i32x16)(a * inverse + magic) - (i32x16)magic, qb = (i32x16)(b * inverse + magic) - (i32x16)magic;
    typedef int8_t i8x16 __attribute__((vector_size(16)));
    i8x16 ca = __builtin_convertvector(qa, i8x16), cb = __builtin_convertvector(qb, i8x16);
    memcpy(out.codes[row], &ca, 16);
    memcpy(out.codes[row] + 16, &cb, 16);
    out.scales[row] = scale;
    out.code_sums[0][row] = sum(qa);
    out.code_sums[1][row] = sum(qb);
    out.sums[row] = scale * (float)(out.code_sums[0][row] + out.code_sums[1][row]);
}

// Row `row` of x to int8, where the format wants it so; with an order, column j is x's column order[j].
template <class F>
inline void quantise_row(F, const Op& op, int64_t row, const int32_t* order) {
    if (F::STEP == 1) return;
    const int64_t k = op.i[0];
    const float* x = (const float*)op.p[0] + row * k;
    Activations* out = (Activations*)op.p[5] + row / ROW_TILE * (k / GROUP);
    for (int64_t first = 0; first < k; first += GROUP, out++)
        quantise_group(order ? x : x + first, order ? order + first : nullptr, *out, row % ROW_TILE);
}

// Each lane of codes holds four neighbouring k of one column, unsigned: plus their products with the four at x.
template <int BITS>
inline i32v dot4(i32v acc, u32v codes, const int8_t* x) {
    int32_t four;
    memcpy(&four, x, 4);
#if defined(__AVX512VNNI__)
    return (i32v)_mm512_dpbusd_epi32((__m512i)acc, (__m512i)codes, _mm512_set1_epi32(four));
#elif defined(__AVX2__)
    const __m256i c = (__m256i)codes, xs = _mm256_set1_epi32(four);
    if (BITS < 8)  // the sum of two products fits 16 bits
        return acc + (i32v)_mm256_madd_epi16(_mm256_maddubs_epi16(c, xs), _mm256_set1_epi16(1));
    const __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(xs, 8), 8), odd = _mm256_srai_epi16(xs, 8);
    acc += (i32v)_mm256_madd_epi16(_mm256_and_si256(c, _mm256_set1_epi16(255)), even);
    return acc + (i32v)_mm256_madd_epi16(_mm256_srli_epi16(c, 8), odd);
#else
    for (int i = 0; i < 4; i++) acc += (i32v)(codes >> (8 * i) & 0xff) * (int32_t)x[i];
    return acc;
#endif
}

// Up to eight rows of x, as a format wants them.
struct Rows {
    const Activations* quantised;   // [k / 32], for formats of STEP 32
    const float* floats[ROW_TILE];  // the others: each row's k values
};

// acc[r] += the products of 32 unpacked columns with row first + r.
template <int ROWS, class F>
inline void multiply(const Unpacked& w, const Activations& x, int first, f32v* acc) {
    for (int s = 0; s < F::SCALES; s++) {
        i32v totals[ROWS];
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; r++) {
            const int32_t other = F::SCALES == 1 ? x.code_sums[1][first + r] : 0;
            totals[r] = every_lane(-F::ZERO * (x.code_sums[s][first + r] + other));
        }
        // Row by row within a vector: neighbouring dot products are independent, a row's own wait for each other.
#pragma GCC unroll 8
        for (int v = s * 4; v < (s + 1) * 8 / F::SCALES; v++)
#pragma GCC unroll 8
            for (int r = 0; r < ROWS; r++) totals[r] = dot4<F::BITS>(totals[r], w.codes[v], x.codes[first + r] + v * 4);
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; r++) acc[r] = fma(to_floats(totals[r]), w.d[s] * x.scales[first + r], acc[r]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < ROWS && F::AFFINE; r++) acc[r] = fma(w.m, every_lane(x.sums[first + r]), acc[r]);
}

// sums[part][r] += the products of `columns` columns from `start` on. A sum waits for its last addition: with few rows, all
// parts go together.
template <int ROWS, int PARTS, class F>
inline void multiply_floats(F format, const uint8_t* tile, int64_t start, int64_t columns, const Rows& x, int first,
                            f32v (*sums)[ROWS]) {
    constexpr int TOGETHER = ROWS <= 4 ? PARTS : 1;
    for (int part = 0; part < PARTS; part += TOGETHER) {
        f32v acc[TOGETHER][ROWS];
        memcpy(acc, sums[part], sizeof acc);
        for (int64_t i = 0; i < columns; i++)
#pragma GCC unroll 4
            for (int p = 0; p < TOGETHER; p++) {
                const f32v column = format.span(tile, start, (part + p) * LANES).column(i);
#pragma GCC unroll 8
                for (int r = 0; r < ROWS; r++)
                    acc[p][r] = fma(column, every_lane(x.floats[first + r][start + i]), acc[p][r]);
            }
        memcpy(sums[part], acc, sizeof acc);
    }
}

// y[r] = the products of one tile of W with row first + r. The tile is gone through in pieces of 32 columns of k, and those
// by vectors of lanes: so sums stay in registers, and memory is read in order.
template <int ROWS, class F>
inline void product(F format, const uint8_t* tile, int64_t k, const Rows& x, int first, f32x16* y) {
    constexpr int PARTS = TILE / LANES;
    f32v sums[PARTS][ROWS] = {};
    for (int64_t start = 0; start < k; start += GROUP) {
        if constexpr (F::STEP == GROUP) {
            const int64_t step = start / GROUP;
            for (int part = 0; part < PARTS; part++)
                multiply<ROWS, F>(format.unpack(tile, step, part * LANES), x.quantised[step], first, sums[part]);
        } else {
            multiply_floats<ROWS, PARTS>(format, tile, start, std::min<int64_t>(GROUP, k - start), x, first, sums);
        }
    }
    for (int r = 0; r < ROWS; r++)
        for (int part = 0; part < PARTS; part++) memcpy((float*)(y + r) + part * LANES, &sums[part][r], sizeof(f32v));
}

// The same for any number of rows up to eight. Few sizes are compiled: of five rows, four go together.
template <class F>
inline void product_of(int64_t rows, F format, const uint8_t* tile, int64_t k, const Rows& x, f32x16* y) {
    int first = 0;
    if (rows & 8) return product<8>(format, tile, k, x, first, y);
    if (rows & 4) product<4>(format, tile, k, x, first, y), first += 4;
    if (rows & 2) product<2>(format, tile, k, x, first, y + first), first += 2;
    if (rows & 1) product<1>(format, tile, k, x, first, y + first);
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

// One tile of W with every row of x.
template <class F>
inline void tile_all_rows(F format, const Op& op, int64_t rows, int64_t tile) {
    const int64_t k = op.i[0];
    const uint8_t* w = (const uint8_t*)op.p[1] + tile * TILE * op.i[7];
    for (int64_t row = 0; row < rows; row += ROW_TILE) {
        const int64_t count = std::min<int64_t>(ROW_TILE, rows - row);
        Rows x{(const Activations*)op.p[5] + row / ROW_TILE * (k / GROUP), {}};
        for (int64_t r = 0; r < count; r++) x.floats[r] = (const float*)op.p[0] + (row + r) * k;
        f32x16 y[ROW_TILE];
        product_of(count, format, w, k, x, y);
        for (int64_t r = 0; r < count; r++) finish(op, row + r, tile * TILE, y[r]);
    }
}

template <class F>
void linear_format(F format, const Op& op, int64_t rows, Pool& pool) {
    const int64_t tiles = (op.i[1] + TILE - 1) / TILE;
    if (F::STEP == GROUP)
        pool.parallel((int)((rows + ROW_TILE - 1) / ROW_TILE), [&](int chunk) {
            for (int64_t row = chunk * ROW_TILE; row < std::min<int64_t>(rows, (chunk + 1) * ROW_TILE); row++)
                quantise_row(format, op, row, (const int32_t*)op.p[6]);
        });
    // A few chunks a thread even the load; a chunk should still be worth the claim (about 8 KiB of weights).
    const int64_t worth = std::max<int64_t>(1, 8192 / (TILE * op.i[7] * rows));
    const int64_t per_chunk = std::max(worth, tiles / (pool.size() * 6));
    pool.parallel((int)((tiles + per_chunk - 1) / per_chunk), [&](int chunk) {
        const int64_t last = std::min(tiles, (chunk + 1) * per_chunk);
        for (int64_t tile = chunk * per_chunk; tile < last; tile++) tile_all_rows(format, op, rows, tile);
    });
}

void linear(const Op& op, const Step& step, Pool& pool) {
    const int64_t rows = rows_of(op, step);
    if (rows == 0) return;  // a step of prompt chunks only samples nothing
    with_format(op.i[2], [&](auto format) { linear_format(format, op, rows, pool); });
}

}  // namespace
