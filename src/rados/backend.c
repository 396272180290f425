/* The verbs of varve_backend.h on a pool, and opening it. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "rados_private.h"

static const uint8_t magic[8] = {0x89, 'V', 'v', 'R', 'a', 'd', 'o', 's'};

struct vv_rados *vv_rados_of(struct varve_backend *backend) {
    return (struct vv_rados *)backend;
}

void vv_rados_log(const struct vv_rados *rados, const char *format, ...) {
    char line[600];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (rados->log)
        rados->log(rados->log_arg, 1, line);
}

int vv_rados_token(uint8_t out[VV_RADOS_TOKEN]) {
    return getrandom(out, VV_RADOS_TOKEN, 0) == VV_RADOS_TOKEN ? 0 : -EIO;
}

int vv_rados_write_as(struct vv_rados *rados, rados_write_op_t op, const char *name, int is_data) {
    int flags = is_data ? LIBRADOS_OPERATION_FULL_TRY : LIBRADOS_OPERATION_FULL_FORCE;
    int rc = rados_write_op_operate2(op, rados->io, name, NULL, flags);
    rados_release_write_op(op);
    return rc == -EDQUOT ? -ENOSPC : rc;
}

int vv_rados_write(struct vv_rados *rados, rados_write_op_t op, const char *name) {
    return vv_rados_write_as(rados, op, name, 0);
}

int vv_rados_read(struct vv_rados *rados, rados_read_op_t op, const char *name, uint64_t *version_out) {
    rados_completion_t done;
    int rc = rados_aio_create_completion2(NULL, NULL, &done);
    if (rc == 0) {
        rc = rados_aio_read_op_operate(op, rados->io, done, name, 0);
        if (rc == 0) {
            rados_aio_wait_for_complete(done);
            rc = rados_aio_get_return_value(done);
        }
        if (rc >= 0 && version_out)
            *version_out = rados_aio_get_version(done);
        rados_aio_release(done);
    }
    rados_release_read_op(op);
    return rc < 0 ? rc : 0;
}

int vv_rados_absent(struct vv_rados *rados) {
    int64_t pool = rados_pool_lookup(rados->cluster, rados->place.pool);
    if (pool == rados_ioctx_get_id(rados->io))
        return -ENOENT;
    vv_rados_log(rados, "rados: the pool %s is gone", rados->place.pool);
    return -ESTALE;
}

/* ---- heads ---- */

void vv_rados_head_put(const struct vv_rados_head *head, uint8_t out[VV_RADOS_HEAD]) {
    uint64_t size = head->size << 1 | (uint64_t)(head->has_pieces != 0);
    memcpy(out, magic, 8);
    for (int i = 0; i < 8; i++)
        out[8 + i] = (uint8_t)(size >> 8 * i);
    memcpy(out + 16, head->token, VV_RADOS_TOKEN);
}

int vv_rados_head_parse(const uint8_t *data, size_t size, struct vv_rados_head *out) {
    uint64_t length = 0;
    if (size != VV_RADOS_HEAD || memcmp(data, magic, 8) != 0)
        return -EIO;
    for (int i = 0; i < 8; i++)
        length |= (uint64_t)data[8 + i] << 8 * i;
    out->size = length >> 1;
    out->has_pieces = (int)(length & 1);
    memcpy(out->token, data + 16, VV_RADOS_TOKEN);
    return out->size < UINT64_C(1) << 62 ? 0 : -EIO;
}

int vv_rados_head_read(struct vv_rados *rados, const char *key, struct vv_rados_head *out, uint64_t offset, void *data,
                       size_t size, size_t *got_out, uint64_t *version_out) {
    char name[VV_RADOS_NAME];
    uint8_t bytes[VV_RADOS_HEAD];
    size_t head_got = 0, got = 0;
    int head_rc = 0, rc_data = 0;
    int is_inside = size && offset < UINT64_C(1) << 40;
    snprintf(name, sizeof name, "o/%s", key);
    rados_read_op_t op = rados_create_read_op();
    rados_read_op_read(op, 0, sizeof bytes, (char *)bytes, &head_got, &head_rc);
    if (is_inside)
        rados_read_op_read(op, VV_RADOS_HEAD + offset, size, data, &got, &rc_data);
    int rc = vv_rados_read(rados, op, name, version_out);
    if (rc == 0)
        rc = head_rc < 0 ? head_rc : rc_data < 0 ? rc_data : vv_rados_head_parse(bytes, head_got, out);
    if (rc == -EIO)
        vv_rados_log(rados, "rados: %.300s in pool %s has no head of ours", name, rados->place.pool);
    if (rc == 0 && got_out)
        *got_out = got;
    return rc;
}

/* ---- reading ---- */

static int rados_stat_key(struct varve_backend *backend, const char *key, uint64_t *size_out) {
    struct vv_rados *rados = vv_rados_of(backend);
    struct vv_rados_head head;
    int rc = vv_rados_head_read(rados, key, &head, 0, NULL, 0, NULL, NULL);
    if (rc == 0)
        *size_out = head.size;
    return rc == -ENOENT ? vv_rados_absent(rados) : rc;
}

/* A large object: its pieces. One that is missing was removed meanwhile, or is lost. */
static int64_t get_pieces(struct vv_rados *rados, const char *key, const struct vv_rados_head *head, uint64_t offset,
                          void *data, size_t size) {
    struct vv_rados_head now;
    uint64_t left = offset < head->size ? head->size - offset : 0;
    int64_t rc = vv_rados_pieces_read(rados, head, offset, data, size < left ? size : (size_t)left);
    if (rc != -ENOENT)
        return rc;
    int looked = vv_rados_head_read(rados, key, &now, 0, NULL, 0, NULL, NULL);
    if (looked < 0)
        return looked == -ENOENT ? vv_rados_absent(rados) : looked;
    if (memcmp(now.token, head->token, VV_RADOS_TOKEN) != 0)
        return -EAGAIN;
    vv_rados_log(rados, "rados: a piece of %.200s in pool %s is lost", key, rados->place.pool);
    return -EIO;
}

static int64_t rados_get(struct varve_backend *backend, const char *key, uint64_t offset, void *data, size_t size) {
    struct vv_rados *rados = vv_rados_of(backend);
    struct vv_rados_head head;
    size_t got = 0;
    int rc = vv_rados_head_read(rados, key, &head, offset, data,
                                size < VV_RADOS_PIECE * 8u ? size : VV_RADOS_PIECE * 8u, &got, NULL);
    if (rc < 0)
        return rc == -ENOENT ? vv_rados_absent(rados) : rc;
    if (head.has_pieces)
        return get_pieces(rados, key, &head, offset, data, size);
    uint64_t left = offset < head.size ? head.size - offset : 0;
    if (got != (size < left ? size : left)) { /* its head says how long it is */
        vv_rados_log(rados, "rados: %.200s in pool %s is cut short", key, rados->place.pool);
        return -EIO;
    }
    return (int64_t)got;
}

/* ---- opening ---- */

static void rados_close(struct varve_backend *backend) {
    struct vv_rados *rados = vv_rados_of(backend);
    if (!rados)
        return;
    if (rados->has_io)
        rados_ioctx_destroy(rados->io);
    if (rados->cluster)
        rados_shutdown(rados->cluster);
    free(rados);
}

static const struct varve_backend_ops rados_ops = {
    .size = sizeof rados_ops,
    .name = "rados",
    .create = vv_rados_create,
    .upload_write = vv_rados_upload_write,
    .upload_commit = vv_rados_upload_commit,
    .upload_abort = vv_rados_upload_abort,
    .replace = vv_rados_replace,
    .get = rados_get,
    .stat = rados_stat_key,
    .list = vv_rados_list,
    .remove = vv_rados_remove,
    .sweep = vv_rados_sweep,
    .close = rados_close,
};

/* Without the first three a server that is away lets every call wait for ever. The client asks for a new map of the
 * servers only when a call is late, which must be before the call ends: otherwise it never learns that an OSD has come
 * back under another address. */
static int set_timeouts(struct vv_rados *rados) {
    static const char *const names[] = {"rados_osd_op_timeout", "rados_mon_op_timeout", "client_mount_timeout",
                                        "objecter_timeout", "objecter_tick_interval"};
    unsigned timeout = rados->place.timeout_s, late = timeout / 3 < 5 ? timeout / 3 : 5;
    char seconds[16];
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof names / sizeof *names; i++) {
        snprintf(seconds, sizeof seconds, "%u", i < 3 ? timeout : late > 0 ? late : 1);
        rc = rados_conf_set(rados->cluster, names[i], seconds);
    }
    return rc;
}

static int connect_to(struct vv_rados *rados, struct varve_error *error) {
    const struct vv_rados_place *place = &rados->place;
    int rc = rados_create(&rados->cluster, *place->user ? place->user : NULL);
    if (rc == 0)
        rc = rados_conf_read_file(rados->cluster, *place->conf ? place->conf : NULL);
    if (rc < 0)
        return vv_rados_refuse(error, rc, "cannot read the configuration of Ceph%s%.300s: %s",
                               *place->conf ? " in " : "", place->conf, strerror(-rc));
    rc = rados_conf_parse_env(rados->cluster, NULL);
    if (rc == 0)
        rc = set_timeouts(rados);
    if (rc == 0)
        rc = rados_connect(rados->cluster);
    if (rc < 0)
        return vv_rados_refuse(error, rc, "cannot reach the Ceph of rados://%s: %s", place->pool, strerror(-rc));
    rc = rados_ioctx_create(rados->cluster, place->pool, &rados->io);
    if (rc < 0)
        return vv_rados_refuse(error, rc == -ENOENT ? VARVE_NO_STORE : rc, "there is no pool %s in this Ceph: %s",
                               place->pool, rc == -ENOENT ? "make it first" : strerror(-rc));
    rados->has_io = 1;
    rados_ioctx_set_namespace(rados->io, place->namespace_);
    return 0;
}

VARVE_API int varve_backend_open2_rados(const struct varve_backend_request *request, struct varve_backend **out,
                                        struct varve_error *error);

int varve_backend_open2_rados(const struct varve_backend_request *request, struct varve_backend **out,
                              struct varve_error *error) {
    struct vv_rados *rados = calloc(1, sizeof *rados);
    if (!rados)
        return vv_rados_refuse(error, -ENOMEM, "cannot open rados://%.200s: %s", request->place, strerror(ENOMEM));
    rados->base.ops = &rados_ops;
    rados->is_reading = request->is_reading;
    rados->log = request->log;
    rados->log_arg = request->log_arg;
    int rc = vv_rados_place_read(request->place, request->options, &rados->place, error);
    if (rc == 0)
        rc = connect_to(rados, error);
    if (rc < 0) {
        rados_close(&rados->base);
        return rc;
    }
    *out = &rados->base;
    return 0;
}
