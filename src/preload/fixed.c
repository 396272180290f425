/* Address-true mode (`varve run --fixed`): nothing is placed at random, so the bytes of the program's heap and static
 * variables can be put back with the pointers in them. Here: whether the mode is on, what belongs to the program, and
 * which objects the process has. The heap itself: arena.c.
 *
 * Of an object that belongs to the program come back: the segments that can be written, without what the loader makes
 * read-only again (RELRO), and without the words that it fills in for others: GOT entries, which may depend on the
 * processor, and variables of libraries that the linker has put into the program (copy relocations, such as stdout and
 * environ). The C library, the loader, MPI and Varve keep their own: it describes this process, with its descriptors,
 * threads and connections. */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <unistd.h>

#include "preload_private.h"

#define OBJECTS_MOST 1024u
#define PIECES_MOST 4096u
#define WHY_MOST 320

int fixed_state = FIXED_UNKNOWN;

/* Of the loader, and of the C library. */
extern void *__tls_get_addr(size_t *module_and_offset);
extern struct _IO_FILE *_IO_list_all;
extern void _IO_list_lock(void);
extern void _IO_list_unlock(void);

/* ---- is it on? ---- */

void fixed_decide(void) {
    const char *text = getenv("VARVE_PRELOAD_FIXED");
    int now = personality(0xffffffff);
    if (!text || !*text) {
        fixed_state = FIXED_OFF;
        return;
    }
#ifndef __x86_64__
    preload_refuse("address-true mode knows the relocations of x86-64 only", "VARVE_PRELOAD_FIXED");
#endif
    if (now == -1 || !(now & ADDR_NO_RANDOMIZE))
        preload_refuse("addresses are still placed at random: start it by `varve run --fixed`", "VARVE_PRELOAD_FIXED");
    if (strcmp(text, "set") == 0) /* what this program starts is placed as ever */
        personality((unsigned long)(now & ~ADDR_NO_RANDOMIZE));
    if (arena_reserve() != 0)
        preload_refuse("there is no room for the heap of address-true mode at its addresses: see `ulimit -v`",
                       "256 GiB at 0x100000000000");
    fixed_state = FIXED_ON;
}

/* ---- pieces of memory ---- */

struct piece {
    uintptr_t begin, end;
};

struct pieces {
    struct piece list[PIECES_MOST];
    size_t count;
    int is_full;
};

/* Takes [begin, end) out of all pieces. */
static void cut(struct pieces *pieces, uintptr_t begin, uintptr_t end) {
    for (size_t i = 0; i < pieces->count; i++) {
        struct piece *piece = &pieces->list[i];
        if (end <= piece->begin || begin >= piece->end)
            continue;
        if (begin > piece->begin && end < piece->end) {
            if (pieces->count == PIECES_MOST) {
                pieces->is_full = 1;
                return;
            }
            pieces->list[pieces->count++] = (struct piece){end, piece->end};
            piece->end = begin;
        } else if (begin > piece->begin) {
            piece->end = begin;
        } else {
            piece->begin = end < piece->end ? end : piece->end;
        }
    }
}

/* ---- which objects there are ---- */

struct object {
    char name[SITE_TEXT];
    char id[2 * 32 + 1]; /* build id */
    uintptr_t base;
    uint64_t nothing; /* its name says all */
    const char *path; /* "": the program */
    int is_ours;
    int is_there; /* still */
    const ElfW(Phdr) * parts;
    unsigned part_count;
    size_t module;   /* of the loader, for variables of threads; 0: it has none */
    void *of_thread; /* those of this thread, or NULL */
};

/* Those at the first call: what is loaded later is not there at varve_restart of the next run. */
static struct object *objects;
static size_t object_count;
static char unknown[SITE_TEXT]; /* a library that has allocated, and nobody has said for whom */
static int threads;             /* of the program, that run */

static int add_object(struct dl_phdr_info *info, size_t size, void *arg) {
    struct object *object = &objects[object_count];
    (void)size;
    (void)arg;
    if (object_count == OBJECTS_MOST)
        return 1;
    object->base = info->dlpi_addr;
    object->path = info->dlpi_name;
    object->parts = info->dlpi_phdr;
    object->part_count = info->dlpi_phnum;
    object->is_ours = site_is_program(info->dlpi_name, object->name, sizeof object->name);
    size_t bytes = 0;
    const uint8_t *id = site_build_id(info, &bytes);
    for (size_t i = 0; id && i < bytes && i < 32; i++)
        snprintf(object->id + 2 * i, 3, "%02x", id[i]);
    object_count++;
    return 0;
}

static int take_objects(void) {
    if (objects)
        return 0;
    void *mapped =
        mmap(NULL, OBJECTS_MOST * sizeof *objects, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        return -ENOMEM;
    objects = mapped;
    dl_iterate_phdr(add_object, NULL);
    return object_count == OBJECTS_MOST ? -E2BIG : 0;
}

/* *arg is set if a library of the program was not there at the first call. */
static int find_again(struct dl_phdr_info *info, size_t size, void *arg) {
    char name[SITE_TEXT];
    int is_ours = site_is_program(info->dlpi_name, name, sizeof name);
    (void)size;
    for (size_t i = 0; i < object_count; i++) {
        struct object *object = &objects[i];
        if (object->base != info->dlpi_addr || object->parts != info->dlpi_phdr || strcmp(object->name, name) != 0)
            continue;
        object->is_there = 1;
        object->module = info->dlpi_tls_modid;
        object->of_thread = info->dlpi_tls_data;
        return 0;
    }
    *(int *)arg |= is_ours;
    return 0;
}

/* Has the program the libraries that it had at the first call? */
static int are_objects_there(void) {
    int is_other = 0;
    for (size_t i = 0; i < object_count; i++)
        objects[i].is_there = 0;
    dl_iterate_phdr(find_again, &is_other);
    for (size_t i = 0; i < object_count; i++) {
        struct object *object = &objects[i];
        if (object->is_ours && !object->is_there)
            is_other = 1;
#ifdef __x86_64__
        size_t index[2] = {object->module, 0};
        if (object->is_ours && object->is_there && object->module && !object->of_thread)
            object->of_thread = __tls_get_addr(index); /* the loader makes them when they are first used */
#endif
    }
    return !is_other;
}

/* ---- one object's static variables ---- */

#ifdef __x86_64__
struct relocations {
    uintptr_t base;
    const ElfW(Sym) * symbols;
    const char *texts;
};

/* Is the variable that the linker has put into the program one of a library that belongs to it? */
static int is_of_ours(const char *symbol) {
    int is_found = 0;
    for (size_t i = 0; i < object_count && !is_found; i++) {
        if (!objects[i].is_ours || !objects[i].path[0])
            continue;
        Dl_info info;
        void *handle = dlopen(objects[i].path, RTLD_LAZY | RTLD_NOLOAD), *at = handle ? dlsym(handle, symbol) : NULL;
        is_found = at && dladdr(at, &info) && (uintptr_t)info.dli_fbase == objects[i].base;
        if (handle)
            dlclose(handle);
    }
    return is_found;
}

static void cut_relocations(struct pieces *pieces, const struct relocations *about, uintptr_t table, size_t bytes) {
    const ElfW(Rela) *entry = (const void *)table;
    for (size_t i = 0; table && i < bytes / sizeof *entry; i++) {
        uintptr_t at = about->base + entry[i].r_offset;
        const ElfW(Sym) *symbol = &about->symbols[ELF64_R_SYM(entry[i].r_info)];
        switch (ELF64_R_TYPE(entry[i].r_info)) {
        case R_X86_64_COPY:
            if (!is_of_ours(about->texts + symbol->st_name))
                cut(pieces, at, at + symbol->st_size);
            break;
        case R_X86_64_GLOB_DAT:
        case R_X86_64_JUMP_SLOT:
        case R_X86_64_IRELATIVE:
        case R_X86_64_DTPMOD64:
        case R_X86_64_DTPOFF64:
        case R_X86_64_TPOFF64:
            cut(pieces, at, at + 8);
            break;
        default:
            break;
        }
    }
}

/* The loader has made the addresses in the table absolute. */
static void cut_loaders(struct pieces *pieces, uintptr_t base, const ElfW(Dyn) * dynamic) {
    struct relocations about = {base, NULL, NULL};
    uintptr_t rela = 0, plt = 0;
    size_t rela_bytes = 0, plt_bytes = 0;
    for (const ElfW(Dyn) *entry = dynamic; entry && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_RELA)
            rela = entry->d_un.d_ptr;
        if (entry->d_tag == DT_RELASZ)
            rela_bytes = entry->d_un.d_val;
        if (entry->d_tag == DT_JMPREL)
            plt = entry->d_un.d_ptr;
        if (entry->d_tag == DT_PLTRELSZ)
            plt_bytes = entry->d_un.d_val;
        if (entry->d_tag == DT_SYMTAB)
            about.symbols = (const void *)entry->d_un.d_ptr;
        if (entry->d_tag == DT_STRTAB)
            about.texts = (const void *)entry->d_un.d_ptr;
        if (entry->d_tag == DT_PLTGOT)
            cut(pieces, entry->d_un.d_ptr, entry->d_un.d_ptr + 24); /* the loader's own three words */
    }
    cut_relocations(pieces, &about, rela, rela_bytes);
    cut_relocations(pieces, &about, plt, plt_bytes);
}
#else
static void cut_loaders(struct pieces *pieces, uintptr_t base, const ElfW(Dyn) * dynamic) {
    (void)pieces;
    (void)base;
    (void)dynamic;
}
#endif

static void find_pieces(const struct object *object, struct pieces *pieces) {
    const ElfW(Dyn) *dynamic = NULL;
    pieces->count = 0;
    pieces->is_full = 0;
    for (unsigned i = 0; i < object->part_count; i++) {
        const ElfW(Phdr) *part = &object->parts[i];
        uintptr_t begin = object->base + part->p_vaddr;
        if (part->p_type == PT_LOAD && (part->p_flags & PF_W) && pieces->count < PIECES_MOST)
            pieces->list[pieces->count++] = (struct piece){begin, begin + part->p_memsz};
        if (part->p_type == PT_DYNAMIC)
            dynamic = (const void *)begin;
    }
    for (unsigned i = 0; i < object->part_count; i++) {
        const ElfW(Phdr) *part = &object->parts[i];
        uintptr_t begin = object->base + part->p_vaddr, end = begin + part->p_memsz;
        if (part->p_type == PT_GNU_RELRO) /* whole pages are read-only */
            cut(pieces, begin & ~(uintptr_t)4095, end & ~(uintptr_t)4095);
        if (part->p_type == PT_DYNAMIC || part->p_type == PT_GNU_RELRO)
            cut(pieces, begin, end);
    }
    cut_loaders(pieces, object->base, dynamic);
}

/* ---- what a session asks ---- */

static int tell_variables(const struct object *object, struct pieces *pieces, preload_fn fn, void *arg) {
    char text[2 * SITE_TEXT];
    int rc = 0;
    find_pieces(object, pieces);
    for (size_t i = 0; i < pieces->count && rc == 0; i++) {
        const struct piece *piece = &pieces->list[i];
        snprintf(text, sizeof text, "fixed:data:%s+0x%" PRIxPTR, object->name, piece->begin - object->base);
        if (piece->begin < piece->end)
            rc = fn(arg, text, (void *)piece->begin, piece->end - piece->begin,
                    pieces->is_full ? "the variables of its object lie in too many pieces" : NULL);
    }
    for (unsigned i = 0; i < object->part_count && rc == 0; i++)
        if (object->parts[i].p_type == PT_TLS && object->of_thread && object->parts[i].p_memsz > 0) {
            snprintf(text, sizeof text, "fixed:thread:%s", object->name);
            rc = fn(arg, text, object->of_thread, object->parts[i].p_memsz, NULL);
        }
    return rc;
}

/* ---- why it cannot come back ---- */

static int has_arena(const void *memory, size_t bytes) {
    const void *const *word = memory;
    for (size_t i = 0; i < bytes / sizeof *word; i++)
        if (arena_has(word[i]))
            return 1;
    return 0;
}

/* What such a library allocates for its caller lies in the heap. What it keeps of that for itself comes back, and its
 * variables, which point there, do not. */
static int keeps_heap(const struct object *object) {
    if (object->is_ours || !object->is_there || !site_is_passed(object->name))
        return 0;
    for (unsigned i = 0; i < object->part_count; i++) {
        const ElfW(Phdr) *part = &object->parts[i];
        uintptr_t begin = object->base + part->p_vaddr, from = (begin + 7) & ~(uintptr_t)7;
        if (part->p_type == PT_LOAD && (part->p_flags & PF_W) &&
            has_arena((const void *)from, part->p_memsz - (from - begin)))
            return 1;
        if (part->p_type == PT_TLS && object->of_thread && has_arena(object->of_thread, part->p_memsz))
            return 1;
    }
    return 0;
}

static int is_variable(const void *ptr) {
    for (size_t i = 0; i < object_count; i++)
        for (unsigned j = 0; objects[i].is_ours && j < objects[i].part_count; j++) {
            const ElfW(Phdr) *part = &objects[i].parts[j];
            if (part->p_type == PT_LOAD && (uintptr_t)ptr - objects[i].base - part->p_vaddr < part->p_memsz)
                return 1;
        }
    return 0;
}

/* Has a FILE a buffer that comes back? Its positions are this process's. */
static int is_buffer_ours(void) {
    int is_ours = 0;
    _IO_list_lock();
    for (const FILE *file = _IO_list_all; file && !is_ours; file = file->_chain)
        is_ours = file->_IO_buf_base && (arena_has(file->_IO_buf_base) || is_variable(file->_IO_buf_base));
    _IO_list_unlock();
    return is_ours;
}

/* Is the program, or a library of it, linked with this one? */
static int is_needed(const char *name) {
    for (size_t i = 0; i < object_count; i++) {
        const ElfW(Dyn) *dynamic = NULL;
        const char *texts = NULL;
        for (unsigned j = 0; objects[i].is_ours && j < objects[i].part_count; j++)
            if (objects[i].parts[j].p_type == PT_DYNAMIC)
                dynamic = (const void *)(objects[i].base + objects[i].parts[j].p_vaddr);
        for (const ElfW(Dyn) *entry = dynamic; entry && entry->d_tag != DT_NULL; entry++)
            if (entry->d_tag == DT_STRTAB)
                texts = (const void *)entry->d_un.d_ptr;
        for (const ElfW(Dyn) *entry = dynamic; texts && entry->d_tag != DT_NULL; entry++)
            if (entry->d_tag == DT_NEEDED && strncmp(texts + entry->d_un.d_val, name, SITE_TEXT - 1) == 0)
                return 1;
    }
    return 0;
}

static const char *why_library(const char *what, const char *name) {
    static char why[WHY_MOST];
    snprintf(why, sizeof why,
             "%s %s, and it is not said whether it holds data of the program: start it by `varve run --fixed "
             "--include` or `--exclude` with the library's name",
             what, name);
    return why;
}

static const char *why_not(void) {
    if (__atomic_load_n(&threads, __ATOMIC_SEQ_CST) > 0)
        return "the program has other threads, and what they are doing does not come back: join them first, or start "
               "it without --fixed";
    if (!are_objects_there())
        return "a library of the program was loaded or unloaded after varve_restart";
    if (is_buffer_ours())
        return "a FILE has its buffer in memory of the program (setvbuf): give it none, or one on the stack of main";
    for (size_t i = 0; i < object_count; i++) {
        const struct object *object = &objects[i];
        if (keeps_heap(object))
            return "libstdc++ keeps memory of its own in it, and would not find it again: leave out "
                   "sync_with_stdio(false), locale::global and buffers of cin and cout, and make no checkpoint in a "
                   "catch";
        if (object->is_ours && object->module && !object->of_thread)
            return "variables of threads (thread_local) of a library are not there yet";
        if (!object->is_ours && site_is_unsaid(object->name) && is_needed(object->name))
            return why_library("the program is linked with library", object->name);
    }
    return unknown[0] ? why_library("memory was allocated by library", unknown) : NULL;
}

int fixed_each(preload_fn fn, void *arg) {
    size_t bytes;
    void *arena = arena_memory(&bytes);
    struct pieces *pieces = mmap(NULL, sizeof *pieces, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pieces == MAP_FAILED)
        return -ENOMEM;
    int rc = take_objects();
    const char *why = rc ? NULL : why_not();
    rc = rc ? rc : fn(arg, "fixed:heap", arena, bytes, why);
    for (size_t i = 0; i < object_count && rc == 0 && !why; i++) { /* else one may be gone */
        char text[2 * SITE_TEXT + 64];
        snprintf(text, sizeof text, "fixed:object:%s:%s", objects[i].name, objects[i].id);
        rc = fn(arg, text, &objects[i].nothing, sizeof objects[i].nothing,
                objects[i].id[0] ? NULL : "it has no build id: link it with -Wl,--build-id");
        snprintf(text, sizeof text, "fixed:object_at:%s:0x%" PRIxPTR, objects[i].name, objects[i].base);
        if (rc == 0)
            rc = fn(arg, text, &objects[i].base, sizeof objects[i].base, NULL);
        if (rc == 0 && objects[i].is_ours)
            rc = tell_variables(&objects[i], pieces, fn, arg);
    }
    munmap(pieces, sizeof *pieces);
    return rc;
}

/* ---- whose memory is it? ---- */

int fixed_is_ours(void *caller) {
    struct site site;
    if (fixed_state == FIXED_UNKNOWN && environ) /* else it is too early to know: the loader itself asks */
        preload_configure();
    if (fixed_state != FIXED_ON)
        return 0;
    enum site_owner owner = site_owner(caller, &site);
    if (owner == OWNER_UNKNOWN && !unknown[0])
        snprintf(unknown, sizeof unknown, "%.*s", (int)strcspn(site.text, "+"), site.text);
    return owner == OWNER_PROGRAM || owner == OWNER_NAMELESS;
}

/* ---- threads ---- */

void fixed_thread(int change) {
    __atomic_add_fetch(&threads, change, __ATOMIC_SEQ_CST);
}
