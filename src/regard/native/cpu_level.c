/* The level of instructions: the machine's, and at most what was asked for. */
#include "regard.h"

#if REGARD_X86
#include <cpuid.h>
#endif

/* A register (0 eax, 1 ebx, 2 ecx) of CPUID. Not __builtin_cpu_supports: it is always 0 with Zig. */
#if REGARD_X86
static unsigned features_of(unsigned leaf, unsigned below, int which) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid_count(leaf, below, &a, &b, &c, &d)) return 0;
    return which == 2 ? c : which == 1 ? b : a;
}
static unsigned features(unsigned leaf, int which) { return features_of(leaf, 0, which); }
#endif

int regard_machine_vnni(void) {
#if REGARD_X86
    return features(7, 2) >> 11 & 1;
#else
    return 0;
#endif
}

REGARD_API int regard_machine_avx_vnni(void) {
#if REGARD_X86
    return features(7, 0) >= 1 && (features_of(7, 1, 0) >> 4 & 1);
#else
    return 0;
#endif
}

#if !defined(REGARD_ONLY)
#if REGARD_X86
/* Registers that the system saves: bits 1 and 2 of 256 bits, also 5 to 7 of 512. */
static unsigned saved_registers(void) {
    unsigned low = 0, high = 0;
    if (!(features(1, 2) >> 27 & 1)) return 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}
#endif

static int asked = REGARD_AVX512;

static int machine_level(void) {
#if REGARD_X86
    const unsigned saved = saved_registers(), has = features(1, 2);
    const unsigned wide = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31; /* AVX-512 F, DQ, BW, VL */
    const int fma = has >> 12 & 1, avx2 = features(7, 1) >> 5 & 1;
    if (fma && avx2 && (saved & 0xE6) == 0xE6 && (features(7, 1) & wide) == wide)
        return REGARD_AVX512;
    if (fma && avx2 && (saved & 6) == 6) return REGARD_AVX2;
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
