/* Vectors of LANES floats for one level; included by levels.h, several times.
 *
 *   V, I                types: LANES floats, LANES int32. The operators + - * / work on them, and
 *                       a * b + c becomes one FMA where the machine has it.
 *   v_set(x)            all lanes x                 v_load(p), v_store(p, a)     need no alignment
 *   v_load_n(p, n)      the first n, zeros behind   v_store_n(p, a, n)           the first n
 *   v_min, v_max        lanewise                    v_sum(a)                     horizontal
 *   v_rcp(a)            1 / a, about 1 ulp, for normal a whose reciprocal is normal
 *   v_exp(a)            e^a, about 1 ulp, any finite a (0 and inf beyond the range)
 *   v_select(m, a, b)   a where the comparison m (an I of 0 and -1, as a < b gives) holds, else b
 *   v_load_half(p), v_store_half(p, a)           bfloat16; to the nearest, ties to even, NaN stays
 *   v_turn(x)                                    x[LANES] becomes its transpose, in registers
 *   v_sums(x, n)                                 lane l is the sum over x[l % n]; spoils x
 *   v_every_sum(x)                               lane l is v_sum(x[l]) to the last bit; spoils x
 *   v_above(a, x)                                whether any lane is above x
 *   v_mix(x, low, high)                          32 bits of a hash of each lane of x (a VU: unsigned)
 */
#undef V
#undef I
#undef v_set
#undef v_load
#undef v_store
#undef v_load_n
#undef v_store_n
#undef v_min
#undef v_max
#undef v_sum
#undef v_rcp
#undef v_exp
#undef v_select
#undef VU
#undef VH
#undef v_load_half
#undef v_store_half
#undef v_mix
#undef v_turn
#undef v_sums
#undef v_every_sum
#undef v_above
#undef v_lanes

#define V NAME(V)
#define I NAME(I)
#define v_set NAME(v_set)
#define v_load NAME(v_load)
#define v_store NAME(v_store)
#define v_load_n NAME(v_load_n)
#define v_store_n NAME(v_store_n)
#define v_min NAME(v_min)
#define v_max NAME(v_max)
#define v_sum NAME(v_sum)
#define v_rcp NAME(v_rcp)
#define v_exp NAME(v_exp)
#define v_select NAME(v_select)
#define VU NAME(VU)
#define VH NAME(VH)
#define v_load_half NAME(v_load_half)
#define v_store_half NAME(v_store_half)
#define v_mix NAME(v_mix)
#define v_turn NAME(v_turn)
#define v_sums NAME(v_sums)
#define v_every_sum NAME(v_every_sum)
#define v_above NAME(v_above)
#define v_lanes NAME(v_lanes)

typedef float V __attribute__((vector_size(LANES * 4)));
typedef int32_t I __attribute__((vector_size(LANES * 4)));
typedef uint32_t VU __attribute__((vector_size(LANES * 4)));
typedef uint16_t VH __attribute__((vector_size(LANES * 2)));

REGARD_INLINE V v_set(float x) {
#if LANES == 16
    return (V)_mm512_set1_ps(x);
#elif LANES == 8
    return (V)_mm256_set1_ps(x);
#else
    return (V){x, x, x, x};
#endif
}

REGARD_INLINE V v_load(const float *p) {
    V a;
    memcpy(&a, p, sizeof a);
    return a;
}

REGARD_INLINE void v_store(float *p, V a) { memcpy(p, &a, sizeof a); }

REGARD_INLINE V v_load_n(const float *p, int64_t n) {
    if (n >= LANES) return v_load(p);
#if LANES == 16
    return (V)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#else
    float lanes[LANES] = {0};
    for (int64_t i = 0; i < n; i++) lanes[i] = p[i];
    return v_load(lanes);
#endif
}

REGARD_INLINE void v_store_n(float *p, V a, int64_t n) {
    if (n >= LANES) {
        v_store(p, a);
        return;
    }
#if LANES == 16
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)a);
#else
    for (int64_t i = 0; i < n; i++) p[i] = a[i];
#endif
}

REGARD_INLINE V v_select(I m, V a, V b) { return (V)((m & (I)a) | (~m & (I)b)); }

REGARD_INLINE V v_min(V a, V b) {
#if LANES == 16
    return (V)_mm512_min_ps((__m512)a, (__m512)b);
#elif LANES == 8
    return (V)_mm256_min_ps((__m256)a, (__m256)b);
#else
    return v_select(a < b, a, b);
#endif
}

REGARD_INLINE V v_max(V a, V b) {
#if LANES == 16
    return (V)_mm512_max_ps((__m512)a, (__m512)b);
#elif LANES == 8
    return (V)_mm256_max_ps((__m256)a, (__m256)b);
#else
    return v_select(a > b, a, b);
#endif
}

REGARD_INLINE float v_sum(V a) {
#if LANES == 16
    return _mm512_reduce_add_ps((__m512)a);
#elif LANES == 8
    __m128 x = _mm_add_ps(_mm256_castps256_ps128((__m256)a), _mm256_extractf128_ps((__m256)a, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_shuffle_ps(x, x, 1)));
#else
    return (a[0] + a[2]) + (a[1] + a[3]);
#endif
}

REGARD_INLINE int v_above(V a, float x) {
#if LANES == 16
    return _mm512_cmp_ps_mask((__m512)a, _mm512_set1_ps(x), _CMP_GT_OQ) != 0;
#elif LANES == 8
    return _mm256_movemask_ps(_mm256_cmp_ps((__m256)a, _mm256_set1_ps(x), _CMP_GT_OQ)) != 0;
#else
    return a[0] > x || a[1] > x || a[2] > x || a[3] > x;
#endif
}

/* An estimate and Newton's step; AVX2's estimate has 12 bits, AVX-512's 14. */
REGARD_INLINE V v_rcp(V a) {
#if LANES == 16
    V r = (V)_mm512_rcp14_ps((__m512)a);
    return r * (2.0f - a * r);
#elif LANES == 8
    V r = (V)_mm256_rcp_ps((__m256)a);
    r = r + r * (1.0f - a * r);
    return r;
#else
    return 1.0f / a;
#endif
}

/* 2^n e^r with |r| <= ln 2 / 2; 2^n in two factors, so that both ends of the range come out. */
REGARD_INLINE V v_exp(V a) {
    const float round = 12582912.0f; /* 1.5 * 2^23 */
    a = v_max(v_min(a, v_set(89.0f)), v_set(-104.0f));
    V shifted = a * 1.44269504088896341f + round;
    V n = shifted - round;
    V r = a - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    V p = v_set(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    I whole = (I)shifted - 0x4B400000; /* the integer in the low bits of the shifted float */
    I half = whole >> 1;
    V first = (V)((half + 127) << 23), second = (V)((whole - half + 127) << 23);
    return p * first * second;
}

REGARD_INLINE V v_load_half(const uint16_t *p) {
    VH a;
    memcpy(&a, p, sizeof a);
    return (V)(__builtin_convertvector(a, VU) << 16);
}

REGARD_INLINE void v_store_half(uint16_t *p, V a) {
    const VU bits = (VU)a, rounded = bits + 0x7FFFu + ((bits >> 16) & 1u);
    const VU kept = (VU)v_select(a == a, (V)rounded, (V)(bits | 0x400000u));
    const VH out = __builtin_convertvector(kept >> 16, VH);
    memcpy(p, &out, sizeof out);
}

/* Wellons's mix of 32 bits, seeded before and in the middle. */
REGARD_INLINE VU v_mix(VU x, uint32_t low, uint32_t high) {
    x = x * 0x9E3779B1u + low;
    x ^= x >> 16;
    x *= 0x7FEB352Du;
    x ^= (x >> 15) ^ high;
    x *= 0x846CA68Bu;
    return x ^ (x >> 16);
}

/* Swap the two off-diagonal quarters of all blocks of 2, 4, ... rows and columns. */
REGARD_INLINE void v_turn(V *x) {
#if defined(__clang__)
    V was[LANES];
    memcpy(was, x, sizeof was);
    for (int k = 0; k < LANES; k++)
        for (int l = 0; l < LANES; l++) x[l][k] = was[k][l];
#else
#pragma GCC unroll 4
    for (int s = 1; s < LANES; s *= 2) {
        I low, high;
#pragma GCC unroll 16
        for (int l = 0; l < LANES; l++) {
            low[l] = l & s ? LANES + (l ^ s) : l;
            high[l] = l & s ? LANES + l : l ^ s;
        }
#pragma GCC unroll 16
        for (int k = 0; k < LANES; k++)
            if (!(k & s)) {
                const V a = x[k], b = x[k + s];
                x[k] = __builtin_shuffle(a, b, low);
                x[k + s] = __builtin_shuffle(a, b, high);
            }
    }
#endif
}

/* The number of each lane. */
REGARD_INLINE I v_lanes(void) {
#if LANES == 16
    return (I){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#elif LANES == 8
    return (I){0, 1, 2, 3, 4, 5, 6, 7};
#else
    return (I){0, 1, 2, 3};
#endif
}

/* n is a power of two, at most LANES: halves of pairs are added until one vector is left. */
REGARD_INLINE V v_sums(V *x, const int n) {
#if defined(__clang__)
    V sums;
    for (int l = 0; l < LANES; l++) sums[l] = v_sum(x[l % n]);
    return sums;
#else
    const I lane = v_lanes();
#define FOLD(s)                                                                                    \
    if (s < LANES) {                                                                               \
        const I other = ((lane & s) != 0) & LANES, low = (lane & ~s) + other, high = low + s;      \
        for (int k = 0; k < (n > s ? n / s / 2 : 1); k++) {                                        \
            const V a = x[2 * k], b = n > s ? x[2 * k + 1] : a;                                    \
            x[k] = __builtin_shuffle(a, b, low) + __builtin_shuffle(a, b, high);                   \
        }                                                                                          \
    }
    FOLD(1)
    FOLD(2)
    FOLD(4)
    FOLD(8)
#undef FOLD
    return x[0];
#endif
}

/* Of all x[k] the sums of the two halves side by side, then of the halves of these: v_sum's order. */
REGARD_INLINE V v_every_sum(V *x) {
#if defined(__clang__)
    V sums;
    for (int l = 0; l < LANES; l++) sums[l] = v_sum(x[l]);
    return sums;
#else
    const I lane = v_lanes();
#define FOLD(s)                                                                                    \
    if (s < LANES) {                                                                               \
        const I low = (lane & ~s) + (((lane & s) != 0) & LANES), high = low + s;                   \
        for (int k = 0; k < s; k++) {                                                              \
            const V a = x[k], b = x[k + s];                                                        \
            x[k] = __builtin_shuffle(a, b, low) + __builtin_shuffle(a, b, high);                   \
        }                                                                                          \
    }
    FOLD(8)
    FOLD(4)
    FOLD(2)
    FOLD(1)
#undef FOLD
    return x[0];
#endif
}
