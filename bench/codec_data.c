/* The states that bench-codec compresses. */
#include "codec_data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench.h"
#include "hydro.h"
#include "storm.h"

#define HYDRO_STEPS 200
#define STORM_STEPS 30
#define WORDS 4096u

const char *const data_names[] = {"hydro",  "storm",       "float32",    "counters",   "text",
                                  "random", "normal-bf16", "normal-f16", "normal-f32", NULL};

/* Take over what another list has, by copying: that program can be ended then. */
static void copy_arrays(const struct arrays *from, struct arrays *to) {
    arrays_alike(from, to);
    for (size_t i = 0; i < from->count; i++)
        memcpy(to->list[i].data, from->list[i].data, from->list[i].bytes);
}

static void make_hydro(size_t bytes, struct data *out) {
    struct hydro *hydro = hydro_create(bytes);
    double begin = bench_now();
    for (int i = 0; i < HYDRO_STEPS; i++)
        hydro_step(hydro);
    snprintf(out->about, sizeof out->about, "%d steps in %.1f s; patches by level %u, %u, %u; mass drifted by %.1e",
             HYDRO_STEPS, bench_now() - begin, hydro_leaves(hydro, 0), hydro_leaves(hydro, 1), hydro_leaves(hydro, 2),
             hydro_drift(hydro));
    copy_arrays(hydro_arrays(hydro), &out->arrays);
    hydro_destroy(hydro);
}

static void make_storm(size_t bytes, struct data *out) {
    struct storm *storm = storm_create();
    size_t count = bytes / STORM_FIELD_BYTES < STORM_FIELDS ? bytes / STORM_FIELD_BYTES : STORM_FIELDS;
    for (unsigned i = 0; i < STORM_STEPS; i++)
        storm_step(storm);
    for (size_t i = 0; i < count; i++) {
        /* The first ones never drift: take those that do first. */
        size_t field = STORM_FIELDS - 1 - i;
        void *copy = arrays_add(&out->arrays, VARVE_F64, ARRAY_OF(STORM_Z, STORM_Y, STORM_X), "%s", storm_names[field]);
        memcpy(copy, storm_field(storm, field), STORM_FIELD_BYTES);
    }
    snprintf(out->about, sizeof out->about, "%u steps, %zu of %u fields, %zu of %u columns disturbed", STORM_STEPS,
             count, STORM_FIELDS, storm_disturbed(storm), STORM_X * STORM_Y);
    storm_destroy(storm);
}

/* From -1 to 1, more often near 0. */
static double noise(uint64_t *state) {
    double sum = 0;
    for (int i = 0; i < 3; i++)
        sum += (double)(bench_random(state) >> 11) * 0x1p-52 - 1;
    return sum / 3;
}

static void make_float32(size_t bytes, struct data *out) {
    size_t columns = 1024, rows = bytes / 4 / sizeof(float) / columns;
    uint64_t state = 5;
    for (int field = 0; field < 4; field++) {
        float *data = arrays_add(&out->arrays, VARVE_F32, ARRAY_OF(rows, columns), "signal_%d", field);
        double level = pow(10, -4 + field); /* of the noise: 1e-4 to 0.1 */
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < columns; j++) {
                double x = (double)j / (double)columns, y = (double)i / (double)rows;
                double smooth = 280 + 20 * sin(7 * x + field) * cos(5 * y) + 3 * sin(40 * x * y + 3 * field);
                data[i * columns + j] = (float)(smooth + level * noise(&state));
            }
    }
    snprintf(out->about, sizeof out->about, "four fields of %zu x %zu around 280; noise 1e-4, 1e-3, 0.01, 0.1", rows,
             columns);
}

/* They become so small that there have to be more of them. */
static void make_counters(size_t bytes, struct data *out) {
    bytes *= 3;
    size_t n32 = bytes / 2 / 4, n64 = bytes / 2 / 8;
    uint32_t *small = arrays_add(&out->arrays, VARVE_U32, ARRAY_OF(n32), "hits");
    int64_t *large = arrays_add(&out->arrays, VARVE_I64, ARRAY_OF(n64), "totals");
    uint64_t state = 6;
    for (size_t i = 0; i < n32; i++)
        if (bench_random(&state) % 50 == 0)
            small[i] = (uint32_t)(bench_random(&state) % (bench_random(&state) % 10 ? 100 : 100000));
    for (size_t i = 0; i < n64; i++)
        if (bench_random(&state) % 30 == 0)
            large[i] = (int64_t)(bench_random(&state) % 5000) - 20;
    snprintf(out->about, sizeof out->about, "one in 50 of %zu u32, one in 30 of %zu i64 is not 0", n32, n64);
}

/* Words of 2 to 11 letters; frequent letters are frequent. */
static void make_words(char words[WORDS][12], uint64_t *state) {
    static const char letters[] = "eeeeeetttttaaaaoooiiinnnssshhrrrddlluccmmfwwyyggppbbvk";
    for (size_t i = 0; i < WORDS; i++) {
        size_t length = 2 + bench_random(state) % 10;
        for (size_t j = 0; j < length; j++)
            words[i][j] = letters[bench_random(state) % (sizeof letters - 1)];
        words[i][length] = '\0';
    }
}

/* Objects as malloc would lay them out: a head with the size, a pointer to some other object, a length, a string. */
static void make_text(size_t bytes, struct data *out) {
    static char words[WORDS][12];
    uint8_t *heap = arrays_add(&out->arrays, VARVE_BYTES, ARRAY_OF(bytes), "heap");
    uint64_t state = 8, base = UINT64_C(0x55d0c3a41000), objects = 0;
    make_words(words, &state);
    for (size_t at = 0; at + 1024 < bytes; objects++) {
        char *text = (char *)heap + at + 24;
        size_t length = 0, count = 2 + bench_random(&state) % 30;
        for (size_t i = 0; i < count; i++) {
            /* A few words are most of all text. */
            size_t word = bench_random(&state) % (1 + bench_random(&state) % (1 + bench_random(&state) % WORDS));
            length += (size_t)sprintf(text + length, "%s%s", words[word], i + 1 < count ? " " : ".");
        }
        size_t size = (24 + length + 16) / 16 * 16;
        uint64_t head[3] = {size | 1, base + bench_random(&state) % bytes / 16 * 16, length};
        memcpy(heap + at, head, sizeof head);
        at += size;
    }
    snprintf(out->about, sizeof out->about, "%llu objects", (unsigned long long)objects);
}

static void make_random(size_t bytes, struct data *out) {
    uint64_t *data = arrays_add(&out->arrays, VARVE_F64, ARRAY_OF(bytes / 8), "bits"), state = 9;
    for (size_t i = 0; i < bytes / 8; i++)
        data[i] = bench_random(&state);
    snprintf(out->about, sizeof out->about, "every bit, so that there are infinities and NaN among them");
}

static double normal(uint64_t *state) {
    double u = (double)((bench_random(state) >> 11) + 1) * 0x1p-53, v = (double)(bench_random(state) >> 11) * 0x1p-53;
    return 0.02 * sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* To the nearest, ties to even. Normal numbers only, and none so large that it would become infinite. */
static uint16_t bf16_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Below 65504; what is less than 2^-14 loses bits of its fraction, as it must. */
static uint16_t f16_of(float x) {
    double size = fabs((double)x);
    int power = size > 0 ? ilogb(size) : -14;
    power = power < -14 ? -14 : power;
    uint16_t steps = (uint16_t)lrint(ldexp(size, 10 - power)); /* the hidden bit included, which carries over */
    return (uint16_t)((signbit(x) ? 0x8000 : 0) + (power + 14) * 1024 + steps);
}

static void make_normal(int type, size_t bytes, struct data *out) {
    size_t width = array_element(type), count = bytes / width;
    uint8_t *data = arrays_add(&out->arrays, type, ARRAY_OF(count), "weights");
    uint64_t state = 10;
    for (size_t i = 0; i < count; i++) {
        float x = (float)normal(&state);
        uint16_t narrow = type == VARVE_BF16 ? bf16_of(x) : type == VARVE_F16 ? f16_of(x) : 0;
        memcpy(data + i * width, type == VARVE_F32 ? (const void *)&x : &narrow, width);
    }
    snprintf(out->about, sizeof out->about, "%zu numbers of standard deviation 0.02", count);
}

static void make_normal_bf16(size_t bytes, struct data *out) {
    make_normal(VARVE_BF16, bytes, out);
}

static void make_normal_f16(size_t bytes, struct data *out) {
    make_normal(VARVE_F16, bytes, out);
}

static void make_normal_f32(size_t bytes, struct data *out) {
    make_normal(VARVE_F32, bytes, out);
}

int data_make(const char *name, size_t bytes, struct data *out) {
    static void (*const makers[])(size_t, struct data *) = {make_hydro,       make_storm,      make_float32,
                                                            make_counters,    make_text,       make_random,
                                                            make_normal_bf16, make_normal_f16, make_normal_f32};
    for (size_t i = 0; data_names[i]; i++)
        if (strcmp(name, data_names[i]) == 0) {
            *out = (struct data){0};
            snprintf(out->name, sizeof out->name, "%s", name);
            makers[i](bytes, out);
            return 0;
        }
    return -1;
}

void data_clear(struct data *data) {
    arrays_clear(&data->arrays);
}

/* ---- files ---- */

static int type_of(const char *text) {
    static const struct {
        const char *name;
        int type;
    } types[] = {{"bytes", VARVE_BYTES}, {"i8", VARVE_I8},   {"u8", VARVE_U8},    {"i16", VARVE_I16},
                 {"u16", VARVE_U16},     {"i32", VARVE_I32}, {"u32", VARVE_U32},  {"i64", VARVE_I64},
                 {"u64", VARVE_U64},     {"f32", VARVE_F32}, {"f64", VARVE_F64},  {"f16", VARVE_F16},
                 {"bf16", VARVE_BF16},   {"c64", VARVE_C64}, {"c128", VARVE_C128}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(text, types[i].name) == 0)
            return types[i].type;
    return -1;
}

/* PATH, PATH:TYPE or PATH:TYPExCOLUMNS. */
static int parse_shape(char *path, int *type, size_t *columns) {
    char *colon = strrchr(path, ':');
    *type = VARVE_BYTES;
    *columns = 0;
    if (!colon)
        return 0;
    *colon = '\0';
    char *times = strchr(colon + 1, 'x');
    if (times) {
        *times = '\0';
        *columns = strtoul(times + 1, NULL, 10);
    }
    *type = type_of(colon + 1);
    return *type < 0 ? -1 : 0;
}

int data_file(const char *text, struct data *out) {
    char path[4096];
    const char *equals = strchr(text, '=');
    struct stat info;
    int type;
    size_t columns;
    if (!equals || equals == text || (size_t)(equals - text) >= DATA_NAME || strlen(equals) > sizeof path)
        return -1;
    snprintf(out->name, sizeof out->name, "%.*s", (int)(equals - text), text);
    strcpy(path, equals + 1);
    if (parse_shape(path, &type, &columns) != 0)
        return -1;
    bench_check(stat(path, &info) == 0 && info.st_size > 0, path);
    size_t elements = (size_t)info.st_size / array_element(type), step = columns ? columns : 1;
    const char *last = strrchr(path, '/');
    void *data = arrays_add(&out->arrays, type, ARRAY_OF(elements / step, columns), "%.50s", last ? last + 1 : path);
    bench_bare_read(path, data, elements / step * step * array_element(type));
    return 0;
}

double data_gzip(const struct data *data, const char *folder) {
    char path[4096], command[4200];
    unsigned long long bytes = 0;
    snprintf(path, sizeof path, "%s/bench-codec.state", folder);
    FILE *file = fopen(path, "w");
    bench_check(file != NULL, path);
    for (size_t i = 0; i < data->arrays.count; i++)
        bench_check(fwrite(data->arrays.list[i].data, data->arrays.list[i].bytes, 1, file) == 1, path);
    bench_check(fclose(file) == 0, path);
    snprintf(command, sizeof command, "gzip -6 -c '%s' | wc -c", path);
    FILE *pipe = popen(command, "r");
    bench_check(pipe != NULL, "gzip");
    int got = fscanf(pipe, "%llu", &bytes);
    pclose(pipe);
    unlink(path);
    return got == 1 && bytes > 0 ? (double)data->arrays.bytes / (double)bytes : 0;
}
