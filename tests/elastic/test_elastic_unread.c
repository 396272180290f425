/* After a restart on fewer ranks a checkpoint refers only to what that restart has read. A page that nobody wanted back
 * is damaged meanwhile: it is stored again, although its id is known. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve.h>

#include "folder.h"
#include "group.h"
#include "test.h"

#define SIZE ((size_t)16 * 4096)
#define HURT ((size_t)5 * 4096 + 100) /* of the region that is dropped */

static char folder[64];

struct rank {
    struct varve_session *session;
    uint64_t kept[SIZE / 8], dropped[SIZE / 8];
};

static void fill(uint64_t *data, uint64_t salt) {
    for (size_t i = 0; i < SIZE / 8; i++) {
        uint64_t x = (i + salt) * UINT64_C(0x9e3779b97f4a7c15);
        data[i] = (x ^ (x >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
    }
}

/* Other bytes on each rank: what several have may be stored by any of them. */
static void fill_both(struct rank *rank, uint64_t number) {
    fill(rank->kept, (2 * number + 1) << 20);
    fill(rank->dropped, (2 * number + 2) << 20);
}

static struct rank *open_rank(struct varve_comm *comm) {
    struct varve_options options = {.size = sizeof options, .settings = "codec=none,keep=all,log=error"};
    struct rank *rank = aligned_alloc(4096, (sizeof *rank + 4095) / 4096 * 4096);
    struct varve_error error;
    char address[128];
    snprintf(address, sizeof address, "file://%s", folder);
    if (varve_open_comm(group_comm(comm), address, "unread", &options, &rank->session, &error) != 0)
        group_fail(comm, "open: %s", error.text);
    if (varve_protect(rank->session, "kept", rank->kept, SIZE) != 0 ||
        varve_protect(rank->session, "dropped", rank->dropped, SIZE) != 0 ||
        varve_distribute(rank->session, "kept", VARVE_BY_RANK) != 0 ||
        varve_distribute(rank->session, "dropped", VARVE_DROPPED) != 0)
        group_fail(comm, "protect: %s", varve_session_error(rank->session)->text);
    return rank;
}

static void close_rank(struct rank *rank) {
    varve_close(rank->session);
    free(rank);
}

static void save(struct varve_comm *comm, struct rank *rank, int64_t version) {
    if (varve_checkpoint(rank->session, version) != 0 || varve_wait(rank->session) != 0)
        group_fail(comm, "checkpoint: %s", varve_session_error(rank->session)->text);
}

static void begin(struct varve_comm *comm, void *unused) {
    (void)unused;
    struct rank *rank = open_rank(comm);
    fill_both(rank, comm->rank);
    save(comm, rank, 1);
    close_rank(rank);
}

static int64_t come_back(struct varve_comm *comm, struct rank *rank) {
    int64_t got = -1;
    fill(rank->kept, 0);
    if (varve_restart(rank->session, VARVE_LATEST, &got) != 0)
        group_fail(comm, "restart: %s", varve_session_error(rank->session)->text);
    return got;
}

static void go_on(struct varve_comm *comm, void *unused) {
    (void)unused;
    struct rank *rank = open_rank(comm);
    if (come_back(comm, rank) != 1)
        group_fail(comm, "version 1 did not come back, though only a region that is dropped is damaged");
    fill_both(rank, 0); /* the same as was stored */
    save(comm, rank, 2);
    close_rank(rank);
}

static void look(struct varve_comm *comm, void *unused) {
    (void)unused;
    struct rank *rank = open_rank(comm), *right = aligned_alloc(4096, (sizeof *right + 4095) / 4096 * 4096);
    memset(rank->dropped, 0, SIZE);
    int64_t got = come_back(comm, rank);
    if (got != 2)
        group_fail(comm, "version %lld came back: version 2 refers to damaged bytes", (long long)got);
    fill_both(right, 0);
    if (memcmp(rank->kept, right->kept, SIZE) != 0 || memcmp(rank->dropped, right->dropped, SIZE) != 0)
        group_fail(comm, "other bytes came back");
    free(right);
    close_rank(rank);
}

/* Change one byte of the page in the pack that has it. */
static void hurt(const char *pack) {
    static uint64_t dropped[SIZE / 8];
    char path[160];
    snprintf(path, sizeof path, "%s/n/unread/data/00000001/0000000000000001/00000000/%s", folder, pack);
    FILE *file = fopen(path, "r+be");
    assert_non_null(file);
    static uint8_t data[1 << 20];
    size_t size = fread(data, 1, sizeof data, file);
    fill(dropped, 2 << 20);
    const uint8_t *found = memmem(data, size, (const uint8_t *)dropped + HURT, 64);
    assert_non_null(found);
    assert_int_equal(fseek(file, (long)(found - data), SEEK_SET), 0);
    assert_int_equal(fputc(*found ^ 1, file), *found ^ 1);
    assert_int_equal(fclose(file), 0);
}

static void only_what_was_read_is_referred_to(void **state) {
    (void)state;
    assert_int_equal(folder_make(NULL, "test-elastic-unread", folder, sizeof folder), 0);
    group_must_run(2, begin, NULL, NULL, "saving on two ranks");
    hurt("00000000");
    group_must_run(1, go_on, NULL, NULL, "going on with one");
    group_must_run(1, look, NULL, NULL, "coming back once more");
    folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(only_what_was_read_is_referred_to)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
