#include "job.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 4096u

/* Who has the same bytes, and when they change. */
enum who { ALL, PAIRS, NOBODY, EVERY_SECOND_PAGE };
enum change { NEVER, A_THIRD, ALWAYS };

static const struct {
    const char *name;
    size_t size;
    enum who who;
    enum change change;
    unsigned gap; /* all but one in so many pages are zero; 0: none */
} regions[LOST_REGIONS] = {
    {"grid", 6 * PAGE, ALL, NEVER, 0},
    {"table", 5 * PAGE + 77, ALL, ALWAYS, 0},
    {"pair", 9 * PAGE, PAIRS, A_THIRD, 0},
    {"mask", 7 * PAGE, NOBODY, NEVER, 0},
    {"field", 12 * PAGE + 123, NOBODY, A_THIRD, 0},
    {"halo", 8 * PAGE, EVERY_SECOND_PAGE, A_THIRD, 0},
    {"sparse", 16 * PAGE, NOBODY, ALWAYS, 4},
    {"step", 8, ALL, ALWAYS, 0},
};

const char *lost_region(int number) {
    return regions[number].name;
}

void lost_job_init(struct lost_job *job, uint32_t rank) {
    job->rank = rank;
    for (int i = 0; i < LOST_REGIONS; i++) {
        job->data[i] = aligned_alloc(PAGE, (regions[i].size + PAGE - 1) / PAGE * PAGE);
        if (!job->data[i])
            abort();
    }
    lost_job_spoil(job);
}

void lost_job_clear(struct lost_job *job) {
    for (int i = 0; i < LOST_REGIONS; i++)
        free(job->data[i]);
}

int lost_job_protect(struct lost_job *job, struct varve_session *session) {
    int rc = 0;
    for (int i = 0; i < LOST_REGIONS && rc == 0; i++)
        rc = varve_protect(session, regions[i].name, job->data[i], regions[i].size);
    return rc;
}

static uint64_t owner(enum who who, uint32_t rank, uint64_t page) {
    if (who == ALL || (who == EVERY_SECOND_PAGE && page % 2 == 0))
        return 0;
    return who == PAIRS ? 1 + rank / 2 : 1000 + rank;
}

static uint64_t stamp(enum change change, int64_t version, uint64_t page) {
    return change == NEVER ? 0 : change == ALWAYS ? (uint64_t)version : ((uint64_t)version + page) / 3;
}

static uint64_t mix(uint64_t x, uint64_t y) {
    x = (x ^ y) * UINT64_C(0x9e3779b97f4a7c15);
    return x ^ x >> 29;
}

static void make_page(int region, uint32_t rank, int64_t version, uint64_t page, uint64_t out[PAGE / 8]) {
    memset(out, 0, PAGE);
    if (regions[region].gap && page % regions[region].gap)
        return;
    uint64_t x = mix(1 + (uint64_t)region, owner(regions[region].who, rank, page));
    uint64_t now = stamp(regions[region].change, version, page);
    uint64_t y = mix(mix(x, page % 3 == 1 ? 0 : now), page);
    for (uint64_t i = 0; i < PAGE / 8; i++)
        out[i] = mix(y, i);
    if (page % 3 == 1) /* only a few words change, and those of the version before are again as they were at first */
        for (uint64_t i = 0; i < 4; i++)
            out[(now * 37 + i * 100) % (PAGE / 8)] = mix(mix(x, now), i);
}

static size_t page_size(int region, size_t at) {
    return regions[region].size - at < PAGE ? regions[region].size - at : PAGE;
}

void lost_job_fill(struct lost_job *job, int64_t version) {
    uint64_t page[PAGE / 8];
    for (int i = 0; i < LOST_REGIONS; i++)
        for (size_t at = 0; at < regions[i].size; at += PAGE) {
            make_page(i, job->rank, version, at / PAGE, page);
            memcpy(job->data[i] + at, page, page_size(i, at));
        }
}

void lost_job_spoil(struct lost_job *job) {
    for (int i = 0; i < LOST_REGIONS; i++)
        memset(job->data[i], 0xa5, regions[i].size);
}

int lost_job_is(const struct lost_job *job, int64_t version, char *where, size_t capacity) {
    uint64_t page[PAGE / 8];
    for (int i = 0; i < LOST_REGIONS; i++)
        for (size_t at = 0; at < regions[i].size; at += PAGE) {
            make_page(i, job->rank, version, at / PAGE, page);
            if (memcmp(job->data[i] + at, page, page_size(i, at)) != 0) {
                snprintf(where, capacity, "WRONG BYTES: %s of rank %u is not that of version %" PRId64 " in page %zu",
                         regions[i].name, job->rank, version, at / PAGE);
                return 0;
            }
        }
    return 1;
}
