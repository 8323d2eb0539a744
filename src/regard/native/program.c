/* One step of a decoder, or an encoder, that was recorded: a list of instructions, see program.h.
 *
 * Every row is computed as if it were alone, so what comes out for a sentence does not depend on its
 * batch. Threads share the sentences. A program may come from anywhere: what it would read and write
 * is compared with the sizes of its slots at every call, before anything is touched. */
#include "program.h"

#define TEMPLATE "program.inc"
#include "levels.h"

#define L(field) REGARD_FIELD(slot, field)
REGARD_API const int64_t regard_layout_program_slot[] = {
    sizeof(slot), L(space), L(width), L(integers), L(compact), L(times), -1};
#undef L
#define L(field) REGARD_FIELD(operand, field)
REGARD_API const int64_t regard_layout_program_operand[] = {
    sizeof(operand), L(slot), L(offset), L(by_step), L(stride), -1};
#undef L
#define L(field) REGARD_FIELD(instruction, field)
REGARD_API const int64_t regard_layout_program_instruction[] = {
    sizeof(instruction), L(op), L(kind), L(n), L(m), L(k), L(heads), L(before), L(columns),
    L(key_at), L(value_at), L(y), L(z), L(a), L(b), L(c),
    L(memory), L(w), L(w2), L(x), -1};
#undef L
#define L(field) REGARD_FIELD(program, field)
REGARD_API const int64_t regard_layout_program[] = {
    sizeof(program), L(instructions), L(slots), L(kind), L(output), L(code), L(slot), -1};
#undef L
#define L(field) REGARD_FIELD(program_call, field)
REGARD_API const int64_t regard_layout_program_call[] = {
    sizeof(program_call), L(sentences), L(width), L(step), L(keys), L(words), L(slots), L(past),
    L(block_width), L(blocks), L(block_rows), L(ancestors), L(starts), L(at), L(apart), L(size), L(work),
    L(room), L(texts), L(spans), L(first), L(count),
    L(values), L(ids), -1};
#undef L

static const int64_t MOST = (int64_t)1 << 40; /* no size is larger, so sums of a few do not overflow */

static int sane(int64_t n) { return n >= 0 && n < MOST; }

/* The items of a slot's row that may be touched; behind a row of the work space there are zeros. */
static int64_t items(const program *p, const program_call *c, int64_t s, int padded) {
    if (c->at[s]) return c->size[s];
    const slot *own = p->slot + s;
    return padded && !own->integers ? room_of(c, own) : width_of(c, own);
}

static int is_slot(const program *p, int64_t s, int integers) {
    return s >= 0 && s < p->slots && p->slot[s].integers == integers;
}

/* Whether m blocks of n items, k apart, lie within an operand's row. */
static int blocks(const program *p, const program_call *c, const operand *o, int64_t m, int64_t k,
                  int64_t n, int padded) {
    if (!is_slot(p, o->slot, 0) || !sane(o->stride) || !sane(k) || m < 1 || n < 1) return 0;
    if (m > MOST / (k + 1) || n > MOST / (o->stride + 1)) return 0;
    if (!sane(o->offset) || !sane(o->by_step) || o->by_step > MOST / (c->step + 1)) return 0;
    const int64_t last = o->offset + o->by_step * c->step + (m - 1) * k + (n - 1) * o->stride;
    return last < items(p, c, o->slot, padded);
}
static int row(const program *p, const program_call *c, const operand *o, int64_t n) {
    return o->stride == 1 && blocks(p, c, o, 1, 0, n, 0);
}
static int strided(const program *p, const program_call *c, const operand *o, int64_t n) {
    return blocks(p, c, o, 1, 0, n, 0);
}
/* A row that is written: of the work space or an output, and of every hypothesis or sentence. */
static int written(const program *p, const program_call *c, const operand *o, int64_t n) {
    return row(p, c, o, n) && !o->by_step && p->slot[o->slot].space != CONSTANT;
}
/* Integers a row. */
static int ids(const program *p, const program_call *c, const operand *o, int64_t n) {
    return is_slot(p, o->slot, 1) && p->slot[o->slot].space == PER_ROW && sane(o->offset) && n > 0 &&
           n < MOST && o->offset + n <= items(p, c, o->slot, 0);
}
/* An integer of each hypothesis or sentence, or of a table for all. */
static int whole(const program *p, const program_call *c, const operand *o, int64_t space) {
    if (!is_slot(p, o->slot, 1) || !sane(o->offset) || o->offset >= items(p, c, o->slot, 0)) return 0;
    const int64_t own = p->slot[o->slot].space;
    return (own == PER_ROW || c->at[o->slot]) && (space < 0 ? own != CONSTANT : own == space);
}
/* A product's row: zeros may stand behind it up to a multiple of 16. */
static int multiplied(const program *p, const program_call *c, const operand *o, const linear *w) {
    return o->stride == 1 && w->in > 0 && w->in % 16 == 0 && !o->by_step &&
           blocks(p, c, o, 1, 0, w->in, 1);
}
static int has(const linear *w, int64_t in, int64_t out) { return w->in == in && w->out == out; }

/* One of a memory's slots: n floats of each sentence or hypothesis. */
static int held(const program *p, const program_call *c, int64_t s, int64_t space, int64_t n) {
    return is_slot(p, s, 0) && p->slot[s].space == space && sane(n) && n <= items(p, c, s, 0);
}
static int compact(const program *p, const program_call *c, const operand *o, int64_t n) {
    if (!row(p, c, o, n) || o->offset || o->by_step || p->slot[o->slot].space != PER_ROW) return 0;
    return n == (c->at[o->slot] ? c->apart[o->slot] : room_of(c, p->slot + o->slot));
}

/* Of a memory: how many keys of each sentence are looked at. */
static int lengths_fit(const program *p, const program_call *c, int64_t s) {
    return s < 0 || (is_slot(p, s, 1) && p->slot[s].space == PER_SENTENCE && c->at[s] && c->apart[s] == 1 &&
                     c->size[s] == 1);
}

static int memory_fits(const program *p, const program_call *c, const instruction *i) {
    const int64_t keys = c->keys, *own = i->memory;
    const int64_t most = (int64_t)1 << 20; /* so that their product can be counted */
    if (i->n < 1 || i->m < 1 || i->heads < 1) return 0;
    if (i->n > most || i->m > most || i->heads > most >> 8 || keys > most) return 0;
    if (!held(p, c, own[KEYS], PER_SENTENCE, i->heads * keys * i->n)) return 0;
    if (!held(p, c, own[VALUES], PER_SENTENCE, i->heads * keys * i->m)) return 0;
    if (!lengths_fit(p, c, own[LENGTHS])) return 0;
    return own[WEIGHTS] < 0 || held(p, c, own[WEIGHTS], PER_ROW, i->heads * keys);
}

/* A cache: heads of n floats a key, so far from the beginning of a block's row. */
static int cached(const program_call *c, int64_t at, int64_t heads, int64_t n) {
    return sane(at) && at + heads * n <= c->block_width;
}

/* A table of vectors that belong to distances. */
static int by_distance(const program *p, const program_call *c, int64_t s, const instruction *i, int64_t n) {
    return s < 0 || (i->columns > 0 && i->columns <= LONGEST_TABLE &&
                     held(p, c, s, CONSTANT, i->heads * i->columns * n));
}

static int looks_back(const program *p, const program_call *c, const instruction *i) {
    const int64_t most = (int64_t)1 << 20, *own = i->memory; /* so that their product can be counted */
    if (i->n < 1 || i->n > most || i->m < 1 || i->m > most || i->heads < 1 || i->heads > most >> 8) return 0;
    if (c->past < 1 || c->past > most || i->before < -1 || i->before > most) return 0;
    if (i->op == APPEND)
        return row(p, c, &i->a, i->heads * i->n) && cached(c, i->key_at, i->heads, i->n);
    return cached(c, i->key_at, i->heads, i->n) && cached(c, i->value_at, i->heads, i->m) &&
           row(p, c, &i->a, i->heads * i->n) && written(p, c, &i->y, i->heads * i->m) &&
           (own[WEIGHTS] < 0 || held(p, c, own[WEIGHTS], PER_ROW, i->heads * c->past)) &&
           i->columns >= 0 && i->columns <= LONGEST_TABLE && by_distance(p, c, own[PACKED], i, i->n) &&
           by_distance(p, c, own[STATE], i, i->m) &&
           (!(i->kind & PAST_BIASED) || (i->columns > 0 && row(p, c, &i->c, i->heads * i->columns) &&
                                             p->slot[i->c.slot].space == CONSTANT));
}

/* Attention of the words of each text to each other; KEYS are biases of distances. */
static int looks_around(const program *p, const program_call *c, const instruction *i) {
    const int64_t most = (int64_t)1 << 20, *own = i->memory;
    if (!c->spans || i->n < 1 || i->n > most || i->m < 1 || i->m > most) return 0;
    if (i->heads < 1 || i->heads > most >> 8 || c->keys > most) return 0;
    if (i->before < -1 || i->before > most || i->k < -1 || i->k > most) return 0;
    if (i->columns < 0 || i->columns > LONGEST_TABLE || (i->columns && i->columns % 2 == 0)) return 0;
    const operand *rows[] = {&i->a, &i->b, &i->c};
    for (int k = 0; k < 3; k++)
        if (!row(p, c, rows[k], i->heads * (k < 2 ? i->n : i->m)) || p->slot[rows[k]->slot].space != PER_ROW ||
            rows[k]->by_step)
            return 0;
    return written(p, c, &i->y, i->heads * i->m) && p->slot[i->y.slot].space == PER_ROW &&
           (own[WEIGHTS] < 0 || held(p, c, own[WEIGHTS], PER_ROW, i->heads * c->keys)) &&
           by_distance(p, c, own[PACKED], i, i->n) && by_distance(p, c, own[STATE], i, i->m) &&
           (!(i->kind & PAST_BIASED) || (own[KEYS] >= 0 && by_distance(p, c, own[KEYS], i, 1)));
}

/* One part of an attention over the source: all have their weights, a float for each key. */
static int attends_in_part(const program *p, const program_call *c, const instruction *i) {
    const int64_t *own = i->memory;
    const int64_t most = (int64_t)1 << 20;
    if (i->n < 1 || i->n > most || i->m < 1 || i->m > most || c->keys > most) return 0;
    if (!held(p, c, own[WEIGHTS], PER_ROW, c->keys) || !lengths_fit(p, c, own[LENGTHS])) return 0;
    switch (i->op) {
    case SCORE_DOT: return row(p, c, &i->a, i->n) && held(p, c, own[KEYS], PER_SENTENCE, c->keys * i->n);
    case SCORE_PLACES: return row(p, c, &i->a, i->n);
    case SCORE_LOCATED:
        if (!row(p, c, &i->a, i->n) || !row(p, c, &i->b, i->n) || p->slot[i->b.slot].space != CONSTANT) return 0;
        if (c->starts && i->b.by_step) return 0;
        if (!held(p, c, own[KEYS], PER_SENTENCE, c->keys * i->n)) return 0;
        return i->k == 0 ||
               (i->k > 0 && i->k <= MOST_FILTERS && i->columns > 0 && i->columns <= most &&
                held(p, c, own[STATE], PER_ROW, c->keys) && held(p, c, own[PACKED], CONSTANT, i->k * i->columns) &&
                held(p, c, own[NEW_STATE], CONSTANT, i->k * i->n));
    case LOWER_AGAIN:
        return held(p, c, own[STATE], PER_ROW, c->keys) && held(p, c, own[NEW_STATE], PER_ROW, c->keys);
    case SELECT:
        return i->kind >= SELECT_ALL && i->kind <= SELECT_BEST && sane(i->k) && i->before >= 0 &&
               i->before <= most && (i->kind != SELECT_BEST || i->k > 0) && (i->kind != SELECT_PREDICTED || row(p, c, &i->a, 1));
    default: return held(p, c, own[VALUES], PER_SENTENCE, c->keys * i->m) && written(p, c, &i->y, i->m);
    }
}

/* A slot of the work space with n floats a hypothesis, and zeros behind what it holds. */
static int scratch(const program *p, const program_call *c, int64_t s, int64_t n) {
    return is_slot(p, s, 0) && p->slot[s].space == PER_ROW && !c->at[s] && room_of(c, p->slot + s) == n;
}

/* Experts of m hidden units: their weights lie behind each other, each in whole panels. */
static int mixes(const program *p, const program_call *c, const instruction *i) {
    const int64_t most = (int64_t)1 << 20, *own = i->memory;
    if (i->n < 1 || i->n > most || i->m < 1 || i->m > most || i->heads < 1 || i->heads > most) return 0;
    const int64_t out = (i->n + PANEL - 1) / PANEL * PANEL;
    return i->k > 0 && i->k <= i->heads && i->m % PANEL == 0 && has(&i->w, wide(i->n), i->heads * i->m) &&
           has(&i->w2, i->m, i->heads * out) && row(p, c, &i->a, i->n) && row(p, c, &i->b, i->heads) &&
           scratch(p, c, own[KEYS], i->w.in) && scratch(p, c, own[PACKED], i->m) &&
           scratch(p, c, own[VALUES], out) && scratch(p, c, own[STATE], wide(i->heads));
}

static int attends(const program *p, const program_call *c, const instruction *i) {
    const int64_t keys = c->keys, *own = i->memory;
    if (!memory_fits(p, c, i)) return 0;
    if (i->op == ATTEND_DOT)
        return row(p, c, &i->a, i->heads * i->n) && written(p, c, &i->y, i->heads * i->m);
    if (i->heads != 1 || !row(p, c, &i->b, i->n) || (c->starts && i->b.by_step)) return 0;
    if (i->op == ATTEND_COVERED)
        return row(p, c, &i->a, i->n) && row(p, c, &i->c, i->n) && written(p, c, &i->y, i->m) &&
               own[WEIGHTS] >= 0 && held(p, c, own[STATE], PER_ROW, keys) &&
               held(p, c, own[NEW_STATE], PER_ROW, keys);
    const int64_t wide_key = (i->n + 31) / 32 * 32 + 16; /* of a packed key, see additive.h */
    if (own[PACKED] >= 0 && !held(p, c, own[PACKED], PER_SENTENCE, keys * wide_key)) return 0;
    if (own[WEIGHTS] >= 0 && (c->at[own[WEIGHTS]] ? c->apart[own[WEIGHTS]] : room_of(c, p->slot + own[WEIGHTS])) != keys)
        return 0;
    return compact(p, c, &i->a, i->n) && compact(p, c, &i->y, i->m);
}

/* Whether an instruction stays within its slots. */
static int instruction_fits(const program *p, const program_call *c, const instruction *i) {
    const int64_t n = i->n, h = wide(n > 0 && n < MOST ? n : 0);
    const int64_t space = is_slot(p, i->y.slot, 0) ? p->slot[i->y.slot].space : PER_ROW;
    switch (i->op) {
    case GATHER:
        return written(p, c, &i->y, n) && space == PER_ROW && ids(p, c, &i->a, 1) && row(p, c, &i->b, n) &&
               !i->b.offset && !i->b.by_step && p->slot[i->b.slot].space == CONSTANT;
    case COPY:
        return n > 0 && i->m > 0 && n < MOST / i->m && written(p, c, &i->y, i->m * n) &&
               blocks(p, c, &i->a, i->m, i->k, n, 0);
    case LINEAR:
        return written(p, c, &i->y, n) && multiplied(p, c, &i->a, &i->w) && i->w.out == n &&
               p->slot[i->a.slot].space == space;
    case BINARY:
        return written(p, c, &i->y, n) && strided(p, c, &i->a, n) && strided(p, c, &i->b, n);
    case UNARY: return written(p, c, &i->y, n) && strided(p, c, &i->a, n);
    case GLU: return written(p, c, &i->y, n) && space == PER_ROW && row(p, c, &i->a, n) && row(p, c, &i->b, n);
    case NORM:
        return written(p, c, &i->y, n) && row(p, c, &i->a, n) && row(p, c, &i->b, n) && row(p, c, &i->c, n);
    case LOG_SOFTMAX: return written(p, c, &i->y, n) && space == PER_ROW && row(p, c, &i->a, n);
    case LSTM:
        return n > 0 && n < MOST / 4 && written(p, c, &i->y, n) && written(p, c, &i->z, n) && space == PER_ROW &&
               p->slot[i->z.slot].space == PER_ROW && row(p, c, &i->a, 4 * n) && row(p, c, &i->b, n);
    case GRU: {
        const int64_t before = i->kind & GRU_BEFORE;
        return n > 0 && n < MOST / 4 && written(p, c, &i->y, n) && space == PER_ROW && row(p, c, &i->b, 3 * n) &&
               multiplied(p, c, &i->a, &i->w) && p->slot[i->a.slot].space == PER_ROW &&
               has(&i->w, h, (before ? 2 : 3) * h) && (!before || has(&i->w2, h, h)) &&
               (!(i->kind & GRU_INSIDE) || row(p, c, &i->c, n)) &&
               held(p, c, i->memory[KEYS], PER_ROW, 3 * h) && !c->at[i->memory[KEYS]] &&
               held(p, c, i->memory[PACKED], PER_ROW, h) && !c->at[i->memory[PACKED]];
    }
    case MIXTURE:
        return n > 0 && n <= c->words && c->words < MOST && written(p, c, &i->y, c->words) && space == PER_ROW &&
               row(p, c, &i->a, n) && row(p, c, &i->b, 1) && held(p, c, i->memory[WEIGHTS], PER_ROW, c->keys) &&
               is_slot(p, i->memory[STATE], 1) && p->slot[i->memory[STATE]].space == PER_SENTENCE &&
               c->keys <= items(p, c, i->memory[STATE], 0) && c->at[i->memory[STATE]];
    case EXPERTS: return written(p, c, &i->y, n) && space == PER_ROW && mixes(p, c, i);
    case COMPARE: return ids(p, c, &i->y, 1) && ids(p, c, &i->a, 1) && !c->at[i->y.slot];
    case FILL: return ids(p, c, &i->y, 1) && ids(p, c, &i->a, 1) && ids(p, c, &i->b, 1);
    case WHOLE:
        return ids(p, c, &i->y, 1) && whole(p, c, &i->a, -1) && (i->m == 0 || whole(p, c, &i->b, -1));
    case LOOKUP: return ids(p, c, &i->y, 1) && ids(p, c, &i->a, 1) && whole(p, c, &i->b, CONSTANT);
    case CHOOSE: return ids(p, c, &i->y, 1) && ids(p, c, &i->a, 1) && ids(p, c, &i->b, 1) && ids(p, c, &i->c, 1);
    case TAKE:
        return n > 0 && n < MOST / (c->keys + 1) && written(p, c, &i->y, n) && space == PER_ROW &&
               ids(p, c, &i->a, 1) && held(p, c, i->memory[VALUES], PER_SENTENCE, c->keys * n);
    case TAKE_ID: return ids(p, c, &i->y, 1) && ids(p, c, &i->a, 1) && whole(p, c, &i->b, PER_SENTENCE);
    case PICK: return ids(p, c, &i->y, n) && ids(p, c, &i->a, n);
    case MASK:
        return written(p, c, &i->y, n) && space == PER_ROW && strided(p, c, &i->a, n) && ids(p, c, &i->b, 1);
    case ATTEND_ADDITIVE:
    case ATTEND_COVERED:
    case ATTEND_DOT: return attends(p, c, i);
    case ATTEND_PAST:
    case APPEND: return looks_back(p, c, i);
    case ATTEND_WITHIN: return looks_around(p, c, i);
    case SCORE_DOT:
    case SCORE_PLACES:
    case SCORE_LOCATED:
    case LOWER_AGAIN:
    case SELECT:
    case READ: return attends_in_part(p, c, i);
    default: return 0;
    }
}

/* Whether the product that makes the logits can give the best words of each hypothesis. */
static int best_fit(const program *p, const program_call *c, const instruction *i) {
    return i->op == LINEAR && !i->kind && i->n > 0 && i->n < MOST && i->w.out == i->n &&
           is_slot(p, i->y.slot, 0) && p->slot[i->y.slot].space == PER_ROW && multiplied(p, c, &i->a, &i->w) &&
           p->slot[i->a.slot].space == PER_ROW && c->first >= 0 && c->count >= 0 && c->first <= i->n &&
           c->count <= i->n - c->first && c->count < MOST >> 10;
}

/* Whether a program's slots, and what they need of the work space, are as a call says; NULL: why not. */
static int fits(const program *p, const program_call *c, int64_t threads) {
    if (p->kind < FLOAT32 || p->kind > INT8) return 0;
    if (p->slots < 1 || p->slots > MOST_SLOTS || c->slots != p->slots || !sane(p->instructions)) return 0;
    if (!sane(c->sentences) || !sane(c->width) || !sane(c->step) || !sane(c->keys) || !sane(c->words) ||
        !sane(c->past) || !sane(c->block_width))
        return 0;
    if (c->past && (!c->blocks || !c->block_rows || !c->ancestors)) return 0;
    if (c->width > 0 && c->sentences > (MOST >> 10) / c->width) return 0;
    if (!sane(c->texts) || (c->spans && (c->width != 1 || c->starts || c->past))) return 0;
    for (int64_t i = 0; i < p->instructions; i++)
        if (!sane(p->code[i].w.in) || !sane(p->code[i].w2.in)) return 0;
    if (p->kind != FLOAT32 && rows_of_part(c, threads) > MOST / (widest_product(p) + 1)) return 0;
    int64_t room = threads * room_of_thread(p, c, threads);
    for (int64_t s = 0; s < p->slots; s++) {
        const slot *own = p->slot + s;
        if (own->space < PER_ROW || own->space > CONSTANT || own->width < BY_PAST || own->width >= MOST ||
            own->times < 1 || own->times > MOST_TIMES || (own->integers & ~1) || (own->compact & ~1))
            return 0;
        if (c->at[s]) {
            if (!sane(c->size[s]) || c->apart[s] < c->size[s]) return 0;
            continue;
        }
        if (own->space == CONSTANT) return 0;
        const int64_t rows = rows_of(c, own), each = room_of(c, own);
        if (rows && each > MOST / rows) return 0;
        room += wide(rows * each);
        if (room > MOST) return 0;
    }
    if (room > c->room) return 0;
    if (c->values && (p->output < -1 || p->output >= p->instructions || !c->ids)) return 0;
    for (int64_t k = 0; k < p->instructions; k++) {
        const instruction *i = p->code + k;
        if (c->values && k == p->output) {
            if (!best_fit(p, c, i)) return 0;
            continue;
        }
        if (i->y.slot < 0 || i->y.slot >= p->slots || !instruction_fits(p, c, i)) return 0;
    }
    return 1;
}

/* Whether an instruction may have lengths. */
static int attention(int64_t op) {
    return (op >= ATTEND_ADDITIVE && op <= ATTEND_DOT) || (op >= SCORE_DOT && op <= READ);
}

/* Whether each hypothesis's keys are rows of the blocks: in the new one its own. */
static int ancestors_fit(const program_call *c) {
    const int64_t rows = c->sentences * c->width;
    if (!c->past) return 1;
    if (c->block_rows[c->past - 1] < rows) return 0;
    for (int64_t r = 0; r < rows; r++) {
        const int32_t *own = c->ancestors + r * c->past;
        for (int64_t j = 0; j < c->past; j++)
            if (own[j] < 0 || own[j] >= c->block_rows[j]) return 0;
        if (own[c->past - 1] != r) return 0;
    }
    return 1;
}

/* Whether the texts of an encoder are all its words, one behind the other, each no longer than `keys`. */
static int spans_fit(const program_call *c) {
    if (!c->spans) return 1;
    if (c->spans[0]) return 0;
    for (int64_t s = 0; s < c->texts; s++)
        if (c->spans[s + 1] < c->spans[s] || c->spans[s + 1] > c->sentences ||
            c->spans[s + 1] - c->spans[s] > c->keys)
            return 0;
    return c->spans[c->texts] == c->sentences;
}

/* Ids that are looked up, lengths and copied words that are given: contents of memory of others.
 * What an instruction makes of ids is checked too, as it is made. */
static int contents(const program *p, const program_call *c) {
    if (!ancestors_fit(c)) return BAD_ID;
    if (!spans_fit(c)) return BAD_SPAN;
    const int64_t latest = c->past && c->past <= c->step ? c->past - 1 : c->step;
    if (c->starts && !regard_within(c->starts, c->sentences, 0, latest + 1)) return BAD_SPAN;
    for (int64_t k = 0; k < p->instructions; k++) {
        const instruction *i = p->code + k;
        if (attention(i->op) && i->memory[LENGTHS] >= 0 &&
            !regard_within(c->at[i->memory[LENGTHS]], c->sentences, 0, c->keys + 1))
            return BAD_SPAN;
        if (i->op == MIXTURE)
            for (int64_t s = 0; s < c->sentences; s++)
                if (!regard_within((const int64_t *)c->at[i->memory[STATE]] + s * c->apart[i->memory[STATE]],
                                   c->keys, 0, c->words))
                    return BAD_ID;
    }
    return WELL;
}

typedef struct {
    const program *p;
    const program_call *c;
    float **base;   /* by slot: its first row */
    int64_t *apart; /* in items */
    float *scores;
    int64_t parts;
    int failed[64];
} parts;

static void each_part(void *context, int64_t begin, int64_t end) {
    parts *all = context;
    const program *p = all->p;
    const program_call *c = all->c;
    for (int64_t part = begin; part < end; part++) {
        const int64_t count = c->spans ? c->texts : c->sentences;
        const int64_t begun = count * part / all->parts, ended = count * (part + 1) / all->parts;
        const int64_t first = c->spans ? c->spans[begun] : begun, last = c->spans ? c->spans[ended] : ended;
        if (first == last) continue;
        float *base[MOST_SLOTS];
        for (int64_t s = 0; s < p->slots; s++) {
            const slot *own = p->slot + s;
            const int64_t row = own->space == CONSTANT ? 0 : own->space == PER_SENTENCE ? first : first * c->width;
            base[s] = all->base[s] + row * all->apart[s] * (own->integers ? 2 : 1);
        }
        float *own = all->scores + part * room_of_thread(p, c, all->parts);
        program_part t = {p,         c,    first,      last - first, (last - first) * c->width, begun,
                          ended - begun, base, all->apart, own,          NULL,        {0}};
        if (p->kind != FLOAT32)
            t.narrow = narrow_at(own + room_of_scores(c), rows_of_part(c, all->parts), widest_product(p));
        t.best = own + room_of_thread(p, c, all->parts) - room_of_best(c, rows_of_part(c, all->parts));
        REGARD_DISPATCH(run_part, (&t, all->failed + part));
    }
}

/* Zeros behind the rows of the work space, where products read them. */
static void clear_behind(const program_call *c, const slot *own, float *base, int64_t each) {
    const int64_t n = width_of(c, own), rows = rows_of(c, own);
    if (own->integers || own->compact || each == n) return;
    for (int64_t r = 0; r < rows; r++) clear_floats(base + r * each + n, each - n);
}

REGARD_API int regard_program_step(const void *plan, const void *call, int32_t threads) {
    const program *p = plan;
    const program_call *c = call;
    if (threads > 64) threads = 64;
    const int64_t apart_at_most = c->spans ? c->texts : c->sentences;
    if (threads > apart_at_most) threads = (int32_t)apart_at_most;
    if (threads < 1) threads = 1;
    if (!fits(p, c, threads)) return BAD_PLAN;
    if (c->sentences < 1 || c->width < 1) return WELL;
    const int wrong = contents(p, c);
    if (wrong) return wrong;
    float *base[MOST_SLOTS];
    int64_t apart[MOST_SLOTS];
    parts all = {p, c, base, apart, c->work, threads, {0}};
    float *room = c->work + threads * room_of_thread(p, c, threads);
    for (int64_t s = 0; s < p->slots; s++) {
        const slot *own = p->slot + s;
        if (c->at[s]) {
            base[s] = c->at[s], apart[s] = c->apart[s];
            continue;
        }
        const int64_t each = room_of(c, own);
        base[s] = room, apart[s] = own->integers ? each / 2 : each;
        room += wide(rows_of(c, own) * each);
        clear_behind(c, own, base[s], each);
    }
    regard_parallel(each_part, &all, threads, threads);
    for (int64_t part = 0; part < threads; part++)
        if (all.failed[part]) return all.failed[part];
    return WELL;
}
