// The C interface of the library: create a pool, pack weights, run a recorded program.
#include "ops.h"
#include "../linear/formats.h"

extern const OpTable ops_baseline;
#if defined(SEKISHO_X86)
extern const OpTable ops_avx2, ops_avx512;
#endif

static const OpTable& best_ops() {
#if defined(SEKISHO_X86)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return ops_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return ops_avx2;
#endif
    return ops_baseline;
}

static const OpTable* table_for(const char* isa) {
    if (!isa || !*isa) return &best_ops();
#if defined(SEKISHO_X86)
    for (const OpTable* table : {&ops_avx512, &ops_avx2})
        if (!__builtin_strcmp(isa, table->isa)) return table;
#endif
    return __builtin_strcmp(isa, ops_baseline.isa) ? nullptr : &ops_baseline;
}

extern "C" {

// The Python part must agree: structures of this size, and so many operations.
int64_t sekisho_sizeof_op() { return sizeof(Op); }
int64_t sekisho_sizeof_step() { return sizeof(Step); }
int64_t sekisho_num_ops() { return NUM_OPS; }

const char* sekisho_best_isa() { return best_ops().isa; }

void* sekisho_pool_create(int threads) { return new Pool(threads); }
void sekisho_pool_destroy(void* pool) { delete (Pool*)pool; }

void sekisho_pack(int64_t format, const uint8_t* raw, int64_t n, int64_t k, int64_t row_bytes, uint8_t* out) {
    pack(format, raw, n, k, row_bytes, out);
}

// Runs every op in order; isa "" means the best this processor has. Returns 0, or 1 for an unknown isa.
int sekisho_run(void* pool, const char* isa, const Op* ops, int64_t num_ops, const Step* step) {
    const OpTable* table = table_for(isa);
    if (!table) return 1;
    Pool& threads = *(Pool*)pool;
    threads.wake();
    for (int64_t i = 0; i < num_ops; i++) table->run[ops[i].kind](ops[i], *step, threads);
    threads.sleep();
    return 0;
}
}
