/* What an earlier try at the same copy has left: packs of an attempt without a record. They are of a generation whose
 * claim says which checkpoint was being copied; the session with the higher claim goes on with them, as adoption does.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "copy/copy_private.h"
#include "lifecycle/lifecycle.h"

int vv_copy_is_ours(struct vv_copy *copy, uint32_t generation) {
    struct vv_claim claim;
    int rc = vv_claim_load(copy->to, copy->name, generation, &claim, copy->error);
    if (rc < 0 && !vv_says_nothing(rc))
        return rc;
    if (rc < 0)
        vv_error_clear(copy->error);
    return rc == 0 && strcmp(claim.program, copy->program) == 0;
}

/* Storage has an ESTALE of its own, which says nothing about the earlier try. */
static int useless(struct vv_copy *copy) {
    copy->is_useless = 1;
    return -ESTALE;
}

static const char *differs(const struct vv_copy *copy, uint32_t writer, const struct vv_footer *footer) {
    struct vv_pack_options expected = vv_copy_pack_options(copy, writer);
    if (footer->writers != expected.writers || footer->ranks != expected.ranks)
        return "writers";
    if (footer->first_owner != expected.first_owner || footer->owners != expected.owners)
        return "owners";
    if (vv_attempt_compare(&footer->parent, &expected.parent) != 0)
        return "parent";
    if (footer->parts) /* a copy makes none */
        return "number of parts";
    return footer->time_ns != expected.time_ns ? "time" : NULL;
}

int vv_copy_has_pack(struct vv_copy *copy, uint32_t writer, struct vv_footer *footer_out) {
    struct vv_pack_id id = {copy->to, copy->name, copy->attempt, writer};
    int rc = vv_pack_footer_load(&id, VV_KIND_PACK, NULL, footer_out, NULL, copy->error);
    if (rc == -ENOENT) {
        vv_error_clear(copy->error);
        return 0;
    }
    if (rc == VARVE_CORRUPT || rc == VARVE_FORGOTTEN || rc == VARVE_UNKNOWN_FORMAT)
        return useless(copy); /* it cannot be made once more under its key */
    if (rc < 0)
        return rc;
    const char *what = differs(copy, writer, footer_out);
    if (!what)
        return 1;
    vv_footer_clear(footer_out);
    return vv_error(copy->error, useless(copy), "pack %u of an earlier copy has another %s", writer, what);
}

static int load_tables(struct vv_copy *copy, const struct vv_pack_id *id, const struct vv_footer *footer,
                       struct vv_earlier *out) {
    const struct vv_section *section = vv_footer_section(footer, VV_SECTION_IDS, 0);
    char key[VV_KEY_CAPACITY];
    vv_pack_key(id, VV_KIND_PACK, 0, key);
    int rc = vv_pack_tables_load(id, VV_KIND_PACK, footer, &out->tables, NULL, copy->error);
    if (rc == 0 && section && section->length) {
        out->id_count = section->length / 16;
        rc = vv_section_load(copy->to, key, section, &out->ids, copy->error);
    }
    return rc == VARVE_CORRUPT ? useless(copy) : rc;
}

int vv_earlier_load(struct vv_copy *copy, uint32_t writer, struct vv_earlier *out) {
    struct vv_pack_id id = {copy->to, copy->name, copy->attempt, writer};
    struct vv_footer footer;
    *out = (struct vv_earlier){0};
    int rc = vv_copy_has_pack(copy, writer, &footer);
    if (rc != 1)
        return rc;
    rc = load_tables(copy, &id, &footer, out);
    out->is_there = rc == 0;
    vv_footer_clear(&footer);
    return rc;
}

void vv_earlier_clear(struct vv_earlier *earlier) {
    vv_pack_tables_clear(&earlier->tables);
    vv_free(earlier->ids);
    *earlier = (struct vv_earlier){0};
}

int vv_earlier_has(struct vv_copy *copy, const struct vv_earlier *earlier, uint32_t owner, uint64_t address,
                   uint32_t size, struct vv_hash128 id) {
    const struct vv_pack_extent *extent = vv_pack_find(&earlier->tables, owner, address);
    if (!extent)
        return useless(copy);
    const struct vv_block *block = &earlier->tables.blocks[extent->block];
    uint64_t within = address - extent->address;
    uint64_t number = block->first_id + extent->id + within / VV_GRANULE;
    if (within % VV_GRANULE || extent->length - within < size || !(block->flags & VV_BLOCK_IDS) ||
        number >= earlier->id_count)
        return useless(copy);
    struct vv_hash128 found = vv_hash128_get(earlier->ids + number * 16);
    return vv_hash128_equal(found, id) ? 0 : useless(copy);
}

/* ---- which attempt ---- */

/* Can it still become a checkpoint, and are some packs there? 1, 0 or an error. */
static int can_go_on(struct vv_copy *copy, const struct vv_attempt *settled) {
    struct vv_key key = vv_attempt_key(copy->name, &copy->attempt, VV_KIND_RECORD, 0, 0);
    struct vv_numbers attempts = {0};
    key.attempt = 0;
    if (!vv_is_adoptable(settled, &copy->attempt))
        return 0;
    int rc = vv_data_list(copy->to, copy->name, &copy->attempt, 2, &attempts, copy->error);
    int is_there = rc == 0 && attempts.count == 1 && attempts.list[0] == 0;
    vv_numbers_clear(&attempts);
    if (rc < 0 || !is_there)
        return rc < 0 ? rc : 0;
    rc = vv_object_exists(copy->to, &key, copy->error);
    if (rc == 0)
        rc = vv_attempt_is_closed(copy->to, copy->name, &copy->attempt, copy->error);
    return rc < 0 ? rc : !rc;
}

int vv_copy_find_earlier(struct vv_copy *copy) {
    struct vv_numbers claims = {0};
    struct vv_attempt settled;
    uint32_t own = vv_lease_generation(copy->lease);
    int found = 0, rc = vv_settled_newest(copy->to, copy->name, &settled, copy->error);
    if (rc == 0)
        rc = vv_claims_list(copy->to, copy->name, settled.generation, &claims, copy->error);
    for (size_t i = claims.count; rc == 0 && !found && i-- > 0;) {
        uint32_t generation = (uint32_t)claims.list[i];
        if (generation >= own)
            continue;
        found = vv_copy_is_ours(copy, generation);
        copy->attempt = (struct vv_attempt){.generation = generation, .version = copy->from->version};
        found = found == 1 ? can_go_on(copy, &settled) : found;
        rc = found < 0 ? found : 0;
    }
    vv_numbers_clear(&claims);
    return rc < 0 ? rc : found;
}
