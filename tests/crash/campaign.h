/* What the campaigns of this folder share: options, chance that can be repeated, folders, and children that may be
 * killed.
 *
 * A campaign tries many points. Every point runs in children of its own, so that nothing a point leaves in memory, and
 * no crash, reaches the next one. A failure prints the point so that --replay can try it again, keeps its store, and
 * ends the program with 1. */
#ifndef VARVE_CRASH_CAMPAIGN_H
#define VARVE_CRASH_CAMPAIGN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FOLDER_CAPACITY 512

struct campaign {
    const char *name;
    uint64_t seed;
    uint64_t points;        /* how many to try; 0: all */
    unsigned slice, slices; /* try only slice 1 to `slices` of them */
    int is_listing;         /* print them instead */
    const char *replay;
    char folder[FOLDER_CAPACITY]; /* ours, removed at the end */
    uint64_t random;
    uint64_t tried;
};

/* --seed N, --points N (or --rounds N; 0 is all), --slice K/N, --list yes, --replay POINT, --dir FOLDER. Without --seed
 * the time decides. Exits with 77 in builds without fault points. TEST_SCALE (percent) lowers points. */
void campaign_begin(struct campaign *campaign, const char *name, int argc, char **argv);
/* Print the count and the seed; returns the exit code. */
int campaign_end(struct campaign *campaign);

/* A number below `bound`. */
uint64_t campaign_random(struct campaign *campaign, uint64_t bound);
/* Put `count` items of `size` bytes in a random order. */
void campaign_shuffle(struct campaign *campaign, void *items, size_t count, size_t size);
/* How many of `all` points to try, whatever the slice. */
size_t campaign_share(const struct campaign *campaign, size_t all);

/* A number that only the seed and a point's text decide. Points are put in the order of these numbers and cut into
 * slices by them: where another run finds some points more or fewer, all others keep their places. */
uint64_t campaign_hash(const struct campaign *campaign, const char *point);
/* Is this point to be tried? Each point is in one of the slices. With --list it is printed, and not tried. */
int campaign_takes(const struct campaign *campaign, const char *point);

/* The point failed: say so, and how to see it again; exits. */
void campaign_fail(const struct campaign *campaign, const char *point, const char *format, ...)
    __attribute__((format(printf, 3, 4), noreturn));

/* In a child: say why and exit with 1. */
void child_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* What a child tells its parent while it runs. */
enum event_kind {
    EVENT_SAVED,      /* varve_wait returned 0 for this version */
    EVENT_FORGETTING, /* from now on this version may be gone */
    EVENT_KEEPING,    /* from now on only the newest `version` records must stay */
    EVENT_COUNT       /* allocations, when the child has finished */
};
struct event {
    int64_t version;
    int32_t kind;
};
#define EVENTS_MAX 64
struct events {
    struct event list[EVENTS_MAX];
    size_t count;
};
/* In a child: tell the parent. */
void child_tell(enum event_kind kind, int64_t version);

/* Run fn in a child; its exit status as from waitpid. events may be NULL. A child that takes too long is killed by
 * SIGALRM. */
typedef void (*child_fn)(void *arg);
int child_run(child_fn fn, void *arg, struct events *events);
/* The same in the background: the child's process id. */
pid_t child_start(child_fn fn, void *arg);
int child_wait(pid_t pid);

void folder_remove(const char *path);
/* Copy a folder with all that is in it; exits when that fails. */
void folder_copy(const char *from, const char *to);
/* Links of all files in a folder, in another one that may have some already: theirs stay. */
void folder_link(const char *from, const char *to);

/* How many threads and open files this process has. */
int count_threads(void);
int count_files(void);
/* How many threads it has more than so many. One that was joined may still be listed for a moment: waits a second for
 * it. */
int threads_left(int threads);

#endif
