/* Reading the votes of an attempt: the footer of every writer's pack, checked against the others. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "store/pack_reader.h"
#include "store/store_private.h"

struct votes {
    struct vv_store *store;
    const char *name;
    const struct vv_attempt *attempt;
    struct vv_writers writers;
    size_t room;
    struct vv_record record;
    uint64_t owners; /* of the writers so far */
    struct varve_error *error;
};

static int disagree(const struct votes *votes, uint32_t writer, const char *what) {
    struct vv_key key = vv_attempt_key(votes->name, votes->attempt, VV_KIND_PACK, writer, 0);
    char text[VV_KEY_ROOM];
    vv_key_print(&key, text);
    return vv_error(votes->error, VARVE_CORRUPT, "%s: %s", text, what);
}

/* What all footers of an attempt say alike, from the first of them. */
static void take_common(struct votes *votes, const struct vv_footer *footer) {
    struct vv_record *record = &votes->record;
    memcpy(record->store_id, votes->store->id, sizeof record->store_id);
    record->attempt = votes->attempt->attempt;
    record->settings = footer->settings;
    record->ranks = footer->ranks;
    record->writers = footer->writers;
    record->parent = footer->parent;
    memcpy(record->program, footer->program, sizeof record->program);
    votes->writers.ranks = footer->ranks;
}

static int check_common(const struct votes *votes, uint32_t writer, const struct vv_footer *footer) {
    const struct vv_record *record = &votes->record;
    if (!vv_settings_are_same(&votes->store->settings, &footer->settings))
        return disagree(votes, writer, "its settings are not those of the store");
    if (footer->writers != record->writers || footer->ranks != record->ranks)
        return disagree(votes, writer, "it was written for another number of writers or ranks than writer 0's");
    if (vv_attempt_compare(&footer->parent, &record->parent) != 0)
        return disagree(votes, writer, "it has another parent than writer 0's");
    if (footer->first_owner != votes->owners)
        return disagree(votes, writer, "its owners do not follow those of the writer before");
    if (footer->owners > footer->ranks - votes->owners)
        return disagree(votes, writer, "its owners exceed the ranks");
    return 0;
}

/* Parts were durable before the pack: one that is missing, or of another length, is damage. */
static int check_parts(const struct votes *votes, uint32_t writer, const struct vv_footer *footer) {
    for (uint32_t part = 0; part < footer->parts; part++) {
        struct vv_key key = vv_attempt_key(votes->name, votes->attempt, VV_KIND_PART, writer, part);
        char text[VV_KEY_ROOM];
        uint64_t length = 0;
        vv_key_print(&key, text);
        int rc = vv_backend_stat(votes->store->backend, text, &length);
        if (rc == -ENOENT)
            return vv_error(votes->error, VARVE_CORRUPT, "%s is missing, but its pack says it was written", text);
        if (rc < 0)
            return vv_error_sys(votes->error, rc, "cannot look at %s", text);
        if (length != footer->part_lengths[part])
            return vv_error(votes->error, VARVE_CORRUPT, "%s has %" PRIu64 " bytes, its pack says %" PRIu64, text,
                            length, footer->part_lengths[part]);
    }
    return 0;
}

static int is_same_leans(const struct vv_record *record, const struct vv_footer *footer) {
    if (record->lean_count != footer->lean_count)
        return 0;
    for (uint32_t i = 0; i < record->lean_count; i++)
        if (vv_attempt_compare(&record->leans[i].attempt, &footer->leans[i].attempt) != 0 ||
            !vv_hash128_equal(record->leans[i].writers_digest, footer->leans[i].writers_digest))
            return 0;
    return 1;
}

/* The union of two ascending lists. */
static int merge_leans(struct votes *votes, uint32_t writer, const struct vv_footer *footer) {
    struct vv_record *record = &votes->record;
    uint32_t a = 0, b = 0;
    size_t count = 0, room = (size_t)record->lean_count + footer->lean_count;
    if (is_same_leans(record, footer))
        return 0;
    struct vv_lean *leans = vv_calloc(room, sizeof *leans);
    if (!leans)
        return vv_error_sys(votes->error, -ENOMEM, "cannot gather what the attempt leans on");
    while (a < record->lean_count || b < footer->lean_count) {
        int order = a == record->lean_count ? 1
                    : b == footer->lean_count
                        ? -1
                        : vv_attempt_compare(&record->leans[a].attempt, &footer->leans[b].attempt);
        if (order == 0 && !vv_hash128_equal(record->leans[a].writers_digest, footer->leans[b].writers_digest)) {
            vv_free(leans);
            return disagree(votes, writer, "it leans on another writers list of the same attempt than those before");
        }
        leans[count++] = order <= 0 ? record->leans[a] : footer->leans[b];
        a += order <= 0;
        b += order >= 0;
    }
    vv_free(record->leans);
    record->leans = leans;
    record->lean_count = (uint32_t)count;
    if (count > VV_LEANS_MAX)
        return disagree(votes, writer, "with it, the attempt leans on too many others");
    return 0;
}

static int add_writer(struct votes *votes, const struct vv_footer *footer, uint64_t pack_length) {
    struct vv_writers *writers = &votes->writers;
    if (writers->count == votes->room) {
        size_t room = votes->room ? votes->room * 2 : 16;
        struct vv_writer *list = vv_realloc(writers->list, room * sizeof *list);
        if (!list)
            return vv_error_sys(votes->error, -ENOMEM, "cannot list the writers");
        writers->list = list;
        votes->room = room;
    }
    struct vv_writer entry = {.first_owner = footer->first_owner,
                              .owners = footer->owners,
                              .parts = footer->parts,
                              .partner_count = footer->partner_count,
                              .pack_length = pack_length,
                              .footer_digest = footer->digest};
    memcpy(entry.partners, footer->partners, sizeof entry.partners);
    for (uint32_t part = 0; part < footer->parts; part++)
        entry.parts_length += footer->part_lengths[part];
    writers->list[writers->count++] = entry;

    struct vv_record *record = &votes->record;
    record->protected_bytes += footer->protected_bytes;
    record->raw_bytes += footer->raw_bytes;
    record->stored_bytes += footer->stored_bytes;
    record->regions += footer->regions;
    record->metadata_bytes += entry.pack_length + entry.parts_length - footer->stored_bytes;
    if (footer->time_ns > record->time_ns)
        record->time_ns = footer->time_ns;
    votes->owners += footer->owners;
    return 0;
}

/* 1 this writer said yes, 0 it did not, or an error. */
static int read_vote(struct votes *votes, uint32_t writer) {
    struct vv_pack_id id = {.store = votes->store, .name = votes->name, .attempt = *votes->attempt, .writer = writer};
    struct vv_footer footer;
    uint64_t length = 0;
    int rc = vv_pack_footer_load(&id, VV_KIND_PACK, NULL, &footer, &length, votes->error);
    if (rc == -ENOENT || rc == VARVE_FORGOTTEN)
        return 0;
    if (rc < 0)
        return rc;
    if (writer == 0)
        take_common(votes, &footer);
    if ((rc = check_common(votes, writer, &footer)) == 0 && (rc = check_parts(votes, writer, &footer)) == 0 &&
        (rc = merge_leans(votes, writer, &footer)) == 0)
        rc = add_writer(votes, &footer, length);
    vv_footer_clear(&footer);
    return rc < 0 ? rc : 1;
}

/* Length and digest of the writers object, which the record names. */
static int finish(struct votes *votes) {
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

int vv_votes_read(struct vv_store *store, const char *name, const struct vv_attempt *attempt,
                  struct vv_writers *writers_out, struct vv_record *record_out, struct varve_error *error) {
    struct votes votes = {.store = store, .name = name, .attempt = attempt, .error = error};
    int rc = VV_FAULT("store.votes.before_read");
    if (rc < 0)
        return vv_error_sys(error, rc, "cannot read the votes of %s", name);
    rc = read_vote(&votes, 0);
    for (uint32_t writer = 1; rc == 1 && writer < votes.record.writers; writer++)
        rc = read_vote(&votes, writer);
    if (rc == 1)
        rc = finish(&votes);
    if (rc != 1) {
        if (rc == 0)
            vv_error_clear(error);
        vv_writers_clear(&votes.writers);
        vv_record_clear(&votes.record);
        return rc;
    }
    *writers_out = votes.writers;
    *record_out = votes.record;
    return 1;
}
