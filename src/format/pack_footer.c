/* Footer and end of a pack (docs/format.md 6): where everything in it is, and what it depends on. */
#include "format/format_private.h"
#include "format/pack.h"

#include "base/alloc.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define FOOTER_FIXED 128
#define SECTION_SIZE 40
#define FOOTER_MIN (FOOTER_FIXED + 2 + 1 + 2 + 3 * SECTION_SIZE)

static const uint8_t end_magic[4] = {0x56, 0x45, 0x4E, 0x44};

static void put_fixed(struct vv_buf *buf, const struct vv_footer *footer) {
    assert(footer->ranks >= 1 && footer->ranks <= VV_COUNT_MAX);
    assert(footer->writers >= 1 && footer->writers <= VV_COUNT_MAX);
    assert((uint64_t)footer->first_owner + footer->owners <= footer->ranks);
    assert(footer->parts <= VV_PARTS_MAX && vv_name_check(footer->name) == 0);
    vv_put_settings(buf, &footer->settings);
    vv_buf_u32(buf, footer->writers);
    vv_buf_u32(buf, footer->ranks);
    vv_buf_u32(buf, footer->first_owner);
    vv_buf_u32(buf, footer->owners);
    vv_put_partners(buf, footer->partners, footer->partner_count);
    vv_put_attempt(buf, &footer->parent);
    vv_buf_u64(buf, footer->time_ns);
    vv_buf_u64(buf, footer->protected_bytes);
    vv_buf_u64(buf, footer->raw_bytes);
    vv_buf_u64(buf, footer->stored_bytes);
    vv_buf_u64(buf, footer->regions);
    vv_buf_u32(buf, footer->parts);
    vv_buf_u32(buf, footer->dependency_count);
    vv_buf_u32(buf, footer->section_count);
    vv_buf_u32(buf, 0);
}

static void put_end(struct vv_buf *buf, uint64_t offset, uint64_t length, struct vv_hash128 digest) {
    assert(length <= VV_FOOTER_MAX);
    vv_buf_u64(buf, offset);
    vv_buf_u32(buf, (uint32_t)length);
    vv_buf_append(buf, end_magic, sizeof end_magic);
    vv_put_hash(buf, digest);
}

void vv_footer_encode(struct vv_buf *buf, uint64_t offset, const struct vv_footer *footer,
                      struct vv_hash128 *digest_out) {
    struct vv_hash128 digest = {0, 0};
    size_t start = buf->size;
    put_fixed(buf, footer);
    vv_put_text(buf, footer->name, sizeof footer->name);
    vv_put_text(buf, footer->program, sizeof footer->program);
    for (uint32_t i = 0; i < footer->parts; i++)
        vv_buf_u64(buf, footer->part_lengths[i]);
    vv_put_dependencies(buf, footer->dependencies, footer->dependency_count);
    for (uint32_t i = 0; i < footer->section_count; i++) {
        vv_buf_u32(buf, footer->sections[i].kind);
        vv_buf_u32(buf, footer->sections[i].owner);
        vv_buf_u64(buf, footer->sections[i].offset);
        vv_buf_u64(buf, footer->sections[i].length);
        vv_put_hash(buf, footer->sections[i].digest);
    }
    if (!buf->failed)
        digest = vv_digest(buf->data + start, buf->size - start);
    put_end(buf, offset, buf->size - start, digest);
    if (digest_out)
        *digest_out = digest;
}

int vv_end_parse(const uint8_t *data, uint64_t object_length, uint64_t *offset_out, uint32_t *length_out,
                 struct vv_hash128 *digest_out, struct varve_error *error) {
    struct vv_parse parse = {.error = error, .what = "end of a pack"};
    uint64_t offset = vv_get64(data);
    uint32_t length = vv_get32(data + 8);
    if (memcmp(data + 12, end_magic, sizeof end_magic) != 0)
        return vv_parse_fail(&parse, VARVE_CORRUPT, "has no magic \"VEND\": the object is cut off or damaged");
    if (length < FOOTER_MIN || length > VV_FOOTER_MAX)
        return vv_parse_fail(&parse, VARVE_CORRUPT, "footer length is %u, must be %d to %u", length, FOOTER_MIN,
                             VV_FOOTER_MAX);
    if (object_length >= VV_LENGTH_END || object_length < VV_HEAD_SIZE + (uint64_t)length + VV_END_SIZE ||
        offset != object_length - VV_END_SIZE - length)
        return vv_parse_fail(&parse, VARVE_CORRUPT,
                             "footer offset is %" PRIu64 " and its length %u, the object has %" PRIu64 " bytes", offset,
                             length, object_length);
    *offset_out = offset;
    *length_out = length;
    *digest_out = vv_hash128_get(data + 16);
    return 0;
}

static int check_group(const struct vv_parse *parse, const struct vv_footer *footer) {
    if (footer->writers < 1 || footer->writers > VV_COUNT_MAX || footer->ranks < 1 || footer->ranks > VV_COUNT_MAX)
        return vv_parse_fail(parse, VARVE_CORRUPT, "%u writers and %u ranks, both must be 1 to 2^31 - 1",
                             footer->writers, footer->ranks);
    if ((uint64_t)footer->first_owner + footer->owners > footer->ranks)
        return vv_parse_fail(parse, VARVE_CORRUPT, "%u owners from %u, there are %u ranks", footer->owners,
                             footer->first_owner, footer->ranks);
    return 0;
}

static int parse_fixed(struct vv_parse *parse, struct vv_footer *out) {
    struct vv_cursor *at = &parse->at;
    int rc;
    if ((rc = vv_parse_need(parse, FOOTER_FIXED, "fixed fields")) < 0 ||
        (rc = vv_parse_settings(parse, &out->settings)) < 0)
        return rc;
    out->writers = vv_cursor_u32(at);
    out->ranks = vv_cursor_u32(at);
    out->first_owner = vv_cursor_u32(at);
    out->owners = vv_cursor_u32(at);
    if ((rc = check_group(parse, out)) < 0 ||
        (rc = vv_parse_partners(parse, out->writers, &out->partner_count, out->partners)) < 0 ||
        (rc = vv_parse_attempt(parse, "parent", &out->parent)) < 0)
        return rc;
    out->time_ns = vv_cursor_u64(at);
    out->protected_bytes = vv_cursor_u64(at);
    out->raw_bytes = vv_cursor_u64(at);
    out->stored_bytes = vv_cursor_u64(at);
    out->regions = vv_cursor_u64(at);
    out->parts = vv_cursor_u32(at);
    out->dependency_count = vv_cursor_u32(at);
    out->section_count = vv_cursor_u32(at);
    if (out->parts > VV_PARTS_MAX)
        return vv_parse_fail(parse, VARVE_CORRUPT, "number of earlier parts is %u, must be at most %u", out->parts,
                             VV_PARTS_MAX);
    return vv_parse_reserved(parse, "reserved field", vv_cursor_u32(at));
}

static int parse_part_lengths(struct vv_parse *parse, struct vv_footer *out) {
    uint64_t total = 0;
    int rc = vv_parse_need(parse, (uint64_t)out->parts * 8, "lengths of the earlier parts");
    if (rc < 0)
        return rc;
    if (out->parts && !(out->part_lengths = vv_calloc(out->parts, sizeof *out->part_lengths)))
        return vv_parse_fail(parse, -ENOMEM, "no memory for %u parts", out->parts);
    for (uint32_t i = 0; i < out->parts; i++) {
        uint64_t length = vv_cursor_u64(&parse->at);
        if (length < VV_HEAD_SIZE || length >= VV_LENGTH_END - total)
            return vv_parse_fail(parse, VARVE_CORRUPT, "length of part %u is %" PRIu64 ", must be %d to 2^62", i,
                                 length, VV_HEAD_SIZE);
        total += length;
        out->part_lengths[i] = length;
    }
    return 0;
}

/* Where the reader of the section list stands. */
struct section_state {
    uint32_t last_kind; /* VV_SECTION_OPTIONAL for all of these */
    uint32_t manifests;
    int has_ranges;
    uint64_t end;
};

/* Kinds 1, 2 and 3 once each, 4 at most once, 5 for every owner, then the optional ones. */
static int check_section_order(const struct vv_parse *parse, uint32_t kind, uint32_t i, struct section_state *state) {
    uint32_t last = state->last_kind;
    int may_repeat = kind == VV_SECTION_MANIFEST || kind == VV_SECTION_OPTIONAL;
    int is_next = kind <= VV_SECTION_IDS ? kind == last + 1
                                         : last >= VV_SECTION_IDS && (kind > last || (may_repeat && kind == last));
    if (!is_next)
        return vv_parse_fail(parse, VARVE_CORRUPT, "section %u has kind %#x after kind %#x", i, kind, last);
    state->last_kind = kind;
    return 0;
}

/* Any number of optional sections in any order, but of each known kind only one. */
static int check_optional(const struct vv_parse *parse, const struct vv_section *section, uint32_t i,
                          struct section_state *state) {
    if (section->kind == VV_SECTION_RANGES && (state->has_ranges || section->owner != 0))
        return vv_parse_fail(parse, VARVE_CORRUPT, "section %u holds ranges of owner %u%s", i, section->owner,
                             state->has_ranges ? ", and so did one before" : "");
    state->has_ranges |= section->kind == VV_SECTION_RANGES;
    return check_section_order(parse, VV_SECTION_OPTIONAL, i, state);
}

static int check_section_kind(const struct vv_parse *parse, const struct vv_footer *footer,
                              const struct vv_section *section, uint32_t i, struct section_state *state) {
    uint32_t kind = section->kind;
    int rc;
    if (kind >= VV_SECTION_OPTIONAL)
        return check_optional(parse, section, i, state);
    if (kind < VV_SECTION_BLOCKS || kind > VV_SECTION_MANIFEST)
        return vv_parse_fail(parse, VARVE_UNKNOWN_FORMAT, "kind of section %u is %u, which is not known", i, kind);
    if ((rc = check_section_order(parse, kind, i, state)) < 0)
        return rc;
    if (kind != VV_SECTION_MANIFEST && section->owner != 0)
        return vv_parse_fail(parse, VARVE_CORRUPT, "section %u is no manifest but has owner %u", i, section->owner);
    if (kind != VV_SECTION_MANIFEST)
        return 0;
    if (state->manifests >= footer->owners || section->owner != footer->first_owner + state->manifests)
        return vv_parse_fail(parse, VARVE_CORRUPT, "section %u is the manifest of owner %u, expected %u of %u from %u",
                             i, section->owner, state->manifests, footer->owners, footer->first_owner);
    state->manifests++;
    return 0;
}

static int check_section_size(const struct vv_parse *parse, const struct vv_section *section, uint32_t i,
                              uint64_t footer_offset, struct section_state *state) {
    if (section->offset < VV_HEAD_SIZE || section->offset > footer_offset ||
        section->length > footer_offset - section->offset)
        return vv_parse_fail(parse, VARVE_CORRUPT,
                             "section %u is at %" PRIu64 " with %" PRIu64 " bytes, the footer is at %" PRIu64, i,
                             section->offset, section->length, footer_offset);
    if (i > 0 && section->offset != state->end)
        return vv_parse_fail(parse, VARVE_CORRUPT, "section %u is at %" PRIu64 ", the one before ends at %" PRIu64, i,
                             section->offset, state->end);
    state->end = section->offset + section->length;
    if ((section->kind == VV_SECTION_BLOCKS && section->length % VV_BLOCK_ENTRY_SIZE) ||
        (section->kind == VV_SECTION_IDS && section->length % 16))
        return vv_parse_fail(parse, VARVE_CORRUPT, "section %u of kind %u has %" PRIu64 " bytes, no whole entries", i,
                             section->kind, section->length);
    return 0;
}

static int parse_sections(struct vv_parse *parse, uint64_t footer_offset, struct vv_footer *out) {
    struct section_state state = {0};
    uint64_t size = (uint64_t)out->section_count * SECTION_SIZE;
    int rc;
    if (out->section_count < 3 || vv_cursor_left(&parse->at) != size)
        return vv_parse_fail(parse, VARVE_CORRUPT, "number of sections is %u, at least 3; %zu bytes are left for them",
                             out->section_count, vv_cursor_left(&parse->at));
    if (!(out->sections = vv_calloc(out->section_count, sizeof *out->sections)))
        return vv_parse_fail(parse, -ENOMEM, "no memory for %u sections", out->section_count);
    for (uint32_t i = 0; i < out->section_count; i++) {
        struct vv_section *section = &out->sections[i];
        section->kind = vv_cursor_u32(&parse->at);
        section->owner = vv_cursor_u32(&parse->at);
        section->offset = vv_cursor_u64(&parse->at);
        section->length = vv_cursor_u64(&parse->at);
        section->digest = vv_hash128_get(vv_cursor_take(&parse->at, 16));
        if ((rc = check_section_kind(parse, out, section, i, &state)) < 0 ||
            (rc = check_section_size(parse, section, i, footer_offset, &state)) < 0)
            return rc;
    }
    if (state.last_kind < VV_SECTION_IDS || state.manifests != out->owners)
        return vv_parse_fail(parse, VARVE_CORRUPT, "sections end with kind %#x and have %u manifests of %u owners",
                             state.last_kind, state.manifests, out->owners);
    if (state.end != footer_offset)
        return vv_parse_fail(parse, VARVE_CORRUPT, "sections end at %" PRIu64 ", the footer is at %" PRIu64, state.end,
                             footer_offset);
    return 0;
}

static int parse_footer(struct vv_parse *parse, uint64_t footer_offset, struct vv_footer *out) {
    int rc;
    if ((rc = parse_fixed(parse, out)) < 0 || (rc = vv_parse_name(parse, out->name)) < 0 ||
        (rc = vv_parse_text(parse, "program", out->program, sizeof out->program)) < 0 ||
        (rc = parse_part_lengths(parse, out)) < 0 ||
        (rc = vv_parse_dependencies(parse, out->dependency_count, NULL, &out->dependencies)) < 0)
        return rc;
    return parse_sections(parse, footer_offset, out);
}

int vv_footer_parse(const void *data, size_t size, uint64_t footer_offset, struct vv_hash128 digest,
                    struct vv_footer *out, struct varve_error *error) {
    struct vv_parse parse = {.error = error, .what = "pack footer"};
    struct vv_footer footer = {0};
    int rc;
    if (size > VV_FOOTER_MAX || footer_offset >= VV_LENGTH_END)
        return vv_parse_fail(&parse, VARVE_CORRUPT, "has %zu bytes at %" PRIu64 ", may have %u below 2^62", size,
                             footer_offset, VV_FOOTER_MAX);
    if (!vv_hash128_equal(vv_digest(data, size), digest))
        return vv_parse_fail(&parse, VARVE_CORRUPT, "digest of its %zu bytes does not match", size);
    vv_cursor_init(&parse.at, data, size);
    if ((rc = parse_footer(&parse, footer_offset, &footer)) < 0) {
        vv_footer_clear(&footer);
        return rc;
    }
    footer.digest = digest;
    *out = footer;
    return 0;
}

void vv_footer_clear(struct vv_footer *footer) {
    if (!footer)
        return;
    vv_free(footer->part_lengths);
    vv_free(footer->dependencies);
    vv_free(footer->sections);
    memset(footer, 0, sizeof *footer);
}

const struct vv_section *vv_footer_section(const struct vv_footer *footer, int kind, uint32_t owner) {
    uint32_t i = 0;
    while (i < footer->section_count && footer->sections[i].kind != (uint32_t)kind)
        i++;
    if (kind == VV_SECTION_MANIFEST) { /* they lie side by side, ascending by owner without holes */
        if (owner < footer->first_owner || owner - footer->first_owner >= footer->owners)
            return NULL;
        i += owner - footer->first_owner;
    }
    return i < footer->section_count ? &footer->sections[i] : NULL;
}
