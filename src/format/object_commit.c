/* Record, tombstone, pin, trigger and catalogue (docs/format.md 5). The writers list is in object_writers.c. */
#include "format/format_private.h"

#include "base/alloc.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define RECORD_FIXED 128
#define PIN_FIXED 8
#define TOMBSTONE_FIXED 16
#define TRIGGER_FIXED 16

void vv_record_encode(struct vv_buf *buf, const struct vv_key *key, const uint8_t store_id[16],
                      const struct vv_record *record) {
    assert(key->kind == VV_KIND_RECORD && key->generation != 0 && key->version < VV_VERSION_END);
    assert(record->ranks >= 1 && record->ranks <= VV_COUNT_MAX);
    assert(record->writers >= 1 && record->writers <= VV_COUNT_MAX);
    size_t start = vv_object_begin(buf, VV_KIND_RECORD, key, store_id);
    vv_put_settings(buf, &record->settings);
    vv_buf_u64(buf, record->time_ns);
    vv_buf_u32(buf, record->ranks);
    vv_buf_u32(buf, record->writers);
    vv_buf_u64(buf, record->writers_length);
    vv_put_hash(buf, record->writers_digest);
    vv_put_attempt(buf, &record->parent);
    vv_buf_u64(buf, record->protected_bytes);
    vv_buf_u64(buf, record->raw_bytes);
    vv_buf_u64(buf, record->stored_bytes);
    vv_buf_u64(buf, record->metadata_bytes);
    vv_buf_u64(buf, record->regions);
    vv_buf_u32(buf, record->dependency_count);
    vv_buf_u32(buf, 0);
    vv_put_dependencies(buf, record->dependencies, record->dependency_count);
    vv_put_text(buf, key->name, sizeof key->name);
    vv_put_text(buf, record->program, sizeof record->program);
    vv_object_seal(buf, start);
}

static int check_record_counts(const struct vv_parse *parse, const struct vv_record *record) {
    uint64_t length = vv_writers_length(record->writers);
    if (record->ranks < 1 || record->ranks > VV_COUNT_MAX)
        return vv_parse_fail(parse, VARVE_CORRUPT, "ranks are %u, must be 1 to 2^31 - 1", record->ranks);
    if (record->writers < 1 || length > VV_WRITERS_MAX)
        return vv_parse_fail(parse, VARVE_CORRUPT, "writers are %u, must be at least 1 and fit into a list of 4 GiB",
                             record->writers);
    if (record->writers_length != length)
        return vv_parse_fail(parse, VARVE_CORRUPT,
                             "length of the writers object is %" PRIu64 ", with %u writers it is %" PRIu64,
                             record->writers_length, record->writers, length);
    return 0;
}

static int parse_record_body(struct vv_parse *parse, const struct vv_attempt *own, struct vv_record *out) {
    char name[VV_NAME_MAX + 1];
    int rc;
    if ((rc = vv_parse_need(parse, RECORD_FIXED, "fixed fields")) < 0 ||
        (rc = vv_parse_settings(parse, &out->settings)) < 0)
        return rc;
    out->time_ns = vv_cursor_u64(&parse->at);
    out->ranks = vv_cursor_u32(&parse->at);
    out->writers = vv_cursor_u32(&parse->at);
    out->writers_length = vv_cursor_u64(&parse->at);
    out->writers_digest = vv_hash128_get(vv_cursor_take(&parse->at, 16));
    if ((rc = check_record_counts(parse, out)) < 0 || (rc = vv_parse_attempt(parse, "parent", &out->parent)) < 0)
        return rc;
    out->protected_bytes = vv_cursor_u64(&parse->at);
    out->raw_bytes = vv_cursor_u64(&parse->at);
    out->stored_bytes = vv_cursor_u64(&parse->at);
    out->metadata_bytes = vv_cursor_u64(&parse->at);
    out->regions = vv_cursor_u64(&parse->at);
    out->dependency_count = vv_cursor_u32(&parse->at);
    uint32_t reserved = vv_cursor_u32(&parse->at);
    if ((rc = vv_parse_reserved(parse, "reserved field", reserved)) < 0 ||
        (rc = vv_parse_dependencies(parse, out->dependency_count, own, &out->dependencies)) < 0 ||
        (rc = vv_parse_name(parse, name)) < 0 ||
        (rc = vv_parse_text(parse, "program", out->program, sizeof out->program)) < 0)
        return rc;
    return vv_parse_done(parse);
}

/* VARVE_FORGOTTEN, or what is wrong with the tombstone. */
static int refuse_tombstone(const void *data, size_t size, const struct vv_key *expect, const uint8_t *store_id,
                            struct varve_error *error) {
    static const char *const reasons[] = {"", "a writer failed", "pruned", "forgotten", "given up"};
    struct vv_parse parse = {.error = error, .key = expect};
    struct vv_tombstone tombstone;
    int rc = vv_tombstone_parse(data, size, expect, store_id, &tombstone, error);
    if (rc < 0)
        return rc;
    return vv_parse_fail(&parse, VARVE_FORGOTTEN, "is a tombstone (%s)%s%s", reasons[tombstone.reason],
                         tombstone.text[0] ? ": " : "", tombstone.text);
}

int vv_record_parse(const void *data, size_t size, const struct vv_key *expect, const uint8_t *store_id,
                    struct vv_record *out, struct varve_error *error) {
    struct vv_parse parse;
    struct vv_head head;
    struct vv_record record = {0};
    assert(expect->kind == VV_KIND_RECORD);
    int rc = vv_head_parse(data, size, expect, store_id, &head, error);
    if (rc < 0)
        return rc;
    if (head.kind == VV_KIND_TOMBSTONE)
        return refuse_tombstone(data, size, expect, store_id, error);
    if ((rc = vv_object_open(&parse, VV_KIND_RECORD, data, size, VV_SMALL_MAX, expect, store_id, NULL, error)) < 0)
        return rc;
    struct vv_attempt own = {.generation = head.generation, .attempt = head.attempt, .version = head.version};
    if ((rc = parse_record_body(&parse, &own, &record)) < 0) {
        vv_record_clear(&record);
        return rc;
    }
    memcpy(record.store_id, head.store_id, 16);
    record.attempt = head.attempt;
    *out = record;
    return 0;
}

void vv_record_clear(struct vv_record *record) {
    if (!record)
        return;
    vv_free(record->dependencies);
    memset(record, 0, sizeof *record);
}

void vv_tombstone_encode(struct vv_buf *buf, const struct vv_key *key, const uint8_t store_id[16],
                         const struct vv_tombstone *tombstone) {
    assert(key->kind == VV_KIND_PACK || key->kind == VV_KIND_WRITERS || key->kind == VV_KIND_RECORD ||
           key->kind == VV_KIND_PIN);
    assert(tombstone->reason >= VV_TOMBSTONE_FAILED && tombstone->reason <= VV_TOMBSTONE_GIVEN_UP);
    struct vv_key place = *key;
    if (key->kind == VV_KIND_RECORD)
        place.attempt = 0;
    size_t start = vv_object_begin(buf, VV_KIND_TOMBSTONE, &place, store_id);
    vv_buf_u32(buf, tombstone->reason);
    vv_buf_u32(buf, 0);
    vv_buf_u64(buf, tombstone->time_ns);
    vv_put_text(buf, tombstone->text, sizeof tombstone->text);
    vv_object_seal(buf, start);
}

int vv_tombstone_parse(const void *data, size_t size, const struct vv_key *expect, const uint8_t *store_id,
                       struct vv_tombstone *out, struct varve_error *error) {
    struct vv_parse parse;
    struct vv_tombstone tombstone;
    int rc = vv_object_open(&parse, VV_KIND_TOMBSTONE, data, size, VV_SMALL_MAX, expect, store_id, NULL, error);
    if (rc < 0 || (rc = vv_parse_need(&parse, TOMBSTONE_FIXED, "fixed fields")) < 0)
        return rc;
    tombstone.reason = vv_cursor_u32(&parse.at);
    uint32_t reserved = vv_cursor_u32(&parse.at);
    tombstone.time_ns = vv_cursor_u64(&parse.at);
    if (tombstone.reason < VV_TOMBSTONE_FAILED || tombstone.reason > VV_TOMBSTONE_GIVEN_UP)
        return vv_parse_fail(&parse, VARVE_UNKNOWN_FORMAT, "reason is %u, which is not known", tombstone.reason);
    if ((rc = vv_parse_reserved(&parse, "reserved field", reserved)) < 0 ||
        (rc = vv_parse_text(&parse, "text", tombstone.text, sizeof tombstone.text)) < 0 ||
        (rc = vv_parse_done(&parse)) < 0)
        return rc;
    *out = tombstone;
    return 0;
}

void vv_pin_encode(struct vv_buf *buf, const struct vv_key *key, const uint8_t store_id[16], const struct vv_pin *pin) {
    assert(key->kind == VV_KIND_PIN && key->generation != 0);
    size_t start = vv_object_begin(buf, VV_KIND_PIN, key, store_id);
    vv_buf_u64(buf, pin->time_ns);
    vv_put_text(buf, key->name, sizeof key->name);
    vv_put_text(buf, pin->host, sizeof pin->host);
    vv_put_text(buf, pin->reason, sizeof pin->reason);
    vv_object_seal(buf, start);
}

int vv_pin_parse(const void *data, size_t size, const struct vv_key *expect, const uint8_t *store_id,
                 struct vv_pin *out, struct varve_error *error) {
    struct vv_parse parse;
    struct vv_head head;
    struct vv_pin pin;
    char name[VV_NAME_MAX + 1];
    assert(expect->kind == VV_KIND_PIN);
    int rc = vv_head_parse(data, size, expect, store_id, &head, error);
    if (rc < 0)
        return rc;
    if (head.kind == VV_KIND_TOMBSTONE)
        return refuse_tombstone(data, size, expect, store_id, error);
    if ((rc = vv_object_open(&parse, VV_KIND_PIN, data, size, VV_SMALL_MAX, expect, store_id, NULL, error)) < 0 ||
        (rc = vv_parse_need(&parse, PIN_FIXED, "fixed fields")) < 0)
        return rc;
    pin.time_ns = vv_cursor_u64(&parse.at);
    if ((rc = vv_parse_name(&parse, name)) < 0 || (rc = vv_parse_text(&parse, "host", pin.host, sizeof pin.host)) < 0 ||
        (rc = vv_parse_text(&parse, "reason", pin.reason, sizeof pin.reason)) < 0 || (rc = vv_parse_done(&parse)) < 0)
        return rc;
    *out = pin;
    return 0;
}

void vv_trigger_encode(struct vv_buf *buf, const struct vv_key *key, const uint8_t store_id[16],
                       const struct vv_trigger *trigger) {
    assert(key->kind == VV_KIND_TRIGGER);
    assert(trigger->wish >= VV_TRIGGER_CHECKPOINT && trigger->wish <= VV_TRIGGER_EXIT);
    size_t start = vv_object_begin(buf, VV_KIND_TRIGGER, key, store_id);
    vv_buf_u32(buf, trigger->wish);
    vv_buf_u32(buf, 0);
    vv_buf_u64(buf, trigger->time_ns);
    vv_put_text(buf, key->name, sizeof key->name);
    vv_put_text(buf, trigger->host, sizeof trigger->host);
    vv_object_seal(buf, start);
}

int vv_trigger_parse(const void *data, size_t size, const struct vv_key *expect, const uint8_t *store_id,
                     struct vv_trigger *out, struct varve_error *error) {
    struct vv_parse parse;
    struct vv_trigger trigger;
    char name[VV_NAME_MAX + 1];
    int rc = vv_object_open(&parse, VV_KIND_TRIGGER, data, size, VV_SMALL_MAX, expect, store_id, NULL, error);
    if (rc < 0 || (rc = vv_parse_need(&parse, TRIGGER_FIXED, "fixed fields")) < 0)
        return rc;
    trigger.wish = vv_cursor_u32(&parse.at);
    uint32_t reserved = vv_cursor_u32(&parse.at);
    trigger.time_ns = vv_cursor_u64(&parse.at);
    if (trigger.wish < VV_TRIGGER_CHECKPOINT || trigger.wish > VV_TRIGGER_EXIT)
        return vv_parse_fail(&parse, VARVE_UNKNOWN_FORMAT, "wish is %u, which is not known", trigger.wish);
    if ((rc = vv_parse_reserved(&parse, "reserved field", reserved)) < 0 || (rc = vv_parse_name(&parse, name)) < 0 ||
        (rc = vv_parse_text(&parse, "host", trigger.host, sizeof trigger.host)) < 0 || (rc = vv_parse_done(&parse)) < 0)
        return rc;
    *out = trigger;
    return 0;
}

/* Key order is newest first: higher generations, then higher versions, come before lower ones. */
static int is_newer(const struct vv_attempt *a, const struct vv_attempt *b) {
    return a->generation != b->generation ? a->generation > b->generation : a->version > b->version;
}

void vv_catalogue_encode(struct vv_buf *buf, const struct vv_key *key, const uint8_t store_id[16],
                         const struct vv_catalogue *catalogue) {
    assert(key->kind == VV_KIND_CATALOGUE);
    size_t start = vv_object_begin(buf, VV_KIND_CATALOGUE, key, store_id);
    vv_buf_u64(buf, catalogue->count);
    for (uint64_t i = 0; i < catalogue->count; i++) {
        const struct vv_catalogue_entry *entry = &catalogue->list[i];
        assert(entry->attempt.generation != 0);
        assert(i == 0 || is_newer(&catalogue->list[i - 1].attempt, &entry->attempt));
        vv_put_attempt(buf, &entry->attempt);
        vv_buf_u64(buf, entry->time_ns);
        vv_buf_u64(buf, entry->protected_bytes);
        vv_buf_u64(buf, entry->stored_bytes);
        vv_buf_u64(buf, entry->metadata_bytes);
        vv_buf_u64(buf, entry->regions);
        vv_buf_u32(buf, entry->ranks);
        vv_buf_u32(buf, entry->is_tombstone ? 2 : 1);
    }
    vv_object_seal(buf, start);
}

static int parse_catalogue_entry(struct vv_parse *parse, struct vv_catalogue_entry *list, uint64_t i) {
    struct vv_catalogue_entry *entry = &list[i];
    int rc = vv_parse_attempt(parse, "entry", &entry->attempt);
    if (rc < 0)
        return rc;
    entry->time_ns = vv_cursor_u64(&parse->at);
    entry->protected_bytes = vv_cursor_u64(&parse->at);
    entry->stored_bytes = vv_cursor_u64(&parse->at);
    entry->metadata_bytes = vv_cursor_u64(&parse->at);
    entry->regions = vv_cursor_u64(&parse->at);
    entry->ranks = vv_cursor_u32(&parse->at);
    uint32_t state = vv_cursor_u32(&parse->at);
    entry->is_tombstone = state == 2;
    if (state != 1 && state != 2)
        return vv_parse_fail(parse, VARVE_UNKNOWN_FORMAT, "state of entry %" PRIu64 " is %u, which is not known", i,
                             state);
    if (entry->attempt.generation == 0)
        return vv_parse_fail(parse, VARVE_CORRUPT, "entry %" PRIu64 " has generation 0", i);
    if (i > 0 && !is_newer(&list[i - 1].attempt, &entry->attempt))
        return vv_parse_fail(parse, VARVE_CORRUPT, "entry %" PRIu64 " is not older than the one before", i);
    return 0;
}

int vv_catalogue_parse(const void *data, size_t size, const struct vv_key *expect, const uint8_t *store_id,
                       struct vv_catalogue *out, struct varve_error *error) {
    struct vv_parse parse;
    struct vv_catalogue catalogue = {0};
    int rc = vv_object_open(&parse, VV_KIND_CATALOGUE, data, size, VV_LENGTH_END - 1, expect, store_id, NULL, error);
    if (rc < 0 || (rc = vv_parse_need(&parse, 8, "fixed fields")) < 0)
        return rc;
    uint64_t count = vv_cursor_u64(&parse.at);
    if (vv_cursor_left(&parse.at) % VV_CATALOGUE_ENTRY_SIZE ||
        count != vv_cursor_left(&parse.at) / VV_CATALOGUE_ENTRY_SIZE)
        return vv_parse_fail(&parse, VARVE_CORRUPT, "count is %" PRIu64 ", the entries have %zu bytes", count,
                             vv_cursor_left(&parse.at));
    if (count && !(catalogue.list = vv_calloc(count, sizeof *catalogue.list)))
        return vv_parse_fail(&parse, -ENOMEM, "no memory for %" PRIu64 " entries", count);
    catalogue.count = count;
    for (uint64_t i = 0; i < count; i++) {
        if ((rc = parse_catalogue_entry(&parse, catalogue.list, i)) < 0) {
            vv_catalogue_clear(&catalogue);
            return rc;
        }
    }
    *out = catalogue;
    return 0;
}

void vv_catalogue_clear(struct vv_catalogue *catalogue) {
    if (!catalogue)
        return;
    vv_free(catalogue->list);
    memset(catalogue, 0, sizeof *catalogue);
}

int vv_dependency_compare(const void *a, const void *b) {
    return vv_attempt_compare(&((const struct vv_dependency *)a)->attempt, &((const struct vv_dependency *)b)->attempt);
}
