/* The memory is a memfd of the node's first rank, which the others open through /proc while it is still open there; a
 * number drawn for the occasion proves that it is the right one. Afterwards only the mappings keep it alive, and the
 * descriptors of those who may still add to it.
 *
 * In front of what the caller gets is a head, where each rank leaves how to see whether it lives. */
#include "gather/node_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/alloc.h"
#include "base/thread.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

#define NAME "varve-node"
#define STEP ((size_t)256 << 10) /* bytes reserved at once: less than a millisecond */
#define TRIES 1000

struct head {
    uint64_t nonce[2];
    struct vv_alive_id lives[]; /* per rank of the node; each writes its own */
};

struct vv_node_memory {
    struct head *head; /* MAP_FAILED: nothing is mapped */
    size_t head_size;
    size_t whole; /* bytes, with the head */
    int fd;       /* -1: nothing is added */
    uint32_t locals;
    struct vv_alive_id lives[]; /* as the ranks left them, where nobody writes over them */
};

/* What the first rank tells the others of its node. */
struct told {
    int64_t code; /* not 0: there is no memory, and nothing else counts */
    int64_t pid;
    int64_t fd;
    uint64_t whole;
    uint64_t nonce[2];
};

struct opening {
    struct varve_comm *comm;
    struct vv_node_memory *memory;
    struct told told;
    int fd; /* -1: not open */
    int is_reserved;
    size_t begin; /* bytes reserved at once, then */
    struct varve_error *error;
};

static int is_possible(const struct varve_comm *comm) {
    const struct varve_comm_ops *ops = comm->ops;
    return comm->nodes > 0 && ops->size >= offsetof(struct varve_comm_ops, rank_of) + sizeof ops->rank_of &&
           ops->exchange && ops->node_size && ops->rank_of;
}

/* Errors that say "no memory, too many files" stay what they are; everything else means that it does not work here. */
static int code_of(int number) {
    return number == ENOMEM || number == EMFILE || number == ENFILE ? -number : -ENOTSUP;
}

static int refuse_opening(struct opening *opening, const char *what, int number) {
    return vv_error(opening->error, code_of(number), "the ranks of a node cannot share memory: %s: %s", what,
                    varve_error_text(-number));
}

/* ---- all ranks ---- */

static int prepare_opening(struct opening *opening, size_t size) {
    uint32_t locals = opening->comm->ops->node_size(opening->comm, opening->comm->node);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), head, whole;
    if (size == 0 || opening->comm->local >= locals)
        return vv_error(opening->error, -EINVAL, "the ranks of a node cannot share %zu bytes", size);
    struct vv_node_memory *memory = vv_calloc(1, sizeof *memory + locals * sizeof *memory->lives);
    if (!memory)
        return vv_error(opening->error, -ENOMEM, "no memory for what the ranks of a node share");
    opening->memory = memory;
    memory->head = MAP_FAILED;
    memory->fd = -1;
    memory->locals = locals;
    head = (sizeof *memory->head + locals * sizeof *memory->lives + page - 1) / page * page;
    if (__builtin_add_overflow(size, head, &whole) || whole > PTRDIFF_MAX)
        return vv_error(opening->error, -ENOMEM, "the ranks of a node cannot share %zu bytes", size);
    memory->head_size = head;
    memory->whole = whole;
    return 0;
}

static int map(struct opening *opening) {
    struct vv_node_memory *memory = opening->memory;
    memory->head = mmap(NULL, memory->whole, PROT_READ | PROT_WRITE, MAP_SHARED, opening->fd, 0);
    return memory->head == MAP_FAILED ? refuse_opening(opening, "mmap", errno) : 0;
}

/* ---- the first rank of a node ---- */

static int create_file(void) {
    int fd = memfd_create(NAME, MFD_CLOEXEC | MFD_NOEXEC_SEAL); /* some kernels demand it, older ones do not know it */
    return fd < 0 && errno == EINVAL ? memfd_create(NAME, MFD_CLOEXEC) : fd;
}

/* 0, or what is wrong. In small steps: some kernels undo a step when a signal comes, and a program may have a timer. */
static int reserve(int fd, size_t from, size_t size) {
    for (size_t at = from, to = from + size; at < to; at += STEP) {
        size_t length = to - at < STEP ? to - at : STEP;
        int rc, tries = 0;
        do
            rc = fallocate(fd, 0, (off_t)at, (off_t)length);
        while (rc < 0 && errno == EINTR && ++tries < TRIES);
        if (rc < 0)
            return errno;
    }
    return 0;
}

static int create(struct opening *opening) {
    struct vv_node_memory *memory = opening->memory;
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && memory->whole > limit.rlim_cur)
        return refuse_opening(opening, "files may not be so long", EFBIG); /* trying it would bring SIGXFSZ */
    opening->fd = create_file();
    if (opening->fd < 0)
        return refuse_opening(opening, "memfd_create", errno);
    if (ftruncate(opening->fd, (off_t)memory->whole) < 0)
        return refuse_opening(opening, "ftruncate", errno);
    int wrong = opening->is_reserved ? reserve(opening->fd, 0, memory->head_size + opening->begin) : 0;
    if (wrong)
        return refuse_opening(opening, "fallocate", wrong);
    int rc = map(opening);
    if (rc)
        return rc;
    opening->told = (struct told){.pid = getpid(), .fd = opening->fd, .whole = memory->whole};
    rc = vv_random(opening->told.nonce, sizeof opening->told.nonce);
    memcpy(memory->head->nonce, opening->told.nonce, sizeof opening->told.nonce);
    return rc ? refuse_opening(opening, "getrandom", -rc) : 0;
}

/* Along a tree: to the ranks of the node whose number is this rank's and one bit more, below its lowest. One after the
 * other: this needs no memory, which may be what has run out. */
static int tell_others(struct opening *opening) {
    struct varve_comm *comm = opening->comm;
    uint32_t locals = comm->ops->node_size(comm, comm->node), bit = 1;
    int rc = 0;
    while (bit < locals && !(comm->local & bit))
        bit *= 2;
    for (bit /= 2; bit > 0; bit /= 2) {
        uint32_t local = comm->local + bit;
        struct varve_message message = {local < locals ? comm->ops->rank_of(comm, comm->node, local) : 0,
                                        &opening->told, sizeof opening->told};
        if (local >= locals)
            continue;
        int failed = comm->ops->exchange(comm, &message, 1, NULL, 0, NULL, NULL);
        rc = rc ? rc : failed;
    }
    return rc;
}

static int begin_first(struct opening *opening, int rc) {
    if (rc == 0)
        rc = create(opening);
    opening->told.code = rc;
    int failed = tell_others(opening);
    return rc ? rc : failed;
}

/* ---- the others ---- */

static int take_told(void *arg, uint32_t rank, const void *data, size_t size) {
    struct opening *opening = arg;
    (void)rank;
    if (size != sizeof opening->told)
        return vv_error(opening->error, -ENOTSUP, "the first rank of the node speaks another version of this library");
    memcpy(&opening->told, data, size);
    return 0;
}

/* In another PID namespace the number is somebody else's, who may have a terminal or a tape there: look before it is
 * opened. 0, or what is wrong. */
static int look_at_path(const char *path) {
    static const char begin[] = "/memfd:" NAME;
    char text[64];
    ssize_t size = readlink(path, text, sizeof text);
    if (size < 0)
        return errno;
    return size >= (ssize_t)sizeof begin - 1 && memcmp(text, begin, sizeof begin - 1) == 0 ? 0 : ESTALE;
}

static int open_theirs(struct opening *opening) {
    char path[80];
    struct stat st;
    const struct told *told = &opening->told;
    if (told->whole != opening->memory->whole)
        return vv_error(opening->error, -EINVAL, "the ranks of a node ask for different sizes: %zu and %" PRIu64,
                        opening->memory->whole, told->whole);
    snprintf(path, sizeof path, "/proc/%" PRId64 "/fd/%" PRId64, told->pid, told->fd);
    int wrong = look_at_path(path);
    if (wrong)
        return refuse_opening(opening, path, wrong);
    opening->fd = open(path, O_RDWR | O_CLOEXEC);
    if (opening->fd < 0)
        return refuse_opening(opening, path, errno);
    if (fstat(opening->fd, &st) < 0 || (uint64_t)st.st_size != told->whole)
        return refuse_opening(opening, path, ESTALE);
    int rc = map(opening);
    if (rc)
        return rc;
    return memcmp(opening->memory->head->nonce, told->nonce, sizeof told->nonce) ? refuse_opening(opening, path, ESTALE)
                                                                                 : 0;
}

/* What the first rank has told must be taken, and passed on, whatever happens here. */
static int begin_other(struct opening *opening, int rc) {
    struct varve_comm *comm = opening->comm;
    uint32_t first = comm->ops->rank_of(comm, comm->node, 0);
    uint32_t above = comm->ops->rank_of(comm, comm->node, comm->local & (comm->local - 1));
    int failed = comm->ops->exchange(comm, NULL, 0, &above, 1, take_told, opening);
    opening->told.code = failed && !opening->told.code ? failed : opening->told.code;
    int passed = tell_others(opening);
    failed = failed ? failed : passed;
    if (rc || failed)
        return rc ? rc : failed;
    int64_t code = opening->told.code;
    if (code)
        return vv_error(opening->error, code < 0 && code > INT32_MIN ? (int)code : -ENOTSUP,
                        "rank %u, the first of its node, has no memory to share", first);
    return open_theirs(opening);
}

/* ---- the whole ---- */

static int open_memory(struct opening opening, int failed, size_t size, struct vv_node_memory **out) {
    struct varve_comm *comm = opening.comm;
    struct varve_error unused = {0};
    opening.error = opening.error ? opening.error : &unused;
    opening.fd = -1;
    *out = NULL;
    if (!is_possible(comm)) /* alike on all ranks */
        return vv_comm_all_say(opening.error, -ENOTSUP,
                               "the group of processes cannot exchange messages, or does not know its nodes");
    int rc = failed ? failed : prepare_opening(&opening, size);
    rc = comm->local == 0 ? begin_first(&opening, rc) : begin_other(&opening, rc);
    if (rc == 0)
        vv_alive_self(&opening.memory->head->lives[comm->local]);
    rc = vv_comm_agree(comm, rc, opening.error);
    if (opening.memory && opening.is_reserved)
        opening.memory->fd = opening.fd;
    else if (opening.fd >= 0)
        close(opening.fd);
    if (rc) {
        vv_node_memory_close(opening.memory);
        return rc;
    }
    memcpy(opening.memory->lives, opening.memory->head->lives, opening.memory->locals * sizeof *opening.memory->lives);
    *out = opening.memory;
    return 0;
}

int vv_node_memory_open(struct varve_comm *comm, int failed, size_t size, struct vv_node_memory **out,
                        struct varve_error *error) {
    return open_memory((struct opening){.comm = comm, .error = error}, failed, size, out);
}

int vv_node_memory_reserve(struct varve_comm *comm, int failed, size_t size, size_t begin, struct vv_node_memory **out,
                           struct varve_error *error) {
    struct opening opening = {.comm = comm, .is_reserved = 1, .begin = begin < size ? begin : size, .error = error};
    return open_memory(opening, failed, size, out);
}

int vv_node_memory_add(const struct vv_node_memory *memory, size_t offset, size_t size) {
    int wrong = reserve(memory->fd, memory->head_size + offset, size);
    if (wrong) /* part of it may be there, and somebody else needs it */
        (void)!fallocate(memory->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(memory->head_size + offset),
                         (off_t)size);
    return -wrong;
}

void *vv_node_memory_at(const struct vv_node_memory *memory) {
    return (uint8_t *)memory->head + memory->head_size;
}

int vv_node_memory_is_alive(const struct vv_node_memory *memory, uint32_t local) {
    return local >= memory->locals || vv_alive_look(&memory->lives[local]) != VV_ALIVE_NO;
}

void vv_node_memory_close(struct vv_node_memory *memory) {
    if (!memory)
        return;
    if (memory->head != MAP_FAILED)
        munmap(memory->head, memory->whole);
    if (memory->fd >= 0)
        close(memory->fd);
    vv_free(memory);
}
