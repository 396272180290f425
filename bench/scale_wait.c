/* bench-scale under SimGrid's SMPI: the waiting part of src/mpi (comm_mpi_wait.c) for a simulated MPI.
 *
 * There, looking whether a message has come takes simulated time, a tenth of a millisecond unless told otherwise, and a
 * rank that looks and sleeps would measure its own sleep. So here a rank blocks: the receives of an exchange are posted
 * together, and it waits for them in the order of the list, which is no faster than the library, which takes messages
 * as they come.
 *
 * Prices: what sending costs scale.sh tells SMPI; what receiving costs is slept here, since SMPI has a price only for
 * what it buffers. That a message is under way for a while is slept here, too, by a receiver that was there before the
 * message was sent: SimGrid's constant-time network looks at all messages under way whenever one arrives. SMPI's
 * non-blocking reduction sends from every rank to every rank; here it is recursive doubling, and a broadcast is a
 * binomial tree, as in real MPI libraries. Their messages are counted.
 *
 * Computing takes no simulated time, unless SCALE_COMPUTE says how much. A number is ns per byte that a rank sends or
 * receives in a call of exchange: what deduplication writes, reads and merges. "measured": what a rank computes
 * between two calls of MPI is measured in each round, and the least of all rounds is what it takes in the last; that
 * gives the number for few ranks, while thousands of them take turns on the processor and none finds its data in the
 * caches.
 *
 * All ranks live in one process and take turns inside MPI calls (no privatisation of globals): what is a rank's own is
 * in an array. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "mpi/comm_mpi.h"
#include "scale.h"

#undef clock_gettime /* elsewhere it tells simulated time */

#define RECEIVE_NS 1000          /* a message */
#define RECEIVE_NS_PER_BYTE 0.08 /* 12.5 GB/s */
#define FLIGHT_NS 1000
#define RANKS_MAX 65536
#define ALL_SLOTS ((size_t)64 << 20) /* for the messages of an exchange; what is not used takes no memory */
#define SLOT_MAX ((size_t)4 << 20)
#define REDUCED_MAX 1024 /* numbers of a reduction */
#define TAG_REDUCE_MIN 11
#define TAG_BROADCAST 12

const int scale_is_simulated = 1;

struct waiting {
    struct scale_sent sent, exchanged;
    unsigned rounds;
    int is_measured, is_priced; /* this round */
    double per_byte;            /* what computing costs in this round, in ns */
    double computed;            /* in this round so far, in ns */
    double resumed;             /* when this rank went on computing, in seconds of the processor */
    float *parts;               /* what each part of a round has taken at least, in ns */
    size_t part, part_capacity;
    char *slots;                     /* of the exchange that this rank is in */
    size_t slots_bytes, slot, taken; /* the number of the slot that is taken next */
    double flight;                   /* what is to be slept for the message that is taken next */
    MPI_Request *requests;
};

static struct waiting all[RANKS_MAX];

static struct waiting *own(void) {
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank >= RANKS_MAX)
        abort();
    return &all[rank];
}

struct scale_sent scale_sent(void) {
    return own()->sent;
}

struct scale_sent scale_exchanged(void) {
    return own()->exchanged;
}

static void spend(double ns) {
    struct timespec time = {(time_t)(ns * 1e-9), (long)(ns - (double)(time_t)(ns * 1e-9) * 1e9)};
    nanosleep(&time, NULL);
}

static double price_of_receiving(size_t size) {
    return RECEIVE_NS + (double)size * RECEIVE_NS_PER_BYTE;
}

/* Of one who has waited since. */
static double price_of_flight(double since) {
    return MPI_Wtime() > since ? FLIGHT_NS : 0;
}

/* ---- computing ---- */

/* Of this thread: what others do with the processor meanwhile does not count. */
static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* What it takes to ask, at least. */
static double price_of_now(void) {
    static double least = 1;
    static int asked;
    for (; asked < 1000; asked++) {
        double begin = now(), taken = now() - begin;
        least = taken < least ? taken : least;
    }
    return least;
}

static void note_part(struct waiting *waiting, float ns) {
    if (waiting->part == waiting->part_capacity) {
        size_t capacity = waiting->part_capacity ? waiting->part_capacity * 2 : 256;
        waiting->parts = realloc(waiting->parts, capacity * sizeof *waiting->parts);
        if (!waiting->parts)
            abort();
        for (size_t i = waiting->part_capacity; i < capacity; i++)
            waiting->parts[i] = -1;
        waiting->part_capacity = capacity;
    }
    float *part = &waiting->parts[waiting->part++];
    *part = *part < 0 || ns < *part ? ns : *part;
    waiting->computed += *part;
    if (waiting->is_priced)
        spend(*part);
}

/* Around everything that is MPI's: no time of ours. */
static struct waiting *enter(void) {
    double time = now();
    struct waiting *waiting = own();
    double taken = time - waiting->resumed - price_of_now();
    if (waiting->is_measured)
        note_part(waiting, taken > 0 ? (float)(taken * 1e9) : 0);
    return waiting;
}

static int leave(struct waiting *waiting, int rc) {
    waiting->resumed = now();
    return rc;
}

/* MPI_Isend wherever it is called, by the linker's --wrap. */
int __real_MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm mpi,
                     MPI_Request *request);
int __wrap_MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm mpi,
                     MPI_Request *request);
int __wrap_MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm mpi,
                     MPI_Request *request) {
    struct waiting *waiting = enter();
    waiting->exchanged.messages++;
    waiting->exchanged.bytes += (uint64_t)count; /* the library sends bytes */
    if (waiting->per_byte > 0)
        spend(waiting->per_byte * count);
    waiting->computed += waiting->per_byte * count;
    return leave(waiting, __real_MPI_Isend(data, count, type, to, tag, mpi, request));
}

double scale_stop(void) {
    struct waiting *waiting = enter();
    waiting->is_measured = 0;
    waiting->per_byte = 0;
    return waiting->computed * 1e-9;
}

/* The simulated clock is the same for all ranks, and simulated time costs nothing: round n begins in second 1000 n. A
 * barrier would let the ranks go one after another. */
double scale_start(MPI_Comm mpi, int is_last) {
    struct waiting *waiting = own();
    const char *compute = getenv("SCALE_COMPUTE");
    double start = ++waiting->rounds * 1000.0, rest = start - MPI_Wtime();
    (void)mpi;
    if (rest <= 0)
        abort();
    spend(rest * 1e9);
    waiting->is_measured = compute && strcmp(compute, "measured") == 0 && waiting->rounds > 1;
    waiting->per_byte = compute && is_last ? strtod(compute, NULL) : 0;
    waiting->is_priced = waiting->is_measured && is_last;
    waiting->part = 0;
    waiting->computed = 0;
    leave(waiting, 0);
    return start;
}

int vv_mpi_wait(MPI_Request *request, unsigned looks_max) {
    struct waiting *waiting = enter();
    (void)looks_max;
    return leave(waiting, MPI_Wait(request, MPI_STATUS_IGNORE));
}

/* ---- reductions and broadcasts ---- */

static int send(MPI_Comm mpi, int tag, const void *data, int size, int to, MPI_Request *request) {
    struct waiting *waiting = own();
    waiting->sent.messages++;
    waiting->sent.bytes += (uint64_t)size;
    return __real_MPI_Isend(data, size, MPI_BYTE, to, tag, mpi, request);
}

static int receive(MPI_Comm mpi, int tag, void *data, int size, int from) {
    double since = MPI_Wtime();
    int rc = MPI_Recv(data, size, MPI_BYTE, from, tag, mpi, MPI_STATUS_IGNORE);
    spend(price_of_flight(since) + price_of_receiving((size_t)size));
    return rc;
}

/* Send ours and take theirs; either may be left out. */
static int swap_least(MPI_Comm mpi, int64_t *values, int count, int to, int from) {
    int64_t ours[REDUCED_MAX], theirs[REDUCED_MAX];
    int size = count * (int)sizeof *values, rc = MPI_SUCCESS;
    MPI_Request request = MPI_REQUEST_NULL;
    if (count > REDUCED_MAX)
        abort();
    memcpy(ours, values, (size_t)size);
    if (to >= 0)
        rc = send(mpi, TAG_REDUCE_MIN, ours, size, to, &request);
    if (from >= 0 && rc == MPI_SUCCESS)
        rc = receive(mpi, TAG_REDUCE_MIN, theirs, size, from);
    for (int i = 0; i < count && from >= 0; i++)
        values[i] = theirs[i] < values[i] ? theirs[i] : values[i];
    return rc == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : rc;
}

/* The ranks beyond the largest power of two give theirs to a partner first, and are told the result. */
static int find_least(MPI_Comm mpi, int64_t *values, int count) {
    int rank, ranks, half = 1, rc = MPI_SUCCESS;
    MPI_Comm_rank(mpi, &rank);
    MPI_Comm_size(mpi, &ranks);
    while (half * 2 <= ranks)
        half *= 2;
    int guest = rank + half < ranks ? rank + half : -1;
    if (rank >= half)
        return swap_least(mpi, values, count, rank - half, rank - half);
    if (guest >= 0)
        rc = swap_least(mpi, values, count, -1, guest);
    for (int step = 1; step < half && rc == MPI_SUCCESS; step *= 2)
        rc = swap_least(mpi, values, count, rank ^ step, rank ^ step);
    return guest >= 0 && rc == MPI_SUCCESS ? swap_least(mpi, values, count, guest, -1) : rc;
}

int vv_mpi_reduce_min(MPI_Comm mpi, int64_t *values, int count) {
    struct waiting *waiting = enter();
    return leave(waiting, find_least(mpi, values, count));
}

static int broadcast(MPI_Comm mpi, void *data, int size, int root) {
    MPI_Request requests[32];
    int rank, ranks, rc = MPI_SUCCESS, step = 1, count = 0;
    MPI_Comm_rank(mpi, &rank);
    MPI_Comm_size(mpi, &ranks);
    int number = (rank - root + ranks) % ranks;
    while (step < ranks && !(number & step))
        step *= 2;
    if (number)
        rc = receive(mpi, TAG_BROADCAST, data, size, (number - step + root) % ranks);
    for (step /= 2; step > 0 && rc == MPI_SUCCESS; step /= 2)
        if (number + step < ranks)
            rc = send(mpi, TAG_BROADCAST, data, size, (number + step + root) % ranks, &requests[count++]);
    for (int i = 0; i < count && rc == MPI_SUCCESS; i++)
        rc = MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    return rc;
}

int vv_mpi_broadcast(MPI_Comm mpi, void *data, int size, int root) {
    struct waiting *waiting = enter();
    return leave(waiting, broadcast(mpi, data, size, root));
}

/* ---- exchange ---- */

/* With many partners the messages are small. One that is larger than its slot ends the program. */
static void post_receives(struct waiting *waiting, MPI_Comm mpi, int tag, const uint32_t *pending, size_t count) {
    waiting->slot = ALL_SLOTS / count & ~(size_t)63;
    waiting->slot = waiting->slot < SLOT_MAX ? waiting->slot : SLOT_MAX;
    if (count > 512)
        waiting->slot = 2048; /* so that the pages that are touched are few */
    waiting->slots_bytes = waiting->slot * count;
    waiting->slots =
        mmap(NULL, waiting->slots_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    waiting->requests = malloc(count * sizeof *waiting->requests);
    if (waiting->slots == MAP_FAILED || !waiting->requests)
        abort();
    for (size_t i = 0; i < count; i++)
        MPI_Irecv(waiting->slots + i * waiting->slot, (int)waiting->slot, MPI_BYTE, (int)pending[i], tag, mpi,
                  &waiting->requests[i]);
}

/* The list shrinks at its end, if that is where it is taken from. */
int vv_mpi_next(MPI_Comm mpi, int tag, const uint32_t *pending, size_t count, size_t *which, int *size) {
    struct waiting *waiting = enter();
    MPI_Status status;
    if (!waiting->slots)
        post_receives(waiting, mpi, tag, pending, count);
    *which = waiting->taken = count - 1;
    double since = MPI_Wtime();
    int rc = MPI_Wait(&waiting->requests[*which], &status);
    waiting->flight = price_of_flight(since);
    return leave(waiting, rc == MPI_SUCCESS ? MPI_Get_count(&status, MPI_BYTE, size) : rc);
}

int vv_mpi_receive(MPI_Comm mpi, int tag, uint32_t rank, void *buffer, int size) {
    struct waiting *waiting = enter();
    (void)mpi, (void)tag, (void)rank;
    memcpy(buffer, waiting->slots + waiting->taken * waiting->slot, (size_t)size);
    if (waiting->taken == 0) {
        munmap(waiting->slots, waiting->slots_bytes);
        free(waiting->requests);
        waiting->slots = NULL;
    }
    spend(waiting->flight + price_of_receiving((size_t)size) + waiting->per_byte * size);
    waiting->computed += waiting->per_byte * size;
    return leave(waiting, MPI_SUCCESS);
}
