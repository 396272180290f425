#include "base/error.h"

#include "base/printable.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct code {
    int code;
    const char *name, *text;
} codes[] = {
#define ROW(name, number, sentence) {number, #name, sentence},
    {VARVE_OK, "OK", "no error"}, VARVE_ERROR_MAP(ROW)
#undef ROW
};

/* NULL: it is one of the system's. */
static const struct code *find_code(int code) {
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (codes[i].code == code)
            return &codes[i];
    return NULL;
}

const char *varve_error_name(int code) {
    if (find_code(code))
        return find_code(code)->name;
    const char *name = code < 0 && code > -20000 ? strerrorname_np(-code) : NULL;
    return name ? name : "UNKNOWN";
}

const char *varve_error_text(int code) {
    if (find_code(code))
        return find_code(code)->text;
    /* strerrordesc_np and not strerror: its strings are constant, and the same in every language setting. */
    const char *text = code < 0 && code > -20000 ? strerrordesc_np(-code) : NULL;
    return text ? text : "unknown error";
}

static void fill(struct varve_error *error, int code, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

static void fill(struct varve_error *error, int code, const char *format, va_list args) {
    char raw[sizeof error->text];
    vsnprintf(raw, sizeof raw, format, args); /* the old text may be among what is told */
    error->code = code;
    error->rank = -1;
    vv_printable(raw, error->text, sizeof error->text);
}

int vv_error(struct varve_error *error, int code, const char *format, ...) {
    if (error) {
        va_list args;
        va_start(args, format);
        fill(error, code, format, args);
        va_end(args);
    }
    return code;
}

int vv_error_sys(struct varve_error *error, int code, const char *format, ...) {
    if (error) {
        va_list args;
        va_start(args, format);
        fill(error, code, format, args);
        va_end(args);
        size_t used = strlen(error->text);
        snprintf(error->text + used, sizeof error->text - used, ": %s%s", varve_error_text(code),
                 code == -ESTALE ? "; is the store's folder still there, and mounted?" : "");
    }
    return code;
}

int vv_error_default(struct varve_error *error, int code, const char *format, ...) {
    if (error && error->code == VARVE_OK) {
        va_list args;
        va_start(args, format);
        fill(error, code, format, args);
        va_end(args);
    }
    return code;
}

/* As a word: a folder named "a" is not named by every text. */
static int has_word(const char *text, const char *word) {
    size_t size = strlen(word);
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word))
        if ((at == text || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[size]))
            return 1;
    return 0;
}

/* What somebody has written in front of an @, as in a browser. */
static void hide_password(char *address) {
    char *begin = strstr(address, "://"), *at = NULL;
    if (!begin)
        return;
    begin += 3;
    for (char *c = begin; *c && *c != '/'; c++)
        at = *c == '@' ? c : at;
    if (at)
        memmove(begin, at + 1, strlen(at + 1) + 1);
}

int vv_error_store(struct varve_error *error, int code, const char *address) {
    char place[sizeof error->text], shown[sizeof error->text];
    if (!error || code >= 0)
        return code;
    snprintf(place, sizeof place, "%.*s", (int)strcspn(address, "?"), address);
    hide_password(place);
    vv_printable(place, shown, sizeof shown);
    const char *scheme = strstr(shown, "://");
    if (!*shown || has_word(error->text, scheme ? scheme + 3 : shown))
        return code;
    size_t used = strlen(error->text);
    snprintf(error->text + used, sizeof error->text - used, " (store %.300s)", shown);
    return code;
}

void vv_error_clear(struct varve_error *error) {
    if (error) {
        error->code = VARVE_OK;
        error->rank = -1;
        error->text[0] = '\0';
    }
}
