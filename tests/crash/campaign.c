#include "campaign.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHILD_SECONDS 120 /* far more than any point needs, sanitizers included */

static int pipe_to_parent = -1;

/* ---- options ---- */

static uint64_t parse_number(const char *option, const char *text) {
    char *end = NULL;
    unsigned long long value = text ? strtoull(text, &end, 10) : 0;
    if (!text || !*text || *end) {
        fprintf(stderr, "%s needs a number\n", option);
        exit(2);
    }
    return value;
}

static const char *usual_folder(void) {
    const char *folder = getenv("TMPDIR");
    struct stat st;
    if (folder && *folder)
        return folder;
    return stat("/dev/shm", &st) == 0 && access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

static void scale_points(struct campaign *campaign) {
    const char *text = getenv("TEST_SCALE");
    uint64_t percent = text ? strtoull(text, NULL, 10) : 100;
    if (campaign->points == 0 || percent == 0 || percent >= 100)
        return;
    campaign->points = campaign->points * percent / 100;
    if (campaign->points == 0)
        campaign->points = 1;
}

static void parse_slice(struct campaign *campaign, const char *text) {
    char rest;
    if (!text || sscanf(text, "%u/%u%c", &campaign->slice, &campaign->slices, &rest) != 2 || campaign->slice < 1 ||
        campaign->slice > campaign->slices) {
        fprintf(stderr, "--slice needs two numbers, as in 3/10\n");
        exit(2);
    }
}

void campaign_begin(struct campaign *campaign, const char *name, int argc, char **argv) {
    const char *folder = usual_folder();
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    *campaign = (struct campaign){.name = name, .seed = (uint64_t)now.tv_sec, .slice = 1, .slices = 1};
#ifndef VARVE_FAULTS
    printf("%s: skipped, this build has no fault points\n", name);
    exit(77);
#endif
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(argv[i], "--seed")) {
            campaign->seed = parse_number(argv[i], value);
        } else if (!strcmp(argv[i], "--points") || !strcmp(argv[i], "--rounds")) {
            campaign->points = parse_number(argv[i], value);
        } else if (!strcmp(argv[i], "--slice")) {
            parse_slice(campaign, value);
        } else if (!strcmp(argv[i], "--list") && value) {
            campaign->is_listing = !strcmp(value, "yes");
        } else if (!strcmp(argv[i], "--replay") && value) {
            campaign->replay = value;
        } else if (!strcmp(argv[i], "--dir") && value) {
            folder = value;
        } else {
            fprintf(stderr,
                    "usage: %s [--seed N] [--points N] [--slice K/N] [--list yes] [--replay POINT] [--dir FOLDER]\n",
                    name);
            exit(2);
        }
    }
    scale_points(campaign);
    campaign->random = campaign->seed;
    snprintf(campaign->folder, sizeof campaign->folder, "%s/%s-XXXXXX", folder, name);
    if (!mkdtemp(campaign->folder)) {
        fprintf(stderr, "%s: cannot make %s: %s\n", name, campaign->folder, strerror(errno));
        exit(2);
    }
    printf("%s: seed %" PRIu64 ", in %s\n", name, campaign->seed, campaign->folder);
    fflush(stdout);
}

int campaign_end(struct campaign *campaign) {
    folder_remove(campaign->folder);
    printf("%s: %" PRIu64 " points, seed %" PRIu64 ", slice %u/%u\n", campaign->name, campaign->tried, campaign->seed,
           campaign->slice, campaign->slices);
    return 0;
}

static uint64_t mix(uint64_t x) { /* splitmix64 */
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t campaign_random(struct campaign *campaign, uint64_t bound) {
    return mix(campaign->random += UINT64_C(0x9e3779b97f4a7c15)) % bound;
}

uint64_t campaign_hash(const struct campaign *campaign, const char *point) {
    uint64_t hash = mix(campaign->seed + 1);
    for (; *point; point++)
        hash = mix(hash ^ (uint8_t)*point) + UINT64_C(0x9e3779b97f4a7c15);
    return hash;
}

int campaign_takes(const struct campaign *campaign, const char *point) {
    if (campaign_hash(campaign, point) % campaign->slices != campaign->slice - 1)
        return 0;
    if (campaign->is_listing)
        printf("point %s\n", point);
    return !campaign->is_listing;
}

void campaign_shuffle(struct campaign *campaign, void *items, size_t count, size_t size) {
    uint8_t *bytes = items, swap[512];
    for (size_t i = count; i > 1 && size <= sizeof swap; i--) {
        size_t other = campaign_random(campaign, i);
        memcpy(swap, bytes + (i - 1) * size, size);
        memmove(bytes + (i - 1) * size, bytes + other * size, size);
        memcpy(bytes + other * size, swap, size);
    }
}

size_t campaign_share(const struct campaign *campaign, size_t all) {
    return campaign->points == 0 || campaign->points > all ? all : (size_t)campaign->points;
}

void campaign_fail(const struct campaign *campaign, const char *point, const char *format, ...) {
    va_list list;
    fflush(stdout);
    fprintf(stderr, "%s: FAILED after %" PRIu64 " points: ", campaign->name, campaign->tried);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, "\n  again: %s --seed %" PRIu64 " --replay '%s'\n  what it left is in %s\n", campaign->name,
            campaign->seed, point, campaign->folder);
    exit(1);
}

/* ---- children ---- */

void child_fail(const char *format, ...) {
    va_list list;
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    fflush(stderr);
    _exit(1);
}

void child_tell(enum event_kind kind, int64_t version) {
    struct event event;
    memset(&event, 0, sizeof event);
    event.kind = kind;
    event.version = version;
    if (pipe_to_parent >= 0 && write(pipe_to_parent, &event, sizeof event) != (ssize_t)sizeof event)
        child_fail("the pipe to the parent is broken");
}

static void run_as_child(child_fn fn, void *arg) __attribute__((noreturn));
static void run_as_child(child_fn fn, void *arg) {
    alarm(CHILD_SECONDS);
    fn(arg);
    fflush(stderr);
    _exit(0);
}

static pid_t fork_checked(void) {
    fflush(stdout);
    fflush(stderr);
    pid_t pid = fork();
    if (pid < 0) {
        perror("fork");
        exit(2);
    }
    return pid;
}

pid_t child_start(child_fn fn, void *arg) {
    pid_t pid = fork_checked();
    if (pid == 0)
        run_as_child(fn, arg);
    return pid;
}

int child_wait(pid_t pid) {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) {
            perror("waitpid");
            exit(2);
        }
    return status;
}

static void read_events(int fd, struct events *events) {
    struct event event;
    ssize_t size;
    while ((size = read(fd, &event, sizeof event)) != 0) {
        if (size < 0 && errno == EINTR)
            continue;
        if (size != (ssize_t)sizeof event || events->count == EVENTS_MAX) {
            fprintf(stderr, "a child told nonsense\n");
            exit(2);
        }
        events->list[events->count++] = event;
    }
}

int child_run(child_fn fn, void *arg, struct events *events) {
    struct events unused;
    int ends[2];
    if (!events)
        events = &unused;
    events->count = 0;
    if (pipe2(ends, O_CLOEXEC) < 0) {
        perror("pipe");
        exit(2);
    }
    pid_t pid = fork_checked();
    if (pid == 0) {
        close(ends[0]);
        pipe_to_parent = ends[1];
        run_as_child(fn, arg);
    }
    close(ends[1]);
    read_events(ends[0], events);
    close(ends[0]);
    return child_wait(pid);
}

/* ---- folders ---- */

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw) {
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

void folder_remove(const char *path) {
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void copy_file(const char *from, const char *to, mode_t mode) {
    char buffer[65536];
    ssize_t size = -1;
    int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode & 0777);
    while (in >= 0 && out >= 0 && (size = read(in, buffer, sizeof buffer)) > 0)
        if (write(out, buffer, (size_t)size) != size) {
            size = -1;
            break;
        }
    if (size != 0) {
        fprintf(stderr, "cannot copy %s to %s: %s\n", from, to, strerror(errno));
        exit(2);
    }
    close(in);
    close(out);
}

static const char *copy_from, *copy_to;

static int copy_one(const char *path, const struct stat *st, int kind, struct FTW *ftw) {
    char to[4096];
    (void)ftw;
    snprintf(to, sizeof to, "%s%s", copy_to, path + strlen(copy_from));
    if (kind == FTW_D)
        return mkdir(to, 0777);
    copy_file(path, to, st->st_mode);
    return 0;
}

void folder_copy(const char *from, const char *to) {
    copy_from = from;
    copy_to = to;
    if (nftw(from, copy_one, 16, FTW_PHYS) != 0) {
        fprintf(stderr, "cannot copy %s to %s: %s\n", from, to, strerror(errno));
        exit(2);
    }
}

static int link_one(const char *path, const struct stat *st, int kind, struct FTW *ftw) {
    char to[4096];
    (void)st;
    (void)ftw;
    snprintf(to, sizeof to, "%s%s", copy_to, path + strlen(copy_from));
    int rc = kind == FTW_D ? mkdir(to, 0777) : link(path, to);
    return rc < 0 && errno != EEXIST && errno != ENOENT ? -1 : 0; /* a heartbeat may replace its file meanwhile */
}

void folder_link(const char *from, const char *to) {
    copy_from = from;
    copy_to = to;
    if (nftw(from, link_one, 16, FTW_PHYS) != 0) {
        fprintf(stderr, "cannot link %s to %s: %s\n", from, to, strerror(errno));
        exit(2);
    }
}

static int count_entries(const char *path) {
    DIR *folder = opendir(path);
    int count = 0;
    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count;
}

int count_threads(void) {
    return count_entries("/proc/self/task");
}

int threads_left(int threads) {
    for (int i = 0; i < 1000 && count_threads() != threads; i++)
        usleep(1000);
    return count_threads() - threads;
}

int count_files(void) {
    return count_entries("/proc/self/fd");
}
