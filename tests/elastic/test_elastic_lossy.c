/* Regions that may be rounded (lossy), and a job that comes back on other ranks. Rounding is done once, when they are
 * saved. So each rank gets, bit for bit, what the ranks that have saved them get themselves. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve.h>

#include "folder.h"
#include "group.h"
#include "test.h"

#define ROWS ((uint64_t)130)
#define COLUMNS ((uint64_t)330)
#define PLACES_MAX (ROWS * COLUMNS)
#define KINDS 4u

static const struct kind {
    const char *name;
    int type;
    enum varve_distribution how;
    uint64_t rows, columns; /* of all ranks; lists and copies have one column */
    double bound;
} kinds[KINDS] = {
    {"field", VARVE_F64, VARVE_BY_DIMS, ROWS, COLUMNS, 1e-3},
    {"small", VARVE_F32, VARVE_BY_DIMS, ROWS, COLUMNS, 0.05},
    {"list", VARVE_F32, VARVE_JOINED, 30011, 1, 0.2},
    {"copies", VARVE_F64, VARVE_REPLICATED, 9001, 1, 1e-6},
};

struct plan {
    enum { SAVE, NOTE, COMPARE, GO_ON } step; /* NOTE: what the ranks get that have saved it */
    uint32_t rows, columns;                   /* of ranks */
    int is_dealt;                             /* rows are dealt out in blocks of three */
    double finer;                             /* the bound of these ranks is so many times as fine; 0: they have none */
    const char *settings;
};

static char folder[128];
static uint64_t *known; /* the bits of each element of each kind, in memory that all ranks share */
static int64_t *saved; /* the newest version */

/* ---- in the ranks ---- */

struct part {
    const struct kind *kind;
    struct varve_array array;
    uint64_t count;
    uint8_t *data;
};

static size_t element_of(const struct kind *kind) {
    return kind->type == VARVE_F64 ? 8 : 4;
}

static struct varve_dim share(uint64_t all, uint64_t at, uint64_t parts) {
    return (struct varve_dim){all * (at + 1) / parts - all * at / parts, all * at / parts, all};
}

static void deal_rows(struct varve_array *array, uint64_t all, uint64_t at, uint64_t parts) {
    uint64_t count = 0;
    for (uint64_t row = 0; row < all; row++)
        count += row / 3 % parts == at;
    array->dim[0] = (struct varve_dim){count, 3 * at, all};
    array->stride[0] = (struct varve_stride){3, 3 * parts};
}

static void cut_out(const struct varve_comm *comm, const struct plan *plan, struct part *part) {
    const struct kind *kind = part->kind;
    struct varve_array *array = &part->array;
    *array = (struct varve_array){.size = sizeof *array, .type = kind->type, .dims = 2};
    array->dim[0] = share(kind->rows, comm->rank / plan->columns, plan->rows);
    array->dim[1] = share(kind->columns, comm->rank % plan->columns, plan->columns);
    if (kind->how != VARVE_BY_DIMS) {
        int is_list = kind->how == VARVE_JOINED;
        array->dim[0] = share(kind->rows, is_list ? comm->rank : 0, is_list ? comm->ranks : 1);
        array->dim[1] = share(1, 0, 1);
    } else if (plan->is_dealt) {
        deal_rows(array, kind->rows, comm->rank / plan->columns, plan->rows);
    }
    if (plan->finer > 0) {
        array->lossy = "zfp";
        array->bound = kind->bound / plan->finer;
    }
    part->count = array->dim[0].local * array->dim[1].local;
    part->data = calloc(part->count + 1, element_of(kind));
}

static uint64_t place_of(const struct part *part, uint64_t element) {
    const struct varve_dim *rows = &part->array.dim[0], *columns = &part->array.dim[1];
    const struct varve_stride *stride = &part->array.stride[0];
    uint64_t row = element / columns->local, column = element % columns->local;
    if (stride->block)
        row = row / stride->block * stride->every + row % stride->block;
    return (rows->first + row) * columns->global + columns->first + column;
}

/* Smooth, so that zfp is worth it, with noise below the bounds, and numbers in between that cannot be rounded. */
static double value_of(uint64_t place) {
    uint64_t noise = place * UINT64_C(0x9e3779b97f4a7c15);
    if (place < 3000 && place % 101 < 3) /* only there, since zfp takes no block that has them */
        return place % 101 == 0 ? NAN : place % 101 == 1 ? -INFINITY : -0.0;
    return 100 * sin((double)place / 900) + (double)(noise >> 40) * 1e-9;
}

static uint64_t bits_of(const struct part *part, uint64_t element) {
    uint64_t bits = 0;
    memcpy(&bits, part->data + element * element_of(part->kind), element_of(part->kind));
    return bits;
}

static void fill(struct part *part) {
    for (uint64_t i = 0; i < part->count; i++) {
        double value = value_of(place_of(part, i));
        float narrow = (float)value;
        memcpy(part->data + i * element_of(part->kind), part->kind->type == VARVE_F64 ? (void *)&value : &narrow,
               element_of(part->kind));
    }
}

/* Is it the value within the bound? *rounded counts those that have changed. */
static int is_near(const struct part *part, uint64_t element, uint64_t *rounded) {
    double value = value_of(place_of(part, element)), came;
    uint64_t bits = bits_of(part, element);
    float narrow;
    memcpy(&narrow, &bits, sizeof narrow);
    memcpy(&came, &bits, sizeof came);
    if (part->kind->type == VARVE_F32) {
        came = narrow;
        value = (float)value;
    }
    if (!isfinite(value))
        return isnan(value) ? isnan(came) : value == came;
    *rounded += came != value;
    return fabs(came - value) <= part->kind->bound;
}

static void note(struct varve_comm *comm, const struct part *part) {
    uint64_t rounded = 0, *bits = known + (size_t)(part->kind - kinds) * PLACES_MAX;
    for (uint64_t i = 0; i < part->count; i++) {
        if (!is_near(part, i, &rounded))
            group_fail(comm, "WRONG: %s: element %" PRIu64 " is not within the bound", part->kind->name, i);
        bits[place_of(part, i)] = bits_of(part, i);
    }
    if (rounded < part->count / 2)
        group_fail(comm, "%s: only %" PRIu64 " of %" PRIu64 " elements were rounded", part->kind->name, rounded,
                   part->count);
}

static void compare(struct varve_comm *comm, const struct part *part) {
    const uint64_t *bits = known + (size_t)(part->kind - kinds) * PLACES_MAX;
    for (uint64_t i = 0; i < part->count; i++)
        if (bits_of(part, i) != bits[place_of(part, i)])
            group_fail(comm, "WRONG: %s: element %" PRIu64 " has other bits", part->kind->name, i);
}

static struct varve_session *open_session(struct varve_comm *comm, const char *settings) {
    struct varve_options options = {.size = sizeof options, .settings = settings};
    struct varve_session *session = NULL;
    struct varve_error error = {0};
    char address[160];
    snprintf(address, sizeof address, "file://%s", folder);
    if (varve_open_comm(group_comm(comm), address, "rounded", &options, &session, &error) != 0)
        group_fail(comm, "open: %s", error.text);
    return session;
}

static void must(const struct varve_comm *comm, struct varve_session *session, int rc, const char *what) {
    if (rc)
        group_fail(comm, "%s: %d: %s", what, rc, varve_session_error(session)->text);
}

static void run_rank(struct varve_comm *comm, void *arg) {
    const struct plan *plan = arg;
    struct varve_session *session = open_session(comm, plan->settings);
    struct part parts[KINDS];
    for (unsigned i = 0; i < KINDS; i++) {
        parts[i].kind = &kinds[i];
        cut_out(comm, plan, &parts[i]);
        must(comm, session, varve_protect_array(session, kinds[i].name, parts[i].data, &parts[i].array), "protect");
        must(comm, session, varve_distribute(session, kinds[i].name, kinds[i].how), "distribute");
    }
    if (plan->step != SAVE)
        must(comm, session, varve_restart(session, VARVE_LATEST, NULL), "restart");
    for (unsigned i = 0; i < KINDS; i++)
        if (plan->step == NOTE)
            note(comm, &parts[i]);
        else if (plan->step != SAVE)
            compare(comm, &parts[i]);
    if (plan->step == SAVE || plan->step == GO_ON) {
        for (unsigned i = 0; i < KINDS && plan->step == SAVE; i++)
            fill(&parts[i]);
        must(comm, session, varve_checkpoint(session, *saved + 1), "checkpoint");
        must(comm, session, varve_wait(session), "wait");
    }
    must(comm, session, varve_close(session), "close");
    for (unsigned i = 0; i < KINDS; i++)
        free(parts[i].data);
}

/* ---- outside ---- */

static int setup(void **state) {
    (void)state;
    known = group_memory((KINDS * PLACES_MAX + 1) * sizeof *known);
    saved = (int64_t *)(known + KINDS * PLACES_MAX);
    return folder_make(NULL, "test-elastic-lossy", folder, sizeof folder);
}

static int teardown(void **state) {
    (void)state;
    group_memory_free(known, (KINDS * PLACES_MAX + 1) * sizeof *known);
    return folder_remove(folder);
}

static void run(const struct plan *plan) {
    char about[160];
    snprintf(about, sizeof about, "step %d, %ux%u, dealt %d, %s", (int)plan->step, plan->rows, plan->columns,
             plan->is_dealt, plan->settings);
    group_must_run(plan->rows * plan->columns, run_rank, plan, NULL, about);
    *saved += plan->step == SAVE || plan->step == GO_ON;
}

static void check_store(void) {
    char command[400];
    snprintf(command, sizeof command, "%s verify file://%s >/dev/null", VARVE_TOOL, folder);
    assert_int_equal(system(command), 0);
}

/* One grid saves, and what it gets back is what all others must get. Each saves it once more, as it is, and the next
 * comes back from that. */
static void comes_back_everywhere(const char *settings) {
    static const struct plan grids[] = {
        {.rows = 4, .columns = 1, .finer = 1},
        {.rows = 1, .columns = 3, .finer = 1},
        {.rows = 1, .columns = 1, .finer = 1},
        {.rows = 2, .columns = 2, .finer = 1, .is_dealt = 1},
        {.rows = 3, .columns = 2, .finer = 64}, /* a finer grid has what lies on the coarser one */
        {.rows = 1, .columns = 7, .finer = 0},  /* what shall be exact from now on stays as it is */
    };
    const size_t count = sizeof grids / sizeof *grids;
    for (size_t from = 0; from < 4; from++) {
        struct plan plan = grids[from];
        teardown(NULL);
        setup(NULL);
        plan.settings = settings;
        run(&plan);
        plan.step = NOTE;
        run(&plan);
        for (size_t to = 0; to < 2 * count; to++) { /* from what this grid has saved, then each from the one before */
            plan = grids[to % count];
            plan.settings = settings;
            plan.step = to < count ? COMPARE : GO_ON;
            run(&plan);
        }
        check_store();
    }
}

/* As numbers on a grid, through what is made for them. */
static void each_bit_comes_back(void **state) {
    (void)state;
    comes_back_everywhere("codec=zfp,block_size=64K");
}

static void however_it_is_stored(void **state) {
    (void)state;
    comes_back_everywhere("codec=size,aggregate=2,dedup=exact,restart_window=1M,keep=all");
    comes_back_everywhere("codec=none,fine=64,block_size=64K,threads=0");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_bit_comes_back, setup, teardown),
        cmocka_unit_test_setup_teardown(however_it_is_stored, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
