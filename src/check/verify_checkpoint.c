/* A checkpoint as a whole: the objects it needs are there, its recipes can be followed, and the digest of every
 * region follows from the stored ids of its granules. Where a granule has no stored id of its own (runs finer than
 * granules, packs without ids, packs found damaged), its bytes are fetched, a window of them at a time. */
#include "base/alloc.h"
#include "base/content_id.h"
#include "base/error.h"
#include "base/search.h"
#include "check/verify_private.h"

#include <errno.h>

#define WINDOW_GRANULES 16384 /* blocks that reach from one window into the next are read again */
#define PACK_STATES 64
#define IDS_AT_ONCE 256

struct slot {
    uint64_t granule;
    uint32_t size;
};

/* Whether a pack is gone: neighbouring runs may be of many packs. */
struct pack_state {
    int is_known, is_lost;
    uint32_t source, writer;
};

struct region_check {
    struct vv_verifier *verifier;
    struct vv_view *view;
    struct vv_seeker seeker;
    struct vv_fetch *fetch;
    uint8_t *window;
    struct pack_state dispositions[PACK_STATES]; /* of some packs of the view */
    struct slot slots[WINDOW_GRANULES];
    unsigned slot_count;
    const struct vv_recipe_region *region;
    struct vv_hash128 digest;
    int is_incomplete; /* quick, and bytes would have been needed; or they are on other nodes */
    int is_lost;       /* the run's pack is: where its bytes are must be found out, be it quick or not */
    int is_partial;    /* owners were left out, since what they need is on other nodes */
    uint64_t regions;
    uint64_t bytes;
    struct vv_unreadable lost;
};

static void add_term(struct region_check *check, uint64_t granule, struct vv_hash128 id) {
    if (!vv_hash128_is_zero(id))
        check->digest = vv_hash128_add(check->digest, vv_digest_term(granule, id));
}

static struct vv_hash128 id_of(const struct region_check *check, const uint8_t *data, size_t size) {
    struct vv_hash128 zero = {0, 0};
    return vv_is_zero(data, size) ? zero : vv_id(vv_view_seed(check->view), data, size);
}

/* ---- granules from bytes ---- */

static int flush(struct region_check *check, struct varve_error *error) {
    int rc = vv_fetch_run(check->fetch, error);
    for (unsigned i = 0; i < check->slot_count && rc == 0; i++) {
        const uint8_t *data = check->window + (size_t)i * VV_GRANULE;
        add_term(check, check->slots[i].granule, id_of(check, data, check->slots[i].size));
    }
    check->slot_count = 0;
    return rc < 0 ? rc : vv_verify_progress(check->verifier, 0);
}

/* Where in the window the byte at this offset of the region goes. A full window is emptied between granules only. */
static int find_slot(struct region_check *check, uint64_t offset, uint8_t **out, struct varve_error *error) {
    uint64_t granule = offset / VV_GRANULE, left = check->region->length - granule * VV_GRANULE;
    unsigned last = check->slot_count - 1;
    if (check->slot_count == 0 || check->slots[last].granule != granule) {
        int rc = check->slot_count == WINDOW_GRANULES ? flush(check, error) : 0;
        if (rc < 0)
            return rc;
        last = check->slot_count++;
        check->slots[last] = (struct slot){granule, left < VV_GRANULE ? (uint32_t)left : VV_GRANULE};
    }
    *out = check->window + (size_t)last * VV_GRANULE + offset % VV_GRANULE;
    return 0;
}

/* Bytes [skip, skip + size) of the run into the window. */
static int take_bytes(struct region_check *check, const struct vv_run *run, uint64_t skip, uint64_t size,
                      struct varve_error *error) {
    if (check->verifier->options->is_quick && !check->is_lost) {
        check->is_incomplete = 1;
        return 0;
    }
    while (size) {
        uint64_t offset = run->offset + skip, n = VV_GRANULE - offset % VV_GRANULE;
        uint8_t *out = NULL;
        n = n < size ? n : size;
        int rc = find_slot(check, offset, &out, error);
        if (rc == 0)
            rc = vv_fetch_add(check->fetch, run, skip, n, out, 0, error);
        if (rc < 0)
            return rc;
        skip += n;
        size -= n;
    }
    return 0;
}

/* ---- granules from ids ---- */

/* size bytes of whole granules (the last may be the region's short one) that the run holds from skip on. */
static int take_granules(struct region_check *check, const struct vv_run *run, uint64_t skip, uint64_t size,
                         struct varve_error *error) {
    struct vv_hash128 ids[IDS_AT_ONCE];
    while (size) {
        struct vv_place place = run->places[0];
        uint32_t count;
        uint64_t covered;
        place.address += skip;
        int rc = vv_seek_ids(&check->seeker, &place, size, ids, IDS_AT_ONCE, &count, &covered, error);
        if (rc < 0 && run->place_count == 1 && !check->is_lost)
            return rc;
        for (uint32_t i = 0; i < count && rc == 0; i++)
            add_term(check, (run->offset + skip) / VV_GRANULE + i, ids[i]);
        if (rc < 0 || count == 0) { /* up to the next granule that may have an id */
            covered = rc < 0 || covered < VV_GRANULE ? VV_GRANULE : covered - covered % VV_GRANULE;
            covered = covered < size ? covered : size;
            rc = take_bytes(check, run, skip, covered, error);
        }
        if (rc < 0)
            return rc;
        skip += covered;
        size -= covered;
    }
    return 0;
}

/* Pieces that fit a granule evenly make all its whole granules alike. */
static int take_repeated(struct region_check *check, const struct vv_run *run, uint64_t skip, uint64_t size,
                         struct varve_error *error) {
    uint64_t whole = size / VV_GRANULE;
    if (VV_GRANULE % run->piece || whole < 2 || check->verifier->options->is_quick)
        return take_bytes(check, run, skip, size, error);
    int rc = flush(check, error);
    if (rc == 0)
        rc = vv_fetch_add(check->fetch, run, skip, VV_GRANULE, check->window, 0, error);
    if (rc == 0)
        rc = vv_fetch_run(check->fetch, error);
    if (rc < 0)
        return rc;
    struct vv_hash128 id = id_of(check, check->window, VV_GRANULE);
    for (uint64_t i = 0; i < whole && rc == 0; i++) { /* a few bytes may stand for any number: let it be interrupted */
        add_term(check, (run->offset + skip) / VV_GRANULE + i, id);
        rc = i % (1u << 20) == 0 ? vv_verify_progress(check->verifier, 0) : 0;
    }
    if (rc < 0)
        return rc;
    return take_bytes(check, run, skip + whole * VV_GRANULE, size - whole * VV_GRANULE, error);
}

/* Places beyond the first are not used for the digest, but must be there. */
static int check_other_places(struct region_check *check, const struct vv_run *run, struct varve_error *error) {
    for (uint32_t i = 1; i < run->place_count; i++) {
        struct vv_place place = run->places[i];
        for (uint64_t done = 0; done < run->length;) {
            struct vv_spot spot;
            int rc = vv_seek(&check->seeker, &place, &spot, error);
            if (rc < 0)
                return rc;
            done += spot.length;
            place.address += spot.length;
        }
    }
    return 0;
}

/* Of a node-local store: is a pack that this run comes from on another node? 1, 0, or an error. */
static int is_out_of_sight(struct region_check *check, const struct vv_run *run, struct varve_error *error) {
    int rc = 0;
    for (uint32_t i = 0; i < run->place_count && rc == 0 && vv_verify_is_local(check->verifier); i++) {
        uint32_t home = 0;
        rc = vv_seek_home(&check->seeker, &run->places[i], &home, error);
        if (rc == 0) {
            const struct vv_attempt *attempt = vv_view_source(check->view, run->places[i].dependency);
            rc = vv_pack_is_elsewhere(check->verifier->residents, attempt, home, error);
        }
    }
    return rc;
}

/* Is the pack gone that the run's first place is in? 1, 0, or an error. */
static int is_lost(struct region_check *check, const struct vv_run *run, struct varve_error *error) {
    uint32_t home = 0, source = run->place_count ? run->places[0].dependency : 0;
    struct vv_cached *footer = NULL;
    int rc = run->place_count ? vv_seek_home(&check->seeker, &run->places[0], &home, error) : 0;
    if (rc < 0 || !run->place_count)
        return rc;
    struct pack_state *vote_state = &check->dispositions[(source * 7 + home) % PACK_STATES];
    if (vote_state->is_known && vote_state->source == source && vote_state->writer == home)
        return vote_state->is_lost;
    rc = vv_view_footer(check->view, source, home, &footer, error);
    if (rc < 0)
        return rc == VARVE_CORRUPT ? 1 : rc; /* perhaps a partner has the bytes */
    rc = ((const struct vv_view_footer *)footer->object)->kind == VV_KIND_COPY;
    vv_view_release(check->view, footer);
    *vote_state = (struct pack_state){.is_known = 1, .is_lost = rc, .source = source, .writer = home};
    return rc;
}

static int check_run(struct region_check *check, const struct vv_run *run, struct varve_error *error) {
    uint64_t end = run->offset + run->length;
    uint64_t head = (VV_GRANULE - run->offset % VV_GRANULE) % VV_GRANULE;
    uint64_t tail = end == check->region->length ? 0 : end % VV_GRANULE;
    int rc = is_out_of_sight(check, run, error);
    if (rc != 0) {
        check->is_incomplete |= rc > 0;
        return rc < 0 ? rc : 0;
    }
    rc = is_lost(check, run, error);
    if (rc < 0)
        return rc;
    check->is_lost = rc;
    rc = check_other_places(check, run, error);
    if (rc < 0)
        return rc;
    if (head + tail >= run->length && (head || tail))
        return take_bytes(check, run, 0, run->length, error);
    uint64_t middle = run->length - head - tail;
    rc = take_bytes(check, run, 0, head, error);
    if (rc == 0 && run->kind == VV_RUN_REPEATED)
        rc = take_repeated(check, run, head, middle, error);
    else if (rc == 0 && run->kind != VV_RUN_ZERO)
        rc = take_granules(check, run, head, middle, error);
    return rc < 0 ? rc : take_bytes(check, run, head + middle, tail, error);
}

/* ---- regions and owners ---- */

/* What a fetch still had to do when it failed is forgotten. */
static int renew_fetch(struct region_check *check, struct varve_error *error) {
    vv_fetch_destroy(check->fetch);
    check->fetch = NULL;
    check->slot_count = 0;
    int rc = vv_fetch_create(check->view, check->verifier->options->pool, &check->fetch);
    return rc < 0 ? vv_error_sys(error, rc, "check a checkpoint") : 0;
}

static int check_runs(struct region_check *check, struct vv_recipe *recipe, int *is_recipe_bad,
                      struct varve_error *error) {
    struct vv_run run;
    int rc;
    while ((rc = vv_recipe_next_run(recipe, &run, error)) > 0) {
        rc = check_run(check, &run, error);
        if (rc < 0)
            return rc;
    }
    *is_recipe_bad = rc < 0;
    return rc < 0 ? rc : flush(check, error);
}

/* Damage is noted, and the next region looked at; unless the recipe cannot be followed any more. */
static int check_region(struct region_check *check, struct vv_recipe *recipe, uint32_t owner,
                        const struct vv_recipe_region *region, struct varve_error *error) {
    int is_recipe_bad = 0;
    check->region = region;
    check->digest = (struct vv_hash128){0, 0};
    check->is_incomplete = 0;
    int rc = check_runs(check, recipe, &is_recipe_bad, error);
    if (rc == 0 && !check->is_incomplete && !vv_hash128_equal(check->digest, region->digest))
        rc = vv_error(error, VARVE_CORRUPT, "its digest is not that of its bytes");
    check->regions++;
    check->bytes += region->length;
    if (rc == VARVE_CORRUPT && !is_recipe_bad) {
        vv_unreadable_add(&check->lost, region->name, owner, error);
        vv_error_clear(error);
        rc = renew_fetch(check, error);
    }
    return rc;
}

/* Damage that leaves nothing of this rank to look at. */
static int note_owner(struct region_check *check, uint32_t owner, int rc, struct varve_error *error) {
    if (rc != VARVE_CORRUPT)
        return rc;
    vv_unreadable_add(&check->lost, NULL, owner, error);
    vv_error_clear(error);
    return renew_fetch(check, error);
}

static int check_owner(struct region_check *check, uint32_t owner, struct varve_error *error) {
    struct vv_recipe *recipe = NULL;
    struct vv_recipe_region region;
    int rc = vv_recipe_open(check->view, owner, &recipe, error);
    if (rc == VARVE_CORRUPT) { /* a rank that has moved to this node may have layers of its manifest on another */
        struct varve_error why = {0};
        int is_elsewhere = vv_owner_needs_others(check->verifier->residents, check->view, owner, &why);
        check->is_partial |= is_elsewhere == 1;
        rc = is_elsewhere == 1 ? 0 : rc;
    }
    if (!recipe)
        return note_owner(check, owner, rc, error);
    while ((rc = vv_recipe_next_region(recipe, &region, error)) > 0) {
        rc = check_region(check, recipe, owner, &region, error);
        if (rc < 0)
            break;
    }
    vv_recipe_close(recipe);
    return note_owner(check, owner, rc, error);
}

/* What the packs that are here say there is; those that are not are taken off what the record says. */
static int expect_here(struct region_check *check, uint64_t *regions, uint64_t *bytes, struct varve_error *error) {
    struct vv_residents *residents = check->verifier->residents;
    int rc = 0;
    *regions = *bytes = 0;
    for (uint32_t writer = 0; rc == 0 && writer < vv_view_record(check->view)->writers; writer++) {
        struct vv_cached *cached = NULL;
        rc = vv_pack_is_elsewhere(residents, vv_view_attempt(check->view), writer, error);
        if (rc != 0) {
            rc = rc < 0 ? rc : 0;
            continue;
        }
        rc = vv_view_footer(check->view, 0, writer, &cached, error);
        if (rc == 0) {
            const struct vv_footer *footer = cached->object;
            *regions += footer->regions;
            *bytes += footer->protected_bytes;
            vv_view_release(check->view, cached);
        }
    }
    return rc;
}

static int check_sums(struct region_check *check, uint64_t regions, uint64_t bytes, const char *who,
                      struct varve_error *error) {
    if (check->regions == regions && check->bytes == bytes)
        return 0;
    return vv_error(error, VARVE_CORRUPT, "there are %llu regions with %llu bytes, but %s %llu and %llu",
                    (unsigned long long)check->regions, (unsigned long long)check->bytes, who,
                    (unsigned long long)regions, (unsigned long long)bytes);
}

static int check_owners(struct region_check *check, struct varve_error *error) {
    const struct vv_record *record = vv_view_record(check->view);
    uint64_t regions, bytes;
    int is_partial = 0;
    for (uint32_t owner = 0; owner < record->ranks; owner++) {
        int rc = vv_owner_is_elsewhere(check->verifier->residents, check->view, owner, error);
        is_partial |= rc > 0;
        if (rc == 0)
            rc = check_owner(check, owner, error);
        if (rc < 0)
            return rc;
    }
    if (check->lost.count)
        return vv_unreadable_error(&check->lost, error);
    if (check->is_partial)
        return 0;
    if (!is_partial)
        return check_sums(check, record->regions, record->protected_bytes, "the record says", error);
    int rc = expect_here(check, &regions, &bytes, error);
    return rc < 0 ? rc : check_sums(check, regions, bytes, "the footers here say", error);
}

static int check_recipes(struct vv_verifier *verifier, struct vv_view *view, struct varve_error *error) {
    struct region_check *check = vv_calloc(1, sizeof *check);
    uint8_t *window = vv_malloc((size_t)WINDOW_GRANULES * VV_GRANULE);
    int rc = check && window ? vv_fetch_create(view, verifier->options->pool, &check->fetch) : -ENOMEM;
    if (rc < 0) {
        vv_error_sys(error, rc, "check a checkpoint");
    } else {
        check->verifier = verifier;
        check->view = view;
        check->window = window;
        vv_seeker_init(&check->seeker, view);
        rc = check_owners(check, error);
        vv_seeker_clear(&check->seeker);
        vv_fetch_destroy(check->fetch);
    }
    vv_free(window);
    vv_free(check);
    return rc;
}

/* ---- the objects a checkpoint needs ---- */

static int is_bad_pack(const struct vv_verifier *verifier, const struct vv_attempt *attempt, uint32_t writer) {
    const struct vv_bad_pack *list = (const struct vv_bad_pack *)verifier->bad_packs.data;
    for (size_t i = 0; i < verifier->bad_packs.size / sizeof *list; i++)
        if (list[i].writer == writer && vv_attempt_compare(&list[i].attempt, attempt) == 0)
            return 1;
    return 0;
}

static int is_trusted(void *arg, const struct vv_attempt *attempt, uint32_t writer) {
    return !is_bad_pack(arg, attempt, writer);
}

/* What is missing is named once, with its own key; what is damaged was found before. */
static int inspect_pack(struct vv_verifier *verifier, struct vv_view *view, uint32_t source, uint32_t writer) {
    struct vv_pack_id id = vv_view_pack(view, source, writer);
    struct vv_cached *footer = NULL;
    struct varve_error why = {0};
    char key[VV_KEY_CAPACITY];
    uint64_t size;
    if (is_bad_pack(verifier, &id.attempt, writer))
        return 0;
    vv_pack_key(&id, VV_KIND_PACK, 0, key);
    int rc = vv_pack_is_elsewhere(verifier->residents, &id.attempt, writer, &why);
    if (rc != 0) {
        verifier->elsewhere += rc > 0;
        return rc > 0 ? 0 : vv_verify_evaluate(verifier, key, rc, &why);
    }
    rc = vv_view_footer(view, source, writer, &footer, &why);
    if (rc == 0) {
        int is_lost = ((const struct vv_view_footer *)footer->object)->is_lost;
        vv_view_release(view, footer);
        if (is_lost) {
            vv_verify_finding(verifier, VV_FINDING_DAMAGE, key,
                              "%s is missing, but checkpoints need it; its tables are in its copy", key);
        }
    } else if (vv_backend_stat(verifier->store->backend, key, &size) == -ENOENT && rc != VARVE_FORGOTTEN) {
        vv_verify_finding(verifier, VV_FINDING_DAMAGE, key, "%s is missing, but checkpoints need it", key);
        return 0;
    }
    return vv_verify_evaluate(verifier, key, rc, &why);
}

static int inspect_source(struct vv_verifier *verifier, struct vv_view *view, uint32_t source) {
    struct varve_error why = {0};
    uint32_t count = 0;
    struct vv_key key = vv_attempt_key(verifier->name, vv_view_source(view, source), VV_KIND_WRITERS, 0, 0);
    char text[VV_KEY_CAPACITY];
    vv_key_print(&key, text);
    int rc = vv_view_writer_count(view, source, &count, &why);
    if (rc < 0)
        return vv_verify_evaluate(verifier, text, rc, &why);
    for (uint32_t i = 0; i < count && rc == 0; i++)
        rc = inspect_pack(verifier, view, source, i);
    return rc < 0 ? rc : vv_verify_progress(verifier, 0);
}

static int inspect_sources(struct vv_verifier *verifier, struct vv_view *view) {
    int rc = 0;
    vv_attempts_sort(&verifier->inspected);
    for (uint32_t i = 0; i <= vv_view_record(view)->dependency_count && rc == 0; i++) {
        const struct vv_attempt *attempt = vv_view_source(view, i);
        if (!vv_attempts_has(&verifier->inspected, attempt))
            rc = inspect_source(verifier, view, i);
    }
    for (uint32_t i = 0; i <= vv_view_record(view)->dependency_count && rc == 0; i++) {
        const struct vv_attempt *attempt = vv_view_source(view, i);
        rc = vv_attempts_add(&verifier->inspected, attempt);
    }
    return rc;
}

int vv_verify_checkpoint(struct vv_verifier *verifier, const struct vv_attempt *attempt) {
    struct vv_key key = vv_attempt_key(verifier->name, attempt, VV_KIND_RECORD, 0, 0);
    struct vv_view *view = NULL;
    struct varve_error why = {0};
    char text[VV_KEY_CAPACITY];
    vv_key_print(&key, text);
    int rc = vv_view_open_with(verifier->store, verifier->name, attempt->generation, attempt->version, verifier->cache,
                               &view, &why);
    if (rc == 0) {
        vv_view_distrust(view, is_trusted, verifier);
        rc = inspect_sources(verifier, view);
    }
    if (rc == 0)
        rc = check_recipes(verifier, view, &why);
    int arrays = rc == 0 ? vv_verify_arrays(verifier, view, text) : 0;
    vv_view_close(view);
    if (arrays < 0)
        return arrays;
    if (rc < 0 && rc != -EINTR && rc != VARVE_FORGOTTEN) {
        struct varve_error full;
        vv_error(&full, rc, "version %llu of %s cannot be restored: %.420s", (unsigned long long)attempt->version,
                 verifier->name, why.text);
        why = full;
    }
    return vv_verify_evaluate(verifier, text, rc, &why);
}

/* ---- attempts without a record ---- */

/* 1 and what stands under the record's key of this version, or 0. is_newer_out: there is one of a newer version of the
 * generation. */
static int find_record(const struct vv_verifier *verifier, const struct vv_attempt *attempt, struct vv_seen_record *out,
                       int *is_newer_out) {
    const struct vv_seen_record *list = (const struct vv_seen_record *)verifier->records.data;
    size_t low, count = verifier->records.size / sizeof *list;
    VV_SEARCH(low, 0, count, vv_attempt_is_newer(&list[low].attempt, attempt)); /* the list is newest first */
    *is_newer_out = low > 0 && list[low - 1].attempt.generation == attempt->generation;
    if (low == count || vv_attempt_is_newer(attempt, &list[low].attempt))
        return 0;
    *out = list[low];
    return 1;
}

enum vote_state { DISPOSITION_LOST, DISPOSITION_UNCLEAR, DISPOSITION_OPEN };

/* What became of a full vote without a record. Below a newer checkpoint of its session only what is named elsewhere
 * was certainly committed. Otherwise it may be the trace of a session that died just before it created the record:
 * then no later session was there to adopt it, and its own heartbeat names nothing so new. */
static int find_disposition(struct vv_verifier *verifier, const struct vv_attempt *attempt, int is_newer) {
    uint32_t highest = 0;
    int life;
    struct vv_attempt refers = {0};
    if (vv_attempts_has(&verifier->committed, attempt))
        return DISPOSITION_LOST;
    if (is_newer)
        return DISPOSITION_UNCLEAR;
    if (vv_claims_highest(verifier->store, verifier->name, &highest, NULL) < 0 || highest > attempt->generation)
        return DISPOSITION_LOST;
    int rc = vv_life_look(verifier->store, verifier->name, attempt->generation, 0, &life, &refers, NULL);
    int is_named = refers.generation == attempt->generation && refers.version >= attempt->version;
    return rc < 0 || is_named ? DISPOSITION_LOST : DISPOSITION_OPEN;
}

static int judge_voted(struct vv_verifier *verifier, const struct vv_attempt *attempt, const struct vv_record *record,
                       int is_newer, const char *key) {
    char text[64];
    vv_attempt_text(attempt, text);
    int rc = 0;
    switch (find_disposition(verifier, attempt, is_newer)) {
    case DISPOSITION_LOST:
        vv_verify_finding(verifier, VV_FINDING_LOST_CHECKPOINT, key,
                          "%s is complete but has no record; repair can rebuild it", text);
        rc = vv_committed_by_record(&verifier->committed, record);
        vv_attempts_sort(&verifier->committed);
        break;
    case DISPOSITION_UNCLEAR:
        vv_verify_finding(verifier, VV_FINDING_NOTE, key,
                          "%s is complete but without record: either its commit failed, or its record was lost; "
                          "repair -n shows it",
                          text);
        break;
    default:
        vv_verify_finding(verifier, VV_FINDING_NOTE, key,
                          "%s is written but not committed yet; its session does so, or the next one", text);
    }
    return rc;
}

static int note_pack(void *arg, const char *component, int is_prefix) {
    uint64_t writer;
    *(int *)arg |= !is_prefix && vv_hex_parse(component, 8, &writer) == 0;
    return *(int *)arg; /* one is enough */
}

/* Has this node a part in the attempt, or only the writers list, which a later restart has copied here? When it cannot
 * be told, it has. */
static int has_pack_here(struct vv_verifier *verifier, const struct vv_attempt *attempt) {
    struct vv_key key = vv_attempt_key(verifier->name, attempt, VV_KIND_WRITERS, 0, 0);
    char prefix[VV_KEY_CAPACITY];
    int has_pack = 0;
    vv_prefix_data(&key, 3, prefix);
    return vv_backend_list(verifier->store->backend, prefix, NULL, 0, note_pack, &has_pack) < 0 || has_pack;
}

/* This node's share of an attempt that has no record here; the votes of other nodes are not seen. */
static void judge_share(struct vv_verifier *verifier, const struct vv_attempt *attempt, int is_newer, const char *key) {
    char text[64];
    vv_attempt_text(attempt, text);
    if (vv_attempts_has(&verifier->committed, attempt) && !has_pack_here(verifier, attempt)) {
        vv_verify_finding(verifier, VV_FINDING_NOTE, key, "%s was committed before this node was part of the job",
                          text);
    } else if (vv_attempts_has(&verifier->committed, attempt)) {
        vv_verify_finding(
            verifier, VV_FINDING_LOST_CHECKPOINT, key,
            "%s was committed, but has no record on this node; the job's next restart copies it from another", text);
    } else {
        vv_verify_finding(verifier, VV_FINDING_NOTE, key, "%s is not committed on this node; %s", text,
                          is_newer ? "a newer one is, so prune removes it"
                                   : "the job's next session completes it if all nodes have their share");
    }
}

static int judge_attempt(struct vv_verifier *verifier, const struct vv_attempt *attempt) {
    struct vv_key key = vv_attempt_key(verifier->name, attempt, VV_KIND_RECORD, 0, 0);
    struct vv_seen_record seen;
    struct vv_writers writers;
    struct vv_record record;
    struct varve_error why = {0};
    char text[VV_KEY_CAPACITY], name[64];
    int is_newer;
    vv_key_print(&key, text);
    vv_attempt_text(attempt, name);
    if (find_record(verifier, attempt, &seen, &is_newer)) {
        int is_other = seen.state == VV_SEEN_RECORD && seen.attempt.attempt != attempt->attempt;
        if (is_other)
            vv_verify_finding(verifier, VV_FINDING_NOTE, text, "%s is left over; prune removes it", name);
        return 0;
    }
    if (vv_attempt_is_closed(verifier->store, verifier->name, attempt, &why) == 1) { /* however full its votes are */
        vv_verify_finding(verifier, VV_FINDING_NOTE, text, "%s was given up; prune removes it", name);
        return 0;
    }
    int rc = vv_votes_read(verifier->store, verifier->name, attempt, &writers, &record, &why);
    if (rc > 0) {
        rc = judge_voted(verifier, attempt, &record, is_newer, text);
        vv_writers_clear(&writers);
        vv_record_clear(&record);
        return rc;
    }
    if (rc == -ENOMEM)
        return rc;
    if (rc == 0 && vv_verify_is_local(verifier)) {
        judge_share(verifier, attempt, is_newer, text);
        return 0;
    }
    vv_verify_finding(verifier, VV_FINDING_NOTE, text, "%s is incomplete: it was never committed%s%.300s", name,
                      rc < 0 ? "; " : "", rc < 0 ? why.text : "");
    return 0;
}

/* Newest first: what was lost names its parent. */
int vv_verify_unrecorded(struct vv_verifier *verifier) {
    struct vv_attempts *set = &verifier->attempts;
    int rc = 0;
    vv_attempts_sort(set);
    vv_attempts_sort(&verifier->committed);
    for (size_t i = set->count; i > 0 && rc == 0; i--) {
        rc = judge_attempt(verifier, &set->list[i - 1]);
        if (rc == 0)
            rc = vv_verify_progress(verifier, 0);
    }
    return rc;
}
