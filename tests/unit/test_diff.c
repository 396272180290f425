/* varve_store_compare: what is told of each region against a comparison byte by byte, in a line of checkpoints, between
 * names and between stores; what is read; runs of any size; regions in any order; callbacks; memory that runs out. */
#include <inttypes.h>
#include <math.h>
#include <varve/varve_inspect.h>

#include "base/array.h"
#include "inspect/inspect_private.h"
#include "store_data.h"

#define URI "mem://diff"
#define OTHER "mem://diff-other"

static int forget_stores(void **unused) {
    (void)unused;
    vv_mem_drop("diff");
    vv_mem_drop("diff-other");
    return 0;
}

static struct varve_session *open_session(const char *uri, const char *name, const char *settings) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    options.settings = settings;
    assert_ok(varve_open(uri, name, &options, &session, &failure));
    return session;
}

static void save(struct varve_session *session, int64_t version) {
    int rc = varve_checkpoint(session, version);
    rc = rc < 0 ? rc : varve_wait(session);
    if (rc < 0)
        fail_msg("checkpoint: %s", varve_session_error(session)->text);
}

static struct varve_store *look_at(const char *uri) {
    struct varve_store *store = NULL;
    assert_ok(varve_store_open(uri, NULL, &store, &failure));
    return store;
}

/* What was told, in order. */
#define TOLD_MAX 64
struct told {
    int count;
    int stop_at;
    struct {
        struct varve_difference difference;
        char name[32], value[2][96];
    } list[TOLD_MAX];
    uint64_t progress_done, progress_total;
    int progress_stop;
};

static int take(void *arg, const struct varve_difference *difference) {
    struct told *told = arg;
    assert_true(told->count < TOLD_MAX);
    told->list[told->count].difference = *difference;
    snprintf(told->list[told->count].name, 32, "%s", difference->region);
    snprintf(told->list[told->count].value[0], 96, "%s", difference->value_first);
    snprintf(told->list[told->count].value[1], 96, "%s", difference->value_second);
    told->count++;
    return told->stop_at && told->count == told->stop_at;
}

static int take_progress(void *arg, uint64_t done, uint64_t total) {
    struct told *told = arg;
    assert_true(done <= total && done >= told->progress_done);
    told->progress_done = done;
    told->progress_total = total;
    return told->progress_stop;
}

static const struct varve_difference *find(const struct told *told, const char *name) {
    for (int i = 0; i < told->count; i++)
        if (!strcmp(told->list[i].name, name))
            return &told->list[i].difference;
    fail_msg("nothing was told of %s", name);
    return NULL;
}

static int compare(const char *uri, const char *name, int64_t version, const char *other_uri, const char *other_name,
                   int64_t other_version, double tolerance, struct told *told, struct varve_compare_result *result) {
    struct varve_store *store = look_at(uri), *other = strcmp(uri, other_uri) ? look_at(other_uri) : NULL;
    struct varve_which first = {name, 0, version}, second = {other_name, 0, other_version};
    struct varve_compare_options options = {.size = sizeof options,
                                            .second = other,
                                            .is_by_value = tolerance >= 0,
                                            .tolerance = tolerance >= 0 ? tolerance : 0,
                                            .difference = take,
                                            .progress = take_progress,
                                            .arg = told};
    int stop_at = told->stop_at, progress_stop = told->progress_stop;
    memset(told, 0, sizeof *told);
    told->stop_at = stop_at;
    told->progress_stop = progress_stop;
    *result = (struct varve_compare_result){.size = sizeof *result};
    int rc = varve_store_compare(store, &first, &second, &options, result, &failure);
    varve_store_close(store);
    varve_store_close(other);
    return rc;
}

/* ---- against a comparison byte by byte ---- */

struct region_model {
    int type;
    size_t size;
    uint8_t *data[2];
};

static double value_at(int type, const uint8_t *data) {
    float single;
    double value;
    int32_t number;
    switch (type) {
    case VARVE_F32:
        memcpy(&single, data, 4);
        return (double)single;
    case VARVE_F64:
        memcpy(&value, data, 8);
        return value;
    case VARVE_I32:
        memcpy(&number, data, 4);
        return number;
    default:
        return data[0];
    }
}

static void check_region(const struct told *told, const char *name, const struct region_model *model,
                         double tolerance) {
    const struct varve_difference *got = find(told, name);
    size_t element = vv_type_size(model->type);
    uint64_t changed = 0, differing = 0, first = UINT64_MAX, first_changed = UINT64_MAX;
    double largest = 0;
    for (size_t i = 0; i < model->size / element; i++) {
        const uint8_t *a = model->data[0] + i * element, *b = model->data[1] + i * element;
        if (!memcmp(a, b, element))
            continue;
        double apart = fabs(value_at(model->type, a) - value_at(model->type, b));
        int is_float = model->type == VARVE_F32 || model->type == VARVE_F64;
        int differs = !is_float || tolerance < 0 || apart > tolerance;
        changed++;
        differing += (uint64_t)differs;
        largest = apart > largest ? apart : largest;
        first_changed = first_changed == UINT64_MAX ? i : first_changed;
        first = differs && first == UINT64_MAX ? i : first;
    }
    first = first == UINT64_MAX ? first_changed : first;
    assert_string_equal(got->type, vv_type_name(model->type));
    assert_int_equal(got->bytes_first, model->size);
    assert_int_equal(got->elements, model->size / element);
    assert_int_equal(got->elements_changed, changed);
    assert_int_equal(got->elements_differing, differing);
    assert_int_equal(got->bytes_changed, changed * element);
    assert_int_equal(got->what, differing ? 1 : changed ? 5 : 0);
    if (changed) {
        assert_int_equal(got->first_element, first);
        assert_int_equal(got->first_offset, first * element);
        assert_true(model->type == VARVE_BYTES ? isnan(got->largest) : got->largest == largest);
    }
}

static void random_values(int type, uint8_t *data, size_t size) {
    for (size_t i = 0; i < size / vv_type_size(type); i++) {
        double value = (double)random_below(1000) / 8;
        float single = (float)value;
        int32_t number = (int32_t)random_u64();
        memcpy(data + i * vv_type_size(type),
               type == VARVE_F64   ? (void *)&value
               : type == VARVE_F32 ? (void *)&single
                                   : (void *)&number,
               vv_type_size(type));
    }
}

/* Overwrite, move, zero, repeat. */
static void edit(const struct region_model *model, uint8_t *data) {
    size_t element = vv_type_size(model->type), count = model->size / element;
    for (uint64_t n = random_below(4); n && count; n--) {
        size_t at = random_below(count), length = 1 + random_below(random_below(4) ? 20 : count - at), from;
        length = length < count - at ? length : count - at;
        switch (random_below(4)) {
        case 0:
            random_values(model->type, data + at * element, length * element);
            break;
        case 1:
            from = random_below(count - length + 1);
            memmove(data + at * element, data + from * element, length * element);
            break;
        case 2:
            memset(data + at * element, 0, length * element);
            break;
        default:
            for (size_t i = 1; i < length; i++)
                memcpy(data + (at + i) * element, data + (at + i - 1) * element, element);
        }
    }
}

#define MODELS 5
static void protect_models(struct varve_session *session, struct region_model *models, int which) {
    for (int i = 0; i < MODELS; i++) {
        char name[16];
        struct varve_array array = {.size = sizeof array,
                                    .type = models[i].type,
                                    .dims = 1,
                                    .dim = {{models[i].size / vv_type_size(models[i].type), 0, 0}}};
        snprintf(name, sizeof name, "r%d", i);
        assert_int_equal(varve_protect_array(session, name, models[i].data[which], &array), 0);
    }
}

static void check_models(const struct told *told, const struct region_model *models, double tolerance,
                         const struct varve_compare_result *result) {
    uint64_t all = 0;
    for (int i = 0; i < MODELS; i++) {
        char name[16];
        snprintf(name, sizeof name, "r%d", i);
        check_region(told, name, &models[i], tolerance);
        all += models[i].size;
    }
    assert_int_equal(told->count, MODELS);
    assert_int_equal(result->regions, MODELS);
    assert_int_equal(result->bytes_digest + result->bytes_place + result->bytes_zero + result->bytes_id +
                         result->bytes_compared,
                     all);
    assert_int_equal(told->progress_total, told->progress_total > all ? told->progress_total : all);
}

static void one_line(struct region_model *models, const char *settings) {
    struct told told = {0};
    struct varve_compare_result result;
    uint8_t *now[MODELS];
    struct region_model current[MODELS];
    struct varve_session *session = open_session(URI, "line", settings);
    for (int i = 0; i < MODELS; i++) {
        current[i] = models[i];
        current[i].data[0] = now[i] = malloc(models[i].size + 1);
        memcpy(now[i], models[i].data[0], models[i].size);
    }
    protect_models(session, current, 0);
    save(session, 1);
    for (int i = 0; i < MODELS; i++)
        memcpy(now[i], models[i].data[1], models[i].size);
    save(session, 2);
    assert_int_equal(varve_close(session), 0);
    for (double tolerance = -1; tolerance < 100; tolerance += 50) {
        assert_true(compare(URI, "line", 1, URI, "line", 2, tolerance, &told, &result) >= 0);
        check_models(&told, models, tolerance, &result);
    }
    for (int i = 0; i < MODELS; i++)
        free(now[i]);
}

static void two_runs(struct region_model *models, const char *uri, const char *name) {
    struct told told = {0};
    struct varve_compare_result result;
    struct varve_session *session = open_session(URI, "first", NULL);
    protect_models(session, models, 0);
    save(session, 1);
    assert_int_equal(varve_close(session), 0);
    session = open_session(uri, name, NULL);
    protect_models(session, models, 1);
    save(session, 1);
    assert_int_equal(varve_close(session), 0);
    int rc = compare(URI, "first", 1, uri, name, 1, -1, &told, &result);
    if (rc < 0)
        fail_msg("%s", failure.text);
    check_models(&told, models, -1, &result);
    assert_int_equal(result.bytes_place, 0); /* a place of one means nothing in the other */
    assert_int_equal(rc, result.regions_differing);
    if (!strcmp(uri, OTHER))
        assert_int_equal(result.bytes_digest + result.bytes_id, 0); /* seeds differ */
}

static void all_is_found(void **unused) {
    static const int types[] = {VARVE_BYTES, VARVE_F32, VARVE_F64, VARVE_I32};
    static const char *const fine[] = {NULL, "fine=64", "fine=32", "fine=1024"};
    random_begin();
    for (int round = 0; round < 12; round++) {
        struct region_model models[MODELS];
        for (int i = 0; i < MODELS; i++) {
            size_t element = vv_type_size(types[i % 4]);
            size_t count = random_below(8) ? random_below(60000) / element : 0;
            models[i] = (struct region_model){.type = types[i % 4], .size = count * element};
            for (int k = 0; k < 2; k++)
                models[i].data[k] = malloc(models[i].size + 1);
            random_values(models[i].type == VARVE_BYTES ? VARVE_I32 : models[i].type, models[i].data[0],
                          models[i].size / 4 * 4);
            if (models[i].size % 4)
                memset(models[i].data[0] + models[i].size / 4 * 4, 7, models[i].size % 4);
            memcpy(models[i].data[1], models[i].data[0], models[i].size);
            edit(&models[i], models[i].data[1]);
        }
        one_line(models, fine[round % 4]);
        two_runs(models, URI, "second");
        forget_stores(unused);
        two_runs(models, OTHER, "first");
        forget_stores(unused);
        for (int i = 0; i < MODELS; i++) {
            free(models[i].data[0]);
            free(models[i].data[1]);
        }
    }
}

/* ---- what is read ---- */

#define LARGE ((size_t)96 << 20)

/* One per cent of 96 MiB changes, in one piece: about as much is read of each version, and nothing when all is the
 * same. What was read is counted by the storage, too. */
static void little_is_read(void **unused) {
    (void)unused;
    struct told told = {0};
    struct varve_compare_result result;
    uint64_t *data = malloc(LARGE);
    uint64_t state = 1;
    for (size_t i = 0; i < LARGE / 8; i++)
        data[i] = state += UINT64_C(0x9e3779b97f4a7c15) ^ state << 7;
    struct varve_session *session = open_session(URI, "large", "codec=none");
    assert_int_equal(varve_protect(session, "data", data, LARGE), 0);
    save(session, 1);
    for (size_t i = 0; i < LARGE / 100 / 8; i++)
        data[LARGE / 16 + i] ^= 1;
    save(session, 2);
    save(session, 3);
    assert_int_equal(varve_close(session), 0);

    struct varve_store *store = look_at(URI "?count=1");
    struct varve_which which[3] = {{"large", 0, 1}, {"large", 0, 2}, {"large", 0, 3}};
    struct varve_compare_options options = {.size = sizeof options, .difference = take, .arg = &told};
    struct vv_backend_counts before, after;
    result = (struct varve_compare_result){.size = sizeof result};
    assert_int_equal(vv_count_get(store->store->backend, &before), 0);
    assert_int_equal(varve_store_compare(store, &which[0], &which[1], &options, &result, &failure), 1);
    assert_int_equal(vv_count_get(store->store->backend, &after), 0);
    uint64_t read = after.bytes[VV_VERB_GET] - before.bytes[VV_VERB_GET];
    print_message("1 %% of %zu bytes changed: %llu compared, %llu read (%.2f %% of both)\n", LARGE,
                  (unsigned long long)result.bytes_compared, (unsigned long long)read, 50.0 * (double)read / LARGE);
    assert_int_equal(read, result.bytes_read);
    assert_in_range(result.bytes_compared, LARGE / 100, LARGE / 100 + 2 * VV_GRANULE);
    assert_int_equal(told.list[0].difference.elements_changed, LARGE / 100 / 8);
    assert_true(read < 2 * LARGE / 100 * 2); /* 1 % and whole blocks at its ends, and tables */

    result = (struct varve_compare_result){.size = sizeof result};
    assert_int_equal(varve_store_compare(store, &which[1], &which[2], NULL, &result, &failure), 0);
    assert_int_equal(result.bytes_compared, 0);
    assert_int_equal(result.bytes_digest, LARGE);
    print_message("nothing changed: %llu read\n", (unsigned long long)result.bytes_read);
    assert_true(result.bytes_read < 384 << 10);
    varve_store_close(store);
    free(data);
}

/* More than fits at once is compared in parts; a repeated piece, too, which is read again and again but never unfolded.
 */
static void windows_follow_each_other(void **unused) {
    (void)unused;
    enum { COUNT = 10 << 20 }; /* f64: 80 MiB, of windows of 32 */
    struct told told = {0};
    struct varve_compare_result result;
    double *data = malloc(COUNT * sizeof *data);
    for (size_t i = 0; i < COUNT; i++)
        data[i] = (double)(i % 512);
    struct varve_array array = {.size = sizeof array, .type = VARVE_F64, .dims = 1, .dim = {{COUNT, 0, 0}}};
    struct varve_session *session = open_session(URI, "windows", NULL);
    assert_int_equal(varve_protect_array(session, "data", data, &array), 0);
    save(session, 1);
    for (size_t i = 0; i < COUNT; i++)
        data[i] += (double)i;
    data[COUNT - 1] += 0.5;
    save(session, 2);
    assert_int_equal(varve_close(session), 0);
    assert_int_equal(compare(URI, "windows", 1, URI, "windows", 2, -1, &told, &result), 1);
    const struct varve_difference *got = find(&told, "data");
    assert_int_equal(got->elements_changed, COUNT - 1); /* not number 0 */
    assert_int_equal(got->first_element, 1);
    assert_true(got->largest == COUNT - 1 + 0.5);
    assert_int_equal(got->largest_element, COUNT - 1);
    assert_true(result.bytes_read < 90 << 20); /* compressed; not more than once */
    free(data);
}

/* ---- runs of any size ---- */

#define FINE_MAX ((size_t)4 << 20)

static struct vv_dependency put_base(struct vv_store *store, const uint8_t *data, size_t whole, uint8_t type,
                                     struct vv_attempt attempt) {
    struct vv_pack_options options = one_writer();
    struct vv_pack_writer *pack = begin_pack(store, attempt, &options);
    struct vv_dependency dependency;
    struct mf mf;
    for (size_t at = 0; at < whole; at += 256u << 10)
        put_extent(store, pack, 0, at, data + at, 256u << 10, VV_CODEC_NONE, 1);
    mf_begin(&mf, 0, whole);
    struct vv_region_entry entry = {.number = 1, .flags = VV_REGION_DESCRIBED, .length = whole, .name = "fine"};
    struct varve_array array = {
        .size = sizeof array, .type = type, .dims = 1, .dim = {{whole / vv_type_size(type), 0, 0}}};
    vv_shape_of_array(&array, &entry.shape);
    vv_manifest_region(&mf.writer, &entry, 0);
    mf_run(&mf, VV_RUN_HERE, whole, NULL, 0);
    vv_manifest_region_end(&mf.writer, region_digest(store, data, whole));
    mf.head.regions = 1;
    mf.head.protected_bytes = whole;
    assert_ok(vv_pack_dependencies(pack, NULL, 0, &failure));
    mf_store(&mf, pack, NULL);
    assert_ok(vv_pack_seal(pack, whole, 1, NULL, &failure));
    commit(store, attempt, &dependency);
    return dependency;
}

/* A second checkpoint in runs of `step` bytes, by turns: as before, moved from elsewhere in the base, zero, repeated,
 * new. */
static void put_fine(struct vv_store *store, const uint8_t *base, uint8_t *data, size_t whole, size_t step,
                     uint8_t type, const struct vv_dependency *dependency, struct vv_attempt attempt) {
    struct vv_pack_options options = one_writer();
    struct vv_pack_writer *pack = begin_pack(store, attempt, &options);
    struct mf mf;
    mf_begin(&mf, 0, whole);
    struct vv_region_entry entry = {.number = 1, .flags = VV_REGION_DESCRIBED, .length = whole, .name = "fine"};
    struct varve_array array = {
        .size = sizeof array, .type = type, .dims = 1, .dim = {{whole / vv_type_size(type), 0, 0}}};
    vv_shape_of_array(&array, &entry.shape);
    vv_manifest_region(&mf.writer, &entry, 0);
    for (size_t at = 0, turn = 0; at < whole; at += step, turn++) {
        size_t size = whole - at < step ? whole - at : step, from = (at * 7 + 13) % (whole - step);
        size_t piece = size < 3 ? size : 3;
        struct vv_place place = {.dependency = 1, .address = at};
        switch (turn % 5) {
        case 0:
            memcpy(data + at, base + at, size);
            mf_run(&mf, VV_RUN_FROM, size, &place, 0);
            break;
        case 1:
            place.address = from;
            memcpy(data + at, base + from, size);
            mf_run(&mf, VV_RUN_FROM, size, &place, 0);
            break;
        case 2:
            memset(data + at, 0, size);
            mf_run(&mf, VV_RUN_ZERO, size, NULL, 0);
            break;
        case 3:
            place.address = from;
            for (size_t i = 0; i < size; i++)
                data[at + i] = base[from + i % piece];
            mf_run(&mf, VV_RUN_REPEATED, size, &place, piece);
            break;
        default:
            random_fill(data + at, size);
            put_extent(store, pack, 0, at, data + at, (uint32_t)size, VV_CODEC_NONE, 0);
            mf_run(&mf, VV_RUN_HERE, size, NULL, 0);
        }
    }
    vv_manifest_region_end(&mf.writer, region_digest(store, data, whole));
    mf.head.regions = 1;
    mf.head.protected_bytes = whole;
    assert_ok(vv_pack_dependencies(pack, dependency, 1, &failure));
    mf_store(&mf, pack, NULL);
    assert_ok(vv_pack_seal(pack, whole, 1, NULL, &failure));
    commit(store, attempt, NULL);
}

static void runs_of_any_size(void **unused) {
    static const struct {
        size_t whole, step;
        int type;
    } cases[] = {{4 << 20, 64, VARVE_F64},  {2 << 20, 64, VARVE_F64},  {4 << 20, 4096, VARVE_F32},
                 {1 << 20, 61, VARVE_F64},  {512 << 10, 5, VARVE_F32}, {512 << 10, 7, VARVE_BYTES},
                 {1 << 20, 1000, VARVE_I32}};
    uint8_t *base = malloc(FINE_MAX), *data = malloc(FINE_MAX);
    random_begin();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct told told = {0};
        struct varve_compare_result result;
        struct vv_store *store = open_store(URI);
        struct region_model model = {.type = cases[i].type, .size = cases[i].whole, .data = {base, data}};
        random_values(model.type == VARVE_BYTES ? VARVE_I32 : model.type, base, model.size);
        struct vv_dependency dependency = put_base(store, base, model.size, (uint8_t)model.type, attempt_at(1, 1));
        put_fine(store, base, data, model.size, cases[i].step, (uint8_t)model.type, &dependency, attempt_at(1, 2));
        int rc = compare(URI, NAME, 1, URI, NAME, 2, -1, &told, &result);
        if (rc < 0)
            fail_msg("%s", failure.text);
        print_message("runs of %zu bytes in %zu: %llu compared, %llu read\n", cases[i].step, model.size,
                      (unsigned long long)result.bytes_compared, (unsigned long long)result.bytes_read);
        check_region(&told, "fine", &model, -1);
        size_t element = vv_type_size(model.type);
        if (cases[i].step % element == 0)
            assert_int_equal(result.bytes_place, (model.size / cases[i].step + 4) / 5 * cases[i].step);
        if (cases[i].step ==
            4096) /* what both need of the base is read once: the base, a fifth that is new, and tables */
            assert_true(result.bytes_read < model.size / 3 * 4);
        vv_store_close(store);
        forget_stores(unused);
    }
    free(base);
    free(data);
}

/* The same place repeated, but in pieces of another length, or begun elsewhere, is something else. */
static void put_repeated(struct vv_store *store, const struct vv_dependency *dependency, struct vv_attempt attempt,
                         uint8_t *data, uint64_t lead, uint64_t piece) {
    enum { WHOLE = 40000 };
    struct vv_pack_options options = one_writer();
    struct vv_pack_writer *pack = begin_pack(store, attempt, &options);
    struct vv_place place = {.dependency = 1};
    struct mf mf;
    for (size_t i = 0; i < WHOLE; i++)
        data[i] = i < lead ? 0 : (uint8_t)((i - lead) % piece + 1); /* the base counts from 1 */
    mf_begin(&mf, 0, 1u << 20);
    mf_region(&mf, 1, "fine", 0, WHOLE, VV_REGION_DESCRIBED);
    if (lead)
        mf_run(&mf, VV_RUN_ZERO, lead, NULL, 0);
    mf_run(&mf, VV_RUN_REPEATED, WHOLE - lead, &place, piece);
    vv_manifest_region_end(&mf.writer, region_digest(store, data, WHOLE));
    mf.head.regions = 1;
    mf.head.protected_bytes = WHOLE;
    assert_ok(vv_pack_dependencies(pack, dependency, 1, &failure));
    mf_store(&mf, pack, NULL);
    assert_ok(vv_pack_seal(pack, WHOLE, 1, NULL, &failure));
    commit(store, attempt, NULL);
}

static void repeated_pieces(void **unused) {
    (void)unused;
    static const struct { uint64_t lead, piece; } cases[] = {{0, 30}, {0, 31}, {30, 30}, {7, 30}};
    static uint8_t base[256 << 10], data[4][40000];
    struct vv_store *store = open_store(URI);
    for (size_t i = 0; i < sizeof base; i++)
        base[i] = (uint8_t)(i + 1);
    struct vv_dependency dependency = put_base(store, base, sizeof base, VARVE_BYTES, attempt_at(1, 1));
    for (uint64_t i = 0; i < 4; i++)
        put_repeated(store, &dependency, attempt_at(1, 2 + i), data[i], cases[i].lead, cases[i].piece);
    for (int i = 0; i < 16; i++) {
        struct told told = {0};
        struct varve_compare_result result;
        struct region_model model = {.type = VARVE_BYTES, .size = sizeof data[0], .data = {data[i / 4], data[i % 4]}};
        assert_int_equal(compare(URI, NAME, 2 + i / 4, URI, NAME, 2 + i % 4, -1, &told, &result), i / 4 != i % 4);
        check_region(&told, "fine", &model, -1);
        if (i == 2) /* begun one piece later: only that differs, and the rest needs no look */
            assert_int_equal(result.bytes_place, sizeof data[0] - 30);
    }
    vv_store_close(store);
}

/* ---- regions ---- */

static void regions_in_another_order(void **unused) {
    (void)unused;
    enum { COUNT = 20 };
    static char text[2][COUNT][5000];
    struct told told = {0};
    struct varve_compare_result result;
    for (int which = 0; which < 2; which++) {
        struct varve_session *session = open_session(URI, which ? "b" : "a", NULL);
        for (int i = 0; i < COUNT; i++) {
            int n = which ? COUNT - 1 - i : i; /* the second names them from the last to the first */
            char name[16];
            snprintf(name, sizeof name, "region%d", n + (which && n == 3 ? 100 : 0));
            memset(text[which][n], n + (n % 2 ? which : 0), sizeof text[0][0]);
            text[which][n][0] = (char)which;
            size_t size = n == 5 && which ? 4000 : n == 8 ? 0 : sizeof text[0][0];
            assert_int_equal(varve_protect(session, name, text[which][n], size), 0);
        }
        save(session, 1);
        assert_int_equal(varve_close(session), 0);
    }
    int rc = compare(URI, "a", 1, URI, "b", 1, -1, &told, &result);
    assert_int_equal(rc, COUNT + 1 - 1); /* one has no byte to differ in */
    assert_int_equal(told.count, COUNT + 1);
    for (int n = 0; n < COUNT; n++) {
        char name[16];
        snprintf(name, sizeof name, "region%d", n);
        const struct varve_difference *got = find(&told, name);
        assert_int_equal(got->what, n == 3 ? 2 : n == 5 ? 4 : n == 8 ? 0 : 1);
        uint64_t common = n == 8 ? 0 : n == 5 ? 4000 : 5000;
        assert_int_equal(got->bytes_changed, n == 3 ? 5000 : n == 8 ? 0 : (n % 2 ? common : 1) + (n == 5 ? 1000 : 0));
    }
    assert_int_equal(find(&told, "region103")->what, 3);

    /* Quickly: nothing more than granules is known. */
    struct varve_store *store = look_at(URI);
    struct varve_which a = {"a", 0, 1}, b = {"b", 0, 1};
    memset(&told, 0, sizeof told);
    assert_int_equal(varve_store_diff(store, &a, &b, take, &told, &failure), COUNT);
    assert_int_equal(find(&told, "region2")->bytes_changed, 4096);
    assert_int_equal(find(&told, "region1")->bytes_changed, 5000);
    assert_int_equal(find(&told, "region2")->elements_changed, 0);
    varve_store_close(store);
}

/* What has another type on the other side is compared as bytes. */
static void types_may_differ(void **unused) {
    (void)unused;
    double values[3] = {1, 2, 3};
    struct told told = {0};
    struct varve_compare_result result;
    for (int which = 0; which < 2; which++) {
        struct varve_session *session = open_session(URI, which ? "b" : "a", NULL);
        struct varve_array array = {
            .size = sizeof array, .type = which ? VARVE_U64 : VARVE_F64, .dims = 1, .dim = {{3, 0, 0}}};
        values[1] = 2 + which;
        assert_int_equal(varve_protect_array(session, "values", values, &array), 0);
        save(session, 1);
        assert_int_equal(varve_close(session), 0);
    }
    assert_int_equal(compare(URI, "a", 1, URI, "b", 1, 10, &told, &result), 1);
    assert_string_equal(find(&told, "values")->type, "bytes");
    assert_int_equal(find(&told, "values")->elements, 24);
    assert_int_equal(find(&told, "values")->elements_changed, 1); /* 2.0 and 3.0 differ in one byte */
    assert_int_equal(find(&told, "values")->first_offset, 14);
}

/* ---- calls ---- */

static void make_two(void) {
    static char data[3][20000];
    struct varve_session *session = open_session(URI, "two", NULL);
    for (int i = 0; i < 3; i++) {
        char name[2] = {(char)('a' + i), 0};
        memset(data[i], i + 1, sizeof data[i]);
        assert_int_equal(varve_protect(session, name, data[i], sizeof data[i]), 0);
    }
    save(session, 1);
    data[0][17]++;
    data[2][9999]++;
    save(session, 2);
    assert_int_equal(varve_close(session), 0);
}

static void callbacks_can_stop(void **unused) {
    (void)unused;
    struct told told = {.stop_at = 1};
    struct varve_compare_result result;
    make_two();
    assert_int_equal(compare(URI, "two", 1, URI, "two", 2, -1, &told, &result), 1);
    assert_int_equal(told.count, 1);
    told = (struct told){.progress_stop = 1};
    assert_int_equal(compare(URI, "two", 1, URI, "two", 2, -1, &told, &result), -EINTR);
    told = (struct told){0};
    assert_int_equal(compare(URI, "two", 1, URI, "two", 2, -1, &told, &result), 2);
    assert_string_equal(told.list[0].value[0], "0x01");
    assert_string_equal(told.list[0].value[1], "0x02");
    assert_string_equal(told.list[1].value[0], "");
    assert_string_equal(told.list[2].name, "c");
    assert_int_equal(told.list[2].difference.first_offset, 9999);
}

static void arguments_are_checked(void **unused) {
    (void)unused;
    make_two();
    struct varve_store *store = look_at(URI);
    struct varve_which a = {"two", 0, 1}, b = {"two", 0, 2}, none = {"two", 0, 3};
    struct varve_compare_options options = {.size = sizeof options, .is_by_value = 1, .tolerance = NAN};
    struct varve_compare_result result = {.size = sizeof result};
    assert_int_equal(varve_store_compare(store, &a, &b, &options, &result, &failure), -EINVAL);
    options.tolerance = -1;
    assert_int_equal(varve_store_compare(store, &a, &b, &options, &result, &failure), -EINVAL);
    options.tolerance = 0;
    options.relative = INFINITY;
    assert_int_equal(varve_store_compare(store, &a, &b, &options, &result, &failure), -EINVAL);
    options.relative = 0;
    options.size = 0;
    assert_int_equal(varve_store_compare(store, &a, &b, &options, &result, &failure), -EINVAL);
    options.size = sizeof options + 8;
    assert_int_equal(varve_store_compare(store, &a, &b, &options, &result, &failure), -EINVAL);
    result.size = sizeof result + 8;
    assert_int_equal(varve_store_compare(store, &a, &b, NULL, &result, &failure), -EINVAL);
    assert_int_equal(varve_store_compare(store, &a, NULL, NULL, NULL, &failure), -EINVAL);
    assert_int_equal(varve_store_compare(NULL, &a, &b, NULL, NULL, &failure), -EINVAL);
    assert_int_equal(varve_store_compare(store, &a, &none, NULL, NULL, NULL), VARVE_NO_CHECKPOINT);
    assert_int_equal(varve_store_compare(store, &a, &b, NULL, NULL, NULL), 2);
    /* A program of an earlier time knows less of the result. */
    result = (struct varve_compare_result){.size = offsetof(struct varve_compare_result, regions_within)};
    assert_int_equal(varve_store_compare(store, &a, &b, NULL, &result, NULL), 2);
    assert_int_equal(result.regions_differing, 2);
    assert_int_equal(result.bytes_read, 0);
    varve_store_close(store);
    /* Nothing can be said quickly of stores whose ids mean different things. */
    struct varve_session *session = open_session(OTHER, "two", NULL);
    char byte = 1;
    assert_int_equal(varve_protect(session, "a", &byte, 1), 0);
    save(session, 1);
    assert_int_equal(varve_close(session), 0);
    store = look_at(URI);
    options = (struct varve_compare_options){.size = sizeof options, .is_quick = 1, .second = look_at(OTHER)};
    assert_int_equal(varve_store_compare(store, &a, &a, &options, NULL, &failure), -EINVAL);
    assert_non_null(strstr(failure.text, "have to be read"));
    varve_store_close(options.second);
    varve_store_close(store);
}

/* Whichever allocation fails, the call says so, and the next one is right. */
static void memory_may_run_out(void **unused) {
    (void)unused;
    make_two();
    struct varve_store *store = look_at(URI);
    struct varve_which a = {"two", 0, 1}, b = {"two", 0, 2};
    int rc = -ENOMEM;
    for (uint64_t k = 1; rc != 2 && k < 5000; k++) {
        struct told told = {0};
        struct varve_compare_options options = {.size = sizeof options, .difference = take, .arg = &told};
        vv_alloc_fail_at(k);
        rc = varve_store_compare(store, &a, &b, &options, NULL, &failure);
        vv_alloc_fail_at(0);
        assert_true(rc == 2 || rc == -ENOMEM);
    }
    assert_int_equal(rc, 2);
    varve_store_close(store);
}

/* Arrays in the same blocks are compared as they come: no more memory is asked for than where shapes do not count. */
static void equal_blocks_are_not_gathered(void **unused) {
    enum { ARRAYS = 300 };
    static double values[ARRAYS];
    struct varve_array array = {.size = sizeof array, .type = VARVE_F64, .dims = 1, .dim = {{1, 0, 1}}};
    struct varve_session *session = open_session(URI, "many", "");
    uint64_t asked[2];
    (void)unused;
    for (int i = 0; i < ARRAYS; i++) {
        char name[32];
        snprintf(name, sizeof name, "array %d", i);
        assert_ok(varve_protect_array(session, name, &values[i], &array));
    }
    save(session, 1);
    save(session, 2);
    assert_ok(varve_close(session));
    struct varve_store *store = look_at(URI);
    struct varve_which a = {"many", 0, 1}, b = {"many", 0, 2};
    for (int is_quick = 0; is_quick < 2; is_quick++) {
        struct varve_compare_options options = {.size = sizeof options, .is_quick = is_quick};
        vv_alloc_fail_at(0);
        assert_int_equal(varve_store_compare(store, &a, &b, &options, NULL, &failure), 0);
        asked[is_quick] = vv_alloc_count();
    }
    printf("allocations: %" PRIu64 ", quick: %" PRIu64 "\n", asked[0], asked[1]);
    assert_true(asked[0] < asked[1] + ARRAYS);
    varve_store_close(store);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(all_is_found, forget_stores),
        cmocka_unit_test_teardown(little_is_read, forget_stores),
        cmocka_unit_test_teardown(windows_follow_each_other, forget_stores),
        cmocka_unit_test_teardown(runs_of_any_size, forget_stores),
        cmocka_unit_test_teardown(repeated_pieces, forget_stores),
        cmocka_unit_test_teardown(regions_in_another_order, forget_stores),
        cmocka_unit_test_teardown(types_may_differ, forget_stores),
        cmocka_unit_test_teardown(callbacks_can_stop, forget_stores),
        cmocka_unit_test_teardown(arguments_are_checked, forget_stores),
        cmocka_unit_test_teardown(memory_may_run_out, forget_stores),
        cmocka_unit_test_teardown(equal_blocks_are_not_gathered, forget_stores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
