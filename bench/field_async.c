/* bench-field: checkpoints beside which the program runs on.
 *
 * The program has a fixed amount of work between two checkpoints: iterations of a stencil, each ended by a meeting of
 * all ranks as an exchange of borders would be; in the first quarter of them it also writes the pages that the next
 * checkpoint will find changed. So it writes its memory while the checkpoint is in flight, and at once.
 *
 * The run time it loses is what passes from the call until this work is done and the checkpoint survives, less the
 * median time of the same work undisturbed: in the same run, by turns, with nothing in flight, on a twin of the memory
 * that nobody protects or watches. All there is to lose is in it: the call, traps, watching, threads of the library
 * that take the processor, and asking whether it survives. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "details.h"
#include "field_run.h"
#include "ranks.h"

struct flight {
    double blocked, durable, total, asking;
    double program_cpu, helper_cpu;
    uint64_t changed; /* bytes written meanwhile: they belong to the next checkpoint */
};

static double computed; /* used, so that no compiler may leave the work out */

static double thread_cpu(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static uint64_t iterate(const struct field_setup *setup, struct field *field, unsigned checkpoint, unsigned iteration) {
    unsigned writing = (setup->iterations + 3) / 4;
    uint64_t changed = iteration < writing ? field_advance_part(field, checkpoint, iteration, writing) : 0;
    computed += field_compute();
    ranks_meet();
    return changed;
}

static void undisturbed(const struct field_setup *setup, struct field *twin, unsigned checkpoint,
                        struct field_result *r) {
    double begin = ranks_start(), cpu = thread_cpu();
    for (unsigned i = 0; i < setup->iterations; i++)
        iterate(setup, twin, checkpoint, i);
    field_add(&r->async.undisturbed, ranks_stop(begin));
    field_add(&r->async.undisturbed_cpu, ranks_sum(thread_cpu() - cpu));
}

/* Is it durable by now? Counts the time that asking takes. */
static int ask(struct varve_session *session, double *asking) {
    double begin = bench_now();
    int rc = varve_test(session);
    *asking += bench_now() - begin;
    field_check(session, rc < 0 ? rc : 0, "test");
    return rc;
}

static void wait_for(struct varve_session *session, double *asking) {
    double begin = bench_now();
    field_check(session, varve_wait(session), "wait");
    *asking += bench_now() - begin;
}

static struct flight fly(const struct field_setup *setup, struct varve_session *session, struct field *field,
                         unsigned checkpoint) {
    struct flight flight = {0};
    double begin = ranks_start(), all_cpu = bench_cpu(), cpu = thread_cpu();
    field_check(session, varve_checkpoint(session, checkpoint), "checkpoint");
    flight.blocked = bench_now() - begin;
    for (unsigned i = 0; i < setup->iterations; i++) {
        flight.changed += iterate(setup, field, checkpoint + 1, i);
        if (flight.durable == 0 && ask(session, &flight.asking))
            flight.durable = bench_now() - begin;
    }
    if (flight.durable == 0) {
        wait_for(session, &flight.asking);
        flight.durable = bench_now() - begin;
    }
    flight.total = ranks_stop(begin);
    cpu = thread_cpu() - cpu;
    flight.program_cpu = ranks_sum(cpu);
    flight.helper_cpu = ranks_sum(bench_cpu() - all_cpu - cpu);
    flight.blocked = ranks_most(flight.blocked);
    flight.durable = ranks_most(flight.durable);
    flight.asking = ranks_most(flight.asking);
    return flight;
}

static void note_times(struct field_result *r, const struct flight *flight, unsigned checkpoint) {
    if (checkpoint == 0) {
        r->first_durable = flight->durable;
        r->async.first_blocked = flight->blocked;
        r->async.first_flight = flight->total;
        return;
    }
    field_add(&r->blocked, flight->blocked);
    field_add(&r->durable, flight->durable);
    field_add(&r->cpu, flight->program_cpu + flight->helper_cpu);
    field_add(&r->async.flight, flight->total);
    field_add(&r->async.asking, flight->asking);
    field_add(&r->async.program_cpu, flight->program_cpu);
    field_add(&r->async.helper_cpu, flight->helper_cpu);
}

static void note_capture(struct field_async *a, const struct vv_details *stats, unsigned checkpoint) {
    double memory = ranks_sum((double)stats->bytes_memory);
    if (memory > a->memory_most)
        a->memory_most = memory;
    double frozen = ranks_sum((double)stats->bytes_frozen_most);
    if (frozen > a->frozen_most)
        a->frozen_most = frozen;
    memcpy(a->tracker, stats->tracker, sizeof a->tracker);
    memcpy(a->reason, stats->capture_reason, sizeof a->reason);
    if (checkpoint == 0)
        return;
    field_add(&a->audit, ranks_most(stats->seconds_audit));
    a->staged += ranks_sum((double)stats->bytes_staged);
    a->drained += ranks_sum((double)stats->bytes_drained);
    a->held += ranks_sum((double)stats->bytes_held);
    a->frozen += ranks_sum((double)stats->bytes_frozen);
    a->wait += ranks_sum((double)stats->pages_wait);
    a->cow += ranks_sum((double)stats->pages_cow);
    a->avoided += ranks_sum((double)stats->pages_avoided);
    a->ahead += ranks_sum((double)stats->pages_ahead);
    a->trapped += ranks_sum((double)stats->pages_trapped);
}

/* changed: bytes written before it. Returns those written beside it. */
static uint64_t one_checkpoint(const struct field_setup *setup, struct varve_session *session, struct field *field,
                               struct field_result *r, unsigned checkpoint, uint64_t changed) {
    struct vv_details stats = {0};
    double before = field_store_bytes(setup);
    struct flight flight = fly(setup, session, field, checkpoint);
    field_check(session, vv_details_get(session, &stats), "stats");
    note_times(r, &flight, checkpoint);
    note_capture(&r->async, &stats, checkpoint);
    field_note_bytes(setup, r, &stats, checkpoint, changed, field_store_bytes(setup) - before);
    return flight.changed;
}

void field_measure_async(const struct field_setup *setup, struct field_result *r) {
    struct field field = field_new(setup, r->mode), twin = field;
    uint64_t changed = 0;
    field_init(&field, 1);
    field_init(&twin, 1);
    field_bare_write(setup, r->mode, field.memory); /* unmeasured, and so is the first work: see field_measure_saving */
    undisturbed(setup, &twin, 1, r);
    r->async.undisturbed.count = r->async.undisturbed_cpu.count = 0;
    struct varve_session *session = field_open(setup, r->mode);
    field_protect(setup, r->mode, session, field.memory);
    for (unsigned i = 0; i < setup->checkpoints; i++) {
        undisturbed(setup, &twin, i + 1, r);
        if (i % 2)
            changed = one_checkpoint(setup, session, &field, r, i, changed);
        field_add(&r->bare, field_bare_write(setup, r->mode, field.memory)); /* nothing is in flight here */
        if (i % 2 == 0)
            changed = one_checkpoint(setup, session, &field, r, i, changed);
        undisturbed(setup, &twin, i + 1, r);
    }
    field_fast_writes(setup, field.memory, r);
    field_check(session, varve_close(session), "close");
    field_clear(&field);
    field_clear(&twin);
    if (computed < 0)
        puts("");
}
