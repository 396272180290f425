#include "process/segments.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "files/walk.h"
#include "process/kinds.h"
#include "process/protobuf.h"

#define PAGE 4096u
#define IMAGE_MAGIC 0x54564319u /* of each image, before its own */
#define PAGEMAP_MAGIC 0x56084025u
#define MM_MAGIC 0x57492820u
#define IS_IN_PARENT 1u /* flags of a run of pages */
#define IS_PRESENT 4u
#define STATUS_STACK (1u << 1) /* of a mapping */
#define STATUS_HEAP (1u << 5)
#define STATUS_FILE (3u << 6)
#define PROT_CODE 4u

/* ---- an image that is a list of messages ---- */

struct list {
    const uint8_t *data;
    size_t size, at;
    void *mapped;
    size_t mapped_size;
};

static uint32_t get32(const uint8_t *data) {
    uint32_t value;
    memcpy(&value, data, sizeof value);
    return value;
}

static int list_open(struct list *list, const struct process_image *image, uint32_t magic) {
    *list = (struct list){.size = (size_t)image->size, .at = 8};
    if (image->size < 8)
        return -EBADMSG;
    size_t before = (size_t)(image->offset % PAGE);
    void *mapped = mmap(NULL, list->size + before, PROT_READ, MAP_PRIVATE, image->fd, (off_t)(image->offset - before));
    if (mapped == MAP_FAILED)
        return -errno;
    list->mapped = mapped;
    list->mapped_size = list->size + before;
    list->data = (const uint8_t *)mapped + before;
    return get32(list->data) == IMAGE_MAGIC && get32(list->data + 4) == magic ? 0 : -EBADMSG;
}

static void list_close(struct list *list) {
    if (list->mapped)
        munmap(list->mapped, list->mapped_size);
}

/* 1, 0 at the end, -EBADMSG. */
static int list_next(struct list *list, struct process_pb *message) {
    size_t left = list->size - list->at;
    if (left == 0)
        return 0;
    uint32_t size = left >= 4 ? get32(list->data + list->at) : 0;
    if (left < 4 || size > left - 4)
        return -EBADMSG;
    process_pb_open(message, list->data + list->at + 4, size);
    list->at += 4 + size;
    return 1;
}

/* ---- mappings ---- */

struct mapping {
    uint64_t start, end;
    uint32_t status, prot;
};

struct mappings {
    struct mapping *list;
    size_t count, capacity;
};

static int add_mapping(struct mappings *mappings, const struct process_pb_field *entry) {
    struct mapping mapping = {.start = 0};
    struct process_pb pb;
    struct process_pb_field field;

    process_pb_open(&pb, entry->bytes, entry->length);
    while (process_pb_next(&pb, &field) > 0) {
        mapping.start = field.number == 1 ? field.value : mapping.start;
        mapping.end = field.number == 2 ? field.value : mapping.end;
        mapping.prot = field.number == 5 ? (uint32_t)field.value : mapping.prot;
        mapping.status = field.number == 7 ? (uint32_t)field.value : mapping.status;
    }
    if (files_grow((void **)&mappings->list, &mappings->capacity, mappings->count, sizeof mapping) < 0)
        return -ENOMEM;
    mappings->list[mappings->count++] = mapping;
    return 0;
}

static int compare_mapping(const void *a, const void *b) {
    const struct mapping *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static int read_mappings(const struct process_images *images, const char *pid, struct mappings *out) {
    char name[PROCESS_NAME_MOST + 1];
    struct list list;
    struct process_pb message;
    struct process_pb_field field;

    snprintf(name, sizeof name, "mm-%s", pid);
    const struct process_image *image = process_image_find(images, name);
    int rc = image ? list_open(&list, image, MM_MAGIC) : -ENOENT;
    if (rc == 0 && list_next(&list, &message) > 0)
        while (rc == 0 && process_pb_next(&message, &field) > 0)
            rc = field.number == 14 && field.bytes ? add_mapping(out, &field) : 0;
    if (image)
        list_close(&list);
    if (rc == 0 && out->count)
        qsort(out->list, out->count, sizeof out->list[0], compare_mapping);
    return rc;
}

static const struct mapping *mapping_of(const struct mappings *mappings, uint64_t address) {
    size_t low = 0, high = mappings->count; /* the first that begins behind the address */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (mappings->list[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    const struct mapping *mapping = low ? &mappings->list[low - 1] : NULL;
    return mapping && address < mapping->end ? mapping : NULL;
}

static const struct process_kind *kind_of(const struct mapping *mapping) {
    return process_kind_of((mapping->status & STATUS_HEAP) != 0, (mapping->status & STATUS_STACK) != 0,
                           (mapping->status & STATUS_FILE) != 0, (mapping->prot & PROT_CODE) != 0);
}

/* ---- runs of pages ---- */

/* What was found so far; the mapping whose pages come now, and the first of them in the image. */
struct finding {
    const struct mappings *mappings;
    struct files_found *found;
    const struct mapping *now;
    uint64_t begin, at; /* in the image */
};

static int end_segment(struct finding *finding) {
    const struct mapping *mapping = finding->now;
    struct files_variable like = {.type = VARVE_U8};
    char name[64];

    finding->now = NULL;
    if (!mapping || finding->at - finding->begin < PROCESS_SEGMENT_LEAST)
        return 0;
    like.type = kind_of(mapping)->type;
    snprintf(name, sizeof name, "%s@%" PRIx64, kind_of(mapping)->name, mapping->start);
    int rc = files_found_variable(finding->found, name, &like);
    return rc ? rc : files_found_extent(finding->found, finding->begin, finding->at - finding->begin);
}

/* Pages of one run may belong to several mappings. */
static int take_run(struct finding *finding, uint64_t address, uint64_t pages) {
    int rc = 0;

    while (pages > 0 && rc == 0) {
        const struct mapping *mapping = mapping_of(finding->mappings, address);
        uint64_t part = mapping && (mapping->end - address) / PAGE < pages ? (mapping->end - address) / PAGE : pages;
        part = part ? part : pages;
        if (mapping != finding->now) {
            rc = end_segment(finding);
            finding->now = mapping;
            finding->begin = finding->at;
        }
        finding->at += part * PAGE;
        address += part * PAGE;
        pages -= part;
    }
    return rc;
}

static int take_pages(struct finding *finding, struct list *list, uint64_t size) {
    struct process_pb message;
    struct process_pb_field field;
    int rc = 0, more;

    while (rc == 0 && (more = list_next(list, &message)) != 0) {
        uint64_t address = 0, pages = 0, flags = 0;
        int has_flags = 0;
        while (more > 0 && process_pb_next(&message, &field) > 0) {
            address = field.number == 1 ? field.value : address;
            pages = field.number == 2 ? field.value : pages;
            flags = field.number == 4 ? field.value : flags;
            has_flags |= field.number == 4;
        }
        int is_there = has_flags ? (flags & IS_PRESENT) && !(flags & IS_IN_PARENT) : 1;
        if (more < 0 || (is_there && pages > (size - finding->at) / PAGE))
            return -EBADMSG;
        rc = is_there ? take_run(finding, address, pages) : 0;
    }
    rc = rc ? rc : end_segment(finding);
    return rc ? rc : finding->at == size ? 0 : -EBADMSG;
}

/* Does this list of pages belong to that image? Its first message says so. */
static int is_map_of(struct list *list, uint64_t pages_id) {
    struct process_pb message;
    struct process_pb_field field;

    if (list_next(list, &message) <= 0)
        return 0;
    while (process_pb_next(&message, &field) > 0)
        if (field.number == 1)
            return field.value == pages_id;
    return 0;
}

static int find_in(const struct process_images *images, const struct process_image *map,
                   const struct process_image *pages, uint64_t pages_id, struct files_found *found) {
    struct mappings mappings = {.count = 0};
    struct finding finding = {.mappings = &mappings, .found = found};
    struct list list;

    int rc = list_open(&list, map, PAGEMAP_MAGIC);
    if (rc == 0 && is_map_of(&list, pages_id)) {
        rc = read_mappings(images, map->name + strlen("pagemap-"), &mappings);
        rc = rc ? rc : take_pages(&finding, &list, pages->size);
        if (rc < 0)
            files_found_clear(found); /* plain bytes, then */
    }
    list_close(&list);
    free(mappings.list);
    return rc == -ENOMEM ? rc : 0;
}

int process_segments(const struct process_images *images, const struct process_image *pages,
                     struct files_found *found) {
    char *end;
    int rc = 0;

    if (strncmp(pages->name, "pages-", 6) != 0)
        return 0;
    uint64_t id = strtoull(pages->name + 6, &end, 10);
    if (strcmp(end, ".img") != 0)
        return 0;
    for (size_t i = 0; i < images->count && rc == 0 && found->count == 0; i++)
        if (strncmp(images->list[i].name, "pagemap-", 8) == 0 &&
            strncmp(images->list[i].name, "pagemap-shmem", 13) != 0)
            rc = find_in(images, &images->list[i], pages, id, found);
    return rc;
}
