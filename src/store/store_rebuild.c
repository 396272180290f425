/* The store object is lost or damaged: id and settings from records and claims (docs/format.md 12).
 *
 * Looked at are the newest few of each name that parse. All must agree: an object that was copied in from another store
 * must not decide what this one is. An object that cannot be read proves nothing and is passed over. */
#include <errno.h>
#include <string.h>

#include "store/listing.h"
#include "store/records.h"
#include "store/store_private.h"

#define LOOK_PARSED 4
#define LOOK_LISTED 32

struct evidence {
    struct vv_store *store;
    struct varve_error *error;
    int count;
    uint8_t id[16];
    struct vv_settings_store settings;
    char key[VV_KEY_CAPACITY];
    struct varve_error last; /* why the last one looked at was passed over */
};

static int consider(struct evidence *found, const struct vv_key *key, const uint8_t id[16],
                    const struct vv_settings_store *settings) {
    char text[VV_KEY_CAPACITY];
    vv_key_print(key, text);
    if (found->count++ == 0) {
        memcpy(found->id, id, sizeof found->id);
        found->settings = *settings;
        memcpy(found->key, text, sizeof found->key);
        return 0;
    }
    if (memcmp(found->id, id, sizeof found->id) == 0 && vv_settings_are_same(&found->settings, settings))
        return 0;
    return vv_error(found->error, VARVE_CORRUPT,
                    "the store object is lost, and %.150s and %.150s do not agree to which store they belong",
                    found->key, text);
}

/* 1 if the object at key parsed and agrees, 0 if it was passed over. */
static int look_at_key(struct evidence *found, const struct vv_key *key) {
    struct vv_buf buf;
    struct vv_record record;
    struct vv_claim claim;
    vv_buf_init(&buf);
    int is_record = key->kind == VV_KIND_RECORD;
    int rc = vv_object_read(found->store, key, &buf, &found->last);
    if (rc == 0 && is_record)
        rc = vv_record_parse(buf.data, buf.size, key, NULL, &record, &found->last);
    else if (rc == 0)
        rc = vv_claim_parse(buf.data, buf.size, key, NULL, &claim, &found->last);
    vv_buf_clear(&buf);
    if (rc < 0)
        return rc == -ENOMEM ? rc : 0;
    if (is_record) {
        rc = consider(found, key, record.store_id, &record.settings);
        vv_record_clear(&record);
    } else {
        rc = consider(found, key, claim.store_id, &claim.settings);
    }
    return rc < 0 ? rc : 1;
}

struct record_look {
    struct evidence *found;
    const char *name;
    int listed;
    int parsed;
};

static int look_at_record(void *arg, uint32_t generation, uint64_t version) {
    struct record_look *look = arg;
    struct vv_attempt attempt = {.generation = generation, .version = version};
    struct vv_key key = vv_attempt_key(look->name, &attempt, VV_KIND_RECORD, 0, 0);
    int rc = look_at_key(look->found, &key);
    if (rc < 0)
        return rc;
    look->parsed += rc;
    return ++look->listed == LOOK_LISTED || look->parsed == LOOK_PARSED;
}

static int look_at_claims(struct evidence *found, const char *name) {
    char prefix[VV_KEY_CAPACITY];
    struct vv_numbers claims;
    vv_prefix_claims(name, prefix);
    int rc = vv_numbers_list(found->store, prefix, 8, NULL, &claims, found->error);
    int listed = 0, parsed = 0;
    for (size_t i = claims.count; rc >= 0 && i > 0 && listed < LOOK_LISTED && parsed < LOOK_PARSED; i--, listed++) {
        struct vv_attempt attempt = {.generation = (uint32_t)claims.list[i - 1]};
        struct vv_key key = vv_attempt_key(name, &attempt, VV_KIND_CLAIM, 0, 0);
        rc = look_at_key(found, &key);
        parsed += rc > 0;
    }
    vv_numbers_clear(&claims);
    return rc < 0 ? rc : 0;
}

static int look_at_name(void *arg, const char *name) {
    struct evidence *found = arg;
    struct record_look look = {.found = found, .name = name};
    int rc = vv_records_list(found->store, name, look_at_record, &look, found->error);
    return rc < 0 ? rc : look_at_claims(found, name);
}

int vv_store_patch(struct vv_store *store, int is_missing, struct varve_error *error) {
    struct evidence found = {.store = store, .error = error};
    const char *state = is_missing ? "missing" : "damaged";
    vv_error_clear(error);
    int rc = vv_store_names(store, look_at_name, &found, error);
    if (rc < 0)
        return vv_error_default(error, rc, "cannot find out which store this is: %s", varve_error_text(rc));
    if (found.count == 0)
        return vv_error(error, VARVE_CORRUPT,
                        "the object varve is %s, and no record or claim could be read to take its place%s%.200s", state,
                        found.last.text[0] ? "; the last one: " : "", found.last.text);
    memcpy(store->id, found.id, sizeof store->id);
    store->settings = found.settings;
    store->is_patched = 1;
    vv_log(store->log, VV_LOG_WARN, "the object varve is %s; its contents were taken from %s. Run a repair", state,
           found.key);
    return 0;
}
