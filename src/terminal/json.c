#include "terminal/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "terminal/text.h"

static void put_quoted(const char *text) {
    const unsigned char *at = (const unsigned char *)text;

    putchar('"');
    while (*at) {
        size_t length = utf8_length((const char *)at);
        uint32_t point = length ? utf8_point((const char *)at, length) : 0xfffd;
        if (length == 0) {
            length = 1;
            fputs("\\ufffd", stdout);
        } else if (*at == '"' || *at == '\\') {
            printf("\\%c", *at);
        } else if (is_control_point(point)) { /* all of them below U+10000 */
            printf("\\u%04x", (unsigned)point);
        } else {
            fwrite(at, 1, length, stdout);
        }
        at += length;
    }
    putchar('"');
}

static void put_key(const char *key) {
    printf(",\"%s\":", key);
}

void json_begin(const char *message_type) {
    printf("{\"message_type\":\"%s\"", message_type);
}

void json_text(const char *key, const char *value) {
    put_key(key);
    put_quoted(value);
}

void json_u64(const char *key, uint64_t value) {
    put_key(key);
    printf("%" PRIu64, value);
}

void json_i64(const char *key, int64_t value) {
    put_key(key);
    printf("%" PRId64, value);
}

void json_bool(const char *key, int value) {
    put_key(key);
    fputs(value ? "true" : "false", stdout);
}

void json_number(const char *key, double value) {
    put_key(key);
    if (isfinite(value))
        printf("%.6g", value);
    else
        fputs("null", stdout);
}

void json_value(const char *key, double value) {
    put_key(key);
    if (isfinite(value))
        printf("%.17g", value);
    else
        fputs(isnan(value) ? "null" : value < 0 ? "\"-inf\"" : "\"inf\"", stdout);
}

void json_array(const char *key, const uint64_t *values, size_t count) {
    put_key(key);
    putchar('[');
    for (size_t i = 0; i < count; i++)
        printf("%s%" PRIu64, i ? "," : "", values[i]);
    putchar(']');
}

void json_time(const char *key, uint64_t ns) {
    char text[TIME_CAPACITY];

    put_key(key);
    if (ns == 0) {
        fputs("null", stdout);
        return;
    }
    text_time_utc(text, ns);
    put_quoted(text);
}

void json_checkpoint(const char *name, int64_t version, uint32_t generation) {
    json_text("name", name);
    json_i64("version", version);
    json_u64("generation", generation);
}

void json_end(void) {
    fputs("}\n", stdout);
    fflush(stdout);
}

void json_attribute(const char *name, int64_t version, uint32_t generation, const char *attribute, const char *value) {
    json_begin("attribute");
    json_checkpoint(name, version, generation);
    json_text("attribute", attribute);
    json_text("value", value);
    json_end();
}
