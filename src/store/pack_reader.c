/* Nothing a pack says is believed before it is checked: the end against the object's length, the footer against the
 * writers list, sections against the footer, tables against each other. The last 8 KiB are read at once; they hold
 * end and footer of all but very large packs. */
#include "store/pack_reader.h"
#include "base/alloc.h"
#include "store/block_lend.h"

#include <errno.h>
#include <stdio.h>

#define TAIL_READ (8u << 10)
#define CHECK_WINDOW (1u << 20)
#define TRUSTED_SECTION (64u << 20) /* larger ones are checked before memory is taken for them */

void vv_pack_key(const struct vv_pack_id *id, int kind, uint32_t part, char *text) {
    struct vv_key key = vv_attempt_key(id->name, &id->attempt, kind, id->writer, part);
    vv_key_print(&key, text);
}

int vv_pack_error(const char *key, int rc, struct varve_error *error) {
    if (error && !strstr(error->text, key)) {
        char text[300];
        snprintf(text, sizeof text, "%.299s", error->text);
        vv_error(error, rc, "%s: %s", key, text);
    }
    return rc;
}

static int get_failed(struct vv_store *store, const char *key, int64_t got, struct varve_error *error) {
    if (got == -ENOENT)
        return vv_error(error, -ENOENT, "%s is missing", key);
    return vv_read_error(store, key, (int)got, error);
}

static int take_got(struct vv_store *store, const char *key, uint64_t offset, size_t size, int64_t got,
                    struct varve_error *error) {
    if (got < 0)
        return get_failed(store, key, got, error);
    if ((uint64_t)got != size) {
        return vv_error(error, VARVE_CORRUPT, "%s ends at byte %llu, but %zu bytes from %llu on are expected", key,
                        (unsigned long long)(offset + (uint64_t)got), size, (unsigned long long)offset);
    }
    return 0;
}

int vv_pack_get(struct vv_store *store, const char *key, uint64_t offset, void *data, size_t size,
                struct varve_error *error) {
    return take_got(store, key, offset, size, vv_backend_get(store->backend, key, offset, data, size), error);
}

/* What is not blocks: every rank that needs anything of a pack reads the same of it. */
static int64_t get_shared(struct vv_store *store, const char *key, uint64_t offset, void *data, size_t size) {
    return store->lend ? store->lend->get(store->lend_arg, key, offset, data, size)
                       : vv_backend_get(store->backend, key, offset, data, size);
}

static int get_table(struct vv_store *store, const char *key, uint64_t offset, void *data, size_t size,
                     struct varve_error *error) {
    return take_got(store, key, offset, size, get_shared(store, key, offset, data, size), error);
}

int vv_pack_head_check(const struct vv_pack_id *id, int kind, uint32_t part, struct vv_head *out,
                       struct varve_error *error) {
    struct vv_key key = vv_attempt_key(id->name, &id->attempt, kind, id->writer, part);
    uint8_t bytes[VV_HEAD_SIZE];
    char text[VV_KEY_CAPACITY];
    vv_key_print(&key, text);
    int rc = get_table(id->store, text, 0, bytes, sizeof bytes, error);
    if (rc == 0) {
        rc = vv_head_parse(bytes, sizeof bytes, &key, id->store->id, out, error);
        rc = rc < 0 ? vv_pack_error(text, rc, error) : 0;
    }
    if (rc == 0 && out->kind == VV_KIND_TOMBSTONE)
        rc = vv_error(error, VARVE_FORGOTTEN, "%s is a tombstone", text);
    return rc;
}

/* ---- end and footer ---- */

/* The end of an object. A copy is the end of its pack and speaks of the pack's offsets: missing is how much shorter
 * it is. */
struct tail {
    const char *key;
    uint64_t length; /* of the object */
    uint64_t missing;
    uint64_t offset; /* of data in the object */
    uint8_t *data;
    size_t size;
};

/* The object must end where its length says: one byte more is asked for and must not be there. */
static int read_tail(struct vv_store *store, struct tail *tail, struct varve_error *error) {
    size_t want = tail->length < TAIL_READ ? (size_t)tail->length : TAIL_READ;
    if (tail->length < VV_HEAD_SIZE + VV_END_SIZE || tail->length >= VV_ADDRESS_END) {
        return vv_error(error, VARVE_CORRUPT, "%s: a length of %llu bytes is impossible for a pack", tail->key,
                        (unsigned long long)tail->length);
    }
    tail->data = vv_malloc(want + 1);
    if (!tail->data)
        return vv_error_sys(error, -ENOMEM, "%s", tail->key);
    tail->offset = tail->length - want;
    int64_t got = get_shared(store, tail->key, tail->offset, tail->data, want + 1);
    if (got < 0)
        return get_failed(store, tail->key, got, error);
    if ((uint64_t)got != want) {
        return vv_error(error, VARVE_CORRUPT, "%s is %s than the %llu bytes it should have", tail->key,
                        (uint64_t)got < want ? "shorter" : "longer", (unsigned long long)tail->length);
    }
    tail->size = want;
    return 0;
}

/* How long the pack is whose copy this is. What the end says is checked with the footer. */
static void find_missing(struct tail *tail) {
    const uint8_t *end = tail->data + tail->size - VV_END_SIZE;
    uint64_t length = vv_get64(end) + vv_get32(end + 8) + VV_END_SIZE;
    tail->missing = length > tail->length && length < VV_ADDRESS_END ? length - tail->length : 0;
}

/* at: where the footer is in the object. */
static int read_footer(struct vv_store *store, const struct tail *tail, uint64_t at, uint32_t length,
                       struct vv_hash128 digest, struct vv_footer *out, struct varve_error *error) {
    if (at >= tail->offset)
        return vv_footer_parse(tail->data + (at - tail->offset), length, at + tail->missing, digest, out, error);
    uint8_t *data = vv_malloc(length);
    if (!data)
        return vv_error_sys(error, -ENOMEM, "%s: a footer of %u bytes", tail->key, length);
    int rc = get_table(store, tail->key, at, data, length, error);
    if (rc == 0)
        rc = vv_footer_parse(data, length, at + tail->missing, digest, out, error);
    vv_free(data);
    return rc;
}

static int parse_footer(struct vv_store *store, const struct tail *tail, const struct vv_writer *expect,
                        struct vv_footer *out, struct varve_error *error) {
    uint64_t offset = 0, length_of_pack = tail->length + tail->missing;
    uint32_t length = 0;
    struct vv_hash128 digest = {0, 0};
    int rc = vv_end_parse(tail->data + tail->size - VV_END_SIZE, length_of_pack, &offset, &length, &digest, error);
    if (rc < 0)
        return rc;
    if (expect && !vv_hash128_equal(digest, expect->footer_digest))
        return vv_error(error, VARVE_CORRUPT, "%s: its footer is not the one the writers list names", tail->key);
    if (length > VV_FOOTER_MAX || offset < tail->missing + VV_HEAD_SIZE ||
        offset + length + VV_END_SIZE != length_of_pack)
        return vv_error(error, VARVE_CORRUPT, "%s: its end places the footer outside", tail->key);
    return read_footer(store, tail, offset - tail->missing, length, digest, out, error);
}

/* A copy holds all sections, and nothing else. */
static int check_copy(const struct tail *tail, const struct vv_footer *footer, struct varve_error *error) {
    if (footer->section_count == 0 || footer->sections[0].offset != tail->missing + VV_HEAD_SIZE)
        return vv_error(error, VARVE_CORRUPT, "%s does not hold exactly the sections of its pack", tail->key);
    return 0;
}

struct vv_section vv_pack_section(const struct vv_footer *footer, const struct vv_section *section, int kind) {
    struct vv_section at = *section;
    if (kind == VV_KIND_COPY)
        at.offset -= footer->sections[0].offset - VV_HEAD_SIZE;
    return at;
}

/* What the footer says must be what the key and the store say. */
static int check_identity(const struct vv_pack_id *id, const struct vv_footer *footer, const char *key,
                          struct varve_error *error) {
    const char *what = NULL;
    if (strcmp(footer->name, id->name) != 0)
        what = "name";
    else if (!vv_settings_are_same(&footer->settings, &id->store->settings))
        what = "settings";
    else if (id->writer >= footer->writers)
        what = "number of writers";
    else if ((uint64_t)footer->first_owner + footer->owners > footer->ranks)
        what = "owners";
    for (uint32_t i = 0; i < footer->partner_count && !what; i++)
        what = footer->partners[i] >= footer->writers ? "partners" : NULL;
    if (what)
        return vv_error(error, VARVE_CORRUPT, "%s: the %s in its footer cannot be right", key, what);
    for (uint32_t i = 0; i < footer->dependency_count; i++) {
        const struct vv_attempt *dependency = &footer->dependencies[i].attempt;
        if (!vv_dependency_is_possible(&id->attempt, &footer->parent, dependency))
            return vv_error(error, VARVE_CORRUPT, "%s depends on the future: generation %u version %llu attempt %u",
                            key, dependency->generation, (unsigned long long)dependency->version, dependency->attempt);
    }
    return 0;
}

/* The writers list repeats what footers say. */
static int check_listed(const struct vv_footer *footer, const struct vv_listed *listed, const char *key,
                        struct varve_error *error) {
    const struct vv_writer *entry = &listed->entry;
    uint64_t parts_length = 0;
    for (uint32_t i = 0; i < footer->parts; i++)
        parts_length += footer->part_lengths[i];
    const char *what = NULL;
    if (footer->writers != listed->count || footer->ranks != listed->ranks)
        what = "writers and ranks";
    else if (footer->first_owner != entry->first_owner || footer->owners != entry->owners)
        what = "owners";
    else if (footer->parts != entry->parts || parts_length != entry->parts_length)
        what = "parts";
    else if (footer->partner_count != entry->partner_count ||
             memcmp(footer->partners, entry->partners, entry->partner_count * sizeof entry->partners[0]) != 0)
        what = "partners";
    return what ? vv_error(error, VARVE_CORRUPT, "%s: footer and writers list differ about %s", key, what) : 0;
}

/* The end is in memory: the footer, and whether all of it belongs together. */
static int take_footer(const struct vv_pack_id *id, int kind, const struct vv_listed *listed, struct tail *tail,
                       struct vv_footer *out, struct varve_error *error) {
    const struct vv_writer *expect = listed ? &listed->entry : NULL;
    if (kind == VV_KIND_COPY)
        find_missing(tail);
    if (expect && tail->length + tail->missing != expect->pack_length) {
        return vv_error(error, VARVE_CORRUPT, "%s is not the copy of a pack of %llu bytes", tail->key,
                        (unsigned long long)expect->pack_length);
    }
    int rc = parse_footer(id->store, tail, expect, out, error);
    if (rc < 0)
        return rc;
    rc = check_identity(id, out, tail->key, error);
    if (rc == 0 && kind == VV_KIND_COPY)
        rc = check_copy(tail, out, error);
    if (rc == 0 && listed)
        rc = check_listed(out, listed, tail->key, error);
    if (rc < 0)
        vv_footer_clear(out);
    return rc;
}

static int load_footer(const struct vv_pack_id *id, int kind, const struct vv_listed *listed, struct tail *tail,
                       struct vv_footer *out, struct varve_error *error) {
    struct vv_head head;
    int rc = vv_pack_head_check(id, kind, 0, &head, error);
    if (rc < 0)
        return rc;
    if (listed && kind == VV_KIND_PACK)
        tail->length = listed->entry.pack_length;
    else
        rc = vv_backend_stat(id->store->backend, tail->key, &tail->length);
    if (rc < 0)
        return get_failed(id->store, tail->key, rc, error);
    rc = read_tail(id->store, tail, error);
    return rc < 0 ? rc : take_footer(id, kind, listed, tail, out, error);
}

int vv_pack_footer_load(const struct vv_pack_id *id, int kind, const struct vv_listed *listed, struct vv_footer *out,
                        uint64_t *length_out, struct varve_error *error) {
    char key[VV_KEY_CAPACITY];
    struct tail tail = {.key = key};
    vv_pack_key(id, kind, 0, key);
    int rc = load_footer(id, kind, listed, &tail, out, error);
    if (rc < 0)
        vv_pack_error(key, rc, error);
    else if (length_out)
        *length_out = tail.length;
    vv_free(tail.data);
    return rc;
}

int vv_pack_copy_parse(const struct vv_pack_id *id, const void *data, size_t size, struct vv_footer *out,
                       struct varve_error *error) {
    struct vv_key key = vv_attempt_key(id->name, &id->attempt, VV_KIND_COPY, id->writer, 0);
    struct vv_head head;
    char text[VV_KEY_CAPACITY];
    vv_key_print(&key, text);
    struct tail tail = {.key = text, .length = size, .data = (uint8_t *)data, .size = size};
    if (size < VV_HEAD_SIZE + VV_END_SIZE)
        return vv_error(error, VARVE_CORRUPT, "%s: %zu bytes are no copy of a pack", text, size);
    int rc = vv_head_parse(data, VV_HEAD_SIZE, &key, id->store->id, &head, error);
    if (rc == 0)
        rc = take_footer(id, VV_KIND_COPY, NULL, &tail, out, error);
    return rc < 0 ? vv_pack_error(text, rc, error) : 0;
}

/* ---- sections ---- */

static int section_damaged(const char *key, const struct vv_section *section, struct varve_error *error) {
    return vv_error(error, VARVE_CORRUPT, "%s: section of kind %u at byte %llu: its digest does not match", key,
                    section->kind, (unsigned long long)section->offset);
}

int vv_section_check(struct vv_store *store, const char *key, const struct vv_section *section,
                     struct varve_error *error) {
    struct vv_digest_state *state = NULL;
    size_t window = section->length < CHECK_WINDOW ? (size_t)section->length : CHECK_WINDOW;
    uint8_t *data = vv_malloc(window ? window : 1);
    int rc = data ? vv_digest_begin(&state) : -ENOMEM;
    if (rc < 0)
        rc = vv_error_sys(error, rc, "%s", key);
    for (uint64_t done = 0; rc == 0 && done < section->length;) {
        size_t size = section->length - done < window ? (size_t)(section->length - done) : window;
        rc = get_table(store, key, section->offset + done, data, size, error);
        if (rc == 0) {
            vv_digest_add(state, data, size);
            done += size;
        }
    }
    if (rc == 0) {
        struct vv_hash128 digest = vv_digest_end(state);
        state = NULL;
        rc = vv_hash128_equal(digest, section->digest) ? 0 : section_damaged(key, section, error);
    }
    vv_digest_drop(state);
    vv_free(data);
    return rc;
}

int vv_section_load(struct vv_store *store, const char *key, const struct vv_section *section, uint8_t **out,
                    struct varve_error *error) {
    if (section->length > TRUSTED_SECTION) {
        int rc = vv_section_check(store, key, section, error);
        if (rc < 0)
            return rc;
    }
    uint8_t *data = section->length ? vv_malloc(section->length) : NULL;
    if (section->length && !data)
        return vv_error_sys(error, -ENOMEM, "%s: a section of %llu bytes", key, (unsigned long long)section->length);
    int rc = section->length ? get_table(store, key, section->offset, data, section->length, error) : 0;
    if (rc == 0 && !vv_hash128_equal(vv_digest(data ? data : (const uint8_t *)"", section->length), section->digest))
        rc = section_damaged(key, section, error);
    if (rc < 0) {
        vv_free(data);
        return rc;
    }
    *out = data;
    return 0;
}
