/* Threads and scratch memory: what regard.h declares. */
#include "regard.h"

#include <pthread.h>

enum { MOST_THREADS = 64 };

typedef struct {
    regard_body body;
    void *context;
    int64_t begin, end;
} Part;

static void *run_part(void *argument) {
    Part *part = argument;
    part->body(part->context, part->begin, part->end);
    return NULL;
}

void regard_parallel(regard_body body, void *context, int64_t n, int threads) {
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    if (threads > n) threads = (int)n;
    if (threads <= 1) {
        if (n > 0) body(context, 0, n);
        return;
    }
    Part parts[MOST_THREADS];
    pthread_t started[MOST_THREADS];
    int runs[MOST_THREADS];
    for (int t = 0; t < threads; t++)
        parts[t] = (Part){body, context, n * t / threads, n * (t + 1) / threads};
    for (int t = 1; t < threads; t++)
        runs[t] = pthread_create(&started[t], NULL, run_part, &parts[t]) == 0;
    run_part(&parts[0]);
    for (int t = 1; t < threads; t++) {
        if (runs[t]) pthread_join(started[t], NULL);
        else run_part(&parts[t]); /* no thread to be had: do its part here */
    }
}

#if defined(_WIN32)
#include <malloc.h>

void *regard_scratch(size_t bytes) { return _aligned_malloc(bytes ? bytes : 64, 64); }

void regard_release(void *scratch) { _aligned_free(scratch); }
#else
void *regard_scratch(size_t bytes) {
    void *found = NULL;
    return posix_memalign(&found, 64, bytes ? bytes : 64) == 0 ? found : NULL;
}

void regard_release(void *scratch) { free(scratch); }
#endif

float *regard_floats(int64_t n) {
    const size_t most = SIZE_MAX / 2 / sizeof(float);
    return n < 0 || (size_t)n > most ? NULL : regard_scratch((size_t)n * sizeof(float));
}

int regard_within(const int64_t *x, int64_t n, int64_t low, int64_t high) {
    int64_t outside = 0; /* no branch a number: the compiler makes vectors of this */
    for (int64_t i = 0; i < n; i++) outside |= (int64_t)(x[i] < low) | (int64_t)(x[i] >= high);
    return !outside;
}

int regard_within32(const int32_t *x, int64_t n, int64_t low, int64_t high) {
    const int32_t from = low < INT32_MIN ? INT32_MIN : low > INT32_MAX ? INT32_MAX : (int32_t)low;
    const int32_t last = high > INT32_MAX ? INT32_MAX : (int32_t)(high - 1);
    int32_t outside = high <= low && n > 0;
    for (int64_t i = 0; i < n; i++) outside |= (int32_t)(x[i] < from) | (int32_t)(x[i] > last);
    return !outside;
}
