/* Arrays that many ranks hold, as people ask for them: which there are, whether every element is stored, and any slice
 * of them. What an element should be follows from its place in the global array alone. */
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve.h>
#include <varve/varve_inspect.h>

#include "folder.h"
#include "group.h"
#include "test.h"

#define DIMS_MOST 3
#define RANKS_MOST 16

struct box {
    uint64_t first[DIMS_MOST], local[DIMS_MOST];
};
/* A global array, and which block of it each rank has. */
struct plan {
    unsigned dims;
    uint64_t size[DIMS_MOST];
    uint32_t ranks;
    struct box box[RANKS_MOST];
    uint32_t salted;   /* ranks from this one on have other values; 0: none */
    int is_other_type; /* the last rank has another type */
    int is_list;       /* the blocks follow each other: no rank says where its own is */
    int is_uneven;     /* each rank's block is an array of its own, of another size */
    const char *settings;
    struct varve_stride stride; /* of the last dimension of each block */
    int64_t later;              /* version 1 and so many more */
    int has_attributes;
    uint64_t changed; /* the element at this place has another value; 0: none */
    char plain;       /* the last rank has bytes under the array's name, which begin with this; 0: it has a block */
};

static const struct varve_stride together; /* elements that follow each other */
static char folder[128], address[160];

static uint64_t value_of(uint64_t place, uint64_t salt) {
    uint64_t x = place * UINT64_C(0x9e3779b97f4a7c15) + salt;
    return (x ^ (x >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
}

static uint64_t place_of(const struct plan *plan, const struct box *box, struct varve_stride stride, uint64_t element) {
    uint64_t place = 0, scale = 1;
    for (unsigned i = plan->dims; i-- > 0;) {
        uint64_t local = element % box->local[i];
        if (stride.block && i + 1 == plan->dims)
            local = local / stride.block * stride.every + local % stride.block;
        place += (box->first[i] + local) * scale;
        element /= box->local[i];
        scale *= plan->size[i];
    }
    return place;
}

static uint64_t elements_of(const struct plan *plan, const struct box *box) {
    uint64_t count = 1;
    for (unsigned i = 0; i < plan->dims; i++)
        count *= box->local[i];
    return count;
}

/* ---- saving ---- */

static void save(struct varve_comm *comm, void *arg) {
    const struct plan *plan = arg;
    const struct box *box = &plan->box[comm->rank];
    struct varve_array array = {.size = sizeof array, .type = VARVE_U64, .dims = plan->dims};
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    struct varve_error error = {0};
    uint64_t count = elements_of(plan, box), *field = calloc(count + 1, sizeof *field);
    uint64_t salt = plan->salted && comm->rank >= plan->salted ? 1 + comm->rank : 0;
    char bytes[100] = "no array";
    if (plan->is_other_type && comm->rank + 1 == comm->ranks)
        array.type = VARVE_I64;
    for (unsigned i = 0; i < plan->dims; i++)
        array.dim[i] = plan->is_uneven ? (struct varve_dim){box->local[i] - comm->rank, 0, box->local[i] - comm->rank}
                                       : (struct varve_dim){box->local[i], box->first[i], plan->size[i]};
    array.stride[plan->dims - 1] = plan->stride;
    if (plan->is_list)
        array.dim[0] = (struct varve_dim){box->local[0], 0, box->local[0]};
    for (uint64_t i = 0; i < count; i++)
        field[i] = value_of(place_of(plan, box, plan->stride, i), salt) ^
                   (plan->changed && place_of(plan, box, plan->stride, i) == plan->changed);
    options.settings = plan->settings;
    int rc = varve_open_comm(group_comm(comm), address, "grid", &options, &session, &error);
    rc = rc ? rc : varve_protect(session, "bytes", bytes, sizeof bytes);
    char plain[100] = {plan->plain};
    if (rc == 0 && plan->plain && comm->rank + 1 == comm->ranks)
        rc = varve_protect(session, "field", plain, sizeof plain);
    else
        rc = rc ? rc : varve_protect_array(session, "field", field, &array);
    if (plan->has_attributes) {
        rc = rc ? rc : varve_attribute(session, "time", "12.5 \xc2\xb5s");
        rc = rc ? rc : varve_attribute(session, "run/of", "");
        rc = rc ? rc : varve_attribute(session, "varve_name", "the program's own");
    }
    if (rc == 0 && plan->is_list && (plan->is_list > 1 || comm->rank > 0))
        rc = varve_distribute(session, "field", VARVE_JOINED);
    rc = rc ? rc : varve_checkpoint(session, 1 + plan->later);
    rc = rc ? rc : varve_wait(session);
    rc = rc ? rc : varve_close(session);
    if (rc)
        group_fail(comm, "save: %d: %s", rc, error.text);
    free(field);
}

static int teardown(void **state) {
    (void)state;
    return folder_remove(folder);
}

static void begin(const struct plan *plan) {
    teardown(NULL);
    assert_int_equal(folder_make(NULL, "test-arrays", folder, sizeof folder), 0);
    snprintf(address, sizeof address, "file://%s", folder);
    group_must_run(plan->ranks, save, plan, NULL, NULL);
}

/* A grid of blocks; one that does not divide the array gives uneven blocks. */
static struct plan grid(unsigned dims, const uint64_t *size, const uint32_t *cuts) {
    struct plan plan = {.dims = dims, .ranks = 1, .settings = ""};
    for (unsigned i = 0; i < dims; i++) {
        plan.size[i] = size[i];
        plan.ranks *= cuts[i];
    }
    for (uint32_t rank = 0; rank < plan.ranks; rank++) {
        uint32_t number = rank;
        for (unsigned i = dims; i-- > 0;) {
            uint64_t at = number % cuts[i], first = size[i] * at / cuts[i], end = size[i] * (at + 1) / cuts[i];
            plan.box[rank].first[i] = first;
            plan.box[rank].local[i] = end - first;
            number /= cuts[i];
        }
    }
    return plan;
}

/* ---- reading ---- */

static struct varve_which newest = {.name = "grid", .version = -1};

static struct varve_store *open_store(void) {
    struct varve_store *store = NULL;
    struct varve_error error = {0};
    if (varve_store_open(address, NULL, &store, &error) != 0)
        fail_msg("%s", error.text);
    return store;
}

struct seen {
    int count, is_whole, is_private;
    uint64_t blocks;
    char problem[600];
};

static int see(void *arg, const struct varve_global_array *array) {
    struct seen *seen = arg;
    assert_string_equal(array->name, "field");
    seen->count++;
    seen->is_whole = array->is_whole;
    seen->is_private = array->is_private;
    seen->blocks = array->blocks;
    snprintf(seen->problem, sizeof seen->problem, "%s", array->problem);
    return 0;
}

static struct seen look(const struct plan *plan) {
    struct seen seen = {0};
    struct varve_error error = {0};
    begin(plan);
    struct varve_store *store = open_store();
    if (varve_store_arrays(store, &newest, NULL, see, &seen, &error) != 0)
        fail_msg("%s", error.text);
    varve_store_close(store);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.blocks, plan->ranks);
    return seen;
}

struct comparing {
    const struct plan *plan;
    struct box box;
    uint64_t done, looked;
};

static int compare(void *arg, uint64_t offset, const void *data, size_t size, uint64_t total) {
    struct comparing *comparing = arg;
    const uint64_t *values = data;
    assert_int_equal(total, elements_of(comparing->plan, &comparing->box) * 8);
    if (!data) {
        comparing->looked += size;
        return 0;
    }
    assert_int_equal(offset, comparing->done);
    for (uint64_t i = 0; i < size / 8; i++)
        if (values[i] != value_of(place_of(comparing->plan, &comparing->box, together, offset / 8 + i), 0))
            fail_msg("WRONG: element %" PRIu64 " of the slice", offset / 8 + i);
    comparing->done += size;
    return 0;
}

static int read_box(struct varve_store *store, const struct plan *plan, const struct box *box, int is_checked_first,
                    struct varve_error *error) {
    struct comparing comparing = {.plan = plan, .box = *box};
    struct varve_slice slice = {{0}, {0}};
    memcpy(slice.first, box->first, sizeof box->first);
    memcpy(slice.count, box->local, sizeof box->local);
    int rc = varve_store_read_array(store, &newest, "field", &slice, is_checked_first, compare, &comparing, error);
    if (rc == 0)
        assert_int_equal(comparing.done, elements_of(plan, box) * 8);
    if (rc == 0 && is_checked_first)
        assert_int_equal(comparing.looked, comparing.done);
    return rc;
}

/* The same slice and its first and last index, by one call and into memory. */
static void read_parts(struct varve_store *store, const struct plan *plan, const struct box *box) {
    struct box wanted[3] = {*box, *box, *box};
    struct varve_part parts[3] = {{.array = "field"}, {.array = "field"}, {.array = "field"}};
    struct varve_error error = {0};
    wanted[1].local[0] = wanted[2].local[0] = box->local[0] > 0;
    wanted[2].first[0] += box->local[0] > 0 ? box->local[0] - 1 : 0;
    for (int i = 0; i < 3; i++) {
        memcpy(parts[i].slice.first, wanted[i].first, sizeof wanted[i].first);
        memcpy(parts[i].slice.count, wanted[i].local, sizeof wanted[i].local);
        parts[i].bytes = elements_of(plan, &wanted[i]) * 8;
        parts[i].to = malloc(parts[i].bytes + 8);
        assert_non_null(parts[i].to);
        memset(parts[i].to, 0xa5, parts[i].bytes + 8);
    }
    if (varve_store_read_parts(store, &newest, parts, 3, &error) != 0)
        fail_msg("%s", error.text);
    for (int i = 0; i < 3; i++) {
        const uint64_t *values = parts[i].to;
        for (uint64_t k = 0; k < parts[i].bytes / 8; k++)
            if (values[k] != value_of(place_of(plan, &wanted[i], together, k), 0))
                fail_msg("WRONG: element %" PRIu64 " of part %d", k, i);
        assert_true(values[parts[i].bytes / 8] == UINT64_C(0xa5a5a5a5a5a5a5a5));
        free(parts[i].to);
    }
}

static uint64_t chance = 7;
static uint64_t by_chance(uint64_t below) {
    chance = chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (chance >> 33) % below;
}

static struct box random_box(const struct plan *plan) {
    struct box box = {{0}, {0}};
    for (unsigned i = 0; i < plan->dims; i++) {
        box.first[i] = by_chance(plan->size[i]);
        box.local[i] = by_chance(8) == 0 ? by_chance(2) : by_chance(plan->size[i] - box.first[i] + 1);
    }
    return box;
}

/* All of it, and slices by chance. */
static void reads_back(const struct plan *plan, int slices) {
    struct seen seen = look(plan);
    struct varve_error error = {0};
    struct box whole = {{0}, {0}};
    memcpy(whole.local, plan->size, sizeof whole.local);
    if (!seen.is_whole)
        fail_msg("%s", seen.problem);
    struct varve_store *store = open_store();
    for (int i = 0; i <= slices; i++) {
        struct box box = i == 0 ? whole : random_box(plan);
        if (read_box(store, plan, &box, i % 2, &error) != 0)
            fail_msg("%s", error.text);
        read_parts(store, plan, &box);
    }
    varve_store_close(store);
}

static void comes_back_from_any_grid(void **state) {
    static const uint64_t size[] = {61, 53, 47};
    static const uint32_t cuts[][3] = {{1, 1, 1}, {4, 1, 1}, {1, 4, 1}, {1, 1, 5}, {2, 2, 2}, {3, 1, 4}};
    (void)state;
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        struct plan plan = grid(3, size, cuts[i]);
        plan.settings = i % 2 ? "aggregate=4,codec=size" : "codec=none";
        reads_back(&plan, 40);
    }
}

/* More blocks than rows: some ranks have nothing. */
static void ranks_may_have_nothing(void **state) {
    struct plan plan = grid(2, (const uint64_t[]){5, 400}, (const uint32_t[]){8, 1});
    (void)state;
    reads_back(&plan, 20);
}

/* A slice of whole rows takes the blocks it lies in, and tables; not the ids of everything. */
#define BLOCK UINT64_C(65536)
/* Another value for this element of a store that keeps values as they are. */
static void damage_element(uint64_t place) {
    uint64_t value = value_of(place, 0);
    char pattern[200];
    glob_t packs;
    snprintf(pattern, sizeof pattern, "%s/n/*/data/*/*/*/0000000?", folder);
    assert_int_equal(glob(pattern, 0, NULL, &packs), 0);
    size_t size = UINT64_C(80) << 20, done = 0;
    uint8_t *bytes = malloc(size);
    for (size_t i = 0; i < packs.gl_pathc; i++) {
        FILE *file = fopen(packs.gl_pathv[i], "r+");
        uint8_t *found = memmem(bytes, fread(bytes, 1, size, file), &value, sizeof value);
        done += found && fseek(file, found - bytes, SEEK_SET) == 0 && fputc(~*found & 255, file) != EOF;
        fclose(file);
    }
    globfree(&packs);
    free(bytes);
    assert_int_equal(done, 1);
}

/* Of a damaged block, small parts beside the damage come back, by their ids. */
static void slices_come_back_beside_damage(void **state) {
    struct plan plan = grid(2, (const uint64_t[]){8192, 1024}, (const uint32_t[]){1, 1});
    struct varve_error error = {0};
    (void)state;
    plan.settings = "codec=none,block_size=64K";
    begin(&plan);
    damage_element(804 * 1024);
    struct varve_store *store = open_store();
    assert_int_equal(read_box(store, &plan, &(struct box){{803, 0}, {1, 1024}}, 0, &error), 0);
    assert_int_equal(read_box(store, &plan, &(struct box){{805, 0}, {1, 1024}}, 0, &error), 0);
    assert_int_equal(read_box(store, &plan, &(struct box){{804, 0}, {1, 1024}}, 0, &error), VARVE_CORRUPT);
    varve_store_close(store);
}

static void slices_read_their_blocks(void **state) {
    struct plan plan = grid(2, (const uint64_t[]){8192, 1024}, (const uint32_t[]){1, 1});
    static const uint64_t first[] = {8, 803, 7000, 3000}, count[] = {6, 1, 64, 2000};
    const uint64_t row = 8 * 1024, tables = UINT64_C(64) << 10;
    (void)state;
    plan.settings = "codec=none,block_size=64K";
    begin(&plan);
    struct varve_store *store = open_store();
    for (size_t i = 0; i < sizeof count / sizeof *count; i++) {
        const struct box box = {{first[i], 0}, {count[i], 1024}};
        struct varve_error error = {0};
        uint64_t before, after, end = (first[i] + count[i]) * row;
        uint64_t blocks = ((end + BLOCK - 1) / BLOCK - first[i] * row / BLOCK + 1) * BLOCK; /* they may begin later */
        assert_int_equal(varve_store_bytes_read(store, &before, &error), 0);
        assert_int_equal(read_box(store, &plan, &box, 0, &error), 0);
        assert_int_equal(varve_store_bytes_read(store, &after, &error), 0);
        printf("%" PRIu64 " rows, %" PRIu64 " bytes in blocks of %" PRIu64 ": read %" PRIu64 "\n", count[i],
               count[i] * row, blocks, after - before);
        if (after - before > blocks + blocks / 5 + tables)
            fail_msg("%" PRIu64 " bytes were read", after - before);
    }
    varve_store_close(store);
}

/* Larger than what is given out at once, in both directions: 80 MiB. In the last one a single row is. */
static void is_given_out_in_slabs(void **state) {
    struct plan plan = grid(2, (const uint64_t[]){2, 5 << 20}, (const uint32_t[]){1, 4});
    (void)state;
    reads_back(&plan, 3);
    plan = grid(2, (const uint64_t[]){5 << 20, 2}, (const uint32_t[]){4, 1});
    reads_back(&plan, 3);
    plan = grid(2, (const uint64_t[]){2, 9 << 20}, (const uint32_t[]){1, 4});
    reads_back(&plan, 2);
}

/* Three ranks, to which columns are dealt out in blocks of 7. */
static struct plan dealt(void) {
    struct plan plan = grid(2, (const uint64_t[]){40, 150}, (const uint32_t[]){1, 3});
    static const uint64_t columns[] = {52, 49, 49};
    for (uint32_t rank = 0; rank < 3; rank++)
        plan.box[rank] = (struct box){{0, 7 * rank}, {40, columns[rank]}};
    plan.stride = (struct varve_stride){7, 21};
    return plan;
}

static void comes_back_from_cyclic_blocks(void **state) {
    struct plan plan = dealt();
    (void)state;
    reads_back(&plan, 40);
}

/* Blocks that lie between each other are told apart, and so is what misses between them. */
static void cyclic_blocks_are_compared(void **state) {
    struct plan plan = dealt();
    (void)state;
    plan.box[1].local[1] -= 7;
    assert_string_equal(look(&plan).problem,
                        "280 of its elements are stored by no rank; the first are [0:40, 133:140]");
    plan = dealt();
    plan.box[1].first[1]--;
    assert_string_equal(look(&plan).problem,
                        "ranks 0 and 1 have both stored [0:40, 6:7]; a restart on other ranks refuses it");
}

/* Particles: each rank has some, or none. If one of them has not said that they are a list, it is told. */
static void lists_are_joined(void **state) {
    static const uint64_t first[] = {0, 0, 70, 71}, count[] = {0, 70, 1, 130};
    struct plan plan = grid(2, (const uint64_t[]){201, 3}, (const uint32_t[]){4, 1});
    (void)state;
    for (int rank = 0; rank < 4; rank++)
        plan.box[rank] = (struct box){{first[rank], 0}, {count[rank], 3}};
    plan.is_list = 2;
    reads_back(&plan, 30);
    plan.is_list = 1;
    assert_string_equal(look(&plan).problem, "some ranks have stored it as part of a list, and others not");
}

static void what_all_have_counts_once(void **state) {
    struct plan plan = grid(2, (const uint64_t[]){100, 100}, (const uint32_t[]){2, 1});
    (void)state;
    plan.ranks = 4; /* two have each half */
    plan.box[2] = plan.box[0];
    plan.box[3] = plan.box[1];
    reads_back(&plan, 10);
}

/* ---- the tool ---- */

static void tool(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void tool(int code, const char *format, ...) {
    char arguments[300], command[1200];
    va_list args;
    va_start(args, format);
    vsnprintf(arguments, sizeof arguments, format, args);
    va_end(args);
    snprintf(command, sizeof command, "%s %s >%s/out 2>%s/err", VARVE_TOOL, arguments, folder, folder);
    int status = system(command);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != code)
        fail_msg("%s: %d", arguments, status);
}

static char said[8192];

static int says(const char *name, const char *text) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    said[fread(said, 1, sizeof said - 1, file)] = '\0';
    fclose(file);
    return strstr(said, text) != NULL;
}

static void must_contain(const char *name, const char *text) {
    if (!says(name, text))
        fail_msg("%s has no \"%s\": %s", name, text, said);
}

static void must_not_contain(const char *name, const char *text) {
    if (says(name, text))
        fail_msg("%s: %s", name, said);
}

/* ---- what is not there, or twice ---- */

static void must_refuse(const struct plan *plan, const struct box *box, const char *text) {
    struct varve_error error = {0};
    struct varve_store *store = open_store();
    assert_int_equal(read_box(store, plan, box, 0, &error), VARVE_MISMATCH);
    if (!strstr(error.text, text))
        fail_msg("\"%s\" does not say \"%s\"", error.text, text);
    varve_store_close(store);
}

/* The element that is named is the first that is missing. What is there can be read. */
static void holes_are_named(void **state) {
    static const uint64_t size[] = {60, 50};
    struct plan plan = grid(2, size, (const uint32_t[]){3, 2});
    struct box rows = {{20, 0}, {20, 50}}, columns = {{0, 0}, {60, 25}};
    struct varve_error error = {0};
    (void)state;
    plan.box[3].local[0] = 10; /* rows 30 to 39 of the right half */
    struct seen seen = look(&plan);
    assert_false(seen.is_whole || seen.is_private);
    assert_string_equal(seen.problem, "250 of its elements are stored by no rank; the first are [30:40, 25:50]");
    must_refuse(&plan, &rows, "the first are [30:40, 25:50]");
    tool(0, "verify %s", address);
    must_contain("out", "array field is not whole: 250 of its elements are stored by no rank; the first are [30:40, "
                        "25:50]");
    struct varve_store *store = open_store();
    assert_int_equal(read_box(store, &plan, &columns, 0, &error), 0);
    varve_store_close(store);
}

static void elements_that_two_have_are_named(void **state) {
    struct plan plan = grid(2, (const uint64_t[]){60, 50}, (const uint32_t[]){3, 1});
    struct box whole = {{0, 0}, {60, 50}};
    (void)state;
    plan.box[2].first[0] -= 1;
    plan.box[2].local[0] += 1;
    struct seen seen = look(&plan);
    assert_false(seen.is_whole || seen.is_private);
    assert_string_equal(seen.problem,
                        "ranks 1 and 2 have both stored [39:40, 0:50]; a restart on other ranks refuses it");
    must_refuse(&plan, &whole, "ranks 1 and 2 have both stored [39:40, 0:50]");
    tool(0, "show %s grid", address);
    must_contain("out", "ranks 1 and 2 have both stored [39:40, 0:50]; a restart on other ranks refuses it");
    tool(0, "verify %s", address);
    must_contain("out", "array field is not whole: ranks 1 and 2 have both stored [39:40, 0:50]; a restart on");
}

static void copies_that_differ_are_named(void **state) {
    struct plan plan = grid(1, (const uint64_t[]){6000}, (const uint32_t[]){2});
    struct box whole = {{0}, {6000}};
    (void)state;
    plan.ranks = 3;
    plan.box[2] = plan.box[0];
    plan.salted = 2;
    struct seen seen = look(&plan);
    assert_false(seen.is_whole || seen.is_private);
    assert_string_equal(seen.problem,
                        "ranks 0 and 2 have stored different bytes of [0:3000]; a restart on other ranks refuses it");
    must_refuse(&plan, &whole, "ranks 0 and 2 have stored different bytes of [0:3000]");
}

static void each_rank_may_have_its_own(void **state) {
    struct plan plan = {.dims = 1, .size = {3000}, .ranks = 3, .settings = "", .salted = 1};
    struct box whole = {{0}, {3000}};
    (void)state;
    for (int i = 0; i < 3; i++)
        plan.box[i] = whole;
    struct seen seen = look(&plan);
    assert_true(seen.is_private && !seen.is_whole && !*seen.problem);
    must_refuse(&plan, &whole, "each rank has one of its own");
    tool(0, "verify %s", address);
    must_not_contain("out", "is not whole");
    plan.is_uneven = 1;
    seen = look(&plan);
    assert_true(seen.is_private && !seen.is_whole && !*seen.problem);
    tool(0, "verify %s", address);
    must_not_contain("out", "is not whole");
}

static void other_types_are_named(void **state) {
    struct plan plan = grid(1, (const uint64_t[]){6000}, (const uint32_t[]){3});
    struct box whole = {{0}, {6000}};
    (void)state;
    plan.is_other_type = 1;
    struct seen seen = look(&plan);
    assert_non_null(strstr(seen.problem, "ranks 0 and 2 have stored blocks of arrays of different sizes or types"));
    must_refuse(&plan, &whole, "different sizes or types");
}

/* Before a byte is written, also of the parts that are right. */
static void parts_are_refused(struct varve_store *store) {
    uint64_t memory[100], read = 1, before;
    struct varve_error error = {0};
    struct varve_part parts[2] = {{"field", {{0, 0}, {2, 50}}, memory, sizeof memory}};
    memset(memory, 0, sizeof memory);
    parts[1] = (struct varve_part){"none", {{0, 0}, {1, 50}}, memory, 400};
    assert_int_equal(varve_store_read_parts(store, &newest, parts, 2, &error), VARVE_MISMATCH);
    assert_non_null(strstr(error.text, "no array \"none\""));
    parts[1] = (struct varve_part){"field", {{59, 0}, {2, 50}}, memory, 800};
    assert_int_equal(varve_store_read_parts(store, &newest, parts, 2, &error), VARVE_MISMATCH);
    parts[1] = (struct varve_part){"field", {{0, 0}, {1, 50}}, memory, 800};
    assert_int_equal(varve_store_read_parts(store, &newest, parts, 2, &error), -EINVAL);
    assert_non_null(strstr(error.text, "400 bytes"));
    assert_int_equal(varve_store_read_parts(store, &newest, NULL, 1, &error), -EINVAL);
    assert_int_equal(varve_store_read_parts(NULL, &newest, parts, 1, &error), -EINVAL);
    for (int i = 0; i < 100; i++)
        assert_true(memory[i] == 0);
    assert_int_equal(varve_store_bytes_read(NULL, &read, &error), -EINVAL);
    assert_int_equal(varve_store_bytes_read(store, &before, &error), 0);
    assert_int_equal(varve_store_read_parts(store, &newest, parts, 1, &error), 0);
    assert_int_equal(varve_store_bytes_read(store, &read, &error), 0);
    assert_true(read > before);
}

static void what_is_not_there_is_refused(void **state) {
    struct plan plan = grid(2, (const uint64_t[]){60, 50}, (const uint32_t[]){2, 1});
    struct box far = {{0, 20}, {60, 31}}, farther = {{61, 0}, {0, 50}}, huge = {{1, 0}, {UINT64_MAX, 50}};
    struct varve_error error = {0};
    (void)state;
    begin(&plan);
    must_refuse(&plan, &far, "dimension 1 has 50 elements; 31 from 20 on are too many");
    must_refuse(&plan, &farther, "dimension 0 has 60 elements");
    must_refuse(&plan, &huge, "dimension 0 has 60 elements");
    struct varve_store *store = open_store();
    assert_int_equal(varve_store_read_array(store, &newest, "bytes", NULL, 0, compare, NULL, &error), VARVE_MISMATCH);
    assert_int_equal(varve_store_read_array(store, &newest, "none", NULL, 0, compare, NULL, &error), VARVE_MISMATCH);
    assert_int_equal(varve_store_read_array(store, &newest, NULL, NULL, 0, compare, NULL, &error), -EINVAL);
    assert_int_equal(varve_store_read_array(NULL, &newest, "field", NULL, 0, compare, NULL, &error), -EINVAL);
    assert_int_equal(varve_store_arrays(store, &newest, NULL, NULL, NULL, &error), -EINVAL);
    parts_are_refused(store);
    varve_store_close(store);
}

/* ---- arrays as files ---- */

/* The head of a NumPy file, and the elements of the slice behind it. */
static void must_be_npy(const struct plan *plan, const struct box *box, const char *shape) {
    char path[200], wanted[100], head[512] = "";
    uint64_t count = elements_of(plan, box), value;
    snprintf(path, sizeof path, "%s/slice.npy", folder);
    snprintf(wanted, sizeof wanted, "{'descr': '<u8', 'fortran_order': False, 'shape': %s, }", shape);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fread(head, 1, 128, file), 128);
    if (strncmp(head + 10, wanted, strlen(wanted)) != 0)
        fail_msg("%s instead of %s", head + 10, wanted);
    for (uint64_t i = 0; i < count; i++) {
        assert_int_equal(fread(&value, 8, 1, file), 1);
        assert_true(value == value_of(place_of(plan, box, together, i), 0));
    }
    assert_int_equal(fread(&value, 1, 1, file), 0);
    fclose(file);
    unlink(path);
}

/* By places in the whole array: of other numbers of ranks, and of as many with other blocks. */
static void the_tool_compares_arrays(void **state) {
    static const uint64_t size[] = {60, 50};
    struct plan plan = grid(2, size, (const uint32_t[]){3, 1});
    (void)state;
    begin(&plan);
    plan = grid(2, size, (const uint32_t[]){1, 2});
    plan.later = 1;
    group_must_run(plan.ranks, save, &plan, NULL, NULL);
    tool(1, "diff %s grid@1 grid@2", address); /* one rank less has one region less */
    must_contain("out", "2  bytes   removed");
    must_not_contain("out", "field");
    plan.later = 2;
    plan.changed = 17 * 50 + 31;
    group_must_run(plan.ranks, save, &plan, NULL, NULL);
    tool(1, "diff %s grid@1 grid@3 --json", address);
    must_contain("out", "\"first_element\":881");
    must_contain("out", "\"elements_changed\":1,");
    must_not_contain("out", "varve:arrays");
    plan = grid(2, size, (const uint32_t[]){2, 1});
    plan.later = 3;
    group_must_run(plan.ranks, save, &plan, NULL, NULL);
    tool(0, "diff %s grid@2 grid@4", address);
    tool(1, "diff %s grid@3 grid@4 --json", address);
    must_contain("out", "\"first_element\":881");
    must_contain("out", "\"elements_changed\":1,");
}

/* Who has something else under the name of an array is compared with itself. */
static void bytes_of_the_name_are_compared(void **state) {
    static const uint64_t size[] = {60, 50};
    struct plan plan = grid(2, size, (const uint32_t[]){3, 1});
    (void)state;
    plan.ranks = 4;
    plan.plain = 'a';
    begin(&plan);
    plan = grid(2, size, (const uint32_t[]){1, 3});
    plan.ranks = 4;
    plan.plain = 'a';
    plan.later = 1;
    group_must_run(plan.ranks, save, &plan, NULL, NULL);
    tool(0, "diff %s grid@1 grid@2", address);
    plan.plain = 'b';
    plan.later = 2;
    group_must_run(plan.ranks, save, &plan, NULL, NULL);
    tool(1, "diff %s grid@1 grid@3 --json", address);
    must_contain("out", "\"rank\":3,\"region\":\"field\"");
    must_contain("out", "\"elements_changed\":1,");
}

static void the_tool_writes_arrays(void **state) {
    struct plan plan = grid(3, (const uint64_t[]){20, 30, 7}, (const uint32_t[]){2, 3, 1});
    struct box whole = {{0, 0, 0}, {20, 30, 7}}, middle = {{5, 10, 3}, {10, 20, 1}}, one = {{19, 29, 6}, {1, 1, 1}};
    (void)state;
    begin(&plan);
    tool(0, "show %s grid", address);
    must_contain("out", "field  u64   20x30x7  32.8 KiB       6  whole");
    tool(0, "show %s grid --json", address);
    must_contain("out", "\"shape\":[20,30,7]");
    tool(0, "restore %s grid field -o %s/slice.npy", address, folder);
    must_contain("err", "all checked");
    must_be_npy(&plan, &whole, "(20, 30, 7)");
    tool(0, "restore %s grid field --slice 5:15,10:,3 -o %s/slice.npy", address, folder);
    must_be_npy(&plan, &middle, "(10, 20)");
    tool(0, "restore %s grid field --slice 19,29,6 -o %s/slice.npy", address, folder);
    must_be_npy(&plan, &one, "()");
    tool(1, "restore %s grid field --slice 5:15,10: -o %s/x.npy", address, folder);
    must_contain("err", "speaks of 2 dimensions, but there are 3");
    tool(1, "restore %s grid field --slice 1,1,1,1 -o %s/x.npy", address, folder);
    must_contain("err", "more than the 3 dimensions");
    tool(1, "restore %s grid field --slice 1,-1,1 -o %s/x.npy", address, folder);
    must_contain("err", "\"-1\" is no part of dimension 1, which has 30 elements");
    tool(1, "restore %s grid field --slice 1,5:3,1 -o %s/x.npy", address, folder);
    tool(1, "restore %s grid field --slice 1,5:31,1 -o %s/x.npy", address, folder);
    tool(1, "restore %s grid bytes --slice 1 -o %s/x.npy", address, folder);
    must_contain("err", "no array \"bytes\"");
    tool(1, "restore %s grid bytes -o %s/x", address, folder);
    must_contain("err", "say which with --rank");
    tool(1, "restore %s grid field --slice 1,1,1 --rank 1 -o %s/x", address, folder);
    tool(0, "restore %s grid field --rank 1 -o %s/x.npy", address, folder);
}

/* Read by the libraries of others: array, attributes and all. */
static void must_be_h5(const char *shape) {
    char command[1200];
    snprintf(command, sizeof command, "%s %s %s/field.h5 %s", LOOK_PYTHON, LOOK_PROGRAM, folder, shape);
    assert_int_equal(*LOOK_PYTHON ? system(command) : 0, 0);
}

static void the_tool_writes_hdf5(void **state) {
    struct plan plan = grid(3, (const uint64_t[]){20, 30, 7}, (const uint32_t[]){2, 3, 1});
    char command[1200];
    (void)state;
    plan.has_attributes = 1;
    begin(&plan);
    if (!HAS_HDF5) {
        tool(1, "export %s grid --arrays %s/x.h5", address, folder);
        must_contain("err", "built without HDF5");
        skip();
    }
    tool(1, "export %s grid --arrays %s/x.h5 nothing", address, folder);
    must_contain("err", "no array \"nothing\"");
    tool(0, "export %s grid --arrays %s/field.h5", address, folder);
    must_contain("err", "exported 1 array of grid@1");
    tool(1, "export %s grid --arrays %s/field.h5 field", address, folder);
    must_contain("err", "is there already");
    tool(0, "export %s grid --arrays %s/field.h5 field --force --json", address, folder);
    must_contain("out", "\"arrays\":1");
    must_be_h5("20x30x7");
    /* Larger than what is given out at once, so that blocks of rows and parts of rows are written. */
    plan = grid(3, (const uint64_t[]){2, 3, 3000000}, (const uint32_t[]){1, 1, 4});
    plan.has_attributes = 1;
    begin(&plan);
    tool(0, "export %s grid --arrays %s/field.h5", address, folder);
    must_be_h5("2x3x3000000");
    plan.box[0].local[2]--;
    begin(&plan);
    tool(1, "export %s grid --arrays %s/field.h5", address, folder);
    must_contain("err", "left out: array field: 6 of its elements are stored by no rank; the first are [0:2, 0:3, "
                        "749999:750000]");
    tool(1, "export %s grid --arrays %s/field.h5 field", address, folder);
    must_contain("err", "the first are [0:2, 0:3, 749999:750000]");
    snprintf(command, sizeof command, "ls -A %s | grep -q 'field.h5\\|partial'", folder);
    assert_int_not_equal(system(command), 0);
    if (!*LOOK_PYTHON) {
        print_message("SKIPPED: no Python here has h5py, so nobody has read what was written\n");
        skip();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_back_from_any_grid),
        cmocka_unit_test(ranks_may_have_nothing),
        cmocka_unit_test(comes_back_from_cyclic_blocks),
        cmocka_unit_test(cyclic_blocks_are_compared),
        cmocka_unit_test(lists_are_joined),
        cmocka_unit_test(is_given_out_in_slabs),
        cmocka_unit_test(slices_read_their_blocks),
        cmocka_unit_test(slices_come_back_beside_damage),
        cmocka_unit_test(what_all_have_counts_once),
        cmocka_unit_test(holes_are_named),
        cmocka_unit_test(elements_that_two_have_are_named),
        cmocka_unit_test(copies_that_differ_are_named),
        cmocka_unit_test(each_rank_may_have_its_own),
        cmocka_unit_test(other_types_are_named),
        cmocka_unit_test(what_is_not_there_is_refused),
        cmocka_unit_test(the_tool_compares_arrays),
        cmocka_unit_test(bytes_of_the_name_are_compared),
        cmocka_unit_test(the_tool_writes_arrays),
        cmocka_unit_test(the_tool_writes_hdf5),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
