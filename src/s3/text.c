/* Strings that grow, and words for errors. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "s3_private.h"

static int text_reserve(struct vv_s3_text *text, size_t more) {
    if (text->failed || more > SIZE_MAX / 4 - text->size)
        return text->failed = -ENOMEM;
    size_t needed = text->size + more + 1;
    if (needed <= text->capacity)
        return 0;
    size_t capacity = needed < 256 ? 256 : needed + needed / 2;
    char *data = realloc(text->data, capacity);
    if (!data)
        return text->failed = -ENOMEM;
    text->data = data;
    text->capacity = capacity;
    return 0;
}

void vv_s3_text_add(struct vv_s3_text *text, const void *data, size_t size) {
    if (text_reserve(text, size) < 0)
        return;
    if (size)
        memcpy(text->data + text->size, data, size);
    text->size += size;
    text->data[text->size] = '\0';
}

void vv_s3_text_print(struct vv_s3_text *text, const char *format, ...) {
    va_list words, again;
    va_start(words, format);
    va_copy(again, words);
    int size = vsnprintf(NULL, 0, format, words);
    if (size >= 0 && text_reserve(text, (size_t)size) == 0) {
        vsnprintf(text->data + text->size, (size_t)size + 1, format, again);
        text->size += (size_t)size;
    }
    va_end(again);
    va_end(words);
}

void vv_s3_text_clear(struct vv_s3_text *text) {
    free(text->data);
    *text = (struct vv_s3_text){0};
}

void vv_s3_text_encode(struct vv_s3_text *text, const char *value, int keep_slash) {
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    for (; *value; value++)
        if (strchr(plain, *value) || (keep_slash && *value == '/'))
            vv_s3_text_add(text, value, 1);
        else
            vv_s3_text_print(text, "%%%02X", (unsigned)(unsigned char)*value);
}

int vv_s3_refuse(struct varve_error *error, int code, const char *format, ...) {
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
