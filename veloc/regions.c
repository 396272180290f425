/* Which memory is protected, and what of it a session has. */
#include "layer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

static struct region *find_in(const char *group, int id) {
    for (size_t i = 0; i < vl_layer.count; i++)
        if (vl_layer.regions[i].id == id && strcmp(vl_layer.regions[i].group, group) == 0)
            return &vl_layer.regions[i];
    return NULL;
}

/* A name that has regions of its own has no others. */
static const char *group_of(const struct name *name) {
    for (size_t i = 0; i < vl_layer.count; i++)
        if (strcmp(vl_layer.regions[i].group, name->name) == 0)
            return name->name;
    return "";
}

struct region *vl_find(const struct name *name, int id) {
    return find_in(group_of(name), id);
}

static int is_in(int id, const int *ids, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (ids[i] == id)
            return 1;
    return 0;
}

static int add(int **ids, size_t *count, int id) {
    int *more = vl_grow(*ids, *count, sizeof *more);
    if (!more)
        return -ENOMEM;
    *ids = more;
    more[(*count)++] = id;
    return 0;
}

/* ---- what sessions have ---- */

static void take_away(struct name *name, size_t index) {
    char text[16];
    snprintf(text, sizeof text, "%d", name->known[index]);
    varve_unprotect(name->session, text);
    name->known[index] = name->known[--name->known_count];
}

/* When this returns the program may free the memory. */
static void take_away_everywhere(int id) {
    for (size_t i = 0; i < vl_layer.name_count; i++)
        for (size_t k = vl_layer.names[i]->known_count; k-- > 0;)
            if (vl_layer.names[i]->known[k] == id)
                take_away(vl_layer.names[i], k);
}

static void take_away_others(struct phase *phase) {
    for (size_t i = 0; i < vl_layer.name_count; i++) {
        struct name *name = vl_layer.names[i];
        for (size_t k = name->known_count; k-- > 0;)
            if (name != phase->name || !is_in(name->known[k], phase->chosen, phase->chosen_count))
                take_away(name, k);
    }
    if (phase->name->has_file && !phase->has_file) {
        varve_unprotect(phase->name->session, FILE_REGION);
        phase->name->has_file = 0;
    }
}

static uint64_t bytes_stored(const struct phase *phase, int id) {
    for (size_t i = 0; i < phase->stored_count; i++)
        if (phase->stored[i].id == id)
            return phase->stored[i].bytes;
    return 0;
}

/* A restart fills as many bytes as are stored and leaves the rest of a larger region alone. */
int vl_hand_over(struct phase *phase, int is_restart) {
    struct name *name = phase->name;
    char text[16];
    int rc = 0;
    take_away_others(phase);
    for (size_t i = 0; i < phase->chosen_count && rc == 0; i++) {
        const struct region *region = vl_find(name, phase->chosen[i]);
        if (!region)
            return vl_fail("regions", "id %d is not protected any more", phase->chosen[i]);
        snprintf(text, sizeof text, "%d", region->id);
        rc = varve_protect(name->session, text, region->ptr,
                           is_restart ? bytes_stored(phase, region->id) : region->bytes);
        if (rc == 0 && !is_in(region->id, name->known, name->known_count))
            rc = add(&name->known, &name->known_count, region->id);
        if (rc != 0)
            vl_fail("regions", "%s: id %d: %s", name->name, region->id, varve_session_error(name->session)->text);
    }
    return rc;
}

/* ---- choosing ---- */

/* Of ids that are there, take those that mode means. -1 after a message if one is asked for that is not there. */
static int pick(const char *call, struct phase *phase, int mode, const int *ids, size_t count, const int *there,
                size_t there_count) {
    for (size_t i = 0; i < count && mode == VELOC_CKPT_SOME; i++)
        if (!is_in(ids[i], there, there_count))
            return vl_fail(call, "%s@%d: there is no id %d", phase->name->name, phase->version, ids[i]);
    phase->chosen_count = 0;
    for (size_t i = 0; i < there_count; i++)
        if (mode == VELOC_CKPT_ALL || is_in(there[i], ids, count) == (mode == VELOC_CKPT_SOME))
            if (add(&phase->chosen, &phase->chosen_count, there[i]) != 0)
                return vl_fail(call, "no memory");
    return 0;
}

/* The ids of a restart are those that are stored; of a checkpoint, those that are protected. */
static int list_ids(const struct phase *phase, int is_restart, int **ids, size_t *count) {
    const char *group = group_of(phase->name);
    int rc = 0;
    for (size_t i = 0; is_restart && i < phase->stored_count && rc == 0; i++)
        rc = add(ids, count, phase->stored[i].id);
    for (size_t i = 0; !is_restart && i < vl_layer.count && rc == 0; i++)
        if (strcmp(vl_layer.regions[i].group, group) == 0)
            rc = add(ids, count, vl_layer.regions[i].id);
    return rc;
}

static int check_fits(const char *call, const struct phase *phase) {
    for (size_t i = 0; i < phase->chosen_count; i++) {
        const struct region *region = vl_find(phase->name, phase->chosen[i]);
        uint64_t bytes = bytes_stored(phase, phase->chosen[i]);
        if (!region)
            return vl_fail(call, "%s@%d holds id %d of %llu bytes, which is not protected", phase->name->name,
                           phase->version, phase->chosen[i], (unsigned long long)bytes);
        if (region->bytes < bytes)
            return vl_fail(call, "%s@%d: id %d has %zu bytes here, and %llu are stored", phase->name->name,
                           phase->version, region->id, region->bytes, (unsigned long long)bytes);
    }
    return 0;
}

int vl_choose(const char *call, struct phase *phase, int mode, const int *ids, int count, int is_restart) {
    int *there = NULL, rc;
    size_t there_count = 0;
    phase->is_chosen = 0;
    if (mode < VELOC_CKPT_ALL || mode > VELOC_CKPT_REST || count < 0 || (count > 0 && !ids && mode != VELOC_CKPT_ALL))
        return vl_fail(call, "there is no mode %d, or there are no ids", mode);
    rc = list_ids(phase, is_restart, &there, &there_count);
    if (rc == 0)
        rc = pick(call, phase, mode, ids, (size_t)count, there, there_count);
    free(there);
    if (rc == 0 && !is_restart && phase->chosen_count == 0)
        rc = vl_fail(call, "%s@%d: no region is protected, or none is chosen", phase->name->name, phase->version);
    if (rc == 0 && is_restart)
        rc = check_fits(call, phase);
    phase->is_chosen = rc == 0;
    return rc == 0 ? VELOC_SUCCESS : VELOC_FAILURE;
}

static uint64_t digest(const struct region *region) {
    return XXH3_64bits(region->ptr, region->bytes);
}

void vl_note_digests(const struct phase *phase) {
    for (size_t i = 0; i < phase->chosen_count; i++) {
        struct region *region = vl_find(phase->name, phase->chosen[i]);
        region->digest = digest(region);
    }
}

int vl_changed(const struct phase *phase, int *id) {
    for (size_t i = 0; i < phase->chosen_count; i++) {
        const struct region *region = vl_find(phase->name, phase->chosen[i]);
        *id = phase->chosen[i];
        if (!region || region->digest != digest(region))
            return 1;
    }
    return 0;
}

/* ---- the calls ---- */

static void drop(struct region *region) {
    take_away_everywhere(region->id);
    free(region->group);
    *region = vl_layer.regions[--vl_layer.count];
}

static int add_region(int id, const char *group, void *ptr, size_t bytes) {
    struct region *more = vl_grow(vl_layer.regions, vl_layer.count, sizeof *more);
    char *copy = strdup(group);
    if (more)
        vl_layer.regions = more;
    if (!more || !copy) {
        free(copy);
        return vl_fail("VELOC_Mem_protect", "no memory for id %d", id);
    }
    more[vl_layer.count++] = (struct region){.id = id, .group = copy, .ptr = ptr, .bytes = bytes};
    return VELOC_SUCCESS;
}

int VELOC_Region_protect(int id, void *ptr, size_t count, size_t base_size, const char *name) {
    struct region *region;
    if (!vl_layer.is_open)
        return vl_fail("VELOC_Mem_protect", "VELOC_Init comes first");
    if (!name || (base_size > 0 && count > SIZE_MAX / base_size) || (!ptr && count * base_size > 0))
        return vl_fail("VELOC_Mem_protect", "id %d: there is no memory, or no name, or count * base_size is too large",
                       id);
    region = find_in(name, id);
    if (!region)
        return add_region(id, name, ptr, count * base_size);
    if (region->ptr != ptr || region->bytes != count * base_size) {
        take_away_everywhere(id);
        region->ptr = ptr;
        region->bytes = count * base_size;
    }
    return VELOC_SUCCESS;
}

int VELOC_Mem_protect(int id, void *ptr, size_t count, size_t base_size) {
    return VELOC_Region_protect(id, ptr, count, base_size, "");
}

int VELOC_Region_unprotect(int id, const char *name) {
    struct region *region = name ? find_in(name, id) : NULL;
    if (!region)
        return vl_fail("VELOC_Mem_unprotect", "id %d is not protected", id);
    drop(region);
    return VELOC_SUCCESS;
}

int VELOC_Mem_unprotect(int id) {
    return VELOC_Region_unprotect(id, "");
}

int VELOC_Region_clear(const char *name) {
    if (!vl_layer.is_open || !name)
        return vl_fail("VELOC_Mem_clear", "VELOC_Init comes first, and there must be a name");
    for (size_t i = vl_layer.count; i-- > 0;)
        if (strcmp(vl_layer.regions[i].group, name) == 0)
            drop(&vl_layer.regions[i]);
    return VELOC_SUCCESS;
}

int VELOC_Mem_clear(void) {
    return VELOC_Region_clear("");
}

void vl_forget_regions(void) {
    for (size_t i = 0; i < vl_layer.count; i++)
        free(vl_layer.regions[i].group);
    free(vl_layer.regions);
    vl_layer.regions = NULL;
    vl_layer.count = 0;
}
