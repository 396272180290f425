/* Programs that learn from the store what there is, and are other ranks than have stored it: lists are handed out
 * evenly or as the program says, blocks of arrays as it says, and what is refused is refused before a byte is written.
 * What an element should be follows from its place in the whole alone. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve.h>
#include <varve/varve_device.h>

#include "folder.h"
#include "group.h"
#include "test.h"

#define ROWS 37
#define COLUMNS 53
#define LIST 1009  /* rows of three */
#define TEXT 5003  /* bytes of a list of bytes */
#define CONFIG 700 /* words */
#define REGIONS_MAX 16

enum counts { EVEN, UNEVEN, TOO_FEW };
enum odd {
    NOTHING_ODD,
    NO_CHOICE,    /* the allocator has no choose */
    IGNORED,      /* it has, and it says nothing */
    NOT_WANTED,   /* the last rank does not want its part of the list */
    NO_MEMORY,    /* the last rank has none for the list */
    FAILS,        /* the choose of the last rank fails */
    TOO_SHORT,    /* the new list, on the last rank */
    A_LIST,       /* choose calls a list what is none */
    BY_ITSELF,    /* rank 0 calls varve_restart */
    CALLBACK,     /* a region has callbacks */
    DEVICE,       /* or is in a device */
    LEFT_CALLBACK /* which nobody needs */
};
struct plan {
    enum { SAVE, SAVE_PRIVATE, SAVE_MIXED, RESTART, GO_ON, LOOK } step;
    enum counts counts;
    enum odd odd;
    enum {
        UNKNOWN,
        FITS,
        SHAPELESS, /* as bytes, also what was stored with rows */
        SCRATCH,   /* without a word, what was dropped */
        OWN,       /* without a word, what belongs to a rank */
        NEW_LIST,  /* what belonged to one rank each is a list now */
        BLOCKS,    /* of what all ranks had a copy of */
        OUTGROWN,  /* more than will come */
        SHAPED,    /* with rows, also what was stored as bytes */
        UNLIKE     /* some ranks as bytes, the others with rows */
    } lists;       /* what is protected before the restart */
    int drops_own;
    int is_damaged; /* the newest checkpoint */
    int code;
    const char *says; /* the error */
};

static char folder[128];
static uint32_t *ranks_before; /* and what follows: in memory that all ranks share */
static uint64_t *salt, *saved;

/* ---- in the ranks ---- */

struct given {
    char name[16];
    uint64_t *ptr;
    uint64_t bytes;
    struct varve_array array;
    int is_released;
    int is_protected; /* by the program itself */
};
struct rank {
    const struct plan *plan;
    struct varve_comm *comm;
    struct varve_session *session;
    struct given given[REGIONS_MAX];
    size_t count;
    unsigned chosen;
    uint64_t loaded; /* by callbacks */
};

static uint64_t value_of(uint64_t place, uint64_t seed) {
    uint64_t x = place * UINT64_C(0x9e3779b97f4a7c15) + seed;
    return (x ^ (x >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
}

static int is_last(const struct rank *rank) {
    return rank->comm->rank + 1 == rank->comm->ranks;
}

/* Uneven: low ranks of many have nothing. */
static uint64_t own_end(uint64_t total, uint64_t rank, uint64_t ranks) {
    return rank + 1 == ranks ? total : total * (rank + 1) * (rank + 1) / (ranks * ranks) / 7 * 7;
}

static uint64_t even_end(uint64_t total, uint64_t rank, uint64_t ranks) {
    uint64_t more = total % ranks;
    return total / ranks * (rank + 1) + (rank + 1 < more ? rank + 1 : more);
}

static void share(const struct rank *rank, uint64_t total, enum counts counts, uint64_t *first, uint64_t *count) {
    uint64_t (*end)(uint64_t, uint64_t, uint64_t) = counts == EVEN ? even_end : own_end;
    *first = rank->comm->rank ? end(total, rank->comm->rank - 1, rank->comm->ranks) : 0;
    *count = end(total, rank->comm->rank, rank->comm->ranks) - *first;
}

static struct varve_array array_of(uint64_t rows, uint64_t columns) {
    return (struct varve_array){.size = sizeof(struct varve_array),
                                .type = VARVE_U64,
                                .dims = 2,
                                .dim = {{rows, 0, rows}, {columns, 0, columns}}};
}

/* Rows when it is stored, columns when it comes back. */
static struct varve_array block_of(const struct rank *rank, int is_stored) {
    struct varve_array array = array_of(ROWS, COLUMNS);
    struct varve_dim *dim = &array.dim[is_stored ? 0 : 1];
    uint64_t all = dim->global, at = rank->comm->rank, ranks = rank->comm->ranks;
    *dim = (struct varve_dim){all * (at + 1) / ranks - all * at / ranks, all * at / ranks, all};
    return array;
}

static struct given *add_given(struct rank *rank, const char *name, uint64_t bytes, const struct varve_array *array) {
    struct given *given = &rank->given[rank->count++];
    if (rank->count > REGIONS_MAX)
        group_fail(rank->comm, "asked for too many regions");
    snprintf(given->name, sizeof given->name, "%s", name);
    given->bytes = bytes;
    given->ptr = calloc(bytes / 8 + 1, 8);
    if (array)
        given->array = *array;
    return given;
}

static struct given *find_given(struct rank *rank, const char *name) {
    for (size_t i = 0; i < rank->count; i++)
        if (strcmp(rank->given[i].name, name) == 0 && !rank->given[i].is_released)
            return &rank->given[i];
    return NULL;
}

static void must(struct rank *rank, int rc, const char *what) {
    if (rc)
        group_fail(rank->comm, "%s: %d: %s", what, rc, varve_session_error(rank->session)->text);
}

static void open_session(struct rank *rank) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_error error = {0};
    char address[160];
    snprintf(address, sizeof address, "file://%s", folder);
    options.settings = "log=error,keep=all";
    if (varve_open_comm(group_comm(rank->comm), address, "particles", &options, &rank->session, &error) != 0)
        group_fail(rank->comm, "open: %s", error.text);
}

/* ---- saving ---- */

static uint64_t own_words(uint32_t rank) {
    return 20 + 3 * rank;
}

/* What the rank has, in memory that is protected already. */
static void fill(struct rank *rank, enum counts counts, int is_stored, uint64_t seed) {
    struct given *list = find_given(rank, "list"), *text = find_given(rank, "text");
    struct varve_array field = block_of(rank, is_stored);
    uint64_t first, count, *words = find_given(rank, "field")->ptr;
    for (uint64_t y = 0, i = 0; y < field.dim[0].local; y++)
        for (uint64_t x = 0; x < field.dim[1].local; x++, i++)
            words[i] = value_of((field.dim[0].first + y) * COLUMNS + field.dim[1].first + x, seed);
    share(rank, LIST, counts, &first, &count);
    for (uint64_t i = 0; i < count * 3; i++)
        list->ptr[i] = value_of(first * 3 + i, seed + 1);
    share(rank, TEXT, counts, &first, &count);
    for (uint64_t i = 0; i < count; i++)
        ((uint8_t *)text->ptr)[i] = (uint8_t)value_of(first + i, seed + 2);
    share(rank, CONFIG / 2, EVEN, &first, &count);
    for (uint64_t i = 0; i < find_given(rank, "config")->bytes / 8; i++)
        find_given(rank, "config")->ptr[i] = value_of(i + (rank->plan->lists == BLOCKS ? first * 2 : 0), seed + 3);
    struct given *own = find_given(rank, "own");
    uint32_t end = rank->plan->lists == NEW_LIST && is_last(rank) ? *ranks_before : rank->comm->rank + 1;
    uint64_t *at = own ? own->ptr : NULL;
    for (uint32_t from = rank->comm->rank; own && from < end; from++)
        for (uint64_t i = 0; i < own_words(from); i++)
            *at++ = value_of(i, seed + 100 + from);
}

static void protect(struct rank *rank, const char *name, uint64_t bytes, const struct varve_array *array,
                    enum varve_distribution how) {
    struct given *given = add_given(rank, name, bytes, array);
    given->is_protected = 1;
    int rc = array ? varve_protect_array(rank->session, name, given->ptr, array)
                   : varve_protect(rank->session, name, given->ptr, bytes);
    rc = rc ? rc : varve_distribute(rank->session, name, how);
    must(rank, rc, "protect");
}

static void protect_lists(struct rank *rank, enum counts counts) {
    uint64_t first, count;
    share(rank, LIST, counts, &first, &count);
    struct varve_array list = array_of(count, 3);
    protect(rank, "list", count * 24, &list, VARVE_JOINED);
    share(rank, TEXT, counts, &first, &count);
    protect(rank, "text", count, NULL, VARVE_JOINED);
}

/* As bytes, and of config it is not said what it is. */
static void protect_shapeless(struct rank *rank, enum counts counts) {
    uint64_t first, count;
    share(rank, LIST, counts, &first, &count);
    protect(rank, "list", count * 24, NULL, VARVE_JOINED);
    protect(rank, "config", CONFIG * 8, NULL, VARVE_BY_DIMS);
}

/* The last rank has what ranks after it had. */
static void protect_new_list(struct rank *rank) {
    uint64_t words = 0;
    for (uint32_t from = rank->comm->rank; from < (is_last(rank) ? *ranks_before : rank->comm->rank + 1); from++)
        words += own_words(from);
    words -= rank->plan->odd == TOO_SHORT && is_last(rank);
    protect(rank, "own", words * 8, NULL, VARVE_JOINED);
}

/* Rows of what all had, and it is not said what it is. */
static void protect_blocks(struct rank *rank) {
    uint64_t first, count;
    share(rank, CONFIG / 2, EVEN, &first, &count);
    struct varve_array config = array_of(CONFIG / 2, 2);
    config.dim[0] = (struct varve_dim){count, first, CONFIG / 2};
    protect(rank, "config", count * 16, &config, VARVE_BY_DIMS);
}

/* Bytes with a shape; or rows, and on the first rank bytes. */
static void protect_otherwise(struct rank *rank, int is_unlike) {
    uint64_t first, count;
    share(rank, is_unlike ? LIST : TEXT, rank->plan->counts, &first, &count);
    struct varve_array list = array_of(count, 3),
                       text = {.size = sizeof text, .type = VARVE_U8, .dims = 1, .dim = {{count, 0, count}}};
    if (is_unlike)
        protect(rank, "list", count * 24, rank->comm->rank ? &list : NULL, VARVE_JOINED);
    else
        protect(rank, "text", count, &text, VARVE_JOINED);
}

/* On each rank, more than will come. */
static void protect_too_much(struct rank *rank) {
    struct varve_array all = array_of(LIST, 3);
    protect(rank, "list", 24 * LIST, &all, VARVE_JOINED);
    protect(rank, "text", TEXT + 1, NULL, VARVE_JOINED);
}

static void protect_some(struct rank *rank) {
    switch (rank->plan->lists) {
    case UNKNOWN:
        return;
    case FITS:
        protect_lists(rank, rank->plan->counts);
        return;
    case SHAPELESS:
        protect_shapeless(rank, rank->plan->counts);
        return;
    case SCRATCH:
        protect(rank, "scratch", 800, NULL, VARVE_BY_DIMS);
        return;
    case OWN:
        protect(rank, "own", own_words(rank->comm->rank) * 8, NULL, VARVE_BY_DIMS);
        return;
    case NEW_LIST:
        protect_new_list(rank);
        return;
    case BLOCKS:
        protect_blocks(rank);
        return;
    case OUTGROWN:
        protect_too_much(rank);
        return;
    default:
        protect_otherwise(rank, rank->plan->lists == UNLIKE);
    }
}

static void protect_all(struct rank *rank) {
    int is_private = rank->plan->step == SAVE_PRIVATE, is_mixed = rank->plan->step == SAVE_MIXED && is_last(rank);
    struct varve_array field = block_of(rank, 1), config = array_of(CONFIG / 2, 2);
    protect_lists(rank, UNEVEN);
    protect(rank, "field", field.dim[0].local * COLUMNS * 8, &field, VARVE_BY_DIMS);
    protect(rank, "config", CONFIG * 8, &config, is_mixed ? VARVE_BY_RANK : VARVE_REPLICATED);
    protect(rank, "own", own_words(rank->comm->rank) * 8, NULL, is_private ? VARVE_BY_DIMS : VARVE_BY_RANK);
    protect(rank, "scratch", 800, NULL, VARVE_DROPPED);
}

static void save(struct rank *rank, enum counts counts, int is_stored) {
    fill(rank, counts, is_stored, *salt + 1000);
    must(rank, varve_checkpoint(rank->session, (int64_t)*saved + 1), "checkpoint");
    must(rank, varve_wait(rank->session), "wait");
}

/* ---- coming back ---- */

static void *give(void *arg, const struct varve_region_info *region) {
    struct rank *rank = arg;
    int is_list = strcmp(region->name, "list") == 0;
    if (is_list && is_last(rank) && rank->plan->odd == NOT_WANTED)
        return VARVE_NOT_WANTED;
    if (is_list && is_last(rank) && rank->plan->odd == NO_MEMORY)
        return NULL;
    struct given *before = find_given(rank, region->name);
    if (before)
        before->is_released = 1; /* a program may free it now */
    return add_given(rank, region->name, region->bytes, region->array)->ptr;
}

static void take_back(void *arg, const char *region, void *ptr) {
    struct given *given = find_given(arg, region);
    if (!given || given->ptr != ptr)
        group_fail(((struct rank *)arg)->comm, "region %s was released, but not given", region);
    given->is_released = 1;
}

static void expect(const struct rank *rank, const struct varve_region_info *whole, enum varve_distribution how,
                   uint64_t bytes, unsigned dims, uint64_t rows) {
    if (whole->how != how || whole->bytes != bytes || whole->array->dims != dims ||
        (dims && (whole->array->dim[0].local != rows || whole->array->dim[0].first != 0)))
        group_fail(rank->comm, "region %s: told %d, %" PRIu64 " bytes, %u dimensions, %" PRIu64 " rows", whole->name,
                   (int)whole->how, whole->bytes, whole->array->dims, whole->array->dim[0].local);
}

/* What is told of the whole, whatever the ranks were that have stored it. */
static void check_whole(const struct rank *rank, const struct varve_region_info *whole) {
    if (strcmp(whole->name, "field") == 0)
        expect(rank, whole, VARVE_BY_DIMS, ROWS * COLUMNS * 8, 2, ROWS);
    else if (strcmp(whole->name, "list") == 0)
        expect(rank, whole, VARVE_JOINED, LIST * 24, 2, LIST);
    else if (strcmp(whole->name, "text") == 0)
        expect(rank, whole, VARVE_JOINED, TEXT, 0, 0);
    else if (strcmp(whole->name, "config") == 0)
        expect(rank, whole, VARVE_REPLICATED, CONFIG * 8, 2, CONFIG / 2);
    else if (strcmp(whole->name, "own") == 0)
        expect(rank, whole, VARVE_BY_RANK, own_words(rank->comm->rank) * 8, 0, 0);
    else if (strcmp(whole->name, "scratch") == 0)
        expect(rank, whole, VARVE_DROPPED, 800, 0, 0);
    else
        group_fail(rank->comm, "region %s was told", whole->name);
}

static int choose(void *arg, const struct varve_region_info *whole, enum varve_distribution *how,
                  struct varve_array *part) {
    struct rank *rank = arg;
    uint64_t first, count;
    rank->chosen++;
    if (rank->plan->odd == FAILS && is_last(rank))
        return -ECHILD;
    if (rank->plan->odd == IGNORED)
        return 0;
    if (strcmp(whole->name, "own") == 0 && *how == VARVE_BY_DIMS) { /* nobody has said what it is */
        *how = rank->plan->odd == A_LIST ? VARVE_JOINED : VARVE_DROPPED;
        return 0;
    }
    check_whole(rank, whole);
    if (strcmp(whole->name, "field") == 0)
        *part = block_of(rank, 0);
    if (*how != VARVE_JOINED || rank->plan->counts == EVEN)
        return 0;
    share(rank, whole->array->dims ? LIST : TEXT, UNEVEN, &first, &count);
    part->dim[0].local = count - (rank->plan->counts == TOO_FEW && is_last(rank));
    return 0;
}

static void check(struct rank *rank, uint64_t seed) {
    struct rank right = {.plan = rank->plan, .comm = rank->comm};
    for (size_t i = 0; i < rank->count; i++)
        add_given(&right, rank->given[i].name, rank->given[i].bytes, NULL)->is_released = rank->given[i].is_released;
    for (const char *const *name = (const char *const[]){"field", "list", "text", "config", NULL}; *name; name++)
        if (!find_given(rank, *name))
            group_fail(rank->comm, "region %s did not come back", *name);
    uint64_t first, rows, bytes;
    share(rank, LIST, rank->plan->counts, &first, &rows);
    share(rank, TEXT, rank->plan->counts, &first, &bytes);
    struct varve_array block = block_of(rank, 0);
    int has_own = find_given(rank, "own") != NULL;
    if (find_given(rank, "list")->bytes != rows * 24 || find_given(rank, "text")->bytes != bytes ||
        find_given(rank, "field")->bytes != ROWS * block.dim[1].local * 8)
        group_fail(rank->comm, "WRONG: a part has another size");
    int is_alone = rank->plan->odd == BY_ITSELF && rank->comm->rank == 0;
    if (has_own != (rank->comm->rank < *ranks_before && !rank->plan->drops_own && !is_alone))
        group_fail(rank->comm, "WRONG: what is this rank's own is %s", has_own ? "here" : "not here");
    fill(&right, rank->plan->counts, 0, seed);
    for (size_t i = 0; i < rank->count; i++)
        if (!rank->given[i].is_released && memcmp(rank->given[i].ptr, right.given[i].ptr, rank->given[i].bytes) != 0)
            group_fail(rank->comm, "WRONG: region %s", rank->given[i].name);
    for (size_t i = 0; i < right.count; i++)
        free(right.given[i].ptr);
}

/* Refused: all memory was given back, nothing was written, and the error says why. */
static void check_refused(struct rank *rank) {
    const char *text = varve_session_error(rank->session)->text;
    if (!strstr(text, rank->plan->says))
        group_fail(rank->comm, "refused, but not for \"%s\": %s", rank->plan->says, text);
    for (size_t i = 0; i < rank->count; i++) {
        if (!rank->given[i].is_protected && !rank->given[i].is_released)
            group_fail(rank->comm, "region %s was not released", rank->given[i].name);
        for (uint64_t at = 0; at < rank->given[i].bytes / 8; at++)
            if (rank->given[i].ptr[at] != 0)
                group_fail(rank->comm, "refused, but region %s was written", rank->given[i].name);
    }
    if (rank->loaded)
        group_fail(rank->comm, "refused, but a callback got something");
}

/* ---- data elsewhere ---- */

static int stream_length(void *arg, uint64_t *bytes_out) {
    (void)arg;
    *bytes_out = 800;
    return 0;
}

static int stream_save(void *arg, uint64_t offset, void *buffer, size_t size) {
    (void)arg;
    (void)offset;
    memset(buffer, 1, size);
    return 0;
}

static int stream_load(void *arg, uint64_t offset, const void *buffer, size_t size, uint64_t total) {
    struct rank *rank = arg;
    (void)offset;
    (void)buffer;
    (void)total;
    rank->loaded += size + 1;
    return 0;
}

static int device_compare(void *arg, const struct varve_ask *ask, struct varve_answer *answer) {
    (void)arg;
    (void)ask;
    (void)answer;
    return -ENOTSUP;
}

static int device_settle(void *arg, int is_committed) {
    (void)arg;
    (void)is_committed;
    return 0;
}

static int device_write(void *arg, uint64_t offset, const void *buffer, size_t size) {
    return stream_load(arg, offset, buffer, size, size);
}

static int device_restored(void *arg, const struct varve_ask *ask, const struct varve_run *runs, size_t count) {
    (void)ask;
    (void)runs;
    (void)count;
    ((struct rank *)arg)->loaded++;
    return 0;
}

static void device_leave(void *arg) {
    (void)arg;
}

static void protect_elsewhere(struct rank *rank) {
    static const struct varve_callbacks callbacks = {
        .size = sizeof callbacks, .length = stream_length, .save = stream_save, .load = stream_load};
    static const struct varve_device_ops ops = {.size = sizeof ops,
                                                .name = "twin",
                                                .compare = device_compare,
                                                .settle = device_settle,
                                                .write = device_write,
                                                .restored = device_restored,
                                                .leave = device_leave};
    int rc = rank->plan->odd == DEVICE ? varve_protect_device(rank->session, "config", CONFIG * 8, 0, &ops, rank)
                                       : varve_protect_callback(rank->session, "config", &callbacks, rank);
    must(rank, rc, "protect elsewhere");
    int is_left = rank->plan->odd == LEFT_CALLBACK;
    must(rank, varve_distribute(rank->session, "config", is_left ? VARVE_DROPPED : VARVE_REPLICATED), "distribute");
    if (is_left)
        add_given(rank, "config", 0, NULL);
}

/* ---- a life ---- */

static int restart(struct rank *rank) {
    struct varve_allocator allocator = {
        .size = sizeof allocator, .alloc = give, .release = take_back, .choose = choose};
    int64_t version = -1;
    if (rank->plan->odd == NO_CHOICE) /* as programs have it that were built before there was one */
        allocator.size = offsetof(struct varve_allocator, choose);
    if (rank->plan->odd == BY_ITSELF && rank->comm->rank == 0) {
        struct varve_array field = block_of(rank, 0), config = array_of(CONFIG / 2, 2);
        protect_lists(rank, rank->plan->counts);
        protect(rank, "field", ROWS * field.dim[1].local * 8, &field, VARVE_BY_DIMS);
        protect(rank, "config", CONFIG * 8, &config, VARVE_REPLICATED);
        return varve_restart(rank->session, VARVE_LATEST, &version);
    }
    int rc = varve_restart_alloc(rank->session, VARVE_LATEST, &allocator, rank, &version);
    if (rc == 0 && version != (int64_t)*saved)
        group_fail(rank->comm, "version %d came back", (int)version);
    return rc;
}

static int count_told(void *arg, const struct varve_region_info *whole) {
    struct rank *rank = arg;
    check_whole(rank, whole);
    rank->chosen++;
    return 0;
}

/* A rank that was not there before has nothing of its own: two regions less. */
static void look(struct rank *rank) {
    int64_t version;
    must(rank, varve_stored(rank->session, VARVE_LATEST, count_told, rank, &version), "stored");
    if (rank->chosen != (rank->comm->rank < *ranks_before ? 6 : 4))
        group_fail(rank->comm, "%u regions were told", rank->chosen);
}

/* The memory of lists that were protected may be gone: no checkpoint is just without them. */
static void say_again(struct rank *rank) {
    if (varve_checkpoint(rank->session, 100) != -EINVAL ||
        !strstr(varve_session_error(rank->session)->text, "has ended its protection") ||
        varve_restart(rank->session, VARVE_LATEST, NULL) != -EINVAL)
        group_fail(rank->comm, "went on without a list: %s", varve_session_error(rank->session)->text);
    must(rank, varve_unprotect(rank->session, "text"), "unprotect");
    struct given *list = add_given(rank, "list", 24, NULL);
    must(rank, varve_protect(rank->session, "list", list->ptr, list->bytes), "protect again");
    must(rank, varve_checkpoint(rank->session, 100), "checkpoint");
}

static void come_back(struct rank *rank) {
    if (rank->plan->odd >= CALLBACK)
        protect_elsewhere(rank);
    protect_some(rank);
    int rc = restart(rank);
    if (rc != rank->plan->code)
        group_fail(rank->comm, "restart: %d instead of %d: %s", rc, rank->plan->code,
                   varve_session_error(rank->session)->text);
    size_t released = 0, moved = 0;
    for (size_t i = 0; i < rank->count; i++) {
        released += !rank->given[i].is_protected && rank->given[i].is_released;
        moved += rank->given[i].is_protected && rank->given[i].is_released;
    }
    if (moved && rank->plan->lists < OUTGROWN) /* OUTGROWN and what follows it is asked for anew */
        group_fail(rank->comm, "%zu regions that fit went elsewhere", moved);
    if (rank->plan->is_damaged && released < 4)
        group_fail(rank->comm, "%zu regions were given back", released);
    if (rc)
        check_refused(rank);
    else
        check(rank, *salt);
    if (rc && rank->plan->lists == OUTGROWN)
        say_again(rank);
}

static void live(struct varve_comm *comm, void *arg) {
    struct rank rank = {.plan = arg, .comm = comm};
    open_session(&rank);
    if (rank.plan->step <= SAVE_MIXED) {
        protect_all(&rank);
        save(&rank, UNEVEN, 1);
    } else if (rank.plan->step == LOOK) {
        look(&rank);
    } else {
        come_back(&rank);
    }
    if (rank.plan->step == GO_ON) { /* what it was given is protected, as what it was */
        if (!find_given(&rank, "own"))
            protect(&rank, "own", own_words(comm->rank) * 8, NULL, VARVE_BY_RANK);
        protect(&rank, "scratch", 800, NULL, VARVE_DROPPED);
        save(&rank, rank.plan->counts, 0);
    }
    must(&rank, varve_close(rank.session), "close");
    for (size_t i = 0; i < rank.count; i++)
        free(rank.given[i].ptr);
}

/* ---- outside ---- */

static void run(uint32_t ranks, const struct plan *plan) {
    char about[120];
    snprintf(about, sizeof about, "step %d on %u ranks, counts %d, odd %d", (int)plan->step, ranks, (int)plan->counts,
             (int)plan->odd);
    group_must_run(ranks, live, plan, NULL, about);
    if (plan->step <= SAVE_MIXED || plan->step == GO_ON) {
        *ranks_before = ranks;
        *salt += 1000;
        ++*saved;
    }
}

static int setup(void **state) {
    (void)state;
    ranks_before = group_memory(4096);
    salt = (uint64_t *)(ranks_before + 2);
    saved = salt + 1;
    return folder_make(NULL, "test-elastic-alloc", folder, sizeof folder);
}

static int teardown(void **state) {
    (void)state;
    folder_remove(folder);
    group_memory_free(ranks_before, 4096);
    return 0;
}

static const uint32_t numbers[] = {1, 2, 3, 5, 8};

/* All pairs, evenly and by the program's own counts. Each goes on from there, which the next one then comes back from:
 * what was given must have been protected as what it was. */
static void all_pairs(void **state) {
    (void)state;
    for (size_t from = 0; from < 5; from++) {
        teardown(NULL);
        setup(NULL);
        run(numbers[from], &(struct plan){.step = SAVE});
        for (size_t to = 0; to < 5; to++)
            if (to != from) {
                run(numbers[to], &(struct plan){.step = RESTART, .counts = UNEVEN});
                run(numbers[to], &(struct plan){.step = LOOK});
                run(numbers[to], &(struct plan){.step = RESTART, .counts = EVEN});
            }
    }
}

static void goes_on(void **state) {
    const uint32_t ranks[] = {5, 2, 8, 3, 1, 4};
    (void)state;
    run(3, &(struct plan){.step = SAVE});
    for (size_t i = 0; i < 6; i++)
        run(ranks[i], &(struct plan){.step = GO_ON, .counts = i % 2 ? EVEN : UNEVEN});
}

/* Lists that fit what is stored are filled where they are; those that do not are asked for anew. */
static void protected_lists(void **state) {
    (void)state;
    run(3, &(struct plan){.step = SAVE});
    run(5, &(struct plan){.step = RESTART, .counts = UNEVEN, .lists = FITS});
    run(2, &(struct plan){.step = RESTART, .counts = EVEN, .lists = FITS});
    run(5, &(struct plan){.step = RESTART, .counts = UNEVEN, .lists = SHAPELESS});
    run(2, &(struct plan){.step = RESTART, .counts = EVEN, .lists = SHAPELESS});
    run(2, &(struct plan){.step = RESTART, .counts = EVEN, .lists = OUTGROWN});
    run(4, &(struct plan){.step = RESTART, .counts = UNEVEN, .lists = OUTGROWN});
    run(4, &(struct plan){.step = RESTART, .counts = UNEVEN, .odd = BY_ITSELF});
    run(2, &(struct plan){
               .step = RESTART, .odd = NO_MEMORY, .code = -ENOMEM, .says = "gave no memory", .lists = OUTGROWN});
}

/* A list is asked for anew if it is protected with a shape that it has not, or not alike on all ranks; and filled if it
 * is one only now. */
static void lists_otherwise(void **state) {
    (void)state;
    run(3, &(struct plan){.step = SAVE});
    for (uint32_t ranks = 2; ranks <= 5; ranks += 3) {
        run(ranks, &(struct plan){.step = RESTART, .counts = EVEN, .lists = SHAPED});
        run(ranks, &(struct plan){.step = RESTART, .counts = EVEN, .lists = UNLIKE});
        run(ranks, &(struct plan){.step = RESTART, .counts = EVEN, .lists = BLOCKS});
    }
    run(3, &(struct plan){.step = SAVE_PRIVATE});
    run(2, &(struct plan){.step = RESTART, .lists = NEW_LIST});
    run(2, &(struct plan){.step = RESTART,
                          .lists = NEW_LIST,
                          .odd = TOO_SHORT,
                          .code = VARVE_MISMATCH,
                          .says = "region own: it was not stored as a list; to make it one, protect all of its 552"});
}

/* What is protected without a word is filled or refused, and not passed over since it once was dropped. */
static void nothing_is_passed_over(void **state) {
    (void)state;
    run(3, &(struct plan){.step = SAVE});
    run(2, &(struct plan){.step = RESTART, .lists = OWN});
    run(2, &(struct plan){
               .step = RESTART, .lists = SCRATCH, .code = VARVE_MISMATCH, .says = "region scratch is no array"});
    run(4, &(struct plan){.step = RESTART, .lists = OWN, .code = VARVE_MISMATCH, .says = "region own is no array"});
}

/* The newest is damaged: its memory is given back, and the program is asked for that of the one before. */
static void damage_makes_it_ask_again(void **state) {
    char command[800];
    (void)state;
    run(3, &(struct plan){.step = SAVE});
    run(3, &(struct plan){.step = SAVE});
    snprintf(command, sizeof command,
             "for f in $(find %s -type f -path '*/%016x/*' -name '0*'); do printf damage | "
             "dd of=$f bs=1 seek=3000 conv=notrunc 2>/dev/null || exit 1; done",
             folder, 2);
    assert_int_equal(system(command), 0);
    --*saved;
    *salt -= 1000;
    run(2, &(struct plan){.step = RESTART, .counts = UNEVEN, .is_damaged = 1});
    run(5, &(struct plan){.step = RESTART, .counts = EVEN, .lists = OUTGROWN, .is_damaged = 1});
}

static void what_is_refused(void **state) {
    static const struct plan plans[] = {
        {.odd = NO_CHOICE, .code = VARVE_MISMATCH, .says = "region field: it is not said which block"},
        {.odd = IGNORED, .code = VARVE_MISMATCH, .says = "region field: it is not said which block"},
        {.odd = FAILS, .code = -ECHILD, .says = "region config: the function that chooses"},
        {.odd = NOT_WANTED, .code = VARVE_MISMATCH, .says = "the same lists"},
        {.odd = NO_MEMORY, .code = -ENOMEM, .says = "region list: the program gave no memory"},
        {.counts = TOO_FEW, .code = VARVE_MISMATCH, .says = "elements of the list"},
        {.odd = CALLBACK, .code = VARVE_MISMATCH, .says = "region config: on another number of ranks"},
        {.odd = DEVICE, .code = VARVE_MISMATCH, .says = "regions of devices cannot come back"},
    };
    (void)state;
    run(3, &(struct plan){.step = SAVE});
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        struct plan plan = plans[i];
        plan.step = RESTART;
        run(2, &plan);
        run(4, &plan);
    }
    run(4, &(struct plan){.step = RESTART, .odd = LEFT_CALLBACK});
    run(2, &(struct plan){.step = RESTART});
}

/* Nobody has said what becomes of a region, or not all the same. */
static void what_belongs_to_one_rank(void **state) {
    (void)state;
    run(3, &(struct plan){.step = SAVE_PRIVATE});
    run(2, &(struct plan){
               .step = RESTART, .odd = A_LIST, .code = -EINVAL, .says = "region own: it was not stored as a list"});
    run(2, &(struct plan){.step = RESTART, .drops_own = 1});
    run(3, &(struct plan){.step = SAVE_MIXED});
    run(2, &(struct plan){.step = RESTART,
                          .odd = IGNORED,
                          .code = VARVE_MISMATCH,
                          .says = "region config: the ranks have stored different things"});
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(all_pairs),       TEST(goes_on),
        TEST(protected_lists), TEST(damage_makes_it_ask_again),
        TEST(lists_otherwise), TEST(nothing_is_passed_over),
        TEST(what_is_refused), TEST(what_belongs_to_one_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
