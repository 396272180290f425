/* The rounds: the calling thread moves questions and answers while the work of the rank runs in another. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "peers/lender.h"
#include "store/read_costs.h"

#define SLICES_BYTES (64u << 20) /* that are kept as they are stored; and as many decoded */
#define WINDOW_BYTES (16u << 20)
#define LENT_SHARE 64u /* of what a rank reads, the part that may be kept for the node */
#define READERS 8u     /* threads that read for other ranks: mostly they wait for the storage */
/* How long a rank that has nothing to ask lets the others wait: not at all while there is traffic, then longer and
 * longer, so that ranks that need nothing of each other are left alone. */
#define PAUSE_FIRST_NS 50000u
#define PAUSE_MOST_NS 10000000u

/* ---- the thread of the work ---- */

int vv_peers_call(struct vv_peers *peers, int (*fn)(void *arg), void *arg) {
    if (!peers || !peers->is_running)
        return fn(arg);
    pthread_mutex_lock(&peers->lock);
    peers->call = fn;
    peers->call_arg = arg;
    pthread_cond_signal(&peers->is_asked);
    while (peers->call)
        pthread_cond_wait(&peers->is_answered, &peers->lock);
    int rc = peers->call_result;
    pthread_mutex_unlock(&peers->lock);
    return rc;
}

static void *run_work(void *arg) {
    struct vv_peers *peers = arg;
    pthread_mutex_lock(&peers->lock);
    while (peers->is_free == 0)
        pthread_cond_wait(&peers->is_answered, &peers->lock);
    int may_run = peers->is_free > 0;
    pthread_mutex_unlock(&peers->lock);
    if (may_run)
        peers->work_result = peers->work(peers->work_arg, &peers->store, &peers->work_error);
    vv_lender_rest(peers->lender);
    pthread_mutex_lock(&peers->lock);
    peers->is_done = 1;
    pthread_cond_signal(&peers->is_asked);
    pthread_mutex_unlock(&peers->lock);
    return NULL;
}

/* ---- the calling thread ---- */

/* With the lock: until there is something to do, or the pause is over. */
static void wait_for_news(struct vv_peers *peers, uint64_t pause_ns) {
    uint64_t until = vv_clock_ns() + pause_ns;
    int rc = 0;
    int was_done = peers->is_done;
    while (rc == 0 && pause_ns && peers->waiting.size == 0 && !peers->call && peers->is_done == was_done)
        rc = vv_cond_wait_until(&peers->is_asked, &peers->lock, until);
}

/* With the lock, which it gives away meanwhile. */
static void make_call(struct vv_peers *peers) {
    while (peers->call) {
        pthread_mutex_unlock(&peers->lock);
        int rc = peers->call(peers->call_arg);
        pthread_mutex_lock(&peers->lock);
        peers->call_result = rc;
        peers->call = NULL;
        pthread_cond_broadcast(&peers->is_answered);
    }
}

/* With the lock: the questions of this round, the oldest first. */
static int choose(struct vv_peers *peers, struct vv_peers_round *round) {
    struct vv_asking **waiting = (struct vv_asking **)peers->waiting.data;
    size_t count = peers->waiting.size / sizeof *waiting, bytes = 0;
    round->count = 0;
    if (count > round->capacity) {
        struct vv_asking **asked = vv_realloc(round->asked, count * sizeof *asked);
        round->asked = asked ? asked : round->asked;
        struct vv_question *questions = vv_realloc(round->questions, count * sizeof *questions);
        round->questions = questions ? questions : round->questions;
        if (!asked || !questions)
            return -ENOMEM;
        round->capacity = count;
    }
    for (size_t i = 0; i < count && (i == 0 || bytes + waiting[i]->capacity <= peers->window); i++) {
        struct vv_asking *asking = waiting[i];
        round->asked[round->count] = asking;
        round->questions[round->count++] =
            (struct vv_question){.id = asking->id, .home = asking->home, .size = asking->size, .data = asking->data};
        bytes += asking->capacity;
        asking->result = -EPROTO; /* if no answer comes */
    }
    return 0;
}

/* Those that were answered go on; what nobody had room for is asked again. */
static void hand_out(struct vv_peers *peers, const struct vv_peers_round *round) {
    pthread_mutex_lock(&peers->lock);
    struct vv_asking **waiting = (struct vv_asking **)peers->waiting.data;
    size_t count = peers->waiting.size / sizeof *waiting, kept = 0;
    for (size_t i = 0; i < count; i++) /* those of the round are the first, in order */
        if (i < round->count && waiting[i]->result != -EAGAIN)
            waiting[i]->is_answered = 1;
        else
            waiting[kept++] = waiting[i];
    peers->waiting.size = kept * sizeof *waiting;
    pthread_cond_broadcast(&peers->is_answered);
    pthread_mutex_unlock(&peers->lock);
}

/* Nobody will be answered any more. */
static void give_up(struct vv_peers *peers, int rc) {
    pthread_mutex_lock(&peers->lock);
    struct vv_asking **waiting = (struct vv_asking **)peers->waiting.data;
    for (size_t i = 0; i < peers->waiting.size / sizeof *waiting; i++) {
        waiting[i]->result = rc;
        waiting[i]->is_answered = 1;
    }
    peers->waiting.size = 0;
    peers->broken = rc;
    pthread_cond_broadcast(&peers->is_answered);
    while (!peers->is_done) { /* calls into the program are still ours to make */
        make_call(peers);
        if (!peers->is_done)
            pthread_cond_wait(&peers->is_asked, &peers->lock);
    }
    pthread_mutex_unlock(&peers->lock);
}

/* 1 if there was traffic, 0 if not, 2 when the work of all is done, or an error, the same on all ranks. */
static int one_round(struct vv_peers *peers, struct vv_peers_round *round, uint64_t pause_ns,
                     struct varve_error *error) {
    struct varve_comm *comm = peers->comm;
    pthread_mutex_lock(&peers->lock);
    wait_for_news(peers, pause_ns);
    make_call(peers);
    int rc = choose(peers, round);
    uint64_t least[3] = {(uint64_t)peers->is_done, peers->waiting.size == 0, rc == 0 ? UINT64_MAX : comm->rank};
    pthread_mutex_unlock(&peers->lock);
    rc = comm->ops->reduce_min(comm, least, 3);
    if (rc)
        return vv_error(error, rc, "the ranks can talk no more: %s", varve_error_text(rc));
    if (least[2] != UINT64_MAX) {
        vv_error(error, -ENOMEM, "no memory to ask other ranks");
        error->rank = (int)least[2];
        return -ENOMEM;
    }
    if (least[0] || least[1])
        return least[0] ? 2 : 0;
    rc = vv_hops_ask(peers->hops, round->questions, round->count, &vv_peers_ask_ops, round, NULL, error);
    if (rc)
        return rc;
    hand_out(peers, round);
    peers->own->costs->rounds++;
    return 1;
}

static int run_rounds(struct vv_peers *peers, struct varve_error *error) {
    struct vv_peers_round round = {.peers = peers};
    uint64_t pause_ns = PAUSE_FIRST_NS;
    int rc;
    while ((rc = one_round(peers, &round, pause_ns, error)) == 0 || rc == 1)
        if (rc == 1)
            pause_ns = 0;
        else
            pause_ns = pause_ns == 0 ? PAUSE_FIRST_NS : pause_ns < PAUSE_MOST_NS ? pause_ns * 2 : pause_ns;
    if (rc < 0)
        give_up(peers, rc);
    vv_free(round.asked);
    vv_free(round.questions);
    return rc < 0 ? rc : 0;
}

/* The error is of the rank that needs the data. Whose storage it was is told, too. */
static void say_who_read(const struct vv_peers *peers, struct varve_error *error) {
    *error = peers->work_error;
    size_t used = strlen(error->text);
    if (peers->refused == peers->work_result && peers->refused_by != peers->comm->rank)
        snprintf(error->text + used, sizeof error->text - used, " (rank %u was asked to read it)", peers->refused_by);
}

/* All ranks have a thread that waits, or none lets it work. */
static int run_beside(struct vv_peers *peers, struct varve_error *error) {
    pthread_t thread;
    peers->is_done = peers->is_free = peers->broken = peers->work_result = peers->refused = 0;
    vv_error_clear(&peers->work_error);
    int started = vv_thread_start(&thread, run_work, peers);
    if (started)
        vv_error(error, started, "the thread of a restart could not be started: %s", varve_error_text(started));
    int rc = vv_comm_agree(peers->comm, started, error);
    pthread_mutex_lock(&peers->lock);
    peers->is_free = rc ? -1 : 1;
    pthread_cond_broadcast(&peers->is_answered);
    pthread_mutex_unlock(&peers->lock);
    if (rc == 0)
        rc = run_rounds(peers, error);
    if (started == 0)
        pthread_join(thread, NULL);
    if (rc == 0 && (rc = peers->work_result) != 0)
        say_who_read(peers, error);
    return rc;
}

int vv_peers_is_direct(const struct vv_peers *peers) {
    return peers->mode == VV_PEERS_DIRECT || !peers->hops || peers->is_alone;
}

void vv_peers_rest(struct vv_peers *peers) {
    vv_lender_rest(peers->lender);
}

int vv_peers_work(struct vv_peers *peers, vv_work_fn work, void *arg, struct varve_error *error) {
    int rc;
    if (vv_peers_is_direct(peers)) {
        rc = work(arg, &peers->store, error);
        vv_lender_rest(peers->lender);
    } else {
        peers->work = work;
        peers->work_arg = arg;
        peers->is_running = 1;
        rc = run_beside(peers, error);
        peers->is_running = 0;
    }
    return rc;
}

int vv_peers_run(struct vv_peers *peers, vv_work_fn work, void *arg, struct varve_error *error) {
    return vv_comm_agree(peers->comm, vv_peers_work(peers, work, arg, error), error);
}

/* ---- beginning and end ---- */

static void init_threads(struct vv_peers *peers) {
    pthread_mutex_init(&peers->lock, NULL);
    pthread_mutex_init(&peers->groups_lock, NULL);
    vv_cond_init(&peers->is_asked);
    pthread_cond_init(&peers->is_answered, NULL);
}

static int open_parts(struct vv_peers *peers, const struct vv_peers_options *options) {
    uint64_t share = options->window / 4;
    size_t most = share > VV_QUESTION ? (size_t)share : VV_QUESTION;
    unsigned threads = options->threads > 0 && options->threads < READERS ? READERS : options->threads;
    peers->window = most < WINDOW_BYTES ? most : WINDOW_BYTES;
    size_t kept = most < SLICES_BYTES ? most : SLICES_BYTES;
    int rc = vv_slice_cache_create(peers->own->backend, kept, &peers->slices);
    if (rc == 0)
        rc = vv_block_cache_create(peers->slices, peers->own->costs, kept, &peers->wholes);
    return rc ? rc : vv_pool_create(threads, 2 * threads + 2, NULL, &peers->readers);
}

static void take_options(struct vv_peers *peers, const struct vv_peers_options *options) {
    peers->comm = options->comm;
    peers->own = options->store;
    peers->lent_most = options->window / 4;
    peers->name = options->name;
    peers->is_leader = options->is_leader;
    peers->backend.ops = &vv_peers_backend_ops;
    peers->store = *options->store;
    peers->store.backend = &peers->backend;
    peers->store.parts = &vv_peers_parts_ops;
    peers->store.parts_arg = peers;
}

int vv_peers_open(const struct vv_peers_options *options, struct vv_peers **out, struct varve_error *error) {
    struct varve_comm *comm = options->comm;
    struct vv_peers *peers = vv_calloc(1, sizeof *peers);
    int is_many = comm->ranks > 1, rc = peers ? 0 : -ENOMEM;
    if (peers) {
        init_threads(peers);
        take_options(peers, options);
        rc = is_many ? open_parts(peers, options) : 0;
    }
    if (rc)
        vv_error(error, rc, "no means to restart together: %s", varve_error_text(rc));
    if (rc == 0 && is_many) {
        rc = vv_hops_create(comm, VV_HOPS_AUTO, &peers->hops, error);
        rc = rc == -ENOTSUP ? 0 : rc;
    }
    if (rc) {
        vv_peers_close(peers);
        return rc;
    }
    if (peers->hops)
        peers->mode = options->is_local ? VV_PEERS_LOCAL : VV_PEERS_SHARED;
    peers->is_alone = peers->mode == VV_PEERS_SHARED; /* until somebody needs the others */
    *out = peers;
    return 0;
}

void vv_peers_close(struct vv_peers *peers) {
    if (!peers)
        return;
    vv_hops_destroy(peers->hops);
    vv_lender_close(peers->lender);
    vv_pool_destroy(peers->readers);
    vv_block_cache_destroy(peers->wholes);
    vv_slice_cache_destroy(peers->slices);
    vv_buf_clear(&peers->spreads);
    vv_buf_clear(&peers->waiting);
    vv_buf_clear(&peers->directory);
    vv_buf_clear(&peers->known);
    vv_groups_clear(peers);
    pthread_mutex_destroy(&peers->groups_lock);
    pthread_cond_destroy(&peers->is_asked);
    pthread_cond_destroy(&peers->is_answered);
    pthread_mutex_destroy(&peers->lock);
    vv_free(peers);
}

struct vv_store *vv_peers_store(struct vv_peers *peers) {
    return &peers->store;
}

int vv_peers_can_ask(const struct vv_peers *peers) {
    return peers->hops != NULL;
}

uint64_t vv_peers_decoded(const struct vv_peers *peers) {
    return peers->wholes ? vv_block_cache_decoded(peers->wholes) : 0;
}

/* Memory that the ranks of a node share, where it is to be had: a share of what the one with least reads. */
void vv_peers_lend(struct vv_peers *peers, uint64_t bytes, uint64_t least_bytes, uint32_t block_size) {
    struct varve_comm *comm = peers->comm;
    struct varve_error why = {0};
    struct vv_lender_options options = {
        .block_size = block_size, .backend = &peers->backend, .costs = peers->own->costs};
    if (peers->has_lent || peers->mode != VV_PEERS_SHARED || comm->nodes == 0 || comm->nodes == comm->ranks ||
        !comm->ops->node_size)
        return;
    peers->has_lent = 1;
    options.share = bytes > least_bytes ? (double)least_bytes / (double)bytes : 1;
    options.budget = least_bytes / LENT_SHARE * comm->ops->node_size(comm, comm->node);
    if (options.budget > peers->lent_most)
        options.budget = peers->lent_most;
    if (vv_lender_open(comm, &options, &peers->lender, &why) == 0) {
        peers->store.lend = &vv_lender_ops;
        peers->store.lend_arg = peers->lender;
    } else
        vv_log(peers->own->log, VV_LOG_INFO, "blocks are not shared on a node, so each rank reads for itself: %s",
               why.text);
}

int vv_peers_need(struct vv_peers *peers, int code, const struct vv_peers_needs *needs, struct varve_error *error) {
    uint64_t least[4] = {!needs->is_needed, needs->shared == 0, needs->bytes, needs->block_size};
    int rc = vv_comm_agree_values(peers->comm, code, least, 4, error);
    if (rc || peers->mode != VV_PEERS_SHARED)
        return rc;
    if (!least[1])
        vv_peers_lend(peers, needs->bytes, least[2], (uint32_t)least[3]);
    if (least[0] || (peers->lender && peers->comm->nodes == 1))
        peers->mode = VV_PEERS_DIRECT;
    peers->is_alone = 0;
    return 0;
}
