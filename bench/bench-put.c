/* What a bucket takes at best: one object put in parts, many at a time, by libcurl alone. bucket.py compares Varve
 * with it.
 *
 *     bench-put [--size 256M] [--part 8M] [--lines 8] [--rounds N] BUCKET KEY
 *
 * Server, region and keys come from AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. Parts
 * are hashed and signed, as the tools of S3 do without TLS. Prints the seconds of each round, one a line: from the
 * request that begins the upload until the answer to the one that ends it. */
#include "bench.h"
#include "options.h"

#include <curl/curl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES_MOST 64u
#define PARTS_MOST 10000u
#define TEXT 4096

static size_t size = 256 * BENCH_MIB, part = 8 * BENCH_MIB;
static unsigned lines = 8, rounds = 1;
static const char *bucket, *key;
static const struct bench_option options[] = {
    {"--size", "SIZE", .size = &size, .least = 1},
    {"--part", "SIZE", .size = &part, .least = 5}, /* the least that S3 takes */
    {"--lines", "N", .number = &lines, .least = 1, .most = LINES_MOST},
    {"--rounds", "N", .number = &rounds, .least = 1},
    {"BUCKET", .text = &bucket},
    {"KEY", .text = &key},
    {0},
};

struct reply {
    char body[TEXT];
    size_t size;
    char etag[128];
};

struct request {
    CURL *curl;
    struct curl_slist *headers;
    struct reply reply;
    const char *data; /* what is left to be sent */
    size_t left;
    unsigned number; /* of the part, from 1 */
};

static char sigv4[128], user[512], upload[512];
static char etags[PARTS_MOST][128];

static const char *from_environment(const char *name) {
    const char *value = getenv(name);
    if (value == NULL) {
        fprintf(stderr, "bench-put: %s is not set\n", name);
        exit(2);
    }
    return value;
}

static size_t keep_body(char *data, size_t one, size_t count, void *arg) {
    struct reply *reply = arg;
    size_t room = sizeof reply->body - 1 - reply->size, take = one * count < room ? one * count : room;
    memcpy(reply->body + reply->size, data, take);
    reply->size += take;
    reply->body[reply->size] = 0;
    return one * count;
}

static size_t keep_etag(char *data, size_t one, size_t count, void *arg) {
    struct reply *reply = arg;
    char line[160] = "";
    memcpy(line, data, one * count < sizeof line - 1 ? one * count : sizeof line - 1);
    (void)(sscanf(line, "%*[eE]%*[tT]ag: %127[^\r\n]", reply->etag) || sscanf(line, "ETag: %127[^\r\n]", reply->etag));
    return one * count;
}

static size_t give(char *data, size_t one, size_t count, void *arg) {
    struct request *request = arg;
    size_t take = one * count < request->left ? one * count : request->left;
    memcpy(data, request->data, take);
    request->data += take;
    request->left -= take;
    return take;
}

static void add_hash(struct request *request, const void *data, size_t bytes) {
    unsigned char hash[EVP_MAX_MD_SIZE];
    char header[128] = "x-amz-content-sha256: ";
    bench_check(EVP_Digest(data, bytes, hash, NULL, EVP_sha256(), NULL) == 1, "SHA-256");
    for (size_t i = 0, at = strlen(header); i < 32; i++, at += 2) {
        snprintf(header + at, 3, "%02x", hash[i]);
    }
    request->headers = curl_slist_append(NULL, header);
}

/* A request that is ready to be sent. The handle, and with it its connection, is used again. */
static void prepare(struct request *request, const char *method, const char *query, const void *data, size_t bytes) {
    char url[TEXT];
    CURL *curl = request->curl;
    curl_easy_reset(curl);
    snprintf(url, sizeof url, "%s/%s/%s?%s", from_environment("AWS_ENDPOINT_URL"), bucket, key, query);
    add_hash(request, data, bytes);
    request->reply = (struct reply){.size = 0};
    request->data = data;
    request->left = bytes;
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)bytes);
    curl_easy_setopt(curl, CURLOPT_UPLOAD_BUFFERSIZE, 2097152L);
    curl_easy_setopt(curl, CURLOPT_EXPECT_100_TIMEOUT_MS, 1L); /* do not wait; libcurl would sign "Expect:" */
    curl_easy_setopt(curl, CURLOPT_READFUNCTION, give);
    curl_easy_setopt(curl, CURLOPT_READDATA, request);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, keep_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &request->reply);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, keep_etag);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, &request->reply);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, request->headers);
    curl_easy_setopt(curl, CURLOPT_AWS_SIGV4, sigv4);
    curl_easy_setopt(curl, CURLOPT_USERPWD, user);
    curl_easy_setopt(curl, CURLOPT_PRIVATE, request);
}

static void finish(struct request *request, CURLcode code) {
    long status = 0;
    curl_easy_getinfo(request->curl, CURLINFO_RESPONSE_CODE, &status);
    if (code != CURLE_OK || status != 200) {
        fprintf(stderr, "bench-put: %s, status %ld: %s\n", curl_easy_strerror(code), status, request->reply.body);
        exit(1);
    }
    curl_slist_free_all(request->headers);
}

static void send_now(struct request *request, const char *method, const char *query, const char *body) {
    prepare(request, method, query, body, strlen(body));
    finish(request, curl_easy_perform(request->curl));
}

static void send_part(CURLM *multi, struct request *request, unsigned number, const char *data) {
    char query[TEXT];
    size_t at = (number - 1) * part;
    request->number = number;
    snprintf(query, sizeof query, "partNumber=%u&uploadId=%s", number, upload);
    prepare(request, "PUT", query, data + at, size - at < part ? size - at : part);
    bench_check(curl_multi_add_handle(multi, request->curl) == CURLM_OK, "curl_multi_add_handle");
}

static void send_parts(struct request *requests, const char *data, unsigned parts) {
    CURLM *multi = curl_multi_init();
    unsigned next = 1, ended = 0;
    bench_check(multi != NULL, "curl_multi_init");
    for (unsigned i = 0; i < lines && next <= parts; i++) {
        send_part(multi, &requests[i], next++, data);
    }
    while (ended < parts) {
        int running, waiting;
        bench_check(curl_multi_perform(multi, &running) == CURLM_OK, "curl_multi_perform");
        for (CURLMsg *told; (told = curl_multi_info_read(multi, &waiting)) != NULL;) {
            struct request *request;
            CURLcode code = told->data.result;
            curl_easy_getinfo(told->easy_handle, CURLINFO_PRIVATE, &request);
            curl_multi_remove_handle(multi, request->curl);
            finish(request, code);
            memcpy(etags[request->number - 1], request->reply.etag, sizeof request->reply.etag);
            ended++;
            if (next <= parts) {
                send_part(multi, request, next++, data);
            }
        }
        bench_check(curl_multi_poll(multi, NULL, 0, 1000, NULL) == CURLM_OK, "curl_multi_poll");
    }
    curl_multi_cleanup(multi);
}

static void begin_upload(struct request *request) {
    const char *found;
    send_now(request, "POST", "uploads=", "");
    found = strstr(request->reply.body, "<UploadId>");
    bench_check(found != NULL && sscanf(found, "<UploadId>%511[^<]", upload) == 1, "no upload id");
}

static void end_upload(struct request *request, unsigned parts) {
    size_t room = parts * 200 + 200, at;
    char *body = malloc(room), query[TEXT];
    bench_check(body != NULL, "malloc");
    at = (size_t)snprintf(body, room, "<CompleteMultipartUpload>");
    for (unsigned i = 0; i < parts; i++) {
        at += (size_t)snprintf(body + at, room - at, "<Part><PartNumber>%u</PartNumber><ETag>%s</ETag></Part>",
                               i + 1, etags[i]);
    }
    snprintf(body + at, room - at, "</CompleteMultipartUpload>");
    snprintf(query, sizeof query, "uploadId=%s", upload);
    send_now(request, "POST", query, body);
    bench_check(strstr(request->reply.body, "CompleteMultipartUploadResult") != NULL, request->reply.body);
    free(body);
}

int main(int argc, char **argv) {
    static struct request requests[LINES_MOST];
    uint64_t state = 1;
    options_read(options, argc, argv);
    unsigned parts = (unsigned)((size + part - 1) / part);
    options_demand(options, parts <= PARTS_MOST, "too many parts");
    snprintf(sigv4, sizeof sigv4, "aws:amz:%s:s3", from_environment("AWS_REGION"));
    snprintf(user, sizeof user, "%s:%s", from_environment("AWS_ACCESS_KEY_ID"),
             from_environment("AWS_SECRET_ACCESS_KEY"));
    bench_check(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK, "curl_global_init");
    for (unsigned i = 0; i < lines; i++) {
        bench_check((requests[i].curl = curl_easy_init()) != NULL, "curl_easy_init");
    }
    uint64_t *data = bench_pages(size);
    for (unsigned round = 0; round < rounds; round++) {
        for (size_t i = 0; i < size / sizeof *data; i++) {
            data[i] = bench_random(&state);
        }
        double begun = bench_now();
        begin_upload(&requests[0]);
        send_parts(requests, (const char *)data, parts);
        end_upload(&requests[0], parts);
        printf("%.4f\n", bench_now() - begun);
        fflush(stdout);
    }
    for (unsigned i = 0; i < lines; i++) {
        curl_easy_cleanup(requests[i].curl);
    }
    curl_global_cleanup();
    return 0;
}
