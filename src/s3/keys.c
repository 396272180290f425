/* Where the keys of access come from: AWS_ACCESS_KEY_ID and its fellows, or the file of credentials that other tools
 * use. No message here repeats what was read. */
#include <ctype.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "s3_private.h"

#define LINE_MOST 8192 /* tokens of sessions are long */

static const char *setting(const char *name) {
    const char *text = secure_getenv(name);
    return text && *text ? text : NULL;
}

static int is_clean(const char *text) {
    for (; *text; text++)
        if ((unsigned char)*text <= ' ' || (unsigned char)*text > '~')
            return 0;
    return 1;
}

static int take_key_text(char *out, size_t room, const char *value) {
    size_t size = strlen(value);
    if (size == 0 || size >= room || !is_clean(value))
        return -EINVAL;
    memcpy(out, value, size + 1);
    return 0;
}

static int take_token(struct vv_s3_keys *keys, const char *value) {
    free(keys->token);
    keys->token = *value && is_clean(value) ? strdup(value) : NULL;
    return keys->token || !*value ? 0 : -EINVAL; /* an empty one is none */
}

static int from_environment(struct vv_s3_keys *keys, struct varve_error *error) {
    const char *id = setting("AWS_ACCESS_KEY_ID"), *secret = setting("AWS_SECRET_ACCESS_KEY");
    const char *token = setting("AWS_SESSION_TOKEN");
    if (!id && !secret)
        return 0;
    if (!id || !secret)
        return vv_s3_refuse(error, VARVE_SETTING,
                            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY go together: %s is not set",
                            id ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID");
    if (take_key_text(keys->id, sizeof keys->id, id) < 0 ||
        take_key_text(keys->secret, sizeof keys->secret, secret) < 0 || (token && take_token(keys, token) < 0))
        return vv_s3_refuse(error, VARVE_SETTING,
                            "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY or AWS_SESSION_TOKEN is no key: a space, a line "
                            "end or too many characters");
    return 1;
}

static char *trim(char *text) {
    while (isspace((unsigned char)*text))
        text++;
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1]))
        *--end = '\0';
    return text;
}

static int take_line(struct vv_s3_keys *keys, char *line) {
    char *value = strchr(line, '=');
    if (!value)
        return 0;
    *value++ = '\0';
    char *name = trim(line);
    value = trim(value);
    if (strcmp(name, "aws_access_key_id") == 0)
        return take_key_text(keys->id, sizeof keys->id, value);
    if (strcmp(name, "aws_secret_access_key") == 0)
        return take_key_text(keys->secret, sizeof keys->secret, value);
    if (strcmp(name, "aws_session_token") == 0)
        return take_token(keys, value);
    return 0;
}

static int read_profile(FILE *file, const char *profile, struct vv_s3_keys *keys) {
    char *line = malloc(LINE_MOST);
    int is_inside = 0, rc = line ? 0 : -ENOMEM;
    while (rc == 0 && fgets(line, LINE_MOST, file)) {
        char *text = trim(line), *end = strchr(text, ']');
        if (*text == '[' && end) {
            *end = '\0';
            is_inside = strcmp(trim(text + 1), profile) == 0;
        } else if (is_inside && *text != '#' && *text != ';') {
            rc = take_line(keys, text);
        }
    }
    if (line)
        OPENSSL_cleanse(line, LINE_MOST);
    free(line);
    return rc;
}

static int from_file(struct vv_s3_keys *keys, struct varve_error *error) {
    char path[4096] = "";
    const char *given = setting("AWS_SHARED_CREDENTIALS_FILE"), *home = setting("HOME");
    const char *profile = setting("AWS_PROFILE");
    profile = profile ? profile : "default";
    if (given || home)
        snprintf(path, sizeof path, "%s%s", given ? given : home, given ? "" : "/.aws/credentials");
    FILE *file = *path ? fopen(path, "re") : NULL;
    if (!file)
        return vv_s3_refuse(error, VARVE_SETTING,
                            "no keys for s3://: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write them into "
                            "%.200s (%s)",
                            *path ? path : "~/.aws/credentials", *path ? strerror(errno) : "HOME is not set");
    int rc = read_profile(file, profile, keys);
    fclose(file);
    if (rc < 0 || !*keys->id || !*keys->secret)
        return vv_s3_refuse(error, VARVE_SETTING,
                            "%.200s has no aws_access_key_id and aws_secret_access_key that can be used in profile "
                            "%.60s",
                            path, profile);
    return 0;
}

int vv_s3_keys_load(struct vv_s3_keys *keys, struct varve_error *error) {
    *keys = (struct vv_s3_keys){0};
    int rc = from_environment(keys, error);
    if (rc == 0)
        rc = from_file(keys, error);
    if (rc < 0)
        vv_s3_keys_clear(keys);
    return rc < 0 ? rc : 0;
}

void vv_s3_keys_clear(struct vv_s3_keys *keys) {
    if (keys->token)
        OPENSSL_cleanse(keys->token, strlen(keys->token));
    free(keys->token);
    OPENSSL_cleanse(keys, sizeof *keys);
}
