/* make-groups DIR: a store at DIR/store whose packs serve several ranks each (../unit/store_groups.h), and beside it in
 * DIR/expect what each region holds, as VERSION.RANK.REGION. */
#include "../unit/store_groups.h"

#include <sys/stat.h>

static void expect(const char *dir, int version, uint32_t rank, const char *region, const void *data, size_t size) {
    char path[4096];
    snprintf(path, sizeof path, "%s/expect/%d.%u.%s", dir, version, rank, region);
    FILE *file = fopen(path, "w");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0)
        exit(1);
}

int main(int argc, char **argv) {
    struct vv_dependency dependency;
    char path[4096];
    if (argc != 2)
        return 2;
    make_states();
    snprintf(path, sizeof path, "%s/expect", argv[1]);
    mkdir(argv[1], 0700);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/store", argv[1]);
    struct vv_store *store = open_store(path);
    write_groups(store, 1, NULL);
    commit(store, attempt_at(1, 1), &dependency);
    write_groups(store, 2, &dependency);
    commit(store, attempt_at(1, 2), NULL);
    vv_store_close(store);
    for (int version = 1; version <= 2; version++)
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            expect(argv[1], version, rank, "u", state_of[version][rank], U_BYTES);
            expect(argv[1], version, rank, "v", state_of[version][rank] + U_BYTES, V_BYTES);
        }
    return 0;
}
