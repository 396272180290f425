/* Reading and counting the votes of an attempt: the footer of every writer's pack, checked against the others. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "lifecycle/lifecycle.h"
#include "store/pack_reader.h"

/* The votes of an attempt while they are counted. */
struct votes {
    struct vv_store *store;
    const char *name;
    const struct vv_attempt *attempt;
    struct vv_writers writers;
    size_t capacity;
    struct vv_record record;
    uint64_t owners; /* of the writers so far */
    struct varve_error *error;
};

static int disagree(const struct votes *votes, uint32_t writer, const char *what) {
    struct vv_key key = vv_attempt_key(votes->name, votes->attempt, VV_KIND_PACK, writer, 0);
    char text[VV_KEY_CAPACITY];
    vv_key_print(&key, text);
    return vv_error(votes->error, VARVE_CORRUPT, "%s: %s", text, what);
}

/* What all votes of an attempt say alike, from the first of them. */
static void take_common(struct votes *votes, const struct vv_vote *vote) {
    struct vv_record *record = &votes->record;
    memcpy(record->store_id, votes->store->id, sizeof record->store_id);
    record->attempt = votes->attempt->attempt;
    record->settings = vote->settings;
    record->ranks = vote->ranks;
    record->writers = vote->writers;
    record->parent = vote->parent;
    memcpy(record->program, vote->program, sizeof record->program);
    votes->writers.ranks = vote->ranks;
}

static int check_common(const struct votes *votes, uint32_t writer, const struct vv_vote *vote) {
    const struct vv_record *record = &votes->record;
    if (vv_attempt_compare(&vote->attempt, votes->attempt) != 0)
        return disagree(votes, writer, "the vote is for another attempt");
    if (!vv_settings_are_same(&votes->store->settings, &vote->settings))
        return disagree(votes, writer, "its settings are not those of the store");
    if (vote->writers != record->writers || vote->ranks != record->ranks)
        return disagree(votes, writer, "it was written for another number of writers or ranks than writer 0's");
    if (vv_attempt_compare(&vote->parent, &record->parent) != 0)
        return disagree(votes, writer, "it has another parent than writer 0's");
    if (vote->entry.first_owner != votes->owners)
        return disagree(votes, writer, "its owners do not follow those of the writer before");
    if (vote->entry.owners > vote->ranks - votes->owners)
        return disagree(votes, writer, "its owners exceed the ranks");
    return 0;
}

/* Parts were durable before the pack: one that is missing, or of another length, is damage. */
static int check_parts(const struct vv_pack_id *id, const struct vv_footer *footer, struct varve_error *error) {
    for (uint32_t part = 0; part < footer->parts; part++) {
        struct vv_key key = vv_attempt_key(id->name, &id->attempt, VV_KIND_PART, id->writer, part);
        char text[VV_KEY_CAPACITY];
        uint64_t length = 0;
        vv_key_print(&key, text);
        int rc = vv_backend_stat(id->store->backend, text, &length);
        if (rc == -ENOENT)
            return vv_error(error, VARVE_CORRUPT, "%s is missing, but its pack says it was written", text);
        if (rc < 0)
            return vv_error_sys(error, rc, "cannot look at %s", text);
        if (length != footer->part_lengths[part])
            return vv_error(error, VARVE_CORRUPT, "%s has %" PRIu64 " bytes, its pack says %" PRIu64, text, length,
                            footer->part_lengths[part]);
    }
    return 0;
}

static int is_same_dependencies(const struct vv_record *record, const struct vv_vote *vote) {
    if (record->dependency_count != vote->dependency_count)
        return 0;
    for (uint32_t i = 0; i < record->dependency_count; i++)
        if (vv_attempt_compare(&record->dependencies[i].attempt, &vote->dependencies[i].attempt) != 0 ||
            !vv_hash128_equal(record->dependencies[i].writers_digest, vote->dependencies[i].writers_digest))
            return 0;
    return 1;
}

/* The union of two ascending lists. */
static int merge_dependencies(struct votes *votes, uint32_t writer, const struct vv_vote *vote) {
    struct vv_record *record = &votes->record;
    uint32_t a = 0, b = 0;
    size_t count = 0, capacity = (size_t)record->dependency_count + vote->dependency_count;
    if (is_same_dependencies(record, vote))
        return 0;
    struct vv_dependency *dependencies = vv_calloc(capacity, sizeof *dependencies);
    if (!dependencies)
        return vv_error_sys(votes->error, -ENOMEM, "cannot gather what the attempt depends on");
    while (a < record->dependency_count || b < vote->dependency_count) {
        int order = a == record->dependency_count ? 1
                    : b == vote->dependency_count
                        ? -1
                        : vv_attempt_compare(&record->dependencies[a].attempt, &vote->dependencies[b].attempt);
        if (order == 0 &&
            !vv_hash128_equal(record->dependencies[a].writers_digest, vote->dependencies[b].writers_digest)) {
            vv_free(dependencies);
            return disagree(votes, writer, "it depends on another writers list of the same attempt than those before");
        }
        dependencies[count++] = order <= 0 ? record->dependencies[a] : vote->dependencies[b];
        a += order <= 0;
        b += order >= 0;
    }
    vv_free(record->dependencies);
    record->dependencies = dependencies;
    record->dependency_count = (uint32_t)count;
    if (count > VV_DEPENDENCIES_MAX)
        return disagree(votes, writer, "with it, the attempt depends on too many others");
    return 0;
}

static int add_entry(struct votes *votes, const struct vv_vote *vote) {
    struct vv_writers *writers = &votes->writers;
    if (VV_GROW(writers->list, writers->count, votes->capacity) != 0)
        return vv_error_sys(votes->error, -ENOMEM, "cannot list the writers");
    writers->list[writers->count++] = vote->entry;

    struct vv_record *record = &votes->record;
    record->protected_bytes += vote->protected_bytes;
    record->raw_bytes += vote->raw_bytes;
    record->stored_bytes += vote->stored_bytes;
    record->regions += vote->regions;
    record->metadata_bytes += vote->entry.pack_length + vote->entry.parts_length - vote->stored_bytes;
    if (vote->time_ns > record->time_ns)
        record->time_ns = vote->time_ns;
    votes->owners += vote->entry.owners;
    return 0;
}

/* The vote of the next writer. */
static int add_vote(struct votes *votes, const struct vv_vote *vote) {
    uint32_t writer = votes->writers.count;
    if (writer == 0)
        take_common(votes, vote);
    int rc = check_common(votes, writer, vote);
    if (rc == 0)
        rc = merge_dependencies(votes, writer, vote);
    return rc ? rc : add_entry(votes, vote);
}

/* ---- one vote ---- */

static void vote_from(struct vv_vote *vote, struct vv_footer *footer, uint64_t pack_length) {
    *vote = (struct vv_vote){.entry = {.first_owner = footer->first_owner,
                                       .owners = footer->owners,
                                       .parts = footer->parts,
                                       .partner_count = footer->partner_count,
                                       .pack_length = pack_length,
                                       .footer_digest = footer->digest},
                             .settings = footer->settings,
                             .ranks = footer->ranks,
                             .writers = footer->writers,
                             .parent = footer->parent,
                             .protected_bytes = footer->protected_bytes,
                             .raw_bytes = footer->raw_bytes,
                             .stored_bytes = footer->stored_bytes,
                             .regions = footer->regions,
                             .time_ns = footer->time_ns,
                             .dependency_count = footer->dependency_count,
                             .dependencies = footer->dependencies};
    memcpy(vote->entry.partners, footer->partners, sizeof vote->entry.partners);
    memcpy(vote->program, footer->program, sizeof vote->program);
    for (uint32_t part = 0; part < footer->parts; part++)
        vote->entry.parts_length += footer->part_lengths[part];
    footer->dependencies = NULL; /* the vote's now */
    footer->dependency_count = 0;
}

int vv_vote_read(struct vv_store *store, const char *name, const struct vv_attempt *attempt, uint32_t writer,
                 struct vv_vote *out, struct varve_error *error) {
    struct vv_pack_id id = {.store = store, .name = name, .attempt = *attempt, .writer = writer};
    struct vv_footer footer;
    uint64_t length = 0;
    int rc = vv_pack_footer_load(&id, VV_KIND_PACK, NULL, &footer, &length, error);
    if (rc == -ENOENT || rc == VARVE_FORGOTTEN)
        return 0;
    if (rc < 0)
        return rc;
    rc = check_parts(&id, &footer, error);
    if (rc == 0)
        vote_from(out, &footer, length);
    if (rc == 0)
        out->attempt = *attempt;
    vv_footer_clear(&footer);
    return rc < 0 ? rc : 1;
}

void vv_vote_clear(struct vv_vote *vote) {
    vv_free(vote->dependencies);
    memset(vote, 0, sizeof *vote);
}

/* ---- all of them ---- */

/* Length and digest of the writers object, which the record names. */
static int finish_votes(struct votes *votes) {
    struct vv_key key = vv_attempt_key(votes->name, votes->attempt, VV_KIND_WRITERS, 0, 0);
    struct vv_buf buf;
    if (votes->owners != votes->record.ranks)
        return disagree(votes, votes->writers.count - 1, "the writers' owners do not add up to the ranks");
    vv_buf_init(&buf);
    vv_writers_encode(&buf, &key, votes->store->id, &votes->writers, &votes->record.writers_digest);
    votes->writers.digest = votes->record.writers_digest;
    votes->writers.length = votes->record.writers_length = buf.size;
    int rc = buf.failed;
    vv_buf_clear(&buf);
    return rc < 0 ? vv_error_sys(votes->error, rc, "cannot list the writers") : 1;
}

static int end_votes(struct votes *votes, int rc, struct vv_writers *writers_out, struct vv_record *record_out) {
    if (rc == 1)
        rc = finish_votes(votes);
    if (rc != 1) {
        if (rc == 0)
            vv_error_clear(votes->error);
        vv_writers_clear(&votes->writers);
        vv_record_clear(&votes->record);
        return rc;
    }
    *writers_out = votes->writers;
    *record_out = votes->record;
    return 1;
}

int vv_votes_read(struct vv_store *store, const char *name, const struct vv_attempt *attempt,
                  struct vv_writers *writers_out, struct vv_record *record_out, struct varve_error *error) {
    struct votes votes = {.store = store, .name = name, .attempt = attempt, .error = error};
    int rc = VV_FAULT("store.votes.before_read");
    if (rc < 0)
        return vv_error_sys(error, rc, "cannot read the votes of %s", name);
    rc = 1;
    for (uint32_t writer = 0; rc == 1 && (writer == 0 || writer < votes.record.writers); writer++) {
        struct vv_vote vote;
        rc = vv_vote_read(store, name, attempt, writer, &vote, error);
        if (rc != 1)
            break;
        rc = add_vote(&votes, &vote);
        vv_vote_clear(&vote);
        rc = rc < 0 ? rc : 1;
    }
    return end_votes(&votes, rc, writers_out, record_out);
}

struct vv_count {
    struct votes votes;
};

int vv_count_begin(struct vv_store *store, const char *name, const struct vv_attempt *attempt, struct vv_count **out) {
    struct vv_count *count = vv_calloc(1, sizeof *count);
    if (!count)
        return -ENOMEM;
    count->votes = (struct votes){.store = store, .name = name, .attempt = attempt};
    *out = count;
    return 0;
}

int vv_count_add(struct vv_count *count, const struct vv_vote *vote, struct varve_error *error) {
    count->votes.error = error;
    return add_vote(&count->votes, vote);
}

int vv_count_end(struct vv_count *count, struct vv_writers *writers_out, struct vv_record *record_out,
                 struct varve_error *error) {
    struct varve_error kept = error ? *error : (struct varve_error){0};
    if (!count)
        return 0;
    struct votes *votes = &count->votes;
    votes->error = writers_out ? error : &kept; /* when it only frees, the error is somebody else's */
    int is_full = writers_out && votes->writers.count > 0 && votes->writers.count == votes->record.writers;
    int rc = end_votes(votes, is_full, writers_out, record_out);
    vv_free(count);
    return rc;
}
