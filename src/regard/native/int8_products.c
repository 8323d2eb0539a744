/* Rows times packed weights; see int8_products.h. */
#include "int8_products.h"

/* Rows of bytes: as they are; as 16-bit numbers, even terms before odd ones; in two, so that no sum of
 * two products is too large. */
enum { BYTES, PAIRS_OF_TERMS, APART };
/* What multiplies bytes in 256 bits: two instructions, or VNNI's one, encoded as AVX-VNNI or AVX-512. */
enum { NO_DOTS, VEX_DOTS, EVEX_DOTS };
#if REGARD_HAS_AVX2
static int dots_of_256_bits(void);
#endif

#if defined(__clang__)
#define ENCODES_DOTS (__clang_major__ >= 12)
#else
#define ENCODES_DOTS (__GNUC__ >= 11)
#endif

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

#if REGARD_HAS_AVX2
/* AVX-VNNI was never run by us: 2 asks for it, in the encoding that the machine has. */
static int dots_of_256_bits(void) {
    static int vex = -1, evex = -1;
    if (asked_vnni != 2 || !ENCODES_DOTS) return NO_DOTS;
    if (vex < 0) vex = regard_machine_avx_vnni(), evex = regard_machine_vnni();
    return vex ? VEX_DOTS : evex ? EVEX_DOTS : NO_DOTS;
}
#endif

/* 0: as on a machine without it; 1: in 512 bits; 2: in 256 bits too, where the level is AVX2. */
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
