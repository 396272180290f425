/* Regions in OpenCL buffers, between the files of this folder. All of it is a library of its own on the public
 * headers, so that programs without OpenCL need none. */
#ifndef VARVE_OPENCL_PRIVATE_H
#define VARVE_OPENCL_PRIVATE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <varve/varve_cl.h>
#include <varve/varve_device.h>

#define PART_MOST (UINT64_C(1) << 30) /* bytes of a region that are compared at once: chunks are counted in 32 bits */
#define NONE UINT32_MAX

/* The kernels of the .cl files. */
/* clang-format off */
#define KERNEL_MAP(X)                                                                                                  \
    X(name_granules) X(list_granules) X(sum_blocks) X(add_sums) X(name_chunks) X(find_chunks) X(mark_heads)            \
    X(label_chunks) X(mark_runs) X(remember) X(keep_past) X(begin_runs) X(end_runs) X(write_granules) X(gather)        \
    X(forget_slots) X(undo_moved) X(undo_past) X(enter_slots) X(place_chunks) X(find_restored) X(mark_restored)
/* clang-format on */
#define KERNEL_ENUM(name) KERNEL_##name,
enum cl_kernel_name { KERNEL_MAP(KERNEL_ENUM) KERNEL_COUNT };
#undef KERNEL_ENUM

/* Memory on the device to work in; grows, and is shared by all regions of a context. */
enum cl_space_name {
    SPACE_PART,
    SPACE_USABLE,
    SPACE_LIST,  /* granules to look at */
    SPACE_MARKS, /* of granules, then of heads */
    SPACE_RUN_MARKS,
    SPACE_SUMS, /* and three more for the sums of sums */
    SPACE_SUMS_LAST = SPACE_SUMS + 3,
    SPACE_IDS,
    SPACE_ENTRIES,
    SPACE_HOMES,
    SPACE_HEADS,
    SPACE_PLACES,
    SPACE_LABELS,
    SPACE_RUNS,    /* restored: as told */
    SPACE_BETWEEN, /* bytes that come back, where the host may not write the buffer */
    SPACE_COUNT
};
struct cl_space {
    cl_mem memory;
    size_t size;
};

/* What all regions of a device share. */
struct cl_shared {
    struct cl_shared *next;
    unsigned users;
    cl_context context;
    cl_device_id device;
    cl_program program;
    cl_kernel kernels[KERNEL_COUNT];
    size_t group[KERNEL_COUNT]; /* work-items that run together */
    pthread_mutex_t lock;       /* sessions of several threads may share a context */
    struct cl_space spaces[SPACE_COUNT];
};

/* As struct part in part.cl. */
struct cl_part {
    uint64_t base, total, seed, address;
    uint32_t granule, granules, listed, chunks, shift, source, sources, has_past;
    uint32_t used, capacity, slots, heads, runs;
};

/* What was seen: ids, their places, and the slots that lead from ids to entries. */
struct cl_table {
    cl_mem ids, places, slots;
    uint32_t used;    /* entries */
    uint32_t settled; /* of these, of checkpoints that exist */
    uint32_t capacity, slot_count;
    int is_full; /* there was no memory for more */
};

/* How to take back what a part has changed. */
struct cl_log {
    cl_mem list, past, moved;
    uint32_t chunks, moved_count;
};

struct cl_region {
    struct cl_shared *shared;
    cl_command_queue queue; /* that is used: in order */
    cl_command_queue given; /* the program's; may be the same */
    cl_mem buffer;
    uint64_t base, bytes;
    int is_closed_to_host; /* the buffer was made so that the host may not write it */

    uint64_t seed;
    uint32_t shift;     /* of chunks; 0: nothing is known yet */
    int has_kept;       /* kept and past tell of a checkpoint */
    cl_mem keys;        /* of the hash */
    cl_mem kept, fresh; /* ids of granules: of the last checkpoint, and of this attempt */
    cl_mem past;        /* of each chunk 96 bits of its id in the last checkpoint */
    struct cl_table table;
    struct cl_table aside; /* in an attempt that stands on its own: what was seen before */

    int is_spoilt;  /* something failed in this attempt: what is known may be wrong */
    uint64_t asked; /* so many bytes were compared in this attempt */
    struct cl_log *logs;
    size_t log_count, log_capacity;
    struct cl_part part; /* that is looked at */
    struct cl_space out; /* the answer, and where the host sees it */
    uint8_t *answer;
    char why[256]; /* the last error */
};

/* ---- opencl_names.c ---- */
const char *vv_cl_name(cl_int code);
/* What failed, as a negative error; why gets a text for people. 0 for CL_SUCCESS. */
int vv_cl_code(cl_int code, const char *call, char *why, size_t why_size);
#define TOLD(region, code, call) vv_cl_code((code), (call), (region)->why, sizeof(region)->why)

/* ---- made from the .cl files when this is built ---- */
extern const unsigned char vv_cl_source[];
extern const size_t vv_cl_source_size;

/* ---- opencl_shared.c ---- */
int vv_cl_share(cl_context context, cl_device_id device, struct cl_shared **out, char *why, size_t why_size);
void vv_cl_unshare(struct cl_shared *shared);

/* ---- opencl_run.c ---- */
struct cl_arg {
    size_t size;
    const void *value;
};
#define NUMBER(x)                                                                                                      \
    { sizeof(x), &(x) }
#define MEMORY(x)                                                                                                      \
    { sizeof(cl_mem), &(x) }
#define SPACE(region, name)                                                                                            \
    { sizeof(cl_mem), &(region)->shared->spaces[name].memory }
#define RUN(region, name, items, ...)                                                                                  \
    vv_cl_run(region, KERNEL_##name, items, (const struct cl_arg[]){__VA_ARGS__},                                      \
              sizeof((const struct cl_arg[]){__VA_ARGS__}) / sizeof(struct cl_arg))
/* Queue a kernel with so many work-items (rounded up; none: nothing happens). */
int vv_cl_run(struct cl_region *region, enum cl_kernel_name name, size_t items, const struct cl_arg *args,
              size_t count);
/* At least so many bytes; what was in it is lost when it grows. */
int vv_cl_space(struct cl_region *region, enum cl_space_name name, uint64_t size);
int vv_cl_enlarge(struct cl_region *region, struct cl_space *space, uint64_t size);
int vv_cl_make(struct cl_region *region, uint64_t size, cl_mem *out);
void vv_cl_drop(cl_mem *memory); /* accepts NULL in it */
int vv_cl_fill(struct cl_region *region, cl_mem memory, uint32_t word, uint64_t size);
int vv_cl_copy(struct cl_region *region, cl_mem from, cl_mem to, uint64_t size);
int vv_cl_send(struct cl_region *region, cl_mem to, const void *data, uint64_t size);
int vv_cl_fetch(struct cl_region *region, cl_mem from, uint64_t offset, uint64_t size, void *out);
int vv_cl_unmap(struct cl_region *region); /* the answer is not looked at any more */
int vv_cl_send_part(struct cl_region *region);
/* Each pair becomes the sum of all up to it. */
int vv_cl_sum(struct cl_region *region, cl_mem marks, uint32_t count);

/* ---- opencl_keys.c ---- */
#define KEY_WORDS 80u
void vv_cl_keys(uint64_t seed, uint64_t keys[KEY_WORDS]);

/* ---- opencl_table.c ---- */
/* An empty table, if there is none. */
int vv_cl_table_start(struct cl_region *region);
/* Room for more entries, of at most so many in all. -ENOMEM changes nothing. */
int vv_cl_table_grow(struct cl_region *region, uint32_t more, uint64_t most);
/* So many more may be remembered. */
uint32_t vv_cl_table_capacity(const struct cl_table *table, uint64_t most);
int vv_cl_table_forget(struct cl_region *region); /* what is not settled */
void vv_cl_table_clear(struct cl_table *table);
uint32_t vv_cl_power(uint64_t least); /* the power of two that is not less */

/* ---- opencl_part.c: steps that comparing and coming back share ---- */
/* Make ready for asks of this kind: forgets what is known of chunks of another size, or with another seed. */
int vv_cl_prepare(struct cl_region *region, const struct varve_ask *ask);
/* Name the granules of a part; those that differ are listed, part.listed and part.chunks tell how many. */
int vv_cl_list(struct cl_region *region, uint64_t offset, uint64_t length);
/* Memory to work in, and the ids of the chunks. */
int vv_cl_name_chunks(struct cl_region *region);
int vv_cl_remember(struct cl_region *region, cl_mem moved);
int vv_cl_keep_past(struct cl_region *region, cl_mem log, int is_restored);

/* ---- opencl_settle.c ---- */
int vv_cl_settle(void *arg, int is_committed);
/* A log with room for what this part changes, the last of region->logs. */
int vv_cl_log(struct cl_region *region, uint32_t moved, struct cl_log **out);
void vv_cl_drop_logs(struct cl_region *region);
void vv_cl_forget(struct cl_region *region); /* all that is known */

/* ---- opencl_compare.c, opencl_restored.c ---- */
int vv_cl_compare(void *arg, const struct varve_ask *ask, struct varve_answer *answer);
int vv_cl_write(void *arg, uint64_t offset, const void *data, size_t size);
int vv_cl_restored(void *arg, const struct varve_ask *ask, const struct varve_run *runs, size_t count);

/* ---- device_opencl.c ---- */
extern const struct varve_device_ops vv_cl_ops;
int vv_cl_region_create(cl_command_queue queue, cl_mem buffer, uint64_t offset, uint64_t bytes, struct cl_region **out,
                        char *why, size_t why_size);
void vv_cl_region_destroy(struct cl_region *region); /* accepts NULL */

#endif
