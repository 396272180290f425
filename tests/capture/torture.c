/* Everything a program may do to its memory, in random order, with every tracker and way of capturing, and every byte
 * compared.
 *
 *   torture [--seconds N | --lives N] [--seed N] [--settings TEXT [--life N]]
 *
 * One life is a process with three regions. Between checkpoints pages are dropped, freed, collapsed, paged out, moved,
 * replaced, protected and written, by the program, its children and the kernel; in flight they are written. What each
 * checkpoint holds is compared with a copy made just before it, and at the end everything is restarted. A life that
 * fails tells how to repeat it. --lives: so many in each way, however long it takes. Pages given to MADV_FREE may also
 * be zeros. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <varve/varve_inspect.h>

#include "details.h"
#include "kit.h"
#include "uring.h"

#define REGIONS 3
#define CHECKPOINTS 8
#define HUGE_BYTES ((size_t)2 << 20)
#define ADVICE_FREE 8
#define ADVICE_HUGEPAGE 14
#define ADVICE_COLD 20
#define ADVICE_PAGEOUT 21
#define ADVICE_POPULATE_WRITE 23
#define ADVICE_COLLAPSE 25

struct way {
    const char *settings;
    unsigned flags;
    int has_devices; /* any region may be registered: nobody was asked to believe a tracker */
};
static const struct way ways[] = {
    {"", 0, 1},
    {"staging=512K", 0, 1},
    {"capture=sync", 0, 1},
    {"tracker=none", 0, 1},
    {"tracker=none,staging=512K,fine=64", 0, 1},
    {"tracker=scan", 0, 0},
    {"tracker=scan,staging=512K", 0, 0},
    {"tracker=scan,capture=sync,fine=128", 0, 0},
    {"tracker=softdirty", 0, 0},
    {"tracker=softdirty,staging=512K", 0, 0},
    {"tracker=softdirty,capture=sync,fine=128", 0, 0},
    {"capture=frozen,staging=512K,tracker=softdirty", 0, 0},
    {"tracker=trap-uffd", 0, 0},
    {"tracker=trap-uffd,staging=512K", 0, 0},
    {"capture=held,staging=512K", 0, 1},
    {"capture=frozen,staging=512K", 0, 1},
    {"capture=frozen,staging=512K,tracker=none,order=address", 0, 1},
    {"capture=trap,tracker=trap-uffd,staging=512K", 0, 0},
    {"capture=trap,staging=1M", 0, 1},
    {"tracker=trap-mprotect", VARVE_NO_KERNEL_WRITES, 0},
    {"capture=trap,tracker=trap-mprotect,staging=512K", VARVE_NO_KERNEL_WRITES, 0},
};
#define WAYS (sizeof ways / sizeof ways[0])

struct region {
    char name[8];
    uint8_t *map, *ptr; /* whole pages; what is protected */
    size_t map_size, size;
    unsigned flags;
    uint8_t *then;        /* as it was before the call */
    uint8_t *may_be_zero; /* per page of the map */
};

struct life {
    const struct way *way;
    struct dice dice;
    struct region regions[REGIONS];
    struct varve_session *session;
    char folder[128], store[160];
    struct uring uring;
    int has_uring, registered; /* the region, or -1 */
    int source;                /* a file of noise */
};

/* ---- what works on this machine ---- */

/* Actions that some machines do not have, and how often each worked: shared by all lives. */
enum action { RING, RING_FIXED, VM_WRITEV, FREED, COLLAPSED, PAGED_OUT, POPULATED, ACTIONS };
static const char *const action_names[ACTIONS] = {"io_uring",           "io_uring into registered memory",
                                                  "process_vm_writev",  "MADV_FREE",
                                                  "MADV_COLLAPSE",      "MADV_PAGEOUT",
                                                  "MADV_POPULATE_WRITE"};
static uint64_t *worked;

static void note(enum action action, int is_done) {
    worked[action] += is_done != 0;
}

static void print_worked(int is_any, const char *title) {
    int count = 0;
    for (int i = 0; i < ACTIONS; i++)
        if ((worked[i] > 0) == is_any) {
            printf("%s%s", count++ ? ", " : title, action_names[i]);
            if (is_any)
                printf(" %llu", (unsigned long long)worked[i]);
        }
    if (count)
        printf("\n");
}

/* MADV_PAGEOUT also succeeds where there is nowhere to page out to. */
static int is_swapped(const void *at) {
    uint64_t entry = 0;
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    off_t offset = (off_t)((uintptr_t)at / PAGE * sizeof entry);
    int is_read = fd >= 0 && pread(fd, &entry, sizeof entry, offset) == (ssize_t)sizeof entry;
    if (fd >= 0)
        close(fd);
    return is_read && (entry >> 62 & 1);
}

/* ---- pieces of a region ---- */

struct piece {
    struct region *region;
    size_t page, pages;
    uint8_t *at;
    size_t size;
};

static struct piece some_pages(struct life *life) {
    struct region *region = &life->regions[roll_below(&life->dice, REGIONS)];
    size_t all = region->map_size / PAGE, page = roll_below(&life->dice, all);
    size_t pages = 1 + roll_below(&life->dice, roll_below(&life->dice, 8) ? 4 : 300);
    pages = pages < all - page ? pages : all - page;
    return (struct piece){region, page, pages, region->map + page * PAGE, pages * PAGE};
}

static void is_written(const struct piece *piece, size_t from, size_t size) {
    if (size > 0)
        memset(piece->region->may_be_zero + piece->page + from / PAGE, 0, (from + size - 1) / PAGE - from / PAGE + 1);
}

/* ---- what may be done at any time ---- */

static void write_some(struct life *life, struct piece *piece) {
    for (size_t i = 0; i < piece->pages; i++)
        piece->at[i * PAGE + roll_below(&life->dice, PAGE)] = (uint8_t)roll(&life->dice);
    is_written(piece, 0, piece->size);
}

static void write_all(struct life *life, struct piece *piece) {
    if (roll_below(&life->dice, 4) == 0)
        memset(piece->at, roll_below(&life->dice, 2) ? 0 : 7, piece->size);
    else
        fill(piece->at, piece->size, roll(&life->dice));
    is_written(piece, 0, piece->size);
}

static void kernel_reads(struct life *life, struct piece *piece) {
    size_t from = roll_below(&life->dice, 3000), size = piece->size - from < 20000 ? piece->size - from : 20000;
    if (pread(life->source, piece->at + from, size, (off_t)roll_below(&life->dice, 4096)) != (ssize_t)size)
        fail("pread: %s", strerror(errno));
    is_written(piece, from, size);
}

static void ring_reads(struct life *life, struct piece *piece) {
    size_t size = piece->size < 20000 ? piece->size : 20000;
    int is_fixed = life->registered == (int)(piece->region - life->regions);
    if (!life->has_uring)
        return;
    if (uring_read(&life->uring, life->source, piece->at, size, roll_below(&life->dice, 4096), is_fixed ? 0 : -1) !=
        (ssize_t)size)
        fail("io_uring: %s", strerror(errno));
    note(is_fixed ? RING_FIXED : RING, 1);
    is_written(piece, 0, size);
}

static void child_writes(struct life *life, struct piece *piece) {
    uint8_t bytes[64];
    memset(bytes, (int)roll_below(&life->dice, 256), sizeof bytes);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        struct iovec from = {bytes, sizeof bytes}, to = {piece->at + 100, sizeof bytes};
        ssize_t got = process_vm_writev(parent, &from, 1, &to, 1, 0);
        piece->at[5] = 99; /* its own copy */
        _exit(got == (ssize_t)sizeof bytes ? 0 : errno == EPERM ? 77 : 1);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || (status != 0 && WEXITSTATUS(status) != 77))
        fail("process_vm_writev of a child: status %d", status);
    note(VM_WRITEV, status == 0);
    if (status == 0)
        is_written(piece, 100, sizeof bytes);
}

static int may_kernel_write(const struct life *life) {
    return !(life->way->flags & VARVE_NO_KERNEL_WRITES);
}

static void write_anyhow(struct life *life) {
    struct piece piece = some_pages(life);
    uint64_t which = roll_below(&life->dice, may_kernel_write(life) ? 5 : 2);
    void (*const hows[])(struct life *, struct piece *) = {write_some, write_all, kernel_reads, ring_reads,
                                                           child_writes};
    hows[which](life, &piece);
}

/* ---- what may be done while nothing is in flight ---- */

static void drop(struct life *life, struct piece *piece) {
    madvise(piece->at, piece->size, MADV_DONTNEED);
    memset(piece->region->may_be_zero + piece->page, 0, piece->pages);
    if (roll_below(&life->dice, 2))
        write_some(life, piece);
}

static void give_back(struct life *life, struct piece *piece) {
    (void)life;
    if (madvise(piece->at, piece->size, ADVICE_FREE) != 0)
        return;
    note(FREED, 1);
    memset(piece->region->may_be_zero + piece->page, 1, piece->pages);
}

static void collapse(struct life *life, struct piece *piece) {
    (void)life;
    uintptr_t at = (uintptr_t)piece->at & ~(uintptr_t)(HUGE_BYTES - 1);
    madvise(piece->region->map, piece->region->map_size, ADVICE_HUGEPAGE);
    if (at >= (uintptr_t)piece->region->map &&
        at + HUGE_BYTES <= (uintptr_t)piece->region->map + piece->region->map_size)
        note(COLLAPSED, madvise((void *)at, HUGE_BYTES, ADVICE_COLLAPSE) == 0);
}

static void page_out(struct life *life, struct piece *piece) {
    (void)life;
    madvise(piece->at, piece->size, ADVICE_COLD);
    madvise(piece->at, piece->size, ADVICE_PAGEOUT);
    note(PAGED_OUT, is_swapped(piece->at));
}

static void back(struct life *life, struct piece *piece) {
    int advice = roll_below(&life->dice, 2) ? ADVICE_POPULATE_WRITE : MADV_NOHUGEPAGE;
    int is_done = madvise(piece->at, piece->size, advice) == 0;
    note(POPULATED, is_done && advice == ADVICE_POPULATE_WRITE);
}

static void protect_briefly(struct life *life, struct piece *piece) {
    mprotect(piece->at, piece->size, roll_below(&life->dice, 2) ? PROT_READ : PROT_NONE);
    mprotect(piece->at, piece->size, PROT_READ | PROT_WRITE);
}

static int is_one_mapping(const void *at, size_t size) {
    FILE *file = fopen("/proc/self/maps", "re");
    unsigned long long from = 0, to = 0;
    int is_found = 0;
    while (file && !is_found && fscanf(file, "%llx-%llx%*[^\n]", &from, &to) == 2)
        is_found = (uintptr_t)at >= from && (uintptr_t)at + size <= to;
    if (file)
        fclose(file);
    return is_found;
}

/* Page by page where several mappings share it: in one call Linux before 6.17 refuses, and later ones may stop halfway
 * (at memory of a userfaultfd). */
static void move_pages(uint8_t *from, uint8_t *to, size_t size, int flags) {
    size_t step = is_one_mapping(from, size) ? size : PAGE;
    for (size_t at = 0; at < size; at += step)
        if (mremap(from + at, step, step, MREMAP_MAYMOVE | MREMAP_FIXED | flags, to + at) != to + at)
            fail("mremap: %s", strerror(errno));
}

static uint8_t *reserve_pages(size_t size) {
    void *there = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (there == MAP_FAILED)
        fail("mmap: %s", strerror(errno));
    return there;
}

/* The same pages, at the same place, by way of another. Registered ones stay. Their place must not become a hole: a
 * thread of the library could map memory there, and moving back would take it away. */
static void move_there_and_back(struct life *life, struct piece *piece) {
    int keep_place = may_kernel_write(life) ? MREMAP_DONTUNMAP : 0; /* else trapped, and nothing is mapped meanwhile */
    if (life->registered == (int)(piece->region - life->regions))
        return;
    piece->pages = piece->pages < 3 ? piece->pages : 3;
    piece->size = piece->pages * PAGE;
    uint8_t *there = reserve_pages(piece->size);
    move_pages(piece->at, there, piece->size, keep_place);
    if (roll_below(&life->dice, 2)) {
        there[roll_below(&life->dice, PAGE)]++;
        is_written(piece, 0, 1);
    }
    move_pages(there, piece->at, piece->size, 0);
}

static void replace(struct life *life, struct piece *piece) {
    if (life->registered == (int)(piece->region - life->regions))
        return;
    if (mmap(piece->at, piece->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
        piece->at)
        fail("mmap: %s", strerror(errno));
    memset(piece->region->may_be_zero + piece->page, 0, piece->pages);
    if (roll_below(&life->dice, 2))
        write_some(life, piece);
}

static void fork_briefly(struct life *life, struct piece *piece) {
    (void)life;
    pid_t pid = fork();
    if (pid == 0) {
        memset(piece->at, 0x5a, PAGE);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

/* The whole region elsewhere, as realloc does, and told. */
static void move_region(struct life *life, struct piece *piece) {
    struct region *region = piece->region;
    if (life->registered == (int)(region - life->regions))
        return;
    if (varve_unprotect(life->session, region->name) != 0)
        fail("unprotect");
    size_t skew = (size_t)(region->ptr - region->map);
    uint8_t *there = reserve_pages(region->map_size);
    move_pages(region->map, there, region->map_size, 0);
    region->map = there;
    region->ptr = region->map + skew;
    if (varve_protect_flags(life->session, region->name, region->ptr, region->size, region->flags) != 0)
        fail("protect: %s", varve_session_error(life->session)->text);
}

static void do_anything(struct life *life) {
    static void (*const whats[])(struct life *, struct piece *) = {
        drop, drop, give_back, collapse, page_out, back, protect_briefly, move_there_and_back, replace, fork_briefly};
    if (roll_below(&life->dice, 2)) {
        write_anyhow(life);
        return;
    }
    struct piece piece = some_pages(life);
    if (roll_below(&life->dice, 30) == 0)
        move_region(life, &piece);
    else
        whats[roll_below(&life->dice, sizeof whats / sizeof whats[0])](life, &piece);
}

/* ---- comparing ---- */

static struct vv_details last; /* of the checkpoint that is compared */

struct reading {
    const struct region *region;
    int64_t version;
};

/* How many bytes differ, and which is the first of them. */
static size_t count_other(const uint8_t *a, const uint8_t *b, size_t size, size_t *first_out) {
    size_t count = 0;
    *first_out = 0;
    for (size_t i = size; i-- > 0;)
        if (a[i] != b[i]) {
            *first_out = i;
            count++;
        }
    return count;
}

static void compare_page(const struct region *region, size_t offset, const uint8_t *data, size_t size,
                         int64_t version) {
    static const uint8_t zeros[4096];
    size_t skew = (size_t)(region->ptr - region->map);
    const uint8_t *then = region->then + skew + offset;
    if (memcmp(data, then, size) == 0)
        return;
    size_t page = (skew + offset) / PAGE;
    if (region->may_be_zero[page] && (memcmp(data, zeros, size) == 0 || memcmp(then, zeros, size) == 0))
        return;
    size_t at, count = count_other(data, then, size, &at);
    fail("version %lld, region %s, byte %zu (page %zu) and %zu more there: %02x is stored, it was %02x, now it is %02x;"
         " bytes staged %llu, held %llu, frozen %llu, drained %llu",
         (long long)version, region->name, offset + at, page, count - 1, data[at], then[at], region->ptr[offset + at],
         (unsigned long long)last.bytes_staged, (unsigned long long)last.bytes_held,
         (unsigned long long)last.bytes_frozen, (unsigned long long)last.bytes_drained);
}

/* In pieces that do not cross pages of the memory. */
static int compare(void *arg, uint64_t offset, const void *data, size_t size, uint64_t total) {
    const struct reading *reading = arg;
    const struct region *region = reading->region;
    size_t skew = (size_t)(region->ptr - region->map);
    if (total != region->size)
        fail("region %s has %llu bytes instead of %zu", region->name, (unsigned long long)total, region->size);
    for (size_t done = 0; done < size;) {
        size_t step = PAGE - (skew + offset + done) % PAGE;
        step = step < size - done ? step : size - done;
        compare_page(region, offset + done, (const uint8_t *)data + done, step, reading->version);
        done += step;
    }
    return 0;
}

static void check_stored(struct life *life, int64_t version) {
    struct varve_store *store = NULL;
    struct varve_error error = {0};
    if (varve_store_open(life->store, NULL, &store, &error) != 0)
        fail("%s", error.text);
    for (int i = 0; i < REGIONS; i++) {
        struct varve_which which = {.name = KIT_NAME, .version = version};
        struct reading reading = {&life->regions[i], version};
        if (varve_store_read(store, &which, 0, life->regions[i].name, 0, compare, &reading, &error) != 0)
            fail("version %lld cannot be read: %s", (long long)version, error.text);
    }
    varve_store_close(store);
}

static void check_restarted(struct life *life, int64_t version) {
    uint8_t *memory[REGIONS];
    struct varve_session *session = kit_open(life->store, "");
    int64_t got = -1;
    for (int i = 0; i < REGIONS; i++) {
        memory[i] = malloc(life->regions[i].size);
        varve_protect(session, life->regions[i].name, memory[i], life->regions[i].size);
    }
    if (varve_restart(session, VARVE_LATEST, &got) != 0 || got != version)
        fail("restart of version %lld: %s", (long long)version, varve_session_error(session)->text);
    for (int i = 0; i < REGIONS; i++) {
        struct reading reading = {&life->regions[i], version};
        compare(&reading, 0, memory[i], life->regions[i].size, life->regions[i].size);
        free(memory[i]);
    }
    varve_close(session);
}

/* ---- one life ---- */

static void make_region(struct life *life, int i) {
    static const size_t sizes[REGIONS] = {4 * HUGE_BYTES, (size_t)600 * 1024, (size_t)40 * 1024};
    struct region *region = &life->regions[i];
    size_t skew = roll_below(&life->dice, 2) ? 16 * roll_below(&life->dice, 200) : 0;
    snprintf(region->name, sizeof region->name, "r%d", i);
    region->map_size = sizes[i];
    region->map = mmap(NULL, sizes[i], PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    region->then = malloc(sizes[i]);
    region->may_be_zero = calloc(sizes[i] / PAGE, 1);
    if (region->map == MAP_FAILED || !region->then || !region->may_be_zero)
        fail("no memory");
    region->ptr = region->map + skew;
    region->size = sizes[i] - skew - roll_below(&life->dice, 5000);
    region->flags = life->way->flags;
    fill(region->map, sizes[i] / 2, roll(&life->dice)); /* the rest is untouched */
}

/* Where a tracker was asked for, it is the region's flag that says what devices do. */
static void register_one(struct life *life) {
    life->registered = -1;
    life->has_uring = may_kernel_write(life) && uring_open(&life->uring) == 0;
    if (!life->has_uring || roll_below(&life->dice, 2))
        return;
    int which = (int)roll_below(&life->dice, REGIONS);
    struct region *region = &life->regions[which];
    if (uring_register(&life->uring, region->map, region->map_size) != 0)
        return;
    life->registered = which;
    if (!life->way->has_devices)
        region->flags |= VARVE_DEVICE_WRITES;
}

static void begin_life(struct life *life, uint64_t seed) {
    life->dice.state = seed;
    prctl(PR_SET_PTRACER, -1L, 0, 0, 0);
    kit_folder(life->folder, sizeof life->folder, "torture");
    snprintf(life->store, sizeof life->store, "%s/store", life->folder);
    char noise[160];
    snprintf(noise, sizeof noise, "%s/noise", life->folder);
    life->source = open(noise, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    uint8_t bytes[32 * 1024];
    fill(bytes, sizeof bytes, roll(&life->dice));
    if (life->source < 0 || write(life->source, bytes, sizeof bytes) != (ssize_t)sizeof bytes)
        fail("no file %s", noise);
    for (int i = 0; i < REGIONS; i++)
        make_region(life, i);
    register_one(life);
}

/* Is the memory as it was before the call? Pages given to MADV_FREE may have become zeros. */
static void check_same(const struct region *region) {
    static const uint8_t zeros[PAGE];
    for (size_t page = 0; page < region->map_size / PAGE; page++) {
        const uint8_t *then = region->then + page * PAGE, *now = region->map + page * PAGE;
        if (memcmp(then, now, PAGE) == 0 || region->may_be_zero[page])
            continue;
        size_t at, count = count_other(then, now, PAGE, &at);
        fail(
            "region %s, page %zu, byte %zu and %zu more there: the call has changed memory of the program: it was %02x,"
            " now it is %02x%s",
            region->name, page, at, count - 1, then[at], now[at], memcmp(now, zeros, PAGE) == 0 ? ", all zeros" : "");
    }
}

static int checkpoint(struct life *life, int64_t version) {
    for (int i = 0; i < REGIONS; i++)
        memcpy(life->regions[i].then, life->regions[i].map, life->regions[i].map_size);
    int rc = varve_checkpoint(life->session, version);
    for (int i = 0; i < REGIONS; i++)
        check_same(&life->regions[i]);
    /* What is freed now may be zeros in the copy and not in the checkpoint, or the other way round: as it is noted
     * here. */
    uint8_t *noted[REGIONS];
    for (int i = 0; i < REGIONS; i++) {
        size_t pages = life->regions[i].map_size / PAGE;
        noted[i] = memcpy(malloc(pages), life->regions[i].may_be_zero, pages);
    }
    for (uint64_t n = roll_below(&life->dice, 30); n > 0 && rc == 0; n--)
        write_anyhow(life);
    rc = rc ? rc : varve_wait(life->session);
    for (int i = 0; i < REGIONS; i++) {
        uint8_t *now = life->regions[i].may_be_zero;
        life->regions[i].may_be_zero = noted[i];
        noted[i] = now;
    }
    if (rc != 0)
        fail("version %lld: %s", (long long)version, varve_session_error(life->session)->text);
    last = (struct vv_details){0};
    vv_details_get(life->session, &last);
    check_stored(life, version);
    for (int i = 0; i < REGIONS; i++) {
        free(life->regions[i].may_be_zero);
        life->regions[i].may_be_zero = noted[i];
    }
    return rc;
}

/* Does not return. */
static void live(const struct way *way, uint64_t seed) {
    static struct life life;
    struct varve_error error = {0};
    life.way = way;
    begin_life(&life, seed);
    if (kit_try_open(life.store, way->settings, &life.session, &error) != 0) {
        kit_folder_remove(life.folder);
        skip("%s", error.text);
    }
    for (int i = 0; i < REGIONS; i++)
        if (varve_protect_flags(life.session, life.regions[i].name, life.regions[i].ptr, life.regions[i].size,
                                life.regions[i].flags) != 0)
            fail("%s", varve_session_error(life.session)->text);
    for (int64_t version = 1; version <= CHECKPOINTS; version++) {
        for (uint64_t n = roll_below(&life.dice, 40); n > 0; n--)
            do_anything(&life);
        checkpoint(&life, version);
    }
    varve_close(life.session);
    check_restarted(&life, CHECKPOINTS);
    kit_folder_remove(life.folder);
    _exit(0);
}

/* ---- many lives ---- */

static uint64_t number_of(int argc, char **argv, const char *name, uint64_t otherwise) {
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return strtoull(argv[i + 1], NULL, 0);
    return otherwise;
}

static const char *text_of(int argc, char **argv, const char *name) {
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return argv[i + 1];
    return NULL;
}

/* 0, 77, or it fails. */
static int run(const struct way *way, uint64_t seed, uint64_t life) {
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        snprintf(kit_where, sizeof kit_where, "torture --seed %llu --settings '%s' --life %llu",
                 (unsigned long long)seed, way->settings, (unsigned long long)life);
        live(way, mix(seed * 1000003 + life));
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        fail("fork: %s", strerror(errno));
    if (WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77))
        return WEXITSTATUS(status);
    printf("FAILED: torture --seed %llu --settings '%s' --life %llu: status %#x\n", (unsigned long long)seed,
           way->settings, (unsigned long long)life, (unsigned)status);
    exit(1);
}

int main(int argc, char **argv) {
    const char *scale = getenv("TEST_SCALE"), *only = text_of(argc, argv, "--settings");
    double seconds = (double)number_of(argc, argv, "--seconds", 30) * (scale ? atof(scale) / 100 : 1);
    uint64_t seed = number_of(argc, argv, "--seed", (uint64_t)(kit_seconds() * 1e6) ^ (uint64_t)getpid());
    uint64_t life = number_of(argc, argv, "--life", 0), lives = 0, skipped = 0;
    uint64_t most = number_of(argc, argv, "--lives", 0);
    int is_one = text_of(argc, argv, "--life") != NULL;
    double begin = kit_seconds();
    printf("seed %llu\n", (unsigned long long)seed);
    worked = mmap(NULL, ACTIONS * sizeof *worked, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (worked == MAP_FAILED)
        fail("mmap: %s", strerror(errno));
    for (;; life++) {
        for (size_t i = 0; i < WAYS; i++) {
            if (only && strcmp(only, ways[i].settings) != 0)
                continue;
            int rc = run(&ways[i], seed, life);
            lives += rc == 0;
            skipped += rc == 77;
            if (kit_seconds() - begin > seconds && life > 0 && most == 0)
                goto out;
        }
        if (is_one || lives == 0 || life + 1 == most)
            break;
    }
out:
    printf("%llu lives of %d checkpoints, all right; %llu could not be tried here\n", (unsigned long long)lives,
           CHECKPOINTS, (unsigned long long)skipped);
    print_worked(1, "these actions worked: ");
    print_worked(0, "of these actions none worked here: ");
    return lives > 0 ? 0 : 77;
}
