/* make-typed STORE: the store in tests/format/typed-store, which every later program must be able to read. Versions 1 to
 * 6 hold two arrays, whose values read_golden.py knows too, each version in other codings. */
#include <stdio.h>
#include <varve/varve.h>

#define ROWS 24
#define ROW 40
#define COUNT 3000

static double field[ROWS][ROW];
static float lossy[COUNT];

int main(int argc, char **argv) {
    static const char *const codecs[] = {"delta-zstd", "bitshuffle-lz4", "xor-zstd", "lz4-zstd", "fpzip", "zfp"};
    if (argc != 2)
        return 2;
    for (int version = 1; version <= 6; version++) {
        struct varve_options options = VARVE_OPTIONS_INIT;
        struct varve_array grid = {sizeof grid, VARVE_F64, 2, {{ROWS, 0, 0}, {ROW, 0, 0}}, 0, NULL, 0};
        struct varve_array list = {sizeof list, VARVE_F32, 1, {{COUNT, 0, 0}}, 0, "zfp", 0.25};
        struct varve_session *session;
        struct varve_error error;
        char settings[100];
        for (int i = 0; i < ROWS * ROW; i++)
            field[i / ROW][i % ROW] = version + (i / ROW) * (i / ROW) * 0.5 + (i % ROW) * 0.125;
        for (int i = 0; i < COUNT; i++) /* 0.125 more than what is stored */
            lossy[i] = (float)(i % 500 * (i % 500) / 200 + version) + 0.125F;
        snprintf(settings, sizeof settings, "codec=%s", codecs[version - 1]);
        options.settings = settings;
        if (varve_open(argv[1], "typed", &options, &session, &error) != 0) {
            fprintf(stderr, "%s\n", error.text);
            return 1;
        }
        int rc = varve_protect_array(session, "field", field, &grid);
        rc = rc ? rc : varve_protect_array(session, "lossy", lossy, &list);
        rc = rc ? rc : varve_checkpoint(session, version);
        rc = varve_close(session) || rc;
        if (rc)
            return 1;
    }
    return 0;
}
