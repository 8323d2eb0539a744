/* One step of a Transformer's decoder in one call: every layer, for every hypothesis.
 *
 * Weights are packed as int8_products.h has it. All else is float32.
 *
 * The cache is one block a step, (layers, 2, rows, inner), written once: a hypothesis finds its past
 * by the rows of its ancestors, so a beam that is re-ordered moves no keys. */
#include "best.h"
#include "int8_products.h"

typedef struct {
    const float *gamma, *beta;
} norm;

/* Relative positions of self-attention: vectors and a bias for each offset of a key and head. */
typedef struct {
    const float *keys;   /* (heads, size, columns): offsets side by side; NULL: none */
    const float *values; /* (heads, columns, size); NULL: none */
    const float *biases; /* (heads, columns), of scores that are not scaled yet; NULL: none */
} relative;

typedef struct {
    linear qkv, out, cross, cross_out, into, onto;
    norm norms[3];
    relative near;
} layer;

/* As Python lays it out: 64-bit words, floats as doubles. */
typedef struct {
    int64_t layers, dim, inner, heads, hidden, kind, pre, act, widest;
    int64_t clip, columns;  /* offsets -clip .. clip, and room for them: a multiple of 16 */
    int64_t before, behind; /* of a position, how many others self-attention looks at */
    double eps;
    linear output;
    norm last;
    layer layer[];
} model;

typedef struct {
    int64_t rows, width, past, source, stride, dim, words;
    const int32_t *ancestors; /* (rows, stride): the row of each step's block that a row comes from */
    const int64_t *starts; /* the block of each sentence's first step; NULL: 0 */
    const float *x; /* (rows, dim): embedded tokens with their positions */
    float *const *blocks;
    const int64_t *block_rows;
    const float *const *memories; /* (sentences, layers): keys and values, (keys, 2 inner) each */
    const int64_t *keys; /* how many each sentence's memories have */
    const int64_t *lengths; /* and how many of them are looked at */
    float *logits; /* (rows, words); NULL: not wanted */
    int64_t first, count; /* the `count` best ids from `first` up and their log-probabilities; */
    float *values;        /* NULL: not wanted */
    int64_t *ids;
    int64_t layers, heads;
    float *own_looks, *cross_looks; /* for watchers: (layers, rows, heads, past + 1 or source) */
} step_call;

typedef struct {
    int64_t sentences, source, layers, dim; /* layers: the decoder's */
    const float *x; /* (sentences, source, dim) */
    const int64_t *lengths;
    float *states;
    const linear *memory; /* keys and values side by side, of each decoder layer */
    float *const *memories; /* (sentences, source, 2 inner) */
    int64_t stacked, heads;
    float *looks; /* for watchers: (stacked, sentences, heads, source, source) */
} encode_call;

#define L(field) REGARD_FIELD(layer, field)
REGARD_API const int64_t regard_layout_transformer_layer[] = {
    sizeof(layer), L(qkv), L(out), L(cross), L(cross_out), L(into), L(onto), L(norms),
    L(near), -1};
#undef L
#define L(field) REGARD_FIELD(model, field)
REGARD_API const int64_t regard_layout_transformer_model[] = {
    sizeof(model), L(layers), L(dim), L(inner), L(heads), L(hidden), L(kind), L(pre), L(act),
    L(widest), L(clip), L(columns), L(before), L(behind), L(eps), L(output), L(last), -1};
#undef L
#define L(field) REGARD_FIELD(step_call, field)
REGARD_API const int64_t regard_layout_transformer_step[] = {
    sizeof(step_call), L(rows), L(width), L(past), L(source), L(stride), L(dim), L(words),
    L(ancestors), L(starts), L(x), L(blocks), L(block_rows), L(memories), L(keys), L(lengths), L(logits), L(first), L(count),
    L(values), L(ids), L(layers), L(heads), L(own_looks), L(cross_looks), -1};
#undef L
#define L(field) REGARD_FIELD(encode_call, field)
REGARD_API const int64_t regard_layout_transformer_encode[] = {
    sizeof(encode_call), L(sentences), L(source), L(layers), L(dim), L(x), L(lengths), L(states),
    L(memory), L(memories), L(stacked), L(heads), L(looks), -1};
#undef L

static int has(const linear *w, int64_t in, int64_t out) { return w->in == in && w->out == out; }

/* Whether a plan's products fit each other; `cross`: a decoder's. */
static int fits(const model *m, int cross) {
    const int64_t d = m->dim, n = m->inner;
    if (m->heads < 1 || n % m->heads || m->widest < 3 * n || m->widest < m->hidden) return 0;
    if (m->clip < 0 || m->columns < 0 || m->columns % 16 || m->before < 0 || m->behind < 0) return 0;
    for (int64_t i = 0; i < m->layers; i++) {
        const layer *l = m->layer + i;
        if (!has(&l->qkv, d, 3 * n) || !has(&l->out, n, d) || !has(&l->into, d, m->hidden) ||
            !has(&l->onto, m->hidden, d))
            return 0;
        if ((l->near.keys || l->near.values || l->near.biases) && m->columns <= 2 * m->clip) return 0;
        if (cross && (!has(&l->cross, d, n) || !has(&l->cross_out, n, d))) return 0;
    }
    return !cross || m->output.in == d;
}

typedef struct {
    const float **k, **v;
    float *x, *sub, *room, *wide, *looked, *scores, *offsets, *part;
    best_row *best;
    narrow_rows narrow;
} room_plan;

#define TEMPLATE "transformer.inc"
#include "levels.h"

static int64_t room(const model *m, int64_t rows, int64_t keys) {
    const int64_t floats = rows * (3 * m->dim + m->widest + m->inner) + m->heads * keys + m->columns +
                           64 + narrow_room(rows, m->widest);
    return (floats * 4 + keys * 16 + 127) / 64 * 64;
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

/* Threads share the rows. */
REGARD_API int regard_transformer_step(const void *plan, const void *call, int32_t threads) {
    const model *m = plan;
    const step_call *c = call;
    if (!fits(m, 1) || c->dim != m->dim || c->words != m->output.out || c->layers != m->layers ||
        c->heads != m->heads || c->width < 1 || c->rows % c->width || c->past < 0 ||
        c->stride <= c->past)
        return BAD_PLAN;
    if (c->rows < 1) return WELL;
    if (c->first < 0 || c->count < 0 || c->first > c->words || c->count > c->words - c->first ||
        !c->values != !c->ids)
        return BAD_PLAN;
    const int64_t sentences = c->rows / c->width;
    for (int64_t s = 0; s < sentences; s++)
        if (c->keys[s] > c->source || c->lengths[s] < 0 || c->lengths[s] > c->keys[s])
            return BAD_SPAN;
    if (c->starts && (c->own_looks || !regard_within(c->starts, sentences, 0, c->past + 1)))
        return BAD_SPAN;
    for (int64_t r = 0; r < c->rows; r++)
        for (int64_t j = c->starts ? c->starts[r / c->width] : 0; j <= c->past; j++) {
            const int32_t back = c->ancestors[r * c->stride + j];
            if (back < 0 || back >= c->block_rows[j]) return BAD_SPAN;
        }
    if (threads > c->rows) threads = (int32_t)c->rows;
    const int64_t keys = c->past + 1 > c->source ? c->past + 1 : c->source;
    const int64_t some = (c->rows + threads - 1) / threads;
    const int64_t parts_room = c->values ? some * (BEST_PART * 4 + (int64_t)sizeof(best_row)) : 0;
    const int64_t each = room(m, some, keys) + (parts_room + 127) / 64 * 64;
    char *work = regard_scratch((size_t)(each * threads));
    if (!work) return NO_MEMORY;
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
    if (!fits(m, 0) || c->dim != m->dim || c->stacked != m->layers || c->heads != m->heads)
        return BAD_PLAN;
    for (int64_t i = 0; i < c->layers; i++)
        if (!has(c->memory + i, m->dim, 2 * m->inner)) return BAD_PLAN;
    if (c->sentences < 1) return WELL;
    if (!regard_within(c->lengths, c->sentences, 0, c->source + 1)) return BAD_SPAN;
    if (threads > c->sentences) threads = (int32_t)c->sentences;
    const int64_t rows = c->source > TOGETHER ? c->source : TOGETHER;
    const int64_t each = room(m, rows, c->source);
    char *work = regard_scratch((size_t)(each * threads));
    if (!work) return NO_MEMORY;
    parts_call parts = {m, NULL, c, work, each, threads};
    regard_parallel(encode_parts, &parts, threads, threads);
    regard_release(work);
    return 0;
}
