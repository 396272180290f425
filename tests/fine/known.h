/* From contents to where they are, by the bytes themselves: for the oracle, who trusts no hash. */
#ifndef VARVE_KNOWN_H
#define VARVE_KNOWN_H

#include <stddef.h>
#include <stdint.h>

struct known;

struct known *known_create(void);
void known_destroy(struct known *known);
/* Where it is, to be changed if wanted, or NULL. */
uint64_t *known_find(const struct known *known, const uint8_t *data, size_t size);
/* The newest place counts. */
void known_put(struct known *known, const uint8_t *data, size_t size, uint64_t place);

#endif
