/* What several objects are made of: the tail, texts, settings, attempt references, dependency entries, partners. */
#include "format/format_private.h"

#include "base/alloc.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int vv_parse_fail(const struct vv_parse *parse, int code, const char *format, ...) {
    char what[VV_KEY_CAPACITY];
    char text[sizeof parse->error->text];
    va_list args;
    if (!parse->error)
        return code;
    if (parse->key)
        vv_key_print(parse->key, what);
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return vv_error(parse->error, code, "%s: %s", parse->key ? what : parse->what, text);
}

int vv_parse_need(const struct vv_parse *parse, uint64_t size, const char *part) {
    if (vv_cursor_left(&parse->at) >= size)
        return 0;
    return vv_parse_fail(parse, VARVE_CORRUPT, "%s: %" PRIu64 " bytes are needed, %zu are left", part, size,
                         vv_cursor_left(&parse->at));
}

int vv_parse_done(const struct vv_parse *parse) {
    if (vv_cursor_left(&parse->at) == 0)
        return 0;
    return vv_parse_fail(parse, VARVE_CORRUPT, "%zu bytes are left over", vv_cursor_left(&parse->at));
}

int vv_parse_reserved(const struct vv_parse *parse, const char *field, uint64_t value) {
    if (value == 0)
        return 0;
    return vv_parse_fail(parse, VARVE_UNKNOWN_FORMAT, "%s is %" PRIu64 ", this program knows only 0", field, value);
}

/* The bytes of a text16, still where they lie. */
static int take_text(struct vv_parse *parse, const char *field, const uint8_t **out, size_t *size_out) {
    int has_size = vv_cursor_left(&parse->at) >= 2;
    size_t size = has_size ? vv_cursor_u16(&parse->at) : 0;
    if (!has_size || size > vv_cursor_left(&parse->at))
        return vv_parse_fail(parse, VARVE_CORRUPT, "%s does not fit into the object", field);
    *out = vv_cursor_take(&parse->at, size);
    *size_out = size;
    if (size && memchr(*out, 0, size))
        return vv_parse_fail(parse, VARVE_CORRUPT, "%s has a NUL inside", field);
    return 0;
}

int vv_parse_text(struct vv_parse *parse, const char *field, char *out, size_t capacity) {
    const uint8_t *text = NULL;
    size_t size = 0;
    int rc = take_text(parse, field, &text, &size);
    if (rc < 0)
        return rc;
    if (size >= capacity) {
        size = capacity - 1;
        while (size && (text[size] & 0xC0) == 0x80)
            size--;
    }
    if (size)
        memcpy(out, text, size);
    out[size] = '\0';
    return 0;
}

int vv_parse_name(struct vv_parse *parse, char out[VV_NAME_MAX + 1]) {
    const uint8_t *text = NULL;
    size_t size = 0;
    int rc = take_text(parse, "name", &text, &size);
    if (rc < 0)
        return rc;
    if (size < 1 || size > VV_NAME_MAX)
        return vv_parse_fail(parse, VARVE_CORRUPT, "name has %zu bytes, must have 1 to %d", size, VV_NAME_MAX);
    memcpy(out, text, size);
    out[size] = '\0';
    if (parse->key && strcmp(out, parse->key->name) != 0)
        return vv_parse_fail(parse, VARVE_CORRUPT, "name is \"%s\", the key says \"%s\"", out, parse->key->name);
    return 0;
}

int vv_parse_settings(struct vv_parse *parse, struct vv_settings_store *out) {
    int rc = vv_parse_need(parse, VV_SETTINGS_SIZE, "settings");
    if (rc < 0)
        return rc;
    out->id_kind = vv_cursor_u16(&parse->at);
    out->granule_log2 = vv_cursor_u16(&parse->at);
    out->layout = vv_cursor_u32(&parse->at);
    out->seed = vv_cursor_u64(&parse->at);
    out->created_ns = vv_cursor_u64(&parse->at);
    if (out->id_kind != VV_ID_XXH3 && out->id_kind != VV_ID_SHA256)
        return vv_parse_fail(parse, VARVE_UNKNOWN_FORMAT, "id kind is %u, which is not known", out->id_kind);
    if (out->granule_log2 != 12)
        return vv_parse_fail(parse, VARVE_UNKNOWN_FORMAT, "log2 of the granule is %u, this program knows 12",
                             out->granule_log2);
    if (out->id_kind == VV_ID_SHA256 && out->seed != 0)
        return vv_parse_fail(parse, VARVE_CORRUPT, "seed is %" PRIu64 " and must be 0 for id kind 2", out->seed);
    if (out->layout > VV_LAYOUT_LOCAL)
        return vv_parse_fail(parse, VARVE_UNKNOWN_FORMAT, "layout is %u, which is not known", out->layout);
    return 0;
}

void vv_put_settings(struct vv_buf *buf, const struct vv_settings_store *settings) {
    assert(settings->id_kind == VV_ID_XXH3 || (settings->id_kind == VV_ID_SHA256 && settings->seed == 0));
    assert(settings->granule_log2 == 12);
    vv_buf_u16(buf, settings->id_kind);
    vv_buf_u16(buf, settings->granule_log2);
    vv_buf_u32(buf, settings->layout);
    vv_buf_u64(buf, settings->seed);
    vv_buf_u64(buf, settings->created_ns);
}

int vv_attempt_compare(const struct vv_attempt *a, const struct vv_attempt *b) {
    if (a->generation != b->generation)
        return a->generation < b->generation ? -1 : 1;
    if (a->version != b->version)
        return a->version < b->version ? -1 : 1;
    return a->attempt == b->attempt ? 0 : a->attempt < b->attempt ? -1 : 1;
}

int vv_parse_attempt(struct vv_parse *parse, const char *field, struct vv_attempt *out) {
    int rc = vv_parse_need(parse, VV_ATTEMPT_SIZE, field);
    if (rc < 0)
        return rc;
    out->generation = vv_cursor_u32(&parse->at);
    out->attempt = vv_cursor_u32(&parse->at);
    out->version = vv_cursor_u64(&parse->at);
    if (out->version >= VV_VERSION_END)
        return vv_parse_fail(parse, VARVE_CORRUPT, "version of %s is %" PRIu64 ", must be below 2^63", field,
                             out->version);
    if (out->generation == 0 && (out->attempt || out->version))
        return vv_parse_fail(parse, VARVE_CORRUPT, "%s is none but has version %" PRIu64 " and attempt %u", field,
                             out->version, out->attempt);
    return 0;
}

void vv_put_attempt(struct vv_buf *buf, const struct vv_attempt *attempt) {
    int is_some = attempt->generation != 0;
    assert(attempt->version < VV_VERSION_END);
    vv_buf_u32(buf, attempt->generation);
    vv_buf_u32(buf, is_some ? attempt->attempt : 0);
    vv_buf_u64(buf, is_some ? attempt->version : 0);
}

static int check_dependency(const struct vv_parse *parse, const struct vv_dependency *dependencies, uint32_t i,
                            const struct vv_attempt *own) {
    const struct vv_attempt *attempt = &dependencies[i].attempt;
    if (attempt->generation == 0)
        return vv_parse_fail(parse, VARVE_CORRUPT, "lean entry %u has generation 0", i);
    if (i > 0 && vv_attempt_compare(&dependencies[i - 1].attempt, attempt) >= 0)
        return vv_parse_fail(parse, VARVE_CORRUPT,
                             "lean entry %u (generation %u, version %" PRIu64 ", attempt %u) does not ascend", i,
                             attempt->generation, attempt->version, attempt->attempt);
    if (own && vv_attempt_compare(own, attempt) == 0)
        return vv_parse_fail(parse, VARVE_CORRUPT, "lean entry %u is the object's own attempt", i);
    return 0;
}

int vv_parse_dependencies(struct vv_parse *parse, uint32_t count, const struct vv_attempt *own,
                          struct vv_dependency **out) {
    struct vv_dependency *dependencies = NULL;
    int rc;
    if (count > VV_DEPENDENCIES_MAX)
        return vv_parse_fail(parse, VARVE_CORRUPT, "number of lean entries is %u, must be at most %u", count,
                             VV_DEPENDENCIES_MAX);
    if ((rc = vv_parse_need(parse, (uint64_t)count * VV_DEPENDENCY_SIZE, "lean entries")) < 0)
        return rc;
    if (count && !(dependencies = vv_calloc(count, sizeof *dependencies)))
        return vv_parse_fail(parse, -ENOMEM, "no memory for %u lean entries", count);
    for (uint32_t i = 0; i < count; i++) {
        if ((rc = vv_parse_attempt(parse, "a lean entry", &dependencies[i].attempt)) < 0 ||
            (rc = check_dependency(parse, dependencies, i, own)) < 0) {
            vv_free(dependencies);
            return rc;
        }
        dependencies[i].writers_digest = vv_hash128_get(vv_cursor_take(&parse->at, 16));
    }
    *out = dependencies;
    return 0;
}

void vv_put_dependencies(struct vv_buf *buf, const struct vv_dependency *dependencies, uint32_t count) {
    assert(count <= VV_DEPENDENCIES_MAX);
    for (uint32_t i = 0; i < count; i++) {
        assert(dependencies[i].attempt.generation != 0);
        assert(i == 0 || vv_attempt_compare(&dependencies[i - 1].attempt, &dependencies[i].attempt) < 0);
        vv_put_attempt(buf, &dependencies[i].attempt);
        vv_put_hash(buf, dependencies[i].writers_digest);
    }
}

int vv_parse_partners(struct vv_parse *parse, uint32_t writers, uint32_t *count_out, uint32_t out[VV_PARTNERS_MAX]) {
    uint32_t count = vv_cursor_u32(&parse->at);
    if (count > VV_PARTNERS_MAX)
        return vv_parse_fail(parse, VARVE_CORRUPT, "number of partners is %u, must be at most %d", count,
                             VV_PARTNERS_MAX);
    for (uint32_t i = 0; i < VV_PARTNERS_MAX; i++) {
        out[i] = vv_cursor_u32(&parse->at);
        if (i < count && out[i] >= writers)
            return vv_parse_fail(parse, VARVE_CORRUPT, "partner %u is writer %u of %u", i, out[i], writers);
        if (i >= count && out[i] != 0)
            return vv_parse_fail(parse, VARVE_CORRUPT, "partner %u is unused but %u, must be 0", i, out[i]);
        for (uint32_t j = 0; i < count && j < i; j++)
            if (out[i] == out[j])
                return vv_parse_fail(parse, VARVE_CORRUPT, "partners %u and %u are both writer %u", j, i, out[i]);
    }
    *count_out = count;
    return 0;
}

void vv_put_partners(struct vv_buf *buf, const uint32_t *partners, uint32_t count) {
    assert(count <= VV_PARTNERS_MAX);
    vv_buf_u32(buf, count);
    for (uint32_t i = 0; i < VV_PARTNERS_MAX; i++)
        vv_buf_u32(buf, i < count ? partners[i] : 0);
}

void vv_put_text(struct vv_buf *buf, const char *text, size_t capacity) {
    size_t size = strnlen(text, capacity - 1);
    assert(size <= UINT16_MAX);
    vv_buf_u16(buf, (uint16_t)size);
    vv_buf_append(buf, text, size);
}

void vv_put_hash(struct vv_buf *buf, struct vv_hash128 hash) {
    uint8_t *at = vv_buf_extend(buf, 16);
    if (at)
        vv_hash128_put(at, hash);
}

size_t vv_object_begin(struct vv_buf *buf, int kind, const struct vv_key *key, const uint8_t store_id[16]) {
    size_t start = buf->size;
    vv_head_put(buf, kind, key, store_id, 0);
    return start;
}

struct vv_hash128 vv_object_seal(struct vv_buf *buf, size_t start) {
    struct vv_hash128 digest = {0, 0};
    vv_buf_u64(buf, buf->size - start + VV_TAIL_SIZE);
    if (!buf->failed)
        digest = vv_digest(buf->data + start, buf->size - start);
    vv_put_hash(buf, digest);
    return digest;
}

static int check_tail(const struct vv_parse *parse, int kind, const uint8_t *data, uint64_t size, uint64_t size_max) {
    if (size < VV_HEAD_SIZE + VV_TAIL_SIZE)
        return vv_parse_fail(parse, VARVE_CORRUPT, "has %" PRIu64 " bytes, head and tail alone have %d", size,
                             VV_HEAD_SIZE + VV_TAIL_SIZE);
    if (size > size_max)
        return vv_parse_fail(parse, VARVE_CORRUPT, "has %" PRIu64 " bytes, may have at most %" PRIu64, size, size_max);
    if (vv_get64(data + size - VV_TAIL_SIZE) != size)
        return vv_parse_fail(parse, VARVE_CORRUPT,
                             "length in the tail is %" PRIu64 ", the object has %" PRIu64 " bytes",
                             vv_get64(data + size - VV_TAIL_SIZE), size);
    struct vv_hash128 digest = kind == VV_KIND_WRITERS ? vv_writers_digest(data, size) : vv_digest(data, size - 16);
    if (!vv_hash128_equal(vv_hash128_get(data + size - 16), digest))
        return vv_parse_fail(parse, VARVE_CORRUPT, "digest of its %" PRIu64 " bytes does not match", size);
    return 0;
}

int vv_object_open(struct vv_parse *parse, int kind, const void *data, uint64_t size, uint64_t size_max,
                   const struct vv_key *expect, const uint8_t *store_id, struct vv_head *head_out,
                   struct varve_error *error) {
    struct vv_head head;
    *parse = (struct vv_parse){.error = error, .key = expect};
    int rc = vv_head_parse(data, size, expect, store_id, &head, error);
    if (rc < 0)
        return rc;
    if (head.kind != kind)
        return vv_parse_fail(parse, VARVE_CORRUPT, "kind is %u (%s) instead of %d (%s)", head.kind,
                             vv_kind_name(head.kind), kind, vv_kind_name(kind));
    if ((rc = check_tail(parse, kind, data, size, size_max)) < 0)
        return rc;
    vv_cursor_init(&parse->at, (const uint8_t *)data + VV_HEAD_SIZE, size - VV_HEAD_SIZE - VV_TAIL_SIZE);
    if (head_out)
        *head_out = head;
    return 0;
}
