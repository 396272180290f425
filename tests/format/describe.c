/* What a golden file holds, as text: every object is parsed the way the library does it. */
#include "golden.h"
#include "samples.h"

#include "arrays/array_index.h"
#include "base/alloc.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS_MAX 16

static void print_settings(FILE *out, const struct vv_settings_store *s) {
    fprintf(out, "settings: id kind %u, granule 2^%u, layout %u, seed %016" PRIx64 ", made %" PRIu64 "\n", s->id_kind,
            s->granule_log2, s->layout, s->seed, s->created_ns);
}

static void print_hash(FILE *out, const char *what, struct vv_hash128 hash) {
    fprintf(out, "%s: %016" PRIx64 "%016" PRIx64 "\n", what, hash.high, hash.low);
}

static void print_attempt(FILE *out, const char *what, const struct vv_attempt *a) {
    fprintf(out, "%s: generation %u, version %" PRIu64 ", attempt %u\n", what, a->generation, a->version, a->attempt);
}

static void print_dependencies(FILE *out, const struct vv_dependency *dependencies, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        print_attempt(out, "lean", &dependencies[i].attempt);
        print_hash(out, "  writers", dependencies[i].writers_digest);
    }
}

static void print_id(FILE *out, const char *what, const uint8_t id[16]) {
    fprintf(out, "%s: ", what);
    for (int i = 0; i < 16; i++)
        fprintf(out, "%02x", id[i]);
    fprintf(out, "\n");
}

static int describe_store(FILE *out, const uint8_t *data, size_t size, struct varve_error *error) {
    struct vv_store_object store;
    int rc = vv_store_object_parse(data, size, &store, error);
    if (rc < 0)
        return rc;
    print_id(out, "store", store.store_id);
    print_settings(out, &store.settings);
    return 0;
}

static int describe_claim(FILE *out, const uint8_t *data, size_t size, struct varve_error *error) {
    struct vv_key key = sample_key(VV_KIND_CLAIM);
    struct vv_claim c;
    int rc = vv_claim_parse(data, size, &key, sample_store_id, &c, error);
    if (rc < 0)
        return rc;
    print_settings(out, &c.settings);
    print_id(out, "session", c.session_id);
    print_id(out, "boot", c.boot_id);
    fprintf(out, "time %" PRIu64 ", namespace %" PRIu64 ", start %" PRIu64 ", pid %u, ranks %u, beat %u s, dead %u s\n",
            c.time_ns, c.pid_namespace, c.pid_start, c.pid, c.ranks, c.beat_seconds, c.dead_seconds);
    fprintf(out, "host \"%s\", program \"%s\"\n", c.host, c.program);
    return 0;
}

static int describe_heartbeat(FILE *out, const uint8_t *data, size_t size, struct varve_error *error) {
    struct vv_key key = sample_key(VV_KIND_HEARTBEAT);
    struct vv_heartbeat heartbeat;
    int rc = vv_heartbeat_parse(data, size, &key, sample_store_id, &heartbeat, error);
    if (rc < 0)
        return rc;
    print_id(out, "session", heartbeat.session_id);
    fprintf(out, "counter %" PRIu64 ", time %" PRIu64 ", state %u\n", heartbeat.counter, heartbeat.time_ns,
            heartbeat.state);
    print_attempt(out, "refers to", &heartbeat.refers);
    return 0;
}

static int describe_writers(FILE *out, const uint8_t *data, size_t size, struct varve_error *error) {
    struct vv_key key = sample_key(VV_KIND_WRITERS);
    struct vv_writers writers;
    int rc = vv_writers_parse(data, size, &key, sample_store_id, &writers, error);
    if (rc < 0)
        return rc;
    fprintf(out, "%u writers, %u ranks\n", writers.count, writers.ranks);
    for (uint32_t i = 0; i < writers.count; i++) {
        const struct vv_writer *w = &writers.list[i];
        fprintf(out, "writer: %u owners from %u, %u parts of %" PRIu64 ", pack of %" PRIu64 ", %u partners %u %u %u\n",
                w->owners, w->first_owner, w->parts, w->parts_length, w->pack_length, w->partner_count, w->partners[0],
                w->partners[1], w->partners[2]);
        print_hash(out, "  footer", w->footer_digest);
    }
    vv_writers_clear(&writers);
    return 0;
}

static int describe_record(FILE *out, const uint8_t *data, size_t size, struct varve_error *error) {
    struct vv_key key = sample_key(VV_KIND_RECORD);
    struct vv_record r;
    int rc = vv_record_parse(data, size, &key, sample_store_id, &r, error);
    if (rc < 0)
        return rc;
    print_settings(out, &r.settings);
    fprintf(out, "attempt %u, time %" PRIu64 ", ranks %u, writers %u of %" PRIu64 " bytes\n", r.attempt, r.time_ns,
            r.ranks, r.writers, r.writers_length);
    print_hash(out, "writers", r.writers_digest);
    print_attempt(out, "parent", &r.parent);
    fprintf(out,
            "protected %" PRIu64 ", raw %" PRIu64 ", stored %" PRIu64 ", metadata %" PRIu64 ", regions %" PRIu64 "\n",
            r.protected_bytes, r.raw_bytes, r.stored_bytes, r.metadata_bytes, r.regions);
    print_dependencies(out, r.dependencies, r.dependency_count);
    fprintf(out, "program \"%s\"\n", r.program);
    vv_record_clear(&r);
    return 0;
}

static int describe_tombstone(FILE *out, const uint8_t *data, size_t size, struct varve_error *error) {
    struct vv_key key = sample_key(VV_KIND_PACK);
    struct vv_tombstone tombstone;
    int rc = vv_tombstone_parse(data, size, &key, sample_store_id, &tombstone, error);
    if (rc < 0)
        return rc;
    fprintf(out, "reason %u, time %" PRIu64 ", \"%s\"\n", tombstone.reason, tombstone.time_ns, tombstone.text);
    return 0;
}

static int describe_pin(FILE *out, const uint8_t *data, size_t size, struct varve_error *error) {
    struct vv_key key = sample_key(VV_KIND_PIN);
    struct vv_pin pin;
    int rc = vv_pin_parse(data, size, &key, sample_store_id, &pin, error);
    if (rc < 0)
        return rc;
    fprintf(out, "time %" PRIu64 ", host \"%s\", reason \"%s\"\n", pin.time_ns, pin.host, pin.reason);
    return 0;
}

static int describe_trigger(FILE *out, const uint8_t *data, size_t size, struct varve_error *error) {
    struct vv_key key = sample_key(VV_KIND_TRIGGER);
    struct vv_trigger trigger;
    int rc = vv_trigger_parse(data, size, &key, sample_store_id, &trigger, error);
    if (rc < 0)
        return rc;
    fprintf(out, "wish %u, time %" PRIu64 ", host \"%s\"\n", trigger.wish, trigger.time_ns, trigger.host);
    return 0;
}

static int describe_job_log(FILE *out, const uint8_t *data, size_t size, struct varve_error *error) {
    struct vv_key key = sample_key(VV_KIND_LOG);
    const char *text;
    size_t length;
    int rc = vv_job_log_parse(data, size, &key, sample_store_id, &text, &length, error);
    if (rc < 0)
        return rc;
    fwrite(text, 1, length, out);
    return 0;
}

static int describe_catalogue(FILE *out, const uint8_t *data, size_t size, struct varve_error *error) {
    struct vv_key key = sample_key(VV_KIND_CATALOGUE);
    struct vv_catalogue catalogue;
    int rc = vv_catalogue_parse(data, size, &key, sample_store_id, &catalogue, error);
    if (rc < 0)
        return rc;
    for (uint64_t i = 0; i < catalogue.count; i++) {
        const struct vv_catalogue_entry *e = &catalogue.list[i];
        print_attempt(out, e->is_tombstone ? "tombstone" : "record", &e->attempt);
        fprintf(out,
                "  time %" PRIu64 ", protected %" PRIu64 ", stored %" PRIu64 ", metadata %" PRIu64 ", regions %" PRIu64
                ", ranks %u\n",
                e->time_ns, e->protected_bytes, e->stored_bytes, e->metadata_bytes, e->regions, e->ranks);
    }
    vv_catalogue_clear(&catalogue);
    return 0;
}

static int describe_part(FILE *out, const uint8_t *data, size_t size, struct varve_error *error) {
    struct vv_key key = sample_key(VV_KIND_PART);
    struct vv_head head;
    int rc = vv_head_parse(data, size, &key, sample_store_id, &head, error);
    if (rc < 0)
        return rc;
    fprintf(out, "writer %u, part %u, %zu bytes, sum %016" PRIx64 "\n", head.writer, head.part, size - VV_HEAD_SIZE,
            vv_sum64(data + VV_HEAD_SIZE, size - VV_HEAD_SIZE));
    return 0;
}

/* A section in memory, for vv_manifest_open. */
struct span {
    const uint8_t *data;
    size_t size;
};

static int64_t fill_from_span(void *arg, uint64_t offset, void *data, size_t size) {
    const struct span *span = arg;
    size_t left = span->size - offset;
    size = size < left ? size : left;
    memcpy(data, span->data + offset, size);
    return (int64_t)size;
}

static void print_run(FILE *out, const struct vv_run *run) {
    static const char *const kinds[] = {"end", "here", "from", "from any", "zero", "repeated", "keep"};
    fprintf(out, "    %" PRIu64 " + %" PRIu64 " %s", run->offset, run->length, kinds[run->kind]);
    if (run->kind == VV_RUN_REPEATED)
        fprintf(out, " piece %" PRIu64, run->piece);
    for (uint32_t i = 0; i < run->place_count; i++)
        fprintf(out, " (lean %u, owner %u, address %" PRIu64 ", copy %u)", run->places[i].dependency,
                run->places[i].owner, run->places[i].address, run->places[i].copy);
    fprintf(out, "\n");
}

static void print_region(FILE *out, const struct vv_region_entry *entry) {
    const struct vv_region_shape *shape = &entry->shape;
    fprintf(out, "  region %" PRIu64 ", flags %u, length %" PRIu64, entry->number, entry->flags, entry->length);
    if (entry->flags & VV_REGION_DESCRIBED)
        fprintf(out, ", \"%s\" at %" PRIu64 ", type %u", entry->name, entry->address, shape->type);
    for (int i = 0; i < shape->dims; i++)
        fprintf(out, ", dim %" PRIu64 " %" PRIu64 " %" PRIu64, shape->dim[i].global, shape->dim[i].first,
                shape->dim[i].local);
    for (int i = 0; i < shape->dims; i++)
        if (shape->dim[i].stride.block)
            fprintf(out, ", stride %d: %" PRIu64 " of %" PRIu64, i, shape->dim[i].stride.block,
                    shape->dim[i].stride.every);
    if (shape->distribution)
        fprintf(out, ", distribution %u", shape->distribution);
    if (shape->is_lossy)
        fprintf(out, ", bound %a", shape->bound);
    fprintf(out, "\n");
}

static int describe_regions(FILE *out, struct vv_manifest_reader *reader, struct varve_error *error) {
    struct vv_region_entry entry;
    struct vv_run run;
    struct vv_hash128 digest;
    int rc, more;
    while ((rc = vv_manifest_next_region(reader, &entry, error)) > 0) {
        print_region(out, &entry);
        if (entry.flags & VV_REGION_REMOVED)
            continue;
        if (!(entry.flags & VV_REGION_DESCRIBED))
            vv_manifest_set_address(reader, 8192);
        while ((more = vv_manifest_next_run(reader, &run, &digest, error)) > 0)
            print_run(out, &run);
        if (more < 0)
            return more;
        print_hash(out, "    digest", digest);
    }
    return rc;
}

static int describe_section(FILE *out, const uint8_t *data, size_t size, uint32_t owner, struct varve_error *error) {
    struct span span = {data, size};
    struct vv_manifest_reader *reader = NULL;
    int rc = vv_manifest_open(fill_from_span, &span, size, owner, SAMPLE_DEPENDENCIES, &reader, error);
    if (rc < 0)
        return rc;
    const struct vv_manifest_head *head = vv_manifest_head(reader);
    fprintf(out,
            "manifest of %u: %u lower, %" PRIu64 " regions, protected %" PRIu64 ", layout %" PRIu64 ", %" PRIu64
            " entries, %" PRIu64 " runs\n",
            head->owner, head->lower_count, head->regions, head->protected_bytes, head->layout_bytes, head->entries,
            head->runs);
    for (uint32_t i = 0; i < head->lower_count; i++) {
        fprintf(out, "  lower: lean %u, writer %u\n", head->lower[i].dependency, head->lower[i].writer);
        print_hash(out, "    digest", head->lower[i].digest);
    }
    rc = describe_regions(out, reader, error);
    vv_manifest_close(reader);
    return rc;
}

static int describe_manifest(FILE *out, const uint8_t *data, size_t size, struct varve_error *error) {
    return describe_section(out, data, size, 4, error);
}

static int describe_overlay(FILE *out, const uint8_t *data, size_t size, struct varve_error *error) {
    return describe_section(out, data, size, 5, error);
}

static int describe_attributes(FILE *out, const uint8_t *data, size_t size, struct varve_error *error) {
    struct vv_attribute_reader reader = {(const char *)data, size};
    struct vv_attribute attribute;
    int rc;
    while ((rc = vv_attribute_next(&reader, &attribute)) > 0)
        fprintf(out, "attribute \"%s\": \"%s\"\n", attribute.name, attribute.value);
    return rc ? vv_error(error, rc, "half of an attribute is left") : 0;
}

/* ---- the index of arrays ---- */

static int fill_index(void *arg, uint64_t offset, void *data, size_t size, struct varve_error *error) {
    const struct span *span = arg;
    if (offset > span->size || size > span->size - offset)
        return vv_error(error, VARVE_CORRUPT, "the index ends early");
    memcpy(data, span->data + offset, size);
    return 0;
}

static int print_owner(void *arg, uint32_t owner, const struct vv_part *part) {
    FILE *out = arg;
    fprintf(out, "  owner %u:", owner);
    for (unsigned i = 0; i < part->dims; i++)
        fprintf(out, " %" PRIu64 " from %" PRIu64 " in %" PRIu64 "/%" PRIu64, part->dim[i].local, part->dim[i].first,
                part->dim[i].block, part->dim[i].every);
    fprintf(out, "\n");
    return 0;
}

/* All owners of it. */
static int describe_array(FILE *out, const struct vv_index *index, const char *name, int is_list,
                          const struct vv_part *whole, struct varve_error *error) {
    uint64_t elements = 0;
    int found = vv_index_elements(index, name, &elements);
    fprintf(out, "array %s: %" PRIu64 " elements\n", name, elements);
    int rc = vv_index_owners(index, name, is_list, whole, print_owner, out, error);
    return rc < 0 ? rc : found && rc ? 0 : vv_error(error, VARVE_CORRUPT, "there is no array %s", name);
}

static int describe_arrays(FILE *out, const uint8_t *data, size_t size, struct varve_error *error) {
    static const struct {
        const char *name;
        int is_list;
        struct vv_part whole;
    } arrays[] = {
        {"tiles", 0, {8, 2, {{11, 0, 11, 11}, {12, 0, 12, 12}}}},
        {"dealt", 0, {4, 1, {{36, 0, 36, 36}}}},
        {"list", 1, {8, 1, {{30, 0, 30, 30}}}},
        {"uneven", 0, {4, 2, {{6, 0, 6, 6}, {10, 0, 10, 10}}}},
    };
    struct span span = {data, size};
    struct vv_index index;
    int rc = vv_index_open(&index, fill_index, &span, size, SAMPLE_RANKS, error);
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays && rc == 0; i++)
        rc = describe_array(out, &index, arrays[i].name, arrays[i].is_list, &arrays[i].whole, error);
    vv_index_close(&index);
    return rc;
}

/* A pack in memory. Of a copy the first `shift` bytes are not there. */
struct pack_view {
    const uint8_t *data;
    uint64_t shift;
    const struct vv_footer *footer;
};

static const uint8_t *section_bytes(const struct pack_view *pack, const struct vv_section *section) {
    return pack->data + (section->offset - pack->shift);
}

static int describe_blocks(FILE *out, const struct pack_view *pack, struct varve_error *error) {
    const struct vv_footer *footer = pack->footer;
    const struct vv_section *section = vv_footer_section(footer, VV_SECTION_BLOCKS, 0);
    const struct vv_section *extents = vv_footer_section(footer, VV_SECTION_EXTENTS, 0);
    struct vv_block blocks[BLOCKS_MAX];
    uint64_t count = section->length / VV_BLOCK_ENTRY_SIZE;
    int rc;
    for (uint64_t i = 0; i < count && i < BLOCKS_MAX; i++) {
        struct vv_block *b = &blocks[i];
        if ((rc = vv_block_parse(section_bytes(pack, section) + i * VV_BLOCK_ENTRY_SIZE, b, error)) < 0)
            return rc;
        fprintf(out,
                "block: part %u at %" PRIu64 ", codec %u, stored %u, raw %u, sum %016" PRIx64 ", %u extents at %" PRIu64
                ", flags %u, first id %" PRIu64 ", owner %u\n",
                b->part, b->offset, b->codec, b->stored, b->raw, b->sum, b->extent_count, b->extents_offset, b->flags,
                b->first_id, b->owner);
        if (b->element)
            fprintf(out, "  filters %u and %u, elements of %u\n", b->filter[0], b->filter[1], b->element);
    }
    rc = vv_tables_check(footer, blocks, count, section_bytes(pack, extents), extents->length, error);
    if (rc < 0)
        return rc;
    struct vv_cursor cursor;
    struct vv_extent e;
    vv_cursor_init(&cursor, section_bytes(pack, extents), extents->length);
    for (uint64_t i = 0; i < count; i++) {
        struct vv_extent_coder coder = {.owner = blocks[i].owner};
        for (uint32_t j = 0; j < blocks[i].extent_count && vv_extent_decode(&cursor, &coder, &e, error) == 0; j++)
            fprintf(out, "  extent of block %" PRIu64 ": owner %u, address %" PRIu64 ", length %u\n", i, e.owner,
                    e.address, e.length);
    }
    return 0;
}

static int describe_moved(FILE *out, const struct pack_view *pack, struct varve_error *error) {
    const struct vv_footer *footer = pack->footer;
    const struct vv_section *section = vv_footer_section(footer, VV_SECTION_MOVED, 0);
    struct vv_extent_coder coder = {.owner = footer->first_owner};
    struct vv_cursor cursor;
    struct vv_moved m;
    if (!section)
        return 0;
    vv_cursor_init(&cursor, section_bytes(pack, section), section->length);
    while (vv_cursor_left(&cursor) > 0) {
        int rc = vv_moved_decode(&cursor, &coder, &m, error);
        if (rc < 0)
            return rc;
        fprintf(out, "moved: owner %u, address %" PRIu64 ", length %" PRIu64 " to writer %u\n", m.extent.owner,
                m.extent.address, m.length, m.writer);
    }
    return 0;
}

static int describe_ranges(FILE *out, const struct pack_view *pack, struct varve_error *error) {
    const struct vv_section *section = vv_footer_section(pack->footer, VV_SECTION_RANGES, 0);
    const struct vv_section *blocks = vv_footer_section(pack->footer, VV_SECTION_BLOCKS, 0);
    uint64_t count = blocks->length / VV_BLOCK_ENTRY_SIZE;
    struct vv_range ranges[BLOCKS_MAX];
    if (!section || count > BLOCKS_MAX)
        return 0;
    int rc = vv_ranges_parse(section_bytes(pack, section), section->length, count, ranges, error);
    for (uint64_t i = 0; i < count && rc == 0; i++) {
        if (ranges[i].type)
            fprintf(out, "range of block %" PRIu64 ": type %u, flags %u, %016" PRIx64 " to %016" PRIx64 "\n", i,
                    ranges[i].type, ranges[i].flags, ranges[i].low, ranges[i].high);
    }
    return rc;
}

static void print_footer(FILE *out, const struct vv_footer *f) {
    print_settings(out, &f->settings);
    fprintf(out, "%u writers, %u ranks, %u owners from %u, %u partners %u %u %u\n", f->writers, f->ranks, f->owners,
            f->first_owner, f->partner_count, f->partners[0], f->partners[1], f->partners[2]);
    print_attempt(out, "parent", &f->parent);
    fprintf(out, "time %" PRIu64 ", protected %" PRIu64 ", raw %" PRIu64 ", stored %" PRIu64 ", regions %" PRIu64 "\n",
            f->time_ns, f->protected_bytes, f->raw_bytes, f->stored_bytes, f->regions);
    fprintf(out, "name \"%s\", program \"%s\"\n", f->name, f->program);
    for (uint32_t i = 0; i < f->parts; i++)
        fprintf(out, "part of %" PRIu64 "\n", f->part_lengths[i]);
    print_dependencies(out, f->dependencies, f->dependency_count);
    for (uint32_t i = 0; i < f->section_count; i++)
        fprintf(out, "section: kind %u, owner %u, %" PRIu64 " + %" PRIu64 "\n", f->sections[i].kind,
                f->sections[i].owner, f->sections[i].offset, f->sections[i].length);
}

static int describe_inside(FILE *out, const struct pack_view *pack, struct varve_error *error) {
    const struct vv_footer *footer = pack->footer;
    int rc;
    for (uint32_t i = 0; i < footer->section_count; i++) {
        const struct vv_section *s = &footer->sections[i];
        if (!vv_hash128_equal(s->digest, vv_digest(section_bytes(pack, s), s->length)))
            return vv_error(error, VARVE_CORRUPT, "digest of section %u does not match", i);
    }
    if ((rc = describe_blocks(out, pack, error)) < 0 || (rc = describe_moved(out, pack, error)) < 0 ||
        (rc = describe_ranges(out, pack, error)) < 0)
        return rc;
    for (uint32_t i = 0; i < footer->owners; i++) {
        const struct vv_section *s = vv_footer_section(footer, VV_SECTION_MANIFEST, footer->first_owner + i);
        if ((rc = describe_section(out, section_bytes(pack, s), s->length, s->owner, error)) < 0)
            return rc;
    }
    return 0;
}

static int describe_tables(FILE *out, const uint8_t *data, size_t size, uint64_t shift, struct varve_error *error) {
    struct vv_footer footer;
    struct vv_hash128 digest;
    uint64_t offset;
    uint32_t length;
    int rc = vv_end_parse(data + size - VV_END_SIZE, size + shift, &offset, &length, &digest, error);
    if (rc < 0 || (rc = vv_footer_parse(data + offset - shift, length, offset, digest, &footer, error)) < 0)
        return rc;
    fprintf(out, "footer at %" PRIu64 " of %u bytes\n", offset, length);
    print_footer(out, &footer);
    rc = describe_inside(out, &(struct pack_view){data, shift, &footer}, error);
    vv_footer_clear(&footer);
    return rc;
}

static int describe_pack(FILE *out, const uint8_t *data, size_t size, struct varve_error *error) {
    struct vv_key key = sample_key(VV_KIND_PACK);
    int rc = vv_head_parse(data, size, &key, sample_store_id, NULL, error);
    if (rc == 0 && size < VV_HEAD_SIZE + VV_END_SIZE)
        rc = vv_error(error, VARVE_CORRUPT, "has no end");
    return rc < 0 ? rc : describe_tables(out, data, size, 0, error);
}

static int describe_copy(FILE *out, const uint8_t *data, size_t size, struct varve_error *error) {
    struct vv_key key = sample_key(VV_KIND_COPY);
    int rc = vv_head_parse(data, size, &key, sample_store_id, NULL, error);
    if (rc < 0)
        return rc;
    if (size < VV_HEAD_SIZE + VV_END_SIZE)
        return vv_error(error, VARVE_CORRUPT, "has no end");
    const uint8_t *end = data + size - VV_END_SIZE;
    uint64_t pack_length = vv_get64(end) + vv_get32(end + 8) + VV_END_SIZE;
    if (pack_length < size)
        return vv_error(error, VARVE_CORRUPT, "is longer than its pack");
    return describe_tables(out, data, size, pack_length - size, error);
}

static int describe_parity(FILE *out, const uint8_t *data, size_t size, struct varve_error *error) {
    struct vv_key key = sample_key(VV_KIND_PARITY);
    struct vv_parity parity;
    struct vv_hash128 digest;
    uint64_t offset;
    uint32_t length;
    int rc = vv_head_parse(data, size, &key, sample_store_id, NULL, error);
    if (rc == 0 && size < VV_HEAD_SIZE + VV_PARITY_END_SIZE)
        rc = vv_error(error, VARVE_CORRUPT, "has no end");
    if (rc == 0)
        rc = vv_parity_end_parse(data + size - VV_PARITY_END_SIZE, size, &offset, &length, &digest, error);
    if (rc == 0)
        rc = vv_parity_parse(data + offset, length, offset, digest, &parity, error);
    if (rc < 0)
        return rc;
    fprintf(out, "table at %" PRIu64 " of %u bytes: %u+%u, member %u\n", offset, length, parity.data, parity.parity,
            parity.member);
    for (uint32_t i = 0; i < parity.parity; i++)
        fprintf(out, "parity %u at %" PRIu64 " of %" PRIu64 " bytes, sums at %" PRIu64 "\n", i,
                vv_parity_offset(&parity, i), vv_parity_row_length(&parity, vv_parity_row(&parity, parity.member, i)),
                vv_parity_sums_at(&parity, i));
    for (uint32_t i = 0; i < parity.count; i++)
        fprintf(out, "member %u: writer %u, %s %u of %" PRIu64 " bytes\n", parity.list[i].member, parity.list[i].writer,
                parity.list[i].is_pack ? "pack behind parts:" : "part", parity.list[i].part, parity.list[i].length);
    vv_parity_clear(&parity);
    return 0;
}

static const struct {
    const char *kind;
    int (*describe)(FILE *out, const uint8_t *data, size_t size, struct varve_error *error);
} kinds[] = {
    {"store", describe_store},         {"claim", describe_claim},
    {"beat", describe_heartbeat},      {"writers", describe_writers},
    {"record", describe_record},       {"tombstone", describe_tombstone},
    {"catalogue", describe_catalogue}, {"part", describe_part},
    {"pack", describe_pack},           {"pin", describe_pin},
    {"trigger", describe_trigger},     {"log", describe_job_log},
    {"copy", describe_copy},           {"manifest", describe_manifest},
    {"overlay", describe_overlay},     {"attributes", describe_attributes},
    {"arrays", describe_arrays},       {"parity", describe_parity},
};

int golden_describe(FILE *out, const char *name, const uint8_t *data, size_t size) {
    struct varve_error error = {0};
    const char *kind = strchr(name, '-') + 1;
    size_t length = strcspn(kind, "-.");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strlen(kinds[i].kind) != length || memcmp(kinds[i].kind, kind, length) != 0)
            continue;
        int rc = kinds[i].describe(out, data, size, &error);
        if (rc < 0)
            fprintf(out, "%s: %s\n", varve_error_name(rc), error.text);
        return rc;
    }
    fprintf(out, "not a golden file's name\n");
    return -1;
}

static int is_golden(const struct dirent *entry) {
    size_t size = strlen(entry->d_name);
    return size > 8 && strcmp(entry->d_name + size - 4, ".bin") == 0 && strchr(entry->d_name, '-') != NULL;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void list_file(FILE *out, const char *folder, const char *name) {
    static uint8_t data[1 << 16];
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    fprintf(out, "== %s\n", name);
    if (!file)
        return;
    size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    /* An exact copy, so that a sanitizer sees a read past the end. */
    uint8_t *copy = vv_malloc(size ? size : 1);
    if (copy) {
        memcpy(copy, data, size);
        golden_describe(out, name, copy, size);
    }
    vv_free(copy);
}

int golden_list(FILE *out, const char *folder) {
    struct dirent **names;
    int count = scandir(folder, &names, is_golden, by_name);
    for (int i = 0; i < count; i++) {
        list_file(out, folder, names[i]->d_name);
        free(names[i]);
    }
    if (count >= 0)
        free(names);
    return count;
}
