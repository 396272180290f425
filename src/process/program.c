#include "process/program.h"

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

int process_refuse_program(struct varve_error *error, const char *path, const char *why) {
    snprintf(error->text, sizeof error->text, "%.300s %s", path, why);
    error->code = -ENOTSUP;
    return -ENOTSUP;
}

int process_find_program(const char *name, char *out, size_t capacity, struct varve_error *error) {
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
    return process_refuse_program(error, name, "is not found in PATH");
}

int process_find_beside(const char *name, char *out, size_t capacity, struct varve_error *error) {
    static const char *const folders[] = {"/", "/varve/"};
    Dl_info info;

    if (!dladdr((void *)(uintptr_t)varve_error_text, &info) || !info.dli_fname)
        return process_refuse_program(error, name, "is not found");
    char *library = realpath(info.dli_fname, NULL), *slash = library ? strrchr(library, '/') : NULL;
    int is_found = 0;
    for (size_t i = 0; slash && !is_found && i < sizeof folders / sizeof *folders; i++) {
        int length = snprintf(out, capacity, "%.*s%s%s", (int)(slash - library), library, folders[i], name);
        is_found = length > 0 && (size_t)length < capacity && access(out, R_OK) == 0;
    }
    free(library);
    return is_found ? 0 : process_refuse_program(error, name, "is not found beside libvarve");
}

#define WITH_RIGHTS "nothing is preloaded into programs that run with other rights than their caller"

/* The loader takes nothing from the environment of its caller then. */
static int check_rights(int fd, const char *path, struct varve_error *error) {
    struct stat st;
    if (fstat(fd, &st) != 0)
        return files_system_error(error, "look at", path);
    if (!S_ISREG(st.st_mode))
        return process_refuse_program(error, path, "is no program");
    const char *why = st.st_mode & S_ISUID                                ? "is setuid: " WITH_RIGHTS
                      : st.st_mode & S_ISGID                              ? "is setgid: " WITH_RIGHTS
                      : fgetxattr(fd, "security.capability", NULL, 0) > 0 ? "has file capabilities: " WITH_RIGHTS
                                                                          : NULL;
    return why ? process_refuse_program(error, path, why) : 0;
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
        return process_refuse_program(error, path,
                                      "is a script: start the program that it runs by `varve run`, in the script");
    if (own_size != (ssize_t)sizeof own)
        return files_system_error(error, "read", "/proc/self/exe");
    if (size != (ssize_t)sizeof head || memcmp(&head, ELFMAG, SELFMAG) != 0)
        return process_refuse_program(error, path, "is no program: it is not ELF");
    if (head.e_ident[EI_CLASS] != own.e_ident[EI_CLASS])
        return process_refuse_program(error, path, "has addresses of another size than `varve`");
    if (head.e_machine != own.e_machine || head.e_phentsize != sizeof part)
        return process_refuse_program(error, path, "is a program of another kind of machine");
    for (unsigned i = 0; i < head.e_phnum; i++)
        if (pread(fd, &part, sizeof part, (off_t)(head.e_phoff + i * sizeof part)) == (ssize_t)sizeof part &&
            part.p_type == PT_INTERP)
            return 0;
    return process_refuse_program(error, path,
                                  "is linked statically: no library can be preloaded. Link it dynamically");
}

int process_check_program(const char *path, struct varve_error *error) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) /* the loader may, but nobody knows whether it would preload */
        return files_system_error(error, "read", path);
    int rc = check_rights(fd, path, error);
    rc = rc ? rc : check_format(fd, path, error);
    close(fd);
    return rc;
}
