/* sweep(): uploads in parts whose writer died. Their parts are in no listing, and are paid for.
 *
 * An upload of a live writer must stay, and nothing tells whether a writer on another host lives. So only those go that
 * were begun more than seven days ago by the server's clock. Only packs are large enough for parts, and their keys
 * begin with n/: what others upload beside a store without a prefix is left alone. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "s3_private.h"

#define OLD_S (7 * 86400)
#define PAGES_MOST 10000

struct leftover {
    char *key; /* below the prefix of the store */
    char *id;
};

struct sweeping {
    struct vv_s3 *s3;
    int64_t now_s;
    char *key, *id, *begun; /* of the upload that is being read */
    char *next_key, *next_id;
    int is_truncated;
    struct leftover *old;
    size_t count;
};

static void forget_upload(struct sweeping *sweeping) {
    free(sweeping->key);
    free(sweeping->id);
    free(sweeping->begun);
    sweeping->key = sweeping->id = sweeping->begun = NULL;
}

static int keep_text(char **out, const char *value) {
    free(*out);
    *out = strdup(value);
    return *out ? 0 : -ENOMEM;
}

/* "2010-11-10T20:48:33.000Z"; what cannot be read is young. */
static int is_old(const struct sweeping *sweeping) {
    struct tm parts = {0};
    const char *rest = sweeping->begun ? strptime(sweeping->begun, "%Y-%m-%dT%H:%M:%S", &parts) : NULL;
    if (!rest || (*rest != '.' && *rest != 'Z') || rest[strlen(rest) - 1] != 'Z')
        return 0;
    int64_t begun_s = (int64_t)timegm(&parts);
    return begun_s > 0 && sweeping->now_s - begun_s > OLD_S;
}

static int end_upload(struct sweeping *sweeping) {
    const char *prefix = sweeping->s3->place.prefix;
    size_t size = strlen(prefix);
    int rc = 0;
    if (sweeping->key && sweeping->id && *sweeping->id && is_old(sweeping) &&
        strncmp(sweeping->key, prefix, size) == 0 && strncmp(sweeping->key + size, "n/", 2) == 0) {
        struct leftover *old = realloc(sweeping->old, (sweeping->count + 1) * sizeof *old);
        if (!old)
            return -ENOMEM;
        sweeping->old = old;
        struct leftover *one = &old[sweeping->count];
        *one = (struct leftover){strdup(sweeping->key + size), sweeping->id};
        sweeping->id = NULL;
        sweeping->count++;
        rc = one->key ? 0 : -ENOMEM;
    }
    forget_upload(sweeping);
    return rc;
}

static int take_upload(void *arg, const char *path, const char *value) {
    struct sweeping *sweeping = arg;
    static const char root[] = "ListMultipartUploadsResult/";
    if (strncmp(path, root, strlen(root)) != 0)
        return 0;
    path += strlen(root);
    if (!value)
        return strcmp(path, "Upload") == 0 ? end_upload(sweeping) : 0;
    if (strcmp(path, "Upload/Key") == 0)
        return keep_text(&sweeping->key, value);
    if (strcmp(path, "Upload/UploadId") == 0)
        return keep_text(&sweeping->id, value);
    if (strcmp(path, "Upload/Initiated") == 0)
        return keep_text(&sweeping->begun, value);
    if (strcmp(path, "NextKeyMarker") == 0)
        return keep_text(&sweeping->next_key, value);
    if (strcmp(path, "NextUploadIdMarker") == 0)
        return keep_text(&sweeping->next_id, value);
    if (strcmp(path, "IsTruncated") == 0)
        sweeping->is_truncated = strcmp(value, "true") == 0;
    return 0;
}

/* 1 if another page follows. */
static int read_uploads(struct sweeping *sweeping) {
    struct vv_s3_sink sink = {0};
    struct vv_s3_answer answer = {0};
    struct vv_s3_call call = {.method = "GET", .sink = &sink, .expected = 1u << 20, .is_quiet = 1};
    char *key = sweeping->next_key, *id = sweeping->next_id;
    sweeping->next_key = sweeping->next_id = NULL;
    sweeping->is_truncated = 0;
    vv_s3_call_query(&call, "uploads", "");
    vv_s3_call_query(&call, "prefix", sweeping->s3->place.prefix);
    if (key)
        vv_s3_call_query(&call, "key-marker", key);
    if (key && id)
        vv_s3_call_query(&call, "upload-id-marker", id);
    int rc = vv_s3_call(sweeping->s3, &call, &answer);
    if (rc == 0 && answer.status != 200)
        rc = -EIO;
    sweeping->now_s = answer.clock_s; /* 0: nothing is old */
    if (rc == 0)
        rc = vv_s3_xml_walk(sink.text.data ? sink.text.data : "", sink.text.size, take_upload, sweeping);
    vv_s3_text_clear(&sink.text);
    vv_s3_answer_clear(&answer);
    free(key);
    free(id);
    return rc == -EPROTO ? -EIO : rc < 0 ? rc : sweeping->is_truncated && sweeping->next_key;
}

static int abort_upload(struct vv_s3 *s3, const struct leftover *one) {
    struct vv_s3_answer answer = {0};
    struct vv_s3_call call = {.method = "DELETE", .key = one->key};
    vv_s3_call_query(&call, "uploadId", one->id);
    int rc = vv_s3_call(s3, &call, &answer);
    rc = rc < 0 ? rc : answer.status / 100 == 2;
    vv_s3_answer_clear(&answer);
    return rc;
}

int vv_s3_sweep(struct varve_backend *backend) {
    struct sweeping sweeping = {.s3 = (struct vv_s3 *)backend};
    int rc = sweeping.s3->is_reading ? -EROFS : 1, gone = 0;
    for (unsigned pages = 0; rc == 1 && pages < PAGES_MOST; pages++)
        rc = read_uploads(&sweeping);
    for (size_t i = 0; i < sweeping.count; i++) {
        if (rc >= 0 && (rc = abort_upload(sweeping.s3, &sweeping.old[i])) >= 0)
            gone += rc;
        free(sweeping.old[i].key);
        free(sweeping.old[i].id);
    }
    forget_upload(&sweeping);
    free(sweeping.next_key);
    free(sweeping.next_id);
    free(sweeping.old);
    return rc < 0 ? rc : gone;
}
