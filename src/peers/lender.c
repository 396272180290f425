/* Lending blocks on a node: slots in memory that its ranks share. Each holds one decoded block, or waits for the rank
 * that reads it. All ranks read what they share in the same order, so few slots do: one that all have used goes, or the
 * one used longest ago.
 *
 * A slot that not all ranks have used is kept for a moment, since the others may come: a rank that is ahead of them
 * does something else first. When the others ask for slots and do not use this one, they will not come; when one of
 * them asks for nothing, it is only slow, and is waited for longer. Without that, ranks that a busy machine has once
 * driven apart would each read everything.
 *
 * A rank may die or be stopped at any point here. So nobody waits for ever: whoever has waited too long, or for a rank
 * that is dead, reads for itself. A lock that does not come free ends the lending for this rank. */
#include "peers/lender.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/thread.h"
#include "gather/node_memory.h"
#include "store/read_costs.h"

#define PATIENCE_NS UINT64_C(5000000000)
#define LOOK_NS 200000000                 /* between two looks at the clock */
#define KEEP_NS UINT64_C(40000000)        /* for ranks that come late, when nobody else comes, either */
#define KEEP_SLOW_NS UINT64_C(2000000000) /* the same for ranks that ask for nothing meanwhile */
#define KEEP_PART 3u                      /* of the time so far that may go by so, beside that */
#define AT_REST UINT64_MAX
#define PAUSE_NS 1000000
#define PAUSE_MOST_NS 16000000
#define WAITED UINT32_C(0x80000000)
#define PAGE 4096u
#define BUDGET_MOST (64u << 20)
#define SLOTS_LEAST 8u
#define SLOTS_LARGE 4u          /* of blocks of which more would exceed BUDGET_MOST */
#define TABLES_SIZE (72u << 10) /* of what is lent beside blocks */
#define TABLES_SLOTS 128u

enum slot_state { SLOT_FREE, SLOT_LOADING, SLOT_READY, SLOT_FAILED };

struct wish {
    struct vv_hash128 id;              /* of the block */
    const struct vv_loan_parts *parts; /* NULL: all of it */
};

/* A thread that was refused a slot. */
struct waiter {
    struct waiter *next;
    size_t turn;
};

enum found {
    FOUND_NO_SLOT,
    FOUND_NEW,   /* it was not there, and is for the caller to fill */
    FOUND_THERE, /* or another rank is about to fill it */
    FOUND_OTHER, /* parts of the block: not those that are needed */
};

struct slot {
    struct vv_hash128 id;   /* of the block; zeros: nobody finds it */
    _Atomic uint32_t state; /* waited for as a futex */
    _Atomic uint32_t users; /* that have it borrowed, or wait for it; more only with the lock */
    uint32_t has_memory;    /* only whoever loads it asks for some */
    uint32_t loader;        /* local number of the rank that fills it */
    uint32_t lead;          /* where the block begins; or how many bytes there are */
    uint32_t takers;        /* how many ranks have borrowed it */
    uint64_t used;          /* the turn of its last use */
};

/* At the beginning of the shared memory, which begins as zeros. */
struct shared {
    _Atomic uint32_t lock; /* 0 free; else 1 + the local number of who has it, and WAITED */
    _Atomic uint64_t turn; /* how often a slot was borrowed */
    uint64_t begin_ns;     /* when one was borrowed first */
    uint64_t refused_ns;   /* since when none is to be had, as the free ones are kept; 0: some are */
    uint64_t waited_ns;    /* how long kept slots were kept in vain */
    _Atomic int is_short;  /* the node has no memory for more slots */
    uint32_t late;         /* ranks of the node, less those that use a slot: as was seen, or as slots have shown */
    struct slot slots[];
};

struct vv_lender {
    struct vv_node_memory *memory;
    struct shared *shared;
    _Atomic uint64_t *asked_ns; /* shared, too: when each rank last asked for a slot; or AT_REST */
    uint64_t *granules;         /* shared, too: which of a slot's are there, or will be; `words` for each */
    uint64_t *takers;           /* shared, too: which ranks have borrowed it; `rank_words` for each slot */
    uint8_t *data;
    uint32_t slots;
    uint32_t words, rank_words;
    uint32_t slot_size;
    uint32_t block_size; /* of the largest that is lent */
    uint32_t ranks;      /* of this node */
    uint32_t local;      /* this one's number among them */
    double share;        /* of what this one reads, that each of them reads at least */
    double part;         /* of all ranks, that are on this node */
    _Atomic int is_broken;
    struct varve_backend *backend;
    struct vv_read_costs *costs;
    struct vv_lender *tables;   /* for what is not blocks; in the same memory */
    pthread_mutex_t queue_lock; /* of the threads of this rank; held for a moment */
    pthread_cond_t queue_moved; /* another thread is the first */
    struct waiter *queue;       /* the threads that wait for a slot, the one whose turn it is first */
};

/* ---- waiting ---- */

/* 1 if nobody woke us. */
static int futex_wait(_Atomic uint32_t *word, uint32_t value) {
    struct timespec patience = {.tv_nsec = LOOK_NS};
    return syscall(SYS_futex, word, FUTEX_WAIT, value, &patience, NULL, 0) < 0 && errno == ETIMEDOUT;
}

static void futex_wake(_Atomic uint32_t *word, int count) {
    syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
}

/* The lock was taken by another: sleep until that changes. 0: it will not. */
static int wait_for_lock(struct vv_lender *lender, uint32_t seen, uint64_t end) {
    _Atomic uint32_t *word = &lender->shared->lock;
    uint32_t waited = seen | WAITED;
    if (seen != waited && !atomic_compare_exchange_strong(word, &seen, waited))
        return 1;
    int is_late = futex_wait(word, waited) && atomic_load(word) == waited;
    return vv_clock_ns() < end && !(is_late && !vv_node_memory_is_alive(lender->memory, (waited & ~WAITED) - 1));
}

/* 1 when it is taken. */
static int lock(struct vv_lender *lender) {
    _Atomic uint32_t *word = &lender->shared->lock;
    uint32_t seen = 0;
    if (lender->is_broken)
        return 0;
    if (atomic_compare_exchange_strong(word, &seen, lender->local + 1))
        return 1;
    uint64_t end = vv_clock_ns() + PATIENCE_NS;
    for (;;) {
        if (seen && !wait_for_lock(lender, seen, end)) {
            lender->is_broken = 1;
            return 0;
        }
        seen = 0;
        if (atomic_compare_exchange_strong(word, &seen, (lender->local + 1) | WAITED)) /* others may wait as well */
            return 1;
    }
}

static void unlock(struct vv_lender *lender) {
    if (atomic_exchange(&lender->shared->lock, 0) & WAITED)
        futex_wake(&lender->shared->lock, 1);
}

/* What became of a slot that another rank loads. */
static uint32_t wait_for(const struct vv_lender *lender, struct slot *slot) {
    uint64_t end = vv_clock_ns() + PATIENCE_NS;
    uint32_t state;
    while ((state = atomic_load(&slot->state)) == SLOT_LOADING && vv_clock_ns() < end)
        if (futex_wait(&slot->state, SLOT_LOADING) && !vv_node_memory_is_alive(lender->memory, slot->loader))
            break;
    return state;
}

/* ---- slots ---- */

static struct slot *find_slot(const struct vv_lender *lender, struct vv_hash128 id) {
    for (uint32_t i = 0; i < lender->slots; i++)
        if (vv_hash128_equal(lender->shared->slots[i].id, id))
            return &lender->shared->slots[i];
    return NULL;
}

/* Shall it be kept for ranks that have not used it yet? */
static int is_kept(const struct vv_lender *lender, const struct slot *slot) {
    return slot->takers + lender->shared->late < lender->ranks && !vv_hash128_is_zero(slot->id);
}

static int is_used_up(const struct vv_lender *lender, const struct slot *slot) {
    return slot->takers >= lender->ranks;
}

/* One that nobody uses: at best one that all ranks have used, so that only as much memory is touched as ranks are
 * apart; among these, and among the others, the one used longest ago. NULL: there is none. */
static struct slot *idle_slot(const struct vv_lender *lender, int may_be_kept) {
    struct slot *best = NULL;
    for (uint32_t i = 0; i < lender->slots; i++) {
        struct slot *slot = &lender->shared->slots[i];
        if (slot->users > 0 || (!may_be_kept && is_kept(lender, slot)) ||
            (!slot->has_memory && lender->shared->is_short))
            continue;
        int is_better = best ? is_used_up(lender, slot) - is_used_up(lender, best) : 1;
        if (is_better > 0 || (is_better == 0 && slot->used < best->used))
            best = slot;
    }
    return best;
}

/* Is there a rank that may still come, but has not asked for anything since then? */
static int is_any_slow(const struct vv_lender *lender, uint64_t since_ns) {
    for (uint32_t i = 0; i < lender->ranks; i++)
        if (atomic_load(&lender->asked_ns[i]) <= since_ns && vv_node_memory_is_alive(lender->memory, i))
            return 1;
    return 0;
}

/* None was to be had since then: may kept slots be kept on? Those who all ask for other blocks would wait for each
 * other without end, so all of it together is a part of the time. */
static int may_wait(const struct vv_lender *lender, uint64_t since_ns, uint64_t now_ns) {
    const struct shared *shared = lender->shared;
    uint64_t waited = now_ns - since_ns;
    if (shared->waited_ns > KEEP_SLOW_NS + (now_ns - shared->begin_ns) / KEEP_PART)
        return 0;
    return waited < KEEP_NS || (waited < KEEP_SLOW_NS && is_any_slow(lender, since_ns + KEEP_NS / 2));
}

/* A slot for another block. */
static struct slot *free_slot(const struct vv_lender *lender, uint64_t now_ns) {
    struct shared *shared = lender->shared;
    struct slot *slot = idle_slot(lender, 0);
    if (slot)
        return slot;
    if (shared->refused_ns == 0)
        shared->refused_ns = now_ns;
    if (may_wait(lender, shared->refused_ns, now_ns))
        return NULL;
    slot = idle_slot(lender, 1);
    if (slot) {
        shared->late = lender->ranks - slot->takers;
        shared->waited_ns += now_ns - shared->refused_ns;
    }
    return slot;
}

static uint8_t *data_of(const struct vv_lender *lender, uint32_t slot) {
    return lender->data + (size_t)slot * lender->slot_size;
}

static uint64_t *granules_of(const struct vv_lender *lender, const struct slot *slot) {
    return lender->granules + (size_t)(slot - lender->shared->slots) * lender->words;
}

static uint64_t *takers_of(const struct vv_lender *lender, const struct slot *slot) {
    return lender->takers + (size_t)(slot - lender->shared->slots) * lender->rank_words;
}

static void give_back(void *arg, const struct vv_loan *loan) {
    const struct vv_lender *lender = arg;
    lender->shared->slots[loan->slot].users--;
}

/* Nobody else shall wait for a slot that was waited for in vain. */
static void hide(struct vv_lender *lender, struct slot *slot) {
    if (lock(lender)) {
        slot->id = (struct vv_hash128){0, 0};
        unlock(lender);
    }
}

/* Does whoever fills this slot read all that is needed? That is known before it is done. */
static int has_parts(const struct vv_lender *lender, const struct slot *slot, const struct vv_loan_parts *parts) {
    const uint64_t *there = granules_of(lender, slot);
    for (size_t i = 0; i < lender->words; i++)
        if ((parts ? parts->needed[i] : UINT64_MAX) & ~there[i])
            return 0;
    return 1;
}

static void begin_slot(const struct vv_lender *lender, struct slot *slot, const struct wish *wish) {
    uint64_t *there = granules_of(lender, slot);
    slot->id = wish->id;
    slot->takers = 0;
    memset(takers_of(lender, slot), 0, lender->rank_words * sizeof(uint64_t));
    slot->loader = lender->local;
    atomic_store(&slot->state, SLOT_LOADING);
    for (size_t i = 0; i < lender->words; i++)
        there[i] = wish->parts ? wish->parts->read[i] : UINT64_MAX;
}

static void use_slot(const struct vv_lender *lender, struct slot *slot, uint64_t now_ns) {
    struct shared *shared = lender->shared;
    uint64_t *word = takers_of(lender, slot) + lender->local / 64, bit = UINT64_C(1) << lender->local % 64;
    slot->takers += !(*word & bit); /* who cannot take all of it at once comes again */
    *word |= bit;
    slot->used = ++shared->turn;
    shared->refused_ns = 0;
    shared->begin_ns = shared->begin_ns ? shared->begin_ns : now_ns;
    if (slot->takers + shared->late > lender->ranks)
        shared->late = slot->takers < lender->ranks ? lender->ranks - slot->takers : 0;
}

/* The slot of this block, borrowed; or NULL. may_begin: also a slot in which it is not yet. */
static struct slot *borrow(struct vv_lender *lender, const struct wish *wish, int may_begin, enum found *found) {
    *found = FOUND_NO_SLOT;
    if (!lock(lender)) {
        lender->asked_ns[lender->local] = AT_REST; /* it borrows nothing any more */
        return NULL;
    }
    (void)VV_FAULT("peers.lender.locked"); /* where a rank dies with the lock */
    uint64_t now = vv_clock_ns();
    lender->asked_ns[lender->local] = now;
    struct slot *slot = find_slot(lender, wish->id);
    if (slot && !wish->parts && !has_parts(lender, slot, NULL)) {
        slot->id = (struct vv_hash128){0, 0}; /* its parts came first; all of the block serves everybody */
        slot = NULL;
    }
    if (slot)
        *found = has_parts(lender, slot, wish->parts) ? FOUND_THERE : FOUND_OTHER;
    else if (may_begin && (slot = free_slot(lender, now))) {
        begin_slot(lender, slot, wish);
        *found = FOUND_NEW;
    }
    if (slot)
        use_slot(lender, slot, now);
    if (*found == FOUND_OTHER)
        slot = NULL;
    if (slot)
        slot->users++;
    unlock(lender);
    return slot;
}

/* Is it worth waiting for a slot? */
static int may_come(const struct vv_lender *lender) {
    return !lender->is_broken && !lender->shared->is_short;
}

static void join_queue(struct vv_lender *lender, struct waiter *waiter) {
    struct waiter **at = &lender->queue;
    pthread_mutex_lock(&lender->queue_lock);
    while (*at && (*at)->turn <= waiter->turn)
        at = &(*at)->next;
    waiter->next = *at;
    *at = waiter;
    pthread_mutex_unlock(&lender->queue_lock);
}

static void leave_queue(struct vv_lender *lender, const struct waiter *waiter) {
    struct waiter **at = &lender->queue;
    pthread_mutex_lock(&lender->queue_lock);
    while (*at != waiter)
        at = &(*at)->next;
    *at = waiter->next;
    pthread_cond_broadcast(&lender->queue_moved);
    pthread_mutex_unlock(&lender->queue_lock);
}

/* Until it may be worth looking again: slots are freed by other ranks, too, which tell nobody. was_first: when this
 * thread last looked. */
static void pause_in_queue(struct vv_lender *lender, const struct waiter *waiter, int was_first, uint64_t pause_ns) {
    uint64_t until = vv_clock_ns() + pause_ns;
    pthread_mutex_lock(&lender->queue_lock);
    if (was_first || lender->queue != waiter)
        vv_cond_wait_until(&lender->queue_moved, &lender->queue_lock, until);
    pthread_mutex_unlock(&lender->queue_lock);
}

static int is_first(struct vv_lender *lender, const struct waiter *waiter) {
    pthread_mutex_lock(&lender->queue_lock);
    int is_first = lender->queue == waiter;
    pthread_mutex_unlock(&lender->queue_lock);
    return is_first;
}

/* The same as borrow, with some patience. The threads of a rank get free slots in the order of what they read: if later
 * blocks took them all, this rank and others would each wait for blocks that the others have passed by. Patience ends
 * when it is this one's turn and no rank of the node has got a slot for long: they were left behind. Then the next one
 * shall not take as long. */
static struct slot *borrow_at_last(struct vv_lender *lender, const struct wish *wish, size_t turn, enum found *found) {
    struct waiter waiter = {.turn = turn};
    uint64_t end = vv_clock_ns() + PATIENCE_NS, seen = 0, pause_ns = PAUSE_NS;
    struct slot *slot = NULL;
    int may_begin = 0;
    join_queue(lender, &waiter);
    for (;;) {
        int was_first = may_begin;
        may_begin = is_first(lender, &waiter);
        pause_ns = may_begin != was_first ? PAUSE_NS : pause_ns; /* it holds up the others now */
        uint64_t borrowed = atomic_load(&lender->shared->turn), now = vv_clock_ns();
        slot = borrow(lender, wish, may_begin, found);
        if (slot || *found != FOUND_NO_SLOT || !may_come(lender))
            break;
        if (!may_begin || borrowed != seen)
            end = now + PATIENCE_NS;
        seen = borrowed;
        pause_in_queue(lender, &waiter, may_begin, pause_ns);
        pause_ns = pause_ns < PAUSE_MOST_NS ? pause_ns * 2 : PAUSE_MOST_NS;
        if (now > end)
            lender->is_broken = 1;
    }
    leave_queue(lender, &waiter);
    return slot;
}

/* ---- the operations ---- */

static void filled(void *arg, struct vv_loan *loan, uint32_t lead, int rc) {
    struct vv_lender *lender = arg;
    struct slot *slot = &lender->shared->slots[loan->slot];
    slot->lead = lead;
    loan->data += lead;
    if (rc < 0)
        hide(lender, slot);
    atomic_store(&slot->state, rc < 0 ? SLOT_FAILED : SLOT_READY);
    futex_wake(&slot->state, INT32_MAX);
}

/* There is memory to fill it. It comes when it is first needed, so that slots that nobody needs cost nothing. */
static int has_memory(struct vv_lender *lender, struct vv_loan *loan) {
    struct slot *slot = &lender->shared->slots[loan->slot];
    size_t offset = (size_t)(loan->data - (const uint8_t *)vv_node_memory_at(lender->memory));
    if (slot->has_memory || vv_node_memory_add(lender->memory, offset, lender->slot_size) == 0) {
        slot->has_memory = 1;
        return 1;
    }
    lender->shared->is_short = 1;
    filled(lender, loan, 0, -ENOMEM);
    give_back(lender, loan);
    return 0;
}

static enum vv_loan_state take(void *arg, const char *key, const struct vv_block *block,
                               const struct vv_loan_parts *parts, size_t turn, struct vv_loan *out) {
    struct vv_lender *lender = arg;
    enum found found;
    if (block->raw > lender->block_size)
        return VV_LOAN_NONE;
    struct wish wish = {.id = vv_block_cache_id(key, block), .parts = parts};
    struct slot *slot = turn ? borrow_at_last(lender, &wish, turn, &found) : borrow(lender, &wish, 1, &found);
    if (!slot)
        return found == FOUND_OTHER || turn || !may_come(lender) ? VV_LOAN_NONE : VV_LOAN_LATER;
    out->slot = (uint32_t)(slot - lender->shared->slots);
    out->data = data_of(lender, out->slot);
    if (found == FOUND_NEW)
        return has_memory(lender, out) ? VV_LOAN_EMPTY : VV_LOAN_NONE;
    uint64_t begin = vv_clock_ns();
    uint32_t state = wait_for(lender, slot);
    vv_cost(&lender->costs->waiting_ns, begin);
    if (state == SLOT_READY && slot->lead <= VV_LEND_SLACK) {
        out->data += slot->lead;
        return VV_LOAN_FULL;
    }
    if (state == SLOT_LOADING)
        hide(lender, slot);
    give_back(arg, out);
    return VV_LOAN_NONE;
}

static struct vv_hash128 bytes_id(const char *key, uint64_t offset, size_t size) {
    struct vv_hash128 name = vv_peers_key_id(key);
    uint64_t words[] = {name.low, name.high, offset, size};
    return vv_digest(words, sizeof words);
}

/* How many bytes of another rank's reading were copied; -1: there are none. */
static int64_t copy_lent(struct vv_lender *lender, struct slot *slot, void *data, size_t size) {
    uint64_t begin = vv_clock_ns();
    uint32_t state = wait_for(lender, slot), got = slot->lead;
    vv_cost(&lender->costs->waiting_ns, begin);
    if (state == SLOT_LOADING)
        hide(lender, slot);
    if (state != SLOT_READY || got > size)
        return -1;
    memcpy(data, data_of(lender, (uint32_t)(slot - lender->shared->slots)), got);
    return got;
}

static int64_t get(void *arg, const char *key, uint64_t offset, void *data, size_t size) {
    struct vv_lender *lender = ((struct vv_lender *)arg)->tables;
    enum found found;
    struct wish wish = {.id = bytes_id(key, offset, size)};
    struct slot *slot = size <= lender->block_size ? borrow(lender, &wish, 1, &found) : NULL;
    if (!slot)
        return vv_backend_get(lender->backend, key, offset, data, size);
    struct vv_loan loan = {.slot = (uint32_t)(slot - lender->shared->slots)};
    loan.data = data_of(lender, loan.slot);
    int is_new = found == FOUND_NEW;
    if (is_new && !has_memory(lender, &loan))
        return vv_backend_get(lender->backend, key, offset, data, size);
    int64_t got =
        is_new ? vv_backend_get(lender->backend, key, offset, data, size) : copy_lent(lender, slot, data, size);
    if (is_new) {
        if (got > 0)
            memcpy(loan.data, data, (size_t)got);
        filled(lender, &loan, got > 0 ? (uint32_t)got : 0, got < 0 ? -EIO : 0);
    }
    give_back(lender, &loan);
    return is_new || got >= 0 ? got : vv_backend_get(lender->backend, key, offset, data, size);
}

static double wanted(const void *arg, double most) {
    const struct vv_lender *lender = arg;
    double by_share = 1 + (lender->ranks - 1) * lender->share, here = most * lender->part;
    return here < 1 ? 1 : here < by_share ? here : by_share;
}

const struct vv_lend_ops vv_lender_ops = {
    .take = take, .filled = filled, .give_back = give_back, .wanted = wanted, .get = get};

/* ---- beginning and end ---- */

static uint64_t slot_bytes(uint32_t size) {
    return ((uint64_t)size + VV_LEND_SLACK + PAGE - 1) / PAGE * PAGE;
}

/* `slots` slots for blocks of so many bytes each. */
struct layout {
    uint64_t slots;
    uint32_t size, words, rank_words;       /* of a block, for its granules, and for the ranks that borrow it */
    uint64_t asked, granules, takers, head; /* where these begin, and all that comes before the data, in bytes */
};

static struct layout lay_out(uint64_t slots, uint32_t size, uint32_t ranks) {
    struct layout layout = {.slots = slots, .size = size};
    layout.words = (uint32_t)(vv_granules(size) + VV_LEND_WORD - 1) / VV_LEND_WORD;
    layout.asked = sizeof(struct shared) + slots * sizeof(struct slot);
    layout.rank_words = (ranks + 63) / 64;
    layout.granules = layout.asked + ranks * sizeof(uint64_t);
    layout.takers = layout.granules + slots * layout.words * sizeof(uint64_t);
    layout.head = (layout.takers + slots * layout.rank_words * sizeof(uint64_t) + PAGE - 1) / PAGE * PAGE;
    return layout;
}

static uint64_t data_bytes(const struct layout *layout) {
    return layout->slots * slot_bytes(layout->size);
}

static void init(struct vv_lender *lender, const struct layout *layout, uint8_t *head, uint8_t *data) {
    lender->shared = (struct shared *)(void *)head;
    lender->asked_ns = (_Atomic uint64_t *)(void *)(head + layout->asked);
    lender->granules = (uint64_t *)(void *)(head + layout->granules);
    lender->takers = (uint64_t *)(void *)(head + layout->takers);
    lender->rank_words = layout->rank_words;
    lender->data = data;
    lender->slots = (uint32_t)layout->slots;
    lender->words = layout->words;
    lender->slot_size = (uint32_t)slot_bytes(layout->size);
    lender->block_size = layout->size;
}

/* How many slots for blocks: as many as the budget has room for, within bounds. */
static uint64_t count_slots(const struct vv_lender_options *options, uint32_t ranks) {
    uint64_t budget = options->budget < BUDGET_MOST ? options->budget : BUDGET_MOST;
    uint64_t slots = budget / slot_bytes(options->block_size);
    uint64_t most = BUDGET_MOST / slot_bytes(options->block_size); /* large blocks: few */
    uint64_t wanted = ranks > SLOTS_LEAST ? ranks : SLOTS_LEAST;   /* many ranks are further apart */
    uint64_t least = most > wanted ? wanted : most > SLOTS_LARGE ? most : SLOTS_LARGE;
    return slots > least ? slots : least;
}

int vv_lender_open(struct varve_comm *comm, const struct vv_lender_options *options, struct vv_lender **out,
                   struct varve_error *error) {
    uint32_t ranks = comm->ops->node_size(comm, comm->node);
    const struct layout blocks = lay_out(count_slots(options, ranks), options->block_size, ranks);
    const struct layout tables = lay_out(TABLES_SLOTS, TABLES_SIZE, ranks);
    uint64_t heads = blocks.head + tables.head;
    struct vv_lender *lender = vv_calloc(2, sizeof *lender);
    struct vv_node_memory *memory = NULL;
    *out = NULL;
    int rc = lender ? 0 : vv_error(error, -ENOMEM, "no memory to lend blocks");
    rc = vv_node_memory_reserve(comm, rc, (size_t)(heads + data_bytes(&blocks) + data_bytes(&tables)), (size_t)heads,
                                &memory, error);
    if (rc) {
        vv_free(lender);
        return rc;
    }
    uint8_t *begin = vv_node_memory_at(memory);
    lender[0] = lender[1] = (struct vv_lender){.memory = memory,
                                               .ranks = ranks,
                                               .local = comm->local,
                                               .share = options->share,
                                               .part = (double)ranks / comm->ranks,
                                               .backend = options->backend,
                                               .costs = options->costs};
    init(&lender[0], &blocks, begin, begin + heads);
    init(&lender[1], &tables, begin + blocks.head, begin + heads + data_bytes(&blocks));
    for (int i = 0; i < 2; i++) {
        pthread_mutex_init(&lender[i].queue_lock, NULL);
        vv_cond_init(&lender[i].queue_moved);
    }
    lender->tables = &lender[1];
    *out = lender;
    return 0;
}

void vv_lender_rest(struct vv_lender *lender) {
    for (; lender; lender = lender->tables)
        lender->asked_ns[lender->local] = AT_REST;
}

void vv_lender_close(struct vv_lender *lender) {
    if (!lender)
        return;
    vv_node_memory_close(lender->memory);
    for (int i = 0; i < 2; i++) {
        pthread_cond_destroy(&lender[i].queue_moved);
        pthread_mutex_destroy(&lender[i].queue_lock);
    }
    vv_free(lender);
}
