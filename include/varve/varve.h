/* Varve: checkpoints for programs that run long.
 *
 *     struct varve_session *s;
 *     struct varve_error error;
 *     int64_t step = -1;
 *     if (varve_open("file:///scratch/ck", "heat2d", NULL, &s, &error) != 0)
 *         die(error.text);
 *     varve_protect(s, "temperature", t, n * sizeof *t);
 *     int rc = varve_restart(s, VARVE_LATEST, &step);
 *     if (rc != 0 && rc != VARVE_NO_CHECKPOINT)          // not a first run: it failed
 *         die(varve_session_error(s)->text);
 *     for (step++; step < last; step++) {
 *         compute();
 *         if (step % 100 == 0 && varve_checkpoint(s, step) != 0)
 *             warn(varve_session_error(s)->text);
 *     }
 *     if (varve_close(s) != 0)
 *         warn("the last checkpoint is not safe");
 *
 * Six words to learn: open, protect, checkpoint, wait, restart, close. varve_checkpoint promises that the program may
 * change its memory again; what it was at the call is stored while the program goes on. varve_wait promises that the
 * checkpoint survives the process, the machine's power and a full disk: call it before deleting what you would restart
 * from otherwise, and before ending without varve_close. A checkpoint exists entirely or not at all.
 *
 * What to know before trusting it:
 *  - Only protected regions are saved. Files, sockets, threads and pointers between regions are the program's business.
 *  - A signal handler or a log function that runs inside a call of the session must not write protected memory.
 *  - No other thread, device or process may write a protected region during varve_checkpoint or varve_restart: no
 *    receive, RMA or input into it may be outstanding. When the call has returned they may, although the checkpoint is
 *    still being stored. Memory that devices write (RDMA) is protected with VARVE_DEVICE_WRITES.
 *  - Protected memory is freed, unmapped, moved or dropped (MADV_DONTNEED) only after varve_unprotect or varve_free, or
 *    when its name has been protected elsewhere, or after varve_release. These wait as long as a checkpoint in flight
 *    needs it where it is. Otherwise that checkpoint fails with -EFAULT, and the text names the region. Memory of
 *    varve_protect_moving needs no such care.
 *  - After a failed varve_restart the contents of the protected regions are undefined, unless the error is
 *    VARVE_NO_CHECKPOINT or VARVE_MISMATCH: then nothing was written.
 *  - A store needs a file system with working fsync and link (or rename without replacing).
 *  - A session belongs to the process that opened it: after fork, the child must not use it. The child's memory is its
 *    own, the protected part too.
 *
 * Many processes: a session opened with varve_open_mpi (varve_mpi.h), varve_open_env (varve_env.h) or varve_open_comm
 * (varve_comm.h) belongs to all ranks of a job. The calls marked collective are made by every rank in the same order,
 * and return the same code on every rank; varve_session_error then tells what went wrong on the rank that it names.
 * Each rank protects its own memory, and restores it. A checkpoint exists on all ranks or on none.
 *
 * Threads: one session is used by one thread at a time; different sessions are independent. Errors: see varve_error.h;
 * the text of a session's last error is in varve_session_error. */
#ifndef VARVE_H
#define VARVE_H

#include <stdint.h>
#include <varve/varve_error.h>
#include <varve/varve_version.h>

#ifdef __cplusplus
extern "C" {
#endif

struct varve_session;

#define VARVE_LATEST ((int64_t)-1) /* the newest checkpoint that is whole */

/* Levels: 0 error, 1 warn, 2 info, 3 debug, 4 trace. line has no line end and lives during the call. Called from any
 * thread of the library. */
typedef void (*varve_log_fn)(void *arg, int level, const char *line);

/* Zero always means the default. Initialise with VARVE_OPTIONS_INIT. */
struct varve_options {
    size_t size;          /* sizeof(struct varve_options) */
    const char *settings; /* "keep=3,codec=zstd": see varve(5) or `varve config --list`; the environment wins */
    varve_log_fn log;     /* NULL: stderr */
    void *log_arg;
};
#define VARVE_OPTIONS_INIT                                                                                             \
    { sizeof(struct varve_options), NULL, NULL, NULL }

/* Open a session that writes and restarts the checkpoints called `name` (1 to 80 bytes) in the store at this address:
 * file:///path, a path, s3://bucket/prefix, or mem://name for tests. Makes the store if there is none. Fails with
 * VARVE_BUSY while another session writes the same name; a dead one's name is free by itself (if it cannot be told at
 * once, open watches its heartbeat for up to takeover_seconds). With the setting access=read it only restarts: it
 * writes nothing, nobody's session is in its way, and varve_checkpoint fails with -EROFS. The session is the caller's,
 * to be closed with varve_close. options and error may be NULL. On failure *out is NULL; all other functions return
 * -EINVAL (or NULL) for a session that is NULL. */
VARVE_API int varve_open(const char *store, const char *name, const struct varve_options *options,
                         struct varve_session **out, struct varve_error *error);

/* Collective. Wait for what is in flight, end the session and free it. Returns what varve_wait would have. Accepts
 * NULL. The memory of regions from varve_alloc is freed. */
VARVE_API int varve_close(struct varve_session *session);

/* Why the session's last call failed. Lives until the next call on the session. Never NULL: for a NULL session it tells
 * that there is none. */
VARVE_API const struct varve_error *varve_session_error(const struct varve_session *session);

/* The version of the library that runs, such as "0.2.0"; VARVE_VERSION is that of the headers. Any thread. The string
 * is constant. */
VARVE_API const char *varve_version(void);

/* How the library was built: lines of a word and its value, such as "codecs lz4 zstd zfp". For people and reports of
 * errors. Any thread. The string is constant. */
VARVE_API const char *varve_build(void);

/* ---- what is protected ---- */

/* Protect size bytes at ptr under a name (1 to 255 bytes). Protecting a name again gives it a new place and size:
 * regions may grow, shrink and move between checkpoints. All calls of this part may be made while a checkpoint is in
 * flight, and do not change what it holds. When they return, the memory that a region has left is the program's to
 * free, even if the checkpoint is not stored yet. */
VARVE_API int varve_protect(struct varve_session *session, const char *region, void *ptr, size_t size);

/* The same with what has to be known about the memory. While a checkpoint is in flight, pages that are not copied or
 * stored yet may be held: whoever writes one waits a moment, system calls too. Where the kernel allows that (`varve
 * config` tells), and where nothing has to be held, nothing needs to be said here.
 *
 * VARVE_DEVICE_WRITES: written past the page table, by devices (RDMA) or through buffers that are registered with the
 * kernel or a network card. Nobody can see or stop these writes: all of it is looked at, inside the call. Memory shared
 * with other processes is treated like this without being asked.
 * VARVE_NO_KERNEL_WRITES: a promise that no system call (read, recv, what MPI does for a receive) and no thread that
 * blocks SIGSEGV writes it while a checkpoint is in flight; with tracker=trap-mprotect, as long as it is protected.
 * Then it can be held by mprotect where nothing better is allowed. Whoever breaks the promise gets EFAULT, or the
 * signal.
 * VARVE_NO_DEVICE_WRITES: a promise that only processors write it, no device, and nobody through a registered buffer.
 * A process that has memory pinned for devices (VmPin in /proc/self/status) is otherwise looked at whole at each
 * checkpoint, and nothing of it is held; such regions are tracked and held as ever. Whoever breaks the promise may get
 * old bytes into a checkpoint; the audit of each checkpoint finds that by chance only. */
#define VARVE_DEVICE_WRITES 1u
#define VARVE_NO_KERNEL_WRITES 2u
#define VARVE_NO_DEVICE_WRITES 4u
VARVE_API int varve_protect_flags(struct varve_session *session, const char *region, void *ptr, size_t size,
                                  unsigned flags);

/* What a region holds: an array, or this rank's block of a larger one. It decides where elements go when a checkpoint
 * comes back on other ranks or with other blocks, how well the data is compressed, how it is rounded if there is a
 * bound, and what `varve show`, `varve restore` and varve_stored can say. */
enum varve_type {
    VARVE_BYTES, /* anything */
    VARVE_I8,
    VARVE_U8,
    VARVE_I16,
    VARVE_U16,
    VARVE_I32,
    VARVE_U32,
    VARVE_I64,
    VARVE_U64,
    VARVE_F32,
    VARVE_F64,
    VARVE_F16,
    VARVE_BF16,
    VARVE_C64,  /* two f32 */
    VARVE_C128, /* two f64 */
};
#define VARVE_DIMS_MAX 16
struct varve_dim {
    uint64_t local;  /* elements here */
    uint64_t first;  /* index of the first one in the global array; if there is none, any */
    uint64_t global; /* elements in all; 0: as many as here */
};
/* Elements of a dimension that do not all follow each other: blocks of `block` elements, of which each begins `every`
 * indices after the one before; the last may be shorter. Both 0: they all follow each other. A matrix that ScaLAPACK
 * spreads in blocks of nb over p rows of processes has {.block = nb, .every = nb * p}, and first = nb * its row. */
struct varve_stride {
    uint64_t block, every;
};
struct varve_array {
    size_t size;                          /* sizeof(struct varve_array) */
    int type;                             /* enum varve_type */
    unsigned dims;                        /* 1 to 16 */
    struct varve_dim dim[VARVE_DIMS_MAX]; /* the slowest first, as in C: of t[y][x], y */
    unsigned flags;                       /* as varve_protect_flags */
    /* NULL: every bit comes back. "zfp", for f32 and f64: values may come back changed by as much as bound, which is
     * stored with them and shown. What is not finite comes back as it was; -0 as 0. */
    const char *lossy;
    double bound;
    struct varve_stride stride[VARVE_DIMS_MAX]; /* nothing to say: zeros */
};
/* Protect an array; its size follows from type and dimensions.
 *
 *     struct varve_array a = {.size = sizeof a, .type = VARVE_F64, .dims = 2, .dim = {{ny, y0, NY}, {nx, 0, nx}}};
 *     varve_protect_array(s, "temperature", t, &a);
 */
VARVE_API int varve_protect_array(struct varve_session *session, const char *region, void *ptr,
                                  const struct varve_array *array);

/* In chunks of how many bytes changes of this region are looked for, once 4 KiB of it have changed: a power of two, 32
 * to 4096; 1: store all 4 KiB; 0: as the setting `fine` says. For programs that change a few bytes in many places. From
 * the next checkpoint on. -ENOENT if there is no such region. */
VARVE_API int varve_fine(struct varve_session *session, const char *region, uint32_t chunk);

/* Say what a protected region holds, of a callback region for example. Its dimensions must give its length at every
 * checkpoint, or it is stored as bytes. flags of the array do not count. NULL: bytes again. -ENOENT if there is no
 * such region. */
VARVE_API int varve_describe(struct varve_session *session, const char *region, const struct varve_array *array);

/* What becomes of a region when the checkpoint was made by another number of ranks, or with other blocks of the arrays.
 * Without a word, an array is put together by its place in the global array, of which every element must be stored
 * once. Other regions belong to one rank: a restart on another number of ranks is refused by their names, before
 * anything is written, until the program has said what they are. */
enum varve_distribution {
    VARVE_BY_DIMS, /* as above */
    /* The parts of all ranks, one after the other, are one list: along the first dimension of an array, else of bytes.
     * Now each rank wants as many as it protects; together, as many as are stored. */
    VARVE_JOINED,
    VARVE_REPLICATED, /* the same on all ranks; if the stored ones differ, the restart is refused */
    VARVE_BY_RANK,    /* each rank gets that of the same number; a rank that has none is left as it is */
    VARVE_DROPPED,    /* nobody needs it */
};
/* -ENOENT if there is no such region. */
VARVE_API int varve_distribute(struct varve_session *session, const char *region, enum varve_distribution how);

/* Attach a small text to all later checkpoints: simulated time, a commit, the input file. `varve show` and `varve ls
 * -L` tell it, and exports have it. value NULL: no more. What rank 0 says counts; on other ranks the call does nothing.
 * A restart does not bring attributes back: varve_store_attributes (varve_inspect.h) reads them. At most 64 KiB of all,
 * names of 1 to 255 bytes. */
VARVE_API int varve_attribute(struct varve_session *session, const char *name, const char *value);

/* Memory that moves and grows: fn is asked where it is now, by the thread that calls varve_checkpoint or varve_restart,
 * at the start of that call, and must not call functions of this session. ptr may be NULL when there are no bytes. The
 * array has been zeroed: if dimensions are filled in, it tells what the region holds, and bytes may stay 0; its flags
 * count in any case. Nonzero fails the call, before anything is begun. Where nothing has moved it costs nothing; what
 * has moved is looked at as a whole, and what has grown or shrunk keeps in common with the last checkpoint what it has
 * in common.
 *
 * Such memory is never held: what does not fit staging is frozen, or stored inside the call. So it may be freed, moved
 * and resized at any time when no call of the session runs, without a word, and also while a checkpoint is in flight.
 */
struct varve_memory {
    size_t size; /* sizeof(struct varve_memory), set by the library */
    void *ptr;
    size_t bytes;
    struct varve_array array;
};
typedef int (*varve_memory_fn)(void *arg, struct varve_memory *out);
VARVE_API int varve_protect_moving(struct varve_session *session, const char *region, varve_memory_fn fn, void *arg);

/* Protect data that does not lie in one piece of memory. All three are called by the thread that calls varve_checkpoint
 * or varve_restart, inside that call, and must not call functions of this session. Nonzero means failure. A checkpoint
 * that is tried again asks again from the start; so does a restart that passes over a damaged checkpoint. */
struct varve_callbacks {
    size_t size; /* sizeof(struct varve_callbacks) */
    /* How many bytes there are now; asked once per attempt. */
    int (*length)(void *arg, uint64_t *bytes_out);
    /* Copy `size` bytes from `offset` into buffer. Ranges come in ascending order, each once per attempt. */
    int (*save)(void *arg, uint64_t offset, void *buffer, size_t size);
    /* Take back `size` bytes at `offset` of `total`, in ascending order; with size and total 0 when nothing was
     * stored. If varve_restart fails afterwards, what was taken is not to be used. */
    int (*load)(void *arg, uint64_t offset, const void *buffer, size_t size, uint64_t total);
    unsigned flags; /* VARVE_LARGE */
};
/* The data may be larger than memory: nothing is kept in memory for each chunk of it. What is stored already is found
 * as far as the table of ids reaches (table_share). */
#define VARVE_LARGE 256u /* none of the flags of varve_protect_flags, which refuses it */
VARVE_API int varve_protect_callback(struct varve_session *session, const char *region,
                                     const struct varve_callbacks *callbacks, void *arg);

/* Memory that is protected from the start: zeroed, page-aligned, and free of cost where it is never touched. NULL on
 * failure. It lives until varve_free or varve_close, also when its region is unprotected or protected elsewhere
 * meanwhile. */
VARVE_API void *varve_alloc(struct varve_session *session, const char *region, size_t size);
/* Unprotects what lies there, too, as varve_unprotect does. Pointers that are not from varve_alloc are left alone. */
VARVE_API void varve_free(struct varve_session *session, void *ptr);

/* The region is not part of later checkpoints. One in flight still gets it: this waits until its memory is not needed
 * for that. -ENOENT if there is none of this name. */
VARVE_API int varve_unprotect(struct varve_session *session, const char *region);

/* ---- saving ---- */

/* Collective. Save all protected regions as `version` (the same on all ranks; 0 or more; above the session's last, and
 * not below one that failed). Returns when the memory may be changed again; the rest is done while the program goes on.
 * One checkpoint is in flight at a time: this waits for the one before. Failure on one rank is failure on all; it
 * leaves all earlier checkpoints as they were, and nothing is missing from the next.
 *
 * A checkpoint may fail after its call has returned. varve_wait, varve_test and varve_close tell it. If nobody has
 * asked them, the next varve_checkpoint tells it once:
 *
 *   VARVE_EARLIER_FAILED    this version was begun, as with 0; the one before does not exist.
 *                           varve_session_error has its code, rank and text. To call again with
 *                           the same version is allowed: the call waits for what was begun, and
 *                           returns 0 if it survives; what is stored is the state of the first call
 *   VARVE_FENCED            another session has taken this name: nothing was begun, and never will be
 *   any other error         is of this version, which does not exist; the text has the earlier failure, too
 *
 * With on_error=warn a failure is logged when it happens, and varve_checkpoint returns 0; varve_wait, varve_test and
 * varve_close still tell what became of the last one. With on_error=retry:n, capture=sync or threads=0 everything is
 * done inside the call. */
VARVE_API int varve_checkpoint(struct varve_session *session, int64_t version);

/* Collective. Wait until the last checkpoint that was begun survives. 0, or why it does not exist; with durable=2 or
 * more, also why that tier does not have it. A call that was refused for its arguments, or because of access=read, has
 * begun none: only its own code tells that. Older checkpoints that keep=N lets go of may still be there, and may go
 * while the program goes on: varve_checkpoint, varve_restart and varve_close wait until they are gone.
 *
 * Unless all ranks are on one node, at most 64, or all have MPI_THREAD_MULTIPLE, ranks talk to each other only
 * inside collective calls, so a job takes the last step of a checkpoint in the next one:
 * here, in varve_test (once all ranks have stored their parts), varve_checkpoint, varve_restart, varve_stored,
 * varve_reject, varve_close, or varve_should_exit where it waits. Until then it is not listed; if the job dies
 * meanwhile and every part is stored, the next session of the name finishes it. */
VARVE_API int varve_wait(struct varve_session *session);

/* Wait until the checkpoint in flight needs the program's memory no more. From then on all protected memory may be
 * freed, unmapped, moved, dropped or overwritten by any means, while the checkpoint is still being stored. Regions stay
 * protected: unprotect what was freed, or protect its name elsewhere, before the next varve_checkpoint or
 * varve_restart. Returns at once where nothing is held, and always 0: varve_wait tells what became of the checkpoint.
 * varve_session_error is left as it was. Not collective. The only call that another thread may make during varve_wait,
 * varve_test, varve_stats_get or varve_stats_each. */
VARVE_API int varve_release(struct varve_session *session);

/* Collective: every rank asks, and gets the same answer. 1 if the last checkpoint that was begun survives, 0 if it is
 * still being stored somewhere, or the error that varve_wait would return. Cheap enough for every step of a program. */
VARVE_API int varve_test(struct varve_session *session);

/* Collective, and the same answer on all ranks: one rank that was asked is enough. 1 if a checkpoint is wanted, else 0:
 *
 *   by time       the settings interval_seconds and interval_share: with both set either is enough, with neither it is
 *                 always due. Share s means: the time spent inside varve_checkpoint stays near s of the run time. With
 *                 interval=auto what loses least; with interval=asked never
 *   by somebody   a signal (settings signal and exit_signal), a file (trigger_file), `varve trigger STORE NAME`
 *   by the clock  the end of the job is near (setting end_time, SLURM_JOB_END_TIME)
 *
 * What somebody has asked for stays wanted until a checkpoint is begun. Call it once per step: nothing is noticed in
 * between. */
VARVE_API int varve_need(struct varve_session *session);

/* Collective, and the same answer on all ranks. 1 if the job should end (exit_signal, `varve trigger --exit`, or its
 * end is near), and a checkpoint that was begun after varve_need had noticed that is durable; it waits for that one. 0
 * otherwise, also when that checkpoint has failed: varve_need says yes again then.
 *
 *     if (varve_need(s) == 1)
 *         varve_checkpoint(s, step);
 *     if (varve_should_exit(s) == 1)
 *         break;
 */
VARVE_API int varve_should_exit(struct varve_session *session);

/* Seconds until the end of the job, by the setting end_time or SLURM_JOB_END_TIME, and less than 0 after it; INFINITY
 * if nobody has said when, and for a session that is NULL. By the clock of this node; not collective. */
VARVE_API double varve_time_left(const struct varve_session *session);

/* The time between the end of a checkpoint and the next one with which a job loses least, in seconds: each takes so
 * much of its time, and the job fails so often on average (Daly 2006). NaN if one is not known: mtbf must be above 0,
 * cost 0 or more. */
VARVE_API double varve_best_interval(double cost_seconds, double mtbf_seconds);

/* ---- coming back ---- */

/* Collective. Fill all protected regions from a version, or from VARVE_LATEST: the newest checkpoint that is whole on
 * all ranks; newer ones that are not are named in the log with the reason. Waits for what is in flight.
 * VARVE_NO_CHECKPOINT when there is none at all: a first run, which the log says with the names that are there instead.
 * -ENOENT when the version asked for is not there, or when all that there are were rejected; VARVE_MISMATCH when a
 * protected region is not stored or has another size, or the checkpoint is of another number of ranks and
 * varve_distribute has not said what becomes of a region (nothing is written on any rank then); VARVE_CORRUPT when
 * there are checkpoints but none is whole. version_out may be NULL. */
VARVE_API int varve_restart(struct varve_session *session, int64_t version, int64_t *version_out);

/* A region of another size: fill what both have, zero the rest. Not on another number of ranks. */
#define VARVE_RESTART_RESIZE 1u
#define VARVE_RESTART_MISSING 2u /* leave regions alone that are not stored */

/* Collective. The same for chosen regions (count names), with flags; both may differ between ranks. regions may be
 * NULL for all protected ones. */
VARVE_API int varve_restart_regions(struct varve_session *session, int64_t version, const char *const *regions,
                                    size_t count, unsigned flags, int64_t *version_out);

/* varve_restart in steps, for programs that can start with part of their data.
 *
 * varve_restart_begin: collective. Chooses a checkpoint as varve_restart does, with the same errors, up to where all
 * ranks agree that its regions fit what is protected. Then it returns, while a thread of the library fills the regions.
 * Regions with callbacks, and those of devices, are filled inside the call. So is everything with threads=0, and where
 * ranks read for each other: with node-local stores, on several nodes when much of the data is shared, and when the
 * checkpoint is of other ranks or blocks. -ENOTSUP with allocations that have no name (setting heap).
 *
 * varve_restart_wait: not collective. Wait until a region of this rank is filled. 0 means: its bytes are those of the
 * checkpoint, and were checked here; the program may use and change them. Otherwise it is why this rank cannot read the
 * checkpoint. The region that is waited for is filled next, the others in the order in which they were stored. No
 * region may be read or written before. -ENOENT when there is none of this name, -EINVAL when no restart is under way.
 *
 * varve_restart_end: collective. Waits for all regions. 0: the session goes on from the checkpoint as after
 * varve_restart. An error of any rank is the error of all: nothing was continued from, and the contents of all regions
 * are undefined, handed out or not. varve_restart then passes over what is damaged, as ever.
 *
 * In between, calls that save, restart or change regions are refused with -EBUSY on this rank; varve_close gives the
 * restart up. */
VARVE_API int varve_restart_begin(struct varve_session *session, int64_t version, int64_t *version_out);
VARVE_API int varve_restart_wait(struct varve_session *session, const char *region);
VARVE_API int varve_restart_end(struct varve_session *session);

struct varve_region_info {
    const char *name; /* lives during the call */
    uint64_t bytes;
    const struct varve_array
        *array; /* what it holds; type VARVE_BYTES and no dimensions if nobody said. Lives during the call */
    enum varve_distribution how; /* as varve_distribute said when it was stored */
};

/* Where the stored regions go, for programs that learn their sizes from the store. Both are called by the thread that
 * calls varve_restart_alloc, inside that call, and must not call functions of this session. */
struct varve_allocator {
    size_t size; /* sizeof(struct varve_allocator) */
    /* Memory for region->bytes bytes of this rank, or VARVE_NOT_WANTED: the region is passed over. NULL, or MAP_FAILED
     * as mmap returns it, fails the call with -ENOMEM on all ranks, unless bytes is 0. */
    void *(*alloc)(void *arg, const struct varve_region_info *region);
    /* The checkpoint was passed over, or the call fails: this memory is the program's again, and is not protected. */
    void (*release)(void *arg, const char *region, void *ptr);
    /* May be NULL. Called before alloc, only when the checkpoint is of another number of ranks: which part of `whole`
     * does this rank want? *how and *part say what it gets without a word:
     *   VARVE_JOINED      an even share of the list. Another number of rows goes into part->dim[0].local: all ranks
     *                     together must want as many as whole->array->dim[0].local, or whole->bytes, says.
     *   VARVE_BY_DIMS     of an array nothing: part has no dimensions, and the call is refused unless they are filled
     *                     in, as for varve_protect_array. *part = *whole->array is all of it. Of other regions nobody
     *                     has said what they are: set *how to VARVE_REPLICATED, VARVE_BY_RANK or VARVE_DROPPED.
     *   VARVE_REPLICATED  all of it; VARVE_BY_RANK: what the rank of this number has stored. *part does not matter.
     * VARVE_DROPPED: this rank wants nothing of it, and does not protect it. Nonzero fails the call on all ranks. Not
     * called for regions that are filled where they are protected. */
    int (*choose)(void *arg, const struct varve_region_info *whole, enum varve_distribution *how,
                  struct varve_array *part);
};
#define VARVE_NOT_WANTED ((void *)-2) /* not MAP_FAILED: a failed mmap must not drop a region */

/* Collective. varve_restart for programs that allocate: asks for memory for each stored region that is not protected,
 * or is with another size (that protection ends then). What it gets is protected with the array that is stored, and
 * with the flags that its name had. Regions that are protected with the stored size, and as the same block if they are
 * arrays, are filled where they are. If a checkpoint turns out to be damaged, on whichever rank, all its memory is
 * released, and the program is asked again, for the next older one. Nothing that was given is lost: in the end it is
 * protected, or was released. If the call fails, regions whose protection has ended are to be protected again, or
 * unprotected: until then checkpoints are refused with their names. On another number of ranks each gets its part:
 * varve_restart(3) says which. Errors as of varve_restart. */
VARVE_API int varve_restart_alloc(struct varve_session *session, int64_t version,
                                  const struct varve_allocator *allocator, void *arg, int64_t *version_out);

/* Collective. Go on from a version (or VARVE_LATEST) without reading it back: what the protected regions still have in
 * common with it will not be stored again. For programs that have their data already, and only want to add a
 * checkpoint; all of it is compared by content at the next varve_checkpoint. Before the first one. Errors as of
 * varve_restart; VARVE_NO_CHECKPOINT changes nothing. version_out may be NULL. */
VARVE_API int varve_continue(struct varve_session *session, int64_t version, int64_t *version_out);

/* Collective. This checkpoint is bad for the program, although it is whole: do not offer it as latest again in this
 * session, and let the next restart take an older one; -ENOENT when none is left. Version numbers as given back by
 * varve_restart. */
VARVE_API int varve_reject(struct varve_session *session, int64_t version);

typedef int (*varve_region_fn)(void *arg, const struct varve_region_info *region);

/* Collective. What a version (or VARVE_LATEST) holds of this rank, before anything is protected: calls fn per region
 * until it returns nonzero. Of another number of ranks: arrays and lists as a whole, and what the rank of this number
 * has for itself. version_out may be NULL, fn too. To restart with sizes from the store, use
 * varve_restart_alloc: what is found here may turn out to be damaged when it is read. */
VARVE_API int varve_stored(struct varve_session *session, int64_t version, varve_region_fn fn, void *arg,
                           int64_t *version_out);

/* ---- what it cost ---- */

struct varve_stats {
    size_t size;            /* sizeof(struct varve_stats), set by the caller */
    int64_t version;        /* of the last checkpoint that was begun, -1 if none */
    int result;             /* 0, why it failed, or -EINPROGRESS: it is in flight, and the bytes are still 0 */
    double seconds_blocked; /* inside varve_checkpoint, the wait for the checkpoint before included */
    double seconds_durable; /* from the end of that wait until it is durable */
    uint64_t bytes_protected;
    uint64_t bytes_changed; /* in chunks (fine ones where they are used) that differ from the last checkpoint */
    uint64_t bytes_stored;  /* data as it went to storage */
};
/* Statistics of this rank's part of the last checkpoint that was begun; not collective. Wait for it first (varve_wait)
 * to get all of them. */
VARVE_API int varve_stats_get(struct varve_session *session, struct varve_stats *stats);

/* One of all statistics. The members of struct varve_stats are among them, but for size, version and result;
 * varve_stats(3) explains them. */
struct varve_stat {
    const char *name; /* "bytes_new", "seconds_encode", "codec_reason", ... */
    const char *unit; /* "bytes", "seconds", "pages", ...; "": a plain number, or a text */
    double value;     /* 0 for a text */
    const char *text; /* lives during the call; NULL for a number */
};
typedef void (*varve_stat_fn)(void *arg, const struct varve_stat *stat);
/* Calls fn for every statistic of the same checkpoint. More may come with later versions. Not collective; fn must not
 * use the session. */
VARVE_API int varve_stats_each(struct varve_session *session, varve_stat_fn fn, void *arg);

#ifdef __cplusplus
}
#endif
#endif
