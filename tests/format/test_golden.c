/* Golden files: what is stored today is read tomorrow. Every file in the folder is parsed and compared with
 * expected.txt; the encoders must give the good ones byte for byte. */
#include "golden.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

static char *read_all(const char *path, size_t *size_out) {
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    size_t capacity = 4 << 20;
    char *data = malloc(capacity);
    assert_non_null(data);
    *size_out = fread(data, 1, capacity - 1, file);
    data[*size_out] = '\0';
    fclose(file);
    return data;
}

/* Print the first line that differs. */
static void show_difference(const char *expected, const char *found) {
    size_t line = 1;
    while (*expected && *expected == *found) {
        line += *expected == '\n';
        expected++;
        found++;
    }
    print_message("line %zu: expected \"%.60s\", found \"%.60s\"\n", line, expected, found);
}

static void test_listing(void **state) {
    (void)state;
    size_t expected_size;
    size_t found_size;
    char *found = NULL;
    char *expected = read_all(GOLDEN_FOLDER "/expected.txt", &expected_size);
    assert_non_null(expected);
    FILE *out = open_memstream(&found, &found_size);
    assert_non_null(out);
    assert_true(golden_list(out, GOLDEN_FOLDER) > 100);
    fclose(out);
    if (strcmp(expected, found) != 0)
        show_difference(expected, found);
    assert_string_equal(expected, found);
    free(found);
    free(expected);
}

static void compare_file(void *arg, const char *name, const uint8_t *data, size_t size) {
    char path[4096];
    size_t stored_size = 0;
    (void)arg;
    snprintf(path, sizeof path, "%s/%s", GOLDEN_FOLDER, name);
    char *stored = read_all(path, &stored_size);
    if (!stored || stored_size != size || memcmp(stored, data, size) != 0)
        print_message("%s is not what is made now\n", name);
    assert_non_null(stored);
    assert_int_equal(stored_size, size);
    assert_memory_equal(stored, data, size);
    free(stored);
}

static void test_made_again(void **state) {
    (void)state;
    golden_make(compare_file, NULL);
}

static void check_verdict(void *arg, const char *name, const uint8_t *data, size_t size) {
    FILE *out = arg;
    int rc = golden_describe(out, name, data, size);
    int is_good = strncmp(name, "good-", 5) == 0;
    int is_tombstone = strcmp(name, "good-record-tombstone.bin") == 0 || strcmp(name, "good-pin-tombstone.bin") == 0;
    if ((rc == 0) != (is_good && !is_tombstone))
        print_message("%s: unexpected verdict %d\n", name, rc);
    assert_int_equal(rc == 0, is_good && !is_tombstone);
}

static void test_verdicts(void **state) {
    (void)state;
    FILE *out = fopen("/dev/null", "w");
    assert_non_null(out);
    golden_make(check_verdict, out);
    fclose(out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_listing),
        cmocka_unit_test(test_made_again),
        cmocka_unit_test(test_verdicts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
