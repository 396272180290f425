/* One line of a log: a JSON object whose members are texts and numbers. Others, and what is too long, are refused. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "report/report.h"

struct scan {
    const char *at, *end;
};

static int is_next(struct scan *scan, char c) {
    while (scan->at < scan->end && (*scan->at == ' ' || *scan->at == '\t'))
        scan->at++;
    if (scan->at >= scan->end || *scan->at != c)
        return 0;
    scan->at++;
    return 1;
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* What follows a backslash; characters above 127 in this form, which no log of ours has, become a question mark. */
static int unescape(struct scan *scan, char *out) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    unsigned value = 0;
    char c = *scan->at++;
    const char *found = memchr(from, c, sizeof from - 1);
    if (found) {
        *out = to[found - from];
        return 0;
    }
    if (c != 'u' || scan->end - scan->at < 4)
        return -EINVAL;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(*scan->at++);
        if (digit < 0)
            return -EINVAL;
        value = value << 4 | (unsigned)digit;
    }
    *out = value > 0 && value < 128 ? (char)value : '?';
    return 0;
}

/* What does not fit is cut. */
static int scan_text(struct scan *scan, char *out, size_t capacity) {
    size_t used = 0;
    if (!is_next(scan, '"'))
        return -EINVAL;
    while (scan->at < scan->end && *scan->at != '"') {
        char c = *scan->at++;
        if (c == '\0' || (c == '\\' && (scan->at >= scan->end || unescape(scan, &c) < 0)))
            return -EINVAL;
        if (used + 1 < capacity)
            out[used++] = c;
    }
    out[used] = '\0';
    return is_next(scan, '"') ? 0 : -EINVAL;
}

static int scan_number(struct scan *scan, struct report_member *out) {
    char text[48], *end;
    size_t length = 0;
    while (scan->at < scan->end && memchr("+-.0123456789eE", *scan->at, 15) && length + 1 < sizeof text)
        text[length++] = *scan->at++;
    text[length] = '\0';
    if (length == 0 || !(isdigit((unsigned char)text[0]) || text[0] == '-'))
        return -EINVAL;
    out->number = strtod(text, &end);
    if (*end != '\0')
        return -EINVAL;
    errno = 0;
    out->whole = text[0] == '-' ? 0 : strtoull(text, &end, 10);
    if (*end != '\0' || errno)
        out->whole = 0;
    return 0;
}

int report_line(const char *text, size_t length, report_member_fn fn, void *arg) {
    struct scan scan = {text, text + length};
    struct report_member member;
    if (!is_next(&scan, '{'))
        return -EINVAL;
    if (is_next(&scan, '}'))
        return scan.at == scan.end ? 0 : -EINVAL;
    do {
        memset(&member, 0, sizeof member);
        if (scan_text(&scan, member.key, sizeof member.key) < 0 || !is_next(&scan, ':'))
            return -EINVAL;
        while (scan.at < scan.end && *scan.at == ' ')
            scan.at++;
        member.is_text = scan.at < scan.end && *scan.at == '"';
        if ((member.is_text ? scan_text(&scan, member.text, sizeof member.text) : scan_number(&scan, &member)) < 0)
            return -EINVAL;
        fn(arg, &member);
    } while (is_next(&scan, ','));
    return is_next(&scan, '}') && scan.at == scan.end ? 0 : -EINVAL;
}
