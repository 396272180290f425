/* Pins, and closing the key of one before its checkpoint is forgotten (pin.h). */
#include "lifecycle/pin.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "base/thread.h"
#include "lifecycle/lifecycle.h"

#define ROUNDS_MAX 100

static struct vv_key pin_key(const char *name, const struct vv_attempt *at, char text[VV_KEY_CAPACITY]) {
    struct vv_attempt version = {.generation = at->generation, .version = at->version};
    struct vv_key key = vv_attempt_key(name, &version, VV_KIND_PIN, 0, 0);
    vv_key_print(&key, text);
    return key;
}

/* ---- what is there ---- */

static int interpret(const struct vv_key *key, const struct vv_store *store, const struct vv_buf *buf,
                     struct vv_pin *out) {
    struct varve_error why = {0};
    struct vv_pin pin = {0};
    int rc = vv_pin_parse(buf->data, buf->size, key, store->id, &pin, &why);
    if (rc == VARVE_FORGOTTEN)
        return VV_PIN_CLOSED;
    if (rc < 0) {
        pin = (struct vv_pin){0};
        snprintf(pin.reason, sizeof pin.reason, "cannot be read: %.200s", why.text);
    }
    if (out)
        *out = pin;
    return VV_PIN_HELD;
}

int vv_pin_look(struct vv_store *store, const char *name, const struct vv_attempt *at, struct vv_pin *out,
                struct varve_error *error) {
    char text[VV_KEY_CAPACITY];
    struct vv_key key = pin_key(name, at, text);
    struct vv_buf buf;
    vv_buf_init(&buf);
    int rc = vv_object_read(store, &key, &buf, error);
    if (rc == -ENOENT) {
        vv_error_clear(error);
        rc = VV_PIN_NONE;
    } else if (rc == 0 || rc == VARVE_CORRUPT) { /* larger than any may be: nothing was read, and that is no pin */
        vv_error_clear(error);
        rc = interpret(&key, store, &buf, out);
    }
    vv_buf_clear(&buf);
    return rc;
}

/* ---- pinning ---- */

/* 0 when its record is whole. */
static int check_record(struct vv_store *store, const char *name, const struct vv_attempt *at,
                        struct varve_error *error) {
    struct vv_record record;
    int rc = vv_record_load(store, name, at->generation, at->version, &record, error);
    if (rc == 0)
        vv_record_clear(&record);
    return rc;
}

static int remove_pin(struct vv_store *store, const char *name, const struct vv_attempt *at,
                      struct varve_error *error) {
    char text[VV_KEY_CAPACITY];
    pin_key(name, at, text);
    int rc = vv_backend_remove(store->backend, text);
    return rc < 0 && rc != -ENOENT ? vv_error_sys(error, rc, "cannot remove %s", text) : rc;
}

/* The key is taken: by a pin, 1, or by a forgetting that has begun. Who made the pin may have died before it was
 * durable. */
static int look_who_was_first(struct vv_store *store, const char *name, const struct vv_attempt *at,
                              struct varve_error *error) {
    char text[VV_KEY_CAPACITY];
    pin_key(name, at, text);
    int state = vv_pin_look(store, name, at, NULL, error);
    int rc = state == VV_PIN_HELD ? vv_backend_sync(store->backend, text) : 0;
    if (rc < 0 && rc != -ENOENT)
        return vv_error_sys(error, rc, "cannot make %s durable", text);
    if (state == VV_PIN_HELD && rc == 0)
        return 1;
    if (state < 0)
        return state;
    return vv_error(
        error, VARVE_FORGOTTEN, "%s@%" PRIu64 " of generation %u is being forgotten, and cannot be pinned any more%s",
        name, at->version, at->generation,
        store->settings.layout == VV_LAYOUT_LOCAL ? " on this node; it stays if another node has pinned it" : "");
}

static int create_pin(struct vv_store *store, const char *name, const struct vv_attempt *at, const struct vv_pin *pin,
                      struct varve_error *error) {
    char text[VV_KEY_CAPACITY];
    struct vv_key key = pin_key(name, at, text);
    struct vv_pin own = *pin;
    struct vv_claim self = {0};
    struct vv_buf buf;
    if (own.time_ns == 0) {
        vv_process_self(&self);
        own.time_ns = vv_clock_wall_ns();
        snprintf(own.host, sizeof own.host, "%s", self.host);
    }
    vv_buf_init(&buf);
    vv_pin_encode(&buf, &key, store->id, &own);
    int rc = vv_object_create(store, &key, &buf, error);
    vv_buf_clear(&buf);
    return rc;
}

int vv_pin_set(struct vv_store *store, const char *name, const struct vv_attempt *at, const struct vv_pin *pin,
               struct varve_error *error) {
    int rc = check_record(store, name, at, error);
    if (rc == 0 && (rc = VV_FAULT("store.pin.before_create")) < 0)
        return vv_error_sys(error, rc, "cannot pin %s", name);
    if (rc == 0)
        rc = create_pin(store, name, at, pin, error);
    if (rc == -EEXIST) {
        vv_error_clear(error);
        rc = look_who_was_first(store, name, at, error);
    }
    if (rc < 0)
        return rc;
    /* A forgetting that was over before the pin came has left a tombstone, and no trace under the key of the pin. */
    int there = check_record(store, name, at, error);
    if (there == VARVE_FORGOTTEN || there == VARVE_NO_CHECKPOINT) {
        (void)remove_pin(store, name, at, NULL);
        return vv_error(error, VARVE_FORGOTTEN,
                        "%s@%" PRIu64 " of generation %u was forgotten before it could be pinned", name, at->version,
                        at->generation);
    }
    return there < 0 ? there : rc;
}

int vv_pin_unset(struct vv_store *store, const char *name, const struct vv_attempt *at, struct varve_error *error) {
    int state = vv_pin_look(store, name, at, NULL, error);
    int rc = state == VV_PIN_HELD ? remove_pin(store, name, at, error) : state < 0 ? state : -ENOENT;
    if (rc != -ENOENT)
        return rc;
    return vv_error(error, VARVE_NO_CHECKPOINT, "%s@%" PRIu64 " of generation %u is not pinned: nothing was changed",
                    name, at->version, at->generation);
}

int vv_pin_move(struct vv_store *store, const char *name, const struct vv_attempt *from, const struct vv_attempt *to,
                struct varve_error *error) {
    struct vv_pin pin;
    int state = vv_pin_look(store, name, from, &pin, error);
    if (state != VV_PIN_HELD)
        return state < 0 ? state : 0;
    int rc = vv_pin_set(store, name, to, &pin, error);
    if (rc >= 0)
        rc = remove_pin(store, name, from, error);
    return rc == -ENOENT ? 0 : rc;
}

/* ---- forgetting ---- */

static int refuse(const char *name, const struct vv_attempt *at, const struct vv_pin *pin, struct varve_error *error) {
    char reason[VV_TEXT_CAPACITY + 4] = "";
    if (pin->reason[0])
        snprintf(reason, sizeof reason, " (%s)", pin->reason);
    return vv_error(error, VARVE_BUSY,
                    "%s@%" PRIu64 " of generation %u is pinned%s: it is kept until `varve unpin STORE %s@%" PRIu64
                    ":%u`",
                    name, at->version, at->generation, reason, name, at->version, at->generation);
}

int vv_pin_close(struct vv_store *store, const char *name, const struct vv_attempt *at, struct varve_error *error) {
    char text[VV_KEY_CAPACITY];
    struct vv_key key = pin_key(name, at, text);
    struct vv_pin pin;
    int rc = -EEXIST;
    for (int round = 0; rc == -EEXIST && round < ROUNDS_MAX; round++) {
        int state = vv_pin_look(store, name, at, &pin, error);
        if (state == VV_PIN_HELD)
            return refuse(name, at, &pin, error);
        if (state != VV_PIN_NONE)
            return state < 0 ? state : 0;
        if ((rc = VV_FAULT("store.forget.before_close")) < 0)
            return vv_error_sys(error, rc, "cannot forget %s", text);
        rc = vv_tombstone_create(store, &key, VV_TOMBSTONE_FORGOTTEN, error);
    }
    return rc;
}

void vv_pin_end(struct vv_store *store, const char *name, const struct vv_attempt *at) {
    (void)remove_pin(store, name, at, NULL);
}

/* ---- all of them ---- */

struct pin_listing {
    struct vv_attempts *out;
};

static int take_pin(void *arg, const char *component, int is_prefix) {
    struct pin_listing *listing = arg;
    struct vv_attempt at = {0};
    size_t begin = strlen(VV_PIN_BEGIN);
    if (is_prefix || strncmp(component, VV_PIN_BEGIN, begin) != 0 ||
        vv_record_component_parse(component + begin, &at.generation, &at.version) < 0)
        return 0;
    return vv_attempts_add(listing->out, &at);
}

/* With those that are closed. */
static int list_keys(struct vv_store *store, const char *name, struct vv_attempts *out, struct varve_error *error) {
    struct pin_listing listing = {.out = out};
    char prefix[VV_KEY_CAPACITY];
    *out = (struct vv_attempts){0};
    vv_prefix_name(name, prefix);
    int rc = vv_backend_list(store->backend, prefix, NULL, 0, take_pin, &listing);
    vv_attempts_sort(out);
    return rc < 0 ? vv_error_sys(error, rc, "cannot list %s", prefix) : 0;
}

int vv_pins_list(struct vv_store *store, const char *name, struct vv_attempts *out, struct varve_error *error) {
    size_t held = 0;
    int rc = list_keys(store, name, out, error);
    for (size_t i = 0; rc == 0 && i < out->count; i++) {
        int state = vv_pin_look(store, name, &out->list[i], NULL, error);
        rc = state < 0 ? state : 0;
        if (state == VV_PIN_HELD)
            out->list[held++] = out->list[i];
    }
    out->count = out->sorted = held;
    return rc;
}

/* Is its checkpoint gone for good? 1, 0, or an error. A record that was lost may be rebuilt as long as there is data.
 * A tombstone is made durable first: after a power cut the record must not be back without its pin. */
static int is_gone(struct vv_store *store, const char *name, const struct vv_attempt *at, int is_dry_run,
                   struct varve_error *error) {
    struct vv_key key = vv_attempt_key(name, at, VV_KIND_RECORD, 0, 0);
    char text[VV_KEY_CAPACITY];
    int rc = check_record(store, name, at, error);
    if (rc == VARVE_FORGOTTEN) {
        vv_key_print(&key, text);
        rc = is_dry_run ? 0 : vv_backend_sync(store->backend, text);
        return rc == 0 || rc == -ENOENT ? 1 : vv_error_sys(error, rc, "cannot make %s durable", text);
    }
    if (rc != VARVE_NO_CHECKPOINT)
        return rc == VARVE_CORRUPT || rc == VARVE_UNKNOWN_FORMAT ? 0 : rc;
    key.kind = VV_KIND_WRITERS;
    vv_prefix_data(&key, 2, text);
    rc = vv_prefix_is_used(store, text, error);
    return rc < 0 ? rc : !rc;
}

static int prune_pin(struct vv_store *store, const char *name, const struct vv_attempt *at,
                     const struct vv_prune_options *options, struct vv_prune_result *result,
                     struct varve_error *error) {
    char text[VV_KEY_CAPACITY];
    int rc = is_gone(store, name, at, options->is_dry_run, error);
    if (rc < 0)
        return rc;
    vv_error_clear(error);
    if (rc == 0)
        return 0;
    pin_key(name, at, text);
    return vv_prune_object(store, text, options, result, error);
}

int vv_pins_prune(struct vv_store *store, const char *name, const struct vv_prune_options *options,
                  struct vv_prune_result *result, struct varve_error *error) {
    struct vv_attempts keys;
    int rc = list_keys(store, name, &keys, error);
    for (size_t i = 0; rc == 0 && i < keys.count; i++)
        rc = prune_pin(store, name, &keys.list[i], options, result, error);
    vv_attempts_clear(&keys);
    return rc;
}
