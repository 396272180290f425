/* A restart in which ranks lend each other blocks, from a store with one byte changed: whichever byte it is, all ranks
 * come back to the same checkpoint, and every byte is right. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve.h>

#include "folder.h"
#include "group.h"
#include "test.h"

#define RANKS 3
#define PAGE ((size_t)4096)
#define PAGES ((size_t)192)
#define SIZE (PAGES * PAGE)
#define KEPT_FROM                                                                                                      \
    ((size_t)64)              /* pages that the last checkpoint has from the one before; those before and behind are   \
                               */
#define KEPT_TO ((size_t)144) /* new, so that only a part of the blocks is wanted */
#define TAIL ((long)8192)     /* of a pack: tables, ids and footer are in it */
#define TAIL_STEP 48
#define DATA_STEPS 16
#define NEEDED_MOST 40 /* steps in tables and footer: 21 were seen. Without the sums it would be 64 */

static char folder[64];
static int64_t *versions; /* that the ranks came back to */

static int setup(void **state) {
    (void)state;
    versions = group_memory(RANKS * sizeof *versions);
    return folder_make(NULL, "test-lender-damage", folder, sizeof folder);
}

static int teardown(void **state) {
    (void)state;
    group_memory_free(versions, RANKS * sizeof *versions);
    return folder_remove(folder);
}

/* Of version 3 the middle is that of version 2. Every second page is the same on all ranks. */
static void fill(uint8_t *memory, uint32_t rank, uint64_t version) {
    for (size_t i = 0; i < SIZE; i += 8) {
        uint64_t page = i / PAGE, of = version == 3 && page >= KEPT_FROM && page < KEPT_TO ? 2 : version;
        uint64_t key = of << 8 | (page % 2 ? rank + 1 : 0);
        uint64_t value = (key << 32 | page) * 0x9e3779b97f4a7c15u + i % PAGE * 0xbf58476d1ce4e5b9u;
        memcpy(memory + i, &value, 8);
    }
}

static struct varve_session *open_session(struct varve_comm *comm, uint8_t *memory) {
    char address[128];
    struct varve_options options = {.size = sizeof options, .settings = "dedup=exact,aggregate=off,codec=none"};
    struct varve_session *session = NULL;
    struct varve_error error;
    snprintf(address, sizeof address, "file://%s", folder);
    if (varve_open_comm(group_comm(comm), address, "damage", &options, &session, &error) != 0)
        group_fail(comm, "open: %s", error.text);
    if (varve_protect(session, "field", memory, SIZE) != 0)
        group_fail(comm, "protect");
    return session;
}

static void save(struct varve_comm *comm, void *arg) {
    uint8_t *memory = aligned_alloc(PAGE, SIZE);
    struct varve_session *session = open_session(comm, memory);
    (void)arg;
    for (uint64_t version = 1; version <= 3; version++) {
        fill(memory, comm->rank, version);
        if (varve_checkpoint(session, version) != 0 || varve_wait(session) != 0)
            group_fail(comm, "checkpoint: %s", varve_session_error(session)->text);
    }
    varve_close(session);
    free(memory);
}

static void come_back(struct varve_comm *comm, void *arg) {
    uint8_t *memory = aligned_alloc(PAGE, SIZE), *wanted = aligned_alloc(PAGE, SIZE);
    int64_t version = -1;
    struct varve_session *session = open_session(comm, memory);
    if (varve_restart(session, VARVE_LATEST, &version) != 0)
        group_fail(comm, "byte %ld: restart: %s", *(const long *)arg, varve_session_error(session)->text);
    fill(wanted, comm->rank, (uint64_t)version);
    if (memcmp(memory, wanted, SIZE) != 0)
        group_fail(comm, "byte %ld: other bytes came back as version %lld", *(const long *)arg, (long long)version);
    versions[comm->rank] = version;
    varve_close(session);
    free(wanted);
    free(memory);
}

static int64_t restart_all(long at) {
    group_must_run(RANKS, come_back, &at, NULL, NULL);
    for (int rank = 1; rank < RANKS; rank++)
        assert_int_equal(versions[rank], versions[0]);
    assert_true(versions[0] >= 1 && versions[0] <= 3);
    return versions[0];
}

static void flip(FILE *pack, long at) {
    assert_int_equal(fseek(pack, at, SEEK_SET), 0);
    int byte = fgetc(pack);
    assert_true(byte != EOF);
    assert_int_equal(fseek(pack, at, SEEK_SET), 0);
    assert_true(fputc(byte ^ 0x10, pack) != EOF);
    assert_int_equal(fflush(pack), 0);
}

/* The version that all ranks come back to when this byte is another. */
static int64_t with_damage(FILE *pack, long at) {
    flip(pack, at);
    int64_t version = restart_all(at);
    flip(pack, at);
    return version;
}

/* Version 2's pack of a rank, with blocks that all need. */
static FILE *open_pack(long *size_out) {
    char path[256];
    snprintf(path, sizeof path, "%s/n/damage/data/00000001/0000000000000002/00000000/00000001", folder);
    FILE *pack = fopen(path, "r+");
    assert_non_null(pack);
    assert_int_equal(fseek(pack, 0, SEEK_END), 0);
    *size_out = ftell(pack);
    return pack;
}

/* Bytes of blocks: those that are wanted are missed, and nobody takes the checkpoint. */
static void damaged_blocks_are_seen_by_all(void **state) {
    long size, passed_over = 0;
    (void)state;
    group_must_run(RANKS, save, NULL, NULL, NULL);
    FILE *pack = open_pack(&size);
    assert_true(size > 4 * TAIL);
    for (long i = 0; i < DATA_STEPS; i++)
        passed_over += with_damage(pack, 4096 + (size - TAIL - 4096) / DATA_STEPS * i) == 1;
    fclose(pack);
    print_message("%ld of %d damaged places of blocks were wanted\n", passed_over, DATA_STEPS);
    assert_in_range(passed_over, 2, DATA_STEPS - 2); /* what nobody wants is not read */
    assert_int_equal(restart_all(-1), 3);
}

/* Bytes of tables, ids and footer. Where ids are damaged, the sums of blocks do, and nothing is lost. */
static void damaged_ids_cost_nothing(void **state) {
    long size, passed_over = 0, kept = 0;
    (void)state;
    group_must_run(RANKS, save, NULL, NULL, NULL);
    FILE *pack = open_pack(&size);
    for (long at = size - TAIL; at < size; at += TAIL_STEP) {
        int64_t version = with_damage(pack, at);
        passed_over += version == 1;
        kept += version == 3;
    }
    fclose(pack);
    print_message("of the end, %ld bytes were needed, %ld were not\n", passed_over, kept);
    assert_in_range(passed_over, 1, NEEDED_MOST);
    assert_true(kept > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(damaged_blocks_are_seen_by_all, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged_ids_cost_nothing, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
