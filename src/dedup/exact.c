/* The exact exchange: every id has a home rank, which sees all its holders and chooses the owner.
 *
 * A question carries the chunk's size, how many ranks hold it, and up to eight of them as candidates, chosen by a hash
 * of id and rank: so merging gives the same candidates whatever meets first, and all ranks are chosen equally often.
 *
 * A home sees an even sample of what each rank has to store. First come the chunks that only one rank holds: there is
 * no choice. The others go to the candidate with the least load so far, those with the fewest holders first. When every
 * home levels its own sample, the ranks are level. What a rank stores beside the offers counts with the home's share of
 * it; and each home begins with a few bytes per rank that are its own, so that the homes do not all round in favour of
 * the same ranks.
 *
 * The answer to an only holder is empty; others are told owner, address, and the source if the chunk is known. */
#include <errno.h>

#include "base/alloc.h"
#include "dedup/exchange.h"
#include "dedup/loads.h"

#define CANDIDATES 8
#define HEAD 8       /* of a question: u32 size, u32 holders; then candidates: */
#define CANDIDATE 16 /* u32 rank, u32 share of its fixed bytes, u64 address */
#define SHARE_UNIT 16
#define ANSWER 16 /* u32 owner, u32 source, u64 address */
#define NO_SOURCE UINT32_MAX
#define GRAIN 4096 /* bytes; what homes round differently */
#define PASSES 2   /* over the choices, to better them */

struct exact {
    struct vv_exchange base;
    struct varve_comm *comm;
    struct vv_hops *hops;
    struct vv_table table;
    uint32_t sources; /* one more than the largest in the table */
};

/* What a home decides about a question. */
struct choice {
    uint32_t owner, source;
    uint64_t address;
};

/* One exchange. */
struct run {
    struct exact *exact;
    const struct vv_exchange_in *in;
    struct vv_verdict *verdicts;
    struct vv_exchange_sums *sums;
    int code; /* went wrong before the questions left */
    /* at home: */
    const struct vv_question *questions;
    struct choice *choices;
    uint32_t *shared; /* questions with more than one holder, those with the fewest first */
    size_t shared_count;
    struct vv_loads loads;
};

struct candidate {
    uint32_t rank, share;
    uint64_t address;
};

static uint64_t mix(uint64_t value) {
    value = (value ^ value >> 32) * UINT64_C(0xd6e8feb86659fd93);
    value = (value ^ value >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return value ^ value >> 32;
}

/* ---- questions ---- */

static uint32_t size_of(const struct vv_question *question) {
    return vv_get32(question->data);
}

static uint32_t holders_of(const struct vv_question *question) {
    return vv_get32((const uint8_t *)question->data + 4);
}

static uint32_t candidates_of(const struct vv_question *question) {
    return (question->size - HEAD) / CANDIDATE;
}

static struct candidate get_candidate(const struct vv_question *question, uint32_t index) {
    const uint8_t *at = (const uint8_t *)question->data + HEAD + (size_t)index * CANDIDATE;
    return (struct candidate){vv_get32(at), vv_get32(at + 4), vv_get64(at + 8)};
}

static void put_candidate(uint8_t *at, const struct candidate *candidate) {
    vv_put32(at, candidate->rank);
    vv_put32(at + 4, candidate->share);
    vv_put64(at + 8, candidate->address);
}

/* It comes from another rank. */
static int is_sound(const struct vv_question *question) {
    return question->size >= HEAD + CANDIDATE && question->size <= HEAD + CANDIDATES * CANDIDATE &&
           (question->size - HEAD) % CANDIDATE == 0 && holders_of(question) >= candidates_of(question);
}

/* The candidates that are kept, least salt first. */
struct kept {
    uint64_t salts[CANDIDATES];
    struct candidate list[CANDIDATES];
    uint32_t count;
};

static void keep(struct kept *kept, uint64_t salt, const struct candidate *candidate) {
    uint32_t at = kept->count;
    if (at == CANDIDATES && salt >= kept->salts[--at])
        return;
    kept->count = at + 1;
    for (; at > 0 && salt < kept->salts[at - 1]; at--) {
        kept->salts[at] = kept->salts[at - 1];
        kept->list[at] = kept->list[at - 1];
    }
    kept->salts[at] = salt;
    kept->list[at] = *candidate;
}

static int merge(void *arg, const struct vv_question *same, size_t count, struct vv_buf *out) {
    uint64_t holders = 0;
    struct kept kept = {.count = 0};
    (void)arg;
    for (size_t i = 0; i < count; i++) {
        if (!is_sound(&same[i]) || size_of(&same[i]) != size_of(same))
            return -EPROTO;
        holders += holders_of(&same[i]);
        for (uint32_t k = 0; k < candidates_of(&same[i]); k++) {
            struct candidate candidate = get_candidate(&same[i], k);
            keep(&kept, mix(same->id.low + candidate.rank), &candidate);
        }
    }
    uint8_t *at = vv_buf_extend(out, HEAD + kept.count * CANDIDATE);
    if (!at)
        return -ENOMEM;
    vv_put32(at, size_of(same));
    vv_put32(at + 4, holders < UINT32_MAX ? (uint32_t)holders : UINT32_MAX);
    for (uint32_t i = 0; i < kept.count; i++)
        put_candidate(at + HEAD + i * CANDIDATE, &kept.list[i]);
    return 0;
}

/* ---- at home ---- */

static uint64_t *load_of(struct run *run, const struct candidate *candidate) {
    uint64_t own = mix((uint64_t)run->exact->comm->rank << 32 | candidate->rank) % GRAIN;
    return vv_loads_of(&run->loads, candidate->rank, (uint64_t)candidate->share * SHARE_UNIT + own);
}

static const struct vv_known *find_known(const struct run *run, struct vv_hash128 id) {
    const struct vv_exchange_in *in = run->in;
    const struct vv_known *known = vv_hash128_is_zero(id) ? NULL : vv_table_find(&run->exact->table, id);
    return known && known->source != in->source && known->source < in->source_count && in->is_alive[known->source]
               ? known
               : NULL;
}

static void remember(struct run *run, struct vv_hash128 id, const struct choice *choice) {
    struct exact *exact = run->exact;
    struct vv_known known = {id, run->in->source, choice->owner, choice->address};
    if (exact->table.buckets == 0 || vv_hash128_is_zero(id))
        return;
    if (exact->sources <= known.source)
        exact->sources = known.source + 1;
    vv_table_put(&exact->table, &known, exact->sources <= run->in->source_count ? run->in->is_alive : NULL);
}

/* What leaves no choice; the others are counted by their holders. */
static int settle_first(struct run *run, size_t count, uint32_t *by_holders) {
    for (size_t i = 0; i < count; i++) {
        const struct vv_question *question = &run->questions[i];
        if (!is_sound(question))
            return -EPROTO;
        const struct vv_known *known = run->in->is_alive ? find_known(run, question->id) : NULL;
        run->choices[i] = (struct choice){.source = NO_SOURCE};
        if (known) {
            run->choices[i] = (struct choice){known->owner, known->source, known->address};
        } else if (holders_of(question) > 1) {
            by_holders[holders_of(question) < 255 ? holders_of(question) : 255]++;
            run->shared_count++;
        } else {
            struct candidate only = get_candidate(question, 0);
            uint64_t *load = load_of(run, &only);
            if (!load)
                return -ENOMEM;
            *load += size_of(question);
            run->choices[i].owner = only.rank;
            run->choices[i].address = only.address;
            remember(run, question->id, &run->choices[i]);
        }
    }
    return 0;
}

static int is_shared(const struct run *run, size_t index) {
    return run->choices[index].source == NO_SOURCE && holders_of(&run->questions[index]) > 1;
}

static int sort_shared(struct run *run, size_t count, uint32_t *by_holders) {
    uint32_t sum = 0;
    run->shared = vv_malloc((run->shared_count + 1) * sizeof *run->shared);
    if (!run->shared)
        return -ENOMEM;
    for (size_t i = 0; i < 256; i++) {
        uint32_t here = by_holders[i];
        by_holders[i] = sum;
        sum += here;
    }
    for (size_t i = 0; i < count; i++)
        if (is_shared(run, i)) {
            uint32_t holders = holders_of(&run->questions[i]);
            run->shared[by_holders[holders < 255 ? holders : 255]++] = (uint32_t)i;
        }
    return 0;
}

/* The candidate with the least load. Its own load is counted without the chunk that it would lose. */
static int choose_owner(struct run *run, uint32_t index, int is_again) {
    const struct vv_question *question = &run->questions[index];
    struct choice *choice = &run->choices[index];
    uint64_t least = UINT64_MAX;
    struct candidate best = {0};
    for (uint32_t i = 0; i < candidates_of(question); i++) {
        struct candidate candidate = get_candidate(question, i);
        uint64_t *load = load_of(run, &candidate);
        if (!load)
            return -ENOMEM;
        if (is_again && candidate.rank == choice->owner)
            *load -= size_of(question);
        if (*load < least) {
            least = *load;
            best = candidate;
        }
    }
    uint64_t *load = load_of(run, &best);
    if (!load)
        return -ENOMEM;
    *load += size_of(question);
    choice->owner = best.rank;
    choice->address = best.address;
    return 0;
}

/* As far as chunks of this size can be. */
static int is_level(const struct vv_loads *loads, uint64_t size) {
    uint64_t least = UINT64_MAX, most = 0;
    for (size_t i = 0; i < loads->capacity; i++)
        if (loads->list[i].rank) {
            least = loads->list[i].bytes < least ? loads->list[i].bytes : least;
            most = loads->list[i].bytes > most ? loads->list[i].bytes : most;
        }
    return most <= least || most - least <= size;
}

static int choose_owners(struct run *run) {
    int rc = 0;
    for (int pass = 0; pass <= PASSES && rc == 0 && !(pass && is_level(&run->loads, GRAIN)); pass++)
        for (size_t i = 0; i < run->shared_count && rc == 0; i++)
            rc = choose_owner(run, run->shared[i], pass > 0);
    for (size_t i = 0; i < run->shared_count && rc == 0; i++)
        remember(run, run->questions[run->shared[i]].id, &run->choices[run->shared[i]]);
    return rc;
}

static int write_answers(const struct run *run, size_t count, struct vv_buf *out, uint32_t *sizes) {
    size_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += sizes[i] = run->choices[i].source != NO_SOURCE || holders_of(&run->questions[i]) > 1 ? ANSWER : 0;
    uint8_t *at = vv_buf_extend(out, total);
    if (!at)
        return -ENOMEM;
    for (size_t i = 0; i < count; at += sizes[i++])
        if (sizes[i]) {
            vv_put32(at, run->choices[i].owner);
            vv_put32(at + 4, run->choices[i].source);
            vv_put64(at + 8, run->choices[i].address);
        }
    return 0;
}

static int answer_offers(void *arg, const struct vv_question *questions, size_t count, struct vv_buf *out,
                         uint32_t *sizes) {
    struct run *run = arg;
    uint32_t by_holders[256] = {0};
    if (run->code)
        return run->code;
    run->questions = questions;
    run->choices = vv_malloc((count + 1) * sizeof *run->choices);
    int rc = run->choices ? settle_first(run, count, by_holders) : -ENOMEM;
    if (rc == 0)
        rc = sort_shared(run, count, by_holders);
    if (rc == 0)
        rc = choose_owners(run);
    if (rc == 0)
        rc = write_answers(run, count, out, sizes);
    vv_free(run->choices);
    vv_free(run->shared);
    vv_loads_clear(&run->loads);
    return rc;
}

/* ---- where it was asked ---- */

static int take_verdict(void *arg, size_t index, const void *data, uint32_t size) {
    struct run *run = arg;
    const struct vv_offer *offer = &run->in->offers[index];
    struct vv_verdict *verdict = &run->verdicts[index];
    uint32_t own = run->exact->comm->rank;
    if (size != 0 && size != ANSWER)
        return -EPROTO;
    *verdict = (struct vv_verdict){.kind = VV_MINE, .owner = own, .address = offer->address};
    if (size) {
        const uint8_t *at = data;
        uint32_t source = vv_get32(at + 4);
        *verdict = (struct vv_verdict){.kind = VV_THERE,
                                       .owner = vv_get32(at),
                                       .address = vv_get64(at + 8),
                                       .source = source == NO_SOURCE ? 0 : source,
                                       .is_shared = 1}; /* an only holder's answer is empty */
        if (source != NO_SOURCE)
            verdict->kind = VV_KNOWN;
        else if (verdict->owner == own)
            verdict->kind = VV_MINE;
        if ((source == NO_SOURCE && verdict->owner >= run->exact->comm->ranks) ||
            (source != NO_SOURCE && source >= run->in->source_count))
            return -EPROTO;
    }
    uint64_t *sums[] = {&run->sums->mine, &run->sums->there, &run->sums->known};
    *sums[verdict->kind] += offer->size;
    return 0;
}

/* Only this rank holds it, as far as it knows. */
static void write_question(const struct run *run, size_t index, uint32_t share, struct vv_question *question,
                           uint8_t *data) {
    const struct vv_offer *offer = &run->in->offers[index];
    struct candidate own = {run->exact->comm->rank, share, offer->address};
    vv_put32(data, offer->size);
    vv_put32(data + 4, 1);
    put_candidate(data + HEAD, &own);
    *question = (struct vv_question){offer->id, VV_HOME_BY_ID, HEAD + CANDIDATE, data};
}

static int exact_run(struct vv_exchange *exchange, const struct vv_exchange_in *in, struct vv_verdict *verdicts,
                     struct vv_exchange_sums *sums, struct varve_error *error) {
    static const struct vv_hops_ops ops = {merge, answer_offers, take_verdict};
    struct exact *exact = (struct exact *)exchange;
    struct run run = {.exact = exact, .in = in, .verdicts = verdicts, .sums = sums};
    uint64_t share = in->fixed_bytes / vv_hops_homes(exact->hops) / SHARE_UNIT;
    struct vv_question *questions = vv_malloc((in->count + 1) * sizeof *questions);
    uint8_t *data = vv_malloc((in->count + 1) * (HEAD + CANDIDATE));
    if (!questions || !data)
        run.code = -ENOMEM; /* told from `answer`, as a home: the others wait for us */
    for (size_t i = 0; i < in->count && run.code == 0; i++)
        write_question(&run, i, share < UINT32_MAX ? (uint32_t)share : UINT32_MAX, &questions[i],
                       data + i * (HEAD + CANDIDATE));
    int rc = vv_hops_ask(exact->hops, questions, run.code ? 0 : in->count, &ops, &run, &sums->hops, error);
    sums->table_bytes = vv_table_bytes(&exact->table);
    vv_free(questions);
    vv_free(data);
    return rc;
}

/* ---- life ---- */

static void exact_close(struct vv_exchange *exchange) {
    struct exact *exact = (struct exact *)exchange;
    vv_hops_destroy(exact->hops);
    vv_table_clear(&exact->table);
    vv_free(exact);
}

static const struct vv_exchange_ops exact_ops = {"exact", exact_run, exact_close};

int vv_exchange_exact(struct varve_comm *comm, int shape, struct vv_exchange **out, struct varve_error *error) {
    struct vv_hops *hops = NULL;
    int rc = vv_hops_create(comm, shape, &hops, error);
    if (rc == -ENOTSUP)
        return rc;
    struct exact *exact = vv_calloc(1, sizeof *exact);
    if (rc == 0 && !exact)
        rc = vv_error(error, -ENOMEM, "no memory for deduplication between ranks");
    rc = vv_comm_agree(comm, rc, error);
    if (rc) {
        vv_hops_destroy(hops);
        vv_free(exact);
        return rc;
    }
    *exact = (struct exact){.base = {&exact_ops}, .comm = comm, .hops = hops};
    *out = &exact->base;
    return 0;
}

int vv_exchange_exact_capacity(struct vv_exchange *exchange, size_t entries) {
    return vv_table_resize(&((struct exact *)exchange)->table, entries);
}

void vv_exchange_exact_forget(struct vv_exchange *exchange) {
    struct exact *exact = (struct exact *)exchange;
    size_t entries = vv_table_entries(&exact->table);
    vv_table_clear(&exact->table);
    exact->sources = 0;
    vv_table_resize(&exact->table, entries); /* no memory: it remembers nothing until there is room again */
}
