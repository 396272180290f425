#include "archive/dmtcp.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PAGE 4096u
#define HEADS 2u /* pages before the first area: the same header twice */
#define IS_ZERO 1u
#define IS_PARENT 2u
#define IS_CHILD 4u
static const char signature[] = "DMTCP_CHECKPOINT_IMAGE_v4.0\n";

/* Places in the page that describes an area. */
enum { ADDRESS = 0, SIZE = 16, FLAGS = 40, FILE_SIZE = 72, PROPERTIES = 80, NAME = 88 };
#define NAME_SIZE 1024u

struct area {
    uint64_t address, size, file_size, properties;
    const char *name;
};

int archive_is_dmtcp(const uint8_t start[ARCHIVE_DMTCP_START]) {
    return memcmp(start, signature, ARCHIVE_DMTCP_START) == 0;
}

static uint64_t get64(const uint8_t *data) {
    uint64_t value;
    memcpy(&value, data, sizeof value); /* images are for the machine that made them */
    return value;
}

static void read_area(uint8_t page[PAGE], struct area *area) {
    page[NAME + NAME_SIZE - 1] = '\0';
    *area = (struct area){.address = get64(page + ADDRESS), .size = get64(page + SIZE)};
    area->file_size = get64(page + FILE_SIZE);
    area->properties = get64(page + PROPERTIES);
    area->name = (const char *)page + NAME;
}

/* How many bytes follow the description. */
static uint64_t bytes_of(const struct area *area) {
    if (area->properties & (IS_ZERO | IS_PARENT))
        return 0;
    return !(area->properties & IS_CHILD) && area->file_size ? area->file_size : area->size;
}

static int begin_variable(struct files_found *found, const struct area *area) {
    static const struct files_variable like = {.type = VARVE_U8};
    char name[NAME_SIZE + 32];
    const char *slash = strrchr(area->name, '/'), *base = slash ? slash + 1 : area->name;
    snprintf(name, sizeof name, "%.1000s@%" PRIx64, *base ? base : "memory", area->address);
    return files_found_variable(found, name, &like);
}

int archive_dmtcp(files_read_fn fn, void *arg, uint64_t size, struct files_found *found) {
    uint8_t page[PAGE];
    uint64_t at = HEADS * PAGE;
    struct area area;
    int rc = 0;
    while (rc == 0) {
        if (size < at || size - at < PAGE)
            return -EBADMSG;
        rc = fn(arg, at, page, sizeof page);
        if (rc < 0)
            return rc;
        read_area(page, &area);
        at += PAGE;
        if (area.address == 0 && area.size == UINT64_MAX) /* the end */
            return 0;
        uint64_t bytes = bytes_of(&area);
        if (area.properties > (IS_ZERO | IS_PARENT | IS_CHILD) || bytes > size - at)
            return -EBADMSG;
        /* What is not zero of a large area comes in runs, each with a description of its own: they are one variable. */
        if (!(area.properties & IS_CHILD) || found->count == 0)
            rc = begin_variable(found, &area);
        rc = rc ? rc : files_found_extent(found, at, bytes);
        at += bytes;
    }
    return rc;
}
