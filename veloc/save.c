/* Checkpoints. The memory is stored as it is in VELOC_Checkpoint_end, inside which all ranks agree. */
#include "layer.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- the one before ---- */

/* It is known what became of the last checkpoint. The file of one that failed stays: nothing else has its bytes. */
static int settle(const char *call, struct name *name, int rc) {
    if (rc >= 0 && name->file)
        unlink(name->file);
    free(name->file);
    name->file = NULL;
    name->is_in_flight = 0;
    name->is_told = rc < 0;
    return vl_result(call, name, name->newest, rc);
}

static void settle_earlier(struct name *name, int rc) {
    if (settle("an earlier checkpoint", name, rc) != VELOC_SUCCESS)
        name->has_earlier_failed = 1;
}

void vl_settle_earlier(struct name *name) {
    if (name->is_in_flight)
        settle_earlier(name, varve_wait(name->session));
}

/* ---- the begin ---- */

/* A first run that is none would bury what is stored, and with max_versions delete it. */
static int is_seen(const struct name *name, int version) {
    if (name->unseen != 0 && vl_is_teller())
        vl_fail("VELOC_Checkpoint_begin",
                "%s@%d: refused: VELOC_Restart_test could not tell which checkpoints of %s there are (%s); "
                "mend that, and call VELOC_Restart_test again",
                name->name, version, name->name, varve_error_text(name->unseen));
    return name->unseen == 0;
}

int VELOC_Checkpoint_begin(const char *name, int version) {
    struct phase *phase = &vl_layer.saving;
    int is_free = !phase->name && !vl_layer.restoring.name;
    if (!is_free)
        vl_fail("VELOC_Checkpoint_begin", "%s@%d: a checkpoint or a restart has begun and not ended", name, version);
    struct name *known = vl_name("VELOC_Checkpoint_begin", name, version, is_free);
    if (!known || !is_seen(known, version) || vl_open("VELOC_Checkpoint_begin", known) != 0)
        return VELOC_FAILURE;
    int tested = known->is_in_flight ? varve_test(known->session) : 0;
    if (tested != 0) /* scratch need not have room for two files */
        settle_earlier(known, tested);
    phase->name = known;
    phase->version = version;
    return VELOC_SUCCESS;
}

int VELOC_Checkpoint_selective(int mode, int *ids, int id_count) {
    struct phase *phase = &vl_layer.saving;
    if (!phase->name)
        return vl_fail("VELOC_Checkpoint_mem", "VELOC_Checkpoint_begin comes first");
    if (phase->has_file)
        return vl_fail("VELOC_Checkpoint_mem", "this checkpoint has a file; use another name for the memory");
    if (vl_choose("VELOC_Checkpoint_mem", phase, mode, ids, id_count, 0) != VELOC_SUCCESS)
        return VELOC_FAILURE;
    vl_note_digests(phase);
    return VELOC_SUCCESS;
}

int VELOC_Checkpoint_mem(void) {
    return VELOC_Checkpoint_selective(VELOC_CKPT_ALL, NULL, 0);
}

/* ---- the end ---- */

static int is_ready(const char *call, struct phase *phase, int is_checked) {
    int id;
    if (phase->has_file)
        return vl_file_open(call, phase, 0) == 0 && vl_file_protect(phase) == 0;
    if (!phase->is_chosen) {
        vl_fail(call, "%s@%d: neither VELOC_Checkpoint_mem nor VELOC_Route_file has given it anything",
                phase->name->name, phase->version);
        return 0;
    }
    if (is_checked && vl_changed(phase, &id)) {
        vl_fail(call, "%s@%d: id %d has changed since VELOC_Checkpoint_mem: change it after VELOC_Checkpoint_end",
                phase->name->name, phase->version, id);
        return 0;
    }
    return vl_hand_over(phase, 0) == 0;
}

/* What is stored anew is not what was found damaged. */
static void unmark_bad(struct name *name, int version) {
    for (size_t i = name->bad_count; i-- > 0;)
        if (name->bad[i] == version)
            name->bad[i] = name->bad[--name->bad_count];
}

static int store(const char *call, struct phase *phase) {
    struct name *name = phase->name;
    vl_settle_earlier(name);
    name->newest = phase->version;
    int rc = varve_checkpoint(name->session, phase->version);
    if (rc == 0 && vl_layer.is_sync) {
        rc = varve_wait(name->session);
    } else if (rc == 0) {
        name->is_in_flight = 1;
        name->file = phase->has_file ? strdup(phase->file) : NULL; /* without memory VELOC_Cleanup removes it */
    }
    name->is_told = rc < 0;
    if (rc == 0)
        unmark_bad(name, phase->version);
    return vl_result(call, name, phase->version, rc);
}

/* One rank that was not successful is enough: there is no such version then. */
static int end(const char *call, int success, int is_checked) {
    struct phase *phase = &vl_layer.saving;
    int is_mine, rc = VELOC_FAILURE;
    if (!phase->name)
        return vl_fail(call, "VELOC_Checkpoint_begin comes first");
    phase->fd = -1;
    is_mine = success && is_ready(call, phase, is_checked);
    if (vl_on_all(is_mine))
        rc = store(call, phase);
    else if (vl_layer.rank == 0 || !is_mine)
        vl_fail(call, "%s@%d is not stored: %s", phase->name->name, phase->version,
                is_mine ? "another rank was not successful" : "this rank was not successful");
    if (phase->fd >= 0)
        close(phase->fd);
    if (rc == VELOC_SUCCESS && vl_layer.is_sync)
        vl_file_remove(phase);
    vl_close_phase(phase);
    return rc;
}

int VELOC_Checkpoint_end(int success) {
    return end("VELOC_Checkpoint_end", success, 1);
}

/* As VELOC's it tells that the one before has failed; but this one is stored all the same. */
int VELOC_Checkpoint(const char *name, int version) {
    int earlier = VELOC_Checkpoint_wait(), is_chosen;
    if (VELOC_Checkpoint_begin(name, version) != VELOC_SUCCESS)
        return VELOC_FAILURE;
    is_chosen = vl_choose("VELOC_Checkpoint", &vl_layer.saving, VELOC_CKPT_ALL, NULL, 0, 0) == VELOC_SUCCESS;
    return end("VELOC_Checkpoint", is_chosen, 0) == VELOC_SUCCESS ? earlier : VELOC_FAILURE;
}

/* ---- waiting ---- */

/* As VELOC, a failure is told once: a program may save only after a wait that succeeds. */
int VELOC_Checkpoint_wait(void) {
    int rc = VELOC_SUCCESS;
    if (!vl_layer.is_open || vl_layer.saving.name)
        return vl_fail("VELOC_Checkpoint_wait", "VELOC_Init and VELOC_Checkpoint_end come first");
    for (size_t i = 0; i < vl_layer.name_count; i++) {
        struct name *name = vl_layer.names[i];
        if (name->session && !name->is_told &&
            settle("VELOC_Checkpoint_wait", name, varve_wait(name->session)) != VELOC_SUCCESS)
            rc = VELOC_FAILURE;
        if (name->has_earlier_failed) {
            if (vl_is_teller())
                vl_fail("VELOC_Checkpoint_wait", "%s: a checkpoint before the last has failed, as was said",
                        name->name);
            name->has_earlier_failed = 0;
            rc = VELOC_FAILURE;
        }
    }
    return rc;
}

int VELOC_Checkpoint_finished(void) {
    int is_finished = 1, rc = VELOC_SUCCESS;
    if (!vl_layer.is_open || vl_layer.saving.name)
        return vl_fail("VELOC_Checkpoint_finished", "VELOC_Init and VELOC_Checkpoint_end come first");
    for (size_t i = 0; i < vl_layer.name_count; i++) {
        struct name *name = vl_layer.names[i];
        int tested = name->session ? varve_test(name->session) : 1;
        if (tested == 0)
            is_finished = 0;
        else if (name->session && settle("VELOC_Checkpoint_finished", name, tested) != VELOC_SUCCESS)
            rc = VELOC_FAILURE;
    }
    return rc == VELOC_SUCCESS ? is_finished : rc;
}
