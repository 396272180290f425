/* The key that a user gives: 32 bytes as 64 hexadecimal digits, from a file, the environment or a command. It is a
 * random key and no passphrase, so that nobody can find it by trying words. */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/settings.h"
#include "storage/keys_private.h"

#define TEXT_MAX 256 /* digits, and what white space may follow */

extern char **environ;

static int digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static int parse_key(const char *text, size_t size, const char *source, uint8_t key[VV_SEALED_KEY],
                     struct varve_error *error) {
    int is_key = 1;
    while (size > 0 && strchr(" \t\r\n", text[size - 1]))
        size--;
    for (size_t i = 0; i < 2 * VV_SEALED_KEY && is_key; i++)
        is_key = i < size && digit(text[i]) >= 0;
    if (!is_key || size != 2 * VV_SEALED_KEY)
        return vv_error(error, VARVE_SETTING,
                        "what key=%.200s gives is no key: a file, variable or command must give 64 hexadecimal digits, "
                        "as `openssl rand -hex 32` makes them",
                        source);
    for (size_t i = 0; i < VV_SEALED_KEY; i++)
        key[i] = (uint8_t)(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
    return 0;
}

/* Up to the end, or until text is full. */
static int64_t read_to_end(int fd, char *text, size_t capacity) {
    size_t size = 0;
    while (size < capacity) {
        ssize_t got = read(fd, text + size, capacity - size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        size += (size_t)got;
    }
    return (int64_t)size;
}

static int check_key_file(int fd, const char *path, struct varve_error *error) {
    struct stat st;
    if (fstat(fd, &st) < 0)
        return vv_error_sys(error, -errno, "cannot look at the key file %.300s", path);
    if (!S_ISREG(st.st_mode))
        return vv_error(error, VARVE_SETTING, "the key file %.300s is no plain file", path);
    if ((st.st_uid != geteuid() && st.st_uid != 0) || (st.st_mode & (S_IRWXO | S_IWGRP)))
        return vv_error(error, -EPERM,
                        "the key file %.300s belongs to somebody else, or others may read or write it: chmod 600",
                        path);
    return 0;
}

static int64_t read_file(const char *path, char *text, struct varve_error *error) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) /* -ENOENT would say that there is no store */
        return vv_error(error, VARVE_SETTING,
                        "there is no key file %.300s on this host; key may be file:PATH, env:NAME or command:TEXT",
                        path);
    if (fd < 0)
        return vv_error_sys(error, -errno, "cannot open the key file %.300s", path);
    int64_t size = check_key_file(fd, path, error);
    if (size == 0 && (size = read_to_end(fd, text, TEXT_MAX)) < 0)
        vv_error_sys(error, (int)size, "cannot read the key file %.300s", path);
    close(fd);
    return size;
}

static int64_t read_environment(const char *name, char *text, struct varve_error *error) {
    const char *value = secure_getenv(name);
    if (!value)
        return vv_error(error, VARVE_SETTING,
                        "the key shall come from the environment variable %.100s, which is not set; "
                        "key may be file:PATH, env:NAME or command:TEXT",
                        name);
    size_t size = strnlen(value, TEXT_MAX);
    memcpy(text, value, size);
    return (int64_t)size;
}

/* Its input is empty, its messages go where ours go. */
static int start(const char *command, int out_fd, pid_t *pid) {
    char *arguments[] = {"sh", "-c", (char *)command, NULL};
    posix_spawn_file_actions_t actions;
    int result = posix_spawn_file_actions_init(&actions);
    if (result)
        return -result;
    result = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (result == 0)
        result = posix_spawn_file_actions_adddup2(&actions, out_fd, STDOUT_FILENO);
    if (result == 0)
        result = posix_spawn(pid, "/bin/sh", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    return -result;
}

/* 0 if it has succeeded. A program that ignores SIGCHLD never learns that; then what came must do. */
static int wait_for(pid_t pid) {
    int status = 0;
    pid_t got;
    while ((got = waitpid(pid, &status, 0)) < 0 && errno == EINTR)
        ;
    return got < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0) ? 0 : -EIO;
}

static int64_t read_command(const char *command, char *text, struct varve_error *error) {
    int ends[2];
    pid_t pid;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return vv_error_sys(error, -errno, "cannot start the command that gives the key");
    int64_t size = start(command, ends[1], &pid);
    close(ends[1]);
    if (size == 0) {
        size = read_to_end(ends[0], text, TEXT_MAX);
        close(ends[0]);
        if (wait_for(pid) < 0)
            return vv_error(error, VARVE_SETTING,
                            "the command that shall give the key has failed: %.200s; "
                            "key may be file:PATH, env:NAME or command:TEXT",
                            command);
    } else {
        close(ends[0]);
    }
    return size < 0 ? vv_error_sys(error, (int)size, "cannot run the command that gives the key") : size;
}

int vv_key_read(const char *source, uint8_t key[VV_SEALED_KEY], struct varve_error *error) {
    char text[TEXT_MAX];
    int64_t size;
    if (strncmp(source, "file:", 5) == 0)
        size = read_file(source + 5, text, error);
    else if (strncmp(source, "env:", 4) == 0)
        size = read_environment(source + 4, text, error);
    else if (strncmp(source, "command:", 8) == 0)
        size = read_command(source + 8, text, error);
    else
        return vv_error(error, VARVE_SETTING, "key must be file:PATH, env:NAME or command:TEXT");
    int result = size < 0 ? (int)size : parse_key(text, (size_t)size, source, key, error);
    explicit_bzero(text, sizeof text);
    if (result < 0 && vv_settings_may_show_key(source))
        return vv_error(error, result,
                        "no key comes from where the setting key says, which is not shown, since it may be a key "
                        "itself; key may be file:PATH, env:NAME or command:TEXT");
    return result;
}
