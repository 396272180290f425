/* Several processes, each with all below it, on their way into one checkpoint: what `varve dump` does about them. */
#ifndef PROCESS_DUMP_H
#define PROCESS_DUMP_H

#include <limits.h>

#include "process/drain.h"
#include "process/tree.h"

/* An image, and the file that it becomes: PID/NAME where there are several processes. */
struct process_file {
    char *path;
    const struct process_images *among;
    const struct process_image *image;
};

struct process_dump {
    /* what is wanted */
    const pid_t *pids;
    size_t count;
    const char *program;  /* criu, NULL: the one in PATH */
    char *const *options; /* for it */
    int option_count;
    int is_stopping; /* the processes stay stopped, and end when they are stored */
    /* what becomes of it */
    char gate[PATH_MAX]; /* the program that criu runs before they go on */
    struct process_criu *criu;
    struct process_source *sources;
    struct process_receiver receiver;
    struct process_held held;
    int is_held;
    struct process_drain drain;
    struct process_file *files; /* by path */
    int *fds;                   /* of them */
    size_t file_count;
};

/* All of them: 0 or a negative code, told in error where there is more to say than the code does. */

/* Before anything is stopped. */
int process_dump_prepare(struct process_dump *dump, struct varve_error *error);
/* From the processes into memory: criu runs for each of them, all at once. 0 when each says that all is there, and not
 * before; 1 when `memory` is full before: the rest is read by process_dump_read. */
int process_dump_take(struct process_dump *dump, uint64_t memory, struct varve_error *error);
/* All is there: the images as files, with the mappings as variables. */
int process_dump_plan(struct process_dump *dump, struct files_plan *plan, struct varve_error *error);

/* Memory was full: one region, as long as it may become; zeros cost nothing. */
int process_dump_begin(struct process_dump *dump, struct files_plan *plan);
int process_dump_read(struct process_dump *dump, uint64_t offset, void *buffer, size_t size, struct varve_error *error);
/* All was read: did each criu end well? Then the plan says what lies where. */
int process_dump_complete(struct process_dump *dump, struct files_plan *plan, struct varve_error *error);

/* The processes run on, or end. */
int process_dump_end(struct process_dump *dump, int is_stored, struct varve_error *error);
void process_dump_clear(struct process_dump *dump);

/* Bring several back, whose images lie in FOLDER/PID of criu's folder, as the paths of the files say: all go on
 * together, or none. */
int process_restore(const struct process_criu *criu, const struct files_list *files, char *const options[],
                    int option_count, struct varve_error *error);

#endif
