/* list(): pages of ListObjectsV2 with / as the delimiter.
 *
 * S3 sorts whole keys, and the order of components is another one: "a-b" comes before "a/c" there, and after "a" here.
 * So names are collected, sorted and joined before the callback sees them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "s3_private.h"

#define PAGES_MOST 1000000 /* a server that never ends is not listened to for ever */

struct name {
    char *text;
    int is_prefix;
};

struct listing {
    struct vv_s3 *s3;
    const char *below; /* what every key begins with */
    size_t below_size;
    const char *after;
    struct name *names;
    size_t count;
    size_t capacity;
    int has_unsettled; /* a name that has to wait for others: "a-b" for "a" */
    int is_truncated;  /* -1: the page did not say */
    char *token;
    char *seen; /* an earlier token */
    unsigned pages;
};

static int add_name(struct listing *listing, const char *text, size_t size, int is_prefix) {
    if (listing->count == listing->capacity) {
        size_t capacity = listing->capacity ? 2 * listing->capacity : 64;
        struct name *names = realloc(listing->names, capacity * sizeof *names);
        if (!names)
            return -ENOMEM;
        listing->names = names;
        listing->capacity = capacity;
    }
    char *copy = strndup(text, size);
    if (!copy)
        return -ENOMEM;
    for (size_t i = 0; i < size; i++)
        listing->has_unsettled |= (unsigned char)text[i] < '/';
    listing->names[listing->count++] = (struct name){copy, is_prefix};
    return 0;
}

static int take_key(struct listing *listing, const char *key, int is_prefix) {
    if (strncmp(key, listing->below, listing->below_size) != 0)
        return -EPROTO;
    key += listing->below_size;
    size_t size = strlen(key);
    if (is_prefix && (size < 2 || key[--size] != '/'))
        return -EPROTO;
    if (memchr(key, '/', size))
        return -EPROTO;
    if (size == 0 || (!is_prefix && strcmp(key, VV_S3_PROBE_NAME) == 0))
        return 0; /* tools make an empty object for a "folder" */
    int order = listing->after ? strncmp(key, listing->after, size) : 1;
    if (order < 0 || (order == 0 && strlen(listing->after) >= size))
        return 0;
    return add_name(listing, key, size, is_prefix);
}

static int take_leaf(void *arg, const char *path, const char *value) {
    struct listing *listing = arg;
    if (!value)
        return 0;
    if (strcmp(path, "ListBucketResult/Contents/Key") == 0)
        return take_key(listing, value, 0);
    if (strcmp(path, "ListBucketResult/CommonPrefixes/Prefix") == 0)
        return take_key(listing, value, 1);
    if (strcmp(path, "ListBucketResult/IsTruncated") == 0) {
        listing->is_truncated = strcmp(value, "true") == 0 ? 1 : strcmp(value, "false") == 0 ? 0 : -1;
    } else if (strcmp(path, "ListBucketResult/NextContinuationToken") == 0) {
        free(listing->token);
        listing->token = strdup(value);
        return listing->token ? 0 : -ENOMEM;
    }
    return 0;
}

/* Did this token come before? Not every earlier one is kept: that of the last page whose number is a power of two, so
 * that a circle of any length is noticed in its second or third round. */
static int is_repeated(struct listing *listing) {
    if (listing->seen && strcmp(listing->seen, listing->token) == 0)
        return 1;
    listing->pages++;
    if ((listing->pages & (listing->pages - 1)) == 0) {
        free(listing->seen);
        listing->seen = strdup(listing->token);
    }
    return 0;
}

/* One page; 1 if another one follows. */
static int read_page(struct listing *listing, const char *start_after, size_t limit) {
    struct vv_s3_sink sink = {0};
    struct vv_s3_answer answer = {0};
    char most[24];
    struct vv_s3_call call = {.method = "GET", .sink = &sink, .expected = 1u << 20};
    char *token = listing->token ? strdup(listing->token) : NULL; /* taken apart while it is in use */
    /* Often a first page of a few names is enough; if one of them has to wait for others, all are wanted. */
    snprintf(most, sizeof most, "%zu", limit && limit < 998 && !token ? limit + 2 : 1000);
    vv_s3_call_query(&call, "list-type", "2");
    vv_s3_call_query(&call, "delimiter", "/");
    vv_s3_call_query(&call, "max-keys", most);
    vv_s3_call_query(&call, "prefix", listing->below);
    if (token)
        vv_s3_call_query(&call, "continuation-token", token);
    else if (start_after)
        vv_s3_call_query(&call, "start-after", start_after);
    int rc = vv_s3_call(listing->s3, &call, &answer);
    if (rc == 0 && answer.status != 200)
        rc = answer.status == 404 ? vv_s3_absence(listing->s3, NULL, &answer) : -EIO;
    if (rc == -ENOENT)
        rc = -ESTALE;
    listing->is_truncated = -1;
    if (rc == 0)
        rc = vv_s3_xml_walk(sink.text.data ? sink.text.data : "", sink.text.size, take_leaf, listing);
    if (rc == 0 && (listing->is_truncated < 0 || (listing->is_truncated && !listing->token)))
        rc = -EPROTO;
    if (rc == 0 && listing->is_truncated && ((token && strcmp(token, listing->token) == 0) || is_repeated(listing)))
        rc = -EPROTO; /* round and round, or no new token */
    if (rc == -EPROTO)
        vv_s3_log(listing->s3, "s3: the listing of s3://%s/%s is no answer of S3: it is cut, or contradicts itself",
                  listing->s3->place.bucket, listing->below);
    vv_s3_text_clear(&sink.text);
    vv_s3_answer_clear(&answer);
    free(token);
    return rc == -EPROTO ? -EIO : rc < 0 ? rc : listing->is_truncated;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(((const struct name *)a)->text, ((const struct name *)b)->text);
}

static int emit(struct listing *listing, size_t limit, varve_list_fn fn, void *arg) {
    size_t given = 0;
    if (listing->count)
        qsort(listing->names, listing->count, sizeof *listing->names, compare_names);
    for (size_t i = 0; i < listing->count && (limit == 0 || given < limit); given++) {
        const char *text = listing->names[i].text;
        int is_prefix = 0;
        for (; i < listing->count && strcmp(listing->names[i].text, text) == 0; i++)
            is_prefix |= listing->names[i].is_prefix;
        int rc = fn(arg, text, is_prefix);
        if (rc)
            return rc < 0 ? rc : 0;
    }
    return 0;
}

int vv_s3_list(struct varve_backend *backend, const char *prefix, const char *after, size_t limit, varve_list_fn fn,
               void *arg) {
    struct listing listing = {.s3 = (struct vv_s3 *)backend, .after = after};
    char below[2 * VV_S3_KEY_MAX + 2];
    struct vv_s3_text start = {0};
    int rc = 1;
    int size = snprintf(below, sizeof below, "%s%s%s", listing.s3->place.prefix, prefix, *prefix ? "/" : "");
    listing.below = below;
    listing.below_size = (size_t)size;
    if (after)
        vv_s3_text_print(&start, "%s%s", below, after);
    for (unsigned pages = 0; rc == 1 && start.failed == 0 && pages < PAGES_MOST; pages++) {
        rc = read_page(&listing, after ? start.data : NULL, limit);
        if (rc == 1 && limit && listing.count >= limit && !listing.has_unsettled)
            rc = 0;
    }
    if (rc == 1)
        rc = start.failed ? -ENOMEM : -EIO;
    if (rc == 0)
        rc = emit(&listing, limit, fn, arg);
    for (size_t i = 0; i < listing.count; i++)
        free(listing.names[i].text);
    free(listing.names);
    free(listing.token);
    free(listing.seen);
    vv_s3_text_clear(&start);
    return rc;
}
