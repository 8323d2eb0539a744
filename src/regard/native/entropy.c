/* Label-smoothed cross-entropy of rows of logits, and their gradient written over them:
 *
 *   loss = lse - a z_gold - b sum z,   grad z_v = p_v - b - a [v = gold]
 *
 * Logits are float32 or bfloat16, sums are float32 and double. */
#include "regard.h"

typedef struct {
    int64_t size;
    void *logits;
    const int64_t *gold;
    float a, b;
    float *losses;
    int32_t half, write;
} entropy_call;

#define TEMPLATE "entropy.inc"
#include "levels.h"

static void entropy_parts(void *context, int64_t begin, int64_t end) {
    REGARD_DISPATCH(entropy_rows, (context, begin, end));
}

REGARD_API int regard_entropy(int64_t rows, int64_t size, void *logits, const int64_t *gold,
                               float a, float b, float *losses, int32_t half,
                               int32_t write, int32_t threads) {
    entropy_call call = {size, logits, gold, a, b, losses, half, write};
    if (!regard_within(gold, rows, 0, size)) return BAD_ID;
    regard_parallel(entropy_parts, &call, rows, threads);
    return WELL;
}
