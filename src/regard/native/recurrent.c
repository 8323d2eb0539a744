/* One step of RNNsearch's decoder in one call: attention, gated unit, maxout and the words' scores;
 * and its encoder, two gated units from both ends, in another.
 *
 * A row is a hypothesis: [its state | the last word | what it looked at], each padded with zeros to a
 * multiple of 16, so that a product with several of them side by side is one product. Weights are
 * packed as int8_products.h has it, the attention is additive.c's. */
#include "attend.h"
#include "int8_products.h"

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
    int64_t rows, width, hidden, embed, words;
    const float *state;     /* (rows, hidden) */
    const int64_t *tokens;  /* (rows) */
    const float *embedding; /* (words, embed) */
    const additive_memory *memory;
    const float *v;
    double scale;
    float *new_state, *logits; /* (rows, hidden), (rows, words) */
    float *looks;              /* for watchers: (rows, keys) */
} step_call;

typedef struct {
    int64_t sentences, source, words, embed, hidden; /* words: of the vocabulary */
    const int64_t *tokens, *lengths, *order; /* (sentences, source); order: the longest first */
    const float *embedding;
    float *states, *final; /* (sentences, source, 2 hidden), zeros; (sentences, hidden) */
} read_call;

typedef struct {
    float *x, *query, *context; /* of all rows: (rows, row), (rows, align), (rows, context) */
    float *gates, *input, *touched, *wide, *t; /* of a part's rows */
    narrow_rows narrow;
} room_plan;

static int64_t word_at(const model *m) { return wide(m->hidden); }
static int64_t context_at(const model *m) { return word_at(m) + wide(m->embed); }
static int64_t row_of(const model *m) { return context_at(m) + wide(m->context); }
static int64_t widest(const model *m) { /* of what is multiplied */
    return row_of(m) > wide(m->maxout) ? row_of(m) : wide(m->maxout);
}

#define TEMPLATE "recurrent.inc"
#include "levels.h"

/* What a part needs for so many rows, in floats. */
static int64_t part_room(const model *m, int64_t rows) {
    const int64_t h = wide(m->hidden);
    return wide(rows * (7 * h + 2 * m->maxout + wide(m->maxout)) + 64 + narrow_room(rows, widest(m)));
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
        own.narrow = narrow_at(own.t + rows * wide(p->m->maxout), rows, widest(p->m));
        if (looked) REGARD_DISPATCH(after, (p->m, p->c, first, last, &own));
        else REGARD_DISPATCH(ahead, (p->m, p->c, first, last, &own));
    }
}

static void parts_ahead(void *context, int64_t begin, int64_t end) { each_part(context, begin, end, 0); }
static void parts_after(void *context, int64_t begin, int64_t end) { each_part(context, begin, end, 1); }

#define L(field) REGARD_FIELD(unit, field)
REGARD_API const int64_t regard_layout_recurrent_unit[] = {
    sizeof(unit), L(hidden), L(kind), L(before), L(keep), L(gates), L(candidate), -1};
#undef L
#define L(field) REGARD_FIELD(model, field)
REGARD_API const int64_t regard_layout_recurrent_model[] = {
    sizeof(model), L(embed), L(hidden), L(align), L(context), L(maxout), L(kind), L(query), L(input),
    L(readout), L(output), L(unit), -1};
#undef L
#define L(field) REGARD_FIELD(reader, field)
REGARD_API const int64_t regard_layout_recurrent_reader[] = {
    sizeof(reader), L(embed), L(input), L(unit), -1};
#undef L
#define L(field) REGARD_FIELD(step_call, field)
REGARD_API const int64_t regard_layout_recurrent_step[] = {
    sizeof(step_call), L(rows), L(width), L(hidden), L(embed), L(words), L(state), L(tokens), L(embedding), L(memory), L(v), L(scale),
    L(new_state), L(logits), L(looks), -1};
#undef L
#define L(field) REGARD_FIELD(read_call, field)
REGARD_API const int64_t regard_layout_recurrent_read[] = {
    sizeof(read_call), L(sentences), L(source), L(words), L(embed), L(hidden), L(tokens), L(lengths), L(order),
    L(embedding), L(states), L(final), -1};
#undef L

/* Whether a packed product has these sizes, outputs rounded up to `out` or not. */
static int has(const linear *w, int64_t in, int64_t out) { return w->in == in && w->out == out; }

static int unit_fits(const unit *u) {
    const int64_t h = wide(u->hidden);
    return has(&u->gates, h, (u->before ? 2 : 3) * h) && (!u->before || has(&u->candidate, h, h));
}

/* Whether a plan's products fit each other, and the memory that is looked at. */
static int fits(const model *m, const step_call *c) {
    const int64_t row = row_of(m), h = wide(m->hidden);
    return has(&m->query, h, m->align) && has(&m->input, row - h, 3 * h) &&
           has(&m->readout, row, 2 * m->maxout) && m->output.in == wide(m->maxout) &&
           m->unit.hidden == m->hidden && unit_fits(&m->unit) && c->memory->dim == m->align &&
           c->memory->value_dim == m->context && c->rows == c->memory->batch * c->width &&
           c->hidden == m->hidden && c->embed == m->embed && c->words == m->output.out;
}

/* Threads share the rows. */
REGARD_API int regard_recurrent_step(const void *plan, const void *call, int32_t threads) {
    const model *m = plan;
    const step_call *c = call;
    if (threads > c->rows) threads = (int32_t)c->rows;
    if (!fits(m, c)) return BAD_PLAN;
    if (threads < 1) return WELL;
    if (!regard_within(c->tokens, c->rows, 0, m->output.out)) return BAD_ID;
    const int64_t x = wide(c->rows * row_of(m)), query = wide(c->rows * m->align);
    const int64_t context = wide(c->rows * m->context);
    const int64_t each = part_room(m, (c->rows + threads - 1) / threads);
    float *work = regard_floats(x + query + context + each * threads);
    if (!work) return NO_MEMORY;
    room_plan all = {.x = work, .query = work + x, .context = work + x + query};
    parts_call parts = {m, c, all, work + x + query + context, each, threads};
    regard_parallel(parts_ahead, &parts, threads, threads);
    const additive_memory *y = c->memory;
    int failed = regard_additive_attend(
        all.query, y->key, y->key_batch, y->packed, y->packed_batch, c->v, y->value, y->value_batch,
        NULL, 0, 0, 0, y->lengths, (float)c->scale, all.context, c->looks, NULL, y->batch, c->width,
        y->keys, y->dim, y->value_dim, 1, threads);
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
    const int64_t widest = e > h ? e : h; /* and there are at least as many words as rows */
    const int64_t floats = words * (e + 3 * h) + rows * 5 * h + narrow_room(words, widest) + 64;
    float *work = regard_floats(floats);
    if (!work) {
        p->failed = 1;
        return;
    }
    room_plan room = {0};
    room.x = work, room.input = room.x + words * e, room.t = room.input + words * 3 * h;
    room.gates = room.t + rows * h, room.touched = room.gates + rows * 3 * h;
    room.narrow = narrow_at(room.touched + rows * h, words, widest);
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
            read_group(p, first, last, (int)(part % 2));
        }
    }
}

/* Threads share the directions, then the sentences. All lengths are 1 or more. */
REGARD_API int regard_recurrent_read(const void *plan, const void *call, int32_t threads) {
    const reader *m = plan;
    const read_call *c = call;
    const int64_t n = c->sentences, in = wide(m->embed), out = 3 * wide(m->unit[0].hidden);
    if (c->embed != m->embed || c->hidden != m->unit[0].hidden) return BAD_PLAN;
    for (int i = 0; i < 2; i++)
        if (m->unit[i].hidden != m->unit[0].hidden || !unit_fits(&m->unit[i]) ||
            !has(&m->input[i], in, out))
            return BAD_PLAN;
    if (n < 1) return WELL;
    if (!regard_within(c->lengths, n, 1, c->source + 1) || !regard_within(c->order, n, 0, n))
        return BAD_SPAN;
    for (int64_t i = 1; i < n; i++)
        if (c->lengths[c->order[i - 1]] < c->lengths[c->order[i]]) return BAD_SPAN;
    for (int64_t s = 0; s < n; s++) /* behind a length there may be anything */
        if (!regard_within(c->tokens + s * c->source, c->lengths[s], 0, c->words)) return BAD_ID;
    read_parts parts = {m, c, threads, 0};
    regard_parallel(read_some, &parts, 2 * ((threads + 1) / 2), threads);
    return parts.failed;
}
