/* Memory that the ranks of a node share: shared inside a node and not between nodes, gone without a trace, and the same
 * answer on all ranks whichever of them is in trouble. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "gather/node_memory.h"
#include "gather/ring.h"
#include "group.h"
#include "test.h"
#include "unit/refuse.h"

#ifndef SYS_readlink /* machines that have only the newer one */
#define SYS_readlink SYS_readlinkat
#endif

#define SIZE (1u << 20)
#define RANKS_MOST GROUP_RANKS_MAX

/* What the ranks tell the test. */
struct board {
    int code[RANKS_MOST];
    int rank[RANKS_MOST]; /* where the error says that it happened */
    char text[RANKS_MOST][sizeof((struct varve_error *)0)->text];
    int seen[RANKS_MOST];
};

static struct board *board;

static uint32_t node_size(struct varve_comm *comm) {
    return comm->ops->node_size(comm, comm->node);
}

static void wait_for_all(struct varve_comm *comm) {
    uint64_t value = 0;
    if (comm->ops->reduce_min(comm, &value, 1) != 0)
        group_fail(comm, "the group is broken");
}

/* ---- what must not be left ---- */

static unsigned count_files(void) {
    unsigned count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count;
}

static unsigned count_maps(void) {
    char line[512];
    unsigned count = 0;
    FILE *file = fopen("/proc/self/maps", "re");
    while (file && fgets(line, sizeof line, file))
        count += strstr(line, "/memfd:varve") != NULL;
    if (file)
        fclose(file);
    return count;
}

/* ---- it works ---- */

static struct vv_node_memory *open_memory(struct varve_comm *comm, size_t size) {
    struct vv_node_memory *memory = NULL;
    struct varve_error error = {0};
    unsigned files = count_files();
    int rc = vv_node_memory_open(comm, 0, size, &memory, &error);
    if (rc || !memory)
        group_fail(comm, "open: %d %s", rc, error.text);
    if (count_files() != files || count_maps() == 0)
        group_fail(comm, "%u files are open, not %u; %u maps", count_files(), files, count_maps());
    return memory;
}

/* Everybody adds to the same words, and leaves a mark at a place of its own. */
static void share(struct varve_comm *comm, void *arg) {
    size_t size = *(size_t *)arg;
    uint32_t locals = node_size(comm);
    struct vv_node_memory *memory = open_memory(comm, size);
    uint8_t *bytes = vv_node_memory_at(memory);
    _Atomic uint32_t *words = vv_node_memory_at(memory);
    if ((uintptr_t)bytes % (size_t)sysconf(_SC_PAGESIZE) != 0)
        group_fail(comm, "it does not begin at a page");
    for (size_t i = 0; i < size; i += i % 4096 == 0 || size - i < 4096 ? 1 : 4095)
        if (bytes[i] != 0)
            group_fail(comm, "it is not zeroed at %zu", i);
    wait_for_all(comm);
    atomic_fetch_add(&words[0], 1);
    atomic_fetch_add(&words[1], comm->rank);
    bytes[size - 1 - comm->local] = (uint8_t)(100 + comm->rank);
    wait_for_all(comm);
    uint32_t sum = 0;
    for (uint32_t local = 0; local < locals; local++) {
        uint32_t rank = comm->ops->rank_of(comm, comm->node, local);
        sum += rank;
        if (bytes[size - 1 - local] != 100 + rank)
            group_fail(comm, "the mark of rank %u is not there", rank);
        if (!vv_node_memory_is_alive(memory, local))
            group_fail(comm, "rank %u is thought to be dead", rank);
    }
    if (atomic_load(&words[0]) != locals || atomic_load(&words[1]) != sum)
        group_fail(comm, "%u ranks meet, not %u", atomic_load(&words[0]), locals);
    if (!vv_node_memory_is_alive(memory, locals))
        group_fail(comm, "not to know counts as yes");
    wait_for_all(comm);
    vv_node_memory_close(memory);
    vv_node_memory_close(NULL);
    if (count_maps() != 0)
        group_fail(comm, "something is left");
}

static void is_shared_inside_a_node(void **state) {
    static const uint32_t scattered[] = {1, 0, 1, 2, 0, 1, 1};
    static const struct {
        uint32_t ranks;
        struct group_options options;
        size_t size;
    } cases[] = {
        {1, {.ranks_per_node = 0}, 100},           {4, {.ranks_per_node = 0}, SIZE},
        {4, {.ranks_per_node = 1}, SIZE + 1},      {7, {.ranks_per_node = 3}, 4096},
        {7, {.node_of = scattered}, SIZE},         {8, {.has_second = 1}, 12345},
        {RANKS_MOST, {.ranks_per_node = 0}, SIZE},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t size = cases[i].size;
        assert_int_equal(group_run(cases[i].ranks, share, &size, &cases[i].options, NULL), 0);
    }
}

static void works_for_one_process(void **state) {
    struct vv_node_memory *memory = NULL;
    struct varve_error error = {0};
    (void)state;
    assert_int_equal(vv_node_memory_open(&vv_comm_single, 0, SIZE, &memory, &error), 0);
    memset(vv_node_memory_at(memory), 7, SIZE);
    assert_int_equal(vv_node_memory_is_alive(memory, 0), 1);
    vv_node_memory_close(memory);
    assert_int_equal(count_maps(), 0);
}

/* Much of it costs nothing until it is used. */
static void share_much(struct varve_comm *comm, void *arg) {
    size_t size = (size_t)8 << 30;
    (void)arg;
    struct vv_node_memory *memory = open_memory(comm, size);
    _Atomic uint32_t *words = vv_node_memory_at(memory);
    atomic_fetch_add(&words[size / 4 - 1], 1);
    wait_for_all(comm);
    if (atomic_load(&words[size / 4 - 1]) != comm->ranks)
        group_fail(comm, "the end is not shared");
    vv_node_memory_close(memory);
}

static void may_be_large(void **state) {
    (void)state;
    assert_int_equal(group_run(2, share_much, NULL, NULL, NULL), 0);
}

/* The node has no memory, and only its first rank sees that. What is not reserved is not asked for. */
static void reserve_in_vain(struct varve_comm *comm, void *arg) {
    struct vv_node_memory *memory = NULL;
    struct varve_error error = {0};
    (void)arg;
    if (comm->local == 0)
        refuse(SYS_fallocate, 0, ENOSPC);
    board->seen[comm->rank] = vv_node_memory_open(comm, 0, SIZE, &memory, &error);
    vv_node_memory_close(memory);
    board->code[comm->rank] = vv_node_memory_reserve(comm, 0, SIZE, SIZE, &memory, &error);
    vv_node_memory_close(memory);
}

static void a_node_without_memory_is_told_to_all(void **state) {
    (void)state;
    assert_int_equal(group_run(3, reserve_in_vain, NULL, NULL, NULL), 0);
    for (int rank = 0; rank < 3; rank++) {
        assert_int_equal(board->seen[rank], 0);
        assert_int_equal(board->code[rank], -ENOTSUP);
    }
}

/* Bytes that the shared memory of this process has. */
static uint64_t bytes_there(void) {
    uint64_t blocks = 0;
    for (int fd = 0; fd < 1024; fd++) {
        char path[40], target[40] = "";
        struct stat st;
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (readlink(path, target, sizeof target - 1) > 0 && strstr(target, "varve-node") && fstat(fd, &st) == 0)
            blocks += (uint64_t)st.st_blocks;
    }
    return blocks * 512;
}

static void may_be_reserved(void **state) {
    struct vv_node_memory *memory = NULL;
    struct varve_error error = {0};
    (void)state;
    assert_int_equal(vv_node_memory_reserve(&vv_comm_single, 0, 2 * SIZE, SIZE, &memory, &error), 0);
    assert_in_range(bytes_there(), SIZE, SIZE + 65536);
    memset(vv_node_memory_at(memory), 7, SIZE);
    assert_int_equal(vv_node_memory_add(memory, SIZE, SIZE), 0);
    assert_in_range(bytes_there(), 2 * SIZE, 2 * SIZE + 65536);
    memset(vv_node_memory_at(memory), 8, 2 * SIZE);
    vv_node_memory_close(memory);
    assert_int_equal(count_maps(), 0);
}

/* As it will be used: each rank has a ring to the first of its node. */
static void send_numbers(struct varve_comm *comm, void *arg) {
    uint32_t locals = node_size(comm), capacity = 4096, got;
    size_t each = vv_ring_bytes(capacity);
    struct vv_node_memory *memory = open_memory(comm, 64 + locals * each);
    struct vv_doorbell *bell = vv_node_memory_at(memory);
    struct vv_ring *ring = (struct vv_ring *)((uint8_t *)vv_node_memory_at(memory) + 64 + comm->local * each);
    (void)arg;
    vv_ring_init(ring, capacity);
    wait_for_all(comm);
    for (uint64_t i = 0; i < 500 && comm->local > 0; i++) {
        uint64_t *at = vv_ring_reserve(ring, 300, 20000);
        if (!at)
            group_fail(comm, "no room");
        *at = i;
        vv_ring_send(ring, 300, bell);
    }
    for (uint32_t left = comm->local == 0 ? (locals - 1) * 500 : 0; left > 0;) {
        uint32_t seen = vv_doorbell_look(bell), before = left;
        for (uint32_t local = 1; local < locals; local++) {
            ring = (struct vv_ring *)((uint8_t *)vv_node_memory_at(memory) + 64 + local * each);
            if (vv_ring_peek(ring, &got, NULL)) {
                vv_ring_drop(ring);
                left--;
            }
        }
        if (left == before)
            vv_doorbell_wait(bell, seen, 20000);
    }
    wait_for_all(comm);
    vv_node_memory_close(memory);
}

static void carries_rings(void **state) {
    struct group_options options = {.ranks_per_node = 4};
    (void)state;
    assert_int_equal(group_run(8, send_numbers, NULL, &options, NULL), 0);
}

/* ---- who has died ---- */

/* Until so many have come here: who is looked for must not leave too early. The group has lost one and cannot agree. */
static void wait_for_node(struct vv_node_memory *memory, uint32_t count) {
    _Atomic uint32_t *word = vv_node_memory_at(memory);
    atomic_fetch_add(word, 1);
    for (int i = 0; i < 2000 && atomic_load(word) < count; i++)
        vv_sleep_ms(1);
}

/* Rank 1 ends, as told; the others of its node look for it. */
static void lose_one(struct varve_comm *comm, void *arg) {
    struct vv_node_memory *memory = open_memory(comm, SIZE);
    int is_killed = *(int *)arg;
    board->seen[comm->rank] = vv_node_memory_is_alive(memory, 1);
    wait_for_all(comm);
    if (comm->rank == 1 && is_killed)
        raise(SIGKILL);
    if (comm->rank == 1)
        _exit(0);
    for (int i = 0; i < 20000 && comm->node == 0 && vv_node_memory_is_alive(memory, 1); i++)
        vv_sleep_ms(1);
    board->code[comm->rank] = vv_node_memory_is_alive(memory, 1); /* that of the other node is another, and lives */
    wait_for_node(memory, 2 + comm->node);
    vv_node_memory_close(memory);
    if (is_killed)
        pause(); /* we are killed, too */
}

static void sees_who_has_died(void **state) {
    struct group_options options = {.ranks_per_node = 3, .grace_ms = 300};
    (void)state;
    for (int is_killed = 0; is_killed < 2; is_killed++) {
        memset(board, 0, sizeof *board);
        struct group_end end;
        assert_int_equal(group_run(6, lose_one, &is_killed, &options, &end), is_killed ? -1 : 0);
        assert_int_equal(end.first, is_killed ? 1 : -1);
        for (uint32_t rank = 0; rank < 6; rank++) {
            assert_int_equal(board->seen[rank], 1);
            assert_int_equal(board->code[rank], rank > 2);
        }
    }
}

/* ---- it does not work ---- */

enum trouble {
    NO_ALLOCATION, /* `which` of them fails */
    OTHER_BYTE,    /* byte `which` of what the first rank tells arrives as another */
    SHORTER,       /* what it tells arrives shorter */
    NO_MEMFD,
    NO_MAP,
    NO_LINK, /* /proc does not show it */
    SHORT_FILES,
    OTHER_SIZE,
    NO_SIZE,
    TOO_MUCH,
    EXCHANGE_FAILS /* after everything has come and gone */
};

struct plan {
    enum trouble trouble;
    uint64_t which;
    uint32_t rank; /* where it happens */
};

static const struct plan *plan_now;
static struct varve_comm_ops altered;
static int (*exchange_before)(struct varve_comm *comm, const struct varve_message *out, size_t out_count,
                              const uint32_t *from, size_t from_count, varve_gather_fn fn, void *arg);
static varve_gather_fn take_before;

static int take_altered(void *arg, uint32_t rank, const void *data, size_t size) {
    uint8_t bytes[256];
    if (size > sizeof bytes)
        return -EINVAL;
    memcpy(bytes, data, size);
    if (plan_now->trouble == OTHER_BYTE && plan_now->which < size)
        bytes[plan_now->which] ^= 0x11;
    board->seen[0] = (int)size;
    return take_before(arg, rank, bytes, plan_now->trouble == SHORTER ? size - 1 : size);
}

static int exchange_altered(struct varve_comm *comm, const struct varve_message *out, size_t out_count,
                            const uint32_t *from, size_t from_count, varve_gather_fn fn, void *arg) {
    take_before = fn;
    int rc = exchange_before(comm, out, out_count, from, from_count, take_altered, arg);
    return plan_now->trouble == EXCHANGE_FAILS ? -EPROTO : rc;
}

static void make_trouble(struct varve_comm *comm, const struct plan *plan, size_t *size) {
    struct rlimit limit = {65536, RLIM_INFINITY};
    plan_now = plan;
    switch (plan->trouble) {
    case NO_ALLOCATION:
        vv_alloc_fail_at(plan->which);
        break;
    case NO_MEMFD:
        refuse(SYS_memfd_create, 0, ENOSYS);
        break;
    case NO_MAP:
        refuse(SYS_mmap, (unsigned)(*size + (size_t)sysconf(_SC_PAGESIZE)), ENOMEM);
        break;
    case NO_LINK:
        refuse(SYS_readlink, 0, EACCES);
        break;
    case SHORT_FILES:
        setrlimit(RLIMIT_FSIZE, &limit);
        break;
    case OTHER_SIZE:
        *size += 1;
        break;
    case NO_SIZE:
        *size = 0;
        break;
    case TOO_MUCH:
        *size = SIZE_MAX - 100;
        break;
    default:
        altered = *comm->ops;
        exchange_before = altered.exchange;
        altered.exchange = exchange_altered;
        comm->ops = &altered;
    }
}

static void open_in_trouble(struct varve_comm *comm, void *arg) {
    const struct plan *plan = arg;
    const struct varve_comm_ops *ops = comm->ops;
    struct vv_node_memory *memory = (struct vv_node_memory *)comm;
    struct varve_error error = {0};
    size_t size = SIZE;
    unsigned files = count_files();
    vv_alloc_fail_at(0);
    if (comm->rank == plan->rank)
        make_trouble(comm, plan, &size);
    int rc = vv_node_memory_open(comm, 0, size, &memory, &error);
    vv_alloc_fail_at(0);
    comm->ops = ops;
    board->code[comm->rank] = rc;
    board->rank[comm->rank] = error.rank;
    snprintf(board->text[comm->rank], sizeof board->text[0], "%s", error.text);
    if ((rc == 0) != (memory != NULL))
        group_fail(comm, "%d, and the memory is %p", rc, (void *)memory);
    vv_node_memory_close(memory);
    if (count_files() != files || count_maps() != 0)
        group_fail(comm, "something is left");
    wait_for_all(comm); /* nobody is in another call */
}

/* The code of all ranks. */
static int run_trouble(enum trouble trouble, uint64_t which, uint32_t rank) {
    struct group_options options = {.ranks_per_node = 3};
    struct plan plan = {trouble, which, rank};
    memset(board, 0, sizeof *board);
    for (int i = 0; i < RANKS_MOST; i++)
        board->code[i] = 1;
    assert_int_equal(group_run(6, open_in_trouble, &plan, &options, NULL), 0);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(board->code[i], board->code[0]);
        assert_int_equal(board->rank[i], board->rank[0]);
        assert_string_equal(board->text[i], board->text[0]);
    }
    if (board->code[0]) {
        assert_true(board->rank[0] >= 0);
        assert_true(board->text[0][0] != '\0');
    }
    return board->code[0];
}

static void all_say_the_same(void **state) {
    (void)state;
    assert_int_equal(run_trouble(NO_MEMFD, 0, 0), -ENOTSUP);
    assert_int_equal(board->rank[0], 0);
    assert_int_equal(run_trouble(NO_MEMFD, 0, 3), -ENOTSUP);
    assert_int_equal(board->rank[0], 3);
    assert_int_equal(run_trouble(NO_MEMFD, 0, 4), 0); /* it needs none */
    assert_int_equal(run_trouble(NO_MAP, 0, 3), -ENOMEM);
    assert_int_equal(run_trouble(NO_MAP, 0, 4), -ENOMEM);
    assert_int_equal(board->rank[0], 4);
    assert_int_equal(run_trouble(SHORT_FILES, 0, 3), -ENOTSUP);
    assert_int_equal(run_trouble(SHORTER, 0, 5), -ENOTSUP);
    assert_int_equal(board->rank[0], 5);
    assert_int_equal(run_trouble(EXCHANGE_FAILS, 0, 4), -EPROTO);
    assert_int_equal(run_trouble(EXCHANGE_FAILS, 0, 3), -EPROTO);
    assert_int_equal(run_trouble(OTHER_SIZE, 0, 2), -EINVAL);
    assert_int_equal(run_trouble(OTHER_SIZE, 0, 0), -EINVAL);
    for (uint32_t rank = 0; rank < 2; rank++) {
        assert_int_equal(run_trouble(NO_SIZE, 0, rank), -EINVAL);
        assert_int_equal(run_trouble(TOO_MUCH, 0, rank), -ENOMEM);
    }
}

static void a_hidden_proc_is_no_way(void **state) {
    (void)state;
    assert_int_equal(run_trouble(NO_LINK, 0, 4), -ENOTSUP);
    assert_int_equal(board->rank[0], 4);
}

/* Whatever arrives instead of what was told: it is not taken for the memory, or for one that is not. */
static void only_the_right_memory_is_taken(void **state) {
    const char *scale = getenv("TEST_SCALE");
    uint64_t size = 1, step = scale && atoi(scale) < 50 ? 5 : 1;
    (void)state;
    for (uint64_t which = 0; which < size; which += step) {
        assert_true(run_trouble(OTHER_BYTE, which, 4) < 0);
        size = (uint64_t)board->seen[0];
    }
    assert_true(size >= 40);
}

static void a_failed_allocation_is_told_to_all(void **state) {
    (void)state;
    vv_alloc_fail_at(0);
    vv_free(vv_malloc(1));
    if (vv_alloc_count() == 0)
        skip(); /* a build without failing allocations */
    for (uint32_t rank = 0; rank < 6; rank++) {
        uint64_t which = 1;
        for (; which < 20 && run_trouble(NO_ALLOCATION, which, rank) != 0; which++) {
            assert_int_equal(board->code[0], -ENOMEM);
            assert_int_equal(board->rank[0], rank);
        }
        assert_true(which > 1 && which < 20);
    }
}

/* ---- groups that cannot ---- */

static void open_without(struct varve_comm *comm, void *arg) {
    struct vv_node_memory *memory = (struct vv_node_memory *)comm;
    struct varve_error error = {0};
    struct varve_comm_ops ops = *comm->ops;
    const struct varve_comm_ops *before = comm->ops;
    uint32_t nodes = comm->nodes;
    int what = *(int *)arg;
    if (what == 0)
        comm->nodes = 0;
    else if (what == 1)
        ops.exchange = NULL;
    else if (what == 2)
        ops.node_size = NULL;
    else if (what == 3)
        ops.rank_of = NULL;
    else
        ops.size = offsetof(struct varve_comm_ops, exchange);
    comm->ops = &ops;
    board->code[comm->rank] = vv_node_memory_open(comm, 0, SIZE, &memory, &error);
    comm->ops = before;
    comm->nodes = nodes;
    if (memory || !error.text[0] || error.rank != 0)
        group_fail(comm, "it has memory, or does not say why not");
    wait_for_all(comm);
}

static void says_where_it_cannot_be(void **state) {
    (void)state;
    for (int what = 0; what < 5; what++) {
        assert_int_equal(group_run(3, open_without, &what, NULL, NULL), 0);
        for (int rank = 0; rank < 3; rank++)
            assert_int_equal(board->code[rank], -ENOTSUP);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_shared_inside_a_node),
        cmocka_unit_test(works_for_one_process),
        cmocka_unit_test(may_be_large),
        cmocka_unit_test(may_be_reserved),
        cmocka_unit_test(a_node_without_memory_is_told_to_all),
        cmocka_unit_test(carries_rings),
        cmocka_unit_test(sees_who_has_died),
        cmocka_unit_test(all_say_the_same),
        cmocka_unit_test(a_hidden_proc_is_no_way),
        cmocka_unit_test(only_the_right_memory_is_taken),
        cmocka_unit_test(a_failed_allocation_is_told_to_all),
        cmocka_unit_test(says_where_it_cannot_be),
    };
    board = group_memory(sizeof *board);
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    group_memory_free(board, sizeof *board);
    return rc;
}
