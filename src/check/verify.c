/* Verify walks over every key of the store once and checks the object behind it on its own; then it looks at what
 * belongs together, name by name: the checkpoints, and the attempts that are none.
 *
 * Block data is read once, with the pack that holds it. After that the stored ids are known to be true, and the
 * digests of all checkpoints follow from ids alone, without reading shared data again. */
#include "check/verify.h"
#include "check/verify_private.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "format/job_log_object.h"

/* ---- findings ---- */

void vv_verify_finding(struct vv_verifier *verifier, int level, const char *key, const char *format, ...) {
    char text[640];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    verifier->result.damaged_objects += level == VV_FINDING_DAMAGE;
    verifier->result.lost_checkpoints += level == VV_FINDING_LOST_CHECKPOINT;
    if (verifier->options->finding)
        verifier->options->finding(verifier->options->arg, level, key, text);
}

int vv_verify_evaluate(struct vv_verifier *verifier, const char *key, int rc, const struct varve_error *why) {
    if (rc >= 0 || rc == -ENOENT || rc == VARVE_FORGOTTEN || rc == VARVE_NO_CHECKPOINT)
        return 0; /* removed while we looked */
    if (rc == -ENOMEM || rc == -EINTR)
        return rc;
    int level = rc == VARVE_UNKNOWN_FORMAT ? VV_FINDING_NOTE : VV_FINDING_DAMAGE;
    vv_verify_finding(verifier, level, key, "%s", why->text[0] ? why->text : varve_error_text(rc));
    return 0;
}

int vv_verify_progress(struct vv_verifier *verifier, uint64_t bytes) {
    const struct vv_verify_options *options = verifier->options;
    verifier->done += bytes;
    uint64_t done = verifier->done < verifier->total ? verifier->done : verifier->total;
    return options->progress && options->progress(options->arg, done, verifier->total) ? -EINTR : 0;
}

/* ---- small objects ---- */

static int note_record(struct vv_verifier *verifier, const struct vv_key *key, int rc, const struct vv_record *record) {
    struct vv_seen_record seen = {.attempt = {.generation = key->generation, .version = key->version}};
    seen.state = rc == 0 ? VV_SEEN_RECORD : rc == VARVE_FORGOTTEN ? VV_SEEN_TOMBSTONE : VV_SEEN_DAMAGED;
    if (rc == 0)
        seen.attempt.attempt = record->attempt;
    vv_buf_append(&verifier->records, &seen, sizeof seen);
    int named = rc == 0 ? vv_committed_by_record(&verifier->committed, record) : 0;
    return named < 0 ? named : verifier->records.failed;
}

static int parse_record(struct vv_verifier *verifier, const struct vv_key *key, const struct vv_buf *bytes,
                        struct varve_error *error) {
    struct vv_record record;
    int rc = vv_record_parse(bytes->data, bytes->size, key, verifier->store->id, &record, error);
    int noted = note_record(verifier, key, rc, &record);
    if (rc == 0)
        vv_record_clear(&record);
    return noted < 0 ? noted : rc;
}

static int parse_writers(struct vv_verifier *verifier, const struct vv_key *key, const struct vv_buf *bytes,
                         struct varve_error *error) {
    struct vv_writers writers;
    struct vv_tombstone given_up;
    if (vv_tombstone_parse(bytes->data, bytes->size, key, verifier->store->id, &given_up, NULL) == 0)
        return 0;
    int rc = vv_writers_parse(bytes->data, bytes->size, key, verifier->store->id, &writers, error);
    if (rc == 0)
        vv_writers_clear(&writers);
    return rc;
}

static int parse_catalogue(struct vv_verifier *verifier, const struct vv_key *key, const struct vv_buf *bytes,
                           struct varve_error *error) {
    struct vv_catalogue catalogue;
    int rc = vv_catalogue_parse(bytes->data, bytes->size, key, verifier->store->id, &catalogue, error);
    if (rc == 0) {
        rc = vv_committed_by_catalogue(&verifier->committed, &catalogue);
        vv_catalogue_clear(&catalogue);
    }
    return rc;
}

static int parse_heartbeat(struct vv_verifier *verifier, const struct vv_key *key, const struct vv_buf *bytes,
                           struct varve_error *error) {
    struct vv_heartbeat heartbeat;
    int rc = vv_heartbeat_parse(bytes->data, bytes->size, key, verifier->store->id, &heartbeat, error);
    return rc < 0 ? rc : vv_committed_by_heartbeat(&verifier->committed, &heartbeat);
}

/* A tombstone there: its checkpoint is being forgotten. */
static int parse_pin(struct vv_verifier *verifier, const struct vv_key *key, const struct vv_buf *bytes,
                     struct varve_error *error) {
    struct vv_pin pin;
    int rc = vv_pin_parse(bytes->data, bytes->size, key, verifier->store->id, &pin, error);
    return rc == VARVE_FORGOTTEN ? 0 : rc;
}

static int parse_small(struct vv_verifier *verifier, const struct vv_key *key, const struct vv_buf *bytes,
                       struct varve_error *error) {
    const uint8_t *id = verifier->store->id;
    struct vv_store_object store;
    struct vv_claim claim;
    struct vv_trigger trigger;
    const char *text;
    size_t size;
    switch (key->kind) {
    case VV_KIND_STORE:
        return vv_store_object_parse(bytes->data, bytes->size, &store, error);
    case VV_KIND_CLAIM:
        return vv_claim_parse(bytes->data, bytes->size, key, id, &claim, error);
    case VV_KIND_HEARTBEAT:
        return parse_heartbeat(verifier, key, bytes, error);
    case VV_KIND_WRITERS:
        return parse_writers(verifier, key, bytes, error);
    case VV_KIND_RECORD:
        return parse_record(verifier, key, bytes, error);
    case VV_KIND_CATALOGUE:
        return parse_catalogue(verifier, key, bytes, error);
    case VV_KIND_PIN:
        return parse_pin(verifier, key, bytes, error);
    case VV_KIND_TRIGGER:
        return vv_trigger_parse(bytes->data, bytes->size, key, id, &trigger, error);
    case VV_KIND_LOG:
        return vv_job_log_parse(bytes->data, bytes->size, key, id, &text, &size, error);
    default:
        return vv_error(error, -EINVAL, "kind %d", key->kind);
    }
}

int vv_verify_is_local(const struct vv_verifier *verifier) {
    return verifier->store->settings.layout == VV_LAYOUT_LOCAL;
}

static const char *rebuilt_how(const struct vv_verifier *verifier, int kind) {
    switch (kind) {
    case VV_KIND_WRITERS:
    case VV_KIND_RECORD:
        return vv_verify_is_local(verifier) ? "; the job's next restart copies it from another node"
                                            : "; repair can rebuild it";
    case VV_KIND_STORE:
    case VV_KIND_CATALOGUE:
        return "; repair can rebuild it";
    case VV_KIND_HEARTBEAT:
    case VV_KIND_CLAIM:
        return "; it is not needed to read, and repair can remove it";
    case VV_KIND_PIN:
        return "; it counts as a pin, and `varve unpin` removes it";
    case VV_KIND_TRIGGER:
        return "; nobody obeys it, and the next `varve trigger` replaces it";
    case VV_KIND_LOG:
        return "; only `varve report` reads it, and it may be removed";
    default:
        return "";
    }
}

static int check_small(struct vv_verifier *verifier, const struct vv_key *key, const char *text) {
    struct varve_error why = {0};
    struct vv_buf bytes;
    vv_buf_init(&bytes);
    int rc = vv_object_read(verifier->store, key, &bytes, &why);
    if (rc == 0)
        rc = parse_small(verifier, key, &bytes, &why);
    vv_buf_clear(&bytes);
    if (rc == VARVE_CORRUPT) {
        vv_verify_finding(verifier, VV_FINDING_DAMAGE, text, "%s%s", why.text, rebuilt_how(verifier, key->kind));
        return 0;
    }
    return vv_verify_evaluate(verifier, text, rc, &why);
}

static int check_part(struct vv_verifier *verifier, const struct vv_key *key, const char *text) {
    struct vv_pack_id id = {.store = verifier->store, .name = key->name, .writer = key->writer};
    struct varve_error why = {0};
    struct vv_head head;
    id.attempt = (struct vv_attempt){key->generation, key->attempt, key->version};
    int rc = vv_pack_head_check(&id, VV_KIND_PART, key->part, &head, &why);
    return vv_verify_evaluate(verifier, text, rc, &why);
}

/* ---- the walk ---- */

static int check_known(struct vv_verifier *verifier, const struct vv_key *key, const char *text) {
    switch (key->kind) {
    case VV_KIND_PACK:
        return vv_verify_pack(verifier, key);
    case VV_KIND_PART:
        return check_part(verifier, key, text);
    case VV_KIND_COPY:
        return vv_verify_copy(verifier, key);
    case VV_KIND_PARITY:
        return vv_verify_parity(verifier, key);
    default:
        return check_small(verifier, key, text);
    }
}

static int note_attempt(struct vv_verifier *verifier, const struct vv_key *key) {
    struct vv_attempts *set = &verifier->attempts;
    struct vv_attempt attempt = {key->generation, key->attempt, key->version};
    int has_data = key->kind == VV_KIND_PACK || key->kind == VV_KIND_PART || key->kind == VV_KIND_COPY ||
                   key->kind == VV_KIND_PARITY || key->kind == VV_KIND_WRITERS;
    if (!has_data || (set->count && vv_attempt_compare(&set->list[set->count - 1], &attempt) == 0))
        return 0;
    return vv_attempts_add(set, &attempt);
}

static int check_object(struct vv_verifier *verifier, const char *text) {
    struct vv_key key;
    uint64_t size = 0;
    int rc = vv_backend_stat(verifier->store->backend, text, &size);
    if (rc == -ENOENT)
        return 0;
    uint64_t before = verifier->done;
    verifier->result.objects++;
    verifier->result.bytes += size;
    if (vv_key_parse(text, &key) < 0) {
        vv_verify_finding(verifier, VV_FINDING_NOTE, text, "this is no key of the format; left alone");
        return vv_verify_progress(verifier, size);
    }
    rc = note_attempt(verifier, &key);
    if (rc == 0)
        rc = check_known(verifier, &key, text);
    verifier->done = before;
    return rc < 0 ? rc : vv_verify_progress(verifier, size);
}

struct listing {
    struct vv_buf text; /* 'p' or 'o', the component, NUL; again and again */
};

static int list_component(void *arg, const char *name, int is_prefix) {
    struct listing *listing = arg;
    vv_buf_u8(&listing->text, is_prefix ? 'p' : 'o');
    vv_buf_append(&listing->text, name, strlen(name) + 1);
    return listing->text.failed;
}

typedef int (*object_fn)(struct vv_verifier *verifier, const char *key);

/* fn for every object below prefix. The listing is complete before fn is called: fn uses the backend. */
static int walk(struct vv_verifier *verifier, const char *prefix, object_fn fn, struct varve_error *error) {
    struct listing listing;
    vv_buf_init(&listing.text);
    int rc = vv_backend_list(verifier->store->backend, prefix, NULL, 0, list_component, &listing);
    if (rc < 0)
        rc = vv_error_sys(error, rc, "list %s", *prefix ? prefix : "the store");
    const char *at = (const char *)listing.text.data, *end = at ? at + listing.text.size : at;
    for (; rc == 0 && at < end; at += strlen(at) + 1) {
        char key[VV_BACKEND_KEY_MAX + 1];
        int length = snprintf(key, sizeof key, "%s%s%s", prefix, *prefix ? "/" : "", at + 1);
        if (length < (int)sizeof key)
            rc = *at == 'p' ? walk(verifier, key, fn, error) : fn(verifier, key);
    }
    vv_buf_clear(&listing.text);
    return rc;
}

static int add_size(struct vv_verifier *verifier, const char *key) {
    uint64_t size;
    if (vv_backend_stat(verifier->store->backend, key, &size) == 0)
        verifier->total += size;
    return vv_verify_progress(verifier, 0);
}

/* ---- a name ---- */

static void clear_name(struct vv_verifier *verifier) {
    vv_pack_cache_destroy(verifier->cache);
    verifier->cache = NULL;
    vv_residents_destroy(verifier->residents);
    verifier->residents = NULL;
    verifier->elsewhere = 0;
    vv_buf_clear(&verifier->records);
    vv_buf_clear(&verifier->bad_packs);
    vv_attempts_clear(&verifier->attempts);
    vv_attempts_clear(&verifier->inspected);
    vv_attempts_clear(&verifier->committed);
}

static int check_checkpoints(struct vv_verifier *verifier) {
    const struct vv_seen_record *records = (const struct vv_seen_record *)verifier->records.data;
    size_t count = verifier->records.size / sizeof *records;
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        if (records[i].state == VV_SEEN_RECORD) {
            verifier->result.checkpoints++;
            rc = vv_verify_checkpoint(verifier, &records[i].attempt);
        }
    }
    return rc;
}

static void tell_elsewhere(struct vv_verifier *verifier) {
    if (verifier->elsewhere) {
        vv_verify_finding(
            verifier, VV_FINDING_NOTE, "",
            "%s: %llu packs of its checkpoints are not on this node: they are kept on other nodes, or missing; "
            "this cannot be told from here",
            verifier->name, (unsigned long long)verifier->elsewhere);
    }
}

static int verify_name(struct vv_verifier *verifier, const char *name, struct varve_error *error) {
    char prefix[VV_KEY_CAPACITY] = "n/";
    snprintf(verifier->name, sizeof verifier->name, "%s", name);
    vv_name_encode(name, prefix + 2);
    int rc = vv_pack_cache_create(VV_TABLES_BUDGET, &verifier->cache);
    if (rc == 0)
        rc = vv_residents_create(verifier->store, name, &verifier->residents);
    if (rc == 0)
        rc = walk(verifier, prefix, check_object, error);
    if (rc == 0)
        rc = check_checkpoints(verifier);
    if (rc == 0)
        rc = vv_verify_unrecorded(verifier);
    if (rc == 0)
        tell_elsewhere(verifier);
    clear_name(verifier);
    return rc;
}

static int add_name(void *arg, const char *name) {
    vv_buf_append(arg, name, strlen(name) + 1);
    return ((struct vv_buf *)arg)->failed;
}

static int verify_names(struct vv_verifier *verifier, struct varve_error *error) {
    struct vv_buf names;
    vv_buf_init(&names);
    int rc = vv_store_names(verifier->store, add_name, &names, error);
    const char *at = (const char *)names.data, *end = at ? at + names.size : at;
    for (; rc == 0 && at < end; at += strlen(at) + 1)
        rc = verify_name(verifier, at, error);
    vv_buf_clear(&names);
    return rc;
}

/* What lies beside the names: everything at the root, and components below `n` that are no names. */
static int verify_strangers(struct vv_verifier *verifier, const char *prefix, struct varve_error *error) {
    struct listing listing;
    vv_buf_init(&listing.text);
    int rc = vv_backend_list(verifier->store->backend, prefix, NULL, 0, list_component, &listing);
    const char *at = (const char *)listing.text.data, *end = at ? at + listing.text.size : at;
    for (; rc == 0 && at < end; at += strlen(at) + 1) {
        char key[VV_BACKEND_KEY_MAX + 1], name[VV_NAME_MAX + 1];
        int length = snprintf(key, sizeof key, "%s%s%s", prefix, *prefix ? "/" : "", at + 1);
        int is_known = *at == 'p' && (*prefix ? vv_name_decode(at + 1, name) == 0 : strcmp(at + 1, "n") == 0);
        if (!is_known && strcmp(key, "varve") != 0 && length < (int)sizeof key)
            rc = *at == 'p' ? walk(verifier, key, check_object, error) : check_object(verifier, key);
    }
    vv_buf_clear(&listing.text);
    return rc < 0 ? vv_error_default(error, rc, "list %s: %s", *prefix ? prefix : "the store", varve_error_text(rc))
                  : 0;
}

static int verify_store_object(struct vv_verifier *verifier) {
    uint64_t size;
    if (vv_backend_stat(verifier->store->backend, "varve", &size) == -ENOENT) {
        vv_verify_finding(verifier, VV_FINDING_DAMAGE, "varve", "the store object is missing; repair can rebuild it");
        return 0;
    }
    return check_object(verifier, "varve");
}

static int measure_total(struct vv_verifier *verifier, struct varve_error *error) {
    char prefix[VV_KEY_CAPACITY] = "";
    if (!verifier->options->progress)
        return 0;
    if (verifier->options->name) {
        memcpy(prefix, "n/", 3);
        vv_name_encode(verifier->options->name, prefix + 2);
    }
    return walk(verifier, prefix, add_size, error);
}

int vv_verify(struct vv_store *store, const struct vv_verify_options *options, struct vv_verify_result *out,
              struct varve_error *error) {
    struct vv_verifier verifier = {.store = store, .options = options};
    if (options->name && vv_name_check(options->name) < 0)
        return vv_error(error, -EINVAL, "this is no name of checkpoints: %.80s", options->name);
    int rc = measure_total(&verifier, error);
    if (rc == 0)
        rc = verify_store_object(&verifier);
    if (rc == 0 && options->name) {
        rc = verify_name(&verifier, options->name, error);
    } else if (rc == 0) {
        rc = verify_strangers(&verifier, "", error);
        rc = rc < 0 ? rc : verify_strangers(&verifier, "n", error);
        rc = rc < 0 ? rc : verify_names(&verifier, error);
    }
    if (rc < 0)
        return vv_error_default(error, rc, "verify ended early: %s", varve_error_text(rc));
    *out = verifier.result;
    return 0;
}
