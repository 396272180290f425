/* The list of writers of an attempt (docs/format.md 5): which writer serves which owners, and the digests of their
 * footers. A long list has a digest for each page of it, so that a rank among very many reads the page it needs. */
#include "format/format_private.h"

#include "base/alloc.h"
#include "base/search.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define PARTS_MAX 1048576u
#define FIXED 8 /* bytes before the digests of pages */

uint32_t vv_writers_pages(uint32_t count) {
    return count > VV_WRITERS_PAGE ? (count - 1) / VV_WRITERS_PAGE + 1 : 0;
}

static uint64_t entries_at(uint32_t count) {
    return VV_HEAD_SIZE + FIXED + (uint64_t)vv_writers_pages(count) * 16;
}

uint64_t vv_writers_length(uint32_t count) {
    return entries_at(count) + (uint64_t)count * VV_WRITER_ENTRY_SIZE + VV_TAIL_SIZE;
}

/* ---- digests ---- */

static uint32_t count_in(const uint8_t *data) {
    return vv_get32(data + VV_HEAD_SIZE);
}

/* Of a list with pages: of what comes before its entries, which the digests of its pages cover. */
static struct vv_hash128 digest_of_index(const uint8_t *data, uint32_t count) {
    return vv_digest(data, entries_at(count));
}

struct vv_hash128 vv_writers_digest(const uint8_t *data, uint64_t size) {
    uint32_t count = size >= VV_HEAD_SIZE + FIXED + VV_TAIL_SIZE ? count_in(data) : 0;
    if (vv_writers_pages(count) > 0 && size == vv_writers_length(count))
        return digest_of_index(data, count);
    return vv_digest(data, size - 16);
}

static size_t page_size(uint32_t count, uint32_t page) {
    uint32_t first = page * VV_WRITERS_PAGE, left = count - first;
    return (size_t)(left < VV_WRITERS_PAGE ? left : VV_WRITERS_PAGE) * VV_WRITER_ENTRY_SIZE;
}

static void put_page_digests(uint8_t *object, uint32_t count) {
    for (uint32_t page = 0; page < vv_writers_pages(count); page++)
        vv_hash128_put(object + VV_HEAD_SIZE + FIXED + (size_t)page * 16,
                       vv_digest(object + vv_writers_page_at(count, page, NULL), page_size(count, page)));
}

uint64_t vv_writers_page_at(uint32_t count, uint32_t page, size_t *size_out) {
    if (size_out)
        *size_out = page_size(count, page);
    return entries_at(count) + (uint64_t)page * VV_WRITERS_PAGE * VV_WRITER_ENTRY_SIZE;
}

/* ---- the whole list ---- */

static void put_entry(struct vv_buf *buf, const struct vv_writer *writer) {
    vv_buf_u32(buf, writer->first_owner);
    vv_buf_u32(buf, writer->owners);
    vv_buf_u32(buf, writer->parts);
    vv_put_partners(buf, writer->partners, writer->partner_count);
    vv_buf_u32(buf, 0);
    vv_buf_u64(buf, writer->pack_length);
    vv_buf_u64(buf, writer->parts_length);
    vv_put_hash(buf, writer->footer_digest);
}

static struct vv_hash128 seal(struct vv_buf *buf, size_t start, uint32_t count) {
    struct vv_hash128 digest = {0, 0};
    if (vv_writers_pages(count) == 0)
        return vv_object_seal(buf, start);
    if (!buf->failed) {
        put_page_digests(buf->data + start, count);
        digest = digest_of_index(buf->data + start, count);
    }
    vv_buf_u64(buf, vv_writers_length(count));
    vv_put_hash(buf, digest);
    return digest;
}

void vv_writers_encode(struct vv_buf *buf, const struct vv_key *key, const uint8_t store_id[16],
                       const struct vv_writers *writers, struct vv_hash128 *digest_out) {
    uint64_t owners = 0;
    assert(key->kind == VV_KIND_WRITERS && key->generation != 0 && key->version < VV_VERSION_END);
    assert(writers->count >= 1 && writers->count <= VV_COUNT_MAX && writers->ranks <= VV_COUNT_MAX);
    size_t start = vv_object_begin(buf, VV_KIND_WRITERS, key, store_id);
    vv_buf_u32(buf, writers->count);
    vv_buf_u32(buf, writers->ranks);
    for (uint32_t page = 0; page < vv_writers_pages(writers->count); page++)
        vv_put_hash(buf, (struct vv_hash128){0, 0}); /* known when the entries are */
    for (uint32_t i = 0; i < writers->count; i++) {
        const struct vv_writer *writer = &writers->list[i];
        assert(writer->first_owner == owners);
        owners += writer->owners;
        put_entry(buf, writer);
    }
    assert(owners == writers->ranks);
    (void)owners;
    struct vv_hash128 digest = seal(buf, start, writers->count);
    if (digest_out)
        *digest_out = digest;
}

static int check_lengths(const struct vv_parse *parse, const struct vv_writer *writer, uint32_t i) {
    if (writer->parts > PARTS_MAX)
        return vv_parse_fail(parse, VARVE_CORRUPT, "writer %u has %u earlier parts, may have at most %u", i,
                             writer->parts, PARTS_MAX);
    if (writer->pack_length < VV_HEAD_SIZE || writer->pack_length >= VV_LENGTH_END)
        return vv_parse_fail(parse, VARVE_CORRUPT, "pack of writer %u has %" PRIu64 " bytes", i, writer->pack_length);
    if (writer->parts_length < (uint64_t)writer->parts * VV_HEAD_SIZE || writer->parts_length >= VV_LENGTH_END ||
        (writer->parts == 0 && writer->parts_length != 0))
        return vv_parse_fail(parse, VARVE_CORRUPT, "%u earlier parts of writer %u have %" PRIu64 " bytes",
                             writer->parts, i, writer->parts_length);
    return 0;
}

/* One entry; owners: where those before it end, and then where its own do. */
static int parse_writer(struct vv_parse *parse, const struct vv_writers_index *list, uint32_t i, uint64_t *owners,
                        struct vv_writer *writer) {
    int rc;
    memset(writer, 0, sizeof *writer); /* unused partners, too */
    writer->first_owner = vv_cursor_u32(&parse->at);
    writer->owners = vv_cursor_u32(&parse->at);
    writer->parts = vv_cursor_u32(&parse->at);
    if ((rc = vv_parse_partners(parse, list->count, &writer->partner_count, writer->partners)) < 0)
        return rc;
    for (uint32_t j = 0; j < writer->partner_count; j++)
        if (writer->partners[j] == i)
            return vv_parse_fail(parse, VARVE_CORRUPT, "writer %u is its own partner", i);
    uint32_t reserved = vv_cursor_u32(&parse->at);
    writer->pack_length = vv_cursor_u64(&parse->at);
    writer->parts_length = vv_cursor_u64(&parse->at);
    writer->footer_digest = vv_hash128_get(vv_cursor_take(&parse->at, 16));
    if (writer->first_owner != *owners)
        return vv_parse_fail(parse, VARVE_CORRUPT, "first owner of writer %u is %u, the owners before end at %" PRIu64,
                             i, writer->first_owner, *owners);
    if (*owners > list->ranks || writer->owners > list->ranks - *owners)
        return vv_parse_fail(parse, VARVE_CORRUPT, "writer %u has %u owners from %u, there are %u ranks", i,
                             writer->owners, writer->first_owner, list->ranks);
    if ((rc = vv_parse_reserved(parse, "reserved field of a writer", reserved)) < 0)
        return rc;
    *owners += writer->owners;
    return check_lengths(parse, writer, i);
}

/* Entries from `first` on, as many as the cursor has. Those before the first of them are not known: only within what is
 * read, and at the ends of the list, owners must follow one another. */
static int parse_entries(struct vv_parse *parse, const struct vv_writers_index *list, uint32_t first,
                         struct vv_writer *out) {
    uint32_t count = (uint32_t)(vv_cursor_left(&parse->at) / VV_WRITER_ENTRY_SIZE);
    uint64_t owners = first == 0 ? 0 : vv_get32(parse->at.at);
    for (uint32_t i = 0; i < count; i++) {
        int rc = parse_writer(parse, list, first + i, &owners, &out[i]);
        if (rc < 0)
            return rc;
    }
    if (first + count == list->count && owners != list->ranks)
        return vv_parse_fail(parse, VARVE_CORRUPT, "the writers have %" PRIu64 " owners, there are %u ranks", owners,
                             list->ranks);
    return 0;
}

static int parse_counts(struct vv_parse *parse, struct vv_writers_index *out) {
    int rc = vv_parse_need(parse, FIXED, "fixed fields");
    if (rc < 0)
        return rc;
    out->count = vv_cursor_u32(&parse->at);
    out->ranks = vv_cursor_u32(&parse->at);
    if (out->count < 1 || out->count > VV_COUNT_MAX || out->ranks < 1 || out->ranks > VV_COUNT_MAX)
        return vv_parse_fail(parse, VARVE_CORRUPT, "%u writers and %u ranks, both must be 1 to 2^31 - 1", out->count,
                             out->ranks);
    return 0;
}

static int check_page(const struct vv_parse *parse, const uint8_t *digest, const uint8_t *data, size_t size,
                      uint32_t page) {
    if (!vv_hash128_equal(vv_hash128_get(digest), vv_digest(data, size)))
        return vv_parse_fail(parse, VARVE_CORRUPT, "digest of page %u of the writers does not match", page);
    return 0;
}

static int parse_body(struct vv_parse *parse, const uint8_t *object, struct vv_writers *out) {
    struct vv_writers_index list = {0};
    int rc = parse_counts(parse, &list);
    if (rc < 0)
        return rc;
    uint64_t digests = (uint64_t)vv_writers_pages(list.count) * 16;
    if (vv_cursor_left(&parse->at) != digests + (uint64_t)list.count * VV_WRITER_ENTRY_SIZE)
        return vv_parse_fail(parse, VARVE_CORRUPT, "number of writers is %u, the entries have %zu bytes", list.count,
                             vv_cursor_left(&parse->at));
    const uint8_t *pages = vv_cursor_take(&parse->at, digests);
    for (uint32_t page = 0; page < vv_writers_pages(list.count); page++) {
        size_t size;
        uint64_t at = vv_writers_page_at(list.count, page, &size);
        if ((rc = check_page(parse, pages + (size_t)page * 16, object + at, size, page)) < 0)
            return rc;
    }
    if (!(out->list = vv_calloc(list.count, sizeof *out->list)))
        return vv_parse_fail(parse, -ENOMEM, "no memory for %u writers", list.count);
    out->count = list.count;
    out->ranks = list.ranks;
    return parse_entries(parse, &list, 0, out->list);
}

int vv_writers_parse(const void *data, size_t size, const struct vv_key *expect, const uint8_t *store_id,
                     struct vv_writers *out, struct varve_error *error) {
    struct vv_parse parse;
    struct vv_writers writers = {0};
    int rc = vv_object_open(&parse, VV_KIND_WRITERS, data, size, VV_WRITERS_MAX, expect, store_id, NULL, error);
    if (rc < 0)
        return rc;
    if ((rc = parse_body(&parse, data, &writers)) < 0) {
        vv_writers_clear(&writers);
        return rc;
    }
    writers.digest = vv_hash128_get((const uint8_t *)data + size - 16);
    writers.length = size;
    *out = writers;
    return 0;
}

void vv_writers_clear(struct vv_writers *writers) {
    if (!writers)
        return;
    vv_free(writers->list);
    memset(writers, 0, sizeof *writers);
}

/* ---- a part of it ---- */

uint64_t vv_writers_index_size(const void *data, size_t size) {
    uint32_t count = size >= VV_HEAD_SIZE + FIXED ? count_in(data) : 0;
    return vv_writers_pages(count) > 0 ? entries_at(count) : vv_writers_length(count);
}

static int take_pages(struct vv_parse *parse, struct vv_writers_index *out) {
    uint32_t pages = vv_writers_pages(out->count);
    int rc = vv_parse_need(parse, (size_t)pages * 16, "digests of pages");
    if (rc < 0)
        return rc;
    if (!(out->pages = vv_calloc(pages, sizeof *out->pages)))
        return vv_parse_fail(parse, -ENOMEM, "no memory for %u pages of writers", pages);
    for (uint32_t page = 0; page < pages; page++)
        out->pages[page] = vv_hash128_get(vv_cursor_take(&parse->at, 16));
    return 0;
}

/* A list without pages is read whole. */
static int take_whole(const void *data, size_t size, const struct vv_key *expect, const uint8_t *store_id,
                      struct vv_writers_index *out, struct varve_error *error) {
    struct vv_writers writers;
    int rc = vv_writers_parse(data, size, expect, store_id, &writers, error);
    if (rc == 0)
        *out = (struct vv_writers_index){.count = writers.count,
                                         .ranks = writers.ranks,
                                         .digest = writers.digest,
                                         .length = writers.length,
                                         .list = writers.list};
    return rc;
}

int vv_writers_index_parse(const void *data, size_t size, const struct vv_key *expect, const uint8_t *store_id,
                           struct vv_writers_index *out, struct varve_error *error) {
    struct vv_parse parse = {.error = error, .key = expect};
    struct vv_writers_index index = {0};
    struct vv_head head;
    if (size < VV_HEAD_SIZE + FIXED || vv_writers_pages(count_in(data)) == 0)
        return take_whole(data, size, expect, store_id, out, error);
    int rc = vv_head_parse(data, size, expect, store_id, &head, error);
    if (rc < 0)
        return rc;
    if (head.kind != VV_KIND_WRITERS)
        return vv_parse_fail(&parse, VARVE_CORRUPT, "kind is %u (%s)", head.kind, vv_kind_name(head.kind));
    vv_cursor_init(&parse.at, (const uint8_t *)data + VV_HEAD_SIZE, size - VV_HEAD_SIZE);
    if ((rc = parse_counts(&parse, &index)) < 0 || (rc = take_pages(&parse, &index)) < 0)
        return rc;
    index.length = vv_writers_length(index.count);
    index.digest = digest_of_index(data, index.count);
    *out = index;
    return 0;
}

int vv_writers_page_parse(const struct vv_writers_index *index, uint32_t page, const void *data, size_t size,
                          const struct vv_key *expect, struct vv_writer *out, struct varve_error *error) {
    struct vv_parse parse = {.error = error, .key = expect};
    uint8_t digest[16];
    if (size != page_size(index->count, page))
        return vv_parse_fail(&parse, VARVE_CORRUPT, "page %u of the writers has %zu bytes", page, size);
    vv_hash128_put(digest, index->pages[page]);
    int rc = check_page(&parse, digest, data, size, page);
    if (rc < 0)
        return rc;
    vv_cursor_init(&parse.at, data, size);
    return parse_entries(&parse, index, page * VV_WRITERS_PAGE, out);
}

void vv_writers_index_clear(struct vv_writers_index *index) {
    vv_free(index->pages);
    vv_free(index->list);
    memset(index, 0, sizeof *index);
}

int64_t vv_writers_find(const struct vv_writer *list, uint32_t count, uint32_t owner) {
    uint32_t above;
    VV_SEARCH(above, 0, count, list[above].first_owner <= owner);
    if (above == 0 || owner - list[above - 1].first_owner >= list[above - 1].owners)
        return -1;
    return (int64_t)above - 1;
}

int64_t vv_writers_home(const struct vv_writers *writers, uint32_t owner) {
    return vv_writers_find(writers->list, writers->count, owner);
}
