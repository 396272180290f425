/* After a restart: the ids of all granules that were read, and the digest of every region. Strips of large regions, and
 * groups of small ones, are hashed by the pool. */
#include "base/content_id.h"
#include "read/region_reader.h"
#include "restart/restart_private.h"

#define STRIP (4u << 20) /* bytes of one region hashed in one piece, and of one job */
#define JOB_STRIPS_MAX 4096u

/* A piece of a region. */
struct strip {
    struct vv_past *past;
    uint64_t first; /* granule */
    const uint8_t *data;
    uint64_t size;
    struct vv_hash128 sum;
};

struct job {
    uint64_t seed;
    struct strip *strips;
    size_t count;
};

static int add_range(struct vv_check *check, struct vv_past *past, const uint8_t *memory, uint64_t from, uint64_t to) {
    for (uint64_t at = from; at < to; at += STRIP) {
        struct strip strip = {
            .past = past, .first = at / VV_GRANULE, .data = memory + at, .size = to - at < STRIP ? to - at : STRIP};
        vv_buf_append(&check->strips, &strip, sizeof strip);
    }
    return check->strips.failed;
}

/* Everything that is not a zero run; those were made zero without being read. */
int vv_check_region(struct vv_check *check, struct vv_past *past, const void *memory) {
    const struct vv_origins *origins = &past->origins;
    uint64_t done = 0;
    vv_buf_append(&check->pasts, &past, sizeof past);
    int rc = check->pasts.failed;
    for (size_t i = 0; i < origins->count && rc == 0;) {
        if (origins->list[i].kind == VV_ORIGIN_ZERO) {
            i++;
            continue;
        }
        uint64_t from = origins->list[i].offset / VV_GRANULE * VV_GRANULE;
        while (i < origins->count && origins->list[i].kind != VV_ORIGIN_ZERO)
            i++;
        uint64_t to = vv_granules(origins->list[i - 1].offset + origins->list[i - 1].length) * VV_GRANULE;
        from = from > done ? from : done;
        done = to = to < past->length ? to : past->length;
        if (from < to)
            rc = add_range(check, past, memory, from, to);
    }
    return rc;
}

static int hash_strips(void *arg) {
    struct job *job = arg;
    for (size_t i = 0; i < job->count; i++) {
        struct strip *strip = &job->strips[i];
        strip->sum = vv_ids_take(job->seed, strip->first, strip->data, strip->size, strip->past->ids);
    }
    return 0;
}

static int cut_jobs(struct vv_check *check, struct vv_buf *jobs) {
    struct strip *strips = (struct strip *)check->strips.data;
    size_t count = check->strips.size / sizeof *strips;
    for (size_t i = 0; i < count;) {
        struct job job = {.seed = check->seed, .strips = &strips[i]};
        for (uint64_t bytes = 0; i < count && job.count < JOB_STRIPS_MAX && bytes < STRIP; i++, job.count++)
            bytes += strips[i].size;
        vv_buf_append(jobs, &job, sizeof job);
    }
    return jobs->failed;
}

static int run_jobs(struct vv_check *check) {
    struct vv_buf jobs;
    vv_buf_init(&jobs);
    int rc = cut_jobs(check, &jobs);
    for (size_t i = 0; i < jobs.size / sizeof(struct job) && rc == 0; i++)
        rc = vv_pool_submit(check->pool, hash_strips, (struct job *)jobs.data + i);
    int waited = vv_pool_wait(check->pool);
    vv_buf_clear(&jobs);
    return rc ? rc : waited;
}

int vv_check_run(struct vv_check *check, struct varve_error *error) {
    int rc = run_jobs(check);
    if (rc)
        return vv_error(error, rc, "the restored regions could not be checked: %s", varve_error_text(rc));
    const struct strip *strips = (const struct strip *)check->strips.data;
    size_t count = check->strips.size / sizeof *strips, next = 0;
    for (size_t i = 0; i < check->pasts.size / sizeof(struct vv_past *); i++) {
        const struct vv_past *past = ((struct vv_past **)check->pasts.data)[i];
        struct vv_hash128 digest = {0, 0};
        for (; next < count && strips[next].past == past; next++)
            digest = vv_hash128_add(digest, strips[next].sum);
        if (!vv_hash128_equal(digest, past->digest))
            return vv_error(error, VARVE_CORRUPT,
                            "region %s: the restored bytes do not have the digest that was stored", past->name);
    }
    return 0;
}

void vv_check_clear(struct vv_check *check) {
    vv_buf_clear(&check->strips);
    vv_buf_clear(&check->pasts);
}
