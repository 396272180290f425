/* One request over libcurl. Handles are kept for the next request, and with them their connections.
 *
 * Nothing is followed or repeated here on purpose. libcurl itself sends a request again when a kept connection turns
 * out to be dead, so even one call may reach the server twice: callers must not conclude anything from a first try. */
#include <curl/curl.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "s3_private.h"

#define HANDLES_KEPT 32
#define CONNECT_MS 10000
#define TEXT_MOST (16u << 20) /* a listing of 1,000 keys has at most 2 MiB */
#define REFUSAL_MOST (64u << 10)

struct vv_s3_line {
    pthread_mutex_t lock;
    CURL *kept[HANDLES_KEPT];
    size_t count;
    char *authorities; /* AWS_CA_BUNDLE, or NULL */
};

struct exchange {
    CURL *curl;
    const struct vv_s3_send *send;
    size_t sent;
    struct vv_s3_answer *answer;
    int is_wrong; /* what came is more than was asked for */
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static CURLcode started = CURLE_FAILED_INIT;

static void start(void) {
    started = curl_global_init(CURL_GLOBAL_DEFAULT);
}

int vv_s3_line_open(struct vv_s3_line **out, struct varve_error *error) {
    pthread_once(&once, start);
    struct vv_s3_line *line = calloc(1, sizeof *line);
    const char *authorities = secure_getenv("AWS_CA_BUNDLE");
    if (line && authorities && *authorities && !(line->authorities = strdup(authorities))) {
        free(line);
        line = NULL;
    }
    if (!line || started != CURLE_OK) {
        free(line);
        return vv_s3_refuse(error, -ENOMEM, "cannot begin to speak HTTP: %s",
                            started == CURLE_OK ? strerror(ENOMEM) : curl_easy_strerror(started));
    }
    pthread_mutex_init(&line->lock, NULL);
    *out = line;
    return 0;
}

void vv_s3_line_close(struct vv_s3_line *line) {
    if (!line)
        return;
    while (line->count)
        curl_easy_cleanup(line->kept[--line->count]);
    pthread_mutex_destroy(&line->lock);
    free(line->authorities);
    free(line);
}

static CURL *take_handle(struct vv_s3_line *line) {
    pthread_mutex_lock(&line->lock);
    CURL *curl = line->count ? line->kept[--line->count] : NULL;
    pthread_mutex_unlock(&line->lock);
    if (curl)
        curl_easy_reset(curl); /* options; connections stay */
    return curl ? curl : curl_easy_init();
}

/* After an error a new connection is wanted: perhaps the server behind the old one is the ill one. */
static void give_back(struct vv_s3_line *line, CURL *curl, int is_good) {
    pthread_mutex_lock(&line->lock);
    int is_kept = is_good && line->count < HANDLES_KEPT;
    if (is_kept)
        line->kept[line->count++] = curl;
    pthread_mutex_unlock(&line->lock);
    if (!is_kept)
        curl_easy_cleanup(curl);
}

static size_t give_body(char *into, size_t size, size_t count, void *arg) {
    struct exchange *exchange = arg;
    size_t left = exchange->send->body_size - exchange->sent;
    size_t now = size * count < left ? size * count : left;
    memcpy(into, (const char *)exchange->send->body + exchange->sent, now);
    exchange->sent += now;
    return now;
}

static int seek_body(void *arg, curl_off_t offset, int origin) {
    struct exchange *exchange = arg;
    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > exchange->send->body_size)
        return CURL_SEEKFUNC_FAIL;
    exchange->sent = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

/* Returns fewer bytes than it is given to end the transfer. */
static size_t take_body(char *data, size_t size, size_t count, void *arg) {
    struct exchange *exchange = arg;
    struct vv_s3_answer *answer = exchange->answer;
    struct vv_s3_sink *sink = exchange->send->sink;
    long status = 0;
    size *= count;
    curl_easy_getinfo(exchange->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status < 200 || status > 299) {
        size_t left = REFUSAL_MOST - answer->refusal.size;
        vv_s3_text_add(&answer->refusal, data, size < left ? size : left);
        return size;
    }
    if (sink && sink->into) {
        if (size > sink->room - answer->got) {
            exchange->is_wrong = 1;
            return 0;
        }
        memcpy((char *)sink->into + answer->got, data, size);
    } else if (sink) {
        if (size > TEXT_MOST - sink->text.size) {
            exchange->is_wrong = 1;
            return 0;
        }
        vv_s3_text_add(&sink->text, data, size);
        if (sink->text.failed)
            return 0;
    }
    answer->got += size;
    return size;
}

/* A number, and what follows it; -1 if there is none. */
static int read_number(const char **text, uint64_t *out) {
    size_t digits = strspn(*text, "0123456789");
    if (digits == 0 || digits > 18)
        return -1;
    *out = strtoull(*text, NULL, 10);
    *text += digits;
    return 0;
}

/* "bytes 0-9/100" or "bytes ", "*", "/100". */
static void take_range(struct vv_s3_answer *answer, const char *text) {
    if (strncmp(text, "bytes ", 6) != 0)
        return;
    text += 6;
    if (strncmp(text, "*/", 2) == 0) {
        text += 2;
        answer->has_range = read_number(&text, &answer->total) == 0 && !*text ? 2 : 0;
        return;
    }
    if (read_number(&text, &answer->first) < 0 || *text++ != '-' || read_number(&text, &answer->last) < 0 ||
        *text++ != '/' || read_number(&text, &answer->total) < 0 || *text)
        return;
    answer->has_range = answer->first <= answer->last && answer->last < answer->total;
}

static void take_header(struct vv_s3_answer *answer, const char *name, const char *value) {
    uint64_t number;
    const char *text = value;
    if (strcasecmp(name, "content-length") == 0)
        answer->length = read_number(&text, &number) == 0 && !*text ? (int64_t)number : -1;
    else if (strcasecmp(name, "content-range") == 0)
        take_range(answer, value);
    else if (strcasecmp(name, "etag") == 0)
        snprintf(answer->etag, sizeof answer->etag, "%s", value);
    else if (strcasecmp(name, "x-amz-meta-varve-writer") == 0)
        snprintf(answer->writer, sizeof answer->writer, "%s", value);
    else if (strcasecmp(name, "x-amz-bucket-region") == 0 && !strpbrk(value, "\033\t ")) /* a person reads it */
        snprintf(answer->region, sizeof answer->region, "%s", value);
    else if (strcasecmp(name, "retry-after") == 0 && read_number(&text, &number) == 0 && !*text)
        answer->retry_after_s = number < 3600 ? (unsigned)number : 3600;
    else if (strcasecmp(name, "date") == 0) {
        time_t clock = curl_getdate(value, NULL);
        answer->clock_s = clock > 0 ? (int64_t)clock : 0;
    }
}

static size_t take_header_line(char *data, size_t size, size_t count, void *arg) {
    struct exchange *exchange = arg;
    char line[1024];
    size *= count;
    if (size >= sizeof line)
        return size;
    memcpy(line, data, size);
    line[size] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
    char *value = strchr(line, ':');
    if (!value)
        return size;
    *value++ = '\0';
    take_header(exchange->answer, line, value + strspn(value, " \t"));
    return size;
}

static struct curl_slist *make_headers(const struct vv_s3_send *send) {
    struct curl_slist *list = NULL;
    struct vv_s3_text line = {0};
    int failed = 0;
    for (size_t i = 0; i <= send->header_count && !failed; i++) {
        line.size = 0;
        if (i < send->header_count)
            vv_s3_text_print(&line, "%s: %s", send->headers[i].name, send->headers[i].value);
        else
            vv_s3_text_print(&line, "Expect:"); /* not sent: no second round trip */
        struct curl_slist *longer = line.failed ? NULL : curl_slist_append(list, line.data);
        failed = !longer;
        list = longer ? longer : list;
    }
    if (line.data)
        memset(line.data, 0, line.capacity);
    vv_s3_text_clear(&line);
    if (failed) {
        curl_slist_free_all(list);
        return NULL;
    }
    return list;
}

static void set_body(CURL *curl, struct exchange *exchange) {
    const struct vv_s3_send *send = exchange->send;
    if (strcmp(send->method, "HEAD") == 0) {
        curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
        return;
    }
    if (strcmp(send->method, "PUT") == 0 || strcmp(send->method, "POST") == 0) {
        curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)send->body_size);
        curl_easy_setopt(curl, CURLOPT_READFUNCTION, give_body);
        curl_easy_setopt(curl, CURLOPT_READDATA, exchange);
        curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, seek_body);
        curl_easy_setopt(curl, CURLOPT_SEEKDATA, exchange);
    }
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, send->method);
}

static void set_options(CURL *curl, const struct vv_s3_line *line, struct exchange *exchange,
                        struct curl_slist *headers) {
    curl_easy_setopt(curl, CURLOPT_URL, exchange->send->url);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS,
                     (long)(exchange->send->timeout_ms < CONNECT_MS ? exchange->send->timeout_ms : CONNECT_MS));
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)exchange->send->timeout_ms);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, exchange);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header_line);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, exchange);
    curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 262144L);
    curl_easy_setopt(curl, CURLOPT_UPLOAD_BUFFERSIZE, 262144L);
    if (line->authorities)
        curl_easy_setopt(curl, CURLOPT_CAINFO, line->authorities);
    set_body(curl, exchange);
}

static int error_of(CURLcode code, const struct exchange *exchange) {
    switch (code) {
    case CURLE_OK:
        return 0;
    case CURLE_OPERATION_TIMEDOUT:
        return -ETIMEDOUT;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
        return -ENOTCONN;
    case CURLE_OUT_OF_MEMORY:
        return -ENOMEM;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
        return -EKEYREJECTED;
    case CURLE_WRITE_ERROR:
        return exchange->is_wrong ? -EPROTO : -ENOMEM;
    default: /* cut, reset, or not HTTP */
        return -ECONNRESET;
    }
}

/* A person reads it, and some of it comes from the other side. */
static void take_reason(struct vv_s3_answer *answer, CURLcode code, const char *words) {
    snprintf(answer->why, sizeof answer->why, "%s", *words ? words : curl_easy_strerror(code));
    for (char *c = answer->why; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
}

/* Writing to a connection that the server has closed may raise SIGPIPE in this thread, which would end the program: not
 * every libcurl lets its TLS library write with MSG_NOSIGNAL. The signal is held back and taken away, unless one was
 * pending before. */
static CURLcode perform(CURL *curl) {
    sigset_t pipe_only, before, pending;
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    sigpending(&pending);
    int was_pending = sigismember(&pending, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
    CURLcode code = curl_easy_perform(curl);
    sigpending(&pending);
    if (!was_pending && sigismember(&pending, SIGPIPE))
        while (sigtimedwait(&pipe_only, NULL, &(struct timespec){0}) < 0 && errno == EINTR)
            ;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}

void vv_s3_line_send(struct vv_s3_line *line, const struct vv_s3_send *send, struct vv_s3_answer *answer) {
    struct curl_slist *headers = make_headers(send);
    CURL *curl = headers ? take_handle(line) : NULL;
    struct exchange exchange = {.curl = curl, .send = send, .answer = answer};
    char words[CURL_ERROR_SIZE] = "";
    long status = 0;
    if (!curl) {
        curl_slist_free_all(headers);
        answer->error = -ENOMEM;
        return;
    }
    set_options(curl, line, &exchange, headers);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, words);
    CURLcode code = perform(curl);
    answer->error = error_of(code, &exchange);
    if (answer->error)
        take_reason(answer, code, words);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, NULL); /* the handle lives longer */
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    answer->status = answer->error == 0 ? (int)status : 0;
    give_back(line, curl, answer->error == 0 && status < 500);
    for (struct curl_slist *one = headers; one; one = one->next)
        memset(one->data, 0, strlen(one->data)); /* a token of a session is in one of them */
    curl_slist_free_all(headers);
}
