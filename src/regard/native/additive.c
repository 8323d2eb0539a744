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
#if REGARD_HAS_PORTABLE
PACK(portable)
#endif
#if REGARD_HAS_AVX2
PACK(avx2)
#endif
#if REGARD_HAS_AVX512
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
        a->own_packed = regard_floats(group * row);
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

#define L(field) REGARD_FIELD(additive_memory, field)
REGARD_API const int64_t regard_layout_additive_memory[] = {
    sizeof(additive_memory), L(key), L(key_batch), L(packed), L(packed_batch), L(value),
    L(value_batch), L(lengths), L(batch), L(keys), L(dim), L(value_dim), -1};
#undef L

/* The same without a mask, for steps over one memory, which is laid out once. */
REGARD_API int regard_additive_step(
    const additive_memory *m, const float *query, const float *v, float *context, int64_t queries,
    float scale, int32_t threads) {
    return regard_additive_attend(query, m->key, m->key_batch, m->packed, m->packed_batch, v,
                                  m->value, m->value_batch, NULL, 0, 0, 0, m->lengths, scale,
                                  context, NULL, NULL, m->batch, queries, m->keys, m->dim,
                                  m->value_dim, 1, threads);
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
    int64_t packed = a->packed ? 0 : group * row, query = group * chunk * wide;
    int64_t block = a->grad_scores ? 0 : group * chunk * a->keys;
    int64_t made = scores > a->keys ? block : 0;
    float *scratch = regard_floats(packed + query + block + made);
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
            clear_floats(a->grad_query, a->batch * a->queries * a->dim);
            clear_floats(a->grad_key, a->batch * a->keys * a->dim);
            clear_floats(a->grad_v, a->heads * a->dim);
            if (a->grad_value)
                clear_floats(a->grad_value, a->batch * a->keys * a->value_dim);
        }
        return 0;
    }
    if (!a->grad_scores && !a->saved_weights && !a->saved_lse) return BAD_PLAN;
    size_t bytes = (size_t)(a->batch * a->dim) * sizeof(double);
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
