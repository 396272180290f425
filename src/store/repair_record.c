/* Rebuilding records from packs. A rebuilt record must be as good as a committed one: everything it leans on is
 * looked at first. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/thread.h"
#include "store/repair_private.h"

static void record_text(const struct vv_repair *repair, const struct vv_attempt *attempt, char *out) {
    struct vv_key key = vv_attempt_key(repair->name, attempt, VV_KIND_RECORD, 0, 0);
    vv_key_print(&key, out);
}

/* Does the attempt have the writers list that its packs give? Only a committer or an adopter makes one: it marks,
 * among the attempts at a version, the one that was committed. */
static int has_writers(struct vv_repair *repair, const struct vv_attempt *attempt, const struct vv_record *record) {
    struct vv_key key = vv_attempt_key(repair->name, attempt, VV_KIND_WRITERS, 0, 0);
    struct vv_writers writers;
    struct vv_buf buf;
    vv_buf_init(&buf);
    int rc = vv_object_read(repair->store, &key, &buf, NULL);
    if (rc == 0)
        rc = vv_writers_parse(buf.data, buf.size, &key, repair->store->id, &writers, NULL);
    vv_buf_clear(&buf);
    if (rc < 0)
        return 0;
    int is_same = vv_hash128_equal(writers.digest, record->writers_digest);
    vv_writers_clear(&writers);
    return is_same;
}

/* All packs and parts of everything it leans on, giving the writers lists it names. 1 or 0, and why not. */
static int is_complete(struct vv_repair *repair, const struct vv_record *record, struct varve_error *why) {
    for (uint32_t i = 0; i < record->lean_count; i++) {
        const struct vv_lean *lean = &record->leans[i];
        struct vv_writers writers;
        struct vv_record other;
        int rc = vv_votes_read(repair->store, repair->name, &lean->attempt, &writers, &other, why);
        int is_same = rc == 1 && vv_hash128_equal(other.writers_digest, lean->writers_digest);
        if (rc == 1) {
            vv_writers_clear(&writers);
            vv_record_clear(&other);
        }
        if (!is_same) {
            vv_error_default(why, VARVE_CORRUPT, "generation %u, version %" PRIu64 ", on which it leans, is not whole",
                             lean->attempt.generation, lean->attempt.version);
            return 0;
        }
    }
    return 1;
}

/* ---- damaged ---- */

/* The attempt at this version that was committed: the only one with a full vote and a writers list, or, if no list
 * is left, the only one with a full vote. 1 with its number, 0 none or several. */
static int find_committed(struct vv_repair *repair, struct vv_attempt *attempt) {
    struct vv_key key = vv_attempt_key(repair->name, attempt, VV_KIND_WRITERS, 0, 0);
    char prefix[VV_KEY_ROOM];
    struct vv_numbers attempts;
    int full = 0, listed = 0;
    vv_prefix_data(&key, 2, prefix);
    int rc = vv_numbers_list(repair->store, prefix, 8, NULL, &attempts, repair->error);
    for (size_t i = 0; rc == 0 && i < attempts.count; i++) {
        struct vv_attempt at = *attempt;
        struct vv_writers writers;
        struct vv_record record;
        at.attempt = (uint32_t)attempts.list[i];
        if (vv_votes_read(repair->store, repair->name, &at, &writers, &record, NULL) != 1)
            continue;
        int has_list = has_writers(repair, &at, &record);
        int is_closed = !has_list && vv_attempt_is_closed(repair->store, repair->name, &at, NULL) != 0;
        full += !is_closed;
        listed += has_list;
        if (has_list || (listed == 0 && !is_closed))
            attempt->attempt = at.attempt;
        vv_writers_clear(&writers);
        vv_record_clear(&record);
    }
    vv_numbers_clear(&attempts);
    return rc < 0 ? rc : listed == 1 || (listed == 0 && full == 1);
}

/* What the head of a damaged record still says: its kind, with the attempt; 0 when the head is damaged too. */
static int read_damaged_head(struct vv_repair *repair, struct vv_attempt *attempt) {
    struct vv_key key = vv_attempt_key(repair->name, attempt, VV_KIND_RECORD, 0, 0);
    uint8_t bytes[VV_HEAD_SIZE];
    struct vv_head head;
    char text[VV_KEY_ROOM];
    vv_key_print(&key, text);
    int64_t size = vv_backend_get(repair->store->backend, text, 0, bytes, sizeof bytes);
    if (size != (int64_t)sizeof bytes || vv_head_parse(bytes, sizeof bytes, &key, repair->store->id, &head, NULL) < 0)
        return 0;
    attempt->attempt = head.attempt;
    return head.kind;
}

static int rebuild_from_packs(struct vv_repair *repair, const struct vv_attempt *attempt, struct varve_error *why) {
    struct vv_key key = vv_attempt_key(repair->name, attempt, VV_KIND_RECORD, 0, 0);
    struct vv_writers writers;
    struct vv_record record;
    struct vv_buf buf;
    int rc = vv_votes_read(repair->store, repair->name, attempt, &writers, &record, why);
    if (rc < 1)
        return 0;
    vv_writers_clear(&writers);
    rc = is_complete(repair, &record, why);
    if (rc == 1) {
        vv_buf_init(&buf);
        vv_record_encode(&buf, &key, repair->store->id, &record);
        rc = vv_repair_put(repair, &key, &buf, 0, "the footers of its packs");
        vv_buf_clear(&buf);
        if (rc == 0)
            rc = vv_repair_reach(repair, attempt, &record);
        rc = rc < 0 ? rc : 1;
    }
    vv_record_clear(&record);
    return rc;
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

static int rebuild_record(struct vv_repair *repair, struct vv_attempt attempt, const char *damage) {
    struct varve_error why = {0};
    char text[VV_KEY_ROOM];
    record_text(repair, &attempt, text);
    int kind = read_damaged_head(repair, &attempt);
    if (kind == VV_KIND_TOMBSTONE)
        return rebuild_tombstone(repair, &attempt);
    int rc = kind == VV_KIND_RECORD ? 1 : find_committed(repair, &attempt);
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
    char text[VV_KEY_ROOM];
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

int vv_repair_records(struct vv_repair *repair) {
    return vv_records_list(repair->store, repair->name, repair_record, repair, repair->error);
}

/* ---- lost ---- */

struct lost {
    struct vv_repair *repair;
    struct vv_lease *lease; /* taken when the first lost record is found */
    int is_busy;
};

static int take_lease(struct lost *lost, const char *text) {
    struct vv_lease_options options = {.ranks = 1, .beat_seconds = 15, .dead_seconds = 60, .program = "varve repair"};
    struct vv_repair *repair = lost->repair;
    if (lost->lease)
        return 0;
    int rc = vv_lease_take(repair->store, repair->name, &options, &lost->lease, repair->error);
    if (rc == VARVE_BUSY) {
        lost->is_busy = 1;
        vv_repair_report(repair, text, "the record is missing; it can be rebuilt when no session uses the name: %s",
                         repair->error->text);
    }
    return rc;
}

static int record_again(struct lost *lost, const struct vv_attempt *attempt, const struct vv_writers *writers,
                        struct vv_record *record) {
    struct vv_repair *repair = lost->repair;
    char text[VV_KEY_ROOM];
    record_text(repair, attempt, text);
    int rc = repair->options->is_dry_run ? 0 : take_lease(lost, text);
    if (rc == VARVE_BUSY)
        return 0;
    if (rc == 0 && !repair->options->is_dry_run)
        rc = vv_votes_record(repair->store, repair->name, attempt, writers, record, repair->error);
    if (rc == VARVE_FORGOTTEN || rc == -EEXIST)
        return 0; /* settled by somebody else meanwhile */
    if (rc < 0)
        return rc;
    repair->repairs++;
    vv_repair_report(repair, text, "missing; %srebuilt from the footers of its packs",
                     repair->options->is_dry_run ? "can be " : "");
    return 0;
}

static int look_at_attempt(struct lost *lost, const struct vv_attempt *attempt) {
    struct vv_repair *repair = lost->repair;
    struct varve_error why = {0};
    struct vv_writers writers;
    struct vv_record record;
    char text[VV_KEY_ROOM];
    int rc = vv_votes_read(repair->store, repair->name, attempt, &writers, &record, &why);
    if (rc < 1)
        return 0;
    record_text(repair, attempt, text);
    if (is_complete(repair, &record, &why))
        rc = record_again(lost, attempt, &writers, &record);
    else
        vv_repair_report(repair, text, "missing; it cannot be rebuilt: %s", why.text);
    vv_writers_clear(&writers);
    vv_record_clear(&record);
    return rc < 0 ? rc : 0;
}

/* Is there a key below record/ for this version? */
static int has_key(struct vv_repair *repair, const struct vv_attempt *attempt) {
    char text[VV_KEY_ROOM];
    uint64_t size;
    record_text(repair, attempt, text);
    int rc = vv_backend_stat(repair->store->backend, text, &size);
    if (rc == -ENOENT)
        return 0;
    return rc < 0 ? vv_error_sys(repair->error, rc, "cannot look at %s", text) : 1;
}

static int look_at_version(struct lost *lost, struct vv_attempt attempt) {
    int rc = has_key(lost->repair, &attempt);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    rc = find_committed(lost->repair, &attempt);
    return rc == 1 ? look_at_attempt(lost, &attempt) : rc;
}

/* What a session that may be alive is writing is not lost: only versions below its newest record are looked at then. */
static int look_at_generation(struct lost *lost, uint32_t generation, uint32_t highest) {
    struct vv_repair *repair = lost->repair;
    struct vv_attempt attempt = {.generation = generation};
    struct vv_key key = vv_attempt_key(repair->name, &attempt, VV_KIND_WRITERS, 0, 0);
    char prefix[VV_KEY_ROOM];
    struct vv_numbers versions = {0};
    int life = VV_LIFE_MAYBE;
    uint64_t newest = 0;
    int rc = vv_life_look(repair->store, repair->name, generation, generation < highest, &life, NULL, repair->error);
    int has_newest = rc == 0 ? vv_records_newest(repair->store, repair->name, generation, &newest, repair->error) : rc;
    if (has_newest < 0)
        return has_newest;
    vv_prefix_data(&key, 1, prefix);
    rc = vv_numbers_list(repair->store, prefix, 16, NULL, &versions, repair->error);
    for (size_t i = 0; rc == 0 && i < versions.count && !lost->is_busy; i++) {
        attempt.version = versions.list[i];
        int is_settled = life == VV_LIFE_DEAD || (has_newest && attempt.version < newest);
        if (attempt.version >> 63 == 0 && is_settled)
            rc = look_at_version(lost, attempt);
    }
    vv_numbers_clear(&versions);
    return rc;
}

int vv_repair_lost(struct vv_repair *repair) {
    struct lost lost = {.repair = repair};
    struct vv_key key = vv_attempt_key(repair->name, &(struct vv_attempt){0}, VV_KIND_WRITERS, 0, 0);
    char prefix[VV_KEY_ROOM];
    struct vv_numbers generations;
    uint32_t highest = 0;
    vv_prefix_data(&key, 0, prefix);
    int rc = vv_numbers_list(repair->store, prefix, 8, NULL, &generations, repair->error);
    if (rc == 0)
        rc = vv_claims_highest(repair->store, repair->name, &highest, repair->error);
    for (size_t i = 0; rc == 0 && i < generations.count && !lost.is_busy; i++)
        if (generations.list[i] != 0)
            rc = look_at_generation(&lost, (uint32_t)generations.list[i], highest);
    vv_numbers_clear(&generations);
    vv_lease_release(lost.lease);
    return rc;
}
