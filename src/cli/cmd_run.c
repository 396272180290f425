/* varve run: start a program with libvarve_preload, which knows its large allocations. Whatever cannot be preloaded is
 * refused here: the loader would pass over it without a word. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <unistd.h>

#include "files/error.h"
#include "process/program.h"
#include "terminal/cli.h"

#define PRELOAD "libvarve_preload.so"

/* Allocators, and sanitizers, which have one. libvarve_preload finds others when the program starts. */
static const char *const allocators[] = {"libasan",  "libhwasan",   "liblsan",      "libtsan",
                                         "libmsan",  "libjemalloc", "jemalloc",     "libtcmalloc",
                                         "tcmalloc", "libmimalloc", "libtbbmalloc", "libhoard"};

static int check_others(struct varve_error *error) {
    const char *at = getenv("LD_PRELOAD");
    while (at && *at) {
        size_t size = strcspn(at, ": ");
        const char *slash = memrchr(at, '/', size), *name = slash ? slash + 1 : at;
        char shown[256];
        snprintf(shown, sizeof shown, "%.*s", (int)size, at);
        for (size_t i = 0; i < sizeof allocators / sizeof *allocators; i++)
            if (strncmp(name, allocators[i], strlen(allocators[i])) == 0)
                return process_refuse_program(
                    error, shown,
                    "in LD_PRELOAD has an allocator, too: libvarve_preload works with that of the C library "
                    "only");
        at += size + (at[size] != '\0');
    }
    return 0;
}

static int find_preload(char *out, size_t capacity, struct varve_error *error) {
    int rc = process_find_beside(PRELOAD, out, capacity, error);
    return rc == 0 && strpbrk(out, ": ")
               ? process_refuse_program(error, out, "has a colon or space in its path, which LD_PRELOAD cannot hold")
               : rc;
}

static int set_joined(const char *variable, const char *first, const char *const *list, size_t count) {
    char text[8192];
    size_t size = (size_t)snprintf(text, sizeof text, "%s", first ? first : "");
    for (size_t i = 0; i < count && size < sizeof text; i++)
        size += (size_t)snprintf(text + size, sizeof text - size, "%s%s", size ? ":" : "", list[i]);
    if (size >= sizeof text)
        return -E2BIG;
    return size == 0 || setenv(variable, text, 1) == 0 ? 0 : -ENOMEM;
}

/* One session for one process: ranks that know nothing of each other cannot agree on a checkpoint. */
static int check_alone(const char *symbol, struct varve_error *error) {
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_NUM_TASKS"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *size = getenv(sizes[i]);
        if (size && strtol(size, NULL, 10) > 1)
            return process_refuse_program(error, symbol,
                                          "would be met by each rank at its own time: --restart-after "
                                          "is for programs of one process");
    }
    return 0;
}

/* A folder is meant as seen from here, also where the program goes elsewhere first. */
static int set_store(const char *store) {
    char full[8192], here[4096] = "";
    int is_path = !strstr(store, "://") && store[0] != '/';
    if (is_path && !getcwd(here, sizeof here))
        return -errno;
    snprintf(full, sizeof full, "%s%s%s", here, is_path ? "/" : "", store);
    return setenv("VARVE_PRELOAD_STORE", full, 1) == 0 ? 0 : -ENOMEM;
}

/* libvarve_preload opens the session (preload/called.c). The loader finds all functions at the start, so that calls of
 * this one can be seen. */
static int set_after(const struct cli *cli, struct varve_error *error) {
    Dl_info info = {.dli_fname = NULL};
    int rc = check_alone(cli->after, error);
    if (rc)
        return rc;
    if (!dladdr((void *)(uintptr_t)varve_error_text, &info) || !info.dli_fname)
        return process_refuse_program(error, "libvarve", "is not found");
    char *library = realpath(info.dli_fname, NULL);
    int is_set = library && setenv("VARVE_PRELOAD_LIBRARY", library, 1) == 0 &&
                 setenv("VARVE_PRELOAD_AFTER", cli->after, 1) == 0 && setenv("VARVE_PRELOAD_NAME", cli->name, 1) == 0 &&
                 setenv("LD_BIND_NOW", "varve", 0) == 0;
    free(library);
    return is_set ? set_store(cli->to) : -ENOMEM;
}

static int set_environment(const struct cli *cli, const char *preload) {
    const char *before = getenv("LD_PRELOAD");
    int rc = set_joined("LD_PRELOAD", preload, &before, before && *before);
    rc = rc ? rc
            : set_joined("VARVE_PRELOAD_INCLUDE", getenv("VARVE_PRELOAD_INCLUDE"), cli->includes, cli->include_count);
    rc = rc ? rc
            : set_joined("VARVE_PRELOAD_EXCLUDE", getenv("VARVE_PRELOAD_EXCLUDE"), cli->excludes, cli->exclude_count);
    return rc;
}

/* The next program that this process becomes is placed where every one is. "set": it shall undo this for others. */
static int fix_addresses(struct varve_error *error) {
    int now = personality(0xffffffff);
    if (now == -1 || personality((unsigned long)now | ADDR_NO_RANDOMIZE) == -1)
        return files_system_error(error, "turn off the random placing of", "addresses (personality)");
    return setenv("VARVE_PRELOAD_FIXED", now & ADDR_NO_RANDOMIZE ? "kept" : "set", 1) == 0 ? 0 : -ENOMEM;
}

static int run_run(struct cli *cli) {
    struct varve_error error = {.text = ""};
    char path[4096], preload[4096];
    uint64_t both = OPTION_TO | OPTION_NAME, given = cli->given & both;

    if (cli->after ? given != both || !cli->after[0] || !cli->to[0] || !cli->name[0] : given != 0)
        return cli_usage(cli, "--restart-after SYMBOL, --to STORE and --name NAME belong together");
    int rc = process_find_program(cli->args[0], path, sizeof path, &error);
    rc = rc ? rc : process_check_program(path, &error);
    rc = rc ? rc : check_others(&error);
    rc = rc ? rc : find_preload(preload, sizeof preload, &error);
    rc = rc ? rc : set_environment(cli, preload);
    rc = rc || !cli->after ? rc : set_after(cli, &error);
    if (rc == 0 && (cli->after || (cli->given & OPTION_FIXED)))
        rc = fix_addresses(&error);
    else
        unsetenv("VARVE_PRELOAD_FIXED");
    if (rc == 0) {
        execv(path, cli->args);
        rc = files_system_error(&error, "start", path);
    }
    return cli_fail(cli, rc, &error);
}

const struct command command_run = {
    .name = "run",
    .summary = "start a program whose large allocations are protected without names",
    .usage = "run [--fixed] [--restart-after SYMBOL --to STORE --name NAME] [--include LIBRARY] [--exclude LIBRARY] -- "
             "PROGRAM [ARGUMENT...]",
    .help =
        "Start PROGRAM with libvarve_preload: a session that it opens protects its large allocations, too.\n"
        "The program calls varve_open, varve_restart and varve_checkpoint; docs/transparent.md tells the rest.\n"
        "Of an MPI job each rank is started so: mpirun -n 4 varve run -- PROGRAM\n\n"
        "  --fixed             address-true mode, experimental: heap and static variables come back with their "
        "pointers\n"
        "  --restart-after SYMBOL  for a program that never calls Varve: it is brought back when it first calls this "
        "function of a\n"
        "                      library, and its checkpoints are made where it calls it again; implies --fixed\n"
        "  --to STORE          where these go\n"
        "  --name NAME         and under which name\n"
        "  --include LIBRARY   what this library allocates is data of the program, as liblammps.so; its name may go "
        "on\n"
        "  --exclude LIBRARY   what this library allocates is not; the longer name wins\n\n"
        "example: varve run -- ./storm 1000\n",
    .options = OPTION_INCLUDE | OPTION_EXCLUDE | OPTION_FIXED | OPTION_RESTART_AFTER | OPTION_TO | OPTION_NAME,
    .is_storeless = 1,
    .least_args = 1,
    .most_args = -1,
    .run = run_run,
};
