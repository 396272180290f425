/* A library whose handlers of fork allocate and free large blocks and small ones. It is there before the program's
 * other libraries, so they run while those of libvarve_preload do, and its thread that forks has what these have taken.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE 300000u

static char *volatile kept[2];

static void change(void) {
    free(kept[0]);
    kept[0] = malloc(SIZE);
    kept[1] = realloc(kept[1], kept[1] ? 100 : SIZE);
    if (!kept[0] || !kept[1])
        _exit(9);
    memset(kept[0], 1, SIZE);
    free(kept[1]);
    kept[1] = NULL;
}

static void __attribute__((constructor)) begin(void) {
    change();
    pthread_atfork(change, change, change);
}
