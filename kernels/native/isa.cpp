// Every operation, compiled once per instruction set; ISA names the table that this compilation defines.
#include "../argmax/cpu.h"
#include "../attention/cpu.h"
#include "../embedding/cpu.h"
#include "../gated/cpu.h"
#include "../linear/cpu.h"
#include "../moe/cpu.h"
#include "../rms_norm/cpu.h"
#include "../rotary/cpu.h"
#include "../sampling/cpu.h"
#include "../soft_cap/cpu.h"

#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)
#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)

extern const OpTable JOIN(ops_, ISA);
const OpTable JOIN(ops_, ISA) = {
    TEXT(ISA), {embedding, rms_norm, linear, rotary, attention, gated, gather, argmax, soft_cap,
                route, experts, gated_experts, sum_experts, survey}};
