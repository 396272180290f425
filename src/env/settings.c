/* What the environment says about the job. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "comm_env.h"

#define SECRET_LEAST 16 /* bytes: what is shorter can be guessed, by trying, from one connection */
#define SECRET_MOST 4096
#define SECONDS 60
#define SECONDS_MOST 1000000

int vv_env_refuse(struct varve_error *error, int code, const char *format, ...) {
    if (error) {
        va_list words;
        memset(error, 0, sizeof *error);
        error->code = code;
        error->rank = -1;
        va_start(words, format);
        vsnprintf(error->text, sizeof error->text, format, words);
        va_end(words);
    }
    return code;
}

/* A number of the environment; missing: `otherwise`, or an error if that is negative. */
static int read_number(const char *name, long least, long most, long otherwise, long *out, struct varve_error *error) {
    const char *text = secure_getenv(name);
    char *end;
    if (!text || !*text) {
        *out = otherwise;
        return otherwise >= 0 ? 0
                              : vv_env_refuse(error, -EINVAL,
                                              "%s is not set: start the job with torchrun, or set RANK, WORLD_SIZE, "
                                              "MASTER_ADDR and MASTER_PORT for each process",
                                              name);
    }
    errno = 0;
    *out = strtol(text, &end, 10);
    if (errno || *end || end == text || *out < least || *out > most)
        return vv_env_refuse(error, -EINVAL, "%s is \"%.40s\", and must be a number from %ld to %ld", name, text, least,
                             most);
    return 0;
}

/* ---- the secret ---- */

static int check_file(int fd, const char *path, struct varve_error *error) {
    struct stat about;
    if (fd < 0 || fstat(fd, &about) != 0)
        return vv_env_refuse(error, -errno, "VARVE_SECRET_FILE: %.200s: %s", path, strerror(errno));
    if (!S_ISREG(about.st_mode))
        return vv_env_refuse(error, -EINVAL, "VARVE_SECRET_FILE: %.200s is not a file", path);
    if (about.st_uid != geteuid() && about.st_uid != 0)
        return vv_env_refuse(error, -EPERM, "VARVE_SECRET_FILE: %.200s belongs to another user", path);
    if (about.st_mode & (S_IRWXG | S_IRWXO))
        return vv_env_refuse(error, -EPERM, "VARVE_SECRET_FILE: others than its owner may use %.200s: chmod 600 it",
                             path);
    return 0;
}

static int read_file(const char *path, char *out, size_t *size, struct varve_error *error) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int rc = check_file(fd, path, error);
    ssize_t got = rc ? 0 : read(fd, out, SECRET_MOST);
    if (rc == 0 && got < 0)
        rc = vv_env_refuse(error, -errno, "VARVE_SECRET_FILE: %.200s: %s", path, strerror(errno));
    if (rc == 0 && got == SECRET_MOST)
        rc = vv_env_refuse(error, -EFBIG, "VARVE_SECRET_FILE: %.200s has more than %d bytes", path, SECRET_MOST - 1);
    if (fd >= 0)
        close(fd);
    while (got > 0 && (out[got - 1] == '\n' || out[got - 1] == '\r'))
        got--;
    *size = got > 0 ? (size_t)got : 0;
    return rc;
}

/* told: the program's, or NULL: the environment's. */
static int read_secret(const char *told, char *out, size_t *size, struct varve_error *error) {
    const char *text = told ? told : secure_getenv("VARVE_SECRET"), *path = secure_getenv("VARVE_SECRET_FILE");
    *size = 0;
    if (text && *text) {
        *size = strlen(text);
        if (*size >= SECRET_MOST)
            return vv_env_refuse(error, -EFBIG, "VARVE_SECRET has more than %d bytes", SECRET_MOST - 1);
        memcpy(out, text, *size);
    } else if (!told && path && *path) {
        int rc = read_file(path, out, size, error);
        if (rc)
            return rc;
    } else {
        return 0;
    }
    if (*size < SECRET_LEAST)
        return vv_env_refuse(error, -EINVAL,
                             "the secret of the job has %zu bytes, and must have at least %d: "
                             "`openssl rand -hex 16` makes one",
                             *size, SECRET_LEAST);
    return 0;
}

/* Jobs that torchrun has given different names do not mix, whatever else they have in common. */
static int make_key(struct vv_env_plan *plan, const char *told, struct varve_error *error) {
    char secret[SECRET_MOST], text[512];
    size_t size;
    const char *name = secure_getenv("TORCHELASTIC_RUN_ID");
    int rc = read_secret(told, secret, &size, error);
    if (rc)
        return rc;
    int length = snprintf(text, sizeof text, "varve job %s", name ? name : "");
    rc = vv_env_mac_of(secret, size, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1, plan->key);
    OPENSSL_cleanse(secret, sizeof secret);
    return rc ? vv_env_refuse(error, rc, "libcrypto cannot compute HMAC-SHA256") : 0;
}

/* ---- where rank 0 is ---- */

static int is_loopback_text(const char *host) {
    struct sockaddr_storage address = {.ss_family = AF_INET};
    if (strcmp(host, "localhost") == 0)
        return 1;
    if (inet_pton(AF_INET, host, &((struct sockaddr_in *)&address)->sin_addr) == 1)
        return vv_env_is_loopback(&address);
    address.ss_family = AF_INET6;
    return inet_pton(AF_INET6, host, &((struct sockaddr_in6 *)&address)->sin6_addr) == 1 &&
           vv_env_is_loopback(&address);
}

static int take_host(struct vv_env_plan *plan, const char *host, const char *what, struct varve_error *error) {
    if (!host || !*host || strlen(host) >= sizeof plan->host)
        return vv_env_refuse(error, -EINVAL, "%s is %s: it names the host of rank 0", what,
                             host && *host ? "too long" : "not set");
    memcpy(plan->host, host, strlen(host) + 1);
    plan->is_loopback = is_loopback_text(host);
    return 0;
}

static int read_place(struct vv_env_plan *plan, struct varve_error *error) {
    long port = 0, of_master = 0;
    int rc = take_host(plan, secure_getenv("MASTER_ADDR"), "MASTER_ADDR", error);
    if (rc == 0)
        rc = read_number("VARVE_PORT", 1, 65535, 0, &port, error);
    if (rc == 0 && port == 0)
        rc = read_number("MASTER_PORT", 1, 65535, -1, &of_master, error);
    if (rc)
        return rc;
    if (port == 0)
        port = of_master + VARVE_ENV_PORT_OFFSET <= 65535 ? of_master + VARVE_ENV_PORT_OFFSET
                                                          : of_master - VARVE_ENV_PORT_OFFSET;
    plan->port = (uint16_t)port;
    return 0;
}

static int read_seconds(struct vv_env_plan *plan, struct varve_error *error) {
    long connect = 0, peer = 0;
    int rc = read_number("VARVE_CONNECT_SECONDS", 1, SECONDS_MOST, SECONDS, &connect, error);
    if (rc == 0)
        rc = read_number("VARVE_PEER_SECONDS", 1, SECONDS_MOST, SECONDS, &peer, error);
    plan->connect_seconds = (int)connect;
    plan->peer_seconds = (int)peer;
    return rc;
}

int vv_env_read_plan(struct vv_env_plan *plan, struct varve_error *error) {
    long rank = 0, ranks = 0;
    *plan = (struct vv_env_plan){0};
    int rc = read_number("WORLD_SIZE", 1, INT_MAX, -1, &ranks, error);
    if (rc == 0)
        rc = read_number("RANK", 0, ranks - 1, -1, &rank, error);
    if (rc == 0)
        rc = read_seconds(plan, error);
    if (rc == 0 && ranks > 1)
        rc = read_place(plan, error);
    if (rc == 0 && ranks > 1)
        rc = make_key(plan, NULL, error);
    plan->rank = (uint32_t)rank;
    plan->ranks = (uint32_t)ranks;
    return rc;
}

int vv_env_take_plan(const struct varve_env *self, struct vv_env_plan *plan, struct varve_error *error) {
    *plan = (struct vv_env_plan){0};
    if (self->size < sizeof *self || self->ranks > INT_MAX || self->rank >= self->ranks)
        return vv_env_refuse(error, -EINVAL, "rank %u of %u ranks, and a struct varve_env of %zu bytes, cannot be",
                             self->rank, self->ranks, self->size);
    if (self->ranks > 1 && self->port == 0)
        return vv_env_refuse(error, -EINVAL, "the port of rank 0 is not told");
    if (self->secret && !*self->secret)
        return vv_env_refuse(error, -EINVAL, "the secret that the program has told is empty: NULL means none");
    int rc = read_seconds(plan, error);
    if (rc == 0 && self->ranks > 1)
        rc = take_host(plan, self->host, "the host that the program has told", error);
    if (rc == 0 && self->ranks > 1)
        rc = make_key(plan, self->secret ? self->secret : "", error);
    plan->rank = self->rank;
    plan->ranks = self->ranks;
    plan->port = self->port;
    return rc;
}
