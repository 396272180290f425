/* The region ":packed": how packed files are packed again. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve.h>

#include "archive/packed.h"

#define VERSION 1u
#define NUMBER_MOST 10u /* bytes of a varint */
#define SIZE_END (UINT64_C(1) << 62)
static const uint8_t magic[8] = {'V', 'a', 'r', 'v', 'e', 'P', 'c', 'k'};

/* ---- writing ---- */

static uint8_t *put_number(uint8_t *at, uint64_t value) {
    for (; value > 0x7f; value >>= 7)
        *at++ = (uint8_t)(value | 0x80);
    *at++ = (uint8_t)value;
    return at;
}

static uint8_t *put_bytes(uint8_t *at, const void *data, size_t size) {
    at = put_number(at, size);
    if (size)
        memcpy(at, data, size);
    return at + size;
}

static size_t room_of(const struct archive_recipe *recipe) {
    return 10 * NUMBER_MOST + ARCHIVE_DIGEST + recipe->head_size + recipe->tail_size + sizeof recipe->library;
}

static uint8_t *put_recipe(uint8_t *at, const struct archive_recipe *recipe) {
    at = put_number(at, recipe->file);
    at = put_number(at, recipe->size);
    memcpy(at, recipe->digest, ARCHIVE_DIGEST);
    at = put_number(at + ARCHIVE_DIGEST, recipe->packer);
    at = put_number(at, recipe->level);
    at = put_number(at, recipe->memory);
    at = put_number(at, recipe->is_told);
    at = put_number(at, recipe->has_sum);
    at = put_bytes(at, recipe->head, recipe->head_size);
    at = put_bytes(at, recipe->tail, recipe->tail_size);
    return put_bytes(at, recipe->library, strlen(recipe->library));
}

int archive_recipes_encode(const struct archive_packed *packed, uint8_t **out, size_t *size_out) {
    size_t room = sizeof magic + 2 * NUMBER_MOST;
    for (size_t i = 0; i < packed->count; i++)
        room += room_of(&packed->list[i]);
    uint8_t *data = malloc(room), *at = data;
    if (!data)
        return -ENOMEM;
    memcpy(at, magic, sizeof magic);
    at = put_number(at + sizeof magic, VERSION);
    at = put_number(at, packed->count);
    for (size_t i = 0; i < packed->count; i++)
        at = put_recipe(at, &packed->list[i]);
    *out = data;
    *size_out = (size_t)(at - data);
    return 0;
}

/* ---- reading ---- */

struct reader {
    const uint8_t *at, *end;
    int rc;
};

static void refuse_recipe(struct reader *reader, int code) {
    reader->rc = reader->rc ? reader->rc : code;
}

/* 0 once something is wrong. */
static uint64_t number(struct reader *reader, uint64_t least, uint64_t most) {
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t byte = 0x80;
    while (reader->rc == 0 && byte & 0x80) {
        if (reader->at == reader->end || shift > 63 || (shift == 63 && *reader->at > 1)) {
            refuse_recipe(reader, VARVE_CORRUPT);
            return 0;
        }
        byte = *reader->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
    }
    if (value < least || value > most || (shift > 7 && byte == 0))
        refuse_recipe(reader, VARVE_CORRUPT);
    return reader->rc ? 0 : value;
}

static void copy_out(struct reader *reader, void *out, size_t size) {
    if (reader->rc == 0 && size > (size_t)(reader->end - reader->at))
        refuse_recipe(reader, VARVE_CORRUPT);
    if (reader->rc == 0 && size) {
        memcpy(out, reader->at, size);
        reader->at += size;
    }
}

static uint8_t *bytes(struct reader *reader, int may_be, size_t *size_out) {
    size_t size = (size_t)number(reader, 0, may_be ? ARCHIVE_HEAD_MOST : 0);
    uint8_t *out = reader->rc ? NULL : malloc(size + 1);
    if (!out)
        refuse_recipe(reader, -ENOMEM);
    copy_out(reader, out, size);
    *size_out = size;
    return out;
}

static void take_recipe(struct reader *reader, struct archive_recipe *recipe, uint64_t least, uint64_t files) {
    recipe->file = (uint32_t)number(reader, least, files - 1);
    recipe->size = number(reader, 1, SIZE_END - 1);
    copy_out(reader, recipe->digest, ARCHIVE_DIGEST);
    recipe->packer = (enum archive_packer)number(reader, ARCHIVE_GZIP, ARCHIVE_ZSTD);
    int is_gzip = recipe->packer == ARCHIVE_GZIP;
    recipe->level = (uint32_t)number(reader, 1, is_gzip ? 9 : 22);
    recipe->memory = (uint32_t)number(reader, is_gzip ? 1 : 0, is_gzip ? 9 : 1);
    recipe->is_told = (uint32_t)number(reader, 0, is_gzip ? 0 : 1);
    recipe->has_sum = (uint32_t)number(reader, 0, is_gzip ? 0 : 1);
    recipe->head = bytes(reader, is_gzip, &recipe->head_size);
    recipe->tail = bytes(reader, is_gzip, &recipe->tail_size);
    size_t length = (size_t)number(reader, 0, sizeof recipe->library - 1);
    copy_out(reader, recipe->library, length);
    for (size_t i = 0; i < length && reader->rc == 0; i++)
        if (recipe->library[i] < ' ' || recipe->library[i] > '~') /* it is for people, and goes to a terminal */
            refuse_recipe(reader, VARVE_CORRUPT);
}

/* The name without the suffix must be free: it is the one that the file gets. */
static int is_renamed(const struct files_list *files, uint32_t number) {
    const char *path = files->list[number].path;
    size_t length = strlen(path), suffix = sizeof ARCHIVE_SUFFIX - 1;
    if (length <= suffix || strcmp(path + length - suffix, ARCHIVE_SUFFIX) != 0 || path[length - suffix - 1] == '/')
        return 0;
    for (size_t i = 0; i < files->count; i++)
        if (strncmp(files->list[i].path, path, length - suffix) == 0 && files->list[i].path[length - suffix] == '\0')
            return 0;
    return 1;
}

static void take_all(struct reader *reader, const struct files_list *files, struct archive_packed *packed) {
    uint64_t count = number(reader, 0, ARCHIVE_PACKED_MOST), next = 0;
    packed->list = calloc((size_t)count + 1, sizeof *packed->list);
    if (!packed->list)
        refuse_recipe(reader, -ENOMEM);
    for (uint64_t i = 0; i < count && reader->rc == 0; i++) {
        struct archive_recipe *recipe = &packed->list[packed->count++];
        if (next >= files->count)
            refuse_recipe(reader, VARVE_CORRUPT);
        take_recipe(reader, recipe, next, files->count);
        if (reader->rc == 0 && !is_renamed(files, recipe->file))
            refuse_recipe(reader, VARVE_CORRUPT);
        next = (uint64_t)recipe->file + 1;
    }
    if (reader->at != reader->end)
        refuse_recipe(reader, VARVE_CORRUPT);
}

int archive_recipes_parse(const uint8_t *data, size_t size, const struct files_list *files,
                          struct archive_packed *packed, struct varve_error *error) {
    struct reader reader = {data, data + size, 0};
    *packed = (struct archive_packed){.count = 0};
    if (size < sizeof magic || memcmp(data, magic, sizeof magic) != 0) {
        refuse_recipe(&reader, VARVE_CORRUPT);
    } else {
        reader.at += sizeof magic;
        if (number(&reader, 0, UINT64_MAX) != VERSION)
            refuse_recipe(&reader, VARVE_UNKNOWN_FORMAT);
        else
            take_all(&reader, files, packed);
    }
    if (reader.rc == 0)
        return 0;
    archive_packed_clear(packed);
    return files_error(error, reader.rc, "the recipes of packed files cannot be used: %s",
                       reader.rc == VARVE_UNKNOWN_FORMAT ? "a newer program wrote them" : varve_error_text(reader.rc));
}
