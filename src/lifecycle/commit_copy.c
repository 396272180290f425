/* Taking a commit over from another node's store: its writers list and its record, byte for byte. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/fault.h"
#include "lifecycle/lifecycle.h"

/* The list that this record names? */
static int check_list(struct vv_store *store, const struct vv_key *key, const struct vv_buf *bytes,
                      const struct vv_record *record, struct varve_error *error) {
    struct vv_writers writers;
    int rc = vv_writers_parse(bytes->data, bytes->size, key, store->id, &writers, error);
    if (rc)
        return rc;
    if (!vv_hash128_equal(writers.digest, record->writers_digest))
        rc = vv_error(error, VARVE_CORRUPT, "writers list and record of version %" PRIu64 " do not belong together",
                      key->version);
    vv_writers_clear(&writers);
    return rc;
}

int vv_commit_read(struct vv_store *store, const char *name, uint32_t generation, uint64_t version,
                   struct vv_buf *writers_out, struct vv_buf *record_out, struct vv_dependency *what_out,
                   struct varve_error *error) {
    struct vv_attempt attempt = {generation, 0, version};
    struct vv_key key = vv_attempt_key(name, &attempt, VV_KIND_RECORD, 0, 0);
    struct vv_record record;
    int rc = vv_object_read(store, &key, record_out, error);
    if (rc == 0)
        rc = vv_record_parse(record_out->data, record_out->size, &key, store->id, &record, error);
    if (rc)
        return rc;
    attempt.attempt = record.attempt;
    *what_out = (struct vv_dependency){attempt, record.writers_digest};
    struct vv_key list = vv_attempt_key(name, &attempt, VV_KIND_WRITERS, 0, 0);
    rc = vv_object_read(store, &list, writers_out, error);
    if (rc == 0)
        rc = check_list(store, &list, writers_out, &record, error);
    vv_record_clear(&record);
    return rc;
}

/* What is there already: 1 a good object of this kind, 0 nothing, -EBADMSG damage, -EEXIST another list, or why it
 * must stay (a tombstone, the storage). Another writers list of the same attempt is that of another job: it must stay.
 */
static int look_at_object(struct vv_store *store, const struct vv_key *key, const struct vv_buf *bytes,
                          struct varve_error *error) {
    struct vv_tombstone tombstone;
    struct vv_writers writers;
    struct vv_record record;
    struct vv_buf buf;
    vv_buf_init(&buf);
    int rc = vv_object_read(store, key, &buf, error);
    if (rc == 0 && vv_tombstone_parse(buf.data, buf.size, key, store->id, &tombstone, NULL) == 0)
        rc = vv_error(error, VARVE_FORGOTTEN, "it was forgotten or given up here");
    else if (rc == 0 && key->kind == VV_KIND_RECORD) {
        rc = vv_record_parse(buf.data, buf.size, key, store->id, &record, error);
        if (rc == 0)
            vv_record_clear(&record);
    } else if (rc == 0) {
        rc = vv_writers_parse(buf.data, buf.size, key, store->id, &writers, error);
        if (rc == 0)
            vv_writers_clear(&writers);
        if (rc == 0 && (buf.size != bytes->size || memcmp(buf.data, bytes->data, buf.size) != 0))
            rc = -EEXIST;
    }
    vv_buf_clear(&buf);
    return rc == 0 ? 1 : rc == -ENOENT ? 0 : rc == VARVE_CORRUPT ? -EBADMSG : rc;
}

/* Damage is replaced in one step: it vouched for nothing. */
static int place(struct vv_store *store, const struct vv_key *key, const struct vv_buf *bytes,
                 struct varve_error *error) {
    char text[VV_KEY_CAPACITY];
    vv_key_print(key, text);
    int rc = look_at_object(store, key, bytes, error);
    if (rc == 1) /* perhaps it was never made durable */
        rc = vv_backend_sync(store->backend, text);
    else if (rc == -EEXIST)
        return vv_error(error, VARVE_CORRUPT,
                        "%s is that of another job, which has written the same version on this node", text);
    else if (rc == -EBADMSG)
        rc = vv_backend_replace(store->backend, text, bytes->data, bytes->size);
    else if (rc == 0)
        rc = vv_object_create(store, key, bytes, error);
    else
        return rc;
    return rc < 0 ? vv_error_default(error, rc, "cannot copy %s from another node: %s", text, varve_error_text(rc)) : 0;
}

int vv_commit_copy(struct vv_store *store, const char *name, uint32_t generation, uint64_t version,
                   const struct vv_buf *writers_bytes, const struct vv_buf *record_bytes, struct varve_error *error) {
    struct vv_attempt attempt = {generation, 0, version};
    struct vv_key key = vv_attempt_key(name, &attempt, VV_KIND_RECORD, 0, 0);
    struct vv_record record = {0};
    int rc = vv_record_parse(record_bytes->data, record_bytes->size, &key, store->id, &record, error);
    if (rc)
        return rc;
    attempt.attempt = record.attempt;
    struct vv_key list = vv_attempt_key(name, &attempt, VV_KIND_WRITERS, 0, 0);
    rc = check_list(store, &list, writers_bytes, &record, error);
    if (rc == 0)
        rc = place(store, &list, writers_bytes, error);
    if (rc == 0 && (rc = VV_FAULT("store.copy.before_record")) == 0)
        rc = place(store, &key, record_bytes, error);
    vv_record_clear(&record);
    return rc;
}
