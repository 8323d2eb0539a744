/* Dot-product attention of many short sequences, forward and backward, weights dropped on the way:
 *
 *   P = softmax(s Q K^T),   O = (P . F) V      F: 0 where a weight is dropped, else 1 / (1 - p)
 *
 *   dV = (P . F)^T dO,   G = dO V^T,   dS = P . (F . G - rowsum(P . F . G)),
 *   dQ = s dS K,   dK = s dS^T Q
 *
 * One index of the parallel loop is one head of one sequence: its matrices are brought into scratch
 * memory as float32, filled up with zeros to whole vectors, and never leave the cache. Nothing but
 * the largest score of each row and its sum is kept for the backward pass, which makes the weights
 * again; which of them are dropped is a hash of the seed and their place.
 *
 * Sequences are spans of rows: `spans` has five rows of one number a sequence: the first query's row,
 * how many queries, the first key's row, how many keys, and d: query i sees keys j <= i + d. Rows in
 * no span are not read or written. Rows of Q, K and V may lie apart (`*_row`, `*_head`: elements);
 * all that is written, and dO, is dense (rows, heads, size). */
#include "regard.h"

typedef struct {
    int64_t q, k, v, o, kept, go, gq, gk, gv; /* addresses; go = 0: forward */
    const int64_t *spans;
    int64_t sequences, heads, dim, width, most_queries, most_keys, queries, keys; /* rows at the end */
    int64_t q_row, q_head, k_row, k_head, v_row, v_head;
    int64_t seed, threshold, half; /* half: bfloat16, else float */
} dots_table;

typedef struct {
    dots_table t;
    float scale, keep; /* keep: 1 / (1 - p) */
    int64_t dims, widths, queries, keys; /* sizes filled up to whole vectors of 16 */
    int failed;
} dots_call;

/* Scratch of one part, in floats. */
typedef struct {
    float *q, *k, *kt, *v, *vt, *p, *g, *o, *out, *factors;
} dots_room;

static int64_t dots_up(int64_t n) { return (n + 15) / 16 * 16; }

/* Where a causal span leaves something out of a product: columns that no row of the block sees (they
 * are not written), or terms that are zero, at the end or at the beginning of the sum. */
enum { WHOLE, COLUMNS, ENDS, BEGINS };

#define TEMPLATE "dots.inc"
#include "levels.h"

static void dots_parts(void *context, int64_t begin, int64_t end) {
    dots_call *c = context;
    const int64_t d = c->dims, w = c->widths, n = c->queries, m = c->keys, wide = d > w ? d : w;
    const int64_t long_side = n > m ? n : m;
    const int64_t sizes[10] = {n * d, m * d, d * m, m * w, w * m, n * m, n * m, n * w,
                               long_side * wide, m + 32};
    int64_t total = 0;
    for (int i = 0; i < 10; i++) total += sizes[i];
    float *at = regard_floats(total);
    if (!at) {
        c->failed = 1;
        return;
    }
    float *const first = at, *part[10];
    for (int i = 0; i < 10; at += sizes[i++]) part[i] = at;
    dots_room room = {part[0], part[1], part[2], part[3], part[4],
                      part[5], part[6], part[7], part[8], part[9]};
    for (int64_t index = begin; index < end; index++) {
        if (c->t.go) REGARD_DISPATCH(dots_backward, (c, index, &room));
        else REGARD_DISPATCH(dots_forward, (c, index, &room));
    }
    regard_release(first);
}

#define L(field) REGARD_FIELD(dots_table, field)
REGARD_API const int64_t regard_layout_dots_table[] = {
    sizeof(dots_table), L(q), L(k), L(v), L(o), L(kept), L(go), L(gq), L(gk), L(gv), L(spans),
    L(sequences), L(heads), L(dim), L(width), L(most_queries), L(most_keys), L(queries), L(keys),
    L(q_row), L(q_head), L(k_row), L(k_head), L(v_row), L(v_head), L(seed), L(threshold), L(half), -1};
#undef L

/* Whether a span of rows first .. first + count - 1 lies within `rows`, and is no longer than `most`. */
static int span_fits(int64_t first, int64_t count, int64_t rows, int64_t most) {
    return first >= 0 && count >= 0 && count <= most && first <= rows && count <= rows - first;
}

REGARD_API int regard_dots(const dots_table *table, float scale, float keep, int32_t threads) {
    dots_call call = {.t = *table, .scale = scale, .keep = keep};
    for (int64_t i = 0, n = table->sequences; i < n; i++) {
        const int64_t *s = table->spans + i;
        if (!span_fits(s[0], s[n], table->queries, table->most_queries) ||
            !span_fits(s[2 * n], s[3 * n], table->keys, table->most_keys))
            return BAD_SPAN;
    }
    call.dims = dots_up(call.t.dim);
    call.widths = dots_up(call.t.width);
    call.queries = call.t.most_queries;
    call.keys = dots_up(call.t.most_keys);
    regard_parallel(dots_parts, &call, call.t.sequences * call.t.heads, threads);
    return call.failed;
}
