#include "base/error.h"
#include "base/settings.h"
#include "encode/coding.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Every test runs in an empty directory that is also the home, with no variable of ours set. */
static char folder[] = "/tmp/varve-settings-XXXXXX";

static const char *const files[] = {"varve.conf", "config/varve/varve.conf", "home/.config/varve/varve.conf",
                                    "other.conf"};

static int enter_folder(void **state) {
    (void)state;
    if (!mkdtemp(folder) || chdir(folder) < 0)
        return -1;
    return mkdir("config", 0700) || mkdir("config/varve", 0700) || mkdir("home", 0700) || mkdir("home/.config", 0700) ||
           mkdir("home/.config/varve", 0700);
}

static int leave_folder(void **state) {
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return chdir("/") || system(command);
}

static int start_clean(void **state) {
    (void)state;
    char home[100], config[100];
    clearenv();
    snprintf(home, sizeof home, "%s/home", folder);
    snprintf(config, sizeof config, "%s/config", folder);
    setenv("PATH", "/usr/bin:/bin", 1);
    setenv("HOME", home, 1);
    setenv("XDG_CONFIG_HOME", config, 1);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        unlink(files[i]);
    return 0;
}

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static char heard[4096]; /* the lines of the log */

static void hear(void *arg, int level, const char *line) {
    (void)arg;
    (void)level;
    size_t used = strlen(heard);
    snprintf(heard + used, sizeof heard - used, "%s\n", line);
}

static const struct vv_log ear = {.level = VV_LOG_WARN, .rank = -1, .fn = hear};

static struct vv_settings settings;
static struct varve_error error;

static int load(const char *text) {
    heard[0] = '\0';
    vv_error_clear(&error);
    return vv_settings_load(&settings, text, &ear, &error);
}

static int set(const char *name, const char *value) {
    vv_error_clear(&error);
    return vv_settings_set(&settings, name, value, "test", &error);
}

static const char *origin_of(const char *name) {
    return vv_setting_origin(&settings, vv_setting_find(name));
}

static const char *value_of(const char *name) {
    static char text[100];
    vv_setting_value_text(&settings, vv_setting_find(name), text, sizeof text);
    return text;
}

static void test_defaults(void **state) {
    (void)state;
    assert_int_equal(load(NULL), 0);
    assert_string_equal(heard, "");
    assert_int_equal(settings.keep, 3);
    assert_string_equal(settings.on_error, "fail");
    assert_int_equal(settings.codec, VV_CHOOSE_CODEC_AUTO);
    assert_int_equal(settings.zstd_level, 1);
    assert_int_equal(settings.block_size, 1 << 20);
    assert_int_equal(settings.part_size, 1 << 30);
    assert_true(settings.table_share == 0.01);
    assert_true(settings.space == 2);
    assert_int_equal(settings.aggregate, 0);
    assert_int_equal(settings.grouping, VV_CHOOSE_GROUPING_AUTO);
    assert_int_equal(settings.group_block, 4 << 10);
    assert_string_equal(settings.match, "");
    assert_int_equal(settings.beat_seconds, 15);
    assert_int_equal(settings.dead_seconds, 60);
    assert_int_equal(settings.takeover_seconds, 90);
    assert_int_equal(settings.threads, 2);
    assert_true(settings.interval_seconds == 0);
    assert_true(settings.interval_share == 0);
    assert_int_equal(settings.direct, VV_CHOOSE_DIRECT_AUTO);
    assert_int_equal(settings.log, VV_LOG_WARN);
    assert_int_equal(settings.mode, VV_CHOOSE_MODE_PRIVATE);
    assert_int_equal(settings.min_free, 16 << 20);
    assert_int_equal(settings.restart_window, 256 << 20);
}

/* Every row shows its default as the table has it, and takes back what it shows. */
static void test_table(void **state) {
    (void)state;
    vv_settings_init(&settings);
    size_t count = 0;
    for (const struct vv_setting *row; (row = vv_setting_at(count)); count++) {
        char text[100], allowed[100];
        vv_setting_value_text(&settings, row, text, sizeof text);
        assert_string_equal(text, row->standard);
        assert_string_equal(vv_setting_origin(&settings, row), "default");
        assert_int_equal(set(row->name, text), 0);
        assert_string_equal(vv_setting_origin(&settings, row), "test");
        vv_setting_allowed_text(row, allowed, sizeof allowed);
        assert_true(strlen(allowed) > 0);
        assert_true(strlen(vv_setting_type_text(row)) > 0);
        assert_int_equal(row->help[strlen(row->help) - 1], '.');
        assert_ptr_equal(vv_setting_find(row->name), row);
    }
    assert_int_equal(count, VV_SETTING_COUNT);
    assert_null(vv_setting_find("nothing"));
}

struct pair {
    const char *name;
    const char *value;
};

static void test_values_that_are_taken(void **state) {
    (void)state;
    static const struct pair good[] = {
        {"keep", "1000000"},
        {"block_size", "64K"},
        {"block_size", "16m"},
        {"block_size", "65537"},
        {"part_size", "1T"},
        {"min_free", "0"},
        {"table_share", "0.5"},
        {"table_share", ".25"},
        {"table_share", "1e-3"},
        {"interval_share", "1"},
        {"interval_seconds", "12345.5"},
        {"on_error", "warn"},
        {"on_error", "retry:3"},
        {"log", "trace"},
        {"dead_seconds", "2"},
        {"min_free", "18446744073709551615"},
        {"cpus", "auto"},
        {"cpus", "0"},
        {"cpus", "0+2-3"},
        {"aggregate", "4096"},
        {"group_block", "1K"},
        {"group_block", "64K"},
        {"match", "(a{1,3}),#=(b)"},
        {"match", ""},
        {"parity", "off"},
        {"parity", "4+2"},
        {"parity", "13+3"},
        {"parity", "1+1"},
        {"match", "pattern"},
        {"match", "123456789012345678901234567890123456789012345678901234567890123"},
    };
    vv_settings_init(&settings);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_int_equal(set(good[i].name, good[i].value), 0);
    assert_int_equal(settings.block_size, 65537);
    assert_true(settings.part_size == (uint64_t)1 << 40);
    assert_true(settings.min_free == UINT64_MAX);
    assert_true(settings.table_share == 0.001);
}

static void test_values_that_are_refused(void **state) {
    (void)state;
    static const struct pair bad[] = {
        {"parity", "4"},
        {"parity", "4+"},
        {"parity", "4+0"},
        {"parity", "2+3"},
        {"parity", "14+1"},
        {"parity", "4+2 "},
        {"cpus", ""},
        {"cpus", "2,4"},
        {"cpus", "3-1"},
        {"cpus", "1+"},
        {"cpus", "99999"},
        {"keep", ""},
        {"keep", "-1"},
        {"keep", "1000001"},
        {"keep", "3x"},
        {"keep", "0x3"},
        {"keep", "+3"},
        {"keep", "99999999999999"},
        {"block_size", "63K"},
        {"block_size", "17M"},
        {"block_size", "1X"},
        {"block_size", "1MB"},
        {"block_size", "M"},
        {"min_free", "-1"},
        {"min_free", "17000000T"},
        {"table_share", "0.51"},
        {"table_share", "-0.1"},
        {"table_share", "nan"},
        {"table_share", "inf"},
        {"table_share", "0,1"},
        {"table_share", ""},
        {"table_share", "0x1"},
        {"interval_seconds", "1e999"},
        {"codec", "gzip"},
        {"codec", ""},
        {"codec", "zst"},
        {"codec", "auto|none"},
        {"direct", "ON"},
        {"on_error", "retry"},
        {"on_error", "retry:"},
        {"on_error", "retry:0"},
        {"on_error", "retry:1001"},
        {"on_error", "panic"},
        {"nonsense", "1"},
        {"", "1"},
        {"aggregate", "4097"},
        {"grouping", "aware_block"},
        {"group_block", "1023"},
        {"group_block", "65K"},
        {"match", "(a"},
        {"match", "((a{999}){999})"},
        {"signal", "KILL"},
        {"signal", "usr1"},
        {"interval", "300"},
        {"mtbf", "0"},
        {"end_time", "9000000001"},
    };
    vv_settings_init(&settings);
    struct vv_settings before = settings;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(set(bad[i].name, bad[i].value), VARVE_SETTING);
        assert_int_equal(error.code, VARVE_SETTING);
        assert_true(strncmp(error.text, "test: ", 6) == 0);
    }
    assert_memory_equal(&settings, &before, sizeof settings);
}

static void test_the_message_tells_what_is_allowed(void **state) {
    (void)state;
    vv_settings_init(&settings);
    set("block_size", "1");
    assert_string_equal(error.text, "test: block_size cannot be \"1\"; allowed is 64K to 16M, in bytes or with "
                                    "K, M, G or T after the number");
    set("direct", "maybe");
    assert_string_equal(error.text, "test: direct cannot be \"maybe\"; allowed is auto|on|off");
    set("interval_seconds", "-1");
    assert_string_equal(error.text, "test: interval_seconds cannot be \"-1\"; allowed is off, 0 or more");
    set("match", "rank(");
    assert_string_equal(error.text, "test: match cannot be \"rank(\": Unmatched ( or \\(");
    char longer[257] = "";
    memset(longer, 'x', 256);
    set("match", longer);
    assert_non_null(strstr(error.text, "longer than 255 bytes"));
    set("blok_size", "1M");
    assert_string_equal(error.text, "test: there is no setting \"blok_size\"; varve(5) lists all");
}

static void check_words(const char *name, int last) {
    const struct vv_setting *row = vv_setting_find(name);
    int bars = 0;
    for (const char *at = row->low; *at; at++)
        bars += *at == '|';
    assert_int_equal(bars, last);
}

/* The enums of settings.h follow the words of the table. */
static void test_choices_match_their_enums(void **state) {
    (void)state;
    vv_settings_init(&settings);
    check_words("codec", VV_CHOOSE_CODEC_NAMED + VV_CODING_NAMES - 1);
    check_words("grouping", VV_CHOOSE_GROUPING_AWARE_BLOCK);
    check_words("direct", VV_CHOOSE_DIRECT_OFF);
    check_words("interval", VV_CHOOSE_INTERVAL_ASKED);
    check_words("mode", VV_CHOOSE_MODE_UMASK);
    check_words("log", VV_LOG_TRACE);
    set("codec", "none");
    assert_int_equal(settings.codec, VV_CHOOSE_CODEC_NAMED + VV_CODING_NONE);
    set("codec", "lz4");
    assert_int_equal(settings.codec, VV_CHOOSE_CODEC_NAMED + VV_CODING_LZ4);
    set("direct", "on");
    assert_int_equal(settings.direct, VV_CHOOSE_DIRECT_ON);
    set("grouping", "agnostic-block");
    assert_int_equal(settings.grouping, VV_CHOOSE_GROUPING_AGNOSTIC_BLOCK);
    set("mode", "group");
    assert_int_equal(settings.mode, VV_CHOOSE_MODE_GROUP);
    for (int level = VV_LOG_ERROR; level <= VV_LOG_TRACE; level++) {
        set("log", vv_log_level_name(level));
        assert_int_equal(settings.log, level);
    }
}

static void test_values_are_shown(void **state) {
    (void)state;
    assert_int_equal(load("block_size=65536,part_size=1048577,table_share=0.125,codec=zstd,keep=7,on_error=retry:2"),
                     0);
    assert_string_equal(value_of("block_size"), "64K");
    assert_string_equal(value_of("part_size"), "1048577");
    assert_string_equal(value_of("table_share"), "0.125");
    assert_string_equal(value_of("codec"), "zstd");
    assert_string_equal(value_of("keep"), "7");
    assert_string_equal(value_of("on_error"), "retry:2");
    assert_string_equal(value_of("min_free"), "16M");
}

static void test_on_error(void **state) {
    (void)state;
    unsigned retries = 9;
    vv_settings_init(&settings);
    assert_int_equal(vv_settings_on_error(&settings, &retries), VV_ON_ERROR_FAIL);
    assert_int_equal(retries, 0);
    set("on_error", "warn");
    assert_int_equal(vv_settings_on_error(&settings, &retries), VV_ON_ERROR_WARN);
    set("on_error", "retry:12");
    assert_int_equal(vv_settings_on_error(&settings, &retries), VV_ON_ERROR_RETRY);
    assert_int_equal(retries, 12);
}

static void test_keep_one_becomes_two(void **state) {
    (void)state;
    assert_int_equal(load("keep=1"), 0);
    assert_int_equal(settings.keep, 2);
    assert_string_equal(value_of("keep"), "2");
}

static void test_keep_all(void **state) {
    (void)state;
    assert_int_equal(load("keep=all"), 0);
    assert_int_equal(settings.keep, 0);
    assert_string_equal(value_of("keep"), "all");
    assert_false(vv_setting_is_default(&settings, VV_SETTING_keep));
    assert_int_equal(load("keep=0"), 0);
    assert_string_equal(value_of("keep"), "all");
    assert_int_equal(load("keep=al"), VARVE_SETTING);
    assert_int_equal(load("threads=all"), VARVE_SETTING);
    assert_int_equal(load("threads=1"), 0);
    assert_true(vv_setting_is_default(&settings, VV_SETTING_keep));
}

/* Each word means what its number does, is what is shown for it, and is told in the help. */
static void test_words_for_numbers(void **state) {
    (void)state;
    static const struct {
        const char *name, *word, *number;
    } pairs[] = {
        {"keep", "all", "0"},           {"space", "off", "0"},
        {"copies", "auto", "0"},        {"aggregate", "auto", "0"},
        {"aggregate", "off", "1"},      {"staging", "auto", "0"},
        {"memory", "auto", "0"},        {"interval_seconds", "off", "0"},
        {"interval_share", "off", "0"}, {"fine", "auto", "0"},
        {"fine", "off", "1"},           {"end_time", "auto", "0"},
        {"end_time", "off", "1"},       {"tiers_keep", "all", "0"},
        {"queue", "auto", "0"},
    };
    static struct vv_settings by_word;
    size_t words = 0;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        char told[40];
        vv_settings_init(&settings);
        assert_int_equal(set(pairs[i].name, pairs[i].word), 0);
        by_word = settings;
        vv_settings_init(&settings);
        assert_int_equal(set(pairs[i].name, pairs[i].number), 0);
        assert_memory_equal(&settings, &by_word, sizeof settings);
        assert_string_equal(value_of(pairs[i].name), pairs[i].word);
        snprintf(told, sizeof told, "%s (or %s)", pairs[i].word, pairs[i].number);
        assert_non_null(strstr(vv_setting_find(pairs[i].name)->help, told));
        assert_int_equal(set(pairs[i].name, "maybe"), VARVE_SETTING);
    }
    for (size_t i = 0; vv_setting_at(i); i++)
        for (const char *at = vv_setting_at(i)->words; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
            words++;
    assert_int_equal(words, sizeof pairs / sizeof pairs[0]);
    assert_string_equal(error.text, "test: queue cannot be \"maybe\"; allowed is auto, 0 to 1024");
    set("fine", "of");
    assert_string_equal(error.text, "test: fine cannot be \"of\"; allowed is auto, off, 0 to 4096");
    set("staging", "off");
    assert_string_equal(error.text, "test: staging cannot be \"off\"; allowed is auto, 0 or more, in bytes or with "
                                    "K, M, G or T after the number");
    assert_int_equal(load("fine=3"), VARVE_SETTING);
    assert_string_equal(error.text, "fine (3, from program) must be auto, off, or a power of two from 32 to 4096");
    char little[8];
    vv_setting_allowed_text(vv_setting_find("aggregate"), little, sizeof little);
    assert_string_equal(little, "auto, o");
}

/* Everyday settings come first and are few; those for measuring come last. */
static void test_tiers(void **state) {
    (void)state;
    static const char *const names[] = {"everyday", "advanced", "measuring"};
    size_t count[3] = {0};
    enum vv_setting_tier last = VV_TIER_EVERYDAY;
    const struct vv_setting *row;
    for (size_t i = 0; (row = vv_setting_at(i)) != NULL; i++) {
        assert_true(row->tier >= last && row->tier <= VV_TIER_MEASURING);
        assert_string_equal(vv_setting_tier_text(row), names[row->tier]);
        last = row->tier;
        count[last]++;
    }
    assert_in_range(count[VV_TIER_EVERYDAY], 10, 15);
    assert_true(count[VV_TIER_ADVANCED] > 0 && count[VV_TIER_MEASURING] > 0);
    assert_int_equal(vv_setting_find("keep")->tier, VV_TIER_EVERYDAY);
    assert_int_equal(vv_setting_find("tracker")->tier, VV_TIER_ADVANCED);
    assert_int_equal(vv_setting_find("fine_method")->tier, VV_TIER_MEASURING);
}

/* Two lists with commas would be one: tiers has semicolons. */
static void test_tiers_with_commas(void **state) {
    (void)state;
    static const char *const wrong[] = {"tiers=a,",           "tiers=a,,b", "keep=3, tiers = a;b, c,threads=2",
                                        "tiers=a,,threads=2", "tiers=a,\n", "tiers=a, # nothing"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(load(wrong[i]), VARVE_SETTING);
        assert_non_null(strstr(error.text, "program: tiers has a stray comma"));
    }
    assert_int_equal(load("tiers=a;b,keep=3"), 0);
    assert_string_equal(settings.tiers, "a;b");
    assert_int_equal(load("tiers=a,\nkeep=3"), 0);
    assert_int_equal(load("tiers_keep=3,"), 0);
    static const char *const elsewhere[] = {"a,,b", "a,", ",a", "a,;b", "a;,b"};
    for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++) {
        setenv("VARVE_TIERS", elsewhere[i], 1);
        assert_int_equal(load(NULL), VARVE_SETTING);
        assert_string_equal(error.text,
                            "tiers (from environment) has a stray comma: put a semicolon between addresses");
    }
    setenv("VARVE_TIERS", "a,b;c", 1); /* an address may have one */
    assert_int_equal(load(NULL), 0);
    unsetenv("VARVE_TIERS");
}

static void test_text_of_the_program(void **state) {
    (void)state;
    assert_int_equal(load("keep=3,threads = 4\n# a comment, with a comma\n\n codec=lz4 # fast, not small\nlog=info,"),
                     0);
    assert_int_equal(settings.keep, 3);
    assert_int_equal(settings.threads, 4);
    assert_int_equal(settings.codec, VV_CHOOSE_CODEC_NAMED + VV_CODING_LZ4);
    assert_int_equal(settings.log, VV_LOG_INFO);
    assert_string_equal(origin_of("keep"), "program");
    assert_string_equal(origin_of("mode"), "default");

    assert_int_equal(load("keep=3,nothing"), VARVE_SETTING);
    assert_string_equal(error.text, "program: \"nothing\" is not of the form name=value");
    static const char *const keys[] = {"key 00112233445566778899aabbccddeeff", "00112233445566778899AABBCCDDEEFF00",
                                       "encrypt=00112233445566778899aabbccddeeff"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) { /* somebody's key, without what belongs before it */
        assert_int_equal(vv_settings_set_text(&settings, keys[i], "program", &error), VARVE_SETTING);
        assert_null(strstr(error.text, "0011"));
        assert_non_null(strstr(error.text, "(not shown)"));
    }
    assert_int_equal(load("speed=3"), VARVE_SETTING);
    assert_string_equal(error.text, "program: there is no setting \"speed\"; varve(5) lists all");
}

static void test_order_of_the_sources(void **state) {
    (void)state;
    write_file("config/varve/varve.conf", "keep=2\nthreads=2\nzstd_level=2\nbeat_seconds=2\n");
    write_file("varve.conf", "# here\nkeep=3\nthreads=3\nzstd_level=3\n");
    setenv("VARVE_KEEP", "5", 1);
    assert_int_equal(load("keep=4,threads=4"), 0);
    assert_int_equal(settings.keep, 5);
    assert_int_equal(settings.threads, 4);
    assert_int_equal(settings.zstd_level, 3);
    assert_int_equal(settings.beat_seconds, 2);
    assert_int_equal(settings.dead_seconds, 60);

    char expected[200];
    snprintf(expected, sizeof expected, "%s/config/varve/varve.conf:4", folder);
    assert_string_equal(origin_of("keep"), "environment");
    assert_string_equal(origin_of("threads"), "program");
    assert_string_equal(origin_of("zstd_level"), "varve.conf:4");
    assert_string_equal(origin_of("beat_seconds"), expected);
    assert_string_equal(origin_of("dead_seconds"), "default");
}

static void test_home_without_xdg(void **state) {
    (void)state;
    write_file("home/.config/varve/varve.conf", "keep=8\n");
    assert_int_equal(load(NULL), 0);
    assert_int_equal(settings.keep, 3);
    unsetenv("XDG_CONFIG_HOME");
    assert_int_equal(load(NULL), 0);
    assert_int_equal(settings.keep, 8);
    unsetenv("HOME");
    assert_int_equal(load(NULL), 0);
    assert_int_equal(settings.keep, 3);
}

static void test_one_file_instead_of_three(void **state) {
    (void)state;
    write_file("varve.conf", "keep=3\nthreads=3\n");
    write_file("other.conf", "keep=9");
    setenv("VARVE_CONFIG", "other.conf", 1);
    assert_int_equal(load(NULL), 0);
    assert_string_equal(heard, "");
    assert_int_equal(settings.keep, 9);
    assert_int_equal(settings.threads, 2);

    setenv("VARVE_CONFIG", "missing.conf", 1);
    assert_int_equal(load(NULL), -ENOENT);
    assert_string_equal(error.text, "cannot read settings from missing.conf: No such file or directory");
}

static void test_errors_name_file_and_line(void **state) {
    (void)state;
    write_file("varve.conf", "# ours\nkeep=3\nspeed=11\n");
    assert_int_equal(load(NULL), VARVE_SETTING);
    assert_string_equal(error.text, "varve.conf:3: there is no setting \"speed\"; varve(5) lists all");
    write_file("varve.conf", "keep=many");
    assert_int_equal(load(NULL), VARVE_SETTING);
    assert_string_equal(error.text, "varve.conf:1: keep cannot be \"many\"; allowed is all, 0 to 1000000");
    write_file("varve.conf", "\n\nkeep\n");
    assert_int_equal(load(NULL), VARVE_SETTING);
    assert_string_equal(error.text, "varve.conf:3: \"keep\" is not of the form name=value");
}

static void test_long_lines_are_refused(void **state) {
    (void)state;
    char text[3000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    write_file("varve.conf", text);
    assert_int_equal(load(NULL), VARVE_SETTING);
    unlink("varve.conf");
    assert_int_equal(load(text), VARVE_SETTING);
}

static void test_a_usual_file_that_cannot_be_read_is_a_warning(void **state) {
    (void)state;
    assert_int_equal(mkdir("varve.conf", 0700), 0);
    assert_int_equal(load("keep=4"), 0);
    assert_int_equal(settings.keep, 4);
    assert_non_null(strstr(heard, "the settings in varve.conf are not obeyed: it is not a plain file"));
    rmdir("varve.conf");
}

static void test_environment(void **state) {
    (void)state;
    setenv("VARVE_BLOCK_SIZE", "2M", 1);
    setenv("VARVE_THREADS", "", 1);
    setenv("VARVE_FAULT_LIST", "x", 1);
    setenv("VARVE_KEEPS", "3", 1);
    setenv("VARVE_keep", "7", 1);
    setenv("VARVE_", "3", 1);
    setenv("VARVES", "3", 1);
    assert_int_equal(load(NULL), 0);
    assert_true(settings.block_size == 2 << 20);
    assert_int_equal(settings.threads, 2);
    assert_int_equal(settings.keep, 3);
    assert_non_null(strstr(heard, "the environment has VARVE_KEEPS, which is no setting of Varve\n"));
    assert_non_null(strstr(heard, "the environment has VARVE_keep, "));
    assert_non_null(strstr(heard, "the environment has VARVE_, "));
    assert_null(strstr(heard, "VARVE_FAULT_LIST"));
    assert_null(strstr(heard, "VARVES"));

    setenv("VARVE_THREADS", "65", 1);
    assert_int_equal(load(NULL), VARVE_SETTING);
    assert_string_equal(error.text, "environment: threads cannot be \"65\"; allowed is 0 to 64");
}

/* A text ends a setting at a comma or a #, a file at a #, the environment nowhere. */
static void test_where_a_pattern_may_have_commas(void **state) {
    (void)state;
    assert_int_equal(load("keep=3,match=^a=([0-9]+)$,threads=1"), 0);
    assert_string_equal(settings.match, "^a=([0-9]+)$");
    assert_int_equal(settings.threads, 1);
    assert_int_equal(load("match=a{1,2}"), VARVE_SETTING);
    write_file("varve.conf", "match = a{1,2} # once or twice\n");
    assert_int_equal(load(NULL), 0);
    assert_string_equal(settings.match, "a{1,2}");
    assert_int_equal(load("match="), 0);
    assert_string_equal(settings.match, "");
    setenv("VARVE_MATCH", "#(a{1,3})", 1);
    assert_int_equal(load("match=b"), 0);
    assert_string_equal(settings.match, "#(a{1,3})");
}

static void test_dead_is_later_than_heartbeat(void **state) {
    (void)state;
    assert_int_equal(load("beat_seconds=60"), VARVE_SETTING);
    assert_string_equal(error.text,
                        "dead_seconds (60, from default) must be more than beat_seconds (60, from program)");
    assert_int_equal(load("beat_seconds=60,dead_seconds=61"), 0);
    assert_int_equal(load("capture=trap,tracker=scan"), VARVE_SETTING);
    assert_non_null(strstr(error.text, "capture=trap (from program)"));
    assert_int_equal(load("capture=trap,tracker=none"), VARVE_SETTING);
    assert_int_equal(load("capture=trap,tracker=trap-uffd"), 0);
}

/* A program in a language with decimal commas reads and shows the same numbers. */
static void test_language_does_not_matter(void **state) {
    (void)state;
    static const char *const languages[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "fr_FR"};
    const char *found = NULL;
    for (size_t i = 0; i < sizeof languages / sizeof languages[0] && !found; i++)
        found = setlocale(LC_ALL, languages[i]);
    if (!found)
        skip();
    assert_int_equal(load("table_share=0.25"), 0);
    assert_true(settings.table_share == 0.25);
    assert_string_equal(value_of("table_share"), "0.25");
    setlocale(LC_ALL, "C");
}

#define CLEAN(test) cmocka_unit_test_setup(test, start_clean)

int main(void) {
    const struct CMUnitTest tests[] = {
        CLEAN(test_defaults),
        CLEAN(test_table),
        CLEAN(test_values_that_are_taken),
        CLEAN(test_values_that_are_refused),
        CLEAN(test_the_message_tells_what_is_allowed),
        CLEAN(test_choices_match_their_enums),
        CLEAN(test_values_are_shown),
        CLEAN(test_on_error),
        CLEAN(test_keep_one_becomes_two),
        CLEAN(test_keep_all),
        CLEAN(test_words_for_numbers),
        CLEAN(test_tiers),
        CLEAN(test_tiers_with_commas),
        CLEAN(test_text_of_the_program),
        CLEAN(test_order_of_the_sources),
        CLEAN(test_home_without_xdg),
        CLEAN(test_one_file_instead_of_three),
        CLEAN(test_errors_name_file_and_line),
        CLEAN(test_long_lines_are_refused),
        CLEAN(test_a_usual_file_that_cannot_be_read_is_a_warning),
        CLEAN(test_environment),
        CLEAN(test_where_a_pattern_may_have_commas),
        CLEAN(test_dead_is_later_than_heartbeat),
        CLEAN(test_language_does_not_matter),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
