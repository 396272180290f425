/* Pages that the kernel merges with equal ones (KSM) leave a userfaultfd without a word. Checkpoints of such memory
 * that was held failed again and again, and the text said that it had been unmapped or moved. It is not held any more.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <varve/varve.h>

#include "memory/process.h"
#include "test.h"

#define SIZE ((size_t)16 << 20)
#define PAGE ((size_t)4096)

static int write_text(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    int rc = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
    if (fd >= 0)
        close(fd);
    return rc;
}

static char old_run[8];

static void restore_setting(void) {
    write_text("/sys/kernel/mm/ksm/run", old_run[0] == '1' ? "1" : "0");
}

static int start_merging(void) {
    int fd = open("/sys/kernel/mm/ksm/run", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, old_run, sizeof old_run - 1) < 1)
        return -1;
    close(fd);
    atexit(restore_setting);
    return write_text("/sys/kernel/mm/ksm/run", "1");
}

/* Unlike each other, but for every second page. */
static void fill(uint8_t *data, uint64_t seed) {
    for (size_t i = 0; i < SIZE; i += 8) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint64_t value = i / PAGE % 2 ? seed : UINT64_C(0x4242424242424242);
        memcpy(data + i, &value, 8);
    }
}

static void merged(void **state) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    uint8_t *data = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t *back = malloc(SIZE), *then = malloc(SIZE);
    (void)state;
    madvise(data, SIZE, MADV_NOHUGEPAGE);
    fill(data, 1);
    if (madvise(data, SIZE, MADV_MERGEABLE) != 0) {
        print_message("skipped: the kernel merges nothing: %s\n", strerror(errno));
        exit(77);
    }
    for (int i = 0; i < 300 && !vv_process_is_merged(); i++)
        usleep(10000);
    if (!vv_process_is_merged()) {
        print_message("skipped: nothing was merged within 3 s\n");
        exit(77);
    }
    options.settings = "staging=512K,tracker=none";
    assert_int_equal(varve_open("mem://merged?limit=12MB", "merged", &options, &session, NULL), 0);
    assert_int_equal(varve_protect(session, "data", data, SIZE), 0);
    for (int64_t version = 1; version <= 3; version++) {
        fill(data, (uint64_t)version);
        memcpy(then, data, SIZE);
        int rc = varve_checkpoint(session, version);
        data[(size_t)version * 7 * PAGE]++;
        rc = rc ? rc : varve_wait(session);
        if (rc)
            fail_msg("%s", varve_session_error(session)->text);
    }
    assert_int_equal(varve_close(session), 0);
    assert_int_equal(varve_open("mem://merged", "merged", NULL, &session, NULL), 0);
    assert_int_equal(varve_protect(session, "data", back, SIZE), 0);
    assert_int_equal(varve_restart(session, VARVE_LATEST, NULL), 0);
    assert_int_equal(varve_close(session), 0);
    assert_int_equal(memcmp(back, then, SIZE), 0);
    munmap(data, SIZE);
    free(back);
    free(then);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(merged)};
    if (start_merging() != 0) {
        printf("skipped: /sys/kernel/mm/ksm/run cannot be written: not root, or no KSM\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
