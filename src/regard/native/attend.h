/* Additive attention, for C that calls it: program.c. */
#ifndef REGARD_ATTEND_H
#define REGARD_ATTEND_H

#include "regard.h"

/* The memory of many steps: keys, packed keys and values with the strides of their batch axis, how
 * many keys each row has (NULL: all), and the sizes. Python fills it; see attention/single_step.py. */
typedef struct {
    const float *key;
    int64_t key_batch;
    const float *packed;
    int64_t packed_batch;
    const float *value;
    int64_t value_batch;
    const int64_t *lengths;
    int64_t batch, keys, dim, value_dim;
} additive_memory;

/* See additive.c. Any of packed, mask, lengths, weights, lse may be NULL. */
int regard_additive_attend(
    const float *query, const float *key, int64_t key_batch, const float *packed,
    int64_t packed_batch, const float *v, const float *value, int64_t value_batch,
    const uint8_t *mask, int64_t mask_batch, int64_t mask_query, int64_t mask_key,
    const int64_t *lengths, float scale, float *context, float *weights, float *lse,
    int64_t batch, int64_t queries, int64_t keys, int64_t dim, int64_t value_dim, int64_t heads,
    int32_t threads);

#endif
