#include "files/map.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION 1u
#define VERSION_LINKS 2u /* with symbolic links; those without are still written for everybody */
#define LINK 0120000u
#define LENGTH_END (UINT64_C(1) << 62)
static const uint8_t magic[8] = {'V', 'a', 'r', 'v', 'e', 'M', 'a', 'p'};

/* ---- writing ---- */

struct writer {
    uint8_t *data;
    size_t size, capacity;
    int rc;
};

static void put(struct writer *writer, const void *data, size_t size) {
    if (writer->rc == 0 && size > FILES_MAP_MOST - writer->size)
        writer->rc = -E2BIG;
    while (writer->rc == 0 && writer->capacity - writer->size < size) {
        size_t capacity = writer->capacity ? writer->capacity * 2 : 4096;
        uint8_t *grown = realloc(writer->data, capacity);
        if (!grown) {
            writer->rc = -ENOMEM;
            return;
        }
        writer->data = grown;
        writer->capacity = capacity;
    }
    if (writer->rc == 0 && size) {
        memcpy(writer->data + writer->size, data, size);
        writer->size += size;
    }
}

static void put_number(struct writer *writer, uint64_t value) {
    uint8_t raw[10];
    size_t size = 0;
    do {
        raw[size++] = (uint8_t)(value & 0x7f) | (value > 0x7f ? 0x80 : 0);
        value >>= 7;
    } while (value);
    put(writer, raw, size);
}

static void put_signed(struct writer *writer, int64_t value) {
    put_number(writer, value >= 0 ? (uint64_t)value * 2 : (uint64_t)(-(value + 1)) * 2 + 1);
}

static void put_text(struct writer *writer, const char *text) {
    size_t size = text ? strlen(text) : 0;
    put_number(writer, size);
    put(writer, text, size);
}

static int compare_places(const void *a, const void *b) {
    const struct files_piece *x = a, *y = b;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    return x->file_offset < y->file_offset ? -1 : x->file_offset > y->file_offset;
}

static void put_file(struct writer *writer, const struct files_file *file, const struct files_piece *pieces,
                     size_t count, uint64_t *next) {
    uint32_t region = 0;
    put_text(writer, file->path);
    put_number(writer, file->size);
    put_number(writer, file->mode | (file->target ? LINK : 0));
    put_signed(writer, file->mtime);
    put_number(writer, file->mtime_ns);
    put_number(writer, count);
    for (size_t i = 0; i < count; i++) {
        put_signed(writer, (int64_t)pieces[i].region - (int64_t)region);
        region = pieces[i].region;
        put_signed(writer, (int64_t)(pieces[i].region_offset - next[region]));
        put_number(writer, pieces[i].length);
        next[region] = pieces[i].region_offset + pieces[i].length;
    }
    if (file->target)
        put_text(writer, file->target);
}

static unsigned version_of(const struct files_list *files) {
    for (size_t i = 0; i < files->count; i++)
        if (files->list[i].target)
            return VERSION_LINKS;
    return VERSION;
}

static void put_files(struct writer *writer, const struct files_plan *plan, const struct files_piece *pieces,
                      uint64_t *next) {
    size_t at = 0;
    put_number(writer, plan->files.count);
    for (size_t i = 0; i < plan->files.count; i++) {
        size_t first = at;
        while (at < plan->piece_count && pieces[at].file == i)
            at++;
        put_file(writer, &plan->files.list[i], pieces + first, at - first, next);
    }
}

int files_map_encode(const struct files_plan *plan, uint8_t **out, size_t *size_out) {
    struct writer writer = {.rc = 0};
    struct files_piece *pieces = calloc(plan->piece_count + 1, sizeof *pieces);
    uint64_t *next = calloc(plan->region_count + 1, sizeof *next);
    if (!pieces || !next)
        writer.rc = -ENOMEM;
    if (writer.rc == 0 && plan->piece_count) {
        memcpy(pieces, plan->pieces, plan->piece_count * sizeof *pieces);
        qsort(pieces, plan->piece_count, sizeof *pieces, compare_places);
    }
    put(&writer, magic, sizeof magic);
    put_number(&writer, version_of(&plan->files));
    put_number(&writer, plan->region_count);
    for (size_t i = 0; i < plan->region_count; i++) {
        put_text(&writer, plan->regions[i].name);
        put_number(&writer, plan->regions[i].length);
        put_text(&writer, plan->regions[i].full);
    }
    if (writer.rc == 0)
        put_files(&writer, plan, pieces, next);
    free(pieces);
    free(next);
    if (writer.rc < 0)
        free(writer.data);
    *out = writer.rc < 0 ? NULL : writer.data;
    *size_out = writer.size;
    return writer.rc;
}

/* ---- reading ---- */

struct reader {
    const uint8_t *at, *end;
    const char *wrong; /* what, as soon as something is */
    uint64_t version;
    int rc;
};

static uint64_t refuse_map(struct reader *reader, int rc, const char *wrong) {
    if (reader->rc == 0) {
        reader->rc = rc;
        reader->wrong = wrong;
        reader->at = reader->end;
    }
    return 0;
}

static uint64_t number(struct reader *reader, uint64_t most, const char *what) {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        if (reader->at == reader->end)
            return refuse_map(reader, VARVE_CORRUPT, "it ends too early");
        uint8_t byte = *reader->at++;
        if (shift == 63 && byte > 1)
            return refuse_map(reader, VARVE_CORRUPT, "a number is too large");
        if (byte == 0 && shift > 0)
            return refuse_map(reader, VARVE_CORRUPT, "a number is longer than it must be");
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            break;
    }
    return value > most ? refuse_map(reader, VARVE_CORRUPT, what) : value;
}

static int64_t signed_number(struct reader *reader) {
    uint64_t value = number(reader, UINT64_MAX, "");
    return value & 1 ? -(int64_t)(value / 2) - 1 : (int64_t)(value / 2);
}

/* NULL when it is empty, or when something is wrong. */
static char *text(struct reader *reader, uint64_t most) {
    uint64_t size = number(reader, most, "a name is too long");
    if (size > (uint64_t)(reader->end - reader->at))
        refuse_map(reader, VARVE_CORRUPT, "it ends too early");
    if (reader->rc < 0 || size == 0)
        return NULL;
    char *out = memchr(reader->at, 0, (size_t)size) ? NULL : strndup((const char *)reader->at, (size_t)size);
    if (!out)
        refuse_map(reader, memchr(reader->at, 0, (size_t)size) ? VARVE_CORRUPT : -ENOMEM, "a name has a zero byte");
    else
        reader->at += size;
    return out;
}

static void take_region(struct reader *reader, struct files_plan *plan) {
    char *name = text(reader, FILES_REGION_NAME_MOST);
    uint64_t length = number(reader, LENGTH_END - 1, "a region is too large");
    char *full = text(reader, FILES_PATH_MOST + FILES_NAME_MOST + 8);
    if (reader->rc == 0 && (!name || !strcmp(name, FILES_MAP_REGION)))
        refuse_map(reader, VARVE_CORRUPT, "a region has no proper name");
    if (reader->rc < 0) {
        free(name);
        free(full);
        return;
    }
    if (files_plan_region(plan, name, full) < 0)
        refuse_map(reader, -ENOMEM, "no memory");
    else
        plan->regions[plan->region_count - 1].length = length;
}

/* One piece of the file, which begins at *at of it. */
static void take_piece(struct reader *reader, struct files_plan *plan, uint64_t *next, uint32_t *region, uint64_t *at) {
    const struct files_file *file = &plan->files.list[plan->files.count - 1];
    int64_t jump = signed_number(reader);
    int64_t shift = signed_number(reader);
    uint64_t length = number(reader, LENGTH_END, "a piece is too large");
    if (reader->rc < 0)
        return;
    if (jump < -(int64_t)*region || jump >= (int64_t)plan->region_count - (int64_t)*region) {
        refuse_map(reader, VARVE_CORRUPT, "a piece is of a region that is not there");
        return;
    }
    *region = (uint32_t)((int64_t)*region + jump);
    uint64_t capacity = plan->regions[*region].length;
    if ((shift < 0 && 0 - (uint64_t)shift > next[*region]) || shift > (int64_t)LENGTH_END) {
        refuse_map(reader, VARVE_CORRUPT, "a piece lies outside of its region");
        return;
    }
    uint64_t offset = next[*region] + (uint64_t)shift;
    if (length == 0 || offset > capacity || length > capacity - offset || length > file->size - *at) {
        refuse_map(reader, VARVE_CORRUPT, "a piece lies outside of its region or file");
        return;
    }
    struct files_piece piece = {*at, offset, length, (uint32_t)plan->files.count - 1, *region};
    int rc = files_plan_piece(plan, &piece);
    if (rc < 0)
        refuse_map(reader, rc == -ENOMEM ? rc : VARVE_CORRUPT, "it has too many pieces");
    next[*region] = offset + length;
    *at += length;
}

/* A link has no bytes; where it leads is for whoever follows it, which nobody does here. */
static void take_target(struct reader *reader, struct files_file *file) {
    file->target = text(reader, FILES_PATH_MOST);
    if (reader->rc == 0 && !file->target)
        refuse_map(reader, VARVE_CORRUPT, "a link leads nowhere");
}

static int add_file(struct reader *reader, struct files_plan *plan, const struct files_file *file) {
    struct files_list *files = &plan->files;
    if (reader->rc == 0 && (!file->path || !files_is_path(file->path)))
        refuse_map(reader, VARVE_CORRUPT, "a path is absolute, or leads out of its folder");
    if (reader->rc == 0 && files->count && strcmp(files->list[files->count - 1].path, file->path) >= 0)
        refuse_map(reader, VARVE_CORRUPT, "its files are not in order");
    if (reader->rc < 0) {
        free(file->path);
        free(file->target);
        return reader->rc;
    }
    files->list[files->count++] = *file; /* there is room for all */
    files->bytes += file->size;
    return 0;
}

static void take_file(struct reader *reader, struct files_plan *plan, uint64_t *next) {
    struct files_file file = {.path = text(reader, FILES_PATH_MOST)};
    uint32_t region = 0;
    uint64_t at = 0;
    file.size = number(reader, LENGTH_END - 1, "a file is too large");
    uint64_t mode = number(reader, reader->version == VERSION ? 07777 : LINK | 07777, "a file has strange permissions");
    if (mode > 07777 && mode < LINK)
        refuse_map(reader, VARVE_CORRUPT, "a file has strange permissions");
    file.mode = mode & 07777;
    file.mtime = signed_number(reader);
    file.mtime_ns = (uint32_t)number(reader, 999999999, "a file has a strange time");
    uint64_t pieces = number(reader, FILES_PIECES_MOST, "it has too many pieces");
    if (mode >= LINK && pieces == 0)
        take_target(reader, &file);
    else if (mode >= LINK)
        refuse_map(reader, VARVE_CORRUPT, "a link has bytes");
    if (add_file(reader, plan, &file) < 0)
        return;
    for (uint64_t i = 0; i < pieces && reader->rc == 0; i++)
        take_piece(reader, plan, next, &region, &at);
    if (at != file.size)
        refuse_map(reader, VARVE_CORRUPT, "the pieces of a file do not add up to its size");
}

static void take_all(struct reader *reader, struct files_plan *plan) {
    uint64_t regions = number(reader, FILES_REGIONS_MOST, "it has too many regions");
    for (uint64_t i = 0; i < regions && reader->rc == 0; i++)
        take_region(reader, plan);
    uint64_t files = number(reader, FILES_MOST, "it has too many files");
    uint64_t *next = calloc(plan->region_count + 1, sizeof *next);
    if (files > (uint64_t)(reader->end - reader->at))
        refuse_map(reader, VARVE_CORRUPT, "it ends too early");
    if (reader->rc == 0)
        plan->files.list = calloc((size_t)files + 1, sizeof *plan->files.list);
    if (reader->rc == 0 && (!next || !plan->files.list))
        refuse_map(reader, -ENOMEM, "no memory");
    for (uint64_t i = 0; i < files && reader->rc == 0; i++)
        take_file(reader, plan, next);
    free(next);
    while (reader->at != reader->end && *reader->at == 0) /* its length was fixed before it was known */
        reader->at++;
    if (reader->at != reader->end)
        refuse_map(reader, VARVE_CORRUPT, "something follows its end");
}

/* Who gives the files back goes through a region once, and needs each byte for one piece. */
static void check_apart(struct reader *reader, const struct files_plan *plan) {
    for (size_t i = 1; i < plan->piece_count; i++) {
        const struct files_piece *before = &plan->pieces[i - 1], *piece = &plan->pieces[i];
        if (before->region == piece->region && before->region_offset + before->length > piece->region_offset)
            refuse_map(reader, VARVE_CORRUPT, "two pieces share bytes of a region");
    }
}

int files_map_parse(const uint8_t *data, size_t size, struct files_plan *plan, struct varve_error *error) {
    struct reader reader = {data, data, NULL, 0, 0};
    struct files_list none = {.count = 0};
    files_plan_begin(plan, &none);
    if (size < sizeof magic + 1 || memcmp(data, magic, sizeof magic) != 0) {
        refuse_map(&reader, VARVE_CORRUPT, "it does not begin like one");
    } else {
        reader.at = data + sizeof magic;
        reader.end = data + size;
        reader.version = number(&reader, UINT64_MAX, "");
        if (reader.version != VERSION && reader.version != VERSION_LINKS)
            refuse_map(&reader, VARVE_UNKNOWN_FORMAT, "a newer program wrote it");
        else
            take_all(&reader, plan);
    }
    if (reader.rc == 0) {
        files_plan_sort(plan);
        check_apart(&reader, plan);
    }
    if (reader.rc == 0)
        return 0;
    snprintf(error->text, sizeof error->text, "the map of the files cannot be used: %s",
             reader.rc == -ENOMEM ? "no memory" : reader.wrong);
    files_plan_clear(plan);
    return reader.rc;
}
