/* VELOC's configuration file: lines "key = value", and VELOC_KEY in the environment, which wins. */
#include "layer.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>

static const char *const meant[] = {"scratch", "persistent", "mode", "max_versions", "chksum", NULL};
/* Keys of VELOC for parts that Varve does not have, or does by itself. */
static const char *const idle[] = {"scratch_versions",
                                   "persistent_interval",
                                   "ec_interval",
                                   "watchdog_interval",
                                   "failure_domain",
                                   "axl_type",
                                   "meta",
                                   "aggregated",
                                   "threaded",
                                   "max_parallelism",
                                   "log_prefix",
                                   "daos_pool",
                                   "daos_cont",
                                   NULL};

struct reading {
    const char *path;
    int line;
    int is_in_section;
};

static int is_in(const char *key, const char *const *keys) {
    while (*keys && strcmp(*keys, key) != 0)
        keys++;
    return *keys != NULL;
}

static int refuse(const char *where, int line, const char *key, const char *value, const char *why) {
    return vl_fail("configuration", "%s, line %d: %s = %s: %s", where, line, key, value, why);
}

static void warn(const char *where, int line, const char *key, const char *why) {
    if (vl_layer.rank == 0 || vl_layer.comm == MPI_COMM_NULL)
        fprintf(stderr, "varve: %s, line %d: %s %s\n", where, line, key, why);
}

static int set_path(char **to, const char *value, const char *end) {
    size_t size = strlen(value) + strlen(end) + 1;
    char *path = malloc(size);
    if (!path)
        return -1;
    snprintf(path, size, "%s%s", value, end);
    free(*to);
    *to = path;
    return 0;
}

static int set_count(const char *value) {
    char *end;
    errno = 0;
    long count = strtol(value, &end, 10);
    if (end == value || *end != 0 || errno != 0 || count < 0 || count > 1000000)
        return -1;
    snprintf(vl_layer.settings, sizeof vl_layer.settings, "keep=%ld", count);
    return 0;
}

static int set(const char *where, int line, const char *key, const char *value) {
    if (*value == 0)
        return refuse(where, line, key, value, "there is no value");
    if (strcmp(key, "scratch") == 0)
        return set_path(&vl_layer.scratch, value, "") == 0 ? 0 : refuse(where, line, key, value, "no memory");
    if (strcmp(key, "persistent") == 0)
        return set_path(&vl_layer.store, value, "/varve") == 0 ? 0 : refuse(where, line, key, value, "no memory");
    if (strcmp(key, "mode") == 0) {
        vl_layer.is_sync = strcmp(value, "sync") == 0;
        if (!vl_layer.is_sync && strcmp(value, "async") != 0)
            return refuse(where, line, key, value, "it is sync or async");
    }
    if (strcmp(key, "max_versions") == 0 && set_count(value) != 0)
        return refuse(where, line, key, value, "it is a number of checkpoints, or 0 to keep all");
    if (strcmp(key, "chksum") == 0)
        vl_layer.is_quick = strcasecmp(value, "false") == 0;
    return 0;
}

static char *trim(char *text) {
    size_t length;
    text += strspn(text, " \t");
    length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        text[--length] = 0;
    return text;
}

static void cut_comment(char *line) {
    for (char *at = line; (at = strchr(at, ';')) != NULL; at++)
        if (at == line || isspace((unsigned char)at[-1])) {
            *at = 0;
            return;
        }
}

static int read_line(struct reading *reading, char *line) {
    char *key, *value;
    if (!strchr(line, '\n') && strlen(line) > 2000)
        return vl_fail("configuration", "%s, line %d: it is longer than 2000 bytes", reading->path, reading->line);
    cut_comment(line);
    key = trim(line);
    if (*key == 0 || *key == '#')
        return 0;
    if (*key == '[') {
        reading->is_in_section = 1;
        return 0;
    }
    value = strpbrk(key, "=:");
    if (!value)
        return vl_fail("configuration", "%s, line %d: it is not \"key = value\": %s", reading->path, reading->line,
                       key);
    *value++ = 0;
    key = trim(key);
    if (reading->is_in_section || (!is_in(key, meant) && !is_in(key, idle)))
        warn(reading->path, reading->line, key, "is not a key of VELOC that this library knows: ignored");
    else if (is_in(key, idle))
        warn(reading->path, reading->line, key, "has no effect here; docs/from-veloc.md says why");
    else
        return set(reading->path, reading->line, key, trim(value));
    return 0;
}

static int read_file(const char *path) {
    struct reading reading = {.path = path};
    char line[2048];
    int rc = 0;
    FILE *file = fopen(path, "r");
    if (!file)
        return vl_fail("configuration", "%s: %s", path, strerror(errno));
    while (rc == 0 && fgets(line, sizeof line, file)) {
        reading.line++;
        rc = read_line(&reading, line);
    }
    if (rc == 0 && ferror(file))
        rc = vl_fail("configuration", "%s: it cannot be read", path);
    fclose(file);
    return rc;
}

static int read_environment(void) {
    char variable[64];
    for (const char *const *key = meant; *key; key++) {
        int length = snprintf(variable, sizeof variable, "VELOC_%s", *key);
        for (int i = 0; i < length; i++)
            variable[i] = (char)toupper((unsigned char)variable[i]);
        const char *value = getenv(variable);
        if (value && *value && set(variable, 0, *key, value) != 0)
            return -1;
    }
    return 0;
}

/* As VELOC does; the folder above must be there. */
static int make_persistent(void) {
    char *end = strrchr(vl_layer.store, '/');
    int rc = 0;
    *end = 0; /* the store is in it */
    if (mkdir(vl_layer.store, 0777) != 0 && errno != EEXIST)
        rc = vl_fail("configuration", "persistent = %s: %s", vl_layer.store, strerror(errno));
    *end = '/';
    return rc;
}

int vl_configure(const char *path) {
    snprintf(vl_layer.settings, sizeof vl_layer.settings, "keep=0"); /* VELOC keeps all unless told */
    vl_layer.is_sync = 1;
    if ((path && *path && read_file(path) != 0) || read_environment() != 0)
        return -1;
    if (!vl_layer.store)
        return vl_fail("configuration", "%s: there is no key persistent: where are checkpoints kept?",
                       path ? path : "");
    return make_persistent();
}
