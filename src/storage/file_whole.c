/* Is the root there, and all of its file system?
 *
 * Some file systems spread names over servers and go on without one of them: what lies there then looks as if it did
 * not exist. Measured with GlusterFS 10.3, a distributed volume, one brick killed: open gives ENOENT, listings leave
 * the names out, and a new folder works on what remains. Taken at its word, a restart would choose an older checkpoint,
 * and prune would take packs for waste whose record it does not see. Two things stand against it.
 *
 * The watch. The client of GlusterFS shows its own state below .meta in the root of the mount: for each part of a
 * distributed volume whether it is up, and a number that grows whenever one comes up; and for each set of bricks with
 * copies or redundancy whether enough of it is up (the layer above does not notice that). Every "there is none" and
 * every listing is believed only if all parts are up afterwards and the number is what it was before: then nothing was
 * missing in between. This reads, and needs no rights.
 *
 * The probe, for a session that will write, on every file system: make a folder and remove it again. To remove a
 * folder, a file system must know that it is empty, on every server: GlusterFS answers ENOTCONN if one is missing, also
 * where .meta is out of sight. (Files with random names,
 * tried in a new folder, show nothing: the new folder has places on the servers that are there.) */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "storage/file_private.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/thread.h"

#define FUSE_MAGIC 0x65735546
#define STATE_MAX (16u << 20) /* of a volume with some 30,000 parts */
#define LOOK_TRIES 200
#define AGAIN_MAX 4
#define STALE_NS (4 * 1000000000ull) /* clients remember names for a second or so, and not all layers the same one */
#define RECENT_NS 1000000000ull
#define ANEW_AT_ONCE 8
#define ANEW_TRIES 64 /* and for at least */
#define ANEW_NS (5 * 1000000000ull)
#define NO_MARK 0 /* of a look that failed: equal to no other */

/* What one look has found. */
struct state {
    uint64_t mark;      /* of everything that changes when a server goes or comes */
    unsigned parts;     /* among which names are distributed */
    unsigned down;      /* of them */
    unsigned sets_down; /* sets of copies of which too few are left */
    char first_down[128];
};

/* ---- the watch ---- */

/* The highest folder of the file system that can be reached: the root of the mount, unless the path leads through a
 * mount of a folder of it. */
static int open_top(int root_fd) {
    struct stat here, above;
    int fd = openat(root_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    while (fd >= 0) {
        int up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (up < 0)
            return fd;
        if (fstat(fd, &here) < 0 || fstat(up, &above) < 0 || here.st_dev != above.st_dev ||
            here.st_ino == above.st_ino) {
            close(up);
            return fd;
        }
        close(fd);
        fd = up;
    }
    return fd;
}

static int read_text(int folder, const char *path, struct vv_buf *out) {
    int fd = openat(folder, path, O_RDONLY | O_CLOEXEC);
    ssize_t count = fd < 0 ? -1 : 0;
    while (fd >= 0 && out->size < STATE_MAX) {
        uint8_t *into = vv_buf_extend(out, 8192);
        if (!into) {
            close(fd);
            return -ENOMEM;
        }
        out->size -= 8192;
        count = read(fd, into, 8192);
        if (count <= 0)
            break;
        out->size += (size_t)count;
    }
    int result = count < 0 ? -errno : count > 0 ? -EFBIG : 0;
    if (fd >= 0)
        close(fd);
    vv_buf_u8(out, 0);
    return result < 0 ? result : out->failed;
}

static void note_down(struct state *state, unsigned *count, const char *name) {
    const char *dot = strchr(name, '.');
    if (!state->down && !state->sets_down)
        snprintf(state->first_down, sizeof(state->first_down), "%s", dot ? dot + 1 : name);
    ++*count;
}

/* A layer that distributes names says "subvolumes[1] = protocol/client.ck-client-1", "subvolume_status[1] = 0", "gen =
 * 5"; one of copies "child_up[2] = 0" or "childs_up_mask = 110", and "up = 1". Returns whether it has said the number.
 */
static int take_lines(char *text, const char *layer, struct state *state) {
    char name[sizeof(state->first_down)] = "?";
    int has_number = 0;
    for (char *line = text, *next; line && *line; line = next) {
        unsigned number, value;
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        if (sscanf(line, "subvolumes[%u] = %127s", &number, name) == 2)
            continue;
        if (sscanf(line, "subvolume_status[%u] = %u", &number, &value) == 2) {
            state->parts++;
            if (!value)
                note_down(state, &state->down, name);
        } else if (sscanf(line, "up = %u", &value) == 1) {
            if (!value)
                note_down(state, &state->sets_down, layer);
        } else if (sscanf(line, "gen = %u", &value) == 1) {
            has_number = 1;
        } else if (strncmp(line, "child_up[", 9) != 0 && strncmp(line, "childs_up_mask", 14) != 0) {
            continue;
        }
        state->mark = state->mark * 31 + vv_sum64(line, strlen(line));
    }
    return has_number;
}

enum layer_kind { LAYER_OTHER, LAYER_SPREAD, LAYER_SET };

static enum layer_kind layer_kind(const char *name) {
    size_t length = strlen(name);
    if (length > 4 && strcmp(name + length - 4, "-dht") == 0)
        return LAYER_SPREAD;
    return strstr(name, "-replicate-") || strstr(name, "-disperse-") ? LAYER_SET : LAYER_OTHER;
}

/* A volume may have any name, so that of another layer may look the same. */
static int is_cluster(int graph, const char *name) {
    char path[300];
    struct vv_buf text;
    vv_buf_init(&text);
    snprintf(path, sizeof(path), "%s/type", name);
    int is = read_text(graph, path, &text) < 0 || strncmp((char *)text.data, "cluster/", 8) == 0;
    vv_buf_clear(&text);
    return is;
}

/* While the client is changing its state itself, it says nothing: -EBUSY. */
static int take_layer(int graph, const char *name, struct state *state) {
    char path[300];
    struct vv_buf text;
    enum layer_kind kind = layer_kind(name);
    if (kind == LAYER_OTHER)
        return 0;
    vv_buf_init(&text);
    snprintf(path, sizeof(path), "%s/private", name);
    int result = read_text(graph, path, &text);
    if (result == 0) {
        int is_empty = text.size <= 1;
        int has_number = take_lines((char *)text.data, name, state);
        if ((is_empty || (kind == LAYER_SPREAD && !has_number)) && is_cluster(graph, name))
            result = -EBUSY;
    }
    state->mark = state->mark * 31 + vv_sum64(name, strlen(name));
    vv_buf_clear(&text);
    return result;
}

/* The active graph is another one after the volume was changed: its name counts too. */
static int take_graph(int graphs_fd, DIR *folder, struct state *state) {
    char target[256];
    ssize_t size = readlinkat(graphs_fd, "active", target, sizeof(target));
    if (size < 0)
        return -errno;
    state->mark = vv_sum64(target, (size_t)size);
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(folder);
        if (!entry)
            return -errno;
        int result = take_layer(dirfd(folder), entry->d_name, state);
        if (result < 0)
            return result;
    }
}

static int look_once(struct file_backend *file, struct state *state) {
    *state = (struct state){0};
    int fd = openat(file->watch.graphs_fd, "active", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    int result = folder ? take_graph(file->watch.graphs_fd, folder, state) : -errno;
    if (folder)
        closedir(folder);
    else if (fd >= 0)
        close(fd);
    return result;
}

/* 0 all is there, -ENOTCONN a part is down, or another error. */
static int look(struct file_backend *file, struct state *state) {
    *state = (struct state){0};
    if (file->watch.graphs_fd < 0)
        return 0;
    int result = -EBUSY;
    for (int tries = 0; tries < LOOK_TRIES && result == -EBUSY; tries++) {
        if (tries > 0)
            vv_sleep_ms(1);
        result = look_once(file, state);
    }
    /* The look itself failed: what it would have said is not known, so it is no "there is none" either. */
    if (result == -ENOENT || result == -ENOTDIR)
        return -ESTALE;
    /* Where a set is lost altogether, both layers say so. */
    if (state->sets_down > state->down)
        state->down = state->sets_down;
    return result < 0 ? result : state->down ? -ENOTCONN : 0;
}

static void tell(struct file_backend *file, int result, const struct state *state) {
    if (result == -ENOTCONN && state->down && !atomic_exchange(&file->watch.is_told, 1))
        vv_log(
            file->log, VV_LOG_WARN,
            "%s: %u of %u parts of this GlusterFS volume are down (%s): what lies there looks as if it did not exist; "
            "until they are back, the store cannot be used",
            file->root, state->down, state->parts, state->first_down);
    if (result == 0 && atomic_exchange(&file->watch.is_told, 0))
        vv_log(file->log, VV_LOG_WARN, "%s: all parts of this GlusterFS volume are up again", file->root);
}

void vv_file_watch_init(struct file_backend *file) {
    struct statfs fs;
    uint64_t mark;
    file->watch.graphs_fd = -1;
    atomic_init(&file->watch.mark, NO_MARK);
    atomic_init(&file->watch.looked_ns, 0);
    atomic_init(&file->watch.is_told, 0);
    if (fstatfs(file->root_fd, &fs) < 0 || (unsigned long)fs.f_type != FUSE_MAGIC)
        return;
    int top = open_top(file->root_fd);
    if (top < 0)
        return;
    file->watch.graphs_fd = openat(top, ".meta/graphs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    close(top);
    if (file->watch.graphs_fd >= 0)
        (void)vv_file_mark_now(file, &mark);
}

void vv_file_watch_clear(struct file_backend *file) {
    if (file->watch.graphs_fd >= 0)
        close(file->watch.graphs_fd);
}

int vv_file_mark_now(struct file_backend *file, uint64_t *mark_out) {
    struct state state;
    int result = look(file, &state);
    tell(file, result, &state);
    *mark_out = result == 0 ? state.mark : NO_MARK;
    atomic_store(&file->watch.mark, *mark_out);
    atomic_store(&file->watch.looked_ns, vv_clock_ns());
    return result;
}

/* For sets of copies there is no number that grows. But a client tries to reach a lost server again only after three
 * seconds: if it was looked at a second ago, and is looked at again, nothing can have gone and come back unnoticed. */
uint64_t vv_file_mark(struct file_backend *file) {
    uint64_t mark;
    if (file->watch.graphs_fd >= 0 && vv_clock_ns() - atomic_load(&file->watch.looked_ns) > RECENT_NS)
        (void)vv_file_mark_now(file, &mark);
    return atomic_load(&file->watch.mark);
}

int vv_file_whole(struct file_backend *file, uint64_t mark) {
    uint64_t now;
    if (file->watch.graphs_fd < 0)
        return 0;
    int result = vv_file_mark_now(file, &now);
    return result < 0 ? result : now == mark && mark != NO_MARK ? 0 : -EAGAIN;
}

int vv_file_root_check(struct file_backend *file) {
    struct stat by_path, by_fd;
    if (fstat(file->root_fd, &by_fd) < 0)
        return -errno;
    if (stat(file->root, &by_path) < 0)
        return errno == ENOENT || errno == ENOTDIR ? -ESTALE : -errno;
    if (by_path.st_dev != by_fd.st_dev || by_path.st_ino != by_fd.st_ino)
        return -ESTALE;
    return faccessat(file->root_fd, ".", R_OK | X_OK, AT_EACCESS) < 0 ? -errno : 0;
}

int vv_file_missing(struct file_backend *file, int result, uint64_t mark) {
    if (result != -ENOENT && result != -ENOTDIR)
        return result;
    result = vv_file_root_check(file);
    if (result == 0)
        result = vv_file_whole(file, mark);
    return result < 0 ? result : -ENOENT;
}

/* ---- second looks ---- */

void vv_file_try_begin(struct file_backend *file, struct file_try *look) {
    *look = (struct file_try){.mark = vv_file_mark(file), .since_ns = vv_clock_ns()};
}

/* -EAGAIN is our own (vv_file_whole). -ESTALE is what clients of network file systems say about a file that another
 * host has replaced or removed, as long as they remember its name; unless it is the root that is gone. */
int vv_file_try_again(struct file_backend *file, struct file_try *look, int64_t result) {
    uint64_t waited = vv_clock_ns() - look->since_ns;
    if (result == -EAGAIN && look->count >= AGAIN_MAX)
        return 0;
    if (result == -ESTALE && (waited > STALE_NS || vv_file_root_check(file) < 0))
        return 0;
    if (result != -EAGAIN && result != -ESTALE)
        return 0;
    if (result == -ESTALE)
        vv_sleep_ms(look->count < 6 ? 1u << look->count : 64);
    look->count++;
    look->mark = vv_file_mark(file);
    return 1;
}

/* Each time somebody else has got on, so it cannot go on like this for all; but the same one may lose again and again,
 * the more so the longer the way to the storage is. Whoever has lost a few times therefore waits, longer each time, but
 * not as long as the others. */
int vv_file_try_anew(struct file_backend *file, struct file_try *look) {
    if (++look->count <= ANEW_AT_ONCE)
        return 0;
    int result = vv_file_missing(file, -ENOENT, look->mark);
    if (result == -EAGAIN) {
        look->mark = vv_file_mark(file);
        result = -ENOENT;
    }
    uint64_t now = vv_clock_ns();
    if (result != -ENOENT || (look->count > ANEW_TRIES && now - look->since_ns > ANEW_NS))
        return result;
    unsigned step = look->count - ANEW_AT_ONCE;
    vv_sleep_ms(1 + (unsigned)(vv_sum64(&now, sizeof(now)) % (1u << (step < 6 ? step : 6))));
    return 0;
}

/* ---- the probe ---- */

/* Errors that say nothing about servers: no right to write, no room, a mount point. What follows will tell. */
static int says_nothing(int result) {
    return result == -EACCES || result == -EPERM || result == -EROFS || result == -ENOSPC || result == -EDQUOT ||
           result == -EMLINK || result == -EBUSY;
}

/* 0, or why a folder cannot be made and removed. Its name is nobody else's, and no key: also where there is no store
 * yet, nothing of anybody is touched. */
static int make_and_remove(struct file_backend *file) {
    char name[96];
    snprintf(name, sizeof(name), ".probe.,%s-%d-%llx", file->host, (int)getpid(), (unsigned long long)vv_clock_ns());
    if (mkdirat(file->root_fd, name, 0700) < 0)
        return -errno;
    return unlinkat(file->root_fd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

int vv_file_probe(struct varve_backend *backend, char *why, size_t capacity) {
    struct file_backend *file = (struct file_backend *)backend;
    struct state state;
    int result = look(file, &state);
    if (result < 0 && state.down)
        snprintf(why, capacity, "%u of %u parts of the GlusterFS volume at %.160s are down (%s)", state.down,
                 state.parts, file->root, state.first_down);
    else if (result < 0)
        snprintf(why, capacity, "the client of the GlusterFS volume at %.160s does not tell its state (%s)", file->root,
                 varve_error_text(result));
    if (result < 0)
        return result;
    result = vv_file_may_write(file);
    result = result < 0 ? result : make_and_remove(file);
    if (result == 0 || says_nothing(result))
        return 0;
    snprintf(why, capacity,
             "a folder cannot be made in %.160s and removed again (%s): a server of this file system seems to be down",
             file->root, varve_error_text(result));
    return result;
}
