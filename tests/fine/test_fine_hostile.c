/* Manifests and tables of fine runs made by an enemy: all sums and digests are right, what they say is wrong. Each is
 * refused with its object and the reason named, by a restart, by verify, by restore and by the independent reader; and
 * what is only strange is read rightly, with memory bounded by what is there.
 *
 * Some lies cannot be told at all. Runs have no offsets, they tile the region in their order: so they neither overlap
 * nor come out of order, but they can be too long or too short. A place names bytes in a block, not a manifest: so a
 * place cannot lead back to itself, but an attempt can name itself, or one that is newer, among those it depends on. */
#include "unit/store_data.h"

#include <ftw.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <varve/varve.h>

#define G 4096u
#define SIZE (3 * G)

enum { S_BLOCKS, S_EXTENTS, S_IDS, S_MANIFEST }; /* sections of a pack with one owner */

static uint8_t before[SIZE], after[SIZE];
static char folder[64], address[128];

/* ---- a store: version 1 has three granules, version 2 lays fine pieces over them ---- */

static const struct vv_extent pieces[] = {{0, 64, 32}, {0, 1024, 64}, {0, G + 96, 32}, {0, 2 * G, 128}};
#define PIECES (sizeof pieces / sizeof pieces[0])

static void write_base(struct vv_store *store, struct vv_dependency *dependency, struct vv_hash128 *digest) {
    struct vv_pack_options options = one_writer();
    struct vv_pack_writer *pack = begin_pack(store, attempt_at(1, 1), &options);
    struct mf mf;
    for (unsigned i = 0; i < 3; i++)
        put_extent(store, pack, 0, i * G, before + i * G, G, VV_CODEC_NONE, 1);
    mf_begin(&mf, 0, SIZE);
    mf_region(&mf, 1, "field", 0, SIZE, VV_REGION_DESCRIBED);
    mf_run(&mf, VV_RUN_HERE, SIZE, NULL, 0);
    vv_manifest_region_end(&mf.writer, region_digest(store, before, SIZE));
    mf.head.regions = 1;
    mf.head.protected_bytes = SIZE;
    mf_store(&mf, pack, digest);
    assert_ok(vv_pack_seal(pack, SIZE, 1, NULL, &failure));
    commit(store, attempt_at(1, 1), dependency);
}

/* Runs as they stand in a manifest, so that anything can be said. steps: from the owner, and from the address of these
 * bytes. */
static void put_run(struct vv_buf *buf, int kind, uint64_t length) {
    vv_buf_varint(buf, length << 3 | (unsigned)kind);
}
static void put_place(struct vv_buf *buf, uint64_t dependency, int64_t owner_step, int64_t address_step) {
    vv_buf_varint(buf, dependency);
    vv_buf_svarint(buf, owner_step);
    vv_buf_svarint(buf, address_step);
}
static void put_from(struct vv_buf *buf, uint64_t length, uint64_t dependency, int64_t address_step) {
    put_run(buf, VV_RUN_FROM, length);
    put_place(buf, dependency, 0, address_step);
}
static void put_repeated(struct vv_buf *buf, uint64_t length, uint64_t piece, uint64_t dependency,
                         int64_t address_step) {
    put_run(buf, VV_RUN_REPEATED, length);
    vv_buf_varint(buf, piece);
    put_place(buf, dependency, 0, address_step);
}

/* As `after` is: new pieces, one chunk found again, a chunk repeated ten times with the last one cut, zeros, and the
 * rest as it was. */
static unsigned put_honest(struct vv_buf *buf) {
    put_run(buf, VV_RUN_KEEP, 64);
    put_run(buf, VV_RUN_HERE, 32);
    put_run(buf, VV_RUN_KEEP, 1024 - 96);
    put_run(buf, VV_RUN_HERE, 64);
    put_run(buf, VV_RUN_KEEP, G + 96 - 1088);
    put_run(buf, VV_RUN_HERE, 32);
    put_run(buf, VV_RUN_KEEP, 2 * G - (G + 128));
    put_run(buf, VV_RUN_HERE, 128);
    put_from(buf, 64, 1, 128 - (int64_t)(2 * G + 128));
    put_repeated(buf, 300, 32, 0, 64 - (int64_t)(2 * G + 192));
    put_run(buf, VV_RUN_ZERO, 32);
    put_run(buf, VV_RUN_KEEP, SIZE - (2 * G + 192 + 332));
    return 12;
}

static void make_after(void) {
    memcpy(after, before, SIZE);
    for (unsigned i = 0; i < PIECES; i++)
        random_fill(after + pieces[i].address, pieces[i].length);
    memcpy(after + 2 * G + 128, before + 128, 64);
    for (unsigned i = 0; i < 300; i++)
        after[2 * G + 192 + i] = after[64 + i % 32];
    memset(after + 2 * G + 492, 0, 32);
}

static void put_head(struct vv_buf *section, uint64_t runs, uint64_t regions, uint64_t bytes, uint64_t layout,
                     const struct vv_layer_ref *lower) {
    struct vv_manifest_head head = {
        .regions = regions, .protected_bytes = bytes, .layout_bytes = layout, .entries = 1, .runs = runs};
    if (lower) {
        head.lower_count = 1;
        head.lower[0] = *lower;
    }
    vv_manifest_head_encode(section, &head);
}

static void write_overlay(struct vv_store *store, const struct vv_dependency *dependency, struct vv_hash128 base) {
    struct vv_pack_options options = one_writer();
    struct vv_layer_ref lower = {.dependency = 1, .digest = base};
    uint8_t raw[256];
    size_t size = 0;
    struct mf mf;
    options.parent = dependency->attempt;
    struct vv_pack_writer *pack = begin_pack(store, attempt_at(1, 2), &options);
    for (unsigned i = 0; i < PIECES; size += pieces[i++].length)
        memcpy(raw + size, after + pieces[i].address, pieces[i].length);
    put_block(store, pack, pieces, PIECES, raw, VV_CODEC_NONE, 0);
    assert_ok(vv_pack_dependencies(pack, dependency, 1, &failure));
    mf_begin(&mf, 0, SIZE);
    mf_region(&mf, 1, "", 0, SIZE, 0);
    mf.writer.runs = put_honest(&mf.buf);
    mf.writer.offset = SIZE;
    vv_manifest_region_end(&mf.writer, region_digest(store, after, SIZE));
    mf.head.regions = mf.head.lower_count = 1;
    mf.head.protected_bytes = SIZE;
    mf.head.lower[0] = lower;
    mf_store(&mf, pack, NULL);
    assert_ok(vv_pack_seal(pack, SIZE, 1, NULL, &failure));
    commit(store, attempt_at(1, 2), NULL);
}

/* ---- lies in the manifest of version 2 ---- */

/* A manifest of one region, whose runs follow; it is laid over version 1. */
static void begin_lie(struct surgery *s, uint64_t runs, uint64_t length, uint64_t layout) {
    struct vv_buf *section = &s->section[S_MANIFEST];
    struct vv_manifest_head old;
    assert_ok(vv_manifest_head_parse(section->data, section->size, &old, &failure));
    section->size = 0;
    put_head(section, runs, 1, length, layout, &old.lower[0]);
    vv_buf_varint(section, 1); /* number */
    vv_buf_u8(section, 0);     /* flags */
    vv_buf_varint(section, length);
}
static void end_lie(struct surgery *s) {
    static const uint8_t digest[16];
    vv_buf_varint(&s->section[S_MANIFEST], 0);
    vv_buf_append(&s->section[S_MANIFEST], digest, sizeof digest);
}
#define LIE(name, runs, ...)                                                                                           \
    static void name(struct surgery *s, int is_footer_encoded) {                                                       \
        struct vv_buf *m = &s->section[S_MANIFEST];                                                                    \
        if (is_footer_encoded)                                                                                         \
            return;                                                                                                    \
        begin_lie(s, runs, SIZE, SIZE);                                                                                \
        __VA_ARGS__;                                                                                                   \
        end_lie(s);                                                                                                    \
    }
#define REST(done) put_run(m, VV_RUN_KEEP, SIZE - (done))

LIE(runs_overlap, 2, put_run(m, VV_RUN_HERE, 32); put_run(m, VV_RUN_KEEP, SIZE))
LIE(runs_end_early, 1, put_run(m, VV_RUN_KEEP, SIZE - 32))
LIE(run_is_empty, 2, put_run(m, VV_RUN_ZERO, 0); REST(0))
LIE(run_is_2_to_60, 1, put_run(m, VV_RUN_ZERO, UINT64_C(1) << 60))
LIE(run_is_2_to_61, 2, put_run(m, VV_RUN_KEEP, 32); put_run(m, VV_RUN_HERE, (UINT64_C(1) << 61) - 1))
LIE(runs_are_more, 1, put_run(m, VV_RUN_KEEP, 32); REST(32))
LIE(runs_are_fewer, 3, put_run(m, VV_RUN_KEEP, 32); REST(32))
LIE(runs_are_2_to_50, UINT64_C(1) << 50, REST(0))
LIE(kind_is_7, 2, put_run(m, 7, 32); REST(32))
LIE(dependency_is_2, 2, put_from(m, 32, 2, 0); REST(32))
LIE(dependency_is_2_to_40, 2, put_from(m, 32, UINT64_C(1) << 40, 0); REST(32))
LIE(address_is_below, 2, put_from(m, 32, 1, -32); REST(32))
LIE(address_is_lowest, 2, put_from(m, 32, 1, INT64_MIN); REST(32))
LIE(address_is_highest, 2, put_from(m, 32, 1, INT64_MAX); REST(32))
LIE(address_is_at_the_end, 2, put_from(m, 32, 1, (INT64_C(1) << 62) - 16); REST(32))
LIE(owner_is_below, 2, put_run(m, VV_RUN_FROM, 32); put_place(m, 1, -1, 0); REST(32))
LIE(owner_is_far, 2, put_run(m, VV_RUN_FROM, 32); put_place(m, 1, INT64_MAX, 0); REST(32))
LIE(owner_is_nobody, 2, put_run(m, VV_RUN_FROM, 32); put_place(m, 1, 9, 0); REST(32))
LIE(place_is_in_a_gap, 2, put_from(m, 32, 0, 512); REST(32))
LIE(place_begins_before, 2, put_from(m, 32, 0, 48); REST(32))
LIE(place_leaves_extent, 2, put_from(m, 64, 0, 64); REST(64))
LIE(place_is_by_one_byte, 2, put_from(m, 33, 0, 64); REST(33))
LIE(place_is_behind_all, 2, put_from(m, 32, 1, SIZE); REST(32))
LIE(here_is_not_here, 2, put_run(m, VV_RUN_HERE, 32); REST(32))
LIE(piece_is_0, 2, put_repeated(m, 320, 0, 0, 64); REST(320))
LIE(piece_is_longer, 2, put_repeated(m, 320, 321, 0, 64); REST(320))
LIE(piece_is_2_to_60, 2, put_repeated(m, 320, UINT64_C(1) << 60, 0, 64); REST(320))
LIE(piece_leaves_extent, 2, put_repeated(m, 320, 40, 0, 64); REST(320))
LIE(piece_is_nowhere, 2, put_repeated(m, SIZE - 32, 1, 0, 0); REST(SIZE - 32))
LIE(places_are_1, 2, put_run(m, VV_RUN_FROM_ANY, 32); vv_buf_varint(m, 1); put_place(m, 1, 0, 0); vv_buf_varint(m, 0);
    REST(32))
LIE(places_are_2_to_40, 2, put_run(m, VV_RUN_FROM_ANY, 32); vv_buf_varint(m, UINT64_C(1) << 40); REST(32))
LIE(copy_is_7, 2, put_run(m, VV_RUN_FROM_ANY, 32); vv_buf_varint(m, 2); put_place(m, 1, 0, 0); vv_buf_varint(m, 7);
    put_place(m, 1, 0, 0); vv_buf_varint(m, 0); REST(32))
LIE(digest_is_another, 12, put_honest(m))

static void keeps_beyond(struct surgery *s, int is_footer_encoded) {
    if (is_footer_encoded)
        return;
    begin_lie(s, 1, SIZE + 64, 2 * SIZE);
    put_run(&s->section[S_MANIFEST], VV_RUN_KEEP, SIZE + 64);
    end_lie(s);
}
static void lower_is_itself(struct surgery *s, int is_footer_encoded) {
    if (!is_footer_encoded)
        vv_put32(s->section[S_MANIFEST].data + 48, 0);
}
static void dependencies_on_itself(struct surgery *s, int is_footer_encoded) {
    if (!is_footer_encoded)
        s->footer.dependencies[0].attempt = attempt_at(1, 2);
}
static void dependencies_on_the_future(struct surgery *s, int is_footer_encoded) {
    if (!is_footer_encoded)
        s->footer.dependencies[0].attempt = attempt_at(1, 9);
}
static void dependencies_on_later_generation(struct surgery *s, int is_footer_encoded) {
    if (!is_footer_encoded)
        s->footer.dependencies[0].attempt = attempt_at(2, 1);
}

/* ---- lies in the tables of version 2 ---- */

static void set_extents(struct surgery *s, const struct vv_extent *extents, unsigned count) {
    struct vv_extent_coder coder = {.owner = 0};
    s->section[S_EXTENTS].size = 0;
    for (unsigned i = 0; i < count; i++)
        vv_extent_encode(&s->section[S_EXTENTS], &coder, &extents[i]);
    vv_put32(s->section[S_BLOCKS].data + 40, count);
}
#define EXTENTS(name, ...)                                                                                             \
    static void name(struct surgery *s, int is_footer_encoded) {                                                       \
        const struct vv_extent extents[] = {__VA_ARGS__};                                                              \
        if (!is_footer_encoded)                                                                                        \
            set_extents(s, extents, sizeof extents / sizeof extents[0]);                                               \
    }
EXTENTS(extents_overlap_32, {0, 64, 64}, {0, 96, 32}, {0, G + 96, 32}, {0, 2 * G, 128})
EXTENTS(extents_are_the_same, {0, 64, 32}, {0, 1024, 64}, {0, 64, 32}, {0, 2 * G, 128})
EXTENTS(extents_overlap_at_1, {0, 64, 32}, {0, 95, 64}, {0, G + 96, 32}, {0, 2 * G, 128})
EXTENTS(extents_are_short, {0, 64, 32}, {0, 1024, 64}, {0, G + 96, 32}, {0, 2 * G, 96})
EXTENTS(extents_are_long, {0, 64, 32}, {0, 1024, 64}, {0, G + 96, 32}, {0, 2 * G, 160})
EXTENTS(extents_of_nobody, {0, 64, 32}, {7, 1024, 64}, {0, G + 96, 32}, {0, 2 * G, 128})
EXTENTS(extents_miss, {0, 64, 32}, {0, 1088, 64}, {0, G + 96, 32}, {0, 2 * G, 128})

static void extents_have_ids(struct surgery *s, int is_footer_encoded) {
    if (!is_footer_encoded)
        vv_put32(s->section[S_BLOCKS].data + 44, VV_BLOCK_IDS);
}
static void extents_are_many(struct surgery *s, int is_footer_encoded) {
    if (!is_footer_encoded)
        vv_put32(s->section[S_BLOCKS].data + 40, 256);
}

/* A fine piece that is said to be with another writer. */
static void add_moved(struct surgery *s, uint64_t at, uint64_t length, uint32_t writer) {
    struct vv_footer *footer = &s->footer;
    struct vv_extent_coder coder = {.owner = 0};
    struct vv_moved moved = {{.owner = 0, .address = at}, length, writer};
    footer->sections = vv_realloc(footer->sections, (footer->section_count + 1) * sizeof *footer->sections);
    assert_non_null(footer->sections);
    footer->sections[S_MANIFEST + 1] = footer->sections[S_MANIFEST];
    footer->sections[S_MANIFEST] = (struct vv_section){.kind = VV_SECTION_MOVED};
    footer->section_count++;
    s->section[S_MANIFEST + 1] = s->section[S_MANIFEST];
    vv_buf_init(&s->section[S_MANIFEST]);
    vv_moved_encode(&s->section[S_MANIFEST], &coder, &moved);
}
static void moved_to_itself(struct surgery *s, int is_footer_encoded) {
    if (!is_footer_encoded)
        add_moved(s, 512, 32, 0);
}
static void moved_to_nobody(struct surgery *s, int is_footer_encoded) {
    if (!is_footer_encoded)
        add_moved(s, 64, 32, 5);
}

struct hostile {
    const char *name;
    cut_fn cut;
    int code;
    const char *text; /* in the message */
};
#define CASE(cut, text)                                                                                                \
    { #cut, cut, VARVE_CORRUPT, text }
static const struct hostile cases[] = {
    CASE(runs_overlap, "region 1 at 32: run of kind"),
    CASE(runs_end_early, "runs end here, the region has 12288"),
    CASE(run_is_empty, "region 1 at 0: run of kind"),
    CASE(run_is_2_to_60, "1152921504606846976 bytes, 12288 are left"),
    CASE(run_is_2_to_61, "2305843009213693951 bytes, 12256 are left"),
    CASE(runs_are_more, "more runs than the 1 the head says"),
    CASE(runs_are_fewer, "runs are 2, the head says 3"),
    CASE(runs_are_2_to_50, "do not fit"),
    {"kind_is_7", kind_is_7, VARVE_UNKNOWN_FORMAT, "run kind is 7"},
    CASE(dependency_is_2, "lean index is 2, the pack has 1"),
    CASE(dependency_is_2_to_40, "lean index is 1099511627776"),
    CASE(address_is_below, "outside of 0 to 2^62"),
    CASE(address_is_lowest, "outside of 0 to 2^62"),
    CASE(address_is_highest, "outside of 0 to 2^62"),
    CASE(address_is_at_the_end, "outside of 0 to 2^62"),
    CASE(owner_is_below, "owner of a place is -1 away"),
    CASE(owner_is_far, "owner of a place is"),
    CASE(owner_is_nobody, "names owner 9"),
    CASE(place_is_in_a_gap, "address 512 of owner 0 is in no extent"),
    CASE(place_begins_before, "address 48 of owner 0 is in no extent"),
    CASE(place_leaves_extent, "address 96 of owner 0 is in no extent"),
    CASE(place_is_by_one_byte, "address 96 of owner 0 is in no extent"),
    CASE(place_is_behind_all, "address 12288 of owner 0 is in no extent"),
    CASE(here_is_not_here, "address 0 of owner 0 is in no extent"),
    CASE(piece_is_0, "piece has 0 bytes"),
    CASE(piece_is_longer, "piece has 321 bytes"),
    CASE(piece_is_2_to_60, "piece has 1152921504606846976 bytes"),
    CASE(piece_leaves_extent, "address 96 of owner 0 is in no extent"),
    CASE(piece_is_nowhere, "address 0 of owner 0 is in no extent"),
    CASE(places_are_1, "number of places is 1"),
    CASE(places_are_2_to_40, "number of places is 1099511627776"),
    CASE(copy_is_7, "copy is 7"),
    CASE(digest_is_another, "digest"),
    CASE(keeps_beyond, ""), /* a restart says that the lengths differ, the others what is wrong */
    CASE(lower_is_itself, "lean index of lower layer 0 is 0"),
    CASE(dependencies_on_itself, "depends on the future"),
    CASE(dependencies_on_the_future, "depends on the future: generation 1 version 9"),
    CASE(dependencies_on_later_generation, "depends on the future: generation 2"),
    CASE(extents_overlap_32, "extents of owner 0 overlap at address 96"),
    CASE(extents_are_the_same, "extents of owner 0 overlap at address 64"),
    CASE(extents_overlap_at_1, "extents of owner 0 overlap at address 95"),
    CASE(extents_are_short, "extents of block 0"),
    CASE(extents_are_long, "extents of block 0"),
    CASE(extents_of_nobody, "is 7"),
    CASE(extents_miss, "address 1024 of owner 0 is in no extent"),
    CASE(extents_have_ids, "inside a granule"),
    CASE(extents_are_many, "256 extents cannot be"),
    CASE(moved_to_itself, "a moved extent names owner 0 and writer 0"),
    CASE(moved_to_nobody, "a moved extent names owner 0 and writer 5"),
};

/* ---- refusing ---- */

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw) {
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

static struct vv_store *make_store(void) {
    struct vv_dependency dependency;
    struct vv_hash128 digest;
    snprintf(folder, sizeof folder, "/tmp/test-fine-hostile-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(address, sizeof address, "%s/store", folder);
    struct vv_store *store = open_store(address);
    write_base(store, &dependency, &digest);
    write_overlay(store, &dependency, digest);
    return store;
}

static void drop_store(struct vv_store *store) {
    vv_store_close(store);
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int restart(uint8_t *memory, size_t size, char *text, size_t capacity) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    struct varve_error error = {0};
    options.settings = "threads=0,log=error";
    int rc = varve_open(address, NAME, &options, &session, &error);
    if (rc == 0) {
        rc = varve_protect(session, "field", memory, size);
        rc = rc ? rc : varve_restart(session, 2, NULL);
        error = *varve_session_error(session);
        varve_close(session);
    }
    snprintf(text, capacity, "%s", rc ? error.text : "");
    return rc;
}

/* The exit code of a command, and what it printed. */
static int tell(const char *command, char *text, size_t capacity) {
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t got = fread(text, 1, capacity - 1, pipe);
    text[got] = '\0';
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static unsigned try_tool(const char *name, const char *what, const char *command, const char *needed) {
    static char text[16384];
    int code = tell(command, text, sizeof text);
    int is_named = strstr(text, "0000000000000002/") || strstr(text, "version 2") || strstr(text, "field") ||
                   strstr(text, "region 1");
    if (code > 0 && code < 100 && is_named && (!needed || strstr(text, needed)))
        return 0;
    printf("# %s: %s ended with %d: %s\n", name, what, code, text);
    return 1;
}

static unsigned try_tools(const struct hostile *hostile) {
    char command[600];
    const char *text = hostile->text[0] ? hostile->text : NULL;
    unsigned wrong = 0;
    snprintf(command, sizeof command, VARVE_TOOL " verify %s 2>&1", address);
    wrong += hostile->code == VARVE_CORRUPT ? try_tool(hostile->name, "verify", command, text) : 0;
    snprintf(command, sizeof command, VARVE_TOOL " restore %s " NAME "@2 field -o %s/out 2>&1", address, folder);
    wrong += try_tool(hostile->name, "restore", command, text);
    snprintf(command, sizeof command, READER " verify %s 2>&1", address);
    wrong += try_tool(hostile->name, "varve-read.py", command, NULL);
    return wrong;
}

static void refused_by_name(void **state) {
    (void)state;
    unsigned wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct hostile *hostile = &cases[i];
        uint8_t memory[SIZE];
        char text[512];
        struct vv_store *store = make_store();
        operate(store, attempt_at(1, 2), 0, hostile->cut);
        wrong += try_tools(hostile);
        int rc = restart(memory, SIZE, text, sizeof text);
        if ((rc != hostile->code && hostile->text[0]) || rc == 0 || !strstr(text, hostile->text)) {
            printf("# %s: restart: %d %s\n", hostile->name, rc, text);
            wrong++;
        }
        drop_store(store);
    }
    assert_int_equal(wrong, 0);
}

/* What all the lies are made from is no lie. */
static void honest(void **state) {
    (void)state;
    static char text[4096];
    uint8_t memory[SIZE];
    char command[600];
    struct vv_store *store = make_store();
    snprintf(command, sizeof command, VARVE_TOOL " verify %s 2>&1 && " READER " verify %s 2>&1", address, address);
    if (tell(command, text, sizeof text) != 0)
        fail_msg("%s", text);
    if (restart(memory, SIZE, text, sizeof text) != 0)
        fail_msg("%s", text);
    assert_memory_equal(memory, after, SIZE);
    drop_store(store);
}

/* ---- strange, but true: a quarter of a million runs of one byte ---- */

#define MANY (256u << 10)

static uint8_t many[MANY];

static void one_byte_runs(struct surgery *s, int is_footer_encoded) {
    struct vv_buf *m = &s->section[S_MANIFEST];
    struct vv_hash128 digest;
    uint8_t bytes[16];
    if (is_footer_encoded)
        return;
    begin_lie(s, MANY, MANY, MANY);
    for (uint32_t i = 0; i < MANY; i++) { /* backwards, so that none continues another */
        uint32_t from = SIZE - 1 - i % SIZE;
        many[i] = before[from];
        put_from(m, 1, 1, (int64_t)from - (int64_t)i);
    }
    struct vv_store seeded = {.settings = s->footer.settings};
    digest = region_digest(&seeded, many, MANY);
    vv_hash128_put(bytes, digest);
    vv_buf_varint(m, 0);
    vv_buf_append(m, bytes, sizeof bytes);
    s->footer.protected_bytes = MANY;
}

static void many_bytes_alone(void **state) {
    (void)state;
    static uint8_t memory[MANY];
    char text[512];
    struct vv_store *store = make_store();
    struct rusage start, end;
    operate(store, attempt_at(1, 2), 0, one_byte_runs);
    getrusage(RUSAGE_SELF, &start);
    int rc = restart(memory, MANY, text, sizeof text);
    getrusage(RUSAGE_SELF, &end);
    if (rc)
        fail_msg("%s", text);
    assert_memory_equal(memory, many, MANY);
    /* 124 bytes per run are held at most, and lists grow by doubling; a run has four bytes in the manifest. */
    assert_in_range((uint64_t)(end.ru_maxrss - start.ru_maxrss) << 10, 0, 400u * (uint64_t)MANY);
    drop_store(store);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(honest), cmocka_unit_test(refused_by_name),
                                       cmocka_unit_test(many_bytes_alone)};
    random_state = 12;
    random_fill(before, sizeof before);
    make_after();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
