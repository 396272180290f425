/* Which call site allocates: the return addresses on the stack, each as the build id of its object and the offset in
 * it. These are the same in every run of the same files, wherever the kernel maps them. */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <unwind.h>

#include "preload_private.h"

#define FRAMES 8

/* Libraries whose frames are passed over: the caller of `new` is the owner. */
static const char *const passed[] = {"libstdc++.so", "libc++.so", "libc++abi.so"};

/* Libraries that allocate for themselves: the state of one process, which must not come back in another. */
static const char *const runtimes[] = {
    "libc.so",       "ld-linux",       "libm.so",      "libpthread.so", "libgfortran.so", "libgomp.so",
    "libomp.so",     "libquadmath.so", "libgcc_s.so",  "libvarve",      "libzstd.so",     "liblz4.so",
    "libxxhash.so",  "libz.so",        "libfpzip.so",  "libzfp.so",     "libcrypto.so",   "libssl.so",
    "libmpi",        "libmpich",       "libopen-",     "libpmix",       "libprrte",       "mca_",
    "libmca_",       "libucp.so",      "libucs.so",    "libuct.so",     "libucm.so",      "libuct_",
    "libucx_",       "libfabric.so",   "libpsm",       "libibverbs.so", "librdmacm.so",   "libhwloc.so",
    "libevent",      "libOpenCL.so",   "libpocl",      "libLLVM",       "linux-vdso.so",  "libcurl",
    "libnghttp2.so", "libgnutls.so",   "libnettle.so", "libhogweed.so", "libgssapi",      "libssh2.so",
    "libpsl.so",     "libidn2.so",     "librtmp.so",   "libbrotli"};

static const char *includes, *excludes;

static char program[256];

static void find_program_name(void) {
    char path[4096];
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
    path[size > 0 ? size : 0] = '\0';
    const char *slash = strrchr(path, '/');
    snprintf(program, sizeof program, "%s", slash ? slash + 1 : "program");
}

void site_configure(const char *include, const char *exclude) {
    includes = include;
    excludes = exclude;
    find_program_name();
}

/* ---- one object ---- */

/* The file's name without folders. */
static const char *name_of(const struct link_map *map) {
    if (!map)
        return "?";
    if (!map->l_name || !map->l_name[0]) { /* the program itself */
        if (!program[0])
            find_program_name(); /* before there are threads */
        return program;
    }
    const char *slash = strrchr(map->l_name, '/');
    return slash ? slash + 1 : map->l_name;
}

static int is_listed(const char *name, const char *const *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strncmp(name, list[i], strlen(list[i])) == 0)
            return 1;
    return 0;
}

/* Is it one of these names, or does it begin with one? */
static int is_named(const char *name, const char *list) {
    while (list && *list) {
        size_t size = strcspn(list, ":");
        if (size > 0 && strncmp(name, list, size) == 0)
            return 1;
        list += size + (list[size] == ':');
    }
    return 0;
}

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t size) {
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

/* Finds the build id among the notes of one segment. */
static const uint8_t *find_note(const char *note, const char *end, size_t *size_out) {
    while (end - note >= (ptrdiff_t)sizeof(ElfW(Nhdr))) {
        const ElfW(Nhdr) *head = (const void *)note;
        size_t name = (head->n_namesz + 3u) & ~(size_t)3, size = (head->n_descsz + 3u) & ~(size_t)3;
        const char *text = note + sizeof *head;
        if ((size_t)(end - text) < name + size)
            return NULL;
        if (head->n_type == NT_GNU_BUILD_ID && head->n_namesz == 4 && memcmp(text, "GNU", 4) == 0) {
            *size_out = head->n_descsz;
            return (const uint8_t *)text + name;
        }
        note = text + name + size;
    }
    return NULL;
}

/* The object's headers lie at its begin. */
static const uint8_t *find_build_id(const struct dl_find_object *object, size_t *size_out) {
    const char *start = object->dlfo_map_start, *end = object->dlfo_map_end;
    const ElfW(Ehdr) *head = (const void *)start;
    if (end - start < 4096 || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
        head->e_phoff + head->e_phnum * sizeof(ElfW(Phdr)) > 4096)
        return NULL;
    const ElfW(Phdr) *part = (const void *)(start + head->e_phoff);
    ElfW(Addr) base = object->dlfo_link_map ? object->dlfo_link_map->l_addr : 0;
    for (unsigned i = 0; i < head->e_phnum; i++) {
        const char *note = (const char *)(uintptr_t)(base + part[i].p_vaddr);
        if (part[i].p_type != PT_NOTE || note < start || note >= end || part[i].p_memsz > (size_t)(end - note))
            continue;
        const uint8_t *id = find_note(note, note + part[i].p_memsz, size_out);
        if (id)
            return id;
    }
    return NULL;
}

/* ---- the stack ---- */

struct walk {
    struct site *site;
    unsigned frames;
    int has_owner;
    int is_settled; /* an owner that is not known stays so */
};

static enum site_owner owner_of(const struct dl_find_object *object, const char *name) {
    if (is_named(name, excludes))
        return OWNER_RUNTIME;
    if (!object->dlfo_link_map || !object->dlfo_link_map->l_name[0] || is_named(name, includes))
        return OWNER_PROGRAM;
    return is_listed(name, runtimes, sizeof runtimes / sizeof *runtimes) ? OWNER_RUNTIME : OWNER_UNKNOWN;
}

static void set_owner(struct walk *walk, enum site_owner owner, const char *name, uintptr_t offset) {
    walk->site->owner = owner;
    walk->has_owner = 1;
    snprintf(walk->site->text, sizeof walk->site->text, "%.64s+0x%llx", name, (unsigned long long)offset);
}

/* What libvarve_s3 calls allocates for it. What libvarve or the program calls first may be a callback with data. */
static void find_caller(struct walk *walk, const struct dl_find_object *object, const char *name, uintptr_t offset) {
    if (walk->site->owner != OWNER_UNKNOWN || walk->is_settled)
        return;
    if (strncmp(name, "libvarve_s3", strlen("libvarve_s3")) == 0)
        set_owner(walk, OWNER_RUNTIME, name, offset);
    else
        walk->is_settled =
            strncmp(name, "libvarve", strlen("libvarve")) == 0 || owner_of(object, name) == OWNER_PROGRAM;
}

/* Is the owner found here? Frames of ourselves, and of libraries that only pass the call on, are not. */
static int find_owner(struct walk *walk, const struct dl_find_object *object, uintptr_t offset) {
    const char *name = name_of(object->dlfo_link_map);
    if (walk->has_owner)
        find_caller(walk, object, name, offset);
    if (walk->has_owner || is_listed(name, passed, sizeof passed / sizeof *passed))
        return 0;
    set_owner(walk, owner_of(object, name), name, offset);
    return 1;
}

static _Unwind_Reason_Code take_frame(struct _Unwind_Context *context, void *arg) {
    static void *own; /* where this library begins; every thread would write the same */
    struct walk *walk = arg;
    struct dl_find_object object;
    uintptr_t pc = _Unwind_GetIP(context);
    size_t size = 0;
    if (!own && _dl_find_object((void *)(uintptr_t)take_frame, &object) == 0)
        own = object.dlfo_map_start;
    if (pc == 0)
        return _URC_END_OF_STACK;
    if (_dl_find_object((void *)pc, &object) != 0) {
        if (!walk->has_owner)
            set_owner(walk, OWNER_NAMELESS, "?", pc);
        return _URC_END_OF_STACK;
    }
    if (object.dlfo_map_start == own)
        return _URC_NO_REASON;
    uintptr_t offset = pc - (object.dlfo_link_map ? object.dlfo_link_map->l_addr : (uintptr_t)object.dlfo_map_start);
    int is_owner = find_owner(walk, &object, offset);
    const uint8_t *id = find_build_id(&object, &size);
    if (!id && walk->site->owner == OWNER_PROGRAM) {
        set_owner(walk, OWNER_NAMELESS, name_of(object.dlfo_link_map), offset);
        return _URC_END_OF_STACK;
    }
    if (is_owner)
        walk->site->owned = hash_bytes(hash_bytes(~walk->site->owned, id, size), &offset, sizeof offset);
    walk->site->key = hash_bytes(hash_bytes(walk->site->key, id, size), &offset, sizeof offset);
    return walk->site->owner == OWNER_RUNTIME || ++walk->frames == FRAMES ? _URC_END_OF_STACK : _URC_NO_REASON;
}

void site_find(struct site *out) {
    struct walk walk = {.site = out};
    *out = (struct site){.key = 0xcbf29ce484222325u, .owner = OWNER_UNKNOWN, .text = "?"};
    int error = errno;
    _Unwind_Backtrace(take_frame, &walk);
    errno = error;
}
