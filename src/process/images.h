/* The images of a process tree as criu gives them: named streams of bytes, kept in memory until all of them are there.
 * Memory first, so that the program stands still only as long as criu copies; it goes on while its images are stored.
 */
#ifndef PROCESS_IMAGES_H
#define PROCESS_IMAGES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <varve/varve_error.h>

#define PROCESS_IMAGES_MOST 100000u
#define PROCESS_NAME_MOST 255u

struct process_image {
    char *name;
    int fd; /* a file in memory; nobody can write it any more once all was received */
    uint64_t size;
    uint64_t offset; /* in the file: where it lies in an archive */
};

struct process_images {
    struct process_image *list; /* by name, once all were received */
    size_t count, capacity;
    uint64_t bytes;
};

/* Take what criu, the process `criu`, sends to the socket it was told to connect to. Ends well when criu has closed the
 * socket and each stream has ended; criu's own exit code is for the caller. 0 or a negative code, told in error;
 * -ECONNABORTED when criu has ended too early and must say why. */
int process_receive(int listener, pid_t criu, struct process_images *images, struct varve_error *error);
const struct process_image *process_image_find(const struct process_images *images, const char *name);
void process_images_clear(struct process_images *images);

#endif
