/* Starts criu, the program that freezes processes and takes them down, and tells its failures in plain words. */
#ifndef PROCESS_CRIU_H
#define PROCESS_CRIU_H

#include <sys/types.h>
#include <varve/varve_error.h>

#define PROCESS_FOLDER_CAPACITY 96
#define PROCESS_OPTIONS_MOST 32 /* for criu, of its user */

/* A folder that only this user can enter: criu's sockets and its log. */
struct process_criu {
    const char *program; /* "criu", or a path */
    char folder[PROCESS_FOLDER_CAPACITY];
    int listener; /* -1: none */
    int gate;     /* the same: where criu asks before it lets its processes go on */
    pid_t pid;    /* 0: it does not run */
};

int process_criu_open(struct process_criu *criu, const char *program, struct varve_error *error);
/* Is criu there, and does it work on this kernel? Asked before anything is stopped. 0 or -ENOTSUP with a text. */
int process_criu_check(struct process_criu *criu, struct varve_error *error);
/* Listen where `criu dump --stream` connects to, and at its gate. */
int process_criu_listen(struct process_criu *criu, struct varve_error *error);
/* No longer. */
void process_criu_deafen(struct process_criu *criu);
/* criu ACTION -D folder, with arguments, the last of which is NULL, and options of the user, at most
 * PROCESS_OPTIONS_MOST. */
int process_criu_start(struct process_criu *criu, const char *action, const char *const arguments[],
                       char *const options[], int option_count, struct varve_error *error);
/* Wait until it ends. 0, or -ECANCELED with what its log says. */
int process_criu_end(struct process_criu *criu, const char *action, struct varve_error *error);
/* Both. */
int process_criu_run(struct process_criu *criu, const char *action, const char *const arguments[],
                     char *const options[], int option_count, struct varve_error *error);
void process_criu_close(struct process_criu *criu);

#endif
