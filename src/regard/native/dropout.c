/* Dropout with a generator that counts: out = [onto +] f(x) / (1 - p) where it is kept, f the
 * identity or max(0, x).
 *
 * Whether number k is kept is a hash of (seed, k) alone: nothing is stored for the backward pass,
 * which calls the same function on the gradient, and threads do not change it. Sixteen bits decide
 * on a number. */
#include "regard.h"

typedef struct {
    int64_t count;
    int32_t threshold, half, relu; /* half: bfloat16, else float */
    uint32_t low, high;
    float scale;
    const char *from, *onto;
    char *into;
} dropout_call;

typedef struct {
    int64_t count;
    const char *grad, *out;
    char *into;
    float scale;
    int32_t half;
} passed_call;

#define TEMPLATE "dropout.inc"
#include "levels.h"

#define SPAN 64 /* blocks of 32 numbers that one index of the parallel loop stands for */

static void drop_spans(void *context, int64_t begin, int64_t end) {
    const dropout_call *c = context;
    const int64_t size = c->half ? 2 : 4, whole = c->count / 32;
    const int64_t first = begin * SPAN, last = end * SPAN < whole ? end * SPAN : whole;
    const char *onto = c->onto ? c->onto + first * 32 * size : NULL;
    if (first < last)
        REGARD_DISPATCH(drop_range, (c, first, last, c->from + first * 32 * size, onto,
                                     c->into + first * 32 * size));
    const int64_t rest = c->count - whole * 32, at = whole * 32 * size;
    if (!rest || end * SPAN * 32 < c->count) return;
    char from[128] = {0}, added[128] = {0}, into[128]; /* the last numbers, in a block of their own */
    memcpy(from, c->from + at, (size_t)(rest * size));
    if (onto) memcpy(added, c->onto + at, (size_t)(rest * size));
    REGARD_DISPATCH(drop_range, (c, whole, whole + 1, from, onto ? added : NULL, into));
    memcpy(c->into + at, into, (size_t)(rest * size));
}

/* threshold: of 65,536 how many are dropped; onto may be NULL. */
REGARD_API int regard_dropout(int64_t count, int32_t threshold, float scale, int64_t seed,
                               const void *from, const void *onto, void *into, int32_t half,
                               int32_t relu, int32_t threads) {
    dropout_call call = {count, threshold, half, relu, (uint32_t)seed, (uint32_t)(seed >> 32), scale,
                         from, onto, into};
    regard_parallel(drop_spans, &call, (count + SPAN * 32 - 1) / (SPAN * 32), threads);
    return WELL;
}

static void pass_spans(void *context, int64_t begin, int64_t end) {
    const passed_call *c = context;
    REGARD_DISPATCH(pass_range, (c, begin * SPAN, end * SPAN < c->count ? end * SPAN : c->count));
}

/* The gradient of max(0, x) with dropout: grad / (1 - p) where something came out. */
REGARD_API int regard_passed(int64_t count, float scale, const void *grad, const void *out,
                              void *into, int32_t half, int32_t threads) {
    passed_call call = {count, grad, out, into, scale, half};
    regard_parallel(pass_spans, &call, (count + SPAN - 1) / SPAN, threads);
    return WELL;
}
