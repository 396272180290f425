/* Files that the program writes and reads itself. In scratch there is a file only until its checkpoint is stored, or
 * its restart has ended: what it holds is stored as a region. */
#include "layer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Names in scratch can be guessed: a link that somebody has put there is not followed. A new file takes the place of
 * what a killed run has left. */
int vl_file_open(const char *call, struct phase *phase, int is_new) {
    int flags = O_NOFOLLOW | O_CLOEXEC | (is_new ? O_RDWR | O_CREAT | O_EXCL : O_RDONLY);
    if (!vl_layer.scratch)
        return vl_fail(call, "the configuration has no key scratch: where are files written?");
    if (mkdir(vl_layer.scratch, 0777) != 0 && errno != EEXIST)
        return vl_fail(call, "scratch: %s: %s", vl_layer.scratch, strerror(errno));
    if (snprintf(phase->file, sizeof phase->file, "%s/%s-%d-%d.dat", vl_layer.scratch, phase->name->name, vl_layer.rank,
                 phase->version) >= (int)sizeof phase->file)
        return vl_fail(call, "scratch: the path has more than %d bytes", VELOC_MAX_NAME - 1);
    if (is_new && unlink(phase->file) != 0 && errno != ENOENT)
        return vl_fail(call, "%s: %s", phase->file, strerror(errno));
    phase->fd = open(phase->file, flags, 0666);
    return phase->fd >= 0 ? 0 : vl_fail(call, "%s: %s", phase->file, strerror(errno));
}

void vl_file_remove(struct phase *phase) {
    if (phase->name && phase->file[0])
        unlink(phase->file);
}

/* ---- its bytes ---- */

static int length(void *arg, uint64_t *bytes_out) {
    const struct phase *phase = arg;
    struct stat status;
    if (fstat(phase->fd, &status) != 0)
        return -errno;
    *bytes_out = (uint64_t)status.st_size;
    return 0;
}

static int save(void *arg, uint64_t offset, void *buffer, size_t size) {
    const struct phase *phase = arg;
    for (size_t done = 0; done < size;) {
        ssize_t got = pread(phase->fd, (char *)buffer + done, size - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? -errno : -EIO;
        done += (size_t)got;
    }
    return 0;
}

static int load(void *arg, uint64_t offset, const void *buffer, size_t size, uint64_t total) {
    const struct phase *phase = arg;
    if (offset == 0 && ftruncate(phase->fd, (off_t)total) != 0)
        return -errno;
    for (size_t done = 0; done < size;) {
        ssize_t put = pwrite(phase->fd, (const char *)buffer + done, size - done, (off_t)(offset + done));
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return put < 0 ? -errno : -EIO;
        done += (size_t)put;
    }
    return 0;
}

int vl_file_protect(struct phase *phase) {
    const struct varve_callbacks callbacks = {sizeof callbacks, length, save, load, 0};
    struct name *name = phase->name;
    phase->chosen_count = 0;
    if (vl_hand_over(phase, 0) != 0)
        return -1;
    int rc = varve_protect_callback(name->session, FILE_REGION, &callbacks, phase);
    name->has_file = rc == 0;
    return rc == 0 ? 0 : vl_fail("VELOC_Route_file", "%s: %s", name->name, varve_session_error(name->session)->text);
}

/* ---- the calls ---- */

/* The program makes the file: here it is only tried whether it can. */
static int route_new(struct phase *phase) {
    if (phase->has_file)
        return 0;
    if (phase->is_chosen)
        return vl_fail("VELOC_Route_file", "this checkpoint has memory; use another name for the file");
    if (vl_file_open("VELOC_Route_file", phase, 1) != 0)
        return VELOC_FAILURE;
    close(phase->fd);
    if (unlink(phase->file) != 0)
        return vl_fail("VELOC_Route_file", "%s: %s", phase->file, strerror(errno));
    phase->has_file = 1;
    return VELOC_SUCCESS;
}

int VELOC_Route_file(const char *original, char *routed) {
    struct phase *phase = vl_layer.saving.name ? &vl_layer.saving : &vl_layer.restoring;
    (void)original; /* it is in the store, and `varve restore` writes it where it is wanted */
    if (!routed || !phase->name)
        return vl_fail("VELOC_Route_file", "VELOC_Checkpoint_begin or VELOC_Restart_begin comes first");
    if (phase == &vl_layer.saving && route_new(phase) != VELOC_SUCCESS)
        return VELOC_FAILURE;
    if (!phase->has_file)
        return vl_fail("VELOC_Route_file", "%s@%d holds no file of this rank", phase->name->name, phase->version);
    memcpy(routed, phase->file, strlen(phase->file) + 1);
    return VELOC_SUCCESS;
}

/* As vl_file_open makes it, and no more. */
static int is_ours(const char *entry, const char *name) {
    char must[300];
    size_t length = strlen(name);
    int rank, version;
    if (strncmp(entry, name, length) != 0 || sscanf(entry + length, "-%d-%d", &rank, &version) != 2)
        return 0;
    snprintf(must, sizeof must, "%s-%d-%d.dat", name, rank, version);
    return rank == vl_layer.rank && strcmp(entry, must) == 0;
}

/* By this run: by what has begun, or by a checkpoint in flight. */
static int is_in_use(const char *path) {
    for (size_t i = 0; i < vl_layer.name_count; i++)
        if (vl_layer.names[i]->file && strcmp(vl_layer.names[i]->file, path) == 0)
            return 1;
    return (vl_layer.saving.name && strcmp(vl_layer.saving.file, path) == 0) ||
           (vl_layer.restoring.name && strcmp(vl_layer.restoring.file, path) == 0);
}

int VELOC_Cleanup(const char *name) {
    char path[VELOC_MAX_NAME + 300];
    DIR *folder;
    if (!vl_layer.is_open || !name || !*name)
        return vl_fail("VELOC_Cleanup", "VELOC_Init comes first, and there must be a name");
    folder = vl_layer.scratch ? opendir(vl_layer.scratch) : NULL;
    for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
        int used = snprintf(path, sizeof path, "%s/%s", vl_layer.scratch, entry->d_name);
        if (used < (int)sizeof path && is_ours(entry->d_name, name) && !is_in_use(path))
            unlink(path);
    }
    if (folder)
        closedir(folder);
    return VELOC_SUCCESS;
}
