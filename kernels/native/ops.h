// What every operation of a native program is given: its recorded arguments, the step, and the thread pool.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include "pool.h"

// Arguments fixed when the program was recorded (program.py fills them; each op's cpu.h names its slots).
struct Op {
    int32_t kind;
    int32_t sampled;  // 1: works on the rows to sample, 0: on every row of the step
    void* p[8];
    int64_t i[8];
    float f[4];
};

// What changes from step to step. The arrays belong to the model runner and never move.
struct Step {
    int64_t num_rows;            // tokens computed in this step
    int64_t num_sequences;
    int64_t num_sampled;
    int64_t block_table_stride;  // blocks per row of block_tables
    const int32_t* token_ids;    // [num_rows]
    const int32_t* positions;    // [num_rows]
    const int32_t* slots;        // [num_rows] block * 16 + offset in the block
    const int32_t* query_starts; // [num_sequences + 1]
    const int32_t* block_tables; // [num_sequences, block_table_stride]
    const int32_t* sample_rows;  // [num_sampled]
};

inline int64_t rows_of(const Op& op, const Step& step) { return op.sampled ? step.num_sampled : step.num_rows; }

constexpr int BLOCK_SIZE = 16;  // tokens in a KV block; a block's keys of one dimension fill one vector

using OpFunction = void (*)(const Op&, const Step&, Pool&);

enum OpKind {
    EMBEDDING, RMS_NORM, LINEAR, ROTARY, ATTENTION, GATED, GATHER, ARGMAX, SOFT_CAP,
    ROUTE, EXPERTS, GATED_EXPERTS, SUM_EXPERTS, SURVEY, NUM_OPS
};

struct OpTable {
    const char* isa;
    OpFunction run[NUM_OPS];
};
