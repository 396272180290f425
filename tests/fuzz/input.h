/* The input of a fuzzer as a file that is read at offsets; a read outside of it is the fault that is looked for. */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct input {
    const uint8_t *data;
    size_t size;
};

static inline int read_input(void *arg, uint64_t offset, void *buffer, size_t size) {
    const struct input *input = arg;
    if (offset > input->size || size > input->size - offset)
        abort();
    memcpy(buffer, input->data + offset, size);
    return 0;
}

#endif
