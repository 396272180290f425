/* Look at a store without an application: list, show, verify, read back, compare, pin, forget, prune, repair. Needs no
 * MPI.
 *
 * Threads: one store handle is used by one thread at a time. Strings given to callbacks live during the call. */
#ifndef VARVE_INSPECT_H
#define VARVE_INSPECT_H

#include <stdint.h>
#include <varve/varve.h>

#ifdef __cplusplus
extern "C" {
#endif

struct varve_store;

/* Open an existing store; VARVE_NO_STORE if there is none. settings as in struct varve_options, may be NULL. On failure
 * *out is NULL, and the other functions return -EINVAL for it. */
VARVE_API int varve_store_open(const char *uri, const char *settings, struct varve_store **out,
                               struct varve_error *error);
/* The same for what varve_store_copy reads: the store need not be encrypted although encrypt=on, which then only counts
 * for the store that is copied to. */
VARVE_API int varve_store_open_source(const char *uri, const char *settings, struct varve_store **out,
                                      struct varve_error *error);
VARVE_API void varve_store_close(struct varve_store *store); /* accepts NULL */

struct varve_checkpoint_info {
    const char *name;
    uint32_t generation;
    int64_t version;
    uint64_t time_ns; /* of the commit, since 1970; 0 when damaged */
    uint32_t ranks;
    uint64_t regions; /* of all ranks; but for varve_store_show also those of attributes and of the index of arrays */
    uint64_t bytes_protected;
    uint64_t bytes_stored; /* new data as stored */
    uint64_t bytes_metadata;
    int is_damaged;     /* nothing is known of it but its name and version, since its record is of no use */
    int is_pinned;      /* see varve_store_pin */
    const char *reason; /* why, or "" */
    int is_unreadable;  /* beside is_damaged: reading its record failed, and says nothing about the checkpoint */
};
/* Return 0 to go on, positive to stop, negative to stop with that error. */
typedef int (*varve_checkpoint_fn)(void *arg, const struct varve_checkpoint_info *checkpoint);

/* All checkpoints, names in order, newest first within each. name may be NULL for all names. */
VARVE_API int varve_store_list(struct varve_store *store, const char *name, varve_checkpoint_fn fn, void *arg,
                               struct varve_error *error);

/* Which checkpoint: version may be -1 for the newest whose record and tables are whole; generation 0 means the highest
 * that has the version. */
struct varve_which {
    const char *name;
    uint32_t generation;
    int64_t version;
};
/* Fill in generation and version. VARVE_NO_CHECKPOINT if there is none. */
VARVE_API int varve_store_resolve(struct varve_store *store, struct varve_which *which, struct varve_error *error);

struct varve_stored_region {
    uint32_t rank;
    const char *name;
    uint64_t bytes;
    const char *type;    /* "bytes", "f64", ... */
    uint64_t bytes_zero; /* never stored */
    uint64_t runs;
    char digest[33];
    const struct varve_array *array; /* what it holds (varve.h); lossy is "zfp" or NULL */
    const char *codec; /* what most of its bytes were stored with; "" if nothing is stored, "?" if its blocks cannot be
                          looked up */
    uint64_t bytes_blocks; /* its share of the blocks it lies in, as stored; what several regions hold counts in each */
    int distribution;      /* enum varve_distribution, as the program had said */
};
typedef int (*varve_stored_region_fn)(void *arg, const struct varve_stored_region *region);

struct varve_checkpoint_detail {
    struct varve_checkpoint_info info;
    uint32_t parent_generation; /* 0: none */
    int64_t parent_version;
    uint32_t writers;
    uint32_t attempt;
    uint32_t dependencies; /* other checkpoints' packs it needs */
    const char *program;
};
/* Details, then every region of every rank (fn may be NULL). detail's strings live until the next call on the store. */
VARVE_API int varve_store_show(struct varve_store *store, const struct varve_which *which,
                               struct varve_checkpoint_detail *detail, varve_stored_region_fn fn, void *arg,
                               struct varve_error *error);

/* The values of a region, from the ranges that were stored with its blocks. Where a block has none, since it is shared
 * by small regions or was stored as bytes, it is read, but not more than 64 MiB in all. */
struct varve_range {
    int is_known; /* 0: no numbers, or nothing was stored about them */
    int has_nan;
    int is_exact;     /* 0: blocks may hold more than this region now does: all values are within */
    double low, high; /* complex numbers: of their parts. i64 and u64 beyond 2^53 are rounded outwards. NaN: there is no
                       * other value, or it is not known */
};
VARVE_API int varve_store_range(struct varve_store *store, const struct varve_which *which, uint32_t rank,
                                const char *region, struct varve_range *out, struct varve_error *error);
/* The same for each block that holds part of it, in the order of the region: offset and size are the part's. Zeros are
 * in no block: their codec is "zero". fn returns 0 to go on, a positive value to stop, a negative one to stop with that
 * error. */
struct varve_block_range {
    uint64_t offset, size;
    const char *codec;
    struct varve_range range;
};
typedef int (*varve_block_range_fn)(void *arg, const struct varve_block_range *block);
VARVE_API int varve_store_ranges(struct varve_store *store, const struct varve_which *which, uint32_t rank,
                                 const char *region, varve_block_range_fn fn, void *arg, struct varve_error *error);

/* Bytes of a region in ascending order. Return nonzero to stop with that error. */
typedef int (*varve_bytes_fn)(void *arg, uint64_t offset, const void *data, size_t size, uint64_t total);
/* Read one region back, every byte checked. A damaged region ends with VARVE_CORRUPT; bytes given out before must
 * then be thrown away. With is_checked_first it is read twice, and nothing is given out unless all of it is right:
 * fn is called with data NULL in the first pass, to tell how far it is. */
VARVE_API int varve_store_read(struct varve_store *store, const struct varve_which *which, uint32_t rank,
                               const char *region, int is_checked_first, varve_bytes_fn fn, void *arg,
                               struct varve_error *error);

/* What the program has attached to a checkpoint with varve_attribute, in that order. Nonzero from fn stops. */
typedef int (*varve_attribute_fn)(void *arg, const char *name, const char *value);
VARVE_API int varve_store_attributes(struct varve_store *store, const struct varve_which *which, varve_attribute_fn fn,
                                     void *arg, struct varve_error *error);

/* ---- arrays of the whole job, put together from the blocks that its ranks hold ---- */
struct varve_global_array {
    const char *name;
    const char *type;                /* "f64", ... */
    const struct varve_array *array; /* all of it: of each dimension, local and global are its size */
    uint64_t bytes;
    uint64_t blocks;     /* regions that hold part of it */
    int is_private;      /* each rank has an array of its own under this name; see varve_store_read */
    int is_whole;        /* every element is stored once, or several ranks have stored the same block alike */
    const char *problem; /* what is wrong if it is neither, or "" */
};
typedef int (*varve_global_array_fn)(void *arg, const struct varve_global_array *array);
/* Every array, in the order in which ranks protect them, or the one of this name (may be NULL). What is on other nodes
 * is not seen, so nothing is whole then. */
VARVE_API int varve_store_arrays(struct varve_store *store, const struct varve_which *which, const char *name,
                                 varve_global_array_fn fn, void *arg, struct varve_error *error);
/* Elements first to first + count - 1 of each dimension. */
struct varve_slice {
    uint64_t first[VARVE_DIMS_MAX], count[VARVE_DIMS_MAX];
};
/* Read an array, or a slice of it, whichever ranks hold it: elements in the order of C, every block that is read is
 * checked. Only what is needed is read. slice may be NULL: all. VARVE_MISMATCH if there is no such array, if it does
 * not reach so far, if an element of the slice is missing, or if blocks of the array overlap, unless they are the same
 * block with the same bits. is_checked_first as in varve_store_read. */
VARVE_API int varve_store_read_array(struct varve_store *store, const struct varve_which *which, const char *name,
                                     const struct varve_slice *slice, int is_checked_first, varve_bytes_fn fn,
                                     void *arg, struct varve_error *error);

/* A part of an array, and where its elements go. */
struct varve_part {
    const char *array;
    struct varve_slice slice;
    void *to;       /* elements in the order of C; no two parts share memory */
    uint64_t bytes; /* there: as many as the slice has */
};
/* Read parts of arrays of one checkpoint straight into memory. What varve_store_read_array does for each, with its
 * errors, but descriptions are read once for all, and data by several threads. All parts are looked at before a byte is
 * written; if reading fails then, the contents of their memory are undefined. */
VARVE_API int varve_store_read_parts(struct varve_store *store, const struct varve_which *which,
                                     const struct varve_part *parts, size_t count, struct varve_error *error);
/* Bytes that this handle has read from the storage, tables and lists included, since the first call of this function,
 * which says 0, or since the first varve_store_compare. */
VARVE_API int varve_store_bytes_read(struct varve_store *store, uint64_t *out, struct varve_error *error);

/* ---- comparing two checkpoints ---- */
struct varve_difference {
    uint32_t rank;
    const char *region;
    int what; /* 0 same, 1 changed, 2 only in the first, 3 only in the second, 4 size differs, 5 changed within the
                 tolerance */
    uint64_t bytes_first;
    uint64_t bytes_second;
    uint64_t bytes_changed; /* of elements that are not the same bits, and what only one has; if quick, an upper bound
                               in granules */
    /* What follows is 0 or "" if quick, and where only one has the region. */
    const char *type;            /* what both hold, "f64" ...; "bytes" if that is not the same */
    uint64_t elements;           /* that both have */
    uint64_t elements_changed;   /* not the same bits */
    uint64_t elements_differing; /* of these, beyond the tolerance: without one, all */
    uint64_t elements_nan;       /* of those, NaN in one of the two: there is no distance */
    uint64_t first_element;      /* the first one that differs; or, if none does, that changed */
    uint64_t first_offset;       /* the same in bytes */
    const char *value_first;     /* its value in the first checkpoint, every digit; "" if none changed */
    const char *value_second;
    double largest;           /* greatest distance of all that changed; of bytes, which are no numbers, NaN */
    double largest_relative;  /* the same, each divided by the greater magnitude of the two */
    uint64_t largest_element; /* where `largest` is */
    int is_array;             /* an array of all ranks, whose elements are counted through: rank says nothing */
};
typedef int (*varve_difference_fn)(void *arg, const struct varve_difference *difference);
/* Compare two checkpoints region by region, or, if they are of other numbers of ranks, arrays that are whole in both as
 * such (not if quick). By digests first and stored places and ids then; reads no data: what
 * cannot be told apart that way counts as changed. fn may be NULL. Returns the number of regions that differ. */
VARVE_API int varve_store_diff(struct varve_store *store, const struct varve_which *first,
                               const struct varve_which *second, varve_difference_fn fn, void *arg,
                               struct varve_error *error);

/* Long work tells how far it is; return nonzero to stop it (-EINTR). */
typedef int (*varve_progress_fn)(void *arg, uint64_t done, uint64_t total);

struct varve_compare_options {
    size_t size;                /* sizeof(struct varve_compare_options) */
    struct varve_store *second; /* where the second checkpoint is; NULL: in the same store */
    int is_quick;               /* read no data, as varve_store_diff. -EINVAL if the stores do not use the same ids */
    int is_by_value;  /* 0: bit for bit. 1: floating-point values of which one of the two bounds holds are the same */
    double tolerance; /* bound of |a - b|; finite, 0 or more */
    double relative;  /* bound of |a - b| / max(|a|, |b|); finite, 0 or more */
    varve_difference_fn difference;
    varve_progress_fn progress; /* in bytes of regions */
    void *arg;
};
struct varve_compare_result {
    size_t size; /* sizeof(struct varve_compare_result), set by the caller */
    uint64_t regions;
    uint64_t regions_differing;
    uint64_t regions_within; /* not the same, but within the tolerance */
    uint64_t ranks_left_out; /* not on this node */
    /* Bytes that both have, by how they were found to be the same, or not: */
    uint64_t bytes_digest; /* all of a region by its digest */
    uint64_t bytes_place;  /* stored once for both */
    uint64_t bytes_zero;
    uint64_t bytes_id;       /* stored twice, with the same id */
    uint64_t bytes_compared; /* looked at */
    uint64_t bytes_read;     /* from the storage, tables and lists included */
};
/* The same, and what digests, places and ids leave open is read and compared, each block once in 32 MiB of it. Memory
 * is bounded. Names, versions and stores may be any: between stores with different seeds, and for what one name stored
 * and the other did not, there is less to go by and more is read. options and out may be NULL. Returns the number of
 * regions that differ. */
VARVE_API int varve_store_compare(struct varve_store *store, const struct varve_which *first,
                                  const struct varve_which *second, const struct varve_compare_options *options,
                                  struct varve_compare_result *out, struct varve_error *error);

struct varve_store_totals {
    uint64_t names;
    uint64_t checkpoints;
    uint64_t objects;
    uint64_t bytes;           /* all objects */
    uint64_t bytes_protected; /* what the checkpoints would be without deduplication and compression */
    uint64_t bytes_stored;
    uint64_t bytes_metadata;
    uint64_t storage_free; /* bytes that this user may still take there; UINT64_MAX: it does not tell */
    uint64_t min_free;     /* the setting: a session with the same one stores no data when less is free */
};
VARVE_API int varve_store_stats(struct varve_store *store, const char *name, struct varve_store_totals *out,
                                struct varve_error *error);

struct varve_usage {
    size_t size; /* sizeof(struct varve_usage), set by the caller */
    uint64_t checkpoints;
    uint64_t bytes_live; /* what they refer to, as stored, each byte once, and the tables of their own packs */
    uint64_t bytes_kept; /* all objects of the attempts they depend on; what is not live of it is waste */
    uint64_t bytes_free; /* what nothing depends on: prune would free it */
    uint64_t objects_free;
    uint64_t attempts;        /* that any of them depends on, its own included */
    uint64_t newest_attempts; /* that the newest depends on, its own included */
    uint64_t newest_packs;    /* in these */
};
/* What the checkpoints of a name need of the space they keep. Reads all manifests and tables, no data. progress (may be
 * NULL) counts in bytes of regions. VARVE_UNSUPPORTED for one of several node-local stores. */
VARVE_API int varve_store_usage(struct varve_store *store, const char *name, varve_progress_fn progress, void *arg,
                                struct varve_usage *out, struct varve_error *error);

/* level: 0 damage: of an object, or under the key of its record a checkpoint that cannot be restored; 1 a checkpoint
 * that is complete but has lost its record; 2 a note. */
typedef void (*varve_finding_fn)(void *arg, int level, const char *key, const char *text);

struct varve_verify_options {
    size_t size; /* sizeof(struct varve_verify_options) */
    const char *name;
    int is_quick; /* look at tables only, not at data */
    varve_finding_fn finding;
    varve_progress_fn progress;
    void *arg;
};
struct varve_verify_result {
    uint64_t objects;
    uint64_t bytes;
    uint64_t checkpoints;
    uint64_t damaged_objects;  /* findings of level 0 */
    uint64_t lost_checkpoints; /* of level 1 */
};
VARVE_API int varve_store_verify(struct varve_store *store, const struct varve_verify_options *options,
                                 struct varve_verify_result *out, struct varve_error *error);

/* Told about each thing before it is removed or changed (or would be, in a dry run). */
typedef void (*varve_action_fn)(void *arg, const char *key, uint64_t bytes, const char *text);

/* varve_store_prune and varve_store_repair of this store tell fn (NULL: nobody) how far they are, in steps that take
 * about as long as a request to the storage. The total is an estimate, and grows as more is found. Stopped, they end
 * between two steps; what they have done stays, and both may be called again. */
VARVE_API void varve_store_progress(struct varve_store *store, varve_progress_fn fn, void *arg);

/* Forget one checkpoint. VARVE_BUSY when it is pinned, or a running session refers to it. Frees no space until prune.
 */
VARVE_API int varve_store_forget(struct varve_store *store, const struct varve_which *which, struct varve_error *error);

/* Pin a checkpoint: nothing forgets it, neither a job by its setting keep nor varve_store_forget, until it is unpinned.
 * reason is for people, at most 255 bytes, and may be NULL. Safe beside running jobs: 0 means that it stays. 1: it was
 * pinned before, and nothing has changed. VARVE_FORGOTTEN when a job was faster. Of node-local stores, that of one node
 * is enough. */
VARVE_API int varve_store_pin(struct varve_store *store, const struct varve_which *which, const char *reason,
                              struct varve_error *error);
/* The next one that looks may forget it again. VARVE_NO_CHECKPOINT when it is not pinned. */
VARVE_API int varve_store_unpin(struct varve_store *store, const struct varve_which *which, struct varve_error *error);

struct varve_pin {
    size_t size;      /* sizeof(struct varve_pin), set by the caller */
    uint64_t time_ns; /* since 1970; 0: the pin is damaged, and counts nevertheless */
    char host[256];   /* where it was made */
    char reason[256]; /* or how it is damaged */
};
/* Is it pinned? 1 and by what, 0, or an error. */
VARVE_API int varve_store_pinned(struct varve_store *store, const struct varve_which *which, struct varve_pin *out,
                                 struct varve_error *error);

/* Do both copies of the store's key open with the user's key (the setting key)? 1; 0 if the store is not encrypted;
 * else the error says which copy does not. */
VARVE_API int varve_store_key_check(struct varve_store *store, struct varve_error *error);
/* Let the store be opened with another key of the user, from new_key (as the setting key), and not with the present one
 * any more. Data is not written anew. After an error, or a crash, one of the two opens it, or both: try again. Of
 * node-local stores each has to be changed, while no job runs. VARVE_KEY: the store is not encrypted. */
VARVE_API int varve_store_key_change(struct varve_store *store, const char *new_key, struct varve_error *error);

/* Ask the session that has this name open for a checkpoint; with VARVE_TRIGGER_EXIT, to end after it, too. It takes
 * notice at its next varve_need, and then varve_should_exit. 0; 1: the same was asked before, and is not taken yet.
 * VARVE_BUSY: something else was, try again in a moment. -ESRCH: no session has the name open. Of node-local stores,
 * that of rank 0's node. */
#define VARVE_TRIGGER_EXIT 1u
VARVE_API int varve_store_trigger(struct varve_store *store, const char *name, unsigned flags,
                                  struct varve_error *error);

/* What sessions have left in the store about their checkpoints: one log for each, for the last ones of a name. */
struct varve_job_log {
    size_t size;         /* of this struct, as the library knows it */
    uint32_t generation; /* its first one */
    const char *text;    /* lines, each a JSON object (the format document explains them); NULL: it cannot be read */
    size_t length;       /* bytes of them; no NUL follows */
    const char *reason;  /* why it cannot be read, or NULL */
};
typedef int (*varve_job_log_fn)(void *arg, const struct varve_job_log *log);
/* Calls fn for each log of a name, the newest first, until it returns nonzero, which is returned. Everything in it
 * lives during the call. A log tells what its session had written last, some seconds ago while it runs: trust no more
 * than that. Of node-local stores, that of rank 0's node has it. */
VARVE_API int varve_store_logs(struct varve_store *store, const char *name, varve_job_log_fn fn, void *arg,
                               struct varve_error *error);

struct varve_prune_result {
    uint64_t objects;
    uint64_t bytes;
    uint64_t kept_attempts; /* unfinished, of sessions that may be alive */
};
/* Remove what no checkpoint needs. name NULL: all names. */
VARVE_API int varve_store_prune(struct varve_store *store, const char *name, int is_dry_run, varve_action_fn fn,
                                void *arg, struct varve_prune_result *out, struct varve_error *error);

struct varve_compact_options {
    size_t size;   /* sizeof(struct varve_compact_options) */
    uint64_t keep; /* only the newest so many checkpoints, the others are forgotten; 0: all */
    /* Told before a checkpoint is written again, or forgotten; may be NULL. */
    void (*report)(void *arg, int is_forgotten, uint32_t generation, uint64_t version);
    varve_progress_fn progress; /* in bytes of regions, copied and read back */
    void *arg;
};
struct varve_compact_result {
    size_t size;            /* sizeof(struct varve_compact_result), set by the caller */
    uint64_t moved;         /* checkpoints that were written again; 0: there was less than 5 % to gain */
    uint64_t forgotten;     /* checkpoints */
    uint64_t bytes_written; /* in new packs */
    uint64_t bytes_before;  /* in packs of the name */
    uint64_t bytes_after;
    uint64_t bytes_live; /* what the checkpoints that are left need, as struct varve_usage has it */
};
/* Let the checkpoints of a name take about what they need: each is written again, with what is live, under its version
 * and a new generation, and read back; then the old ones are forgotten and pruned. Needs room for that beside what is
 * there. VARVE_BUSY while a program may be writing the name, VARVE_UNSUPPORTED for node-local stores, data with copies,
 * and where two lives that saved the same versions are kept. Killed or stopped anywhere, all checkpoints are there.
 * options and out may be NULL; out is filled also after an error. */
VARVE_API int varve_store_compact(struct varve_store *store, const char *name,
                                  const struct varve_compact_options *options, struct varve_compact_result *out,
                                  struct varve_error *error);

struct varve_copy_options {
    size_t size;                /* sizeof(struct varve_copy_options) */
    int is_dry_run;             /* read and compare only */
    varve_progress_fn progress; /* in bytes of regions, copied and read back */
    void *arg;
    int may_go_back; /* a lower version than what is there, if it was saved later than that */
};
struct varve_copy_result {
    size_t size;         /* sizeof(struct varve_copy_result), set by the caller */
    int is_there;        /* the copy was there already, and was compared */
    uint32_t generation; /* of the copy; 0: there is none */
    int64_t version;
    uint32_t ranks;
    uint64_t regions;         /* of all ranks */
    uint64_t bytes_protected; /* the same */
    uint64_t bytes_new;       /* what the other store did not have, before it is compressed */
    uint64_t bytes_resumed;   /* of these, what an earlier try had stored already; not known in a dry run */
    uint64_t bytes_written;   /* in new packs */
};
/* Make a checkpoint one of `name` in the store at the address `to`, which is made if it is missing. It keeps its
 * version, the time it was saved at, its ranks and regions. What the newest checkpoint of `name` has already is not
 * stored again. All is checked as it is read, and read back before it becomes a checkpoint. Killed or stopped anywhere,
 * there is no copy yet; given again, it goes on with what it had stored. After it was killed or stopped while it read
 * back, a session that opens `name` there makes the copy a checkpoint as it is. VARVE_BUSY while a program may be
 * writing `name` there, VARVE_MISMATCH when that name has this version of something else, or a later one,
 * VARVE_UNSUPPORTED for node-local stores, VARVE_CORRUPT when the checkpoint is damaged. Settings of `store` count for
 * the other one, too: with encrypt=on a new one is encrypted. VARVE_KEY when the store is encrypted and the other one
 * is not, or would not be. options and out may be NULL; out is filled also after an error. */
VARVE_API int varve_store_copy(struct varve_store *store, const struct varve_which *which, const char *to,
                               const char *name, const struct varve_copy_options *options,
                               struct varve_copy_result *out, struct varve_error *error);

/* ---- who holds a name ---- */
enum varve_holding {
    VARVE_HELD_BY_NOBODY = 0,
    VARVE_HELD_BY_DEAD = 1,
    VARVE_HELD_BY_UNKNOWN = 2, /* only its heartbeat tells whether it is alive */
    VARVE_HELD_BY_LIVING = 3
};
struct varve_holder {
    size_t size;         /* sizeof(struct varve_holder), set by the caller */
    int holding;         /* enum varve_holding */
    uint32_t generation; /* 0: the name was never claimed */
    uint32_t pid;        /* in the holder's own PID namespace */
    uint32_t ranks;
    uint32_t beat_seconds; /* how often it renews its heartbeat */
    uint32_t dead_seconds; /* it is dead when its heartbeat was seen unchanged for so long */
    uint64_t claimed_ns;   /* since 1970, on the holder's clock; 0: its claim cannot be read */
    uint64_t beat_ns;      /* when its heartbeat was last renewed, on the holder's clock; 0: not known */
    char host[256];
    char program[256];
    char evidence[200]; /* for `holding` */
};
/* Looks, and waits for nothing. */
VARVE_API int varve_store_holder(struct varve_store *store, const char *name, struct varve_holder *out,
                                 struct varve_error *error);
/* Free the name of a dead holder, so that the next varve_open need not wait. VARVE_BUSY while the holder is alive. If
 * that is not known, its heartbeat is watched for its dead_seconds (progress in milliseconds); with is_dead, for those
 * who know that it is dead, for two of its periods only. The holder's objects are not touched: if it is alive after
 * all, its next checkpoint ends with VARVE_FENCED. out (may be NULL) says who it was, as found and watched. */
VARVE_API int varve_store_unlock(struct varve_store *store, const char *name, int is_dead, varve_progress_fn progress,
                                 void *arg, struct varve_holder *out, struct varve_error *error);

/* Rebuild what can be rebuilt. Returns how many things were (or would be) repaired. */
VARVE_API int varve_store_repair(struct varve_store *store, int is_dry_run, varve_action_fn fn, void *arg,
                                 struct varve_error *error);

/* ---- the table of settings ---- */
struct varve_setting_info {
    const char *name;
    const char *type;    /* "bytes", "choice", ... */
    const char *bounds;  /* "64K to 16M", "auto|none|lz4|zstd", "auto, off, 0 to 4096" */
    const char *initial; /* the default */
    const char *value;   /* in effect */
    const char *origin;  /* "default", "environment", "program", "path:line" */
    const char *help;
    const char *tier; /* "everyday", "advanced" or "measuring"; they come in this order */
};
typedef int (*varve_setting_fn)(void *arg, const struct varve_setting_info *setting);
VARVE_API int varve_settings_list(const char *settings, varve_setting_fn fn, void *arg, struct varve_error *error);

/* ---- what a session with these settings would do on this machine, for this user ---- */
struct varve_choice_info {
    const char *what;   /* "capture", "tracker" (how changed pages are found), "guard" (how pages are held), "frozen" */
    const char *choice; /* as in varve_stats(3); guard: "uffd", "mprotect" or "none" */
    const char *reason;
};
typedef int (*varve_choice_fn)(void *arg, const struct varve_choice_info *choice);
/* Tries what works. If what the settings ask for does not, that is the error, as it would be of varve_open. */
VARVE_API int varve_choices_list(const char *settings, varve_choice_fn fn, void *arg, struct varve_error *error);

#ifdef __cplusplus
}
#endif
#endif
