/* write-typed DIR: a store at DIR/store with arrays of many types, each version written with another codec, and beside
 * it in DIR/expect what each region of each version holds, as VERSION.REGION, and in DIR/ranges a line VERSION REGION
 * LEAST GREATEST for each. For the independent reader. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <varve/varve.h>

#define ROWS 180
#define ROW 230
#define LONG 70001
#define VECTORS 12011
#define BOUND 1e-3

static double field[ROWS][ROW], rounded[ROWS][ROW], complexes[2][5000];
static float wave[LONG], rough[LONG], near[LONG], moves[VECTORS][3];
static double places[VECTORS][3];
static int32_t counts[LONG];
static int16_t small[777];
static uint64_t hashes[9000];
static uint8_t bytes[100003];

static const char *dir;
static FILE *ranges;

static void fill(int version) {
    for (int y = 0; y < ROWS; y++)
        for (int x = 0; x < ROW; x++)
            field[y][x] = 300 + version + 20 * sin(x / 30.0 + version) * cos(y / 21.0);
    for (int i = 0; i < LONG; i++) {
        wave[i] = (float)sin(i / 500.0 + version) - (float)version;
        rough[i] = (float)rand() / (float)RAND_MAX * 100 - 50;
        near[i] = wave[i] * 10;
        counts[i] = i * 7 - 200000 + version;
    }
    for (int i = 0; i < VECTORS; i++)
        for (int k = 0; k < 3; k++) { /* each number of a vector in a range of its own */
            places[i][k] = (k - 1) * 1e3 + (i + rand() % 64 / 64.0) * (k + 1) + version;
            moves[i][k] = (float)(k * 100 + rand() % 1000 / 1e3 + version);
        }
    for (int i = 0; i < 5000; i++) {
        complexes[0][i] = cos(i / 100.0 + version);
        complexes[1][i] = -3 * sin(i / 100.0);
    }
    for (int i = 0; i < 777; i++)
        small[i] = (int16_t)(i * version - 5);
    for (size_t i = 0; i < 9000; i++)
        hashes[i] = ((uint64_t)rand() << 33) ^ (uint64_t)rand();
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i / 5 * (size_t)(version + 1));
}

/* What a lossy region is to hold: multiples of 2^-9, the largest power of two that is not above twice the bound. */
static void round_values(void) {
    const double grid = 0x1p-9;
    for (int y = 0; y < ROWS; y++)
        for (int x = 0; x < ROW; x++)
            rounded[y][x] = nearbyint(field[y][x] / grid) * grid + 0.0;
    for (int i = 0; i < LONG; i++)
        near[i] = (float)(nearbyint(near[i] / grid) * grid + 0.0);
}

static void expect(int version, const char *region, const void *data, size_t size) {
    char path[4096];
    snprintf(path, sizeof path, "%s/expect/%d.%s", dir, version, region);
    FILE *file = fopen(path, "w");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0)
        exit(1);
}

static void expect_floats(int version, const char *region, const void *data, size_t size, int is_double) {
    size_t count = size / (is_double ? sizeof(double) : sizeof(float));
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < count; i++) {
        double x = is_double ? ((const double *)data)[i] : (double)((const float *)data)[i];
        low = x < low ? x : low;
        high = x > high ? x : high;
    }
    fprintf(ranges, "%d %s %.17g %.17g\n", version, region, low, high);
    expect(version, region, data, size);
}

static void expect_all(int version) {
    expect_floats(version, "field", field, sizeof field, 1);
    expect_floats(version, "wave", wave, sizeof wave, 0);
    expect_floats(version, "rough", rough, sizeof rough, 0);
    expect_floats(version, "places", places, sizeof places, 1);
    expect_floats(version, "moves", moves, sizeof moves, 0);
    expect_floats(version, "complexes", complexes, sizeof complexes, 1);
    fprintf(ranges, "%d counts %d %d\n", version, counts[0], counts[LONG - 1]);
    expect(version, "counts", counts, sizeof counts);
    expect(version, "small", small, sizeof small);
    expect(version, "hashes", hashes, sizeof hashes);
    expect(version, "bytes", bytes, sizeof bytes);
    round_values();
    expect_floats(version, "lossy field", rounded, sizeof rounded, 1);
    expect_floats(version, "lossy near", near, sizeof near, 0);
}

static int protect(struct varve_session *session) {
    struct varve_array grid = {
        .size = sizeof grid, .type = VARVE_F64, .dims = 2, .dim = {{ROWS, ROWS, 4 * ROWS}, {ROW, 0, 0}}};
    struct varve_array list = {.size = sizeof list, .type = VARVE_F32, .dims = 1, .dim = {{LONG, 0, 0}}};
    struct varve_array vectors = {
        .size = sizeof vectors, .type = VARVE_F64, .dims = 2, .dim = {{VECTORS, 0, 0}, {3, 0, 0}}};
    struct varve_array short_vectors = vectors;
    struct varve_array lossy = grid, lossy_list = list, counted = list, hashed = list, shorts = list, parts = list;
    lossy.lossy = lossy_list.lossy = "zfp";
    lossy.bound = lossy_list.bound = BOUND;
    short_vectors.type = VARVE_F32;
    counted.type = VARVE_I32;
    hashed.type = VARVE_U64;
    hashed.dim[0].local = 9000;
    shorts.type = VARVE_I16;
    shorts.dim[0].local = 777;
    parts.type = VARVE_C128;
    parts.dim[0].local = 5000;
    memcpy(rounded, field, sizeof field);
    int rc = varve_protect_array(session, "field", field, &grid);
    rc = rc ? rc : varve_protect_array(session, "wave", wave, &list);
    rc = rc ? rc : varve_protect_array(session, "rough", rough, &list);
    rc = rc ? rc : varve_protect_array(session, "counts", counts, &counted);
    rc = rc ? rc : varve_protect_array(session, "small", small, &shorts);
    rc = rc ? rc : varve_protect_array(session, "hashes", hashes, &hashed);
    rc = rc ? rc : varve_protect_array(session, "complexes", complexes, &parts);
    rc = rc ? rc : varve_protect_array(session, "places", places, &vectors);
    rc = rc ? rc : varve_protect_array(session, "moves", moves, &short_vectors);
    rc = rc ? rc : varve_protect_array(session, "lossy field", rounded, &lossy);
    rc = rc ? rc : varve_protect_array(session, "lossy near", near, &lossy_list);
    return rc ? rc : varve_protect(session, "bytes", bytes, sizeof bytes);
}

int main(int argc, char **argv) {
    static const char *const codecs[] = {"none",        "lz4",          "zstd",           "lz4-zstd",
                                         "shuffle-lz4", "shuffle-zstd", "bitshuffle-lz4", "bitshuffle-zstd",
                                         "delta-lz4",   "delta-zstd",   "xor-zstd",       "rotate-zstd",
                                         "fpzip",       "zfp",          "size",           "auto"};
    char path[4096], settings[100];
    if (argc != 2)
        return 2;
    dir = argv[1];
    snprintf(path, sizeof path, "%s/expect", dir);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/ranges", dir);
    ranges = fopen(path, "w");
    if (!ranges)
        return 1;
    srand(5);
    snprintf(path, sizeof path, "%s/store", dir);
    for (int version = 0; version < (int)(sizeof codecs / sizeof codecs[0]); version++) {
        struct varve_options options = VARVE_OPTIONS_INIT;
        struct varve_session *session;
        struct varve_error error;
        snprintf(settings, sizeof settings, "keep=all,codec=%s,block_size=%s,part_size=1M", codecs[version],
                 version % 2 ? "128K" : "1M");
        options.settings = settings;
        fill(version);
        if (varve_open(path, "typed", &options, &session, &error) != 0) {
            fprintf(stderr, "%s\n", error.text);
            return 1;
        }
        int rc = protect(session);
        rc = rc ? rc : varve_checkpoint(session, version);
        rc = varve_close(session) || rc;
        if (rc) {
            fprintf(stderr, "version %d: %s\n", version, varve_error_text(rc));
            return 1;
        }
        expect_all(version);
    }
    return fclose(ranges) != 0;
}
