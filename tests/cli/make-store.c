/* Make the small store that the tests of the `varve` command look at, and beside it the bytes each region must have.
 *
 *     make-store STORE FOLDER        heat: 100, 200, 300; wave: 1; FOLDER gets VERSION.REGION files of heat
 *     make-store --hold STORE NAME   open a session, save version 900, print "ready", hold on until stdin ends
 *     make-store --again STORE NAME  a second life of the job: restart, save version 300 once more */
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

    check(varve_open(store, name, NULL, &session, &error), "open", error.text);
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
    while (getchar() != EOF) {
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

int main(int argc, char **argv) {
    if (argc == 4 && !strcmp(argv[1], "--hold")) {
        hold(argv[2], argv[3]);
    } else if (argc == 4 && !strcmp(argv[1], "--again")) {
        again(argv[2], argv[3]);
    } else if (argc == 3) {
        make_heat(argv[1], argv[2]);
        make_wave(argv[1]);
    } else {
        fprintf(stderr, "usage: make-store STORE FOLDER | --hold STORE NAME | --again STORE NAME\n");
        return 2;
    }
    return 0;
}
