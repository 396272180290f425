/* Coming back. */
#include "layer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <varve/varve_inspect.h>

/* ---- which versions there are ---- */

static void tell_skipped(const char *name, int64_t version, int rank, const char *why) {
    fprintf(stderr, "varve: VELOC_Restart_test: skipped checkpoint %s@%lld (damaged on rank %d): %s\n", name,
            (long long)version, rank, why);
}

struct listed {
    int version, ranks;
};
struct list {
    struct listed *entries;
    int count;
};

/* Also those whose record could not be read: is_whole finds out whether it is damaged. */
static int add_listed(void *arg, const struct varve_checkpoint_info *info) {
    struct list *list = arg;
    if (info->version > INT32_MAX)
        return 0;
    struct listed *more = vl_grow(list->entries, (size_t)list->count, sizeof *more);
    if (!more)
        return -ENOMEM;
    list->entries = more;
    more[list->count++] = (struct listed){(int)info->version, (int)info->ranks};
    return 0;
}

/* Newest first. A name that nothing is stored of is an empty list. */
static int list_here(const char *name, struct list *list) {
    struct varve_store *store = NULL;
    struct varve_error error = {0};
    int rc = varve_store_open(vl_layer.store, NULL, &store, &error);
    if (rc == 0)
        rc = varve_store_list(store, name, add_listed, list, &error);
    varve_store_close(store);
    if (rc == VARVE_NO_CHECKPOINT || rc > 0)
        rc = 0;
    if (rc != 0)
        vl_fail("VELOC_Restart_test", "%s", error.text);
    return rc;
}

/* Rank 0 looks for all, and all know whether it could. */
static int list_versions(const char *name, struct list *list) {
    int head[2] = {0, 0};
    if (vl_is_teller()) {
        head[0] = list_here(name, list);
        head[1] = list->count;
    }
    if (vl_layer.comm == MPI_COMM_NULL)
        return head[0];
    MPI_Bcast(head, 2, MPI_INT, 0, vl_layer.comm);
    if (head[0] != 0)
        return head[0];
    list->count = head[1];
    if (vl_layer.rank != 0)
        list->entries = malloc(((size_t)list->count + 1) * sizeof *list->entries);
    if (!vl_on_all(list->entries != NULL || list->count == 0))
        return -ENOMEM;
    MPI_Bcast(list->entries, 2 * list->count, MPI_INT, 0, vl_layer.comm);
    return 0;
}

/* ---- what a version holds ---- */

/* What is damaged or gone is passed over, and an older one offered. Any other error says nothing about the version: it
 * may well be whole, and a program that took an older one would bury it. */
static int is_lost(int rc) {
    return rc == VARVE_CORRUPT || rc == VARVE_FORGOTTEN || rc == VARVE_NO_CHECKPOINT || rc == -ENOENT;
}

static int note_stored(void *arg, const struct varve_region_info *region) {
    struct phase *phase = arg;
    struct stored *more;
    char *end;
    long id = strtol(region->name, &end, 10);
    if (strcmp(region->name, FILE_REGION) == 0) {
        phase->has_file = 1;
        return 0;
    }
    if (*end != 0) /* not by this layer */
        return 0;
    more = vl_grow(phase->stored, phase->stored_count, sizeof *more);
    phase->is_short = !more;
    if (!more)
        return 1;
    phase->stored = more;
    more[phase->stored_count++] = (struct stored){(int)id, region->bytes};
    return 0;
}

/* Collective. What the version has of this rank. */
static int look_at(struct phase *phase) {
    int rc = varve_stored(phase->name->session, phase->version, note_stored, phase, NULL);
    return rc == 0 && !vl_on_all(!phase->is_short) ? -ENOMEM : rc;
}

static int throw_away(void *arg, uint64_t offset, const void *data, size_t size, uint64_t total) {
    (void)arg, (void)offset, (void)data, (void)size, (void)total;
    return 0;
}

/* This rank's part of a version is read and every byte checked: 1 whole, 0 lost, or why it cannot be told. -ENOENT is
 * that it is kept on another node: VELOC_Restart gets it from there, and checks it then. */
static int is_whole_here(const struct name *name, const struct phase *phase) {
    char region[16];
    struct varve_which which = {.name = name->own, .version = phase->version};
    struct varve_store *store = NULL;
    struct varve_error error = {0};
    uint32_t rank = vl_layer.comm == MPI_COMM_NULL ? 0 : (uint32_t)vl_layer.rank;
    int rc = varve_store_open(vl_layer.store, NULL, &store, &error);
    for (size_t i = 0; rc == 0 && i < phase->stored_count; i++) {
        snprintf(region, sizeof region, "%d", phase->stored[i].id);
        rc = varve_store_read(store, &which, rank, region, 0, throw_away, NULL, &error);
    }
    if (rc == 0 && phase->has_file)
        rc = varve_store_read(store, &which, rank, FILE_REGION, 0, throw_away, NULL, &error);
    varve_store_close(store);
    if (rc == 0 || rc == -ENOENT)
        return 1;
    if (is_lost(rc)) {
        tell_skipped(name->name, phase->version, vl_layer.rank, error.text);
        return 0;
    }
    vl_fail("VELOC_Restart_test", "%s@%d: %s", name->name, phase->version, error.text);
    return rc;
}

/* Collective: the same on all ranks. Of another number of ranks a version is offered unread: VELOC_Restart says why it
 * cannot be restored. */
static int is_whole(struct name *name, struct listed listed) {
    struct phase phase = {.name = name, .version = listed.version};
    int rc = look_at(&phase), is_so = 1;
    if (rc != 0 && !is_lost(rc))
        vl_result("VELOC_Restart_test", name, listed.version, rc);
    else if (rc != 0 && vl_is_teller())
        tell_skipped(name->name, listed.version, varve_session_error(name->session)->rank,
                     varve_session_error(name->session)->text);
    if (rc != 0)
        is_so = is_lost(rc) ? 0 : rc;
    else if (!vl_layer.is_quick && listed.ranks == vl_layer.ranks)
        is_so = vl_on_all(is_whole_here(name, &phase));
    vl_close_phase(&phase);
    return is_so;
}

/* ---- VELOC_Restart_test ---- */

static void mark_bad(struct name *name, int version) {
    int *more = vl_grow(name->bad, name->bad_count, sizeof *more);
    if (more) {
        name->bad = more;
        more[name->bad_count++] = version;
    }
}

static int is_bad(const struct name *name, int version) {
    for (size_t i = 0; i < name->bad_count; i++)
        if (name->bad[i] == version)
            return 1;
    return 0;
}

static int is_wanted(const struct name *name, int version, int most) {
    if (is_bad(name, version) || (most > 0 && version > most))
        return 0;
    return most == 0 || version < most || version != name->tried;
}

/* 0 if it could look: *found stays as it is when there is none. */
static int find_newest(struct name *name, int most, int *found) {
    struct list list = {0};
    int is_so = 0, rc = vl_open("VELOC_Restart_test", name);
    if (rc == 0) {
        vl_settle_earlier(name);
        rc = list_versions(name->own, &list);
    }
    for (int i = 0; rc == 0 && i < list.count && is_so == 0; i++) {
        if (!vl_on_all(is_wanted(name, list.entries[i].version, most))) /* one may have had no memory to mark it */
            continue;
        is_so = is_whole(name, list.entries[i]);
        if (is_so > 0)
            *found = list.entries[i].version;
        else if (is_so == 0)
            mark_bad(name, list.entries[i].version);
        else
            rc = is_so;
    }
    free(list.entries);
    return rc;
}

int VELOC_Restart_test(const char *name, int version) {
    struct name *known = vl_name("VELOC_Restart_test", name, version, 1);
    int found = VELOC_FAILURE;
    if (known)
        known->unseen = find_newest(known, version, &found);
    return found;
}

/* ---- a restart ---- */

/* What is damaged is not offered again. */
static int restart_regions(const char *call, struct phase *phase, const char *const *regions, size_t count) {
    int rc = varve_restart_regions(phase->name->session, phase->version, regions, count, 0, NULL);
    if (is_lost(rc))
        mark_bad(phase->name, phase->version);
    return vl_result(call, phase->name, phase->version, rc);
}

/* Files come back at once, so that VELOC_Route_file need not be collective. */
static int bring_file(struct phase *phase) {
    const char *call = "VELOC_Restart_begin", *region = FILE_REGION;
    int is_none = vl_on_all(!phase->has_file), is_ready = 1, rc;
    if (is_none)
        return VELOC_SUCCESS;
    phase->fd = -1;
    if (phase->has_file)
        is_ready = vl_file_open(call, phase, 1) == 0 && vl_file_protect(phase) == 0;
    rc = VELOC_FAILURE;
    if (vl_on_all(is_ready))
        rc = restart_regions(call, phase, &region, phase->has_file ? 1 : 0);
    if (phase->fd >= 0 && close(phase->fd) != 0)
        rc = VELOC_FAILURE;
    return rc;
}

int VELOC_Restart_begin(const char *name, int version) {
    struct phase *phase = &vl_layer.restoring;
    int is_free = !phase->name && !vl_layer.saving.name;
    if (!is_free)
        vl_fail("VELOC_Restart_begin", "%s@%d: a checkpoint or a restart has begun and not ended", name, version);
    struct name *known = vl_name("VELOC_Restart_begin", name, version, is_free);
    if (!known || vl_open("VELOC_Restart_begin", known) != 0)
        return VELOC_FAILURE;
    vl_settle_earlier(known);
    phase->name = known;
    phase->version = known->tried = version;
    int rc = look_at(phase);
    if (vl_result("VELOC_Restart_begin", known, version, rc) == VELOC_SUCCESS &&
        vl_on_all(bring_file(phase) == VELOC_SUCCESS))
        return VELOC_SUCCESS;
    vl_file_remove(phase);
    vl_close_phase(phase);
    return VELOC_FAILURE;
}

int VELOC_Recover_size(int id) {
    const struct phase *phase = &vl_layer.restoring;
    if (!phase->name)
        return vl_fail("VELOC_Recover_size", "VELOC_Restart_begin comes first");
    for (size_t i = 0; i < phase->stored_count; i++)
        if (phase->stored[i].id == id)
            return phase->stored[i].bytes <= INT32_MAX
                       ? (int)phase->stored[i].bytes
                       : vl_fail("VELOC_Recover_size", "id %d has more bytes than an int can say", id);
    return -1;
}

static int fill(const char *call, struct phase *phase) {
    char(*texts)[16] = calloc(phase->chosen_count + 1, sizeof *texts);
    const char **names = calloc(phase->chosen_count + 1, sizeof *names);
    int rc = VELOC_FAILURE;
    for (size_t i = 0; texts && names && i < phase->chosen_count; i++) {
        snprintf(texts[i], sizeof *texts, "%d", phase->chosen[i]);
        names[i] = texts[i];
    }
    if (vl_on_all(texts && names))
        rc = restart_regions(call, phase, names, phase->chosen_count);
    free(texts);
    free(names);
    return rc;
}

int VELOC_Recover_selective(int mode, int *ids, int id_count) {
    struct phase *phase = &vl_layer.restoring;
    const char *call = "VELOC_Recover_mem";
    if (!phase->name)
        return vl_fail(call, "VELOC_Restart_begin comes first");
    int is_mine = vl_choose(call, phase, mode, ids, id_count, 1) == VELOC_SUCCESS && vl_hand_over(phase, 1) == 0;
    if (vl_on_all(is_mine))
        return fill(call, phase);
    return is_mine ? vl_fail(call, "%s@%d: another rank cannot restore it", phase->name->name, phase->version)
                   : VELOC_FAILURE;
}

int VELOC_Recover_mem(void) {
    return VELOC_Recover_selective(VELOC_RECOVER_ALL, NULL, 0);
}

int VELOC_Restart_end(int success) {
    struct phase *phase = &vl_layer.restoring;
    if (!phase->name)
        return vl_fail("VELOC_Restart_end", "VELOC_Restart_begin comes first");
    int is_done = vl_on_all(success != 0);
    vl_file_remove(phase);
    vl_close_phase(phase);
    return is_done ? VELOC_SUCCESS : VELOC_FAILURE;
}

int VELOC_Restart(const char *name, int version) {
    if (VELOC_Restart_begin(name, version) != VELOC_SUCCESS)
        return VELOC_FAILURE;
    return VELOC_Restart_end(VELOC_Recover_mem() == VELOC_SUCCESS);
}
