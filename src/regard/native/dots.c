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
 * With vectors a and b and biases c of the offsets o = clip(j - i - at) it is
 *
 *   P_ij ~ exp(s q_i (k_j + a_o) + c_o),   O_i = sum_j P_ij F_ij (v_j + b_o)
 *
 * where products are with each vector once: Q A^T is added to the scores of its offsets, and the
 * weights of an offset are summed before they meet B. A part of the loop sums the gradients of the
 * tables in rows of its own.
 *
 * Sequences are spans of rows: `spans` has seven rows of one number a sequence: the first query's row,
 * how many queries, the first key's row, how many keys, d: query i sees keys j <= i + d, at: which key
 * stands where query 0 does, and e: query i sees keys j >= i + e. Rows in no span are not read or
 * written. Rows of Q, K and V may lie apart (`*_row`, `*_head`: elements); all that is written, and dO,
 * is dense (rows, heads, size). */
#include "regard.h"

typedef struct {
    int64_t q, k, v, o, kept, go, gq, gk, gv; /* addresses; go = 0: forward */
    const int64_t *spans;
    int64_t sequences, heads, dim, width, most_queries, most_keys, queries, keys; /* rows at the end */
    int64_t q_row, q_head, k_row, k_head, v_row, v_head;
    int64_t seed, threshold, half; /* half: bfloat16, else float */
    int64_t clip, columns, parts;  /* offsets -clip .. clip, and room for them: a multiple of 16 */
    /* (heads, columns, size filled up), turned (heads, size, columns), biases (heads, columns); gradients
     * (parts, heads, columns, size filled up), (parts, heads, columns); NULL: none */
    const float *near_k, *near_kt, *near_v, *near_vt, *near_b;
    float *gnear_k, *gnear_v, *gnear_b;
} dots_table;

typedef struct {
    dots_table t;
    float scale, keep; /* keep: 1 / (1 - p) */
    int64_t dims, widths, queries, keys; /* sizes filled up to whole vectors of 16 */
    int failed;
} dots_call;

/* Scratch of one part, in floats. */
typedef struct {
    float *q, *k, *kt, *v, *vt, *p, *g, *o, *out, *factors, *near, *more;
    int64_t part;
} dots_room;

static int64_t dots_up(int64_t n) { return (n + 15) / 16 * 16; }

/* What a product leaves out where some queries do not see all keys: columns that no row of the block
 * sees (they are not written), or terms that are zero, in a sum over keys or over queries. */
enum { WHOLE, COLUMNS, KEYS, QUERIES };

#define TEMPLATE "dots.inc"
#include "levels.h"

static void dots_part(dots_call *c, int64_t number) {
    const int64_t d = c->dims, w = c->widths, n = c->queries, m = c->keys, wide = d > w ? d : w;
    const int64_t long_side = n > m ? n : m, columns = c->t.columns;
    const int64_t sizes[12] = {n * d, m * d, d * m, m * w, w * m, n * m, n * m, n * w,
                               long_side * wide, m + 32, n * columns,
                               c->t.near_k || c->t.near_v ? (n > columns ? n : columns) * wide : 0};
    const int64_t all = c->t.sequences * c->t.heads;
    const int64_t begin = all * number / c->t.parts, end = all * (number + 1) / c->t.parts;
    int64_t total = 0;
    for (int i = 0; i < 12; i++) total += sizes[i];
    float *at = begin < end ? regard_floats(total) : NULL;
    if (!at) {
        c->failed |= begin < end;
        return;
    }
    float *const first = at, *part[12];
    for (int i = 0; i < 12; at += sizes[i++]) part[i] = at;
    dots_room room = {part[0], part[1], part[2], part[3],  part[4],  part[5], part[6],
                      part[7], part[8], part[9], part[10], part[11], number};
    for (int64_t index = begin; index < end; index++) {
        if (c->t.go) REGARD_DISPATCH(dots_backward, (c, index, &room));
        else REGARD_DISPATCH(dots_forward, (c, index, &room));
    }
    regard_release(first);
}

static void dots_parts(void *context, int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; part++) dots_part(context, part);
}

#define L(field) REGARD_FIELD(dots_table, field)
REGARD_API const int64_t regard_layout_dots_table[] = {
    sizeof(dots_table), L(q), L(k), L(v), L(o), L(kept), L(go), L(gq), L(gk), L(gv), L(spans),
    L(sequences), L(heads), L(dim), L(width), L(most_queries), L(most_keys), L(queries), L(keys),
    L(q_row), L(q_head), L(k_row), L(k_head), L(v_row), L(v_head), L(seed), L(threshold), L(half),
    L(clip), L(columns), L(parts), L(near_k), L(near_kt), L(near_v), L(near_vt), L(near_b),
    L(gnear_k), L(gnear_v), L(gnear_b), -1};
#undef L

#define FAR ((int64_t)1 << 40) /* further from a query than any key */

/* Whether a span of rows first .. first + count - 1 lies within `rows`, and is no longer than `most`. */
static int span_fits(int64_t first, int64_t count, int64_t rows, int64_t most) {
    return first >= 0 && count >= 0 && count <= most && first <= rows && count <= rows - first;
}

REGARD_API int regard_dots(const dots_table *table, float scale, float keep, int32_t threads) {
    dots_call call = {.t = *table, .scale = scale, .keep = keep};
    if (table->parts < 1 || table->clip < 0 || table->columns < 0 || table->columns % 16) return BAD_PLAN;
    if ((table->near_k || table->near_v || table->near_b) && table->columns <= 2 * table->clip)
        return BAD_PLAN;
    for (int64_t i = 0, n = table->sequences; i < n; i++) {
        const int64_t *s = table->spans + i;
        if (!span_fits(s[0], s[n], table->queries, table->most_queries) ||
            !span_fits(s[2 * n], s[3 * n], table->keys, table->most_keys) ||
            s[4 * n] < -FAR || s[4 * n] > FAR || s[5 * n] < -FAR || s[5 * n] > FAR ||
            s[6 * n] < -FAR || s[6 * n] > FAR)
            return BAD_SPAN;
    }
    call.dims = dots_up(call.t.dim);
    call.widths = dots_up(call.t.width);
    call.queries = call.t.most_queries;
    call.keys = dots_up(call.t.most_keys);
    regard_parallel(dots_parts, &call, call.t.parts, threads);
    return call.failed;
}
