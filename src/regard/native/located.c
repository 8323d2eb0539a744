/* The hybrid score of speech recognition with its softmax and sum (Chorowski et al. 2015, eq. 5-9):
 *
 *   f_j = sum_o F_o a_(j + o - w/2),   e_j = sum_d v_d tanh(q_d + k_jd + sum_m P_dm f_jm),
 *   w = softmax(scale e),   c = sum_j w_j x_j,        a: the weights of the step before
 *
 * f is convolved once a query; the sum over its filters stays in registers, so no tensor of keys and
 * features is ever stored. Tiles of TILE keys share the rows of P. The backward pass makes f and the
 * tanh again. Rows of the batch are independent units; a row's queries (hypotheses) follow each other.
 */
#include "located.h"

#define TEMPLATE "located.inc"
#include "levels.h"

#define L(field) REGARD_FIELD(located_call, field)
REGARD_API const int64_t regard_layout_located_call[] = {
    sizeof(located_call), L(batch), L(queries), L(keys), L(dim), L(value_dim), L(filters), L(width),
    L(query), L(key), L(value), L(v), L(filter), L(project), L(before), L(key_batch),
    L(value_batch), L(mask), L(mask_batch), L(mask_query), L(mask_key), L(lengths), L(context),
    L(weights), L(grad), L(grad_weights), L(grad_query), L(grad_key), L(grad_v), L(grad_filter),
    L(grad_project), L(grad_before), L(scale), L(add), L(parts), L(failed), -1};
#undef L

static void forward(void *call, int64_t begin, int64_t end) {
    REGARD_DISPATCH(located_forward, (call, begin, end));
}

static void backward(void *call, int64_t begin, int64_t end) {
    REGARD_DISPATCH(located_backward, (call, begin, end));
}

static int fits(const located_call *c) {
    return c->filters >= 1 && c->filters <= MOST && c->width >= 1 && c->width % 2 == 1;
}

REGARD_API int regard_located(located_call *c, int threads) {
    if (!fits(c)) return BAD_PLAN;
    c->failed = 0;
    regard_parallel(forward, c, c->batch * located_blocks(c), threads);
    return c->failed ? NO_MEMORY : WELL;
}

/* What the rows of the batch give to a gradient that they share. */
static float sum_rows(const located_call *c, int64_t at) {
    double sum = 0.0;
    for (int64_t b = 0; b < c->batch; b++) sum += c->parts[b * part_size(c) + at];
    return (float)sum;
}

REGARD_API int regard_located_backward(located_call *c, int threads) {
    if (!fits(c)) return BAD_PLAN;
    int64_t size = c->batch * part_size(c), wide = located_padded(c->dim);
    c->failed = 0;
    c->parts = regard_floats(size);
    if (c->parts == NULL) return NO_MEMORY;
    clear_floats(c->parts, size);
    regard_parallel(backward, c, c->batch, threads);
    if (!c->failed) {
        for (int64_t d = 0; d < c->dim; d++) {
            const int64_t at = wide + located_block(d, MOST);
            c->grad_v[d] = sum_rows(c, d);
            for (int64_t m = 0; m < c->filters; m++)
                c->grad_project[d * c->filters + m] = sum_rows(c, at + m * STEP);
        }
        for (int64_t i = 0; i < c->filters * c->width; i++)
            c->grad_filter[i] = sum_rows(c, wide * (MOST + 1) + i);
    }
    regard_release(c->parts);
    c->parts = NULL;
    return c->failed ? NO_MEMORY : WELL;
}
