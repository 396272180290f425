/* What becomes of the labels: the answer, what is known from now on, and how that is taken back; and coming back after
 * a restart. */

/* ---- what becomes of it ---- */

void put_slot(__global volatile uint *slots, uint mask, ulong2 id, uint entry) {
    uint at = (uint)id.x & mask;
    while (atomic_cmpxchg(&slots[at], NONE, slot_value(id, mask, entry)) != NONE)
        at = (at + 1) & mask;
}

/* New entries, and old ones that point elsewhere from now on; what they pointed to is kept for undo_moved. marks: as
 * label_chunks. Ids are distinct here, so slots are taken without comparing any. */
__kernel void remember(__constant struct part *part, __global const ulong2 *ids, __global const uint *entries,
                       __global const uint2 *marks, __global const ulong *places, __global ulong2 *entry_ids,
                       __global ulong *entry_places, __global volatile uint *slots, __global struct moved *moved) {
    uint k = (uint)get_global_id(0);
    if (k >= part->chunks)
        return;
    uint2 before = k ? marks[k - 1] : (uint2)(0, 0);
    uint2 now = marks[k];
    if (now.x != before.x && now.x <= part->room) {
        uint entry = part->used + before.x;
        entry_ids[entry] = ids[k];
        entry_places[entry] = places[k];
        put_slot(slots, part->slots - 1, ids[k], entry);
    }
    if (now.y != before.y) {
        moved[before.y].place = entry_places[entries[k]];
        moved[before.y].entry = entries[k];
        moved[before.y].reserved = 0;
        entry_places[entries[k]] = places[k];
    }
}

/* These chunks are what was where from now on; what was before is kept for undo_past if has_log. A zero chunk of a
 * restored region counts as zeros only if it lies in zeros, not if they are stored. */
__kernel void keep_past(__constant struct part *part, __global const uint *list, __global const ulong2 *ids,
                        __global const ulong *places, __global uint *past, __global uint *log, uint has_log,
                        uint is_restored) {
    uint k = (uint)get_global_id(0);
    if (k >= part->chunks)
        return;
    ulong at = offset_of(part, list, k) >> part->shift;
    uint3 mark = mark_of(ids[k]);
    if (is_none(ids[k]))
        mark = is_restored && places[k] != PLACE_ZERO ? MARK_UNKNOWN : MARK_ZERO;
    if (has_log)
        vstore3(vload3(at, past), k, log);
    vstore3(mark, at, past);
}

/* marks from here on: the sums of mark_runs. */
__kernel void begin_runs(__constant struct part *part, __global const uint *list, __global const ulong *places,
                         __global const uchar *labels, __global const uint2 *marks, __global struct run *runs) {
    uint k = (uint)get_global_id(0);
    if (k >= part->chunks || marks[k].x == (k ? marks[k - 1].x : 0))
        return;
    struct run run;
    run.offset = offset_of(part, list, k);
    run.length = 0; /* end_runs */
    run.label = labels[k];
    run.source = 0;
    run.reserved = 0;
    run.address = 0;
    if (labels[k] == FIRST) {
        run.source = part->source;
        run.address = part->address + run.offset;
    } else if (labels[k] == SHIFTED) {
        run.source = (uint)(places[k] >> 40);
        run.address = (places[k] & 0xffffffffffUL) << 5;
    }
    runs[marks[k].x - 1] = run;
}

/* The last chunk of each run tells how long it is. */
__kernel void end_runs(__constant struct part *part, __global const uint *list, __global const uchar *labels,
                       __global const uint2 *marks, __global struct run *runs) {
    uint k = (uint)get_global_id(0);
    if (k >= part->chunks || labels[k] == FIXED)
        return;
    if (k + 1 < part->chunks && labels[k + 1] != FIXED && marks[k + 1].x == marks[k].x)
        return;
    ulong offset = offset_of(part, list, k);
    __global struct run *run = &runs[marks[k].x - 1];
    run->length = (uint)(offset + length_at(part, offset) - run->offset);
}

__kernel void write_granules(__constant struct part *part, __global const uint *list, __global const ulong2 *fresh,
                             __global uchar *out, ulong at) {
    uint i = (uint)get_global_id(0);
    __global struct granule *granules = (__global struct granule *)(out + at);
    if (i >= part->listed)
        return;
    granules[i].index = list[i];
    granules[i].low = fresh[list[i]].x;
    granules[i].high = fresh[list[i]].y;
}

/* The bytes of what is handed over, one after another. All chunks are whole, but for the last one of all. */
__kernel void gather(__constant struct part *part, __global const uint *list, __global const uchar *labels,
                     __global const uint2 *marks, __global const uchar *data, __global uchar *out, ulong at) {
    uint k = (uint)get_global_id(0);
    if (k >= part->chunks || labels[k] != FIRST)
        return;
    ulong offset = offset_of(part, list, k);
    uint size = length_at(part, offset);
    __global const uchar *from = data + part->base + offset;
    __global uchar *to = out + at + ((ulong)(marks[k].y - 1) << part->shift);
    for (uint i = 0; i < size / 32; i++)
        vstore4(vload4(i, (__global const ulong *)from), i, (__global ulong *)to);
    for (uint i = size & ~31u; i < size; i++)
        to[i] = from[i];
}

/* ---- taking it back, growing ---- */

/* Entries from `used` on are gone. All that stay were put before any of those, so none of them had to look past a slot
 * that is emptied here to find its own: probing still finds it. (enter_slots is called for old and new ones one after
 * the other for the same reason.) */
__kernel void forget_slots(__global uint *slots, uint count, uint used) {
    uint i = (uint)get_global_id(0);
    if (i < count && slots[i] != NONE && (slots[i] & (count - 1)) >= used)
        slots[i] = NONE;
}

__kernel void undo_moved(__global ulong *entry_places, __global const struct moved *moved, uint count) {
    uint i = (uint)get_global_id(0);
    if (i < count)
        entry_places[moved[i].entry] = moved[i].place;
}

/* The part's own list and shift. */
__kernel void undo_past(__global uint *past, __global const uint *list, __global const uint *log, uint shift,
                        uint count) {
    uint k = (uint)get_global_id(0);
    uint per_shift = GRANULE_SHIFT - shift;
    if (k < count)
        vstore3(vload3(k, log), ((ulong)list[k >> per_shift] << per_shift) + (k & ((1u << per_shift) - 1)), past);
}

__kernel void enter_slots(__global volatile uint *slots, uint mask, __global const ulong2 *entry_ids, uint from,
                          uint to) {
    uint entry = from + (uint)get_global_id(0);
    if (entry < to)
        put_slot(slots, mask, entry_ids[entry], entry);
}

/* ---- coming back ---- */

/* Where chunks lie, as the runs tell that tile this part: the places of chunks in one piece. */
__kernel void place_chunks(__constant struct part *part, __global const uint *list, __global const struct run *runs,
                           __global ulong *places) {
    uint k = (uint)get_global_id(0);
    if (k >= part->chunks)
        return;
    ulong offset = offset_of(part, list, k);
    uint low = 0, high = part->runs; /* the last run that begins at offset or before it */
    while (high - low > 1) {
        uint middle = low + (high - low) / 2;
        if (runs[middle].offset <= offset)
            low = middle;
        else
            high = middle;
    }
    ulong place = PLACE_UNKNOWN;
    if (offset + length_at(part, offset) <= runs[low].offset + runs[low].length) {
        ulong address = runs[low].address + (offset - runs[low].offset);
        if (runs[low].label == ZERO)
            place = PLACE_ZERO;
        else if (runs[low].label == SHIFTED && is_packable(runs[low].source, address))
            place = pack(runs[low].source, address);
    }
    places[k] = place;
}

/* As find_chunks and mark_heads: what lies in one piece somewhere and is not known yet. */
__kernel void find_restored(__constant struct part *part, __global const ulong2 *ids, __global const uint *slots,
                            __global const ulong2 *entry_ids, __global const ulong *places,
                            __global volatile uint *heads, __global uint *entries, __global uint *homes) {
    uint k = (uint)get_global_id(0);
    if (k >= part->chunks)
        return;
    uint home = NONE;
    if (!is_none(ids[k]) && places[k] < PLACE_ZERO && find(part, slots, entry_ids, ids[k]) == NONE)
        home = meet(heads, part->heads - 1, ids, ids[k], k);
    entries[k] = NONE;
    homes[k] = home;
}

__kernel void mark_restored(__constant struct part *part, __global const uint *heads, __global const uint *homes,
                            __global uint2 *marks) {
    uint k = (uint)get_global_id(0);
    if (k < part->chunks)
        marks[k] = (uint2)(homes[k] != NONE && (heads[homes[k]] & (part->heads - 1)) == k, 0);
}
