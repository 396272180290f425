#include "archive/tar.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/walk.h"

#define NAME_MOST 4096u    /* of a member, and of the record that tells a long one */
#define RECORD_MOST 65536u /* of pax records; those of a longer one are not known */
#define DEPTH_MOST 2       /* of archives in archives */

/* Places in a header. */
enum { NAME = 0, SIZE = 124, SUM = 148, TYPE = 156, MAGIC = 257, PREFIX = 345 };
enum { NAME_SIZE = 100, NUMBER_SIZE = 12, SUM_SIZE = 8, PREFIX_SIZE = 155 };

struct walking {
    files_read_fn fn;
    void *arg;
    uint64_t at, end;
    struct archive_members *members;
    const char *above; /* the archive it lies in, "" */
    int depth;
    char name[NAME_MOST + 1]; /* of the next member, from a record before it; "": none */
    uint64_t size;            /* the same */
    int has_size;
};

const char *archive_base(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

int archive_is_list(const char *name) {
    return strncmp(name, "pagemap-", 8) == 0 || strncmp(name, "mm-", 3) == 0;
}

void archive_members_clear(struct archive_members *members) {
    for (size_t i = 0; i < members->count; i++)
        free(members->list[i].name);
    free(members->list);
    *members = (struct archive_members){.count = 0};
}

/* ---- a header ---- */

/* Octal digits, or a number of base 256 where the first bit is set. */
static int number_of(const uint8_t *field, size_t size, uint64_t *out) {
    uint64_t value = 0;
    size_t i = 0;
    if (field[0] & 0x80) {
        for (i = 1; i < size && value >> 54 == 0; i++)
            value = value << 8 | field[i];
        *out = value;
        return i == size && field[0] == 0x80 ? 0 : -EBADMSG;
    }
    while (i < size && field[i] == ' ')
        i++;
    size_t first = i;
    for (; i < size && field[i] >= '0' && field[i] <= '7'; i++)
        value = value << 3 | (uint64_t)(field[i] - '0');
    *out = value;
    return i > first && (i == size || field[i] == ' ' || field[i] == '\0') ? 0 : -EBADMSG;
}

int archive_is_tar(const uint8_t block[ARCHIVE_BLOCK]) {
    uint64_t told = 0, sum = 0;
    for (size_t i = 0; i < ARCHIVE_BLOCK; i++)
        sum += i >= SUM && i < SUM + SUM_SIZE ? ' ' : block[i];
    return memcmp(block + MAGIC, "ustar", 5) == 0 && number_of(block + SUM, SUM_SIZE, &told) == 0 && told == sum;
}

static int is_empty(const uint8_t block[ARCHIVE_BLOCK]) {
    return block[0] == 0 && memcmp(block, block + 1, ARCHIVE_BLOCK - 1) == 0;
}

static void name_of(const uint8_t *block, char out[NAME_MOST + 1]) {
    const char *name = (const char *)block + NAME, *prefix = (const char *)block + PREFIX;
    int is_posix = block[MAGIC + 5] == '\0' && prefix[0];
    snprintf(out, NAME_MOST + 1, "%.*s%s%.*s", is_posix ? PREFIX_SIZE : 0, prefix, is_posix ? "/" : "", NAME_SIZE,
             name);
}

/* ---- records that tell something about the next member ---- */

/* "LENGTH KEY=VALUE\n", one after another. */
static void take_pax(struct walking *walking, char *text, size_t size) {
    while (size) {
        char *end = NULL, *value;
        unsigned long length = text[0] >= '1' && text[0] <= '9' ? strtoul(text, &end, 10) : 0;
        if (length == 0 || length > size || *end != ' ' || end + 1 >= text + length || text[length - 1] != '\n')
            return;
        text[length - 1] = '\0';
        value = strchr(end, '=');
        if (value && strncmp(end + 1, "path=", 5) == 0)
            snprintf(walking->name, sizeof walking->name, "%s", value + 1);
        if (value && strncmp(end + 1, "size=", 5) == 0) {
            errno = 0;
            walking->size = strtoull(value + 1, &end, 10);
            walking->has_size = value[1] >= '0' && value[1] <= '9' && *end == '\0' && errno == 0;
        }
        text += length;
        size -= length;
    }
}

static int take_record(struct walking *walking, uint8_t type, uint64_t offset, uint64_t size) {
    if (size > RECORD_MOST)
        return 0;
    char *text = malloc((size_t)size + 1);
    int rc = text ? walking->fn(walking->arg, offset, text, (size_t)size) : -ENOMEM;
    if (rc == 0) {
        text[size] = '\0';
        if (type == 'L')
            snprintf(walking->name, sizeof walking->name, "%s", text);
        else
            take_pax(walking, text, (size_t)size);
    }
    free(text);
    return rc;
}

/* ---- members ---- */

static int add_member(struct walking *walking, const char *name, uint64_t offset, uint64_t size) {
    struct archive_members *members = walking->members;
    struct archive_member member = {.offset = offset, .size = size};
    if (size < ARCHIVE_MEMBER_LEAST && !archive_is_list(archive_base(name)))
        return 0;
    if (members->count >= ARCHIVE_MEMBERS_MOST)
        return -E2BIG;
    if (files_grow((void **)&members->list, &members->capacity, members->count, sizeof member) < 0 ||
        asprintf(&member.name, "%s%s%s", walking->above, walking->above[0] ? "/" : "", name) < 0)
        return -ENOMEM;
    members->list[members->count++] = member;
    return 0;
}

static int walk(struct walking *walking);

/* An archive in the archive, if it is one: 1. What makes no sense as such is a member like any other. */
static int walk_inside(struct walking *walking, const char *name, uint64_t offset, uint64_t size) {
    struct archive_members *members = walking->members;
    size_t before = members->count;
    uint8_t block[ARCHIVE_BLOCK];
    if (walking->depth + 1 >= DEPTH_MOST || size < 2 * ARCHIVE_BLOCK)
        return 0;
    int rc = walking->fn(walking->arg, offset, block, sizeof block);
    if (rc < 0 || !archive_is_tar(block))
        return rc;
    struct walking *inner = calloc(1, sizeof *inner);
    if (!inner)
        return -ENOMEM;
    *inner = (struct walking){.fn = walking->fn, .arg = walking->arg, .at = offset, .end = offset + size};
    inner->members = members;
    inner->above = name;
    inner->depth = walking->depth + 1;
    rc = walk(inner);
    free(inner);
    while (rc == -EBADMSG && members->count > before)
        free(members->list[--members->count].name);
    return rc == -EBADMSG ? 0 : rc ? rc : 1;
}

static int take_member(struct walking *walking, const uint8_t *block, uint64_t offset, uint64_t size) {
    char name[NAME_MOST + 1];
    uint8_t type = block[TYPE];
    if (type == 'L' || type == 'x')
        return take_record(walking, type, offset, size);
    if (type != '0' && type != '7' && type != '\0')
        return 0;
    if (walking->name[0])
        memcpy(name, walking->name, sizeof name);
    else
        name_of(block, name);
    const char *tidy = strncmp(name, "./", 2) == 0 ? name + 2 : name;
    int rc = walk_inside(walking, tidy, offset, size);
    return rc ? (rc < 0 ? rc : 0) : add_member(walking, tidy, offset, size);
}

/* How far the data of this member reaches. Links, folders and devices have none. */
static int data_size(struct walking *walking, const uint8_t *block, uint64_t *out) {
    int rc = number_of(block + SIZE, NUMBER_SIZE, out);
    int tells = block[TYPE] == 'L' || block[TYPE] == 'K' || block[TYPE] == 'x' || block[TYPE] == 'g';
    if (!tells && walking->has_size) {
        *out = walking->size;
        rc = 0;
    }
    if (block[TYPE] >= '1' && block[TYPE] <= '6') {
        *out = 0;
        rc = 0;
    }
    return rc ? rc : *out > walking->end - walking->at ? -EBADMSG : 0;
}

static int walk(struct walking *walking) {
    uint8_t block[ARCHIVE_BLOCK];
    int rc = 0;
    while (rc == 0 && walking->end - walking->at >= ARCHIVE_BLOCK) {
        uint64_t size = 0;
        rc = walking->fn(walking->arg, walking->at, block, sizeof block);
        if (rc == 0 && is_empty(block)) /* the end; what follows is padding */
            return 0;
        walking->at += ARCHIVE_BLOCK;
        rc = rc ? rc : archive_is_tar(block) ? data_size(walking, block, &size) : -EBADMSG;
        rc = rc ? rc : take_member(walking, block, walking->at, size);
        if (rc == 0 && block[TYPE] != 'L' && block[TYPE] != 'K' && block[TYPE] != 'x') {
            walking->name[0] = '\0'; /* it was for this one */
            walking->has_size = 0;
        }
        uint64_t padding = (ARCHIVE_BLOCK - size % ARCHIVE_BLOCK) % ARCHIVE_BLOCK;
        walking->at += size;
        walking->at += padding < walking->end - walking->at ? padding : walking->end - walking->at;
    }
    return rc ? rc : -EBADMSG; /* it has no end */
}

int archive_tar(files_read_fn fn, void *arg, uint64_t offset, uint64_t size, struct archive_members *members) {
    struct walking *walking = calloc(1, sizeof *walking);
    if (!walking)
        return -ENOMEM;
    *walking = (struct walking){.fn = fn, .arg = arg, .at = offset, .end = offset + size, .members = members};
    walking->above = "";
    int rc = walk(walking);
    free(walking);
    return rc;
}
