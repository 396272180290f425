/* Tables, JSON lines and bounds of bench-field. */
#include "field_report.h"

#include <stdio.h>

#include "bench.h"

#define BOUND_DURABLE 1.25 /* of bare, unique data */
#define BOUND_RESTART 1.3  /* of a cold read */
#define BOUND_LATER 1.05   /* of the changed chunks' bytes, codec none */
#define BOUND_FLOOR 1.05   /* of what must be stored, once for all ranks, codec none */
#define BOUND_METADATA                                                                                                 \
    0.005                /* of protected bytes: the first checkpoint's, and any manifest written as a whole again      \
                          */
#define BOUND_CHUNK 17.0 /* metadata bytes per new chunk of a later checkpoint */
#define BOUND_RUN 64.0   /* and per changed run */

/* Of bare, when the program runs on beside its checkpoints: with a processor for every rank, and with half of one. */
#define BOUND_BLOCKING 0.10
#define BOUND_BLOCKING_MANY 0.15
#define BOUND_RUNTIME 0.35
#define BOUND_RUNTIME_MANY 0.5
#define BOUND_RUNTIME_TRAIN 0.6
#define MANY_RANKS 3
#define BOUND_AUDIT 0.01 /* of the blocking time */

void field_add(struct field_list *list, double value) {
    if (list->count < FIELD_LIST_MAX)
        list->values[list->count++] = value;
}

static double median(const struct field_list *list) {
    return bench_median(list->values, list->count);
}

/* How much a list varies: on a machine that others use, too, this is what its median can be wrong by. */
static double spread(const struct field_list *list) {
    double least = list->count ? list->values[0] : 0, most = least;
    for (size_t i = 1; i < list->count; i++) {
        least = list->values[i] < least ? list->values[i] : least;
        most = list->values[i] > most ? list->values[i] : most;
    }
    return most - least;
}

static double over(double a, double b) {
    return b > 0 ? a / b : 0;
}

static double durable_over_bare(const struct field_result *r) {
    return over(median(&r->durable), median(&r->bare));
}

static double blocking_over_bare(const struct field_result *r) {
    return over(median(&r->blocked), median(&r->bare));
}

/* Of a time from the call until the work is done and the checkpoint survives. */
static double lost(const struct field_result *r, double flight) {
    return flight - median(&r->async.undisturbed);
}

static double runtime_over_bare(const struct field_result *r) {
    return over(lost(r, median(&r->async.flight)), median(&r->bare));
}

static double audit_over_blocking(const struct field_result *r) {
    return over(median(&r->async.audit), median(&r->blocked));
}

static double restart_over_cold_read(const struct field_result *r) {
    return over(median(&r->restart), median(&r->cold_read));
}

/* Metadata of later checkpoints against what it may be; 1 is the bound. */
static double later_metadata_share(const struct field_result *r) {
    return over(r->later_metadata, BOUND_CHUNK * r->later_chunks + BOUND_RUN * r->later_runs);
}

/* The worse of the first checkpoint and the later ones. */
static double bytes_over_floor(const struct field_result *r) {
    double first = over(r->first_growth, r->first_floor), later = over(r->later_growth, r->later_floor);
    return first > later ? first : later;
}

/* ---- JSON ---- */

static void json_floor(const struct field_result *r) {
    printf(",\"bytes_over_floor\":%.4f,\"first_bytes\":%.0f,\"first_floor\":%.0f", bytes_over_floor(r), r->first_growth,
           r->first_floor);
    printf(",\"later_bytes\":%.0f,\"later_floor\":%.0f", r->later_growth, r->later_floor);
    printf(",\"dedup\":\"%s\",\"dedup_reason\":\"%s\"", r->dedup, r->dedup_reason);
}

/* Of all the process has done so far, earlier modes included. */
static double peak_over_protected(const struct field_result *r) {
    return over(r->peak * r->ranks, r->protected_bytes);
}

static void json_bytes(const struct field_result *r) {
    printf(",\"peak_over_protected\":%.4f", peak_over_protected(r));
    printf(",\"later_bytes_over_floor\":%.4f,\"metadata_over_raw\":%.6f", over(r->later_growth, r->later_changed),
           over(r->first_metadata, r->protected_bytes));
    printf(",\"later_metadata_over_bound\":%.4f,\"later_metadata_bytes\":%.0f", later_metadata_share(r),
           r->later_metadata);
    printf(",\"later_chunks\":%.0f,\"later_runs\":%.0f,\"base_bytes\":%.0f", r->later_chunks, r->later_runs,
           r->base_most);
}

static void json_seconds(const struct field_result *r) {
    printf(",\"seconds_bare\":%.4f,\"seconds_blocked\":%.4f,\"seconds_durable\":%.4f", median(&r->bare),
           median(&r->blocked), median(&r->durable));
    printf(",\"seconds_first\":%.4f,\"seconds_cpu\":%.4f", r->first_durable, median(&r->cpu));
    printf(",\"seconds_fastest_bare\":%.4f,\"fastest_bare\":\"%s\"", r->fast_write, r->fast_write_name);
    printf(",\"seconds_restart\":%.4f,\"seconds_cold_read\":%.4f", median(&r->restart), median(&r->cold_read));
    printf(",\"seconds_restart_cpu\":%.4f,\"seconds_cold_read_cpu\":%.4f", median(&r->restart_cpu),
           median(&r->cold_cpu));
    printf(",\"seconds_fastest_read\":%.4f,\"fastest_read\":\"%s\"", r->fast_read, r->fast_read_name);
}

static void json_capture(const struct field_result *r) {
    const struct field_async *a = &r->async;
    printf(",\"later_bytes_staged\":%.0f,\"later_bytes_drained\":%.0f,\"later_bytes_held\":%.0f", a->staged, a->drained,
           a->held);
    printf(",\"later_bytes_frozen\":%.0f", a->frozen);
    printf(",\"later_pages_wait\":%.0f,\"later_pages_cow\":%.0f,\"later_pages_avoided\":%.0f", a->wait, a->cow,
           a->avoided);
    printf(",\"later_pages_ahead\":%.0f,\"later_pages_trapped\":%.0f", a->ahead, a->trapped);
    printf(",\"frozen_memory_over_protected\":%.4f", over(a->frozen_most, r->protected_bytes));
    printf(",\"extra_memory_over_protected\":%.4f,\"tracker\":\"%s\",\"capture_reason\":\"%s\"",
           over(a->memory_most, r->protected_bytes), a->tracker, a->reason);
}

static void json_async(const struct field_result *r) {
    const struct field_async *a = &r->async;
    double bare = median(&r->bare);
    printf(",\"runtime_over_bare\":%.4f,\"first_blocking_over_bare\":%.4f,\"first_runtime_over_bare\":%.4f",
           runtime_over_bare(r), over(a->first_blocked, bare), over(lost(r, a->first_flight), bare));
    printf(",\"seconds_lost\":%.4f,\"seconds_undisturbed\":%.4f,\"seconds_asking\":%.4f", lost(r, median(&a->flight)),
           median(&a->undisturbed), median(&a->asking));
    printf(",\"seconds_undisturbed_cpu\":%.4f,\"seconds_program_cpu\":%.4f,\"seconds_helper_cpu\":%.4f",
           median(&a->undisturbed_cpu), median(&a->program_cpu), median(&a->helper_cpu));
    printf(",\"seconds_undisturbed_spread\":%.4f,\"seconds_lost_spread\":%.4f", spread(&a->undisturbed),
           spread(&a->flight));
    printf(",\"seconds_audit\":%.6f,\"audit_over_blocking\":%.5f", median(&a->audit), audit_over_blocking(r));
    json_capture(r);
}

static void json_phases(const struct field_phases *p) {
    printf(",\"restart_read_over_needed\":%.4f,\"restart_decoded_over_needed\":%.4f", over(p->read, p->needed),
           over(p->decoded, p->needed));
    printf(",\"restart_bytes_read\":%.0f,\"restart_bytes_needed\":%.0f,\"restart_reads\":%.0f", p->read, p->needed,
           p->reads);
    printf(",\"restart_blocks\":%.0f,\"restart_rounds\":%.0f,\"restart_page_faults\":%.0f", p->blocks, p->rounds,
           p->faults);
    printf(",\"restart_reading\":%.4f,\"restart_checking\":%.4f,\"restart_decoding\":%.4f", p->reading, p->checking,
           p->decoding);
    printf(",\"restart_copying\":%.4f,\"restart_waiting\":%.4f,\"restart_peak_over_protected\":%.4f", p->copying,
           p->waiting, p->peak);
}

void field_print_json(const struct field_result *r) {
    double bare = median(&r->bare);
    printf("{\"bench\":\"field\",\"mode\":\"%s\",\"ranks\":%u,\"pattern\":\"%s\",\"codec\":\"%s\",\"bytes\":%.0f",
           r->mode->name, r->ranks, r->pattern, r->codec, r->protected_bytes);
    printf(",\"blocking_over_bare\":%.4f,\"durable_over_bare\":%.4f", blocking_over_bare(r), durable_over_bare(r));
    printf(",\"restart_over_cold_read\":%.4f,\"first_durable_over_bare\":%.4f", restart_over_cold_read(r),
           over(r->first_durable, bare));
    json_bytes(r);
    json_floor(r);
    json_seconds(r);
    json_phases(&r->phases);
    if (r->mode->is_async)
        json_async(r);
    printf("}\n");
    fflush(stdout);
}

/* ---- for people ---- */

static void people_writes(const struct field_result *r) {
    double bare = median(&r->bare);
    int is_unique = r->mode->is_unique && !r->mode->is_async; /* does the first one count, too? */
    printf("  %-42s %8.3f s\n", "bare write and fsync", bare);
    printf("  %-42s %8.3f s   %5.2f of bare (%s)\n", "fastest bare write", r->fast_write, over(r->fast_write, bare),
           r->fast_write_name);
    printf("  %-42s %8.3f s   %5.2f of bare\n", "first checkpoint, durable", r->first_durable,
           over(r->first_durable, bare));
    printf("  %-42s %8.3f s   %5.2f of bare\n", is_unique ? "checkpoints, blocking" : "later checkpoints, blocking",
           median(&r->blocked), blocking_over_bare(r));
    printf("  %-42s %8.3f s   %5.2f of bare, %.3f s of processor\n",
           is_unique ? "checkpoints, durable" : "later checkpoints, durable", median(&r->durable), durable_over_bare(r),
           median(&r->cpu));
}

static void people_async(const struct field_result *r) {
    const struct field_async *a = &r->async;
    double bare = median(&r->bare), work = median(&a->undisturbed), flight = median(&a->flight), count = r->ranks;
    double per = count * (double)a->flight.count * (double)BENCH_MIB;
    printf("  %-42s %8.6f s   %5.2f %% of the blocking\n", "  the audit, in it", median(&a->audit),
           100 * audit_over_blocking(r));
    printf("  %-42s %8.3f s   %5.2f of bare\n", "first checkpoint, blocking", a->first_blocked,
           over(a->first_blocked, bare));
    printf("  %-42s %8.3f s   %5.2f of bare\n", "first checkpoint, run time lost", lost(r, a->first_flight),
           over(lost(r, a->first_flight), bare));
    printf("  %-42s %8.3f s   %5.2f of bare\n", "later checkpoints, run time lost", lost(r, flight),
           runtime_over_bare(r));
    printf("  %-42s %8.3f s   varies by %.3f s; asking whether it survives %.3f s\n",
           "  the call, and the work beside it", flight, spread(&a->flight), median(&a->asking));
    printf("  %-42s %8.3f s   varies by %.3f s\n", "  the same work undisturbed", work, spread(&a->undisturbed));
    printf("  %-42s %8.3f s   undisturbed %.3f s; helper threads %.3f s\n", "  processor, per rank: the program",
           median(&a->program_cpu) / count, median(&a->undisturbed_cpu) / count, median(&a->helper_cpu) / count);
    printf("  %-42s %8.1f MiB copied, %.1f stored in the call, %.1f held, %.1f frozen\n", "  per rank",
           over(a->staged, per), over(a->drained, per), over(a->held, per), over(a->frozen, per));
    printf("  %-42s %8.0f stopped: %.0f copied, %.0f waited; %.0f released in time\n", "  pages of all of them",
           a->trapped, a->cow, a->wait, a->ahead);
    printf("  %-42s %8.3f %%  tracker %s; %s\n", "  most memory beside it, of protected",
           100 * over(a->memory_most, r->protected_bytes), a->tracker, a->reason);
}

static void people_reads(const struct field_result *r) {
    double cold = median(&r->cold_read);
    printf("  %-42s %8.3f s                 %.3f s of processor\n", "cold read", cold, median(&r->cold_cpu));
    printf("  %-42s %8.3f s   %5.2f of the cold read (%s)\n", "fastest bare cold read", r->fast_read,
           over(r->fast_read, cold), r->fast_read_name);
    printf("  %-42s %8.3f s   %5.2f of the cold read, %.3f s of processor\n", "restart, every byte checked",
           median(&r->restart), restart_over_cold_read(r), median(&r->restart_cpu));
    const struct field_phases *p = &r->phases;
    double mib = (double)BENCH_MIB;
    printf("  %-42s %8.2f     of the %.0f MiB that are unique; decoded %.2f, %.0f rounds, %.0f page faults\n",
           "  bytes read", over(p->read, p->needed), p->needed / mib, over(p->decoded, p->needed), p->rounds,
           p->faults);
    printf("  %-42s %8.2f     of what it protects\n", "  memory that a rank needs for it", p->peak);
    printf("  %-42s reading %.2f s, checking %.2f, decoding %.2f, copying %.2f, waiting %.2f\n",
           "  all threads of all ranks", p->reading, p->checking, p->decoding, p->copying, p->waiting);
}

static void people_bytes(const struct field_result *r) {
    printf("  %-42s %8.4f     of the bytes changed\n", "later checkpoints, all bytes in the store",
           over(r->later_growth, r->later_changed));
    printf("  %-42s %8.4f     of the floor: first %.1f of %.1f MiB, later in all %.1f of %.1f; dedup %s (%s)\n",
           "all bytes, nothing stored by two ranks", bytes_over_floor(r), r->first_growth / (double)BENCH_MIB,
           r->first_floor / (double)BENCH_MIB, r->later_growth / (double)BENCH_MIB, r->later_floor / (double)BENCH_MIB,
           r->dedup, r->dedup_reason);
    printf("  %-42s %8.3f %%\n", "first checkpoint, metadata of protected",
           100 * over(r->first_metadata, r->protected_bytes));
    printf("  %-42s %8.3f     of the bound: %.0f bytes for %.0f chunks in %.0f runs\n", "later checkpoints, metadata",
           later_metadata_share(r), r->later_metadata, r->later_chunks, r->later_runs);
    printf("  %-42s %8.3f %%\n", "largest rewritten base, of protected", 100 * over(r->base_most, r->protected_bytes));
    printf("  %-42s %8.3f     of what it protects\n\n", "memory of a rank at the most", peak_over_protected(r));
}

void field_print_people(const struct field_result *r) {
    double each = r->protected_bytes / (double)BENCH_MIB / r->ranks;
    const char *pattern = r->mode->is_unique ? "all" : r->pattern;
    if (r->ranks == 1)
        printf("%s, %.0f MiB, pattern %s, codec %s\n", r->mode->name, each, pattern, r->codec);
    else
        printf("%s, %u ranks of %.0f MiB, pattern %s, codec %s\n", r->mode->name, r->ranks, each, pattern, r->codec);
    people_writes(r);
    if (r->mode->is_async)
        people_async(r);
    people_reads(r);
    people_bytes(r);
    fflush(stdout);
}

/* ---- bounds ---- */

static int passes(const struct field_result *r, int is_quiet, const char *what, double value, double bound) {
    if (value > bound && !is_quiet)
        fprintf(stderr, "%s, %u ranks: %s is %.4f, which is over %.4f\n", r->mode->name, r->ranks, what, value, bound);
    return value > bound;
}

int field_bytes_over(const struct field_result *r, int is_quiet) {
    int is_over = passes(r, is_quiet, "metadata_over_raw", over(r->first_metadata, r->protected_bytes), BOUND_METADATA);
    is_over |= passes(r, is_quiet, "base over protected bytes", over(r->base_most, r->protected_bytes), BOUND_METADATA);
    if (r->mode->is_exact) /* metadata counts here, too: instead of the chunks of others there are references to them */
        is_over |= passes(r, is_quiet, "bytes_over_floor", bytes_over_floor(r), BOUND_FLOOR);
    else
        is_over |= passes(r, is_quiet, "later_metadata_over_bound", later_metadata_share(r), 1);
    if (r->mode->is_plain)
        is_over |= passes(r, is_quiet, "later_bytes_over_floor", over(r->later_growth, r->later_changed), BOUND_LATER);
    return is_over;
}

static int async_over(const struct field_result *r, double slack, int is_quiet) {
    int is_many = r->ranks >= MANY_RANKS || r->mode->regions > 0;
    double runtime = r->mode->regions > 0 ? BOUND_RUNTIME_TRAIN : is_many ? BOUND_RUNTIME_MANY : BOUND_RUNTIME;
    int is_over = passes(r, is_quiet, "blocking_over_bare", blocking_over_bare(r),
                         (is_many ? BOUND_BLOCKING_MANY : BOUND_BLOCKING) * slack);
    is_over |= passes(r, is_quiet, "runtime_over_bare", runtime_over_bare(r), runtime * slack);
    is_over |= passes(r, is_quiet, "audit_over_blocking", audit_over_blocking(r), BOUND_AUDIT * slack);
    return is_over;
}

int field_times_over(const struct field_result *r, double slack, int is_quiet) {
    const struct field_mode *mode = r->mode;
    int is_over = passes(r, is_quiet, "restart_over_cold_read", restart_over_cold_read(r), BOUND_RESTART * slack);
    if (mode->is_async && (!mode->is_unique || mode->regions > 0))
        is_over |= async_over(r, slack, is_quiet);
    if (mode->is_unique && !mode->is_async)
        is_over |= passes(r, is_quiet, "durable_over_bare", durable_over_bare(r), BOUND_DURABLE * slack);
    return is_over;
}
