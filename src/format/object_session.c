/* Store, claim, heartbeat and log (docs/format.md 5). */
#include "format/format_private.h"
#include "format/job_log_object.h"

#include <assert.h>
#include <string.h>

#define CLAIM_FIXED 96
#define HEARTBEAT_SIZE 56

static const struct vv_key store_key = {.kind = VV_KIND_STORE};

void vv_store_object_encode(struct vv_buf *buf, const struct vv_store_object *store) {
    size_t start = vv_object_begin(buf, VV_KIND_STORE, &store_key, store->store_id);
    vv_put_settings(buf, &store->settings);
    vv_object_seal(buf, start);
}

int vv_store_object_parse(const void *data, size_t size, struct vv_store_object *out, struct varve_error *error) {
    struct vv_parse parse;
    struct vv_head head;
    struct vv_store_object store;
    int rc = vv_object_open(&parse, VV_KIND_STORE, data, size, VV_SMALL_MAX, &store_key, NULL, &head, error);
    if (rc < 0 || (rc = vv_parse_settings(&parse, &store.settings)) < 0 || (rc = vv_parse_done(&parse)) < 0)
        return rc;
    memcpy(store.store_id, head.store_id, 16);
    *out = store;
    return 0;
}

void vv_claim_encode(struct vv_buf *buf, const struct vv_key *key, const uint8_t store_id[16],
                     const struct vv_claim *claim) {
    assert(key->kind == VV_KIND_CLAIM && key->generation != 0);
    assert(claim->ranks <= VV_COUNT_MAX);
    size_t start = vv_object_begin(buf, VV_KIND_CLAIM, key, store_id);
    vv_put_settings(buf, &claim->settings);
    vv_buf_append(buf, claim->session_id, 16);
    vv_buf_u64(buf, claim->time_ns);
    vv_buf_append(buf, claim->boot_id, 16);
    vv_buf_u64(buf, claim->pid_namespace);
    vv_buf_u64(buf, claim->pid_start);
    vv_buf_u32(buf, claim->pid);
    vv_buf_u32(buf, claim->ranks);
    vv_buf_u32(buf, claim->beat_seconds);
    vv_buf_u32(buf, claim->dead_seconds);
    vv_put_text(buf, key->name, sizeof key->name);
    vv_put_text(buf, claim->host, sizeof claim->host);
    vv_put_text(buf, claim->program, sizeof claim->program);
    vv_object_seal(buf, start);
}

static int parse_claim_body(struct vv_parse *parse, struct vv_claim *out) {
    char name[VV_NAME_MAX + 1];
    int rc;
    if ((rc = vv_parse_need(parse, CLAIM_FIXED, "fixed fields")) < 0 ||
        (rc = vv_parse_settings(parse, &out->settings)) < 0)
        return rc;
    memcpy(out->session_id, vv_cursor_take(&parse->at, 16), 16);
    out->time_ns = vv_cursor_u64(&parse->at);
    memcpy(out->boot_id, vv_cursor_take(&parse->at, 16), 16);
    out->pid_namespace = vv_cursor_u64(&parse->at);
    out->pid_start = vv_cursor_u64(&parse->at);
    out->pid = vv_cursor_u32(&parse->at);
    out->ranks = vv_cursor_u32(&parse->at);
    out->beat_seconds = vv_cursor_u32(&parse->at);
    out->dead_seconds = vv_cursor_u32(&parse->at);
    if (out->ranks > VV_COUNT_MAX)
        return vv_parse_fail(parse, VARVE_CORRUPT, "ranks are %u, must be below 2^31", out->ranks);
    if ((rc = vv_parse_name(parse, name)) < 0 || (rc = vv_parse_text(parse, "host", out->host, sizeof out->host)) < 0 ||
        (rc = vv_parse_text(parse, "program", out->program, sizeof out->program)) < 0)
        return rc;
    return vv_parse_done(parse);
}

int vv_claim_parse(const void *data, size_t size, const struct vv_key *expect, const uint8_t *store_id,
                   struct vv_claim *out, struct varve_error *error) {
    struct vv_parse parse;
    struct vv_head head;
    struct vv_claim claim;
    int rc = vv_object_open(&parse, VV_KIND_CLAIM, data, size, VV_SMALL_MAX, expect, store_id, &head, error);
    if (rc < 0 || (rc = parse_claim_body(&parse, &claim)) < 0)
        return rc;
    memcpy(claim.store_id, head.store_id, 16);
    *out = claim;
    return 0;
}

void vv_heartbeat_encode(struct vv_buf *buf, const struct vv_key *key, const uint8_t store_id[16],
                         const struct vv_heartbeat *heartbeat) {
    assert(key->kind == VV_KIND_HEARTBEAT && key->generation != 0);
    assert(heartbeat->state == VV_HEARTBEAT_RUNNING || heartbeat->state == VV_HEARTBEAT_ENDED);
    size_t start = vv_object_begin(buf, VV_KIND_HEARTBEAT, key, store_id);
    vv_buf_append(buf, heartbeat->session_id, 16);
    vv_buf_u64(buf, heartbeat->counter);
    vv_buf_u64(buf, heartbeat->time_ns);
    vv_buf_u32(buf, heartbeat->state);
    vv_buf_u32(buf, 0);
    vv_put_attempt(buf, &heartbeat->refers);
    vv_object_seal(buf, start);
}

int vv_heartbeat_parse(const void *data, size_t size, const struct vv_key *expect, const uint8_t *store_id,
                       struct vv_heartbeat *out, struct varve_error *error) {
    struct vv_parse parse;
    struct vv_heartbeat heartbeat;
    int rc = vv_object_open(&parse, VV_KIND_HEARTBEAT, data, size, VV_SMALL_MAX, expect, store_id, NULL, error);
    if (rc < 0 || (rc = vv_parse_need(&parse, HEARTBEAT_SIZE, "fields")) < 0)
        return rc;
    memcpy(heartbeat.session_id, vv_cursor_take(&parse.at, 16), 16);
    heartbeat.counter = vv_cursor_u64(&parse.at);
    heartbeat.time_ns = vv_cursor_u64(&parse.at);
    heartbeat.state = vv_cursor_u32(&parse.at);
    uint32_t reserved = vv_cursor_u32(&parse.at);
    if (heartbeat.state != VV_HEARTBEAT_RUNNING && heartbeat.state != VV_HEARTBEAT_ENDED)
        return vv_parse_fail(&parse, VARVE_UNKNOWN_FORMAT, "state is %u, which is not known", heartbeat.state);
    if ((rc = vv_parse_reserved(&parse, "reserved field", reserved)) < 0 ||
        (rc = vv_parse_attempt(&parse, "checkpoint referred to", &heartbeat.refers)) < 0 ||
        (rc = vv_parse_done(&parse)) < 0)
        return rc;
    *out = heartbeat;
    return 0;
}

void vv_job_log_encode(struct vv_buf *buf, const struct vv_key *key, const uint8_t store_id[16], const char *text,
                       size_t size) {
    assert(key->kind == VV_KIND_LOG && key->generation != 0);
    assert(size <= VV_JOB_LOG_MAX);
    size_t start = vv_object_begin(buf, VV_KIND_LOG, key, store_id);
    vv_buf_append(buf, text, size);
    vv_object_seal(buf, start);
}

int vv_job_log_parse(const void *data, size_t size, const struct vv_key *expect, const uint8_t *store_id,
                     const char **text_out, size_t *size_out, struct varve_error *error) {
    struct vv_parse parse;
    int rc = vv_object_open(&parse, VV_KIND_LOG, data, size, VV_SMALL_MAX, expect, store_id, NULL, error);
    if (rc < 0)
        return rc;
    size_t length = vv_cursor_left(&parse.at);
    if (length > VV_JOB_LOG_MAX)
        return vv_parse_fail(&parse, VARVE_CORRUPT, "it has %zu bytes, %u at the most", length, VV_JOB_LOG_MAX);
    *text_out = length ? (const char *)vv_cursor_take(&parse.at, length) : "";
    *size_out = length;
    return vv_parse_done(&parse);
}
