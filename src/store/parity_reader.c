#include "store/parity_reader.h"

#include <errno.h>

#include "base/alloc.h"
#include "store/pack_reader.h"

static int load_end(const struct vv_parity_source *source, uint64_t *offset_out, uint32_t *length_out,
                    struct vv_hash128 *digest_out, struct varve_error *error) {
    uint8_t head[VV_HEAD_SIZE], end[VV_PARITY_END_SIZE];
    uint64_t length = 0;
    int rc = source->size(source->arg, &length, error);
    if (rc == 0 && length < VV_HEAD_SIZE + VV_PARITY_END_SIZE)
        rc = vv_error(error, VARVE_CORRUPT, "%llu bytes are no parity", (unsigned long long)length);
    if (rc == 0)
        rc = source->get(source->arg, 0, head, sizeof head, error);
    if (rc == 0)
        rc = vv_head_parse(head, sizeof head, &source->key, source->store_id, NULL, error);
    if (rc == 0)
        rc = source->get(source->arg, length - sizeof end, end, sizeof end, error);
    return rc ? rc : vv_parity_end_parse(end, length, offset_out, length_out, digest_out, error);
}

int vv_parity_load(const struct vv_parity_source *source, struct vv_parity *out, struct varve_error *error) {
    struct vv_hash128 digest;
    uint64_t offset = 0;
    uint32_t length = 0;
    char text[VV_KEY_CAPACITY];
    int rc = load_end(source, &offset, &length, &digest, error);
    uint8_t *table = rc == 0 ? vv_malloc(length) : NULL;
    if (rc == 0 && !table)
        rc = vv_error_sys(error, -ENOMEM, "a table of parity");
    if (rc == 0)
        rc = source->get(source->arg, offset, table, length, error);
    if (rc == 0)
        rc = vv_parity_parse(table, length, offset, digest, out, error);
    vv_free(table);
    vv_key_print(&source->key, text);
    return rc < 0 ? vv_pack_error(text, rc, error) : 0;
}

int vv_parity_sums_load(const struct vv_parity_source *source, const struct vv_parity *parity, uint8_t **out,
                        struct varve_error *error) {
    uint64_t offset = vv_parity_offset(parity, parity->parity);
    size_t size = (size_t)vv_parity_sums_at(parity, parity->parity);
    char text[VV_KEY_CAPACITY];
    uint8_t *sums = vv_malloc(size + 1);
    int rc = sums ? 0 : vv_error_sys(error, -ENOMEM, "the sums of parity");
    vv_key_print(&source->key, text);
    if (rc == 0 && size)
        rc = source->get(source->arg, offset, sums, size, error);
    if (rc == 0 && !vv_hash128_equal(vv_digest(sums, size), parity->sums_digest))
        rc = vv_error(error, VARVE_CORRUPT, "%s: the digest of its sums does not match", text);
    if (rc < 0) {
        vv_free(sums);
        sums = NULL;
    }
    *out = sums;
    return rc;
}

/* ---- in this store ---- */

static int size_here(void *arg, uint64_t *out, struct varve_error *error) {
    const struct vv_parity_here *here = arg;
    int rc = vv_backend_stat(here->store->backend, here->text, out);
    return rc < 0 ? vv_error_sys(error, rc, "cannot look at %s", here->text) : 0;
}

static int get_here(void *arg, uint64_t offset, void *data, size_t size, struct varve_error *error) {
    const struct vv_parity_here *here = arg;
    return vv_pack_get(here->store, here->text, offset, data, size, error);
}

struct vv_parity_source vv_parity_here(struct vv_parity_here *here, struct vv_store *store, const struct vv_key *key) {
    here->store = store;
    vv_key_print(key, here->text);
    return (struct vv_parity_source){*key, store->id, size_here, get_here, here};
}
