/* The method `list` of the paper, whole: each checkpoint of one region is an object that has an entry per chunk that
 * is not where it was, 4 bytes for a new one and 12 for one that is found elsewhere, and the new bytes. Made and
 * read here, from nothing but these objects: it shows that the labels are enough. */
#ifndef VARVE_LIST_H
#define VARVE_LIST_H

#include <stddef.h>
#include <stdint.h>

struct list;

struct list *list_create(uint32_t chunk);
void list_destroy(struct list *list);
/* One more checkpoint. Returns the bytes of new data in it. */
size_t list_save(struct list *list, const uint8_t *data, size_t size);
/* Fill out with checkpoint `number`; returns its length. */
size_t list_restore(const struct list *list, uint32_t number, uint8_t *out, size_t capacity);

#endif
