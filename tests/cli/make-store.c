/* Make the small store that the tests of the `varve` command look at, and beside it the bytes each region must have.
 *
 *     make-store STORE FOLDER          heat: 100, 200, 300; wave: 1; FOLDER gets VERSION.REGION files of heat
 *     make-store --hold STORE NAME     open a session, save version 900, print "ready", hold on until stdin ends; a
 *                                      line "save" saves version 901 and prints what became of it
 *     make-store --again STORE NAME    a second life of the job: restart, save version 300 once more
 *     make-store --marked STORE        marked: 1, with an attribute and a region whose names and values are MARKERs
 *     make-store --arrays STORE FOLDER field: 1, 2, with arrays of many types; FOLDER gets VERSION.REGION files */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve.h>

#define TEMPERATURE_BYTES (1u << 20)
#define STEPS_BYTES 40000u
#define ZEROS_BYTES (256u << 10)
#define PAGE 4096u

static unsigned char temperature[TEMPERATURE_BYTES];
static unsigned char steps[STEPS_BYTES];
static unsigned char zeros[ZEROS_BYTES];

static void fill(unsigned char *data, size_t size, uint64_t seed) {
    for (size_t i = 0; i < size; i++) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        data[i] = (unsigned char)seed;
    }
}

static void check(int rc, const char *what, const char *text) {
    if (rc < 0) {
        fprintf(stderr, "make-store: %s: %s: %s\n", what, varve_error_name(rc), text);
        exit(1);
    }
}

static struct varve_session *open_session(const char *store, const char *name) {
    struct varve_session *session = NULL;
    struct varve_error error = {.text = ""};
    struct varve_options options = VARVE_OPTIONS_INIT;

    options.settings = "keep=all";
    check(varve_open(store, name, &options, &session, &error), "open", error.text);
    return session;
}

static void protect(struct varve_session *session, const char *region, void *data, size_t size) {
    check(varve_protect(session, region, data, size), region, varve_session_error(session)->text);
}

static void save(struct varve_session *session, int64_t version) {
    check(varve_checkpoint(session, version), "checkpoint", varve_session_error(session)->text);
    check(varve_wait(session), "wait", varve_session_error(session)->text);
    check(varve_wait(session), "wait", varve_session_error(session)->text);
}

static void write_file(const char *folder, int64_t version, const char *region, const void *data, size_t size) {
    char path[4096];

    snprintf(path, sizeof path, "%s/%lld.%s", folder, (long long)version, region);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

static void protect_all(struct varve_session *session) {
    protect(session, "temperature", temperature, sizeof temperature);
    protect(session, "steps", steps, sizeof steps);
    protect(session, "zeros", zeros, sizeof zeros);
}

static void save_heat(struct varve_session *session, const char *folder, int64_t version) {
    save(session, version);
    write_file(folder, version, "temperature", temperature, sizeof temperature);
    write_file(folder, version, "steps", steps, sizeof steps);
    write_file(folder, version, "zeros", zeros, sizeof zeros);
}

static void make_heat(const char *store, const char *folder) {
    struct varve_session *session = open_session(store, "heat");

    fill(temperature, sizeof temperature, 1);
    fill(steps, sizeof steps, 2);
    protect_all(session);
    save_heat(session, folder, 100);
    /* 200: two pages of temperature differ. */
    temperature[5 * PAGE + 17] ^= 0xff;
    temperature[200 * PAGE] ^= 0xff;
    save_heat(session, folder, 200);
    /* 300: one page of steps differs, and there is a new region. */
    static char note[] = "a note of 24 bytes here\n";
    steps[PAGE] ^= 0xff;
    protect(session, "note", note, sizeof note - 1);
    save_heat(session, folder, 300);
    write_file(folder, 300, "note", note, sizeof note - 1);
    check(varve_close(session), "close", "");
}

static void make_wave(const char *store) {
    struct varve_session *session = open_session(store, "wave \"1\"");

    protect(session, "he said \"hi\"\n", steps, 100);
    save(session, 1);
    check(varve_close(session), "close", "");
}

static void hold(const char *store, const char *name) {
    struct varve_session *session = open_session(store, name);

    fill(steps, sizeof steps, 3);
    protect(session, "steps", steps, sizeof steps);
    save(session, 900);
    puts("ready");
    fflush(stdout);
    char line[16];
    while (fgets(line, sizeof line, stdin)) {
        if (!strcmp(line, "save\n")) {
            int rc = varve_checkpoint(session, 901);
            rc = rc ? rc : varve_wait(session);
            puts(rc ? varve_error_name(rc) : "saved");
            fflush(stdout);
        }
    }
    check(varve_close(session), "close", "");
}

static void again(const char *store, const char *name) {
    struct varve_session *session = open_session(store, name);

    protect_all(session);
    check(varve_restart(session, 200, NULL), "restart", varve_session_error(session)->text);
    save(session, 300);
    check(varve_close(session), "close", "");
}

static void make_marked(const char *store) {
    struct varve_session *session = open_session(store, "marked");

    protect(session, "MARKER-OF-REGION", steps, sizeof steps);
    check(varve_attribute(session, "MARKER-OF-ATTRIBUTE", "MARKER-OF-VALUE"), "attribute", "");
    save(session, 1);
    check(varve_close(session), "close", "");
}

/* ---- arrays ---- */

#define ROWS 256
#define COLUMNS 512

static double plate[ROWS][COLUMNS]; /* from -1.25 to 3.5 */
static double rounded[100][100];
static float holes[1000];                            /* from 0 to 999, and one NaN */
static float waves[2][64];                           /* 64 complex numbers; parts from -2 to 1 */
static uint16_t halves[] = {0x3c00, 0xc000, 0x7bff}; /* 1, -2, 65504 */
static uint16_t brains[] = {0x3f80, 0xc000, 0x4040}; /* 1, -2, 3 */
static unsigned char counts[3][5][7];                /* from 1 to 105 */
static unsigned char marks[] = {7, 3, 9, 4};         /* shares a block with counts */
static int64_t ground[32768];                        /* zeros */
static uint64_t big[] = {1, 9007199254740993u, 0};   /* 2^53 + 1 */
static int32_t step = 400;

static void fill_arrays(void) {
    for (int y = 0; y < ROWS; y++)
        for (int x = 0; x < COLUMNS; x++)
            plate[y][x] = (x * 37 + y * 11) % 1000 * 0.003;
    plate[3][5] = -1.25;
    plate[ROWS - 1][7] = 3.5;
    for (int i = 0; i < 1000; i++)
        holes[i] = i == 17 ? NAN : (float)i;
    for (int i = 0; i < 128; i++)
        (&waves[0][0])[i] = i == 100 ? -2 : i % 2 ? 1 : 0.5f;
    for (size_t i = 0; i < sizeof counts; i++)
        (&counts[0][0][0])[i] = (unsigned char)(i + 1);
    for (int i = 0; i < 10000; i++)
        (&rounded[0][0])[i] = i / 3.0;
}

#define ARRAY(NAME, TYPE, DIMS, ...)                                                                                   \
    {                                                                                                                  \
#NAME, &NAME, sizeof NAME, {                                                                                   \
            .size = sizeof(struct varve_array), .type = TYPE, .dims = DIMS, .dim = { __VA_ARGS__ }                     \
        }                                                                                                              \
    }
static struct {
    const char *name;
    void *data;
    size_t size;
    struct varve_array array;
} arrays[] = {
    ARRAY(plate, VARVE_F64, 2, {ROWS, ROWS, 1024}, {COLUMNS, 0, 0}),
    ARRAY(rounded, VARVE_F64, 2, {100, 0, 0}, {100, 0, 0}),
    ARRAY(holes, VARVE_F32, 1, {1000, 0, 0}),
    ARRAY(waves, VARVE_C64, 1, {64, 0, 0}),
    ARRAY(halves, VARVE_F16, 1, {3, 0, 0}),
    ARRAY(brains, VARVE_BF16, 1, {3, 0, 0}),
    ARRAY(counts, VARVE_U8, 3, {3, 0, 0}, {5, 0, 0}, {7, 0, 0}),
    ARRAY(marks, VARVE_U8, 1, {4, 0, 0}),
    ARRAY(ground, VARVE_I64, 1, {32768, 0, 0}),
    ARRAY(big, VARVE_U64, 1, {3, 0, 0}),
    ARRAY(step, VARVE_I32, 1, {1, 0, 0}),
    {"empty",
     ground,
     0,
     {.size = sizeof(struct varve_array), .type = VARVE_F32, .dims = 2, .dim = {{0, 0, 0}, {4, 0, 0}}}},
};

static void save_arrays(struct varve_session *session, const char *folder, int64_t version) {
    save(session, version);
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        write_file(folder, version, arrays[i].name, arrays[i].data, arrays[i].size);
    write_file(folder, version, "steps", steps, sizeof steps);
}

/* In version 2 the greatest value of the plate is gone, but not all of the block that held it. */
static void make_arrays(const char *store, const char *folder) {
    struct varve_session *session = open_session(store, "field");

    fill_arrays();
    fill(steps, sizeof steps, 2);
    arrays[1].array.lossy = "zfp";
    arrays[1].array.bound = 1e-6;
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        check(varve_protect_array(session, arrays[i].name, arrays[i].data, &arrays[i].array), arrays[i].name,
              varve_session_error(session)->text);
    }
    protect(session, "steps", steps, sizeof steps);
    save_arrays(session, folder, 1);
    plate[ROWS - 1][7] = 1;
    step++;
    save_arrays(session, folder, 2);
    check(varve_close(session), "close", "");
}

int main(int argc, char **argv) {
    if (argc == 4 && !strcmp(argv[1], "--hold")) {
        hold(argv[2], argv[3]);
    } else if (argc == 4 && !strcmp(argv[1], "--again")) {
        again(argv[2], argv[3]);
    } else if (argc == 4 && !strcmp(argv[1], "--arrays")) {
        make_arrays(argv[2], argv[3]);
    } else if (argc == 3 && !strcmp(argv[1], "--marked")) {
        make_marked(argv[2]);
    } else if (argc == 3) {
        make_heat(argv[1], argv[2]);
        make_wave(argv[1]);
    } else {
        fprintf(stderr, "usage: make-store STORE FOLDER | --hold STORE NAME | --again STORE NAME | --marked STORE |"
                        " --arrays STORE FOLDER\n");
        return 2;
    }
    return 0;
}
