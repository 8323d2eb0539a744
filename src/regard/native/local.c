/* Local attention: only a window of keys about each query's own center is scored (Luong et al.
 * 2015, section 3.2).
 *
 *   c_i = floor(p_i)    a_ij = softmax over j in [c_i - half, c_i + half] of scale q_i . k_j
 *   w_ij = a_ij exp(-(j - p_i)^2 / (2 sigma^2))    (w = a where sigma is 0)    out_i = sum_j w_ij v_j
 *
 * Keys are read where they lie; the backward pass computes the weights again. The gradients of keys
 * and values are made range of keys by range of keys, each by one thread, so that results do not
 * depend on the number of threads.
 *
 * Layouts: query (B,Q,D), key (B,K,D), value (B,K,E), center (B,Q), keep (B,K) or NULL.
 */
#include "regard.h"

typedef struct {
    int64_t batch, queries, keys, dim, wide, half;
    float scale, sigma;
    const float *query, *key, *value, *center;
    const uint8_t *keep;
    float *out;                                  /* forward: (B,Q,E) */
    const float *grad;                           /* backward: (B,Q,E) */
    float *of_query, *of_key, *of_value, *of_center;
    float *weights, *slopes; /* (B,Q,2 half + 1): w, and the gradients of q . k */
    int64_t parts;
    int failed;
} local_call;

/* The first key of row i and how many there are. */
static int64_t local_window(const local_call *c, int64_t row, int64_t *first) {
    const double p = c->center[row];
    const double low = -(double)c->half - 1, high = (double)(c->keys + c->half);
    const int64_t center = (int64_t)floor(p > low ? (p < high ? p : high) : low);
    const int64_t begin = center - c->half, end = center + c->half + 1;
    *first = begin > 0 ? begin : 0;
    const int64_t stop = end < c->keys ? end : c->keys;
    return stop > *first ? stop - *first : 0;
}

#define TEMPLATE "local.inc"
#include "levels.h"

static void forward_rows(void *context, int64_t begin, int64_t end) {
    REGARD_DISPATCH(local_forward, (context, begin, end));
}

static void backward_rows(void *context, int64_t begin, int64_t end) {
    REGARD_DISPATCH(local_backward, (context, begin, end));
}

static void backward_keys(void *context, int64_t begin, int64_t end) {
    REGARD_DISPATCH(local_keys, (context, begin, end));
}

REGARD_API int regard_local_forward(
    int64_t batch, int64_t queries, int64_t keys, int64_t dim, int64_t wide, int64_t half,
    float scale, float sigma, const float *query, const float *key, const float *value,
    const float *center, const uint8_t *keep, float *out, int32_t threads) {
    local_call call = {batch, queries, keys, dim, wide, half, scale, sigma,
                       query, key, value, center, keep, out, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    regard_parallel(forward_rows, &call, batch * queries, threads);
    return call.failed;
}

REGARD_API int regard_local_backward(
    int64_t batch, int64_t queries, int64_t keys, int64_t dim, int64_t wide, int64_t half,
    float scale, float sigma, const float *query, const float *key, const float *value,
    const float *center, const uint8_t *keep, const float *grad, float *of_query, float *of_key,
    float *of_value, float *of_center, int32_t threads) {
    const int64_t pairs = batch * queries * (2 * half + 1);
    float *scratch = regard_floats(2 * pairs);
    if (!scratch) return 1;
    local_call call = {batch, queries, keys, dim, wide, half, scale, sigma,
                       query, key, value, center, keep, 0, grad,
                       of_query, of_key, of_value, of_center, scratch, scratch + pairs, threads, 0};
    regard_parallel(backward_rows, &call, batch * queries, threads);
    if (!call.failed) regard_parallel(backward_keys, &call, batch * threads, threads);
    regard_release(scratch);
    return call.failed;
}
