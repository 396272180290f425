/* In which order the chunks of many ranks lie in a block.
 *
 * Which chunks come into one block is decided before; here is what can still be done inside it. Either everything
 * of a rank lies together (concatenated), or pieces of the ranks take turns (interleaved). Which is better depends
 * on the data, so it can be tried on a block. */
#ifndef VV_ENCODE_ORDER_H
#define VV_ENCODE_ORDER_H

#include <stddef.h>
#include <stdint.h>

/* A piece of a block: a whole chunk, or, where pieces smaller than chunks take turns, a part of one. */
struct vv_order_piece {
    uint32_t owner;
    uint32_t at; /* where its bytes are in the block as it was filled */
    uint32_t size;
    uint32_t chunk; /* which of the chunks, in the order in which they came: whatever `in` says, passed on */
    uint64_t address;
};

/* step 0: concatenated, by owner and address. Otherwise turns of step bytes (1 KiB at least): the owners in
 * ascending order give one each, then the next one each, and so on; what of an owner's chunks comes next follows
 * their addresses; an owner that has no more is passed over. A turn is shorter where the owner's next chunk does
 * not begin at the address where the last one ended (the short chunk at the end of a region, a gap), and where it
 * would have to be cut: only chunks longer than step are.
 * in: whole chunks in any order, each at most once. out gets the pieces in their new order; they tile the same
 * bytes. Room for vv_order_capacity(in, count, step), and apart from in. Returns how many; 0 when scratch memory is
 * missing (none is needed for step 0), or of nothing. Any thread. */
size_t vv_order_capacity(const struct vv_order_piece *in, size_t count, uint32_t step);
size_t vv_order_make(const struct vv_order_piece *in, size_t count, uint32_t step, struct vv_order_piece *out);

/* Are these pieces whole chunks? Only then have they ids. */
int vv_order_is_whole(size_t in_count, size_t out_count);

#endif
