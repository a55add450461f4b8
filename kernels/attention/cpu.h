// Causal attention over paged keys and values, decode and prefill alike.
//
// A work item is one KV head of one sequence with up to eight query rows (the heads of its group, some tokens): each block's
// keys and values are read once for all of them. Softmax is online, block by block in order; a row's result depends on
// its own tokens only, never on its neighbours in the batch or on how its prompt was cut into chunks.
// Blocks wholly before the window are not read at all: they may belong to another request by now.
// A sink is a logit of its head that takes part in the softmax and adds no value: a token seen before all others.
// Slots: p0 qkv [rows, (heads + 2 * kv_heads) * head_dim], p2 y [rows, heads * head_dim], p3 key cache, p4 value cache,
//        p5 sinks [heads] or null;
//        i0 heads, i1 kv_heads, i2 head_dim, i3 cache type, i4 window; f0 scale (of scores and stored keys), f1 soft cap or 0,
//        f2 scale of stored values.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>
#include "../native/lanes.h"
#include "../native/ops.h"
#include "../native/simd.h"
#include "cache.h"

namespace {

constexpr int MAX_QUERY_ROWS = 8, MAX_HEAD_DIM = 256;

struct QueryTile {
    int64_t sequence, kv_head, first_token, tokens;  // first_token counts from the sequence's first row of this step
    int64_t first_head, heads;                       // of the group
};

template <int ROWS, class T>
inline void scores_of_block(const T* keys, const float* q, int64_t dim, f32x16* scores) {
    for (int t = 0; t < BLOCK_SIZE; t += LANES) {
        f32v even[ROWS] = {}, odd[ROWS] = {};  // two sums a row: one alone would wait for itself
        for (int64_t d = 0; d < dim; d += 2) {
            const f32v first = floats_at(keys + d * BLOCK_SIZE + t), second = floats_at(keys + (d + 1) * BLOCK_SIZE + t);
            for (int r = 0; r < ROWS; r++) {
                even[r] = fma(first, every_lane(q[r * dim + d]), even[r]);
                odd[r] = fma(second, every_lane(q[r * dim + d + 1]), odd[r]);
            }
        }
        for (int r = 0; r < ROWS; r++) {
            const f32v sum = even[r] + odd[r];
            memcpy((float*)&scores[r] + t, &sum, sizeof sum);
        }
    }
}

template <int ROWS, class T>
inline void add_values(const T* values, const float* weights, int64_t tokens, int64_t dim, float* out) {
    for (int64_t d = 0; d < dim; d += LANES) {
        f32v acc[ROWS];
        for (int r = 0; r < ROWS; r++) acc[r] = floats_at(out + r * dim + d);
        for (int64_t t = 0; t < tokens; t++) {
            const f32v value = floats_at(values + t * dim + d);
            for (int r = 0; r < ROWS; r++) acc[r] = fma(value, every_lane(weights[r * BLOCK_SIZE + t]), acc[r]);
        }
        for (int r = 0; r < ROWS; r++) memcpy(out + r * dim + d, &acc[r], sizeof acc[r]);
    }
}

// Softmax weights of one row for one block, of which it sees tokens [hidden, visible): rescales what was summed so far
// when the maximum grows.
inline void online_softmax(f32x16 scores, int64_t hidden, int64_t visible, float* weights, float& maximum, f32x16& total, float* out, int64_t dim) {
    static const int32_t numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    i32x16 lane;
    memcpy(&lane, numbers, 64);
    i32x16 seen = lane < (int32_t)std::min<int64_t>(visible, BLOCK_SIZE);
    if (hidden > 0) seen &= lane >= (int32_t)std::min<int64_t>(hidden, BLOCK_SIZE);
    scores = seen ? scores : splat(-INFINITY);
    const float larger = std::max(maximum, max(scores));
    if (larger > maximum) {
        const float shrink = maximum == -INFINITY ? 0.0f : std::exp(maximum - larger);
        for (int64_t d = 0; d < dim; d += 16) store(out + d, load(out + d) * shrink);
        total *= shrink;
        maximum = larger;
    }
    f32x16 p = seen ? exp(scores - maximum) : f32x16{};
    total += p;
    store(weights, p);
}

template <int ROWS, class T>
void attend(const Op& op, const Step& step, const QueryTile& tile) {
    const int64_t heads = op.i[0], kv_heads = op.i[1], dim = op.i[2], width = (heads + 2 * kv_heads) * dim;
    const int64_t first_row = step.query_starts[tile.sequence] + tile.first_token;
    const int64_t head = tile.kv_head * (heads / kv_heads) + tile.first_head;
    const float *sinks = (const float*)op.p[5], soft_cap = op.f[1];
    const int32_t* blocks = step.block_tables + tile.sequence * step.block_table_stride;
    alignas(64) float q[MAX_QUERY_ROWS * MAX_HEAD_DIM], out[MAX_QUERY_ROWS * MAX_HEAD_DIM], weights[MAX_QUERY_ROWS * BLOCK_SIZE];
    float maximum[ROWS];
    f32x16 total[ROWS];  // lane by lane; summed at the end
    int64_t first[ROWS], length[ROWS];  // the row sees tokens [first, length)
    for (int r = 0; r < ROWS; r++) {
        const int64_t row = first_row + r / tile.heads;
        const float* source = (const float*)op.p[0] + row * width + (head + r % tile.heads) * dim;
        for (int64_t d = 0; d < dim; d += 16) {
            store(q + r * dim + d, load(source + d) * op.f[0]);
            store(out + r * dim + d, f32x16{});
        }
        maximum[r] = sinks ? sinks[head + r % tile.heads] : -INFINITY;
        total[r] = f32x16{sinks ? 1.0f : 0.0f};
        length[r] = step.positions[row] + 1;
        first[r] = std::max<int64_t>(0, length[r] - op.i[4]);
    }
    const int64_t longest = length[ROWS - 1];
    for (int64_t start = first[0] / BLOCK_SIZE * BLOCK_SIZE; start < longest; start += BLOCK_SIZE) {
        const int64_t at = (int64_t)blocks[start / BLOCK_SIZE] * kv_heads + tile.kv_head;
        f32x16 scores[ROWS];
        scores_of_block<ROWS>((const T*)op.p[3] + at * dim * BLOCK_SIZE, q, dim, scores);
        for (int r = 0; r < ROWS; r++) {
            if (soft_cap > 0) scores[r] = tanh(scores[r] * (1 / soft_cap)) * soft_cap;
            online_softmax(scores[r], first[r] - start, length[r] - start, weights + r * BLOCK_SIZE, maximum[r], total[r], out + r * dim, dim);
        }
        // Slots past the longest row hold another request's leftovers: they must not even be multiplied by zero.
        add_values<ROWS>((const T*)op.p[4] + at * dim * BLOCK_SIZE, weights, std::min<int64_t>(longest - start, BLOCK_SIZE), dim, out);
    }
    for (int r = 0; r < ROWS; r++) {
        float* y = (float*)op.p[2] + (first_row + r / tile.heads) * heads * dim + (head + r % tile.heads) * dim;
        const float share = op.f[2] / sum(total[r]);
        for (int64_t d = 0; d < dim; d += 16) store(y + d, load(out + r * dim + d) * share);
    }
}

template <class T>
inline void attend_tile(const Op& op, const Step& step, const QueryTile& tile) {
    switch (tile.tokens * tile.heads) {
        case 1: return attend<1, T>(op, step, tile);
        case 2: return attend<2, T>(op, step, tile);
        case 3: return attend<3, T>(op, step, tile);
        case 4: return attend<4, T>(op, step, tile);
        case 5: return attend<5, T>(op, step, tile);
        case 6: return attend<6, T>(op, step, tile);
        case 7: return attend<7, T>(op, step, tile);
        case 8: return attend<8, T>(op, step, tile);
    }
}

inline void query_tiles(const Op& op, const Step& step, std::vector<QueryTile>& tiles) {
    const int64_t group = op.i[0] / op.i[1];
    for (int64_t s = 0; s < step.num_sequences; s++) {
        const int64_t tokens = step.query_starts[s + 1] - step.query_starts[s];
        for (int64_t head = 0; head < group; head += MAX_QUERY_ROWS) {
            const int64_t heads = std::min<int64_t>(group - head, MAX_QUERY_ROWS), rows = MAX_QUERY_ROWS / heads;
            for (int64_t t = 0; t < tokens; t += rows)
                for (int64_t kv = 0; kv < op.i[1]; kv++)
                    tiles.push_back({s, kv, t, std::min(rows, tokens - t), head, heads});
        }
    }
}

void attention(const Op& op, const Step& step, Pool& pool) {
    thread_local std::vector<QueryTile> tiles;  // keeps its memory from step to step
    tiles.clear();
    query_tiles(op, step, tiles);
    const std::vector<QueryTile>& all = tiles;
    const int64_t per_chunk = std::max<int64_t>(1, (int64_t)all.size() / (pool.size() * 8));
    pool.parallel((int)((all.size() + per_chunk - 1) / per_chunk), [&](int chunk) {
        int64_t last = std::min<int64_t>(all.size(), (chunk + 1) * per_chunk);
        for (int64_t i = chunk * per_chunk; i < last; i++) {
            with_cache_type(op.i[3], [&](auto element) { attend_tile<decltype(element)>(op, step, all[i]); });
        }
    });
}

}  // namespace
