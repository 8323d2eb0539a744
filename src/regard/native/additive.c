/* Additive attention, forward and backward; see additive.h for how. */
#include "additive.h"

#define TEMPLATE "additive.inc"
#include "levels.h"

enum { ROOM = 1 << 18 }; /* floats of scratch for the rows in hand: 1 MiB */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* How many floats a row of packed keys has: what `prepare` allocates for each key. */
REGARD_API int64_t regard_additive_width(int64_t dim) { return width(dim); }


#define PACK(level)                                                                                \
    static void pack_keys_##level(const float *key, float *packed, int64_t n, int64_t dim,         \
                                  int threads) {                                                   \
        Pack_##level pack = {key, packed, dim, n, 0};                                                    \
        regard_parallel(pack_##level, &pack, n, threads);                                          \
    }
PACK(portable)
#if REGARD_X86
PACK(avx2)
PACK(avx512)
#endif

REGARD_API int regard_additive_pack(
    const float *key, float *packed, int64_t n, int64_t dim, int32_t threads) {
    REGARD_DISPATCH(pack_keys, (key, packed, n, dim, threads));
    return 0;
}

static void measure_v(Additive *a) {
    a->divide = regard_divides();
    float least = INFINITY;
    for (int64_t d = 0; d < a->heads * a->dim; d++) {
        float one = fabsf(a->v[d]);
        a->largest_v = one <= a->largest_v ? a->largest_v : one; /* NaN is taken */
        if (one > 0 && one < least) least = one;
    }
    /* products of two (1 + E) max |v| / v, or of four, have to stay below 2^126 */
    float spread = log2f(a->largest_v / (least < a->largest_v / NONE ? least : a->largest_v / NONE));
    int normal = a->largest_v >= 0x1p-60f && a->largest_v <= 0x1p60f;
    a->near = normal ? 0.34657f * (61.5f - spread) : -1.0f;
    a->nearer = normal ? 0.34657f * (30.0f - spread) : -1.0f;
}

static int run_forward(Additive *a, int threads) {
    measure_v(a);
    int64_t group = a->batch;
    if (a->packed == NULL) {
        int64_t row = a->keys * width(a->dim);
        group = row > 0 ? least(a->batch, ROOM / row) : a->batch;
        if (group < 1) group = 1;
        a->own_packed = regard_scratch((size_t)(group * row) * sizeof(float));
        if (a->own_packed == NULL) return 1;
    }
    REGARD_DISPATCH(forward, (a, group, threads));
    regard_release(a->own_packed);
    return a->failed;
}

/* scores [B,Q,K] alone. packed may be NULL. */
REGARD_API int regard_additive_scores(
    const float *query, const float *key, int64_t key_batch, const float *packed,
    int64_t packed_batch, const float *v, float *scores, int64_t batch, int64_t queries, int64_t keys, int64_t dim, int64_t heads, int32_t threads) {
    Additive a = {.query = query, .key = key, .key_batch = key_batch, .packed = packed,
                  .packed_batch = packed_batch, .v = v, .scores = scores,
                  .batch = batch, .queries = queries, .keys = keys, .dim = dim, .heads = heads};
    return run_forward(&a, threads);
}

/* The whole attention. Any of packed, mask, lengths, weights, lse may be NULL. */
REGARD_API int regard_additive_attend(
    const float *query, const float *key, int64_t key_batch, const float *packed,
    int64_t packed_batch, const float *v, const float *value, int64_t value_batch,
    const uint8_t *mask, int64_t mask_batch, int64_t mask_query, int64_t mask_key,
    const int64_t *lengths, float scale, float *context, float *weights, float *lse,
    int64_t batch, int64_t queries, int64_t keys, int64_t dim, int64_t value_dim, int64_t heads,
    int32_t threads) {
    Additive a = {.query = query, .key = key, .key_batch = key_batch, .packed = packed,
                  .packed_batch = packed_batch, .v = v, .value = value, .value_batch = value_batch,
                  .mask = mask, .mask_batch = mask_batch, .mask_query = mask_query,
                  .mask_key = mask_key, .lengths = lengths, .scale = scale, .context = context,
                  .weights = weights, .lse = lse, .batch = batch, .queries = queries, .keys = keys,
                  .dim = dim, .value_dim = value_dim, .heads = heads};
    return run_forward(&a, threads);
}

/* The same without a mask, for steps over one memory, whose part is a table made once: the addresses
 * and strides of keys, packed keys and values, the address of lengths, B, K, D, Dv. */
REGARD_API int regard_additive_step(
    const int64_t *table, const float *query, const float *v, float *context, int64_t queries,
    float scale, int32_t threads) {
    Additive a = {.query = query, .key = (const float *)table[0], .key_batch = table[1],
                  .packed = (const float *)table[2], .packed_batch = table[3], .v = v,
                  .value = (const float *)table[4], .value_batch = table[5],
                  .lengths = (const int64_t *)table[6], .scale = scale, .context = context,
                  .batch = table[7], .queries = queries, .keys = table[8], .dim = table[9],
                  .value_dim = table[10], .heads = 1};
    return run_forward(&a, threads);
}

static int run_backward(Additive *a, int threads) {
    int64_t row = a->keys * width(a->dim), wide = width(a->dim);
    int64_t scores = a->keys * (a->saved_weights || a->grad_scores ? 1 : 2);
    int64_t chunk = scores > 0 ? 2 * ROOM / scores / BLOCK * BLOCK : a->queries;
    if (chunk < 4 * BLOCK) chunk = 4 * BLOCK;
    if (chunk > 512) chunk = 512;
    a->chunk = chunk = least(chunk, a->queries);
    int64_t each = (a->packed ? 0 : row) + chunk * (wide + scores);
    int64_t group = each > 0 ? least(a->batch, ROOM / each) : a->batch;
    if (group < 1) group = 1;
    size_t packed = a->packed ? 0 : group * row, query = group * chunk * wide;
    size_t block = a->grad_scores ? 0 : group * chunk * a->keys;
    size_t made = scores > a->keys ? block : 0;
    float *scratch = regard_scratch((packed + query + block + made) * sizeof(float));
    if (scratch == NULL) return 1;
    a->own_packed = scratch;
    a->packed_query = scratch + packed;
    a->block = a->packed_query + query;
    a->block_weights = a->block + block;
    REGARD_DISPATCH(backward, (a, group, threads));
    regard_release(scratch);
    return a->failed;
}

static void sum_parts(const Additive *a) {
    for (int64_t h = 0; h < a->heads; h++)
        for (int64_t d = 0; d < a->dim; d++) {
            double sum = 0.0;
            for (int64_t b = h; b < a->batch; b += a->heads) sum += a->parts[b * a->dim + d];
            float *out = a->grad_v + h * a->dim + d;
            *out = (float)sum + (a->accumulate ? *out : 0.0f);
        }
}

static int finish_backward(Additive *a, int accumulate, int threads) {
    if (a->batch == 0 || a->queries == 0 || a->keys == 0) {
        if (!accumulate) {
            memset(a->grad_query, 0, a->batch * a->queries * a->dim * sizeof(float));
            memset(a->grad_key, 0, a->batch * a->keys * a->dim * sizeof(float));
            memset(a->grad_v, 0, a->heads * a->dim * sizeof(float));
            if (a->grad_value)
                memset(a->grad_value, 0, a->batch * a->keys * a->value_dim * sizeof(float));
        }
        return 0;
    }
    size_t bytes = a->batch * a->dim * sizeof(double);
    a->parts = regard_scratch(bytes);
    if (a->parts == NULL) return 1;
    memset(a->parts, 0, bytes);
    a->accumulate = accumulate;
    measure_v(a);
    int failed = run_backward(a, threads);
    if (!failed) sum_parts(a);
    regard_release(a->parts);
    return failed;
}

REGARD_API int regard_additive_scores_backward(
    const float *query, const float *key, int64_t key_batch, const float *packed,
    int64_t packed_batch, const float *v, const float *grad_scores, float *grad_query, float *grad_key, float *grad_v, int64_t batch,
    int64_t queries, int64_t keys, int64_t dim, int64_t heads, int32_t accumulate,
    int32_t threads) {
    Additive a = {.query = query, .key = key, .key_batch = key_batch, .packed = packed,
                  .packed_batch = packed_batch, .v = v, .grad_scores = grad_scores,
                  .grad_query = grad_query, .grad_key = grad_key, .grad_v = grad_v, .batch = batch,
                  .queries = queries, .keys = keys, .dim = dim, .heads = heads};
    return finish_backward(&a, accumulate, threads);
}

/* One of saved_weights and saved_lse is given. */
REGARD_API int regard_additive_attend_backward(
    const float *query, const float *key, int64_t key_batch, const float *packed,
    int64_t packed_batch, const float *v, const float *value, int64_t value_batch,
    const uint8_t *mask, int64_t mask_batch, int64_t mask_query, int64_t mask_key,
    const int64_t *lengths, float scale, const float *saved_weights, const float *saved_lse,
    const float *grad_context, const float *grad_weights, float *grad_query, float *grad_key,
    float *grad_v, float *grad_value, int64_t batch, int64_t queries, int64_t keys, int64_t dim,
    int64_t value_dim, int64_t heads, int32_t accumulate, int32_t threads) {
    Additive a = {.query = query, .key = key, .key_batch = key_batch, .packed = packed,
                  .packed_batch = packed_batch, .v = v, .value = value, .value_batch = value_batch,
                  .mask = mask, .mask_batch = mask_batch, .mask_query = mask_query,
                  .mask_key = mask_key, .lengths = lengths, .scale = scale,
                  .saved_weights = saved_weights, .saved_lse = saved_lse,
                  .grad_context = grad_context, .grad_weights = grad_weights,
                  .grad_query = grad_query, .grad_key = grad_key, .grad_v = grad_v,
                  .grad_value = grad_value, .batch = batch, .queries = queries, .keys = keys,
                  .dim = dim, .value_dim = value_dim, .heads = heads};
    return finish_backward(&a, accumulate, threads);
}
