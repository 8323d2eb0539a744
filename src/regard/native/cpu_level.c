/* The level of instructions: the machine's, and at most what was asked for. */
#include "regard.h"

#if REGARD_X86
#include <cpuid.h>
#endif

#if !defined(REGARD_ONLY)
static int asked = REGARD_AVX512;

static int machine_level(void) {
#if REGARD_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return REGARD_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return REGARD_AVX2;
#endif
    return REGARD_PORTABLE;
}

int regard_level(void) {
    static int found = -1; /* every thread finds the same, so a race is harmless */
    if (found < 0) found = machine_level();
    return asked < found ? asked : found;
}
#else
static int asked;

int regard_level(void) { return REGARD_ONLY; }
#endif

/* AMD's family number of this machine, 0 on any other. */
static unsigned amd_family(void) {
    unsigned family = 0;
#if REGARD_X86
    unsigned a = 0, b = 0, c = 0, d = 0;
    const int amd = __get_cpuid(0, &a, &b, &c, &d) && b == 0x68747541; /* "Auth" */
    if (amd && __get_cpuid(1, &a, &b, &c, &d))
        family = (a >> 8 & 15) + ((a >> 8 & 15) == 15 ? a >> 20 & 255 : 0);
#endif
    return family;
}

static int asked_divides = -1;

int regard_divides(void) {
    static int found = -1;
    if (asked_divides >= 0) return asked_divides;
    if (found < 0) found = amd_family() == 0x19;
    return found;
}

/* Whether our product is faster than MKL's, which knows AMD's processors as AVX2 machines. */
REGARD_API int regard_multiplies(void) {
    static int found = -1;
    if (found < 0) found = amd_family() >= 0x19;
    return found && regard_level() == REGARD_AVX512;
}

/* 1 or 0: as on such a machine; -1: as on this one. For tests. */
REGARD_API void regard_set_divides(int divides) { asked_divides = divides; }

/* The level in force; `regard_set_level(l)` asks for at most l (2 AVX-512, 1 AVX2, 0 portable). */
REGARD_API int regard_get_level(void) { return regard_level(); }
REGARD_API void regard_set_level(int level) { asked = level; }
