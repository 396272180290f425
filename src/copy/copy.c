/* Copying one checkpoint: claim the name there, look what is there already, write, read back, commit.
 *
 * The copy is an ordinary checkpoint of the other store, made as every other is: packs, writers list, record. What is
 * different is how a killed one goes on. Its claim says which checkpoint it copies; the next try finds that claim, and
 * goes on with the attempt of that generation under a higher claim, as adoption does (docs/format.md 10). Its heartbeat
 * names nothing meanwhile, so that tombstones stay; a prune that runs beside gives the attempt up, and the commit fails
 * then. */
#include "copy/copy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "copy/copy_private.h"
#include "lifecycle/lease.h"
#include "lifecycle/lifecycle.h"
#include "read/region_reader.h"

#define HEARTBEAT_SECONDS 15
#define DEAD_SECONDS 60
#define TAKEOVER_SECONDS 3     /* an earlier try that was just killed may still be going away */
#define HOME_RANKS 64u         /* whose manifests are in one pack */
#define UNIT_BYTES (64u << 20) /* of the checkpoint in a pack with data, unless there were too many */
#define UNITS_MOST 512u        /* packs with data: so much of the copy is written again after a kill, at most */
/* More than what may use the reserve of a full file system. Much of a stretch may be there already, so space is not
 * asked for all of it; but S3 must know of packs that need large parts. */
#define HINT_LEAST (1u << 20)
#define TABLE_MOST (32u << 20) /* ids of what is there already, 40 bytes each */

int vv_copy_no_memory(const struct vv_copy *copy) {
    return vv_error_sys(copy->error, -ENOMEM, "cannot copy %s", copy->from->name);
}

int vv_copy_progress(struct vv_copy *copy, uint64_t bytes) {
    const struct vv_copy_options *options = copy->options;
    copy->progress += bytes;
    if (options->progress && options->progress(options->arg, copy->progress, copy->total))
        return vv_error_sys(copy->error, -EINTR, "stopped");
    return 0;
}

int vv_copy_error_at(const struct vv_copy *copy, int rc, const char *name, uint32_t owner) {
    struct varve_error why = copy->error ? *copy->error : (struct varve_error){0};
    return vv_error(copy->error, rc, "%s@%" PRIu64 ", rank %u: %.380s", name, copy->from->version, owner, why.text);
}

uint64_t vv_copy_seed(const struct vv_copy *copy) {
    return copy->to ? copy->to->settings.seed : 0;
}

struct vv_pack_options vv_copy_pack_options(const struct vv_copy *copy, uint32_t writer) {
    const struct vv_record *record = vv_view_record(copy->view);
    uint64_t first = (uint64_t)writer * HOME_RANKS;
    int is_home = writer < copy->plan.homes;
    uint32_t left = is_home ? record->ranks - (uint32_t)first : 0;
    return (struct vv_pack_options){
        .writer = writer,
        .writers = copy->plan.homes + copy->plan.units,
        .ranks = record->ranks,
        .first_owner = is_home ? (uint32_t)first : record->ranks,
        .owners = left < HOME_RANKS ? left : HOME_RANKS,
        .parent = copy->parent,
        .part_size = VV_ADDRESS_END, /* no parts: one that is left without its pack could not be made again */
        .size_hint = is_home || copy->plan.unit_bytes <= UNIT_BYTES ? HINT_LEAST : copy->plan.unit_bytes,
        .program = record->program,
        .time_ns = record->time_ns,
    };
}

static void make_plan(struct vv_copy *copy) {
    const struct vv_record *record = vv_view_record(copy->view);
    uint64_t size = copy->options->settings->part_size;
    uint64_t units = record->protected_bytes / (size < UNIT_BYTES ? size : UNIT_BYTES) + 1;
    if (units > UNITS_MOST)
        units = UNITS_MOST;
    uint64_t bytes = record->protected_bytes / units + VV_GRANULE;
    copy->plan = (struct vv_copy_plan){.homes = (record->ranks - 1) / HOME_RANKS + 1,
                                       .units = (uint32_t)units,
                                       .unit_bytes = bytes / VV_GRANULE * VV_GRANULE};
}

/* Which checkpoint this is a copy of, in the claim: the digest of the writers list covers every byte of it. */
static void make_program(struct vv_copy *copy) {
    const struct vv_record *record = vv_view_record(copy->view);
    const struct vv_attempt *attempt = vv_view_attempt(copy->view);
    uint8_t bytes[64] = {0};
    memcpy(bytes, copy->from->store->id, 16);
    vv_hash128_put(bytes + 16, record->writers_digest);
    memcpy(bytes + 32, &attempt->generation, 4);
    memcpy(bytes + 36, &attempt->attempt, 4);
    memcpy(bytes + 40, &attempt->version, 8);
    memcpy(bytes + 48, &copy->plan.units, 4);
    struct vv_hash128 sum = vv_digest(bytes, sizeof bytes);
    snprintf(copy->program, sizeof copy->program, "varve copy of %s@%" PRIu64 " %016" PRIx64 "%016" PRIx64,
             copy->from->name, attempt->version, sum.high, sum.low);
}

/* ---- what is there ---- */

struct looking {
    struct vv_copy *copy;
    struct vv_attempt newest; /* checkpoint; generation 0: none */
    struct vv_attempt same;   /* the newest of this version or a later one */
    struct vv_attempt own;    /* one that says to be the same */
    uint64_t newest_ns;       /* when it was saved */
    uint64_t time_ns;         /* when the last of all was saved */
};

/* A copy has the time of what it is a copy of, to the nanosecond. The bytes are compared all the same. */
static int is_same_record(const struct vv_record *a, const struct vv_record *b) {
    return a->time_ns == b->time_ns && a->ranks == b->ranks && a->regions == b->regions &&
           a->protected_bytes == b->protected_bytes;
}

static int look_at_record_of(void *arg, uint32_t generation, uint64_t version) {
    struct looking *looking = arg;
    struct vv_copy *copy = looking->copy;
    const struct vv_attempt *instead = copy->options->instead;
    struct vv_record record;
    if (looking->newest.generation && version < copy->from->version)
        return 0;
    if (instead && generation == instead->generation && version == instead->version)
        return 0;
    int rc = vv_record_load(copy->to, copy->name, generation, version, &record, copy->error);
    if ((rc == VARVE_CORRUPT || rc == VARVE_UNKNOWN_FORMAT) && version < copy->from->version && copy->error)
        vv_log(copy->to->log, VV_LOG_WARN, "an older checkpoint there cannot be read, and is passed over: %s",
               copy->error->text);
    else if (rc < 0 && rc != VARVE_FORGOTTEN && rc != VARVE_NO_CHECKPOINT)
        return rc;
    if (rc < 0) {
        vv_error_clear(copy->error);
        return 0;
    }
    struct vv_attempt at = {.generation = generation, .version = version, .attempt = record.attempt};
    uint64_t time_ns = record.time_ns;
    int is_own = version == copy->from->version && is_same_record(&record, vv_view_record(copy->view));
    if (time_ns > looking->time_ns)
        looking->time_ns = time_ns;
    vv_record_clear(&record);
    if (looking->newest.generation == 0) {
        looking->newest = at;
        looking->newest_ns = time_ns;
    }
    if (looking->same.generation == 0 && version >= copy->from->version)
        looking->same = at;
    if (!is_own && version == copy->from->version && (is_own = vv_copy_is_ours(copy, generation)) < 0)
        return is_own;
    if (is_own && looking->own.generation == 0)
        looking->own = at;
    return 0;
}

static int refuse_version(struct vv_copy *copy, const struct vv_attempt *at) {
    return vv_error(copy->error, VARVE_MISMATCH,
                    "%s has %s version %" PRIu64 " there (generation %u), which is no copy of this one: copy it under "
                    "another name",
                    copy->name, at->version == copy->from->version ? "a" : "a later", at->version, at->generation);
}

/* A job that went back to an older checkpoint makes lower versions again; they are the newest all the same. */
static int is_later(const struct vv_copy *copy, const struct looking *looking) {
    return copy->options->may_go_back && vv_view_record(copy->view)->time_ns > looking->time_ns;
}

/* The newest there is no older state of this job, and shall not be buried below one. */
static int refuse_other_life(struct vv_copy *copy, const struct looking *looking) {
    const struct vv_copy_source *from = copy->from;
    const struct vv_attempt *newest = &looking->newest;
    if (!copy->options->may_go_back || newest->generation == 0 || newest->version >= from->version ||
        looking->newest_ns <= vv_view_record(copy->view)->time_ns)
        return 0;
    int rc = vv_copy_is_here(from->store, from->name, newest->version, looking->newest_ns, copy->error);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    return vv_error(copy->error, VARVE_MISMATCH,
                    "version %" PRIu64 " of %s there was saved later than version %" PRIu64
                    ", by a job that went on elsewhere: nothing is copied over it",
                    newest->version, copy->name, from->version);
}

/* 1: the copy is there, as copy->attempt; 0, and copy->parent; or an error. */
static int look_there(struct vv_copy *copy) {
    struct looking looking = {.copy = copy};
    int rc = copy->to ? vv_records_list_whole(copy->to, copy->name, look_at_record_of, &looking, copy->error) : 0;
    if (rc < 0)
        return rc;
    copy->parent = looking.newest;
    if (looking.own.generation)
        copy->attempt = looking.own;
    else if (looking.same.generation && !is_later(copy, &looking))
        return refuse_version(copy, &looking.same);
    return looking.own.generation ? 1 : refuse_other_life(copy, &looking);
}

static void take_ids(void *arg, const struct vv_stored_granules *granules) {
    struct vv_copy *copy = arg;
    for (uint32_t i = 0; i < granules->count; i++) {
        struct vv_known known = {.id = granules->ids[i],
                                 .source = granules->place.dependency + 1,
                                 .owner = granules->place.owner,
                                 .address = granules->place.address + (uint64_t)i * VV_GRANULE};
        if (!vv_hash128_is_zero(known.id))
            vv_table_put(&copy->table, &known, copy->is_alive);
    }
}

static int take_sources(struct vv_copy *copy, struct vv_view *view) {
    const struct vv_record *record = vv_view_record(view);
    uint32_t count = record->dependency_count + 1;
    copy->sources = vv_calloc(count, sizeof *copy->sources);
    copy->indices = vv_calloc(count, sizeof *copy->indices);
    copy->is_alive = vv_malloc(count + 1);
    if (!copy->sources || !copy->indices || !copy->is_alive)
        return vv_copy_no_memory(copy);
    memset(copy->is_alive, 1, count + 1);
    copy->sources[0] = (struct vv_dependency){copy->parent, record->writers_digest};
    for (uint32_t i = 1; i < count; i++)
        copy->sources[i] = record->dependencies[i - 1];
    copy->source_count = count;
    int rc = 0;
    for (uint32_t owner = 0; rc == 0 && owner < record->ranks; owner++) {
        rc = vv_copy_progress(copy, 0); /* they are many in a large checkpoint */
        rc = rc < 0 ? rc : vv_view_ids(view, owner, take_ids, copy, copy->error);
    }
    return rc;
}

static void clear_sources(struct vv_copy *copy) {
    vv_table_clear(&copy->table);
    vv_free(copy->sources);
    vv_free(copy->indices);
    vv_free(copy->is_alive);
    copy->sources = NULL;
    copy->indices = NULL;
    copy->is_alive = NULL;
    copy->source_count = 0;
}

static int make_table(struct vv_copy *copy) {
    size_t entries =
        vv_table_capacity(copy->options->settings->table_share, vv_view_record(copy->view)->protected_bytes);
    clear_sources(copy);
    copy->is_alive = vv_malloc(1);
    if (!copy->is_alive || vv_table_resize(&copy->table, entries < TABLE_MOST ? entries : TABLE_MOST) < 0)
        return vv_copy_no_memory(copy);
    copy->is_alive[0] = 1;
    return 0;
}

/* The ids of what the newest checkpoint there has. One that is damaged is not built on. */
static int take_parent(struct vv_copy *copy) {
    struct vv_view *view = NULL;
    int rc = make_table(copy);
    if (rc < 0 || copy->parent.generation == 0)
        return rc;
    vv_free(copy->is_alive);
    copy->is_alive = NULL;
    rc = vv_view_open(copy->to, copy->name, copy->parent.generation, copy->parent.version, &view, copy->error);
    if (rc == 0)
        rc = take_sources(copy, view);
    vv_view_close(view);
    if (rc != VARVE_CORRUPT && rc != VARVE_FORGOTTEN)
        return rc;
    vv_log(copy->to->log, VV_LOG_WARN, "the newest checkpoint of %s is not built on: %s", copy->name,
           copy->error ? copy->error->text : varve_error_text(rc));
    vv_error_clear(copy->error);
    copy->parent = (struct vv_attempt){0};
    return make_table(copy);
}

/* ---- reading back ---- */

static int is_same_shape(const struct vv_region_shape *a, const struct vv_region_shape *b) {
    int is_same = a->type == b->type && a->dims == b->dims && a->is_lossy == b->is_lossy &&
                  a->distribution == b->distribution && (!a->is_lossy || a->bound == b->bound);
    for (unsigned i = 0; is_same && i < a->dims; i++)
        is_same = a->dim[i].global == b->dim[i].global && a->dim[i].first == b->dim[i].first &&
                  a->dim[i].local == b->dim[i].local && a->dim[i].stride.block == b->dim[i].stride.block &&
                  a->dim[i].stride.every == b->dim[i].stride.every;
    return is_same;
}

/* Of the storage that is written to. One that stays would meet every later try as well. */
static int note_bad(struct vv_copy *copy, int rc) {
    if (rc == VARVE_CORRUPT || rc == -EIO || rc == -ENOENT)
        copy->is_bad = 1;
    return rc;
}

/* The digests are compared by who calls this; here it is told how far it is, and it may be stopped. */
static int pass_window(void *arg, uint64_t offset, const void *data, size_t size, uint64_t total) {
    (void)offset, (void)data, (void)total;
    return vv_copy_progress(arg, size);
}

/* Every byte from the storage, against the digest of what was read for it. */
static int compare_rank(struct vv_copy *copy, struct vv_view *view, uint32_t owner,
                        const struct vv_copied_region **digests) {
    struct vv_recipe *recipes[2] = {NULL, NULL};
    struct vv_recipe_region a, b;
    int more = 1, rc = vv_recipe_open(copy->view, owner, &recipes[0], copy->error);
    if (rc == 0)
        rc = note_bad(copy, vv_recipe_open(view, owner, &recipes[1], copy->error));
    while (rc == 0 && more) {
        more = vv_recipe_next_region(recipes[0], &a, copy->error);
        rc = more < 0 ? more : note_bad(copy, vv_recipe_next_region(recipes[1], &b, copy->error));
        if (rc < 0 || (more == 0 && rc == 0))
            break;
        int is_same = more == rc && strcmp(a.name, b.name) == 0 && a.number == b.number && a.length == b.length &&
                      is_same_shape(&a.shape, &b.shape) && vv_hash128_equal(((*digests)++)->digest, b.digest);
        rc = is_same
                 ? vv_region_stream(view, recipes[1], &b, copy->to->settings.seed, VV_COPY_WINDOW, copy->options->pool,
                                    pass_window, copy, copy->error)
                 : vv_error(copy->error, VARVE_CORRUPT, "region %s did not come out as it was", more ? a.name : b.name);
        rc = note_bad(copy, rc);
    }
    vv_recipe_close(recipes[0]);
    vv_recipe_close(recipes[1]);
    return rc == VARVE_CORRUPT ? vv_copy_error_at(copy, rc, copy->name, owner) : rc;
}

static int read_back(struct vv_copy *copy, struct vv_view *view) {
    const struct vv_copied_region *digests = copy->regions;
    const struct vv_record *one = vv_view_record(copy->view), *other = vv_view_record(view);
    int rc = 0;
    if (one->ranks != other->ranks || one->regions != other->regions || one->protected_bytes != other->protected_bytes)
        return vv_error(copy->error, VARVE_CORRUPT, "version %" PRIu64 " of %s did not come out as it was",
                        copy->from->version, copy->name);
    for (uint32_t owner = 0; rc == 0 && owner < one->ranks; owner++)
        rc = compare_rank(copy, view, owner, &digests);
    return rc;
}

/* ---- writing ---- */

static int commit_votes(struct vv_copy *copy, const struct vv_writers *writers, const struct vv_record *record) {
    struct vv_view *view = NULL;
    int rc = vv_commit_list(copy->to, copy->name, &copy->attempt, writers, copy->error);
    if (rc == 0)
        rc = vv_view_open_record(copy->to, copy->name, &copy->attempt, record, &view, copy->error);
    if (rc == 0)
        rc = read_back(copy, view);
    vv_view_close(view);
    view = NULL;
    if (rc == 0)
        rc = vv_commit_check(copy->to, copy->lease, copy->name, &copy->attempt, record, copy->error);
    if (rc == 0)
        rc = vv_commit_record(copy->to, copy->name, &copy->attempt, record, copy->error);
    if (rc < 0)
        return rc;
    rc = vv_view_open(copy->to, copy->name, copy->attempt.generation, copy->attempt.version, &view, copy->error);
    vv_view_close(view);
    return rc;
}

static int commit(struct vv_copy *copy) {
    struct vv_writers writers;
    struct vv_record record;
    int rc = vv_votes_read(copy->to, copy->name, &copy->attempt, &writers, &record, copy->error);
    if (rc != 1)
        return rc < 0 ? rc
                      : vv_error(copy->error, VARVE_FORGOTTEN,
                                 "packs of the copy are gone: something has pruned %s meanwhile; give it again",
                                 copy->name);
    record.time_ns = vv_view_record(copy->view)->time_ns;
    rc = commit_votes(copy, &writers, &record);
    vv_writers_clear(&writers);
    vv_record_clear(&record);
    return rc;
}

/* It did not come out well: nobody shall adopt it. What it stored is waste then, and is removed, since a copy is tried
 * again and again. What could not be removed now is left to prune. */
static int give_up(struct vv_copy *copy) {
    struct varve_error why = {0};
    int rc = vv_commit_refuse(copy->to, copy->name, &copy->attempt, &why);
    if (rc < 0)
        vv_log(copy->to->log, VV_LOG_WARN, "a copy that was given up may still be adopted: %s", why.text);
    if (rc == 1 && vv_attempt_remove(copy->to, copy->name, &copy->attempt, 0, NULL, NULL, &why) < 0)
        vv_log(copy->to->log, VV_LOG_WARN, "a copy that was given up takes space until `varve prune`: %s", why.text);
    return rc < 0 ? rc : 0;
}

static int write_copy(struct vv_copy *copy) {
    copy->is_bad = copy->is_useless = 0;
    int rc = vv_copy_data(copy);
    if (rc == 0)
        rc = vv_copy_manifests(copy);
    if (rc < 0)
        return rc;
    rc = commit(copy);
    copy->is_bad = copy->is_bad || rc == VARVE_CORRUPT;
    if (copy->is_bad)
        give_up(copy);
    return rc;
}

static void clear_found(struct vv_copy *copy) {
    vv_free(copy->runs);
    vv_free(copy->regions);
    vv_free(copy->moved);
    copy->runs = NULL;
    copy->regions = NULL;
    copy->moved = NULL;
    copy->run_count = copy->region_count = copy->moved_count = 0;
    copy->run_capacity = copy->region_capacity = copy->moved_capacity = 0;
    clear_sources(copy);
}

/* An attempt of this generation, which builds on the newest checkpoint. */
static int write_attempt(struct vv_copy *copy) {
    copy->is_resumed = 0;
    copy->attempt = (struct vv_attempt){.generation = vv_lease_generation(copy->lease), .version = copy->from->version};
    int rc = copy->parent.generation ? vv_lease_refer(copy->lease, &copy->parent, copy->error) : 0;
    if (rc == 0)
        rc = take_parent(copy);
    return rc == 0 ? write_copy(copy) : rc;
}

/* What came out badly may have been damaged before, in what it built on: once more with nothing below it. */
static int write_anew(struct vv_copy *copy) {
    int rc = write_attempt(copy);
    if (rc == 0 || !copy->is_bad || copy->parent.generation == 0)
        return rc;
    vv_log(copy->to->log, VV_LOG_WARN, "the newest checkpoint of %s there is not built on: %s", copy->name,
           copy->error ? copy->error->text : varve_error_text(rc));
    vv_error_clear(copy->error);
    clear_found(copy);
    copy->progress = copy->result->new_bytes = 0;
    copy->parent = (struct vv_attempt){0};
    rc = vv_lease_advance(copy->lease, copy->error);
    return rc < 0 ? rc : write_attempt(copy);
}

/* Both are read and compared. */
static int read_there(struct vv_copy *copy) {
    struct vv_view *view = NULL;
    copy->is_read_only = 1;
    copy->result->generation = copy->attempt.generation;
    copy->total = 2 * vv_view_record(copy->view)->protected_bytes;
    int rc = make_table(copy);
    if (rc == 0)
        rc = vv_copy_data(copy);
    copy->result->new_bytes = 0;
    if (rc == 0)
        rc = vv_view_open(copy->to, copy->name, copy->attempt.generation, copy->attempt.version, &view, copy->error);
    if (rc == 0)
        rc = read_back(copy, view);
    vv_view_close(view);
    copy->result->is_there = rc == 0;
    return rc;
}

/* What others have left is adopted before. Not what an earlier try has: that is read back. */
static int adopt_and_write(struct vv_copy *copy) {
    int rc = vv_adopt(copy->to, copy->lease, copy->name, copy->error);
    if (rc == 1)
        rc = look_there(copy);
    if (rc != 0)
        return rc < 0 ? rc : read_there(copy);
    return write_anew(copy);
}

/* What an earlier try left may be of another program, or damaged: then it is given up, and is waste. What others have
 * left since then is adopted, which the heartbeat allows: it names nothing yet. */
static int write_on(struct vv_copy *copy) {
    copy->is_resumed = 1;
    int rc = take_parent(copy);
    if (rc == 0)
        rc = write_copy(copy);
    if (!copy->is_useless && !copy->is_bad)
        return rc;
    vv_log(copy->to->log, VV_LOG_WARN, "what an earlier copy of %s left is of no use: %s", copy->name,
           copy->error && *copy->error->text ? copy->error->text : "it is damaged");
    vv_error_clear(copy->error);
    rc = give_up(copy);
    if (rc < 0) /* it might be adopted as it is */
        return vv_error_sys(copy->error, rc, "cannot give up what an earlier copy of %s left", copy->name);
    clear_found(copy);
    copy->progress = copy->result->new_bytes = copy->result->resumed_bytes = 0;
    return adopt_and_write(copy);
}

static int run_dry(struct vv_copy *copy) {
    copy->is_read_only = 1;
    copy->total = vv_view_record(copy->view)->protected_bytes;
    int rc = look_there(copy);
    if (rc != 0)
        return rc < 0 ? rc : read_there(copy);
    rc = take_parent(copy);
    return rc == 0 ? vv_copy_data(copy) : rc;
}

/* Those that cannot go now go with the next copy. */
static void forget_older(struct vv_copy *copy) {
    struct vv_keep_options options = {.keep = copy->options->keep};
    struct varve_error why = {0};
    if (vv_keep(copy->to, copy->lease, copy->name, &options, &why) < 0)
        vv_log(copy->to->log, VV_LOG_WARN, "older copies of %s could not be removed: %s", copy->name, why.text);
}

static int run(struct vv_copy *copy) {
    struct varve_error ignored = {0};
    int rc = look_there(copy);
    if (rc != 0)
        return rc < 0 ? rc : read_there(copy);
    int is_lent = copy->options->lease != NULL; /* and its owner has adopted what was left */
    rc = is_lent ? write_anew(copy) : vv_copy_find_earlier(copy);
    if (rc >= 0 && !is_lent)
        rc = rc == 1 ? write_on(copy) : adopt_and_write(copy);
    if (rc < 0)
        return rc;
    copy->result->generation = copy->attempt.generation;
    vv_lease_refer(copy->lease, &copy->attempt, &ignored); /* for clients that remember listings */
    forget_older(copy);
    return 0;
}

/* While it waits for another that has the name. */
static int shall_stop(void *arg) {
    return vv_copy_progress(arg, 0) != 0;
}

static int claim_and_run(struct vv_copy *copy) {
    uint32_t given = copy->options->takeover_seconds;
    struct vv_lease_options options = {.ranks = 1,
                                       .beat_seconds = HEARTBEAT_SECONDS,
                                       .dead_seconds = DEAD_SECONDS,
                                       .takeover_seconds = given ? given : TAKEOVER_SECONDS,
                                       .program = copy->program,
                                       .stop = shall_stop,
                                       .arg = copy};
    copy->total = 2 * vv_view_record(copy->view)->protected_bytes;
    copy->lease = copy->options->lease;
    if (copy->lease)
        return run(copy);
    int rc = vv_lease_take(copy->to, copy->name, &options, &copy->lease, copy->error);
    if (rc == 0)
        rc = run(copy);
    vv_lease_release(copy->lease);
    return rc;
}

static int check_stores(const struct vv_copy *copy) {
    if (copy->from->store->settings.layout == VV_LAYOUT_LOCAL ||
        (copy->to && copy->to->settings.layout == VV_LAYOUT_LOCAL))
        return vv_error(
            copy->error, VARVE_UNSUPPORTED,
            "one of them is the store of one node of a job: what a checkpoint needs is on other nodes, too");
    return 0;
}

int vv_copy(const struct vv_copy_source *from, struct vv_store *to, const char *name,
            const struct vv_copy_options *options, struct vv_copy_result *out, struct varve_error *error) {
    struct vv_copy copy = {.from = from, .to = to, .name = name, .options = options, .result = out, .error = error};
    *out = (struct vv_copy_result){.version = from->version};
    int rc = check_stores(&copy);
    if (rc == 0)
        rc = vv_view_open(from->store, from->name, from->generation, from->version, &copy.view, error);
    if (rc == 0) {
        const struct vv_record *record = vv_view_record(copy.view);
        out->ranks = record->ranks;
        out->regions = record->regions;
        out->protected_bytes = record->protected_bytes;
        make_plan(&copy);
        make_program(&copy);
        rc = vv_offline_init(&copy.offline, options->settings, error);
    }
    if (rc == 0)
        rc = options->is_dry_run ? run_dry(&copy) : claim_and_run(&copy);
    clear_found(&copy);
    vv_offline_clear(&copy.offline);
    vv_view_close(copy.view);
    return rc;
}
