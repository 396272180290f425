/* Stands before the program as LD_PRELOAD. With OTHER_KERNEL the process seems to run on another kernel: the vdso,
 * which each kernel brings, has another build id. */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PARTS_MOST 16

struct call {
    int (*fn)(struct dl_phdr_info *info, size_t size, void *arg);
    void *arg;
};

/* The same place in each call, as the loader has it: the table of parts, and the notes with the build id. */
static ElfW(Phdr) parts[PARTS_MOST];
static _Alignas(8) char notes[4096];

static void change(struct dl_phdr_info *info) {
    memcpy(parts, info->dlpi_phdr, info->dlpi_phnum * sizeof *parts);
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        if (parts[i].p_type != PT_NOTE || parts[i].p_memsz > sizeof notes)
            continue;
        memcpy(notes, (const void *)(info->dlpi_addr + parts[i].p_vaddr), parts[i].p_memsz);
        for (size_t at = 0; at + sizeof(ElfW(Nhdr)) < parts[i].p_memsz;) {
            ElfW(Nhdr) *note = (void *)(notes + at);
            char *id = notes + at + sizeof *note + ((note->n_namesz + 3) & ~3u);
            if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4)
                *id ^= 1;
            at = (size_t)(id - notes) + ((note->n_descsz + 3) & ~3u);
        }
        parts[i].p_vaddr = (uintptr_t)notes - info->dlpi_addr;
    }
    info->dlpi_phdr = parts;
}

static int hand_on(struct dl_phdr_info *info, size_t size, void *arg) {
    const struct call *call = arg;
    struct dl_phdr_info changed = *info;
    if (getenv("OTHER_KERNEL") && strncmp(info->dlpi_name, "linux-vdso", 10) == 0 && info->dlpi_phnum <= PARTS_MOST)
        change(&changed);
    return call->fn(&changed, size, call->arg);
}

__attribute__((visibility("default"))) int dl_iterate_phdr(int (*fn)(struct dl_phdr_info *info, size_t size, void *arg),
                                                           void *arg) {
    static int (*next)(int (*)(struct dl_phdr_info *, size_t, void *), void *);
    struct call call = {fn, arg};
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "dl_iterate_phdr");
    return next(hand_on, &call);
}
