/* A store of 100,000 checkpoints: open, restart and list must not take longer than a second.
 *
 * The first checkpoint and the last ones are made by a session. Those between are the first one again under other
 * versions, written straight to files: the pack with another head, a writers list and a record of its own. */
#include "size.h"

#include <errno.h>
#include <sys/stat.h>

#include "format/object.h"

#define REGION 8192u
#define AFTERWARDS                                                                                                     \
    70u /* checkpoints made by a session in the full store; more than 64, so that the catalogue is written */

static char store[256];
static uint64_t count;
static uint8_t memory[REGION];

static void load(const struct vv_key *key, struct vv_buf *out) {
    char text[VV_KEY_CAPACITY], path[1024];
    vv_key_print(key, text);
    snprintf(path, sizeof path, "%s/%s", store, text);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    uint8_t bytes[65536];
    vv_buf_append(out, bytes, fread(bytes, 1, sizeof bytes, file));
    assert_true(feof(file) && out->size > 0);
    fclose(file);
}

static void put(const struct vv_key *key, const struct vv_buf *bytes) {
    char text[VV_KEY_CAPACITY], path[1024];
    vv_key_print(key, text);
    snprintf(path, sizeof path, "%s/%s", store, text);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, bytes->data, bytes->size) != (ssize_t)bytes->size)
        fail_msg("%s: %s", path, strerror(errno));
    close(fd);
}

static void make_folders(uint64_t version) {
    char path[1024];
    snprintf(path, sizeof path, "%s/n/many/data/00000001/%016llx", store, (unsigned long long)version);
    assert_int_equal(mkdir(path, 0700), 0);
    strcat(path, "/00000000");
    assert_int_equal(mkdir(path, 0700), 0);
}

static struct vv_key key_of(int kind, uint64_t version) {
    struct vv_key key = {.kind = kind, .name = "many", .generation = kind == VV_KIND_STORE ? 0 : 1, .version = version};
    return key;
}

struct pattern {
    struct vv_buf pack;
    uint8_t store_id[16];
    struct vv_writers writers;
    struct vv_record record;
};

static void read_pattern(struct pattern *pattern) {
    struct vv_key key = key_of(VV_KIND_PACK, 0);
    struct varve_error error = {0};
    struct vv_buf buf;
    vv_buf_init(&pattern->pack);
    load(&key, &pattern->pack);
    vv_buf_init(&buf);
    key = key_of(VV_KIND_RECORD, 0);
    load(&key, &buf);
    assert_int_equal(vv_record_parse(buf.data, buf.size, &key, NULL, &pattern->record, &error), 0);
    memcpy(pattern->store_id, pattern->record.store_id, 16);
    buf.size = 0;
    key = key_of(VV_KIND_WRITERS, 0);
    load(&key, &buf);
    assert_int_equal(vv_writers_parse(buf.data, buf.size, &key, pattern->store_id, &pattern->writers, &error), 0);
    vv_buf_clear(&buf);
}

static void make_checkpoint(struct pattern *pattern, uint64_t version) {
    struct vv_key key = key_of(VV_KIND_PACK, version);
    struct vv_buf buf;
    vv_buf_init(&buf);
    make_folders(version);
    vv_head_encode(&buf, &key, pattern->store_id, 0);
    vv_buf_append(&buf, pattern->pack.data + VV_HEAD_SIZE, pattern->pack.size - VV_HEAD_SIZE);
    put(&key, &buf);
    buf.size = 0;
    key = key_of(VV_KIND_WRITERS, version);
    vv_writers_encode(&buf, &key, pattern->store_id, &pattern->writers, &pattern->record.writers_digest);
    put(&key, &buf);
    buf.size = 0;
    key = key_of(VV_KIND_RECORD, version);
    pattern->record.time_ns += 1000000000u;
    vv_record_encode(&buf, &key, pattern->store_id, &pattern->record);
    put(&key, &buf);
    vv_buf_clear(&buf);
}

static void fill_store(void) {
    struct pattern pattern;
    for (size_t i = 0; i < REGION; i++)
        memory[i] = (uint8_t)mix(i);
    struct varve_session *session = open_session(store, "many");
    need_session(session, varve_protect(session, "field", memory, REGION));
    need_session(session, varve_checkpoint(session, 0));
    need_session(session, varve_wait(session));
    assert_int_equal(varve_close(session), 0);
    double begin = seconds();
    read_pattern(&pattern);
    for (uint64_t version = 1; version < count; version++)
        make_checkpoint(&pattern, version);
    vv_buf_clear(&pattern.pack);
    vv_record_clear(&pattern.record);
    vv_writers_clear(&pattern.writers);
    printf("%llu checkpoints made in %.1f s\n", (unsigned long long)count, seconds() - begin);
}

static double best(const double *list, size_t n) {
    double low = list[0];
    for (size_t i = 1; i < n; i++)
        low = list[i] < low ? list[i] : low;
    return low;
}

/* Open and restart, several times: the machine may be busy with something else once. */
static void time_session(double *open_best, double *restart_best) {
    double opened[3], restarted[3];
    for (int i = 0; i < 3; i++) {
        int64_t version = -1;
        memset(memory, 0, REGION);
        double begin = seconds();
        struct varve_session *session = open_session(store, "many");
        opened[i] = seconds() - begin;
        need_session(session, varve_protect(session, "field", memory, REGION));
        begin = seconds();
        need_session(session, varve_restart(session, VARVE_LATEST, &version));
        restarted[i] = seconds() - begin;
        assert_int_equal(version, count - 1);
        for (size_t k = 0; k < REGION; k++)
            assert_int_equal(memory[k], (uint8_t)mix(k));
        assert_int_equal(varve_close(session), 0);
    }
    *open_best = best(opened, 3);
    *restart_best = best(restarted, 3);
}

/* A session goes on in the full store, and on its way brings the catalogue up to date. */
static double go_on(void) {
    double most = 0;
    struct varve_session *session = open_session(store, "many");
    need_session(session, varve_protect(session, "field", memory, REGION));
    need_session(session, varve_restart(session, VARVE_LATEST, NULL));
    for (unsigned i = 0; i < AFTERWARDS; i++) {
        memory[i]++;
        double begin = seconds();
        need_session(session, varve_checkpoint(session, (int64_t)(count + i)));
        need_session(session, varve_wait(session));
        double took = seconds() - begin;
        most = took > most ? took : most;
    }
    assert_int_equal(varve_close(session), 0);
    return most;
}

static int cool(void) {
    sync();
    int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
    int is_cold = fd >= 0 && write(fd, "3", 1) == 1;
    if (fd >= 0)
        close(fd);
    return is_cold;
}

static double time_list(void) {
    char command[1024], line[4096];
    uint64_t lines = 0;
    snprintf(command, sizeof command, "%s ls %s", VARVE_COMMAND, store);
    double begin = seconds();
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    while (fgets(line, sizeof line, pipe))
        lines++;
    assert_int_equal(pclose(pipe), 0);
    double took = seconds() - begin;
    assert_in_range(lines, count + AFTERWARDS, count + AFTERWARDS + 4);
    return took;
}

static void test_many(void **state) {
    double opened, restarted, warm[3], cold[3] = {0};
    (void)state;
    folder_make(store);
    fill_store();
    time_session(&opened, &restarted);
    double most = go_on();
    int is_cold = 1;
    for (int i = 0; i < 3; i++) {
        is_cold = is_cold && cool();
        cold[i] = time_list();
        warm[i] = time_list();
    }
    printf("%llu checkpoints: open %.3f s, restart %.3f s, list %.3f s, list cold %.3f s%s; longest checkpoint %.3f s; "
           "peak %.0f MiB\n",
           (unsigned long long)count, opened, restarted, best(warm, 3), best(cold, 3),
           is_cold ? "" : " (not really: only root can drop what is cached)", most, peak_mib());
    if (!getenv("SIZE_KEEP"))
        folder_remove(store);
    if (may_time()) {
        assert_true(opened < 1);
        assert_true(restarted < 1);
        assert_true(best(warm, 3) < 1);
        assert_true(best(cold, 3) < 1);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_many)};
    count = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000u;
    count = count * scale() / 100;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
