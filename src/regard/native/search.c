/* Several steps of a beam, or of greedy decoding, in one call: the step of a program, the best
 * continuations of each sentence, and what the next step reads of them. A call ends with the step after
 * which a sentence is finished, so that nobody computes more than step by step; decode/beam_search.py
 * and decode/single_path.py keep the hypotheses of each step, as they do for single steps. */
#include "program.h"
#include <string.h>

REGARD_API int regard_program_step(const void *plan, const void *call, int32_t threads);
REGARD_API int regard_best(int64_t rows, int64_t size, int64_t first, int64_t count, const float *logits,
                           float *values, int64_t *ids, int32_t threads);

/* A tensor that a step makes in slot `source` and the next one reads in slot `to`; the same: it only
 * follows its hypothesis. */
typedef struct {
    int64_t source, to, bytes; /* of a row */
    void *room[2];           /* where `to` lies in odd and even steps after the first */
} carried_state;

typedef struct {
    int64_t steps;           /* at most */
    int64_t greedy;          /* one continuation of each hypothesis, which ends with its first EOS */
    int64_t size, best;      /* hypotheses that go on, and continuations that are looked at */
    int64_t end, ending;     /* EOS, and the first step of a sentence at which it may come */
    int64_t wanted, now;     /* ended hypotheses that a search needs; whether hope ends here, not at the limit */
    int64_t enough;          /* ended hypotheses after which a search stops in any case */
    int64_t logits;          /* their slot, where the program does not give the best words; else -1 */
    int64_t normalized;      /* whether these are log-probabilities */
    int64_t tokens;          /* slot of the ids that are read; -1: nothing reads them */
    int64_t states;
    const carried_state *state;
    const int64_t *limits;     /* (n): the most tokens */
    const double *normalizers; /* of 1 token, 2 tokens, …, the largest limit */
    int64_t longest;           /* the largest limit */
    double *totals;            /* (n, width): log-probabilities so far; those of the last step after the call */
    double *scores;            /* (n, wanted): of hypotheses that ended before, best first; used as space */
    int64_t *ended;            /* (n): how many ended before */
    float *values;             /* (n, width, count of the call) and ids: space */
    int64_t *ids;
    int32_t *ancestors[2];     /* (n, width, keys of caches in the last step) each: space */
    int64_t *made_tokens, *made_parents; /* (steps, n, width) */
    double *made_totals;
    int64_t *end_parents;      /* (steps, n, size): of those that ended, best first; then -1 */
    double *end_totals;
    int64_t done;              /* steps that were made */
} program_search;

#define L(field) REGARD_FIELD(carried_state, field)
REGARD_API const int64_t regard_layout_carried_state[] = {
    sizeof(carried_state), L(source), L(to), L(bytes), L(room), -1};
#undef L
#define L(field) REGARD_FIELD(program_search, field)
REGARD_API const int64_t regard_layout_program_search[] = {
    sizeof(program_search), L(steps), L(greedy), L(size), L(best), L(end), L(ending), L(wanted), L(now),
    L(enough), L(logits), L(normalized), L(tokens), L(states), L(state), L(limits), L(normalizers), L(longest),
    L(totals), L(scores), L(ended), L(values), L(ids), L(ancestors), L(made_tokens), L(made_parents),
    L(made_totals), L(end_parents), L(end_totals), L(done), -1};
#undef L

enum { MOST_BEST = 512 }; /* continuations that are looked at */

/* A continuation of a sentence. */
typedef struct {
    double total;
    int64_t parent, token;
} continuation;

/* Whether a comes before b; what is not a number comes first, as in `topk`. */
static int before(double a, double b) { return a > b || (isnan(a) && !isnan(b)); }

/* The step that a sentence is at, counted from its first. */
static int64_t own_step(const program_call *c, int64_t n) { return c->step - start_of(c, n); }

static int fits(const program *p, const program_call *c, const program_search *s) {
    const int64_t most = (int64_t)1 << 20;
    if (s->steps < 1 || s->steps > most || c->sentences < 1 || c->sentences > most || c->spans) return 0;
    if (s->size < 1 || c->width != s->size || s->size > MOST_BEST || c->count < 1 || c->count > MOST_BEST) return 0;
    if (s->best < 1 || s->best > MOST_BEST || s->best > s->size * (c->count - (c->starts != NULL))) return 0;
    if (s->greedy ? s->size != 1 || s->best != 1 : s->best != 2 * s->size || s->wanted < 1) return 0;
    if (s->wanted > MOST_BEST || s->end < 0 || c->first != s->end || s->states < 0 || s->states > MOST_SLOTS) return 0;
    if (c->past < 0 || (c->past && (!s->ancestors[0] || !s->ancestors[1]))) return 0;
    if (p->slots < 1 || p->slots > MOST_SLOTS || c->slots != p->slots) return 0;
    for (int64_t n = 0; n < c->sentences; n++)
        if (s->limits[n] > s->longest || s->limits[n] <= own_step(c, n) || own_step(c, n) < 0) return 0;
    if (s->tokens >= 0 && (s->tokens >= p->slots || !p->slot[s->tokens].integers || !c->at[s->tokens] ||
                           c->apart[s->tokens] != 1 || p->slot[s->tokens].space != PER_ROW))
        return 0;
    if (s->logits >= 0) {
        if (s->logits >= p->slots || p->slot[s->logits].integers || !c->at[s->logits] || c->values) return 0;
        if (c->apart[s->logits] != c->size[s->logits] || c->count > c->size[s->logits] - s->end - 1) return 0;
    } else if (!c->values || c->values != s->values || c->ids != s->ids) return 0;
    for (int64_t k = 0; k < s->states; k++) {
        const carried_state *own = s->state + k;
        if (own->source < 0 || own->source >= p->slots || own->to < 0 || own->to >= p->slots) return 0;
        const slot *from = p->slot + own->source, *to = p->slot + own->to;
        const int64_t item = to->integers ? 8 : 4;
        if (from->space != to->space || from->integers != to->integers || to->space == CONSTANT) return 0;
        if (!c->at[own->source] || !c->at[own->to] || !own->room[0] || !own->room[1]) return 0;
        if (c->apart[own->source] * item != own->bytes || c->apart[own->to] * item != own->bytes) return 0;
    }
    return 1;
}

/* The best continuations of a sentence, best first; among equals the first hypothesis's first. */
static void continuations(const program_call *c, const program_search *s, int64_t n, continuation *best) {
    const int64_t never = own_step(c, n) < s->ending ? s->end : -1; /* id that may not come yet */
    int64_t found = 0;
    for (int64_t k = 0; k < s->size; k++) {
        const int64_t r = n * s->size + k;
        for (int64_t j = 0; j < c->count; j++) {
            const continuation one = {s->totals[r] + (double)s->values[r * c->count + j], k, s->ids[r * c->count + j]};
            if (one.token == never || (found == s->best && !before(one.total, best[found - 1].total))) continue;
            int64_t to = found < s->best ? found++ : found - 1;
            for (; to > 0 && before(one.total, best[to - 1].total); to--) best[to] = best[to - 1];
            best[to] = one;
        }
    }
}

/* Enter a hypothesis that ended: of its score only the best `wanted` count. */
static void enter(const program_search *s, int64_t n, double score) {
    double *own = s->scores + n * s->wanted;
    const int64_t known = s->ended[n] < s->wanted ? s->ended[n] : s->wanted;
    s->ended[n]++;
    if (known == s->wanted && !(score > own[known - 1])) return;
    int64_t to = known < s->wanted ? known : known - 1;
    for (; to > 0 && score > own[to - 1]; to--) own[to] = own[to - 1];
    own[to] = score;
}

/* Whether a sentence is finished, as `Ended.closed` of decode/ended_hypotheses.py says it. */
static int closed(const program_search *s, int64_t n, int64_t length, double likeliest) {
    if (length >= s->limits[n] || likeliest == -INFINITY || s->ended[n] >= s->enough) return 1;
    if (s->ended[n] < s->wanted) return 0;
    const double hope = likeliest / s->normalizers[(s->now ? length : s->limits[n]) - 1];
    return hope <= s->scores[n * s->wanted + s->wanted - 1];
}

static void put(const program_search *s, int64_t at, const continuation *one, double total) {
    s->made_tokens[at] = one->token, s->made_parents[at] = one->parent, s->made_totals[at] = total;
}

/* A sentence's next hypotheses, and those that ended; whether it is finished. */
static int extend(const program_call *c, const program_search *s, int64_t n, int64_t at) {
    const int64_t first = (at * c->sentences + n) * s->size, size = s->size, length = own_step(c, n) + 1;
    continuation best[MOST_BEST];
    continuations(c, s, n, best);
    if (s->greedy) {
        put(s, first, best, best->total);
        return best[0].token == s->end || length >= s->limits[n];
    }
    int64_t on = 0, ended = 0;
    double likeliest = -INFINITY;
    for (int64_t k = 0; k < size; k++) s->end_parents[first + k] = -1;
    for (int64_t k = 0; k < s->best; k++) {
        const continuation *one = best + k;
        if (one->total == -INFINITY) continue;
        if (one->token != s->end) {
            if (on == size) continue;
            put(s, first + on++, one, one->total);
            if (before(one->total, likeliest)) likeliest = one->total;
        } else if (k < size) {
            s->end_parents[first + ended] = one->parent, s->end_totals[first + ended++] = one->total;
            enter(s, n, one->total / s->normalizers[length - 1]);
        }
    }
    for (int64_t k = 0; k < s->best && on < size; k++) /* too few that go on */
        if (best[k].token == s->end || best[k].total == -INFINITY) put(s, first + on++, best + k, -INFINITY);
    return closed(s, n, length, likeliest);
}

/* Rows of a state for the next step: those of the hypotheses that were continued. */
static void follow(const program *p, const program_call *c, const carried_state *own, void **at,
                   const int64_t *parents, int64_t turn) {
    const char *from = at[own->source];
    char *to = own->room[turn];
    if (p->slot[own->to].space == PER_SENTENCE) memcpy(to, from, (size_t)(c->sentences * own->bytes));
    else
        for (int64_t r = 0; r < c->sentences * c->width; r++) {
            const int64_t parent = r / c->width * c->width + parents[r];
            memcpy(to + r * own->bytes, from + parent * own->bytes, (size_t)own->bytes);
        }
}

/* The keys of caches that are each hypothesis's own, with the new one. */
static void descend(program_call *c, int32_t *to, const int64_t *parents) {
    const int64_t past = c->past;
    for (int64_t r = 0; r < c->sentences * c->width; r++) {
        const int64_t parent = r / c->width * c->width + parents[r];
        memcpy(to + r * (past + 1), c->ancestors + parent * past, (size_t)past * sizeof(int32_t));
        to[r * (past + 1) + past] = (int32_t)r;
    }
    c->ancestors = to, c->past++;
}

REGARD_API int regard_program_search(const void *plan, const void *call, void *of, int32_t threads) {
    const program *p = plan;
    program_call c = *(const program_call *)call;
    program_search *s = of;
    void *at[MOST_SLOTS];
    s->done = 0;
    if (!fits(p, &c, s)) return BAD_PLAN;
    memcpy(at, c.at, (size_t)p->slots * sizeof(void *));
    c.at = at;
    const int64_t rows = c.sentences * c.width;
    int finished = 0;
    for (int64_t t = 0; t < s->steps && !finished; t++) {
        if (t) {
            const int64_t *parents = s->made_parents + (t - 1) * rows;
            for (int64_t k = 0; k < s->states; k++) follow(p, &c, s->state + k, at, parents, t & 1);
            for (int64_t k = 0; k < s->states; k++) at[s->state[k].to] = s->state[k].room[t & 1];
            if (s->tokens >= 0) memcpy(at[s->tokens], s->made_tokens + (t - 1) * rows, (size_t)rows * sizeof(int64_t));
            if (c.past) descend(&c, s->ancestors[t & 1], parents);
            memcpy(s->totals, s->made_totals + (t - 1) * rows, (size_t)rows * sizeof(double));
            c.step++;
        }
        int early = 1; /* all sentences: else those that are leave EOS out by themselves */
        for (int64_t n = 0; n < c.sentences; n++) early &= own_step(&c, n) < s->ending;
        c.first = early ? s->end + 1 : s->end;
        int status = regard_program_step(p, &c, threads);
        if (!status && s->logits >= 0) {
            const int64_t words = c.size[s->logits];
            const float *logits = at[s->logits];
            status = regard_best(rows, words, c.first, c.count, logits, s->values, s->ids, threads);
            for (int64_t k = 0; s->normalized && k < rows * c.count; k++)
                if (!isnan(s->values[k])) s->values[k] = logits[k / c.count * words + s->ids[k]];
        }
        if (status) return status;
        for (int64_t n = 0; n < c.sentences; n++) finished |= extend(&c, s, n, t);
        s->done = t + 1;
    }
    return WELL;
}
