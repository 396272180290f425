/* Particles on a ring that are born, move from rank to rank, and vanish; and the program survives being killed.
 *
 *     mpirun -n 4 particles [--steps N] [--every N] [--births N] [--delay MICROSECONDS] STORE
 *
 * 300 steps, a checkpoint every 20 and 400 births per rank and step, unless told. Each rank has the particles of its
 * part of the ring, in a list that is reallocated as it grows and shrinks. So the list is protected with
 * varve_protect_moving, which asks where it is at each checkpoint; and a restart gets its length from the store, with
 * varve_restart_alloc. The version of a checkpoint is the number of steps done. Kill it at any time and start it again
 * in the same way, on as many ranks: the last line is the same as if nothing had been. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <varve/varve_mpi.h>

#define NUMBERS 4 /* of a particle */
struct particle {
    double x; /* 0 to 1, around the ring */
    double v; /* a hundredth of the ring per step, at the most */
    double id;
    double life; /* steps that are left */
};

struct list {
    struct particle *items;
    size_t count, capacity;
};

static int64_t steps = 300, every = 20, births = 400, delay_us = 0;
static int rank, ranks;
static struct list list;
static struct { uint64_t random, born; } state; /* saved too: after a restart the same particles are born */

/* For what one rank finds out. */
static void die(const char *what, const char *why) {
    fprintf(stderr, "particles: rank %d: %s: %s\n", rank, what, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* For what all ranks find out: rank 0 says it and ends the job. */
static void die_together(const char *what, const char *why) {
    if (rank == 0)
        fprintf(stderr, "particles: %s: %s\n", what, why);
    else
        sleep(2);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* ---- a list that moves and grows ---- */

static void resize(struct list *of, size_t capacity) {
    struct particle *items = realloc(of->items, (capacity ? capacity : 1) * sizeof *items);
    if (!items)
        die("the list", "no memory");
    of->items = items;
    of->capacity = capacity;
}

static void add(struct list *to, const struct particle *particle) {
    if (to->count == to->capacity)
        resize(to, to->capacity ? to->capacity + to->capacity / 2 : 1000);
    to->items[to->count++] = *particle;
}

/* ---- what checkpoints need to know ---- */

/* Asked at each checkpoint: where is it now, and what does it hold? */
static int where(void *arg, struct varve_memory *out) {
    const struct list *of = arg;
    out->ptr = of->items;
    out->array.type = VARVE_F64;
    out->array.dims = 2;
    out->array.dim[0].local = of->count;
    out->array.dim[1].local = NUMBERS;
    return 0;
}

/* Asked in a restart: so many bytes are stored. If that checkpoint turns out to be damaged, its memory is released, and
 * this is asked again for an older one. */
static void *allocate(void *arg, const struct varve_region_info *region) {
    struct list *of = arg;
    if (strcmp(region->name, "particles") != 0)
        return VARVE_NOT_WANTED;
    of->items = malloc(region->bytes ? region->bytes : 1);
    of->count = of->capacity = of->items ? region->bytes / sizeof *of->items : 0;
    return of->items;
}

static void release(void *arg, const char *region, void *ptr) {
    (void)region;
    free(ptr);
    *(struct list *)arg = (struct list){0};
}

/* The steps that are done. */
static int64_t restart(struct varve_session *session) {
    static const struct varve_allocator allocator = {.size = sizeof allocator, .alloc = allocate, .release = release};
    int64_t step = 0;
    if (varve_protect(session, "state", &state, sizeof state) != 0 ||
        varve_protect_moving(session, "particles", where, &list) != 0)
        die("protect", varve_session_error(session)->text);
    int rc = varve_restart_alloc(session, VARVE_LATEST, &allocator, &list, &step);
    if (rc == VARVE_NO_CHECKPOINT)
        return 0;
    if (rc != 0)
        die_together("restart", varve_session_error(session)->text);
    if (rank == 0)
        printf("restarted from step %" PRId64 "\n", step);
    return step;
}

/* A job goes on without a checkpoint, but not when another job has taken its name. */
static void save(struct varve_session *session, int64_t step) {
    int rc = varve_checkpoint(session, step);
    if (rc == VARVE_FENCED)
        die_together("checkpoint", varve_session_error(session)->text);
    if (rank == 0 && rc == 0)
        printf("step %" PRId64 "\n", step);
    if (rank == 0 && rc != 0) /* with VARVE_EARLIER_FAILED it is the one before that does not exist */
        fprintf(stderr, "particles: step %" PRId64 ": %s\n", step, varve_session_error(session)->text);
}

/* ---- what the particles do ---- */

static double next_random(void) {
    state.random = state.random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(state.random >> 11) / 9007199254740992.0;
}

static void give_birth(void) {
    int64_t count = (int64_t)(next_random() * 2 * (double)births);
    for (int64_t i = 0; i < count; i++) {
        struct particle particle = {.x = (rank + next_random()) / ranks,
                                    .v = (next_random() - 0.5) * 0.02,
                                    .id = (double)(state.born++ * (uint64_t)ranks + (uint64_t)rank),
                                    .life = 1 + floor(next_random() * 100)};
        add(&list, &particle);
    }
}

/* To the neighbour on one side, and from the one on the other. */
static void pass_on(const struct list *leaving, int to, int from) {
    unsigned long long out = leaving->count * NUMBERS, in = 0;
    MPI_Sendrecv(&out, 1, MPI_UNSIGNED_LONG_LONG, to, 0, &in, 1, MPI_UNSIGNED_LONG_LONG, from, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    size_t coming = (size_t)in / NUMBERS;
    if (list.count + coming > list.capacity)
        resize(&list, list.count + coming);
    MPI_Sendrecv(leaving->items, (int)out, MPI_DOUBLE, to, 1, list.items + list.count, (int)in, MPI_DOUBLE, from, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    list.count += coming;
}

static int rank_at(double x) {
    int at = (int)(x * ranks);
    return at < ranks ? at : ranks - 1;
}

/* Those that stay come to the front of the list, in their order. */
static void move(struct list *up, struct list *down) {
    size_t kept = 0;
    for (size_t i = 0; i < list.count; i++) {
        struct particle particle = list.items[i];
        if (--particle.life <= 0)
            continue;
        particle.x += particle.v;
        particle.x -= floor(particle.x);
        int at = rank_at(particle.x);
        if (at == rank)
            list.items[kept++] = particle;
        else
            add(at == (rank + 1) % ranks ? up : down, &particle);
    }
    list.count = kept;
}

static void step_once(void) {
    struct list up = {0}, down = {0};
    int above = (rank + 1) % ranks, below = (rank + ranks - 1) % ranks;
    give_birth();
    move(&up, &down);
    pass_on(&up, above, below);
    pass_on(&down, below, above);
    if (list.capacity > 2 * list.count + 1000)
        resize(&list, list.count);
    free(up.items);
    free(down.items);
    if (delay_us)
        usleep((useconds_t)delay_us);
}

/* The same whatever the order of the particles. */
static void tell_result(void) {
    uint64_t sums[2] = {list.count, 0}, all[2] = {0};
    for (size_t i = 0; i < list.count; i++) {
        uint64_t bits[NUMBERS], sum = 0;
        memcpy(bits, &list.items[i], sizeof bits);
        for (int k = 0; k < NUMBERS; k++)
            sum = (sum ^ bits[k]) * UINT64_C(0x9e3779b97f4a7c15);
        sums[1] += sum;
    }
    MPI_Reduce(sums, all, 2, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("done: %" PRId64 " steps, %" PRIu64 " particles, sum %016" PRIx64 "\n", steps, all[0], all[1]);
}

static int is_number(const char *text, int64_t *out) {
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return errno == 0 && end != text && *end == 0 && *out >= 0 && *out <= INT32_MAX;
}

static const char *read_arguments(int argc, char **argv) {
    int at = 1;
    for (; at + 1 < argc; at += 2) {
        int64_t *number = strcmp(argv[at], "--steps") == 0    ? &steps
                          : strcmp(argv[at], "--every") == 0  ? &every
                          : strcmp(argv[at], "--births") == 0 ? &births
                          : strcmp(argv[at], "--delay") == 0  ? &delay_us
                                                              : NULL;
        if (!number || !is_number(argv[at + 1], number))
            die_together(argv[at], "there is no such option, or this value is not allowed");
    }
    if (at != argc - 1 || argv[at][0] == '-' || every == 0 || ranks > 64)
        die_together("usage", "particles [--steps N] [--every N] [--births N] [--delay N] STORE, on 64 ranks at most");
    return argv[at];
}

int main(int argc, char **argv) {
    struct varve_session *session;
    struct varve_error error;
    int level; /* with less than is asked for it works, too */
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    setvbuf(stdout, NULL, _IOLBF, 0);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const char *store = read_arguments(argc, argv);
    state.random = UINT64_C(88172645463325252) + (uint64_t)rank;
    if (varve_open_mpi(MPI_COMM_WORLD, store, "particles", NULL, &session, &error) != 0)
        die_together("open", error.text);
    for (int64_t step = restart(session); step < steps;) {
        step_once();
        if (++step % every == 0)
            save(session, step);
    }
    tell_result();
    int rc = varve_close(session);
    if (rank == 0 && rc != 0)
        fprintf(stderr, "particles: the last checkpoint: %s\n", varve_error_text(rc));
    free(list.items);
    MPI_Finalize();
    return rc == 0 ? 0 : 1;
}
