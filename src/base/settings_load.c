/* Where settings come from: text, files, environment, and their order. Each source overwrites what weaker ones set.
 *
 * Settings decide what is removed and who may read new files, so a file counts only if nobody but us and the superuser
 * can have written it: the working directory may be one where everybody makes files. A program that runs with other
 * rights than its caller (set-user-ID) takes nothing from the caller's environment. */
#include "base/error.h"
#include "base/settings.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define ITEM_BYTES 1024
#define PREFIX "VARVE_"

/* Variables of ours that are not settings. */
static const char *const other_variables[] = {
    "VARVE_CONFIG",          "VARVE_STORE",           "VARVE_DOMAIN",       "VARVE_FAULT",
    "VARVE_FAULT_LIST",      "VARVE_FAIL_ALLOC",      "VARVE_PORT",         "VARVE_SECRET",
    "VARVE_SECRET_FILE",     "VARVE_CONNECT_SECONDS", "VARVE_PEER_SECONDS", "VARVE_PRELOAD_LEAST",
    "VARVE_PRELOAD_INCLUDE", "VARVE_PRELOAD_EXCLUDE"};

static char *trim(char *text) {
    while (isspace((unsigned char)*text))
        text++;
    size_t size = strlen(text);
    while (size && isspace((unsigned char)text[size - 1]))
        size--;
    text[size] = '\0';
    return text;
}

/* "name = value  # comment", which is changed. */
static int set_item(struct vv_settings *settings, char *item, const char *origin, struct varve_error *error) {
    item[strcspn(item, "#")] = '\0';
    item = trim(item);
    if (!*item)
        return 0;
    char *equals = strchr(item, '=');
    if (!equals)
        return vv_error(error, VARVE_SETTING, "%s: \"%s\" is not of the form name=value", origin,
                        vv_settings_may_show_key(item) ? "(not shown)" : item);
    *equals = '\0';
    return vv_settings_set(settings, trim(item), trim(equals + 1), origin, error);
}

/* Commas end settings, and tiers are a list of their own: a comma that no setting follows was meant for that list. */
static int check_comma(const char *item, const char *after, const char *origin, struct varve_error *error) {
    const char *next = after + 1;
    item += strspn(item, " \t\n");
    if (strncmp(item, "tiers", 5) != 0 || item[5 + strspn(item + 5, " \t")] != '=')
        return 0;
    while (next += strspn(next, " \t\n"), *next == '#')
        next += strcspn(next, "\n");
    size_t size = strcspn(next, ",\n#");
    if (memchr(next, '=', size))
        return 0;
    return vv_error(error, VARVE_SETTING,
                    "%s: tiers has a stray comma before \"%.*s\": a semicolon is between addresses, and a comma only "
                    "before another setting",
                    origin, (int)(size < 60 ? size : 60), next);
}

int vv_settings_set_text(struct vv_settings *settings, const char *text, const char *origin,
                         struct varve_error *error) {
    char item[ITEM_BYTES];
    while (*text) {
        size_t size = strcspn(text, ",\n#");
        if (size >= sizeof item)
            return vv_error(error, VARVE_SETTING, "%s: a setting is longer than %d bytes", origin, ITEM_BYTES - 1);
        memcpy(item, text, size);
        item[size] = '\0';
        int rc = text[size] == ',' ? check_comma(item, text + size, origin, error) : 0;
        if (rc == 0)
            rc = set_item(settings, item, origin, error);
        if (rc < 0)
            return rc;
        text += size;
        text += *text == '#' ? strcspn(text, "\n") : 0; /* a comment may hold commas */
        text += *text ? 1 : 0;
    }
    return 0;
}

static int set_lines(struct vv_settings *settings, FILE *file, const char *path, struct varve_error *error) {
    char line[ITEM_BYTES];
    char origin[VV_SETTING_ORIGIN_BYTES];
    for (int number = 1; fgets(line, sizeof line, file); number++) {
        snprintf(origin, sizeof origin, "%s:%d", path, number);
        if (!strchr(line, '\n') && strlen(line) == sizeof line - 1)
            return vv_error(error, VARVE_SETTING, "%s: the line is longer than %d bytes", origin, ITEM_BYTES - 2);
        int rc = set_item(settings, line, origin, error);
        if (rc < 0)
            return rc;
    }
    return ferror(file) ? vv_error_sys(error, -errno, "cannot read settings from %s", path) : 0;
}

static int refuse_file(struct varve_error *error, const char *path, const char *why) {
    return vv_error(error, -EPERM, "the settings in %s are not obeyed: %s", path, why);
}

static int check_file(int fd, const char *path, struct varve_error *error) {
    char why[80];
    struct stat st;
    if (fstat(fd, &st) < 0)
        return vv_error_sys(error, -errno, "cannot read settings from %s", path);
    if (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3))
        return 0; /* /dev/null: VARVE_CONFIG names it to have no file at all */
    if (!S_ISREG(st.st_mode))
        return refuse_file(error, path, "it is not a plain file");
    if (st.st_uid != geteuid() && st.st_uid != 0) {
        snprintf(why, sizeof why, "it belongs to user %u", (unsigned)st.st_uid);
        return refuse_file(error, path, why);
    }
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return refuse_file(error, path, "others may write to it (chmod go-w)");
    return 0;
}

/* Without waiting for whoever is at the other end of a pipe. */
static int open_file(const char *path, int may_be_link, struct varve_error *error) {
    int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (may_be_link ? 0 : O_NOFOLLOW);
    int fd = open(path, flags);
    if (fd < 0 && errno == ELOOP)
        return refuse_file(error, path, "it is a link");
    if (fd < 0)
        return vv_error_sys(error, -errno, "cannot read settings from %s", path);
    int rc = check_file(fd, path, error);
    if (rc < 0)
        close(fd);
    return rc < 0 ? rc : fd;
}

int vv_settings_set_file(struct vv_settings *settings, const char *path, int may_be_link, struct varve_error *error) {
    int fd = open_file(path, may_be_link, error);
    if (fd < 0)
        return fd;
    FILE *file = fdopen(fd, "r");
    if (!file) {
        close(fd);
        return vv_error_sys(error, -ENOMEM, "cannot read settings from %s", path);
    }
    int rc = set_lines(settings, file, path, error);
    fclose(file);
    return rc;
}

static int is_other_variable(const char *name) {
    for (size_t i = 0; i < sizeof other_variables / sizeof other_variables[0]; i++)
        if (!strcmp(other_variables[i], name))
            return 1;
    return 0;
}

/* "VARVE_BLOCK_SIZE" to "block_size"; an empty name if it is no setting. */
static void to_setting_name(const char *variable, char *out, size_t capacity) {
    const char *from = variable + strlen(PREFIX);
    size_t size = strlen(from);
    out[0] = '\0';
    if (size >= capacity)
        return;
    for (size_t i = 0; i <= size; i++) {
        if (islower((unsigned char)from[i])) {
            out[0] = '\0';
            return;
        }
        out[i] = (char)tolower((unsigned char)from[i]);
    }
}

static int set_variable(struct vv_settings *settings, const char *entry, const struct vv_log *log,
                        struct varve_error *error) {
    char variable[64];
    char name[64];
    const char *equals = strchr(entry, '=');
    if (!equals)
        return 0;
    snprintf(variable, sizeof variable, "%.*s", (int)(equals - entry), entry);
    if (is_other_variable(variable))
        return 0;
    to_setting_name(variable, name, sizeof name);
    if (!vv_setting_find(name)) {
        vv_log(log, VV_LOG_WARN, "the environment has %s, which is no setting of Varve", variable);
        return 0;
    }
    return equals[1] ? vv_settings_set(settings, name, equals + 1, "environment", error) : 0;
}

int vv_settings_set_environment(struct vv_settings *settings, const struct vv_log *log, struct varve_error *error) {
    int is_secure = getauxval(AT_SECURE) != 0; /* as secure_getenv asks it */
    int rc = 0;
    for (char **entry = environ; entry && *entry && rc == 0; entry++) {
        if (strncmp(*entry, PREFIX, strlen(PREFIX)) != 0)
            continue;
        if (is_secure) {
            vv_log(log, VV_LOG_WARN,
                   "settings in the environment are not obeyed: the program runs with other rights than its caller");
            return 0;
        }
        rc = set_variable(settings, *entry, log, error);
    }
    return rc;
}

/* A file that need not be there. One that is there but closed to us, or not to be trusted, is no reason to stop a job.
 * But it may be where a person has written keep=all (with a umask of 002, files are open to the group): see
 * keep_all_instead. */
static int set_usual_file(struct vv_settings *settings, const char *path, int may_be_link, int *is_refused,
                          const struct vv_log *log, struct varve_error *error) {
    struct varve_error own;
    vv_error_clear(&own);
    int rc = vv_settings_set_file(settings, path, may_be_link, &own);
    if (rc == -ENOENT || rc == -ENOTDIR)
        return 0;
    if (rc < 0 && rc != VARVE_SETTING) {
        vv_log(log, VV_LOG_WARN, "%s; no checkpoint is forgotten unless keep is set elsewhere", own.text);
        *is_refused = 1;
        return 0;
    }
    return rc < 0 ? vv_error(error, rc, "%s", own.text) : 0;
}

/* An empty path if there is no home. */
static void find_home_file(char *out, size_t capacity) {
    const char *config = secure_getenv("XDG_CONFIG_HOME");
    const char *home = secure_getenv("HOME");
    int size = 0;
    out[0] = '\0';
    if (config && *config)
        size = snprintf(out, capacity, "%s/varve/varve.conf", config);
    else if (home && *home)
        size = snprintf(out, capacity, "%s/.config/varve/varve.conf", home);
    if ((size_t)size >= capacity)
        out[0] = '\0';
}

static int set_files(struct vv_settings *settings, int *is_refused, const struct vv_log *log,
                     struct varve_error *error) {
    char home_file[PATH_MAX];
    const char *only = secure_getenv("VARVE_CONFIG");
    if (only && *only)
        return vv_settings_set_file(settings, only, 1, error);
    find_home_file(home_file, sizeof home_file);
    const char *const paths[] = {"/etc/varve.conf", home_file, "varve.conf"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        int may_be_link = paths[i][0] == '/'; /* in the working directory anybody may have made it */
        int rc = *paths[i] ? set_usual_file(settings, paths[i], may_be_link, is_refused, log, error) : 0;
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* A default must not remove what a file that was not obeyed may have told to keep. Too much on storage can be mended.
 */
static int keep_all_instead(struct vv_settings *settings, struct varve_error *error) {
    if (!vv_setting_is_default(settings, VV_SETTING_keep))
        return 0;
    return vv_settings_set(settings, "keep", "all", "a file was not obeyed", error);
}

int vv_settings_load(struct vv_settings *settings, const char *text, const struct vv_log *log,
                     struct varve_error *error) {
    int is_refused = 0;
    vv_settings_init(settings);
    int rc = set_files(settings, &is_refused, log, error);
    if (rc == 0 && text)
        rc = vv_settings_set_text(settings, text, "program", error);
    if (rc == 0)
        rc = vv_settings_set_environment(settings, log, error);
    if (rc == 0 && is_refused)
        rc = keep_all_instead(settings, error);
    if (rc == 0)
        rc = vv_settings_check(settings, error);
    return rc;
}
