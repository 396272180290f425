/* A process and all below it, held while they are stopped: they are killed when their checkpoint is durable, and go on
 * when it is not, also when this program dies at any moment. */
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

struct process_held {
    pid_t root;
    struct process_member *members; /* once they are stopped */
    size_t count;
    pid_t guard; /* a process that signals them, whatever becomes of us */
    int socket;  /* to the guard */
};

/* Call it before the tree is stopped, and before there are threads. */
int process_hold(struct process_held *held, pid_t root, struct varve_error *error);
/* They are stopped: remember them. A root that is killed from now on leaves nobody behind. */
int process_hold_members(struct process_held *held, struct varve_error *error);
/* Kill them, or let them go on. 0, or the error of those that could not be signalled. */
int process_let_go(struct process_held *held, int is_stored, struct varve_error *error);

#endif
