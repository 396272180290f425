/* A pack is written as two streams: the pack object, begun first and finished last, and behind it one part at a
 * time. The pack object takes blocks until it would pass part_size; everything after that goes to parts 0, 1, ...,
 * each durable before the next is begun. Nobody has to know beforehand how much will come. Because the tables list
 * parts before the pack object, the blocks of the two streams are kept in two tables that are joined when the tables
 * are written: after the last block and before the first manifest.
 *
 * After a failure every call returns the same error; seal and abort free the writer. */
#include "store/pack_writer.h"
#include "base/alloc.h"
#include "base/fault.h"
#include "base/thread.h"

#include <errno.h>
#include <stdio.h>

#define EMIT_CHUNK 1024 /* blocks encoded at a time */
#define HINT_MIN (1u << 20)

/* Blocks of one stream; extents_offset and first_id count within it. */
struct block_table {
    struct vv_buf blocks; /* struct vv_block */
    struct vv_buf extents;
    struct vv_buf ids;
};

struct vv_pack_writer {
    struct vv_store *store;
    char name[VV_NAME_MAX + 1];
    struct vv_attempt attempt;
    struct vv_pack_options options;
    char program[VV_TEXT_CAPACITY];

    struct varve_upload *pack; /* the pack object */
    uint64_t pack_size;
    struct varve_upload *part; /* the open part, or NULL */
    uint64_t part_size;
    struct vv_buf part_lengths; /* uint64_t of finished parts */
    uint32_t parts;             /* begun */

    struct block_table in_parts;
    struct block_table in_pack;
    struct vv_buf sections;     /* struct vv_section */
    struct vv_buf dependencies; /* struct vv_dependency */
    struct vv_buf moved;        /* as in its section */
    uint64_t raw_bytes;
    uint64_t stored_bytes;
    uint64_t manifest_bytes;

    int are_tables_written;
    struct vv_digest_state *manifest; /* of the open section */
    struct vv_section manifest_section;
    uint32_t manifests;
    int failed;
};

static void table_clear(struct block_table *table) {
    vv_buf_clear(&table->blocks);
    vv_buf_clear(&table->extents);
    vv_buf_clear(&table->ids);
}

static void writer_free(struct vv_pack_writer *pack) {
    vv_backend_upload_abort(pack->part);
    vv_backend_upload_abort(pack->pack);
    vv_digest_drop(pack->manifest);
    table_clear(&pack->in_parts);
    table_clear(&pack->in_pack);
    vv_buf_clear(&pack->part_lengths);
    vv_buf_clear(&pack->sections);
    vv_buf_clear(&pack->dependencies);
    vv_buf_clear(&pack->moved);
    vv_free(pack);
}

static int fail(struct vv_pack_writer *pack, int rc, const char *what, struct varve_error *error) {
    struct vv_key key = vv_attempt_key(pack->name, &pack->attempt, VV_KIND_PACK, pack->options.writer, 0);
    char text[VV_KEY_CAPACITY];
    pack->failed = rc;
    vv_key_print(&key, text);
    vv_error_sys(error, rc, "%s: %s", text, what);
    return vv_error_shortage(pack->store, rc, error);
}

/* Begin an object: its head is the first thing in it. */
static int begin_object(struct vv_pack_writer *pack, int kind, uint32_t part, uint64_t hint,
                        struct varve_upload **out) {
    struct vv_key key = vv_attempt_key(pack->name, &pack->attempt, kind, pack->options.writer, part);
    char text[VV_KEY_CAPACITY];
    struct vv_buf head;
    vv_key_print(&key, text);
    vv_buf_init(&head);
    vv_head_encode(&head, &key, pack->store->id, 0);
    int rc = head.failed;
    if (rc == 0) {
        /* a small one is data all the same: it must not have what is kept for objects known to be small */
        rc = vv_backend_create(pack->store->backend, text, hint < HINT_MIN ? 0 : hint, out);
    }
    if (rc == 0)
        rc = vv_backend_upload_write(*out, head.data, head.size);
    vv_buf_clear(&head);
    return rc;
}

/* Fail early when the whole pack cannot fit; a backend that cannot tell is believed. */
static int check_space(struct vv_pack_writer *pack) {
    uint64_t left;
    if (!pack->options.size_hint || vv_backend_space(pack->store->backend, &left) < 0)
        return 0;
    return left < pack->options.size_hint ? -ENOSPC : 0;
}

int vv_pack_begin(struct vv_store *store, const char *name, const struct vv_attempt *attempt,
                  const struct vv_pack_options *options, struct vv_pack_writer **out, struct varve_error *error) {
    struct vv_pack_writer *pack = vv_calloc(1, sizeof *pack);
    if (!pack)
        return vv_error_sys(error, -ENOMEM, "begin a pack");
    pack->store = store;
    pack->attempt = *attempt;
    pack->options = *options;
    snprintf(pack->name, sizeof pack->name, "%s", name);
    snprintf(pack->program, sizeof pack->program, "%s", options->program ? options->program : "");
    int rc = VV_FAULT("store.pack.before_begin");
    if (rc == 0)
        rc = check_space(pack);
    if (rc == 0) {
        uint64_t hint = options->size_hint < options->part_size ? options->size_hint : options->part_size;
        rc = begin_object(pack, VV_KIND_PACK, 0, hint, &pack->pack);
    }
    if (rc < 0) {
        fail(pack, rc, "begin", error);
        writer_free(pack);
        return rc;
    }
    pack->pack_size = VV_HEAD_SIZE;
    *out = pack;
    return 0;
}

static int finish_part(struct vv_pack_writer *pack) {
    int rc = VV_FAULT("store.pack.before_part_commit");
    if (rc < 0)
        return rc;
    struct varve_upload *part = pack->part;
    pack->part = NULL;
    rc = vv_backend_upload_commit(part);
    if (rc < 0)
        return rc;
    vv_buf_append(&pack->part_lengths, &pack->part_size, sizeof pack->part_size);
    return pack->part_lengths.failed ? pack->part_lengths.failed : VV_FAULT("store.pack.after_part_commit");
}

/* Make sure that a part is open with room for size more bytes, or has no block yet. */
static int open_part(struct vv_pack_writer *pack, uint32_t size) {
    if (pack->part && pack->part_size > VV_HEAD_SIZE && pack->part_size + size > pack->options.part_size) {
        int rc = finish_part(pack);
        if (rc < 0)
            return rc;
    }
    if (pack->part)
        return 0;
    if (pack->parts == VV_PARTS_MAX)
        return -EFBIG;
    int rc = VV_FAULT("store.pack.before_part_create");
    if (rc == 0)
        rc = begin_object(pack, VV_KIND_PART, pack->parts, 0, &pack->part);
    if (rc == 0) {
        pack->parts++;
        pack->part_size = VV_HEAD_SIZE;
    }
    return rc;
}

/* The stream for the next block: the pack object while it has room, parts for ever after. */
static int choose_stream(struct vv_pack_writer *pack, uint32_t size, struct block_table **table_out) {
    int fits = pack->pack_size == VV_HEAD_SIZE || pack->pack_size + size <= pack->options.part_size;
    if (pack->parts == 0 && fits) {
        *table_out = &pack->in_pack;
        return 0;
    }
    *table_out = &pack->in_parts;
    return open_part(pack, size);
}

static int note_block(struct block_table *table, struct vv_block *block, const struct vv_extent *extents,
                      uint32_t extent_count, const struct vv_hash128 *ids, uint64_t id_count) {
    struct vv_extent_coder coder = {.owner = block->owner};
    block->extents_offset = table->extents.size;
    block->extent_count = extent_count;
    block->first_id = table->ids.size / 16;
    for (uint32_t i = 0; i < extent_count; i++)
        vv_extent_encode(&table->extents, &coder, &extents[i]);
    if (block->flags & VV_BLOCK_IDS) {
        uint8_t *at = vv_buf_extend(&table->ids, id_count * 16);
        for (uint64_t i = 0; at && i < id_count; i++)
            vv_hash128_put(at + i * 16, ids[i]);
    }
    vv_buf_append(&table->blocks, block, sizeof *block);
    return table->blocks.failed | table->extents.failed | table->ids.failed ? -ENOMEM : 0;
}

static int put_block(struct vv_pack_writer *pack, struct vv_block *block, const void *stored,
                     const struct vv_extent *extents, uint32_t extent_count, const struct vv_hash128 *ids,
                     uint64_t id_count) {
    struct block_table *table = NULL;
    int rc = VV_FAULT("store.pack.before_block");
    if (rc == 0)
        rc = choose_stream(pack, block->stored, &table);
    if (rc < 0)
        return rc;
    int is_in_pack = table == &pack->in_pack;
    uint64_t *size = is_in_pack ? &pack->pack_size : &pack->part_size;
    block->part = is_in_pack ? 0 : pack->parts - 1;
    block->offset = *size;
    block->sum = vv_sum64(stored, block->stored);
    rc = note_block(table, block, extents, extent_count, ids, id_count);
    if (rc == 0)
        rc = vv_backend_upload_write(is_in_pack ? pack->pack : pack->part, stored, block->stored);
    *size += block->stored;
    pack->raw_bytes += block->raw;
    pack->stored_bytes += block->stored;
    return rc;
}

int vv_pack_block(struct vv_pack_writer *pack, struct vv_block *block, const void *stored,
                  const struct vv_extent *extents, uint32_t extent_count, const struct vv_hash128 *ids,
                  uint64_t id_count, struct varve_error *error) {
    if (pack->failed)
        return fail(pack, pack->failed, "an earlier block failed", error);
    int code, is_range_right = !block->range.type || !vv_range_check(&block->range, &code);
    int is_valid = !pack->are_tables_written && extent_count > 0 && block->stored > 0 && block->stored <= block->raw &&
                   block->raw <= VV_BLOCK_RAW_MAX && block->owner == extents[0].owner &&
                   !(block->flags & VV_BLOCK_IDS && !ids) && is_range_right;
    int rc = is_valid ? put_block(pack, block, stored, extents, extent_count, ids, id_count) : -EINVAL;
    return rc < 0 ? fail(pack, rc, "write a block", error) : 0;
}

/* A section being written: its bytes go out and into its digest. */
struct section_sink {
    struct vv_pack_writer *pack;
    struct vv_digest_state *digest;
    struct vv_section section;
};

static int sink_begin(struct section_sink *sink, struct vv_pack_writer *pack, uint32_t kind) {
    *sink = (struct section_sink){.pack = pack, .section = {.kind = kind, .offset = pack->pack_size}};
    return vv_digest_begin(&sink->digest);
}

static int sink_add(struct section_sink *sink, const void *data, size_t size) {
    if (!size)
        return 0;
    vv_digest_add(sink->digest, data, size);
    sink->section.length += size;
    sink->pack->pack_size += size;
    return vv_backend_upload_write(sink->pack->pack, data, size);
}

static int sink_end(struct section_sink *sink, int rc) {
    if (!sink->digest)
        return rc;
    sink->section.digest = vv_digest_end(sink->digest);
    vv_buf_append(&sink->pack->sections, &sink->section, sizeof sink->section);
    return rc < 0 ? rc : sink->pack->sections.failed;
}

static int emit_blocks(struct section_sink *sink, const struct block_table *table, const struct vv_block *shift,
                       int is_in_pack) {
    const struct vv_block *blocks = (const struct vv_block *)table->blocks.data;
    size_t count = table->blocks.size / sizeof *blocks;
    struct vv_buf buf;
    int rc = 0;
    vv_buf_init(&buf);
    for (size_t i = 0; i < count && rc == 0; i++) {
        struct vv_block block = blocks[i];
        block.part = is_in_pack ? shift->part : block.part;
        block.extents_offset += is_in_pack ? shift->extents_offset : 0;
        block.first_id += is_in_pack ? shift->first_id : 0;
        vv_block_encode(&buf, &block);
        if (i + 1 == count || (i + 1) % EMIT_CHUNK == 0) {
            rc = buf.failed ? buf.failed : sink_add(sink, buf.data, buf.size);
            buf.size = 0;
        }
    }
    vv_buf_clear(&buf);
    return rc;
}

static int write_blocks_section(struct vv_pack_writer *pack) {
    const struct vv_block shift = {
        .part = pack->parts, .extents_offset = pack->in_parts.extents.size, .first_id = pack->in_parts.ids.size / 16};
    struct section_sink sink;
    int rc = sink_begin(&sink, pack, VV_SECTION_BLOCKS);
    if (rc == 0)
        rc = emit_blocks(&sink, &pack->in_parts, &shift, 0);
    if (rc == 0)
        rc = emit_blocks(&sink, &pack->in_pack, &shift, 1);
    return sink_end(&sink, rc);
}

static int write_joined(struct vv_pack_writer *pack, uint32_t kind, const struct vv_buf *first,
                        const struct vv_buf *second) {
    struct section_sink sink;
    int rc = sink_begin(&sink, pack, kind);
    if (rc == 0)
        rc = sink_add(&sink, first->data, first->size);
    if (rc == 0)
        rc = sink_add(&sink, second->data, second->size);
    return sink_end(&sink, rc);
}

static void add_ranges(struct vv_buf *buf, const struct block_table *table, uint32_t first) {
    const struct vv_block *blocks = (const struct vv_block *)table->blocks.data;
    size_t count = table->blocks.size / sizeof *blocks;
    for (size_t i = 0; i < count; i++)
        if (blocks[i].range.type)
            vv_range_encode(buf, first + (uint32_t)i, &blocks[i].range);
}

/* Optional, thus behind the manifests. A block is known by its position in the joined table. */
static int write_ranges(struct vv_pack_writer *pack) {
    struct section_sink sink;
    struct vv_buf buf;
    vv_buf_init(&buf);
    add_ranges(&buf, &pack->in_parts, 0);
    add_ranges(&buf, &pack->in_pack, (uint32_t)(pack->in_parts.blocks.size / sizeof(struct vv_block)));
    int rc = buf.failed;
    if (rc == 0 && buf.size) {
        rc = sink_begin(&sink, pack, VV_SECTION_RANGES);
        if (rc == 0)
            rc = sink_add(&sink, buf.data, buf.size);
        rc = sink_end(&sink, rc);
    }
    vv_buf_clear(&buf);
    return rc;
}

/* Close the last part and write the tables; the number of parts is known from here on. */
static int write_tables(struct vv_pack_writer *pack) {
    if (pack->are_tables_written)
        return 0;
    pack->are_tables_written = 1;
    int rc = pack->part ? finish_part(pack) : 0;
    if (rc == 0)
        rc = VV_FAULT("store.pack.before_tables");
    if (rc == 0)
        rc = write_blocks_section(pack);
    if (rc == 0)
        rc = write_joined(pack, VV_SECTION_EXTENTS, &pack->in_parts.extents, &pack->in_pack.extents);
    if (rc == 0)
        rc = write_joined(pack, VV_SECTION_IDS, &pack->in_parts.ids, &pack->in_pack.ids);
    if (rc == 0 && pack->moved.size) {
        const struct vv_buf nothing = {0};
        rc = write_joined(pack, VV_SECTION_MOVED, &pack->moved, &nothing);
    }
    return rc;
}

int vv_pack_dependencies(struct vv_pack_writer *pack, const struct vv_dependency *dependencies, uint32_t count,
                         struct varve_error *error) {
    int rc = pack->failed;
    if (rc == 0 && (count > VV_DEPENDENCIES_MAX || pack->dependencies.size))
        rc = -EINVAL;
    for (uint32_t i = 1; i < count && rc == 0; i++)
        rc = vv_attempt_compare(&dependencies[i - 1].attempt, &dependencies[i].attempt) < 0 ? 0 : -EINVAL;
    if (rc == 0) {
        vv_buf_append(&pack->dependencies, dependencies, count * sizeof dependencies[0]);
        rc = pack->dependencies.failed;
    }
    return rc < 0 ? fail(pack, rc, "the list of attempts it depends on", error) : 0;
}

/* Is it one of ours, stored by another, and behind the one before (NULL: none) without being its continuation? */
static int is_moved_right(const struct vv_pack_options *options, const struct vv_moved *moved,
                          const struct vv_moved *before) {
    if (moved->extent.owner < options->first_owner || moved->extent.owner - options->first_owner >= options->owners ||
        moved->writer == options->writer || moved->writer >= options->writers || moved->length == 0 ||
        moved->length > VV_ADDRESS_END || moved->extent.address > VV_ADDRESS_END - moved->length)
        return 0;
    if (!before || before->extent.owner != moved->extent.owner)
        return !before || before->extent.owner < moved->extent.owner;
    uint64_t end = before->extent.address + before->length;
    return end < moved->extent.address || (end == moved->extent.address && before->writer != moved->writer);
}

int vv_pack_moved(struct vv_pack_writer *pack, const struct vv_moved *moved, uint64_t count,
                  struct varve_error *error) {
    struct vv_extent_coder coder = {.owner = pack->options.first_owner};
    int rc = pack->failed;
    if (rc == 0 && (pack->are_tables_written || pack->moved.size))
        rc = -EINVAL;
    for (uint64_t i = 0; i < count && rc == 0; i++) {
        if (is_moved_right(&pack->options, &moved[i], i ? &moved[i - 1] : NULL)) {
            vv_moved_encode(&pack->moved, &coder, &moved[i]);
            rc = pack->moved.failed;
        } else {
            rc = -EINVAL;
        }
    }
    return rc < 0 ? fail(pack, rc, "the list of what other writers store", error) : 0;
}

static int manifest_write(struct vv_pack_writer *pack, const void *data, size_t size) {
    vv_digest_add(pack->manifest, data, size);
    pack->manifest_section.length += size;
    pack->pack_size += size;
    pack->manifest_bytes += size;
    return vv_backend_upload_write(pack->pack, data, size);
}

static int manifest_begin(struct vv_pack_writer *pack, const struct vv_manifest_head *head) {
    if (pack->manifest || head->owner != pack->options.first_owner + pack->manifests)
        return -EINVAL;
    int rc = write_tables(pack);
    if (rc == 0)
        rc = VV_FAULT("store.pack.before_manifest");
    if (rc == 0)
        rc = vv_digest_begin(&pack->manifest);
    if (rc < 0)
        return rc;
    struct vv_buf buf;
    vv_buf_init(&buf);
    vv_manifest_head_encode(&buf, head);
    pack->manifest_section =
        (struct vv_section){.kind = VV_SECTION_MANIFEST, .owner = head->owner, .offset = pack->pack_size};
    rc = buf.failed ? buf.failed : manifest_write(pack, buf.data, buf.size);
    vv_buf_clear(&buf);
    return rc;
}

int vv_pack_manifest_begin(struct vv_pack_writer *pack, const struct vv_manifest_head *head,
                           struct varve_error *error) {
    int rc = pack->failed ? pack->failed : manifest_begin(pack, head);
    return rc < 0 ? fail(pack, rc, "begin a manifest", error) : 0;
}

int vv_pack_manifest_add(struct vv_pack_writer *pack, const void *data, size_t size, struct varve_error *error) {
    int rc = pack->failed ? pack->failed : pack->manifest ? 0 : -EINVAL;
    if (rc == 0 && size)
        rc = manifest_write(pack, data, size);
    return rc < 0 ? fail(pack, rc, "write a manifest", error) : 0;
}

int vv_pack_manifest_end(struct vv_pack_writer *pack, struct vv_hash128 *digest_out, struct varve_error *error) {
    if (pack->failed || !pack->manifest)
        return fail(pack, pack->failed ? pack->failed : -EINVAL, "end a manifest", error);
    pack->manifest_section.digest = vv_digest_end(pack->manifest);
    pack->manifest = NULL;
    pack->manifests++;
    vv_buf_append(&pack->sections, &pack->manifest_section, sizeof pack->manifest_section);
    if (pack->sections.failed)
        return fail(pack, -ENOMEM, "end a manifest", error);
    if (digest_out)
        *digest_out = pack->manifest_section.digest;
    return 0;
}

static struct vv_footer footer_of(struct vv_pack_writer *pack, uint64_t protected_bytes, uint64_t regions) {
    struct vv_footer footer = {
        .settings = pack->store->settings,
        .writers = pack->options.writers,
        .ranks = pack->options.ranks,
        .first_owner = pack->options.first_owner,
        .owners = pack->options.owners,
        .partner_count = pack->options.partner_count,
        .parent = pack->options.parent,
        .time_ns = pack->options.time_ns ? pack->options.time_ns : vv_clock_wall_ns(),
        .protected_bytes = protected_bytes,
        .raw_bytes = pack->raw_bytes,
        .stored_bytes = pack->stored_bytes,
        .regions = regions,
        .parts = pack->parts,
        .dependency_count = (uint32_t)(pack->dependencies.size / sizeof(struct vv_dependency)),
        .section_count = (uint32_t)(pack->sections.size / sizeof(struct vv_section)),
        .part_lengths = (uint64_t *)pack->part_lengths.data,
        .dependencies = (struct vv_dependency *)pack->dependencies.data,
        .sections = (struct vv_section *)pack->sections.data,
    };
    memcpy(footer.partners, pack->options.partners, sizeof footer.partners);
    memcpy(footer.name, pack->name, sizeof footer.name);
    memcpy(footer.program, pack->program, sizeof footer.program);
    return footer;
}

static int write_footer(struct vv_pack_writer *pack, uint64_t protected_bytes, uint64_t regions) {
    struct vv_footer footer = footer_of(pack, protected_bytes, regions);
    struct vv_buf buf;
    vv_buf_init(&buf);
    vv_footer_encode(&buf, pack->pack_size, &footer, NULL);
    int rc = buf.failed;
    if (rc == 0 && buf.size > VV_FOOTER_MAX)
        rc = -EFBIG;
    if (rc == 0) {
        rc = vv_backend_upload_write(pack->pack, buf.data, buf.size);
        pack->pack_size += buf.size;
    }
    vv_buf_clear(&buf);
    return rc;
}

static void fill_sums(const struct vv_pack_writer *pack, struct vv_pack_sums *out) {
    uint64_t total = pack->pack_size;
    const uint64_t *lengths = (const uint64_t *)pack->part_lengths.data;
    for (size_t i = 0; i < pack->part_lengths.size / sizeof *lengths; i++)
        total += lengths[i];
    *out = (struct vv_pack_sums){.raw_bytes = pack->raw_bytes,
                                 .stored_bytes = pack->stored_bytes,
                                 .metadata_bytes = total - pack->stored_bytes,
                                 .ids_bytes = pack->in_parts.ids.size + pack->in_pack.ids.size,
                                 .manifest_bytes = pack->manifest_bytes};
}

static int seal(struct vv_pack_writer *pack, uint64_t protected_bytes, uint64_t regions) {
    if (pack->failed)
        return pack->failed;
    if (pack->manifest || pack->manifests != pack->options.owners)
        return -EINVAL;
    int rc = write_tables(pack);
    if (rc == 0)
        rc = write_ranges(pack);
    if (rc == 0)
        rc = VV_FAULT("store.pack.before_footer");
    if (rc == 0)
        rc = write_footer(pack, protected_bytes, regions);
    if (rc == 0)
        rc = VV_FAULT("store.pack.before_seal");
    if (rc == 0) {
        struct varve_upload *upload = pack->pack;
        pack->pack = NULL;
        rc = vv_backend_upload_commit(upload);
    }
    return rc < 0 ? rc : VV_FAULT("store.pack.after_seal");
}

int vv_pack_seal(struct vv_pack_writer *pack, uint64_t protected_bytes, uint64_t regions, struct vv_pack_sums *sums_out,
                 struct varve_error *error) {
    int rc = seal(pack, protected_bytes, regions);
    if (rc < 0)
        fail(pack, rc, "seal", error);
    else if (sums_out)
        fill_sums(pack, sums_out);
    writer_free(pack);
    return rc < 0 ? rc : 0;
}

void vv_pack_abort(struct vv_pack_writer *pack) {
    if (pack)
        writer_free(pack);
}
