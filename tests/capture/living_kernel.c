/* System calls that write into protected memory while a checkpoint is in flight: they succeed, and the checkpoint has
 * what was there before. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "living.h"
#include "uring.h"

#define SIZE (4 * MIB)
#define STEP (64 * 1024) /* one piece is written here and there */
#define PIECE ((size_t)3 * 4096)
#define PIECES (SIZE / STEP)

struct scene {
    struct flight flight;
    uint8_t *data, *source; /* source: what the kernel is asked to put into data, piece by piece */
};

/* Pieces that do not begin where pages do. */
static uint8_t *piece_at(uint8_t *base, size_t n) {
    return base + n * STEP + 1000 * (n % 3);
}

static void begin(struct scene *scene, int is_aligned) {
    scene->data = new_memory(SIZE + PAGE) + (is_aligned ? 0 : 16);
    scene->source = new_memory(SIZE);
    fill(scene->source, SIZE, 1234);
    flight_open(&scene->flight);
    flight_protect(&scene->flight, "data", scene->data, SIZE, 0);
    scene->flight.need_not_hold = mode.is_mprotect;
    flight_launch(&scene->flight);
    flight_must_be_up(&scene->flight);
}

static void end(struct scene *scene) {
    for (size_t n = 0; n < PIECES; n++)
        if (memcmp(piece_at(scene->data, n), piece_at(scene->source, n), PIECE) != 0)
            fail("piece %zu of what the kernel wrote is not what it was asked to write", n);
    flight_land(&scene->flight);
    flight_close(&scene->flight);
}

static void must_be(ssize_t got, const char *call) {
    if (got != (ssize_t)PIECE)
        fail("%s into memory that is held gives %zd: %s", call, got, got < 0 ? strerror(errno) : "short");
}

static void reads(void) {
    struct scene scene;
    int ends[2];
    begin(&scene, 0);
    if (pipe(ends) != 0)
        fail("pipe");
    for (size_t n = PIECES; n-- > 0;) {
        if (write(ends[1], piece_at(scene.source, n), PIECE) != (ssize_t)PIECE)
            fail("write");
        must_be(read(ends[0], piece_at(scene.data, n), PIECE), "read");
    }
    end(&scene);
}

static void receives(void) {
    struct scene scene;
    int ends[2];
    begin(&scene, 0);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0)
        fail("socketpair");
    for (size_t n = PIECES; n-- > 0;) {
        if (send(ends[1], piece_at(scene.source, n), PIECE, 0) != (ssize_t)PIECE)
            fail("send");
        must_be(recv(ends[0], piece_at(scene.data, n), PIECE, 0), "recv");
    }
    end(&scene);
}

/* A file with the pieces one after the other. */
static int file_of_pieces(const struct scene *scene, const char *folder, int flags) {
    char path[256];
    snprintf(path, sizeof path, "%s/pieces", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    for (size_t n = 0; n < PIECES; n++)
        if (fd < 0 || pwrite(fd, piece_at(scene->source, n), PIECE, (off_t)(n * PIECE)) != (ssize_t)PIECE)
            fail("no file %s: %s", path, strerror(errno));
    if (flags) {
        fsync(fd);
        close(fd);
        fd = open(path, O_RDWR | O_CLOEXEC | flags);
    }
    return fd;
}

static void preads(void) {
    struct scene scene;
    begin(&scene, 0);
    int fd = file_of_pieces(&scene, scene.flight.folder, 0);
    for (size_t n = PIECES; n-- > 0;) {
        struct iovec parts[2] = {{piece_at(scene.data, n), 5000}, {piece_at(scene.data, n) + 5000, PIECE - 5000}};
        must_be(preadv(fd, parts, 2, (off_t)(n * PIECE)), "preadv");
    }
    end(&scene);
}

/* Past the page cache: the device writes into pages that the kernel has pinned after they were made writable. */
static void direct_reads(void) {
    struct scene scene;
    char folder[] = "/var/tmp/capture-direct-XXXXXX";
    begin(&scene, 1);
    if (!mkdtemp(folder))
        skip("no folder in /var/tmp");
    uint8_t *buffer = aligned_alloc(PAGE, PIECE);
    int fd = file_of_pieces(&scene, folder, O_DIRECT);
    if (fd < 0 || pread(fd, buffer, PIECE, 0) != (ssize_t)PIECE) {
        kit_folder_remove(folder);
        skip("no O_DIRECT in %s", folder);
    }
    for (size_t n = PIECES; n-- > 0;) {
        /* Straight into the whole pages; a piece's odd ends by way of the buffer. */
        uint8_t *to = scene.data + n * STEP + 4 * PAGE;
        ssize_t got = pread(fd, to, PIECE, (off_t)(n * PIECE));
        if (got != (ssize_t)PIECE || memcmp(to, piece_at(scene.source, n), PIECE) != 0) {
            kit_folder_remove(folder);
            must_be(got, "pread with O_DIRECT");
            fail("pread with O_DIRECT did not write what it should");
        }
        memcpy(piece_at(scene.data, n), to, PIECE);
    }
    free(buffer);
    kit_folder_remove(folder);
    end(&scene);
}

static void uring_reads(void) {
    struct scene scene;
    struct uring uring;
    begin(&scene, 0);
    if (uring_open(&uring) != 0)
        skip("no io_uring here: %s", strerror(errno));
    int fd = file_of_pieces(&scene, scene.flight.folder, 0);
    for (size_t n = PIECES; n-- > 0;)
        must_be(uring_read(&uring, fd, piece_at(scene.data, n), PIECE, n * PIECE, -1), "a read by io_uring");
    uring_close(&uring);
    end(&scene);
}

/* From another process, as MPI delivers on one node. */
static void remote_writes(void) {
    struct scene scene;
    pid_t target = getpid();
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* where a child may not write its parent (Yama) */
    begin(&scene, 0);
    pid_t pid = fork();
    if (pid == 0) {
        for (size_t n = PIECES; n-- > 0;) {
            struct iovec from = {piece_at(scene.source, n), PIECE}, to = {piece_at(scene.data, n), PIECE};
            ssize_t got = process_vm_writev(target, &from, 1, &to, 1, 0);
            if (got < 0 && (errno == EPERM || errno == ENOSYS))
                _exit(77);
            must_be(got, "process_vm_writev");
        }
        _exit(0);
    }
    child_must_end_well(pid, "process_vm_writev from another process");
    end(&scene);
}

/* Small structures that calls fill in. */
static void small_answers(void) {
    struct scene scene;
    begin(&scene, 0);
    struct stat expected;
    if (stat("/", &expected) != 0)
        fail("stat");
    for (size_t n = 0; n < PIECES; n++) {
        struct stat *answer = (struct stat *)(scene.data + n * STEP + 5 * PAGE + 4096 - 16 - 24);
        struct stat copy;
        if (stat("/", answer) != 0)
            fail("stat into memory that is held: %s", strerror(errno));
        memcpy(&copy, answer, sizeof copy);
        if (copy.st_ino != expected.st_ino)
            fail("stat wrote something else");
        memcpy(piece_at(scene.data, n), piece_at(scene.source, n), PIECE);
    }
    end(&scene);
}

const struct living_case kernel_cases[] = {
    {"read", reads},           {"recv", receives},
    {"preadv", preads},        {"direct", direct_reads},
    {"io_uring", uring_reads}, {"process_vm_writev", remote_writes},
    {"stat", small_answers},   {NULL, NULL},
};
