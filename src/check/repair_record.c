/* Rebuilding records from packs. A rebuilt record must be as good as a committed one: everything it depends on is
 * looked at first. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/thread.h"
#include "check/repair_private.h"

static void record_text(const struct vv_repair *repair, const struct vv_attempt *attempt, char *out) {
    struct vv_key key = vv_attempt_key(repair->name, attempt, VV_KIND_RECORD, 0, 0);
    vv_key_print(&key, out);
}

/* Claim the name, once for all its records: what is seen from then on stays, or meets a tombstone where the record
 * goes. 1 it is ours, or nothing is to be changed; 0 it is in use, and told; or an error. */
static int claim_name(struct vv_repair *repair, const char *text, const char *state) {
    struct vv_lease_options options = {.ranks = 1, .beat_seconds = 15, .dead_seconds = 60, .program = "varve repair"};
    int rc = 0;
    if (repair->lease)
        rc = vv_lease_check(repair->lease, repair->error);
    else if (!repair->options->is_dry_run)
        rc = vv_lease_take(repair->store, repair->name, &options, &repair->lease, repair->error);
    if (rc == VARVE_BUSY)
        vv_repair_report(repair, text, "the record is %s; it can be rebuilt when no session uses the name: %s", state,
                         repair->error->text);
    return rc == 0 ? 1 : rc == VARVE_BUSY ? 0 : rc;
}

/* What tells that an attempt, or its writers list, is not whole. Any other error is the storage's, and tells nothing.
 */
static int is_unfit(int rc) {
    return rc == VARVE_CORRUPT || rc == VARVE_UNKNOWN_FORMAT || rc == VARVE_FORGOTTEN;
}

/* 1 fully voted, 0 not, and why, or an error of the storage. */
static int read_votes(struct vv_repair *repair, const struct vv_attempt *attempt, struct vv_writers *writers,
                      struct vv_record *record, struct varve_error *why) {
    int rc = vv_votes_read(repair->store, repair->name, attempt, writers, record, why);
    if (rc >= 0 || is_unfit(rc))
        return rc == 1;
    *repair->error = *why;
    return rc;
}

int vv_repair_read_writers(struct vv_repair *repair, const struct vv_key *key, struct vv_writers *out,
                           struct varve_error *why) {
    struct vv_buf buf;
    vv_buf_init(&buf);
    int rc = vv_object_read(repair->store, key, &buf, why);
    if (rc == 0)
        rc = vv_writers_parse(buf.data, buf.size, key, repair->store->id, out, why);
    vv_buf_clear(&buf);
    return rc;
}

/* Does the attempt have the writers list that its packs give? Only a committer or an adopter makes one: it marks,
 * among the attempts at a version, the one that was committed. 1, 0, or an error of the storage. */
static int has_writers(struct vv_repair *repair, const struct vv_attempt *attempt, const struct vv_record *record) {
    struct vv_key key = vv_attempt_key(repair->name, attempt, VV_KIND_WRITERS, 0, 0);
    struct vv_writers writers;
    int rc = vv_repair_read_writers(repair, &key, &writers, repair->error);
    if (rc < 0)
        return rc == -ENOENT || is_unfit(rc) ? 0 : rc;
    int is_same = vv_hash128_equal(writers.digest, record->writers_digest);
    vv_writers_clear(&writers);
    return is_same;
}

/* All packs and parts of everything it depends on, giving the writers lists it names. 1, 0 and why not, or an error of
 * the storage. */
static int is_complete(struct vv_repair *repair, const struct vv_record *record, struct varve_error *why) {
    for (uint32_t i = 0; i < record->dependency_count; i++) {
        const struct vv_dependency *dependency = &record->dependencies[i];
        struct vv_writers writers;
        struct vv_record other;
        int rc = read_votes(repair, &dependency->attempt, &writers, &other, why);
        if (rc < 0)
            return rc;
        int is_same = rc == 1 && vv_hash128_equal(other.writers_digest, dependency->writers_digest);
        if (rc == 1) {
            vv_writers_clear(&writers);
            vv_record_clear(&other);
        }
        if (!is_same) {
            vv_error_default(why, VARVE_CORRUPT,
                             "generation %u, version %" PRIu64 ", on which it depends, is not whole",
                             dependency->attempt.generation, dependency->attempt.version);
            return 0;
        }
    }
    return 1;
}

/* ---- which attempt ---- */

struct choice {
    int full;   /* attempts with a full vote that were not given up */
    int listed; /* those that have their writers list */
    uint32_t attempt;
};

static int consider(struct vv_repair *repair, const struct vv_attempt *at, struct choice *choice) {
    struct varve_error why = {0};
    struct vv_writers writers;
    struct vv_record record;
    int rc = read_votes(repair, at, &writers, &record, &why);
    if (rc < 1)
        return rc;
    int has_list = has_writers(repair, at, &record);
    vv_writers_clear(&writers);
    vv_record_clear(&record);
    rc = has_list ? 0 : vv_attempt_is_closed(repair->store, repair->name, at, repair->error);
    if (has_list < 0 || (rc < 0 && !is_unfit(rc)))
        return has_list < 0 ? has_list : rc;
    int is_closed = rc != 0;
    choice->full += !is_closed;
    choice->listed += has_list;
    if (has_list || (choice->listed == 0 && !is_closed))
        choice->attempt = at->attempt;
    return 0;
}

/* The attempt at this version that was committed: the only one with a full vote and a writers list, or, if no list
 * is left, the only one with a full vote. 1 with its number, 0 none or several. */
static int find_committed(struct vv_repair *repair, struct vv_attempt *attempt) {
    struct vv_numbers attempts;
    struct choice choice = {0};
    int rc = vv_data_list(repair->store, repair->name, attempt, 2, &attempts, repair->error);
    for (size_t i = 0; rc == 0 && i < attempts.count; i++) {
        struct vv_attempt at = *attempt;
        at.attempt = (uint32_t)attempts.list[i];
        rc = consider(repair, &at, &choice);
    }
    vv_numbers_clear(&attempts);
    if (rc < 0)
        return rc;
    attempt->attempt = choice.attempt;
    return choice.listed == 1 || (choice.listed == 0 && choice.full == 1);
}

/* ---- damaged ---- */

/* What the head of a damaged record still says: its kind, with the attempt; 0 when the head is damaged too. */
static int read_damaged_head(struct vv_repair *repair, struct vv_attempt *attempt) {
    struct vv_key key = vv_attempt_key(repair->name, attempt, VV_KIND_RECORD, 0, 0);
    uint8_t bytes[VV_HEAD_SIZE];
    struct vv_head head;
    char text[VV_KEY_CAPACITY];
    vv_key_print(&key, text);
    int64_t size = vv_backend_get(repair->store->backend, text, 0, bytes, sizeof bytes);
    if (size < 0 && size != -ENOENT && size != VARVE_CORRUPT) /* that is what an encrypting backend says */
        return vv_error_sys(repair->error, (int)size, "cannot read %s", text);
    if (size != (int64_t)sizeof bytes || vv_head_parse(bytes, sizeof bytes, &key, repair->store->id, &head, NULL) < 0)
        return 0;
    attempt->attempt = head.attempt;
    return head.kind;
}

/* The last look before the damaged record is replaced: it may have been forgotten since, and its data be gone. 1 it is
 * still there; 0 something else is, and stays. */
static int is_still_damaged(struct vv_repair *repair, const struct vv_attempt *attempt) {
    struct vv_attempt own = *attempt;
    struct vv_record found;
    int rc = vv_record_load(repair->store, repair->name, attempt->generation, attempt->version, &found, repair->error);
    if (rc == VARVE_CORRUPT)
        return 1;
    if (rc == 0) {
        own.attempt = found.attempt;
        rc = vv_repair_reach(repair, &own, &found);
        vv_record_clear(&found);
        return rc;
    }
    return is_unfit(rc) || rc == VARVE_NO_CHECKPOINT ? 0 : rc;
}

/* Name it in the heartbeat: from now on nobody forgets it, and a prune leaves its data alone even where somebody has.
 * With NULL: let it go again, before anything else is made, since a heartbeat that names something says that nothing is
 * adopted.
 */
static int hold(struct vv_repair *repair, const struct vv_attempt *attempt) {
    struct vv_attempt none = {0};
    if (!repair->lease)
        return 0;
    int rc = vv_lease_refer(repair->lease, attempt ? attempt : &none, repair->error);
    return rc < 0 ? rc : vv_lease_check(repair->lease, repair->error);
}

static int put_record(struct vv_repair *repair, const struct vv_attempt *attempt, const struct vv_record *record) {
    struct vv_key key = vv_attempt_key(repair->name, attempt, VV_KIND_RECORD, 0, 0);
    struct vv_buf buf;
    vv_buf_init(&buf);
    vv_record_encode(&buf, &key, repair->store->id, record);
    int rc = vv_repair_put(repair, &key, &buf, 0, "the footers of its packs");
    vv_buf_clear(&buf);
    return rc < 0 ? rc : vv_repair_reach(repair, attempt, record);
}

/* Between the last look and the replacing somebody may forget the damaged record, and a prune follow. A prune reads the
 * records before the heartbeats. If it has read the heartbeat before the heartbeat named this attempt, the tombstone
 * was there before the last look, and stays. If it has read it later, it leaves the data. */
static int replace_record(struct vv_repair *repair, const struct vv_attempt *attempt, const struct vv_record *record) {
    int rc = hold(repair, attempt);
    if (rc == 0)
        rc = is_still_damaged(repair, attempt);
    if (rc == 1)
        rc = put_record(repair, attempt, record);
    int freed = rc < 0 ? 0 : hold(repair, NULL);
    return rc < 0 ? rc : freed;
}

/* 1 settled, 0 it cannot be rebuilt, and why, or an error. */
static int rebuild_from_packs(struct vv_repair *repair, const struct vv_attempt *attempt, struct varve_error *why) {
    struct vv_writers writers;
    struct vv_record record;
    int rc = read_votes(repair, attempt, &writers, &record, why);
    if (rc < 1)
        return rc;
    vv_writers_clear(&writers);
    rc = is_complete(repair, &record, why);
    int is_complete_now = rc == 1;
    if (is_complete_now)
        rc = replace_record(repair, attempt, &record);
    vv_record_clear(&record);
    return rc < 0 ? rc : is_complete_now;
}

/* A tombstone comes back as a tombstone: what it forgot may be half gone. */
static int rebuild_tombstone(struct vv_repair *repair, const struct vv_attempt *attempt) {
    struct vv_key key = vv_attempt_key(repair->name, attempt, VV_KIND_RECORD, 0, 0);
    struct vv_tombstone tombstone = {.reason = VV_TOMBSTONE_FORGOTTEN, .time_ns = vv_clock_wall_ns()};
    struct vv_buf buf;
    key.attempt = 0;
    vv_buf_init(&buf);
    vv_tombstone_encode(&buf, &key, repair->store->id, &tombstone);
    int rc = vv_repair_put(repair, &key, &buf, 0, "its head: it was a tombstone");
    vv_buf_clear(&buf);
    return rc;
}

/* On one of several nodes not all votes are seen, and no record can be made from some of them. 1 if that is so, 0, or
 * an error. */
static int is_share(struct vv_repair *repair, struct vv_attempt attempt, int kind) {
    struct varve_error why = {0};
    struct vv_writers writers;
    struct vv_record record;
    if (repair->store->settings.layout != VV_LAYOUT_LOCAL)
        return 0;
    if (kind != VV_KIND_RECORD) {
        int rc = find_committed(repair, &attempt);
        return rc < 0 ? rc : !rc;
    }
    int rc = read_votes(repair, &attempt, &writers, &record, &why);
    if (rc != 1)
        return rc < 0 ? rc : 1;
    vv_writers_clear(&writers);
    vv_record_clear(&record);
    return 0;
}

static int rebuild_record(struct vv_repair *repair, struct vv_attempt attempt, const char *damage) {
    struct varve_error why = {0};
    char text[VV_KEY_CAPACITY];
    record_text(repair, &attempt, text);
    int kind = read_damaged_head(repair, &attempt);
    if (kind == VV_KIND_TOMBSTONE)
        return rebuild_tombstone(repair, &attempt);
    int rc = kind < 0 ? kind : is_share(repair, attempt, kind);
    if (rc == 1)
        vv_repair_report(
            repair, text,
            "%s; not rebuilt from this node's packs alone: the job's next restart copies it from another node", damage);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    rc = claim_name(repair, text, "damaged");
    if (rc < 1)
        return rc;
    if (kind != VV_KIND_RECORD)
        rc = find_committed(repair, &attempt);
    if (rc == 0)
        vv_error(&why, VARVE_CORRUPT, "it is not clear which attempt was committed, or none has all packs");
    if (rc == 1)
        rc = rebuild_from_packs(repair, &attempt, &why);
    if (rc == 0)
        vv_repair_report(repair, text, "%s; it cannot be rebuilt: %s", damage,
                         why.text[0] ? why.text : "a pack is missing");
    return rc < 0 ? rc : 0;
}

static int repair_record(void *arg, uint32_t generation, uint64_t version) {
    struct vv_repair *repair = arg;
    struct vv_attempt own = {.generation = generation, .version = version};
    struct varve_error why = {0};
    struct vv_record record;
    char text[VV_KEY_CAPACITY];
    int rc = vv_record_load(repair->store, repair->name, generation, version, &record, &why);
    if (rc == 0) {
        own.attempt = record.attempt;
        rc = vv_repair_reach(repair, &own, &record);
        vv_record_clear(&record);
        return rc;
    }
    if (rc == VARVE_CORRUPT)
        return rebuild_record(repair, own, why.text);
    if (rc != VARVE_FORGOTTEN && rc != VARVE_NO_CHECKPOINT) {
        record_text(repair, &own, text);
        vv_repair_report(repair, text, "left alone: %s", why.text);
    }
    return 0;
}

static int count_record(void *arg, uint32_t generation, uint64_t version) {
    (void)generation, (void)version;
    vv_steps_found(arg, 1);
    return 0;
}

static int repair_one(void *arg, uint32_t generation, uint64_t version) {
    int rc = repair_record(arg, generation, version);
    return rc ? rc : vv_repair_go_on(arg);
}

int vv_repair_records(struct vv_repair *repair) {
    struct vv_steps *steps = repair->options->steps;
    int rc = steps ? vv_records_list(repair->store, repair->name, count_record, steps, repair->error) : 0;
    return rc ? rc : vv_records_list(repair->store, repair->name, repair_one, repair, repair->error);
}

/* ---- lost ---- */

/* A generation, from its newest version down. */
struct lost {
    struct vv_repair *repair;
    int has_newest;
    uint64_t newest; /* version with a record, or a tombstone in its place */
};

static int record_again(struct lost *lost, const struct vv_attempt *attempt, const struct vv_writers *writers,
                        struct vv_record *record, const char *text) {
    struct vv_repair *repair = lost->repair;
    int rc = 0;
    if (!repair->options->is_dry_run)
        rc = vv_votes_record(repair->store, repair->name, attempt, writers, record, repair->error);
    if (rc == VARVE_FORGOTTEN || rc == -EEXIST)
        return 0; /* settled by somebody else meanwhile */
    if (rc < 0)
        return rc;
    repair->repairs++;
    vv_repair_report(repair, text, "missing; %srebuilt from the footers of its packs",
                     repair->options->is_dry_run ? "can be " : "");
    if (!lost->has_newest || attempt->version > lost->newest)
        lost->newest = attempt->version;
    lost->has_newest = 1;
    if ((rc = vv_committed_by_record(&repair->committed, record)) < 0)
        return vv_error_sys(repair->error, rc, "cannot repair %s", repair->name);
    vv_attempts_sort(&repair->committed);
    return 0;
}

static int look_at_attempt(struct lost *lost, const struct vv_attempt *attempt, const char *text) {
    struct vv_repair *repair = lost->repair;
    struct varve_error why = {0};
    struct vv_writers writers;
    struct vv_record record;
    int rc = read_votes(repair, attempt, &writers, &record, &why);
    if (rc < 1)
        return rc;
    rc = is_complete(repair, &record, &why);
    if (rc == 1)
        rc = record_again(lost, attempt, &writers, &record, text);
    else if (rc == 0)
        vv_repair_report(repair, text, "missing; it cannot be rebuilt: %s", why.text);
    vv_writers_clear(&writers);
    vv_record_clear(&record);
    return rc;
}

/* Nothing stands for this version, but one attempt at it could have: 1 with its number, 0, or an error. */
static int is_missing(struct vv_repair *repair, struct vv_attempt *attempt) {
    struct vv_key key = vv_attempt_key(repair->name, attempt, VV_KIND_RECORD, 0, 0);
    int rc = vv_object_exists(repair->store, &key, repair->error);
    return rc == 0 ? find_committed(repair, attempt) : rc < 0 ? rc : 0;
}

/* Below a newer checkpoint of its session, a record that nothing names is as likely one that was never made: then
 * the session was told that its commit failed, and went on without it. */
static int look_at_version(struct lost *lost, struct vv_attempt attempt) {
    struct vv_repair *repair = lost->repair;
    char text[VV_KEY_CAPACITY];
    int rc = is_missing(repair, &attempt);
    if (rc < 1)
        return rc;
    record_text(repair, &attempt, text);
    if (lost->has_newest && attempt.version < lost->newest && !vv_attempts_has(&repair->committed, &attempt)) {
        vv_repair_report(repair, text,
                         "complete but without record, and a newer checkpoint of its session is there: either its "
                         "commit failed, or its record was lost; left alone");
        return 0;
    }
    if ((rc = claim_name(repair, text, "missing")) == 1)
        rc = is_missing(repair, &attempt); /* what was seen before the claim may be gone */
    return rc == 1 ? look_at_attempt(lost, &attempt, text) : rc;
}

/* What a session that may be alive is writing is not lost: only versions below its newest record are looked at then. */
static int look_at_generation(struct vv_repair *repair, uint32_t generation, uint32_t highest) {
    struct lost lost = {.repair = repair};
    struct vv_attempt attempt = {.generation = generation};
    struct vv_numbers versions = {0};
    int life = VV_LIFE_MAYBE;
    int rc = vv_life_look(repair->store, repair->name, generation, generation < highest, &life, NULL, repair->error);
    if (rc == 0)
        rc = vv_records_newest(repair->store, repair->name, generation, &lost.newest, repair->error);
    if (rc < 0)
        return rc;
    lost.has_newest = rc;
    rc = vv_data_list(repair->store, repair->name, &attempt, 1, &versions, repair->error);
    vv_steps_found(repair->options->steps, versions.count);
    for (size_t i = versions.count; rc == 0 && i > 0; i--) {
        attempt.version = versions.list[i - 1];
        int is_settled = life == VV_LIFE_DEAD || (lost.has_newest && attempt.version < lost.newest);
        if (attempt.version >> 63 == 0 && is_settled)
            rc = look_at_version(&lost, attempt);
        rc = rc ? rc : vv_repair_go_on(repair);
    }
    vv_numbers_clear(&versions);
    return rc;
}

/* Newest first: a record that is made again names its parent. */
int vv_repair_lost(struct vv_repair *repair) {
    struct vv_attempt first = {0};
    struct vv_numbers generations;
    uint32_t highest = 0;
    vv_attempts_sort(&repair->committed);
    int rc = vv_data_list(repair->store, repair->name, &first, 0, &generations, repair->error);
    if (rc == 0)
        rc = vv_claims_highest(repair->store, repair->name, &highest, repair->error);
    for (size_t i = generations.count; rc == 0 && i > 0; i--)
        if (generations.list[i - 1] != 0)
            rc = look_at_generation(repair, (uint32_t)generations.list[i - 1], highest);
    vv_numbers_clear(&generations);
    return rc;
}
