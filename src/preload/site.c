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

/* Libraries that allocate for themselves: the state of one process, which must not come back in another. A name is that
 * of the file as far as its version, so that libmpimodel.so of a program is none of them; what is opened as a module
 * has a beginning that nobody else uses. */
static const char *const runtimes[] = {
    "libc.so", "ld-linux", "libm.so", "libmvec.so", "libpthread.so", "linux-vdso.so", "libgcc_s.so",
    /* of compilers */
    "libgfortran.so", "libquadmath.so", "libgomp.so", "libomp.so",
    /* of Varve, and what it uses */
    "libvarve.so", "libvarve_", "libzstd.so", "liblz4.so", "libxxhash.so", "libz.so", "libfpzip.so", "libzfp.so",
    "libcrypto.so", "libssl.so", "libcurl.so", "libcurl-gnutls.so", "libnghttp2.so", "libgnutls.so", "libnettle.so",
    "libhogweed.so", "libgssapi.so", "libgssapi_krb5.so", "libssh2.so", "libpsl.so", "libidn2.so", "librtmp.so",
    "libbrotlicommon.so", "libbrotlidec.so", "libbrotlienc.so",
    /* of MPI */
    "libmpi.so", "libmpi_cxx.so", "libmpi_mpifh.so", "libmpi_usempi", "libmpifort.so", "libmpicxx.so", "libmpich.so",
    "libmpichfort.so", "libmpichcxx.so", "libmpichf90.so", "libopen-rte.so", "libopen-pal.so", "libopen-orted-mpir.so",
    "libpmix.so", "libprrte.so", "libmca_common_", "mca_", "libucp.so", "libucs.so", "libuct.so", "libucm.so",
    "libuct_", "libucx_", "libfabric.so", "libpsm2.so", "libpsm_infinipath.so", "libibverbs.so", "librdmacm.so",
    "libhwloc.so", "hwloc_", "libevent-2", "libevent.so", "libevent_core-2", "libevent_core.so", "libevent_pthreads-2",
    "libevent_pthreads.so",
    /* of devices */
    "libOpenCL.so", "libpocl.so", "libpocl-", "libLLVM-", "libLLVM.so"};

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

/* How much of it is the longest of these names that it begins with? 0: none. */
static size_t named_by(const char *name, const char *list) {
    size_t most = 0;
    while (list && *list) {
        size_t size = strcspn(list, ":");
        if (size > most && strncmp(name, list, size) == 0)
            most = size;
        list += size + (list[size] == ':');
    }
    return most;
}

/* The longer name says more. */
static int is_included(const char *name) {
    return named_by(name, includes) > named_by(name, excludes);
}

static int is_excluded(const char *name) {
    return named_by(name, excludes) > 0 && !is_included(name);
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

const uint8_t *site_build_id(const struct dl_phdr_info *info, size_t *size_out) {
    const uint8_t *id = NULL;
    for (unsigned i = 0; i < info->dlpi_phnum && !id; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        const char *note = (const char *)(uintptr_t)(info->dlpi_addr + part->p_vaddr);
        if (part->p_type == PT_NOTE)
            id = find_note(note, note + part->p_memsz, size_out);
    }
    return id;
}

/* ---- the stack ---- */

struct walk {
    struct site *site;
    unsigned frames;
    int has_owner;
    int is_settled; /* an owner that is not known stays so */
};

static enum site_owner owner_of(const struct dl_find_object *object, const char *name) {
    if (is_excluded(name))
        return OWNER_RUNTIME;
    if (!object->dlfo_link_map || !object->dlfo_link_map->l_name[0] || is_included(name))
        return OWNER_PROGRAM;
    return is_listed(name, runtimes, sizeof runtimes / sizeof *runtimes) ? OWNER_RUNTIME : OWNER_UNKNOWN;
}

int site_is_program(const char *path, char *name_out, size_t capacity) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (!program[0])
        find_program_name();
    snprintf(name_out, capacity, "%s", name[0] ? name : program);
    return !path[0] || is_included(name);
}

int site_is_passed(const char *name) {
    return is_listed(name, passed, sizeof passed / sizeof *passed);
}

int site_is_unsaid(const char *name) {
    return !is_included(name) && !is_excluded(name) && !site_is_passed(name) &&
           !is_listed(name, runtimes, sizeof runtimes / sizeof *runtimes);
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
    if (walk->has_owner || site_is_passed(name))
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

/* What a library passes on is its caller's. */
enum site_owner site_owner(void *caller, struct site *out) {
    static __thread void *last __attribute__((tls_model("initial-exec"))); /* the object, and its owner */
    static __thread enum site_owner owner __attribute__((tls_model("initial-exec")));
    struct dl_find_object object;
    if (_dl_find_object(caller, &object) != 0)
        return OWNER_RUNTIME;
    const char *name = name_of(object.dlfo_link_map);
    if (site_is_passed(name)) {
        site_find(out);
        return out->owner;
    }
    if (last != object.dlfo_map_start) {
        owner = owner_of(&object, name);
        last = object.dlfo_map_start;
    }
    if (owner == OWNER_UNKNOWN)
        site_find(out);
    return owner == OWNER_UNKNOWN ? out->owner : owner;
}

int site_makes_threads(void *caller) {
    static const char *const teams[] = {"libgomp.so", "libomp.so"};
    struct dl_find_object object;
    struct site site;
    if (_dl_find_object(caller, &object) == 0 &&
        is_listed(name_of(object.dlfo_link_map), teams, sizeof teams / sizeof *teams))
        return 1;
    return site_owner(caller, &site) != OWNER_RUNTIME;
}
