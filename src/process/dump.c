#include "process/dump.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process/program.h"
#include "process/segments.h"

#define GATE "varve-gate"
#define STREAM_REGION "images"
#define STREAM_STEP (UINT64_C(1) << 20) /* its length is a multiple of this */

/* ---- from the processes into memory ---- */

int process_dump_prepare(struct process_dump *dump, struct varve_error *error) {
    int rc = process_check_roots(dump->pids, dump->count, error);

    rc = rc ? rc : process_find_beside(GATE, dump->gate, sizeof dump->gate, error);
    dump->criu = calloc(dump->count, sizeof *dump->criu);
    dump->sources = calloc(dump->count, sizeof *dump->sources);
    rc = rc == 0 && (!dump->criu || !dump->sources) ? -ENOMEM : rc;
    for (size_t i = 0; i < dump->count && dump->criu; i++)
        dump->criu[i].listener = dump->criu[i].gate = -1; /* those that are never opened are closed, too */
    for (size_t i = 0; i < dump->count && rc == 0; i++) {
        dump->sources[i].criu = &dump->criu[i];
        rc = process_criu_open(&dump->criu[i], dump->program, error);
    }
    rc = rc ? rc : process_criu_check(&dump->criu[0], error);
    if (rc == 0 && dump->is_stopping) {
        rc = process_hold(&dump->held, dump->pids, dump->count, error);
        dump->is_held = rc == 0;
    }
    return rc;
}

static int start_criu(struct process_dump *dump, size_t which, struct varve_error *error) {
    char pid[16];
    const char *after = dump->is_stopping ? "--leave-stopped" : "--leave-running";
    const char *const arguments[] = {"--stream", "-t", pid, after, "--action-script", dump->gate, NULL};

    snprintf(pid, sizeof pid, "%d", (int)dump->pids[which]);
    return process_criu_start(&dump->criu[which], "dump", arguments, dump->options, dump->option_count, error);
}

/* Of several, the text begins with the one that has failed. */
static void tell_which(const struct process_dump *dump, size_t which, struct varve_error *error) {
    struct varve_error told = *error;
    if (dump->count > 1)
        snprintf(error->text, sizeof error->text, "process %d: %.400s", (int)dump->pids[which], told.text);
}

/* One that has failed makes the others fail at the gate: it alone knows the reason. */
static int end_criu(struct process_dump *dump, int taken, struct varve_error *error) {
    size_t first = taken == -ECONNABORTED ? dump->receiver.failed : 0;
    int rc = taken == -ECONNABORTED ? 0 : taken;

    process_receive_end(&dump->receiver);
    for (size_t i = 0; i < dump->count; i++) {
        struct varve_error broken = {.text = ""};
        size_t which = (first + i) % dump->count;
        int code = dump->criu[which].pid > 0 ? process_criu_end(&dump->criu[which], "dump", &broken) : 0;
        if (rc == 0 && code < 0) {
            *error = broken;
            tell_which(dump, which, error);
            rc = code;
        }
        process_criu_close(&dump->criu[which]);
    }
    if (rc == 0 && taken < 0)
        rc = files_error(error, taken, "criu has ended without asking whether its processes may go on");
    return rc;
}

static int start_all(struct process_dump *dump, struct varve_error *error) {
    int rc = process_receive_begin(&dump->receiver, dump->sources, dump->count, error);

    for (size_t i = 0; i < dump->count && rc == 0; i++) {
        rc = process_criu_listen(&dump->criu[i], error);
        rc = rc ? rc : start_criu(dump, i, error);
    }
    return rc;
}

/* All of it has come. */
static int settle(struct process_dump *dump, int taken, struct varve_error *error) {
    int rc = end_criu(dump, taken, error);
    return rc == 0 && dump->is_held ? process_hold_members(&dump->held, error) : rc;
}

int process_dump_take(struct process_dump *dump, uint64_t memory, struct varve_error *error) {
    dump->drain = (struct process_drain){.receiver = &dump->receiver, .memory = memory};
    int rc = start_all(dump, error);
    rc = rc < 0 ? rc : 1;
    while (rc > 0 && dump->receiver.bytes < memory)
        rc = process_receive(&dump->receiver, error);
    return rc > 0 ? rc : settle(dump, rc, error);
}

/* ---- files ---- */

static int compare_files(const void *a, const void *b) {
    return strcmp(((const struct process_file *)a)->path, ((const struct process_file *)b)->path);
}

static int name_file(const struct process_dump *dump, size_t which, const char *name, char **path) {
    int length = dump->count > 1 ? asprintf(path, "%d/%s", (int)dump->pids[which], name) : asprintf(path, "%s", name);
    return length < 0 ? -ENOMEM : 0;
}

/* All images are there: which files they become. */
static int list_files(struct process_dump *dump, struct varve_error *error) {
    int rc = 0;

    dump->files = calloc(dump->receiver.images + 1, sizeof *dump->files);
    dump->fds = calloc(dump->receiver.images + 1, sizeof *dump->fds);
    rc = dump->files && dump->fds ? 0 : -ENOMEM;
    for (size_t i = 0; i < dump->count && rc == 0; i++) {
        struct process_images *images = &dump->sources[i].images;
        rc = process_images_settle(images, error);
        for (size_t j = 0; j < images->count && rc == 0; j++) {
            struct process_file *file = &dump->files[dump->file_count];
            *file = (struct process_file){.among = images, .image = &images->list[j]};
            rc = name_file(dump, i, images->list[j].name, &file->path);
            dump->file_count += rc == 0;
        }
    }
    if (rc == 0)
        qsort(dump->files, dump->file_count, sizeof *dump->files, compare_files);
    return rc;
}

static int add_files(const struct process_dump *dump, struct files_list *files, struct varve_error *error) {
    struct stat stat;
    int rc = 0;

    for (size_t i = 0; i < dump->file_count && rc == 0; i++) {
        rc = fstat(dump->files[i].image->fd, &stat) < 0 ? -errno : 0;
        dump->fds[i] = dump->files[i].image->fd;
        stat.st_mode = 0600;
        rc = rc ? rc : files_add(files, dump->files[i].path, &stat, error);
    }
    return rc;
}

int process_dump_plan(struct process_dump *dump, struct files_plan *plan, struct varve_error *error) {
    struct files_list files = {.count = 0};

    int rc = list_files(dump, error);
    rc = rc ? rc : add_files(dump, &files, error);
    files_plan_begin(plan, &files); /* by path already */
    for (size_t i = 0; i < dump->file_count && rc == 0; i++) {
        const struct process_file *file = &dump->files[i];
        struct files_found found = {.count = 0};
        rc = process_segments(file->among, file->image, &found);
        files_found_check(&found, file->image->size);
        if (rc == 0)
            rc = files_plan_add(plan, (uint32_t)i, &found) < 0 ? -ENOMEM : 0;
        files_found_clear(&found);
    }
    return rc;
}

/* ---- memory was full ---- */

int process_dump_begin(struct process_dump *dump, struct files_plan *plan) {
    struct files_list none = {.count = 0};
    uint64_t most = process_bytes_most(dump->pids, dump->count);

    files_plan_begin(plan, &none);
    int rc = files_plan_region(plan, strdup(STREAM_REGION), NULL);
    if (rc < 0)
        return rc;
    most = most < 2 * dump->receiver.bytes ? 2 * dump->receiver.bytes : most;
    plan->regions[0].length = (most + STREAM_STEP - 1) / STREAM_STEP * STREAM_STEP;
    dump->drain.plan = plan;
    return 0;
}

int process_dump_read(struct process_dump *dump, uint64_t offset, void *buffer, size_t size,
                      struct varve_error *error) {
    int rc = process_drain_read(&dump->drain, offset, buffer, size, error);
    return rc == -ECONNABORTED ? end_criu(dump, rc, error) : rc;
}

/* The pieces know images by number; now these are files. */
static int name_pieces(struct process_dump *dump, struct files_plan *plan, struct varve_error *error) {
    uint32_t *numbers = calloc(dump->receiver.images + 1, sizeof *numbers);

    int rc = numbers ? list_files(dump, error) : -ENOMEM;
    rc = rc ? rc : add_files(dump, &plan->files, error);
    for (size_t i = 0; i < dump->file_count && rc == 0; i++)
        numbers[dump->files[i].image->number] = (uint32_t)i;
    for (size_t i = 0; i < plan->piece_count && rc == 0; i++)
        plan->pieces[i].file = numbers[plan->pieces[i].file];
    free(numbers);
    files_plan_sort(plan);
    return rc;
}

int process_dump_complete(struct process_dump *dump, struct files_plan *plan, struct varve_error *error) {
    if (!dump->drain.is_over)
        return files_error(error, -EFBIG, "criu sends more than the kernel says there is; give it more --memory");
    int rc = settle(dump, 0, error);
    return rc ? rc : name_pieces(dump, plan, error);
}

/* ---- the end ---- */

int process_dump_end(struct process_dump *dump, int is_stored, struct varve_error *error) {
    struct varve_error told = {.text = ""};

    if (dump->receiver.polls) /* they still stand, in part: criu fails now and lets them go */
        end_criu(dump, -ECANCELED, &told);
    for (size_t i = 0; i < dump->count && dump->criu; i++)
        process_criu_close(&dump->criu[i]);
    return dump->is_held ? process_let_go(&dump->held, is_stored, error) : 0;
}

void process_dump_clear(struct process_dump *dump) {
    for (size_t i = 0; i < dump->count && dump->sources; i++)
        process_images_clear(&dump->sources[i].images);
    for (size_t i = 0; i < dump->file_count; i++)
        free(dump->files[i].path);
    free(dump->files);
    free(dump->fds);
    free(dump->sources);
    free(dump->criu);
}
