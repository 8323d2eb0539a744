/* Additive attention: what additive.c and its template share.
 *
 *   e_ij = sum_d v_d tanh(q_id + k_jd),   tanh x = 1 - 2 / (1 + E),   E = e^2q e^2k
 *
 * Exponentials are needed for queries and keys only, never for pairs. Two features share a division:
 * v0 / a0 + v1 / a1 = (v0 a1 + v1 a0) / (a0 a1). On AVX-512 the reciprocal is an estimate and a Newton
 * step, except where the machine divides faster than it multiplies (`regard_divides`).
 *
 * Keys are packed in rows of `width` floats, D rounded up to CHUNK and one more vector: e^2k, zeros,
 * and at [padded] the row's largest |k|. The bounds of a tile of queries and keys say how it is done:
 *
 *   SMALL   |x| <= 0.6: an odd polynomial (1 - 2 / (1 + E) would lose the digits of a small tanh)
 *   PAIRED  the usual path, E <= 2^60 (the forward clamps E there and takes it for WIDE as well);
 *           forward and up to `near` v goes into the queries: see in_range
 *   WIDE    E up to 2^126: one division a feature, for gradients of saturated tanh
 *   DIRECT  |q| or |k| beyond 43, where e^2q leaves fp32: e^-2|x| for each pair
 */
#ifndef REGARD_ADDITIVE_H
#define REGARD_ADDITIVE_H

#include "attend.h"

enum { CHUNK = 32, BLOCK = 16, TILE = 8, EXTRA = 16, KEYS = 64 };
enum { SMALL, PAIRED, WIDE, DIRECT };

static const float OUT_OF_RANGE = 43.0f, ONE_PAIR = 20.5f, NONE = 0x1p7f, POLYNOMIAL = 0.6f;

typedef struct {
    const float *query, *key, *packed, *v, *value; /* [B,Q,D] [B,K,D] [B,K,width] [heads,D] [B,K,Dv] */
    const uint8_t *mask;                           /* may be looked at; NULL for all */
    const int64_t *lengths;                        /* keys of each row of the batch; NULL for all */
    int64_t mask_batch, mask_query, mask_key;      /* strides of the mask */
    int64_t key_batch, packed_batch, value_batch;  /* strides of the rows of the batch, in floats */
    int64_t batch, queries, keys, dim, value_dim, heads;
    float scale, largest_v; /* 1 / temperature; max |v| */
    float near, nearer;     /* |q| + |k| up to which the forward has v in the queries; see in_range */
    /* forward */
    float *scores, *context, *weights, *lse; /* any may be NULL */
    /* backward */
    const float *grad_context, *grad_weights, *saved_weights, *saved_lse;
    float *grad_query, *grad_key, *grad_v, *grad_value;
    double *parts; /* [B,D]: what each row of the batch gives to grad_v */
    /* inside */
    int64_t first_row, rows, first_query, chunk; /* the rows and queries being done */
    float *block, *block_weights;                /* [rows,chunk,K] */
    const float *grad_scores;                    /* [B,Q,K], or NULL: `block` has them */
    float *own_packed, *packed_query;
    int accumulate; /* add to grad_key, grad_value and parts */
    int failed, divide;
} Additive;

static inline int64_t padded(int64_t dim) { return (dim + CHUNK - 1) / CHUNK * CHUNK; }
static inline int64_t width(int64_t dim) { return padded(dim) + EXTRA; }

static inline int64_t seen(const Additive *a, int64_t b) {
    if (a->lengths == NULL) return a->keys;
    int64_t n = a->lengths[b];
    return n < 0 ? 0 : n > a->keys ? a->keys : n;
}

static inline const float *packed_keys(const Additive *a, int64_t b) {
    if (a->packed != NULL) return a->packed + b * a->packed_batch;
    return a->own_packed + (b - a->first_row) * a->keys * width(a->dim);
}

static inline int path(float query, float key) {
    if (!(query <= OUT_OF_RANGE) || !(key <= OUT_OF_RANGE)) return DIRECT; /* NaN too */
    float sum = query + key;
    return sum <= POLYNOMIAL ? SMALL : sum <= ONE_PAIR ? PAIRED : WIDE;
}

/* The path forward, where numerators hold v times up to 2^60. */
static inline int way_of(float query, float key, float v) {
    int way = path(query, key);
    return way != SMALL && !(v <= 0x1p60f) ? DIRECT : way;
}

#endif
