/* One odd thing at a time, in a program that names nothing.
 *
 *     preload-odd KIND STORE [WORD [LIBRARY]]
 *
 * Exit code: 0 as it should be; 4 a restart was refused, 5 a checkpoint; their texts are on stderr. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <varve/varve.h>

#define SIZE 200000u
#define MUCH ((size_t)(1 << 20) + 8)

static unsigned char *plain; /* 1, 2, 3 ... at version 1 */
static void *more[4];
static pthread_barrier_t both;

static int fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    return 1;
}

static void fill(unsigned char *bytes, unsigned from) {
    for (unsigned i = 0; i < SIZE; i++)
        bytes[i] = (unsigned char)(from + i);
}

static int is_filled(const unsigned char *bytes, unsigned from) {
    for (unsigned i = 0; i < SIZE; i++)
        if (bytes[i] != (unsigned char)(from + i))
            return 0;
    return 1;
}

static __attribute__((noinline)) void *keep_in_thread(void *arg) {
    pthread_barrier_wait(&both);
    *(void **)arg = calloc(1, SIZE);
    return NULL;
}

/* ---- what is done before the session's calls ---- */

/* Two tasks, for the first thread and another one. */
static int tasks(void) {
    pthread_t thread;
    pthread_barrier_init(&both, NULL, 2);
    pthread_create(&thread, NULL, keep_in_thread, &more[1]);
    keep_in_thread(&more[0]);
    pthread_join(thread, NULL);
    return 0;
}

static int threads(void) {
    pthread_t list[2];
    pthread_barrier_init(&both, NULL, 2);
    for (int i = 0; i < 2; i++)
        pthread_create(&list[i], NULL, keep_in_thread, &more[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(list[i], NULL);
    return 0;
}

/* A table of addresses, as a matrix of rows has one. */
static int addresses(void) {
    void **table = calloc(SIZE, 1);
    table[SIZE / 16] = plain;
    more[0] = table;
    return 0;
}

/* A block that gets its first address after it was stored. */
static int add_address(struct varve_session *session) {
    ((void **)more[0])[SIZE / 16] = plain;
    return varve_checkpoint(session, 2);
}

/* A library that is opened later, and allocates. */
static int library(const char *path) {
    void *handle = dlopen(path, RTLD_NOW);
    void *(*make)(size_t) = NULL;
    if (handle)
        *(void **)&make = dlsym(handle, "odd_make");
    if (!make)
        return fail(dlerror());
    more[0] = make(SIZE);
    memset(more[0], 7, SIZE);
    return 0;
}

/* The child goes on with what it has, and what it starts has nothing of ours, but the other library. */
static int child(const char *other) {
    char grep[256];
    fill(plain, 9);
    pid_t pid = fork();
    if (pid == 0) {
        unsigned char *own = malloc(SIZE);
        if (!own || !is_filled(plain, 9))
            _exit(1);
        fill(own, 3);
        own = realloc(own, 3 * SIZE);
        _exit(own && is_filled(own, 3) ? 0 : 1);
    }
    int status = -1;
    if (waitpid(pid, &status, 0) != pid || status != 0)
        return fail("the child could not allocate");
    if (system("! grep -q libvarve_preload /proc/self/maps") != 0)
        return fail("a program that it started has the library");
    snprintf(grep, sizeof grep, "grep -q '%s' /proc/self/maps", other);
    if (system(grep) != 0)
        return fail("a program that it started lacks the other library");
    return system("case ${LD_PRELOAD-unset} in *libvarve*) exit 1;; esac") == 0 ? 0 : fail("LD_PRELOAD names it");
}

/* The allocator keeps the promises of the C library. */
static int promises(void) {
    void *ptr = NULL;
    volatile size_t huge = SIZE_MAX / 2; /* the compiler would warn */
    for (size_t align = 8; align <= 1u << 22; align *= 2) {
        if (posix_memalign(&ptr, align, SIZE) != 0 || (uintptr_t)ptr % align)
            return fail("posix_memalign");
        free(ptr);
    }
    if (posix_memalign(&ptr, 24, SIZE) != EINVAL)
        return fail("an alignment that is none");
    errno = 0;
    if (malloc(huge) || errno != ENOMEM || calloc(huge, 3) || reallocarray(NULL, huge, 3))
        return fail("too much memory");
    unsigned char *a = NULL;
    for (int round = 0; round < 3; round++) { /* the same pages each time */
        unsigned char *volatile again = calloc(SIZE, 1);
        a = again;
        for (unsigned i = 0; i < SIZE; i++)
            if (a[i])
                return fail("calloc");
        memset(a, 255, SIZE);
        if (round < 2)
            free(a);
    }
    unsigned char *volatile fresh = malloc(SIZE); /* not the pages of another place */
    for (unsigned i = 0; i < SIZE; i++)
        if (fresh[i])
            return fail("malloc has what another place left");
    free(fresh);
    fill(a, 1);
    a = realloc(a, 10 * SIZE);
    if (!a || !is_filled(a, 1) || malloc_usable_size(a) < 10 * SIZE)
        return fail("growing");
    a = realloc(a, 100);
    if (!a || a[99] != 100)
        return fail("shrinking to something small");
    a = realloc(a, SIZE);
    if (!a || a[99] != 100)
        return fail("growing from something small");
    errno = 42;
    free(a);
    return errno == 42 ? 0 : fail("free changes errno");
}

/* In the first run there is no memory for one more at the same place. */
static int scarce(const char *word) {
    volatile size_t sizes[] = {(size_t)1 << 47, SIZE};
    for (volatile int i = strcmp(word, "first") == 0 ? 0 : 1; i < 2; i++) /* the compiler makes no two places of it */
        more[0] = malloc(sizes[i]);
    return more[0] ? 0 : fail("no memory");
}

/* More blocks than a process may have mappings, if each was one; every other is freed, then the others. */
static int free_many(void) {
    enum { COUNT = 150000, BYTES = 65536 };
    char **blocks = malloc(COUNT * sizeof *blocks);
    long all = -1;
    for (int i = 0; i < COUNT; i++)
        blocks[i] = malloc(BYTES);
    for (int first = 0; first < 2; first++)
        for (int i = first; i < COUNT; i += 2)
            free(blocks[i]);
    free(blocks);
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld", &all) != 1)
        return fail("no /proc/self/statm");
    fclose(file);
    return all * 4096 < 256L << 20 ? 0 : fail("what was freed is still mapped");
}

/* What does not come back: texts that the C library allocates, a small block, variables, and a map. */
static char variable[8];
static char *on_main; /* on its stack */
static char *left[6];

static int leave_out(void) {
    char *large = calloc(1, SIZE);
    size_t size = 0;
    memset(large, 'a', SIZE - 1);
    FILE *file = fmemopen(large, SIZE - 1, "r");
    left[0] = strdup(large);
    if (!file || getline(&left[1], &size, file) != SIZE - 1)
        return fail("no text");
    fclose(file);
    free(large);
    left[2] = malloc(100);
    left[3] = variable;
    left[4] = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    left[5] = on_main;
    for (int i = 0; i < 6; i++)
        left[i][5] = 'a';
    return 0;
}

/* Each is as this run made it. */
static int is_left_out(void) {
    int is_right = 1;
    for (int i = 0; i < 6 && left[i]; i++) {
        is_right &= left[i][5] == 'a';
        left[i][5] = 'b'; /* for the checkpoint */
    }
    return is_right;
}

/* Numbers that stand for things of this process: known to be those of the process that stored them. */
static struct numbers {
    int null;         /* an open descriptor, of a file that is empty */
    pid_t process;    /* this one */
    pthread_key_t of; /* whose value is that file's name */
} * numbers;

static int take_numbers(const char *word) {
    pthread_key_t before;
    numbers = calloc(1, SIZE);
    if (strcmp(word, "other") == 0 && (open("/dev/zero", O_RDONLY) < 0 || pthread_key_create(&before, NULL) != 0))
        return fail("another way is not there");
    numbers->null = open("/dev/null", O_RDONLY);
    numbers->process = getpid();
    return numbers->null >= 0 && pthread_key_create(&numbers->of, NULL) == 0 &&
                   pthread_setspecific(numbers->of, "/dev/null") == 0
               ? 0
               : fail("no numbers");
}

static int are_numbers_right(void) {
    char byte;
    int is_file = read(numbers->null, &byte, 1) == 0, is_process = numbers->process == getpid();
    int is_key = pthread_getspecific(numbers->of) != NULL;
    fprintf(stderr, "file %d, process %d, key %d\n", is_file, is_process, is_key);
    return is_file && is_process && is_key;
}

static int prepare(const char *kind, const char *word) {
    plain = malloc(SIZE);
    fill(plain, 0);
    return strstr(kind, "threads")                                      ? threads()
           : strcmp(kind, "tasks") == 0                                 ? tasks()
           : strcmp(kind, "addresses") == 0                             ? addresses()
           : strcmp(kind, "addresses-later") == 0                       ? (more[0] = calloc(1, SIZE), 0)
           : strcmp(kind, "library") == 0                               ? library(word)
           : strcmp(kind, "elsewhere") == 0                             ? (more[1] = plain + 8, 0)
           : strcmp(kind, "given") == 0                                 ? (more[0] = calloc(1, SIZE), 0)
           : strcmp(kind, "swapped") == 0                               ? (more[0] = calloc(1, SIZE), 0)
           : strcmp(kind, "resized") == 0 || strcmp(kind, "freed") == 0 ? (more[0] = calloc(1, SIZE), 0)
           : strcmp(kind, "named-since") == 0                           ? (more[0] = calloc(1, SIZE), 0)
           : strcmp(kind, "grown") == 0                                 ? (more[0] = calloc(1, MUCH), 0)
           : strcmp(kind, "child") == 0                                 ? child(word)
           : strcmp(kind, "promises") == 0                              ? promises()
           : strcmp(kind, "scarce") == 0                                ? scarce(word)
           : strcmp(kind, "many") == 0                                  ? free_many()
           : strcmp(kind, "left") == 0                                  ? leave_out()
           : strcmp(kind, "numbers") == 0                               ? take_numbers(word)
                                                                        : 0;
}

static int named;

/* ---- what has a name, and lies in a block ---- */

/* Two fields that change places in each step. Nobody sees where these point. */
struct fields {
    unsigned char *now, *before;
};
static struct fields *fields;
static struct fields inside; /* not to the begin of a block, as with ghost cells and some arrays of C++ */
static __thread struct fields of_thread;

static int tell_now(void *arg, struct varve_memory *out) {
    out->ptr = ((struct fields *)arg)->now;
    out->bytes = SIZE;
    return 0;
}

/* In step i the new field is filled from i on. */
static void step_fields(unsigned steps) {
    for (unsigned i = 1; i <= steps; i++) {
        unsigned char *other = fields->now;
        fields->now = fields->before;
        fields->before = other;
        fill(fields->now, i);
    }
}

static void make_fields(struct fields *place) {
    size_t ghosts = place == &inside ? 64 : 0;
    fields = place;
    fields->now = (unsigned char *)calloc(1, SIZE + ghosts) + ghosts;
    fields->before = (unsigned char *)calloc(1, SIZE + ghosts) + ghosts;
    fill(fields->now, 0);
}

static int make_fields_of(const char *kind, const char *library, struct fields *on_stack) {
    void *handle = library ? dlopen(library, RTLD_NOW) : NULL,
         *of_library = handle ? dlsym(handle, "odd_fields") : NULL;
    struct fields *place = strcmp(kind, "fields-stack") == 0     ? on_stack
                           : strcmp(kind, "fields-inside") == 0  ? &inside
                           : strcmp(kind, "fields-thread") == 0  ? &of_thread
                           : strcmp(kind, "fields-library") == 0 ? of_library
                                                                 : malloc(sizeof *place);
    if (!place)
        return fail("no place for the fields");
    make_fields(place);
    return 0;
}

static int name_fields(struct varve_session *session, const char *kind) {
    if (strcmp(kind, "moving") == 0)
        return varve_protect_moving(session, "now", tell_now, fields);
    if (strcmp(kind, "halves") == 0)
        return varve_protect(session, "low", plain, SIZE / 2) ||
               varve_protect(session, "high", plain + SIZE / 2, SIZE / 2);
    if (strcmp(kind, "named-threads") == 0)
        return varve_protect(session, "first", more[0], SIZE) || varve_protect(session, "second", more[1], SIZE);
    return strcmp(kind, "half") == 0 ? varve_protect(session, "low", plain, SIZE / 2) : 0;
}

/* What has no name is no memory for something else. */
static void *give_block(void *arg, const struct varve_region_info *region) {
    (void)region;
    return arg;
}

static void take_back(void *arg, const char *name, void *ptr) {
    (void)arg, (void)name, (void)ptr;
}

/* All of it, or of KIND chosen only what has a name, and this block. */
static int restart(struct varve_session *session, const char *kind, const char *block, int64_t *version) {
    const char *const names[] = {"named", block};
    if (strcmp(kind, "begun") == 0) {
        int begun = varve_restart_begin(session, VARVE_LATEST, version);
        fprintf(stderr, "begin: %s\n", varve_session_error(session)->text);
        if (begun != -ENOTSUP)
            exit(fail("it was not refused"));
    }
    if (strcmp(kind, "given") == 0) {
        struct varve_allocator give = {.size = sizeof give, .alloc = give_block, .release = take_back};
        return varve_restart_alloc(session, VARVE_LATEST, &give, more[0], version);
    }
    if (strcmp(kind, "chosen") != 0)
        return varve_restart(session, VARVE_LATEST, version);
    named = 5;
    int rc = varve_protect(session, names[0], &named, sizeof named);
    rc = rc ? rc : varve_restart_regions(session, VARVE_LATEST, names, block[0] ? 2 : 1, 0, version);
    if (rc == 0 && (named != 6 || !is_filled(plain, 0)))
        exit(fail("not what was chosen came back"));
    if (rc == 0)
        fill(plain, 1);
    named = 6;
    return rc;
}

/* It was watched, but for the page at its end. */
static int grow_after(struct varve_session *session, size_t size) {
    for (int round = 0; round < 3; round++) {
        unsigned char *grown = realloc(more[0], size += 1000008);
        if (!grown || grown[5] != 8 || grown[1000007] != 8)
            return fail("a block does not grow after a checkpoint");
        more[0] = grown;
        memset(grown, 8, size);
        if (varve_checkpoint(session, 2 + round) != 0)
            return fail("no checkpoint of a block that has grown");
    }
    return 0;
}

/* Once before varve_restart, and made, freed, resized or named after it. */
static void change_blocks(struct varve_session *session, const char *kind) {
    if (strcmp(kind, "later") == 0)
        more[0] = calloc(1, SIZE);
    if (strcmp(kind, "resized") == 0)
        more[0] = realloc(more[0], 2 * SIZE);
    if (strcmp(kind, "named-since") == 0)
        varve_protect(session, "since", more[0], SIZE);
    if (strcmp(kind, "freed") == 0) {
        free(more[0]);
        more[0] = NULL;
    }
}

/* Version 1 is made if there is none, and compared if there is one. */
int main(int argc, char **argv) {
    struct varve_session *session;
    struct varve_error error;
    struct fields here, *volatile on_stack = &here;
    char bytes[8], *volatile own = bytes;
    on_main = own;
    int64_t version = -1;
    if (argc < 3)
        return 2;
    unsigned steps = argc > 3 ? (unsigned)atoi(argv[3]) : 0; /* of fields */
    int rc = prepare(argv[1], argc > 3 ? argv[3] : "");
    if (rc == 0 && (strcmp(argv[1], "moving") == 0 || strncmp(argv[1], "fields-", 7) == 0))
        rc = make_fields_of(argv[1], argc > 4 ? argv[4] : NULL, on_stack);
    if (rc)
        return rc;
    if (varve_open(argv[2], "odd", NULL, &session, &error) != 0)
        return fprintf(stderr, "open: %s\n", error.text), 3;
    if (name_fields(session, argv[1]) != 0)
        return fprintf(stderr, "protect: %s\n", varve_session_error(session)->text), 3;
    rc = restart(session, argv[1], argc > 3 ? argv[3] : "", &version);
    if (rc != 0 && rc != VARVE_NO_CHECKPOINT)
        return fprintf(stderr, "restart: %s\n", varve_session_error(session)->text), 4;
    if (rc == 0 && (!is_filled(plain, 1) || (more[0] && ((unsigned char *)more[0])[5] != 8)))
        return fail("what came back is wrong");
    if (rc == 0 && fields && (!is_filled(fields->now, steps) || !is_filled(fields->before, steps - 1)))
        return fail("the fields that came back are wrong");
    if (rc == 0 && numbers && !are_numbers_right())
        return fail("numbers of another process came back");
    if (!is_left_out())
        return fail("what is no allocation of the program came back");
    if (rc == 0)
        return varve_close(session) == 0 ? 0 : 1;
    fill(plain, 1);
    change_blocks(session, argv[1]);
    if (strcmp(argv[1], "given") == 0)
        varve_protect(session, "given", &named, sizeof named);
    if (fields)
        step_fields(steps);
    if (strcmp(argv[1], "swapped") == 0) { /* as programs with two fields do in each step */
        void *other = plain;
        plain = more[0];
        more[0] = other;
    }
    if (strcmp(argv[1], "elsewhere") == 0)
        more[1] = plain;
    if (more[0] && strcmp(argv[1], "addresses") != 0)
        memset(more[0], 8, strcmp(argv[1], "grown") == 0 ? MUCH : SIZE);
    if (varve_checkpoint(session, 1) != 0)
        return fprintf(stderr, "checkpoint: %s\n", varve_session_error(session)->text), 5;
    if (strcmp(argv[1], "addresses-later") == 0 && add_address(session) != 0)
        return fail("the address was seen");
    if (strcmp(argv[1], "grown") == 0 && grow_after(session, MUCH) != 0)
        return 1;
    return varve_close(session) == 0 ? 0 : 1;
}
