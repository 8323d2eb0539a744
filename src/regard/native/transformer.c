/* One step of a Transformer's decoder in one call: every layer, for every hypothesis.
 *
 * Weights are packed as products.h has it. All else is float32.
 *
 * The cache is one block a step, (layers, 2, rows, inner), written once: a hypothesis finds its past
 * by the rows of its ancestors, so a beam that is re-ordered moves no keys. */
#include "products.h"

typedef struct {
    const float *gamma, *beta;
} norm;

typedef struct {
    linear qkv, out, cross, cross_out, into, onto;
    norm norms[3];
} layer;

/* As Python lays it out: 64-bit words, floats as doubles. */
typedef struct {
    int64_t layers, dim, inner, heads, hidden, kind, pre, act, widest;
    double eps;
    linear output;
    norm last;
    layer layer[];
} model;

typedef struct {
    int64_t rows, width, past, source, stride;
    const float *x; /* (rows, dim): embedded tokens with their positions */
    float *const *blocks;
    const int64_t *block_rows;
    const int32_t *ancestors;
    const float *const *memories; /* (sentences, source, 2 inner): keys and values of each layer */
    const int64_t *lengths;
    float *logits;
    float *own_looks, *cross_looks; /* for watchers: (layers, rows, heads, past + 1 or source) */
} step_call;

typedef struct {
    int64_t sentences, source, layers;
    const float *x; /* (sentences, source, dim) */
    const int64_t *lengths;
    float *states;
    const linear *memory; /* keys and values side by side, of each decoder layer */
    float *const *memories; /* (sentences, source, 2 inner) */
    float *looks; /* for watchers: (layers, sentences, heads, source, source) */
} encode_call;

typedef struct {
    const float **k, **v;
    float *x, *sub, *room, *wide, *looked, *scores;
    narrow_rows narrow;
} room_plan;

#define TEMPLATE "transformer.inc"
#include "levels.h"

static int64_t room(const model *m, int64_t rows, int64_t keys) {
    const int64_t floats = rows * (3 * m->dim + m->widest + m->inner + 2) + m->heads * keys + 64;
    return (floats * 4 + keys * 16 + rows * m->widest + 127) / 64 * 64;
}

typedef struct {
    const model *m;
    const step_call *step;
    const encode_call *encode;
    char *work;
    int64_t each, parts;
} parts_call;

static void step_parts(void *context, int64_t begin, int64_t end) {
    const parts_call *p = context;
    for (int64_t part = begin; part < end; part++) {
        const int64_t first = p->step->rows * part / p->parts;
        const int64_t last = p->step->rows * (part + 1) / p->parts;
        if (first < last)
            REGARD_DISPATCH(step_rows, (p->m, p->step, first, last, p->work + part * p->each));
    }
}

/* Threads share the rows. 1: no memory; 2: packed for other instructions than those in force. */
REGARD_API int regard_transformer_step(const void *plan, const void *call, int32_t threads) {
    const model *m = plan;
    const step_call *c = call;
    if (m->kind == VNNI && !regard_vnni()) return 2;
    if (threads > c->rows) threads = (int32_t)c->rows;
    const int64_t keys = c->past + 1 > c->source ? c->past + 1 : c->source;
    const int64_t each = room(m, (c->rows + threads - 1) / threads, keys);
    char *work = regard_scratch((size_t)(each * threads));
    if (!work) return 1;
    parts_call parts = {m, c, NULL, work, each, threads};
    regard_parallel(step_parts, &parts, threads, threads);
    regard_release(work);
    return 0;
}

#define TOGETHER 256 /* rows that go through the encoder's layers together */

/* Sentences begin .. end, a few at a time. */
static void encode_some(const parts_call *p, int64_t begin, int64_t end, char *work) {
    const encode_call *c = p->encode;
    for (int64_t first = begin, last; first < end; first = last) {
        int64_t rows = c->lengths[first];
        for (last = first + 1; last < end && rows + c->lengths[last] <= TOGETHER; last++)
            rows += c->lengths[last];
        REGARD_DISPATCH(encode_rows, (p->m, c, first, last, work));
    }
}

static void encode_parts(void *context, int64_t begin, int64_t end) {
    const parts_call *p = context;
    for (int64_t part = begin; part < end; part++)
        encode_some(p, p->encode->sentences * part / p->parts,
                    p->encode->sentences * (part + 1) / p->parts, p->work + part * p->each);
}

/* Threads share the sentences. */
REGARD_API int regard_transformer_encode(const void *plan, const void *call, int32_t threads) {
    const model *m = plan;
    const encode_call *c = call;
    if (m->kind == VNNI && !regard_vnni()) return 2;
    if (threads > c->sentences) threads = (int32_t)c->sentences;
    const int64_t rows = c->source > TOGETHER ? c->source : TOGETHER;
    const int64_t each = room(m, rows, c->source);
    char *work = regard_scratch((size_t)(each * threads));
    if (!work) return 1;
    parts_call parts = {m, NULL, c, work, each, threads};
    regard_parallel(encode_parts, &parts, threads, threads);
    regard_release(work);
    return 0;
}
