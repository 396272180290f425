/* From counts to what somebody would do. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analyze/analyze_private.h"

#define COPY_BYTES (32u << 20) /* to measure how fast memory is copied */
#define USUAL_SPEED 4e9        /* bytes per second, where there is no memory to measure */
#define WORTH 0.1              /* what a setting has to save, as a share of what would be stored without it */

static double seconds(void) {
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Into memory that was touched before, as that for copies is. The copy must not be found useless by a compiler. */
static double copy_speed(void) {
    char *from = malloc(COPY_BYTES), *to = malloc(COPY_BYTES);
    void *(*volatile copy)(void *, const void *, size_t) = memcpy;
    double speed = USUAL_SPEED;

    if (from && to) {
        memset(from, 1, COPY_BYTES);
        memset(to, 2, COPY_BYTES);
        double begin = seconds();
        copy(to, from, COPY_BYTES);
        double took = seconds() - begin;
        if (took > 0)
            speed = COPY_BYTES / took;
    }
    free(from);
    free(to);
    return speed;
}

static void __attribute__((format(printf, 3, 4))) append(char *text, size_t size, const char *format, ...) {
    size_t used = strlen(text);
    va_list args;

    va_start(args, format);
    vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

static void set(struct analyze_advice *out, const char *setting) {
    append(out->settings, sizeof out->settings, "%s%s", out->settings[0] ? "," : "", setting);
}

struct totals {
    double fresh, stored, zero, known, bytes;
    double compared, changed, fine_changed, grown; /* of all looks but the first */
    double plain, plain_known, cut_known;
};

static struct totals add_up(const struct analyze *analyze) {
    struct totals sum = {0};

    for (unsigned i = 0; i < analyze->count; i++) {
        const struct analyze_look *look = &analyze->list[i];
        sum.bytes += (double)look->all.bytes;
        sum.fresh += (double)look->all.fresh;
        sum.zero += (double)look->all.zero;
        sum.known += (double)(look->all.within + look->all.across + look->all.earlier);
        sum.stored += (double)look->all.stored;
        sum.plain += (double)look->plain;
        sum.plain_known += (double)look->plain_known;
        sum.cut_known += (double)look->cut_known;
        sum.compared += (double)look->compared;
        sum.changed += (double)look->changed;
        sum.fine_changed += (double)look->fine_changed;
        sum.grown += i ? (double)(look->all.bytes - look->compared) : 0;
    }
    return sum;
}

static void judge_codec(struct analyze_advice *out, const struct totals *sum) {
    if (sum->fresh > 0 && sum->stored < (1 - WORTH) * sum->fresh) {
        set(out, "codec=size");
        append(out->why, sizeof out->why, "codec=size: new pages become %.2g times smaller. ",
               sum->fresh / (sum->stored > 1 ? sum->stored : 1));
    } else if (sum->fresh > 0) {
        append(out->why, sizeof out->why, "The codec may stay auto: compression saves less than a tenth. ");
    }
}

static void judge_chunks(struct analyze_advice *out, const struct totals *sum) {
    if (sum->changed > 0 && sum->fine_changed < (1 - 3 * WORTH) * sum->changed) {
        set(out, "fine=128");
        append(out->why, sizeof out->why,
               "fine=128, for programs: of the pages that changed, %.0f %% of the bytes are as they were. ",
               100 * (1 - sum->fine_changed / sum->changed));
    }
    if (sum->cut_known > sum->plain_known + WORTH * sum->plain) {
        set(out, "chunk=cdc");
        append(out->why, sizeof out->why,
               "chunk=cdc, for import: chunks by content find %.0f %% of plain files known or zero, pages %.0f %%. ",
               100 * sum->cut_known / sum->plain, 100 * sum->plain_known / sum->plain);
    }
}

void analyze_advise(const struct analyze *analyze, struct analyze_advice *out) {
    struct totals sum = add_up(analyze);
    const struct analyze_look *last = &analyze->list[analyze->count - 1];

    *out = (struct analyze_advice){.changed = -1, .bytes = (uint64_t)sum.bytes};
    for (unsigned i = 0; i < analyze->count; i++)
        out->stored += analyze->list[i].all.stored + analyze->list[i].all.metadata;
    out->copied = last->all.bytes;
    if (analyze->count > 1) {
        out->changed = sum.compared + sum.grown > 0 ? (sum.changed + sum.grown) / (sum.compared + sum.grown) : 0;
        out->copied = (uint64_t)(out->changed * (double)last->all.bytes);
    }
    out->seconds_blocked = (double)out->copied / copy_speed();
    judge_codec(out, &sum);
    judge_chunks(out, &sum);
    size_t used = strlen(out->why);
    if (used && out->why[used - 1] == ' ')
        out->why[used - 1] = '\0';
}
