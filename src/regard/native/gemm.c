/* C = A B (+ a bias) (+ C) in float32, any strides: what a training step multiplies.
 *
 * B is packed in panels of 32 columns, A in strips of 12 rows where its rows are not contiguous, DEEP
 * terms at a time, so that a panel stays in the second cache. The sums of 12 x 32 numbers are kept in
 * registers. With threads each has rows of its own; what comes out does not depend on their number. */
#include "regard.h"

enum { PANEL = 32, STRIP = 12, DEEP = 512, HIGH = 192 };

typedef struct {
    int64_t m, n, k;
    const float *a, *b, *bias;
    int64_t a_row, a_col, b_row, b_col, c_row;
    float *c;
    int32_t add;
    /* inside */
    float *packed, *strips;
    int64_t from, deep; /* the terms in hand */
    int64_t each;       /* floats of a share's strips */
    int64_t shares;
} gemm;

#define TEMPLATE "gemm.inc"
#include "levels.h"

static void pack_panels(void *context, int64_t begin, int64_t end) {
    REGARD_DISPATCH(pack, (context, begin, end));
}

static void multiply_shares(void *context, int64_t begin, int64_t end) {
    REGARD_DISPATCH(multiply, (context, begin, end));
}

/* a (m, k) and b (k, n) by their strides, c (m, n) with rows c_row apart. 1: no memory. */
REGARD_API int regard_gemm(int64_t m, int64_t n, int64_t k, const float *a, int64_t a_row,
                           int64_t a_col, const float *b, int64_t b_row, int64_t b_col,
                           const float *bias, float *c, int64_t c_row, int32_t add,
                           int32_t threads) {
    gemm p = {.m = m, .n = n, .k = k, .a = a, .b = b, .bias = bias, .a_row = a_row, .a_col = a_col,
              .b_row = b_row, .b_col = b_col, .c_row = c_row, .c = c, .add = add};
    const int64_t panels = (n + PANEL - 1) / PANEL, blocks = (m + HIGH - 1) / HIGH;
    const int64_t deep = k < DEEP ? k : DEEP;
    p.shares = threads < 1 ? 1 : threads > blocks ? (blocks < 1 ? 1 : blocks) : threads;
    p.each = a_col == 1 ? 0 : deep * HIGH;
    p.packed = regard_floats(panels * PANEL * deep + p.shares * p.each);
    if (!p.packed) return 1;
    p.strips = p.packed + panels * PANEL * deep;
    do {
        p.deep = k - p.from < DEEP ? k - p.from : DEEP;
        regard_parallel(pack_panels, &p, panels, threads);
        regard_parallel(multiply_shares, &p, p.shares, (int)p.shares);
        p.add = 1, p.bias = NULL;
        p.from += DEEP;
    } while (p.from < k);
    regard_release(p.packed);
    return 0;
}
