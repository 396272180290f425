/* A Cholesky factorisation with ScaLAPACK, which is killed on one grid of processes and goes on with another.
 *
 *     mpirun -n 6 cholesky --grid 2x3 [--size N] [--block N] [--panel N] [--order row|column] [--delay MICROSECONDS]
 * STORE
 *
 *     mpicc -o cholesky cholesky.c $(pkg-config --cflags --libs varve-mpi scalapack-openmpi)
 *
 * A matrix of 960 rows, in blocks of 16 by 16 that are dealt out to the grid, factored in panels of 48 columns, unless
 * told. Ranks are numbered along the rows of the grid, or along its columns. After each panel there is a checkpoint;
 * its version is the number of columns done. All there is to save is the matrix, which is overwritten by its factor.
 *
 * Each rank says which elements it has: blocks that lie apart, in both directions (`stride` of struct varve_array). So
 * the next run may have another grid, another number of ranks, and other blocks, as long as these divide the panel.
 *
 * The matrix is made from a known factor of small whole numbers with powers of two on its diagonal. All arithmetic is
 * then exact, on any grid and with any BLAS, and the result must be that factor to the last bit. */
#include <errno.h>
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <varve/varve_mpi.h>

/* ScaLAPACK has no header. */
void Cblacs_get(int context, int what, int *value);
void Cblacs_gridinit(int *context, const char *order, int rows, int columns);
void Cblacs_gridinfo(int context, int *rows, int *columns, int *row, int *column);
void Cblacs_gridexit(int context);
int numroc_(const int *n, const int *block, const int *process, const int *first, const int *processes);
void descinit_(int *desc, const int *m, const int *n, const int *mb, const int *nb, const int *first_row,
               const int *first_column, const int *context, const int *lld, int *info);
void pdpotrf_(const char *uplo, const int *n, double *a, const int *ia, const int *ja, const int *desc, int *info);
void pdtrsm_(const char *side, const char *uplo, const char *trans, const char *diag, const int *m, const int *n,
             const double *alpha, const double *a, const int *ia, const int *ja, const int *desca, double *b,
             const int *ib, const int *jb, const int *descb);
void pdsyrk_(const char *uplo, const char *trans, const int *n, const int *k, const double *alpha, const double *a,
             const int *ia, const int *ja, const int *desca, const double *beta, double *c, const int *ic,
             const int *jc, const int *descc);

static const int ZERO = 0, ONE = 1;
static int rank, ranks;
static int64_t size = 960, block = 16, panel = 48, delay_us = 0;
static const char *order = "row";
static struct { int context, rows, columns, row, column; } grid;
static int n, desc[9];
static int rows, columns; /* of this rank */
static double *matrix;    /* as in Fortran: column after column */

/* For what one rank finds out. */
static void die(const char *what, const char *why) {
    fprintf(stderr, "cholesky: rank %d: %s: %s\n", rank, what, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* For what all ranks find out: rank 0 says it and ends the job. */
static void die_together(const char *what, const char *why) {
    if (rank == 0)
        fprintf(stderr, "cholesky: %s: %s\n", what, why);
    else
        sleep(2);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* ---- the matrix ---- */

static double *new_matrix(void) {
    double *made = calloc((size_t)rows * (size_t)columns + 1, sizeof *made);
    if (!made)
        die("the matrix", "no memory");
    return made;
}

static void make_grid(void) {
    Cblacs_get(-1, 0, &grid.context);
    Cblacs_gridinit(&grid.context, strcmp(order, "row") == 0 ? "Row" : "Col", grid.rows, grid.columns);
    Cblacs_gridinfo(grid.context, &grid.rows, &grid.columns, &grid.row, &grid.column);
    int b = (int)block, info;
    n = (int)size;
    rows = numroc_(&n, &b, &grid.row, &ZERO, &grid.rows);
    columns = numroc_(&n, &b, &grid.column, &ZERO, &grid.columns);
    int lld = rows > 1 ? rows : 1;
    descinit_(desc, &n, &n, &b, &b, &ZERO, &ZERO, &grid.context, &lld, &info);
    if (info != 0)
        die("descinit", "an argument is wrong");
}

/* The index in the whole matrix of the local one, in a row or column of the grid. */
static int64_t index_of(int local, int process, int processes) {
    return (local / block * processes + process) * block + local % block;
}

static double factor_at(int64_t i, int64_t j) {
    return i < j ? 0 : i == j ? (double)(1 << i % 3) : (double)((i * 37 + j * 17 + i * j) % 7 - 3);
}

static void fill_with_factor(double *of) {
    for (int c = 0; c < columns; c++)
        for (int r = 0; r < rows; r++)
            of[(size_t)c * (size_t)rows + (size_t)r] =
                factor_at(index_of(r, grid.row, grid.rows), index_of(c, grid.column, grid.columns));
}

/* The known factor times its transpose. */
static void begin(void) {
    const double one = 1, zero = 0;
    double *factor = new_matrix();
    fill_with_factor(factor);
    pdsyrk_("L", "N", &n, &n, &one, factor, &ONE, &ONE, desc, &zero, matrix, &ONE, &ONE, desc);
    free(factor);
}

/* Factor the columns from `done` on, and take what they account for from the columns after them. */
static void factor_panel(int done, int width) {
    const double one = 1, minus = -1;
    int here = done + 1, after = done + width + 1, left = n - done - width, info;
    pdpotrf_("L", &width, matrix, &here, &here, desc, &info);
    if (info != 0)
        die_together("pdpotrf", "the matrix is not positive definite");
    if (left == 0)
        return;
    pdtrsm_("R", "L", "T", "N", &left, &width, &one, matrix, &here, &here, desc, matrix, &after, &here, desc);
    pdsyrk_("L", "N", &left, &width, &minus, matrix, &after, &here, desc, &one, matrix, &after, &after, desc);
}

/* Elements of the lower triangle, on all ranks, that are not those of the factor. */
static int64_t count_wrong(void) {
    int64_t wrong = 0, all = 0;
    double *factor = new_matrix();
    fill_with_factor(factor);
    for (int c = 0; c < columns; c++)
        for (int r = 0; r < rows; r++)
            if (index_of(r, grid.row, grid.rows) >= index_of(c, grid.column, grid.columns))
                wrong += matrix[(size_t)c * (size_t)rows + (size_t)r] != factor[(size_t)c * (size_t)rows + (size_t)r];
    free(factor);
    MPI_Allreduce(&wrong, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

/* ---- checkpoints ---- */

/* In Fortran's order a column is contiguous: so columns are the slower dimension, which comes first. */
static void protect(struct varve_session *session) {
    uint64_t b = (uint64_t)block, whole = (uint64_t)size;
    struct varve_array array = {
        .size = sizeof array,
        .type = VARVE_F64,
        .dims = 2,
        .dim = {{(uint64_t)columns, b * (uint64_t)grid.column, whole}, {(uint64_t)rows, b * (uint64_t)grid.row, whole}},
        .stride = {{b, b * (uint64_t)grid.columns}, {b, b * (uint64_t)grid.rows}}};
    if (varve_protect_array(session, "matrix", matrix, &array) != 0)
        die("protect", varve_session_error(session)->text);
}

/* The columns that are done. */
static int restart(struct varve_session *session) {
    int64_t done = 0;
    int rc = varve_restart(session, VARVE_LATEST, &done);
    if (rc == VARVE_NO_CHECKPOINT) {
        begin();
        return 0;
    }
    if (rc != 0)
        die_together("restart", varve_session_error(session)->text);
    if (done % block != 0 && done != size)
        die_together("restart", "what is stored ends within a block: choose blocks that divide its panels");
    if (rank == 0)
        printf("restarted from column %" PRId64 "\n", done);
    return (int)done;
}

/* A job goes on without a checkpoint, but not when another job has taken its name. */
static void save(struct varve_session *session, int done) {
    int rc = varve_checkpoint(session, done);
    if (rc == 0)
        rc = varve_wait(session); /* "saved" is said of what survives */
    if (rc == VARVE_FENCED)
        die_together("checkpoint", varve_session_error(session)->text);
    if (rank == 0 && rc == 0)
        printf("column %d saved\n", done);
    if (rank == 0 && rc != 0)
        fprintf(stderr, "cholesky: column %d not saved: %s\n", done, varve_session_error(session)->text);
}

static int is_number(const char *text, int64_t *out) {
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return errno == 0 && end != text && *end == 0 && *out > 0 && *out <= 1000000;
}

static int is_grid(const char *text) {
    char after;
    return sscanf(text, "%dx%d%c", &grid.rows, &grid.columns, &after) == 2 && grid.rows > 0 && grid.columns > 0 &&
           (int64_t)grid.rows * grid.columns == ranks;
}

static const char *read_arguments(int argc, char **argv) {
    int at = 1, is_good = 1;
    for (; at + 1 < argc && is_good; at += 2) {
        const char *name = argv[at], *value = argv[at + 1];
        if (strcmp(name, "--order") == 0)
            order = value;
        is_good = (strcmp(name, "--grid") == 0 && is_grid(value)) ||
                  (strcmp(name, "--order") == 0 && (strcmp(value, "row") == 0 || strcmp(value, "column") == 0)) ||
                  (strcmp(name, "--size") == 0 && is_number(value, &size)) ||
                  (strcmp(name, "--block") == 0 && is_number(value, &block)) ||
                  (strcmp(name, "--panel") == 0 && is_number(value, &panel)) ||
                  (strcmp(name, "--delay") == 0 && is_number(value, &delay_us));
    }
    if (!is_good)
        die_together(argv[at - 2], "there is no such option, or this value is not allowed (a grid has all ranks)");
    if (at != argc - 1 || argv[at][0] == '-' || grid.rows == 0 || panel % block != 0)
        die_together("usage", "cholesky --grid PxQ [--size N] [--block N] [--panel N] [--order row|column] [--delay N] "
                              "STORE; blocks divide a panel");
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
    make_grid();
    matrix = new_matrix();
    if (varve_open_mpi(MPI_COMM_WORLD, store, "cholesky", NULL, &session, &error) != 0)
        die_together("open", error.text);
    protect(session);
    for (int done = restart(session); done < n;) {
        int width = (int)(panel < n - done ? panel : n - done);
        factor_panel(done, width);
        done += width;
        save(session, done);
        if (delay_us)
            usleep((useconds_t)delay_us);
    }
    int64_t wrong = count_wrong();
    int rc = varve_close(session);
    if (rank == 0)
        printf("done: %" PRId64 " elements are wrong\n", wrong);
    free(matrix);
    Cblacs_gridexit(grid.context);
    MPI_Finalize();
    return rc == 0 && wrong == 0 ? 0 : 1;
}
