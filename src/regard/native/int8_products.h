/* Rows times packed weights, for the models that are decoded in C.
 *
 * Weights are packed in panels of 32 outputs: (in, 32) in float32, (in / 2, 32, 2) in bfloat16,
 * (in / 4, 32, 4) in bytes, 128 more than they are and with one scale an output. Bytes are multiplied
 * by rows that are quantized on the way, one step a row: sums are the same integers on every level.
 * Rows are float32, and `in` a multiple of 16. */
#ifndef REGARD_PRODUCTS_H
#define REGARD_PRODUCTS_H

#include "regard.h"

#define PANEL 32

/* Floats of a row of n numbers as a product reads it. */
static inline int64_t wide(int64_t n) { return (n + 15) / 16 * 16; }

enum { FLOAT32, BFLOAT16, INT8, INT8_AGAIN };
/* INT8_AGAIN: the rows are those of the call before, in `narrow` already. */
enum { NONE, RELU, SWISH };

typedef struct {
    const void *w;
    const float *scale, *bias;
    int64_t in, out;
} linear;

/* Room for quantized rows, two bytes a number. `apart`: see `byte_tile`. */
typedef struct {
    void *rows;
    float *steps;
    int32_t *sums;
    uint32_t *apart;
} narrow_rows;

/* A bit for each four inputs. */
static inline int64_t words_of_bits(int64_t in) { return (in + 127) / 128; }

/* Floats of that room, for so many rows of at most `in` numbers, a multiple of 16. */
static inline int64_t narrow_room(int64_t rows, int64_t in) {
    return 2 * wide(rows) + wide(rows * words_of_bits(in)) + rows * in / 2;
}

static inline narrow_rows narrow_at(float *room, int64_t rows, int64_t in) {
    narrow_rows n = {.steps = room, .sums = (int32_t *)(room + wide(rows))};
    n.apart = (uint32_t *)(n.sums + wide(rows));
    n.rows = n.apart + wide(rows * words_of_bits(in));
    return n;
}

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

/* Whether the level in force multiplies bytes by bytes (else 16-bit numbers). */
REGARD_API int regard_vnni(void);

#endif
