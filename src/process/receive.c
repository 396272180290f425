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
#include "process/images.h"
#include "process/protobuf.h"

#define PIPE_BYTES (1 << 20)
#define REQUEST_MOST 4096u
#define LOOK_MS 50 /* whether criu has ended */

/* The socket, then a pipe for each image that has not ended. */
struct receiver {
    struct process_images *images;
    struct pollfd *polls; /* of open[] */
    size_t *open;         /* numbers of images */
    size_t open_count, capacity;
    int socket;
    struct varve_error *error;
};

/* ---- one image ---- */

static int grow(struct receiver *receiver) {
    size_t capacity = receiver->capacity ? receiver->capacity * 2 : 16;
    if (receiver->open_count < receiver->capacity)
        return 0;
    struct pollfd *polls = realloc(receiver->polls, (capacity + 1) * sizeof *polls);
    receiver->polls = polls ? polls : receiver->polls;
    size_t *open = realloc(receiver->open, capacity * sizeof *open);
    receiver->open = open ? open : receiver->open;
    if (!polls || !open)
        return -ENOMEM;
    receiver->capacity = capacity;
    return 0;
}

/* A name becomes a file when images are given back: it must not lead anywhere else. */
static int is_name(const char *name, size_t length) {
    return length > 0 && length <= PROCESS_NAME_MOST && name[0] != '.' && !memchr(name, '/', length) &&
           !memchr(name, '\0', length);
}

static int begin_image(struct receiver *receiver, const char *name, size_t length, int pipe) {
    struct process_images *images = receiver->images;
    int rc = grow(receiver);

    if (rc == 0 && images->count == images->capacity) {
        size_t capacity = images->capacity ? images->capacity * 2 : 64;
        struct process_image *list =
            capacity > PROCESS_IMAGES_MOST ? NULL : realloc(images->list, capacity * sizeof *list);
        images->list = list ? list : images->list;
        images->capacity = list ? capacity : images->capacity;
        rc = list ? 0 : -ENOMEM;
    }
    char *copy = rc == 0 ? strndup(name, length) : NULL;
    int fd = copy ? memfd_create(copy, MFD_CLOEXEC | MFD_ALLOW_SEALING) : -1;
    if (fd < 0) {
        rc = copy ? -errno : -ENOMEM;
        free(copy);
        return files_error(receiver->error, rc, "cannot keep image %zu in memory: %s", images->count + 1,
                           strerror(-rc));
    }
    fcntl(pipe, F_SETPIPE_SZ, PIPE_BYTES); /* fewer turns; whether it was allowed does not matter */
    receiver->polls[1 + receiver->open_count] = (struct pollfd){.fd = pipe, .events = POLLIN};
    receiver->open[receiver->open_count++] = images->count;
    images->list[images->count++] = (struct process_image){.name = copy, .fd = fd};
    return 0;
}

/* Nobody writes it from now on: what is named is what is stored. */
static int end_image(struct receiver *receiver, size_t which) {
    struct process_image *image = &receiver->images->list[receiver->open[which]];

    close(receiver->polls[1 + which].fd);
    receiver->open_count--;
    receiver->open[which] = receiver->open[receiver->open_count];
    receiver->polls[1 + which] = receiver->polls[1 + receiver->open_count];
    if (fcntl(image->fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW) < 0)
        return files_system_error(receiver->error, "seal", image->name);
    return 0;
}

static int take_stream(struct receiver *receiver, size_t which) {
    struct process_image *image = &receiver->images->list[receiver->open[which]];
    ssize_t got = splice(receiver->polls[1 + which].fd, NULL, image->fd, NULL, PIPE_BYTES, 0);

    if (got < 0 && errno != EINTR && errno != EAGAIN)
        return files_system_error(receiver->error, "take the image", image->name);
    if (got == 0)
        return end_image(receiver, which);
    image->size += got > 0 ? (uint64_t)got : 0;
    receiver->images->bytes += got > 0 ? (uint64_t)got : 0;
    return 0;
}

/* ---- requests ---- */

static int receive_exactly(int fd, void *buffer, size_t size) {
    ssize_t got = recv(fd, buffer, size, MSG_WAITALL);
    return got == (ssize_t)size ? 1 : got == 0 ? 0 : got < 0 ? -errno : -ECONNABORTED;
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
static int take_request(struct receiver *receiver) {
    uint8_t request[REQUEST_MOST];
    uint32_t size;
    struct process_pb pb;
    struct process_pb_field field;
    const char *name = NULL;
    size_t length = 0;

    int rc = receive_exactly(receiver->socket, &size, sizeof size);
    if (rc <= 0)
        return rc == 0 ? 0 : files_error(receiver->error, rc, "cannot read the requests of criu: %s", strerror(-rc));
    rc = size > sizeof request ? -EPROTO : receive_exactly(receiver->socket, request, size);
    if (rc == -ECONNABORTED)
        return rc;
    process_pb_open(&pb, request, rc > 0 ? size : 0);
    while (rc > 0 && process_pb_next(&pb, &field) > 0) {
        if (field.number == 1 && field.bytes) {
            name = (const char *)field.bytes;
            length = field.length;
        }
    }
    if (rc <= 0 || !name || !is_name(name, length))
        return files_error(receiver->error, -EPROTO, "cannot understand the requests of criu");
    int pipe = receive_pipe(receiver->socket);
    if (pipe < 0)
        return files_error(receiver->error, pipe, "criu sent no pipe for an image");
    rc = begin_image(receiver, name, length, pipe);
    if (rc < 0)
        close(pipe);
    return rc < 0 ? rc : 1;
}

/* Until criu has closed the socket and all pipes. */
static int take_all(struct receiver *receiver) {
    int rc = grow(receiver);

    while (rc == 0 && (receiver->socket >= 0 || receiver->open_count > 0)) {
        receiver->polls[0] = (struct pollfd){.fd = receiver->socket, .events = POLLIN};
        if (poll(receiver->polls, 1 + receiver->open_count, -1) < 0 && errno != EINTR)
            return files_system_error(receiver->error, "wait for", "criu");
        int is_asked = receiver->polls[0].revents != 0;
        for (size_t i = receiver->open_count; i-- > 0 && rc == 0;)
            rc = receiver->polls[1 + i].revents ? take_stream(receiver, i) : 0;
        int asked = rc == 0 && is_asked ? take_request(receiver) : 1;
        rc = rc ? rc : asked < 0 ? asked : 0;
        if (asked == 0) {
            close(receiver->socket);
            receiver->socket = -1;
        }
    }
    return rc;
}

/* ---- all of them ---- */

static int compare_images(const void *a, const void *b) {
    return strcmp(((const struct process_image *)a)->name, ((const struct process_image *)b)->name);
}

static int settle(struct process_images *images, struct varve_error *error) {
    qsort(images->list, images->count, sizeof *images->list, compare_images);
    for (size_t i = 1; i < images->count; i++)
        if (strcmp(images->list[i - 1].name, images->list[i].name) == 0)
            return files_error(error, -EPROTO, "criu sent %s twice", images->list[i].name);
    return images->count ? 0 : files_error(error, -EPROTO, "criu sent no image");
}

/* Many images need many open files. Not for criu: it runs already. */
static void allow_files(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* criu may end before it connects: then its log says why. */
static int accept_criu(int listener, pid_t criu, struct varve_error *error) {
    struct pollfd asked = {.fd = listener, .events = POLLIN};
    int fd = -1, rc = 0;

    while (rc == 0 && fd < 0) {
        siginfo_t ended = {.si_signo = 0};
        int ready = poll(&asked, 1, LOOK_MS);
        if (ready > 0)
            rc = (fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0 ? -errno : 0;
        else if (ready < 0)
            rc = errno == EINTR ? 0 : -errno;
        else if (waitid(P_PID, (id_t)criu, &ended, WEXITED | WNOHANG | WNOWAIT) < 0 || ended.si_pid == criu)
            rc = -ECONNABORTED;
    }
    return rc < 0 ? files_error(error, rc, "criu does not connect: %s", strerror(-rc)) : fd;
}

int process_receive(int listener, pid_t criu, struct process_images *images, struct varve_error *error) {
    struct receiver receiver = {.images = images, .error = error};

    allow_files();
    receiver.socket = accept_criu(listener, criu, error);
    if (receiver.socket < 0)
        return receiver.socket;
    int rc = take_all(&receiver);
    if (receiver.socket >= 0)
        close(receiver.socket);
    for (size_t i = 0; i < receiver.open_count; i++)
        close(receiver.polls[1 + i].fd);
    free(receiver.polls);
    free(receiver.open);
    return rc ? rc : settle(images, error);
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
