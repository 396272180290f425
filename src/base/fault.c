/* One point can be armed at a time. A specification that cannot be read stops the process at once: a test with a
 * misspelt one would otherwise pass without having tested anything. */
#include "base/fault.h"

#ifdef VARVE_FAULTS
#include "base/thread.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_BYTES 128

enum action { ACTION_NONE, ACTION_KILL, ACTION_STOP, ACTION_ERROR, ACTION_SLEEP };

struct fault {
    char name[NAME_BYTES];
    enum action action;
    int value; /* times to meet it before the kill or stop, errno, or milliseconds */
    int met;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fault armed;      /* under lock */
static const char *list_path;   /* set once */
static atomic_int is_listening; /* something is armed or listed: take the slow way */

static int parse_action(const char *text, struct fault *out) {
    int used = 0;
    if (!strcmp(text, "kill")) {
        out->action = ACTION_KILL;
        out->value = 1;
        return 0;
    }
    if (sscanf(text, "kill:%d%n", &out->value, &used) == 1 && out->value > 0)
        out->action = ACTION_KILL;
    else if (sscanf(text, "stop:%d%n", &out->value, &used) == 1 && out->value > 0)
        out->action = ACTION_STOP;
    else if (sscanf(text, "error:%d%n", &out->value, &used) == 1 && out->value > 0)
        out->action = ACTION_ERROR;
    else if (sscanf(text, "sleep:%d%n", &out->value, &used) == 1 && out->value >= 0)
        out->action = ACTION_SLEEP;
    else
        return -1;
    return text[used] ? -1 : 0;
}

static int parse(const char *spec, struct fault *out) {
    const char *equals = strchr(spec, '=');
    size_t size = equals ? (size_t)(equals - spec) : 0;
    *out = (struct fault){0};
    if (size == 0 || size >= sizeof out->name)
        return -1;
    memcpy(out->name, spec, size);
    return parse_action(equals + 1, out);
}

static void arm(const char *spec) {
    struct fault fault = {0};
    if (spec && *spec && parse(spec, &fault) < 0) {
        fprintf(stderr, "varve: cannot read the fault \"%s\"\n", spec);
        abort();
    }
    pthread_mutex_lock(&lock);
    armed = fault;
    pthread_mutex_unlock(&lock);
    atomic_store(&is_listening, fault.action != ACTION_NONE || list_path);
}

static void read_environment(void) {
    list_path = secure_getenv("VARVE_FAULT_LIST");
    arm(secure_getenv("VARVE_FAULT"));
}

void vv_fault_set(const char *spec) {
    pthread_once(&once, read_environment);
    arm(spec);
}

static void append_to_list(const char *name) {
    char line[NAME_BYTES + 1];
    int size = snprintf(line, sizeof line, "%s\n", name);
    int fd = open(list_path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0 || size >= (int)sizeof line || write(fd, line, (size_t)size) != size) {
        fprintf(stderr, "varve: cannot list the fault point \"%s\" in %s\n", name, list_path);
        abort();
    }
    close(fd);
}

int vv_fault_hit(const char *name) {
    pthread_once(&once, read_environment);
    if (!atomic_load_explicit(&is_listening, memory_order_relaxed))
        return 0;
    if (list_path)
        append_to_list(name);
    pthread_mutex_lock(&lock);
    struct fault fault = {0};
    if (!strcmp(armed.name, name)) {
        armed.met++;
        fault = armed;
    }
    pthread_mutex_unlock(&lock);

    int is_due = fault.met == fault.value;
    if (is_due && (fault.action == ACTION_KILL || fault.action == ACTION_STOP))
        kill(getpid(), fault.action == ACTION_KILL ? SIGKILL : SIGSTOP);
    if (fault.action == ACTION_SLEEP)
        vv_sleep_ms((unsigned)fault.value);
    return fault.action == ACTION_ERROR ? -fault.value : 0;
}
#else
typedef int vv_fault_is_compiled_out; /* a translation unit may not be empty */
#endif
