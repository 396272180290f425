/* The dumps that bench-aware checkpoints: made, written, read. */
#include "aware_data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench.h"
#include "hydro.h"
#include "ranks.h"
#include "storm.h"

#define HYDRO_RANK (BENCH_MIB * 3 / 2)
#define HYDRO_STEPS 50
#define STORM_STEPS 10
#define FLOAT_SIDE 256u /* points of a rank's tile, in x and y */
#define WORDS 4096u

static const char *const type_names[] = {
    [VARVE_BYTES] = "bytes", [VARVE_I8] = "i8",   [VARVE_U8] = "u8",   [VARVE_I16] = "i16",
    [VARVE_U16] = "u16",     [VARVE_I32] = "i32", [VARVE_U32] = "u32", [VARVE_I64] = "i64",
    [VARVE_U64] = "u64",     [VARVE_F32] = "f32", [VARVE_F64] = "f64"};
#define TYPES (sizeof type_names / sizeof type_names[0])

/* ---- files ---- */

static void name_file(char *out, size_t capacity, const char *folder, const char *name, unsigned time, unsigned rank,
                      const char *end) {
    bench_check((size_t)snprintf(out, capacity, "%s/%s/%u.%u%s", folder, name, time, rank, end) < capacity,
                "a long name");
}

static void write_dump(const char *folder, const char *name, unsigned time, unsigned rank,
                       const struct arrays *arrays) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    mkdir(path, 0777);
    name_file(path, sizeof path, folder, name, time, rank, "");
    FILE *file = fopen(path, "w");
    bench_check(file != NULL, path);
    for (size_t i = 0; i < arrays->count; i++)
        bench_check(fwrite(arrays->list[i].data, 1, arrays->list[i].bytes, file) == arrays->list[i].bytes, path);
    bench_check(fclose(file) == 0, path);
    name_file(path, sizeof path, folder, name, time, rank, ".list");
    file = fopen(path, "w");
    bench_check(file != NULL, path);
    for (size_t i = 0; i < arrays->count; i++) {
        fprintf(file, "%s %s", arrays->list[i].name, type_names[arrays->list[i].type]);
        for (unsigned d = 0; d < arrays->list[i].dims; d++)
            fprintf(file, " %llu", (unsigned long long)arrays->list[i].dim[d]);
        fputc('\n', file);
    }
    bench_check(fclose(file) == 0, path);
}

static int type_of(const char *text) {
    for (size_t i = 0; i < TYPES; i++)
        if (strcmp(text, type_names[i]) == 0)
            return (int)i;
    return -1;
}

static void add_line(char *line, struct arrays *out, const char *path) {
    char *rest = NULL, *name = strtok_r(line, " \n", &rest), *type = strtok_r(NULL, " \n", &rest), *text;
    uint64_t dim[ARRAY_DIMS] = {0};
    unsigned dims = 0;
    while ((text = strtok_r(NULL, " \n", &rest)) && dims < ARRAY_DIMS)
        dim[dims++] = strtoull(text, NULL, 10);
    bench_check(name && type && type_of(type) >= 0 && dims > 0 && !text, path);
    arrays_add(out, type_of(type), dim, "%s", name);
}

void aware_read(const char *folder, const char *name, unsigned time, struct arrays *out) {
    char path[4096], line[256];
    *out = (struct arrays){0};
    name_file(path, sizeof path, folder, name, time, ranks_own(), ".list");
    FILE *file = fopen(path, "r");
    bench_check(file != NULL, path);
    while (fgets(line, sizeof line, file))
        add_line(line, out, path);
    fclose(file);
    name_file(path, sizeof path, folder, name, time, ranks_own(), "");
    file = fopen(path, "r");
    bench_check(file != NULL, path);
    for (size_t i = 0; i < out->count; i++)
        bench_check(fread(out->list[i].data, 1, out->list[i].bytes, file) == out->list[i].bytes, path);
    bench_check(fgetc(file) == EOF, path);
    fclose(file);
}

int aware_is_there(const char *folder, const char *name) {
    char path[4096];
    for (unsigned time = 0; time < AWARE_TIMES; time++) {
        name_file(path, sizeof path, folder, name, time, ranks_all() - 1, ".list");
        if (access(path, R_OK) != 0)
            return 0;
        name_file(path, sizeof path, folder, name, time, ranks_all(), ".list");
        if (access(path, R_OK) == 0)
            return 0;
    }
    return 1;
}

double aware_gzip(const char *folder, const char *name, unsigned time, double *bytes_out) {
    char path[4096], command[8192];
    unsigned long long bytes = 0;
    struct stat info;
    *bytes_out = 0;
    for (unsigned rank = 0; rank < ranks_all(); rank++) {
        name_file(path, sizeof path, folder, name, time, rank, "");
        bench_check(stat(path, &info) == 0, path);
        *bytes_out += (double)info.st_size;
    }
    snprintf(command, sizeof command,
             "i=0; while [ $i -lt %u ]; do cat '%s/%s/%u.'$i; i=$((i + 1)); done | gzip -6 | wc -c", ranks_all(),
             folder, name, time);
    FILE *pipe = popen(command, "r");
    bench_check(pipe != NULL, "gzip");
    int got = fscanf(pipe, "%llu", &bytes);
    pclose(pipe);
    return got == 1 && bytes > 100 ? (double)bytes : 0; /* less: of nothing, because gzip is not there */
}

/* ---- states ---- */

/* One process computes all of it. */
static void make_hydro(const char *folder) {
    struct hydro *hydro = ranks_own() == 0 ? hydro_create(HYDRO_RANK * ranks_all()) : NULL;
    for (unsigned time = 0; time < AWARE_TIMES && hydro; time++) {
        for (int i = 0; i < HYDRO_STEPS; i++)
            hydro_step(hydro);
        for (unsigned rank = 0; rank < ranks_all(); rank++) {
            struct arrays part;
            hydro_part(hydro, rank, ranks_all(), &part);
            write_dump(folder, "hydro", time, rank, &part);
            arrays_clear(&part);
        }
    }
    if (hydro)
        hydro_destroy(hydro);
}

/* One that never drifts, and three that do. */
static void make_storm(const char *folder) {
    static const size_t fields[] = {0, 5, 8, 9};
    struct storm *storm = storm_create();
    for (unsigned time = 0; time < AWARE_TIMES; time++) {
        struct arrays arrays = {0};
        for (unsigned i = 0; i < STORM_STEPS; i++)
            storm_step(storm);
        for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
            memcpy(arrays_add(&arrays, VARVE_F64, ARRAY_OF(STORM_Z, STORM_Y, STORM_X), "%s", storm_names[fields[i]]),
                   storm_field(storm, fields[i]), STORM_FIELD_BYTES);
        write_dump(folder, "storm", time, ranks_own(), &arrays);
        arrays_clear(&arrays);
    }
    storm_destroy(storm);
}

/* From -1 to 1, more often near 0. */
static double noise(uint64_t *state) {
    double sum = 0;
    for (int i = 0; i < 3; i++)
        sum += (double)(bench_random(state) >> 11) * 0x1p-52 - 1;
    return sum / 3;
}

/* The plane is as many tiles wide as it is high, or twice that. */
static unsigned tiles_across(void) {
    unsigned across = 1;
    while (across * across < ranks_all())
        across++;
    while (ranks_all() % across)
        across++;
    return across;
}

static void fill_float32(float *out, int field, unsigned time, uint64_t *state) {
    unsigned across = tiles_across(), down = ranks_all() / across;
    unsigned left = ranks_own() % across * FLOAT_SIDE, top = ranks_own() / across * FLOAT_SIDE;
    double level = pow(10, -4 + field); /* of the noise: 1e-4 to 0.1 */
    for (unsigned i = 0; i < FLOAT_SIDE; i++)
        for (unsigned j = 0; j < FLOAT_SIDE; j++) {
            double x = (double)(left + j) / (across * FLOAT_SIDE), y = (double)(top + i) / (down * FLOAT_SIDE);
            double smooth = 280 + 20 * sin(7 * x + field + 0.1 * time) * cos(5 * y - 0.07 * time) +
                            3 * sin(40 * x * y + 3 * field - 0.2 * time);
            out[i * FLOAT_SIDE + j] = (float)(smooth + level * noise(state));
        }
}

static void make_float32(unsigned time, struct arrays *out) {
    uint64_t state = 5 + 1000 * (uint64_t)time + ((uint64_t)ranks_own() << 32);
    for (int field = 0; field < 4; field++)
        fill_float32(arrays_add(out, VARVE_F32, ARRAY_OF(FLOAT_SIDE, FLOAT_SIDE), "signal_%d", field), field, time,
                     &state);
}

static void make_counters(unsigned time, struct arrays *out) {
    size_t n32 = BENCH_MIB / 4, n64 = BENCH_MIB / 8;
    uint32_t *small = arrays_add(out, VARVE_U32, ARRAY_OF(n32), "hits");
    int64_t *large = arrays_add(out, VARVE_I64, ARRAY_OF(n64), "totals");
    uint64_t state = 6 + ((uint64_t)ranks_own() << 32);
    for (size_t i = 0; i < n32 * (time + 1) / AWARE_TIMES; i++)
        small[bench_random(&state) % n32] +=
            bench_random(&state) % 50 == 0 ? 1 + (uint32_t)(bench_random(&state) % 100) : 0;
    for (size_t i = 0; i < n64 * (time + 1) / AWARE_TIMES; i++)
        if (bench_random(&state) % 30 == 0)
            large[bench_random(&state) % n64] += (int64_t)(bench_random(&state) % 5000) - 20;
}

/* Words of 2 to 11 letters; frequent letters are frequent. The same on all ranks. */
static void make_words(char words[WORDS][12]) {
    static const char letters[] = "eeeeeetttttaaaaoooiiinnnssshhrrrddlluccmmfwwyyggppbbvk";
    uint64_t state = 8;
    for (size_t i = 0; i < WORDS; i++) {
        size_t length = 2 + bench_random(&state) % 10;
        for (size_t j = 0; j < length; j++)
            words[i][j] = letters[bench_random(&state) % (sizeof letters - 1)];
        words[i][length] = '\0';
    }
}

/* Objects as malloc would lay them out: a head with the size, a pointer to some other object, a length, a string. */
static void make_text(unsigned time, struct arrays *out) {
    static char words[WORDS][12];
    size_t bytes = BENCH_MIB;
    uint8_t *heap = arrays_add(out, VARVE_BYTES, ARRAY_OF(bytes), "heap");
    uint64_t state = 80 + time + ((uint64_t)ranks_own() << 32);
    uint64_t base = UINT64_C(0x55d0c3a41000) + (bench_random(&state) % 65536 << 20); /* as every process has another */
    make_words(words);
    for (size_t at = 0; at + 1024 < bytes;) {
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
}

static void make_random(unsigned time, struct arrays *out) {
    uint64_t *data = arrays_add(out, VARVE_F64, ARRAY_OF(BENCH_MIB / 8), "bits");
    uint64_t state = 9 + 1000 * (uint64_t)time + ((uint64_t)ranks_own() << 32);
    for (size_t i = 0; i < BENCH_MIB / 8; i++)
        data[i] = bench_random(&state);
}

const char *const aware_names[] = {"hydro", "storm", "float32", "counters", "text", "random", NULL};
static void (*const whole_makers[])(const char *) = {make_hydro, make_storm};
#define WHOLE (sizeof whole_makers / sizeof whole_makers[0])
static void (*const rank_makers[])(unsigned, struct arrays *) = {make_float32, make_counters, make_text, make_random};

static void make_own_part(const char *folder, const char *name, void (*make)(unsigned, struct arrays *)) {
    for (unsigned time = 0; time < AWARE_TIMES; time++) {
        struct arrays arrays = {0};
        make(time, &arrays);
        write_dump(folder, name, time, ranks_own(), &arrays);
        arrays_clear(&arrays);
    }
}

int aware_make(const char *folder, const char *name) {
    size_t which = 0;
    while (aware_names[which] && strcmp(aware_names[which], name) != 0)
        which++;
    if (!aware_names[which])
        return -1;
    int is_missing = ranks_most(!aware_is_there(folder, name)) > 0;
    if (is_missing && which < WHOLE)
        whole_makers[which](folder);
    else if (is_missing)
        make_own_part(folder, name, rank_makers[which - WHOLE]);
    ranks_meet();
    return 0;
}
