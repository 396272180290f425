#ifdef FIXED_OTHER
const char fixed_other[] = "another build of the same program";
#endif
/* What address-true mode refuses, and what it has to get right. Usage: fixed-odd KIND STORE [LIBRARY]
 * LIBRARY is opened before varve_restart by the kinds that begin with "opened", else later.
 * Runs to varve_restart, goes on by one step and makes a checkpoint; prints the step. 3: open, 4: restart, 5:
 * checkpoint is refused; 7: something came back wrong. */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>
#include <varve/varve.h>

#define BIG ((size_t)24 << 20)

extern int fixed_visits; /* of the library: a copy relocation puts it into the program */
int fixed_library(int value);

/* Outside of main, as the state of programs is. */
struct link {
    struct link *next;
    char *text;
    FILE *file;
};
struct link *chain;
struct varve_session *session; /* memory of Varve */
int64_t step = -1;
int total;
FILE *late;
int *on_stack;
void *loaded;
unsigned char *blocks[8];
char buffer[BUFSIZ];
jmp_buf jump;
char *texts[2]; /* of the C library, and of the kernel */
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

static void add_link(FILE *file) {
    char text[32];
    struct link *one = malloc(sizeof *one);
    snprintf(text, sizeof text, "step %d", (int)step);
    *one = (struct link){chain, strdup(text), file};
    chain = one;
}

/* Newest first, and as many as there were steps; then the one of before varve_restart. */
static int is_right(void) {
    char text[32];
    int at = (int)step;
    for (const struct link *one = chain; one; one = one->next, at--) {
        snprintf(text, sizeof text, "step %d", at);
        if (!one->text || strcmp(one->text, text) != 0)
            return 0;
    }
    return at == -2 && total == (int)step + 1;
}

static const struct link *first_link(void) {
    const struct link *one = chain;
    while (one->next)
        one = one->next;
    return one;
}

/* The heap gets larger in every step. */
static int grow(void) {
    unsigned char *block = calloc(1, BIG);
    for (size_t i = 0; block && i < BIG; i++)
        if (block[i] != 0)
            return 0;
    for (int i = 0; i < total - 1; i++)
        for (size_t j = 0; j < BIG; j += 4096)
            if (blocks[i] && blocks[i][j] != i + 1)
                return 0;
    if (!block || total > 8)
        return 0;
    memset(block, total, BIG);
    blocks[total - 1] = block;
    return 1;
}

static void *wait_for_main(void *arg) {
    pthread_mutex_lock(&held);
    pthread_mutex_unlock(&held);
    return arg;
}

/* ---- what stays as this run made it: 1 before the restart, and after it; 2 at the checkpoint ---- */

static void set_jump(jmp_buf own_out) {
    if (setjmp(jump) != 0)
        exit(2);
    memcpy(own_out, jump, sizeof jump);
}

static void make_texts(void) {
    texts[1] = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (asprintf(&texts[0], "%d", 1) != 1 || texts[1] == MAP_FAILED)
        exit(2);
    texts[1][0] = '1';
}

/* Have they stayed? In a jmp_buf that comes back, addresses are hidden with what another process had for that. own: the
 * one of this process, or NULL. */
static int have_stayed(volatile int *on_main, const void *own) {
    int is_right = *on_main == 1 && (!texts[0] || (texts[0][0] == '1' && texts[1][0] == '1'));
    if (own && step >= 0 && memcmp(own, jump, sizeof jump) == 0)
        is_right = 0;
    *on_main = 2;
    for (int i = 0; i < 2 && texts[i]; i++)
        texts[i][0] = '2';
    return is_right;
}

static int is_kind(char **argv, const char *kind) {
    return strcmp(argv[1], kind) == 0;
}

static int wait_for_main_c11(void *arg) {
    return wait_for_main(arg) != NULL;
}

/* Pages of the process in memory. */
static long count_pages(void) {
    long all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &all, &resident) != 2)
        exit(2);
    fclose(file);
    return resident;
}

/* Of a large block only one page was used: free must not fill the others. */
static void free_sparse(void) {
    volatile char *block = malloc((size_t)256 << 20);
    if (!block)
        exit(2);
    block[(size_t)100 << 20] = 1;
    free((void *)(uintptr_t)block);
    if (count_pages() > (64 << 20) / 4096) {
        fprintf(stderr, "%ld pages after free\n", count_pages());
        exit(7);
    }
    block = calloc(1, (size_t)256 << 20); /* the same */
    if (!block || block[(size_t)100 << 20])
        exit(7);
    free((void *)(uintptr_t)block);
}

/* A library that was opened before varve_restart, or is opened here. */
static void use_library(char **argv) {
    void *(*make)(size_t);
    int (*seen)(void);
    void *library = loaded ? loaded : dlopen(argv[3], RTLD_NOW);
    *(void **)&make = library ? dlsym(library, "odd_make") : NULL;
    *(void **)&seen = library ? dlsym(library, "odd_seen") : NULL;
    if (is_kind(argv, "opened-silent") && (!seen || seen() != 1)) {
        fprintf(stderr, "a variable of a library that nobody has named came back\n");
        exit(7);
    }
    if (is_kind(argv, "opened-threads") && (!seen || seen() != total)) {
        fprintf(stderr, "a variable of threads did not come back\n");
        exit(7);
    }
    if (is_kind(argv, "makes") && (!make || !make(100)))
        exit(2);
    if (is_kind(argv, "opened-closed"))
        dlclose(library);
}

static int number; /* the last one by chance */

/* The pointer to a file beside its path, which comes back. */
static struct {
    FILE *file;
    char path[16];
} opened;

static void open_on_the_way(void) {
    snprintf(opened.path, sizeof opened.path, "%s", getenv("OTHER_WAY") ? "/dev/zero" : "/dev/null");
    opened.file = fopen(opened.path, "r");
    if (!opened.file)
        exit(2);
}

/* As logs are: closed, and another one opened, which gets the same address. */
static void open_another(void) {
    fclose(opened.file);
    snprintf(opened.path, sizeof opened.path, "/dev/zero");
    opened.file = fopen(opened.path, "r");
    if (!opened.file)
        exit(2);
}

static int is_opened_right(void) {
    int is_empty = fgetc(opened.file) == EOF;
    return is_empty == (strcmp(opened.path, "/dev/null") == 0);
}

/* Numbers that stand for things of the process: a descriptor, and a key of threads. */
static struct {
    int null;
    pthread_key_t key;
} numbers;

static void take_numbers(void) {
    pthread_key_t before;
    if (getenv("OTHER_WAY") && (open("/dev/zero", O_RDONLY) < 0 || pthread_key_create(&before, NULL) != 0))
        exit(2);
    numbers.null = open("/dev/null", O_RDONLY);
    if (numbers.null < 0 || pthread_key_create(&numbers.key, NULL) != 0 ||
        pthread_setspecific(numbers.key, "/dev/null") != 0)
        exit(2);
}

static void check_numbers(void) {
    char byte;
    int is_file = read(numbers.null, &byte, 1) == 0, is_key = pthread_getspecific(numbers.key) != NULL;
    if (!is_file || !is_key) {
        fprintf(stderr, "file %d, key %d: numbers of another process came back\n", is_file, is_key);
        exit(7);
    }
}

/* The child goes on with the heap that it has. */
static void fork_once(void) {
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        unsigned char *block = calloc(1, BIG);
        _exit(block && is_right() ? 0 : 1);
    }
    if (waitpid(pid, &status, 0) != pid || status != 0)
        exit(6);
}

/* What a program may do between restart and checkpoint that does not come back. */
static void do_odd(char **argv) {
    static int local;
    volatile int here = 1;
    pthread_t thread;
    if (is_kind(argv, "file"))
        late = fopen("/dev/null", "r");
    if (is_kind(argv, "reopened"))
        late = fopen("/dev/zero", "r");
    if (is_kind(argv, "heap-file"))
        add_link(fopen("/dev/null", "r"));
    if (is_kind(argv, "closed")) { /* gone, and cleared */
        late = fopen("/dev/null", "r");
        fclose(late);
        late = NULL;
    }
    if (is_kind(argv, "freed")) { /* the block goes, and nothing of it stays */
        volatile struct link *one = malloc(sizeof *one);
        one->file = fopen("/dev/null", "r");
        fclose(one->file);
        free((void *)(uintptr_t)one);
    }
    if (is_kind(argv, "copied"))
        optind = 7;
    if (is_kind(argv, "stack"))
        on_stack = (int *)(uintptr_t)&here;
    if (is_kind(argv, "static"))
        on_stack = &local;
    if (is_kind(argv, "dlopen") && argv[3])
        loaded = dlopen(argv[3], RTLD_NOW); /* a handle is memory of the loader */
    if (is_kind(argv, "dlopen-only") && argv[3] && !dlopen(argv[3], RTLD_NOW))
        exit(2);
    if (is_kind(argv, "thread") || is_kind(argv, "joined")) {
        pthread_mutex_lock(&held);
        if (pthread_create(&thread, NULL, wait_for_main, NULL) != 0)
            exit(2);
    }
    if (is_kind(argv, "joined")) {
        pthread_mutex_unlock(&held);
        pthread_join(thread, NULL);
        memset(&held, 0, sizeof held);
    }
    if (is_kind(argv, "team")) {
        int threads = 0;
#pragma omp parallel num_threads(2) reduction(+ : threads)
        threads++;
        if (threads != 2)
            exit(8); /* there is no OpenMP */
    }
    if (is_kind(argv, "thread-c11")) {
        thrd_t other;
        pthread_mutex_lock(&held);
        if (thrd_create(&other, wait_for_main_c11, NULL) != thrd_success)
            exit(2);
    }
    if (is_kind(argv, "joined-c11")) {
        thrd_t other;
        if (thrd_create(&other, wait_for_main_c11, NULL) != thrd_success || thrd_join(other, NULL) != thrd_success)
            exit(2);
    }
    if (is_kind(argv, "buffer") || is_kind(argv, "buffer-static"))
        setvbuf(stdout, is_kind(argv, "buffer") ? malloc(BUFSIZ) : buffer, _IOFBF, BUFSIZ);
    if (is_kind(argv, "forks"))
        fork_once();
    if (is_kind(argv, "sparse"))
        free_sparse();
    if (is_kind(argv, "makes") || strncmp(argv[1], "opened-", 7) == 0)
        use_library(argv);
    if (is_kind(argv, "exec") && system("grep -q '^00000000' /proc/self/personality") != 0)
        exit(6); /* what is started must be placed as ever */
}

int main(int argc, char **argv) {
    struct varve_error error;
    volatile int on_main = 1;
    jmp_buf own;
    if (argc < 3)
        return 2;
    if (getenv("SHIFT") && !opendir("/")) /* what the C library allocates next is elsewhere */
        return 2;
    if (varve_open(argv[2], "odd", NULL, &session, &error) != 0)
        return fprintf(stderr, "open: %s\n", error.text), 3;
    if (is_kind(argv, "named"))
        varve_protect(session, "total", &total, sizeof total);
    if (is_kind(argv, "early-file") || is_kind(argv, "reopened"))
        late = fopen("/dev/null", "r");
    if (strncmp(argv[1], "opened", 6) == 0 && !(loaded = dlopen(argv[3], RTLD_NOW)))
        return 2;
    if (is_kind(argv, "way") || is_kind(argv, "rotated"))
        open_on_the_way();
    if (is_kind(argv, "numbers"))
        take_numbers();
    srand(1);
    if (is_kind(argv, "jump"))
        set_jump(own);
    if (is_kind(argv, "texts"))
        make_texts();
    if (getenv("MORE")) /* more than was stored: it goes, and leaves nothing behind */
        memset(malloc(BIG), 1, BIG);
    add_link(is_kind(argv, "early-file") ? late : NULL);
    int rc = varve_restart(session, VARVE_LATEST, &step);
    if (rc != 0 && rc != VARVE_NO_CHECKPOINT)
        return fprintf(stderr, "restart: %s\n", varve_session_error(session)->text), 4;
    if (optind != 1) /* of the C library, in the program's memory */
        return fprintf(stderr, "a variable of the C library came back\n"), 7;
    if (!is_right() || (is_kind(argv, "library") && fixed_visits != total))
        return fprintf(stderr, "wrong at step %d: %d visits, %d in all\n", (int)step, fixed_visits, total), 7;
    if (!have_stayed(&on_main, is_kind(argv, "jump") ? own : NULL))
        return fprintf(stderr, "what does not come back has come back\n"), 7;
    step++;
    if (!is_kind(argv, "heap-file"))
        add_link(NULL);
    total++;
    if (is_kind(argv, "library") && fixed_library(2) != 2 * total)
        return fprintf(stderr, "the library has other memory\n"), 7;
    if (is_kind(argv, "grow") && !grow())
        return fprintf(stderr, "large memory is wrong\n"), 7;
    if (is_kind(argv, "rotated") && step > 0 && !is_opened_right())
        return fprintf(stderr, "the path is %s, and the file is another\n", opened.path), 7;
    if (is_kind(argv, "rotated"))
        open_another();
    if (is_kind(argv, "numbers"))
        check_numbers();
    int next = rand();
    if (is_kind(argv, "random") && step > 0 && next == number)
        return fprintf(stderr, "random numbers begin again\n"), 7;
    number = next;
    do_odd(argv);
    if (is_kind(argv, "way") && !is_opened_right())
        return fprintf(stderr, "the path is %s, and the file is another\n", opened.path), 7;
    if (is_kind(argv, "early-file") && (fgetc(late) != EOF || first_link()->file != late))
        return fprintf(stderr, "the file is another\n"), 7;
    if (varve_checkpoint(session, step) != 0)
        return fprintf(stderr, "checkpoint: %s\n", varve_session_error(session)->text), 5;
    if (varve_close(session) != 0)
        return 6;
    printf("%d\n", (int)step);
    fflush(stdout);
    _exit(0); /* a thread may wait */
}
