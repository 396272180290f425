/* The lists of mappings and pages in criu's images: the input is the length of the first list, in pages the size of the
 * image of pages, and both lists. What is found lies in the image of pages and shares no byte. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "process/segments.h"

#define HEAD 4u
#define PAGES_MOST 4096u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int image_of(struct process_image *image, const char *name, const uint8_t *data, size_t size) {
    *image = (struct process_image){.name = (char *)name, .size = size, .fd = memfd_create(name, MFD_CLOEXEC)};
    return image->fd >= 0 &&
           (data ? write(image->fd, data, size) == (ssize_t)size : ftruncate(image->fd, (off_t)size) == 0);
}

static void check(const struct files_found *found, uint64_t size) {
    uint64_t end = 0; /* found in order */
    for (size_t i = 0; i < found->count; i++)
        for (size_t j = 0; j < found->variables[i].count; j++) {
            const struct files_extent *extent = &found->extents[found->variables[i].first + j];
            if (extent->offset < end || extent->length > size || extent->offset > size - extent->length)
                abort();
            end = extent->offset + extent->length;
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct process_image list[3];
    struct process_images images = {.list = list, .count = 3};
    struct files_found found = {.count = 0};

    if (size < HEAD)
        return 0;
    size_t first = data[0] | (size_t)data[1] << 8, pages = (data[2] | (size_t)data[3] << 8) % PAGES_MOST;
    first = first < size - HEAD ? first : size - HEAD;
    int is_made = image_of(&list[0], "mm-7.img", data + HEAD, first);
    is_made &= image_of(&list[1], "pagemap-7.img", data + HEAD + first, size - HEAD - first);
    is_made &= image_of(&list[2], "pages-1.img", NULL, pages * 4096);
    if (is_made) {
        int rc = process_segments(&images, &list[2], &found);
        if (rc != 0 && rc != -ENOMEM)
            abort();
        check(&found, list[2].size);
    }
    for (size_t i = 0; i < 3; i++)
        if (list[i].fd >= 0)
            close(list[i].fd);
    files_found_clear(&found);
    return 0;
}
