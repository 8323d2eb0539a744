/* The step of a decoder, or an encoder, as instructions over rows: what program.c and its template share.
 *
 * The rows of a decoder are hypotheses, those of an encoder the words of all texts, without padding.
 *
 * A slot holds a value: a row of floats (or 64-bit integers) for each hypothesis, a row for each
 * sentence, or one row for all. Slots without an address lie in the work space, their rows `wide`
 * floats apart with zeros behind, or as many as they have where they are compact. Some slots are as
 * wide as the memory or a cache has keys, or as the output has words. decode/program/lowering.py writes
 * programs; every operand of every instruction is checked against its slot before a step runs. */
#ifndef REGARD_PROGRAM_H
#define REGARD_PROGRAM_H

#include "attend.h"
#include "best.h"
#include "int8_products.h"

enum { PER_ROW, PER_SENTENCE, CONSTANT };
enum { BY_KEYS = -1, BY_WORDS = -2, BY_PAST = -3 }; /* widths that a call decides */

typedef struct {
    int64_t space, width, integers, compact, times; /* times: rows have as many parts of this width */
} slot;

/* Where a row's numbers lie: item offset + by_step * step + i * stride of a slot's row. The step is that
 * of the row's sentence. */
typedef struct {
    int64_t slot, offset, by_step, stride;
} operand;

enum { GATHER, COPY, LINEAR, BINARY, UNARY, LSTM, GRU, ATTEND_ADDITIVE, ATTEND_COVERED, ATTEND_DOT,
       NORM, LOG_SOFTMAX, GLU, MIXTURE, COMPARE, FILL, PICK, MASK, EXPERTS, ATTEND_PAST, APPEND,
       SCORE_DOT, SCORE_PLACES, SCORE_LOCATED, LOWER_AGAIN, SELECT, READ, WHOLE, LOOKUP, CHOOSE, TAKE, TAKE_ID,
       ATTEND_WITHIN, INSTRUCTIONS };
enum { ADD, SUBTRACT, MULTIPLY, MAXIMUM, MINIMUM };         /* BINARY; the last of WHOLE alone */
enum { TANH, SIGMOID, POSITIVE, SILU, SCALE, SHIFT };       /* UNARY; LINEAR: one more, 0 is none */
enum { EQUAL, AT_LEAST, UNEQUAL, BELOW };                   /* COMPARE */
enum { GRU_BEFORE = 1, GRU_KEEP = 2, GRU_INSIDE = 4 };      /* GRU */
enum { PAST_ONLY = 1, PAST_BIASED = 2 };                     /* ATTEND_PAST; ATTEND_WITHIN the second */
enum { SELECT_ALL, SELECT_SMOOTH, SELECT_AT_STEP, SELECT_STOPPED, SELECT_PREDICTED, SELECT_SPARSEMAX,
       SELECT_ENTMAX, SELECT_BEST }; /* SELECT */
enum { KEYS, PACKED, VALUES, LENGTHS, WEIGHTS, STATE, NEW_STATE, MEMORY }; /* slots of a memory */

typedef struct {
    int64_t op, kind, n, m, k, heads, before, columns, key_at, value_at;
    operand y, z, a, b, c;
    int64_t memory[MEMORY]; /* -1: there is none */
    linear w, w2;
    double x;
} instruction;

typedef struct {
    int64_t instructions, slots, kind; /* kind: FLOAT32, BFLOAT16 or INT8, of the weights of products */
    int64_t output; /* the LINEAR that makes the logits and that nothing else reads; -1: it is in no or another piece */
    const instruction *code;
    const slot *slot;
} program;

typedef struct {
    int64_t sentences, width, step, keys, words, slots;
    int64_t past, block_width;   /* keys of caches, the new one too, and what all caches have of one */
    float *const *blocks;        /* (past): what hypotheses wrote in a step, row by row */
    const int64_t *block_rows;   /* (past): how many rows */
    const int32_t *ancestors;    /* (rows, past): which row of each block is a hypothesis's own */
    const int64_t *starts;       /* (sentences): the step with which each began; NULL: all with the first */
    void *const *at;      /* by slot; NULL: in the work space */
    const int64_t *apart; /* by slot with an address: items from row to row */
    const int64_t *size;  /* and how many of a row may be touched */
    float *work;
    int64_t room; /* floats of it */
    int64_t texts;        /* of an encoder, whose rows are words: `sentences` of them, and width is 1 */
    const int64_t *spans; /* (texts + 1): where each text begins, and the last ends; NULL: a decoder */
    int64_t first, count; /* the `count` best words from id `first` up and their log-probabilities, */
    float *values;        /* in the place of the logits; NULL: these are wanted */
    int64_t *ids;
} program_call;

enum { MOST_SLOTS = 1024, LONGEST_TABLE = 1024, MOST_FILTERS = 64, MOST_TIMES = 4096 };

/* Floats of a memory's weights, or a row of a work slot, of so many keys and words. */
static inline int64_t width_of(const program_call *c, const slot *s) {
    const int64_t n = s->width;
    return s->times * (n == BY_KEYS ? c->keys : n == BY_WORDS ? c->words : n == BY_PAST ? c->past : n);
}
static inline int64_t room_of(const program_call *c, const slot *s) {
    const int64_t n = width_of(c, s) * (s->integers ? 2 : 1);
    return s->compact ? n : wide(n);
}
static inline int64_t rows_of(const program_call *c, const slot *s) {
    return s->space == CONSTANT ? 1 : s->space == PER_SENTENCE ? c->sentences : c->sentences * c->width;
}

/* How many steps sentence s came later than the first. */
static inline int64_t start_of(const program_call *c, int64_t s) { return c->starts ? c->starts[s] : 0; }

/* As many keys as any memory has. */
static inline int64_t most_keys(const program_call *c) { return c->keys > c->past ? c->keys : c->past; }

/* The most hypotheses of one of so many parts, and the widest row of a product. */
static inline int64_t rows_of_part(const program_call *c, int64_t parts) {
    if (c->spans) return c->sentences;
    return (c->sentences + parts - 1) / parts * c->width;
}
static inline int64_t widest_product(const program *p) {
    int64_t most = 0;
    for (int64_t i = 0; i < p->instructions; i++) {
        const linear *w = &p->code[i].w, *w2 = &p->code[i].w2;
        most = w->in > most ? w->in : most, most = w2->in > most ? w2->in : most;
    }
    return most;
}

/* Floats that a thread needs beside slots: scores and where the keys of caches lie, then narrow rows. */
static inline int64_t room_of_scores(const program_call *c) {
    return wide(most_keys(c)) + 16 + 2 * wide(c->past);
}
/* Floats of a part of the logits of so many rows, and of what is known of each row. */
static inline int64_t room_of_best(const program_call *c, int64_t rows) {
    return c->values ? rows * BEST_PART + wide(rows * (int64_t)(sizeof(best_row) / sizeof(float))) : 0;
}
static inline int64_t room_of_thread(const program *p, const program_call *c, int64_t parts) {
    const int64_t rows = rows_of_part(c, parts);
    const int64_t narrow = p->kind == FLOAT32 ? 0 : narrow_room(rows, widest_product(p));
    return room_of_scores(c) + wide(narrow) + room_of_best(c, rows);
}

/* A part of the sentences or texts: where each slot's first row of it lies, and how far the next is. */
typedef struct {
    const program *p;
    const program_call *c;
    int64_t first, sentences, rows;
    int64_t text, texts; /* of an encoder */
    float **base;
    int64_t *apart; /* in items */
    float *scores;  /* room_of_scores */
    float *best;    /* room_of_best */
    narrow_rows narrow;
} program_part;

#endif
