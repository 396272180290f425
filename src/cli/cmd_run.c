/* varve run: start a program with libvarve_preload, which knows its large allocations. Whatever cannot be preloaded is
 * refused here: the loader would pass over it without a word. */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "files/error.h"
#include "terminal/cli.h"

#define PRELOAD "libvarve_preload.so"

/* Allocators, and sanitizers, which have one. libvarve_preload finds others when the program starts. */
static const char *const allocators[] = {"libasan",  "libhwasan",   "liblsan",      "libtsan",
                                         "libmsan",  "libjemalloc", "jemalloc",     "libtcmalloc",
                                         "tcmalloc", "libmimalloc", "libtbbmalloc", "libhoard"};

static int refuse_program(struct varve_error *error, const char *path, const char *why) {
    snprintf(error->text, sizeof error->text, "%.300s %s", path, why);
    error->code = -ENOTSUP;
    return -ENOTSUP;
}

/* As execvp looks for it. */
static int find_program(const char *name, char *out, size_t capacity, struct varve_error *error) {
    const char *at = getenv("PATH");
    if (strchr(name, '/')) {
        snprintf(out, capacity, "%s", name);
        return access(out, X_OK) == 0 ? 0 : files_system_error(error, "start", name);
    }
    while (at && *at) {
        size_t size = strcspn(at, ":");
        int length = snprintf(out, capacity, "%.*s/%s", size ? (int)size : 1, size ? at : ".", name);
        if (length > 0 && (size_t)length < capacity && access(out, X_OK) == 0)
            return 0;
        at += size + (at[size] == ':');
    }
    return refuse_program(error, name, "is not found in PATH");
}

/* The loader takes nothing from the environment of its caller then. */
static int check_rights(int fd, const char *path, struct varve_error *error) {
    struct stat st;
    if (fstat(fd, &st) != 0)
        return files_system_error(error, "look at", path);
    if (!S_ISREG(st.st_mode))
        return refuse_program(error, path, "is no program");
    if ((st.st_mode & (S_ISUID | S_ISGID)) || fgetxattr(fd, "security.capability", NULL, 0) > 0)
        return refuse_program(
            error, path,
            "runs with other rights than its caller (setuid, setgid or capabilities): nothing is preloaded "
            "into such programs");
    return 0;
}

static int check_format(int fd, const char *path, struct varve_error *error) {
    ElfW(Ehdr) head, own;
    ElfW(Phdr) part;
    ssize_t size = pread(fd, &head, sizeof head, 0);
    int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    ssize_t own_size = self < 0 ? -1 : pread(self, &own, sizeof own, 0);
    if (self >= 0)
        close(self);
    if (size >= 2 && memcmp(&head, "#!", 2) == 0)
        return refuse_program(error, path, "is a script: start the program that it runs by `varve run`, in the script");
    if (size != (ssize_t)sizeof head || own_size != (ssize_t)sizeof own || memcmp(&head, ELFMAG, SELFMAG) != 0 ||
        head.e_ident[EI_CLASS] != own.e_ident[EI_CLASS] || head.e_machine != own.e_machine ||
        head.e_phentsize != sizeof part)
        return refuse_program(error, path, "is no program of this kind of machine");
    for (unsigned i = 0; i < head.e_phnum; i++)
        if (pread(fd, &part, sizeof part, (off_t)(head.e_phoff + i * sizeof part)) == (ssize_t)sizeof part &&
            part.p_type == PT_INTERP)
            return 0;
    return refuse_program(error, path, "is linked statically: no library can be preloaded. Link it dynamically");
}

static int check_program(const char *path, struct varve_error *error) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) /* the loader may, but nobody knows whether it would preload */
        return files_system_error(error, "read", path);
    int rc = check_rights(fd, path, error);
    rc = rc ? rc : check_format(fd, path, error);
    close(fd);
    return rc;
}

static int check_others(struct varve_error *error) {
    const char *at = getenv("LD_PRELOAD");
    while (at && *at) {
        size_t size = strcspn(at, ": ");
        const char *slash = memrchr(at, '/', size), *name = slash ? slash + 1 : at;
        char shown[256];
        snprintf(shown, sizeof shown, "%.*s", (int)size, at);
        for (size_t i = 0; i < sizeof allocators / sizeof *allocators; i++)
            if (strncmp(name, allocators[i], strlen(allocators[i])) == 0)
                return refuse_program(
                    error, shown,
                    "in LD_PRELOAD has an allocator, too: libvarve_preload works with that of the C library "
                    "only");
        at += size + (at[size] != '\0');
    }
    return 0;
}

/* It lies beside libvarve. */
static int find_preload(char *out, size_t capacity, struct varve_error *error) {
    Dl_info info;
    if (!dladdr((void *)(uintptr_t)varve_error_text, &info) || !info.dli_fname)
        return refuse_program(error, PRELOAD, "is not found");
    char *library = realpath(info.dli_fname, NULL), *slash = library ? strrchr(library, '/') : NULL;
    int length = slash ? snprintf(out, capacity, "%.*s/" PRELOAD, (int)(slash - library), library) : -1;
    free(library);
    if (length < 0 || (size_t)length >= capacity || access(out, R_OK) != 0)
        return refuse_program(error, PRELOAD, "is not found beside libvarve");
    return strpbrk(out, ": ")
               ? refuse_program(error, out, "has a colon or space in its path, which LD_PRELOAD cannot hold")
               : 0;
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

static int set_environment(const struct cli *cli, const char *preload) {
    const char *before = getenv("LD_PRELOAD");
    int rc = set_joined("LD_PRELOAD", preload, &before, before && *before);
    rc = rc ? rc
            : set_joined("VARVE_PRELOAD_INCLUDE", getenv("VARVE_PRELOAD_INCLUDE"), cli->includes, cli->include_count);
    rc = rc ? rc
            : set_joined("VARVE_PRELOAD_EXCLUDE", getenv("VARVE_PRELOAD_EXCLUDE"), cli->excludes, cli->exclude_count);
    return rc;
}

static int run_run(struct cli *cli) {
    struct varve_error error = {.text = ""};
    char path[4096], preload[4096];

    int rc = find_program(cli->args[0], path, sizeof path, &error);
    rc = rc ? rc : check_program(path, &error);
    rc = rc ? rc : check_others(&error);
    rc = rc ? rc : find_preload(preload, sizeof preload, &error);
    rc = rc ? rc : set_environment(cli, preload);
    if (rc == 0) {
        execv(path, cli->args);
        rc = files_system_error(&error, "start", path);
    }
    return cli_fail(cli, rc, &error);
}

const struct command command_run = {
    .name = "run",
    .summary = "start a program whose large allocations are protected without names",
    .usage = "run [--include LIBRARY] [--exclude LIBRARY] -- PROGRAM [ARGUMENT...]",
    .help =
        "Start PROGRAM with libvarve_preload: a session that it opens protects its large allocations, too.\n"
        "The program calls varve_open, varve_restart and varve_checkpoint; docs/transparent.md tells the rest.\n"
        "Of an MPI job each rank is started so: mpirun -n 4 varve run -- PROGRAM\n\n"
        "  --include LIBRARY   what this library allocates is data of the program, as liblammps.so; its name may go "
        "on\n"
        "  --exclude LIBRARY   what this library allocates is not\n\n"
        "example: varve run -- ./storm 1000\n",
    .options = OPTION_INCLUDE | OPTION_EXCLUDE,
    .is_storeless = 1,
    .least_args = 1,
    .most_args = -1,
    .run = run_run,
};
