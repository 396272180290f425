/* The conformance suite on one target, named by the first argument:
 *
 *   mem, limit, retry, fault, count     the memory backend, bare or in a wrapper that changes nothing
 *   file, file-buffered, file-named, file-rename, file-prealloc, file-steps   the file backend in the current folder
 *   shm                                 the file backend in /dev/shm
 *   rados                               below the address in RADOS_STORE, each test in a namespace of its own
 *   sealed, sealed-mem                  files and memory, encrypted
 *   s3                                  below the address in S3_STORE, each test under a prefix of its own
 *   any address with "://"              that store; its folder must be empty, and is not cleaned up */
#include <errno.h>
#include <string.h>

#include "conformance.h"
#include "folder.h"
#include "storage/file_private.h"

struct place {
    const char *name;
    const char *address; /* NULL: a folder below parent */
    const char *parent;
    int direct;
    struct vv_file_tuning tuning;
    int is_apart;  /* address is that of a folder for stores */
    int is_sealed; /* encrypted */
    char folder[512];
};

static struct place places[] = {
    {.name = "mem", .address = "mem://"},
    {.name = "limit", .address = "mem://?limit=100GB&latency=1us"},
    {.name = "retry", .address = "mem://?retry=5"},
    {.name = "fault", .address = "mem://?fault=none"},
    {.name = "count", .address = "mem://?count=1"},
    {.name = "file", .parent = "."},
    {.name = "file-buffered", .parent = ".", .direct = VV_DIRECT_OFF},
    {.name = "file-named", .parent = ".", .tuning = {.named_temporaries = 1}},
    {.name = "file-rename", .parent = ".", .tuning = {.named_temporaries = 1, .rename_only = 1}},
    {.name = "file-prealloc", .parent = ".", .tuning = {.preallocate = 1, .in_flight = 1}},
    {.name = "file-steps", .parent = ".", .tuning = {.step_by_step = 1}},
    {.name = "shm", .parent = "/dev/shm"},
    {.name = "sealed", .parent = ".", .is_sealed = 1},
    {.name = "sealed-mem", .address = "mem://", .is_sealed = 1},
};

static int open_place(void *arg, struct varve_backend **out) {
    struct place *place = arg;
    struct varve_error error = {0};
    struct vv_backend_options options = {.may_create = 1, .direct = place->direct, .tuning = &place->tuning};
    options.encrypt = place->is_sealed;
    options.key = place->is_sealed ? "command:printf %064d 1" : NULL;
    if (!place->address && folder_make(place->parent, "backend-test", place->folder, 512) < 0)
        return -errno;
    static int number;
    if (place->is_apart)
        snprintf(place->folder, sizeof(place->folder), "%s/%d-%d", place->address, (int)getpid(), number++);
    int is_given = place->address && !place->is_apart;
    int result = vv_backend_open(is_given ? place->address : place->folder, &options, out, &error);
    if (result < 0)
        fprintf(stderr, "%s\n", error.text);
    return result;
}

static void clean_place(void *arg) {
    struct place *place = arg;
    if (!place->address)
        folder_remove(place->folder);
}

int main(int argc, char **argv) {
    struct place given = {0};
    struct conformance_target target = {.name = argc > 1 ? argv[1] : "mem", .open = open_place, .clean = clean_place};
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
        if (strcmp(places[i].name, target.name) == 0)
            target.arg = &places[i];
    int is_s3 = strcmp(target.name, "s3") == 0, is_rados = strcmp(target.name, "rados") == 0;
    const char *store = is_s3 ? getenv("S3_STORE") : is_rados ? getenv("RADOS_STORE") : NULL;
    if (store) {
        given.address = store;
        given.is_apart = 1;
        target.key_max = is_s3 ? 950 : 0; /* S3 takes 1,024 with the prefix */
        target.arg = &given;
    }
    if (!target.arg && strstr(target.name, "://")) {
        given.address = target.name;
        target.arg = &given;
    }
    if (!target.arg) {
        fprintf(stderr, "no such target: %s\n", target.name);
        return 2;
    }
    if (strcmp(target.name, "shm") == 0 && access("/dev/shm", W_OK) < 0) {
        fprintf(stderr, "skipped: cannot write to /dev/shm\n");
        return 77;
    }
    return conformance_run(&target) != 0;
}
