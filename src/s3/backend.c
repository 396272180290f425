/* The verbs of varve_backend.h on a bucket, and opening it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "s3_private.h"

#define LOOK_MS 10000 /* a wrong address should not take a minute */

static struct vv_s3 *s3_of(struct varve_backend *backend) {
    return (struct vv_s3 *)backend;
}

static int s3_replace(struct varve_backend *backend, const char *key, const void *data, size_t size) {
    struct vv_s3 *s3 = s3_of(backend);
    struct vv_s3_answer answer = {0};
    struct vv_s3_call call = {.method = "PUT", .key = key, .body = data, .body_size = size};
    char writer[33];
    if (s3->is_reading)
        return -EROFS;
    int rc = vv_s3_random_text(writer, sizeof writer);
    if (rc < 0)
        return rc;
    vv_s3_call_header(&call, "x-amz-meta-varve-writer", writer);
    rc = vv_s3_call(s3, &call, &answer);
    if (rc == 0)
        rc = vv_s3_stored(s3, key, &answer);
    vv_s3_answer_clear(&answer);
    return rc;
}

/* An answer to HEAD has no body, and so cannot say whether the object or the bucket is missing. */
static int confirm_absence(struct vv_s3 *s3, const char *key) {
    struct vv_s3_answer answer = {0};
    struct vv_s3_sink sink = {0};
    struct vv_s3_call call = {.method = "GET", .key = key, .sink = &sink};
    vv_s3_call_header(&call, "range", "bytes=0-0");
    int rc = vv_s3_call(s3, &call, &answer);
    if (rc == 0)
        rc = answer.status == 404 ? vv_s3_absence(s3, key, &answer) : -EBUSY; /* it has just appeared */
    vv_s3_text_clear(&sink.text);
    vv_s3_answer_clear(&answer);
    return rc;
}

int vv_s3_stat(struct varve_backend *backend, const char *key, uint64_t *size_out) {
    struct vv_s3 *s3 = s3_of(backend);
    for (int tries = 0; tries < 3; tries++) {
        struct vv_s3_answer answer = {0};
        struct vv_s3_call call = {.method = "HEAD", .key = key};
        int rc = vv_s3_call(s3, &call, &answer);
        int is_absent = rc == 0 && answer.status == 404;
        if (rc == 0 && !is_absent && (answer.status != 200 || answer.length < 0))
            rc = -EIO;
        if (rc == 0 && !is_absent)
            *size_out = (uint64_t)answer.length;
        vv_s3_answer_clear(&answer);
        if (is_absent)
            rc = confirm_absence(s3, key);
        if (rc != -EBUSY)
            return rc;
    }
    return -EBUSY;
}

/* Is the answer the range that was asked for, all of it? How many bytes, or -EPROTO. */
static int64_t check_range(const struct vv_s3_answer *answer, uint64_t offset, size_t size) {
    if (answer->status == 206) {
        int is_right = answer->has_range == 1 && answer->first == offset && answer->last - offset + 1 == answer->got &&
                       (answer->got == size || answer->last + 1 == answer->total);
        return is_right ? (int64_t)answer->got : -EPROTO;
    }
    /* All of it, from a server without ranges. */
    int is_whole = answer->status == 200 && offset == 0 && answer->length == (int64_t)answer->got;
    return is_whole ? (int64_t)answer->got : -EPROTO;
}

/* 416: nothing lies at offset. A 416 that does not tell the size is not believed by itself. */
static int64_t check_end(struct vv_s3 *s3, const char *key, const struct vv_s3_answer *answer, uint64_t offset) {
    uint64_t size = answer->total;
    int rc = answer->has_range == 2 ? 0 : vv_s3_stat(&s3->base, key, &size);
    return rc < 0 ? rc : size <= offset ? 0 : -EPROTO;
}

static int64_t s3_get(struct varve_backend *backend, const char *key, uint64_t offset, void *data, size_t size) {
    struct vv_s3 *s3 = s3_of(backend);
    struct vv_s3_answer answer = {0};
    struct vv_s3_sink sink = {.into = data, .room = size};
    struct vv_s3_call call = {.method = "GET", .key = key, .sink = &sink, .expected = size};
    char range[64];
    uint64_t whole;
    if (size == 0)
        return vv_s3_stat(backend, key, &whole);
    snprintf(range, sizeof range, "bytes=%llu-%llu", (unsigned long long)offset,
             (unsigned long long)(offset + size - 1));
    vv_s3_call_header(&call, "range", range);
    int64_t result = vv_s3_call(s3, &call, &answer);
    if (result == 0 && answer.status == 404)
        result = vv_s3_absence(s3, key, &answer);
    else if (result == 0 && answer.status == 416)
        result = check_end(s3, key, &answer, offset);
    else if (result == 0)
        result = check_range(&answer, offset, size);
    vv_s3_answer_clear(&answer);
    if (result != -EPROTO)
        return result;
    vv_s3_log(s3, "s3: s3://%s/%s%.200s: the answer is not the range %s that was asked for", s3->place.bucket,
              s3->place.prefix, key, range);
    return -EIO;
}

/* S3 answers a removal the same whether there was an object or not. */
static int s3_remove(struct varve_backend *backend, const char *key) {
    struct vv_s3 *s3 = s3_of(backend);
    struct vv_s3_answer answer = {0};
    struct vv_s3_call call = {.method = "DELETE", .key = key};
    uint64_t size;
    if (s3->is_reading)
        return -EROFS;
    int rc = vv_s3_stat(backend, key, &size);
    if (rc < 0)
        return rc;
    rc = vv_s3_call(s3, &call, &answer);
    if (rc == 0 && answer.status == 404)
        rc = vv_s3_absence(s3, key, &answer);
    else if (rc == 0 && answer.status / 100 != 2)
        rc = -EIO;
    if (rc == -ENOENT) /* it was there before */
        rc = 0;
    vv_s3_answer_clear(&answer);
    return rc;
}

/* ---- does the server keep its word? ---- */

/* 1: the object is there already, and was left alone; 0: it was put. */
static int put_probe(struct vv_s3 *s3) {
    struct vv_s3_answer answer = {0};
    struct vv_s3_call call = {.method = "PUT", .key = VV_S3_PROBE_NAME};
    vv_s3_call_header(&call, "if-none-match", "*");
    vv_s3_call_header(&call, "x-amz-meta-varve-writer", "probe");
    int rc = vv_s3_call(s3, &call, &answer);
    if (rc == 0)
        rc = answer.status == 412 || answer.status == 304 ? 1 : vv_s3_stored(s3, VV_S3_PROBE_NAME, &answer);
    vv_s3_answer_clear(&answer);
    return rc;
}

/* 1 if the object of the probe still says who put it. */
static int has_writer(struct vv_s3 *s3) {
    struct vv_s3_answer answer = {0};
    struct vv_s3_call call = {.method = "HEAD", .key = VV_S3_PROBE_NAME};
    int rc = vv_s3_call(s3, &call, &answer);
    if (rc == 0)
        rc = answer.status == 200 ? *answer.writer != 0 : -EIO;
    vv_s3_answer_clear(&answer);
    return rc;
}

/* The object of the probe stays: the next session then sees at once whether the condition still holds. */
static int probe_condition(struct vv_s3 *s3, char *why, size_t room) {
    int rc = put_probe(s3);
    if (rc == 0)
        rc = put_probe(s3);
    if (rc == 0) {
        snprintf(why, room,
                 "%s ignores If-None-Match: * and overwrites objects, so two writers could destroy each other's "
                 "checkpoints; if only one process ever writes, add writers=one to the address",
                 s3->place.host);
        return VARVE_UNSUPPORTED;
    }
    if (rc == 1)
        rc = has_writer(s3);
    if (rc == 0) {
        snprintf(why, room,
                 "%s does not keep the metadata of objects, so a put whose answer was lost cannot be told from that of "
                 "another writer",
                 s3->place.host);
        return VARVE_UNSUPPORTED;
    }
    if (rc < 0)
        snprintf(why, room, "cannot try whether %s refuses to overwrite objects", s3->place.host);
    return rc < 0 ? rc : 0;
}

/* Once per opened backend. Threads that come meanwhile wait for the answer; an error is not kept. */
int vv_s3_probe(struct varve_backend *backend, char *why, size_t room) {
    struct vv_s3 *s3 = s3_of(backend);
    if (s3->is_reading || s3->place.is_alone)
        return 0;
    pthread_mutex_lock(&s3->probe_lock);
    int rc = s3->is_probed ? 0 : probe_condition(s3, why, room);
    s3->is_probed = rc == 0;
    pthread_mutex_unlock(&s3->probe_lock);
    return rc;
}

/* ---- opening ---- */

static void s3_close(struct varve_backend *backend) {
    struct vv_s3 *s3 = s3_of(backend);
    if (!s3)
        return;
    vv_s3_line_close(s3->line);
    vv_s3_keys_clear(&s3->keys);
    pthread_mutex_destroy(&s3->lock);
    pthread_mutex_destroy(&s3->probe_lock);
    free(s3);
}

static const struct varve_backend_ops s3_ops = {
    .size = sizeof s3_ops,
    .name = "s3",
    .create = vv_s3_create,
    .upload_write = vv_s3_upload_write,
    .upload_commit = vv_s3_upload_commit,
    .upload_abort = vv_s3_upload_abort,
    .replace = s3_replace,
    .get = s3_get,
    .stat = vv_s3_stat,
    .list = vv_s3_list,
    .remove = s3_remove,
    .sweep = vv_s3_sweep,
    .close = s3_close,
    .probe = vv_s3_probe,
};

/* A first request, so that a wrong bucket, key or clock is told when a store is opened. */
static int look(struct vv_s3 *s3, struct varve_error *error) {
    struct vv_s3_answer answer = {0};
    struct vv_s3_sink sink = {0};
    struct vv_s3_call call = {.method = "GET", .sink = &sink, .is_quiet = 1};
    call.patience_ms = s3->place.patience_ms < LOOK_MS ? s3->place.patience_ms : LOOK_MS;
    vv_s3_call_query(&call, "list-type", "2");
    vv_s3_call_query(&call, "max-keys", "1");
    vv_s3_call_query(&call, "prefix", s3->place.prefix);
    int rc = vv_s3_call(s3, &call, &answer);
    if (rc == 0 && answer.status == 404 && strcmp(answer.code, "NoSuchBucket") == 0)
        rc = vv_s3_refuse(error, VARVE_NO_STORE, "there is no bucket %s at %s: make it first", s3->place.bucket,
                          s3->place.host);
    else if (rc == 0 && answer.status != 200)
        rc = -EIO;
    if (rc < 0 && rc != VARVE_NO_STORE) {
        char about[VV_S3_ABOUT];
        vv_s3_tell(&answer, about);
        vv_s3_refuse(error, rc, "cannot open s3://%s/%s at %s: %s%s%s", s3->place.bucket, s3->place.prefix,
                     s3->place.host, about, *answer.region ? "; give the region of the bucket: region=" : "",
                     answer.region);
    }
    vv_s3_text_clear(&sink.text);
    vv_s3_answer_clear(&answer);
    return rc;
}

VARVE_API int varve_backend_open2_s3(const struct varve_backend_request *request, struct varve_backend **out,
                                     struct varve_error *error);

int varve_backend_open2_s3(const struct varve_backend_request *request, struct varve_backend **out,
                           struct varve_error *error) {
    struct vv_s3 *s3 = calloc(1, sizeof *s3);
    if (!s3)
        return vv_s3_refuse(error, -ENOMEM, "cannot open s3://%.200s: %s", request->place, strerror(ENOMEM));
    s3->base.ops = &s3_ops;
    s3->is_reading = request->is_reading;
    s3->log = request->log;
    s3->log_arg = request->log_arg;
    pthread_mutex_init(&s3->lock, NULL);
    pthread_mutex_init(&s3->probe_lock, NULL);
    int rc = vv_s3_place_read(request->place, request->options, &s3->place, error);
    if (rc == 0)
        rc = vv_s3_keys_load(&s3->keys, error);
    if (rc == 0)
        rc = vv_s3_line_open(&s3->line, error);
    if (rc == 0)
        rc = look(s3, error);
    if (rc < 0) {
        s3_close(&s3->base);
        return rc;
    }
    *out = &s3->base;
    return 0;
}
