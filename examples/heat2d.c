/* Heat spreading over a plate, on many ranks, and it survives being killed.
 *
 *     mpirun -n 4 heat2d [--rows N] [--columns N] [--steps N] [--every N] [--delay MICROSECONDS] [--out FILE] STORE
 *
 * A plate of 1024 rows and columns, 1000 steps and a checkpoint every 100, unless told. Each rank has a band of rows
 * and exchanges those at its edges with its neighbours before each step. The version of a checkpoint is the number of
 * steps done. Kill it at any time and start it again in the same way: it goes on from the last checkpoint. The field in
 * --out (doubles, row after row) has the same bits however often it was killed and on however many ranks it ran, since
 * every cell is computed from the same numbers in the same order. */
#include <errno.h>
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <varve/varve_mpi.h>

static int64_t rows = 1024, columns = 1024, steps = 1000, every = 100, delay_us = 0;
static const char *out_file;
static int rank, ranks;
static int64_t mine;          /* rows of this rank; one row of a neighbour lies before them and one after */
static double *field, *after; /* now, and one step later */
static int64_t shape[2];      /* saved too: what is restored must be the same plate */

/* For what one rank finds out. */
static void die(const char *what, const char *why) {
    fprintf(stderr, "heat2d: rank %d: %s: %s\n", rank, what, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* For what all ranks find out: rank 0 says it and ends the job; the others leave it the time to do so. */
static void die_together(const char *what, const char *why) {
    if (rank == 0)
        fprintf(stderr, "heat2d: %s: %s\n", what, why);
    else
        sleep(2);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* What failed, and on which rank: all ranks have the same text. */
static const char *reason(const struct varve_error *error) {
    static char text[sizeof error->text + 32];
    if (error->rank < 0)
        return error->text;
    snprintf(text, sizeof text, "%s (on rank %d)", error->text, error->rank);
    return text;
}

static int64_t first_row_of(int whose) {
    return rows * whose / ranks;
}

static double *row_of(double *of, int64_t row) {
    return of + (row + 1) * columns; /* -1 and `mine` are the neighbours' */
}

/* Hot above the first row, cold below the last; the first and the last column never change. */
static void begin(void) {
    size_t cells = (size_t)(mine + 2) * (size_t)columns;
    field = calloc(cells, sizeof *field);
    after = calloc(cells, sizeof *after);
    if (!field || !after)
        die("the field", "no memory");
    for (int64_t row = -1; row <= mine; row++) {
        int64_t place = first_row_of(rank) + row;
        for (int64_t c = 0; c < columns; c++)
            row_of(field, row)[c] = place < 0 ? 100 : place >= rows ? 0 : (double)((place * 37 + c * 17) % 100);
        memcpy(row_of(after, row), row_of(field, row), (size_t)columns * sizeof *field);
    }
}

static void trade_edges(void) {
    int above = rank > 0 ? rank - 1 : MPI_PROC_NULL, below = rank < ranks - 1 ? rank + 1 : MPI_PROC_NULL;
    int n = (int)columns;
    MPI_Sendrecv(row_of(field, 0), n, MPI_DOUBLE, above, 0, row_of(field, mine), n, MPI_DOUBLE, below, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(row_of(field, mine - 1), n, MPI_DOUBLE, below, 0, row_of(field, -1), n, MPI_DOUBLE, above, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
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
                               .dim = {{(uint64_t)mine, (uint64_t)first_row_of(rank), (uint64_t)rows},
                                       {(uint64_t)columns, 0, (uint64_t)columns}}};
    if (varve_protect_array(s, "temperature", row_of(field, 0), &band) != 0 ||
        varve_protect(s, "shape", shape, sizeof shape) != 0 ||
        varve_distribute(s, "shape", VARVE_REPLICATED) != 0) /* so any number of ranks may restart from it */
        die("protect", reason(varve_session_error(s)));
}

/* The steps that are done. */
static int64_t restart(struct varve_session *s) {
    int64_t step = 0;
    protect(s);
    int rc = varve_restart(s, VARVE_LATEST, &step);
    if (rc == VARVE_NO_CHECKPOINT)
        return 0;
    if (rc != 0)
        die_together("restart", reason(varve_session_error(s)));
    if (shape[0] != rows || shape[1] != columns)
        die_together("restart", "what is stored is a plate of another shape");
    if (step > steps)
        die_together("restart", "what is stored is beyond the last step");
    if (rank == 0)
        printf("restarted from step %" PRId64 "\n", step);
    return step;
}

/* A job goes on without a checkpoint, but not when another job has taken its name: both would write the same files. */
static void save(struct varve_session *s, int64_t step) {
    char time[32]; /* simulated; a unit of it is the square of a cell over the diffusivity */
    protect(s);
    snprintf(time, sizeof time, "%g", 0.25 * (double)step);
    if (varve_attribute(s, "time", time) != 0)
        die("attribute", reason(varve_session_error(s)));
    int rc = varve_checkpoint(s, step);
    if (rc == 0)
        rc = varve_wait(s); /* "saved" is said of what survives */
    if (rc == VARVE_FENCED)
        die_together("checkpoint", reason(varve_session_error(s)));
    if (rank == 0 && rc == 0)
        printf("step %" PRId64 " saved\n", step);
    if (rank == 0 && rc != 0)
        fprintf(stderr, "heat2d: step %" PRId64 " not saved: %s\n", step, reason(varve_session_error(s)));
}

/* Rank 0 writes its rows and then those of the others, as they come. */
static void write_field(void) {
    for (int64_t row = 0; rank != 0 && row < mine; row++)
        MPI_Send(row_of(field, row), (int)columns, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD);
    if (rank != 0)
        return;
    FILE *file = fopen(out_file, "wb");
    if (!file)
        die(out_file, strerror(errno));
    for (int whose = 0; whose < ranks; whose++)
        for (int64_t row = 0; row < first_row_of(whose + 1) - first_row_of(whose); row++) {
            double *data = whose == 0 ? row_of(field, row) : after;
            if (whose != 0)
                MPI_Recv(data, (int)columns, MPI_DOUBLE, whose, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (fwrite(data, sizeof *data, (size_t)columns, file) != (size_t)columns)
                die(out_file, strerror(errno));
        }
    if (fclose(file) != 0)
        die(out_file, strerror(errno));
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
            is_good = (strcmp(name, "--rows") == 0 && is_number(value, ranks, &rows)) || /* one for each rank */
                      (strcmp(name, "--columns") == 0 && is_number(value, 3, &columns)) ||
                      (strcmp(name, "--steps") == 0 && is_number(value, 0, &steps)) ||
                      (strcmp(name, "--every") == 0 && is_number(value, 1, &every)) ||
                      (strcmp(name, "--delay") == 0 && is_number(value, 0, &delay_us));
    }
    if (!is_good)
        die_together(argv[at - 2], "there is no such option, or this value is not allowed");
    if (at != argc - 1 || argv[at][0] == '-' || rows < ranks)
        die_together("usage", "heat2d [--rows N] [--columns N] [--steps N] [--every N] [--delay N] [--out FILE] STORE");
    return argv[at];
}

int main(int argc, char **argv) {
    struct varve_session *session;
    struct varve_error error;
    int level; /* with less than is asked for it works, too: the ranks then talk about checkpoints inside the calls only
                */
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    setvbuf(stdout, NULL, _IOLBF, 0);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const char *store = read_arguments(argc, argv);
    mine = first_row_of(rank + 1) - first_row_of(rank);
    shape[0] = rows;
    shape[1] = columns;
    begin();
    if (varve_open_mpi(MPI_COMM_WORLD, store, "heat2d", NULL, &session, &error) != 0)
        die_together("open", reason(&error));
    for (int64_t step = restart(session); step < steps;) {
        step_once();
        if (++step % every == 0)
            save(session, step);
    }
    if (out_file)
        write_field();
    int rc = varve_close(session);
    if (rank == 0 && rc != 0)
        fprintf(stderr, "heat2d: the last checkpoint: %s\n", varve_error_text(rc));
    if (rank == 0)
        printf("done: %" PRId64 " steps\n", steps);
    MPI_Finalize();
    return rc == 0 ? 0 : 1;
}
