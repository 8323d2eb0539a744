/* The largest few of rows of logits that come a part at a time, and what a softmax divides by. */
#ifndef REGARD_BEST_H
#define REGARD_BEST_H

#include "regard.h"

/* What is known of a row so far; all zeros before its first part. */
typedef struct {
    double sum; /* of e^(logit - top) */
    float top;
    int32_t strange; /* there was a NaN */
    int64_t seen, found;
} best_row;

enum { BEST_PART = 512 };
/* Parts have so many columns, or are a row's last: what comes out does not depend on who cut them. */

/* Rows of `size` more logits, `apart` floats from each other. Columns below `first` are in the sum,
 * but not among the `count` best, whose values (rows, count) and ids are sorted. */
#define REGARD_BEST(level)                                                                         \
    void regard_best_more_##level(best_row *known, int64_t rows, const float *logits, int64_t apart, \
                                  int64_t size, int64_t first, int64_t count, float *values,      \
                                  int64_t *ids);                                                   \
    void regard_best_done_##level(const best_row *known, int64_t rows, int64_t count, float *values);
REGARD_BEST(portable)
#if REGARD_X86
REGARD_BEST(avx2)
REGARD_BEST(avx512)
#endif

#endif
