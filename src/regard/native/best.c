/* The largest few of each row of logits from column `first` up, as log-probabilities over the whole
 * row, best first, and where they are: a log-softmax and a top-k that write neither. */
#include "best.h"

typedef struct {
    int64_t size, first, count;
    const float *logits;
    float *values;
    int64_t *ids;
} best_call;

#define TEMPLATE "best.inc"
#include "levels.h"

static void best_parts(void *context, int64_t begin, int64_t end) {
    REGARD_DISPATCH(best_rows, (context, begin, end));
}

/* count <= size - first; no logit is NaN (a NaN gives NaN, and any id). */
REGARD_API int regard_best(int64_t rows, int64_t size, int64_t first, int64_t count,
                            const float *logits, float *values, int64_t *ids, int32_t threads) {
    best_call call = {size, first, count, logits, values, ids};
    if (first < 0 || count < 0 || first > size || count > size - first) return BAD_PLAN;
    regard_parallel(best_parts, &call, rows, threads);
    return WELL;
}
