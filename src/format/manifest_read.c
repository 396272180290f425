/* Manifests (docs/format.md 8), read as a stream of any length through a window of fixed size.
 *
 * The window is refilled before an entry or a run is decoded, whenever fewer bytes than the longest of these are
 * left in it. Decoding then needs no bounds: behind the last byte of the section lie as many zeros, so a cut-off
 * section ends its last number at a zero and is noticed afterwards, because the reader stands beyond the end. */
#include "format/format_private.h"
#include "format/manifest.h"

#include "base/alloc.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define WINDOW (64u << 10)
/* More than any region entry without its runs (at most 790 bytes), any run (660) and an end mark with digest (17). */
#define ITEM_MAX 2048u
#define TYPE_LAST 14

struct vv_manifest_reader {
    vv_fill_fn fill;
    void *arg;
    uint64_t section_length;
    uint64_t fetched; /* bytes of the section that fill() has given */
    uint32_t dependency_count;
    int code; /* the first error; given again by every later call */
    int has_bad_varint;
    const uint8_t *at;
    const uint8_t *end;
    struct vv_manifest_head head;
    uint64_t entries;
    uint64_t runs;
    uint64_t next_number;
    uint64_t protected_bytes;
    /* the open region */
    int is_open;
    int has_address;
    uint64_t number;
    uint64_t address;
    uint64_t offset;
    uint64_t length;
    uint8_t window[WINDOW + ITEM_MAX];
};

static int fail(struct vv_manifest_reader *reader, struct varve_error *error, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5), cold));

/* Whatever looks wrong after a malformed number or behind the end, that is the cause to name. */
static int fail(struct vv_manifest_reader *reader, struct varve_error *error, int code, const char *format, ...) {
    char text[320];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (reader->has_bad_varint || reader->at > reader->end) {
        code = VARVE_CORRUPT;
        snprintf(text, sizeof text, "%s",
                 reader->has_bad_varint ? "a varint is not in its shortest form or exceeds 64 bits"
                                        : "section ends too early");
    }
    reader->code = code;
    if (reader->is_open)
        return vv_error(error, code, "manifest of owner %u, region %" PRIu64 " at %" PRIu64 ": %s", reader->head.owner,
                        reader->number, reader->offset, text);
    return vv_error(error, code, "manifest of owner %u, after %" PRIu64 " entries: %s", reader->head.owner,
                    reader->entries, text);
}

static int refill(struct vv_manifest_reader *reader, struct varve_error *error) {
    size_t have = (size_t)(reader->end - reader->at);
    memmove(reader->window, reader->at, have);
    while (have < WINDOW && reader->fetched < reader->section_length) {
        uint64_t left = reader->section_length - reader->fetched;
        size_t want = left < WINDOW - have ? (size_t)left : WINDOW - have;
        int64_t got = reader->fill(reader->arg, reader->fetched, reader->window + have, want);
        if (got < 0) {
            reader->code = (int)got;
            return vv_error_default(error, (int)got, "manifest cannot be read at %" PRIu64, reader->fetched);
        }
        if (got == 0)
            return fail(reader, error, VARVE_CORRUPT, "section ends at %" PRIu64 ", its length is %" PRIu64,
                        reader->fetched, reader->section_length);
        assert((uint64_t)got <= want);
        have += (size_t)got;
        reader->fetched += (uint64_t)got;
    }
    memset(reader->window + have, 0, ITEM_MAX);
    reader->at = reader->window;
    reader->end = reader->window + have;
    return 0;
}

/* Make sure that a whole item is in the window, or all that is left of the section. */
static inline int prepare(struct vv_manifest_reader *reader, struct varve_error *error) {
    if (reader->end - reader->at >= (ptrdiff_t)ITEM_MAX || reader->fetched == reader->section_length)
        return 0;
    return refill(reader, error);
}

/* After decoding an item: was it all there? */
static inline int check_item(struct vv_manifest_reader *reader, struct varve_error *error) {
    if (reader->has_bad_varint || reader->at > reader->end)
        return fail(reader, error, VARVE_CORRUPT, "malformed");
    return 0;
}

static uint64_t take_long_varint(struct vv_manifest_reader *reader) {
    const uint8_t *at = reader->at;
    uint64_t value = 0;
    for (unsigned i = 0; i < 10; i++) {
        uint64_t byte = at[i];
        if (i == 9 && byte > 1)
            break;
        value |= (byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            if (byte == 0 && i > 0)
                break;
            reader->at = at + i + 1;
            return value;
        }
    }
    reader->has_bad_varint = 1;
    return 0;
}

static inline uint64_t take_varint(struct vv_manifest_reader *reader) {
    const uint8_t *at = reader->at;
    if (at[0] < 0x80) {
        reader->at = at + 1;
        return at[0];
    }
    if (at[1] < 0x80 && at[1] != 0) {
        reader->at = at + 2;
        return (uint64_t)(at[0] & 0x7f) | (uint64_t)at[1] << 7;
    }
    return take_long_varint(reader);
}

static inline int64_t take_svarint(struct vv_manifest_reader *reader) {
    uint64_t value = take_varint(reader);
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

/* The head against what the pack says about this section. */
static int check_place_in_pack(struct vv_manifest_reader *reader, uint32_t owner, struct varve_error *error) {
    const struct vv_manifest_head *head = &reader->head;
    uint64_t left = reader->section_length - VV_MANIFEST_HEAD_SIZE;
    if (head->owner != owner)
        return fail(reader, error, VARVE_CORRUPT, "the footer says it is that of owner %u", owner);
    for (uint32_t i = 0; i < head->lower_count; i++)
        if (head->lower[i].dependency > reader->dependency_count)
            return fail(reader, error, VARVE_CORRUPT, "lean index of lower layer %u is %u, the pack has %u", i,
                        head->lower[i].dependency, reader->dependency_count);
    if (head->entries > left / 2 || head->runs > left)
        return fail(reader, error, VARVE_CORRUPT,
                    "%" PRIu64 " entries and %" PRIu64 " runs do not fit into %" PRIu64 " bytes", head->entries,
                    head->runs, left);
    return 0;
}

int vv_manifest_open(vv_fill_fn fill, void *arg, uint64_t section_length, uint32_t owner, uint32_t dependency_count,
                     struct vv_manifest_reader **out, struct varve_error *error) {
    int rc;
    if (section_length < VV_MANIFEST_HEAD_SIZE || section_length >= VV_LENGTH_END)
        return vv_error(error, VARVE_CORRUPT, "manifest of owner %u: section has %" PRIu64 " bytes", owner,
                        section_length);
    struct vv_manifest_reader *reader = vv_malloc(sizeof *reader);
    if (!reader)
        return vv_error(error, -ENOMEM, "no memory to read a manifest");
    memset(reader, 0, offsetof(struct vv_manifest_reader, window));
    reader->fill = fill;
    reader->arg = arg;
    reader->section_length = section_length;
    reader->dependency_count = dependency_count;
    reader->head.owner = owner;
    reader->at = reader->end = reader->window;
    if ((rc = refill(reader, error)) < 0 ||
        (rc = vv_manifest_head_parse(reader->at, VV_MANIFEST_HEAD_SIZE, &reader->head, error)) < 0 ||
        (rc = check_place_in_pack(reader, owner, error)) < 0) {
        vv_manifest_close(reader);
        return rc;
    }
    reader->at += VV_MANIFEST_HEAD_SIZE;
    *out = reader;
    return 0;
}

const struct vv_manifest_head *vv_manifest_head(const struct vv_manifest_reader *reader) {
    return &reader->head;
}

void vv_manifest_close(struct vv_manifest_reader *reader) {
    vv_free(reader);
}

static int take_name(struct vv_manifest_reader *reader, char *out, struct varve_error *error) {
    size_t size = vv_get16(reader->at);
    if (size < 1 || size > VV_REGION_NAME_MAX)
        return fail(reader, error, VARVE_CORRUPT, "region name has %zu bytes, must have 1 to %d", size,
                    VV_REGION_NAME_MAX);
    memcpy(out, reader->at + 2, size);
    out[size] = '\0';
    reader->at += 2 + size;
    if (reader->at <= reader->end && strlen(out) != size)
        return fail(reader, error, VARVE_CORRUPT, "region name has a NUL inside");
    return 0;
}

static int take_shape(struct vv_manifest_reader *reader, struct vv_region_shape *out, struct varve_error *error) {
    out->type = *reader->at++;
    uint8_t dims = *reader->at++;
    int is_strided = (dims & VV_SHAPE_STRIDED) != 0;
    out->dims = dims & (uint8_t)~VV_SHAPE_STRIDED;
    if (out->type > TYPE_LAST)
        return fail(reader, error, VARVE_UNKNOWN_FORMAT, "element type is %u, which is not known", out->type);
    if (out->dims > VV_DIMS_MAX)
        return fail(reader, error, VARVE_CORRUPT, "number of dimensions is %u, must be at most %d", out->dims,
                    VV_DIMS_MAX);
    for (int i = 0; i < out->dims; i++) {
        out->dim[i].global = take_varint(reader);
        out->dim[i].first = take_varint(reader);
        out->dim[i].local = take_varint(reader);
        out->dim[i].stride.block = is_strided ? take_varint(reader) : 0;
        out->dim[i].stride.every = is_strided ? take_varint(reader) : 0;
    }
    uint8_t exactness = *reader->at++;
    out->is_lossy = exactness & 1;
    out->distribution = exactness >> VV_SHAPE_DISTRIBUTION;
    if ((exactness & 0xe) || out->distribution > VARVE_DROPPED)
        return fail(reader, error, VARVE_UNKNOWN_FORMAT, "exactness is %u, which is not known", exactness);
    if (out->is_lossy) {
        uint64_t bits = vv_get64(reader->at);
        reader->at += 8;
        memcpy(&out->bound, &bits, sizeof bits);
    }
    return 0;
}

static int check_flags(struct vv_manifest_reader *reader, uint8_t flags, struct varve_error *error) {
    if (flags & ~(VV_REGION_DESCRIBED | VV_REGION_REMOVED))
        return fail(reader, error, VARVE_UNKNOWN_FORMAT, "flags are %#x, this program knows %#x", flags,
                    VV_REGION_DESCRIBED | VV_REGION_REMOVED);
    if (flags == (VV_REGION_DESCRIBED | VV_REGION_REMOVED))
        return fail(reader, error, VARVE_CORRUPT, "region is both described and removed");
    if (reader->head.lower_count == 0 && flags != VV_REGION_DESCRIBED)
        return fail(reader, error, VARVE_CORRUPT, "flags are %#x, in a base every region is described", flags);
    return 0;
}

/* The region must lie below the layout's end unless it is empty; without an address, at least its length must fit. */
static int check_extent(struct vv_manifest_reader *reader, struct varve_error *error) {
    uint64_t end = reader->head.layout_bytes;
    if (reader->length == 0)
        return 0;
    if (reader->length > end || reader->address > end - reader->length)
        return fail(reader, error, VARVE_CORRUPT,
                    "region has %" PRIu64 " bytes at address %" PRIu64 ", the layout %" PRIu64, reader->length,
                    reader->address, end);
    return 0;
}

/* Count the region's bytes. Only in a base are all regions seen. */
static int add_length(struct vv_manifest_reader *reader, struct varve_error *error) {
    int rc = check_extent(reader, error);
    if (rc < 0 || reader->head.lower_count > 0)
        return rc;
    if (reader->length > reader->head.protected_bytes - reader->protected_bytes)
        return fail(reader, error, VARVE_CORRUPT, "regions have more than the %" PRIu64 " bytes the head says",
                    reader->head.protected_bytes);
    reader->protected_bytes += reader->length;
    return 0;
}

static int take_description(struct vv_manifest_reader *reader, struct vv_region_entry *out, struct varve_error *error) {
    int rc = take_name(reader, out->name, error);
    if (rc < 0)
        return rc;
    uint64_t granule = take_varint(reader);
    if (granule >= VV_LENGTH_END / VV_GRANULE)
        return fail(reader, error, VARVE_CORRUPT, "address is %" PRIu64 " granules, must be below 2^62 bytes", granule);
    out->address = granule * VV_GRANULE;
    if ((rc = take_shape(reader, &out->shape, error)) < 0)
        return rc;
    reader->address = out->address;
    reader->has_address = 1;
    return 0;
}

static int take_entry(struct vv_manifest_reader *reader, struct vv_region_entry *out, struct varve_error *error) {
    int rc;
    uint64_t step = take_varint(reader);
    if (reader->next_number > UINT32_MAX || step > UINT32_MAX - reader->next_number)
        return fail(reader, error, VARVE_CORRUPT, "region number is %" PRIu64 " above %" PRIu64 ", must be below 2^32",
                    step, reader->next_number);
    out->number = reader->number = reader->next_number + step;
    out->flags = *reader->at++;
    reader->next_number = out->number + 1;
    reader->entries++;
    reader->is_open = 1;
    reader->has_address = 0;
    reader->address = reader->offset = reader->length = 0;
    if ((rc = check_item(reader, error)) < 0 || (rc = check_flags(reader, out->flags, error)) < 0)
        return rc;
    if (out->flags & VV_REGION_REMOVED) {
        reader->is_open = 0;
        return 0;
    }
    out->length = reader->length = take_varint(reader);
    if ((out->flags & VV_REGION_DESCRIBED) && (rc = take_description(reader, out, error)) < 0)
        return rc;
    if ((rc = check_item(reader, error)) < 0)
        return rc;
    return add_length(reader, error);
}

static int check_end(struct vv_manifest_reader *reader, struct varve_error *error) {
    uint64_t at = reader->fetched - (uint64_t)(reader->end - reader->at);
    if (at != reader->section_length)
        return fail(reader, error, VARVE_CORRUPT, "%" PRIu64 " bytes are left over", reader->section_length - at);
    if (reader->runs != reader->head.runs)
        return fail(reader, error, VARVE_CORRUPT, "runs are %" PRIu64 ", the head says %" PRIu64, reader->runs,
                    reader->head.runs);
    if (reader->head.lower_count == 0 && reader->protected_bytes != reader->head.protected_bytes)
        return fail(reader, error, VARVE_CORRUPT, "regions have %" PRIu64 " bytes, the head says %" PRIu64,
                    reader->protected_bytes, reader->head.protected_bytes);
    return 0;
}

int vv_manifest_next_region(struct vv_manifest_reader *reader, struct vv_region_entry *out, struct varve_error *error) {
    struct vv_run run;
    struct vv_hash128 digest;
    int rc = reader->code;
    if (rc < 0)
        return vv_error_default(error, rc, "manifest of owner %u could not be read", reader->head.owner);
    while (reader->is_open)
        if ((rc = vv_manifest_next_run(reader, &run, &digest, error)) < 0)
            return rc;
    if (reader->entries == reader->head.entries)
        return check_end(reader, error);
    if ((rc = prepare(reader, error)) < 0)
        return rc;
    memset(out, 0, sizeof *out);
    rc = take_entry(reader, out, error);
    return rc < 0 ? rc : 1;
}

void vv_manifest_set_address(struct vv_manifest_reader *reader, uint64_t address) {
    assert(!reader->is_open || reader->offset == 0);
    reader->address = address;
    reader->has_address = 1;
}

/* One place, whose bytes are `length` long. When runs are only skipped the region's address may be unknown. */
static int take_place(struct vv_manifest_reader *reader, uint64_t length, struct vv_place *out,
                      struct varve_error *error) {
    uint64_t dependency = take_varint(reader);
    int64_t owner_step = take_svarint(reader);
    int64_t address_step = take_svarint(reader);
    int64_t owner, address;
    if (dependency > reader->dependency_count)
        return fail(reader, error, VARVE_CORRUPT, "lean index is %" PRIu64 ", the pack has %u", dependency,
                    reader->dependency_count);
    if (__builtin_add_overflow((int64_t)reader->head.owner, owner_step, &owner) || owner < 0 || owner >= VV_COUNT_MAX)
        return fail(reader, error, VARVE_CORRUPT, "owner of a place is %" PRId64 " away, must be 0 to 2^31 - 2",
                    owner_step);
    if (__builtin_add_overflow((int64_t)(reader->address + reader->offset), address_step, &address) ||
        (reader->has_address && (address < 0 || (uint64_t)address > VV_ADDRESS_END - length)))
        return fail(reader, error, VARVE_CORRUPT,
                    "place of %" PRIu64 " bytes is %" PRId64 " from address %" PRIu64 ", outside of 0 to 2^62", length,
                    address_step, reader->address + reader->offset);
    out->dependency = (uint32_t)dependency;
    out->owner = (uint32_t)owner;
    out->address = (uint64_t)address;
    out->copy = 0;
    return 0;
}

static int take_any(struct vv_manifest_reader *reader, struct vv_run *out, struct varve_error *error) {
    uint64_t count = take_varint(reader);
    if (count < 2 || count > VV_PLACES_MAX)
        return fail(reader, error, VARVE_CORRUPT, "number of places is %" PRIu64 ", must be 2 to %d", count,
                    VV_PLACES_MAX);
    for (uint64_t i = 0; i < count; i++) {
        int rc = take_place(reader, out->length, &out->places[i], error);
        if (rc < 0)
            return rc;
        uint64_t copy = take_varint(reader);
        if (copy > VV_PARTNERS_MAX)
            return fail(reader, error, VARVE_CORRUPT, "copy is %" PRIu64 ", must be at most %d", copy, VV_PARTNERS_MAX);
        out->places[i].copy = (uint32_t)copy;
    }
    out->place_count = (uint32_t)count;
    return 0;
}

static int take_repeated(struct vv_manifest_reader *reader, struct vv_run *out, struct varve_error *error) {
    out->piece = take_varint(reader);
    if (out->piece < 1 || out->piece > out->length || out->piece > UINT32_MAX)
        return fail(reader, error, VARVE_CORRUPT, "piece has %" PRIu64 " bytes, must have 1 to %" PRIu64, out->piece,
                    out->length);
    out->place_count = 1;
    return take_place(reader, out->piece, &out->places[0], error);
}

/* What follows the run's first number, by kind. */
static inline int take_run_rest(struct vv_manifest_reader *reader, struct vv_run *out, struct varve_error *error) {
    out->piece = 0;
    out->place_count = 0;
    switch (out->kind) {
    case VV_RUN_HERE:
        out->place_count = 1;
        out->places[0] = (struct vv_place){.owner = reader->head.owner, .address = reader->address + reader->offset};
        return 0;
    case VV_RUN_FROM:
        out->place_count = 1;
        return take_place(reader, out->length, &out->places[0], error);
    case VV_RUN_FROM_ANY:
        return take_any(reader, out, error);
    case VV_RUN_ZERO:
        return 0;
    case VV_RUN_REPEATED:
        return take_repeated(reader, out, error);
    case VV_RUN_KEEP:
        if (reader->head.lower_count == 0)
            return fail(reader, error, VARVE_CORRUPT, "run of kind keep in a base");
        return 0;
    default:
        return fail(reader, error, VARVE_UNKNOWN_FORMAT, "run kind is %d, which is not known", out->kind);
    }
}

static int end_region(struct vv_manifest_reader *reader, struct vv_hash128 *digest_out, struct varve_error *error) {
    int rc;
    if (reader->offset != reader->length)
        return fail(reader, error, VARVE_CORRUPT, "runs end here, the region has %" PRIu64 " bytes", reader->length);
    *digest_out = vv_hash128_get(reader->at);
    reader->at += 16;
    if ((rc = check_item(reader, error)) < 0)
        return rc;
    reader->is_open = 0;
    return 0;
}

int vv_manifest_next_run(struct vv_manifest_reader *reader, struct vv_run *out, struct vv_hash128 *digest_out,
                         struct varve_error *error) {
    int rc = reader->code;
    if (rc < 0)
        return vv_error_default(error, rc, "manifest of owner %u could not be read", reader->head.owner);
    if (!reader->is_open) {
        *digest_out = (struct vv_hash128){0, 0};
        return 0;
    }
    if (reader->offset == 0 && (rc = check_extent(reader, error)) < 0)
        return rc;
    if ((rc = prepare(reader, error)) < 0)
        return rc;
    uint64_t first = take_varint(reader);
    if (first == 0 && !reader->has_bad_varint)
        return end_region(reader, digest_out, error);
    out->kind = (int)(first & 7);
    out->length = first >> 3;
    out->offset = reader->offset;
    if (out->kind == VV_RUN_END || out->length == 0 || out->length > reader->length - reader->offset)
        return fail(reader, error, VARVE_CORRUPT, "run of kind %d and %" PRIu64 " bytes, %" PRIu64 " are left",
                    out->kind, out->length, reader->length - reader->offset);
    if ((rc = take_run_rest(reader, out, error)) < 0 || (rc = check_item(reader, error)) < 0)
        return rc;
    if (reader->runs == reader->head.runs)
        return fail(reader, error, VARVE_CORRUPT, "more runs than the %" PRIu64 " the head says", reader->head.runs);
    reader->runs++;
    reader->offset += out->length;
    return 1;
}
