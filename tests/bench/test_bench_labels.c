/* What bench-merkle compares the library with: labels of chunks, greedy runs, and the tree of the paper. */
#include <stdlib.h>
#include <string.h>

#include "../../bench/bench.h"
#include "../../bench/paper_tree.h"
#include "test.h"

#define CHUNK 32u

/* A chunk per letter; a blank is zeros. */
static void write_chunks(uint8_t *data, const char *letters) {
    for (size_t i = 0; letters[i]; i++)
        memset(data + i * CHUNK, letters[i] == ' ' ? 0 : letters[i], CHUNK);
}

static void step(struct labels *labels, struct paper_tree *tree, uint8_t *data, const char *letters) {
    write_chunks(data, letters);
    labels_checkpoint(labels);
    paper_tree_checkpoint(tree, labels->changed, labels->changed_count);
}

/* The example of the paper: chunks seen elsewhere, and such that are new in the same checkpoint. */
static void test_paper_example(void **state) {
    uint8_t data[8 * CHUNK] = {0};
    struct labels labels;
    struct paper_tree tree = {0};
    (void)state;
    labels_init(&labels, data, sizeof data, CHUNK);
    step(&labels, &tree, data, "ABCDEFGH");
    assert_int_equal(labels.counts.first, 8);
    assert_int_equal(labels.counts.runs, 1);
    assert_int_equal(tree.first_roots + tree.shifted_roots, 1);
    labels.counts = (struct label_counts){0};
    tree.first_roots = 0;
    step(&labels, &tree, data, "IJKLEAIJ");
    assert_int_equal(labels.counts.first, 4);
    assert_int_equal(labels.counts.fixed, 1);
    assert_int_equal(labels.counts.shifted, 3);
    assert_int_equal(labels.counts.first_runs, 1);
    assert_int_equal(labels.counts.shifted_runs, 2);
    assert_int_equal(tree.first_roots, 1);
    assert_int_equal(tree.shifted_roots, 2);
    assert_int_equal(labels.counts.first_bytes, 4 * CHUNK);
    assert_int_equal(labels_list_bytes(&labels), 4 * CHUNK + 4 * 4 + 3 * 12);
    assert_int_equal(labels_basic_bytes(&labels, 1), 1 + 7 * CHUNK);
    labels_clear(&labels);
    paper_tree_clear(&tree);
}

/* What was seen, moved by one chunk: one run, but no two neighbours of the tree. */
static void test_moved(void **state) {
    uint8_t data[8 * CHUNK] = {0};
    struct labels labels;
    struct paper_tree tree = {0};
    (void)state;
    labels_init(&labels, data, sizeof data, CHUNK);
    step(&labels, &tree, data, "ABCDEFGH");
    labels.counts = (struct label_counts){0};
    tree.first_roots = 0;
    step(&labels, &tree, data, "ZABCDEFG");
    assert_int_equal(labels.counts.runs, 2);
    assert_int_equal(tree.first_roots, 1);
    assert_int_equal(tree.shifted_roots, 7);
    labels_clear(&labels);
    paper_tree_clear(&tree);
}

/* Places that follow each other, but for a chunk between that is as it was: two runs. */
static void test_between(void **state) {
    uint8_t data[8 * CHUNK] = {0};
    struct labels labels;
    struct paper_tree tree = {0};
    (void)state;
    labels_init(&labels, data, sizeof data, CHUNK);
    step(&labels, &tree, data, "ABCDEFGH");
    labels.counts = (struct label_counts){0};
    step(&labels, &tree, data, "ABCDAFBH");
    assert_int_equal(labels.counts.shifted, 2);
    assert_int_equal(labels.counts.runs, 2);
    assert_int_equal(labels.counts.plain_runs, 2);
    labels_clear(&labels);
    paper_tree_clear(&tree);
}

static void test_zeros_and_gaps(void **state) {
    uint8_t data[8 * CHUNK + 5] = {0};
    struct labels labels;
    struct paper_tree tree = {0};
    (void)state;
    labels_init(&labels, data, sizeof data, CHUNK);
    labels_checkpoint(&labels);
    assert_int_equal(labels.counts.fixed, 9); /* zeros from the start */
    assert_int_equal(labels.counts.runs, 0);
    labels.counts = (struct label_counts){0};
    memset(data + 8 * CHUNK, 7, 5);
    step(&labels, &tree, data, "AB AB AB");
    assert_int_equal(labels.counts.first, 3);
    assert_int_equal(labels.counts.first_bytes, 2 * CHUNK + 5);
    assert_int_equal(labels.counts.shifted, 4);
    assert_int_equal(labels.counts.shifted_runs, 2);
    assert_int_equal(labels.counts.first_runs, 2);
    assert_int_equal(tree.first_roots, 2);
    assert_int_equal(tree.shifted_roots, 3); /* AB at 3 lies across two pairs, AB at 6 is a pair that was new */
    labels.counts = (struct label_counts){0};
    step(&labels, &tree, data, "AB   ABB");
    assert_int_equal(labels.counts.zero, 2);
    assert_int_equal(labels.counts.zero_runs, 1);
    assert_int_equal(labels.counts.shifted, 2);
    assert_int_equal(labels.counts.shifted_runs, 1);
    labels_clear(&labels);
    paper_tree_clear(&tree);
}

/* The same again and again is one run, whether it is new or not. */
static void test_repeated(void **state) {
    uint8_t data[12 * CHUNK] = {0};
    struct labels labels;
    struct paper_tree tree = {0};
    (void)state;
    labels_init(&labels, data, sizeof data, CHUNK);
    step(&labels, &tree, data, "AAAAABCDDDD ");
    assert_int_equal(labels.counts.first, 4);
    assert_int_equal(labels.counts.shifted, 7);
    assert_int_equal(labels.counts.runs, 3); /* A again and again, BCD, D again and again */
    assert_int_equal(labels.counts.plain_runs, 1 + 4 + 1 + 3);
    labels.counts = (struct label_counts){0};
    step(&labels, &tree, data, "DDDCDABCD AA");
    assert_int_equal(labels.counts.shifted, 10);
    assert_int_equal(labels.counts.zero_runs, 1); /* D at 8 is as it was */
    assert_int_equal(labels.counts.runs, 1 + 1 + 1 + 1 + 1 + 1);
    labels_clear(&labels);
    paper_tree_clear(&tree);
}

/* Many hashes: the record grows, and forgets nothing. */
static void test_known(void **state) {
    struct known known = {0};
    (void)state;
    assert_false(known_has(&known, (XXH128_hash_t){1, 2}));
    for (uint64_t i = 0; i < 5000; i++)
        assert_int_equal(known_put(&known, (XXH128_hash_t){i * 4096, i}, i), i);
    for (uint64_t i = 0; i < 5000; i++) {
        assert_int_equal(known_put(&known, (XXH128_hash_t){i * 4096, i}, 7), i);
        assert_false(known_has(&known, (XXH128_hash_t){i * 4096, i + 1}));
    }
    assert_int_equal(known.count, 5000);
    known_clear(&known);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_paper_example), cmocka_unit_test(test_moved),
                                       cmocka_unit_test(test_between),       cmocka_unit_test(test_zeros_and_gaps),
                                       cmocka_unit_test(test_repeated),      cmocka_unit_test(test_known)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
