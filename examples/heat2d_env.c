/* heat2d.c without MPI: the ranks find each other by the environment, as torchrun or a plain shell sets it.
 *
 *     export WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500
 *     for RANK in 0 1 2 3; do export RANK; heat2d_env STORE & done; wait
 *
 * Options as there: [--rows N] [--columns N] [--steps N] [--every N] [--delay MICROSECONDS] [--out FILE]. The program's
 * own messages go through a group of its own (varve_comm_env); the session has another. If a rank dies, all others end:
 * start them again in the same way, on any number of ranks. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <varve/varve_env.h>

static int64_t rows = 1024, columns = 1024, steps = 1000, every = 100, delay_us = 0;
static const char *out_file;
static struct varve_comm *comm;
static int64_t mine;          /* rows of this rank; one row of a neighbour lies before them and one after */
static double *field, *after; /* now, and one step later */
static int64_t shape[2];      /* saved too: what is restored must be the same plate */

/* The connections of this rank close, so all others end, too. */
static void die(const char *what, const char *why) {
    fprintf(stderr, "heat2d_env: rank %d: %s: %s\n", comm ? (int)comm->rank : -1, what, why);
    exit(1);
}

static int64_t first_row_of(uint32_t whose) {
    return rows * whose / comm->ranks;
}

static double *row_of(double *of, int64_t row) {
    return of + (row + 1) * columns; /* -1 and `mine` are the neighbours' */
}

/* Hot above the first row, cold below the last; the first and the last column never change. */
static void begin(void) {
    mine = first_row_of(comm->rank + 1) - first_row_of(comm->rank);
    field = calloc((size_t)(mine + 2) * (size_t)columns, sizeof *field);
    after = calloc((size_t)(mine + 2) * (size_t)columns, sizeof *after);
    if (!field || !after)
        die("the field", "no memory");
    for (int64_t row = -1; row <= mine; row++) {
        int64_t place = first_row_of(comm->rank) + row;
        for (int64_t c = 0; c < columns; c++)
            row_of(field, row)[c] = place < 0 ? 100 : place >= rows ? 0 : (double)((place * 37 + c * 17) % 100);
        memcpy(row_of(after, row), row_of(field, row), (size_t)columns * sizeof *field);
    }
}

static int take_edge(void *arg, uint32_t rank, const void *data, size_t size) {
    (void)arg;
    if (size != (size_t)columns * sizeof *field)
        return -EPROTO;
    memcpy(row_of(field, rank < comm->rank ? -1 : mine), data, size);
    return 0;
}

static void trade_edges(void) {
    struct varve_message out[2];
    uint32_t from[2];
    size_t count = 0, size = (size_t)columns * sizeof *field;
    if (comm->rank > 0) {
        from[count] = comm->rank - 1;
        out[count++] = (struct varve_message){comm->rank - 1, row_of(field, 0), size};
    }
    if (comm->rank + 1 < comm->ranks) {
        from[count] = comm->rank + 1;
        out[count++] = (struct varve_message){comm->rank + 1, row_of(field, mine - 1), size};
    }
    if (comm->ops->exchange(comm, out, count, from, count, take_edge, NULL) != 0)
        die("step", "a rank is gone");
}

static void step_once(void) {
    trade_edges();
    for (int64_t row = 0; row < mine; row++) {
        const double *up = row_of(field, row - 1), *here = row_of(field, row), *down = row_of(field, row + 1);
        double *to = row_of(after, row);
        to[0] = here[0];
        to[columns - 1] = here[columns - 1];
        for (int64_t c = 1; c < columns - 1; c++)
            to[c] = 0.25 * ((up[c] + down[c]) + (here[c - 1] + here[c + 1]));
    }
    double *old = field;
    field = after;
    after = old;
    if (delay_us)
        usleep((useconds_t)delay_us);
}

/* The two fields change places in every step, so tell where the present one lies: these rows of the whole plate. */
static void protect(struct varve_session *s) {
    struct varve_array band = {.size = sizeof band,
                               .type = VARVE_F64,
                               .dims = 2,
                               .dim = {{(uint64_t)mine, (uint64_t)first_row_of(comm->rank), (uint64_t)rows},
                                       {(uint64_t)columns, 0, (uint64_t)columns}}};
    if (varve_protect_array(s, "temperature", row_of(field, 0), &band) != 0 ||
        varve_protect(s, "shape", shape, sizeof shape) != 0 ||
        varve_distribute(s, "shape", VARVE_REPLICATED) != 0) /* so any number of ranks may restart from it */
        die("protect", varve_session_error(s)->text);
}

/* The steps that are done. */
static int64_t restart(struct varve_session *s) {
    int64_t step = 0;
    protect(s);
    int rc = varve_restart(s, VARVE_LATEST, &step);
    if (rc == VARVE_NO_CHECKPOINT)
        return 0;
    if (rc != 0)
        die("restart", varve_session_error(s)->text);
    if (shape[0] != rows || shape[1] != columns || step > steps)
        die("restart", "what is stored is of another plate, or beyond the last step");
    if (comm->rank == 0)
        printf("restarted from step %" PRId64 "\n", step);
    return step;
}

/* A job goes on without a checkpoint, but not when another job has taken its name, or when a rank is gone. */
static void save(struct varve_session *s, int64_t step) {
    protect(s);
    int rc = varve_checkpoint(s, step);
    if (rc == 0)
        rc = varve_wait(s); /* "saved" is said of what survives */
    if (rc == VARVE_FENCED || rc == -ECOMM)
        die("checkpoint", varve_session_error(s)->text);
    if (comm->rank == 0 && rc == 0)
        printf("step %" PRId64 " saved\n", step);
    if (comm->rank == 0 && rc != 0)
        fprintf(stderr, "heat2d_env: step %" PRId64 " not saved: %s\n", step, varve_session_error(s)->text);
}

static int write_rows(void *file, uint32_t rank, const void *data, size_t size) {
    (void)rank;
    return fwrite(data, 1, size, file) == size ? 0 : -EIO;
}

static void write_field(void) {
    FILE *file = comm->rank == 0 ? fopen(out_file, "wb") : NULL;
    if (comm->rank == 0 && !file)
        die(out_file, strerror(errno));
    int rc = comm->ops->gather(comm, row_of(field, 0), (size_t)(mine * columns) * sizeof *field, write_rows, file);
    if (rc != 0 || (file && fclose(file) != 0))
        die(out_file, varve_error_text(rc ? rc : -EIO));
}

static int is_number(const char *text, int64_t least, int64_t *out) {
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return errno == 0 && end != text && *end == 0 && *out >= least && *out <= INT32_MAX;
}

static const char *read_arguments(int argc, char **argv) {
    int at = 1, is_good = 1;
    for (; at + 1 < argc && is_good; at += 2) {
        const char *name = argv[at], *value = argv[at + 1];
        if (strcmp(name, "--out") == 0)
            out_file = value;
        else
            is_good = (strcmp(name, "--rows") == 0 && is_number(value, 1, &rows)) ||
                      (strcmp(name, "--columns") == 0 && is_number(value, 3, &columns)) ||
                      (strcmp(name, "--steps") == 0 && is_number(value, 0, &steps)) ||
                      (strcmp(name, "--every") == 0 && is_number(value, 1, &every)) ||
                      (strcmp(name, "--delay") == 0 && is_number(value, 0, &delay_us));
    }
    if (!is_good || at != argc - 1 || argv[at][0] == '-')
        die("usage", "heat2d_env [--rows N] [--columns N] [--steps N] [--every N] [--delay N] [--out FILE] STORE");
    return argv[at];
}

int main(int argc, char **argv) {
    struct varve_session *session;
    struct varve_error error;
    setvbuf(stdout, NULL, _IOLBF, 0);
    const char *store = read_arguments(argc, argv);
    if (varve_comm_env(&comm, &error) != 0)
        die("start", error.text);
    if (rows < comm->ranks)
        die("--rows", "every rank needs a row");
    shape[0] = rows;
    shape[1] = columns;
    begin();
    if (varve_open_env(store, "heat2d", NULL, &session, &error) != 0)
        die("open", error.text);
    for (int64_t step = restart(session); step < steps;) {
        step_once();
        if (++step % every == 0)
            save(session, step);
    }
    if (out_file)
        write_field();
    int rc = varve_close(session);
    if (comm->rank == 0 && rc != 0)
        fprintf(stderr, "heat2d_env: the last checkpoint: %s\n", varve_error_text(rc));
    if (comm->rank == 0)
        printf("done: %" PRId64 " steps\n", steps);
    comm->ops->close(comm);
    free(field);
    free(after);
    return rc == 0 ? 0 : 1;
}
