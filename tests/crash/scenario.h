/* The life of a job, in one process, in which something goes wrong at a chosen moment; and what must be true
 * afterwards.
 *
 * It opens four backends one after another, the "handles": a session that saves versions 1 to 5, a look at the store
 * beside it that forgets and prunes, a second session with keep=3 that restarts, goes on, goes back and goes on again,
 * and a last look that lists, shows, reads, compares, verifies and prunes. */
#ifndef VARVE_CRASH_SCENARIO_H
#define VARVE_CRASH_SCENARIO_H

#include "campaign.h"

#define SCENARIO_HANDLES 4
#define SCENARIO_STEPS_MAX 64

struct scenario {
    const char *folder;  /* of the store */
    int handle;          /* the one whose backend has the fault */
    char fault[64];      /* for its address, as "kill:3"; "" for none */
    char point[160];     /* for vv_fault_set, as "name=kill:3"; "" for none */
    int step;            /* the point is armed in this step only; 0: always */
    uint64_t allocation; /* the one that fails; 0: none */
    char on_error[16];
    int threads;
    int is_tolerant;     /* calls may fail, the program goes on; otherwise a call that fails is a failure of the test */
    int may_lie;         /* storage gives short answers: damage may be reported that is not there */
    int is_coming_again; /* after a checkpoint that failed the program restarts and saves the same version again */
    int is_lasting;      /* the fault does not go away by itself */
};

/* To be run in a child: the argument is a struct scenario. Tells what was saved; ends with EVENT_COUNT. */
void scenario_run(void *arg);

/* What must hold after the events that were told. */
struct aftermath {
    const char *folder;
    int64_t must[EVENTS_MAX]; /* versions that must be there */
    size_t count;
    int64_t newest; /* the newest one at least as new as this must come back; -1: none */
};
void aftermath_from(const struct events *events, const char *folder, struct aftermath *out);
/* To be run in a child: the argument is a struct aftermath. */
void aftermath_check(void *arg);

#endif
