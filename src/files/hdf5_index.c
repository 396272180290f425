#include "files/hdf5_index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEADER_MOST (1u << 20) /* bytes of one block of an object header */
#define BLOCKS_MOST 64
#define MESSAGE_LAYOUT 0x08
#define MESSAGE_CONTINUATION 0x10
#define LAYOUT_CHUNKED 2
#define LEVELS_MOST 32

struct walk {
    const struct files_hdf5_place *place;
    files_hdf5_chunk_fn fn;
    void *arg;
    uint64_t root; /* of the tree */
    int has_root;
    int blocks; /* of the object header, read so far */
};

static uint64_t number(const uint8_t *at, unsigned size) {
    uint64_t value = 0;
    for (unsigned i = 0; i < size; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

static int read_at(const struct files_hdf5_place *place, uint64_t address, void *buffer, size_t size) {
    uint64_t offset;
    if (__builtin_add_overflow(place->base, address, &offset) || offset > INT64_MAX - size)
        return -EBADMSG;
    return pread(place->fd, buffer, size, (off_t)offset) == (ssize_t)size ? 0 : -EBADMSG;
}

/* ---- the object header: where is the tree? ---- */

static int take_layout(struct walk *walk, const uint8_t *data, size_t size) {
    const struct files_hdf5_place *place = walk->place;
    if (size < 3 + place->offset_size || data[0] != 3 || data[1] != LAYOUT_CHUNKED || data[2] != place->rank + 1)
        return -ENOSYS;
    walk->root = number(data + 3, place->offset_size);
    walk->has_root = 1;
    return 0;
}

static int read_block(struct walk *walk, uint64_t address, uint64_t size, int version, int has_order);

static int take_message(struct walk *walk, unsigned type, const uint8_t *data, size_t size, int version,
                        int has_order) {
    const struct files_hdf5_place *place = walk->place;
    if (type == MESSAGE_LAYOUT)
        return take_layout(walk, data, size);
    if (type != MESSAGE_CONTINUATION)
        return 0;
    if (size < place->offset_size + place->length_size)
        return -EBADMSG;
    uint64_t address = number(data, place->offset_size);
    uint64_t length = number(data + place->offset_size, place->length_size);
    if (version == 2) { /* a mark in front, a sum behind */
        if (length < 8)
            return -EBADMSG;
        address += 4;
        length -= 8;
    }
    return read_block(walk, address, length, version, has_order);
}

static int take_messages(struct walk *walk, const uint8_t *data, size_t size, int version, int has_order) {
    size_t head = version == 1 ? 8 : has_order ? 6 : 4, at = 0;
    int rc = 0;
    while (rc == 0 && !walk->has_root && size - at >= head) {
        const uint8_t *message = data + at;
        unsigned type = version == 1 ? (unsigned)number(message, 2) : message[0];
        size_t length = (size_t)number(message + (version == 1 ? 2 : 1), 2);
        if (length > size - at - head)
            return -EBADMSG;
        rc = take_message(walk, type, message + head, length, version, has_order);
        at += head + length;
    }
    return rc;
}

static int read_block(struct walk *walk, uint64_t address, uint64_t size, int version, int has_order) {
    if (size > HEADER_MOST || ++walk->blocks > BLOCKS_MOST)
        return -EBADMSG;
    uint8_t *data = malloc((size_t)size + 1);
    int rc = data ? read_at(walk->place, address, data, (size_t)size) : -ENOMEM;
    rc = rc ? rc : take_messages(walk, data, (size_t)size, version, has_order);
    free(data);
    return rc;
}

static int read_header(struct walk *walk) {
    const struct files_hdf5_place *place = walk->place;
    uint8_t head[40];
    int rc = read_at(place, place->header, head, sizeof head);
    if (rc < 0)
        return rc;
    if (memcmp(head, "OHDR", 4) == 0 && head[4] == 2) {
        unsigned flags = head[5], width = 1u << (flags & 3);
        unsigned at = 6 + (flags & 0x20 ? 16 : 0) + (flags & 0x10 ? 4 : 0);
        return read_block(walk, place->header + at + width, number(head + at, width), 2, (flags & 4) != 0);
    }
    if (head[0] != 1)
        return -ENOSYS;
    return read_block(walk, place->header + 16, number(head + 8, 4), 1, 0);
}

/* ---- the tree ---- */

static int give_chunk(const struct walk *walk, const uint8_t *key, uint64_t address) {
    const struct files_hdf5_place *place = walk->place;
    struct files_hdf5_chunk chunk = {.length = number(key, 4)};
    for (unsigned i = 0; i < place->rank; i++)
        chunk.first[i] = number(key + 8 + 8 * i, 8);
    if (__builtin_add_overflow(address, place->base, &chunk.offset))
        return -EBADMSG;
    return walk->fn(walk->arg, &chunk);
}

/* Levels go down to 0, so it ends: whoever is told of more chunks than there can be makes it end sooner. */
static int read_node(const struct walk *walk, uint64_t address, int level) {
    const struct files_hdf5_place *place = walk->place;
    size_t key = 8 + 8 * ((size_t)place->rank + 1), step = key + place->offset_size;
    size_t head_size = 8 + 2 * (size_t)place->offset_size;
    uint8_t head[24];
    int rc = read_at(place, address, head, head_size);
    if (rc < 0)
        return rc;
    if (memcmp(head, "TREE", 4) != 0 || head[4] != 1 || head[5] > LEVELS_MOST || (level >= 0 && head[5] != level))
        return -EBADMSG;
    size_t count = (size_t)number(head + 6, 2);
    uint8_t *entries = malloc(count * step + 1);
    rc = entries ? read_at(place, address + head_size, entries, count * step) : -ENOMEM;
    for (size_t i = 0; i < count && rc == 0; i++) {
        const uint8_t *entry = entries + i * step;
        uint64_t child = number(entry + key, place->offset_size);
        rc = head[5] == 0 ? give_chunk(walk, entry, child) : read_node(walk, child, head[5] - 1);
    }
    free(entries);
    return rc;
}

int files_hdf5_index(const struct files_hdf5_place *place, files_hdf5_chunk_fn fn, void *arg) {
    struct walk walk = {.place = place, .fn = fn, .arg = arg};
    if (place->rank == 0 || place->rank > FILES_RANK_MOST || place->offset_size < 2 || place->offset_size > 8 ||
        place->length_size < 2 || place->length_size > 8)
        return -ENOSYS;
    int rc = read_header(&walk);
    if (rc < 0)
        return rc;
    return walk.has_root ? read_node(&walk, walk.root, -1) : -ENOSYS;
}
