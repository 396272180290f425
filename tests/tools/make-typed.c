/* make-typed STORE [FIRST]: the store in tests/format/typed-store, which every later program must be able to read, or
 * the versions from FIRST on that are added to it. Versions 1 to 6 hold two arrays, whose values read_golden.py knows
 * too, each version in other codings; from version 7 on there are two arrays of vectors instead, and in version 11 two
 * of weights. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve.h>

#define ROWS 24
#define ROW 40
#define COUNT 3000
#define VECTORS 700
#define WEIGHTS 5001 /* an odd number */

static double field[ROWS][ROW], places[VECTORS][3];
static float lossy[COUNT], moves[VECTORS][3], weights[WEIGHTS];
static uint16_t narrow[WEIGHTS]; /* the same as bfloat16, cut off */

static void fill(int version) {
    for (int i = 0; i < ROWS * ROW; i++)
        field[i / ROW][i % ROW] = version + (i / ROW) * (i / ROW) * 0.5 + (i % ROW) * 0.125;
    for (int i = 0; i < COUNT; i++) /* 0.125 more than what is stored */
        lossy[i] = (float)(i % 500 * (i % 500) / 200 + version) + 0.125F;
    for (int i = 0; i < VECTORS * 3; i++) {
        places[i / 3][i % 3] = version + (i % 3) * 1000 - (i / 3) * 0.25;
        moves[i / 3][i % 3] = (float)(version - i % 3 * 50 + i / 3 % 7 * 0.5);
    }
}

/* Signs and mantissas of all sorts, few exponents. */
static void fill_weights(void) {
    for (int i = 0; i < WEIGHTS; i++) {
        uint32_t n = (uint32_t)i * 2654435761U, bits = (n & 0x807fffff) | (118 + (n >> 20) % 4) << 23;
        memcpy(&weights[i], &bits, sizeof bits);
        narrow[i] = (uint16_t)(bits >> 16);
    }
}

static int protect_weights(struct varve_session *session) {
    struct varve_array list = {.size = sizeof list, .type = VARVE_F32, .dims = 1, .dim = {{WEIGHTS, 0, 0}}};
    fill_weights();
    int rc = varve_protect_array(session, "weights", weights, &list);
    list.type = VARVE_BF16;
    return rc ? rc : varve_protect_array(session, "narrow", narrow, &list);
}

static int protect(struct varve_session *session, int version) {
    struct varve_array grid = {.size = sizeof grid, .type = VARVE_F64, .dims = 2, .dim = {{ROWS, 0, 0}, {ROW, 0, 0}}};
    struct varve_array list = {
        .size = sizeof list, .type = VARVE_F32, .dims = 1, .dim = {{COUNT, 0, 0}}, .lossy = "zfp", .bound = 0.25};
    struct varve_array vectors = {
        .size = sizeof vectors, .type = VARVE_F64, .dims = 2, .dim = {{VECTORS, 0, 0}, {3, 0, 0}}};
    int rc;
    if (version == 11)
        return protect_weights(session);
    if (version < 7) {
        rc = varve_protect_array(session, "field", field, &grid);
        return rc ? rc : varve_protect_array(session, "lossy", lossy, &list);
    }
    rc = varve_protect_array(session, "places", places, &vectors);
    vectors.type = VARVE_F32;
    return rc ? rc : varve_protect_array(session, "moves", moves, &vectors);
}

int main(int argc, char **argv) {
    static const char *const codecs[] = {"delta-zstd", "bitshuffle-lz4", "xor-zstd", "lz4-zstd",       "fpzip",
                                         "zfp",        "delta-zstd",     "xor-zstd", "bitshuffle-lz4", "shuffle-zstd",
                                         "rotate-zstd"};
    if (argc < 2 || argc > 3)
        return 2;
    int first = argc == 3 ? atoi(argv[2]) : 1;
    for (int version = first > 0 ? first : 1; version <= (int)(sizeof codecs / sizeof codecs[0]); version++) {
        struct varve_options options = VARVE_OPTIONS_INIT;
        struct varve_session *session;
        struct varve_error error;
        char settings[100];
        fill(version);
        snprintf(settings, sizeof settings, "keep=all,codec=%s", codecs[version - 1]);
        options.settings = settings;
        if (varve_open(argv[1], "typed", &options, &session, &error) != 0) {
            fprintf(stderr, "%s\n", error.text);
            return 1;
        }
        int rc = protect(session, version);
        rc = rc ? rc : varve_checkpoint(session, version);
        rc = varve_close(session) || rc;
        if (rc)
            return 1;
    }
    return 0;
}
