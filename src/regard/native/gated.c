/* A gated unit over all steps of sequences, forward and backward, for training (layers/_gated.py has
 * the equations).
 *
 * Step t has `sizes[t]` rows, never more than the step before; they lie behind each other from row
 * `offsets[t]` on. Rows are independent: threads share them, and each runs through all steps of its
 * own, so that states stay in its cache. Products are those of int8_products.h; the recurrent weights are
 * packed once a call. What the weights get of all steps is one product, made by the caller. */
#include "int8_products.h"

typedef struct {
    int64_t steps, rows, hidden, words; /* words: the sum of sizes */
    const float *state, *inside;        /* (N, H); inside may be NULL */
    const float *weight;                /* (3H, H): r, z, n */
    const float *inputs;                /* (T, N, 3H), or (words, 1, 3H): of its first two axes */
    int64_t in_count, in_each, in_step, in_row; /* the sizes, the strides */
    const int64_t *sizes, *offsets;
    float *states, *gates, *candidates, *touched; /* (words, H), (words, 2H): r, z; n; r h or U h + i */
    const float *grad;                            /* of the states: (words, H) */
    float *grads, *reach, *first; /* of inputs (words, 3H), of what U_n multiplies, of `state` */
    int64_t begun, before, keep, failed; /* begun: state is not just zeros */
    const float *packed; /* the weights, packed: C's own */
} gated_call;

#define L(field) REGARD_FIELD(gated_call, field)
REGARD_API const int64_t regard_layout_gated_call[] = {
    sizeof(gated_call), L(steps), L(rows), L(hidden), L(words), L(state), L(inside), L(weight),
    L(inputs), L(in_count), L(in_each), L(in_step), L(in_row), L(sizes), L(offsets), L(states),
    L(gates), L(candidates),
    L(touched), L(grad), L(grads), L(reach), L(first), L(begun), L(before), L(keep), L(failed), L(packed), -1};
#undef L

static int64_t panels(int64_t n) { return (n + PANEL - 1) / PANEL * PANEL; }

/* Blocks of `w` packed for a product: with `turned` from gates to the state, else the other way. Each
 * block of H gates, `from` the first of them, takes wide(H) places. */
static void pack(const gated_call *c, int64_t from, int64_t blocks, int turned, float *to) {
    const int64_t n = c->hidden, h = wide(n), in = turned ? blocks * h : h;
    for (int64_t b = 0; b < blocks; b++)
        for (int64_t g = 0; g < n; g++) {
            const float *row = c->weight + ((from + b) * n + g) * n;
            for (int64_t i = 0; i < n; i++) {
                const int64_t out = turned ? i : b * h + g, at = turned ? b * h + g : i;
                to[out / PANEL * in * PANEL + at * PANEL + out % PANEL] = row[i];
            }
        }
}

/* What the products multiply with: `gates` of the state (r and z, or all three where the reset gate
 * comes after), `candidate` of r h. Backward they lead from gates to the state. */
static void products_of(const gated_call *c, int turned, linear *gates, linear *candidate) {
    const int64_t h = wide(c->hidden), all = (c->before ? 2 : 3) * h;
    *gates = (linear){c->packed, NULL, NULL, turned ? all : h, turned ? h : all};
    *candidate = (linear){c->packed + panels(gates->out) * gates->in, NULL, NULL, h, h};
}

#define TEMPLATE "gated.inc"
#include "levels.h"

static void forward(void *call, int64_t begin, int64_t end) {
    REGARD_DISPATCH(gated_forward, (call, begin, end));
}

static void backward(void *call, int64_t begin, int64_t end) {
    REGARD_DISPATCH(gated_backward, (call, begin, end));
}

/* Whether sizes fall, offsets are their sums, and there are inputs for all of them. */
static int fits(const gated_call *c) {
    int64_t sum = 0, last = c->rows;
    for (int64_t t = 0; t < c->steps; t++) {
        if (c->sizes[t] < 0 || c->sizes[t] > last || c->offsets[t] != sum) return 0;
        last = c->sizes[t];
        sum += last;
    }
    if (c->in_each == 1) return sum == c->words && c->in_count == sum;
    return sum == c->words && c->in_count == c->steps && c->in_each == c->rows;
}

static int run(gated_call *c, int turned, int threads) {
    if (c->hidden < 1 || !fits(c)) return BAD_SPAN;
    const int64_t h = wide(c->hidden), enough = 3 * panels(h) * h; /* for three blocks either way */
    float *packed = regard_floats(enough);
    if (packed == NULL) return NO_MEMORY;
    clear_floats(packed, enough);
    c->packed = packed;
    c->failed = 0;
    linear gates, candidate;
    products_of(c, turned, &gates, &candidate);
    pack(c, 0, c->before ? 2 : 3, turned, packed);
    if (c->before) pack(c, 2, 1, turned, (float *)candidate.w);
    regard_parallel(turned ? backward : forward, c, c->rows, threads);
    c->packed = NULL;
    regard_release(packed);
    return c->failed ? NO_MEMORY : WELL;
}

REGARD_API int regard_gated(gated_call *c, int threads) { return run(c, 0, threads); }
REGARD_API int regard_gated_backward(gated_call *c, int threads) { return run(c, 1, threads); }
