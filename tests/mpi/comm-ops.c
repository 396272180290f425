/* The group as MPI has it: the promises of varve_comm.h, and that its messages and the program's do not meet.
 *
 *     comm-ops [LAYOUT]      LAYOUT: how VARVE_DOMAIN is set, see set_domain
 *
 * src/mpi is compiled into this program; the comm it makes ends up here, where the library would take it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve_comm.h>
#include <varve/varve_mpi.h>

#include "comm-checks.h"

static struct varve_comm *made;

int varve_open_comm(struct varve_comm *comm, const char *store, const char *name, const struct varve_options *options,
                    struct varve_session **out, struct varve_error *error) {
    (void)store, (void)name, (void)options, (void)error;
    *out = NULL;
    made = comm;
    return 0;
}

static void fail(const char *text) __attribute__((noreturn));
static void fail(const char *text) {
    int rank = -1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    fprintf(stderr, "rank %d: %s\n", rank, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static struct varve_comm *make_comm(MPI_Comm mpi) {
    struct varve_session *session;
    struct varve_error error = {0};
    made = NULL;
    if (varve_open_mpi(mpi, "none", "none", NULL, &session, &error) != 0 || !made)
        fail("varve_open_mpi made no comm");
    return made;
}

/* One machine stands for several nodes. */
static void set_domain(const char *layout, int rank) {
    static const int uneven[] = {0, 2, 0, 1, 2, 0, 0};
    char word[32] = "";
    if (strcmp(layout, "rows") == 0)
        snprintf(word, sizeof word, "rack-%d", rank / 2);
    else if (strcmp(layout, "robin") == 0)
        snprintf(word, sizeof word, "rack-%d", rank % 3);
    else if (strcmp(layout, "uneven") == 0)
        snprintf(word, sizeof word, "rack-%d", uneven[rank % 7]);
    else if (strcmp(layout, "some") == 0 && rank > 0) /* not all: does not count */
        snprintf(word, sizeof word, "rack-%d", rank);
    if (word[0])
        setenv("VARVE_DOMAIN", word, 1);
    else
        unsetenv("VARVE_DOMAIN");
}

/* Ranks with the same word, and only they, share a node; comm_checks sees to the rest. */
static void check_domains(const char *layout, struct varve_comm *comm, MPI_Comm mpi) {
    char word[32] = "", words[64][32];
    uint32_t nodes[64];
    int is_named = strcmp(layout, "rows") == 0 || strcmp(layout, "robin") == 0 || strcmp(layout, "uneven") == 0;
    if (!is_named) {
        if (comm->nodes != 1)
            fail("one machine is several nodes");
        return;
    }
    if (comm->ranks > 64)
        fail("too many ranks for this test");
    snprintf(word, sizeof word, "%s", getenv("VARVE_DOMAIN"));
    MPI_Allgather(word, sizeof word, MPI_CHAR, words, sizeof word, MPI_CHAR, mpi);
    MPI_Allgather(&comm->node, 1, MPI_UINT32_T, nodes, 1, MPI_UINT32_T, mpi);
    for (uint32_t a = 0; a < comm->ranks; a++)
        for (uint32_t b = 0; b < a; b++)
            if ((strcmp(words[a], words[b]) == 0) != (nodes[a] == nodes[b]))
                fail("nodes do not follow VARVE_DOMAIN");
}

static void check(struct varve_comm *comm) {
    const char *wrong = comm_checks_again(comm);
    if (wrong)
        fail(wrong);
}

/* The program waits for any message of anybody, has sent some that nobody has received yet, and has a reduction of its
 * own under way: all on the communicator that the comm was made of. */
static void check_beside_messages(struct varve_comm *comm, MPI_Comm mpi) {
    const char *wrong;
    int rank = (int)comm->rank, ranks = (int)comm->ranks, is_done = 0, theirs = -1, early = -1, sum = 0;
    int own = 4711 + rank, before = 815 + rank;
    MPI_Request waiting, sent, reduction;
    MPI_Status status;
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    MPI_Isend(&before, 1, MPI_INT, next, 1, mpi, &sent); /* with a tag that the comm might use, too */
    MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, mpi, &reduction);
    if ((wrong = comm_checks(comm)))
        fail(wrong);
    MPI_Recv(&early, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, mpi, &status);
    if (early != 815 + previous || status.MPI_SOURCE != previous || status.MPI_TAG != 1)
        fail("a message of the program was lost or mixed up");
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
    MPI_Wait(&reduction, MPI_STATUS_IGNORE);
    if (sum != ranks * (ranks - 1) / 2)
        fail("a reduction of the program was mixed up");
    MPI_Irecv(&theirs, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, mpi, &waiting);
    check(comm);
    MPI_Test(&waiting, &is_done, &status);
    if (is_done)
        fail("a message of the group reached the program");
    MPI_Barrier(mpi);
    MPI_Send(&own, 1, MPI_INT, next, 77, mpi);
    MPI_Wait(&waiting, &status);
    if (theirs != 4711 + previous || status.MPI_TAG != 77)
        fail("the program's receive got another message");
}

static void check_order(struct varve_comm *comm, MPI_Comm mpi) {
    int rank, ranks;
    MPI_Comm_rank(mpi, &rank);
    MPI_Comm_size(mpi, &ranks);
    if (comm->rank != (uint32_t)rank || comm->ranks != (uint32_t)ranks)
        fail("the comm has other ranks than its communicator");
    if (strcmp(comm->ops->name, "mpi") != 0)
        fail("the comm has another name");
}

/* A communicator with the ranks the other way round, and one that has only half of them: each half has its own group.
 */
static void check_other_communicators(void) {
    MPI_Comm turned, half;
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &turned);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    struct varve_comm *first = make_comm(turned);
    struct varve_comm *second = make_comm(half);
    check_order(first, turned);
    check_order(second, half);
    check(second);
    check(first);
    MPI_Comm_free(&turned); /* before the comm: it has a communicator of its own */
    check(first);
    first->ops->close(first);
    second->ops->close(second);
    MPI_Comm_free(&half);
}

static void refuse(MPI_Comm mpi, const char *word) {
    struct varve_session *session;
    struct varve_error error = {0};
    int rc = varve_open_mpi(mpi, "none", "none", NULL, &session, &error);
    if (rc != -EINVAL || error.code != rc || !strstr(error.text, word))
        fail("something that is no group was not refused as it should be");
    if (varve_open_mpi(mpi, "none", "none", NULL, &session, NULL) != -EINVAL)
        fail("refused differently when nobody wants to read why");
}

static void start(const char *layout, int *argc, char ***argv) {
    int level = MPI_THREAD_MULTIPLE, rank;
    if (strcmp(layout, "funneled") == 0)
        MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &level);
    else
        MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    set_domain(layout, rank);
    struct varve_comm *comm = make_comm(MPI_COMM_WORLD);
    if ((level == MPI_THREAD_MULTIPLE) != (comm->second != NULL))
        fail("there is no second comm where there could be one, or there is one");
    if (rank == 0 && !comm->second)
        printf("comm-ops: no second comm\n");
    comm->ops->close(comm);
}

int main(int argc, char **argv) {
    struct varve_session *session;
    struct varve_error error = {0};
    const char *layout = argc > 1 ? argv[1] : "";
    if (varve_open_mpi(MPI_COMM_WORLD, "none", "none", NULL, &session, &error) != -EINVAL)
        return 1;
    start(layout, &argc, &argv);
    refuse(MPI_COMM_NULL, "MPI_COMM_NULL");
    struct varve_comm *comm = make_comm(MPI_COMM_WORLD);
    check_order(comm, MPI_COMM_WORLD);
    check_domains(layout, comm, MPI_COMM_WORLD);
    check_beside_messages(comm, MPI_COMM_WORLD);
    check_other_communicators();
    comm->ops->close(comm);
    comm = make_comm(MPI_COMM_WORLD);
    int rank = (int)comm->rank;
    MPI_Finalize();
    comm->ops->close(comm); /* too late, and harmless */
    if (varve_open_mpi(MPI_COMM_WORLD, "none", "none", NULL, &session, &error) != -EINVAL)
        return 1;
    if (rank == 0)
        printf("comm-ops: all well\n");
    return 0;
}
