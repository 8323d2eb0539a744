/* Feature-wise attention with bounded scores: out_id = sum_j w_ijd v_jd / sum_j w_ijd with
 * w_ijd = exp(a tanh((q_id + k_jd) / c)). No tensor of all pairs and features is ever stored.
 *
 * - tanh x = 1 - 2 / (1 + e^2x) and e^2(q+k) = e^2q e^2k: exponentials of the inputs, one reciprocal
 *   a pair, and one more exponential, of a number in [-2a, 0].
 * - |a tanh| <= a, so no maximum is needed: w e^-a lies in [e^-2a, 1] and two plain sums stream.
 * - Lanes are features, and features never meet: a unit of work is one row of the batch and LANES
 *   features, with keys and values packed side by side. Threads share nothing.
 * - Where e^2q or e^2k would overflow, the unit takes e^2(q+k) pair by pair instead.
 */
#include "regard.h"

/* What a call is, field by field as `_Call` in ../features.py.
 * Tensors (B, rows, D) with the features beside each other; strides in elements, 0 = broadcast.
 * start and stop (B, Q): the first key a query may look at, and the one behind the last.
 * mask (B, Q, K): which of these it may look at, or NULL for all. */
typedef struct {
    int64_t batch, queries, keys, features;
    const float *query, *key, *value;
    int64_t query_batch, query_row, key_batch, key_row, value_batch, value_row;
    const int32_t *start, *stop;
    int64_t start_batch, start_row, stop_batch, stop_row;
    const uint8_t *mask;
    int64_t mask_batch, mask_row, mask_key;
    float *context, *total;                         /* (B, Q, D), contiguous */
    const float *grad;                              /* the same, of the context */
    float *grad_query, *grad_key, *grad_value;      /* contiguous; all of them is written */
    double scale, bound;                            /* f = bound * tanh((q + k) / scale) */
    int64_t backward, failed;
} features_call;

#define TEMPLATE "features.inc"
#include "levels.h"

static void work(void *call, int64_t begin, int64_t end) {
    REGARD_DISPATCH(features_units, (call, begin, end));
}

#define L(field) REGARD_FIELD(features_call, field)
REGARD_API const int64_t regard_layout_features_call[] = {
    sizeof(features_call), L(batch), L(queries), L(keys), L(features), L(query), L(key), L(value),
    L(query_batch), L(query_row), L(key_batch), L(key_row), L(value_batch), L(value_row), L(start),
    L(stop), L(start_batch), L(start_row), L(stop_batch), L(stop_row), L(mask), L(mask_batch),
    L(mask_row), L(mask_key), L(context), L(total), L(grad), L(grad_query), L(grad_key),
    L(grad_value), L(scale), L(bound), L(backward), L(failed), -1};
#undef L

REGARD_API int regard_features(features_call *call, int threads) {
    int level = regard_level();
    int64_t lanes = level == REGARD_AVX512 ? 16 : level == REGARD_AVX2 ? 8 : 4;
    call->failed = 0;
    regard_parallel(work, call, call->batch * ((call->features + lanes - 1) / lanes), threads);
    return call->failed ? NO_MEMORY : WELL;
}
