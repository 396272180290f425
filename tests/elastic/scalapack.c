/* scalapack STORE: matrices on grids of processes, saved and restored on other grids with other blocks. What comes back
 * has the same bits as what ScaLAPACK itself moves there (pdgemr2d). For six ranks. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve_mpi.h>

/* ScaLAPACK has no header. */
void Cblacs_get(int context, int what, int *value);
void Cblacs_gridinit(int *context, const char *order, int rows, int columns);
void Cblacs_gridinfo(int context, int *rows, int *columns, int *row, int *column);
void Cblacs_gridexit(int context);
void Cpdgemr2d(int m, int n, double *a, int ia, int ja, int *desca, double *b, int ib, int jb, int *descb, int context);
int numroc_(const int *n, const int *block, const int *process, const int *first, const int *processes);
void pdgemm_(const char *transa, const char *transb, const int *m, const int *n, const int *k, const double *alpha,
             const double *a, const int *ia, const int *ja, const int *desca, const double *b, const int *ib,
             const int *jb, const int *descb, const double *beta, double *c, const int *ic, const int *jc,
             const int *descc);

#define RANKS 6
static int rank;

struct grid {
    int rows, columns; /* of processes */
    int mb, nb;        /* rows and columns of a block */
    const char *order; /* of the ranks */
    int context, row, column;
    MPI_Comm comm; /* of the ranks in the grid; a rank outside of it has none */
};

/* The part of this rank. */
struct matrix {
    const struct grid *grid;
    int m, n, local_m, local_n, desc[9];
    double *data;
};

static void fail(const char *what, const char *why) {
    fprintf(stderr, "FAILED: rank %d: %s: %s\n", rank, what, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static struct grid grid_of(int rows, int columns, int mb, int nb, const char *order) {
    return (struct grid){.rows = rows, .columns = columns, .mb = mb, .nb = nb, .order = order};
}

static int is_in(const struct grid *grid) {
    return rank < grid->rows * grid->columns;
}

static void enter(struct grid *grid) {
    int rows, columns;
    Cblacs_get(-1, 0, &grid->context);
    Cblacs_gridinit(&grid->context, grid->order, grid->rows, grid->columns);
    if (is_in(grid))
        Cblacs_gridinfo(grid->context, &rows, &columns, &grid->row, &grid->column);
    MPI_Comm_split(MPI_COMM_WORLD, is_in(grid) ? 0 : MPI_UNDEFINED, rank, &grid->comm);
}

static void leave(struct grid *grid) {
    if (!is_in(grid))
        return;
    MPI_Comm_free(&grid->comm);
    Cblacs_gridexit(grid->context);
}

static struct matrix new_matrix(const struct grid *grid, int m, int n) {
    static const int zero = 0;
    struct matrix made = {.grid = grid, .m = m, .n = n};
    if (is_in(grid)) {
        made.local_m = numroc_(&m, &grid->mb, &grid->row, &zero, &grid->rows);
        made.local_n = numroc_(&n, &grid->nb, &grid->column, &zero, &grid->columns);
    }
    int lld = made.local_m > 1 ? made.local_m : 1;
    const int desc[9] = {1, is_in(grid) ? grid->context : -1, m, n, grid->mb, grid->nb, 0, 0, lld};
    memcpy(made.desc, desc, sizeof desc);
    made.data = calloc((size_t)made.local_m * (size_t)made.local_n + 1, sizeof *made.data);
    if (!made.data)
        fail("a matrix", "no memory");
    return made;
}

/* ---- one step of work ---- */

static int64_t index_of(int local, int block, int process, int processes) {
    return (int64_t)(local / block * processes + process) * block + local % block;
}

static void fill(struct matrix *of, unsigned salt) {
    for (int c = 0; c < of->local_n; c++)
        for (int r = 0; r < of->local_m; r++) {
            int64_t i = index_of(r, of->grid->mb, of->grid->row, of->grid->rows);
            int64_t j = index_of(c, of->grid->nb, of->grid->column, of->grid->columns);
            uint64_t x = (uint64_t)(i * of->n + j + 1) * UINT64_C(0x9e3779b97f4a7c15) + salt;
            x = (x ^ (x >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
            of->data[(size_t)c * (size_t)of->local_m + (size_t)r] = (double)(x >> 11) / 9007199254740992.0 - 0.5;
        }
}

/* to += a * b, all of them made up. */
static void work(struct matrix *to) {
    static const int one = 1;
    static const double factor = 1;
    struct matrix a = new_matrix(to->grid, to->m, to->m), b = new_matrix(to->grid, to->m, to->n);
    fill(&a, 1);
    fill(&b, 2);
    fill(to, 3);
    pdgemm_("N", "N", &to->m, &to->n, &to->m, &factor, a.data, &one, &one, a.desc, b.data, &one, &one, b.desc, &factor,
            to->data, &one, &one, to->desc);
    free(a.data);
    free(b.data);
}

/* ---- save and restore ---- */

/* Columns are the slower dimension in Fortran, so they come first. */
static struct varve_session *open_with(struct matrix *of, const char *store, const char *name) {
    struct varve_session *session;
    struct varve_error error;
    uint64_t mb = (uint64_t)of->grid->mb, nb = (uint64_t)of->grid->nb;
    struct varve_array array = {
        .size = sizeof array,
        .type = VARVE_F64,
        .dims = 2,
        .dim = {{(uint64_t)of->local_n, nb * (uint64_t)of->grid->column, (uint64_t)of->n},
                {(uint64_t)of->local_m, mb * (uint64_t)of->grid->row, (uint64_t)of->m}},
        .stride = {{nb, nb * (uint64_t)of->grid->columns}, {mb, mb * (uint64_t)of->grid->rows}}};
    if (varve_open_mpi(of->grid->comm, store, name, NULL, &session, &error) != 0)
        fail("open", error.text);
    if (varve_protect_array(session, "matrix", of->data, &array) != 0)
        fail("protect", varve_session_error(session)->text);
    return session;
}

static void save(struct matrix *of, const char *store, const char *name) {
    struct varve_session *session = open_with(of, store, name);
    if (varve_checkpoint(session, 1) != 0 || varve_wait(session) != 0)
        fail("checkpoint", varve_session_error(session)->text);
    varve_close(session);
}

static void restore(struct matrix *of, const char *store, const char *name) {
    struct varve_session *session = open_with(of, store, name);
    if (varve_restart(session, 1, NULL) != 0)
        fail("restart", varve_session_error(session)->text);
    varve_close(session);
}

/* The elements of this rank that differ, and those that are zero, which no element of the work is. */
static void compare(const struct matrix *a, const struct matrix *b, const char *name) {
    size_t count = (size_t)a->local_m * (size_t)a->local_n, zeros = 0;
    for (size_t i = 0; i < count; i++)
        zeros += a->data[i] == 0;
    if (zeros > 0)
        fail(name, "pdgemr2d left elements out");
    if (memcmp(a->data, b->data, count * sizeof *a->data) != 0)
        fail(name, "not the bits that pdgemr2d gives");
}

static void move(struct grid *from, struct grid *to, int m, int n, const char *store) {
    struct grid all = grid_of(1, RANKS, 1, 1, "Row");
    char name[80];
    snprintf(name, sizeof name, "%dx%d-%dx%d-%.1s-to-%dx%d-%dx%d-%.1s", from->rows, from->columns, from->mb, from->nb,
             from->order, to->rows, to->columns, to->mb, to->nb, to->order);
    enter(&all);
    enter(from);
    enter(to);
    struct matrix here = new_matrix(from, m, n), theirs = new_matrix(to, m, n), ours = new_matrix(to, m, n);
    if (is_in(from)) {
        work(&here);
        save(&here, store, name);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (is_in(to))
        restore(&ours, store, name);
    Cpdgemr2d(m, n, here.data, 1, 1, here.desc, theirs.data, 1, 1, theirs.desc, all.context);
    compare(&theirs, &ours, name);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s: the same bits as from pdgemr2d\n", name);
    free(here.data);
    free(theirs.data);
    free(ours.data);
    leave(to);
    leave(from);
    leave(&all);
}

int main(int argc, char **argv) {
    struct grid moves[][2] = {
        {grid_of(2, 3, 16, 16, "Row"), grid_of(3, 2, 24, 10, "Row")}, /* other blocks */
        {grid_of(2, 2, 8, 32, "Row"), grid_of(1, 3, 13, 5, "Col")},   /* fewer ranks, in another order */
        {grid_of(1, 3, 1, 1, "Col"), grid_of(2, 3, 7, 64, "Col")},    /* more of them, from single elements */
        {grid_of(6, 1, 50, 40, "Row"), grid_of(2, 2, 33, 33, "Col")}, /* a grid that is larger than there are blocks */
        {grid_of(3, 2, 5, 9, "Col"), grid_of(1, 1, 64, 64, "Row")},   /* all to one */
    };
    int level, ranks;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 2 || ranks != RANKS)
        fail("usage", "mpirun -n 6 scalapack STORE");
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
        move(&moves[i][0], &moves[i][1], 211, 97, argv[1]);
    MPI_Finalize();
    return 0;
}
