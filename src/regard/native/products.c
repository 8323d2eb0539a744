/* Rows times packed weights; see products.h. */
#include "products.h"

#define TEMPLATE "products.inc"
#include "levels.h"

REGARD_API int regard_vnni(void) {
#if REGARD_X86
    __builtin_cpu_init();
    return regard_level() == REGARD_AVX512 && __builtin_cpu_supports("avx512vnni");
#else
    return 0;
#endif
}
