#include "damages.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <varve/varve_inspect.h>

#include "storage/storage.h"

#define KINDS (VV_KIND_LAST + 1)

/* ---- the objects ---- */

/* nftw passes no argument on */
static struct objects *listing;
static struct varve_backend *opened; /* which sees through the encryption of a store */

static int add_object(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    const char *text = path + strlen(listing->root) + 1;
    struct vv_key key;
    uint16_t kind = 0;
    (void)ftw;
    if (type != FTW_F || !strncmp(text, "tmp/", 4) || vv_key_parse(text, &key) < 0)
        return 0;
    if (vv_backend_get(opened, text, 10, &kind, sizeof kind) != (int64_t)sizeof kind)
        return -1;
    struct object *list = realloc(listing->list, (listing->count + 1) * sizeof *list);
    if (!list)
        abort();
    listing->list = list;
    struct object *object = &list[listing->count++];
    *object = (struct object){.size = (size_t)st->st_size, .kind = kind};
    snprintf(object->key, sizeof object->key, "%s", text);
    snprintf(object->name, sizeof object->name, "%s", key.name);
    return 0;
}

static int compare_objects(const void *a, const void *b) {
    return strcmp(((const struct object *)a)->key, ((const struct object *)b)->key);
}

int objects_list(const char *root, struct objects *out) {
    *out = (struct objects){.root = root};
    listing = out;
    const struct vv_backend_options options = {.purpose = VV_FOR_READING, .key = getenv("VARVE_KEY")};
    if (vv_backend_open(root, &options, &opened, NULL) != 0)
        return -1;
    int rc = nftw(root, add_object, 16, FTW_PHYS);
    vv_backend_close(opened);
    if (rc != 0)
        return -1;
    qsort(out->list, out->count, sizeof *out->list, compare_objects);
    return 0;
}

void objects_clear(struct objects *objects) {
    free(objects->list);
    *objects = (struct objects){0};
}

void objects_print(const struct objects *objects, const char *who) {
    size_t counts[KINDS] = {0};
    for (size_t i = 0; i < objects->count; i++)
        if (objects->list[i].kind < KINDS)
            counts[objects->list[i].kind]++;
    printf("%s: %zu objects:", who, objects->count);
    for (int kind = 1; kind < KINDS; kind++)
        if (counts[kind])
            printf(" %zu %s", counts[kind], vv_kind_name(kind));
    printf("\n");
}

static const struct object *find_object(const struct objects *objects, const char *key) {
    for (size_t i = 0; i < objects->count; i++)
        if (!strcmp(objects->list[i].key, key))
            return &objects->list[i];
    return NULL;
}

static const struct object *random_object(struct campaign *campaign, const struct objects *objects, int kind) {
    size_t count = 0;
    for (size_t i = 0; i < objects->count; i++)
        count += objects->list[i].kind == kind;
    if (count == 0)
        return NULL;
    size_t at = campaign_random(campaign, count);
    for (size_t i = 0;; i++)
        if (objects->list[i].kind == kind && at-- == 0)
            return &objects->list[i];
}

/* ---- the damage ---- */

static const char *const damage_names[] = {"flip", "cut", "remove", "swap", "append"};

void damage_print(const struct damage *damage, char *text) {
    snprintf(text, DAMAGE_TEXT, "%s,%" PRIu64 ",%d,%s,%s", damage_names[damage->kind], damage->at, damage->bit,
             damage->object->key, damage->other ? damage->other->key : "-");
}

int damage_parse(const struct objects *objects, const char *text, struct damage *out) {
    char kind[16], key[VV_KEY_CAPACITY], other[VV_KEY_CAPACITY];
    *out = (struct damage){0};
    if (sscanf(text, "%15[^,],%" SCNu64 ",%d,%511[^,],%511s", kind, &out->at, &out->bit, key, other) != 5)
        return -1;
    for (size_t i = 0; i < sizeof damage_names / sizeof *damage_names; i++)
        if (!strcmp(kind, damage_names[i]))
            out->kind = (enum damage_kind)i;
    out->object = find_object(objects, key);
    out->other = find_object(objects, other);
    return out->object && (out->kind != DAMAGE_SWAP || out->other) ? 0 : -1;
}

int damage_hurts(const struct damage *damage, const char *name) {
    return !damage->object->name[0] || !strcmp(damage->object->name, name) ||
           (damage->other && !strcmp(damage->other->name, name));
}

int damage_is_allowed(const struct damage *damage) {
    int kind = damage->object->kind;
    return damage->kind == DAMAGE_REMOVE &&
           (kind == VV_KIND_CLAIM || kind == VV_KIND_HEARTBEAT || kind == VV_KIND_CATALOGUE ||
            kind == VV_KIND_TOMBSTONE || kind == VV_KIND_LOG);
}

static const char *link_from, *link_to;

static int link_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    char to[4096];
    (void)st;
    (void)ftw;
    snprintf(to, sizeof to, "%s%s", link_to, path + strlen(link_from));
    return type == FTW_D ? mkdir(to, 0777) : link(path, to);
}

static void read_object(const struct objects *objects, const struct object *object, uint8_t *out) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", objects->root, object->key);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, out, object->size) != (ssize_t)object->size) {
        perror(path);
        exit(2);
    }
    close(fd);
}

static void write_object(const char *folder, const struct object *object, const uint8_t *data, size_t size) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, object->key);
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) {
        perror(path);
        exit(2);
    }
    close(fd);
}

static void swap_objects(const struct objects *objects, const struct damage *damage, const char *folder,
                         const uint8_t *data) {
    uint8_t *other = malloc(damage->other->size + 1);
    if (!other)
        abort();
    read_object(objects, damage->other, other);
    write_object(folder, damage->object, other, damage->other->size);
    write_object(folder, damage->other, data, damage->object->size);
    free(other);
}

static void apply(const struct objects *objects, const struct damage *damage, const char *folder) {
    const struct object *object = damage->object;
    char path[4096];
    uint8_t *data = calloc(1, object->size + 8192);
    if (!data)
        abort();
    read_object(objects, object, data);
    switch (damage->kind) {
    case DAMAGE_FLIP:
        data[damage->at % object->size] ^= (uint8_t)(1u << damage->bit);
        write_object(folder, object, data, object->size);
        break;
    case DAMAGE_CUT:
        write_object(folder, object, data, damage->at < object->size ? damage->at : object->size - 1);
        break;
    case DAMAGE_REMOVE:
        snprintf(path, sizeof path, "%s/%s", folder, object->key);
        unlink(path);
        break;
    case DAMAGE_SWAP:
        swap_objects(objects, damage, folder, data);
        break;
    case DAMAGE_APPEND:
        for (size_t i = 0; i < damage->at; i++)
            data[object->size + i] = (uint8_t)(i * 37 + (uint64_t)damage->bit);
        write_object(folder, object, data, object->size + damage->at);
        break;
    }
    free(data);
}

int damage_copy(const struct objects *objects, const struct damage *damage, const char *folder) {
    link_from = objects->root;
    link_to = folder;
    if (nftw(objects->root, link_one, 16, FTW_PHYS) != 0)
        return -1;
    apply(objects, damage, folder);
    return 0;
}

/* ---- which ---- */

struct damage damage_flip(struct campaign *campaign, const struct objects *objects) {
    const struct object *object = NULL;
    while (!object)
        object = random_object(campaign, objects, 1 + (int)campaign_random(campaign, KINDS - 1));
    struct damage damage = {.kind = DAMAGE_FLIP, .object = object, .bit = (int)campaign_random(campaign, 8)};
    size_t edge = object->size < 4096 ? object->size : 4096;
    switch (campaign_random(campaign, 4)) {
    case 0:
        damage.at = campaign_random(campaign, object->size < 96 ? object->size : 96);
        break;
    case 1:
        damage.at = object->size - 1 - campaign_random(campaign, edge);
        break;
    default:
        damage.at = campaign_random(campaign, object->size);
    }
    return damage;
}

size_t damage_others(struct campaign *campaign, const struct objects *objects, const struct object *object,
                     struct damage *out) {
    const uint64_t cuts[] = {0, 1, 95, 96, object->size / 2, object->size - 25, object->size - 1};
    const uint64_t extra[] = {1, 24, 4096};
    size_t count = 0;
    out[count++] = (struct damage){.kind = DAMAGE_REMOVE, .object = object};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
        out[count++] = (struct damage){.kind = DAMAGE_CUT, .object = object, .at = cuts[i]};
    for (size_t i = 0; i < sizeof extra / sizeof *extra; i++)
        out[count++] = (struct damage){.kind = DAMAGE_APPEND, .object = object, .at = extra[i]};
    for (int tries = 0; tries < 2; tries++) {
        const struct object *other = random_object(campaign, objects, object->kind);
        if (other != object)
            out[count++] = (struct damage){.kind = DAMAGE_SWAP, .object = object, .other = other};
    }
    return count;
}

int damage_is_taken(const struct campaign *campaign, const char *what, uint64_t number) {
    char text[64];
    snprintf(text, sizeof text, "%s %" PRIu64, what, number);
    return campaign_takes(campaign, text);
}

/* ---- verify ---- */

static void take_finding(void *arg, int level, const char *key, const char *text) {
    if (getenv("CRASH_LOG"))
        fprintf(stderr, "finding %d %s: %s\n", level, key, text);
    *(int *)arg += level < 2;
    if (!text || strlen(text) < 8)
        child_fail("verify reports %s without saying what is wrong", key);
}

void damage_verify(const struct damage *damage, const char *folder) {
    int findings = 0;
    struct varve_verify_options options = {.size = sizeof options, .finding = take_finding, .arg = &findings};
    struct varve_verify_result result = {0};
    struct varve_store *store = NULL;
    struct varve_error error = {0};
    int rc = varve_store_open(folder, "threads=0,log=error", &store, &error);
    if (rc == 0)
        rc = varve_store_verify(store, &options, &result, &error);
    varve_store_close(store);
    if (rc < 0 && damage->object->kind != VV_KIND_STORE)
        child_fail("verify does not get to its end: %s: %s", varve_error_name(rc), error.text);
    if (rc == 0 && findings == 0 && !damage_is_allowed(damage))
        child_fail("verify found nothing");
    if (rc == 0 && (findings > 0) != (result.damaged_objects + result.lost_checkpoints > 0))
        child_fail("verify has %d findings, but counts %" PRIu64 " and %" PRIu64, findings, result.damaged_objects,
                   result.lost_checkpoints);
}
