/* Guards and the kernel: system calls that write armed pages, the right to stop them, and the number of mappings. */
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "guard_help.h"

static const struct kind uffd = {"uffd", vv_guard_uffd};
static const struct kind mprotect_kind = {"mprotect", vv_guard_mprotect};

/* A call that puts a byte 2 at `to`; the result is what the call returned, or -errno. */
struct call {
    int from[2]; /* a pipe or a pair of sockets */
    uint8_t *to;
    long result;
};

static void call_read(void *arg) {
    struct call *call = arg;
    long got = read(call->from[0], call->to, 1);
    call->result = got < 0 ? -errno : got;
}

static void call_recv(void *arg) {
    struct call *call = arg;
    long got = recv(call->from[0], call->to, 1, 0);
    call->result = got < 0 ? -errno : got;
}

static void call_preadv(void *arg) {
    struct call *call = arg;
    struct iovec parts[2] = {{call->to, 1}, {call->to + PAGE, 1}}; /* two pages, both armed */
    long got = preadv(call->from[0], parts, 2, 0);
    call->result = got < 0 ? -errno : got - 1;
}

struct uring {
    int fd;
    struct io_uring_params params;
    uint8_t *sq, *cq;
    struct io_uring_sqe *entries;
};

static int uring_open(struct uring *uring) {
    memset(uring, 0, sizeof *uring);
    uring->fd = (int)syscall(SYS_io_uring_setup, 4, &uring->params);
    if (uring->fd < 0)
        return -errno;
    uring->sq = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, uring->fd, IORING_OFF_SQ_RING);
    uring->cq = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, uring->fd, IORING_OFF_CQ_RING);
    uring->entries = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, uring->fd, IORING_OFF_SQES);
    return uring->sq == MAP_FAILED || uring->cq == MAP_FAILED || uring->entries == MAP_FAILED ? -ENOMEM : 0;
}

static void uring_close(struct uring *uring) {
    munmap(uring->sq, PAGE);
    munmap(uring->cq, PAGE);
    munmap(uring->entries, PAGE);
    close(uring->fd);
}

static void call_uring(void *arg) {
    struct call *call = arg;
    struct uring uring;
    call->result = uring_open(&uring);
    if (call->result != 0)
        return;
    uring.entries[0] = (struct io_uring_sqe){
        .opcode = IORING_OP_READ, .fd = call->from[0], .addr = (uintptr_t)call->to, .len = 1, .off = (uint64_t)-1};
    *(uint32_t *)(uring.sq + uring.params.sq_off.array) = 0;
    __atomic_store_n((uint32_t *)(uring.sq + uring.params.sq_off.tail), 1, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, uring.fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
        call->result = -errno;
    else
        call->result = ((struct io_uring_cqe *)(uring.cq + uring.params.cq_off.cqes))->res;
    uring_close(&uring);
}

static void open_source(struct call *call, int is_file) {
    if (!is_file) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, call->from), 0);
    } else {
        call->from[0] = call->from[1] = memfd_create("source", MFD_CLOEXEC);
        assert_true(call->from[0] >= 0);
    }
    assert_int_equal(write(call->from[1], "\2\2", 2), 2);
}

static void close_source(struct call *call) {
    close(call->from[0]);
    if (call->from[1] != call->from[0])
        close(call->from[1]);
}

/* The call waits like an instruction would, and then does what it should. */
static void the_call_waits(void (*fn)(void *arg), int is_file) {
    struct world world;
    struct writer writer;
    struct call call = {.result = -1};
    open_world(&uffd, &world, 4);
    open_source(&call, is_file);
    call.to = world.memory + PAGE;
    assert_int_equal(arm(&world, 0, 4), 0);
    start_writer(&writer, fn, &call);
    for (int i = 0; i < 10000 && world.calls == 0 && !writer.is_done; i++)
        usleep(1000);
    if (fn == call_uring && writer.is_done && call.result < 0 && call.result != -EFAULT) {
        print_message("skipped: no io_uring here (%ld)\n", call.result);
        join_writer(&writer);
        close_source(&call);
        close_world(&world);
        skip();
    }
    assert_true(world.calls > 0);
    usleep(20000);
    assert_false(writer.is_done);
    assert_int_equal(look(&world.memory[PAGE]), 1);
    assert_int_equal(disarm(&world, 0, 4), 0);
    join_writer(&writer);
    assert_int_equal(call.result, 1);
    assert_int_equal(look(&world.memory[PAGE]), 2);
    close_source(&call);
    close_world(&world);
}

static void read_waits(void **unused) {
    (void)unused;
    the_call_waits(call_read, 0);
}

static void recv_waits(void **unused) {
    (void)unused;
    the_call_waits(call_recv, 0);
}

static void preadv_waits(void **unused) {
    (void)unused;
    the_call_waits(call_preadv, 1);
}

static void io_uring_waits(void **unused) {
    (void)unused;
    the_call_waits(call_uring, 0);
}

/* The reason why this guard is not transparent; should it ever stop being true, it could be used more. */
static void under_mprotect_calls_fail(void **unused) {
    (void)unused;
    struct world world;
    struct call call = {.result = -1};
    open_world(&mprotect_kind, &world, 4);
    assert_false(world.guard->ops->is_transparent);
    world.verdict = 1;
    open_source(&call, 0);
    call.to = world.memory + PAGE;
    assert_int_equal(arm(&world, 0, 4), 0);
    call_read(&call);
    assert_int_equal(call.result, -EFAULT);
    assert_int_equal(world.calls, 0);
    assert_int_equal(look(&world.memory[PAGE]), 1);
    assert_int_equal(disarm(&world, 0, 4), 0);
    call_read(&call);
    assert_int_equal(call.result, 1);
    close_source(&call);
    close_world(&world);
}

/* ---- the right to stop system calls ---- */

static void try_as_nobody(void *arg) {
    (void)arg;
    struct vv_guard *guard = NULL;
    char why[200] = "";
    MUST(setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
    if (access("/dev/userfaultfd", R_OK | W_OK) == 0)
        _exit(77);
    int rc = vv_guard_uffd(do_as_told, NULL, &guard, why, sizeof why);
    MUST(rc < 0);
    MUST(guard == NULL);
    MUST(strstr(why, "userfaultfd: ") == why && strlen(why) > 20);
    rc = vv_guard_mprotect(do_as_told, NULL, &guard, why, sizeof why);
    MUST(rc == 0);
    guard->ops->close(guard);
}

static void without_privilege(void **unused) {
    (void)unused;
    char value = '1';
    int fd = open("/proc/sys/vm/unprivileged_userfaultfd", O_RDONLY);
    if (fd >= 0) {
        assert_int_equal(read(fd, &value, 1), 1);
        close(fd);
    }
    int status = geteuid() == 0 && value == '0' ? in_child(try_as_nobody, NULL) : 77 << 8;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        print_message("skipped: needs root, vm.unprivileged_userfaultfd=0 and no /dev/userfaultfd for all\n");
        skip();
    }
    assert_int_equal(status, 0);
}

/* ---- the number of mappings ---- */

static long read_map_limit(void) {
    long limit = 0;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
    if (file) {
        if (fscanf(file, "%ld", &limit) != 1)
            limit = 0;
        fclose(file);
    }
    return limit;
}

/* Every second page disarmed is one more run of armed ones. There is a bound, with something left to the program. */
static void holes_are_bounded(void **unused) {
    (void)unused;
    struct world world;
    long limit = read_map_limit();
    if (limit < 20000 || limit > 100000) {
        print_message("skipped: vm.max_map_count is %ld\n", limit);
        skip();
    }
    size_t runs = (size_t)(limit - 5530) / 2, pages = 2 * runs + 100;
    open_world(&mprotect_kind, &world, pages);
    world.verdict = 1;
    assert_int_equal(arm(&world, 0, pages), 0);
    for (size_t i = 1; i < runs; i++)
        if (disarm(&world, 2 * i, 1) != 0)
            fail();
    assert_int_equal(disarm(&world, 2 * runs, 1), -EAGAIN);
    assert_int_equal(disarm(&world, 2 * runs, 100), 0); /* up to the end of the run is no hole */
    assert_int_equal(arm(&world, 2 * runs, 1), 0);      /* makes that run longer */
    assert_int_equal(arm(&world, 2 * runs + 50, 1), -ENOMEM);
    world.memory[(2 * runs + 50) * PAGE] = 1; /* so it is not armed */
    assert_int_equal(world.calls, 0);
    for (int i = 0; i < 2000; i++) /* the program has room */
        assert_ptr_not_equal(mmap(NULL, PAGE, i % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                             MAP_FAILED);
    /* Who writes a page that must not become a hole waits until there is room. */
    struct writer writer;
    assert_int_equal(arm(&world, 2, 1), 0); /* closes a hole */
    assert_int_equal(arm(&world, 2 * runs + 2, 90), 0);
    start_writer(&writer, write_two, world.memory + (2 * runs + 40) * PAGE);
    wait_for_calls(&world, 2);
    assert_false(writer.is_done);
    assert_int_equal(disarm(&world, 5, 1), 0); /* between two holes */
    join_writer(&writer);
    assert_int_equal(disarm(&world, 0, pages), 0);
    close_world(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read_waits),
        cmocka_unit_test(recv_waits),
        cmocka_unit_test(preadv_waits),
        cmocka_unit_test(io_uring_waits),
        cmocka_unit_test(under_mprotect_calls_fail),
        cmocka_unit_test(without_privilege),
        cmocka_unit_test(holes_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
