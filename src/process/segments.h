/* What the pages of a process are: heap, stack, code, libraries. criu puts the pages of all its mappings into one
 * image, in the order of their addresses; this finds which bytes of it belong to which mapping. */
#ifndef PROCESS_SEGMENTS_H
#define PROCESS_SEGMENTS_H

#include "files/found.h"
#include "process/images.h"

/* Mappings with fewer bytes than these in the image are not worth a region of their own. */
#define PROCESS_SEGMENT_LEAST 65536u

/* Where the pages of the image pages-N.img, `pages`, come from. found is empty where that cannot be known: then the
 * image is plain bytes. 0 or -ENOMEM. */
int process_segments(const struct process_images *images, const struct process_image *pages, struct files_found *found);

#endif
