/* Processes and all below them, held while they are stopped: they are killed when their checkpoint is durable, and go
 * on when it is not, also when this program dies at any moment. */
#ifndef PROCESS_TREE_H
#define PROCESS_TREE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <varve/varve_error.h>

struct process_member {
    pid_t pid;
    uint64_t start; /* when it was started: ids are used again */
};

/* The processes and all below them; the list is to be freed. 0 or a negative code. */
int process_members(const pid_t *roots, size_t root_count, struct process_member **members, size_t *count);

struct process_held {
    const pid_t *roots;
    size_t root_count;
    struct process_member *members; /* once they are stopped */
    size_t count;
    pid_t guard; /* a process that signals them, whatever becomes of us */
    int socket;  /* to the guard */
};

/* Are they there, each once, and none below another one? 0 or -EINVAL with a text. */
int process_check_roots(const pid_t *roots, size_t count, struct varve_error *error);
/* Call it before the trees are stopped, and before there are threads. roots are not copied. */
int process_hold(struct process_held *held, const pid_t *roots, size_t count, struct varve_error *error);
/* They are stopped: remember them. A root that is killed from now on leaves nobody behind. */
int process_hold_members(struct process_held *held, struct varve_error *error);
/* Kill them, or let them go on. 0, or the error of those that could not be signalled. */
int process_let_go(struct process_held *held, int is_stored, struct varve_error *error);
/* The same for trees that nobody holds. */
int process_signal(const pid_t *roots, size_t count, int number, struct varve_error *error);

#endif
