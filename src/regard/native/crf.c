/* Sums and best paths of linear chains (layers/crf.py), a batch in one call.
 *
 * Sums are made of exponentials, each row of which is divided by its largest:
 *
 *   a_1 = exp(start + E_1)       a_t = (exp(A)' a_{t-1}) exp(E_t)          a_t divided by its largest, n_t
 *   b_T = exp(end)               b_{t-1} = exp(A) (exp(E_t) b_t) / n_t     p_t = a_t b_t, normalized
 *
 * What is far below the largest of its row becomes 0, or loses digits: at most TINY (the least normal
 * number) for each addend. While no a_t is near that, nothing is lost. Where one is, a bound of what
 * was lost is carried along by the same products; a sentence whose bound is not below the rounding
 * error of its sum is given back as not `safe`. In the backward pass a_t . b_t is the same for each t
 * unless something was lost, which is checked. What is not safe is computed by PyTorch, in logarithms.
 *
 * Threads share the sentences; counts are summed over groups of sentences, whose number depends on
 * the batch alone, so that results do not depend on the number of threads.
 *
 * Layouts: emissions (B,T,C), moves (C,C), start and end (C), lengths (B). Rows of scratch memory, and
 * `ahead` (B,T,wide), are padded with zeros to a multiple of 16.
 */
#include <float.h>

#include "regard.h"

enum { TOGETHER = 16, GROUPS = 16 }; /* steps whose counts are added at once; groups of sentences */

typedef struct {
    int64_t batch, steps, tags, wide;
    const void *emissions, *moves, *start, *end;
    const int64_t *lengths;
    void *total;          /* (B) */
    uint8_t *safe;        /* (B) */
    void *ahead, *scales; /* (B,T,wide), (B,T): a_t and 1 / n_t; or NULL */
    const void *grad;     /* (B) */
    void *of_emissions;   /* (B,T,C) */
    void *counts;         /* (groups, C + 2, wide): of moves, without exp(A); of start and end */
    void *table, *turned; /* (C + 2, wide): exp of moves, start and end; (C,wide): moves transposed */
    double shift[3];      /* the largest of moves, start and end */
    int64_t groups;
    int64_t *path;        /* (B,T) */
    int failed, strange;
} chain_call;

#define TEMPLATE "crf.inc"
#include "levels.h"

#define PARTS(name)                                                                                \
    static void name##_parts(void *context, int64_t begin, int64_t end) {                          \
        REGARD_DISPATCH(name, (context, begin, end));                                              \
    }
PARTS(chain_forward_f32)
PARTS(chain_forward_f64)
PARTS(chain_backward_f32)
PARTS(chain_backward_f64)
PARTS(chain_best_f32)
PARTS(chain_best_f64)

static int chain_fits(const chain_call *c, int64_t wide) {
    return wide >= c->tags && wide % 16 == 0 && c->tags > 0;
}

static int chain_forward(chain_call *c, size_t size, regard_body body, int32_t threads) {
    if (!chain_fits(c, c->wide)) return BAD_PLAN;
    if (!regard_within(c->lengths, c->batch, 0, c->steps + 1)) return BAD_SPAN;
    c->table = regard_scratch((size_t)((c->tags + 2) * c->wide) * size);
    if (!c->table) return NO_MEMORY;
    if (size == 4) REGARD_DISPATCH(chain_tables_f32, (c));
    else REGARD_DISPATCH(chain_tables_f64, (c));
    for (int64_t b = 0; c->strange && b < c->batch; b++) c->safe[b] = 0;
    if (!c->strange) regard_parallel(body, c, c->batch, threads);
    regard_release(c->table);
    return c->failed;
}

REGARD_API int regard_chain_forward(
    int64_t batch, int64_t steps, int64_t tags, int64_t wide, const float *emissions,
    const float *moves, const float *start, const float *end, const int64_t *lengths, float *total,
    uint8_t *safe, float *ahead, float *scales, int32_t threads) {
    chain_call call = {batch, steps, tags, wide, emissions, moves, start, end, lengths, total, safe,
                       ahead, scales, 0, 0, 0, 0, 0, {0}, 0, 0, 0, 0};
    return chain_forward(&call, 4, chain_forward_f32_parts, threads);
}

REGARD_API int regard_chain_forward_double(
    int64_t batch, int64_t steps, int64_t tags, int64_t wide, const double *emissions,
    const double *moves, const double *start, const double *end, const int64_t *lengths,
    double *total, uint8_t *safe, double *ahead, double *scales, int32_t threads) {
    chain_call call = {batch, steps, tags, wide, emissions, moves, start, end, lengths, total, safe,
                       ahead, scales, 0, 0, 0, 0, 0, {0}, 0, 0, 0, 0};
    return chain_forward(&call, 8, chain_forward_f64_parts, threads);
}

static int chain_backward(chain_call *c, size_t size, regard_body body, int32_t threads) {
    if (!chain_fits(c, c->wide)) return BAD_PLAN;
    if (!regard_within(c->lengths, c->batch, 0, c->steps + 1)) return BAD_SPAN;
    c->groups = c->batch < GROUPS ? c->batch : GROUPS;
    const size_t row = (size_t)c->wide * size, rows = (size_t)c->tags + 2;
    const size_t counts = (size_t)(c->groups > 0 ? c->groups : 1) * rows * row;
    char *room = regard_scratch(counts + (rows + (size_t)c->tags) * row);
    if (!room) return NO_MEMORY;
    memset(room, 0, counts);
    c->counts = room, c->table = room + counts, c->turned = room + counts + rows * row;
    if (size == 4) REGARD_DISPATCH(chain_tables_f32, (c));
    else REGARD_DISPATCH(chain_tables_f64, (c));
    regard_parallel(body, c, c->groups, threads);
    return c->failed;
}

/* safe[B]: of the sums over the batch. */
REGARD_API int regard_chain_backward(
    int64_t batch, int64_t steps, int64_t tags, int64_t wide, const float *emissions,
    const float *moves, const float *start, const float *end, const int64_t *lengths,
    const float *ahead, const float *scales, const float *grad, float *of_emissions,
    float *of_moves, float *of_start, float *of_end, uint8_t *safe, int32_t threads) {
    chain_call call = {batch, steps, tags, wide, emissions, moves, start, end, lengths, 0, safe,
                       (void *)ahead, (void *)scales, grad, of_emissions, 0, 0, 0, {0}, 0, 0, 0, 0};
    const int failed = chain_backward(&call, 4, chain_backward_f32_parts, threads);
    if (call.counts && !failed) REGARD_DISPATCH(chain_counts_f32, (&call, of_moves, of_start, of_end));
    regard_release(call.counts);
    return failed;
}

REGARD_API int regard_chain_backward_double(
    int64_t batch, int64_t steps, int64_t tags, int64_t wide, const double *emissions,
    const double *moves, const double *start, const double *end, const int64_t *lengths,
    const double *ahead, const double *scales, const double *grad, double *of_emissions,
    double *of_moves, double *of_start, double *of_end, uint8_t *safe, int32_t threads) {
    chain_call call = {batch, steps, tags, wide, emissions, moves, start, end, lengths, 0, safe,
                       (void *)ahead, (void *)scales, grad, of_emissions, 0, 0, 0, {0}, 0, 0, 0, 0};
    const int failed = chain_backward(&call, 8, chain_backward_f64_parts, threads);
    if (call.counts && !failed) REGARD_DISPATCH(chain_counts_f64, (&call, of_moves, of_start, of_end));
    regard_release(call.counts);
    return failed;
}

static int chain_best(chain_call *c, regard_body body, int32_t threads) {
    if (c->tags < 1 || c->tags > 1 << 15) return BAD_PLAN;
    if (!regard_within(c->lengths, c->batch, 0, c->steps + 1)) return BAD_SPAN;
    regard_parallel(body, c, c->batch, threads);
    return c->failed;
}

REGARD_API int regard_chain_best(
    int64_t batch, int64_t steps, int64_t tags, const float *emissions, const float *moves,
    const float *start, const float *end, const int64_t *lengths, int64_t *path, float *total,
    int32_t threads) {
    chain_call call = {batch, steps, tags, (tags + 15) / 16 * 16, emissions, moves, start, end,
                       lengths, total, 0, 0, 0, 0, 0, 0, 0, 0, {0}, 0, path, 0, 0};
    return chain_best(&call, chain_best_f32_parts, threads);
}

REGARD_API int regard_chain_best_double(
    int64_t batch, int64_t steps, int64_t tags, const double *emissions, const double *moves,
    const double *start, const double *end, const int64_t *lengths, int64_t *path, double *total,
    int32_t threads) {
    chain_call call = {batch, steps, tags, (tags + 15) / 16 * 16, emissions, moves, start, end,
                       lengths, total, 0, 0, 0, 0, 0, 0, 0, 0, {0}, 0, path, 0, 0};
    return chain_best(&call, chain_best_f64_parts, threads);
}
