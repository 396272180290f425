/* A program in a control group whose limit leaves room for the library, but not for a second copy of the program's
 * memory, which it rewrites while the checkpoint is in flight. With capture=auto the kernel kills nothing and the
 * checkpoint succeeds; capture=frozen, which was asked for, may fail in words. The program lives on.
 *
 *     limited --settings "capture=..." [--must-hold] [--nobody]
 *
 * must-hold: without a limit something is held or frozen. Needs root, and the memory controller of cgroup v1. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "details.h"
#include "flight.h"

#define SIZE (96 * MIB)
#define ROOM (40 * MIB) /* over what the program has: bench-memory shows 28 to 33 MiB for a session */
#define SPEED "100MB"

/* ---- the group ---- */

static char group[512];

static int write_group(const char *name, const char *text) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", group, name);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    int is_written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return is_written ? 0 : -1;
}

/* The number behind the word. */
static long long read_group(const char *name, const char *word) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", group, name);
    return number_in(path, word);
}

static void remove_group(void) {
    for (int i = 0; i < 100 && rmdir(group) != 0; i++) /* it takes a moment until nobody is in it */
        usleep(10000);
}

/* Inside the group of this process. */
static void make_group(void) {
    char line[300];
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && group[0] == 0 && fgets(line, sizeof line, file)) {
        const char *path = strstr(line, ":memory:");
        line[strcspn(line, "\n")] = 0;
        if (path)
            snprintf(group, sizeof group, "/sys/fs/cgroup/memory%s/varve-limited-%d", path + strlen(":memory:"),
                     (int)getpid());
    }
    if (file)
        fclose(file);
    if (!group[0])
        skip("no memory controller of cgroup v1");
    if (mkdir(group, 0755) != 0)
        skip("no group %s: %s", group, strerror(errno));
    if (read_group("memory.oom_control", "oom_kill ") < 0) {
        remove_group();
        skip("the kernel does not count what it kills in %s", group);
    }
}

static int limit_group(void) {
    char text[32];
    write_group("memory.force_empty", "0"); /* files */
    snprintf(text, sizeof text, "%lld", read_group("memory.usage_in_bytes", "") + (long long)ROOM);
    printf("limit %s bytes\n", text);
    fflush(stdout);
    return write_group("memory.limit_in_bytes", text);
}

/* ---- the program in it ---- */

struct program {
    struct flight flight;
    uint8_t *data;
    char error[512];
    int from_us, to_us;
};

static void let_parent_act(struct program *program) {
    char byte = 0;
    if (write(program->to_us, &byte, 1) != 1 || read(program->from_us, &byte, 1) != 1)
        fail("the group could not be limited");
}

/* Of data that can be made again, so that no copy of it is needed. */
static int save(struct program *program, int is_rewritten) {
    struct flight *flight = &program->flight;
    fill(program->data, SIZE, (uint64_t)++flight->version);
    if (varve_checkpoint(flight->session, flight->version) != 0)
        fail("checkpoint: %s", varve_session_error(flight->session)->text);
    if (is_rewritten)
        fill(program->data, SIZE, 1000);
    int rc = varve_wait(flight->session);
    struct vv_details stats;
    snprintf(program->error, sizeof program->error, "%s", varve_session_error(flight->session)->text);
    kit_stats(flight->session, &stats);
    *mode.held += stats.bytes_held + stats.bytes_frozen > 0;
    printf("checkpoint %d: %d; MiB staged %d, drained %d, held %d, frozen %d; %s\n", (int)flight->version, rc,
           (int)(stats.bytes_staged >> 20), (int)(stats.bytes_drained >> 20), (int)(stats.bytes_held >> 20),
           (int)(stats.bytes_frozen >> 20), rc ? program->error : stats.capture_reason);
    fflush(stdout);
    return rc;
}

static void must_be_right(struct program *program) {
    struct flight *flight = &program->flight;
    images_clear(&flight->at_call);
    flight->at_call.version = flight->version;
    fill(program->data, SIZE, (uint64_t)flight->version);
    images_add(&flight->at_call, "data", program->data, SIZE);
    images_check(&flight->at_call, flight->store);
    images_clear(&flight->at_call);
}

static void judge(const struct program *program, int rc) {
    const char *text = program->error;
    int may_fail = strstr(mode.settings, "capture=frozen") != NULL;
    long long killed = read_group("memory.oom_control", "oom_kill ");
    printf("the kernel has killed %lld processes of the group\n", killed);
    if (!may_fail && killed != 0)
        fail("memory ran out although the rest could have been drained");
    if (rc == 0)
        return;
    if (!may_fail || (rc != -ECHILD && rc != -ENOMEM))
        fail("with little memory left the checkpoint gives %d: %s", rc, text);
    if (!strstr(text, "data") || is_stored(program->flight.store, program->flight.version))
        fail("a checkpoint that failed is stored, or does not say what failed: %s", text);
}

static void live(struct program *program) {
    setenv("TMPDIR", "/var/tmp", 1); /* what lies in memory would count */
    flight_open(&program->flight);
    if (varve_close(program->flight.session) != 0)
        fail("close");
    snprintf(program->flight.slow, sizeof program->flight.slow, "%s?limit=" SPEED, program->flight.store);
    program->flight.session = kit_open(program->flight.slow, mode.settings);
    program->data = new_memory(SIZE);
    flight_protect(&program->flight, "data", program->data, SIZE, 1);
    if (save(program, 0) != 0)
        fail("checkpoint: %s", program->error);
    must_be_right(program);
    if (mode.must_hold && *mode.held == 0)
        fail("without a limit nothing is held or frozen: this tests nothing");
    let_parent_act(program);
    int rc = save(program, 1);
    let_parent_act(program);
    judge(program, rc);
    if (rc == 0)
        must_be_right(program);
    if (save(program, 1) != 0)
        fail("the checkpoint after it: %s", program->error);
    must_be_right(program);
    flight_close(&program->flight);
    _exit(0);
}

static void begin(int argc, char **argv, struct program *program) {
    char text[32];
    snprintf(text, sizeof text, "%d", (int)getpid());
    if (write_group("cgroup.procs", text) != 0)
        skip("no process may be in %s: %s", group, strerror(errno));
    mode_parse(argc, argv);
    live(program);
}

/* When the program asks: first with a limit, then without. Returns how it ended. */
static int watch_over(pid_t pid, int from, int to) {
    char byte;
    int status = 0;
    for (int asked = 0; read(from, &byte, 1) == 1; asked++)
        if ((asked == 0 ? limit_group() : write_group("memory.limit_in_bytes", "-1")) != 0 || write(to, &byte, 1) != 1)
            break;
    close(from);
    close(to);
    waitpid(pid, &status, 0);
    return status;
}

int main(int argc, char **argv) {
    int up[2], down[2];
    if (geteuid() != 0)
        skip("only root may limit memory");
    make_group();
    if (pipe2(up, O_CLOEXEC) != 0 || pipe2(down, O_CLOEXEC) != 0)
        fail("pipe");
    pid_t pid = fork();
    if (pid == 0) {
        close(up[0]);
        close(down[1]);
        begin(argc, argv, &(struct program){.from_us = down[0], .to_us = up[1]});
    }
    close(up[1]);
    close(down[0]);
    int status = watch_over(pid, up[0], down[1]);
    remove_group();
    if (WIFSIGNALED(status))
        fail("with little memory left the program is killed by signal %d", WTERMSIG(status));
    return WEXITSTATUS(status);
}
