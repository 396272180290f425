/* make-golden FOLDER            write the golden files
 * make-golden --list FOLDER     print what the golden files there hold: the text of expected.txt */
#include "golden.h"

#include <string.h>

struct target {
    const char *folder;
    int failed;
};

static void write_file(void *arg, const char *name, const uint8_t *data, size_t size) {
    struct target *target = arg;
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", target->folder, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size)
        target->failed = 1;
    if (file && fclose(file) != 0)
        target->failed = 1;
    if (target->failed)
        perror(path);
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "--list") == 0)
        return golden_list(stdout, argv[2]) < 0;
    if (argc != 2) {
        fprintf(stderr, "usage: make-golden [--list] FOLDER\n");
        return 2;
    }
    struct target target = {argv[1], 0};
    golden_make(write_file, &target);
    return target.failed;
}
