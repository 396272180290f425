/* The keys of an encrypted store.
 *
 * All objects are sealed with the store's own key, which is random and never changes. It lies in the store twice, as
 * keys/0 and keys/1, each sealed with the key that the user gives: to change that one, these two are written anew. Both
 * are small; if both were lost, so were all checkpoints.
 *
 * A store is made in this order: keys/1, keys/0, the store object. The first to make keys/1 chooses the store's key;
 * everybody else takes it. So a store that has a store object has both. They are changed in the order keys/0, keys/1:
 * until both are changed, the old key opens the store, too, with a warning. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/thread.h"
#include "storage/keys_private.h"

static const char *const copies[] = {"keys/0", "keys/1"};

/* ---- one copy ---- */

/* VARVE_KEY: it was sealed with another key. error says what is wrong with it. */
static int open_copy(const struct vv_secret *user, const char *name, const uint8_t *bytes, size_t size,
                     uint8_t key[VV_SEALED_KEY], struct varve_error *error) {
    uint8_t object_key[VV_SEALED_KEY];
    struct varve_cipher *cipher = NULL;
    if (vv_sealed_is_head(bytes, size) && memcmp(bytes + 32, user->id, sizeof user->id) != 0)
        return vv_error(error, VARVE_KEY, "%s is for another key", name);
    const char *wrong = vv_sealed_head_wrong(user, name, bytes, size);
    if (wrong || size != VV_KEYS_COPY)
        return vv_error(error, VARVE_CORRUPT, "%s is damaged: %s", name, wrong ? wrong : "its length is wrong");
    int result = vv_sealed_key(user, name, bytes, object_key);
    if (result == 0)
        result = user->cipher->begin(object_key, &cipher);
    if (result == 0)
        result = vv_sealed_take(user->cipher, cipher, 0, bytes + VV_SEALED_HEAD, VV_SEALED_KEY, key);
    user->cipher->end(cipher);
    explicit_bzero(object_key, sizeof object_key);
    if (result == -EBADMSG)
        return vv_error(error, VARVE_CORRUPT, "%s is damaged: it was changed after it was written", name);
    return result < 0 ? vv_error_sys(error, result, "cannot open %s", name) : 0;
}

static int read_copy(struct varve_backend *inner, const struct vv_secret *user, const char *name,
                     uint8_t key[VV_SEALED_KEY], struct varve_error *error) {
    uint8_t bytes[VV_KEYS_COPY + 1];
    int64_t got = vv_backend_get(inner, name, 0, bytes, sizeof bytes);
    if (got < 0)
        return vv_error_sys(error, (int)got, "cannot read %s", name);
    return open_copy(user, name, bytes, (size_t)got, key, error);
}

static int foreign_copy(const char *name, struct varve_error *error) {
    return vv_error(error, VARVE_CORRUPT, "%s is damaged: it has the key of another store", name);
}

/* As read_copy, and it must have this key. */
static int check_copy(struct varve_backend *inner, const struct vv_secret *user, const char *name,
                      const uint8_t key[VV_SEALED_KEY], struct varve_error *error) {
    uint8_t found[VV_SEALED_KEY];
    int result = read_copy(inner, user, name, found, error);
    if (result == 0 && memcmp(found, key, sizeof found) != 0)
        result = foreign_copy(name, error);
    explicit_bzero(found, sizeof found);
    return result;
}

/* What was written must open: a store whose keys cannot be read is lost. */
static int write_copy(struct varve_backend *inner, const struct vv_secret *user, const char *name,
                      const uint8_t key[VV_SEALED_KEY], int may_replace, struct varve_error *error) {
    uint8_t bytes[VV_KEYS_COPY];
    int result = vv_sealed_whole(user, name, key, VV_SEALED_KEY, bytes);
    if (result == 0)
        result = may_replace ? vv_backend_replace(inner, name, bytes, sizeof bytes)
                             : vv_backend_put(inner, name, bytes, sizeof bytes);
    if (result < 0)
        return vv_error_sys(error, result, "cannot write %s", name);
    result = check_copy(inner, user, name, key, error);
    if (result == -ENOENT) /* must not be taken for a store that has no keys */
        result = vv_error(error, -EIO, "%s was written, and is not there", name);
    return result;
}

/* ---- finding them ---- */

static int wrong_key(const struct vv_secret *user, const char *place, struct varve_error *error) {
    return vv_error(error, VARVE_KEY,
                    "the store %.250s is encrypted with another key than the one given, whose id begins with "
                    "%02x%02x%02x%02x; nothing was changed; key=file:PATH, env:NAME or command:TEXT gives another",
                    place, user->id[0], user->id[1], user->id[2], user->id[3]);
}

static int tell_missing(const struct vv_log *log, const char *place, const struct varve_error *first) {
    vv_log(
        log, VV_LOG_WARN,
        "the store %s was opened with its second key, keys/1: %s. If its key is being changed, finish that: varve key "
        "%s change NEW",
        place, first->text, place);
    return 0;
}

/* Is it the key that the store object was sealed with? 1, too, if nothing tells. */
static int is_of_store(struct varve_backend *inner, const struct vv_secret *user, const uint8_t key[VV_SEALED_KEY]) {
    uint8_t head[VV_SEALED_HEAD];
    struct vv_secret secret;
    int64_t got = vv_backend_get(inner, "varve", 0, head, sizeof head);
    int is_same = got != sizeof head || !vv_sealed_is_head(head, sizeof head) ||
                  vv_secret_init(&secret, user->cipher, key) < 0 || memcmp(head + 32, secret.id, sizeof secret.id) == 0;
    vv_secret_clear(&secret);
    return is_same;
}

/* The first copy opens. With the same user's key, so does one that was brought here from another store: if only the
 * second one is of this store, take that. If neither is, the store object may be the one that was brought. */
static void prefer_own(struct varve_backend *inner, const struct vv_secret *user, const struct vv_log *log,
                       const char *place, uint8_t key[VV_SEALED_KEY]) {
    uint8_t second[VV_SEALED_KEY];
    struct varve_error why;
    if (is_of_store(inner, user, key))
        return;
    if (read_copy(inner, user, copies[1], second, &why) == 0 && is_of_store(inner, user, second)) {
        memcpy(key, second, sizeof second);
        foreign_copy(copies[0], &why);
        tell_missing(log, place, &why);
    }
    explicit_bzero(second, sizeof second);
}

/* -ENOENT: there are no keys. Who makes stores also makes a first copy that is missing: its maker has died. */
static int find_key(struct varve_backend *inner, const struct vv_secret *user, const struct vv_backend_options *options,
                    const char *place, uint8_t key[VV_SEALED_KEY], struct varve_error *error) {
    struct varve_error first, second;
    int result = read_copy(inner, user, copies[0], key, &first);
    if (result == 0) {
        prefer_own(inner, user, options->log, place, key);
        return 0;
    }
    int other = read_copy(inner, user, copies[1], key, &second);
    if (other == 0 && result == -ENOENT && options->may_create)
        other = write_copy(inner, user, copies[0], key, 0, &second);
    else if (other == 0)
        return tell_missing(options->log, place, &first);
    if (other == -EEXIST) /* somebody else has made it meanwhile */
        return read_copy(inner, user, copies[0], key, error);
    if (other == 0 || (result == -ENOENT && other == -ENOENT))
        return other;
    if (result == VARVE_KEY || other == VARVE_KEY)
        return wrong_key(user, place, error);
    return vv_error(error, result == -ENOENT ? other : result, "the keys of the store %.150s cannot be read: %.150s",
                    place, result == -ENOENT ? second.text : first.text);
}

/* ---- making them ---- */

struct root_look {
    int has_store, has_names, is_foreign;
};

static int look_at_root(void *arg, const char *name, int is_prefix) {
    struct root_look *look = arg;
    (void)is_prefix;
    if (strcmp(name, "varve") == 0)
        look->has_store = 1;
    else if (strcmp(name, "n") == 0)
        look->has_names = 1;
    else if (strcmp(name, "keys") != 0)
        look->is_foreign = 1;
    return 0;
}

/* From the first of the two copies that opens, and has the key of that store. */
static int take_copied_key(const struct vv_secret *user, const struct vv_keys *like, uint8_t key[VV_SEALED_KEY],
                           struct varve_error *error) {
    struct vv_secret secret = {0};
    int result = VARVE_CORRUPT;
    for (int i = 0; i < 2 && result < 0; i++) {
        result = open_copy(user, copies[i], like->copies[i], VV_KEYS_COPY, key, error);
        if (result == 0 && (result = vv_secret_init(&secret, user->cipher, key)) < 0)
            vv_error_sys(error, result, "the cipher does not work");
        if (result == 0 && memcmp(secret.id, like->id, sizeof like->id) != 0)
            result = foreign_copy(copies[i], error);
    }
    vv_secret_clear(&secret);
    return result;
}

static int choose_key(const struct vv_secret *user, const struct vv_keys *like, uint8_t key[VV_SEALED_KEY],
                      struct varve_error *error) {
    if (like)
        return take_copied_key(user, like, key, error);
    int result = vv_random(key, VV_SEALED_KEY);
    return result < 0 ? vv_error_sys(error, result, "cannot choose the key of a new store") : 0;
}

static int make_keys(struct varve_backend *inner, const struct vv_secret *user, const struct vv_keys *like,
                     const char *place, uint8_t key[VV_SEALED_KEY], struct varve_error *error) {
    int result = choose_key(user, like, key, error);
    for (int i = 1; i >= 0 && result == 0; i--) {
        if ((result = VV_FAULT(i ? "storage.keys.before_make" : "storage.keys.between_make")) < 0)
            return vv_error_sys(error, result, "cannot make the keys of the store");
        result = write_copy(inner, user, copies[i], key, 0, error);
        if (result == -EEXIST)
            result = read_copy(inner, user, copies[i], key, error);
        if (result == VARVE_KEY)
            result = wrong_key(user, place, error);
    }
    return result;
}

/* There are no keys: is there a store, and may one be made? */
static int begin_store(struct varve_backend *inner, const struct vv_secret *user,
                       const struct vv_backend_options *options, const char *place, uint8_t key[VV_SEALED_KEY],
                       struct varve_error *error) {
    struct root_look look = {0};
    int result = vv_backend_list(inner, "", NULL, 0, look_at_root, &look);
    if (result < 0)
        return vv_error_sys(error, result, "cannot look whether there is a store at %.300s", place);
    if (look.has_store || look.has_names)
        return vv_error(
            error, VARVE_KEY,
            "the store %.250s has no keys: it is not encrypted, and encrypt=on does not make it so, or they "
            "were lost; give another folder",
            place);
    if (look.is_foreign || !options->may_create)
        return vv_error(error, VARVE_NO_STORE, "there is no store at %.300s%s", place,
                        look.is_foreign ? ", but other files: give a new or an empty folder" : "");
    return make_keys(inner, user, options->keys_like, place, key, error);
}

static int find_or_make(struct varve_backend *inner, const struct vv_secret *user,
                        const struct vv_backend_options *options, const char *place, uint8_t key[VV_SEALED_KEY],
                        struct varve_error *error) {
    int result = find_key(inner, user, options, place, key, error);
    if (result != -ENOENT || !options->encrypt)
        return result;
    result = begin_store(inner, user, options, place, key, error);
    if (result != VARVE_KEY)
        return result;
    /* Somebody may have made keys and store between the two looks. */
    int again = find_key(inner, user, options, place, key, error);
    return again == -ENOENT ? begin_store(inner, user, options, place, key, error) : again;
}

static int read_user(const char *source, struct vv_secret *user, struct varve_error *error) {
    const struct varve_cipher_ops *cipher = NULL;
    uint8_t key[VV_SEALED_KEY];
    int result = vv_cipher_load(&cipher, error);
    if (result == 0)
        result = vv_key_read(source, key, error);
    if (result == 0 && (result = vv_secret_init(user, cipher, key)) < 0)
        vv_error_sys(error, result, "the cipher does not work");
    explicit_bzero(key, sizeof key);
    return result;
}

int vv_keys_open(struct varve_backend **backend, const struct vv_backend_options *options, const char *place,
                 struct varve_error *error) {
    struct vv_secret user, secret;
    uint8_t key[VV_SEALED_KEY];
    if (!options->key || !*options->key)
        return options->encrypt ? vv_error(error, VARVE_SETTING,
                                           "encrypt=on needs a key: set key to file:PATH, env:NAME or command:TEXT")
                                : 0;
    int result = read_user(options->key, &user, error);
    if (result < 0)
        return result;
    result = find_or_make(*backend, &user, options, place, key, error);
    if (result == 0 && ((result = vv_secret_init(&secret, user.cipher, key)) < 0 ||
                        (result = vv_sealed_backend_wrap(*backend, &secret, options->log, backend)) < 0))
        vv_error_sys(error, result, "cannot open the encrypted store %.300s", place);
    explicit_bzero(key, sizeof key);
    vv_secret_clear(&user);
    vv_secret_clear(&secret);
    return result == -ENOENT && !options->encrypt ? 0 : result; /* a store without keys, and nobody wants any */
}

/* ---- changing them ---- */

int vv_keys_check(struct varve_backend *backend, const char *source, const char **bad, struct varve_error *error) {
    struct varve_backend *inner;
    struct vv_secret user;
    const struct vv_secret *secret = vv_sealed_secret(backend, &inner);
    if (!secret)
        return 0;
    int result = read_user(source, &user, error);
    for (int i = 0; i < 2 && result == 0; i++)
        if ((result = check_copy(inner, &user, copies[i], secret->key, error)) < 0)
            *bad = copies[i];
    vv_secret_clear(&user);
    return result < 0 ? result : 1;
}

/* Before the first copy changes, the second one must be good. */
static int change_copies(struct varve_backend *inner, const struct vv_secret *from, const struct vv_secret *to,
                         const uint8_t key[VV_SEALED_KEY], struct varve_error *error) {
    int result = check_copy(inner, from, copies[1], key, error);
    if (result < 0)
        result = write_copy(inner, from, copies[1], key, 1, error);
    for (int i = 0; i < 2 && result == 0; i++) {
        if ((result = VV_FAULT(i ? "storage.keys.between_change" : "storage.keys.before_change")) < 0)
            return vv_error_sys(error, result, "cannot change the key");
        result = write_copy(inner, to, copies[i], key, 1, error);
    }
    return result;
}

int vv_keys_change(struct varve_backend *backend, const char *source, const char *new_source,
                   struct varve_error *error) {
    struct varve_backend *inner;
    struct vv_secret from = {0}, to = {0};
    const struct vv_secret *secret = vv_sealed_secret(backend, &inner);
    if (!secret)
        return vv_error(error, VARVE_KEY, "the store is not encrypted: it has no key that could be changed");
    int result = read_user(source, &from, error);
    if (result == 0)
        result = read_user(new_source, &to, error);
    if (result == 0)
        result = change_copies(inner, &from, &to, secret->key, error);
    vv_secret_clear(&from);
    vv_secret_clear(&to);
    return result;
}

/* In the order in which they are made: whoever dies here leaves a store that opens. */
static int write_missing(struct varve_backend *inner, const char *source, const uint8_t key[VV_SEALED_KEY],
                         const int is_there[2], struct varve_error *error) {
    struct vv_secret user = {0};
    int result = read_user(source, &user, error), count = 0;
    for (int i = 1; i >= 0 && result == 0; i--)
        if (is_there[i]) { /* perhaps of a store that was made here meanwhile */
            result = check_copy(inner, &user, copies[i], key, error);
        } else {
            result = write_copy(inner, &user, copies[i], key, 0, error);
            count++;
        }
    vv_secret_clear(&user);
    return result < 0 ? result : count;
}

int vv_keys_restore(struct varve_backend *backend, const char *source, struct varve_error *error) {
    struct varve_backend *inner;
    const struct vv_secret *secret = vv_sealed_secret(backend, &inner);
    int is_there[2] = {1, 1};
    for (int i = 0; i < 2 && secret; i++) {
        uint64_t size;
        int result = vv_backend_stat(inner, copies[i], &size);
        if (result < 0 && result != -ENOENT)
            return vv_error_sys(error, result, "cannot look at %s", copies[i]);
        is_there[i] = result == 0;
    }
    return is_there[0] && is_there[1] ? 0 : write_missing(inner, source, secret->key, is_there, error);
}

int vv_keys_get(struct varve_backend *backend, struct vv_keys *out, struct varve_error *error) {
    struct varve_backend *inner;
    const struct vv_secret *secret = vv_sealed_secret(backend, &inner);
    int64_t got[2];
    if (!secret)
        return 0;
    memset(out, 0, sizeof *out);
    memcpy(out->id, secret->id, sizeof out->id);
    for (int i = 0; i < 2; i++)
        got[i] = vv_backend_get(inner, copies[i], 0, out->copies[i], VV_KEYS_COPY);
    if (got[0] == VV_KEYS_COPY || got[1] == VV_KEYS_COPY)
        return 1;
    return vv_error_sys(error, got[0] < 0 ? (int)got[0] : VARVE_CORRUPT, "cannot read keys/0 and keys/1");
}
