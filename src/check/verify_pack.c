/* A pack on its own: head, end, footer, every section, parts, and every block: sum, decoding, ids and range
 * against the decoded bytes. And what stands in for packs: copies and parity. */
#include "base/alloc.h"
#include "base/content_id.h"
#include "check/verify_private.h"
#include "format/values.h"
#include "store/block_decode.h"
#include "store/parity_reader.h"

#include <errno.h>

#define READ_BYTES (4u << 20)
#define JOBS 16 /* between two calls of progress */

struct pack_check {
    struct vv_verifier *verifier;
    struct vv_pack_id id;
    char key[VV_KEY_CAPACITY];
    struct vv_footer footer;
    struct vv_pack_tables tables;
    uint8_t *extents; /* the section: extents in the order of blocks */
    uint64_t extents_size;
    const struct vv_section *ids;
    struct vv_range *ranges; /* one for each block, or NULL */
    uint64_t bad_blocks;
    struct varve_error first; /* of the bad blocks */
};

struct block_job {
    const struct pack_check *check;
    uint64_t first;
    uint64_t count;
    uint64_t bad;
    struct varve_error why;
};

/* ---- blocks, in the pool ---- */

struct block_bytes {
    uint8_t *stored;
    uint8_t *scratch;
    uint8_t *ids;
    struct vv_coders *coders;
};

static int check_ids(const struct pack_check *check, const struct vv_block *block, const uint8_t *raw,
                     const uint8_t *ids, struct varve_error *error) {
    uint64_t seed = check->id.store->settings.seed;
    struct vv_extent_coder coder = {.owner = block->owner};
    struct vv_cursor cursor;
    vv_cursor_init(&cursor, check->extents + block->extents_offset, check->extents_size - block->extents_offset);
    for (uint32_t i = 0; i < block->extent_count; i++) {
        struct vv_extent extent;
        int rc = vv_extent_decode(&cursor, &coder, &extent, error);
        if (rc < 0)
            return rc;
        for (uint32_t at = 0; at < extent.length; at += VV_GRANULE, ids += 16) {
            uint32_t size = extent.length - at < VV_GRANULE ? extent.length - at : VV_GRANULE;
            struct vv_hash128 id = {0, 0};
            if (!vv_is_zero(raw + at, size))
                id = vv_id(seed, raw + at, size);
            if (!vv_hash128_equal(id, vv_hash128_get(ids))) {
                return vv_error(error, VARVE_CORRUPT,
                                "%s: block at byte %llu: the stored id of address %llu is not "
                                "that of its bytes",
                                check->key, (unsigned long long)block->offset,
                                (unsigned long long)(extent.address + at));
            }
        }
        raw += extent.length;
    }
    return 0;
}

/* What is said about the values must be true of them. */
static int check_range(const struct pack_check *check, const struct vv_block *block, const uint8_t *raw,
                       struct varve_error *error) {
    const struct vv_range *said = check->ranges ? &check->ranges[block - check->tables.blocks] : NULL;
    struct vv_range range;
    if (!said || !said->type)
        return 0;
    vv_values_range(said->type, raw, block->raw, &range);
    if (range.type == said->type && range.flags == said->flags && range.low == said->low && range.high == said->high)
        return 0;
    return vv_error(error, VARVE_CORRUPT,
                    "%s: block at byte %llu of part %u: its stored range is not that of its values", check->key,
                    (unsigned long long)block->offset, block->part);
}

static int check_block(const struct pack_check *check, const struct vv_block *block, const uint8_t *stored,
                       const struct block_bytes *bytes, const uint8_t *ids, struct varve_error *error) {
    const uint8_t *raw = stored;
    if (vv_sum64(stored, block->stored) != block->sum) {
        return vv_error(error, VARVE_CORRUPT, "%s: block at byte %llu of part %u is damaged: its sum does not match",
                        check->key, (unsigned long long)block->offset, block->part);
    }
    if (block->codec != VV_CODEC_NONE) {
        int rc = vv_block_decode(bytes->coders, check->key, block, stored, bytes->scratch, error);
        if (rc < 0)
            return rc;
        raw = bytes->scratch;
    }
    int rc = block->flags & VV_BLOCK_IDS ? check_ids(check, block, raw, ids, error) : 0;
    return rc < 0 ? rc : check_range(check, block, raw, error);
}

static uint64_t ids_end(const struct pack_check *check, uint64_t block) {
    return block < check->tables.block_count ? check->tables.blocks[block].first_id : check->ids->length / 16;
}

static int read_blocks(struct block_job *job, struct block_bytes *bytes, struct varve_error *error) {
    const struct pack_check *check = job->check;
    const struct vv_block *first = &check->tables.blocks[job->first], *last = first + job->count - 1;
    size_t size = (size_t)(last->offset + last->stored - first->offset);
    uint64_t id_first = first->first_id, id_count = ids_end(check, job->first + job->count) - id_first;
    uint32_t raw_max = 0;
    for (uint64_t i = 0; i < job->count; i++)
        raw_max = first[i].raw > raw_max && first[i].codec != VV_CODEC_NONE ? first[i].raw : raw_max;
    bytes->stored = vv_malloc(size);
    bytes->scratch = vv_malloc(raw_max ? raw_max : 1);
    bytes->ids = vv_malloc(id_count ? id_count * 16 : 1);
    if (!bytes->stored || !bytes->scratch || !bytes->ids)
        return vv_error_sys(error, -ENOMEM, "%s: check blocks", check->key);
    char key[VV_KEY_CAPACITY];
    int is_part = first->part < check->footer.parts;
    vv_pack_key(&check->id, is_part ? VV_KIND_PART : VV_KIND_PACK, is_part ? first->part : 0, key);
    int rc = vv_pack_get(check->id.store, key, first->offset, bytes->stored, size, error);
    if (rc == 0 && id_count) {
        rc = vv_pack_get(check->id.store, check->key, check->ids->offset + id_first * 16, bytes->ids, id_count * 16,
                         error);
    }
    return rc;
}

static int run_block_job(void *arg) {
    struct block_job *job = arg;
    const struct vv_block *first = &job->check->tables.blocks[job->first];
    struct vv_coders coders;
    struct block_bytes bytes = {.coders = &coders};
    vv_coders_init(&coders);
    int rc = read_blocks(job, &bytes, &job->why);
    if (rc < 0)
        job->bad = job->count;
    for (uint64_t i = 0; i < job->count && rc == 0; i++) {
        struct varve_error why = {0};
        const uint8_t *ids = bytes.ids + (first[i].first_id - first->first_id) * 16;
        if (check_block(job->check, &first[i], bytes.stored + (first[i].offset - first->offset), &bytes, ids, &why) < 0)
            job->why = job->bad++ ? job->why : why;
    }
    vv_free(bytes.stored);
    vv_free(bytes.scratch);
    vv_free(bytes.ids);
    vv_coders_clear(&coders);
    return rc == -ENOMEM ? rc : 0;
}

static uint64_t cut_job(const struct pack_check *check, uint64_t first) {
    const struct vv_block *blocks = check->tables.blocks;
    uint64_t n = 1;
    while (first + n < check->tables.block_count && blocks[first + n].part == blocks[first].part &&
           blocks[first + n].offset + blocks[first + n].stored - blocks[first].offset <= READ_BYTES)
        n++;
    return n;
}

static int run_batch(struct pack_check *check, struct block_job *jobs, unsigned count) {
    struct vv_pool *pool = check->verifier->options->pool;
    uint64_t bytes = 0;
    int rc = 0;
    for (unsigned i = 0; i < count && rc == 0; i++)
        rc = pool ? vv_pool_submit(pool, run_block_job, &jobs[i]) : run_block_job(&jobs[i]);
    int waited = pool ? vv_pool_wait(pool) : 0;
    rc = rc < 0 ? rc : waited;
    for (unsigned i = 0; i < count; i++) {
        if (jobs[i].bad && !check->bad_blocks)
            check->first = jobs[i].why;
        check->bad_blocks += jobs[i].bad;
        const struct vv_block *first = &check->tables.blocks[jobs[i].first], *last = first + jobs[i].count - 1;
        bytes += first->part == check->footer.parts ? last->offset + last->stored - first->offset : 0;
    }
    return rc < 0 ? rc : vv_verify_progress(check->verifier, bytes);
}

static int check_blocks(struct pack_check *check) {
    struct block_job jobs[JOBS];
    uint64_t next = 0, count = check->tables.block_count;
    int rc = 0;
    while (next < count && rc == 0) {
        unsigned n = 0;
        for (; n < JOBS && next < count; n++) {
            jobs[n] = (struct block_job){.check = check, .first = next, .count = cut_job(check, next)};
            next += jobs[n].count;
        }
        rc = run_batch(check, jobs, n);
    }
    return rc;
}

/* ---- a pack ---- */

static int note_bad(struct pack_check *check) {
    struct vv_bad_pack bad = {.attempt = check->id.attempt, .writer = check->id.writer};
    struct vv_buf *list = &check->verifier->bad_packs;
    vv_buf_append(list, &bad, sizeof bad);
    return list->failed;
}

static int check_tombstone(struct pack_check *check, const struct vv_key *key) {
    struct vv_tombstone tombstone;
    struct varve_error why = {0};
    struct vv_buf bytes;
    vv_buf_init(&bytes);
    int rc = vv_object_read(check->id.store, key, &bytes, &why);
    if (rc == 0)
        rc = vv_tombstone_parse(bytes.data, bytes.size, key, check->id.store->id, &tombstone, &why);
    vv_buf_clear(&bytes);
    return vv_verify_evaluate(check->verifier, check->key, rc, &why);
}

/* A writer that learns late of the end of its attempt still puts its pack there. Its parts may have been removed
 * before: no checkpoint will ever need them. */
static int is_left_over(const struct pack_check *check) {
    struct varve_error ignored;
    return vv_attempt_is_closed(check->id.store, check->id.name, &check->id.attempt, &ignored) == 1;
}

/* Missing or wrong parts are findings about the part. 1 if there was one. */
static int check_parts(struct pack_check *check) {
    int found = 0;
    for (uint32_t i = 0; i < check->footer.parts; i++) {
        char key[VV_KEY_CAPACITY];
        uint64_t size = 0;
        vv_pack_key(&check->id, VV_KIND_PART, i, key);
        int rc = vv_backend_stat(check->id.store->backend, key, &size);
        if (rc == -ENOENT) {
            vv_verify_finding(check->verifier, VV_FINDING_DAMAGE, key, "%s is missing, but its pack is there", key);
        } else if (rc == 0 && size != check->footer.part_lengths[i]) {
            vv_verify_finding(check->verifier, VV_FINDING_DAMAGE, key, "%s has %llu bytes, but its pack says %llu", key,
                              (unsigned long long)size, (unsigned long long)check->footer.part_lengths[i]);
        } else {
            continue;
        }
        found = 1;
    }
    return found;
}

static int check_sections(struct pack_check *check, struct varve_error *error) {
    int rc = 0;
    for (uint32_t i = 0; i < check->footer.section_count && rc == 0; i++) {
        const struct vv_section *section = &check->footer.sections[i];
        int is_table = section->kind == VV_SECTION_BLOCKS || section->kind == VV_SECTION_MOVED;
        if (section->kind == VV_SECTION_EXTENTS) {
            rc = vv_section_load(check->id.store, check->key, section, &check->extents, error);
            check->extents_size = section->length;
        } else if (section->kind == VV_SECTION_RANGES) {
            rc = vv_pack_ranges_load(check->id.store, check->key, section, check->tables.block_count, &check->ranges,
                                     error);
        } else if (!is_table) { /* those were checked when the tables were loaded */
            rc = vv_section_check(check->id.store, check->key, section, error);
        }
        if (rc == 0)
            rc = vv_verify_progress(check->verifier, 0);
    }
    return rc;
}

static int check_pack(struct pack_check *check, struct varve_error *error) {
    int rc = vv_pack_tables_load(&check->id, VV_KIND_PACK, &check->footer, &check->tables, NULL, error);
    if (rc == 0)
        rc = check_sections(check, error);
    if (rc < 0)
        return rc;
    check->ids = vv_footer_section(&check->footer, VV_SECTION_IDS, 0);
    if (check->footer.parts && is_left_over(check))
        return 0;
    int parts_bad = check_parts(check);
    rc = check->verifier->options->is_quick ? 0 : check_blocks(check);
    if (rc == 0 && check->bad_blocks && !parts_bad) {
        rc = vv_error(error, VARVE_CORRUPT, "%llu of %llu blocks: %.400s", (unsigned long long)check->bad_blocks,
                      (unsigned long long)check->tables.block_count, check->first.text);
    }
    return rc == 0 && parts_bad ? note_bad(check) : rc;
}

int vv_verify_pack(struct vv_verifier *verifier, const struct vv_key *key) {
    struct pack_check check = {.verifier = verifier};
    struct varve_error why = {0};
    check.id = (struct vv_pack_id){.store = verifier->store, .name = key->name, .writer = key->writer};
    check.id.attempt = (struct vv_attempt){key->generation, key->attempt, key->version};
    vv_key_print(key, check.key);
    int rc = vv_pack_footer_load(&check.id, VV_KIND_PACK, NULL, &check.footer, NULL, &why);
    if (rc == VARVE_FORGOTTEN)
        return check_tombstone(&check, key);
    int is_open = rc == 0;
    if (rc == 0)
        rc = check_pack(&check, &why);
    if (rc == VARVE_CORRUPT && note_bad(&check) < 0)
        rc = -ENOMEM;
    if (is_open)
        vv_footer_clear(&check.footer);
    vv_pack_tables_clear(&check.tables);
    vv_free(check.extents);
    vv_free(check.ranges);
    return vv_verify_evaluate(verifier, check.key, rc, &why);
}

/* A copy holds no blocks: its footer and sections are all there is. */
int vv_verify_copy(struct vv_verifier *verifier, const struct vv_key *key) {
    struct vv_pack_id id = {.store = verifier->store, .name = key->name, .writer = key->writer};
    struct varve_error why = {0};
    struct vv_footer footer;
    char text[VV_KEY_CAPACITY];
    id.attempt = (struct vv_attempt){key->generation, key->attempt, key->version};
    vv_key_print(key, text);
    int rc = vv_pack_footer_load(&id, VV_KIND_COPY, NULL, &footer, NULL, &why);
    if (rc == 0) {
        for (uint32_t i = 0; i < footer.section_count && rc == 0; i++) {
            struct vv_section section = vv_pack_section(&footer, &footer.sections[i], VV_KIND_COPY);
            rc = vv_section_check(verifier->store, text, &section, &why);
        }
        vv_footer_clear(&footer);
    }
    return vv_verify_evaluate(verifier, text, rc, &why);
}

/* ---- parity: its table and its sums, and its own bytes by these; what it is parity of is on other nodes ---- */

/* The parity of this number, a slice at a time. */
static int check_row(const struct vv_parity_source *source, const struct vv_parity *parity, uint32_t number,
                     const uint8_t *sums, uint8_t *room, struct varve_error *error) {
    uint64_t length = vv_parity_row_length(parity, vv_parity_row(parity, parity->member, number));
    uint64_t offset = vv_parity_offset(parity, number);
    int rc = 0;
    sums += vv_parity_sums_at(parity, number);
    for (uint64_t at = 0; at < length && rc == 0; at += VV_PARITY_SLICE) {
        size_t size = length - at < VV_PARITY_SLICE ? (size_t)(length - at) : VV_PARITY_SLICE;
        rc = source->get(source->arg, offset + at, room, size, error);
        if (rc == 0 && vv_sum64(room, size) != vv_get64(sums + (size_t)parity->data * VV_PARITY_SUM))
            rc = vv_error(error, VARVE_CORRUPT, "the sum of %zu bytes at %llu does not match", size,
                          (unsigned long long)(offset + at));
        sums += (size_t)(parity->data + 1) * VV_PARITY_SUM;
    }
    return rc;
}

static int check_rows(const struct vv_parity_source *source, const struct vv_parity *parity,
                      struct varve_error *error) {
    uint8_t *sums = NULL, *room = vv_malloc(VV_PARITY_SLICE);
    int rc = room ? vv_parity_sums_load(source, parity, &sums, error) : vv_error_sys(error, -ENOMEM, "parity");
    for (uint32_t i = 0; i < parity->parity && rc == 0; i++)
        rc = check_row(source, parity, i, sums, room, error);
    vv_free(sums);
    vv_free(room);
    return rc;
}

int vv_verify_parity(struct vv_verifier *verifier, const struct vv_key *key) {
    struct varve_error why = {0};
    struct vv_parity_here here;
    struct vv_parity_source source = vv_parity_here(&here, verifier->store, key);
    struct vv_parity parity;
    int rc = vv_parity_load(&source, &parity, &why);
    if (rc == 0) {
        rc = check_rows(&source, &parity, &why);
        vv_parity_clear(&parity);
    }
    return vv_verify_evaluate(verifier, here.text, rc < 0 ? vv_pack_error(here.text, rc, &why) : 0, &why);
}
