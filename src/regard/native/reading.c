/* Recurrent layers over whole sequences, without gradients: GRUs and LSTMs in one or two directions
 * (native/reading.py has the equations' places).
 *
 * Words are laid out step by step, the longest sequence first: those of step t are the first ones
 * that are longer than t. `at` says for each of these words which row of the inputs and of the
 * states it is, so sequences may be padded or not, and read from either end. Weights are packed as
 * int8_products.h has it, each gate in a multiple of 16 outputs. Sequences do not see each other. */
#include "int8_products.h"

/* As Python lays it out: 64-bit words. Gates of a GRU are r, z (and n, where the reset gate comes
 * after its product); those of an LSTM i, f, g, o. */
typedef struct {
    int64_t hidden, lstm, before, keep;
    linear input, gates, candidate; /* input.w may be NULL: the inputs are those of the gates */
} reading_unit;

typedef struct {
    int64_t directions;
    reading_unit unit[2];
} reading_plan;

typedef struct {
    int64_t sequences, steps, words, rows, inputs, hidden, directions;
    const float *x;         /* (rows, inputs) */
    const int64_t *lengths; /* (sequences), the longest first */
    const int64_t *order;   /* (sequences): which row of `final` each is */
    const int64_t *at;      /* (directions, words) */
    float *states;          /* (rows, directions, hidden) */
    float *final, *cells;   /* (directions, sequences, hidden): after the last step; cells of LSTMs */
} reading_call;

typedef struct {
    float *x, *input, *state, *cell, *gates, *touched;
    narrow_rows narrow;
} reading_room;

enum { TOGETHER = 2048 }; /* words whose inputs are multiplied at once */

static int64_t blocks_of(const reading_unit *u) { return u->lstm ? 4 : 3; }

#define TEMPLATE "reading.inc"
#include "levels.h"

#define L(field) REGARD_FIELD(reading_unit, field)
REGARD_API const int64_t regard_layout_reading_unit[] = {
    sizeof(reading_unit), L(hidden), L(lstm), L(before), L(keep), L(input), L(gates), L(candidate), -1};
#undef L
#define L(field) REGARD_FIELD(reading_plan, field)
REGARD_API const int64_t regard_layout_reading_plan[] = {
    sizeof(reading_plan), L(directions), L(unit), -1};
#undef L
#define L(field) REGARD_FIELD(reading_call, field)
REGARD_API const int64_t regard_layout_reading_call[] = {
    sizeof(reading_call), L(sequences), L(steps), L(words), L(rows), L(inputs), L(hidden), L(directions),
    L(x), L(lengths), L(order), L(at), L(states), L(final), L(cells), -1};
#undef L

typedef struct {
    const reading_plan *m;
    const reading_call *c;
    const int64_t *offsets;
    int64_t shares;
    int failed;
} reading_parts;

/* Sequences first .. last of a direction, in memory of their own. */
static void read_group(reading_parts *p, int64_t first, int64_t last, int64_t direction) {
    const reading_unit *u = &p->m->unit[direction];
    const int64_t rows = last - first, h = wide(u->hidden), e = u->input.w ? wide(p->c->inputs) : 0;
    int64_t words = 0;
    for (int64_t s = first; s < last; s++) words += p->c->lengths[s];
    const int64_t widest = e > h ? e : h, most = words > rows ? words : rows, g = blocks_of(u);
    float *work = regard_floats(words * (e + g * h) + rows * (3 + g) * h + narrow_room(most, widest) + 64);
    if (!work) {
        p->failed = 1;
        return;
    }
    reading_room room = {.x = work};
    room.input = room.x + words * e, room.state = room.input + words * g * h;
    room.cell = room.state + rows * h, room.touched = room.cell + rows * h;
    room.gates = room.touched + rows * h;
    room.narrow = narrow_at(room.gates + rows * g * h, most, widest);
    REGARD_DISPATCH(read, (u, p->c, p->offsets, first, last, direction, &room));
    regard_release(work);
}

static void read_some(void *context, int64_t begin, int64_t end) {
    reading_parts *p = context;
    const reading_call *c = p->c;
    for (int64_t part = begin; part < end; part++) {
        const int64_t direction = part % c->directions, share = part / c->directions;
        const int64_t from = c->sequences * share / p->shares, to = c->sequences * (share + 1) / p->shares;
        for (int64_t first = from, last; first < to; first = last) {
            int64_t words = c->lengths[first];
            for (last = first + 1; last < to; last++) {
                words += c->lengths[last];
                if (words > TOGETHER) break;
            }
            read_group(p, first, last, direction);
        }
    }
}

static int fits(const reading_unit *u, const reading_call *c) {
    const int64_t h = wide(u->hidden), g = blocks_of(u);
    const linear *w = &u->gates, *in = &u->input, *n = &u->candidate;
    if (u->hidden != c->hidden || w->in != h) return 0;
    if (in->w ? in->in != wide(c->inputs) || in->out != g * h : c->inputs != g * u->hidden) return 0;
    if (u->lstm || !u->before) return w->out == g * h;
    return w->out == 2 * h && n->in == h && n->out == h;
}

/* Threads share the directions, then the sequences. */
REGARD_API int regard_read(const void *plan, const void *call, int32_t threads) {
    const reading_plan *m = plan;
    const reading_call *c = call;
    const int64_t n = c->sequences;
    if (m->directions < 1 || m->directions > 2 || m->directions != c->directions) return BAD_PLAN;
    for (int64_t d = 0; d < m->directions; d++)
        if (!fits(&m->unit[d], c)) return BAD_PLAN;
    if (!regard_within(c->lengths, n, 0, c->steps + 1) || !regard_within(c->order, n, 0, n)) return BAD_SPAN;
    if (!regard_within(c->at, c->directions * c->words, 0, c->rows)) return BAD_SPAN;
    int64_t sum = 0;
    for (int64_t s = 0; s < n; s++) {
        if (s && c->lengths[s] > c->lengths[s - 1]) return BAD_SPAN;
        sum += c->lengths[s];
    }
    if (sum != c->words) return BAD_SPAN;
    if (n < 1) return WELL;
    int64_t *offsets = regard_scratch(sizeof(int64_t) * (size_t)(c->steps + 1));
    if (!offsets) return NO_MEMORY;
    int64_t longer = n, place = 0;
    for (int64_t t = 0; t < c->steps; t++) {
        while (longer && c->lengths[longer - 1] <= t) longer--;
        offsets[t] = place;
        place += longer;
    }
    const int64_t shares = (threads + c->directions - 1) / c->directions;
    reading_parts parts = {m, c, offsets, shares < n ? shares : n, 0};
    regard_parallel(read_some, &parts, parts.shares * c->directions, threads);
    regard_release(offsets);
    return parts.failed ? NO_MEMORY : WELL;
}
