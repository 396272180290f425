/* Arrays as HDF5 datasets: names that cannot be, or are taken, and every type. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/hdf5_write.h"
#include "test.h"

static const char path[] = "test_files_hdf5_write.h5";

static struct files_h5 *create(int *fd) {
    struct files_h5 *file = NULL;
    struct varve_error error = {.text = ""};
    *fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(*fd >= 0);
    int rc = files_h5_create(*fd, &file, &error);
    if (rc == VARVE_UNSUPPORTED) {
        close(*fd);
        unlink(path);
        skip();
    }
    assert_int_equal(rc, 0);
    return file;
}

static void add(struct files_h5 *file, const char *name, int type, uint64_t rows, const char *wanted) {
    struct varve_array array = {.size = sizeof array, .type = type, .dims = 2, .dim = {{.local = rows}, {.local = 3}}};
    struct varve_error error = {.text = ""};
    static const uint8_t zeros[16 * 3 * 4];
    char called[FILES_H5_NAME];
    size_t element = type >= VARVE_C64 ? 8 * (size_t)(1 + (type == VARVE_C128)) : type == VARVE_F64 ? 8 : 0;
    if (files_h5_array(file, name, &array, called, &error) != 0)
        fail_msg("%s: %s", name, error.text);
    if (strcmp(name, "u_0") != 0 || strcmp(called, name) != 0) /* where dimensions have no names it is free */
        assert_string_equal(called, wanted);
    if (element > 0 && rows > 0)
        assert_int_equal(files_h5_write(file, 0, zeros, element * rows * 3, &error), 0);
}

static void names_are_found_for_all(void **state) {
    struct varve_error error = {.text = ""};
    char longest[300];
    int fd;
    (void)state;
    struct files_h5 *file = create(&fd);
    memset(longest, 'x', 255);
    longest[255] = '\0';
    add(file, "u", VARVE_F64, 4, "u");
    add(file, "u_0", VARVE_F64, 4, "u_0~2"); /* the first is a dimension of u */
    add(file, "u", VARVE_F64, 4, "u~2");
    add(file, "a", VARVE_F64, 4, "a");
    add(file, "a/b", VARVE_F64, 4, "a.b");
    add(file, "g/b", VARVE_F64, 4, "g/b");
    add(file, "g", VARVE_F64, 4, "g~2");
    add(file, ".", VARVE_F64, 4, "_");
    add(file, "./..", VARVE_F64, 4, "_...");
    add(file, "/", VARVE_F64, 4, ".~2");
    add(file, "a~b", VARVE_F64, 4, "a_b");
    add(file, longest, VARVE_F64, 4, longest);
    assert_int_equal(files_h5_text(file, "text", "", &error), 0);
    assert_int_equal(files_h5_close(file, &error), 0);
    close(fd);
    unlink(path);
}

static void every_type_has_one(void **state) {
    struct varve_error error = {.text = ""};
    char name[20];
    int fd;
    (void)state;
    struct files_h5 *file = create(&fd);
    for (int type = VARVE_BYTES; type <= VARVE_C128; type++) {
        snprintf(name, sizeof name, "t%d", type);
        add(file, name, type, 4, name);
        snprintf(name, sizeof name, "e%d", type);
        add(file, name, type, 0, name);
    }
    assert_int_equal(files_h5_close(file, &error), 0);
    close(fd);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_are_found_for_all), cmocka_unit_test(every_type_has_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
