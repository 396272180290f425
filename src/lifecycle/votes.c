/* Reading and counting the votes of an attempt: the footer of every writer's pack, checked against the others. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "lifecycle/lifecycle.h"
#include "store/pack_reader.h"

/* The votes of an attempt while they are counted, in any order. */
struct vv_count {
    struct vv_store *store;
    const char *name;
    struct vv_attempt attempt;
    struct vv_record record; /* writers 0: no vote yet */
    struct vv_counted {
        uint32_t writer;
        struct vv_writer entry;
    } * entries;
    size_t entry_count, capacity;
    struct varve_error *error;
};

static int disagree(const struct vv_count *count, uint32_t writer, const char *what) {
    struct vv_key key = vv_attempt_key(count->name, &count->attempt, VV_KIND_PACK, writer, 0);
    char text[VV_KEY_CAPACITY];
    vv_key_print(&key, text);
    return vv_error(count->error, VARVE_CORRUPT, "%s: %s", text, what);
}

/* What all votes of an attempt say alike, from the first of them. */
static void take_common(struct vv_count *count, const struct vv_vote *vote) {
    struct vv_record *record = &count->record;
    memcpy(record->store_id, count->store->id, sizeof record->store_id);
    record->attempt = count->attempt.attempt;
    record->settings = vote->settings;
    record->ranks = vote->ranks;
    record->writers = vote->writers;
    record->parent = vote->parent;
    memcpy(record->program, vote->program, sizeof record->program);
}

static int check_common(const struct vv_count *count, uint32_t writer, const struct vv_vote *vote) {
    const struct vv_record *record = &count->record;
    if (!vv_settings_are_same(&count->store->settings, &vote->settings))
        return disagree(count, writer, "its settings are not those of the store");
    if (vote->writers != record->writers || vote->ranks != record->ranks)
        return disagree(count, writer, "it was written for another number of writers or ranks than the others");
    if (vv_attempt_compare(&vote->parent, &record->parent) != 0)
        return disagree(count, writer, "it has another parent than the others");
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

static int is_same_dependencies(const struct vv_record *record, const struct vv_dependency *others, uint32_t count) {
    if (record->dependency_count != count)
        return 0;
    for (uint32_t i = 0; i < count; i++)
        if (vv_attempt_compare(&record->dependencies[i].attempt, &others[i].attempt) != 0 ||
            !vv_hash128_equal(record->dependencies[i].writers_digest, others[i].writers_digest))
            return 0;
    return 1;
}

/* The union of two ascending lists. */
static int merge_dependencies(struct vv_count *count, uint32_t writer, const struct vv_dependency *others,
                              uint32_t other_count) {
    struct vv_record *record = &count->record;
    uint32_t a = 0, b = 0;
    size_t merged = 0, capacity = (size_t)record->dependency_count + other_count;
    if (is_same_dependencies(record, others, other_count))
        return 0;
    struct vv_dependency *dependencies = vv_calloc(capacity, sizeof *dependencies);
    if (!dependencies)
        return vv_error_sys(count->error, -ENOMEM, "cannot gather what the attempt depends on");
    while (a < record->dependency_count || b < other_count) {
        int order = a == record->dependency_count ? 1
                    : b == other_count            ? -1
                                       : vv_attempt_compare(&record->dependencies[a].attempt, &others[b].attempt);
        if (order == 0 && !vv_hash128_equal(record->dependencies[a].writers_digest, others[b].writers_digest)) {
            vv_free(dependencies);
            return disagree(count, writer, "it depends on another writers list of the same attempt than the others");
        }
        dependencies[merged++] = order <= 0 ? record->dependencies[a] : others[b];
        a += order <= 0;
        b += order >= 0;
    }
    vv_free(record->dependencies);
    record->dependencies = dependencies;
    record->dependency_count = (uint32_t)merged;
    if (merged > VV_DEPENDENCIES_MAX)
        return disagree(count, writer, "with it, the attempt depends on too many others");
    return 0;
}

static int add_entry(struct vv_count *count, uint32_t writer, const struct vv_writer *entry) {
    if (VV_GROW(count->entries, count->entry_count, count->capacity) != 0)
        return vv_error_sys(count->error, -ENOMEM, "cannot list the writers");
    count->entries[count->entry_count++] = (struct vv_counted){writer, *entry};
    return 0;
}

static void add_sums(struct vv_record *record, const struct vv_record *more) {
    record->protected_bytes += more->protected_bytes;
    record->raw_bytes += more->raw_bytes;
    record->stored_bytes += more->stored_bytes;
    record->regions += more->regions;
    record->metadata_bytes += more->metadata_bytes;
    if (more->time_ns > record->time_ns)
        record->time_ns = more->time_ns;
}

static int add_vote(struct vv_count *count, uint32_t writer, const struct vv_vote *vote) {
    struct vv_record more = {
        .protected_bytes = vote->protected_bytes,
        .raw_bytes = vote->raw_bytes,
        .stored_bytes = vote->stored_bytes,
        .regions = vote->regions,
        .metadata_bytes = vote->entry.pack_length + vote->entry.parts_length - vote->stored_bytes,
        .time_ns = vote->time_ns,
    };
    if (count->entry_count == 0)
        take_common(count, vote);
    int rc = check_common(count, writer, vote);
    if (rc == 0)
        rc = merge_dependencies(count, writer, vote->dependencies, vote->dependency_count);
    if (rc == 0)
        rc = add_entry(count, writer, &vote->entry);
    if (rc == 0)
        add_sums(&count->record, &more);
    return rc;
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
    vv_footer_clear(&footer);
    return rc < 0 ? rc : 1;
}

void vv_vote_clear(struct vv_vote *vote) {
    vv_free(vote->dependencies);
    memset(vote, 0, sizeof *vote);
}

/* ---- all of them ---- */

int vv_count_begin(struct vv_store *store, const char *name, const struct vv_attempt *attempt, struct vv_count **out) {
    struct vv_count *count = vv_calloc(1, sizeof *count);
    if (!count)
        return -ENOMEM;
    *count = (struct vv_count){.store = store, .name = name, .attempt = *attempt};
    *out = count;
    return 0;
}

void vv_count_clear(struct vv_count *count) {
    if (!count)
        return;
    vv_record_clear(&count->record);
    vv_free(count->entries);
    vv_free(count);
}

int vv_count_read(struct vv_count *count, uint32_t writer, struct varve_error *error) {
    struct vv_vote vote;
    count->error = error;
    int rc = vv_vote_read(count->store, count->name, &count->attempt, writer, &vote, error);
    if (rc != 1)
        return rc;
    rc = add_vote(count, writer, &vote);
    vv_vote_clear(&vote);
    return rc < 0 ? rc : 1;
}

uint32_t vv_count_writers(const struct vv_count *count) {
    return count->record.writers;
}

/* ---- votes that travel: all ranks run the same program, so structs travel as they are ---- */

struct sent {
    struct vv_attempt attempt;
    struct vv_record record; /* without its pointers */
    uint64_t entries;
};

int vv_count_put(const struct vv_count *count, struct vv_buf *out) {
    struct sent sent = {.attempt = count->attempt, .record = count->record, .entries = count->entry_count};
    sent.record.dependencies = NULL;
    vv_buf_append(out, &sent, sizeof sent);
    vv_buf_append(out, count->record.dependencies, count->record.dependency_count * sizeof *count->record.dependencies);
    vv_buf_append(out, count->entries, count->entry_count * sizeof *count->entries);
    return out->failed;
}

static int check_sent(const struct vv_count *count, const struct sent *sent, size_t left) {
    const struct vv_record *record = &sent->record;
    size_t dependencies = record->dependency_count * sizeof *record->dependencies;
    if (record->dependency_count > VV_DEPENDENCIES_MAX || dependencies > left ||
        (left - dependencies) % sizeof *count->entries != 0 ||
        (left - dependencies) / sizeof *count->entries != sent->entries)
        return vv_error(count->error, -EPROTO, "votes of another rank have %zu bytes more than they should", left);
    if (vv_attempt_compare(&sent->attempt, &count->attempt) != 0)
        return vv_error(count->error, -EPROTO, "another rank counts the votes of another attempt");
    return 0;
}

/* The common part of the first votes, or one that must be the same. */
static int merge_common(struct vv_count *count, const struct vv_record *record, uint32_t writer) {
    const struct vv_vote common = {
        .settings = record->settings, .ranks = record->ranks, .writers = record->writers, .parent = record->parent};
    if (count->entry_count > 0)
        return check_common(count, writer, &common);
    take_common(count, &common);
    memcpy(count->record.program, record->program, sizeof count->record.program);
    return 0;
}

int vv_count_merge(struct vv_count *count, const void *data, size_t size, struct varve_error *error) {
    struct sent sent;
    struct vv_counted entry;
    count->error = error;
    if (size < sizeof sent)
        return vv_error(error, -EPROTO, "votes of another rank have %zu bytes", size);
    memcpy(&sent, data, sizeof sent);
    int rc = check_sent(count, &sent, size - sizeof sent);
    if (rc < 0 || sent.entries == 0)
        return rc;
    size_t dependency_bytes = sent.record.dependency_count * sizeof(struct vv_dependency);
    const char *at = (const char *)data + sizeof sent;
    struct vv_dependency *dependencies = vv_malloc(dependency_bytes + 1); /* aligned */
    if (!dependencies)
        return vv_error_sys(error, -ENOMEM, "cannot count the votes");
    memcpy(dependencies, at, dependency_bytes);
    at += dependency_bytes;
    memcpy(&entry, at, sizeof entry);
    rc = merge_common(count, &sent.record, entry.writer);
    if (rc == 0)
        rc = merge_dependencies(count, entry.writer, dependencies, sent.record.dependency_count);
    for (uint64_t i = 0; rc == 0 && i < sent.entries; i++) {
        memcpy(&entry, at + i * sizeof entry, sizeof entry);
        rc = add_entry(count, entry.writer, &entry.entry);
    }
    if (rc == 0)
        add_sums(&count->record, &sent.record);
    vv_free(dependencies);
    return rc;
}

/* ---- the end ---- */

static int compare_writers(const void *left, const void *right) {
    uint32_t a = ((const struct vv_counted *)left)->writer, b = ((const struct vv_counted *)right)->writer;
    return (a > b) - (a < b);
}

/* The entries in the order of the writers: one of each, whose owners follow one another. */
static int list_entries(struct vv_count *count, struct vv_writers *out) {
    uint64_t owners = 0;
    qsort(count->entries, count->entry_count, sizeof *count->entries, compare_writers);
    for (uint32_t i = 0; i < out->count; i++) {
        const struct vv_counted *counted = &count->entries[i];
        if (counted->writer != i)
            return disagree(count, counted->writer, "its vote was counted twice, or it is one too many");
        if (counted->entry.first_owner != owners)
            return disagree(count, i, "its owners do not follow those of the writer before");
        if (counted->entry.owners > count->record.ranks - owners)
            return disagree(count, i, "its owners exceed the ranks");
        owners += counted->entry.owners;
        out->list[i] = counted->entry;
    }
    if (owners != count->record.ranks)
        return disagree(count, out->count - 1, "the writers' owners do not add up to the ranks");
    return 0;
}

/* Length and digest of the writers object, which the record names. */
static int name_list(struct vv_count *count, struct vv_writers *writers) {
    struct vv_key key = vv_attempt_key(count->name, &count->attempt, VV_KIND_WRITERS, 0, 0);
    struct vv_buf buf;
    vv_buf_init(&buf);
    vv_writers_encode(&buf, &key, count->store->id, writers, &count->record.writers_digest);
    writers->digest = count->record.writers_digest;
    writers->length = count->record.writers_length = buf.size;
    int rc = buf.failed;
    vv_buf_clear(&buf);
    return rc < 0 ? vv_error_sys(count->error, rc, "cannot list the writers") : 0;
}

int vv_count_end(struct vv_count *count, struct vv_writers *writers_out, struct vv_record *record_out,
                 struct varve_error *error) {
    count->error = error;
    if (count->entry_count == 0 || count->entry_count != count->record.writers)
        return 0;
    struct vv_writers writers = {.count = count->record.writers, .ranks = count->record.ranks};
    if (!(writers.list = vv_calloc(writers.count, sizeof *writers.list)))
        return vv_error_sys(error, -ENOMEM, "cannot list the writers");
    int rc = list_entries(count, &writers);
    if (rc == 0)
        rc = name_list(count, &writers);
    if (rc < 0) {
        vv_writers_clear(&writers);
        return rc;
    }
    *writers_out = writers;
    *record_out = count->record;
    memset(&count->record, 0, sizeof count->record);
    return 1;
}

int vv_votes_read(struct vv_store *store, const char *name, const struct vv_attempt *attempt,
                  struct vv_writers *writers_out, struct vv_record *record_out, struct varve_error *error) {
    struct vv_count *count = NULL;
    int rc = VV_FAULT("store.votes.before_read");
    if (rc == 0)
        rc = vv_count_begin(store, name, attempt, &count);
    if (rc < 0)
        return vv_error_sys(error, rc, "cannot read the votes of %s", name);
    rc = 1;
    for (uint32_t writer = 0; rc == 1 && (writer == 0 || writer < vv_count_writers(count)); writer++)
        rc = vv_count_read(count, writer, error);
    if (rc == 1)
        rc = vv_count_end(count, writers_out, record_out, error);
    vv_count_clear(count);
    if (rc == 0)
        vv_error_clear(error);
    return rc;
}
