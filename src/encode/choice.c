/* Which coding pays.
 *
 * Threads encode blocks and hand them to one stream to the storage. With W seconds of writing, E seconds of encoding
 * and n threads all is stored after max(W, (E + W) / n) seconds: the storage never rests, or the threads never do.
 * (Buffers in front of the storage let threads go before their bytes are stored; then it is max(W, E / n), and anything
 * between.) So for each block the coding is taken for which this is least, as its variable's sample and its blocks so
 * far suggest. Two things are added to that:
 * - Variables differ, and blocks overlap: what one block costs the threads may be free because the storage is behind
 *   with earlier ones. A part of the cost counts each side for itself, weighed by which of them is behind (lead).
 * - Until the storage's speed shows (choice_speed.c) a coding is taken that is not far from the best at any speed.
 * Samples cost time, too. A candidate is sampled if even its best case promises more than the sample costs, and while
 * all samples together stay a small share of the time, or the storage is behind anyway. What samples tell of speed is
 * rough: candidates that seem nearly as good as the best are tried on whole blocks. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "encode/choice_private.h"

#define LOOK_AGAIN (128u << 20)     /* bytes of a variable after which candidates are compared again */
#define LOOK_AGAIN_SIZE (16u << 20) /* the same if only size counts */
#define AHEAD_MOST 64e6             /* bytes that a better coding may still be good for */
#define SAMPLE_LEAST (2u << 10)     /* shorter blocks are not sampled */
#define BUDGET_FIRST 1.0e-3         /* seconds for samples at the beginning of the first checkpoint, */
#define BUDGET_LATER 1.0e-4         /* and of the others */
#define BUDGET_SHARE 0.01           /* and this share of its time */
#define BUDGET_IDLE 0.15            /* and this share of the time in which threads would only wait for the storage */
#define EACH_SIDE 0.2               /* part of the cost that counts storage and processors each for itself */
#define ALIKE_MOST (2u << 20)       /* bytes of a variable for which others of its kind are believed */
#define SLOW 40e6                   /* storage that leaves the threads waiting */
#define BASE_PACE                                                                                                      \
    1e-9                /* seconds of a processor per byte, whatever the coding: to look at it, copy, sum and write it \
                         */
#define LEAD_BLOCKS 2.0 /* blocks that one side can be behind before the other has to wait */
#define TRIALS 3        /* blocks spent on candidates that are nearly as good as the best */
#define NEARLY 1.08     /* times the price of the best, */
#define NEARLY_SIZE 1.02 /* and times its size, where samples are whole blocks */

static const double any_speed[3] = {25e6, 200e6, 1.5e9}; /* while the storage's is not known */

int vv_chooser_create(struct vv_chooser **out) {
    struct vv_chooser *chooser = vv_calloc(1, sizeof *chooser);
    if (!chooser)
        return -ENOMEM;
    pthread_mutex_init(&chooser->mutex, NULL);
    pthread_cond_init(&chooser->sampled, NULL);
    chooser->plan = (struct vv_chooser_plan){.name = -1, .level = 1, .workers = 1, .threads = 1};
    vv_choice_stream_init(&chooser->stream);
    vv_choice_lessons_init(chooser);
    *out = chooser;
    return 0;
}

void vv_chooser_destroy(struct vv_chooser *chooser) {
    if (!chooser)
        return;
    pthread_cond_destroy(&chooser->sampled);
    pthread_mutex_destroy(&chooser->mutex);
    vv_free(chooser->variables);
    vv_free(chooser->chains);
    vv_free(chooser);
}

void vv_chooser_use(struct vv_chooser *chooser, const struct vv_choice_seam *seam) {
    chooser->seam = seam;
}

static uint64_t now_ns(const struct vv_chooser *chooser) {
    return chooser->seam && chooser->seam->now_ns ? chooser->seam->now_ns(chooser->seam->arg) : vv_clock_ns();
}

void vv_chooser_begin(struct vv_chooser *chooser, const struct vv_chooser_plan *plan) {
    pthread_mutex_lock(&chooser->mutex);
    chooser->plan = *plan;
    if (!(plan->workers >= 1))
        chooser->plan.workers = 1;
    if (!(plan->threads >= chooser->plan.workers))
        chooser->plan.threads = chooser->plan.workers;
    chooser->begin_ns = now_ns(chooser);
    chooser->checkpoints++;
    vv_choice_stream_begin(&chooser->stream, plan->storage_speed, chooser->begin_ns);
    chooser->lead = chooser->flight_lead = chooser->idle = 0;
    chooser->in_flight = 0;
    memset(chooser->regret, 0, sizeof chooser->regret);
    memset(chooser->ideal, 0, sizeof chooser->ideal);
    chooser->sums = (struct vv_choice_sums){0};
    pthread_mutex_unlock(&chooser->mutex);
}

/* What a coding costs: seconds per byte of the storage and of the threads. */
struct cost {
    double storage, threads;
};

/* A thread encodes, and then waits for the storage; a processor does other things for each byte, too. Whichever of the
 * two takes longer. */
static double thread_pace(const struct vv_chooser *chooser, double pace, double storage) {
    double threads = (pace + chooser->stream.held * storage) / chooser->plan.threads;
    double processors = (pace + BASE_PACE) / chooser->plan.workers;
    return threads > processors ? threads : processors;
}

static struct cost cost_of(const struct vv_chooser *chooser, double fraction, double pace, double speed) {
    double storage = fraction / speed;
    return (struct cost){storage, thread_pace(chooser, pace, storage)};
}

static double larger(struct cost cost) {
    return cost.storage > cost.threads ? cost.storage : cost.threads;
}

/* Seconds per byte; side: 1 if the storage is behind, 0 if the threads are, or between. */
static double price(struct cost cost, double side) {
    return (1 - EACH_SIDE) * larger(cost) + EACH_SIDE * (side * cost.storage + (1 - side) * cost.threads);
}

static double side_behind(const struct vv_chooser *chooser, size_t size) {
    double block = (double)size / chooser->stream.speed * LEAD_BLOCKS;
    double side = 0.5 + 0.5 * (chooser->lead + chooser->flight_lead) / block;
    return side < 0 ? 0 : side > 1 ? 1 : side;
}

/* What choosing goes by, for one block. */
struct view {
    double side;
    double least;    /* price of the best candidate that is known */
    double fraction; /* the least of those known */
    int is_blind;    /* the storage's speed is not known */
};

static double candidate_price(const struct vv_chooser *chooser, const struct candidate *candidate, double side) {
    return price(cost_of(chooser, candidate->fraction, candidate->pace, chooser->stream.speed), side);
}

/* Where encoding takes as long as the storage saves, an estimate that is a little too good makes it slower than none,
 * and what encoding costs the other threads is not in it: the price of none that a candidate must get below. */
static double none_limit(const struct vv_chooser *chooser, const struct variable *variable,
                         const struct candidate *candidate, double side) {
    double storage = candidate->fraction / chooser->stream.speed, doubt = candidate->pace / storage;
    doubt = doubt < 1 ? doubt : 1;
    return candidate_price(chooser, &variable->candidates[0], side) * (0.99 - 0.3 * doubt * doubt);
}

static struct view view_of(const struct vv_chooser *chooser, const struct variable *variable, size_t size) {
    struct view view = {.is_blind = !(chooser->stream.speed > 0), .fraction = 1};
    if (!view.is_blind)
        view.side = side_behind(chooser, size);
    for (uint32_t i = 0; i < variable->count; i++) {
        const struct candidate *candidate = &variable->candidates[i];
        if (candidate->knowledge == KNOW_NOTHING)
            continue;
        if (candidate->fraction < view.fraction)
            view.fraction = candidate->fraction;
        if (view.is_blind)
            continue;
        double one = candidate_price(chooser, candidate, view.side);
        if (view.least <= 0 || one < view.least)
            view.least = one;
    }
    return view;
}

static int is_affordable(const struct vv_chooser *chooser, double seconds) {
    double elapsed = (double)(now_ns(chooser) - chooser->begin_ns) * 1e-9;
    double budget = BUDGET_SHARE * elapsed + BUDGET_IDLE * chooser->idle;
    budget += chooser->checkpoints == 1 ? BUDGET_FIRST : BUDGET_LATER;
    return (chooser->sums.seconds_sampled + seconds) / chooser->plan.workers < budget;
}

/* How much better than the best known a candidate might be, seconds per byte; 0 or less if it cannot. */
static double hope(const struct vv_chooser *chooser, const struct variable *variable, const struct view *view,
                   const struct candidate *candidate) {
    /* What other variables made of it says little about one that is large enough to be looked at itself. */
    int is_unknown = candidate->knowledge == KNOW_NOTHING || variable->bytes >= ALIKE_MOST;
    double fraction = is_unknown ? 0.5 * view->fraction : 0.85 * candidate->fraction;
    if (view->is_blind) /* the quick ones first, the slow ones when the storage turns out to be slow */
        return candidate->knowledge == KNOW_NOTHING && candidate->pace < 1 / 250e6 ? 1 - candidate->pace : 0;
    /* What is highly compressible is quickly done. */
    double pace = candidate->pace * (view->fraction < 0.25 ? 0.5 : 0.75);
    double best_case = price(cost_of(chooser, fraction, pace, chooser->stream.speed), view->side);
    return 0.97 * view->least - best_case;
}

static struct candidate *next_to_sample(const struct vv_chooser *chooser, struct variable *variable, size_t size,
                                        size_t piece) {
    struct view view = view_of(chooser, variable, size);
    double most = 0, ahead = (double)variable->bytes + 4e6;
    struct candidate *best = NULL;
    if (ahead > AHEAD_MOST)
        ahead = AHEAD_MOST;
    for (uint32_t i = 1; i < variable->count; i++) {
        struct candidate *candidate = &variable->candidates[i];
        if (candidate->knowledge > KNOW_ALIKE || candidate->is_busy)
            continue;
        if (chooser->plan.is_for_size)
            return candidate;
        double seconds = candidate->pace * (double)piece, hoped = hope(chooser, variable, &view, candidate);
        if (hoped > most && is_affordable(chooser, seconds) &&
            (view.is_blind || 0.3 * hoped * ahead > (1 - view.side) * seconds / chooser->plan.workers)) {
            most = hoped;
            best = candidate;
        }
    }
    return best;
}

static size_t piece_of(const struct vv_chooser *chooser, size_t size) {
    double speed = chooser->stream.speed;
    size_t piece = 64u << 10;
    if (speed > 0 && speed < SLOW) /* there is time to look well */
        piece = 256u << 10;
    if (chooser->plan.is_for_size)
        piece = size;
    return (size < piece ? size : piece) / 16 * 16;
}

/* Not so only if there is no memory for variables of their own, or threads say different things about one. */
static int is_about(const struct variable *variable, const struct vv_content *content) {
    return variable->type == content->type && variable->is_lossy == (content->grid > 0);
}

static struct variable *look_at_variable(struct vv_chooser *chooser, struct vv_coder *coder, struct variable *variable,
                                         uint64_t number, const struct vv_content *content, const void *data,
                                         size_t size) {
    int is_shared = variable == &chooser->shared;
    size_t piece = piece_of(chooser, size);
    while (piece >= SAMPLE_LEAST && is_about(variable, content)) {
        struct candidate *candidate = next_to_sample(chooser, variable, size, piece);
        if (candidate)
            vv_choice_candidate_sample(chooser, coder, number, variable, candidate, content, data, size, piece);
        else if (variable->busy && (variable->bytes == 0 || chooser->plan.is_for_size))
            pthread_cond_wait(&chooser->sampled, &chooser->mutex); /* another thread will know more in a moment */
        else
            break;
        variable = is_shared ? &chooser->shared : vv_choice_variable_of(chooser, number, content, data, size);
    }
    return variable;
}

static const struct candidate *smallest(const struct variable *variable) {
    const struct candidate *best = &variable->candidates[0];
    double least = 1;
    for (uint32_t i = 1; i < variable->count; i++)
        if (variable->candidates[i].knowledge != KNOW_NOTHING && variable->candidates[i].fraction < least)
            least = variable->candidates[i].fraction;
    for (uint32_t i = 1; i < variable->count; i++) {
        const struct candidate *candidate = &variable->candidates[i];
        if (candidate->knowledge != KNOW_NOTHING && candidate->fraction <= least * 1.005 && candidate->fraction < 1 &&
            (best == &variable->candidates[0] || candidate->pace < best->pace))
            best = candidate;
    }
    return best;
}

/* The speed is not known: keep close to the best whatever it is. */
static const struct candidate *least_regret(struct vv_chooser *chooser, const struct variable *variable, size_t size) {
    double ideal[3], cost[3], least = 0;
    const struct candidate *best = NULL;
    for (int s = 0; s < 3; s++) {
        ideal[s] = 0;
        for (uint32_t i = 0; i < variable->count; i++) {
            const struct candidate *candidate = &variable->candidates[i];
            double one = larger(cost_of(chooser, candidate->fraction, candidate->pace, any_speed[s]));
            if (candidate->knowledge != KNOW_NOTHING && (ideal[s] <= 0 || one < ideal[s]))
                ideal[s] = one;
        }
        chooser->ideal[s] += ideal[s] * (double)size;
    }
    for (uint32_t i = 0; i < variable->count; i++) {
        const struct candidate *candidate = &variable->candidates[i];
        double worst = 0;
        for (int s = 0; s < 3; s++) {
            double one = larger(cost_of(chooser, candidate->fraction, candidate->pace, any_speed[s])) * (double)size;
            double regret = (chooser->regret[s] + one) / chooser->ideal[s];
            worst = regret > worst ? regret : worst;
        }
        if (candidate->knowledge != KNOW_NOTHING && (!best || worst < least)) {
            best = candidate;
            least = worst;
        }
    }
    for (int s = 0; s < 3; s++) {
        cost[s] = larger(cost_of(chooser, best->fraction, best->pace, any_speed[s]));
        chooser->regret[s] += cost[s] * (double)size;
    }
    return best;
}

static const struct candidate *quickest(const struct vv_chooser *chooser, const struct variable *variable,
                                        size_t size) {
    const struct candidate *none = &variable->candidates[0], *best = none;
    double side = side_behind(chooser, size), least = 0;
    for (uint32_t i = 1; i < variable->count; i++) {
        const struct candidate *candidate = &variable->candidates[i];
        double one = candidate_price(chooser, candidate, side);
        if (candidate->knowledge != KNOW_NOTHING && (best == none || one < least) &&
            one < none_limit(chooser, variable, candidate, side)) {
            best = candidate;
            least = one;
        }
    }
    return best;
}

/* A block is spent on a candidate that is as good as the best for all that a sample can tell. */
static const struct candidate *on_trial(const struct vv_chooser *chooser, struct variable *variable,
                                        const struct candidate *best, size_t size) {
    int is_for_size = chooser->plan.is_for_size;
    uint64_t wait = best == &variable->candidates[0] ? 16u << 20 : 2u << 20;
    if (best->knowledge != KNOW_BLOCKS || variable->trials >= TRIALS || variable->since_look < wait)
        return best;
    double side = is_for_size ? 0 : side_behind(chooser, size);
    double least = is_for_size ? NEARLY_SIZE * best->fraction : NEARLY * candidate_price(chooser, best, side);
    const struct candidate *tried = NULL;
    for (uint32_t i = 1; i < variable->count; i++) {
        const struct candidate *candidate = &variable->candidates[i];
        double one = is_for_size ? candidate->fraction : candidate_price(chooser, candidate, side);
        if (candidate != best && candidate->knowledge >= KNOW_SAMPLE && candidate->blocks < 2 && one < least) {
            tried = candidate;
            least = one;
        }
    }
    if (tried)
        variable->trials++;
    return tried ? tried : best;
}

static const struct candidate *choose(struct vv_chooser *chooser, struct variable *variable, size_t size) {
    if (chooser->plan.is_for_size)
        return on_trial(chooser, variable, smallest(variable), size);
    if (!(chooser->stream.speed > 0))
        return least_regret(chooser, variable, size);
    return on_trial(chooser, variable, quickest(chooser, variable, size), size);
}

static void take_off(struct vv_chooser *chooser, const struct candidate *candidate, size_t size) {
    chooser->in_flight++;
    if (!(chooser->stream.speed > 0))
        return;
    struct cost cost = cost_of(chooser, candidate->fraction, candidate->pace, chooser->stream.speed);
    chooser->flight_lead += (cost.storage - cost.threads) * (double)size;
}

void vv_chooser_pick(struct vv_chooser *chooser, struct vv_coder *coder, uint64_t variable,
                     const struct vv_content *content, const void *data, size_t size, struct vv_coding *out) {
    pthread_mutex_lock(&chooser->mutex);
    if (chooser->plan.name >= 0 || size == 0) {
        vv_coding_fit(size ? chooser->plan.name : VV_CODING_NONE, content, 0, out);
        pthread_mutex_unlock(&chooser->mutex);
        return;
    }
    struct variable *entry = vv_choice_variable_of(chooser, variable, content, data, size);
    if (chooser->plan.is_thorough) {
        vv_choice_smallest(chooser, coder, entry, content, data, size, out);
        chooser->in_flight++;
        pthread_mutex_unlock(&chooser->mutex);
        return;
    }
    uint64_t again = chooser->plan.is_for_size ? LOOK_AGAIN_SIZE : LOOK_AGAIN;
    if (entry->drift >= 2 || entry->since_look > again)
        vv_choice_variable_doubt(entry);
    entry = look_at_variable(chooser, coder, entry, variable, content, data, size);
    if (is_about(entry, content)) {
        const struct candidate *chosen = choose(chooser, entry, size);
        take_off(chooser, chosen, size);
        *out = chosen->coding;
    } else {
        chooser->in_flight++;
        vv_coding_fit(VV_CODING_LZ4, content, 0, out);
    }
    pthread_mutex_unlock(&chooser->mutex);
}

static void land(struct vv_chooser *chooser, size_t size, size_t stored, double seconds) {
    if (chooser->in_flight > 0) {
        chooser->flight_lead -= chooser->flight_lead / chooser->in_flight;
        chooser->in_flight--;
    }
    if (!(chooser->stream.speed > 0))
        return;
    double storage = (double)stored / chooser->stream.speed;
    double most = (double)size / chooser->stream.speed * LEAD_BLOCKS;
    double more = storage - thread_pace(chooser, seconds / (double)size, storage / (double)size) * (double)size;
    chooser->lead += more;
    chooser->idle += more > 0 ? more : 0;
    if (chooser->lead > most)
        chooser->lead = most;
    if (chooser->lead < -most)
        chooser->lead = -most;
}

void vv_chooser_encoded(struct vv_chooser *chooser, uint64_t variable, const struct vv_coding *coding, size_t size,
                        size_t stored, double seconds) {
    if (size == 0)
        return;
    int name = stored < size ? vv_choice_name(coding) : VV_CODING_NONE;
    pthread_mutex_lock(&chooser->mutex);
    chooser->sums.raw[name] += size;
    chooser->sums.stored[name] += stored;
    chooser->sums.seconds_encode += seconds;
    if (chooser->plan.name < 0) {
        struct variable *entry = vv_choice_variable_find(chooser, variable);
        struct candidate *candidate = vv_choice_candidate_of(entry ? entry : &chooser->shared, coding);
        entry = entry ? entry : &chooser->shared;
        entry->bytes += size;
        entry->since_look += size;
        if (candidate && candidate != &entry->candidates[0])
            vv_choice_candidate_encoded(chooser, entry, candidate, size, stored, seconds);
        land(chooser, size, stored, seconds);
    }
    pthread_mutex_unlock(&chooser->mutex);
}

void vv_chooser_wrote(struct vv_chooser *chooser, size_t bytes, double seconds) {
    pthread_mutex_lock(&chooser->mutex);
    vv_choice_stream_wrote(&chooser->stream, bytes, seconds, now_ns(chooser));
    pthread_mutex_unlock(&chooser->mutex);
}

struct text {
    char *at;
    size_t capacity, used;
};

__attribute__((format(printf, 2, 3))) static void add_text(struct text *text, const char *format, ...) {
    va_list args;
    if (text->used >= text->capacity)
        return;
    va_start(args, format);
    int got = vsnprintf(text->at + text->used, text->capacity - text->used, format, args);
    va_end(args);
    text->used += got > 0 ? (size_t)got : 0;
}

static void tell_shares(const struct vv_choice_sums *sums, struct text *text) {
    uint64_t left[VV_CODING_NAMES], all = 0;
    memcpy(left, sums->raw, sizeof left);
    for (int i = 0; i < VV_CODING_NAMES; i++)
        all += left[i];
    if (all == 0)
        add_text(text, "nothing new");
    for (int told = 0;; told++) {
        int most = 0;
        for (int i = 1; i < VV_CODING_NAMES; i++)
            if (left[i] > left[most])
                most = i;
        unsigned percent = (unsigned)((double)left[most] / (double)(all ? all : 1) * 100 + 0.5);
        if (left[most] == 0 || (told && percent == 0))
            return;
        add_text(text, "%s%s %u %%", told ? ", " : "", vv_coding_text(most), percent);
        left[most] = 0;
    }
}

void vv_chooser_sums(struct vv_chooser *chooser, struct vv_choice_sums *out, char *reason, size_t capacity) {
    struct text text = {reason, capacity, 0};
    pthread_mutex_lock(&chooser->mutex);
    *out = chooser->sums;
    out->storage_speed = chooser->stream.speed;
    tell_shares(&chooser->sums, &text);
    if (chooser->plan.name >= 0)
        add_text(&text, "; as set");
    else if (chooser->plan.is_for_size)
        add_text(&text, "; the smallest of what was tried");
    else if (chooser->stream.speed > 0)
        add_text(&text, "; storage %.0f MB/s, %.3g processor%s", chooser->stream.speed / 1e6, chooser->plan.workers,
                 chooser->plan.workers > 1 ? "s" : "");
    else
        add_text(&text, "; storage not measured yet, %.3g processor%s", chooser->plan.workers,
                 chooser->plan.workers > 1 ? "s" : "");
    pthread_mutex_unlock(&chooser->mutex);
}
