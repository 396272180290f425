/* mpi-deliver STORE SETTINGS [must-hold|must-freeze]: two ranks under mpirun. Messages are delivered into protected
 * buffers by receives that are posted after varve_checkpoint has returned, while the checkpoint is in flight: what
 * arrives is right, and the checkpoint has what was there before. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <varve/varve_mpi.h>

#include "details.h"
#include "kit.h"

#define ROUNDS 4
#define CAPACITY (6 * MIB)
#define OWN (3 * MIB + 17)

/* Eager, rendezvous, and what is copied straight from process to process. */
static const int sizes[] = {1, 1000, 5000, 70000, 400000, 3 << 20};
enum { MESSAGES = sizeof sizes / sizeof *sizes };

struct rank {
    int self, other;
    const char *store, *settings;
    char slow[512];
    struct varve_session *session;
    uint8_t *halo, *own, *outbox, *expected;
    struct images images;
    uint64_t held, frozen; /* bytes */
};

static void open_session(struct rank *rank, const char *address) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_error error = {0};
    options.settings = rank->settings;
    if (varve_open_mpi(MPI_COMM_WORLD, address, KIT_NAME, &options, &rank->session, &error) != 0)
        fail("open: %s", error.text);
}

static void protect(struct rank *rank, const char *name, void *ptr, size_t size) {
    if (varve_protect(rank->session, name, ptr, size) != 0)
        fail("protect: %s", varve_session_error(rank->session)->text);
}

/* Both ranks know what the other sends. */
static void write_letter(uint8_t *to, int sender, int round) {
    fill(to, CAPACITY, (uint64_t)(sender * 1000 + round));
}

/* One after the other, at odd places. */
static size_t place_of(int message) {
    size_t at = 123;
    for (int i = 0; i < message; i++)
        at += (size_t)sizes[i] + 4099;
    return at;
}

static void exchange(struct rank *rank) {
    MPI_Request requests[2 * MESSAGES];
    MPI_Status statuses[2 * MESSAGES];
    for (int i = 0; i < MESSAGES; i++)
        MPI_Irecv(rank->halo + place_of(i), sizes[i], MPI_BYTE, rank->other, i, MPI_COMM_WORLD, &requests[i]);
    for (int i = 0; i < MESSAGES; i++)
        MPI_Isend(rank->outbox + place_of(i), sizes[i], MPI_BYTE, rank->other, i, MPI_COMM_WORLD,
                  &requests[MESSAGES + i]);
    if (MPI_Waitall(2 * MESSAGES, requests, statuses) != MPI_SUCCESS)
        fail("MPI says that a message did not arrive");
}

static void check_letters(const struct rank *rank) {
    for (int i = 0; i < MESSAGES; i++)
        if (memcmp(rank->halo + place_of(i), rank->expected + place_of(i), (size_t)sizes[i]) != 0)
            fail("a message of %d bytes is not what was sent", sizes[i]);
}

static void take_images(struct rank *rank, int64_t version) {
    images_clear(&rank->images);
    rank->images.rank = (uint32_t)rank->self;
    rank->images.version = version;
    images_add(&rank->images, "halo", rank->halo, CAPACITY);
    images_add(&rank->images, "own", rank->own, OWN);
}

static void one_round(struct rank *rank, int round) {
    struct scribble_target halo = {rank->halo, CAPACITY}, own = {rank->own, OWN};
    struct vv_details stats;
    snprintf(kit_where, sizeof kit_where, "rank %d, %s, round %d", rank->self, rank->settings, round);
    scribble_once(&halo, round % 2 ? 30 : 1, (uint64_t)round);
    scribble_once(&own, 1, (uint64_t)round);
    write_letter(rank->outbox, rank->self, round);
    write_letter(rank->expected, rank->other, round);
    take_images(rank, round);
    if (varve_checkpoint(rank->session, round) != 0)
        fail("checkpoint: %s", varve_session_error(rank->session)->text);
    exchange(rank);
    scribble_once(&own, 1, 99);
    check_letters(rank);
    if (varve_wait(rank->session) != 0)
        fail("wait: %s", varve_session_error(rank->session)->text);
    check_letters(rank);
    images_check(&rank->images, rank->store);
    kit_stats(rank->session, &stats);
    rank->held += stats.bytes_held;
    rank->frozen += stats.bytes_frozen;
}

static void restart_elsewhere(struct rank *rank) {
    int64_t version = -1;
    memset(rank->expected, 0, CAPACITY);
    memset(rank->outbox, 0, CAPACITY);
    open_session(rank, rank->store);
    protect(rank, "halo", rank->expected, CAPACITY);
    protect(rank, "own", rank->outbox, OWN);
    if (varve_restart(rank->session, VARVE_LATEST, &version) != 0 || version != rank->images.version)
        fail("restart: version %lld: %s", (long long)version, varve_session_error(rank->session)->text);
    image_compare(&rank->images.list[0], rank->expected, CAPACITY, "restarted");
    image_compare(&rank->images.list[1], rank->outbox, OWN, "restarted");
    if (varve_close(rank->session) != 0)
        fail("close");
}

static uint8_t *memory(size_t size) {
    uint8_t *at = malloc(size + PAGE);
    if (!at)
        fail("no memory");
    fill(at, size + PAGE, size);
    return at;
}

int main(int argc, char **argv) {
    struct rank rank = {0};
    int ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank.self);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 3 || ranks != 2)
        fail("usage, with two ranks: mpi-deliver STORE SETTINGS [must-hold|must-freeze]");
    int must_hold = argc > 3 && strcmp(argv[3], "must-hold") == 0, must_freeze = argc > 3 && !must_hold;
    if (must_hold && !has_kernel_uffd())
        skip("no userfaultfd that stops system calls here");
    rank.other = 1 - rank.self;
    rank.store = argv[1];
    rank.settings = argv[2];
    rank.halo = memory(CAPACITY) + 16;
    rank.own = memory(OWN);
    rank.outbox = memory(CAPACITY);
    rank.expected = memory(CAPACITY);
    snprintf(rank.slow, sizeof rank.slow, "%s?limit=20MB", rank.store);
    open_session(&rank, rank.slow);
    protect(&rank, "halo", rank.halo, CAPACITY);
    protect(&rank, "own", rank.own, OWN);
    for (int i = 1; i <= ROUNDS; i++)
        one_round(&rank, i);
    if (varve_close(rank.session) != 0)
        fail("close");
    restart_elsewhere(&rank);
    printf("rank %d, %s: %d rounds are right, %llu MiB were held, %llu MiB frozen\n", rank.self, rank.settings,
           ROUNDS, (unsigned long long)(rank.held >> 20), (unsigned long long)(rank.frozen >> 20));
    if ((must_hold && rank.held == 0) || (must_freeze && rank.frozen == 0))
        fail("nothing was %s: this tested nothing", must_hold ? "held" : "frozen");
    MPI_Finalize();
    return 0;
}
