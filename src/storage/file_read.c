/* Reading objects.
 *
 * Large objects are kept open, at most FILE_CACHED of them, for a few seconds. Objects are written once, so an open
 * file is the object, unless its key was removed or replaced since, here or by another process: then its name leads
 * elsewhere, which every get checks (that the file has lost its last link is not said by all file systems). Small
 * objects may be of the mutable kinds and are opened anew each time.
 *
 * On a network file system a client may remember a name longer than the file lives, and fail with ESTALE, or ENOENT at
 * the first read: then everything is done again.
 *
 * Large ranges are read past the page cache: measured cold, 1 MiB at a time by two threads, at 1.7 times the speed of a
 * read() loop (1.3 times where a copy is needed) and a third of its processor time. Ranges that are in the page cache
 * already are taken from it. The alignment that direct reads ask for is met with a block of our own and a copy, where
 * the caller's range has none. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "storage/file_private.h"

#define FILE_CACHED 64
#define FILE_IDLE_NS (10 * 1000000000ull)
#define BOUNCE_SMALL (256u << 10)

struct file_cached {
    struct file_cached *next;
    char *key;
    int fd;
    int direct_fd; /* -1 where there is none */
    unsigned references;
    int is_listed;
    uint64_t used_ns;
};

static void cached_destroy(struct file_cached *cached) {
    if (cached->fd >= 0)
        close(cached->fd);
    if (cached->direct_fd >= 0)
        close(cached->direct_fd);
    vv_free(cached->key);
    vv_free(cached);
}

/* Lock held. */
static void unlist(struct file_cache *cache, struct file_cached *cached) {
    struct file_cached **link = &cache->head;
    while (*link != cached)
        link = &(*link)->next;
    *link = cached->next;
    cached->is_listed = 0;
    cache->count--;
    if (cached->references == 0)
        cached_destroy(cached);
}

static void list_first(struct file_cache *cache, struct file_cached *cached) {
    cached->next = cache->head;
    cache->head = cached;
    cached->is_listed = 1;
    cache->count++;
}

void vv_file_cache_drop(struct file_backend *file, const char *key) {
    pthread_mutex_lock(&file->cache.lock);
    for (struct file_cached *at = file->cache.head, *next; at; at = next) {
        next = at->next;
        if (!key || strcmp(at->key, key) == 0)
            unlist(&file->cache, at);
    }
    pthread_mutex_unlock(&file->cache.lock);
}

/* An open file keeps the space of a removed one: let go of those not used lately. */
void vv_file_cache_expire(struct file_backend *file) {
    uint64_t now = vv_clock_ns();
    pthread_mutex_lock(&file->cache.lock);
    for (struct file_cached *at = file->cache.head, *next; at; at = next) {
        next = at->next;
        if (at->references == 0 && now - at->used_ns > FILE_IDLE_NS)
            unlist(&file->cache, at);
    }
    pthread_mutex_unlock(&file->cache.lock);
}

static struct file_cached *cache_acquire(struct file_backend *file, const char *key) {
    struct file_cache *cache = &file->cache;
    pthread_mutex_lock(&cache->lock);
    struct file_cached *found = cache->head;
    while (found && strcmp(found->key, key) != 0)
        found = found->next;
    if (found)
        found->references++;
    pthread_mutex_unlock(&cache->lock);
    return found;
}

static void cache_release(struct file_backend *file, struct file_cached *cached) {
    pthread_mutex_lock(&file->cache.lock);
    cached->used_ns = vv_clock_ns();
    if (--cached->references == 0 && !cached->is_listed)
        cached_destroy(cached);
    pthread_mutex_unlock(&file->cache.lock);
}

/* Lock held. Make room for one more: the least recently used that nobody is reading. */
static int make_capacity(struct file_cache *cache) {
    struct file_cached *oldest = NULL;
    if (cache->count < FILE_CACHED)
        return 1;
    for (struct file_cached *at = cache->head; at; at = at->next)
        if (at->references == 0 && (!oldest || at->used_ns <= oldest->used_ns))
            oldest = at;
    if (oldest)
        unlist(cache, oldest);
    return oldest != NULL;
}

static void cache_keep(struct file_backend *file, struct file_cached *cached) {
    struct file_cache *cache = &file->cache;
    pthread_mutex_lock(&cache->lock);
    struct file_cached *same = cache->head;
    while (same && strcmp(same->key, cached->key) != 0)
        same = same->next;
    if (!same && make_capacity(cache))
        list_first(cache, cached);
    pthread_mutex_unlock(&cache->lock);
}

static int open_object(struct file_backend *file, const char *key, int flags) {
    return vv_file_below(file, key, O_RDONLY | O_NONBLOCK | flags, 0);
}

static void open_direct(struct file_backend *file, struct file_cached *cached) {
    if (atomic_load(&file->may_direct) && file->tuning.direct_read_min != SIZE_MAX) {
        char path[64];
        snprintf(path, sizeof(path), "/proc/self/fd/%d", cached->fd);
        cached->direct_fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
    }
    if (cached->direct_fd < 0)
        (void)posix_fadvise(cached->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
}

static int open_new(struct file_backend *file, const char *key, uint64_t mark, struct stat *st,
                    struct file_cached **out) {
    struct file_cached *cached = vv_calloc(1, sizeof(*cached));
    if (!cached)
        return -ENOMEM;
    cached->references = 1;
    cached->direct_fd = -1;
    cached->fd = open_object(file, key, 0);
    if (cached->fd == -ENOENT) {
        vv_file_ask_above(file, key); /* it may only be remembered that there is none */
        cached->fd = open_object(file, key, 0);
    }
    cached->key = vv_strdup(key);
    int result = cached->fd < 0 ? cached->fd : cached->key ? 0 : -ENOMEM;
    if (result == 0 && fstat(cached->fd, st) < 0)
        result = -errno;
    if (result == 0)
        result = vv_file_kind_check(st->st_mode);
    if (result < 0) {
        cached_destroy(cached);
        return vv_file_missing(file, result, mark);
    }
    if (st->st_size >= (off_t)FILE_SMALL) {
        open_direct(file, cached);
        cache_keep(file, cached);
    }
    *out = cached;
    return 0;
}

static int is_current(struct file_backend *file, const struct file_cached *cached, struct stat *st) {
    struct stat named;
    return fstat(cached->fd, st) == 0 && st->st_nlink > 0 && vv_file_below_stat(file, cached->key, &named) == 0 &&
           named.st_ino == st->st_ino && named.st_dev == st->st_dev;
}

/* The object, open, and its state. */
static int acquire(struct file_backend *file, const char *key, uint64_t mark, struct stat *st,
                   struct file_cached **out) {
    struct file_cached *cached = cache_acquire(file, key);
    if (cached) {
        if (is_current(file, cached, st)) {
            *out = cached;
            return 0;
        }
        vv_file_cache_drop(file, key);
        cache_release(file, cached);
    }
    return open_new(file, key, mark, st, out);
}

static int64_t read_buffered(int fd, uint8_t *data, size_t size, uint64_t offset) {
    size_t done = 0;
    while (done < size) {
        ssize_t count = pread(fd, data + done, size - done, (off_t)(offset + done));
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return -errno;
        if (count == 0)
            break;
        done += (size_t)count;
    }
    return (int64_t)done;
}

/* One aligned direct read; fewer bytes only at the end of the file. */
static int64_t read_aligned(int fd, uint8_t *data, size_t size, uint64_t offset) {
    ssize_t count;
    do
        count = pread(fd, data, size, (off_t)offset);
    while (count < 0 && errno == EINTR);
    return count < 0 ? -errno : count;
}

/* size bytes from offset on, by an aligned read into `bounce`. */
static int64_t read_through(int fd, uint8_t *bounce, uint8_t *data, size_t size, uint64_t offset) {
    size_t lead = (size_t)(offset % FILE_ALIGN);
    int64_t count = read_aligned(fd, bounce, (lead + size + FILE_ALIGN - 1) / FILE_ALIGN * FILE_ALIGN, offset - lead);
    if (count < 0)
        return count;
    count = count > (int64_t)lead ? count - (int64_t)lead : 0;
    if (count > (int64_t)size)
        count = (int64_t)size;
    memcpy(data, bounce + lead, (size_t)count);
    return count;
}

/* Up to one block through memory of our own. A block is a huge page: for little it is not worth taking. */
static int64_t read_bounced(struct file_backend *file, int fd, uint8_t *data, size_t size, uint64_t offset) {
    if (size <= BOUNCE_SMALL) {
        uint8_t *bounce = vv_aligned(size + FILE_BLOCK_SLACK, FILE_ALIGN);
        int64_t count = bounce ? read_through(fd, bounce, data, size, offset) : -ENOMEM;
        vv_free(bounce);
        return count;
    }
    struct file_block *block = vv_file_block_acquire(&file->writer);
    if (!block)
        return -ENOMEM;
    if (size > file->writer.block_bytes)
        size = file->writer.block_bytes;
    int64_t count = read_through(fd, block->data, data, size, offset);
    vv_file_block_release(&file->writer, block);
    return count;
}

static int64_t read_direct(struct file_backend *file, int fd, uint8_t *data, size_t size, uint64_t offset) {
    size_t done = 0;
    while (done < size) {
        int64_t count;
        size_t left = size - done;
        uint8_t *into = data + done;
        if ((uintptr_t)into % FILE_ALIGN == 0 && (offset + done) % FILE_ALIGN == 0 && left >= FILE_ALIGN)
            count = read_aligned(fd, into, left / FILE_ALIGN * FILE_ALIGN, offset + done);
        else
            count = read_bounced(file, fd, into, left, offset + done);
        if (count < 0)
            return count;
        if (count == 0)
            break;
        done += (size_t)count;
    }
    return (int64_t)done;
}

/* Is the whole range in the page cache? (cachestat, Linux 6.5; older kernels: assume not) */
static int is_in_page_cache(int fd, uint64_t offset, size_t size) {
#ifdef SYS_cachestat
    const long number = SYS_cachestat;
#else
    const long number = 451;
#endif
    struct {
        uint64_t offset, size;
    } range = {offset, size};
    struct {
        uint64_t cached, dirty, writeback, evicted, recently_evicted;
    } state = {0};
    if (syscall(number, fd, &range, &state, 0) < 0)
        return 0;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return state.cached >= (offset + size - 1) / page - offset / page + 1;
}

static int64_t read_range(struct file_backend *file, const struct file_cached *cached, uint64_t offset, void *data,
                          size_t size) {
    int64_t count = -EINVAL;
    if (size > 0 && cached->direct_fd >= 0 && size >= file->tuning.direct_read_min &&
        !is_in_page_cache(cached->fd, offset, size))
        count = read_direct(file, cached->direct_fd, data, size, offset);
    if (count == -EINVAL)
        count = read_buffered(cached->fd, data, size, offset);
    return count;
}

static int64_t get_once(struct file_backend *file, const char *key, uint64_t mark, uint64_t offset, void *data,
                        size_t size) {
    struct file_cached *cached = NULL;
    struct stat st;
    int result = acquire(file, key, mark, &st, &cached);
    if (result < 0)
        return result;
    uint64_t length = (uint64_t)st.st_size;
    size_t left = offset < length ? (size_t)(length - offset) : 0;
    int64_t count = read_range(file, cached, offset, data, size < left ? size : left);
    if (count == -ENOENT || count == -ESTALE) {
        vv_file_cache_drop(file, key);
        count = -ESTALE;
    }
    cache_release(file, cached);
    return count;
}

int64_t vv_file_get(struct varve_backend *backend, const char *key, uint64_t offset, void *data, size_t size) {
    struct file_backend *file = (struct file_backend *)backend;
    struct file_try look;
    int64_t count;
    vv_file_try_begin(file, &look);
    do
        count = get_once(file, key, look.mark, offset, data, size);
    while (vv_file_try_again(file, &look, count));
    return count;
}
