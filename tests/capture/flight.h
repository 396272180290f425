/* A program with a checkpoint in flight: a slow store of its own, some regions, and what they were at the call. */
#ifndef CAPTURE_FLIGHT_H
#define CAPTURE_FLIGHT_H

#include "kit.h"

/* What is tested, from the command line. */
struct mode {
    const char *settings;
    unsigned flags; /* for regions into which no system call writes */
    int must_hold;  /* memory that can be held (or frozen) has to be: in every case, or with capture=auto, which decides
                       by what  it costs, in one case at least */
    unsigned *held; /* how many flights were; of all processes */
    int is_mprotect; /* writes are stopped by signals */
    unsigned rounds; /* as asked for with --rounds, or what the program does otherwise; less with TEST_SCALE */
    uint64_t seed;   /* as told with --seed, or as set before, by a program that rolls dice */
    char **cases;    /* names, up to NULL; none: all */
};
extern struct mode mode;
/* Ends the process with 77 if the mode cannot work on this machine. mode.rounds is set before, if the program counts.
 */
void mode_parse(int argc, char **argv);
int is_asked_for(const char *name);

#define FLIGHT_REGIONS 8
struct flight_region {
    char name[32];
    uint8_t *ptr;
    size_t size;
    int is_constant; /* the case never changes it */
};
struct flight {
    char folder[128], store[256], slow[320];
    struct varve_session *session;
    struct flight_region regions[FLIGHT_REGIONS];
    size_t count;
    int64_t version;
    struct images at_call;
    int need_not_hold; /* memory of a kind that the mode may leave alone */
};

/* A slow store of its own, and a session. */
void flight_open(struct flight *flight);
/* The flags of the mode are added if is_kernel_free. */
void flight_protect(struct flight *flight, const char *name, void *ptr, size_t size, int is_kernel_free);
void flight_protect_flags(struct flight *flight, const char *name, void *ptr, size_t size, unsigned flags);
/* The case has unprotected it. */
void flight_forget(struct flight *flight, const char *name);
/* One checkpoint that is waited for, then all pages change, then one that is in flight when this returns. */
void flight_launch(struct flight *flight);
/* Another one in flight, of what memory is now. */
void flight_again(struct flight *flight);
/* It is stored and right; and so is another one after a few pages have changed. */
void flight_land(struct flight *flight);
/* The same without the other one. */
void flight_arrive(struct flight *flight);
void flight_close(struct flight *flight);
/* Writers over the regions with these names, NULL: all; to be stopped with scribblers_stop before the landing. */
struct scribblers *flight_scribble(struct flight *flight, const char *only);
/* Is it really in flight, or does the mode not do that? For cases that would test nothing otherwise. */
void flight_must_be_up(struct flight *flight);

uint8_t *new_memory(size_t size); /* private, anonymous, touched */
/* The number behind this word at the beginning of a line; -1: there is none. */
long long number_in(const char *path, const char *word);
/* Ends the case unless the child ends well within ten seconds. */
void child_must_end_well(int pid, const char *what);

#endif
