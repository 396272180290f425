/* A process and all below it, held while they are stopped: they are killed when their checkpoint is durable, and go on
 * when it is not, also when this program dies at any moment. */
#ifndef PROCESS_TREE_H
#define PROCESS_TREE_H

#include <sys/types.h>
#include <varve/varve_error.h>

struct process_held {
    pid_t root;
    pid_t guard; /* a process that lets them go on when nobody else does */
    int pipe;    /* it reads the other end */
};

/* Call it before the tree is stopped, and before there are threads. */
int process_hold(struct process_held *held, pid_t root, struct varve_error *error);
/* Kill the tree, or let it go on. */
void process_let_go(struct process_held *held, int is_stored);
/* This signal to all of them. 0, or -ENOMEM. */
int process_signal_tree(pid_t root, int signal);

#endif
