/* From a place to bytes in a block, and to stored ids (docs/format.md 7). */
#include "base/alloc.h"
#include "read/view_private.h"

#include <errno.h>
#include <stdio.h>

void vv_seeker_init(struct vv_seeker *seeker, struct vv_view *view) {
    *seeker = (struct vv_seeker){.view = view};
}

void vv_seeker_clear(struct vv_seeker *seeker) {
    for (unsigned i = 0; i < VV_SEEKER_HOMES; i++)
        vv_home_clear(seeker->view, &seeker->homes[i]);
    vv_view_release(seeker->view, seeker->tables);
    vv_view_release(seeker->view, seeker->ids);
    vv_seeker_init(seeker, seeker->view);
}

static int use_tables(struct vv_seeker *seeker, uint32_t source, uint32_t writer, uint32_t owner,
                      const struct vv_pack_tables **out, struct varve_error *error) {
    int is_own = owner == seeker->view->reader;
    if (!seeker->tables || seeker->tables_source != source || seeker->tables_writer != writer ||
        seeker->tables_are_own != is_own) {
        struct vv_cached *cached;
        int rc = vv_view_tables_of(seeker->view, source, writer, owner, &cached, error);
        if (rc < 0)
            return rc;
        vv_view_release(seeker->view, seeker->tables);
        seeker->tables = cached;
        seeker->tables_source = source;
        seeker->tables_writer = writer;
        seeker->tables_are_own = is_own;
        seeker->last_extent = 0;
    }
    *out = seeker->tables->object;
    return 0;
}

static int use_home(struct vv_seeker *seeker, const struct vv_place *place, const struct vv_writer **out,
                    uint32_t *number_out, struct varve_error *error) {
    uint32_t source = place->dependency;
    int rc = vv_home_find(seeker->view, &seeker->homes[source % VV_SEEKER_HOMES], source, place->owner, out, number_out,
                          error);
    if (rc == 0) {
        char text[64];
        return vv_error(error, VARVE_CORRUPT, "a place names owner %u, whom no writer of %s has", place->owner,
                        vv_attempt_text(vv_view_source(seeker->view, source), text));
    }
    return rc < 0 ? rc : 0;
}

int vv_seek_home(struct vv_seeker *seeker, const struct vv_place *place, uint32_t *out, struct varve_error *error) {
    const struct vv_writer *home = NULL;
    return use_home(seeker, place, &home, out, error);
}

int vv_seek_partners(struct vv_seeker *seeker, const struct vv_place *place, uint32_t *out, struct varve_error *error) {
    const struct vv_writer *home = NULL;
    uint32_t number = 0;
    int rc = use_home(seeker, place, &home, &number, error);
    if (rc == 0)
        *out = home->partner_count;
    return rc;
}

int vv_view_partners(struct vv_view *view, uint32_t source, uint32_t owner, uint32_t *out, struct varve_error *error) {
    struct vv_home home = {.source = 0};
    const struct vv_writer *writer = NULL;
    uint32_t number = 0;
    int rc = vv_home_find(view, &home, source, owner, &writer, &number, error);
    if (rc > 0)
        *out = writer->partner_count;
    vv_home_clear(view, &home);
    return rc;
}

void vv_view_ahead(struct vv_view *view, uint32_t source, uint32_t owner) {
    struct vv_place place = {.dependency = source, .owner = owner};
    struct varve_error ignored = {0};
    const struct vv_pack_tables *tables;
    struct vv_seeker seeker;
    uint32_t home = 0;
    vv_seeker_init(&seeker, view);
    if (vv_seek_home(&seeker, &place, &home, &ignored) == 0)
        (void)use_tables(&seeker, source, home, owner, &tables, &ignored);
    vv_seeker_clear(&seeker);
}

static int is_at(const struct vv_pack_tables *tables, uint64_t index, uint32_t owner, uint64_t address) {
    if (index >= tables->extent_count)
        return 0;
    const struct vv_pack_extent *at = &tables->extents[index];
    return at->owner == owner && at->address <= address && address - at->address < at->length;
}

/* The extent of the last search, the one after it, or a search. */
static const struct vv_pack_extent *find_extent(struct vv_seeker *seeker, const struct vv_pack_tables *tables,
                                                const struct vv_place *place) {
    uint64_t last = seeker->last_extent;
    for (uint64_t i = last; i < last + 2; i++) {
        if (is_at(tables, i, place->owner, place->address)) {
            seeker->last_extent = i;
            return &tables->extents[i];
        }
    }
    const struct vv_pack_extent *extent = vv_pack_find(tables, place->owner, place->address);
    if (extent)
        seeker->last_extent = (uint64_t)(extent - tables->extents);
    return extent;
}

static int not_covered(const struct vv_seeker *seeker, const struct vv_place *place, uint32_t writer,
                       struct varve_error *error) {
    char text[64];
    return vv_error(error, VARVE_CORRUPT, "address %llu of owner %u is in no extent of writer %u of %s",
                    (unsigned long long)place->address, place->owner, writer,
                    vv_attempt_text(vv_view_source(seeker->view, place->dependency), text));
}

static void fill_spot(const struct vv_pack_tables *tables, const struct vv_pack_extent *extent,
                      const struct vv_place *place, uint32_t writer, uint64_t limit, struct vv_spot *out) {
    uint32_t delta = (uint32_t)(place->address - extent->address);
    uint32_t left = extent->length - delta;
    *out = (struct vv_spot){.writer = writer,
                            .block = extent->block,
                            .raw = extent->raw + delta,
                            .length = left < limit ? left : (uint32_t)limit,
                            .extent_delta = delta,
                            .extent = extent,
                            .tables = tables};
}

/* Not among the extents of its home writer: perhaps another one stored it. */
static int seek_moved(struct vv_seeker *seeker, const struct vv_place *place, uint32_t home,
                      const struct vv_moved *moved, struct vv_spot *out, struct varve_error *error) {
    if (!moved)
        return not_covered(seeker, place, home, error);
    uint32_t writer = moved->writer;
    uint64_t limit = moved->length - (place->address - moved->extent.address);
    const struct vv_pack_tables *tables;
    int rc = use_tables(seeker, place->dependency, writer, place->owner, &tables, error);
    if (rc < 0)
        return rc;
    const struct vv_pack_extent *extent = find_extent(seeker, tables, place);
    if (!extent)
        return not_covered(seeker, place, writer, error);
    fill_spot(tables, extent, place, writer, limit, out);
    return 0;
}

int vv_seek(struct vv_seeker *seeker, const struct vv_place *place, struct vv_spot *out, struct varve_error *error) {
    const struct vv_writer *home = NULL;
    const struct vv_pack_tables *tables;
    uint32_t writer = 0;
    int rc = use_home(seeker, place, &home, &writer, error);
    if (rc < 0)
        return rc;
    if (place->copy > home->partner_count) {
        return vv_error(error, VARVE_CORRUPT, "a place names copy %u, but writer %u has %u partners", place->copy,
                        writer, home->partner_count);
    }
    if (place->copy)
        writer = home->partners[place->copy - 1];
    rc = use_tables(seeker, place->dependency, writer, place->owner, &tables, error);
    if (rc < 0)
        return rc;
    const struct vv_pack_extent *extent = find_extent(seeker, tables, place);
    if (!extent) {
        const struct vv_moved *moved = place->copy ? NULL : vv_pack_find_moved(tables, place->owner, place->address);
        return seek_moved(seeker, place, writer, moved, out, error);
    }
    fill_spot(tables, extent, place, writer, UINT64_MAX, out);
    return 0;
}

/* ---- ids ---- */

struct ids_load {
    struct vv_view *view;
    uint32_t source;
    uint32_t writer;
    uint64_t page;
};

/* A section of several pages: all of it is checked before the first page is believed, and pages are read where the
 * check was. */
struct checked_ids {
    char key[VV_KEY_CAPACITY];
    struct vv_section section;
};

struct ids_check {
    struct vv_store *store;
    struct checked_ids *ids;
};

static int check_ids(void *arg, const char *key, const struct vv_section *section, struct varve_error *error) {
    struct ids_check *check = arg;
    snprintf(check->ids->key, sizeof check->ids->key, "%s", key);
    check->ids->section = *section;
    return vv_section_check(check->store, key, section, error);
}

static int load_ids_check(void *arg, void **object_out, size_t *bytes_out, struct varve_error *error) {
    struct ids_load *load = arg;
    struct ids_check check = {.store = load->view->store, .ids = vv_calloc(1, sizeof *check.ids)};
    int rc = check.ids
                 ? vv_view_section(load->view, load->source, load->writer, VV_SECTION_IDS, 0, check_ids, &check, error)
                 : vv_error_sys(error, -ENOMEM, "ids");
    if (rc < 0) {
        vv_free(check.ids);
        return rc;
    }
    *object_out = check.ids;
    *bytes_out = sizeof *check.ids;
    return 0;
}

static int read_page(const struct ids_load *load, const struct checked_ids *ids, uint8_t **out, size_t *bytes_out,
                     struct varve_error *error) {
    uint64_t offset = load->page * VV_IDS_PAGE * 16, left = ids->section.length - offset;
    *bytes_out = left < VV_IDS_PAGE * 16 ? (size_t)left : VV_IDS_PAGE * 16;
    uint8_t *data = vv_malloc(*bytes_out);
    int rc = data ? vv_pack_get(load->view->store, ids->key, ids->section.offset + offset, data, *bytes_out, error)
                  : vv_error_sys(error, -ENOMEM, "ids");
    if (rc < 0) {
        vv_free(data);
        return rc;
    }
    *out = data;
    return 0;
}

static int load_large(struct ids_load *load, uint8_t **out, size_t *bytes_out, struct varve_error *error) {
    struct vv_view *view = load->view;
    struct vv_cache_key key = {
        .attempt = *vv_view_source(view, load->source), .writer = load->writer, .kind = VV_CACHED_IDS_CHECK};
    struct vv_cached *checked;
    int rc = vv_pack_cache_acquire(view->cache, &key, load_ids_check, load, vv_free, &checked, error);
    if (rc == 0) {
        rc = read_page(load, checked->object, out, bytes_out, error);
        vv_view_release(view, checked);
    }
    return rc;
}

struct small_ids {
    struct vv_store *store;
    uint8_t *data;
};

/* One page: checked as it is loaded. */
static int load_small(void *arg, const char *key, const struct vv_section *section, struct varve_error *error) {
    struct small_ids *ids = arg;
    return vv_section_load(ids->store, key, section, &ids->data, error);
}

static int load_ids(void *arg, void **object_out, size_t *bytes_out, struct varve_error *error) {
    struct ids_load *load = arg;
    struct small_ids small = {.store = load->view->store};
    struct vv_cached *footer;
    int rc = vv_view_footer(load->view, load->source, load->writer, &footer, error);
    if (rc < 0)
        return rc;
    uint64_t length = vv_footer_section(footer->object, VV_SECTION_IDS, 0)->length;
    vv_view_release(load->view, footer);
    if (load->page * VV_IDS_PAGE * 16 >= length)
        return vv_error(error, VARVE_CORRUPT, "the ids of writer %u end before an id that is needed", load->writer);
    if (length > VV_IDS_PAGE * 16) {
        rc = load_large(load, &small.data, bytes_out, error);
    } else {
        rc = vv_view_section(load->view, load->source, load->writer, VV_SECTION_IDS, 0, load_small, &small, error);
        *bytes_out = (size_t)length;
    }
    *object_out = small.data;
    return rc;
}

static int borrow_ids(struct vv_view *view, uint32_t source, uint32_t writer, uint64_t page, struct vv_cached **out,
                      struct varve_error *error) {
    struct ids_load load = {.view = view, .source = source, .writer = writer, .page = page};
    struct vv_cache_key key = {
        .attempt = *vv_view_source(view, source), .writer = writer, .kind = VV_CACHED_IDS, .page = page};
    int rc = vv_pack_cache_acquire(view->cache, &key, load_ids, &load, vv_free, out, error);
    return rc < 0 ? vv_view_missing(view, rc, error) : 0;
}

int vv_view_block_ids(struct vv_view *view, uint32_t source, uint32_t writer, const struct vv_block *block,
                      uint32_t first, uint32_t count, struct vv_hash128 *out, struct varve_error *error) {
    int rc = 0;
    for (uint32_t i = 0; i < count && rc == 0;) {
        uint64_t number = block->first_id + first + i, page = number / VV_IDS_PAGE;
        struct vv_cached *ids;
        rc = borrow_ids(view, source, writer, page, &ids, error);
        if (rc < 0)
            break;
        const uint8_t *list = ids->object;
        for (; i < count && number / VV_IDS_PAGE == page; i++, number++)
            out[i] = vv_hash128_get(list + number % VV_IDS_PAGE * 16);
        vv_view_release(view, ids);
    }
    return rc;
}

static int use_ids(struct vv_seeker *seeker, uint32_t source, uint32_t writer, uint64_t page,
                   struct varve_error *error) {
    struct vv_cached *cached;
    if (seeker->ids && seeker->ids_page == page && seeker->ids_source == source && seeker->ids_writer == writer)
        return 0;
    int rc = borrow_ids(seeker->view, source, writer, page, &cached, error);
    if (rc < 0)
        return rc;
    vv_view_release(seeker->view, seeker->ids);
    seeker->ids = cached;
    seeker->ids_page = page;
    seeker->ids_source = source;
    seeker->ids_writer = writer;
    return 0;
}

/* How many granules of the `length` bytes wanted are granules of the extent too: whole ones, and a short last one if
 * both end there. */
static uint32_t same_granules(const struct vv_spot *spot, uint64_t length, uint64_t *covered_out) {
    uint64_t both = length < spot->length ? length : spot->length;
    uint64_t count = both / VV_GRANULE;
    *covered_out = count * VV_GRANULE;
    if (both % VV_GRANULE && length == spot->length && spot->extent_delta + spot->length == spot->extent->length) {
        *covered_out = both;
        count++;
    }
    return (uint32_t)count;
}

static int has_ids(const struct vv_seeker *seeker, const struct vv_place *place, const struct vv_spot *spot) {
    const struct vv_view *view = seeker->view;
    if (spot->tables->is_lost && view->is_trusted) /* the ids are there, but are the bytes? */
        return 0;
    if (!(spot->tables->blocks[spot->block].flags & VV_BLOCK_IDS) || spot->extent_delta % VV_GRANULE)
        return 0;
    return !view->is_trusted ||
           view->is_trusted(view->is_trusted_arg, vv_view_source(view, place->dependency), spot->writer);
}

int vv_seek_ids(struct vv_seeker *seeker, const struct vv_place *place, uint64_t length, struct vv_hash128 *out,
                uint32_t max, uint32_t *count_out, uint64_t *covered_out, struct varve_error *error) {
    struct vv_spot spot;
    int rc = vv_seek(seeker, place, &spot, error);
    if (rc < 0)
        return rc;
    *count_out = 0;
    *covered_out = length < spot.length ? length : spot.length;
    uint64_t covered;
    uint32_t count = has_ids(seeker, place, &spot) ? same_granules(&spot, length, &covered) : 0;
    if (!count)
        return 0;
    uint64_t first = spot.tables->blocks[spot.block].first_id + spot.extent->id + spot.extent_delta / VV_GRANULE;
    uint64_t in_page = VV_IDS_PAGE - first % VV_IDS_PAGE;
    uint64_t limit = in_page < max ? in_page : max;
    if (count > limit) {
        count = (uint32_t)limit;
        covered = limit * VV_GRANULE;
    }
    rc = use_ids(seeker, place->dependency, spot.writer, first / VV_IDS_PAGE, error);
    if (rc < 0)
        return rc;
    const uint8_t *page = seeker->ids->object;
    for (uint32_t i = 0; i < count; i++)
        out[i] = vv_hash128_get(page + (first % VV_IDS_PAGE + i) * 16);
    *count_out = count;
    *covered_out = covered;
    return 0;
}

int vv_view_id(struct vv_view *view, const struct vv_place *place, uint64_t length, struct vv_hash128 *out,
               struct varve_error *error) {
    struct vv_seeker seeker;
    uint32_t count = 0;
    uint64_t covered;
    if (length == 0 || length > VV_GRANULE)
        return vv_error(error, -EINVAL, "%llu bytes are no granule", (unsigned long long)length);
    vv_seeker_init(&seeker, view);
    int rc = vv_seek_ids(&seeker, place, length, out, 1, &count, &covered, error);
    vv_seeker_clear(&seeker);
    return rc < 0 ? rc : (int)count;
}
