#include "store/pack_replica.h"
#include "store/pack_reader.h"

#include <errno.h>

int vv_pack_replica_read(struct vv_store *store, const char *name, const struct vv_attempt *attempt, uint32_t writer,
                         struct vv_buf *out, struct varve_error *error) {
    struct vv_pack_id id = {.store = store, .name = name, .attempt = *attempt, .writer = writer};
    struct vv_key key = vv_attempt_key(name, attempt, VV_KIND_COPY, writer, 0);
    struct vv_footer footer;
    uint64_t length = 0;
    char pack[VV_KEY_CAPACITY];
    int rc = vv_pack_footer_load(&id, VV_KIND_PACK, NULL, &footer, &length, error);
    if (rc < 0)
        return rc;
    uint64_t first = footer.sections[0].offset; /* the parser saw to it that there are sections */
    vv_footer_clear(&footer);
    vv_pack_key(&id, VV_KIND_PACK, 0, pack);
    vv_head_encode(out, &key, store->id, 0);
    uint8_t *tables = vv_buf_extend(out, (size_t)(length - first));
    if (!tables)
        return vv_error_sys(error, -ENOMEM, "the copy of %s", pack);
    return vv_pack_get(store, pack, first, tables, (size_t)(length - first), error);
}

static int check_sections(const struct vv_footer *footer, const uint8_t *data, const char *key,
                          struct varve_error *error) {
    for (uint32_t i = 0; i < footer->section_count; i++) {
        struct vv_section section = vv_pack_section(footer, &footer->sections[i], VV_KIND_COPY);
        if (!vv_hash128_equal(vv_digest(data + section.offset, section.length), section.digest)) {
            return vv_error(error, VARVE_CORRUPT, "%s: section of kind %u: its digest does not match", key,
                            section.kind);
        }
    }
    return 0;
}

/* The same bytes as those that are there? Then they only need to be made durable. */
static int accept_existing(struct vv_store *store, const char *key, const void *data, size_t size,
                           struct varve_error *error) {
    struct vv_buf there;
    vv_buf_init(&there);
    int rc = vv_backend_get_all(store->backend, key, size, &there);
    if (rc == -EFBIG || (rc == 0 && (there.size != size || memcmp(there.data, data, size) != 0)))
        rc = vv_error(error, -EEXIST, "%s is there already, and another one", key);
    else if (rc < 0)
        vv_error_sys(error, rc, "%s: read", key);
    vv_buf_clear(&there);
    if (rc < 0)
        return rc;
    rc = vv_backend_sync(store->backend, key);
    return rc < 0 ? vv_error_sys(error, rc, "%s: sync", key) : 0;
}

/* Of unknown size, for the backend: it is data, and must not have what is kept for small objects. */
static int put(struct vv_store *store, const char *key, const void *data, size_t size) {
    struct varve_upload *upload = NULL;
    int rc = vv_backend_create(store->backend, key, 0, &upload);
    if (rc < 0)
        return rc;
    if ((rc = vv_backend_upload_write(upload, data, size)) < 0) {
        vv_backend_upload_abort(upload);
        return rc;
    }
    return vv_backend_upload_commit(upload);
}

int vv_pack_replica_create(struct vv_store *store, const char *name, const struct vv_attempt *attempt, uint32_t writer,
                           const void *data, size_t size, struct varve_error *error) {
    struct vv_pack_id id = {.store = store, .name = name, .attempt = *attempt, .writer = writer};
    struct vv_footer footer;
    char key[VV_KEY_CAPACITY];
    vv_pack_key(&id, VV_KIND_COPY, 0, key);
    int rc = vv_pack_copy_parse(&id, data, size, &footer, error);
    if (rc < 0)
        return rc;
    rc = check_sections(&footer, data, key, error);
    vv_footer_clear(&footer);
    if (rc < 0)
        return rc;
    rc = put(store, key, data, size);
    if (rc == -EEXIST)
        return accept_existing(store, key, data, size, error);
    return rc < 0 ? vv_error_sys(error, rc, "%s: write", key) : 0;
}
