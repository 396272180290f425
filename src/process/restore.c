#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "files/error.h"
#include "process/dump.h"

#define PID_FILE "varve.pid" /* criu writes it */

/* One of several, from its own folder. It stays stopped until all are there. */
static int restore_one(const struct process_criu *all, long number, char *const options[], int option_count,
                       pid_t *root, struct varve_error *error) {
    static const char *const arguments[] = {"--restore-detached", "--leave-stopped", "--pidfile", PID_FILE, NULL};
    struct process_criu criu = {.program = all->program};
    struct varve_error why = {.text = ""};
    char path[PROCESS_FOLDER_CAPACITY + 16];
    int pid = 0;

    int length = snprintf(criu.folder, sizeof criu.folder, "%s/%ld", all->folder, number);
    if (length < 0 || (size_t)length >= sizeof criu.folder)
        return files_error(error, -ENAMETOOLONG, "the path of %s is too long", all->folder);
    int rc = process_criu_run(&criu, "restore", arguments, options, option_count, &why);
    if (rc < 0)
        return files_error(error, rc, "process %ld: %s", number, why.text);
    snprintf(path, sizeof path, "%s/%s", criu.folder, PID_FILE);
    FILE *file = fopen(path, "re");
    if (!file || fscanf(file, "%d", &pid) != 1 || pid <= 0) /* its old number may be somebody else's here */
        rc = files_error(error, -EPROTO, "process %ld: criu does not tell which one came back; one is left stopped",
                         number);
    if (file)
        fclose(file);
    *root = (pid_t)pid;
    return rc;
}

int process_restore(const struct process_criu *criu, const struct files_list *files, char *const options[],
                    int option_count, struct varve_error *error) {
    pid_t *roots = calloc(files->count + 1, sizeof *roots);
    struct varve_error left = {.text = ""};
    size_t count = 0;
    long last = -1;
    int rc = roots ? 0 : -ENOMEM;

    for (size_t i = 0; i < files->count && rc == 0; i++) { /* by path: those of a process follow one another */
        long number = strtol(files->list[i].path, NULL, 10);
        if (number == last)
            continue;
        last = number;
        rc = restore_one(criu, number, options, option_count, &roots[count], error);
        count += rc == 0;
    }
    int let = roots ? process_signal(roots, count, rc == 0 ? SIGCONT : SIGKILL, &left) : 0;
    if (rc == 0 && let < 0)
        *error = left;
    free(roots);
    return rc ? rc : let;
}
