/* Objects that must be new: If-None-Match: *, and who wrote what is there.
 *
 * Nothing is created before the server was seen to keep the condition (vv_s3_probe).
 *
 * Every object carries in its metadata a number that only its writer knew. A put whose answer was lost may have
 * happened; when it is repeated, the server answers 412, as it would if somebody else had been faster. The number tells
 * the two apart. It is looked at after every 412, since libcurl and proxies may repeat a request on their own.
 *
 * Up to a part, an object is one PUT. More of it are parts of a multipart upload, which appear together or not at all.
 * Some servers ignore the condition there, so the key is looked up before the parts are joined, too. Two parts are on
 * their way while the next one is filled. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "s3_private.h"

#define PART_LEAST (16u << 20)
#define PART_MOST (1u << 30)
#define PARTS_MOST 10000
#define SENDING_MOST 2
#define WRITER_TEXT 33
#define COMPLETE_TRIES 3

/* A part on its way, in a thread of its own. */
struct s3_part {
    struct s3_upload *upload;
    pthread_t thread;
    int has_thread;
    char *data; /* stays, for a later part */
    size_t size, capacity;
    size_t number; /* from 1 */
    int rc;
};

struct s3_upload {
    struct varve_upload base;
    char *key;
    char *buffer;
    size_t used;
    size_t capacity;
    size_t part_size;
    char writer[WRITER_TEXT];
    char *id; /* of the multipart upload, or NULL: all is in buffer */
    char (*etags)[128];
    size_t parts;
    struct s3_part sending[SENDING_MOST];
};

static struct vv_s3 *s3_of(const struct s3_upload *upload) {
    return (struct vv_s3 *)upload->base.backend;
}

int vv_s3_create(struct varve_backend *backend, const char *key, uint64_t size_hint, struct varve_upload **out) {
    struct vv_s3 *s3 = (struct vv_s3 *)backend;
    char why[384] = "";
    if (s3->is_reading)
        return -EROFS;
    int rc = vv_s3_probe(backend, why, sizeof why); /* not every caller has asked */
    if (rc < 0) {
        vv_s3_log(s3, "s3: s3://%s/%s%.200s was not written: %s", s3->place.bucket, s3->place.prefix, key, why);
        return rc;
    }
    struct s3_upload *upload = calloc(1, sizeof *upload);
    if (!upload)
        return -ENOMEM;
    upload->base.backend = backend;
    upload->key = strdup(key);
    upload->part_size = PART_LEAST;
    while (size_hint / upload->part_size >= PARTS_MOST / 2 && upload->part_size < PART_MOST)
        upload->part_size *= 2;
    rc = upload->key ? vv_s3_random_text(upload->writer, sizeof upload->writer) : -ENOMEM;
    if (rc < 0) {
        free(upload->key);
        free(upload);
        return rc;
    }
    *out = &upload->base;
    return 0;
}

static void upload_free(struct s3_upload *upload) {
    for (size_t i = 0; i < SENDING_MOST; i++)
        free(upload->sending[i].data);
    free(upload->key);
    free(upload->buffer);
    free(upload->id);
    free(upload->etags);
    free(upload);
}

/* ---- one put ---- */

int vv_s3_is_mine(struct vv_s3 *s3, const char *key, const char *writer) {
    struct vv_s3_answer answer = {0};
    struct vv_s3_call call = {.method = "HEAD", .key = key};
    int rc = vv_s3_call(s3, &call, &answer);
    if (rc == 0 && answer.status == 404)
        rc = -EBUSY; /* there a moment ago, and gone: whose it was cannot be told */
    else if (rc == 0)
        rc = answer.status / 100 != 2 ? -EIO : strcmp(answer.writer, writer) == 0 ? 0 : -EEXIST;
    vv_s3_answer_clear(&answer);
    return rc;
}

/* writers=one: there is no condition, so only a look before. */
static int must_be_absent(struct vv_s3 *s3, const char *key) {
    uint64_t size;
    int rc = vv_s3_stat(&s3->base, key, &size);
    return rc == 0 ? -EEXIST : rc == -ENOENT ? 0 : rc;
}

static int put_new(struct vv_s3 *s3, const char *key, const void *data, size_t size, const char *writer) {
    struct vv_s3_answer answer = {0};
    struct vv_s3_call call = {.method = "PUT", .key = key, .body = data, .body_size = size};
    int rc = s3->place.is_alone ? must_be_absent(s3, key) : 0;
    if (rc < 0)
        return rc;
    if (!s3->place.is_alone)
        vv_s3_call_header(&call, "if-none-match", "*");
    vv_s3_call_header(&call, "x-amz-meta-varve-writer", writer);
    rc = vv_s3_call(s3, &call, &answer);
    if (rc == 0 && (answer.status == 412 || answer.status == 304))
        rc = vv_s3_is_mine(s3, key, writer);
    else if (rc == 0)
        rc = vv_s3_stored(s3, key, &answer);
    vv_s3_answer_clear(&answer);
    return rc;
}

/* ---- parts ---- */

struct wanted {
    const char *path;
    char *value;
    int is_error;
    char code[64];
};

static int take_wanted(void *arg, const char *path, const char *value) {
    struct wanted *wanted = arg;
    if (strncmp(path, "Error/", 6) == 0)
        wanted->is_error = 1;
    if (!value)
        return 0;
    if (strcmp(path, "Error/Code") == 0)
        snprintf(wanted->code, sizeof wanted->code, "%s", value);
    if (strcmp(path, wanted->path) != 0 || wanted->value)
        return 0;
    wanted->value = strdup(value);
    return wanted->value ? 0 : -ENOMEM;
}

/* A POST whose answer is a document with one leaf that matters. -EAGAIN: the status was good, the document an error. */
static int post(struct s3_upload *upload, struct vv_s3_call *call, struct wanted *wanted, struct vv_s3_answer *answer) {
    struct vv_s3_sink sink = {0};
    call->method = "POST";
    call->key = upload->key;
    call->sink = &sink;
    int rc = vv_s3_call(s3_of(upload), call, answer);
    if (rc == 0 && answer->status / 100 == 2)
        rc = vv_s3_xml_walk(sink.text.data ? sink.text.data : "", sink.text.size, take_wanted, wanted);
    if (rc == 0 && answer->status / 100 == 2 && (!wanted->value || wanted->is_error))
        rc = -EAGAIN;
    vv_s3_text_clear(&sink.text);
    return rc == -EPROTO ? -EAGAIN : rc;
}

static int begin_parts(struct s3_upload *upload) {
    struct vv_s3_answer answer = {0};
    struct wanted wanted = {.path = "InitiateMultipartUploadResult/UploadId"};
    struct vv_s3_call call = {0};
    vv_s3_call_query(&call, "uploads", "");
    vv_s3_call_header(&call, "x-amz-meta-varve-writer", upload->writer);
    int rc = post(upload, &call, &wanted, &answer);
    if (rc == 0 && answer.status / 100 != 2)
        rc = answer.status == 404 && vv_s3_absence(s3_of(upload), upload->key, &answer) == -ESTALE ? -ESTALE : -EIO;
    if (rc == -EAGAIN || (rc == 0 && !*wanted.value))
        rc = -EIO;
    vv_s3_answer_clear(&answer);
    if (rc < 0) { /* an empty id in a DELETE would name the object itself */
        free(wanted.value);
        return rc;
    }
    upload->id = wanted.value;
    upload->etags = calloc(PARTS_MOST, sizeof *upload->etags);
    return upload->etags ? 0 : -ENOMEM;
}

static int put_part(const struct s3_part *part) {
    const struct s3_upload *upload = part->upload;
    struct vv_s3_answer answer = {0};
    struct vv_s3_call call = {.method = "PUT",
                              .key = upload->key,
                              .body = part->data,
                              .body_size = part->size,
                              .expected = (SENDING_MOST - 1) * part->size};
    char number[24];
    snprintf(number, sizeof number, "%zu", part->number);
    vv_s3_call_query(&call, "partNumber", number);
    vv_s3_call_query(&call, "uploadId", upload->id);
    int rc = vv_s3_call(s3_of(upload), &call, &answer);
    if (rc == 0 && (answer.status / 100 != 2 || !*answer.etag || strpbrk(answer.etag, "<>&")))
        rc = -EIO;
    if (rc == 0)
        memcpy(upload->etags[part->number - 1], answer.etag, sizeof answer.etag);
    vv_s3_answer_clear(&answer);
    return rc;
}

static void *run_part(void *arg) {
    struct s3_part *part = arg;
    part->rc = put_part(part);
    return NULL;
}

/* Signals are for the threads of the program. Without a thread it is sent here. */
static int start_part(struct s3_part *part) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    part->has_thread = pthread_create(&part->thread, NULL, run_part, part) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return part->has_thread ? 0 : put_part(part);
}

static int finish_part(struct s3_part *part) {
    if (!part->has_thread)
        return 0;
    pthread_join(part->thread, NULL);
    part->has_thread = 0;
    return part->rc;
}

static int finish_parts(struct s3_upload *upload) {
    int rc = 0;
    for (size_t i = 0; i < SENDING_MOST; i++) {
        int ended = finish_part(&upload->sending[i]);
        rc = rc ? rc : ended;
    }
    return rc;
}

/* What is in buffer, which becomes that of the part before the last. Fails if that one has failed. */
static int send_part(struct s3_upload *upload) {
    if (upload->parts == PARTS_MOST)
        return -EFBIG;
    struct s3_part *part = &upload->sending[upload->parts % SENDING_MOST];
    int rc = finish_part(part);
    if (rc < 0)
        return rc;
    char *free_buffer = part->data;
    size_t free_capacity = part->capacity;
    *part = (struct s3_part){.upload = upload,
                             .data = upload->buffer,
                             .size = upload->used,
                             .capacity = upload->capacity,
                             .number = ++upload->parts};
    upload->buffer = free_buffer;
    upload->capacity = free_capacity;
    upload->used = 0;
    return start_part(part);
}

/* Room for more bytes in buffer, without going beyond a part. */
static int make_room(struct s3_upload *upload, size_t more) {
    size_t wanted = upload->used + more > upload->part_size ? upload->part_size : upload->used + more;
    if (wanted <= upload->capacity)
        return 0;
    size_t capacity = 2 * upload->capacity > wanted ? 2 * upload->capacity : wanted;
    capacity = capacity > upload->part_size ? upload->part_size : capacity;
    char *buffer = realloc(upload->buffer, capacity);
    if (!buffer)
        return -ENOMEM;
    upload->buffer = buffer;
    upload->capacity = capacity;
    return 0;
}

int vv_s3_upload_write(struct varve_upload *base, const void *data, size_t size) {
    struct s3_upload *upload = (struct s3_upload *)base;
    const char *from = data;
    while (size > 0) {
        int rc = 0;
        if (upload->used == upload->part_size) {
            if (!upload->id)
                rc = begin_parts(upload);
            if (rc == 0)
                rc = send_part(upload);
        }
        if (rc == 0)
            rc = make_room(upload, size);
        if (rc < 0)
            return rc;
        size_t now = upload->part_size - upload->used < size ? upload->part_size - upload->used : size;
        memcpy(upload->buffer + upload->used, from, now);
        upload->used += now;
        from += now;
        size -= now;
    }
    return 0;
}

/* What the answer to a try to join the parts means. -EAGAIN: not known yet. */
static int joined(struct s3_upload *upload, int rc, const struct vv_s3_answer *answer) {
    if (rc < 0 || answer->status / 100 == 2)
        return rc;
    if (answer->status == 412 || answer->status == 304)
        return vv_s3_is_mine(s3_of(upload), upload->key, upload->writer);
    if (answer->status == 404) /* no such upload: joined by a try whose answer was lost, or taken away */
        rc = vv_s3_is_mine(s3_of(upload), upload->key, upload->writer);
    return rc ? rc : answer->status == 404 ? 0 : -EIO;
}

static int try_to_join(struct s3_upload *upload, const struct vv_s3_text *list) {
    struct vv_s3_answer answer = {0};
    struct wanted wanted = {.path = "CompleteMultipartUploadResult/ETag"};
    struct vv_s3_call call = {.body = list->data, .body_size = list->size};
    vv_s3_call_query(&call, "uploadId", upload->id);
    vv_s3_call_header(&call, "content-type", "application/xml");
    if (!s3_of(upload)->place.is_alone)
        vv_s3_call_header(&call, "if-none-match", "*");
    int rc = joined(upload, post(upload, &call, &wanted, &answer), &answer);
    if (rc == -EAGAIN && strcmp(wanted.code, "PreconditionFailed") == 0)
        rc = vv_s3_is_mine(s3_of(upload), upload->key, upload->writer);
    free(wanted.value);
    vv_s3_answer_clear(&answer);
    return rc;
}

static int join_parts(struct s3_upload *upload) {
    struct vv_s3_text list = {0};
    int rc = must_be_absent(s3_of(upload), upload->key);
    vv_s3_text_print(&list, "<CompleteMultipartUpload>");
    for (size_t i = 0; i < upload->parts; i++)
        vv_s3_text_print(&list, "<Part><PartNumber>%zu</PartNumber><ETag>%s</ETag></Part>", i + 1, upload->etags[i]);
    vv_s3_text_print(&list, "</CompleteMultipartUpload>");
    if (rc == 0)
        rc = list.failed;
    if (rc == 0)
        rc = -EAGAIN;
    for (int tries = 0; rc == -EAGAIN && tries < COMPLETE_TRIES; tries++)
        rc = try_to_join(upload, &list);
    vv_s3_text_clear(&list);
    return rc == -EAGAIN ? -EIO : rc;
}

/* Unfinished parts are paid for, so they go at once. What an abort leaves behind when it fails, sweep() finds. */
static void drop_parts(struct s3_upload *upload) {
    struct vv_s3_answer answer = {0};
    struct vv_s3_call call = {.method = "DELETE", .key = upload->key};
    if (!upload->id)
        return;
    vv_s3_call_query(&call, "uploadId", upload->id);
    (void)vv_s3_call(s3_of(upload), &call, &answer);
    vv_s3_answer_clear(&answer);
}

int vv_s3_upload_commit(struct varve_upload *base) {
    struct s3_upload *upload = (struct s3_upload *)base;
    int rc = 0;
    if (!upload->id) {
        rc = put_new(s3_of(upload), upload->key, upload->buffer, upload->used, upload->writer);
    } else {
        if (upload->used)
            rc = send_part(upload);
        int ended = finish_parts(upload);
        rc = rc ? rc : ended;
        if (rc == 0)
            rc = join_parts(upload);
        if (rc < 0) /* not by halves: a join that was not answered either happened, or has nothing to join any more */
            drop_parts(upload);
    }
    upload_free(upload);
    return rc;
}

void vv_s3_upload_abort(struct varve_upload *base) {
    struct s3_upload *upload = (struct s3_upload *)base;
    (void)finish_parts(upload);
    drop_parts(upload);
    upload_free(upload);
}
