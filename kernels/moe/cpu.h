// Mixture of experts. The rows that chose an expert lie side by side, from a multiple of ROW_TILE on: their "places".
// So a product reads an expert's weights once for all its rows, and those of an expert without rows never.
// An expert's product is the one of ../linear over its own rows, and a row sums its experts in its own order, best
// first: a row's neighbours in the step change nothing.
// Slots of every op: p6 groups, p7 places [rows, top_k], i5 top_k; the others as each one says.
#pragma once
#include <cmath>
#include "../gated/cpu.h"
#include "../linear/cpu.h"

namespace {

struct Group {
    int32_t expert, first, count;  // its rows have the places [first, first + count)
};

struct Groups {
    int32_t size;
    Group each[1];  // as many as there are experts; those with rows come first
};

inline float rank(float logit) { return logit != logit ? INFINITY : logit; }  // what is no number must come through

// The best expert that comes after `last` (-1: of all) in the order of falling logits, equals by number.
inline int32_t next_best(const float* logits, int32_t experts, int32_t last) {
    const float bound = last < 0 ? INFINITY : rank(logits[last]);
    int32_t best = -1;
    for (int32_t e = 0; e < experts; e++) {
        const float own = rank(logits[e]);
        if ((own < bound || (own == bound && e > last)) && (best < 0 || own > rank(logits[best]))) best = e;
    }
    return best;
}

inline void choose(const float* logits, int32_t experts, int64_t top_k, bool normalised, int32_t* chosen, float* weights) {
    int32_t last = -1;
    float total = 0.0f;
    for (int64_t j = 0; j < top_k; j++) {
        chosen[j] = last = next_best(logits, experts, last);
        total += weights[j] = std::exp(logits[last] - logits[chosen[0]]);
    }
    if (!normalised) {
        total = 0.0f;
        for (int32_t e = 0; e < experts; e++) total += std::exp(logits[e] - logits[chosen[0]]);
    }
    for (int64_t j = 0; j < top_k; j++) weights[j] /= total;
}

inline void group(const int32_t* chosen, int64_t choices, int32_t experts, int32_t* places, Groups& groups) {
    Group* each = groups.each;
    for (int32_t e = 0; e < experts; e++) each[e] = {e, 0, 0};
    for (int64_t i = 0; i < choices; i++) each[chosen[i]].count++;
    int32_t first = 0;
    for (int32_t e = 0; e < experts; e++) {
        each[e].first = first;
        first += (each[e].count + ROW_TILE - 1) / ROW_TILE * ROW_TILE;
        each[e].count = 0;
    }
    for (int64_t i = 0; i < choices; i++) {
        Group& own = each[chosen[i]];
        places[i] = own.first + own.count++;
    }
    groups.size = (int32_t)(std::remove_if(each, each + experts, [](const Group& g) { return g.count == 0; }) - each);
}

// Chooses, and copies each row of x to its places.
// Slots: p0 logits, p1 x, p2 x by places, p3 chosen [rows, top_k], p4 weights [rows, top_k]; i0 width, i1 experts, i2 normalised.
void route(const Op& op, const Step& step, Pool& pool) {
    const int64_t rows = rows_of(op, step), top_k = op.i[5], width = op.i[0], per_chunk = 4;
    const int32_t experts = (int32_t)op.i[1];
    int32_t *chosen = (int32_t*)op.p[3], *places = (int32_t*)op.p[7];
    const auto by_rows = [&](const auto& body) {
        pool.parallel((int)((rows + per_chunk - 1) / per_chunk), [&](int chunk) {
            for (int64_t row = chunk * per_chunk; row < std::min(rows, (chunk + 1) * per_chunk); row++) body(row);
        });
    };
    by_rows([&](int64_t row) {
        choose((const float*)op.p[0] + row * experts, experts, top_k, op.i[2], chosen + row * top_k, (float*)op.p[4] + row * top_k);
    });
    group(chosen, rows * top_k, experts, places, *(Groups*)op.p[6]);
    by_rows([&](int64_t row) {
        for (int64_t j = 0; j < top_k; j++)
            memcpy((float*)op.p[2] + places[row * top_k + j] * width, (const float*)op.p[1] + row * width, width * 4);
    });
}

// The op of ../linear that an expert's own rows would be.
inline Op of_expert(const Op& op, const Group& group) {
    const int64_t k = op.i[0], n = op.i[1];
    Op own = op;
    own.p[0] = (float*)op.p[0] + group.first * k;
    own.p[1] = (uint8_t*)op.p[1] + group.expert * n * op.i[7];
    own.p[2] = (float*)op.p[2] + group.first * n;
    if (op.p[3]) own.p[3] = (float*)op.p[3] + group.expert * n;
    own.p[5] = (Activations*)op.p[5] + group.first / ROW_TILE * (k / GROUP);
    return own;
}

template <class F>
void experts_format(F format, const Op& op, int64_t rows, Pool& pool) {
    const Groups& groups = *(const Groups*)op.p[6];
    const int64_t choices = rows * op.i[5], tiles = op.i[1] / TILE, total = groups.size * tiles;
    if (F::STEP == GROUP)
        pool.parallel((int)choices, [&](int choice) { quantise_row(format, op, ((const int32_t*)op.p[7])[choice], nullptr); });
    // Smaller chunks than a plain product has: experts differ in how many rows they have.
    const int64_t worth = std::max<int64_t>(1, 8192 / (TILE * op.i[7]));
    const int64_t per_chunk = std::max(worth, total / (pool.size() * 16));
    pool.parallel((int)((total + per_chunk - 1) / per_chunk), [&](int chunk) {
        for (int64_t i = chunk * per_chunk; i < std::min(total, (chunk + 1) * per_chunk); i++) {
            const Group& group = groups.each[i / tiles];
            tile_all_rows(format, of_expert(op, group), group.count, i % tiles);
        }
    });
}

// Slots: as ../linear/cpu.h, with x and y by places, W and bias of all experts one after the other, n that of one.
void experts(const Op& op, const Step& step, Pool& pool) {
    with_format(op.i[2], [&](auto format) { experts_format(format, op, rows_of(op, step), pool); });
}

// Slots: as ../gated/cpu.h, by places.
void gated_experts(const Op& op, const Step& step, Pool& pool) {
    const int64_t width = op.i[0];
    pool.parallel((int)(rows_of(op, step) * op.i[5]), [&](int choice) {
        const int64_t place = ((const int32_t*)op.p[7])[choice];
        gated_row((const float*)op.p[0] + place * 2 * width, (float*)op.p[2] + place * width, width, op.i[1]);
    });
}

// Slots: p0 y by places, p2 sums [rows, width], p3 weights [rows, top_k], p4 residual or null; i0 width.
void sum_experts(const Op& op, const Step& step, Pool& pool) {
    const int64_t width = op.i[0], top_k = op.i[5];
    pool.parallel((int)rows_of(op, step), [&](int row) {
        const int32_t* places = (const int32_t*)op.p[7] + row * top_k;
        const float *weights = (const float*)op.p[3] + row * top_k, *residual = (const float*)op.p[4];
        for (int64_t i = 0; i < width; i += TILE) {
            f32x16 total = residual ? load(residual + row * width + i) : f32x16{};
            for (int64_t j = 0; j < top_k; j++)
                total = fma(load((const float*)op.p[0] + places[j] * width + i), splat(weights[j]), total);
            store((float*)op.p[2] + row * width + i, total);
        }
    });
}

}  // namespace
