/* The writers lists of a view: the record names them by their digests. Of a long list only the pages are read that hold
 * the writers in question, so that reading does not grow with the number of writers. */
#include "read/view_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

#define FIRST_READ 16384u /* whole lists of 250 writers; the digests of pages for 500,000 */
#define NEXT_READ                                                                                                      \
    (1u << 20) /* the rest, step by step: the count may be damaged, and memory is taken for what is there */

struct load {
    struct vv_view *view;
    const struct vv_writers_index *index; /* of a page */
    uint32_t source;
    uint32_t page;
};

static struct vv_key key_of(const struct load *load) {
    return vv_attempt_key(load->view->name, vv_view_source(load->view, load->source), VV_KIND_WRITERS, 0, 0);
}

static int tell_missing(const struct vv_key *key, int rc, struct varve_error *error) {
    char text[VV_KEY_CAPACITY];
    vv_key_print(key, text);
    return rc == -ENOENT ? vv_error(error, rc, "%s is missing", text) : rc;
}

/* ---- the list, or the digests of its pages ---- */

static void index_destroy(void *object) {
    vv_writers_index_clear(object);
    vv_free(object);
}

/* As much of its beginning as is needed; one byte more shows whether a short list ends there. */
static int read_beginning(const struct load *load, const struct vv_key *key, struct vv_buf *out,
                          struct varve_error *error) {
    uint8_t *data = vv_buf_extend(out, FIRST_READ);
    if (!data)
        return vv_error_sys(error, -ENOMEM, "a writers list");
    int64_t got = vv_object_read_at(load->view->store, key, 0, data, FIRST_READ, error);
    if (got < 0)
        return tell_missing(key, (int)got, error);
    out->size = (size_t)got;
    uint64_t need = vv_writers_index_size(out->data, out->size);
    if (got < FIRST_READ || need < FIRST_READ)
        return 0;
    for (size_t at = FIRST_READ, more; at <= need; at += more) {
        more = need + 1 - at < NEXT_READ ? (size_t)(need + 1 - at) : NEXT_READ;
        if (!(data = vv_buf_extend(out, more)))
            return vv_error_sys(error, -ENOMEM, "a writers list");
        got = vv_object_read_at(load->view->store, key, at, data, more, error);
        if (got < 0)
            return tell_missing(key, (int)got, error);
        out->size = at + (size_t)got;
        if ((size_t)got < more)
            return 0;
    }
    return 0;
}

static int load_index(void *arg, void **object_out, size_t *bytes_out, struct varve_error *error) {
    const struct load *load = arg;
    struct vv_key key = key_of(load);
    struct vv_writers_index *index = vv_calloc(1, sizeof *index);
    struct vv_buf bytes;
    vv_buf_init(&bytes);
    int rc = index ? read_beginning(load, &key, &bytes, error) : vv_error_sys(error, -ENOMEM, "a writers list");
    if (rc == 0)
        rc = vv_writers_index_parse(bytes.data, bytes.size, &key, load->view->store->id, index, error);
    vv_buf_clear(&bytes);
    if (rc < 0) {
        vv_free(index);
        return rc;
    }
    *object_out = index;
    *bytes_out = sizeof *index + (index->list ? index->count * sizeof *index->list
                                              : vv_writers_pages(index->count) * sizeof *index->pages);
    return 0;
}

static int check_index(const struct vv_view *view, uint32_t source, const struct vv_writers_index *index,
                       struct varve_error *error) {
    const struct vv_attempt *attempt = vv_view_source(view, source);
    const struct vv_record *record = &view->record;
    struct vv_hash128 digest = source ? record->dependencies[source - 1].writers_digest : record->writers_digest;
    char text[64]; /* written only when something is wrong: this is called for every other run */
    if (!vv_hash128_equal(index->digest, digest)) {
        return vv_error(error, VARVE_CORRUPT, "the writers list of %s is not the one the record of version %llu names",
                        vv_attempt_text(attempt, text), (unsigned long long)view->attempt.version);
    }
    if (source == 0 &&
        (index->count != record->writers || index->ranks != record->ranks || index->length != record->writers_length)) {
        return vv_error(error, VARVE_CORRUPT, "record and writers list of %s differ about writers or ranks",
                        vv_attempt_text(attempt, text));
    }
    return 0;
}

int vv_view_writers(struct vv_view *view, uint32_t source, struct vv_cached **out, struct varve_error *error) {
    const struct vv_attempt *attempt = vv_view_source(view, source);
    if (!attempt)
        return vv_error(error, -EINVAL, "there is no source %u", source);
    struct load load = {.view = view, .source = source};
    struct vv_cache_key key = {.attempt = *attempt, .kind = VV_CACHED_WRITERS};
    struct vv_cached *cached;
    int rc = vv_pack_cache_acquire(view->cache, &key, load_index, &load, index_destroy, &cached, error);
    if (rc < 0)
        return vv_view_missing(view, rc, error);
    rc = check_index(view, source, cached->object, error);
    if (rc < 0) {
        vv_view_release(view, cached);
        return rc;
    }
    *out = cached;
    return 0;
}

int vv_view_writer_count(struct vv_view *view, uint32_t source, uint32_t *out, struct varve_error *error) {
    struct vv_cached *cached = NULL;
    int rc = vv_view_writers(view, source, &cached, error);
    if (rc == 0) {
        *out = ((const struct vv_writers_index *)cached->object)->count;
        vv_view_release(view, cached);
    }
    return rc;
}

/* ---- a page ---- */

static int read_page(const struct load *load, struct vv_writer *out, struct varve_error *error) {
    struct vv_key key = key_of(load);
    size_t size = 0;
    uint64_t at = vv_writers_page_at(load->index->count, load->page, &size);
    uint8_t *data = vv_malloc(size);
    if (!data)
        return vv_error_sys(error, -ENOMEM, "a page of writers");
    int64_t got = vv_object_read_at(load->view->store, &key, at, data, size, error);
    int rc = got < 0 ? tell_missing(&key, (int)got, error)
                     : vv_writers_page_parse(load->index, load->page, data, (size_t)got, &key, out, error);
    vv_free(data);
    return rc;
}

static int load_page(void *arg, void **object_out, size_t *bytes_out, struct varve_error *error) {
    struct vv_writer *page = vv_calloc(VV_WRITERS_PAGE, sizeof *page);
    int rc = page ? read_page(arg, page, error) : vv_error_sys(error, -ENOMEM, "a page of writers");
    if (rc < 0) {
        vv_free(page);
        return rc;
    }
    *object_out = page;
    *bytes_out = VV_WRITERS_PAGE * sizeof *page;
    return 0;
}

/* The page of the list in home; a list without pages is one. */
static int use_page(struct vv_view *view, struct vv_home *home, uint32_t page, struct varve_error *error) {
    struct load load = {.view = view, .index = home->list->object, .source = home->source, .page = page};
    struct vv_cache_key key = {
        .attempt = *vv_view_source(view, home->source), .kind = VV_CACHED_WRITERS_PAGE, .page = page};
    struct vv_cached *cached;
    if (load.index->list || (home->page && home->number == page))
        return 0;
    int rc = vv_pack_cache_acquire(view->cache, &key, load_page, &load, vv_free, &cached, error);
    if (rc < 0)
        return vv_view_missing(view, rc, error);
    vv_view_release(view, home->page);
    home->page = cached;
    home->number = page;
    return 0;
}

/* ---- who serves an owner ---- */

void vv_home_clear(struct vv_view *view, struct vv_home *home) {
    vv_view_release(view, home->page);
    vv_view_release(view, home->list);
    *home = (struct vv_home){.source = 0};
}

static int use_list(struct vv_view *view, struct vv_home *home, uint32_t source, struct varve_error *error) {
    struct vv_cached *cached;
    if (home->list && home->source == source)
        return 0;
    int rc = vv_view_writers(view, source, &cached, error);
    if (rc < 0)
        return rc;
    vv_home_clear(view, home);
    *home = (struct vv_home){.source = source, .list = cached};
    return 0;
}

/* Owners ascend, and mostly each writer has as many: the first guess is nearly always right. */
static int find_in_pages(struct vv_view *view, struct vv_home *home, uint32_t owner, const struct vv_writer **out,
                         uint32_t *number_out, struct varve_error *error) {
    const struct vv_writers_index *index = home->list->object;
    uint64_t low = 0, high = vv_writers_pages(index->count), guess;
    guess = (uint64_t)owner * index->count / index->ranks / VV_WRITERS_PAGE;
    if (owner >= index->ranks)
        return 0;
    while (low < high) {
        guess = guess < low || guess >= high ? low + (high - low) / 2 : guess;
        int rc = use_page(view, home, (uint32_t)guess, error);
        if (rc < 0)
            return rc;
        const struct vv_writer *page = home->page->object;
        uint32_t first = (uint32_t)guess * VV_WRITERS_PAGE, left = index->count - first;
        uint32_t count = left < VV_WRITERS_PAGE ? left : VV_WRITERS_PAGE;
        int64_t at = vv_writers_find(page, count, owner);
        if (at >= 0) {
            *out = &page[at];
            *number_out = first + (uint32_t)at;
            return 1;
        }
        if (owner < page[0].first_owner)
            high = guess;
        else
            low = guess + 1;
        guess = low + (high - low) / 2;
    }
    return 0;
}

int vv_home_find(struct vv_view *view, struct vv_home *home, uint32_t source, uint32_t owner,
                 const struct vv_writer **out, uint32_t *number_out, struct varve_error *error) {
    int rc = use_list(view, home, source, error);
    if (rc < 0)
        return rc;
    const struct vv_writers_index *index = home->list->object;
    if (!index->list)
        return find_in_pages(view, home, owner, out, number_out, error);
    int64_t at = vv_writers_find(index->list, index->count, owner);
    if (at < 0)
        return 0;
    *out = &index->list[at];
    *number_out = (uint32_t)at;
    return 1;
}

int vv_view_home(struct vv_view *view, uint32_t source, uint32_t owner, uint32_t *out, struct varve_error *error) {
    struct vv_home home = {.source = 0};
    const struct vv_writer *entry;
    int rc = vv_home_find(view, &home, source, owner, &entry, out, error);
    vv_home_clear(view, &home);
    return rc;
}

int vv_view_listed(struct vv_view *view, uint32_t source, uint32_t writer, struct vv_listed *out,
                   struct varve_error *error) {
    struct vv_home home = {.source = 0};
    int rc = use_list(view, &home, source, error);
    if (rc < 0)
        return rc;
    const struct vv_writers_index *index = home.list->object;
    if (writer >= index->count) {
        char text[64];
        rc = vv_error(error, VARVE_CORRUPT, "writer %u is named, but %s has %u writers", writer,
                      vv_attempt_text(vv_view_source(view, source), text), index->count);
    } else if ((rc = use_page(view, &home, writer / VV_WRITERS_PAGE, error)) == 0) {
        const struct vv_writer *page = home.page ? home.page->object : NULL;
        *out = (struct vv_listed){.entry = page ? page[writer % VV_WRITERS_PAGE] : index->list[writer],
                                  .count = index->count,
                                  .ranks = index->ranks};
    }
    vv_home_clear(view, &home);
    return rc;
}
