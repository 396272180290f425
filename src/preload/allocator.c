/* libvarve_preload: the allocator's functions for a program that was started by `varve run`. Small allocations go on to
 * the C library. Large ones that the program's own code asks for get whole pages, and are known by the place that asked
 * (site.c), so that a session with the setting heap protects them without a name. Everything else, and what libraries
 * allocate for themselves, is the C library's business as ever. */
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <threads.h>
#include <unistd.h>

#include "preload_private.h"

#define EXPORT __attribute__((visibility("default")))
#define PAGE 4096u

/* The C library's own allocator: no lookup, which would need an allocator itself. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *ptr, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *ptr);
extern char *__strdup(const char *text);
extern char *__strndup(const char *text, size_t most);

static size_t least = 64 * 1024; /* bytes of a large allocation */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* This thread looks for its call site: what that allocates is not the program's. Static TLS needs no allocator. */
static __thread int is_busy __attribute__((tls_model("initial-exec")));
static __thread int whose __attribute__((tls_model("initial-exec"))); /* 0: not known yet */
enum { FIRST_THREAD = 1, OTHER_THREAD };

/* This thread forks, and has the lock until other libraries' handlers have run, too: these may allocate. */
static __thread int is_forking __attribute__((tls_model("initial-exec")));

static void take_lock(void) {
    if (!is_forking)
        pthread_mutex_lock(&lock);
}

static void give_lock(void) {
    if (!is_forking)
        pthread_mutex_unlock(&lock);
}

static int is_other_thread(void) {
    if (!whose)
        whose = gettid() == getpid() ? FIRST_THREAD : OTHER_THREAD;
    return whose == OTHER_THREAD;
}

/* ---- large allocations ---- */

/* Whole pages; 0: too many. */
static size_t in_pages(size_t size) {
    return size > PTRDIFF_MAX - PAGE ? 0 : (size + PAGE - 1) & ~(size_t)(PAGE - 1);
}

/* With the lock. NULL: no memory. */
static void *add_block(size_t size, size_t mapped, size_t alignment, const struct site *site, int *is_used) {
    struct site owned = *site;
    owned.key = site->owned;
    int64_t number = blocks_site(site), place = blocks_site(&owned);
    if (number < 0 || place < 0)
        return NULL;
    struct block block = {NULL, size, mapped, (uint32_t)number, (uint32_t)place, blocks_known((uint32_t)number)->count};
    block.ptr = pages_take(mapped, alignment, block.site, is_used);
    if (!block.ptr) /* it does not count: there may be memory for it in the next run */
        return NULL;
    if (blocks_add(&block) != 0) {
        munmap(block.ptr, mapped);
        return NULL;
    }
    blocks_known((uint32_t)number)->count++;
    blocks_known((uint32_t)place)->count++;
    blocks_known((uint32_t)place)->is_of_threads |= is_other_thread();
    return block.ptr;
}

/* The same in address-true mode, for allocations of any size. */
static int take_fixed(size_t size, size_t alignment, void *caller, void **out) {
    if (is_busy)
        return 0;
    is_busy = 1;
    int is_ours = fixed_is_ours(caller);
    is_busy = 0;
    if (!is_ours)
        return 0;
    take_lock();
    *out = arena_take(size, alignment);
    give_lock();
    if (!*out)
        errno = ENOMEM;
    return 1;
}

/* 1: *out is the memory, or NULL if there is none; 0: the C library shall give it. */
static int take_large(size_t size, size_t alignment, int is_zeroed, void *caller, void **out) {
    struct site site;
    if (fixed_state != FIXED_OFF && take_fixed(size, alignment, caller, out))
        return 1;
    if (fixed_state != FIXED_OFF || size < least || is_busy)
        return 0;
    is_busy = 1;
    site_find(&site);
    is_busy = 0;
    size_t mapped = in_pages(size);
    if (site.owner == OWNER_RUNTIME || mapped == 0)
        return 0;
    int is_used = 0;
    take_lock();
    *out = add_block(size, mapped, alignment, &site, &is_used);
    give_lock();
    if (*out && is_zeroed && is_used)
        memset(*out, 0, size);
    if (!*out)
        errno = ENOMEM;
    return 1;
}

/* May it be one of ours? They begin with a page. */
static int may_be_large(const void *ptr) {
    return ptr && ((uintptr_t)ptr & (PAGE - 1)) == 0;
}

/* Its size; 0: it is not ours. */
static size_t large_size(const void *ptr) {
    if (!may_be_large(ptr))
        return 0;
    take_lock();
    const struct block *block = blocks_find(ptr);
    size_t size = block ? block->size : 0;
    give_lock();
    return size;
}

static int give_large(void *ptr) {
    take_lock();
    struct block *block = blocks_find(ptr);
    if (block) {
        size_t mapped = block->mapped;
        uint32_t site = block->site;
        blocks_remove(block);
        pages_give(ptr, mapped, site);
    }
    give_lock();
    return block != NULL;
}

/* It stays the allocation that it was, with another size. */
static void *resize_large(void *ptr, size_t size) {
    size_t mapped = in_pages(size);
    take_lock();
    struct block *block = blocks_find(ptr), changed = *block;
    void *moved = mapped ? pages_resize(ptr, block->mapped, mapped) : NULL;
    if (moved) {
        blocks_remove(block);
        changed.ptr = moved;
        changed.size = size;
        changed.mapped = mapped;
        (void)blocks_add(&changed); /* there is a free slot: one was just left */
    }
    give_lock();
    if (!moved)
        errno = ENOMEM;
    return moved;
}

/* ---- the functions of the C library ---- */

#define CALLER __builtin_return_address(0)

/* Apart, so that small allocations need no more than a jump. */
static __attribute__((noinline)) void *malloc_large(size_t size, void *caller) {
    void *ptr = NULL;
    return take_large(size, 16, 0, caller, &ptr) ? ptr : __libc_malloc(size);
}

static __attribute__((noinline)) void free_fixed(void *ptr) {
    take_lock();
    arena_give(ptr);
    give_lock();
}

static __attribute__((noinline)) void free_aligned(void *ptr) {
    int error = errno;
    if (!give_large(ptr))
        __libc_free(ptr);
    errno = error;
}

EXPORT void *malloc(size_t size) {
    return size < least && fixed_state == FIXED_OFF ? __libc_malloc(size) : malloc_large(size, CALLER);
}

EXPORT void free(void *ptr) {
    if (arena_has(ptr))
        free_fixed(ptr);
    else if (may_be_large(ptr))
        free_aligned(ptr);
    else
        __libc_free(ptr);
}

EXPORT void *calloc(size_t nmemb, size_t size) {
    void *ptr = NULL;
    size_t bytes;
    if (!__builtin_mul_overflow(nmemb, size, &bytes) && take_large(bytes, 16, 1, CALLER, &ptr))
        return ptr;
    return __libc_calloc(nmemb, size);
}

static size_t fixed_size(void *ptr) {
    take_lock();
    size_t size = arena_size(ptr);
    give_lock();
    return size;
}

static size_t usable_size(void *ptr) {
    static size_t (*next)(void *);
    if (!next) /* every thread would find the same */
        *(void **)&next = dlsym(RTLD_NEXT, "malloc_usable_size");
    return next && ptr ? next(ptr) : 0;
}

EXPORT size_t malloc_usable_size(void *ptr) {
    size_t size = arena_has(ptr) ? fixed_size(ptr) : large_size(ptr);
    return size || arena_has(ptr) ? size : usable_size(ptr);
}

/* It stays in the arena, whoever asks. */
static void *resize_fixed(void *ptr, size_t size) {
    if (size == 0) {
        free_fixed(ptr);
        return NULL;
    }
    take_lock();
    void *moved = arena_resize(ptr, size) ? ptr : arena_take(size, 16);
    if (moved && moved != ptr) {
        size_t old = arena_size(ptr);
        memcpy(moved, ptr, old < size ? old : size);
        arena_give(ptr);
    }
    give_lock();
    if (!moved)
        errno = ENOMEM;
    return moved;
}

static void *resize(void *ptr, size_t size, void *caller) {
    if (arena_has(ptr))
        return resize_fixed(ptr, size);
    if (ptr && fixed_state != FIXED_OFF)
        return __libc_realloc(ptr, size);
    size_t old = large_size(ptr);
    void *moved = NULL;
    if (!old && ((size < least && fixed_state == FIXED_OFF) || !take_large(size, 16, 0, caller, &moved)))
        return __libc_realloc(ptr, size);
    if (old && size >= least)
        return resize_large(ptr, size);
    if (old && size == 0) {
        free(ptr);
        return NULL;
    }
    if (old)
        moved = __libc_malloc(size);
    else
        old = usable_size(ptr);
    if (!moved)
        return NULL;
    if (ptr)
        memcpy(moved, ptr, old < size ? old : size);
    free(ptr);
    return moved;
}

EXPORT void *realloc(void *ptr, size_t size) {
    return resize(ptr, size, CALLER);
}

EXPORT void *reallocarray(void *ptr, size_t nmemb, size_t size) {
    size_t bytes;
    if (!__builtin_mul_overflow(nmemb, size, &bytes))
        return resize(ptr, bytes, CALLER);
    errno = ENOMEM;
    return NULL;
}

static int is_power(size_t alignment) {
    return alignment != 0 && (alignment & (alignment - 1)) == 0;
}

static void *take_aligned(size_t alignment, size_t size, void *caller) {
    void *ptr = NULL;
    return is_power(alignment) && take_large(size, alignment, 0, caller, &ptr) ? ptr : __libc_memalign(alignment, size);
}

EXPORT void *memalign(size_t alignment, size_t size) {
    return take_aligned(alignment, size, CALLER);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size) {
    return take_aligned(alignment, size, CALLER);
}

EXPORT int posix_memalign(void **memptr, size_t alignment, size_t size) {
    int error = errno;
    if (!is_power(alignment) || alignment % sizeof(void *) != 0)
        return EINVAL;
    void *ptr = take_aligned(alignment, size, CALLER);
    errno = error;
    if (!ptr)
        return ENOMEM;
    *memptr = ptr;
    return 0;
}

EXPORT void *valloc(size_t size) {
    return take_aligned(PAGE, size, CALLER);
}

EXPORT void *pvalloc(size_t size) {
    size_t whole = in_pages(size);
    return take_aligned(PAGE, whole ? whole : size, CALLER);
}

/* The C library allocates these for its caller. */
EXPORT char *strdup(const char *s) {
    size_t size = strlen(s) + 1;
    void *ptr = NULL;
    if (fixed_state != FIXED_OFF && take_fixed(size, 16, CALLER, &ptr))
        return ptr ? memcpy(ptr, s, size) : NULL;
    return __strdup(s);
}

EXPORT char *strndup(const char *string, size_t n) {
    size_t size = strnlen(string, n);
    void *ptr = NULL;
    if (fixed_state != FIXED_OFF && take_fixed(size + 1, 16, CALLER, &ptr))
        return ptr ? memcpy(ptr, string, size) : NULL; /* what follows is 0 */
    return __strndup(string, n);
}

/* ---- threads ---- */

struct beginning {
    void *(*run)(void *);
    void *arg;
};

static void end_thread(void *arg) {
    (void)arg;
    fixed_thread(-1);
}

static void *run_thread(void *arg) {
    struct beginning beginning = *(struct beginning *)arg;
    void *result;
    __libc_free(arg);
    pthread_cleanup_push(end_thread, NULL);
    result = beginning.run(beginning.arg);
    pthread_cleanup_pop(1);
    return result;
}

/* Address-true mode has to know of the program's threads. */
EXPORT int pthread_create(pthread_t *newthread, const pthread_attr_t *attr, void *(*start_routine)(void *), void *arg) {
    static int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    void *caller = CALLER;
    if (!next) /* every thread would find the same */
        *(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
    if (!next)
        return EAGAIN;
    if (fixed_state != FIXED_ON || !site_makes_threads(caller))
        return next(newthread, attr, start_routine, arg);
    struct beginning *beginning = __libc_malloc(sizeof *beginning);
    if (!beginning)
        return EAGAIN;
    *beginning = (struct beginning){start_routine, arg};
    fixed_thread(1);
    int rc = next(newthread, attr, run_thread, beginning);
    if (rc) {
        fixed_thread(-1);
        __libc_free(beginning);
    }
    return rc;
}

struct beginning_c11 {
    thrd_start_t run;
    void *arg;
};

static int run_c11(void *arg) {
    struct beginning_c11 beginning = *(struct beginning_c11 *)arg;
    int result;
    __libc_free(arg);
    pthread_cleanup_push(end_thread, NULL);
    result = beginning.run(beginning.arg);
    pthread_cleanup_pop(1);
    return result;
}

/* The C library's does not come to our pthread_create. */
EXPORT int thrd_create(thrd_t *thr, thrd_start_t func, void *arg) {
    static int (*next)(thrd_t *, thrd_start_t, void *);
    void *caller = CALLER;
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "thrd_create");
    if (!next)
        return thrd_error;
    if (fixed_state != FIXED_ON || !site_makes_threads(caller))
        return next(thr, func, arg);
    struct beginning_c11 *beginning = __libc_malloc(sizeof *beginning);
    if (!beginning)
        return thrd_nomem;
    *beginning = (struct beginning_c11){func, arg};
    fixed_thread(1);
    int rc = next(thr, run_c11, beginning);
    if (rc != thrd_success) {
        fixed_thread(-1);
        __libc_free(beginning);
    }
    return rc;
}

/* ---- what a session asks ---- */

struct listed {
    struct block block;
    struct known_site known, owned;
};

struct list {
    struct listed *entries;
    size_t count, capacity;
};

static int copy_block(void *arg, const struct block *block) {
    struct list *list = arg;
    if (list->entries && list->count < list->capacity)
        list->entries[list->count] = (struct listed){*block, *blocks_known(block->site), *blocks_known(block->owned)};
    list->count++;
    return 0;
}

/* Why a session must not take it for what a former run had there; NULL: it may. */
static const char *why_not(const struct known_site *owned) {
    if (owned->site.owner == OWNER_UNKNOWN)
        return "it is not said whether this library holds data of the program: start it by `varve run --include` or "
               "`--exclude` with the library's name";
    if (owned->site.owner == OWNER_NAMELESS)
        return "the code that allocates it has no build id: link it with -Wl,--build-id";
    if (owned->is_of_threads &&
        owned->count > 1) /* whatever calls led there: tasks may go to another thread each time */
        return "another thread than the first allocates there, too, and the order may be another in every run";
    return NULL;
}

/* The live ones, copied without the lock held: what is called allocates, too. NULL: no memory. */
static int take_list(struct list *list) {
    for (;;) {
        take_lock();
        list->count = 0;
        blocks_each(copy_block, list);
        give_lock();
        if (list->count <= list->capacity)
            return 0;
        if (list->entries)
            munmap(list->entries, list->capacity * sizeof *list->entries);
        list->capacity = 2 * list->count;
        void *mapped = mmap(NULL, list->capacity * sizeof *list->entries, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        list->entries = mapped == MAP_FAILED ? NULL : mapped;
        if (!list->entries)
            return -ENOMEM;
    }
}

/* Calls fn for each large allocation of the program that is live, until it returns nonzero; returns that. In
 * address-true mode: for the whole heap, the static variables, and the objects of the process. session/heap.c finds it
 * by its name, which changes when its meaning does. */
EXPORT int varve_preload_each_1(preload_fn fn, void *arg);
int varve_preload_each_1(preload_fn fn, void *arg) {
    struct list list = {NULL, 0, 0};
    if (fixed_state == FIXED_ON)
        return fixed_each(fn, arg);
    int rc = take_list(&list);
    for (size_t i = 0; i < list.count && rc == 0; i++) {
        const struct listed *entry = &list.entries[i];
        char name[SITE_TEXT + 64];
        snprintf(name, sizeof name, "%016" PRIx64 ":%" PRIu64 ":%s", entry->known.site.key, entry->block.number,
                 entry->known.site.text);
        rc = fn(arg, name, entry->block.ptr, entry->block.size, why_not(&entry->owned));
    }
    if (list.entries)
        munmap(list.entries, list.capacity * sizeof *list.entries);
    return rc;
}

/* Each session asks when it is opened: is this address-true mode (1 or 0)? The heap shall have this many bytes at
 * least, or -ENOMEM; after a restart those that it has had, and no more. */
EXPORT int varve_preload_fixed_1(size_t bytes, int is_restarted);
int varve_preload_fixed_1(size_t bytes, int is_restarted) {
    unopened_session();
    if (fixed_state != FIXED_ON)
        return 0;
    take_lock();
    int rc = arena_commit(bytes) == 0 ? 1 : -ENOMEM;
    if (rc == 1 && is_restarted)
        arena_drop(bytes);
    give_lock();
    return rc;
}

/* ---- the start of the program ---- */

void preload_refuse(const char *why, const char *object) {
    dprintf(STDERR_FILENO, "varve: %s (%s): the program was not started\n", why, object);
    _exit(1);
}

static const char *object_of(const void *address) {
    Dl_info info;
    return address && dladdr(address, &info) && info.dli_fname ? info.dli_fname : "?";
}

/* Every call must come to us, and the next allocator must be the C library's. */
static void check_allocators(void) {
    Dl_info own, first;
    void *used = dlsym(RTLD_DEFAULT, "malloc");
    const char *next = object_of(dlsym(RTLD_NEXT, "malloc")), *slash = strrchr(next, '/');
    if (!dladdr(&least, &own) || !used || !dladdr(used, &first) || first.dli_fbase != own.dli_fbase)
        preload_refuse("the program has an allocator of its own, which libvarve_preload cannot stand before",
                       object_of(used));
    if (strncmp(slash ? slash + 1 : next, "libc.so", 7) != 0 && strncmp(slash ? slash + 1 : next, "libc-", 5) != 0)
        preload_refuse(
            "another library has an allocator, too, and libvarve_preload works with that of the C library only", next);
}

/* Programs that this one starts are not ours. In place: the text only becomes shorter. */
static void leave_environment(void) {
    char *from = getenv("LD_PRELOAD"), *to = from;
    if (!from)
        return;
    char *begin = to;
    while (*from) {
        size_t size = strcspn(from, ": ");
        const char *name = memrchr(from, '/', size);
        name = name ? name + 1 : from;
        if (strncmp(name, "libvarve_preload.so", 19) != 0 && size > 0) {
            if (to != begin)
                *to++ = ':';
            memmove(to, from, size);
            to += size;
        }
        from += size + (from[size] != '\0');
    }
    *to = '\0';
    if (to == begin)
        unsetenv("LD_PRELOAD");
}

static void take_least(void) {
    const char *text = secure_getenv("VARVE_PRELOAD_LEAST");
    char *end = NULL;
    if (!text)
        return;
    unsigned long long value = strtoull(text, &end, 10);
    unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    if (end == text || end[shift > 0] || value > (1ull << 40) >> shift || value << shift < PAGE)
        preload_refuse("VARVE_PRELOAD_LEAST must be a number of bytes from 4096 on, such as 64K", text);
    least = (size_t)value << shift;
}

/* A copy: programs may write over their environment. */
static void take_list_of(const char *variable, char *out, size_t capacity) {
    const char *text = secure_getenv(variable);
    if (text && (size_t)snprintf(out, capacity, "%s", text) >= capacity)
        preload_refuse("the list of libraries is too long", variable);
}

static void begin_fork(void) {
    take_lock();
    is_forking = 1;
}

static void end_fork(void) {
    is_forking = 0;
    give_lock();
}

/* Allocations before the first constructor need it, too, but no earlier than there is an environment. */
void preload_configure(void) {
    static char include[8192], exclude[8192];
    take_list_of("VARVE_PRELOAD_INCLUDE", include, sizeof include);
    take_list_of("VARVE_PRELOAD_EXCLUDE", exclude, sizeof exclude);
    site_configure(include, exclude);
    fixed_decide();
}

static void __attribute__((constructor)) start(void) {
    take_least();
    if (fixed_state == FIXED_UNKNOWN)
        preload_configure();
    check_allocators();
    leave_environment();
    unsetenv("VARVE_PRELOAD_FIXED");
    unsetenv("VARVE_PRELOAD_INCLUDE");
    unsetenv("VARVE_PRELOAD_EXCLUDE");
    unopened_start();
    called_start();
    pthread_atfork(begin_fork, end_fork, end_fork);
}
