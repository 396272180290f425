/* Patterns are read and used byte by byte, whatever the language of the program: ranks whose languages differ must
 * come to the same numbers. */
#include "base/match.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#define ELEMENTS_MAX 200
#define DEPTH_MAX 16

struct vv_match {
    regex_t regex;
    int has_regex; /* or names are taken whole */
    locale_t bytes;
};

/* The C library copies what is to be repeated, once for a + and n times for {n}: a short pattern such as
 * (((a{999}){999}){999}) would fill the memory. So what it would make is counted first. */
struct cost {
    uint64_t sum[DEPTH_MAX]; /* of each group that is open, without its last element */
    uint64_t last[DEPTH_MAX];
    unsigned depth;
};

static void add_element(struct cost *cost, uint64_t size) {
    cost->sum[cost->depth] += cost->last[cost->depth];
    cost->last[cost->depth] = size;
}

static void close_group(struct cost *cost) {
    uint64_t size = cost->sum[cost->depth] + cost->last[cost->depth] + 1;
    cost->depth--;
    add_element(cost, size);
}

/* Behind {n,m}; the largest number in it repeats the last element so often. */
static const char *count_repeats(struct cost *cost, const char *brace) {
    uint64_t most = 1;
    const char *at = brace + 1;
    while (*at == ',' || (*at >= '0' && *at <= '9')) {
        char *end = NULL;
        uint64_t number = *at == ',' ? 0 : strtoull(at, &end, 10);
        most = number > most ? number : most;
        at = end ? end : at + 1;
    }
    cost->last[cost->depth] = most > ELEMENTS_MAX ? ELEMENTS_MAX + 1 : cost->last[cost->depth] * most;
    return *at == '}' ? at + 1 : at;
}

/* Behind [...], in which other signs mean nothing. */
static const char *behind_bracket(const char *at) {
    at += at[1] == '^' ? 2 : 1;
    at += *at == ']' ? 1 : 0;
    while (*at && *at != ']') {
        const char kind = *at == '[' && at[1] && strchr(":.=", at[1]) ? at[1] : '\0';
        at += kind ? 2 : 1;
        while (kind && *at && !(*at == kind && at[1] == ']'))
            at++;
        at += kind && *at ? 2 : 0;
    }
    return *at ? at + 1 : at;
}

/* One sign, or what belongs together; gives what is behind it. */
static const char *count_sign(struct cost *cost, const char *at) {
    if (*at == '{')
        return count_repeats(cost, at);
    if (*at == '[') {
        add_element(cost, 1);
        return behind_bracket(at);
    }
    if (*at == '(') {
        cost->depth++;
        cost->sum[cost->depth] = 0;
        cost->last[cost->depth] = 1;
    } else if (*at == ')' && cost->depth) {
        close_group(cost);
    } else if (*at == '+') {
        cost->last[cost->depth] *= 2;
    } else if (*at == '*' || *at == '?') {
        cost->last[cost->depth]++;
    } else {
        add_element(cost, 1);
        at += *at == '\\' && at[1] ? 1 : 0;
    }
    return at + 1;
}

static int is_repeat(char sign) {
    return sign == '*' || sign == '+' || sign == '?' || sign == '{';
}

/* What the standard leaves undefined is refused, too: with some of it the C library works for hours, or for ever. */
static int check_sign(const char *at, const char *before, struct varve_error *error) {
    if (*at == '\\' && isalnum((unsigned char)at[1]))
        return vv_error(error, -EINVAL, "\\%c is not known here", at[1]);
    if (is_repeat(*at) && before && is_repeat(*before))
        return vv_error(error, -EINVAL, "%c directly behind another repetition", *at);
    return 0;
}

static int check_cost(const char *pattern, struct varve_error *error) {
    struct cost cost = {.depth = 0};
    const char *before = NULL;
    for (const char *at = pattern, *next; *at; before = at, at = next) {
        if (check_sign(at, before, error) < 0)
            return -EINVAL;
        if (*at == '(' && cost.depth + 1 == DEPTH_MAX)
            return vv_error(error, -EINVAL, "more than %d groups inside each other", DEPTH_MAX - 1);
        next = count_sign(&cost, at);
        if (cost.sum[cost.depth] + cost.last[cost.depth] > ELEMENTS_MAX) {
            return vv_error(error, -EINVAL, "it repeats too much: more than %d elements when written out",
                            ELEMENTS_MAX);
        }
    }
    return 0;
}

static int compile(struct vv_match *match, const char *pattern, struct varve_error *error) {
    char what[200];
    locale_t before = uselocale(match->bytes);
    int rc = regcomp(&match->regex, pattern, REG_EXTENDED);
    uselocale(before);
    if (rc == REG_ESPACE)
        return vv_error_sys(error, -ENOMEM, "a pattern for names");
    if (rc) {
        regerror(rc, &match->regex, what, sizeof what);
        return vv_error(error, -EINVAL, "%s", what);
    }
    match->has_regex = 1;
    return 0;
}

int vv_match_open(const char *pattern, struct vv_match **out, struct varve_error *error) {
    int rc = check_cost(pattern, error);
    if (rc < 0)
        return rc;
    struct vv_match *match = vv_calloc(1, sizeof *match);
    if (!match)
        return vv_error_sys(error, -ENOMEM, "a pattern for names");
    match->bytes = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (match->bytes == (locale_t)0)
        rc = vv_error_sys(error, -errno, "a pattern for names");
    else if (*pattern)
        rc = compile(match, pattern, error);
    if (rc < 0) {
        vv_match_close(match);
        return rc;
    }
    *out = match;
    return 0;
}

void vv_match_close(struct vv_match *match) {
    if (!match)
        return;
    if (match->has_regex)
        regfree(&match->regex);
    if (match->bytes != (locale_t)0)
        freelocale(match->bytes);
    vv_free(match);
}

uint64_t vv_match_name(const struct vv_match *match, const char *name) {
    regmatch_t found[2]; /* all of it, and the first group */
    if (!match->has_regex)
        return vv_sum64(name, strlen(name));
    locale_t before = uselocale(match->bytes);
    int rc = regexec(&match->regex, name, 2, found, 0);
    uselocale(before);
    if (rc)
        return vv_sum64(name, strlen(name));
    const regmatch_t *key = found[1].rm_so >= 0 ? &found[1] : &found[0]; /* a group may have had no part in it */
    return vv_sum64(name + key->rm_so, (size_t)(key->rm_eo - key->rm_so));
}
