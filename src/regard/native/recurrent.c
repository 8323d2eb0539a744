/* One step of RNNsearch's decoder in one call: attention, gated unit, maxout and the words' scores;
 * and its encoder, two gated units from both ends, in another.
 *
 * A row is a hypothesis: [its state | the last word | what it looked at], each padded with zeros to a
 * multiple of 16, so that a product with several of them side by side is one product. Weights are
 * packed as products.h has it, the attention is additive.c's. */
#include "products.h"

/* As Python lays it out: 64-bit words. Sizes are the model's own; `wide` of one is its padded size. */
typedef struct {
    int64_t hidden, kind, before, keep;
    linear gates, candidate;
} unit;

typedef struct {
    int64_t embed, hidden, align, context, maxout, kind;
    linear query, input, readout, output;
    unit unit;
} model;

typedef struct {
    int64_t embed;
    linear input[2];
    unit unit[2];
} reader;

typedef struct {
    int64_t rows, width;
    const float *state;     /* (rows, hidden) */
    const int64_t *tokens;  /* (rows) */
    const float *embedding; /* (words, embed) */
    const int64_t *memory;  /* see regard_additive_step */
    const float *v;
    double scale;
    float *new_state, *logits; /* (rows, hidden), (rows, words) */
    float *looks;              /* for watchers: (rows, keys) */
} step_call;

typedef struct {
    int64_t sentences, source;
    const int64_t *tokens, *lengths, *order; /* (sentences, source); order: the longest first */
    const float *embedding;
    float *states, *final; /* (sentences, source, 2 hidden), zeros; (sentences, hidden) */
} read_call;

typedef struct {
    float *x, *query, *context; /* of all rows: (rows, row), (rows, align), (rows, context) */
    float *gates, *input, *touched, *wide, *t; /* of a part's rows */
    narrow_rows narrow;
} room_plan;

static int64_t wide(int64_t n) { return (n + 15) / 16 * 16; }
static int64_t word_at(const model *m) { return wide(m->hidden); }
static int64_t context_at(const model *m) { return word_at(m) + wide(m->embed); }
static int64_t row_of(const model *m) { return context_at(m) + wide(m->context); }

#define TEMPLATE "recurrent.inc"
#include "levels.h"

int regard_additive_attend(
    const float *query, const float *key, int64_t key_batch, const float *packed,
    int64_t packed_batch, const float *v, const float *value, int64_t value_batch,
    const uint8_t *mask, int64_t mask_batch, int64_t mask_query, int64_t mask_key,
    const int64_t *lengths, float scale, float *context, float *weights, float *lse,
    int64_t batch, int64_t queries, int64_t keys, int64_t dim, int64_t value_dim, int64_t heads,
    int32_t threads);

/* What a part needs for so many rows, in floats. */
static int64_t part_room(const model *m, int64_t rows) {
    const int64_t h = wide(m->hidden), bytes = row_of(m) > wide(m->maxout) ? row_of(m) : wide(m->maxout);
    return wide(rows * (7 * h + 2 * m->maxout + wide(m->maxout) + 2 + bytes / 4 + 4) + 64);
}

typedef struct {
    const model *m;
    const step_call *c;
    room_plan all;
    float *work;
    int64_t each, parts;
} parts_call;

static void each_part(void *context, int64_t begin, int64_t end, int looked) {
    const parts_call *p = context;
    for (int64_t part = begin; part < end; part++) {
        const int64_t first = p->c->rows * part / p->parts, last = p->c->rows * (part + 1) / p->parts;
        if (first == last) continue;
        room_plan own = p->all;
        const int64_t rows = last - first, h = wide(p->m->hidden);
        own.gates = p->work + part * p->each, own.input = own.gates + rows * 3 * h;
        own.touched = own.input + rows * 3 * h, own.wide = own.touched + rows * h;
        own.t = own.wide + rows * 2 * p->m->maxout;
        own.narrow.steps = own.t + rows * wide(p->m->maxout);
        own.narrow.sums = (int32_t *)(own.narrow.steps + rows);
        own.narrow.bytes = (int8_t *)(own.narrow.sums + rows);
        if (looked) REGARD_DISPATCH(after, (p->m, p->c, first, last, &own));
        else REGARD_DISPATCH(ahead, (p->m, p->c, first, last, &own));
    }
}

static void parts_ahead(void *context, int64_t begin, int64_t end) { each_part(context, begin, end, 0); }
static void parts_after(void *context, int64_t begin, int64_t end) { each_part(context, begin, end, 1); }

/* Threads share the rows. 1: no memory; 2: packed for other instructions than those in force; 3: a
 * token that is not in the vocabulary. */
REGARD_API int regard_recurrent_step(const void *plan, const void *call, int32_t threads) {
    const model *m = plan;
    const step_call *c = call;
    if (m->kind == VNNI && !regard_vnni()) return 2;
    if (threads > c->rows) threads = (int32_t)c->rows;
    if (threads < 1) return 0;
    for (int64_t r = 0; r < c->rows; r++)
        if (c->tokens[r] < 0 || c->tokens[r] >= m->output.out) return 3;
    const int64_t x = wide(c->rows * row_of(m)), query = wide(c->rows * m->align);
    const int64_t context = wide(c->rows * m->context);
    const int64_t each = part_room(m, (c->rows + threads - 1) / threads);
    float *work = regard_scratch(sizeof(float) * (size_t)(x + query + context + each * threads));
    if (!work) return 1;
    room_plan all = {work, work + x, work + x + query};
    parts_call parts = {m, c, all, work + x + query + context, each, threads};
    regard_parallel(parts_ahead, &parts, threads, threads);
    const int64_t *at = c->memory;
    int failed = regard_additive_attend(
        all.query, (const float *)at[0], at[1], (const float *)at[2], at[3], c->v,
        (const float *)at[4], at[5], NULL, 0, 0, 0, (const int64_t *)at[6], (float)c->scale,
        all.context, c->looks, NULL, at[7], c->width, at[8], at[9], at[10], 1, threads);
    if (!failed) regard_parallel(parts_after, &parts, threads, threads);
    regard_release(work);
    return failed;
}

enum { TOGETHER = 2048 }; /* words whose inputs are multiplied at once */

typedef struct {
    const reader *m;
    const read_call *c;
    int64_t threads;
    int failed;
} read_parts;

/* A direction of a group of sentences, in memory of its own. */
static void read_group(read_parts *p, int64_t first, int64_t last, int back) {
    const reader *m = p->m;
    const int64_t rows = last - first, h = wide(m->unit[back].hidden), e = wide(m->embed);
    int64_t words = 0;
    for (int64_t s = first; s < last; s++) words += p->c->lengths[p->c->order[s]];
    const int64_t bytes = words * e > rows * h ? words * e : rows * h;
    const int64_t floats = words * (e + 3 * h + 2) + rows * 5 * h + bytes / 4 + 64;
    float *work = regard_scratch(sizeof(float) * (size_t)floats);
    if (!work) {
        p->failed = 1;
        return;
    }
    room_plan room = {0};
    room.x = work, room.input = room.x + words * e, room.t = room.input + words * 3 * h;
    room.gates = room.t + rows * h, room.touched = room.gates + rows * 3 * h;
    room.narrow.steps = room.touched + rows * h;
    room.narrow.sums = (int32_t *)(room.narrow.steps + words);
    room.narrow.bytes = (int8_t *)(room.narrow.sums + words);
    REGARD_DISPATCH(read, (m, p->c, first, last, back, &room));
    regard_release(work);
}

static void read_some(void *context, int64_t begin, int64_t end) {
    read_parts *p = context;
    const read_call *c = p->c;
    for (int64_t part = begin; part < end; part++) {
        const int64_t share = part / 2, shares = (p->threads + 1) / 2;
        const int64_t from = c->sentences * share / shares, to = c->sentences * (share + 1) / shares;
        for (int64_t first = from, last; first < to; first = last) {
            int64_t words = c->lengths[c->order[first]];
            for (last = first + 1; last < to; last++) {
                words += c->lengths[c->order[last]];
                if (words > TOGETHER) break;
            }
            read_group(p, first, last, part % 2);
        }
    }
}

/* Threads share the directions, then the sentences. All lengths are 1 or more. */
REGARD_API int regard_recurrent_read(const void *plan, const void *call, int32_t threads) {
    const reader *m = plan;
    const read_call *c = call;
    if (m->unit[0].kind == VNNI && !regard_vnni()) return 2;
    if (c->sentences < 1) return 0;
    read_parts parts = {m, c, threads, 0};
    regard_parallel(read_some, &parts, 2 * ((threads + 1) / 2), threads);
    return parts.failed;
}
