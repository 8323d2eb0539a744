/* Include TEMPLATE once for each level. Define TEMPLATE before; it is undefined after. */
#if REGARD_HAS_AVX512
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma,prefer-vector-width=512")
#endif
#define LANES 16
#define NAME(name) name##_avx512
#include "lanes.h"
#include TEMPLATE
#undef NAME
#undef LANES
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

#if REGARD_HAS_AVX2
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#define LANES 8
#define NAME(name) name##_avx2
#include "lanes.h"
#include TEMPLATE
#undef NAME
#undef LANES
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

#if REGARD_HAS_PORTABLE
#define LANES 4
#define NAME(name) name##_portable
#include "lanes.h"
#include TEMPLATE
#undef NAME
#undef LANES
#endif
#undef TEMPLATE
