/* Triggers (trigger.h). A trigger is created by an operation that fails if there is one, and only the session removes
 * it: two wishes never overwrite each other. */
#include "lifecycle/trigger.h"

#include <errno.h>
#include <stdio.h>

#include "base/thread.h"
#include "lifecycle/lease.h"
#include "lifecycle/lifecycle.h"

static struct vv_key trigger_key(const char *name, char text[VV_KEY_CAPACITY]) {
    struct vv_key key = {.kind = VV_KIND_TRIGGER};
    snprintf(key.name, sizeof key.name, "%s", name);
    vv_key_print(&key, text);
    return key;
}

/* 0, -ENOENT, VARVE_CORRUPT, VARVE_UNKNOWN_FORMAT or an error of the storage. */
static int load(struct vv_store *store, const char *name, struct vv_trigger *out, uint64_t *sum,
                struct varve_error *error) {
    char text[VV_KEY_CAPACITY];
    struct vv_key key = trigger_key(name, text);
    struct vv_buf buf;
    vv_buf_init(&buf);
    int rc = vv_object_read(store, &key, &buf, error);
    *sum = rc == -ENOENT ? 0 : vv_sum64(buf.data, buf.size) | 1;
    if (rc == 0)
        rc = vv_trigger_parse(buf.data, buf.size, &key, store->id, out, error);
    vv_buf_clear(&buf);
    return rc;
}

static int create_trigger(struct vv_store *store, const char *name, uint32_t wish, struct varve_error *error) {
    char text[VV_KEY_CAPACITY];
    struct vv_key key = trigger_key(name, text);
    struct vv_trigger trigger = {.wish = wish, .time_ns = vv_clock_wall_ns()};
    struct vv_claim self = {0};
    struct vv_buf buf;
    vv_process_self(&self);
    snprintf(trigger.host, sizeof trigger.host, "%s", self.host);
    vv_buf_init(&buf);
    vv_trigger_encode(&buf, &key, store->id, &trigger);
    int rc = vv_object_create(store, &key, &buf, error);
    vv_buf_clear(&buf);
    return rc;
}

static int remove_object(struct vv_store *store, const char *name, struct varve_error *error) {
    char text[VV_KEY_CAPACITY];
    trigger_key(name, text);
    int rc = vv_backend_remove(store->backend, text);
    return rc < 0 ? vv_error_sys(error, rc, "cannot remove %s", text) : 0;
}

static int check_holder(struct vv_store *store, const char *name, struct varve_error *error) {
    struct vv_holder holder;
    int rc = vv_holder_look(store, name, &holder, error);
    if (rc < 0)
        return rc;
    if (holder.holding == VV_HELD_BY_LIVING || holder.holding == VV_HELD_BY_UNKNOWN)
        return 0;
    return vv_error(error, -ESRCH, "nobody can be asked for a checkpoint of %s: no session has it open%s%s", name,
                    holder.evidence[0] ? "; " : "", holder.evidence);
}

int vv_trigger_ask(struct vv_store *store, const char *name, uint32_t wish, struct varve_error *error) {
    struct vv_trigger there = {0};
    uint64_t sum;
    int rc = check_holder(store, name, error);
    if (rc == 0)
        rc = create_trigger(store, name, wish, error);
    if (rc != -EEXIST)
        return rc;
    vv_error_clear(error);
    rc = load(store, name, &there, &sum, error);
    if (rc == 0)
        return there.wish == wish ? 1
                                  : vv_error(error, VARVE_BUSY,
                                             "%s was asked for %s, and has not taken notice yet; try again in a moment",
                                             name, there.wish == VV_TRIGGER_EXIT ? "its end" : "a checkpoint");
    if (rc != -ENOENT)
        return rc; /* a damaged one is the session's to remove: it may be another wish by now */
    vv_error_clear(error);
    return create_trigger(store, name, wish, error);
}

int vv_trigger_take(struct vv_store *store, const char *name, struct vv_trigger *out, uint64_t *sum,
                    struct varve_error *error) {
    int rc = load(store, name, out, sum, error);
    if (rc == -ENOENT) {
        vv_error_clear(error);
        return 0;
    }
    if (rc == VARVE_CORRUPT) {
        struct varve_error ignored = {0};
        (void)remove_object(store, name, &ignored);
    }
    if (rc < 0)
        return rc;
    rc = remove_object(store, name, error);
    return rc < 0 ? 2 : 1;
}
