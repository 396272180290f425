/* write-store DIR: a store at DIR/store with many kinds of runs, layers, codecs and parts, and beside it in DIR/expect
 * what each region of each version holds, as VERSION.REGION. For the independent reader. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <varve/varve.h>

#define REGION (600 * 1024 + 123)

static uint8_t noise[REGION], smooth[REGION], sparse[REGION], small[777];

static void expect(const char *dir, int version, const char *region, const void *data, size_t size) {
    char path[4096];
    snprintf(path, sizeof path, "%s/expect/%d.%s", dir, version, region);
    FILE *file = fopen(path, "w");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0)
        exit(1);
}

static void change(int version) {
    for (int i = 0; i < 5; i++)
        noise[(size_t)rand() % REGION] ^= 0x40;
    memset(smooth + (size_t)version * 9000, version, 20000);       /* repeated chunks */
    memcpy(sparse + (size_t)version * 50000, noise + 8192, 12288); /* shifted duplicates */
    memset(noise + (size_t)version * 40960, 0, 8192);
    small[version]++;
}

int main(int argc, char **argv) {
    char store[4096], expected[4096];
    if (argc != 2)
        return 2;
    snprintf(store, sizeof store, "%s/store", argv[1]);
    snprintf(expected, sizeof expected, "%s/expect", argv[1]);
    mkdir(argv[1], 0700);
    mkdir(expected, 0700);
    srand(11);
    for (size_t i = 0; i < REGION; i++) {
        noise[i] = (uint8_t)rand();
        smooth[i] = (uint8_t)(i / 3000);
    }
    static const char *const settings[] = {"keep=all,codec=none,part_size=1M", "keep=all,codec=lz4,block_size=64K",
                                           "keep=all,codec=zstd"};
    for (int version = 0; version < 9; version++) {
        struct varve_options options = VARVE_OPTIONS_INIT;
        struct varve_session *session;
        struct varve_error error;
        options.settings = settings[version / 3];
        if (varve_open(store, "odd name/%\303\244", &options, &session, &error) != 0) {
            fprintf(stderr, "%s\n", error.text);
            return 1;
        }
        size_t length = REGION - (size_t)version * 1000; /* it shrinks, and grows again */
        if (version > 5)
            length = REGION;
        varve_protect(session, "noise", noise, REGION);
        varve_protect(session, "smooth", smooth, REGION);
        varve_protect(session, "sparse", sparse, REGION);
        varve_protect(session, "small", small, sizeof small);
        unsigned flags = VARVE_RESTART_RESIZE | VARVE_RESTART_MISSING;
        if (version > 0 && varve_restart_regions(session, VARVE_LATEST, NULL, 0, flags, NULL) != 0)
            return 1;
        change(version);
        varve_protect(session, "sparse", sparse, length);
        if (version == 4)
            varve_unprotect(session, "small");
        if (varve_checkpoint(session, version) != 0 || varve_close(session) != 0)
            return 1;
        expect(argv[1], version, "noise", noise, REGION);
        expect(argv[1], version, "smooth", smooth, REGION);
        expect(argv[1], version, "sparse", sparse, length);
        if (version != 4)
            expect(argv[1], version, "small", small, sizeof small);
    }
    return 0;
}
