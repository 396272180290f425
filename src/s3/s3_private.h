/* Objects in a bucket that speaks S3: a library of its own, loaded when an s3:// address is opened.
 *
 * sign.c makes signatures, transport.c sends one request, call.c repeats it until it is answered or time is up, xml.c
 * reads answers, and the rest is the verbs of varve_backend.h. Keys (of access) are in struct vv_s3_keys only, and in
 * no text that leaves this folder but the signed request. */
#ifndef VV_S3_PRIVATE_H
#define VV_S3_PRIVATE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <varve/varve_backend.h>

#define VV_S3_HASH_TEXT 65 /* hexadecimal digits of a SHA-256, and the end */
#define VV_S3_TIME_TEXT 17 /* 20130524T000000Z */
#define VV_S3_PAIRS 8
#define VV_S3_ABOUT 320    /* a sentence about a failure */
#define VV_S3_KEY_MAX 1024 /* bytes of an object's name in the bucket: the bound of S3 */

/* ---- text.c: a string that grows; after a failed allocation it stays as it is, and says so ---- */
struct vv_s3_text {
    char *data; /* ends with 0 */
    size_t size;
    size_t capacity;
    int failed; /* 0 or -ENOMEM */
};

void vv_s3_text_add(struct vv_s3_text *text, const void *data, size_t size);
void vv_s3_text_print(struct vv_s3_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void vv_s3_text_clear(struct vv_s3_text *text);
/* Everything but A-Z a-z 0-9 - . _ ~ (and / if kept) as %XX. */
void vv_s3_text_encode(struct vv_s3_text *text, const char *value, int keep_slash);
int vv_s3_refuse(struct varve_error *error, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- sign.c: AWS Signature Version 4 ---- */
struct vv_s3_pair {
    const char *name;
    const char *value;
};

struct vv_s3_keys {
    char id[256];
    char secret[256];
    char *token; /* of a session, or NULL */
};

struct vv_s3_signing {
    const char *method;
    const char *path;               /* not encoded, begins with / */
    const struct vv_s3_pair *query; /* not encoded, any order */
    size_t query_count;
    const struct vv_s3_pair *headers; /* lower case names, any order; host and x-amz-date among them */
    size_t header_count;
    const char *payload_hash;
    const char *time;
    const char *region;
    const char *service;
};

void vv_s3_hash(const void *data, size_t size, char out[VV_S3_HASH_TEXT]);
/* The path and query as they are sent: encoded and sorted as they are signed. */
void vv_s3_target(const struct vv_s3_signing *signing, struct vv_s3_text *out);
/* The value of the header Authorization. 0 or -ENOMEM. */
int vv_s3_sign(const struct vv_s3_signing *signing, const struct vv_s3_keys *keys, struct vv_s3_text *out);

/* ---- keys.c ---- */
/* From the environment, or the file of the profile. */
int vv_s3_keys_load(struct vv_s3_keys *keys, struct varve_error *error);
void vv_s3_keys_clear(struct vv_s3_keys *keys);

/* ---- xml.c ---- */
/* Called at the end of every element: path is "ListBucketResult/Contents/Key", and value NULL if there are elements in
 * it. Not 0 ends the walk. */
typedef int (*vv_s3_leaf_fn)(void *arg, const char *path, const char *value);
/* 0, what fn returned, -ENOMEM, or -EPROTO: not well formed, or of a kind that no answer needs (DOCTYPE, CDATA). */
int vv_s3_xml_walk(const char *data, size_t size, vv_s3_leaf_fn fn, void *arg);

/* ---- place.c: what the address and the environment say ---- */
struct vv_s3_place {
    char bucket[64];
    char prefix[VV_S3_KEY_MAX + 1]; /* "" or with / at its end */
    char base[300];                 /* scheme://host[:port], the bucket in it if is_virtual */
    char host[300];                 /* as the header Host says it */
    char region[64];
    int is_virtual;
    int is_alone;         /* writers=one: nobody else writes */
    unsigned timeout_ms;  /* of one request, beside the time of its bytes */
    unsigned patience_ms; /* of one request with all its repetitions */
};

int vv_s3_place_read(const char *place, const struct varve_backend_option *options, struct vv_s3_place *out,
                     struct varve_error *error);

/* ---- transport.c: one request ---- */
struct vv_s3_sink { /* where the body of a good answer goes */
    void *into;     /* a buffer of the caller, or NULL: text */
    size_t room;
    struct vv_s3_text text;
};

struct vv_s3_answer {
    int status; /* of HTTP, or 0: error says why there is none */
    int error;
    char why[256];  /* what libcurl says about error, or "" */
    int64_t length; /* Content-Length, or -1 */
    uint64_t first; /* of Content-Range */
    uint64_t last;
    uint64_t total;
    int has_range; /* 1: first to last of total; 2: only total */
    size_t got;    /* bytes of the body */
    char code[64]; /* of an error: NoSuchKey and so on */
    char etag[128];
    char writer[40];
    char region[64];
    unsigned retry_after_s;
    int64_t clock_s;           /* of the server, or 0 */
    struct vv_s3_text refusal; /* the body of a bad answer */
};

struct vv_s3_line; /* handles of libcurl */

struct vv_s3_send {
    const char *method;
    const char *url;
    const struct vv_s3_pair *headers;
    size_t header_count;
    const void *body;
    size_t body_size;
    unsigned timeout_ms;
    struct vv_s3_sink *sink;
};

int vv_s3_line_open(struct vv_s3_line **out, struct varve_error *error);
void vv_s3_line_close(struct vv_s3_line *line);
void vv_s3_line_send(struct vv_s3_line *line, const struct vv_s3_send *send, struct vv_s3_answer *answer);

/* ---- call.c: a request until it is answered ---- */
struct vv_s3 {
    struct varve_backend base;
    struct vv_s3_place place;
    struct vv_s3_line *line;
    pthread_mutex_t lock; /* of keys and skew */
    struct vv_s3_keys keys;
    int64_t skew_s; /* the server's clock less ours */
    int is_reading;
    pthread_mutex_t probe_lock;
    int is_probed; /* the server was seen to refuse an overwrite */
    void (*log)(void *arg, int level, const char *line);
    void *log_arg;
};

struct vv_s3_call {
    const char *method;
    const char *key; /* of the backend, or NULL: the bucket itself */
    struct vv_s3_pair query[VV_S3_PAIRS];
    size_t query_count;
    struct vv_s3_pair headers[VV_S3_PAIRS];
    size_t header_count;
    const void *body;
    size_t body_size;
    size_t expected; /* more bytes for its deadline: of the answer, or of what shares the line with it */
    struct vv_s3_sink *sink;
    unsigned patience_ms; /* 0: that of the place */
    int is_quiet;         /* no line in the log when it fails */
};

void vv_s3_call_query(struct vv_s3_call *call, const char *name, const char *value);
void vv_s3_call_header(struct vv_s3_call *call, const char *name, const char *value);
/* Why the last try failed, in words. */
void vv_s3_tell(const struct vv_s3_answer *answer, char out[VV_S3_ABOUT]);
/* Sends it, and again while that may help and patience lasts. 0: answer has a status of 2xx, or of 4xx that means
 * something to callers (304, 404, 412, 416). Otherwise an error, told in the log. */
int vv_s3_call(struct vv_s3 *s3, const struct vv_s3_call *call, struct vv_s3_answer *answer);
void vv_s3_answer_clear(struct vv_s3_answer *answer);
/* 404 as an error: -ENOENT only if the server says that the object is missing, and not the bucket. */
int vv_s3_absence(struct vv_s3 *s3, const char *key, const struct vv_s3_answer *answer);
/* Is it the answer to a put that was done? 0, -ESTALE: there is no bucket, or -EIO. 202, or the page of a proxy, is
 * not. */
int vv_s3_stored(struct vv_s3 *s3, const char *key, const struct vv_s3_answer *answer);
void vv_s3_log(struct vv_s3 *s3, const char *format, ...) __attribute__((format(printf, 2, 3)));
int vv_s3_random_text(char *out, size_t size); /* hexadecimal digits; 0 or an error */

/* ---- the verbs ---- */
#define VV_S3_PROBE_NAME ".probe,"
/* Does the server keep its word? Needed before anything is created. */
int vv_s3_probe(struct varve_backend *backend, char *why, size_t room);
int vv_s3_create(struct varve_backend *backend, const char *key, uint64_t size_hint, struct varve_upload **out);
int vv_s3_upload_write(struct varve_upload *base, const void *data, size_t size);
int vv_s3_upload_commit(struct varve_upload *base);
void vv_s3_upload_abort(struct varve_upload *base);
/* 0 if the object says that writer made it, -EEXIST if another did, or an error. */
int vv_s3_is_mine(struct vv_s3 *s3, const char *key, const char *writer);
int vv_s3_list(struct varve_backend *backend, const char *prefix, const char *after, size_t limit, varve_list_fn fn,
               void *arg);
int vv_s3_sweep(struct varve_backend *backend);
int vv_s3_stat(struct varve_backend *backend, const char *key, uint64_t *size_out);

#endif
