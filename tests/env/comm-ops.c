/* The group that the environment names: the promises of varve_comm.h.
 *
 *     comm-ops [LAYOUT]      LAYOUT: how VARVE_DOMAIN is set, as in tests/mpi/comm-ops.c; "some": not on all ranks */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve_env.h>

#include "comm-checks.h"

static int rank, ranks;

static void fail(const char *text) {
    fprintf(stderr, "rank %d: %s\n", rank, text);
    exit(1);
}

static struct varve_comm *make_comm(void) {
    struct varve_comm *comm = NULL;
    struct varve_error error = {0};
    if (varve_comm_env(&comm, &error) != 0)
        fail(error.text);
    return comm;
}

static int domain_of(const char *layout, int whose) {
    static const int uneven[] = {0, 2, 0, 1, 2, 0, 0};
    return strcmp(layout, "rows") == 0     ? whose / 2
           : strcmp(layout, "robin") == 0  ? whose % 3
           : strcmp(layout, "uneven") == 0 ? uneven[whose % 7]
                                           : -1;
}

/* Ranks with the same word, and only they, share a node. */
static void check_domains(const char *layout, struct varve_comm *comm) {
    if (domain_of(layout, 0) < 0 && comm->nodes != 1)
        fail("one machine is several nodes");
    for (uint32_t a = 0; a < comm->ranks && domain_of(layout, 0) >= 0; a++)
        for (uint32_t b = 0; b < a; b++) {
            uint32_t node[2], local[2];
            comm->ops->place_of(comm, a, &node[0], &local[0]);
            comm->ops->place_of(comm, b, &node[1], &local[1]);
            if ((node[0] == node[1]) != (domain_of(layout, (int)a) == domain_of(layout, (int)b)))
                fail("nodes do not follow VARVE_DOMAIN");
        }
}

static void set_domain(const char *layout) {
    char word[32];
    snprintf(word, sizeof word, "rack-%d", domain_of(layout, rank));
    if (domain_of(layout, rank) >= 0 || (strcmp(layout, "some") == 0 && rank > 0))
        setenv("VARVE_DOMAIN", word, 1);
    else
        unsetenv("VARVE_DOMAIN");
}

int main(int argc, char **argv) {
    const char *layout = argc > 1 ? argv[1] : "", *wrong;
    rank = atoi(getenv("RANK"));
    ranks = atoi(getenv("WORLD_SIZE"));
    set_domain(layout);
    struct varve_comm *comm = make_comm(), *other;
    if (comm->rank != (uint32_t)rank || comm->ranks != (uint32_t)ranks || strcmp(comm->ops->name, "env") != 0)
        fail("the comm has other ranks than the environment says");
    if (!comm->second)
        fail("there is no second comm");
    check_domains(layout, comm);
    if ((wrong = comm_checks(comm)))
        fail(wrong);
    other = make_comm(); /* while the first is there */
    if ((wrong = comm_checks_again(other)) || (wrong = comm_checks_again(comm)))
        fail(wrong);
    comm->ops->close(comm);
    if ((wrong = comm_checks_again(other)))
        fail(wrong);
    other->ops->close(other);
    comm = make_comm();
    comm->ops->close(comm); /* at once */
    if (rank == 0)
        printf("comm-ops: all well\n");
    return 0;
}
