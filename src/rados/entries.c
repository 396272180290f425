/* Directories: which components lie below a prefix.
 *
 * An entry says 'o' (an object) or 'p' (a prefix) and a token. It is 'c' while the object is created, and becomes 'o'
 * only if nobody has changed it since: otherwise the object may be removed already, and it is 'c' again. Before an
 * object is removed its entry becomes 'r' with the remover's token, and goes only if that still stands there. So an
 * entry that a creator sets, before or after, stays. Whoever lists looks at the objects of 'c' and 'r': their process
 * may have died. A token begins with the time, so that such an entry without an object goes after a day. Prefixes go
 * the same way ('q') when their directory is empty; the directory itself is removed only in the version that was seen
 * to be empty. A prefix whose directory is missing goes, after a day, when it is listed. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "rados_private.h"

#define VALUE (1 + VV_RADOS_TOKEN)
#define PAGE 1000u
#define OLD_S (24 * 3600)

static void directory_name(const char *prefix, size_t size, char out[VV_RADOS_NAME]) {
    snprintf(out, VV_RADOS_NAME, "d/%.*s", (int)size, prefix);
}

/* Where the last component begins; the prefix ends one before, or at 0. */
static size_t last_of(const char *key, size_t size) {
    while (size > 0 && key[size - 1] != '/')
        size--;
    return size;
}

static void put_value(char kind, const uint8_t token[VV_RADOS_TOKEN], char out[VALUE]) {
    out[0] = kind;
    memcpy(out + 1, token, VV_RADOS_TOKEN);
}

/* The entry for key[0, size) in the directory above it. With is_made the directory is made if it is missing. */
static int set_one(struct vv_rados *rados, const char *key, size_t size, char kind, const uint8_t token[VV_RADOS_TOKEN],
                   int is_made) {
    size_t at = last_of(key, size), length = size - at, value_size = VALUE;
    const char *component = key + at;
    char name[VV_RADOS_NAME], value[VALUE];
    const char *values[] = {value};
    put_value(kind, token, value);
    directory_name(key, at ? at - 1 : 0, name);
    rados_write_op_t op = rados_create_write_op();
    if (is_made)
        rados_write_op_create(op, LIBRADOS_CREATE_IDEMPOTENT, NULL);
    else
        rados_write_op_assert_exists(op);
    rados_write_op_omap_set2(op, &component, values, &length, &value_size, 1);
    int rc = vv_rados_write(rados, op, name);
    if (rc == -EOPNOTSUPP)
        vv_rados_log(rados, "rados: the pool %s keeps no omaps, which directories need: take a replicated pool",
                     rados->place.pool);
    return rc;
}

#define DEPTH 512
#define TRIES 8

/* From the entry up to the first directory that is there, or up to the root, and down again: a directory is made after
 * its own entry. How many were made, and which entries they hold; or an error. */
static int climb(struct vv_rados *rados, const char *key, char kind, const uint8_t token[VV_RADOS_TOKEN], int to_root,
                 size_t ends[DEPTH]) {
    size_t size = strlen(key);
    int rc, depth = 0;
    while ((rc = to_root && last_of(key, size) > 0
                     ? -ENOENT
                     : set_one(rados, key, size, depth ? 'p' : kind, token, last_of(key, size) == 0)) == -ENOENT) {
        if (last_of(key, size) == 0)
            return -ENOENT; /* the pool has gone */
        if (depth == DEPTH)
            return -ENAMETOOLONG;
        ends[depth++] = size;
        size = last_of(key, size) - 1;
    }
    for (int i = depth; rc == 0 && i-- > 0;)
        rc = set_one(rados, key, ends[i], i ? 'p' : kind, token, 1);
    return rc < 0 ? rc : depth;
}

/* While a directory is made, its entry may go: somebody else has made it, and another one has removed it again. So the
 * entries of those that were made are set once more. If a directory above has gone meanwhile, those below are there and
 * cannot be reached: then the next try begins at the root. */
static int set_entry(struct vv_rados *rados, const char *key, char kind, const uint8_t token[VV_RADOS_TOKEN]) {
    size_t ends[DEPTH];
    int rc = -ENOENT;
    for (int tries = 0; rc == -ENOENT && tries < TRIES; tries++) {
        int made = climb(rados, key, kind, token, tries > 0, ends);
        rc = made < 0 ? made : 0;
        for (int i = made; rc == 0 && i-- > 0;)
            rc = set_one(rados, key, last_of(key, ends[i]) - 1, 'p', token, 0);
    }
    return rc == -ENOENT ? vv_rados_absent(rados) == -ESTALE ? -ESTALE : -EIO : rc;
}

static int stamped_token(uint8_t token[VV_RADOS_TOKEN]) {
    uint64_t now = (uint64_t)time(NULL);
    int rc = vv_rados_token(token);
    for (int i = 0; i < 8; i++)
        token[i] = (uint8_t)(now >> 8 * i);
    return rc;
}

static int is_old(const uint8_t token[VV_RADOS_TOKEN]) {
    uint64_t made = 0;
    for (int i = 0; i < 8; i++)
        made |= (uint64_t)token[i] << 8 * i;
    return made < (uint64_t)time(NULL) - OLD_S;
}

int vv_rados_entry_set(struct vv_rados *rados, const char *key, uint8_t token[VV_RADOS_TOKEN]) {
    int rc = stamped_token(token);
    return rc < 0 ? rc : set_entry(rados, key, 'c', token);
}

/* If somebody has changed the entry meanwhile, the object may be gone again: then those who list must look. */
int vv_rados_entry_created(struct vv_rados *rados, const char *key, uint8_t token[VV_RADOS_TOKEN]) {
    size_t at = last_of(key, strlen(key)), length = strlen(key + at), size = VALUE;
    const char *component = key + at;
    char name[VV_RADOS_NAME], old[VALUE], value[VALUE];
    const char *values[] = {value};
    int compared = 0;
    put_value('c', token, old);
    put_value('o', token, value);
    directory_name(key, at ? at - 1 : 0, name);
    rados_write_op_t op = rados_create_write_op();
    rados_write_op_omap_cmp2(op, component, LIBRADOS_CMPXATTR_OP_EQ, old, length, VALUE, &compared);
    rados_write_op_omap_set2(op, &component, values, &length, &size, 1);
    int rc = vv_rados_write(rados, op, name);
    return rc == -ECANCELED || rc == -ENOENT ? vv_rados_entry_set(rados, key, token) : rc;
}

int vv_rados_entry_mark(struct vv_rados *rados, const char *key, uint8_t token[VV_RADOS_TOKEN]) {
    int rc = stamped_token(token);
    return rc < 0 ? rc : set_entry(rados, key, 'r', token);
}

/* ---- removing ---- */

/* 0: it went; -ECANCELED: somebody has set it since. */
static int remove_one(struct vv_rados *rados, const char *key, size_t size, char kind,
                      const uint8_t token[VV_RADOS_TOKEN]) {
    size_t at = last_of(key, size), length = size - at;
    const char *component = key + at;
    char name[VV_RADOS_NAME], value[VALUE];
    int compared = 0;
    put_value(kind, token, value);
    directory_name(key, at ? at - 1 : 0, name);
    rados_write_op_t op = rados_create_write_op();
    rados_write_op_omap_cmp2(op, component, LIBRADOS_CMPXATTR_OP_EQ, value, length, VALUE, &compared);
    rados_write_op_omap_rm_keys2(op, &component, &length, 1);
    return vv_rados_write(rados, op, name);
}

/* 1 and the version that is empty; 0: there are entries; or an error. */
static int is_empty(struct vv_rados *rados, const char *name, uint64_t *version_out) {
    rados_omap_iter_t iter = NULL;
    unsigned char more = 0;
    int result = 0;
    rados_read_op_t op = rados_create_read_op();
    rados_read_op_omap_get_vals2(op, "", "", 1, &iter, &more, &result);
    int rc = vv_rados_read(rados, op, name, version_out);
    rc = rc < 0 ? rc : result;
    int count = rc == 0 && iter ? (int)rados_omap_iter_size(iter) : 0;
    if (iter)
        rados_omap_get_end(iter);
    return rc < 0 ? rc : count == 0;
}

/* The directory of key[0, size), if it is empty, and then its entry. 1 if it went. If somebody else has removed the
 * directory meanwhile, their token may have been replaced by ours: then the entry is ours to remove. */
static int drop_directory(struct vv_rados *rados, const char *key, size_t size) {
    char name[VV_RADOS_NAME];
    uint8_t token[VV_RADOS_TOKEN];
    uint64_t version = 0;
    directory_name(key, size, name);
    if (is_empty(rados, name, &version) != 1 || stamped_token(token) < 0 ||
        set_one(rados, key, size, 'q', token, 0) < 0)
        return 0;
    int rc = is_empty(rados, name, &version);
    if (rc == 1) {
        rados_write_op_t op = rados_create_write_op();
        rados_write_op_assert_version(op, version);
        rados_write_op_remove(op);
        rc = vv_rados_write(rados, op, name) == 0 ? -ENOENT : is_empty(rados, name, &version);
    }
    /* Otherwise its entry is looked at by those who list. */
    return rc == -ENOENT && remove_one(rados, key, size, 'q', token) == 0;
}

static void drop_above(struct vv_rados *rados, const char *key, size_t size) {
    while ((size = last_of(key, size)) > 0 && drop_directory(rados, key, --size))
        ;
}

/* The entry, and the directories that are empty then. Best effort: who lists looks at entries that are left. */
static void drop_entry(struct vv_rados *rados, const char *key, char kind, const uint8_t token[VV_RADOS_TOKEN]) {
    size_t size = strlen(key);
    if (remove_one(rados, key, size, kind, token) == 0)
        drop_above(rados, key, size);
}

void vv_rados_entry_end(struct vv_rados *rados, const char *key, const uint8_t token[VV_RADOS_TOKEN]) {
    drop_entry(rados, key, 'r', token);
}

/* ---- prefixes without anything below ---- */

/* The value of the entry for key[0, size). 0, or an error. */
static int get_one(struct vv_rados *rados, const char *key, size_t size, char out[VALUE]) {
    size_t at = last_of(key, size), length = size - at;
    const char *component = key + at;
    char name[VV_RADOS_NAME], *found = NULL, *value = NULL;
    size_t found_size = 0, value_size = 0;
    rados_omap_iter_t iter = NULL;
    int result = 0;
    directory_name(key, at ? at - 1 : 0, name);
    rados_read_op_t op = rados_create_read_op();
    rados_read_op_omap_get_vals_by_keys2(op, &component, 1, &length, &iter, &result);
    int rc = vv_rados_read(rados, op, name, NULL);
    rc = rc < 0 ? rc : result;
    if (rc == 0)
        rc = rados_omap_get_next2(iter, &found, &value, &found_size, &value_size);
    if (rc == 0 && (!found || value_size != VALUE))
        rc = -ENOENT;
    if (rc == 0)
        memcpy(out, value, VALUE);
    if (iter)
        rados_omap_get_end(iter);
    return rc;
}

/* Nothing was found below this prefix: whoever made or removed its directory may have died. A creator may have set the
 * entry already, and make the directory just now: then it is there again at the end. */
static void drop_prefix(struct vv_rados *rados, const char *prefix) {
    char name[VV_RADOS_NAME], value[VALUE];
    uint8_t token[VV_RADOS_TOKEN];
    size_t size = strlen(prefix);
    uint64_t version;
    if (rados->is_reading || size == 0 || get_one(rados, prefix, size, value) < 0 || !strchr("pq", value[0]) ||
        !is_old((const uint8_t *)value + 1) || stamped_token(token) < 0)
        return;
    directory_name(prefix, size, name);
    int is_dropped = drop_directory(rados, prefix, size);
    if (!is_dropped && is_empty(rados, name, &version) == -ENOENT && set_one(rados, prefix, size, 'q', token, 0) == 0 &&
        is_empty(rados, name, &version) == -ENOENT)
        is_dropped = remove_one(rados, prefix, size, 'q', token) == 0;
    if (is_dropped && is_empty(rados, name, &version) != -ENOENT)
        set_one(rados, prefix, size, 'p', token, 0);
    else if (is_dropped)
        drop_above(rados, prefix, size);
}

/* ---- listing ---- */

struct listing {
    struct vv_rados *rados;
    const char *prefix;
    size_t limit, count;
    int has_entries; /* whether they are told or not */
    varve_list_fn fn;
    void *arg;
    char last[256];
};

/* Its creator or remover may have died, or be under way. 1: it is there; 0 or an error. */
static int is_there(struct listing *listing, const char *component, const char *value) {
    struct vv_rados *rados = listing->rados;
    struct vv_rados_head head;
    uint64_t version;
    char key[VV_RADOS_NAME], name[VV_RADOS_NAME];
    int size = snprintf(key, sizeof key, "%s%s%s", listing->prefix, *listing->prefix ? "/" : "", component);
    if (size < 0 || (size_t)size >= sizeof key - 2)
        return -EIO;
    directory_name(key, (size_t)size, name);
    int is_prefix = value[0] == 'q';
    int rc =
        is_prefix ? is_empty(rados, name, &version) : vv_rados_head_read(rados, key, &head, 0, NULL, 0, NULL, NULL);
    if (rc == -ENOENT && vv_rados_absent(rados) == -ESTALE)
        return -ESTALE;
    if (is_prefix && (rc == -ENOENT || rc == 1))
        drop_prefix(rados, key);
    else if (rc == -ENOENT && !rados->is_reading && is_old((const uint8_t *)value + 1))
        drop_entry(rados, key, value[0], (const uint8_t *)value + 1);
    return rc == -ENOENT ? 0 : rc < 0 ? rc : is_prefix ? !rc : 1;
}

static int tell_entry(struct listing *listing, const char *component, size_t size, const char *value,
                      size_t value_size) {
    char kind = value_size == VALUE ? value[0] : '?';
    if (!strchr("opqrc", kind) || size == 0 || size >= sizeof listing->last || memchr(component, '/', size)) {
        vv_rados_log(listing->rados, "rados: the directory %.200s has an entry that cannot be interpreted",
                     listing->prefix);
        return -EIO;
    }
    memcpy(listing->last, component, size);
    listing->last[size] = '\0';
    int is_prefix = kind == 'p' || kind == 'q';
    int rc = kind == 'o' || kind == 'p' ? 1 : is_there(listing, listing->last, value);
    if (rc != 1)
        return rc;
    listing->count++;
    return listing->fn(listing->arg, listing->last, is_prefix);
}

/* The entries behind listing->last. 1: there are more; 0; or an error. */
static int list_page(struct listing *listing, const char *name) {
    rados_omap_iter_t iter = NULL;
    unsigned char more = 0;
    int result = 0, stopped = 0;
    rados_read_op_t op = rados_create_read_op();
    rados_read_op_omap_get_vals2(op, listing->last, "", PAGE, &iter, &more, &result);
    int rc = vv_rados_read(listing->rados, op, name, NULL);
    int is_absent = rc == -ENOENT;
    rc = rc < 0 ? rc : result;
    while (rc == 0 && !stopped) {
        char *component = NULL, *value = NULL;
        size_t size = 0, value_size = 0;
        rc = rados_omap_get_next2(iter, &component, &value, &size, &value_size);
        if (rc < 0 || !component)
            break;
        listing->has_entries = 1;
        rc = tell_entry(listing, component, size, value, value_size);
        stopped = rc > 0 || (listing->limit && listing->count == listing->limit);
        rc = rc > 0 ? 0 : rc;
    }
    if (iter) /* librados makes it with the question, also where there is no answer */
        rados_omap_get_end(iter);
    if (is_absent)
        return vv_rados_absent(listing->rados) == -ESTALE ? -ESTALE : 0;
    return rc < 0 ? rc : more && !stopped;
}

int vv_rados_list(struct varve_backend *backend, const char *prefix, const char *after, size_t limit, varve_list_fn fn,
                  void *arg) {
    struct listing listing = {.rados = vv_rados_of(backend), .prefix = prefix, .limit = limit, .fn = fn, .arg = arg};
    char name[VV_RADOS_NAME];
    int rc = 1;
    if (after && strlen(after) >= sizeof listing.last)
        return -EINVAL;
    snprintf(listing.last, sizeof listing.last, "%s", after ? after : "");
    directory_name(prefix, strlen(prefix), name);
    while (rc == 1)
        rc = list_page(&listing, name);
    if (rc == 0 && !listing.has_entries && !after)
        drop_prefix(listing.rados, prefix);
    return rc;
}
