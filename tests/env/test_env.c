/* Jobs without MPI in trouble: ranks that die, hang or differ, and strangers at their ports. Every rank is a child of
 * the test, with the environment that torchrun would give it. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "comm-checks.h"
#include "comm_env.h"
#include "folder.h"
#include "test.h"

#define MOST 8

/* What the ranks and the test share. */
static struct board {
    struct varve_error error[MOST];
    uint16_t port[MOST]; /* where each listens */
    atomic_int opened, go;
    double seconds[MOST];
} * board;
static pid_t pids[MOST];
static int rank;
static unsigned next_port;

typedef int (*rank_fn)(struct varve_comm *comm); /* its answer is the exit code: 0 if all is well */

static double now(void) {
    return (double)vv_env_now() / 1e9;
}

static void set_number(const char *name, long value) {
    char text[24];
    snprintf(text, sizeof text, "%ld", value);
    setenv(name, text, 1);
}

/* As a rank ends that could not open: 10 and its error on the board. */
static int run_rank(int which, rank_fn fn) {
    struct varve_comm *comm = NULL;
    rank = which;
    set_number("RANK", which);
    alarm(60);
    double begun = now();
    int rc = varve_comm_env(&comm, &board->error[which]);
    board->seconds[which] = now() - begun;
    if (rc)
        return rc == board->error[which].code && !comm && strstr(board->error[which].text, " ") ? 10 : 11;
    const struct vv_env_comm *own = (struct vv_env_comm *)comm;
    board->port[which] = own->group->cards[which].port;
    atomic_fetch_add(&board->opened, 1);
    rc = fn ? fn(comm) : 0;
    comm->ops->close(comm);
    return rc;
}

static void start_rank(int which, rank_fn fn) {
    pids[which] = fork();
    assert_true(pids[which] >= 0);
    if (pids[which] == 0)
        _exit(run_rank(which, fn));
}

static void start(int ranks, rank_fn fn) {
    for (int i = 0; i < ranks; i++)
        start_rank(i, fn);
}

static int end_of(int which) {
    int status;
    assert_int_equal(waitpid(pids[which], &status, 0), pids[which]);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void await_open(int ranks) {
    for (int i = 0; i < 2000 && atomic_load(&board->opened) < ranks; i++)
        usleep(10000);
    assert_int_equal(atomic_load(&board->opened), ranks);
}

static int setup(void **state) {
    static const char *const names[] = {"RANK",         "VARVE_SECRET", "VARVE_SECRET_FILE",
                                        "VARVE_DOMAIN", "MASTER_PORT",  "TORCHELASTIC_RUN_ID"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    memset(board, 0, sizeof *board);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    set_number("VARVE_PORT", (long)(10000 + next_port++ % 20000));
    set_number("VARVE_CONNECT_SECONDS", 20);
    set_number("VARVE_PEER_SECONDS", 30);
    set_number("WORLD_SIZE", 4);
    return 0;
}

/* ---- ranks that die ---- */

static int talk_until_broken(struct varve_comm *comm) {
    uint64_t value = 1;
    int rc = 0;
    while (rc == 0)
        rc = comm->ops->reduce_min(comm, &value, 1);
    int again = comm->second->ops->broadcast(comm->second, &value, sizeof value, 0);
    return rc == -ECOMM && again == -ECOMM ? 0 : 1;
}

static int wait_for_last(struct varve_comm *comm) {
    uint64_t value = 1;
    if (comm->rank == comm->ranks - 1) /* it computes while the others wait for it */
        for (;;)
            pause();
    return comm->second->ops->reduce_min(comm->second, &value, 1) == -ECOMM ? 0 : 1;
}

/* All compute, and nobody has sent anything yet: the monitors notice. */
static int compute(struct varve_comm *comm) {
    const struct vv_env_comm *own = (struct vv_env_comm *)comm;
    for (int i = 0; i < 1000 && !atomic_load(&own->group->is_broken); i++)
        usleep(10000);
    return strstr(own->group->reason, "has ended") ? 0 : 1;
}

static void lose_rank(int ranks, int victim, rank_fn fn) {
    setup(NULL);
    set_number("WORLD_SIZE", ranks);
    start(ranks, fn);
    await_open(ranks);
    usleep(50000);
    double begun = now();
    kill(pids[victim], SIGKILL);
    for (int i = 0; i < ranks; i++)
        assert_int_equal(end_of(i), i == victim ? 1000 + SIGKILL : 0);
    assert_true(now() - begun < 5);
}

static void a_death_is_noticed_by_all(void **state) {
    (void)state;
    for (int victim = 0; victim < 7; victim += 3)
        lose_rank(7, victim, talk_until_broken);
    lose_rank(5, 4, wait_for_last);
    for (int victim = 0; victim < 6; victim++)
        lose_rank(6, victim, compute);
}

/* The child has what its parent had open, and lives on. */
static int fork_and_talk(struct varve_comm *comm) {
    if (comm->rank == 1) {
        pid_t child = fork();
        uint64_t value;
        if (child == 0) {
            int rc = comm->ops->reduce_min(comm, &value, 1); /* not the child's */
            comm->ops->close(comm);
            sleep(rc == -ECOMM ? 8 : 0);
            _exit(0);
        }
    }
    return talk_until_broken(comm);
}

static void children_of_fork_do_not_hide_a_death(void **state) {
    (void)state;
    lose_rank(3, 1, fork_and_talk);
}

/* ---- ranks that hang ---- */

static void a_silent_rank_is_given_up(void **state) {
    (void)state;
    set_number("VARVE_PEER_SECONDS", 2);
    start(4, talk_until_broken);
    await_open(4);
    usleep(50000);
    double begun = now();
    kill(pids[2], SIGSTOP);
    for (int i = 0; i < 4; i++)
        if (i != 2)
            assert_int_equal(end_of(i), 0);
    assert_true(now() - begun > 1.4 && now() - begun < 10);
    kill(pids[2], SIGCONT);
    assert_int_equal(end_of(2), 0); /* is told as soon as it lives again */
}

static int talk_until_told(struct varve_comm *comm) {
    uint64_t go = 0;
    int rc = 0;
    while (rc == 0 && go == 0) {
        go = (uint64_t)atomic_load(&board->go);
        rc = comm->ops->reduce_min(comm, &go, 1);
    }
    return rc ? 1 : 0;
}

static void a_rank_may_pause(void **state) {
    (void)state;
    set_number("VARVE_PEER_SECONDS", 8);
    start(4, talk_until_told);
    await_open(4);
    kill(pids[1], SIGSTOP);
    sleep(2);
    kill(pids[1], SIGCONT);
    for (int i = 0; i < 4; i++) /* all at once, for longer than a silent one is given */
        kill(pids[i], SIGSTOP);
    sleep(9);
    for (int i = 0; i < 4; i++)
        kill(pids[i], SIGCONT);
    atomic_store(&board->go, 1);
    for (int i = 0; i < 4; i++)
        assert_int_equal(end_of(i), 0);
}

/* More than the kernel buffers, to a rank that computes for longer than a silent one is given. */
static int send_to_busy(struct varve_comm *comm) {
    size_t size = (size_t)64 << 20;
    uint8_t *data = calloc(1, size);
    int rc = data ? 0 : 1;
    if (comm->rank == 1)
        sleep(6);
    if (rc == 0)
        memset(data, comm->rank == 0 ? 'x' : 0, size);
    if (rc == 0)
        rc = comm->ops->broadcast(comm, data, size, 0);
    rc = rc == 0 && data[size - 1] == 'x' ? 0 : 1;
    free(data);
    return rc;
}

static void a_rank_may_compute_while_others_send(void **state) {
    (void)state;
    set_number("VARVE_PEER_SECONDS", 2);
    set_number("WORLD_SIZE", 2);
    start(2, send_to_busy);
    for (int i = 0; i < 2; i++)
        assert_int_equal(end_of(i), 0);
}

/* ---- ranks that differ ---- */

static int differ(struct varve_comm *comm) {
    uint64_t value = 7;
    int rc =
        comm->rank == 1 ? comm->ops->broadcast(comm, &value, sizeof value, 0) : comm->ops->reduce_min(comm, &value, 1);
    if (rc == 0)
        rc = comm->ops->reduce_min(comm, &value, 1);
    return rc == -ECOMM ? 0 : 1;
}

static int ignore(void *arg, uint32_t from, const void *data, size_t size) {
    (void)arg;
    (void)from;
    (void)data;
    (void)size;
    return 0;
}

/* Bytes that are no message. */
static int babble(struct varve_comm *comm) {
    const struct vv_env_comm *own = (struct vv_env_comm *)comm;
    uint64_t value = 7;
    int rc = comm->ops->reduce_min(comm, &value, 1);
    if (rc == 0 && rank == 0 && write(own->outlets[1].fd, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 35) != 35)
        return 2;
    while (rc == 0)
        rc = comm->ops->broadcast(comm, &value, sizeof value, 0);
    return rc == -ECOMM ? 0 : 1;
}

/* A head whose size, with one more byte, is 0. */
static int claim_too_much(struct varve_comm *comm) {
    const struct vv_env_comm *own = (struct vv_env_comm *)comm;
    struct {
        struct vv_env_head head;
        uint8_t bytes[8192];
    } lie = {{VV_ENV_EXCHANGE, 0, 1, UINT64_MAX}, {0}};
    const struct varve_message out = {1 - comm->rank, "x", 1};
    uint32_t from = 1 - comm->rank;
    memset(lie.bytes, 0x5a, sizeof lie.bytes);
    int rc = comm->ops->exchange(comm, &out, 1, &from, 1, ignore, NULL);
    if (rc == 0 && rank == 0 && write(own->outlets[1].fd, &lie, sizeof lie) != sizeof lie)
        return 2;
    if (rc == 0)
        rc = comm->ops->exchange(comm, &out, rank == 1, &from, 1, ignore, NULL);
    if (rc == 0) /* rank 0: until it is told, or sees the connection end */
        rc = comm->ops->exchange(comm, NULL, 0, &from, 1, ignore, NULL);
    return rc == -ECOMM && (rank == 0 || strstr(own->group->reason, "claims to have")) ? 0 : 1;
}

static void sizes_of_messages_are_not_trusted(void **state) {
    (void)state;
    set_number("WORLD_SIZE", 2);
    start(2, claim_too_much);
    for (int i = 0; i < 2; i++)
        assert_int_equal(end_of(i), 0);
}

static void different_calls_are_found_out(void **state) {
    (void)state;
    start(3, differ);
    start_rank(3, differ);
    for (int i = 0; i < 4; i++)
        assert_int_equal(end_of(i), 0);
    setup(NULL);
    set_number("WORLD_SIZE", 2);
    start(2, babble);
    for (int i = 0; i < 2; i++)
        assert_int_equal(end_of(i), 0);
}

/* Rank 0 has sent, and goes; the others take it later. */
static int leave_early(struct varve_comm *comm) {
    char data[3000] = "";
    if (comm->rank == 0)
        memset(data, 'x', sizeof data);
    else
        usleep(300000);
    int rc = comm->ops->broadcast(comm, data, sizeof data, 0);
    return rc == 0 && data[2999] == 'x' ? 0 : 1;
}

static void what_was_sent_arrives_after_its_sender_has_left(void **state) {
    (void)state;
    start(4, leave_early);
    for (int i = 0; i < 4; i++)
        assert_int_equal(end_of(i), 0);
}

/* The last rank sends to rank 0 late, which is no reason to give up, and closes the group. The others wait for its
 * first message, or for another one. */
static int wait_for_a_leaver(struct varve_comm *comm) {
    const struct vv_env_comm *own = (struct vv_env_comm *)comm;
    const struct varve_message out = {0, "x", 1};
    uint32_t last = comm->ranks - 1;
    if (comm->rank == last) {
        usleep(2500000);
        return comm->ops->exchange(comm, &out, 1, NULL, 0, ignore, NULL);
    }
    int rc = comm->rank == 0 ? comm->ops->exchange(comm, NULL, 0, &last, 1, ignore, NULL) : 0;
    if (rc == 0)
        rc = comm->second->ops->exchange(comm->second, NULL, 0, &last, 1, ignore, NULL);
    return rc == -ECOMM && strstr(own->group->reason, "rank 3 has left the group") ? 0 : 1;
}

static void nobody_waits_for_a_rank_that_has_left(void **state) {
    (void)state;
    set_number("VARVE_PEER_SECONDS", 2);
    double begun = now();
    start(4, wait_for_a_leaver);
    for (int i = 0; i < 4; i++)
        assert_int_equal(end_of(i), 0);
    assert_true(now() - begun < 15);
}

static void on_alarm(int number) {
    (void)number;
}

static int check_interrupted(struct varve_comm *comm) {
    struct sigaction action = {.sa_handler = on_alarm}; /* no SA_RESTART */
    struct itimerval timer = {{0, 1000}, {0, 1000}};
    sigaction(SIGPROF, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
    const char *wrong = comm_checks(comm);
    if (wrong)
        fprintf(stderr, "rank %d: %s\n", rank, wrong);
    memset(&timer, 0, sizeof timer);
    setitimer(ITIMER_REAL, &timer, NULL);
    return wrong ? 1 : 0;
}

static void signals_interrupt_nothing(void **state) {
    (void)state;
    start(4, check_interrupted);
    for (int i = 0; i < 4; i++)
        assert_int_equal(end_of(i), 0);
}

/* ---- strangers ---- */

static int call(uint16_t port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    for (int i = 0; i < 500 && connect(fd, (struct sockaddr *)&address, sizeof address) != 0; i++)
        usleep(10000);
    return fd;
}

static void say(int fd, const void *data, size_t size) {
    (void)!send(fd, data, size, MSG_NOSIGNAL);
}

/* Scanners, half-open connections, other protocols, half a hello, a whole one without the key, old proofs. All stay
 * open; some are closed with a reset. */
static int fds[400];
static size_t fd_count;

static void molest(uint16_t port, uint32_t to, int count) {
    uint8_t noise[4096];
    struct vv_env_hello hello = {.magic = VV_ENV_MAGIC, .purpose = VV_ENV_JOIN, .from = 1, .to = to, .ranks = 4};
    struct vv_env_proof proof;
    memset(&proof, 0x5a, sizeof proof);
    vv_env_random(noise, sizeof noise);
    for (int i = 0; i < count && fd_count < 400; i++) {
        int fd = fds[fd_count++] = call(port);
        if (i % 7 == 1)
            say(fd, "GET / HTTP/1.1\r\n\r\n", 18);
        if (i % 7 == 2)
            say(fd, noise, sizeof noise);
        if (i % 7 == 3)
            say(fd, &hello, 13);
        if (i % 7 >= 4)
            say(fd, &hello, sizeof hello);
        if (i % 7 >= 5)
            say(fd, &proof, sizeof proof);
        if (i % 7 == 6) {
            struct linger reset = {1, 0};
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
            close(fd);
            fd_count--;
        }
    }
}

static void forget_strangers(void) {
    while (fd_count > 0)
        close(fds[--fd_count]);
}

static int check_promises(struct varve_comm *comm) {
    const char *wrong = comm_checks(comm);
    if (wrong)
        fprintf(stderr, "rank %d: %s\n", rank, wrong);
    return wrong ? 1 : 0;
}

static int go_on_when_told(struct varve_comm *comm) {
    while (!atomic_load(&board->go))
        usleep(1000);
    return check_promises(comm);
}

static void strangers_do_not_matter(void **state) {
    (void)state;
    setenv("VARVE_SECRET", "a secret that is long enough", 1);
    start_rank(0, go_on_when_told);
    molest((uint16_t)atoi(getenv("VARVE_PORT")), 0, 150); /* before anybody has come */
    double begun = now();
    for (int i = 1; i < 4; i++)
        start_rank(i, go_on_when_told);
    await_open(4);
    assert_true(now() - begun < 5);
    forget_strangers();
    for (uint32_t i = 0; i < 4; i++) /* and when there is a group */
        molest(board->port[i], i, i == 2 ? 200 : 20);
    atomic_store(&board->go, 1);
    for (int i = 0; i < 4; i++)
        assert_int_equal(end_of(i), 0);
    forget_strangers();
}

static int expect_nothing(int fd) {
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static void serve(struct vv_env_door *door, int times) {
    struct pollfd polled[VV_ENV_GUESTS + 1];
    for (int i = 0; i < times; i++) {
        size_t count = vv_env_door_poll(door, polled);
        poll(polled, count, 1);
        vv_env_door_serve(door, polled, count);
    }
}

static int connect_to(uint16_t port, const uint8_t *key) {
    const struct vv_env_limit limit = {vv_env_now() + 20 * VV_ENV_SECOND, NULL};
    struct vv_env_call caller = {.purpose = VV_ENV_TREE, .from = 1, .ranks = 2, .key = key, .peer_seconds = 30};
    struct vv_env_answer answer = {0};
    struct sockaddr_in *address = (struct sockaddr_in *)&caller.address;
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return vv_env_connect_again(&caller, &limit, &answer);
}

static enum vv_env_verdict refuse_all(void *arg, const struct vv_env_hello *hello) {
    (void)arg;
    (void)hello;
    return VV_ENV_NOT_HERE;
}

/* More strangers than there are places do not take that of a guest that has said hello; and one that was sent away
 * comes again. */
static void a_flood_of_strangers_is_outlasted(void **state) {
    static const uint8_t key[VV_ENV_KEY] = "any";
    struct vv_env_hello hello = {.magic = VV_ENV_MAGIC, .purpose = VV_ENV_TREE, .from = 1, .ranks = 2};
    struct vv_env_challenge challenge;
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    struct vv_env_door *door = calloc(1, sizeof *door);
    int status;
    (void)state;
    *door = (struct vv_env_door){
        .listener = vv_env_listen_any(1, 0), .key = key, .ranks = 2, .peer_seconds = 30, .judge = refuse_all};
    assert_int_equal(getsockname(door->listener, (struct sockaddr *)&address, &size), 0);
    uint16_t port = vv_env_port_of(&address);
    int guest = call(port);
    say(guest, &hello, sizeof hello);
    serve(door, 5);
    assert_int_equal(recv(guest, &challenge, sizeof challenge, MSG_DONTWAIT), sizeof challenge);
    for (int i = 0; i < 300; i++) {
        fds[fd_count++] = call(port);
        serve(door, 1);
    }
    assert_int_equal(door->guest_count, VV_ENV_GUESTS);
    assert_true(expect_nothing(guest));
    pid_t pid = fork();
    if (pid == 0)
        _exit(connect_to(port, key) == -EREMOTEIO ? 0 : 1);
    struct pollfd one = {.fd = door->listener, .events = POLLIN};
    assert_int_equal(poll(&one, 1, 10000), 1);
    close(accept(door->listener, NULL, NULL));
    for (int i = 0; i < 5000 && waitpid(pid, &status, WNOHANG) == 0; i++)
        serve(door, 1);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    vv_env_door_close(door);
    close(guest);
    forget_strangers();
    free(door);
}

/* ---- jobs that do not come about ---- */

static void expect_error(int which, int code, const char *word) {
    assert_int_equal(end_of(which), 10);
    assert_int_equal(board->error[which].code, code);
    if (!strstr(board->error[which].text, word))
        fail_msg("rank %d: %s", which, board->error[which].text);
}

static void other_secrets_do_not_fit(void **state) {
    (void)state;
    set_number("VARVE_CONNECT_SECONDS", 2);
    set_number("WORLD_SIZE", 2);
    setenv("VARVE_SECRET", "a secret that is long enough", 1);
    start_rank(0, NULL);
    setenv("VARVE_SECRET", "another one, as long as that", 1);
    start_rank(1, NULL);
    expect_error(0, -ECOMM, "1 of 2 ranks did not come to rank 0 at 127.0.0.1, port ");
    expect_error(1, -ECOMM, "does not have the secret");
    assert_true(board->seconds[0] >= 1.9 && board->seconds[0] < 5 && board->seconds[1] < 8);
    setup(NULL);
    set_number("VARVE_CONNECT_SECONDS", 2);
    set_number("WORLD_SIZE", 2);
    setenv("TORCHELASTIC_RUN_ID", "one", 1); /* jobs of different names do not mix */
    start_rank(0, NULL);
    setenv("TORCHELASTIC_RUN_ID", "two", 1);
    start_rank(1, NULL);
    expect_error(0, -ECOMM, "rank 1");
    expect_error(1, -ECOMM, "another job");
}

/* Passes on what both sides say, but for one byte that rank 0 sends, if there is one to be changed. */
static void relay_until_closed(int fd, int root, size_t change) {
    struct pollfd both[2] = {{.fd = fd, .events = POLLIN}, {.fd = root, .events = POLLIN}};
    uint8_t bytes[4096];
    size_t passed = 0;
    for (;;) {
        poll(both, 2, -1);
        int from = both[0].revents ? 0 : 1;
        ssize_t got = recv(both[from].fd, bytes, sizeof bytes, 0);
        if (got <= 0)
            return;
        if (from == 1 && change && change >= passed && change < passed + (size_t)got)
            bytes[change - passed] ^= 1;
        passed += from == 1 ? (size_t)got : 0;
        say(both[1 - from].fd, bytes, (size_t)got);
    }
}

static pid_t start_relay(uint16_t port, uint16_t root, size_t change) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        alarm(60);
        if (bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 1) == 0)
            relay_until_closed(accept(fd, NULL, NULL), call(root), change);
        _exit(0);
    }
    return pid;
}

/* Both sides have proved to each other that they have the secret, through one that has not. */
static void whoever_passes_proofs_on_cannot_change_the_table(void **state) {
    size_t before = sizeof(struct vv_env_challenge) + sizeof(struct vv_env_answer);
    size_t cards = before + sizeof(struct vv_env_table), end = cards + 2 * sizeof(struct vv_env_card);
    const size_t changes[] = {0, before + offsetof(struct vv_env_table, token),
                              cards + offsetof(struct vv_env_card, port), cards + sizeof(struct vv_env_card), end};
    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        setup(NULL);
        set_number("WORLD_SIZE", 2);
        setenv("VARVE_SECRET", "a secret that is long enough", 1);
        uint16_t root = (uint16_t)atoi(getenv("VARVE_PORT")), port = (uint16_t)(10000 + next_port++ % 20000);
        start_rank(0, check_promises);
        pid_t relay = start_relay(port, root, changes[i]);
        set_number("VARVE_PORT", port);
        start_rank(1, check_promises);
        if (changes[i] == 0)
            assert_int_equal(end_of(1), 0);
        else
            expect_error(1, -EPROTO, "changed it");
        assert_int_equal(end_of(0), changes[i] == 0 ? 0 : 10);
        assert_int_equal(waitpid(relay, NULL, 0), relay);
    }
}

static void missing_ranks_are_named(void **state) {
    (void)state;
    set_number("VARVE_CONNECT_SECONDS", 1);
    start_rank(0, NULL);
    start_rank(2, NULL);
    expect_error(0, -ECOMM, "2 of 4 ranks did not come to rank 0");
    expect_error(2, -ECOMM, "rank 2");
    assert_non_null(strstr(board->error[0].text, "ranks 1, 3"));
    setup(NULL);
    set_number("VARVE_CONNECT_SECONDS", 1);
    start_rank(3, NULL); /* nobody listens */
    expect_error(3, -ECOMM, "Connection refused");
    assert_non_null(strstr(board->error[3].text, getenv("VARVE_PORT")));
    setenv("MASTER_ADDR", "no-such-host.invalid", 1);
    start_rank(3, NULL);
    expect_error(3, -ECOMM, "no-such-host.invalid");
}

static void other_sizes_and_twins_are_refused(void **state) {
    (void)state;
    start_rank(0, NULL);
    set_number("WORLD_SIZE", 8);
    start_rank(1, NULL);
    expect_error(1, -EINVAL, "WORLD_SIZE is 8 on rank 1, and 4 on rank 0");
    set_number("WORLD_SIZE", 4);
    start_rank(1, NULL);
    usleep(500000);
    pid_t first = pids[1];
    set_number("VARVE_CONNECT_SECONDS", 1);
    start_rank(1, NULL);
    expect_error(1, -ECOMM, "another process with this RANK");
    pids[1] = first;
    for (int i = 0; i < 2; i++) {
        kill(pids[i], SIGKILL);
        assert_int_equal(end_of(i), 1000 + SIGKILL);
    }
}

/* A rank that dies before the others have come may come again. */
static void a_rank_may_come_twice(void **state) {
    (void)state;
    start_rank(0, check_promises);
    start_rank(1, check_promises);
    usleep(300000);
    kill(pids[1], SIGKILL);
    assert_int_equal(end_of(1), 1000 + SIGKILL);
    for (int i = 1; i < 4; i++)
        start_rank(i, check_promises);
    for (int i = 0; i < 4; i++)
        assert_int_equal(end_of(i), 0);
}

/* The last one comes when the time of rank 1, which has joined, is over. */
static void a_job_may_start_at_the_last_moment(void **state) {
    (void)state;
    set_number("WORLD_SIZE", 3);
    start_rank(0, check_promises);
    set_number("VARVE_CONNECT_SECONDS", 1);
    start_rank(1, check_promises);
    usleep(1800000);
    set_number("VARVE_CONNECT_SECONDS", 20);
    start_rank(2, check_promises);
    for (int i = 0; i < 3; i++)
        assert_int_equal(end_of(i), 0);
}

/* At any moment of the start: all others end, in time. Those that have opened are told of the death; the others say
 * that the job did not start. */
static void a_death_at_the_start_leaves_nobody_behind(void **state) {
    (void)state;
    for (int i = 0; i < 8; i++) {
        setup(NULL);
        set_number("VARVE_CONNECT_SECONDS", 2);
        double begun = now();
        start(4, talk_until_broken);
        usleep((useconds_t)(i * 1500));
        int victim = i % 4, code;
        kill(pids[victim], SIGKILL);
        for (int which = 0; which < 4; which++) {
            code = end_of(which);
            assert_true(which == victim ? code == 1000 + SIGKILL : code == 0 || code == 10);
        }
        assert_true(now() - begun < 12);
    }
}

static void too_few_files_are_told(void **state) {
    struct rlimit before, few;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = 60;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    start_rank(0, NULL);
    expect_error(0, -EMFILE, "ulimit -n");
    setrlimit(RLIMIT_NOFILE, &before);
}

static void a_port_in_use_is_named(void **state) {
    (void)state;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(getenv("VARVE_PORT")))};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 1), 0);
    set_number("VARVE_CONNECT_SECONDS", 1);
    start_rank(0, NULL);
    start_rank(1, NULL); /* what listens there never answers */
    expect_error(0, -EADDRINUSE, getenv("VARVE_PORT"));
    expect_error(1, -ECOMM, getenv("VARVE_PORT"));
    close(fd);
}

/* ---- what the environment says ---- */

static void expect_refused(const char *name, const char *value, int code, const char *word) {
    struct varve_comm *comm = NULL;
    struct varve_error error = {0};
    setup(NULL);
    set_number("RANK", 0);
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
    assert_int_equal(varve_comm_env(&comm, &error), code);
    assert_null(comm);
    if (error.code != code || !strstr(error.text, word))
        fail_msg("%s=%s: %s", name, value ? value : "", error.text);
    unsetenv(name);
}

static void nonsense_is_refused(void **state) {
    char path[] = "/tmp/varve-secret-XXXXXX";
    int fd = mkstemp(path);
    (void)state;
    expect_refused("RANK", NULL, -EINVAL, "torchrun");
    expect_refused("RANK", "4", -EINVAL, "from 0 to 3");
    expect_refused("RANK", "one", -EINVAL, "RANK is \"one\"");
    expect_refused("WORLD_SIZE", "0", -EINVAL, "WORLD_SIZE");
    expect_refused("MASTER_ADDR", NULL, -EINVAL, "MASTER_ADDR");
    expect_refused("VARVE_PORT", "65536", -EINVAL, "VARVE_PORT");
    expect_refused("VARVE_PORT", NULL, -EINVAL, "MASTER_PORT");
    expect_refused("VARVE_PEER_SECONDS", "-1", -EINVAL, "VARVE_PEER_SECONDS");
    expect_refused("VARVE_SECRET", "short", -EINVAL, "at least 16");
    expect_refused("VARVE_SECRET_FILE", "/nowhere/at/all", -ENOENT, "/nowhere/at/all");
    expect_refused("VARVE_SECRET_FILE", "/tmp", -EINVAL, "not a file");
    assert_int_equal(write(fd, "a secret that is long enough\n", 29), 29);
    assert_int_equal(fchmod(fd, 0640), 0);
    expect_refused("VARVE_SECRET_FILE", path, -EPERM, "chmod 600");
    close(fd);
    unlink(path);
}

static void never_log(void *arg, int level, const char *text) {
    (void)arg;
    (void)level;
    (void)text;
    _exit(99);
}

/* Options of a program that knows less of them end before the log. */
static int open_with_few_options(const char *store, int which) {
    struct varve_options options = {offsetof(struct varve_options, log), NULL, never_log, NULL};
    struct varve_session *session = NULL;
    set_number("RANK", which);
    alarm(60);
    int rc = varve_open_env(store, "x", &options, &session, &board->error[which]);
    if (rc)
        return 1;
    for (int version = 1; rc == 0; version++) {
        rc = varve_checkpoint(session, version);
        if (which == 1) /* dies, of which the other's group tells */
            return 0;
    }
    varve_close(session);
    return 0;
}

static void options_are_read_as_far_as_they_go(void **state) {
    char store[] = "/tmp/varve-options-XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(store));
    set_number("WORLD_SIZE", 2);
    for (int i = 0; i < 2; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0)
            _exit(open_with_few_options(store, i));
    }
    for (int i = 0; i < 2; i++)
        if (end_of(i) != 0)
            fail_msg("rank %d: %s", i, board->error[i].text);
    assert_int_equal(folder_remove(store), 0);
}

/* The file and the variable with the same bytes are the same secret. */
static void a_secret_may_be_in_a_file(void **state) {
    char path[] = "/tmp/varve-secret-XXXXXX";
    int fd = mkstemp(path);
    (void)state;
    assert_int_equal(write(fd, "a secret that is long enough\n", 29), 29);
    close(fd);
    set_number("WORLD_SIZE", 2);
    setenv("VARVE_SECRET_FILE", path, 1);
    start_rank(0, NULL);
    unsetenv("VARVE_SECRET_FILE");
    setenv("VARVE_SECRET", "a secret that is long enough", 1);
    start_rank(1, NULL);
    for (int i = 0; i < 2; i++)
        assert_int_equal(end_of(i), 0);
    unlink(path);
}

static void the_port_follows_that_of_the_master(void **state) {
    struct vv_env_plan plan;
    (void)state;
    setup(NULL);
    unsetenv("VARVE_PORT");
    set_number("RANK", 1);
    set_number("MASTER_PORT", 29500);
    assert_int_equal(vv_env_read_plan(&plan, NULL), 0);
    assert_int_equal(plan.port, 30500);
    assert_true(plan.is_loopback);
    set_number("MASTER_PORT", 65000);
    setenv("MASTER_ADDR", "node17", 1);
    assert_int_equal(vv_env_read_plan(&plan, NULL), 0);
    assert_int_equal(plan.port, 64000);
    assert_false(plan.is_loopback);
}

static void one_rank_needs_no_network(void **state) {
    struct varve_comm *comm = NULL;
    (void)state;
    unsetenv("MASTER_ADDR");
    unsetenv("VARVE_PORT");
    set_number("WORLD_SIZE", 1);
    set_number("RANK", 0);
    assert_int_equal(varve_comm_env(&comm, NULL), 0);
    const struct vv_env_comm *own = (struct vv_env_comm *)comm;
    assert_int_equal(own->group->door.listener, -1);
    assert_false(own->group->has_monitor);
    assert_null(comm_checks(comm));
    comm->ops->close(comm);
    unsetenv("RANK");
}

/* Instead of the environment, of which nothing counts then. */
static void a_program_may_tell_who_it_is(void **state) {
    struct varve_env self = {sizeof self, 1, 4, "127.0.0.1", 4711, "0123456789abcdef"};
    struct vv_env_plan plan, other;
    struct varve_session *session = NULL;
    (void)state;
    setenv("VARVE_SECRET", "fedcba9876543210", 1);
    set_number("WORLD_SIZE", 7);
    set_number("RANK", 6);
    assert_int_equal(vv_env_take_plan(&self, &plan, NULL), 0);
    assert_true(plan.rank == 1 && plan.ranks == 4 && plan.port == 4711 && plan.is_loopback);
    self.secret = NULL;
    assert_int_equal(vv_env_take_plan(&self, &other, NULL), 0);
    assert_memory_not_equal(plan.key, other.key, sizeof plan.key);
    unsetenv("VARVE_SECRET");
    assert_int_equal(vv_env_take_plan(&self, &plan, NULL), 0);
    assert_memory_equal(plan.key, other.key, sizeof plan.key); /* none, whatever the environment has */
    self.secret = "short";
    assert_int_equal(vv_env_take_plan(&self, &plan, NULL), -EINVAL);
    self.secret = NULL;
    self.port = 0;
    assert_int_equal(vv_env_take_plan(&self, &plan, NULL), -EINVAL);
    self.port = 4711;
    self.host = NULL;
    assert_int_equal(vv_env_take_plan(&self, &plan, NULL), -EINVAL);
    self.rank = 4;
    assert_int_equal(varve_open_env_as(&self, "mem://as", "job", NULL, &session, NULL), -EINVAL);
    assert_int_equal(varve_open_env_as(NULL, "mem://as", "job", NULL, &session, NULL), -EINVAL);
    self = (struct varve_env){.size = sizeof self, .ranks = 1};
    assert_int_equal(varve_open_env_as(&self, "mem://as", "job", NULL, &session, NULL), 0);
    assert_int_equal(varve_close(session), 0);
    unsetenv("RANK");
}

/* RFC 4231, test case 2. */
static void the_keyed_hash_is_the_known_one(void **state) {
    static const uint8_t wanted[] = {0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e, 0x6a, 0x04, 0x24,
                                     0x26, 0x08, 0x95, 0x75, 0xc7, 0x5a, 0x00, 0x3f, 0x08, 0x9d, 0x27,
                                     0x39, 0x83, 0x9d, 0xec, 0x58, 0xb9, 0x64, 0xec, 0x38, 0x43};
    uint8_t got[VV_ENV_KEY];
    (void)state;
    assert_int_equal(vv_env_mac_of("Jefe", 4, "what do ya want for nothing?", 28, got), 0);
    assert_memory_equal(got, wanted, sizeof wanted);
}

/* Most of the time is spent waiting, so these are run at the same time, each by a child. */
static const struct CMUnitTest pausing[] = {
    cmocka_unit_test_setup(a_rank_may_pause, setup),
};
static const struct CMUnitTest patient[] = {
    cmocka_unit_test_setup(a_rank_may_compute_while_others_send, setup),
    cmocka_unit_test_setup(nobody_waits_for_a_rank_that_has_left, setup),
};
static const struct CMUnitTest starting[] = {
    cmocka_unit_test_setup(other_secrets_do_not_fit, setup),
    cmocka_unit_test_setup(missing_ranks_are_named, setup),
    cmocka_unit_test_setup(other_sizes_and_twins_are_refused, setup),
    cmocka_unit_test_setup(a_rank_may_come_twice, setup),
    cmocka_unit_test_setup(a_job_may_start_at_the_last_moment, setup),
    cmocka_unit_test_setup(a_port_in_use_is_named, setup),
};
static const struct CMUnitTest others[] = {
    cmocka_unit_test_setup(a_death_is_noticed_by_all, setup),
    cmocka_unit_test_setup(children_of_fork_do_not_hide_a_death, setup),
    cmocka_unit_test_setup(a_silent_rank_is_given_up, setup),
    cmocka_unit_test_setup(different_calls_are_found_out, setup),
    cmocka_unit_test_setup(sizes_of_messages_are_not_trusted, setup),
    cmocka_unit_test_setup(what_was_sent_arrives_after_its_sender_has_left, setup),
    cmocka_unit_test_setup(signals_interrupt_nothing, setup),
    cmocka_unit_test_setup(strangers_do_not_matter, setup),
    cmocka_unit_test_setup(a_flood_of_strangers_is_outlasted, setup),
    cmocka_unit_test_setup(whoever_passes_proofs_on_cannot_change_the_table, setup),
    cmocka_unit_test_setup(a_death_at_the_start_leaves_nobody_behind, setup),
    cmocka_unit_test_setup(too_few_files_are_told, setup),
    cmocka_unit_test_setup(nonsense_is_refused, setup),
    cmocka_unit_test_setup(options_are_read_as_far_as_they_go, setup),
    cmocka_unit_test_setup(a_secret_may_be_in_a_file, setup),
    cmocka_unit_test_setup(the_port_follows_that_of_the_master, setup),
    cmocka_unit_test_setup(one_rank_needs_no_network, setup),
    cmocka_unit_test_setup(a_program_may_tell_who_it_is, setup),
    cmocka_unit_test_setup(the_keyed_hash_is_the_known_one, setup),
};

static int run_group(unsigned which) {
    next_port = (unsigned)getpid() * 37 + which * 5000;
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return board == MAP_FAILED ? 1
           : which == 0        ? cmocka_run_group_tests(pausing, NULL, NULL)
           : which == 1        ? cmocka_run_group_tests(patient, NULL, NULL)
           : which == 2        ? cmocka_run_group_tests(starting, NULL, NULL)
                               : cmocka_run_group_tests(others, NULL, NULL);
}

/* test_env [PATTERN]: only tests of such names. */
int main(int argc, char **argv) {
    int failed = 0, status;
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    for (unsigned which = 0; which < 4; which++) {
        pid_t pid = fork();
        if (pid == 0)
            exit(run_group(which) ? 1 : 0);
        failed += pid < 0;
    }
    while (wait(&status) > 0)
        failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    return failed ? 1 : 0;
}
