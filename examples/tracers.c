/* Particles that a flow carries from rank to rank: a list that goes on with any number of ranks.
 *
 *     mpirun -n 4 tracers [--steps N] [--every N] [--births N] [--delay MICROSECONDS] [--out FILE] STORE
 *
 * 300 steps, a checkpoint every 20 and 500 births per step, unless told. The flow is that of Arnold, Beltrami and
 * Childress in a cube with periodic sides. Each rank has the particles of a slab of the cube. All are born in one
 * corner, so at first most ranks have none. A particle vanishes after some steps.
 *
 * Positions and ids are two lists that all ranks have a part of (VARVE_JOINED). How long they are together is a region
 * that is the same on all ranks (VARVE_REPLICATED). A restart reads that first, asks for an even share of the lists on
 * each rank, and sends each particle to the rank of its slab. Kill it at any time and start it again on as many ranks
 * as you like: --out (id, x, y and z of each particle, 8 bytes each, sorted by id) has the same bits as if nothing had
 * been, since no particle depends on another one. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <varve/varve_mpi.h>

#define SIDE 6.283185307179586 /* of the cube */
#define STEP 0.05              /* of time */
#define LIFE 200               /* in steps, at most */

struct particle {
    uint64_t id;
    double at[3];
};

/* Two arrays, as they are stored. They are reallocated as they grow. */
struct list {
    uint64_t *ids;
    double (*positions)[3];
    size_t count, capacity;
};

static int64_t steps = 300, every = 20, births = 500, delay_us = 0;
static const char *out_file;
static int rank, ranks;
static struct list list;
static uint64_t population[2]; /* saved, and the same on all ranks: particles in all, and births per step */

/* For what one rank finds out. */
static void die(const char *what, const char *why) {
    fprintf(stderr, "tracers: rank %d: %s: %s\n", rank, what, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* For what all ranks find out: rank 0 says it and ends the job. */
static void die_together(const char *what, const char *why) {
    if (rank == 0)
        fprintf(stderr, "tracers: %s: %s\n", what, why);
    else
        sleep(2);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* ---- the list of this rank ---- */

static void *resized(void *memory, size_t count, size_t size) {
    void *larger = realloc(memory, (count ? count : 1) * size);
    if (!larger)
        die("the list", "no memory");
    return larger;
}

static void make_room(size_t count) {
    if (count <= list.capacity)
        return;
    list.capacity = count + count / 2;
    list.ids = resized(list.ids, list.capacity, sizeof *list.ids);
    list.positions = resized(list.positions, list.capacity, sizeof *list.positions);
}

static void put(size_t place, const struct particle *particle) {
    list.ids[place] = particle->id;
    memcpy(list.positions[place], particle->at, sizeof particle->at);
}

static struct particle get(size_t place) {
    struct particle particle = {.id = list.ids[place]};
    memcpy(particle.at, list.positions[place], sizeof particle.at);
    return particle;
}

static void add(const struct particle *particle) {
    make_room(list.count + 1);
    put(list.count++, particle);
}

/* ---- what checkpoints need to know ---- */

static int where_ids(void *arg, struct varve_memory *out) {
    (void)arg;
    out->ptr = list.ids;
    out->array.type = VARVE_U64;
    out->array.dims = 1;
    out->array.dim[0].local = list.count;
    return 0;
}

static int where_positions(void *arg, struct varve_memory *out) {
    (void)arg;
    out->ptr = list.positions;
    out->array.type = VARVE_F64;
    out->array.dims = 2;
    out->array.dim[0].local = list.count; /* the list goes along the first dimension */
    out->array.dim[1].local = 3;
    return 0;
}

static void protect_lists(struct varve_session *session) {
    if (varve_protect_moving(session, "ids", where_ids, NULL) != 0 ||
        varve_distribute(session, "ids", VARVE_JOINED) != 0 ||
        varve_protect_moving(session, "positions", where_positions, NULL) != 0 ||
        varve_distribute(session, "positions", VARVE_JOINED) != 0)
        die("protect", varve_session_error(session)->text);
}

/* An even share of so many particles; what they are comes from the checkpoint. */
static void take_share(uint64_t total) {
    uint64_t of = (uint64_t)ranks, me = (uint64_t)rank;
    list.count = (size_t)(total * (me + 1) / of - total * me / of);
    make_room(list.count);
}

/* The steps that are done. A checkpoint whose lists turn out to be damaged is passed over, for the next older one. */
static int64_t restart(struct varve_session *session) {
    int64_t step = 0;
    if (varve_protect(session, "population", population, sizeof population) != 0 ||
        varve_distribute(session, "population", VARVE_REPLICATED) != 0)
        die("protect", varve_session_error(session)->text);
    int rc = varve_restart(session, VARVE_LATEST, &step);
    if (rc == VARVE_NO_CHECKPOINT) {
        protect_lists(session);
        return 0;
    }
    while (rc == 0) {
        take_share(population[0]);
        protect_lists(session);
        rc = varve_restart(session, step, NULL);
        if (rc != VARVE_CORRUPT)
            break;
        varve_unprotect(session, "ids");
        varve_unprotect(session, "positions");
        rc = varve_reject(session, step);
        if (rc == 0)
            rc = varve_restart(session, VARVE_LATEST, &step);
    }
    if (rc == VARVE_NO_CHECKPOINT) /* there were some, so do not begin anew */
        die_together("restart", "no checkpoint is whole: `varve verify` names the damage");
    if (rc != 0)
        die_together("restart", varve_session_error(session)->text);
    if (population[1] != (uint64_t)births)
        die_together("restart", "what is stored has another number of births");
    if (rank == 0)
        printf("restarted from step %" PRId64 " with %" PRIu64 " particles\n", step, population[0]);
    return step;
}

/* A job goes on without a checkpoint, but not when another job has taken its name. */
static void save(struct varve_session *session, int64_t step) {
    uint64_t mine[2] = {list.count, list.count == 0}, all[2];
    char text[24];
    MPI_Allreduce(mine, all, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    population[0] = all[0];
    population[1] = (uint64_t)births;
    snprintf(text, sizeof text, "%" PRIu64, all[0]);
    if (varve_attribute(session, "particles", text) != 0) /* for people: `varve ls --long` shows it */
        die("attribute", varve_session_error(session)->text);
    int rc = varve_checkpoint(session, step);
    if (rc == 0)
        rc = varve_wait(session); /* "saved" is said of what survives */
    if (rc == VARVE_FENCED)
        die_together("checkpoint", varve_session_error(session)->text);
    if (rank == 0 && rc == 0)
        printf("step %" PRId64 " saved: %" PRIu64 " particles, none on %" PRIu64 " ranks\n", step, all[0], all[1]);
    if (rank == 0 && rc != 0)
        fprintf(stderr, "tracers: step %" PRId64 " not saved: %s\n", step, varve_session_error(session)->text);
}

/* ---- what the particles do ---- */

/* 64 bits from two numbers: what becomes of a particle depends on its id, and not on the rank that has it. */
static uint64_t mixed(uint64_t id, uint64_t what) {
    uint64_t x = id * UINT64_C(0x9e3779b97f4a7c15) + what * UINT64_C(0xbf58476d1ce4e5b9) + 1;
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static int slab_of(const double *at) {
    int slab = (int)(at[0] / SIDE * ranks);
    return slab < ranks ? slab : ranks - 1;
}

/* Each rank looks at all that are born in this step and takes those of its slab. The id tells the step of birth. */
static void give_birth(int64_t step) {
    for (int64_t i = 0; i < births; i++) {
        struct particle born = {.id = (uint64_t)(step * births + i)};
        for (unsigned k = 0; k < 3; k++)
            born.at[k] = (double)(mixed(born.id, k) >> 11) / 9007199254740992.0 * 0.2;
        if (slab_of(born.at) == rank)
            add(&born);
    }
}

static int is_alive(uint64_t id, int64_t step) {
    return step - (int64_t)(id / (uint64_t)births) < (int64_t)(1 + mixed(id, 3) % LIFE);
}

static void drift(double *at) {
    double speed[3] = {sin(at[2]) + 0.8 * cos(at[1]), 0.9 * sin(at[0]) + cos(at[2]), 0.8 * sin(at[1]) + cos(at[0])};
    for (int k = 0; k < 3; k++) {
        at[k] += STEP * speed[k];
        at[k] -= SIDE * floor(at[k] / SIDE);
    }
}

/* Those that live stay, in their order. */
static void move(int64_t step) {
    size_t kept = 0;
    for (size_t i = 0; i < list.count; i++) {
        struct particle particle = get(i);
        if (!is_alive(particle.id, step))
            continue;
        drift(particle.at);
        put(kept++, &particle);
    }
    list.count = kept;
}

/* ---- to the rank of its slab ---- */

static void place_after_each_other(const int *counts, int *places) {
    places[0] = 0;
    for (int i = 0; i < ranks; i++)
        places[i + 1] = places[i] + counts[i];
}

/* Counts and places in bytes, for each rank. */
struct parcels {
    int *counts, *places;
    char *bytes;
};

static struct parcels new_parcels(void) {
    return (struct parcels){resized(NULL, (size_t)ranks, sizeof(int)), resized(NULL, (size_t)ranks + 1, sizeof(int)),
                            NULL};
}

static void free_parcels(struct parcels *of) {
    free(of->counts);
    free(of->places);
    free(of->bytes);
}

/* Take from the list what belongs to others. */
static void pack(struct parcels *out) {
    size_t kept = 0;
    memset(out->counts, 0, (size_t)ranks * sizeof *out->counts);
    for (size_t i = 0; i < list.count; i++) {
        int to = slab_of(list.positions[i]);
        if (to != rank)
            out->counts[to] += (int)sizeof(struct particle);
    }
    place_after_each_other(out->counts, out->places);
    out->bytes = resized(NULL, (size_t)out->places[ranks], 1);
    for (size_t i = 0; i < list.count; i++) {
        struct particle particle = get(i);
        int to = slab_of(particle.at);
        if (to == rank) {
            put(kept++, &particle);
        } else {
            memcpy(out->bytes + out->places[to], &particle, sizeof particle);
            out->places[to] += (int)sizeof particle;
        }
    }
    list.count = kept;
    place_after_each_other(out->counts, out->places);
}

static void send_home(void) {
    struct parcels out = new_parcels(), in = new_parcels();
    pack(&out);
    MPI_Alltoall(out.counts, 1, MPI_INT, in.counts, 1, MPI_INT, MPI_COMM_WORLD);
    place_after_each_other(in.counts, in.places);
    in.bytes = resized(NULL, (size_t)in.places[ranks], 1);
    MPI_Alltoallv(out.bytes, out.counts, out.places, MPI_BYTE, in.bytes, in.counts, in.places, MPI_BYTE,
                  MPI_COMM_WORLD);
    for (int at = 0; at < in.places[ranks]; at += (int)sizeof(struct particle)) {
        struct particle particle;
        memcpy(&particle, in.bytes + at, sizeof particle);
        add(&particle);
    }
    free_parcels(&out);
    free_parcels(&in);
}

static void step_once(int64_t step) {
    give_birth(step);
    move(step);
    send_home();
    if (delay_us)
        usleep((useconds_t)delay_us);
}

/* ---- the result ---- */

static int by_id(const void *a, const void *b) {
    const struct particle *one = a, *other = b;
    return (one->id > other->id) - (one->id < other->id);
}

static void write_sorted(struct particle *all, size_t count) {
    qsort(all, count, sizeof *all, by_id);
    FILE *file = fopen(out_file, "wb");
    if (!file || fwrite(all, sizeof *all, count, file) != count || fclose(file) != 0)
        die(out_file, strerror(errno));
}

/* All particles come to rank 0. */
static void write_list(void) {
    struct particle *mine = resized(NULL, list.count, sizeof *mine);
    for (size_t i = 0; i < list.count; i++)
        mine[i] = get(i);
    struct parcels in = new_parcels();
    int bytes = (int)(list.count * sizeof *mine);
    MPI_Gather(&bytes, 1, MPI_INT, in.counts, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        place_after_each_other(in.counts, in.places);
        in.bytes = resized(NULL, (size_t)in.places[ranks], 1);
    }
    MPI_Gatherv(mine, bytes, MPI_BYTE, in.bytes, in.counts, in.places, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rank == 0)
        write_sorted((struct particle *)(void *)in.bytes, (size_t)in.places[ranks] / sizeof *mine);
    free_parcels(&in);
    free(mine);
}

static int is_number(const char *text, int64_t least, int64_t *out) {
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return errno == 0 && end != text && *end == 0 && *out >= least && *out <= 100000;
}

static const char *read_arguments(int argc, char **argv) {
    int at = 1, is_good = 1;
    for (; at + 1 < argc && is_good; at += 2) {
        const char *name = argv[at], *value = argv[at + 1];
        if (strcmp(name, "--out") == 0)
            out_file = value;
        else
            is_good = (strcmp(name, "--steps") == 0 && is_number(value, 0, &steps)) ||
                      (strcmp(name, "--every") == 0 && is_number(value, 1, &every)) ||
                      (strcmp(name, "--births") == 0 && is_number(value, 1, &births)) ||
                      (strcmp(name, "--delay") == 0 && is_number(value, 0, &delay_us));
    }
    if (!is_good)
        die_together(argv[at - 2], "there is no such option, or this value is not allowed");
    if (at != argc - 1 || argv[at][0] == '-')
        die_together("usage", "tracers [--steps N] [--every N] [--births N] [--delay N] [--out FILE] STORE");
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
    if (varve_open_mpi(MPI_COMM_WORLD, store, "tracers", NULL, &session, &error) != 0)
        die_together("open", error.text);
    int64_t step = restart(session);
    for (send_home(); step < steps;) {
        step_once(step);
        if (++step % every == 0)
            save(session, step);
    }
    if (out_file)
        write_list();
    int rc = varve_close(session);
    if (rank == 0 && rc != 0)
        fprintf(stderr, "tracers: the last checkpoint: %s\n", varve_error_text(rc));
    if (rank == 0)
        printf("done: %" PRId64 " steps\n", steps);
    free(list.ids);
    free(list.positions);
    MPI_Finalize();
    return rc == 0 ? 0 : 1;
}
