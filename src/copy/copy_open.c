/* The store that a copy goes to. What is encrypted stays so. */
#include "base/error.h"
#include "copy/copy.h"
#include "storage/storage.h"

static int is_sealed(struct vv_store *store) {
    return vv_sealed_secret(store->backend, NULL) != NULL;
}

static int refuse_plain(const char *from, const char *to, struct varve_error *error) {
    return vv_error(error, VARVE_KEY,
                    "the store %.150s is encrypted, and %.150s is not, or would not be: give a new store and set "
                    "encrypt=on, or one that is encrypted with the same key",
                    from, to);
}

int vv_copy_check_keys(struct vv_store *from, const char *from_address, struct vv_store *to, const char *to_address,
                       struct varve_error *error) {
    return is_sealed(from) && !is_sealed(to) ? refuse_plain(from_address, to_address, error) : 0;
}

/* Without encrypt=on no store is made for what is encrypted, and one that is there must be encrypted. */
static int open_backend(const struct vv_copy_place *place, struct vv_backend_options *options,
                        struct varve_backend **out, struct varve_error *error) {
    int must_seal = is_sealed(place->from);
    if (must_seal && !options->encrypt)
        options->may_create = 0;
    int rc = vv_backend_open(place->address, options, out, error);
    if (rc == VARVE_NO_STORE && must_seal && !options->encrypt)
        return refuse_plain(place->from_address, place->address, error);
    if (rc < 0 || !must_seal || vv_sealed_secret(*out, NULL))
        return rc;
    vv_backend_close(*out);
    *out = NULL;
    return refuse_plain(place->from_address, place->address, error);
}

int vv_copy_open(const struct vv_copy_place *place, struct vv_store **out, struct varve_error *error) {
    const struct vv_settings *settings = place->settings;
    struct varve_backend *backend = NULL;
    struct vv_backend_options options = {
        .may_create = !place->is_dry_run,
        .direct = settings->direct,
        .mode = settings->mode,
        .min_free = settings->min_free,
        .owner = settings->owner,
        .purpose = place->is_dry_run ? VV_FOR_READING : VV_FOR_WRITING,
        .encrypt = settings->encrypt,
        .key = settings->key,
        .log = place->log,
    };
    int rc = open_backend(place, &options, &backend, error);
    if (rc == 0)
        rc = vv_store_open(backend, place->is_dry_run ? VV_STORE_READ : VV_STORE_WRITE, place->log, out, error);
    if (rc == VARVE_NO_STORE && place->is_dry_run) {
        vv_error_clear(error);
        return 0;
    }
    if (rc < 0)
        vv_error_default(error, rc, "cannot open the store at %s: %s", place->address, varve_error_text(rc));
    return vv_error_store(error, rc, place->address);
}
