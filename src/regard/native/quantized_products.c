/* Rows times packed weights; see quantized_products.h. */
#include "quantized_products.h"

#define TEMPLATE "quantized_products.inc"
#include "levels.h"

#define L(field) REGARD_FIELD(linear, field)
REGARD_API const int64_t regard_layout_linear[] = {
    sizeof(linear), L(w), L(scale), L(bias), L(in), L(out), -1};
#undef L

REGARD_API int regard_vnni(void) {
#if REGARD_X86
    __builtin_cpu_init();
    return regard_level() == REGARD_AVX512 && __builtin_cpu_supports("avx512vnni");
#else
    return 0;
#endif
}

linear regard_columns(int64_t kind, const linear *w, int64_t first, int64_t count) {
    static const int64_t bytes[] = {4, 2, 1, 1};
    linear some = *w;
    some.w = (const char *)w->w + first * w->in * bytes[kind];
    if (w->scale) some.scale = w->scale + first;
    if (w->bias) some.bias = w->bias + first;
    some.out = w->out - first < count ? w->out - first : count;
    return some;
}
