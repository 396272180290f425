/* Slices of a campaign: each point is in one of them, whichever other points there are, and they are about equally
 * large. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "campaign.h"
#include "test.h"

#define POINTS 20000

static void print_point(unsigned number, char *text, size_t capacity) {
    snprintf(text, capacity, "fail-after:%u:%u:EIO:retry:2:0", number % 3, number / 3);
}

static unsigned count_slices_with(uint64_t seed, unsigned slices, const char *point, unsigned *last) {
    unsigned found = 0;
    for (unsigned slice = 1; slice <= slices; slice++) {
        struct campaign campaign = {.seed = seed, .slice = slice, .slices = slices};
        if (campaign_takes(&campaign, point)) {
            *last = slice;
            found++;
        }
    }
    return found;
}

static void each_point_is_in_one_slice(void **state) {
    static const unsigned cuts[] = {1, 2, 3, 10, 40};
    (void)state;
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        unsigned sizes[41] = {0}, slice = 0;
        for (unsigned number = 0; number < POINTS; number++) {
            char text[64];
            print_point(number, text, sizeof text);
            assert_int_equal(count_slices_with(7, cuts[i], text, &slice), 1);
            sizes[slice]++;
        }
        for (slice = 1; slice <= cuts[i]; slice++)
            assert_in_range(sizes[slice], POINTS / cuts[i] * 7 / 10, POINTS / cuts[i] * 13 / 10);
    }
}

static void seeds_cut_differently(void **state) {
    unsigned same = 0;
    (void)state;
    for (unsigned number = 0; number < 1000; number++) {
        unsigned one = 0, other = 0;
        char text[64];
        print_point(number, text, sizeof text);
        count_slices_with(1, 10, text, &one);
        count_slices_with(2, 10, text, &other);
        same += one == other;
    }
    assert_in_range(same, 50, 200);
}

static int begin_with(const char *slice) {
    pid_t pid = fork();
    int status = 0;
    if (pid == 0) {
        char name[] = "test_slices", option[] = "--slice",
             *arguments[] = {name, option, (char *)(uintptr_t)slice, NULL};
        struct campaign campaign;
        if (!freopen("/dev/null", "w", stderr) || !freopen("/dev/null", "w", stdout))
            _exit(3);
        campaign_begin(&campaign, name, 3, arguments);
        folder_remove(campaign.folder);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void wrong_slices_are_refused(void **state) {
    static const char *const wrong[] = {"", "3", "0/3", "4/3", "3/10x", "a/b", "/", "-1/3"};
    (void)state;
    assert_int_equal(begin_with("3/10"), 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(begin_with(wrong[i]), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_point_is_in_one_slice),
        cmocka_unit_test(seeds_cut_differently),
        cmocka_unit_test(wrong_slices_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
