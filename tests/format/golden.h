/* The golden files: made from fixed inputs, and described as text when parsed. */
#ifndef TEST_GOLDEN_H
#define TEST_GOLDEN_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef void (*golden_fn)(void *arg, const char *name, const uint8_t *data, size_t size);

/* Call fn for every golden file: good-KIND.bin, and bad-KIND-DEFECT.bin whose sums and digests are right. */
void golden_make(golden_fn fn, void *arg);

/* Parse the bytes as the kind in the file's name says; print what they hold, or the error. Returns 0 or the error. */
int golden_describe(FILE *out, const char *name, const uint8_t *data, size_t size);

/* "== NAME" and the description of every *.bin in the folder, by name. Returns how many, or -1. */
int golden_list(FILE *out, const char *folder);

#endif
