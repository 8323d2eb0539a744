/* Rows times packed weights; see int8_products.h. */
#include "int8_products.h"

/* Rows of bytes: as they are; as 16-bit numbers, even terms before odd ones; in two, so that no sum of
 * two products is too large. */
enum { BYTES, PAIRS_OF_TERMS, APART };

#define TEMPLATE "int8_products.inc"
#include "levels.h"

#define L(field) REGARD_FIELD(linear, field)
REGARD_API const int64_t regard_layout_linear[] = {
    sizeof(linear), L(w), L(scale), L(bias), L(in), L(out), -1};
#undef L

static int asked_vnni = 1;

REGARD_API int regard_vnni(void) {
    static int found = -1; /* every thread finds the same, so a race is harmless */
    if (found < 0) found = regard_machine_vnni();
    return found && asked_vnni && regard_level() == REGARD_AVX512;
}

/* 0: as on a machine without it. For tests. */
REGARD_API void regard_set_vnni(int vnni) { asked_vnni = vnni; }

linear regard_columns(int64_t kind, const linear *w, int64_t first, int64_t count) {
    static const int64_t bytes[] = {4, 2, 1, 1}; /* of a weight */
    linear some = *w;
    some.w = (const char *)w->w + first * w->in * bytes[kind];
    if (w->scale) some.scale = w->scale + first;
    if (w->bias) some.bias = w->bias + first;
    some.out = w->out - first < count ? w->out - first : count;
    return some;
}

/* One packed product by itself, for tests and benchmarks: x (rows, in) to y (rows, out). */
REGARD_API int regard_packed_product(const void *packed, int64_t kind, int64_t rows, const float *x,
                                     float *y) {
    const linear *w = packed;
    if (kind < FLOAT32 || kind > INT8 || w->in % 16) return BAD_PLAN;
    float *room = regard_floats(narrow_room(rows, w->in));
    if (!room) return NO_MEMORY;
    const narrow_rows narrow = narrow_at(room, rows, w->in);
    REGARD_DISPATCH(regard_product, (kind, NONE, w, rows, x, w->in, y, w->out, &narrow));
    regard_release(room);
    return WELL;
}
