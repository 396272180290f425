/* Replays a corpus without libFuzzer: every argument is a file, or a folder of files, given to the target once. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int count;

static int replay_file(const char *path, size_t size) {
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(size ? size : 1);
    int rc = -1;
    if (file && data && fread(data, 1, size, file) == size) {
        LLVMFuzzerTestOneInput(data, size);
        count++;
        rc = 0;
    } else {
        perror(path);
    }
    if (file)
        fclose(file);
    free(data);
    return rc;
}

static int replay(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0) {
        perror(path);
        return -1;
    }
    if (!S_ISDIR(info.st_mode))
        return replay_file(path, (size_t)info.st_size);
    DIR *folder = opendir(path);
    struct dirent *entry;
    int rc = folder ? 0 : -1;
    while (folder && (entry = readdir(folder)) != NULL) {
        char below[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(below, sizeof below, "%s/%s", path, entry->d_name);
        if (stat(below, &info) != 0 || !S_ISREG(info.st_mode) || replay_file(below, (size_t)info.st_size) < 0)
            rc = -1;
    }
    if (folder)
        closedir(folder);
    return rc;
}

int main(int argc, char **argv) {
    int failed = 0;
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    for (int i = 1; i < argc; i++)
        if (replay(argv[i]) < 0)
            failed = 1;
    printf("%d inputs\n", count);
    return failed || count == 0;
}
