/* Graph attention in one pass over the edges, forward and backward (Velickovic et al. 2018, eq. 3).
 *
 *   s_ij = leaky(l_i + r_j)   w_ij = exp(s_ij - m_i) / sum_j exp(s_ij - m_i)   c_i = sum_j w_ij v_j
 *
 * Nothing of the size of the edges is stored. leaky is monotone, so leaky(l_i + max_j r_j) bounds
 * every score of row i and saves the pass for the maximum; where the r spread so far that the bound
 * could underflow, the true maximum is taken. The backward pass runs over the reversed graph, so
 * that the gradients of a source are sums in registers. Dropped weights come from a hash of
 * (seed, edge, head), the same in both directions.
 *
 * Layouts: l (B,Q,H), r (B,K,H), v (B,K,H,D), out (B,Q,H,D), stats (B,Q,2,H) = maximum and 1 / sum.
 */
#include "regard.h"

#define TILE 64  /* edges whose scores are in the first-level cache together */
#define AHEAD 8 /* rows whose edges' nodes are asked for in advance, the row itself among them */
#ifndef BLOCK
#define BLOCK (8 << 20) /* bytes read in no order at all that should stay in the cache */
#endif
#define FEW 4 /* edges of a row that a block should have on average */
#define SPREAD 40.0f

typedef struct {
    int64_t batch, queries, keys, heads, dim, edges;
    int64_t width; /* nodes of a block: a pass over the rows reads no others */
    const float *l, *r, *v;
    const int64_t *offsets; /* forward: (Q+1) by query; backward: (K+1) by key */
    const int32_t *others;  /* forward: key of each edge; backward: query of each edge */
    const int32_t *ids;     /* backward: the edge's place in forward order */
    float slope, rate;
    uint64_t seed;
    float *out, *stats;
    float *table, *bounds;     /* forward: (B,K,2,H), and the largest r (B,H); or NULL */
    const float *grad;         /* (B,Q,H,D) */
    const float *pack;         /* (B,Q,4,H): l, maximum, 1 / sum, delta */
    float *dl, *dr, *dv;       /* dl: one (B,Q,H) for each part */
} edges_call;

/* First row of a part: rows are split where the edges are. */
static int64_t edges_cut(const int64_t *offsets, int64_t rows, int64_t part, int64_t parts) {
    if (part >= parts) return rows;
    int64_t wanted = (offsets[rows] + rows) * part / parts, low = 0, high = rows;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (offsets[middle] + middle < wanted) low = middle + 1;
        else high = middle;
    }
    return low;
}

typedef float f8 __attribute__((vector_size(32)));
typedef float f8u __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t i8 __attribute__((vector_size(32)));
typedef uint32_t u8 __attribute__((vector_size(32)));
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODD(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)

#define TEMPLATE "edges.inc"
#include "levels.h"

typedef struct {
    const edges_call *call;
    float *work;
    int64_t *reached; /* how far each row has come */
    int64_t each, parts;
} edges_parts;

static void forward_parts(void *context, int64_t begin, int64_t end) {
    const edges_parts *p = context;
    for (int64_t part = begin; part < end; part++) {
        const int64_t first = edges_cut(p->call->offsets, p->call->queries, part, p->parts);
        REGARD_DISPATCH(edges_forward, (p->call, part, p->parts, p->work + part * p->each,
                                        p->reached + first));
    }
}

static void backward_parts(void *context, int64_t begin, int64_t end) {
    const edges_parts *p = context;
    for (int64_t part = begin; part < end; part++) {
        const int64_t first = edges_cut(p->call->offsets, p->call->keys, part, p->parts);
        REGARD_DISPATCH(edges_backward, (p->call, part, p->parts, p->work + part * p->each,
                                         p->reached + first));
    }
}

/* Nodes of a block: as many as stay in the cache with `floats` each, but so many that a row meets
 * some of its edges in each block. */
static int64_t block(int64_t nodes, int64_t rows, int64_t edges, int64_t floats) {
    int64_t blocks = nodes * floats * (int64_t)sizeof(float) / BLOCK + 1;
    const int64_t most = edges / (FEW * rows + 1) + 1;
    if (blocks > most) blocks = most;
    return (nodes + blocks - 1) / blocks + 1;
}

/* The forward pass without an exponential an edge: H % 8 == 0, and no r far below the largest. */
static void table_rows(void *context, int64_t begin, int64_t end) {
    const edges_call *c = context;
    REGARD_DISPATCH(edges_table, (c, begin, end));
}

static void make_table(edges_call *c, int32_t threads) {
    const int64_t H = c->heads;
    if (H % 8 || !(c->slope >= 0 && c->slope <= 1) || c->edges < 2 * c->batch * c->keys) return;
    c->bounds = regard_floats(c->batch * H);
    c->table = regard_floats(c->batch * c->keys * 2 * H);
    int near = c->bounds && c->table;
    for (int64_t b = 0; near && b < c->batch; b++)
        REGARD_DISPATCH(edges_bound, (c, b, c->bounds + b * H, &near));
    if (near) {
        regard_parallel(table_rows, c, c->batch * c->keys, threads);
        return;
    }
    regard_release(c->table);
    c->table = NULL;
}

static int run(regard_body body, const edges_call *call, int64_t rows, int32_t threads) {
    const int64_t each = (2 * TILE + 8) * call->heads + 64;
    float *work = regard_floats(each * threads);
    int64_t *reached = regard_scratch(sizeof(int64_t) * (size_t)(rows + 1));
    const int failed = !work || !reached;
    if (!failed) {
        edges_parts parts = {call, work, reached, each, threads};
        regard_parallel(body, &parts, threads, threads);
    }
    regard_release(reached);
    regard_release(work);
    return failed;
}

/* Whether offsets (rows + 1) rise from 0 to `edges`, and each edge's other end is a row that is there. */
static int graph_fits(const int64_t *offsets, int64_t rows, const int32_t *ends, int64_t edges,
                      int64_t others) {
    int64_t falls = offsets[0] | (offsets[rows] ^ edges);
    for (int64_t i = 0; i < rows; i++) falls |= (int64_t)(offsets[i + 1] < offsets[i]);
    return !falls && regard_within32(ends, edges, 0, others);
}

REGARD_API int regard_edges_forward(
    int64_t batch, int64_t queries, int64_t keys, int64_t heads, int64_t dim, int64_t edges,
    const float *l, const float *r, const float *v, const int64_t *offsets, const int32_t *sources,
    float slope, float rate, const int64_t *seed, float *out, float *stats, int32_t threads) {
    const int64_t width = block(keys, queries, edges, heads * (dim + 2));
    if (!graph_fits(offsets, queries, sources, edges, keys)) return BAD_SPAN;
    edges_call call = {.batch = batch, .queries = queries, .keys = keys, .heads = heads, .dim = dim,
                       .edges = edges, .width = width, .l = l, .r = r, .v = v, .offsets = offsets,
                       .others = sources, .slope = slope, .rate = rate, .seed = (uint64_t)*seed,
                       .out = out, .stats = stats};
    make_table(&call, threads);
    const int failed = run(forward_parts, &call, queries, threads);
    regard_release(call.table);
    regard_release(call.bounds);
    return failed;
}

/* dl has room for one (B,Q,H) a thread, zeroed; the caller adds them up. */
REGARD_API int regard_edges_backward(
    int64_t batch, int64_t queries, int64_t keys, int64_t heads, int64_t dim, int64_t edges,
    const float *r, const float *v, const int64_t *offsets, const int32_t *targets,
    const int32_t *ids, float slope, float rate, const int64_t *seed, const float *grad,
    const float *pack, float *dl, float *dr, float *dv, int32_t threads) {
    const int64_t width = block(queries, keys, edges, heads * (dim + 5));
    if (!graph_fits(offsets, keys, targets, edges, queries)) return BAD_SPAN;
    edges_call call = {.batch = batch, .queries = queries, .keys = keys, .heads = heads, .dim = dim,
                       .edges = edges, .width = width, .r = r, .v = v, .offsets = offsets,
                       .others = targets, .ids = ids, .slope = slope, .rate = rate,
                       .seed = (uint64_t)*seed, .grad = grad, .pack = pack, .dl = dl, .dr = dr,
                       .dv = dv};
    return run(backward_parts, &call, keys, threads);
}

/* The halves of a split linear score, out[n,h] = x[n,h,:] . a[h,:], and their gradients: one pass
 * over nodes whose heads lie side by side. */
typedef struct {
    int64_t rows, heads, dim, parts;
    const float *x, *a, *g;
    float *out, *dx, *da; /* da: one (H,D) for each part, zeroed */
} halves_call;

static void halves_parts(void *context, int64_t begin, int64_t end) {
    const halves_call *c = context;
    const int64_t H = c->heads, D = c->dim;
    for (int64_t part = begin; part < end; part++) {
        const int64_t first = c->rows * part / c->parts;
        const int64_t n = c->rows * (part + 1) / c->parts - first;
        const float *x = c->x + first * H * D;
        if (c->out) REGARD_DISPATCH(halves, (H, D, n, x, c->a, c->out + first * H));
        else
            REGARD_DISPATCH(halves_grad, (H, D, n, x, c->a, c->g + first * H,
                                          c->dx + first * H * D, c->da + part * H * D));
    }
}

REGARD_API int regard_halves(int64_t rows, int64_t heads, int64_t dim, const float *x,
                              const float *a, float *out, int32_t threads) {
    halves_call call = {rows, heads, dim, threads, x, a, 0, out, 0, 0};
    regard_parallel(halves_parts, &call, threads, threads);
    return WELL;
}

REGARD_API int regard_halves_grad(int64_t rows, int64_t heads, int64_t dim, const float *x,
                                   const float *a, const float *g, float *dx, float *da,
                                   int32_t threads) {
    halves_call call = {rows, heads, dim, threads, x, a, g, 0, dx, da};
    regard_parallel(halves_parts, &call, threads, threads);
    return WELL;
}
