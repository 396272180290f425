#include "steps.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

void points_add(struct points *points, const struct point *point) {
    if (points->count == points->capacity) {
        points->capacity = points->capacity ? points->capacity * 2 : 1024;
        points->list = realloc(points->list, points->capacity * sizeof *points->list);
        if (!points->list)
            abort();
    }
    points->list[points->count++] = *point;
}

void points_clear(struct points *points) {
    free(points->list);
    *points = (struct points){0};
}

void point_print(const struct point *point, char *text) {
    snprintf(text, 256, "%s:%d:%" PRIu64 ":%s:%s:%d", point->kind, point->handle, point->k,
             point->what[0] ? point->what : "-", point->on_error[0] ? point->on_error : "fail", point->threads);
}

/* on_error may hold a colon itself: the number of threads is what follows the last one. */
int point_parse(const char *text, struct point *out) {
    char rest[64];
    *out = (struct point){0};
    if (sscanf(text, "%23[^:]:%d:%" SCNu64 ":%95[^:]:%63s", out->kind, &out->handle, &out->k, out->what, rest) != 5)
        return -1;
    char *threads = strrchr(rest, ':');
    if (!threads || threads - rest >= (ptrdiff_t)sizeof out->on_error)
        return -1;
    memcpy(out->on_error, rest, (size_t)(threads - rest));
    out->threads = atoi(threads + 1);
    if (!strcmp(out->what, "-"))
        out->what[0] = '\0';
    return 0;
}

/* ---- counting ---- */

/* Or, with S3_STORE, an address below that one, another each time. */
static void store_folder(const struct campaign *campaign, char *out) {
    static unsigned number;
    const char *bucket = getenv("S3_STORE");
    if (bucket)
        snprintf(out, FOLDER_CAPACITY + 16, "%s/%d-%u", bucket, (int)getpid(), number++);
    else
        snprintf(out, FOLDER_CAPACITY + 16, "%s/store", campaign->folder);
}

static int run_plain(struct campaign *campaign, struct scenario *scenario, struct events *events) {
    char folder[FOLDER_CAPACITY + 16];
    store_folder(campaign, folder);
    scenario->folder = folder;
    int status = child_run(scenario_run, scenario, events);
    int is_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (!is_killed && status != 0)
        campaign_fail(campaign, "none", "the scenario fails when nothing goes wrong");
    folder_remove(folder);
    return is_killed;
}

uint64_t count_operations(struct campaign *campaign, int handle) {
    uint64_t low = 0, high = 1; /* operation `low` is met, `high` is not, once the first loop is done */
    for (int is_met = 1; is_met;) {
        struct scenario scenario = {.handle = handle};
        snprintf(scenario.fault, sizeof scenario.fault, "kill:%" PRIu64, high);
        is_met = run_plain(campaign, &scenario, NULL);
        if (is_met) {
            low = high;
            high *= 2;
        }
    }
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        struct scenario scenario = {.handle = handle};
        snprintf(scenario.fault, sizeof scenario.fault, "kill:%" PRIu64, middle);
        *(run_plain(campaign, &scenario, NULL) ? &low : &high) = middle;
    }
    return low;
}

void count_plain(struct campaign *campaign, uint64_t *allocations, uint64_t *steps) {
    struct scenario scenario = {.handle = -1};
    struct events events;
    run_plain(campaign, &scenario, &events);
    if (events.count < 2)
        campaign_fail(campaign, "none", "the scenario did not tell how long it is");
    *allocations = (uint64_t)events.list[events.count - 2].version;
    *steps = (uint64_t)events.list[events.count - 1].version;
}

struct listing {
    struct scenario scenario;
    char path[FOLDER_CAPACITY + 16];
};

static void list_points(void *arg) {
    struct listing *listing = arg;
    setenv("VARVE_FAULT_LIST", listing->path, 1);
    scenario_run(&listing->scenario);
}

/* One more occurrence of this name. */
static void add_occurrence(struct points *points, const char *name, uint64_t most) {
    struct point point = {.kind = "point", .handle = -1, .k = 1};
    snprintf(point.what, sizeof point.what, "%.90s", name);
    for (size_t i = 0; i < points->count; i++)
        if (!strcmp(points->list[i].kind, "point") && !strcmp(points->list[i].what, name))
            point.k++;
    if (most == 0 || point.k <= most)
        points_add(points, &point);
}

void add_named_points(struct campaign *campaign, struct points *points, uint64_t most) {
    struct listing listing = {.scenario = {.handle = -1}};
    char line[160], folder[FOLDER_CAPACITY + 16];
    store_folder(campaign, folder);
    listing.scenario.folder = folder;
    snprintf(listing.path, sizeof listing.path, "%s/points", campaign->folder);
    if (child_run(list_points, &listing, NULL) != 0)
        campaign_fail(campaign, "none", "the scenario fails when nothing goes wrong");
    folder_remove(folder);
    FILE *file = fopen(listing.path, "re");
    if (!file)
        campaign_fail(campaign, "none", "no fault point was met: %s", strerror(errno));
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        add_occurrence(points, line, most);
    }
    fclose(file);
}

/* ---- choosing ---- */

static int compare_points(const void *left, const void *right, void *campaign) {
    char texts[2][256];
    point_print(left, texts[0]);
    point_print(right, texts[1]);
    uint64_t a = campaign_hash(campaign, texts[0]), b = campaign_hash(campaign, texts[1]);
    return a != b ? (a > b) - (a < b) : strcmp(texts[0], texts[1]);
}

void points_choose(struct campaign *campaign, struct points *points) {
    size_t count = campaign_share(campaign, points->count), kept = 0;
    char text[256];
    printf("%s: %zu of %zu points, slice %u/%u of these\n", campaign->name, count, points->count, campaign->slice,
           campaign->slices);
    qsort_r(points->list, points->count, sizeof *points->list, compare_points, campaign);
    for (size_t i = 0; i < count; i++) {
        point_print(&points->list[i], text);
        if (campaign_takes(campaign, text))
            points->list[kept++] = points->list[i];
    }
    points->count = kept;
    fflush(stdout);
}

/* ---- trying ---- */

static void make_scenario(const struct point *point, int is_tolerant, const char *folder, struct scenario *out) {
    *out = (struct scenario){
        .folder = folder, .handle = point->handle, .is_tolerant = is_tolerant, .threads = point->threads};
    snprintf(out->on_error, sizeof out->on_error, "%s", point->on_error);
    out->may_lie = !strcmp(point->kind, "short");
    out->is_lasting = !strcmp(point->kind, "fail-from");
    out->is_coming_again = is_tolerant && point->k % 2;
    if (!strcmp(point->kind, "alloc")) {
        out->allocation = point->k;
    } else if (!strcmp(point->kind, "point")) {
        snprintf(out->point, sizeof out->point, "%s=kill:%" PRIu64, point->what, point->k);
    } else if (!strcmp(point->kind, "point-error")) {
        snprintf(out->point, sizeof out->point, "%s=error:5", point->what);
        out->step = (int)point->k;
    } else {
        snprintf(out->fault, sizeof out->fault, "%s:%" PRIu64 "%s%.16s", point->kind, point->k,
                 point->what[0] ? ":" : "", point->what);
    }
}

static void try_point(struct campaign *campaign, const struct point *point, int is_tolerant) {
    char folder[FOLDER_CAPACITY + 16], text[256];
    struct scenario scenario;
    struct aftermath after;
    struct events events;
    store_folder(campaign, folder);
    make_scenario(point, is_tolerant, folder, &scenario);
    point_print(point, text);
    campaign->tried++;
    int status = child_run(scenario_run, &scenario, &events);
    int is_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && !is_tolerant;
    if (status != 0 && !is_killed)
        campaign_fail(campaign, text, "the program ended with %s %d", WIFSIGNALED(status) ? "signal" : "exit code",
                      WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    aftermath_from(&events, folder, &after);
    status = child_run(aftermath_check, &after, NULL);
    if (status != 0)
        campaign_fail(campaign, text, "afterwards not all was well (%s %d)",
                      WIFSIGNALED(status) ? "signal" : "exit code",
                      WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    folder_remove(folder);
}

void points_run(struct campaign *campaign, struct points *points, int is_tolerant) {
    if (campaign->replay) {
        struct point point;
        if (point_parse(campaign->replay, &point) < 0)
            campaign_fail(campaign, campaign->replay, "this is not a point");
        try_point(campaign, &point, is_tolerant);
        return;
    }
    points_choose(campaign, points);
    for (size_t i = 0; i < points->count; i++)
        try_point(campaign, &points->list[i], is_tolerant);
}
