/* ./varve.conf was obeyed whoever had made it: keep=2 and mode=umask, planted in a shared folder, removed checkpoints
 * and made new ones readable for all; a pipe of that name hung the program. Only a plain file that nobody but us and
 * the superuser can have written counts; any other is ignored with a warning that names it. A set-user-ID program takes
 * nothing from the environment.
 *
 * A file that is not obeyed may have said keep=all (with a umask of 002, an editor makes it writable for the group).
 * The default then removed what it told to keep: now nothing is forgotten unless keep is set elsewhere. */
#include "session.h"

#include <sys/auxv.h>

#include "base/settings.h"

static char heard[4096];
static int warnings;

static void hear(void *arg, int level, const char *line) {
    (void)arg;
    warnings += level == VV_LOG_WARN;
    snprintf(heard, sizeof heard, "%s", line);
}

static int standard_keep(void) {
    struct vv_settings settings;
    vv_settings_init(&settings);
    return settings.keep;
}

/* What keep is after all files were read. */
static int load(int expected) {
    struct vv_log log = {.level = VV_LOG_WARN, .rank = -1, .fn = hear};
    struct vv_settings settings;
    warnings = 0;
    heard[0] = '\0';
    assert_int_equal(vv_settings_load(&settings, NULL, &log, &found_error), expected);
    return expected < 0 ? -1 : settings.keep;
}

static int setup(void **state) {
    clearenv();
    return found_setup(state) || chdir(found_folder);
}

static int teardown(void **state) {
    return chdir("/") || found_teardown(state);
}

static void assert_ignored(const char *why) {
    assert_int_equal(load(0), 0); /* neither what it says nor the default: nothing is removed */
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(heard, "varve.conf"));
    assert_non_null(strstr(heard, why));
}

static void test_own_file(void **state) {
    (void)state;
    found_write("varve.conf", "keep = 7\n", 0644);
    assert_int_equal(load(0), 7);
    assert_int_equal(warnings, 0);
}

static void test_file_that_others_may_write(void **state) {
    (void)state;
    found_write("varve.conf", "keep = 7\n", 0664);
    assert_ignored("others may write");
    assert_int_equal(chmod("varve.conf", 0646), 0);
    assert_ignored("others may write");
}

/* What somebody else has said about keep counts, whatever lies in the working directory. */
static void test_keep_set_elsewhere(void **state) {
    struct vv_log log = {.level = VV_LOG_WARN, .rank = -1, .fn = hear};
    struct vv_settings settings;
    (void)state;
    found_write("varve.conf", "keep = all\n", 0664);
    assert_int_equal(vv_settings_load(&settings, "keep=5", &log, &found_error), 0);
    assert_int_equal(settings.keep, 5);
    setenv("VARVE_KEEP", "4", 1);
    assert_int_equal(vv_settings_load(&settings, NULL, &log, &found_error), 0);
    assert_int_equal(settings.keep, 4);
}

static void test_file_of_another_user(void **state) {
    (void)state;
    if (geteuid() != 0)
        skip();
    found_write("varve.conf", "keep = 7\n", 0644);
    assert_int_equal(chown("varve.conf", STRANGER, STRANGER), 0);
    assert_ignored("belongs to user 65534");
}

static void test_link(void **state) {
    (void)state;
    found_write("other", "keep = 7\n", 0644);
    assert_int_equal(symlink("other", "varve.conf"), 0);
    assert_ignored("is a link");
}

static void test_pipe(void **state) {
    (void)state;
    assert_int_equal(mkfifo("varve.conf", 0644), 0);
    assert_ignored("not a plain file");
}

static void test_folder(void **state) {
    (void)state;
    assert_int_equal(mkdir("varve.conf", 0755), 0);
    assert_ignored("not a plain file");
}

/* In the home of the user a link is the user's own, and what it leads to is looked at. */
static void test_file_at_home(void **state) {
    (void)state;
    setenv("XDG_CONFIG_HOME", found_folder, 1);
    assert_int_equal(mkdir("varve", 0755), 0);
    found_write("dots", "keep = 7\n", 0644);
    assert_int_equal(symlink("../dots", "varve/varve.conf"), 0);
    assert_int_equal(load(0), 7);
    assert_int_equal(chmod("dots", 0666), 0);
    assert_ignored("others may write");
}

/* What was asked for by name is not left out silently. */
static void test_file_by_name(void **state) {
    (void)state;
    setenv("VARVE_CONFIG", "given", 1);
    found_write("given", "keep = 7\n", 0600);
    assert_int_equal(load(0), 7);
    assert_int_equal(chmod("given", 0622), 0);
    load(-EPERM);
    assert_non_null(strstr(found_error.text, "given"));
    assert_int_equal(unlink("given"), 0);
    assert_int_equal(mkfifo("given", 0600), 0);
    load(-EPERM);
    setenv("VARVE_CONFIG", "/dev/null", 1); /* no file at all */
    assert_int_equal(load(0), standard_keep());
}

/* ---- a program with other rights than its caller ---- */

static int run_secure(void) {
    struct vv_settings settings;
    if (!getauxval(AT_SECURE))
        return 77; /* mounted so that the bit means nothing */
    if (vv_settings_load(&settings, NULL, NULL, NULL) < 0)
        return 1;
    return settings.keep == standard_keep() ? 0 : 2;
}

static void copy_self(const char *path) {
    char buffer[65536];
    int from = open("/proc/self/exe", O_RDONLY), to = open(path, O_WRONLY | O_CREAT | O_EXCL, 0755);
    assert_true(from >= 0 && to >= 0);
    for (ssize_t size; (size = read(from, buffer, sizeof buffer)) > 0;)
        assert_int_equal(write(to, buffer, (size_t)size), size);
    assert_int_equal(fchmod(to, 04755), 0);
    close(from);
    close(to);
}

static void test_set_user_id(void **state) {
    (void)state;
    if (geteuid() != 0)
        skip();
    copy_self("helper");
    assert_int_equal(chmod(found_folder, 0755), 0);
    pid_t child = fork();
    if (child == 0) {
        setenv("VARVE_KEEP", "7", 1);
        setenv("VARVE_CONFIG", "missing", 1);
        if (setgid(STRANGER) < 0 || setuid(STRANGER) < 0)
            _exit(77);
        execl("./helper", "helper", "secure", (char *)NULL);
        _exit(77);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        TEST(test_own_file),
        TEST(test_file_that_others_may_write),
        TEST(test_file_of_another_user),
        TEST(test_link),
        TEST(test_pipe),
        TEST(test_folder),
        TEST(test_file_at_home),
        TEST(test_file_by_name),
        TEST(test_set_user_id),
        TEST(test_keep_set_elsewhere),
    };
    if (argc > 1 && strcmp(argv[1], "secure") == 0)
        return run_secure();
    alarm(30);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
