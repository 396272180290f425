#include "store/parity_writer.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/fault.h"

struct vv_parity_writer {
    struct vv_store *store;
    char key[VV_KEY_CAPACITY];
    struct varve_upload *upload;
    struct vv_buf sums;
    uint64_t length; /* of what was written */
};

static int cannot(const struct vv_parity_writer *writer, int rc, struct varve_error *error) {
    return rc < 0 ? vv_error_shortage(writer->store, vv_error_sys(error, rc, "cannot write %s", writer->key), error)
                  : 0;
}

static int put_bytes(struct vv_parity_writer *writer, const void *data, size_t size) {
    writer->length += size;
    return size ? vv_backend_upload_write(writer->upload, data, size) : 0;
}

int vv_parity_begin(struct vv_store *store, const struct vv_key *key, struct vv_parity_writer **out,
                    struct varve_error *error) {
    struct vv_parity_writer *writer = vv_calloc(1, sizeof *writer);
    struct vv_buf head;
    if (!writer)
        return vv_error(error, -ENOMEM, "no memory to make parity");
    writer->store = store;
    vv_key_print(key, writer->key);
    vv_buf_init(&writer->sums);
    vv_buf_init(&head);
    vv_head_encode(&head, key, store->id, 0);
    int rc = head.failed ? head.failed : VV_FAULT("store.parity.before_create");
    if (rc == 0)
        rc = vv_backend_create(store->backend, writer->key, 0, &writer->upload);
    if (rc == 0)
        rc = put_bytes(writer, head.data, head.size);
    vv_buf_clear(&head);
    rc = cannot(writer, rc, error);
    if (rc < 0) {
        vv_parity_close(writer);
        return rc;
    }
    *out = writer;
    return 0;
}

int vv_parity_add(struct vv_parity_writer *writer, const struct vv_parity *parity, const uint8_t *const *data,
                  const uint8_t *bytes, size_t size, struct varve_error *error) {
    for (size_t at = 0; at < size; at += VV_PARITY_SLICE) {
        size_t slice = size - at < VV_PARITY_SLICE ? size - at : VV_PARITY_SLICE;
        for (uint32_t i = 0; i < parity->data; i++)
            vv_buf_u64(&writer->sums, vv_sum64(data[i] + at, slice));
        vv_buf_u64(&writer->sums, vv_sum64(bytes + at, slice));
    }
    int rc = VV_FAULT("store.parity.before_window");
    return cannot(writer, rc < 0 ? rc : put_bytes(writer, bytes, size), error);
}

int vv_parity_end(struct vv_parity_writer *writer, struct vv_parity *parity, uint64_t *length_out,
                  struct varve_error *error) {
    struct vv_buf *behind = &writer->sums;
    parity->sums_digest = vv_digest(behind->data ? behind->data : (const uint8_t *)"", behind->size);
    vv_parity_encode(behind, writer->length + behind->size, parity);
    int rc = behind->failed ? behind->failed : VV_FAULT("store.parity.before_commit");
    if (rc == 0)
        rc = put_bytes(writer, behind->data, behind->size);
    if (rc == 0) {
        rc = vv_backend_upload_commit(writer->upload);
        writer->upload = NULL;
    }
    if (rc == 0)
        rc = VV_FAULT("store.parity.after_commit");
    *length_out = writer->length;
    return cannot(writer, rc, error);
}

void vv_parity_close(struct vv_parity_writer *writer) {
    if (!writer)
        return;
    vv_backend_upload_abort(writer->upload);
    vv_buf_clear(&writer->sums);
    vv_free(writer);
}
