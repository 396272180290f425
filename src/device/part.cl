/* What differs in a part of a region: the kernels. One step follows the other in a queue that keeps their order;
 * between two kernels everything is written.
 *
 * Why the result does not depend on the order of the threads, and 32-bit atomics are enough:
 *
 *  - What is known from before (entries, and the slots that lead to them) is only read while chunks are looked up.
 *  - Chunks that are not known meet in a table of their own, `heads`: a slot holds the index of a chunk of this part,
 *    4 bytes (the bits that are left over say something about its id: the same for equal ids, so the order of indices
 *    is that of the slots' values). A chunk takes a free slot with atomic_cmpxchg, or finds one whose chunk has the
 *    same id, and then leaves the lower of the two indices there with atomic_min. A slot once taken keeps its id for
 *    ever, only the index falls; the ids themselves were written by the kernel before. So whoever reads a slot at
 *    whatever moment compares with the right id, equal ids always meet in one slot, and in the end it holds the lowest
 *    index of all chunks with that id: the minimum does not depend on the order. Which slot it is may depend on it,
 *    and is never looked at again.
 *  - Everything else is decided from these lowest indices by prefix sums over the chunks in ascending order: which of
 *    them are remembered while there is room, which entry they become, which run a chunk is in and where its bytes go.
 *    Every word is written by one thread only.
 *  - An entry whose source is not usable is pointed to the lowest chunk with its id by that chunk alone: no other
 *    thread writes it.
 *
 * 128-bit ids are never changed where others read them, and places (64 bits) have one writer: no atomic of 64 bits
 * would help here. */

#define NONE 0xffffffffu
#define GRANULE_SHIFT 12
#define GRANULE (1u << GRANULE_SHIFT)
#define SCAN_BLOCK 256u

/* enum varve_label */
#define FIXED 0
#define ZERO 1
#define FIRST 2
#define SHIFTED 3

/* A place in 8 bytes: 24 bits of source, 40 of the address in units of 32 bytes. The two highest are no places. */
#define PLACE_UNKNOWN 0xffffffffffffffffUL
#define PLACE_ZERO 0xfffffffffffffffeUL
#define SOURCE_END 0xffffffu
#define ADDRESS_END (1UL << 45)

/* As struct cl_part has it on the host. */
struct part {
    ulong base;    /* of the region in its buffer */
    ulong total;   /* bytes of the region */
    ulong seed;
    ulong address; /* of the region in this checkpoint */
    uint granule;  /* the first one of the part */
    uint granules; /* in the part */
    uint listed;   /* of these, to be looked at finely */
    uint chunks;   /* in these */
    uint shift;    /* a chunk is 1 << shift bytes */
    uint source;   /* this checkpoint */
    uint sources;  /* in is_usable */
    uint has_past; /* the last checkpoint counts */
    uint used;     /* entries */
    uint room;     /* so many more may be remembered */
    uint slots;    /* a power of two */
    uint heads;    /* a power of two */
    uint runs;     /* restored: how many */
};

/* As struct varve_run and struct varve_granule have it. */
struct run {
    ulong offset;
    uint length, label;
    uint source, reserved;
    ulong address;
};
struct granule {
    ulong index, low, high;
};
/* An entry that was pointed elsewhere, and where it pointed. */
struct moved {
    ulong place;
    uint entry, reserved;
};

int same(ulong2 a, ulong2 b) {
    return a.x == b.x && a.y == b.y;
}

int is_none(ulong2 id) {
    return (id.x | id.y) == 0;
}

/* Where chunk k of the listed granules lies in the region. */
ulong offset_of(__constant struct part *part, __global const uint *list, uint k) {
    uint per_shift = GRANULE_SHIFT - part->shift;
    return ((ulong)list[k >> per_shift] << GRANULE_SHIFT) + ((ulong)(k & ((1u << per_shift) - 1)) << part->shift);
}

uint length_at(__constant struct part *part, ulong offset) {
    return (uint)min((ulong)1 << part->shift, part->total - offset);
}

int is_packable(uint source, ulong address) {
    return source < SOURCE_END && address < ADDRESS_END && (address & 31) == 0;
}

ulong pack(uint source, ulong address) {
    return ((ulong)source << 40) | (address >> 5);
}

/* What was where: 96 bits of each chunk's id in the last checkpoint, three words per chunk. No id has one of these two
 * marks, but by a chance that is not worth a thought. */
#define MARK_UNKNOWN (uint3)(0, 0, 0)
#define MARK_ZERO (uint3)(1, 0, 0)

uint3 mark_of(ulong2 id) {
    return (uint3)((uint)id.x, (uint)id.y, (uint)(id.y >> 32));
}

int is_marked(__global const uint *past, ulong at, uint3 mark) {
    uint3 old = vload3(at, past);
    return old.x == mark.x && old.y == mark.y && old.z == mark.z;
}

/* A slot of a table with mask + 1 slots has room for more than an index: the rest is a part of the id, so that chunks
 * that meet in a slot by chance are told apart without looking for their ids elsewhere. NONE never comes out: at most
 * three quarters of the slots are taken. */
uint slot_value(ulong2 id, uint mask, uint index) {
    return ((uint)id.y & ~mask) | index;
}

int is_alike(uint value, ulong2 id, uint mask) {
    return ((value ^ (uint)id.y) & ~mask) == 0;
}

/* Where a chunk is stored if it is new. */
ulong own_place(__constant struct part *part, ulong offset) {
    ulong address = part->address + offset;
    return is_packable(part->source, address) ? pack(part->source, address) : PLACE_UNKNOWN;
}

/* ---- sums: each becomes the sum of all up to it, with its own. Blocks by one thread each, so that there is nothing
 * to wait for ---- */

__kernel void sum_blocks(__global uint2 *values, __global uint2 *sums, uint count) {
    uint block = (uint)get_global_id(0);
    ulong from = (ulong)block * SCAN_BLOCK;
    if (from >= count)
        return;
    uint2 sum = (uint2)(0, 0);
    for (uint i = (uint)from; i < count && i < from + SCAN_BLOCK; i++) {
        sum += values[i];
        values[i] = sum;
    }
    sums[block] = sum;
}

__kernel void add_sums(__global uint2 *values, __global const uint2 *sums, uint count) {
    uint i = (uint)get_global_id(0);
    if (i >= SCAN_BLOCK && i < count)
        values[i] += sums[i / SCAN_BLOCK - 1];
}
