/* threads FILE: four threads that each count in memory of their own and check it; the first writes the count. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define WORDS 200000u
#define THREADS 4u

static const char *path;
static uint64_t *words[THREADS];

static void tell(uint64_t count, const char *text) {
    char partial[512];
    snprintf(partial, sizeof partial, "%s.new", path);
    FILE *file = fopen(partial, "w");
    if (!file || fprintf(file, "%llu %s\n", (unsigned long long)count, text) < 0 || fclose(file) != 0 ||
        rename(partial, path) < 0)
        exit(1);
}

/* Each word is the number of the round and its own: a round that was cut in two is seen in the next one. */
static void *count(void *arg) {
    size_t number = (size_t)arg;
    for (uint64_t round = 1;; round++) {
        for (uint64_t i = 0; i < WORDS; i++) {
            if (words[number][i] != (round - 1) * 31 + (round > 1 ? i : 0)) {
                tell(round, "WRONG");
                exit(1);
            }
            words[number][i] = round * 31 + i;
        }
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        if (number == 0)
            tell(round, "well");
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t thread;
    if (argc != 2)
        return 1;
    path = argv[1];
    for (size_t i = 0; i < THREADS; i++)
        words[i] = calloc(WORDS, sizeof **words);
    for (size_t i = 1; i < THREADS; i++)
        if (!words[i] || pthread_create(&thread, NULL, count, (void *)i))
            return 1;
    count((void *)0);
}
