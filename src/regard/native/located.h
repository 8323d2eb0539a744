/* Location-aware attention: what located.c and its template share. */
#ifndef REGARD_LOCATED_H
#define REGARD_LOCATED_H

#include "regard.h"

enum { MOST = 16, STEP = 16, HYPOTHESES = 16 }; /* filters; floats that rows are rounded up to */

/* What a call is, field by field as `_CALL` in attention/_ops/cpu/located.py. Contiguous but for
 * the strides given; mask, lengths, grad_weights and grad_before may be NULL. */
typedef struct {
    int64_t batch, queries, keys, dim, value_dim, filters, width;
    const float *query, *key, *value, *v;    /* (B, Q, D), (B, K, D), (B, K, Dv), (D,) */
    const float *filter, *project, *before;  /* F (M, width), P (D, M), a (B, Q, K) */
    int64_t key_batch, value_batch;          /* strides of the rows of the batch, in floats */
    const uint8_t *mask;                     /* (B, Q, K): may be looked at */
    int64_t mask_batch, mask_query, mask_key;
    const int64_t *lengths; /* (B,) */
    float *context, *weights; /* (B, Q, Dv), (B, Q, K): backward reads the weights */
    const float *grad, *grad_weights;
    float *grad_query, *grad_key, *grad_v, *grad_filter, *grad_project, *grad_before;
    double scale; /* 1 / temperature */
    int64_t add;  /* to what grad_key has */
    float *parts; /* what each row of the batch gives to the gradients of v, P and F */
    int64_t failed;
} located_call;

static inline int64_t located_padded(int64_t n) { return (n + STEP - 1) / STEP * STEP; }

/* Where the d-th of D stands in blocks of `rows` rows. */
static inline int64_t located_block(int64_t d, int64_t rows) {
    return d / STEP * STEP * rows + d % STEP;
}

static inline int64_t located_blocks(const located_call *c) {
    return (c->queries + HYPOTHESES - 1) / HYPOTHESES;
}

static inline int64_t located_seen(const located_call *c, int64_t b) {
    if (c->lengths == NULL) return c->keys;
    int64_t n = c->lengths[b];
    return n < 0 ? 0 : n > c->keys ? c->keys : n;
}

static inline int64_t part_size(const located_call *c) {
    return located_padded(c->dim) * (MOST + 1) + c->filters * c->width;
}

#endif
