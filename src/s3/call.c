/* A signed request, until it is answered or patience ends.
 *
 * Repeated: what never reached an answer, and answers that ask for it (409, 429, 500, 502, 503, 504, and those that a
 * body which was damaged on its way gets). Pauses are random up to a bound that doubles, so that ranks which were
 * turned away together do not come back together. A clock that is wrong is corrected once by that of the server, and
 * keys that have expired are read again once. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "s3_private.h"

#define PAUSE_FIRST_MS 50u
#define PAUSE_MOST_MS 5000u
#define BYTES_PER_MS 1000 /* slower than 1 MB/s beside its timeout is given up */
#define HEADERS_MOST (VV_S3_PAIRS + 5)

void vv_s3_log(struct vv_s3 *s3, const char *format, ...) {
    char line[512];
    va_list words;
    va_start(words, format);
    vsnprintf(line, sizeof line, format, words);
    va_end(words);
    if (s3->log)
        s3->log(s3->log_arg, 1, line);
}

int vv_s3_random_text(char *out, size_t size) {
    unsigned char byte;
    for (size_t i = 0; i + 1 < size; i++) {
        while (getrandom(&byte, 1, 0) != 1)
            if (errno != EINTR)
                return -errno;
        out[i] = "0123456789abcdef"[byte & 15];
    }
    out[size - 1] = '\0';
    return 0;
}

void vv_s3_call_query(struct vv_s3_call *call, const char *name, const char *value) {
    call->query[call->query_count++] = (struct vv_s3_pair){name, value};
}

void vv_s3_call_header(struct vv_s3_call *call, const char *name, const char *value) {
    call->headers[call->header_count++] = (struct vv_s3_pair){name, value};
}

void vv_s3_answer_clear(struct vv_s3_answer *answer) {
    vv_s3_text_clear(&answer->refusal);
    *answer = (struct vv_s3_answer){.length = -1};
}

static int64_t clock_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int take_code(void *arg, const char *path, const char *value) {
    struct vv_s3_answer *answer = arg;
    if (value && strcmp(path, "Error/Code") == 0 &&
        strspn(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.") == strlen(value))
        snprintf(answer->code, sizeof answer->code, "%s", value);
    return 0;
}

/* What is signed: everything that is sent but the signature. */
struct letter {
    struct vv_s3_pair headers[HEADERS_MOST];
    size_t count;
    char time[VV_S3_TIME_TEXT];
    char hash[VV_S3_HASH_TEXT];
    struct vv_s3_text path, url, authorization;
    char *token;
};

static void letter_clear(struct letter *letter) {
    vv_s3_text_clear(&letter->path);
    vv_s3_text_clear(&letter->url);
    vv_s3_text_clear(&letter->authorization);
    if (letter->token)
        memset(letter->token, 0, strlen(letter->token));
    free(letter->token);
}

static void letter_header(struct letter *letter, const char *name, const char *value) {
    letter->headers[letter->count++] = (struct vv_s3_pair){name, value};
}

static void set_time(struct vv_s3 *s3, char out[VV_S3_TIME_TEXT]) {
    time_t now = time(NULL) + (time_t)s3->skew_s;
    struct tm parts;
    gmtime_r(&now, &parts);
    strftime(out, VV_S3_TIME_TEXT, "%Y%m%dT%H%M%SZ", &parts);
}

/* s3->lock is held: keys and skew may change between two tries. */
static int sign_letter(struct vv_s3 *s3, const struct vv_s3_call *call, struct letter *letter) {
    set_time(s3, letter->time);
    letter_header(letter, "host", s3->place.host);
    letter_header(letter, "x-amz-content-sha256", letter->hash);
    letter_header(letter, "x-amz-date", letter->time);
    if (s3->keys.token) {
        letter->token = strdup(s3->keys.token);
        if (!letter->token)
            return -ENOMEM;
        letter_header(letter, "x-amz-security-token", letter->token);
    }
    for (size_t i = 0; i < call->header_count; i++)
        letter_header(letter, call->headers[i].name, call->headers[i].value);
    struct vv_s3_signing signing = {.method = call->method,
                                    .path = letter->path.data,
                                    .query = call->query,
                                    .query_count = call->query_count,
                                    .headers = letter->headers,
                                    .header_count = letter->count,
                                    .payload_hash = letter->hash,
                                    .time = letter->time,
                                    .region = s3->place.region,
                                    .service = "s3"};
    vv_s3_target(&signing, &letter->url);
    return vv_s3_sign(&signing, &s3->keys, &letter->authorization);
}

static int write_letter(struct vv_s3 *s3, const struct vv_s3_call *call, struct letter *letter) {
    const struct vv_s3_place *place = &s3->place;
    vv_s3_text_print(&letter->path, "%s%s%s%s%s", place->is_virtual ? "" : "/", place->is_virtual ? "" : place->bucket,
                     call->key || place->is_virtual ? "/" : "", call->key ? place->prefix : "",
                     call->key ? call->key : "");
    vv_s3_text_print(&letter->url, "%s", place->base);
    if (letter->path.failed || letter->url.failed)
        return -ENOMEM;
    pthread_mutex_lock(&s3->lock);
    int rc = sign_letter(s3, call, letter);
    pthread_mutex_unlock(&s3->lock);
    letter_header(letter, "authorization", letter->authorization.data);
    return rc < 0 || letter->url.failed ? -ENOMEM : 0;
}

static void send_once(struct vv_s3 *s3, const struct vv_s3_call *call, const char *hash, struct vv_s3_answer *answer) {
    struct letter letter = {0};
    memcpy(letter.hash, hash, sizeof letter.hash);
    vv_s3_answer_clear(answer);
    if (call->sink)
        call->sink->text.size = 0;
    answer->error = write_letter(s3, call, &letter);
    if (answer->error == 0) {
        struct vv_s3_send send = {.method = call->method,
                                  .url = letter.url.data,
                                  .headers = letter.headers,
                                  .header_count = letter.count,
                                  .body = call->body,
                                  .body_size = call->body_size,
                                  .timeout_ms = s3->place.timeout_ms +
                                                (unsigned)((call->body_size + call->expected) / BYTES_PER_MS),
                                  .sink = call->sink};
        vv_s3_line_send(s3->line, &send, answer);
    }
    if (answer->status > 299 && answer->refusal.size)
        (void)vv_s3_xml_walk(answer->refusal.data, answer->refusal.size, take_code, answer);
    letter_clear(&letter);
}

static int is_code(const struct vv_s3_answer *answer, const char *codes) {
    size_t size = strlen(answer->code);
    for (const char *found = size ? codes : NULL; found; found = strchr(found, ' ')) {
        found += *found == ' ';
        if (strncmp(found, answer->code, size) == 0 && (found[size] == ' ' || !found[size]))
            return 1;
    }
    return 0;
}

/* May the same request be answered better later? */
static int may_help(const struct vv_s3_answer *answer) {
    if (answer->status == 0)
        return answer->error == -ECONNRESET || answer->error == -ETIMEDOUT || answer->error == -ENOTCONN;
    switch (answer->status) {
    case 408:
    case 409:
    case 429:
    case 500:
    case 502:
    case 503:
    case 504:
        return 1;
    default:
        return is_code(answer, "RequestTimeout IncompleteBody BadDigest XAmzContentSHA256Mismatch SlowDown");
    }
}

/* 1 if the cause is removed, so that one more try is worth it at once. */
static int amend(struct vv_s3 *s3, const struct vv_s3_answer *answer) {
    int is_amended = 0;
    if (is_code(answer, "RequestTimeTooSkewed") && answer->clock_s) {
        pthread_mutex_lock(&s3->lock);
        s3->skew_s = answer->clock_s - (int64_t)time(NULL);
        pthread_mutex_unlock(&s3->lock);
        vv_s3_log(s3, "s3: the clocks of this host and of %s are %lld s apart; requests are stamped with the server's",
                  s3->place.host, (long long)(answer->clock_s - (int64_t)time(NULL)));
        is_amended = 1;
    } else if (is_code(answer, "ExpiredToken ExpiredTokenException TokenRefreshRequired")) {
        struct vv_s3_keys keys;
        if (vv_s3_keys_load(&keys, NULL) < 0)
            return 0;
        pthread_mutex_lock(&s3->lock);
        struct vv_s3_keys old = s3->keys;
        s3->keys = keys;
        pthread_mutex_unlock(&s3->lock);
        vv_s3_keys_clear(&old);
        is_amended = 1;
    }
    return is_amended;
}

/* The answer to a HEAD has no body, and so no code: a GET of a byte tells what is wrong. */
static int amend_head(struct vv_s3 *s3, const struct vv_s3_call *call, const char *hash,
                      const struct vv_s3_answer *answer) {
    struct vv_s3_answer told = {0};
    struct vv_s3_sink sink = {0};
    struct vv_s3_call get = {.method = "GET", .key = call->key, .sink = &sink};
    if (strcmp(call->method, "HEAD") != 0 || (answer->status != 400 && answer->status != 401 && answer->status != 403))
        return 0;
    vv_s3_call_header(&get, "range", "bytes=0-0");
    send_once(s3, &get, hash, &told);
    int is_amended = amend(s3, &told);
    vv_s3_text_clear(&sink.text);
    vv_s3_answer_clear(&told);
    return is_amended;
}

static unsigned pause_ms(unsigned tries, const struct vv_s3_answer *answer) {
    uint32_t random = 0;
    unsigned most = tries < 7 ? PAUSE_FIRST_MS << tries : PAUSE_MOST_MS;
    if (most > PAUSE_MOST_MS)
        most = PAUSE_MOST_MS;
    if (getrandom(&random, sizeof random, 0) < 0)
        random = (uint32_t)clock_ms();
    return answer->retry_after_s * 1000 + 1 + random % most;
}

static int result_of(const struct vv_s3_answer *answer) {
    if (answer->status == 0)
        return answer->error;
    if (is_code(answer, "QuotaExceeded"))
        return -EDQUOT;
    switch (answer->status) {
    case 304:
    case 404:
    case 412:
    case 416:
        return 0;
    case 401:
    case 403:
        return -EACCES;
    case 408:
    case 504:
        return -ETIMEDOUT;
    case 409:
    case 429:
    case 503:
        return -EBUSY;
    case 413:
        return -EFBIG;
    case 501:
        return VARVE_UNSUPPORTED;
    case 507:
        return -ENOSPC;
    default:
        return answer->status >= 200 && answer->status < 300 ? 0 : -EIO;
    }
}

void vv_s3_tell(const struct vv_s3_answer *answer, char out[VV_S3_ABOUT]) {
    if (answer->status == 0)
        snprintf(out, VV_S3_ABOUT, "%s%s%.200s%s", strerror(-answer->error), *answer->why ? " (" : "", answer->why,
                 *answer->why ? ")" : "");
    else
        snprintf(out, VV_S3_ABOUT, "the server answers HTTP status %d%s%s", answer->status, *answer->code ? " " : "",
                 answer->code);
}

static void tell_failure(struct vv_s3 *s3, const struct vv_s3_call *call, const struct vv_s3_answer *answer,
                         unsigned tries) {
    char about[VV_S3_ABOUT];
    vv_s3_tell(answer, about);
    vv_s3_log(s3, "s3: %s s3://%s/%s%.200s at %s failed after %u tries: %s%s%s", call->method, s3->place.bucket,
              s3->place.prefix, call->key ? call->key : "", s3->place.host, tries, about,
              *answer->region ? "; the bucket is in region " : "", answer->region);
}

int vv_s3_call(struct vv_s3 *s3, const struct vv_s3_call *call, struct vv_s3_answer *answer) {
    char hash[VV_S3_HASH_TEXT];
    int64_t deadline = clock_ms() + (call->patience_ms ? call->patience_ms : s3->place.patience_ms);
    unsigned tries = 0;
    int is_amended = 0;
    if (call->key && strlen(call->key) + strlen(s3->place.prefix) > VV_S3_KEY_MAX)
        return -ENAMETOOLONG;
    vv_s3_hash(call->body, call->body_size, hash);
    for (;;) {
        send_once(s3, call, hash, answer);
        tries++;
        int rc = result_of(answer);
        if (!is_amended && (is_amended = amend(s3, answer) || amend_head(s3, call, hash, answer)))
            continue;
        if (!may_help(answer)) {
            if (rc < 0 && !call->is_quiet)
                tell_failure(s3, call, answer, tries);
            return rc;
        }
        unsigned pause = pause_ms(tries - 1, answer);
        if (clock_ms() + pause >= deadline) {
            if (!call->is_quiet)
                tell_failure(s3, call, answer, tries);
            return rc;
        }
        nanosleep(&(struct timespec){pause / 1000, (long)(pause % 1000) * 1000000}, NULL);
    }
}

int vv_s3_stored(struct vv_s3 *s3, const char *key, const struct vv_s3_answer *answer) {
    if (answer->status == 404)
        return vv_s3_absence(s3, key, answer) == -ESTALE ? -ESTALE : -EIO;
    if (answer->status / 100 == 2 && answer->status != 202 && *answer->etag)
        return 0;
    vv_s3_log(s3, "s3: s3://%s/%s%.200s: HTTP status %d without an ETag does not say that the object is stored",
              s3->place.bucket, s3->place.prefix, key, answer->status);
    return -EIO;
}

int vv_s3_absence(struct vv_s3 *s3, const char *key, const struct vv_s3_answer *answer) {
    if (is_code(answer, "NoSuchKey"))
        return -ENOENT;
    vv_s3_log(s3, "s3: s3://%s/%s%.200s: HTTP status 404 %s does not say that the object is missing", s3->place.bucket,
              s3->place.prefix, key ? key : "", answer->code);
    return is_code(answer, "NoSuchBucket") ? -ESTALE : -EIO;
}
