#include "process/criu.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files/error.h"
#include "process/gate.h"

#define SOCKET "streamer-capture.sock" /* as criu calls it */
#define LOG "criu.log"
#define OWN_MOST 16 /* arguments */

/* Criu refuses to run for an ordinary user unless it is told so. */
static const char unprivileged[] = "--unprivileged";

static int is_ordinary(void) {
    return geteuid() != 0;
}

/* ---- running it ---- */

/* In a session of its own: an interrupt from the terminal would end it while it holds processes. */
static void run(const struct process_criu *criu, const char *const *arguments) {
    int nothing = open("/dev/null", O_RDWR);

    setsid();
    dup2(nothing, STDIN_FILENO);
    dup2(nothing, STDOUT_FILENO);
    dup2(nothing, STDERR_FILENO);
    execvp(criu->program, (char *const *)arguments);
    _exit(127);
}

static pid_t start(const struct process_criu *criu, const char *const *arguments) {
    pid_t pid = fork();
    if (pid == 0)
        run(criu, arguments);
    return pid < 0 ? -errno : pid;
}

/* Its exit code, 128 and the signal, or a negative code. */
static int wait_for(pid_t pid) {
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* What people can do about errors that are frequent. */
static const char *hint_for(const char *text) {
    if (strstr(text, "Can't fork for"))
        return "; a process has that id already: wait until it ends, or use `unshare --pid --fork --mount-proc`";
    if (strstr(text, "--shell-job"))
        return "; it has a terminal: add `-- --shell-job`";
    if (strstr(text, "Connected TCP socket"))
        return "; it talks over TCP: add `-- --tcp-established`";
    if (strstr(text, "on restore: No such file"))
        return "; the content of files is not stored: bring it back to where it was";
    if (strstr(text, "has bad size"))
        return "; the content of files is not stored: it must be as it was at the dump";
    return "";
}

/* The first error of the log: those behind it are what follows from it. Criu goes on without more open files. */
static void find_reason(const struct process_criu *criu, char *out, size_t size) {
    char path[PROCESS_FOLDER_CAPACITY + 16], line[512];

    *out = '\0';
    snprintf(path, sizeof path, "%s/%s", criu->folder, LOG);
    FILE *log = fopen(path, "re");
    while (log && !*out && fgets(line, sizeof line, log)) {
        const char *error = strstr(line, "Error (");
        const char *text = error ? strstr(error, "): ") : NULL;
        if (text && strncmp(text + 3, "rlimit: ", 8) != 0)
            snprintf(out, size, "%.*s%s", (int)strcspn(text + 3, "\n"), text + 3, hint_for(text));
    }
    if (log)
        fclose(log);
}

int process_criu_start(struct process_criu *criu, const char *action, const char *const arguments[],
                       char *const options[], int option_count, struct varve_error *error) {
    const char *all[OWN_MOST + PROCESS_OPTIONS_MOST + 2] = {criu->program, action, "-D", criu->folder, "-o", LOG};
    size_t count = 6;

    for (size_t i = 0; arguments[i] && count < OWN_MOST; i++)
        all[count++] = arguments[i];
    for (int i = 0; i < option_count && i < PROCESS_OPTIONS_MOST; i++)
        all[count++] = options[i];
    if (is_ordinary())
        all[count++] = unprivileged;
    criu->pid = start(criu, all);
    if (criu->pid < 0) {
        int code = criu->pid;
        criu->pid = 0;
        return files_error(error, code, "cannot start %s: %s", criu->program, strerror(-code));
    }
    return 0;
}

int process_criu_end(struct process_criu *criu, const char *action, struct varve_error *error) {
    char reason[256];
    int code = wait_for(criu->pid);

    criu->pid = 0;
    if (code == 0)
        return 0;
    find_reason(criu, reason, sizeof reason);
    snprintf(error->text, sizeof error->text, "criu %s failed (%d)%s%s", action, code, *reason ? ": " : "", reason);
    return -ECANCELED;
}

int process_criu_run(struct process_criu *criu, const char *action, const char *const arguments[],
                     char *const options[], int option_count, struct varve_error *error) {
    int rc = process_criu_start(criu, action, arguments, options, option_count, error);
    return rc ? rc : process_criu_end(criu, action, error);
}

/* ---- its folder ---- */

int process_criu_check(struct process_criu *criu, struct varve_error *error) {
    static const char *const nothing[] = {NULL};
    int rc = process_criu_start(criu, "check", nothing, NULL, 0, error);

    if (rc < 0)
        return rc;
    int code = wait_for(criu->pid);
    char reason[256];
    criu->pid = 0;
    if (code == 0)
        return 0;
    if (code == 127) {
        return files_error(error, -ENOTSUP, "there is no program %s; install criu 4.1 or newer, or name it with --criu",
                           criu->program);
    }
    find_reason(criu, reason, sizeof reason);
    snprintf(error->text, sizeof error->text, "criu cannot work here%s%s: nothing was stopped; see `%s check%s%s`",
             *reason ? ": " : "", reason, criu->program, is_ordinary() ? " " : "", is_ordinary() ? unprivileged : "");
    return -ENOTSUP;
}

int process_criu_open(struct process_criu *criu, const char *program, struct varve_error *error) {
    const char *base = getenv("TMPDIR");

    *criu = (struct process_criu){.program = program ? program : "criu", .listener = -1, .gate = -1};
    snprintf(criu->folder, sizeof criu->folder, "%s/varve-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(criu->folder)) {
        int code = files_system_error(error, "make the folder", criu->folder);
        criu->folder[0] = '\0';
        return code;
    }
    return 0;
}

static int listen_at(const char *folder, const char *name, struct varve_error *error) {
    struct sockaddr_un address;

    if (process_name_socket(&address, folder, name) < 0)
        return files_error(error, -ENAMETOOLONG, "the path of %s is too long for a socket", folder);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 1) < 0) {
        int code = files_system_error(error, "listen in", folder);
        if (fd >= 0)
            close(fd);
        return code;
    }
    return fd;
}

int process_criu_listen(struct process_criu *criu, struct varve_error *error) {
    criu->listener = listen_at(criu->folder, SOCKET, error);
    if (criu->listener < 0)
        return criu->listener;
    criu->gate = listen_at(criu->folder, PROCESS_GATE, error);
    return criu->gate < 0 ? criu->gate : 0;
}

void process_criu_deafen(struct process_criu *criu) {
    if (criu->listener >= 0)
        close(criu->listener);
    if (criu->gate >= 0)
        close(criu->gate);
    criu->listener = criu->gate = -1;
}

/* Only what is in it, and in folders of one process each; criu makes none. */
static void remove_folder(const char *path, int depth) {
    char below[PROCESS_FOLDER_CAPACITY + NAME_MAX + 2];
    DIR *folder = opendir(path);
    struct dirent *entry;

    while (folder && (entry = readdir(folder))) {
        if (unlinkat(dirfd(folder), entry->d_name, 0) == 0 || depth == 0 || entry->d_name[0] == '.')
            continue;
        int length = snprintf(below, sizeof below, "%s/%s", path, entry->d_name);
        if (length > 0 && (size_t)length < sizeof below)
            remove_folder(below, depth - 1);
    }
    if (folder)
        closedir(folder);
    rmdir(path);
}

void process_criu_close(struct process_criu *criu) {
    process_criu_deafen(criu);
    if (criu->folder[0])
        remove_folder(criu->folder, 1);
    criu->folder[0] = '\0';
}
