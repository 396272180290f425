/* Memory for what is stored and not protected, when other ranks have stored it than are here now: which part of it does
 * this rank get, and where does that go (varve_restart_alloc)?
 *
 * What a rank protects, and what all ranks together protect of a list, is taken where it fits. Of the rest the program
 * may choose. Where it does not, lists are handed out evenly, and what was said when it was stored holds. An array goes
 * nowhere unless the program has said which block this rank wants: elements that nobody asked for in this place would
 * be a permutation without a word. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "restart/elastic_private.h"

/* One stored name, and what this rank gets of it. */
struct choice {
    const struct vv_stored_name *entry;
    struct vv_region *region;    /* as it is protected now, or NULL */
    enum varve_distribution how; /* what becomes of it */
    struct varve_array part;
    uint64_t bytes;
};

static int is_typed(const struct vv_stored_name *entry) {
    return entry && entry->array && entry->array->dims > 0;
}

/* ---- what is settled without asking ---- */

static uint64_t rows_of(const struct vv_stored_name *entry) {
    return is_typed(entry) ? entry->array->dim[0].local : entry->bytes;
}

static int has_stored_rows(const struct vv_stored_name *entry, const struct vv_array *ours) {
    const struct vv_array *stored = entry->array;
    int is_same = is_typed(entry) && stored->type == ours->type && stored->dims == ours->dims;
    for (unsigned i = 1; i < ours->dims && is_same; i++)
        is_same = stored->dim[i].local == ours->dim[i].local;
    return is_same;
}

/* What this rank protects of it. */
static void add_protected(const struct vv_stored_name *entry, const struct vv_region *region, uint64_t *shaped,
                          uint64_t *bare) {
    if (!region || region->is_callback || region->device || region->is_ended)
        return;
    if (!vv_is_array(region))
        *bare = region->size;
    else if (has_stored_rows(entry, region->array))
        *shaped = region->size;
}

/* Together the ranks protect what is stored of it, and all in one way: as rows like those, or as bytes. */
static int is_list_shared(const struct vv_elastic *elastic, const struct vv_stored_name *entry) {
    const uint64_t *shaped = &elastic->protected_bytes[entry - elastic->names.all.list];
    const uint64_t *bare = shaped + elastic->names.all.count;
    return *shaped == entry->total || *bare == entry->total;
}

/* What the program says now, or else what it said when it was stored. Dimensions say something, too. */
static enum varve_distribution said(const struct vv_stored_name *entry, const struct vv_region *region) {
    if (region && (region->distribution != VARVE_BY_DIMS || (vv_is_array(region) && !region->is_ended)))
        return (enum varve_distribution)region->distribution;
    return entry->is_mixed ? VARVE_BY_DIMS : entry->how;
}

/* Nothing is asked: it is filled where it is protected, or is none of this rank's business; or its refusal comes with
 * the comparing. */
static int is_settled(const struct vv_elastic *elastic, const struct choice *choice) {
    const struct vv_region *region = choice->region;
    const struct vv_stored_name *own = vv_names_own(&elastic->names, choice->entry->name);
    if (region && (region->is_callback || region->device))
        return 1;
    switch (choice->how) {
    case VARVE_DROPPED:
        return 1;
    case VARVE_JOINED:
        return region && !region->is_ended && is_list_shared(elastic, choice->entry);
    case VARVE_REPLICATED:
        return region && !region->is_ended && region->size == choice->entry->bytes;
    case VARVE_BY_RANK:
        return !own || (region && !region->is_ended && region->size == own->bytes);
    default:
        return region && !region->is_ended && vv_is_array(region);
    }
}

/* What holds since it was stored counts for what follows. Not that it was dropped, or belongs to a rank that stored
 * none: what is protected without a word is filled, or refused. Nor for an array: its shape says a place, perhaps. */
static void heed(const struct vv_elastic *elastic, const struct choice *choice) {
    struct vv_region *region = choice->region;
    if (!region || region->is_callback || region->device || vv_is_array(region) ||
        region->distribution == (uint8_t)choice->how || choice->how == VARVE_DROPPED ||
        (choice->how == VARVE_BY_RANK && !vv_names_own(&elastic->names, choice->entry->name)))
        return;
    region->distribution = (uint8_t)choice->how;
    region->is_heeded = 1;
}

/* ---- which part ---- */

/* Evenly: the first ranks have one more, where it does not come out even. */
static uint64_t share_of(const struct vv_elastic *elastic, const struct vv_stored_name *entry) {
    const struct varve_comm *comm = elastic->context->job->comm;
    uint64_t rows = rows_of(entry);
    if (is_list_shared(elastic, entry)) /* the others have it all */
        return 0;
    return rows / comm->ranks + (comm->rank < rows % comm->ranks);
}

static void propose(const struct vv_elastic *elastic, struct choice *choice) {
    const struct vv_stored_name *from = choice->entry;
    if (choice->how == VARVE_BY_RANK)
        from = vv_names_own(&elastic->names, choice->entry->name);
    vv_array_tell(from->array, &choice->part);
    if (choice->how == VARVE_JOINED) {
        if (!is_typed(from))
            choice->part = (struct varve_array){.size = sizeof choice->part, .type = VARVE_BYTES, .dims = 1};
        choice->part.dim[0].local = choice->part.dim[0].global = share_of(elastic, from);
    } else if (choice->how == VARVE_BY_DIMS) {
        choice->part = (struct varve_array){.size = sizeof choice->part, .type = choice->part.type};
    }
}

static int ask_choice(const struct vv_elastic *elastic, struct choice *choice, struct varve_error *error) {
    const struct varve_allocator *allocator = elastic->options->allocator;
    const struct vv_stored_name *own = vv_names_own(&elastic->names, choice->entry->name);
    struct varve_region_info whole;
    struct varve_array array;
    if (!vv_has_choose(allocator))
        return 0;
    vv_names_tell(choice->how == VARVE_BY_RANK ? own : choice->entry, &array, &whole);
    whole.how = choice->how;
    enum varve_distribution before = choice->how;
    int rc = allocator->choose(elastic->options->arg, &whole, &choice->how, &choice->part);
    if (rc)
        return vv_error(error, rc < 0 ? rc : -EIO, "region %s: the function that chooses a part of it returned %d",
                        whole.name, rc);
    if (choice->how < VARVE_BY_DIMS || choice->how > VARVE_DROPPED)
        return vv_error(error, -EINVAL, "region %s: the function that chooses a part of it says %d", whole.name,
                        (int)choice->how);
    if (choice->how == VARVE_REPLICATED && before == VARVE_BY_DIMS && is_typed(choice->entry))
        return vv_error(error, -EINVAL, "region %s: it was stored as an array, and not as the same on all ranks",
                        whole.name);
    if (choice->how == VARVE_JOINED && before != VARVE_JOINED)
        return vv_error(error, -EINVAL,
                        "region %s: it was not stored as a list: protect it, and say with varve_distribute that it is "
                        "one",
                        whole.name);
    return 0;
}

static int refuse(const struct vv_elastic *elastic, const struct choice *choice, struct varve_error *error) {
    const struct vv_stored_name *entry = choice->entry;
    uint32_t stored = vv_view_record(elastic->view)->ranks, ours = elastic->context->job->comm->ranks;
    const char *what = entry->is_mixed   ? "the ranks have stored different things under this name"
                       : is_typed(entry) ? "it is not said which block of the array this rank wants"
                                         : "it belongs to one rank, and it is not said what becomes of it";
    return vv_error(error, VARVE_MISMATCH,
                    "region %s: %s, and the checkpoint is of %u ranks, this job has %u: run it with %u, or say it in "
                    "the allocator's choose, or with varve_protect_array and varve_distribute",
                    entry->name, what, stored, ours, stored);
}

/* Nobody knows in which order its parts were meant, nor how many rows a rank should get. */
static int refuse_new_list(const struct vv_stored_name *entry, struct varve_error *error) {
    return vv_error(error, VARVE_MISMATCH,
                    "region %s: it was not stored as a list; to make it one, protect all of its %" PRIu64
                    " bytes on all ranks together, with the rows that are stored or as bytes",
                    entry->name, entry->total);
}

/* The bytes of the part, as they are asked for. 1: there is nothing to ask for. */
static int measure(const struct vv_elastic *elastic, struct choice *choice, struct varve_error *error) {
    const struct vv_stored_name *entry = choice->entry, *own = vv_names_own(&elastic->names, entry->name);
    int rc;
    switch (choice->how) {
    case VARVE_DROPPED: /* what is protected must be filled: that is refused later */
        return 1;
    case VARVE_REPLICATED:
        vv_array_tell(entry->is_mixed ? NULL : entry->array, &choice->part);
        choice->bytes = entry->bytes;
        return 0;
    case VARVE_BY_RANK:
        vv_array_tell(own ? own->array : NULL, &choice->part);
        choice->bytes = own ? own->bytes : 0;
        return own == NULL;
    default:
        if (choice->part.dims == 0)
            return refuse(elastic, choice, error);
        if (choice->how == VARVE_JOINED) { /* a list has no place: only its rows are asked for */
            choice->part.dim[0].first = 0;
            choice->part.dim[0].global = choice->part.dim[0].local;
        }
        rc = vv_array_check(&choice->part, entry->name, error);
        choice->bytes = rc ? 0 : vv_array_bytes(&choice->part);
        if (rc == 0 && choice->how == VARVE_JOINED && !is_typed(entry)) /* bytes without a shape, as they were */
            choice->part = (struct varve_array){.size = sizeof choice->part};
        return rc;
    }
}

static int take_name(struct vv_elastic *elastic, const struct vv_stored_name *entry, struct varve_error *error) {
    struct vv_regions *regions = &elastic->context->memory->regions;
    struct choice choice = {.entry = entry, .region = vv_regions_find(regions, entry->name)};
    choice.how = said(entry, choice.region);
    if (is_settled(elastic, &choice)) {
        heed(elastic, &choice);
        return 0;
    }
    if (choice.how == VARVE_JOINED && (entry->is_mixed || entry->how != VARVE_JOINED))
        return refuse_new_list(entry, error);
    propose(elastic, &choice);
    int rc = ask_choice(elastic, &choice, error);
    if (rc == 0)
        rc = measure(elastic, &choice, error);
    if (rc)
        return rc < 0 ? rc : 0;
    const struct vv_given_want want = {entry->name, choice.bytes, &choice.part, choice.how};
    rc = vv_given_take(&elastic->given, NULL, &want, error);
    return rc < 0 ? rc : 0;
}

/* ---- all of them ---- */

/* Of each name: what the ranks together protect. Collective. */
static int add_up_protected(struct vv_elastic *elastic, struct varve_error *error) {
    struct varve_comm *comm = elastic->context->job->comm;
    size_t count = elastic->names.all.count;
    const struct vv_stored_name *names = elastic->names.all.list;
    uint64_t *own = vv_calloc(2 * count + 1, sizeof *own);
    elastic->protected_bytes = vv_calloc(2 * count + 1, sizeof *elastic->protected_bytes);
    int rc = own && elastic->protected_bytes ? 0 : vv_error(error, -ENOMEM, "no memory to restart %zu regions", count);
    rc = vv_comm_agree(comm, rc, error);
    for (size_t i = 0; i < count && rc == 0; i++)
        add_protected(&names[i], vv_regions_find(&elastic->context->memory->regions, names[i].name), &own[i],
                      &own[count + i]);
    if (rc == 0 && count > 0) {
        rc = vv_comm_sums(comm, own, 2 * count, elastic->protected_bytes);
        if (rc)
            vv_error(error, rc, "the ranks could not add up their lists: %s", varve_error_text(rc));
        rc = vv_comm_agree(comm, rc, error);
    }
    vv_free(own);
    return rc;
}

static int read_names(void *arg, struct vv_store *store, struct varve_error *error) {
    struct vv_elastic *elastic = arg;
    int rc = vv_elastic_open(elastic, store, error);
    return rc ? rc : vv_names_read(&elastic->names, elastic->view, elastic->context->job->comm, error);
}

int vv_elastic_ask(struct vv_elastic *elastic, struct varve_error *error) {
    struct varve_comm *comm = elastic->context->job->comm;
    if (!elastic->is_asking)
        return 0;
    int rc = vv_peers_run(elastic->peers, read_names, elastic, error);
    if (rc == 0)
        rc = vv_names_merge(&elastic->names, comm, error);
    if (rc == 0)
        rc = add_up_protected(elastic, error);
    if (rc)
        return rc;
    for (size_t i = 0; i < elastic->names.all.count && rc == 0 && elastic->options->is_allocating; i++)
        rc = take_name(elastic, &elastic->names.all.list[i], error);
    return vv_comm_agree(comm, rc, error);
}
