/* What every kernel of regard's shared object uses. Plain C, no torch headers.
 *
 * A kernel is written once, as a template (say `additive.inc`), in terms of a vector `V` of `LANES`
 * floats, and compiled once for each level of the machine:
 *
 *     #include "regard.h"
 *     #define TEMPLATE "additive.inc"
 *     #include "levels.h"              // defines NAME(work) = work_avx512, work_avx2, work_portable
 *     REGARD_API void regard_work(...) { REGARD_DISPATCH(work, (...)); }
 *
 * See lanes.h for what a template may use.
 */
#ifndef REGARD_H
#define REGARD_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)
#define REGARD_API __declspec(dllexport)
#else
#define REGARD_API __attribute__((visibility("default")))
#endif
#define REGARD_INLINE static inline __attribute__((always_inline, unused))

#if defined(__x86_64__)
#define REGARD_X86 1
#include <immintrin.h>
#else
#define REGARD_X86 0
#endif

enum { REGARD_PORTABLE = 0, REGARD_AVX2 = 1, REGARD_AVX512 = 2 };

/* The levels that are compiled: all of the architecture, or one (-DREGARD_ONLY=2) where a library is
 * built for the machine that it is built on. */
#if defined(REGARD_ONLY)
#define REGARD_HAS(level) (REGARD_ONLY == level)
#else
#define REGARD_HAS(level) (level == 0 || REGARD_X86)
#endif
#define REGARD_HAS_PORTABLE REGARD_HAS(0)
#define REGARD_HAS_AVX2 REGARD_HAS(1)
#define REGARD_HAS_AVX512 REGARD_HAS(2)

/* The level in force: the best that this machine has, or what a test asked for below it. */
int regard_level(void);

/* Whether this machine has AVX-512's products of bytes. */
int regard_machine_vnni(void);     /* in 512 bits */
REGARD_API int regard_machine_avx_vnni(void); /* in 256 bits, without AVX-512 */

/* Whether a division of 512 bits costs less than an estimate and a Newton step: AMD's family 25
 * (Zen 4) does 512-bit multiplications in two halves, and divides beside them. */
int regard_divides(void);

#if defined(REGARD_ONLY) && REGARD_HAS_AVX512
#define REGARD_DISPATCH(name, arguments) name##_avx512 arguments
#elif defined(REGARD_ONLY) && REGARD_HAS_AVX2
#define REGARD_DISPATCH(name, arguments) name##_avx2 arguments
#elif REGARD_HAS_AVX2
#define REGARD_DISPATCH(name, arguments)                                                           \
    do {                                                                                           \
        int level_ = regard_level();                                                               \
        if (level_ == REGARD_AVX512) name##_avx512 arguments;                                      \
        else if (level_ == REGARD_AVX2) name##_avx2 arguments;                                     \
        else name##_portable arguments;                                                            \
    } while (0)
#else
#define REGARD_DISPATCH(name, arguments) name##_portable arguments
#endif

/* Call body(context, begin, end) over parts of 0..n on at most `threads` threads, the caller's among
 * them. Parts are cut by position alone. Make each index independent of the others (its own output
 * rows, or its own feature block) and results do not depend on the number of threads.
 * Threads are started for the call (about 15 us each): pass 1 for work below some 200 us. */
typedef void (*regard_body)(void *context, int64_t begin, int64_t end);
void regard_parallel(regard_body body, void *context, int64_t n, int threads);

/* Scratch memory, aligned to 64 bytes; NULL when there is none. regard_release frees it. */
void *regard_scratch(size_t bytes);
void regard_release(void *scratch);

/* The same for n floats; NULL too where n is negative or its bytes cannot be counted. */
float *regard_floats(int64_t n);

/* memset and memcpy of floats; none where n is 0, whatever the pointers are. */
REGARD_INLINE void clear_floats(float *to, int64_t n) {
    if (n > 0) memset(to, 0, sizeof(float) * (size_t)n);
}
REGARD_INLINE void copy_floats(float *to, const float *from, int64_t n) {
    if (n > 0) memcpy(to, from, sizeof(float) * (size_t)n);
}

/* What a function gives: all is well, or why not (native/gate.py has the sentences). */
enum { WELL = 0, NO_MEMORY = 1, OTHER_LEVEL = 2, BAD_ID = 3, BAD_SPAN = 4, BAD_PLAN = 5 };

/* Whether all of n numbers are in low .. high - 1: asked before memory is read by them. */
int regard_within(const int64_t *x, int64_t n, int64_t low, int64_t high);
int regard_within32(const int32_t *x, int64_t n, int64_t low, int64_t high);

/* How C lays out a struct that Python fills: its size, each field's offset and size, -1. Compared
 * with ctypes when the library is loaded. */
#define REGARD_FIELD(type, field) (int64_t)offsetof(type, field), (int64_t)sizeof(((type *)0)->field)

#endif
