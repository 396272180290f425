#include "archive/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <varve/varve.h>
#include <xxhash.h>

#include "archive/look.h"
#include "archive/stream.h"
#include "files/found.h"

#define START 4096u /* bytes that tell what is in it */
#define STEP (256u << 10)

void archive_unpacked_clear(struct archive_unpacked *unpacked) {
    if (unpacked->fd >= 0)
        close(unpacked->fd);
    unpacked->fd = -1;
    archive_recipe_clear(&unpacked->recipe);
}

/* ---- a file without a name ---- */

static int temporary(void) {
    const char *folder = getenv("TMPDIR");
    char path[4096];
    folder = folder && folder[0] ? folder : "/var/tmp";
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0)
        return fd;
    snprintf(path, sizeof path, "%s/.varve-XXXXXX", folder);
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

static uint64_t room_for(int fd, uint64_t packed) {
    struct statvfs there;
    uint64_t most = packed > UINT64_MAX / ARCHIVE_UNPACKED_TIMES ? UINT64_MAX : packed * ARCHIVE_UNPACKED_TIMES;
    most = most > ARCHIVE_UNPACKED_FREE ? most : ARCHIVE_UNPACKED_FREE;
    uint64_t left = fstatvfs(fd, &there) == 0 ? (uint64_t)there.f_bavail * there.f_frsize / 2 : 0;
    return most < left ? most : left;
}

/* ---- unpacking ---- */

/* Is it ours? Looks at the first bytes of the content only. */
static int is_wanted(struct archive_stream *stream) {
    uint8_t start[START];
    size_t have = 0;
    int64_t got = 1;
    while (got > 0 && have < START) {
        got = archive_stream_read(stream, start + have, START - have);
        have += got > 0 ? (size_t)got : 0;
    }
    return archive_kind_of(start, have) != FILES_PLAIN;
}

static int unpack_all(struct archive_stream *stream, struct archive_unpacked *out, uint64_t most,
                      archive_tick_fn tick) {
    uint8_t *step = malloc(STEP);
    int64_t got = step ? 1 : -ENOMEM;
    while (got > 0) {
        int rc = tick ? tick(NULL, 0, 0) : 0;
        got = rc ? rc : archive_stream_read(stream, step, STEP);
        if (got > 0 && (uint64_t)got > most - out->size)
            got = -E2BIG;
        if (got > 0) {
            rc = files_write_all(out->fd, step, (size_t)got);
            out->size += (uint64_t)got;
            got = rc ? rc : got;
        }
    }
    free(step);
    return (int)got;
}

/* ---- which recipe ---- */

struct comparing {
    int fd;
    uint64_t at, size;
    XXH3_state_t *digest;
    uint8_t there[STEP];
};

/* 1 at the first byte that differs: most recipes that are not the right one end soon. */
static int compare(void *arg, const void *data, size_t size) {
    struct comparing *comparing = arg;
    const uint8_t *at = data;
    while (size) {
        size_t part = size < STEP ? size : STEP;
        if (part > comparing->size - comparing->at ||
            pread(comparing->fd, comparing->there, part, (off_t)comparing->at) != (ssize_t)part ||
            memcmp(comparing->there, at, part) != 0)
            return 1;
        XXH3_128bits_update(comparing->digest, at, part);
        comparing->at += part;
        at += part;
        size -= part;
    }
    return 0;
}

/* 0: every byte is right. 1: another one. */
static int try_recipe(struct archive_unpacked *out, struct comparing *comparing, archive_tick_fn tick) {
    comparing->at = 0;
    XXH3_128bits_reset(comparing->digest);
    int rc = archive_pack(&out->recipe, out->fd, out->size, compare, comparing, tick);
    if (rc == VARVE_UNSUPPORTED || (rc == 0 && comparing->at != comparing->size))
        return 1;
    XXH128_hash_t hash = XXH3_128bits_digest(comparing->digest);
    for (unsigned i = 0; i < 8; i++) {
        out->recipe.digest[i] = (uint8_t)(hash.low64 >> 8 * i);
        out->recipe.digest[8 + i] = (uint8_t)(hash.high64 >> 8 * i);
    }
    out->recipe.size = comparing->size;
    return rc;
}

static int find_recipe(int fd, uint64_t size, struct archive_unpacked *out, archive_tick_fn tick) {
    static const uint8_t gzip_levels[] = {6, 9, 1, 5, 4, 3, 2, 7, 8, 0};
    static const uint8_t zstd_levels[] = {3, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0};
    struct archive_recipe *recipe = &out->recipe;
    struct comparing *comparing = malloc(sizeof *comparing);
    int is_gzip = recipe->packer == ARCHIVE_GZIP, rc = comparing ? 1 : -ENOMEM;
    if (rc < 0)
        return rc;
    comparing->fd = fd;
    comparing->size = size;
    comparing->digest = XXH3_createState();
    rc = comparing->digest ? 1 : -ENOMEM;
    for (uint32_t way = 0; way < 2 && rc == 1; way++)
        for (const uint8_t *level = is_gzip ? gzip_levels : zstd_levels; *level && rc == 1; level++) {
            recipe->level = *level;
            recipe->memory = is_gzip ? 8 + way : 1 - way;
            rc = try_recipe(out, comparing, tick);
        }
    archive_library(recipe->packer, recipe->library);
    XXH3_freeState(comparing->digest);
    free(comparing);
    return rc;
}

/* ---- all of it ---- */

static int say(char note[FILES_NOTE_CAPACITY], const char *text) {
    snprintf(note, FILES_NOTE_CAPACITY, "%s; it stays compressed, and shares little with others", text);
    return 0;
}

/* What is left of the file behind the stream belongs to the recipe. */
static int unpack(struct archive_stream *stream, int fd, uint64_t size, archive_tick_fn tick,
                  struct archive_unpacked *out, char note[FILES_NOTE_CAPACITY]) {
    int rc = unpack_all(stream, out, room_for(out->fd, size), tick);
    if (rc == -E2BIG || rc == -ENOSPC || rc == -EDQUOT)
        return say(note, "its content is too large to be unpacked in TMPDIR");
    rc = rc ? rc : archive_stream_end(stream, &out->recipe);
    if (rc == -EBADMSG)
        return say(note, "it is damaged, or goes on behind its end");
    rc = rc ? rc : find_recipe(fd, size, out, tick);
    if (rc == 1)
        return say(note, out->recipe.packer == ARCHIVE_GZIP ? "zlib does not pack it in the same way again"
                                                            : "libzstd does not pack it in the same way again");
    return rc ? rc : 1;
}

int archive_unpack(int fd, uint64_t size, archive_tick_fn tick, struct archive_unpacked *out,
                   char note[FILES_NOTE_CAPACITY]) {
    struct archive_stream *stream = NULL;
    *out = (struct archive_unpacked){.fd = -1};
    note[0] = '\0';
    int rc = archive_stream_open(fd, size, &stream, &out->recipe);
    if (rc <= 0)
        return rc;
    rc = is_wanted(stream);
    archive_stream_close(stream);
    archive_recipe_clear(&out->recipe);
    stream = NULL;
    rc = rc ? archive_stream_open(fd, size, &stream, &out->recipe) : 0;
    if (rc > 0) {
        out->fd = temporary();
        rc = out->fd < 0 ? say(note, "no file can be made in TMPDIR") : unpack(stream, fd, size, tick, out, note);
    }
    archive_stream_close(stream);
    if (rc <= 0)
        archive_unpacked_clear(out);
    return rc;
}
