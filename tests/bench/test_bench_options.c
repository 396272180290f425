/* The command line of the benchmarks. */
#include "../../bench/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

#define MIB ((size_t)1 << 20)

static int is_json, acts;
static const char *text, *only, *modes, *folder, *second;
static unsigned rounds;
static double slack;
static size_t size, bytes;
static struct numbers shares, sizes;

static void act(void) {
    acts++;
}

static int take_even(const char *value) {
    return atoi(value) % 2;
}

static const struct bench_option command_line[] = {
    {"--json", .flag = &is_json},
    {"--act", .act = act},
    {"--text", "TEXT", .text = &text},
    {"--hidden", .text = &text},
    {"--only", "write|read", .choice = &only},
    {"--modes", "full,top-k,exact", .list = &modes},
    {"--rounds", .number = &rounds, .least = 1, .most = 64},
    {"--count", .number = &rounds},
    {"--slack", "FACTOR", .real = &slack, .least = 0.5},
    {"--size", "SIZE", .size = &size, .least = 1},
    {"--pages", "BYTES", .bytes = &bytes, .least = 4096, .step = 4096},
    {"--shares", "S,...", .numbers = &shares, .most = 1},
    {"--sizes", "SIZE,...", .sizes = &sizes},
    {"--even", "N", .take = take_even},
    {"FOLDER", .text = &folder},
    {"SECOND", .text = &second},
    {0},
};

/* A line of words with blanks between them; what the parser keeps points into it. */
static void read_line(const char *line) {
    static char words[4000];
    char *argv[32] = {"bench-x"}, *rest = NULL;
    int argc = 1;
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        argv[argc++] = strcmp(word, "''") == 0 ? "" : word;
    options_read(command_line, argc, argv);
}

static void test_kinds(void **state) {
    (void)state;
    read_line("--json near --act --act --text a=b,c=-1 --only read --modes full,exact --rounds 64 --slack 0.5 far");
    assert_int_equal(is_json, 1);
    assert_int_equal(acts, 2);
    assert_string_equal(text, "a=b,c=-1");
    assert_string_equal(only, "read");
    assert_true(options_has(modes, "full") && options_has(modes, "exact"));
    assert_false(options_has(modes, "top-k") || options_has(modes, "exac") || options_has(modes, "exactly"));
    assert_int_equal(rounds, 64);
    assert_true(slack == 0.5);
    assert_string_equal(folder, "near");
    assert_string_equal(second, "far");
    read_line("--modes '' --text '' --even 4 --count 4294967295");
    assert_string_equal(modes, "");
    assert_string_equal(text, "");
    assert_int_equal(rounds, 4294967295u);
}

static void test_sizes(void **state) {
    (void)state;
    read_line("--size 64 --pages 8192");
    assert_int_equal(size, 64 * MIB);
    assert_int_equal(bytes, 8192);
    read_line("--size 512K --pages 4K");
    assert_int_equal(size, 512 << 10);
    assert_int_equal(bytes, 4096);
    read_line("--size 3G --pages 2M --sizes 4M,16,1K --shares 0.05,1,0");
    assert_int_equal(size, 3072 * MIB);
    assert_int_equal(bytes, 2 * MIB);
    assert_int_equal(sizes.count, 3);
    assert_true(sizes.value[0] == 4 * MIB && sizes.value[1] == 16 * MIB && sizes.value[2] == 1024);
    assert_int_equal(shares.count, 3);
    assert_true(shares.value[0] == 0.05 && shares.value[1] == 1 && shares.value[2] == 0);
}

/* The program ends with 2, and says this. */
static void refused(const char *line, const char *message) {
    char said[4000];
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        read_line(line);
        options_demand(command_line, rounds != 7, "7 is not for all");
        _exit(0);
    }
    close(ends[1]);
    FILE *file = fdopen(ends[0], "r");
    said[fread(said, 1, sizeof said - 1, file)] = '\0';
    fclose(file);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 2);
    if (!strstr(said, message) || !strstr(said, "\nusage: ") ||
        !strstr(said, " [--json] [--act] [--text TEXT] [--only "))
        fail_msg("'%s' is refused with: %s", line, said);
    assert_true(strstr(said, "[--rounds 1..64] [--count N]") && strstr(said, "[FOLDER] [SECOND]\n"));
    assert_null(strstr(said, "--hidden"));
}

static void test_refused(void **state) {
    static const char *const lines[][2] = {
        {"--jso", "there is no option --jso"},
        {"- near", "there is no option -"},
        {"a b c", "c is one argument too many"},
        {"near --text", "--text has no value"},
        {"--text --json", "--text has no value"},
        {"--rounds 0", "--rounds takes 1..64; '0'"},
        {"--rounds 65", "'65' is none of these"},
        {"--rounds 6x", "'6x' is none of these"},
        {"--rounds ''", "'' is none of these"},
        {"--count -1", "--count takes N; '-1'"},
        {"--count 4294967296", "'4294967296' is none of these"},
        {"--slack 0.4", "--slack takes FACTOR, from 0.5 on; '0.4'"},
        {"--slack nan", "'nan' is none of these"},
        {"--size 0", "--size takes SIZE, from 1 on; '0'"},
        {"--size 5Q", "'5Q' is none of these"},
        {"--size 5MB", "'5MB' is none of these"},
        {"--size 9999999999999G", "is none of these"},
        {"--pages 5000", "--pages takes BYTES, from 4096 on, in steps of 4096; '5000'"},
        {"--shares 0.5,1.5", "--shares takes S,..., 0 to 1; '0.5,1.5'"},
        {"--shares 0.5,", "'0.5,' is none of these"},
        {"--shares 0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0", "is none of these"},
        {"--only full", "--only takes write|read; 'full'"},
        {"--only write,read", "'write,read' is none of these"},
        {"--modes full,top", "--modes takes full,top-k,exact; 'full,top'"},
        {"--even 3", "--even takes N; '3'"},
        {"--rounds 7", "7 is not for all"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        refused(lines[i][0], lines[i][1]);
}

static void test_long_value(void **state) {
    char line[OPTIONS_LONGEST + 10];
    (void)state;
    snprintf(line, sizeof line, "%0*d", OPTIONS_LONGEST - 1, 0);
    read_line(line);
    assert_int_equal(strlen(folder), OPTIONS_LONGEST - 1);
    snprintf(line, sizeof line, "%0*d", OPTIONS_LONGEST, 0);
    refused(line, "FOLDER is too long");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_long_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
