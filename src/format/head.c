/* The head that every object begins with (docs/format.md 4): it binds the object to its store and its key. */
#include "format/format_private.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

static const uint8_t magic[8] = {0x89, 0x56, 0x61, 0x72, 0x76, 0x65, 0x0D, 0x0A};

/* The numbers an object under this key carries: those its kind has, and 0 for the others. */
static struct vv_key identity(const struct vv_key *key) {
    struct vv_key id = *key;
    int has_writer = key->kind == VV_KIND_PACK || key->kind == VV_KIND_PART || key->kind == VV_KIND_COPY ||
                     key->kind == VV_KIND_PARITY;
    int has_version =
        has_writer || key->kind == VV_KIND_WRITERS || key->kind == VV_KIND_RECORD || key->kind == VV_KIND_PIN;
    if (key->kind == VV_KIND_STORE || key->kind == VV_KIND_CATALOGUE || key->kind == VV_KIND_TRIGGER)
        id.generation = 0;
    if (!has_version)
        id.version = 0;
    if (!has_version || key->kind == VV_KIND_PIN)
        id.attempt = 0;
    if (!has_writer)
        id.writer = 0;
    if (key->kind != VV_KIND_PART)
        id.part = 0;
    return id;
}

static uint64_t name_sum(const struct vv_key *key) {
    return key->kind == VV_KIND_STORE ? 0 : vv_sum64(key->name, strnlen(key->name, VV_NAME_MAX));
}

void vv_head_put(struct vv_buf *buf, int kind, const struct vv_key *key, const uint8_t store_id[16],
                 uint64_t required) {
    struct vv_key id = identity(key);
    uint8_t *head = vv_buf_extend(buf, VV_HEAD_SIZE);
    if (!head)
        return;
    memset(head, 0, VV_HEAD_SIZE);
    memcpy(head, magic, sizeof magic);
    vv_put16(head + 8, VV_FORMAT_VERSION);
    vv_put16(head + 10, (uint16_t)kind);
    vv_put64(head + 16, required);
    memcpy(head + 32, store_id, 16);
    vv_put32(head + 48, id.generation);
    vv_put32(head + 52, id.attempt);
    vv_put64(head + 56, id.version);
    vv_put32(head + 64, id.writer);
    vv_put32(head + 68, id.part);
    vv_put64(head + 72, name_sum(key));
    vv_put64(head + 88, vv_sum64(head, 88));
}

void vv_head_encode(struct vv_buf *buf, const struct vv_key *key, const uint8_t store_id[16], uint64_t required) {
    assert(key->kind >= VV_KIND_STORE && key->kind <= VV_KIND_LAST && key->kind != VV_KIND_TOMBSTONE);
    vv_head_put(buf, key->kind, key, store_id, required);
}

static void read_fields(const uint8_t *data, struct vv_head *out) {
    out->format = vv_get16(data + 8);
    out->kind = vv_get16(data + 10);
    out->required = vv_get64(data + 16);
    out->optional = vv_get64(data + 24);
    memcpy(out->store_id, data + 32, 16);
    out->generation = vv_get32(data + 48);
    out->attempt = vv_get32(data + 52);
    out->version = vv_get64(data + 56);
    out->writer = vv_get32(data + 64);
    out->part = vv_get32(data + 68);
    out->name_sum = vv_get64(data + 72);
}

/* Is it whole, and of a kind this program knows? */
static int check_form(const struct vv_parse *parse, const uint8_t *data, const struct vv_head *head) {
    int rc;
    if (memcmp(data, magic, sizeof magic) != 0)
        return vv_parse_fail(parse, VARVE_CORRUPT, "does not begin with the magic of a Varve object");
    if (vv_get64(data + 88) != vv_sum64(data, 88))
        return vv_parse_fail(parse, VARVE_CORRUPT, "head sum is %016" PRIx64 ", its bytes give %016" PRIx64,
                             vv_get64(data + 88), vv_sum64(data, 88));
    if (head->format != VV_FORMAT_VERSION)
        return vv_parse_fail(parse, VARVE_UNKNOWN_FORMAT, "format version is %u, this program knows %u", head->format,
                             VV_FORMAT_VERSION);
    if (head->kind == VV_KIND_SEALED)
        return vv_parse_fail(parse, VARVE_KEY,
                             "is encrypted: set key to where its key comes from: file:PATH, env:NAME or command:TEXT");
    if (head->kind < VV_KIND_STORE || head->kind > VV_KIND_LAST)
        return vv_parse_fail(parse, VARVE_UNKNOWN_FORMAT, "kind is %u, which is not known", head->kind);
    if (head->required)
        return vv_parse_fail(parse, VARVE_UNKNOWN_FORMAT, "required features are %#" PRIx64 ", this program knows none",
                             head->required);
    if ((rc = vv_parse_reserved(parse, "reserved field at 12", vv_get32(data + 12))) < 0)
        return rc;
    return vv_parse_reserved(parse, "reserved field at 80", vv_get64(data + 80));
}

static int check_number(const struct vv_parse *parse, const char *field, uint64_t value, uint64_t expect) {
    if (value == expect)
        return 0;
    return vv_parse_fail(parse, VARVE_CORRUPT, "%s in the head is %" PRIu64 ", the key says %" PRIu64, field, value,
                         expect);
}

/* Does it belong under this key? The attempt of a record is not part of its key: it says what the record commits, and
 * is 0 in a tombstone. */
static int check_identity(const struct vv_parse *parse, const struct vv_head *head, const struct vv_key *expect) {
    struct vv_key id = identity(expect);
    int is_tombstone = head->kind == VV_KIND_TOMBSTONE;
    int may_be_tombstone = expect->kind == VV_KIND_PACK || expect->kind == VV_KIND_WRITERS ||
                           expect->kind == VV_KIND_RECORD || expect->kind == VV_KIND_PIN;
    int rc;
    if (head->kind != expect->kind && !(is_tombstone && may_be_tombstone))
        return vv_parse_fail(parse, VARVE_CORRUPT, "kind is %u (%s), the key says %d (%s)", head->kind,
                             vv_kind_name(head->kind), expect->kind, vv_kind_name(expect->kind));
    if ((rc = check_number(parse, "generation", head->generation, id.generation)) < 0 ||
        (rc = check_number(parse, "version", head->version, id.version)) < 0 ||
        (rc = check_number(parse, "writer", head->writer, id.writer)) < 0 ||
        (rc = check_number(parse, "part", head->part, id.part)) < 0)
        return rc;
    uint32_t attempt = expect->kind != VV_KIND_RECORD ? id.attempt : is_tombstone ? 0 : head->attempt;
    if ((rc = check_number(parse, "attempt", head->attempt, attempt)) < 0)
        return rc;
    return check_number(parse, "sum of the name", head->name_sum, name_sum(expect));
}

int vv_head_parse(const void *data, size_t size, const struct vv_key *expect, const uint8_t *store_id,
                  struct vv_head *out, struct varve_error *error) {
    struct vv_parse parse = {.error = error, .key = expect};
    struct vv_head head;
    int rc;
    if (size < VV_HEAD_SIZE)
        return vv_parse_fail(&parse, VARVE_CORRUPT, "has %zu bytes, a head alone has %d", size, VV_HEAD_SIZE);
    read_fields(data, &head);
    if ((rc = check_form(&parse, data, &head)) < 0)
        return rc;
    if (store_id && memcmp(head.store_id, store_id, 16) != 0)
        return vv_parse_fail(&parse, VARVE_CORRUPT,
                             "store id begins with %016" PRIx64 ", that of this store with %016" PRIx64
                             ": it belongs to another store",
                             vv_get64(head.store_id), vv_get64(store_id));
    if ((rc = check_identity(&parse, &head, expect)) < 0)
        return rc;
    if (out)
        *out = head;
    return 0;
}
