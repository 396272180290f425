/* Which static variables of the program point to which allocation without a name (heap.c). Pointers do not come back: a
 * program that swaps two of them in each step would go on with the wrong one. What its static variables pointed to at
 * the checkpoint is stored, and compared with where they point when the allocations have come back. Variables on the
 * stack, and in other memory, are not seen. */
#include <errno.h>
#include <inttypes.h>
#include <link.h>
#include <string.h>

#include "base/hash.h"
#include "format/attributes.h"
#include "session/session_private.h"

#define POINTERS_MOST 1023
#define SEGMENTS_MOST 4
#define LOOKED_AT ((uint64_t)64 << 20) /* bytes of static variables: large static arrays hold no pointers */
#define PAGE 4096u                     /* every allocation begins with one */

struct vv_pointers {
    uint64_t count;
    struct {
        uint64_t offset;   /* of the variable in the program */
        uint64_t block;    /* hash of the name */
    } list[POINTERS_MOST]; /* ascending offsets */
    uint64_t spare;
};

size_t vv_pointers_size(void) {
    return sizeof(struct vv_pointers);
}

struct segments {
    uint64_t base;
    struct {
        uint64_t begin, end;
    } list[SEGMENTS_MOST];
    size_t count;
};

/* The first object is the program. */
static int take_segments(struct dl_phdr_info *info, size_t size, void *arg) {
    struct segments *segments = arg;
    (void)size;
    segments->base = info->dlpi_addr;
    for (unsigned i = 0; i < info->dlpi_phnum && segments->count < SEGMENTS_MOST; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_W))
            continue;
        uint64_t begin = (info->dlpi_addr + part->p_vaddr + 7) & ~(uint64_t)7;
        uint64_t bytes = part->p_memsz < LOOKED_AT ? part->p_memsz : LOOKED_AT;
        segments->list[segments->count].begin = begin;
        segments->list[segments->count++].end = info->dlpi_addr + part->p_vaddr + bytes;
    }
    return 1;
}

static const struct vv_heap_block *block_at(const struct vv_heap *heap, uint64_t address) {
    for (size_t i = 0; i < heap->count; i++)
        if ((uintptr_t)heap->list[i].ptr == address)
            return &heap->list[i];
    return NULL;
}

void vv_pointers_take(const struct vv_heap *heap, struct vv_pointers *out) {
    struct segments segments = {0};
    memset(out, 0, sizeof *out);
    dl_iterate_phdr(take_segments, &segments);
    for (size_t i = 0; i < segments.count; i++)
        for (uint64_t at = segments.list[i].begin; at + 8 <= segments.list[i].end && out->count < POINTERS_MOST;
             at += 8) {
            uint64_t word = *(const volatile uint64_t *)(uintptr_t)at;
            const struct vv_heap_block *block = word && word % PAGE == 0 ? block_at(heap, word) : NULL;
            if (!block)
                continue;
            out->list[out->count].offset = at - segments.base;
            out->list[out->count++].block = vv_sum64(block->name, strlen(block->name));
        }
}

static const char *name_of_block(const struct vv_heap *heap, uint64_t block) {
    for (size_t i = 0; i < heap->count; i++)
        if (vv_sum64(heap->list[i].name, strlen(heap->list[i].name)) == block)
            return heap->list[i].name;
    return "?";
}

static int is_inside(const struct segments *segments, uint64_t at) {
    int is_in = 0;
    for (size_t i = 0; i < segments->count; i++)
        is_in |= at >= segments->list[i].begin && segments->list[i].end >= 8 && at <= segments->list[i].end - 8;
    return is_in && at % 8 == 0;
}

/* What is 0 was not set yet. */
int vv_pointers_compare(const struct vv_heap *heap, const struct vv_pointers *stored, struct varve_error *error) {
    struct segments segments = {0};
    if (stored->count > POINTERS_MOST)
        return vv_error(error, VARVE_CORRUPT, "region " VV_HEAP_POINTERS " does not hold pointers");
    dl_iterate_phdr(take_segments, &segments);
    for (size_t i = 0; i < stored->count; i++) {
        uint64_t offset = stored->list[i].offset, at = segments.base + offset;
        if (!is_inside(&segments, at))
            return vv_error(error, VARVE_MISMATCH,
                            "region " VV_HEAP_POINTERS ": the program has no variable at offset 0x%" PRIx64, offset);
        uint64_t word = *(const volatile uint64_t *)(uintptr_t)at;
        const struct vv_heap_block *block = word ? block_at(heap, word) : NULL;
        if (word == 0 || (block && vv_sum64(block->name, strlen(block->name)) == stored->list[i].block))
            continue;
        return vv_error(error, -ENOTSUP,
                        "a variable of the program (offset 0x%" PRIx64
                        ") pointed to allocation %s at the checkpoint, and points to %s now: pointers do not come back."
                        " Copy data, do not swap pointers, or name the memory (varve_protect)",
                        offset, name_of_block(heap, stored->list[i].block),
                        block ? block->name : "no begin of an allocation");
    }
    return 0;
}
