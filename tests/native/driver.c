/* Kernels against slow forms in doubles, without Python: for machines that are emulated.
 *
 * Prints one line a check: its name and a number that is the same on every machine. Gives 1 where a
 * result is wrong. tests/repo/test_wheels.py builds it for aarch64 and runs it under qemu. */
#include "int8_products.h"

#include <stdio.h>

int regard_gemm(int64_t, int64_t, int64_t, const float *, int64_t, int64_t, const float *, int64_t,
                int64_t, const float *, float *, int64_t, int32_t, int32_t);
int regard_packed_product(const void *, int64_t, int64_t, const float *, float *);
int regard_dropout(int64_t, int32_t, float, int64_t, const void *, const void *, void *, int32_t,
                   int32_t, int32_t);
int regard_best(int64_t, int64_t, int64_t, int64_t, const float *, float *, int64_t *, int32_t);
int regard_entropy(int64_t, int64_t, void *, const int64_t *, float, float, float *, int32_t, int32_t,
                   int32_t);
int regard_fingerprint(int64_t, const int64_t *, const int64_t *, uint64_t *);

static int wrong;
static uint32_t state = 1;

static float number(void) { /* -1 .. 1, in steps that float32 and bfloat16 both hold */
    state = state * 1664525u + 1013904223u;
    return (float)((int32_t)(state >> 24) - 128) / 128.0f;
}

static void said(const char *name, double off, double limit, uint64_t same) {
    printf("%s %llu\n", name, (unsigned long long)same);
    if (off <= limit) return;
    printf("%s is off by %g\n", name, off);
    wrong = 1;
}

static double further(double most, double a, double b) {
    const double off = fabs(a - b);
    return off <= most ? most : off; /* NaN is taken */
}

static float *numbers(int64_t n) {
    float *x = regard_floats(n);
    for (int64_t i = 0; i < n; i++) x[i] = number();
    return x;
}

static void products(void) {
    enum { M = 29, K = 80, N = 77 };
    float *a = numbers(M * K), *b = numbers(K * N), *bias = numbers(N), *c = numbers(M * N);
    double off = regard_gemm(M, N, K, a, K, 1, b, N, 1, bias, c, N, 0, 3);
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++) {
            double sum = bias[n];
            for (int k = 0; k < K; k++) sum += (double)a[m * K + k] * b[k * N + n];
            off = further(off, sum, c[m * N + n]);
        }
    said("gemm", off, 1e-4, 0);
}

/* The panels of PANEL outputs, `together` inputs side by side, as native/packed_products.py has them. */
static void packed(int64_t kind, const char *name, double limit) {
    enum { ROWS = 14, IN = 64, OUT = 70, ALL = 96 };
    float *w = numbers(ALL * IN), *x = numbers(ROWS * IN), *y = numbers(ROWS * OUT), *scale = numbers(ALL);
    char *panels = regard_scratch(ALL * IN * 4);
    const int64_t together = kind == BFLOAT16 ? 2 : kind == INT8 ? 4 : 1;
    for (int64_t o = 0; o < ALL; o++) {
        scale[o] = 1.0f / 128.0f;
        for (int64_t i = 0; i < IN; i++) {
            const int64_t panel = o / PANEL * PANEL * IN;
            const int64_t at = panel + (i / together * PANEL + o % PANEL) * together + i % together;
            uint32_t bits;
            memcpy(&bits, &w[o * IN + i], 4);
            if (kind == FLOAT32) memcpy(panels + at * 4, &bits, 4);
            else if (kind == BFLOAT16) ((uint16_t *)panels)[at] = (uint16_t)(bits >> 16);
            else ((uint8_t *)panels)[at] = (uint8_t)((int)(w[o * IN + i] * 128.0f) + 128);
        }
    }
    const linear packed = {panels, kind == INT8 ? scale : NULL, NULL, IN, OUT};
    double off = regard_packed_product(&packed, kind, ROWS, x, y);
    for (int r = 0; r < ROWS; r++) {
        float top = 0;
        for (int i = 0; i < IN; i++) top = fabsf(x[r * IN + i]) > top ? fabsf(x[r * IN + i]) : top;
        for (int o = 0; o < OUT; o++) {
            double sum = 0;
            for (int i = 0; i < IN; i++) {
                const float scaled = x[r * IN + i] * (127.0f / top);
                const double as = kind == INT8 ? (double)rintf(scaled) * (top / 127.0f) : x[r * IN + i];
                sum += as * w[o * IN + i];
            }
            off = further(off, sum, y[r * OUT + o]);
        }
    }
    said(name, off, limit, 0);
}

static void dropped(void) {
    enum { N = 1000 };
    float *x = numbers(N), *y = numbers(N);
    uint64_t kept = 0;
    double off = regard_dropout(N, 16384, 2.0f, 77, x, NULL, y, 0, 0, 2);
    for (int i = 0; i < N; i++) {
        if (y[i] != 0) off = further(off, 2.0 * x[i], y[i]);
        kept = kept * 31 + (y[i] != 0);
    }
    said("dropout", off, 0, kept);
}

static void logits(void) {
    enum { ROWS = 5, SIZE = 103, COUNT = 4 };
    float *x = numbers(ROWS * SIZE), *values = numbers(ROWS * COUNT), *losses = numbers(ROWS);
    int64_t ids[ROWS * COUNT], gold[ROWS] = {0, 5, 102, 50, 7};
    uint64_t same = 0;
    double off = regard_best(ROWS, SIZE, 2, COUNT, x, values, ids, 1);
    double worst = regard_entropy(ROWS, SIZE, x, gold, 1.0f, 0.0f, losses, 0, 0, 1);
    for (int r = 0; r < ROWS; r++) {
        double sum = 0, before = INFINITY;
        for (int i = 0; i < SIZE; i++) sum += exp(x[r * SIZE + i]);
        for (int k = 0; k < COUNT; k++) {
            const double value = x[r * SIZE + ids[r * COUNT + k]] - log(sum);
            off = further(off, value, values[r * COUNT + k]);
            if (value > before) off = INFINITY;
            before = value;
        }
        for (int i = 2, above = 0; i < SIZE; i++)
            if ((above += x[r * SIZE + i] - log(sum) > before + 1e-6) >= COUNT) off = INFINITY;
        worst = further(worst, log(sum) - x[r * SIZE + gold[r]], losses[r]);
    }
    said("best", off, 1e-5, same);
    said("entropy", worst, 1e-5, 0);
}

static void printed(void) {
    float *x = numbers(333);
    const int64_t address = (int64_t)(intptr_t)x, bytes = 333 * 4;
    uint64_t found = 0;
    const double off = regard_fingerprint(1, &address, &bytes, &found);
    said("fingerprint", off, 0, found);
}

int main(void) {
    products();
    packed(FLOAT32, "float32", 1e-4);
    packed(BFLOAT16, "bfloat16", 1e-4);
    packed(INT8, "int8", 1e-4);
    dropped();
    logits();
    printed();
    return wrong;
}
