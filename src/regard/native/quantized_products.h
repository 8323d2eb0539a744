/* Rows times packed weights, for the models that are decoded in C.
 *
 * Weights are packed in panels of 32 outputs, (in, 32) each, in float32, bfloat16 or bytes with one
 * scale an output. Bytes are multiplied by bytes where the machine has VNNI (rows are quantized on
 * the way, one step a row), else widened. Rows are float32, and `in` a multiple of 16. */
#ifndef REGARD_PRODUCTS_H
#define REGARD_PRODUCTS_H

#include "regard.h"

#define PANEL 32

/* Floats of a row of n numbers as a product reads it. */
static inline int64_t wide(int64_t n) { return (n + 15) / 16 * 16; }

enum { FLOAT32, BFLOAT16, INT8, VNNI, VNNI_AGAIN };
/* VNNI_AGAIN: the rows are those of the call before, in `narrow` as bytes already. */
enum { NONE, RELU, SWISH };

typedef struct {
    const void *w;
    const float *scale, *bias;
    int64_t in, out;
} linear;

/* Room for rows as bytes. */
typedef struct {
    int8_t *bytes;
    float *steps;
    int32_t *sums;
} narrow_rows;

/* y (rows, out) = act(x (rows, in) times w), rows xs and ys floats apart. */
#define REGARD_PRODUCT(level)                                                                      \
    void regard_product_##level(int64_t kind, int64_t act, const linear *w, int64_t rows, const float *x,  \
                                int64_t xs, float *y, int64_t ys, const narrow_rows *narrow);
REGARD_PRODUCT(portable)
#if REGARD_X86
REGARD_PRODUCT(avx2)
REGARD_PRODUCT(avx512)
#endif

/* Some outputs of a product: `count` from `first` on, a multiple of PANEL. */
linear regard_columns(int64_t kind, const linear *w, int64_t first, int64_t count);

/* Whether bytes are multiplied by bytes at the level in force. */
int regard_vnni(void);

#endif
