#include "flight.h"
#include "details.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define STORAGE_SPEED "30MB"

struct mode mode = {.settings = ""};

static void check_machine(void) {
    int may_freeze = strstr(mode.settings, "capture=frozen") || strstr(mode.settings, "capture=auto");
    if (((mode.must_hold && !may_freeze) || strstr(mode.settings, "trap-uffd")) && !mode.is_mprotect &&
        !has_kernel_uffd())
        skip("%s: no userfaultfd that stops system calls here", mode.settings);
    if (strstr(mode.settings, "tracker=scan") && !has_scan())
        skip("%s: the kernel does not note writes (Linux 6.7)", mode.settings);
    if (strstr(mode.settings, "tracker=softdirty") && !has_softdirty())
        skip("%s: the kernel has no soft-dirty bits", mode.settings);
}

static void scale_rounds(void) {
    const char *scale = getenv("TEST_SCALE");
    if (scale && atoi(scale) > 0 && atoi(scale) < 100)
        mode.rounds = mode.rounds * (unsigned)atoi(scale) / 100 + 1;
}

void mode_parse(int argc, char **argv) {
    int at = 1, is_nobody = 0;
    for (; at < argc && strncmp(argv[at], "--", 2) == 0; at++) {
        if (strcmp(argv[at], "--settings") == 0 && at + 1 < argc)
            mode.settings = argv[++at];
        else if (strcmp(argv[at], "--must-hold") == 0)
            mode.must_hold = 1;
        else if (strcmp(argv[at], "--nobody") == 0)
            is_nobody = 1;
        else if (strcmp(argv[at], "--rounds") == 0 && at + 1 < argc)
            mode.rounds = (unsigned)atoi(argv[++at]);
        else if (strcmp(argv[at], "--seed") == 0 && at + 1 < argc)
            mode.seed = strtoull(argv[++at], NULL, 0);
        else if (strcmp(argv[at], "--flags") == 0 && at + 1 < argc)
            mode.flags = strcmp(argv[++at], "no-kernel") == 0 ? VARVE_NO_KERNEL_WRITES : 0;
        else
            fail("usage: %s --settings TEXT [--must-hold] [--nobody] [--rounds N] [--seed N] [--flags no-kernel] "
                 "[CASE...]",
                 argv[0]);
    }
    scale_rounds();
    if (is_nobody)
        become_nobody();
    mode.cases = argv + at;
    mode.held = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    mode.is_mprotect = strstr(mode.settings, "trap-mprotect") != NULL;
    check_machine();
}

static int must_hold_each(void) {
    return mode.must_hold &&
           (strstr(mode.settings, "capture=trap") != NULL || strstr(mode.settings, "capture=frozen") != NULL);
}

int is_asked_for(const char *name) {
    for (char **it = mode.cases; *it; it++)
        if (strcmp(*it, name) == 0)
            return 1;
    return !*mode.cases;
}

uint8_t *new_memory(size_t size) {
    uint8_t *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        fail("no memory");
    fill(at, size, size);
    return at;
}

void child_must_end_well(int pid, const char *what) {
    int status = 0;
    for (int i = 0; i < 10000; i++) {
        int got = waitpid(pid, &status, WNOHANG);
        if (got == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0)
            return;
        if (got == pid)
            fail("%s ended with %s %d", what, WIFSIGNALED(status) ? "signal" : "exit code",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        usleep(1000);
    }
    kill(pid, SIGKILL);
    fail("%s hangs", what);
}

/* ---- flights ---- */

void flight_open(struct flight *flight) {
    *flight = (struct flight){.version = 0};
    kit_folder(flight->folder, sizeof flight->folder, "living");
    snprintf(flight->store, sizeof flight->store, "file://%s/store", flight->folder);
    snprintf(flight->slow, sizeof flight->slow, "%s?limit=" STORAGE_SPEED, flight->store);
    flight->session = kit_open(flight->slow, mode.settings);
}

void flight_protect_flags(struct flight *flight, const char *name, void *ptr, size_t size, unsigned flags) {
    if (flight->count == FLIGHT_REGIONS)
        fail("too many regions for this test");
    struct flight_region *region = &flight->regions[flight->count++];
    *region = (struct flight_region){.ptr = ptr, .size = size};
    snprintf(region->name, sizeof region->name, "%s", name);
    int rc = flags ? varve_protect_flags(flight->session, name, ptr, size, flags)
                   : varve_protect(flight->session, name, ptr, size);
    if (rc != 0)
        fail("protect %s: %s", name, varve_session_error(flight->session)->text);
}

void flight_protect(struct flight *flight, const char *name, void *ptr, size_t size, int is_kernel_free) {
    flight_protect_flags(flight, name, ptr, size, is_kernel_free ? mode.flags : 0);
}

void flight_forget(struct flight *flight, const char *name) {
    for (size_t i = 0; i < flight->count; i++)
        if (strcmp(flight->regions[i].name, name) == 0) {
            flight->regions[i] = flight->regions[--flight->count];
            return;
        }
}

static void change_pages(struct flight *flight, unsigned one_in) {
    for (size_t i = 0; i < flight->count; i++) {
        struct scribble_target target = {flight->regions[i].ptr, flight->regions[i].size};
        if (!flight->regions[i].is_constant)
            scribble_once(&target, one_in, (uint64_t)flight->version + 1);
    }
}

void flight_again(struct flight *flight) {
    images_clear(&flight->at_call);
    flight->at_call.version = ++flight->version;
    for (size_t i = 0; i < flight->count; i++)
        images_add(&flight->at_call, flight->regions[i].name, flight->regions[i].ptr, flight->regions[i].size);
    if (varve_checkpoint(flight->session, flight->version) != 0)
        fail("checkpoint %lld: %s", (long long)flight->version, varve_session_error(flight->session)->text);
}

void flight_arrive(struct flight *flight) {
    if (varve_wait(flight->session) != 0)
        fail("checkpoint %lld does not survive: %s", (long long)flight->version,
             varve_session_error(flight->session)->text);
    images_check(&flight->at_call, flight->store);
}

void flight_launch(struct flight *flight) {
    flight_again(flight);
    flight_arrive(flight);
    change_pages(flight, 1);
    flight_again(flight);
}

void flight_land(struct flight *flight) {
    struct vv_details stats;
    flight_arrive(flight);
    kit_stats(flight->session, &stats);
    *mode.held += stats.bytes_held > 0 || stats.bytes_frozen > 0;
    if (must_hold_each() && !flight->need_not_hold && stats.bytes_held + stats.bytes_frozen == 0)
        fail("nothing was held or frozen: this tested nothing; the library says: %s", stats.capture_reason);
    change_pages(flight, 40);
    flight_again(flight);
    flight_arrive(flight);
}

void flight_close(struct flight *flight) {
    if (varve_close(flight->session) != 0)
        fail("close");
    images_clear(&flight->at_call);
    kit_folder_remove(flight->folder);
}

struct scribblers *flight_scribble(struct flight *flight, const char *only) {
    struct scribble_target targets[FLIGHT_REGIONS];
    size_t count = 0;
    for (size_t i = 0; i < flight->count; i++)
        if (!flight->regions[i].is_constant && (!only || strcmp(only, flight->regions[i].name) == 0))
            targets[count++] = (struct scribble_target){flight->regions[i].ptr, flight->regions[i].size};
    struct scribblers *scribblers = scribblers_prepare(targets, count, SHUFFLED, 1, (uint64_t)flight->version);
    scribblers_go(scribblers);
    return scribblers;
}

void flight_must_be_up(struct flight *flight) {
    if (must_hold_each() && !flight->need_not_hold && varve_test(flight->session) != 0)
        fail("the checkpoint is not in flight: this tests nothing");
}

long long number_in(const char *path, const char *word) {
    char line[128];
    long long found = -1;
    FILE *file = fopen(path, "re");
    while (file && found < 0 && fgets(line, sizeof line, file))
        if (strncmp(line, word, strlen(word)) == 0)
            found = atoll(line + strlen(word));
    if (file)
        fclose(file);
    return found;
}
