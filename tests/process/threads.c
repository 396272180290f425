/* threads FILE: four threads that each count in memory of their own and check it; the first, whose memory is its stack,
 * writes the count. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define WORDS 200000u
#define THREADS 4u

static FILE *file;
static uint64_t *words[THREADS];

/* Into the same file, of the same size: at every moment it is as criu wants to find it. */
static void tell(uint64_t count, const char *text) {
    if (fseek(file, 0, SEEK_SET) < 0 || fprintf(file, "%12llu %-5s\n", (unsigned long long)count, text) < 0 ||
        fflush(file) != 0)
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
    if (argc != 2 || !(file = fopen(argv[1], "w")))
        return 1;
    tell(0, "well");
    uint64_t own[WORDS] = {0}; /* criu sends stacks last */
    words[0] = own;
    for (size_t i = 1; i < THREADS; i++) {
        words[i] = calloc(WORDS, sizeof **words);
        if (!words[i] || pthread_create(&thread, NULL, count, (void *)i))
            return 1;
    }
    count((void *)0);
}
