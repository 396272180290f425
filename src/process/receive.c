#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files/error.h"
#include "files/walk.h"
#include "process/gate.h"
#include "process/images.h"
#include "process/protobuf.h"

#define PIPE_BYTES (1 << 20)
#define REQUEST_MOST 4096u
#define LOOK_MS 50 /* whether criu has ended */
#define POLLS 2    /* of a source: its socket, or where it connects to; and its gate */

/* ---- one image ---- */

/* A name becomes a file when images are given back: it must not lead anywhere else. */
static int is_name(const char *name, size_t length) {
    return length > 0 && length <= PROCESS_NAME_MOST && name[0] != '.' && !memchr(name, '/', length) &&
           !memchr(name, '\0', length);
}

static int begin_image(struct process_receiver *receiver, size_t source, const char *name, size_t length, int pipe,
                       struct varve_error *error) {
    struct process_images *images = &receiver->sources[source].images;
    int rc = receiver->images < PROCESS_IMAGES_MOST ? 0 : -EMFILE;

    rc = rc ? rc : files_grow((void **)&images->list, &images->capacity, images->count, sizeof *images->list);
    rc = rc ? rc
            : files_grow((void **)&receiver->streams, &receiver->stream_capacity, receiver->stream_count,
                         sizeof *receiver->streams);
    char *copy = rc == 0 ? strndup(name, length) : NULL;
    int fd = copy ? memfd_create(copy, MFD_CLOEXEC) : -1;
    if (fd < 0) {
        rc = rc ? rc : copy ? -errno : -ENOMEM;
        free(copy);
        return files_error(error, rc, "cannot keep image %u in memory: %s", receiver->images + 1, strerror(-rc));
    }
    fcntl(pipe, F_SETPIPE_SZ, PIPE_BYTES); /* fewer turns; whether it was allowed does not matter */
    receiver->streams[receiver->stream_count++] = (struct process_stream){source, images->count, pipe};
    images->list[images->count++] = (struct process_image){.name = copy, .fd = fd, .number = receiver->images++};
    return 0;
}

static int take_stream(struct process_receiver *receiver, size_t which, struct varve_error *error) {
    struct process_stream *stream = &receiver->streams[which];
    struct process_image *image = &receiver->sources[stream->source].images.list[stream->image];
    ssize_t got = splice(stream->pipe, NULL, image->fd, NULL, PIPE_BYTES, 0);

    if (got < 0 && errno != EINTR && errno != EAGAIN)
        return files_system_error(error, "take the image", image->name);
    if (got == 0) {
        image->is_ended = 1;
        close(stream->pipe);
        *stream = receiver->streams[--receiver->stream_count];
    }
    image->size += got > 0 ? (uint64_t)got : 0;
    receiver->bytes += got > 0 ? (uint64_t)got : 0;
    return 0;
}

/* ---- requests ---- */

static int receive_exactly(int fd, void *buffer, size_t size) {
    ssize_t got = recv(fd, buffer, size, MSG_WAITALL);
    return got == (ssize_t)size ? 1 : got == 0 ? 0 : got < 0 ? -errno : -ECONNABORTED;
}

int process_request_name(const void *request, size_t size, const char **name, size_t *length) {
    struct process_pb pb;
    struct process_pb_field field;
    const char *found = NULL;
    size_t found_length = 0;
    int rc;

    process_pb_open(&pb, request, size);
    while ((rc = process_pb_next(&pb, &field)) > 0) {
        if (field.number == 1 && field.bytes) {
            found = (const char *)field.bytes;
            found_length = field.length;
        }
    }
    if (rc < 0 || !found || !is_name(found, found_length))
        return -EPROTO;
    *name = found;
    *length = found_length;
    return 0;
}

static int receive_pipe(int fd) {
    char byte;
    struct iovec iov = {&byte, 1};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.bytes = {0}};
    struct msghdr message = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    int passed;

    if (recvmsg(fd, &message, MSG_CMSG_CLOEXEC) != 1)
        return -EPROTO;
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
        header->cmsg_len != CMSG_LEN(sizeof passed))
        return -EPROTO;
    memcpy(&passed, CMSG_DATA(header), sizeof passed);
    return passed;
}

/* criu names its next image and passes the end of a pipe. 1, 0 when it has closed the socket, or a negative code;
 * -ECONNABORTED when it has ended in the middle. */
static int take_request(struct process_receiver *receiver, size_t source, struct varve_error *error) {
    int socket = receiver->sources[source].socket;
    uint8_t request[REQUEST_MOST];
    uint32_t size;
    const char *name;
    size_t length;

    int rc = receive_exactly(socket, &size, sizeof size);
    if (rc <= 0)
        return rc == 0 ? 0 : files_error(error, rc, "cannot read the requests of criu: %s", strerror(-rc));
    rc = size > sizeof request ? -EPROTO : receive_exactly(socket, request, size);
    if (rc == -ECONNABORTED)
        return rc;
    if (rc <= 0 || process_request_name(request, size, &name, &length) < 0)
        return files_error(error, -EPROTO, "cannot understand the requests of criu");
    int pipe = receive_pipe(socket);
    if (pipe < 0)
        return files_error(error, pipe, "criu sent no pipe for an image");
    rc = begin_image(receiver, source, name, length, pipe, error);
    if (rc < 0)
        close(pipe);
    return rc < 0 ? rc : 1;
}

/* ---- a criu ---- */

static void shut(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static int connect_source(struct process_source *source, struct varve_error *error) {
    source->socket = accept4(source->criu->listener, NULL, NULL, SOCK_CLOEXEC);
    source->is_connected = source->socket >= 0;
    return source->socket < 0 ? files_error(error, -errno, "criu does not connect: %s", strerror(errno)) : 0;
}

/* It may end before it connects, and it may fail and close its socket without having asked at the gate: then its log
 * says why. */
static int check_source(struct process_receiver *receiver, size_t number) {
    const struct process_source *source = &receiver->sources[number];
    siginfo_t ended = {.si_signo = 0};
    int is_lost = source->is_connected && source->socket < 0 && !source->has_asked;

    if (!source->is_connected)
        is_lost = waitid(P_PID, (id_t)source->criu->pid, &ended, WEXITED | WNOHANG | WNOWAIT) < 0 ||
                  ended.si_pid == source->criu->pid;
    receiver->failed = is_lost ? number : receiver->failed;
    return is_lost ? -ECONNABORTED : 0;
}

static int take_source(struct process_receiver *receiver, size_t number, struct varve_error *error) {
    struct process_source *source = &receiver->sources[number];
    const struct pollfd *polls = &receiver->polls[POLLS * number];
    int rc = 0;

    source->is_quiet = source->gate >= 0 && !polls[0].revents;
    if (polls[1].revents) {
        source->gate = accept4(source->criu->gate, NULL, NULL, SOCK_CLOEXEC);
        source->has_asked |= source->gate >= 0;
    }
    if (polls[0].revents && !source->is_connected)
        return connect_source(source, error);
    if (polls[0].revents)
        rc = take_request(receiver, number, error);
    if (polls[0].revents && rc == 0)
        shut(&source->socket);
    receiver->failed = rc < 0 ? number : receiver->failed;
    return rc < 0 ? rc : check_source(receiver, number);
}

/* Do all wait, with no request left that was sent before, and are all their pages here? Other images may still be open:
 * they are copies. */
static int is_time_to_go(const struct process_receiver *receiver) {
    int is_time = 1;

    for (size_t i = 0; i < receiver->count; i++)
        is_time &= receiver->sources[i].is_quiet;
    for (size_t i = 0; i < receiver->stream_count && is_time; i++) {
        const struct process_stream *stream = &receiver->streams[i];
        is_time = strncmp(receiver->sources[stream->source].images.list[stream->image].name, "pages-", 6) != 0;
    }
    return is_time;
}

static void open_gates(struct process_receiver *receiver) {
    for (size_t i = 0; i < receiver->count; i++) {
        send(receiver->sources[i].gate, PROCESS_GO_ON, 1, MSG_NOSIGNAL); /* else criu fails, and tells */
        shut(&receiver->sources[i].gate);
        receiver->sources[i].is_quiet = 0;
    }
}

/* ---- all of them ---- */

/* Many images need many open files. Not for criu: it runs already. */
static void allow_files(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int process_receive_begin(struct process_receiver *receiver, struct process_source *sources, size_t count,
                          struct varve_error *error) {
    *receiver = (struct process_receiver){.sources = sources, .count = count};
    for (size_t i = 0; i < count; i++)
        sources[i].socket = sources[i].gate = -1;
    allow_files();
    receiver->poll_capacity = POLLS * count + 16;
    receiver->polls = calloc(receiver->poll_capacity, sizeof *receiver->polls);
    return receiver->polls ? 0 : files_error(error, -ENOMEM, "no memory for the images of %zu processes", count);
}

/* How many there are. */
static size_t fill_polls(struct process_receiver *receiver) {
    size_t at = 0, needed = POLLS * receiver->count + receiver->stream_count;

    if (needed > receiver->poll_capacity) {
        struct pollfd *polls = realloc(receiver->polls, 2 * needed * sizeof *polls);
        if (!polls)
            return 0;
        receiver->polls = polls;
        receiver->poll_capacity = 2 * needed;
    }
    for (size_t i = 0; i < receiver->count; i++) {
        const struct process_source *source = &receiver->sources[i];
        int socket = source->is_connected ? source->socket : source->criu->listener;
        receiver->polls[at++] = (struct pollfd){.fd = socket, .events = POLLIN};
        receiver->polls[at++] = (struct pollfd){.fd = source->has_asked ? -1 : source->criu->gate, .events = POLLIN};
    }
    for (size_t i = 0; i < receiver->stream_count; i++)
        receiver->polls[at++] = (struct pollfd){.fd = receiver->streams[i].pipe, .events = POLLIN};
    return at;
}

static int is_over(const struct process_receiver *receiver) {
    int is_over = receiver->stream_count == 0;
    for (size_t i = 0; i < receiver->count; i++)
        is_over &= receiver->sources[i].is_connected && receiver->sources[i].socket < 0;
    return is_over;
}

int process_receive(struct process_receiver *receiver, struct varve_error *error) {
    size_t count = fill_polls(receiver), first = POLLS * receiver->count;
    int rc = 0, wait = LOOK_MS;

    if (count == 0)
        return files_error(error, -ENOMEM, "no memory for the images of %zu processes", receiver->count);
    for (size_t i = 0; i < receiver->count; i++) /* somebody stands still */
        wait = receiver->sources[i].gate >= 0 ? 1 : wait;
    if (poll(receiver->polls, count, wait) < 0)
        return errno == EINTR ? 1 : files_system_error(error, "wait for", "criu");
    for (size_t i = receiver->stream_count; i-- > 0 && rc == 0;)
        rc = receiver->polls[first + i].revents ? take_stream(receiver, i, error) : 0;
    for (size_t i = 0; i < receiver->count && rc == 0; i++)
        rc = take_source(receiver, i, error);
    if (rc == 0 && is_time_to_go(receiver))
        open_gates(receiver);
    return rc < 0 ? rc : !is_over(receiver);
}

void process_receive_end(struct process_receiver *receiver) {
    for (size_t i = 0; i < receiver->count; i++) {
        shut(&receiver->sources[i].socket);
        shut(&receiver->sources[i].gate);
        process_criu_deafen(receiver->sources[i].criu);
    }
    for (size_t i = 0; i < receiver->stream_count; i++)
        close(receiver->streams[i].pipe);
    free(receiver->streams);
    free(receiver->polls);
    receiver->streams = NULL;
    receiver->polls = NULL;
    receiver->stream_count = 0;
}

/* ---- images ---- */

static int compare_images(const void *a, const void *b) {
    return strcmp(((const struct process_image *)a)->name, ((const struct process_image *)b)->name);
}

int process_images_settle(struct process_images *images, struct varve_error *error) {
    if (images->count)
        qsort(images->list, images->count, sizeof *images->list, compare_images);
    for (size_t i = 1; i < images->count; i++)
        if (strcmp(images->list[i - 1].name, images->list[i].name) == 0)
            return files_error(error, -EPROTO, "criu sent %s twice", images->list[i].name);
    return images->count ? 0 : files_error(error, -EPROTO, "criu sent no image");
}

const struct process_image *process_image_find(const struct process_images *images, const char *name) {
    for (size_t i = 0; i < images->count; i++)
        if (strcmp(images->list[i].name, name) == 0)
            return &images->list[i];
    return NULL;
}

void process_images_clear(struct process_images *images) {
    for (size_t i = 0; i < images->count; i++) {
        close(images->list[i].fd);
        free(images->list[i].name);
    }
    free(images->list);
    *images = (struct process_images){.count = 0};
}
