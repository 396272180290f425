/* Which granules differ, and the label of each of their chunks. */

/* ---- granules ---- */

__kernel void name_granules(__constant struct part *part, __constant ulong *keys, __global const uchar *data,
                            __global const ulong2 *kept, __global ulong2 *fresh, __global uint2 *marks) {
    uint i = (uint)get_global_id(0);
    if (i >= part->granules)
        return;
    uint index = part->granule + i;
    ulong offset = (ulong)index << GRANULE_SHIFT;
    uint size = (uint)min((ulong)GRANULE, part->total - offset);
    ulong2 id = name_bytes(data + part->base + offset, size, part->seed, keys);
    uint differs = !part->has_past || !same(kept[index], id);
    fresh[index] = id;
    /* The second tells the host that the short one is among them. */
    marks[i] = (uint2)(differs, differs && size < GRANULE);
}

__kernel void list_granules(__constant struct part *part, __global const uint2 *marks, __global uint *list) {
    uint i = (uint)get_global_id(0);
    if (i >= part->granules)
        return;
    uint before = i ? marks[i - 1].x : 0;
    if (marks[i].x != before)
        list[before] = part->granule + i;
}

/* ---- chunks ---- */

__kernel void name_chunks(__constant struct part *part, __constant ulong *keys, __global const uchar *data,
                          __global const uint *list, __global ulong2 *ids) {
    uint k = (uint)get_global_id(0);
    if (k >= part->chunks)
        return;
    ulong offset = offset_of(part, list, k);
    ids[k] = name_bytes(data + part->base + offset, length_at(part, offset), part->seed, keys);
}

/* Take a free slot of heads, or meet an equal chunk in one; returns where. At most half of the slots are ever taken. */
uint meet(__global volatile uint *heads, uint mask, __global const ulong2 *ids, ulong2 id, uint k) {
    uint at = (uint)id.x & mask;
    for (;; at = (at + 1) & mask) {
        uint own = slot_value(id, mask, k), other = atomic_cmpxchg(&heads[at], NONE, own);
        if (other == NONE)
            return at;
        if (is_alike(other, id, mask) && same(ids[other & mask], id)) {
            atomic_min(&heads[at], own);
            return at;
        }
    }
}

uint find(__constant struct part *part, __global const uint *slots, __global const ulong2 *entry_ids, ulong2 id) {
    uint mask = part->slots - 1;
    for (uint at = (uint)id.x & mask;; at = (at + 1) & mask) {
        uint value = slots[at];
        if (value == NONE)
            return NONE;
        if (is_alike(value, id, mask) && same(entry_ids[value & mask], id))
            return value & mask;
    }
}

/* Is it as it was? Else its entry, and, unless that is usable, the slot where it meets its equals. Chunks of this
 * checkpoint's earlier parts are always usable. */
__kernel void find_chunks(__constant struct part *part, __global const uint *list, __global const ulong2 *ids,
                          __global const uint *past, __global const uint *slots, __global const ulong2 *entry_ids,
                          __global const ulong *entry_places, __global const uchar *is_usable,
                          __global volatile uint *heads, __global uint *entries, __global uint *homes,
                          __global uchar *labels) {
    uint k = (uint)get_global_id(0);
    if (k >= part->chunks)
        return;
    ulong2 id = ids[k];
    uint entry = NONE, home = NONE;
    uchar label = is_none(id) ? ZERO : FIRST;
    uint3 mark = is_none(id) ? MARK_ZERO : mark_of(id);
    if (part->has_past && is_marked(past, offset_of(part, list, k) >> part->shift, mark))
        label = FIXED;
    if (label == FIRST) {
        entry = find(part, slots, entry_ids, id);
        uint source = entry == NONE ? 0 : (uint)(entry_places[entry] >> 40);
        if (entry != NONE && (source == part->source || (source < part->sources && is_usable[source])))
            label = SHIFTED;
        else
            home = meet(heads, part->heads - 1, ids, id, k);
    }
    entries[k] = entry;
    homes[k] = home;
    labels[k] = label;
}

/* homes, from slots, become the lowest of equal chunks. These may be remembered: first those that are new, second
 * those whose entry points elsewhere. */
__kernel void mark_heads(__constant struct part *part, __global const uint *list, __global const uint *heads,
                         __global const uint *entries, __global uint *homes, __global uint2 *marks) {
    uint k = (uint)get_global_id(0);
    if (k >= part->chunks)
        return;
    uint home = homes[k] == NONE ? NONE : heads[homes[k]] & (part->heads - 1);
    uint is_head = home == k && own_place(part, offset_of(part, list, k)) != PLACE_UNKNOWN;
    homes[k] = home;
    marks[k] = (uint2)(is_head && entries[k] == NONE, is_head && entries[k] != NONE);
}

/* The places, and which of the new ones are found at another one of them. marks: the sums of mark_heads. */
__kernel void label_chunks(__constant struct part *part, __global const uint *list, __global const ulong *entry_places,
                           __global const uint *entries, __global const uint *homes, __global const uint2 *marks,
                           __global ulong *places, __global uchar *labels) {
    uint k = (uint)get_global_id(0);
    if (k >= part->chunks)
        return;
    ulong place = PLACE_UNKNOWN;
    if (homes[k] != NONE) {
        uint head = homes[k];
        ulong other = own_place(part, offset_of(part, list, head));
        int is_kept = other != PLACE_UNKNOWN && (entries[k] != NONE || marks[head].x <= part->room);
        int is_first = head == k || !is_kept;
        labels[k] = is_first ? FIRST : SHIFTED;
        place = is_first ? own_place(part, offset_of(part, list, k)) : other;
    } else if (labels[k] == SHIFTED) {
        place = entry_places[entries[k]];
    }
    places[k] = place;
}

int continues(__constant struct part *part, __global const uint *list, __global const ulong *places,
              __global const uchar *labels, uint k) {
    if (k == 0 || labels[k - 1] != labels[k] ||
        offset_of(part, list, k - 1) + (1u << part->shift) != offset_of(part, list, k))
        return 0;
    return labels[k] != SHIFTED || (places[k - 1] >> 40 == places[k] >> 40 &&
                                    places[k - 1] + (1u << (part->shift - 5)) == places[k]);
}

/* Where runs begin, and which chunks are handed over. */
__kernel void mark_runs(__constant struct part *part, __global const uint *list, __global const ulong *places,
                        __global const uchar *labels, __global uint2 *marks) {
    uint k = (uint)get_global_id(0);
    if (k >= part->chunks)
        return;
    marks[k] = (uint2)(labels[k] != FIXED && !continues(part, list, places, labels, k), labels[k] == FIRST);
}
