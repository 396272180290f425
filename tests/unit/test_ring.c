/* Messages through shared memory: between threads, which the thread sanitizer looks at, and between processes. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/thread.h"
#include "gather/ring.h"
#include "test.h"

#define CAPACITY 4096u
#define HEAD 8u /* of each message, as the ring keeps it */
#define SENDERS_MOST 8
#define PATIENCE 20000 /* ms: only a mistake takes so long */

static void *map_shared(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

static struct vv_ring *make_ring(uint32_t capacity) {
    struct vv_ring *ring = map_shared(vv_ring_bytes(capacity));
    vv_ring_init(ring, capacity);
    return ring;
}

static void free_ring(struct vv_ring *ring, uint32_t capacity) {
    munmap(ring, vv_ring_bytes(capacity));
}

static uint64_t ms_now(void) {
    return vv_clock_ns() / 1000000;
}

/* The same numbers on both sides. */
static uint64_t draw(uint64_t *state) {
    *state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = (*state ^ (*state >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Mostly short, now and then as long as can be. */
static uint32_t draw_size(uint64_t *state, uint32_t longest) {
    uint64_t x = draw(state);
    return (x & 15) == 0 ? longest : 1 + (uint32_t)((x >> 8) % ((x & 1) ? longest : 100));
}

static void fill(uint8_t *out, uint32_t size, uint64_t seed) {
    for (uint32_t i = 0; i < size; i += 8) {
        uint64_t x = draw(&seed);
        memcpy(out + i, &x, size - i < 8 ? size - i : 8);
    }
}

static int is_filled(const uint8_t *data, uint32_t size, uint64_t seed) {
    uint8_t expected[CAPACITY * 16];
    fill(expected, size, seed);
    return size <= sizeof expected && memcmp(data, expected, size) == 0;
}

static int put(struct vv_ring *ring, struct vv_doorbell *bell, uint32_t size, uint64_t seed, unsigned ms) {
    uint8_t *at = vv_ring_reserve(ring, size, ms);
    if (!at)
        return 0;
    fill(at, size, seed);
    vv_ring_send(ring, size, bell);
    return 1;
}

/* ---- one after the other ---- */

static void has_the_sizes_it_promises(void **state) {
    (void)state;
    for (uint32_t capacity = 4096; capacity != 0; capacity *= 2) {
        assert_int_equal(vv_ring_bytes(capacity) % 64, 0);
        assert_true(vv_ring_bytes(capacity) > capacity);
    }
    static const uint32_t wrong[] = {0, 1, 2048, 4095, 4097, 12288, UINT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(vv_ring_bytes(wrong[i]), 0);
    for (uint32_t capacity = 4096; capacity <= 1u << 20; capacity *= 2) {
        struct vv_ring *ring = make_ring(capacity);
        assert_true(vv_ring_longest(ring) >= capacity / 4);
        assert_null(vv_ring_reserve(ring, vv_ring_longest(ring) + 1, 0));
        assert_null(vv_ring_reserve(ring, 0, 0));
        free_ring(ring, capacity);
    }
}

/* Each size at each place, also across the end: nothing is left over, nothing is lost. */
static void passes_every_size_at_every_place(void **state) {
    struct vv_doorbell bell = {0};
    struct vv_ring *ring = make_ring(CAPACITY);
    uint32_t longest = vv_ring_longest(ring), got;
    int is_broken;
    (void)state;
    for (uint32_t size = 1; size <= longest; size += size < 40 ? 1 : 61)
        for (uint32_t place = 0; place < 64; place++) {
            uint64_t seed = size * 1000 + place;
            assert_true(put(ring, &bell, size, seed, 0));
            assert_true(put(ring, &bell, place + 1, seed + 1, 0));
            const uint8_t *at = vv_ring_peek(ring, &got, &is_broken);
            assert_non_null(at);
            assert_int_equal((uintptr_t)at % 8, 0);
            assert_int_equal(got, size);
            assert_true(is_filled(at, size, seed));
            assert_ptr_equal(vv_ring_peek(ring, &got, NULL), at); /* it stays */
            vv_ring_drop(ring);
            at = vv_ring_peek(ring, &got, &is_broken);
            assert_true(at && got == place + 1 && is_filled(at, got, seed + 1));
            vv_ring_drop(ring);
            assert_null(vv_ring_peek(ring, &got, &is_broken));
            assert_int_equal(is_broken, 0);
        }
    free_ring(ring, CAPACITY);
}

/* One message of the longest kind must fit into an empty ring wherever it begins. */
static void the_longest_fits_everywhere(void **state) {
    (void)state;
    for (uint32_t at = 16; at < CAPACITY; at += 8) {
        struct vv_doorbell bell = {0};
        struct vv_ring *ring = make_ring(CAPACITY);
        uint32_t got;
        for (uint32_t done = 0, step; done < at; done += step) {
            step = (at - done) % 16 ? 24 : 16;
            assert_true(put(ring, &bell, step - HEAD, 1, 0));
            assert_non_null(vv_ring_peek(ring, &got, NULL));
            vv_ring_drop(ring);
        }
        assert_true(put(ring, &bell, vv_ring_longest(ring), at, 0));
        const uint8_t *message = vv_ring_peek(ring, &got, NULL);
        assert_true(message && got == vv_ring_longest(ring) && is_filled(message, got, at));
        free_ring(ring, CAPACITY);
    }
}

static void sends_less_than_was_reserved(void **state) {
    struct vv_doorbell bell = {0};
    struct vv_ring *ring = make_ring(CAPACITY);
    uint32_t got, longest = vv_ring_longest(ring);
    (void)state;
    for (uint64_t i = 0; i < 200; i++) {
        uint8_t *at = vv_ring_reserve(ring, longest, 0);
        assert_non_null(at);
        at = vv_ring_reserve(ring, longest - 8, 0); /* again, since the first came to nothing */
        assert_non_null(at);
        fill(at, 5 + i % 300, i);
        vv_ring_send(ring, 5 + i % 300, &bell);
        vv_ring_send(ring, 5, &bell); /* nothing is reserved: nothing is sent */
        const uint8_t *message = vv_ring_peek(ring, &got, NULL);
        assert_true(message && got == 5 + i % 300 && is_filled(message, got, i));
        vv_ring_drop(ring);
        vv_ring_drop(ring); /* nothing was looked at: nothing is dropped */
        assert_null(vv_ring_peek(ring, &got, NULL));
    }
    assert_int_equal(vv_doorbell_look(&bell), 200);
    free_ring(ring, CAPACITY);
}

static void a_full_ring_has_no_capacity(void **state) {
    struct vv_doorbell bell = {0};
    struct vv_ring *ring = make_ring(CAPACITY);
    uint32_t sent = 0, taken = 0, got;
    const uint8_t *message;
    (void)state;
    while (put(ring, &bell, 56, sent, 0))
        sent++;
    assert_int_equal(sent, CAPACITY / (56 + HEAD)); /* nothing is wasted */
    uint64_t begin = ms_now();
    assert_null(vv_ring_reserve(ring, 1, 30));
    uint64_t passed = ms_now() - begin;
    assert_true(passed >= 29 && passed < PATIENCE);
    assert_non_null(vv_ring_peek(ring, &got, NULL));
    vv_ring_drop(ring);
    taken++;
    assert_null(vv_ring_reserve(ring, 57, 0)); /* not one byte more than there is */
    assert_true(put(ring, &bell, 56, sent++, 0));
    for (; (message = vv_ring_peek(ring, &got, NULL)); vv_ring_drop(ring), taken++)
        assert_true(got == 56 && is_filled(message, got, taken));
    assert_int_equal(taken, sent);
    free_ring(ring, CAPACITY);
}

static void bells_wait_as_long_as_told(void **state) {
    struct vv_doorbell bell = {0};
    uint32_t seen = vv_doorbell_look(&bell);
    (void)state;
    uint64_t begin = ms_now();
    vv_doorbell_wait(&bell, seen, 0);
    vv_doorbell_wait(&bell, seen, 30);
    uint64_t passed = ms_now() - begin;
    assert_true(passed >= 29 && passed < PATIENCE);
    vv_doorbell_ring(&bell);
    begin = ms_now();
    vv_doorbell_wait(&bell, seen, PATIENCE); /* it has rung since */
    assert_true(ms_now() - begin < PATIENCE / 2);
    assert_int_equal(vv_doorbell_look(&bell), seen + 1);
    assert_int_equal(atomic_load(&bell.sleepers), 0);
}

/* ---- what cannot be a message ---- */

/* Whatever is written over any word of the ring: no access outside (the rings end at a page that is not there, and
 * sanitizers look on), no message outside, and no waiting for ever. */
static void poke(uint8_t *memory, size_t at, uint32_t value, unsigned *broken) {
    struct vv_doorbell bell = {0};
    struct vv_ring *ring = (struct vv_ring *)memory;
    uint8_t *end = memory + vv_ring_bytes(CAPACITY);
    uint32_t got, told, seen = 0;
    int is_broken = 0;
    memset(memory, 0, vv_ring_bytes(CAPACITY));
    vv_ring_init(ring, CAPACITY);
    for (uint64_t i = 0; i < 5; i++) { /* the third lies across the end */
        assert_true(put(ring, &bell, 1400, i, 0));
        if (i < 3) {
            assert_non_null(vv_ring_peek(ring, &got, NULL));
            vv_ring_drop(ring);
        }
    }
    memcpy(&told, memory + at, sizeof told);
    memcpy(memory + at, &value, sizeof value);
    const uint8_t *message;
    while ((message = vv_ring_peek(ring, &got, &is_broken)) && seen++ < 4) {
        assert_false(is_broken);
        assert_true(got > 0 && message >= memory && message < end && got <= (size_t)(end - message));
        vv_ring_drop(ring);
    }
    *broken += (unsigned)is_broken;
    uint8_t *capacity = vv_ring_reserve(ring, 100, 0);
    assert_true(!capacity || (capacity > memory && capacity + 100 <= end));
    if (capacity)
        vv_ring_send(ring, 100, &bell);
    (void)vv_ring_longest(ring);
}

static void a_broken_ring_is_refused(void **state) {
    static const uint32_t values[] = {0,    1,     7,        8,         2041,           4095,      4096,
                                      4097, 65536, 1u << 31, INT32_MAX, UINT32_MAX - 1, UINT32_MAX};
    size_t size = vv_ring_bytes(CAPACITY), head = size - CAPACITY, page = (size_t)sysconf(_SC_PAGESIZE);
    size_t whole = (size + page - 1) / page * page;
    uint8_t *pages = map_shared(whole + page);
    unsigned broken = 0;
    (void)state;
    assert_int_equal(mprotect(pages + whole, page, PROT_NONE), 0);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        for (size_t at = 0; at < size; at += at < head ? 4 : 8)
            poke(pages + whole - size, at, values[i], &broken);
    assert_true(broken > 100);
    munmap(pages, whole + page);
}

/* The head of a message says more than there is: than was sent, or than there is room before the end. */
static void a_message_ends_before_the_end(void **state) {
    struct vv_doorbell bell = {0};
    uint32_t got, size, offset = 0;
    int is_broken = 0;
    (void)state;
    for (unsigned kind = 0; kind < 2; kind++) {
        struct vv_ring *ring = make_ring(CAPACITY);
        uint8_t *message = NULL;
        for (offset = 0; offset < CAPACITY - 64 && kind == 1; offset += 64) {
            assert_true(put(ring, &bell, 64 - HEAD, 1, 0));
            assert_non_null(vv_ring_peek(ring, &got, NULL));
            vv_ring_drop(ring);
        }
        message = vv_ring_reserve(ring, 64 - HEAD, 0);
        assert_non_null(message);
        vv_ring_send(ring, 64 - HEAD, &bell);
        assert_true(kind == 0 || put(ring, &bell, 1000, 2, 0)); /* at the beginning again */
        memcpy(&size, message - HEAD, sizeof size);
        assert_int_equal(size, 64 - HEAD);
        for (uint32_t more = size + 1; more < 1000; more++) {
            memcpy(message - HEAD, &more, sizeof more);
            assert_null(vv_ring_peek(ring, &got, &is_broken));
            assert_int_equal(is_broken, 1);
            vv_ring_drop(ring);
        }
        memcpy(message - HEAD, &size, sizeof size);
        assert_ptr_equal(vv_ring_peek(ring, &got, &is_broken), message);
        assert_int_equal(is_broken, 0);
        free_ring(ring, CAPACITY);
    }
}

static void what_was_never_made_is_no_ring(void **state) {
    struct vv_ring *ring = map_shared(vv_ring_bytes(CAPACITY));
    uint32_t got;
    int is_broken = 0;
    (void)state;
    assert_int_equal(vv_ring_longest(ring), 0);
    assert_null(vv_ring_reserve(ring, 8, 1));
    assert_null(vv_ring_peek(ring, &got, &is_broken));
    assert_int_equal(is_broken, 1);
    vv_ring_init(ring, 5000);
    assert_int_equal(vv_ring_longest(ring), 0);
    free_ring(ring, CAPACITY);
}

/* ---- two sides ---- */

struct wire {
    struct vv_ring *ring;
    struct vv_doorbell *bell;
    uint64_t seed;
    unsigned messages;
    unsigned nap_each; /* the sender rests after so many; 0: never */
    int is_good;
};

static void *send_all(void *arg) {
    struct wire *wire = arg;
    uint64_t state = wire->seed;
    wire->is_good = 1;
    for (unsigned i = 0; i < wire->messages && wire->is_good; i++) {
        uint32_t size = draw_size(&state, vv_ring_longest(wire->ring));
        wire->is_good = put(wire->ring, wire->bell, size, draw(&state), PATIENCE);
        if (wire->nap_each && i % wire->nap_each == 0)
            vv_sleep_ms(1);
    }
    return NULL;
}

/* Takes from all wires until each has brought all that it should. 1 if everything was right. */
static int take_from(struct wire *wires, unsigned count, unsigned nap_each) {
    uint64_t states[SENDERS_MOST] = {0};
    unsigned taken[SENDERS_MOST] = {0}, all = 0, open = 0;
    for (unsigned i = 0; i < count; i++)
        states[i] = wires[i].seed, open += wires[i].messages > 0;
    while (open > 0) {
        uint32_t seen = vv_doorbell_look(wires[0].bell), size;
        int is_broken = 0, has_some = 0;
        for (unsigned i = 0; i < count; i++) {
            const uint8_t *message = vv_ring_peek(wires[i].ring, &size, &is_broken);
            if (is_broken)
                return 0;
            if (!message)
                continue;
            uint32_t expected = draw_size(&states[i], vv_ring_longest(wires[i].ring));
            if (taken[i] == wires[i].messages || size != expected || !is_filled(message, size, draw(&states[i])))
                return 0;
            vv_ring_drop(wires[i].ring);
            open -= ++taken[i] == wires[i].messages;
            has_some = 1;
            if (nap_each && ++all % nap_each == 0)
                vv_sleep_ms(1);
        }
        uint64_t begin = ms_now();
        if (!has_some)
            vv_doorbell_wait(wires[0].bell, seen, PATIENCE);
        if (ms_now() - begin > PATIENCE / 2)
            return 0; /* nobody woke us */
    }
    return 1;
}

static void run_threads(unsigned senders, unsigned messages, unsigned sender_nap, unsigned taker_nap,
                        uint32_t capacity) {
    struct vv_doorbell bell = {0};
    struct wire wires[SENDERS_MOST];
    pthread_t threads[SENDERS_MOST];
    for (unsigned i = 0; i < senders; i++) {
        wires[i] = (struct wire){make_ring(capacity), &bell, 77 + i, messages, sender_nap, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, send_all, &wires[i]), 0);
    }
    int is_good = take_from(wires, senders, taker_nap);
    for (unsigned i = 0; i < senders; i++) {
        pthread_join(threads[i], NULL);
        is_good &= wires[i].is_good;
        free_ring(wires[i].ring, capacity);
    }
    assert_true(is_good);
    assert_int_equal(atomic_load(&bell.sleepers), 0);
}

static void threads_pass_messages(void **state) {
    (void)state;
    run_threads(1, 5000, 0, 0, CAPACITY);
    run_threads(1, 500, 10, 0, CAPACITY); /* the receiver sleeps often */
    run_threads(1, 500, 0, 10, CAPACITY); /* the sender sleeps often */
    run_threads(1, 300, 0, 0, 16 * CAPACITY);
}

static void many_senders_ring_one_bell(void **state) {
    (void)state;
    run_threads(SENDERS_MOST, 800, 0, 0, CAPACITY);
    run_threads(3, 300, 7, 5, CAPACITY);
}

#define ROUNDS 5000

static struct vv_doorbell bells[2];
static _Atomic unsigned turn;

/* Each waits for the other, every time. 1 if nobody was forgotten. */
static int play(unsigned self) {
    for (unsigned round = self; round < ROUNDS; round += 2) {
        for (;;) {
            uint32_t seen = vv_doorbell_look(&bells[self]);
            if (atomic_load(&turn) == round)
                break;
            uint64_t begin = ms_now();
            vv_doorbell_wait(&bells[self], seen, PATIENCE);
            if (ms_now() - begin > PATIENCE / 2)
                return 0;
        }
        atomic_store(&turn, round + 1);
        vv_doorbell_ring(&bells[!self]);
    }
    return 1;
}

static void *play_other(void *arg) {
    *(int *)arg = play(1);
    return NULL;
}

static void nobody_sleeps_on(void **state) {
    pthread_t other;
    int is_good = 0;
    (void)state;
    assert_int_equal(pthread_create(&other, NULL, play_other, &is_good), 0);
    assert_true(play(0));
    pthread_join(other, NULL);
    assert_true(is_good);
}

static void processes_pass_messages(void **state) {
    struct vv_doorbell *bell = map_shared(sizeof *bell);
    struct wire wires[3];
    pid_t pids[3];
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        wires[i] = (struct wire){make_ring(CAPACITY), bell, 1000 + i, 2000, i == 2 ? 50 : 0, 0};
        fflush(NULL);
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            send_all(&wires[i]);
            _exit(wires[i].is_good ? 0 : 1);
        }
    }
    int is_good = take_from(wires, 3, 0), status = 1;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        is_good &= status == 0;
        free_ring(wires[i].ring, CAPACITY);
    }
    assert_true(is_good);
    munmap(bell, sizeof *bell);
}

static void *ring_later(void *arg) {
    vv_sleep_ms(20);
    vv_doorbell_ring(arg);
    return NULL;
}

static void on_signal(int number) {
    (void)number;
}

static void *disturb(void *arg) {
    for (int i = 0; i < 10; i++) {
        vv_sleep_ms(2);
        pthread_kill(*(pthread_t *)arg, SIGUSR1);
    }
    return NULL;
}

/* Signals of the program neither end a wait nor make it longer. */
static void signals_do_not_end_a_wait(void **state) {
    struct sigaction action = {.sa_handler = on_signal}, before;
    struct vv_doorbell bell = {0};
    pthread_t self = pthread_self(), other;
    (void)state;
    sigaction(SIGUSR1, &action, &before);
    assert_int_equal(pthread_create(&other, NULL, disturb, &self), 0);
    uint64_t begin = ms_now();
    vv_doorbell_wait(&bell, 0, 60);
    uint64_t passed = ms_now() - begin;
    pthread_join(other, NULL);
    sigaction(SIGUSR1, &before, NULL);
    assert_true(passed >= 59 && passed < PATIENCE);
    assert_int_equal(pthread_create(&other, NULL, ring_later, &bell), 0);
    begin = ms_now();
    vv_doorbell_wait(&bell, 0, PATIENCE);
    assert_true(ms_now() - begin < PATIENCE / 2);
    pthread_join(other, NULL);
}

/* A receiver that died asleep is no reason to fail; the sender sees only that nobody makes room. */
static void a_dead_receiver_leaves_a_full_ring(void **state) {
    struct vv_doorbell *bell = map_shared(sizeof *bell);
    struct vv_ring *ring = make_ring(CAPACITY);
    int status;
    (void)state;
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        vv_doorbell_wait(bell, vv_doorbell_look(bell), PATIENCE);
        _exit(0);
    }
    for (uint64_t begin = ms_now(); atomic_load(&bell->sleepers) == 0 && ms_now() - begin < PATIENCE;)
        vv_sleep_ms(1);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    uint64_t sent = 0;
    while (put(ring, bell, 100, sent, 5))
        sent++;
    assert_true(sent > 30);
    free_ring(ring, CAPACITY);
    munmap(bell, sizeof *bell);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_the_sizes_it_promises),
        cmocka_unit_test(passes_every_size_at_every_place),
        cmocka_unit_test(the_longest_fits_everywhere),
        cmocka_unit_test(sends_less_than_was_reserved),
        cmocka_unit_test(a_full_ring_has_no_capacity),
        cmocka_unit_test(bells_wait_as_long_as_told),
        cmocka_unit_test(a_broken_ring_is_refused),
        cmocka_unit_test(a_message_ends_before_the_end),
        cmocka_unit_test(what_was_never_made_is_no_ring),
        cmocka_unit_test(threads_pass_messages),
        cmocka_unit_test(many_senders_ring_one_bell),
        cmocka_unit_test(nobody_sleeps_on),
        cmocka_unit_test(processes_pass_messages),
        cmocka_unit_test(signals_do_not_end_a_wait),
        cmocka_unit_test(a_dead_receiver_leaves_a_full_ring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
