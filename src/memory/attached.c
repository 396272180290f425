#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/search.h"
#include "memory/attached.h"
#include "memory/lock.h"
#include "memory/pagebits.h"
#include "memory/signals.h"
#include "memory/tracked_range.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

struct table {
    size_t count;
    struct table *spare;         /* as large, so that removing needs no memory */
    struct vv_attached *items[]; /* by address */
};

/* Wiped in a child of fork. */
struct process {
    uint32_t mark;
    struct vv_lock lock; /* of those who change the table */
    uint32_t index;      /* which of the counters new readers use */
    uint32_t readers[2];
    uint32_t word; /* bumped by every disarm */
    uint32_t waiters;
};

#define FORMER 64
struct former {
    uintptr_t start, end;
};

static struct process *process;
static struct table *table;
static struct former former[FORMER]; /* a ring: a thread may have faulted just before its page was detached */
static uint32_t former_next;

#define LOAD(what) __atomic_load_n(&(what), __ATOMIC_SEQ_CST)
#define STORE(what, value) __atomic_store_n(&(what), value, __ATOMIC_SEQ_CST)
#define ADD(what, value) __atomic_add_fetch(&(what), value, __ATOMIC_SEQ_CST)

static long futex(uint32_t *word, int what, uint32_t value, const struct timespec *timeout, uint32_t bits) {
    return syscall(SYS_futex, word, what | FUTEX_PRIVATE_FLAG, value, timeout, NULL, bits);
}

static int begin_result;

static void begin_once(void) {
    void *page = mmap(NULL, VV_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page != MAP_FAILED && madvise(page, VV_PAGE, MADV_WIPEONFORK) == 0)
        process = page;
    else
        begin_result = -errno;
}

int vv_attached_begin(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, begin_once);
    if (process && LOAD(process->mark) == 0)
        STORE(process->mark, (uint32_t)getpid());
    return begin_result;
}

uint32_t vv_attached_mark(void) {
    uint32_t mark = LOAD(process->mark);
    return mark != 0 ? mark : UINT32_MAX; /* a child that has opened nothing */
}

/* ---- readers ---- */

unsigned vv_attached_enter(void) {
    for (;;) {
        unsigned index = LOAD(process->index);
        ADD(process->readers[index], 1);
        if (LOAD(process->index) == index)
            return index;
        ADD(process->readers[index], -1u); /* somebody changed the table and may not have seen us */
    }
}

void vv_attached_leave(unsigned ticket) {
    ADD(process->readers[ticket], -1u);
}

struct vv_attached *vv_attached_find(uintptr_t address) {
    const struct table *now = LOAD(table);
    size_t at, count = now ? now->count : 0;
    VV_SEARCH(at, 0, count, now->items[at]->end <= address);
    return at < count && now->items[at]->start <= address ? now->items[at] : NULL;
}

int vv_attached_is_mapped(uintptr_t start, uintptr_t end) {
    return msync((void *)start, end - start, MS_ASYNC) == 0; /* which does nothing but look for holes */
}

int vv_attached_is_torn(void) {
    const struct table *now = LOAD(table);
    for (size_t i = 0; now && i < now->count; i++) {
        const struct vv_attached *item = now->items[i];
        if (!vv_attached_is_mapped(item->start, item->end) &&
            vv_pagebits_count(item->armed, 0, (item->end - item->start) / VV_PAGE) > 0)
            return 1;
    }
    return 0;
}

int vv_attached_was(uintptr_t address) {
    for (int i = 0; i < FORMER; i++)
        if (LOAD(former[i].start) <= address && address < LOAD(former[i].end))
            return 1;
    return 0;
}

/* ---- changing the table ---- */

/* Nobody reads what was there before. */
static void wait_for_readers(void) {
    unsigned old = LOAD(process->index);
    STORE(process->index, 1 - old);
    for (unsigned round = 0; LOAD(process->readers[old]) != 0; round++)
        if (round < 100)
            sched_yield();
        else
            usleep(50); /* the reader may be of a lower priority, and need this CPU */
}

static struct table *make_table(size_t capacity) {
    struct table *made = vv_malloc(sizeof *made + capacity * sizeof made->items[0]);
    if (made)
        *made = (struct table){0};
    return made;
}

/* Everything in the table but `without`. */
static void copy_items(struct table *copy, const struct vv_attached *without) {
    copy->count = 0;
    for (size_t i = 0; table && i < table->count; i++)
        if (table->items[i] != without)
            copy->items[copy->count++] = table->items[i];
}

static void free_tables(struct table *old) {
    if (old)
        vv_free(old->spare);
    vv_free(old);
}

static struct vv_attached *make(struct vv_guard *guard, uintptr_t start, size_t length) {
    struct vv_attached *item = vv_calloc(1, sizeof *item);
    if (!item)
        return NULL;
    *item = (struct vv_attached){.start = start, .end = start + length, .guard = guard, .owner = vv_attached_mark()};
    item->armed = vv_calloc(vv_pagebits_words(length / VV_PAGE), sizeof *item->armed);
    if (!item->armed) {
        vv_free(item);
        return NULL;
    }
    return item;
}

void vv_attached_free(struct vv_attached *attached) {
    if (attached)
        vv_free(attached->armed);
    vv_free(attached);
}

static int insert(struct table *next, struct vv_attached *item) {
    size_t at = next->count;
    while (at > 0 && next->items[at - 1]->start >= item->end)
        at--;
    if (at > 0 && next->items[at - 1]->end > item->start)
        return -EEXIST;
    memmove(&next->items[at + 1], &next->items[at], (next->count - at) * sizeof next->items[0]);
    next->items[at] = item;
    next->count++;
    return 0;
}

/* Under the lock. */
static int add_item(struct vv_attached *item) {
    struct table *old = table;
    size_t capacity = (old ? old->count : 0) + 1;
    struct table *next = make_table(capacity);
    if (next)
        next->spare = make_table(capacity);
    int rc = next && next->spare ? 0 : -ENOMEM;
    if (rc == 0) {
        copy_items(next, NULL);
        rc = insert(next, item);
    }
    if (rc != 0) {
        free_tables(next);
        return rc;
    }
    STORE(table, next);
    wait_for_readers();
    free_tables(old);
    return 0;
}

int vv_attached_add(struct vv_guard *guard, uintptr_t start, size_t length) {
    struct vv_attached *item = make(guard, start, length);
    if (!item)
        return -ENOMEM;
    sigset_t old;
    vv_signals_block(&old);
    vv_lock_take(&process->lock);
    int rc = add_item(item);
    vv_lock_give(&process->lock);
    vv_signals_restore(&old);
    if (rc != 0)
        vv_attached_free(item);
    return rc;
}

static void remember(const struct vv_attached *item) {
    struct former *slot = &former[ADD(former_next, 1) % FORMER];
    STORE(slot->end, 0); /* never a range that mixes two */
    STORE(slot->start, item->start);
    STORE(slot->end, item->end);
}

static void remove_item(const struct vv_attached *item) {
    struct table *old = table, *next = old->spare;
    remember(item);
    copy_items(next, item);
    old->spare = NULL;
    STORE(table, next);
    wait_for_readers();
    next->spare = old;
}

struct vv_attached *vv_attached_remove(struct vv_guard *guard, uintptr_t start, size_t length) {
    sigset_t old;
    vv_signals_block(&old);
    vv_lock_take(&process->lock);
    struct vv_attached *item = vv_attached_find(start);
    if (item && (item->guard != guard || item->start != start || item->end != start + length))
        item = NULL;
    if (item)
        remove_item(item);
    vv_lock_give(&process->lock);
    vv_signals_restore(&old);
    return item;
}

void vv_attached_settle(void) {
    sigset_t old;
    vv_signals_block(&old);
    vv_lock_take(&process->lock);
    wait_for_readers();
    vv_lock_give(&process->lock);
    vv_signals_restore(&old);
}

struct vv_attached *vv_attached_any(struct vv_guard *guard) {
    struct vv_attached *found = NULL;
    unsigned ticket = vv_attached_enter();
    const struct table *now = LOAD(table);
    for (size_t i = 0; now && i < now->count && !found; i++)
        if (now->items[i]->guard == guard)
            found = now->items[i];
    vv_attached_leave(ticket);
    return found;
}

/* ---- waiting ---- */

/* Who waits for other pages is left asleep: the kernel wakes by 32 bits, one for each 32nd page. */
static uint32_t wake_bits(uintptr_t start, uintptr_t end) {
    uint32_t bits = 0;
    if (end - start >= 32 * (uintptr_t)VV_PAGE)
        return UINT32_MAX;
    for (uintptr_t page = start; page < end; page += VV_PAGE)
        bits |= 1u << (page / VV_PAGE % 32);
    return bits;
}

uint32_t vv_attached_word(void) {
    return LOAD(process->word);
}

void vv_attached_wait(uint32_t word, uintptr_t page, long timeout_ns) {
    struct timespec until; /* waiting by bits takes a point in time */
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += timeout_ns;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    ADD(process->waiters, 1);
    futex(&process->word, FUTEX_WAIT_BITSET, word, &until, wake_bits(page, page + VV_PAGE));
    ADD(process->waiters, -1u);
}

void vv_attached_wake(uintptr_t start, uintptr_t end) {
    ADD(process->word, 1);
    if (LOAD(process->waiters) != 0)
        futex(&process->word, FUTEX_WAKE_BITSET, INT32_MAX, NULL, wake_bits(start, end));
}
