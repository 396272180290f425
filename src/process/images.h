/* The images of process trees as criu gives them: named streams of bytes, kept in memory. Memory first, so that the
 * programs stand still only as long as criu copies; they go on while their images are stored.
 *
 * criu passes pages of a process by reference: those that are still in a pipe when the process goes on are stored with
 * what it has written meanwhile. So criu asks at a gate before it lets its processes go, and the gate opens when the
 * pages of all of them are here. That is also what makes the images of several trees belong to one moment. */
#ifndef PROCESS_IMAGES_H
#define PROCESS_IMAGES_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <varve/varve_error.h>

#include "process/criu.h"

#define PROCESS_IMAGES_MOST 100000u
#define PROCESS_NAME_MOST 255u

struct process_image {
    char *name;
    int fd; /* a file in memory that nobody else has */
    uint64_t size;
    uint64_t offset; /* in the file: where it lies in an archive */
    uint64_t taken;  /* of its first bytes nothing is in memory any more (drain.h) */
    uint32_t number; /* among the images of all sources, as they came */
    int is_ended;
};

struct process_images {
    struct process_image *list;
    size_t count, capacity;
};

/* A criu that runs, and what it has sent. */
struct process_source {
    struct process_criu *criu;
    struct process_images images;
    int socket; /* -1: not yet, or no longer */
    int gate;   /* where it waits before its processes go on, -1: it does not */
    int is_connected, has_asked;
    int is_quiet; /* it waits, and nothing that it sent before is left in the socket */
};

struct process_stream {
    size_t source, image;
    int pipe;
};

struct process_receiver {
    struct process_source *sources;
    size_t count;
    struct process_stream *streams; /* those that have not ended */
    size_t stream_count, stream_capacity;
    struct pollfd *polls;
    size_t poll_capacity;
    uint64_t bytes; /* received */
    uint32_t images;
    size_t failed; /* with -ECONNABORTED: the source whose criu must say why */
};

/* criu listens for nobody else; sources are zeroed but for criu, which was started. 0 or -ENOMEM. */
int process_receive_begin(struct process_receiver *receiver, struct process_source *sources, size_t count,
                          struct varve_error *error);
/* Wait for something and take it. 1, 0 when all criu have closed their sockets and each stream has ended, or a negative
 * code, told in error; -ECONNABORTED when a criu has ended too early. Their exit codes are for the caller. */
int process_receive(struct process_receiver *receiver, struct varve_error *error);
/* No more: a criu that still sends, or waits at the gate, fails and lets its processes go on. */
void process_receive_end(struct process_receiver *receiver);

/* The name of an image, which lies in a request of criu. 0, or -EPROTO where there is none that can be a file. */
int process_request_name(const void *request, size_t size, const char **name, size_t *length);

/* All are there: put them in order of their names, of which each is there once. */
int process_images_settle(struct process_images *images, struct varve_error *error);
const struct process_image *process_image_find(const struct process_images *images, const char *name);
void process_images_clear(struct process_images *images);

#endif
