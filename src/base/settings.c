/* The table, and one setting at a time: parse, check, store, show. Where settings come from is settings_load.c. */
#include "base/settings.h"
#include "base/error.h"
#include "base/match.h"
#include "base/thread.h"
#include "base/tier_address.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_MAX 1000

#define ROW(tier_, type_, name_, low_, high_, words_, standard_, help_)                                                \
    {.name = #name_,                                                                                                   \
     .tier = VV_TIER_##tier_,                                                                                          \
     .type = VV_TYPE_##type_,                                                                                          \
     .low = low_,                                                                                                      \
     .high = high_,                                                                                                    \
     .words = words_,                                                                                                  \
     .standard = standard_,                                                                                            \
     .help = help_,                                                                                                    \
     .offset = offsetof(struct vv_settings, name_)},
static const struct vv_setting table[VV_SETTING_COUNT] = {VV_SETTINGS_TABLE(ROW)};
#undef ROW

const struct vv_setting *vv_setting_at(size_t index) {
    return index < VV_SETTING_COUNT ? &table[index] : NULL;
}

const struct vv_setting *vv_setting_find(const char *name) {
    for (size_t i = 0; i < VV_SETTING_COUNT; i++)
        if (!strcmp(table[i].name, name))
            return &table[i];
    return NULL;
}

/* Parsers give 0 or -1; the message is made in one place, refuse(). */

static int parse_whole(const char *text, uint64_t *out, const char **end_out) {
    char *end;
    if (*text < '0' || *text > '9')
        return -1;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (errno)
        return -1;
    *out = v;
    *end_out = end;
    return 0;
}

static int parse_int(const char *text, int *out) {
    const char *end;
    uint64_t v;
    if (parse_whole(text, &v, &end) < 0 || *end || v > INT_MAX)
        return -1;
    *out = (int)v;
    return 0;
}

static int parse_bytes(const char *text, uint64_t *out) {
    static const char suffixes[] = "KMGT";
    const char *end;
    uint64_t v;
    if (parse_whole(text, &v, &end) < 0)
        return -1;
    unsigned shift = 0;
    if (*end) {
        const char *suffix = strchr(suffixes, *end & ~0x20); /* either case */
        if (!suffix || !*suffix || end[1])
            return -1;
        shift = 10 * (unsigned)(suffix - suffixes + 1);
    }
    if (v > UINT64_MAX >> shift)
        return -1;
    *out = v << shift;
    return 0;
}

/* Numbers have a point, whatever the language of the program. */
static locale_t enter_c_locale(locale_t *before_out) {
    locale_t locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    *before_out = uselocale(locale);
    return locale;
}

static void leave_c_locale(locale_t locale, locale_t before) {
    uselocale(before);
    if (locale != (locale_t)0)
        freelocale(locale);
}

static int parse_double(const char *text, double *out) {
    char *end;
    if (!*text || strspn(text, "0123456789.eE-") != strlen(text))
        return -1;
    locale_t before;
    locale_t locale = enter_c_locale(&before);
    double v = strtod(text, &end);
    leave_c_locale(locale, before);
    if (*end || !isfinite(v))
        return -1;
    *out = v;
    return 0;
}

/* Position of a word in "a|b|c". */
static int parse_choice(const char *words, const char *text, int *out) {
    size_t size = strlen(text);
    int position = 0;
    for (const char *word = words; word; position++) {
        const char *bar = strchr(word, '|');
        size_t word_size = bar ? (size_t)(bar - word) : strlen(word);
        if (word_size == size && !memcmp(word, text, size)) {
            *out = position;
            return 0;
        }
        word = bar ? bar + 1 : NULL;
    }
    return -1;
}

static int parse_on_error(const char *text, enum vv_on_error *out, unsigned *retries_out) {
    static const char retry[] = "retry:";
    int retries = 0;
    if (!strcmp(text, "fail"))
        *out = VV_ON_ERROR_FAIL;
    else if (!strcmp(text, "warn"))
        *out = VV_ON_ERROR_WARN;
    else if (!strncmp(text, retry, sizeof retry - 1) && parse_int(text + sizeof retry - 1, &retries) == 0 &&
             retries >= 1 && retries <= RETRY_MAX)
        *out = VV_ON_ERROR_RETRY;
    else
        return -1;
    *retries_out = (unsigned)retries;
    return 0;
}

/* Data and parity of a group: the limits of docs/format.md 13. */
static int parse_parity(const char *text, uint32_t *data_out, uint32_t *parity_out) {
    const char *at;
    uint64_t data, parity;
    *data_out = *parity_out = 0;
    if (!strcmp(text, "off"))
        return 0;
    if (parse_whole(text, &data, &at) < 0 || *at != '+' || parse_whole(at + 1, &parity, &at) < 0 || *at)
        return -1;
    if (parity < 1 || parity > 3 || data < parity || data > 13 || data + parity > 16)
        return -1;
    *data_out = (uint32_t)data;
    *parity_out = (uint32_t)parity;
    return 0;
}

/* A word that stands for a number, from "auto=0|off=1". */
struct number_word {
    const char *text;
    int size;
    int number;
};

/* Goes through the words of a setting, from *at on, which begins as setting->words. */
static int next_word(const char **at, struct number_word *out) {
    if (!*at)
        return 0;
    const char *equals = strchr(*at, '=');
    const char *bar = strchr(*at, '|');
    assert(equals);
    *out = (struct number_word){.text = *at, .size = (int)(equals - *at), .number = (int)strtol(equals + 1, NULL, 10)};
    *at = bar ? bar + 1 : NULL;
    return 1;
}

static int parse_word(const struct vv_setting *setting, const char *text, int *out) {
    struct number_word word;
    for (const char *at = setting->words; next_word(&at, &word);) {
        if (strlen(text) == (size_t)word.size && !memcmp(text, word.text, (size_t)word.size)) {
            *out = word.number;
            return 0;
        }
    }
    return -1;
}

/* The word for a number; 0 if it has none. */
static int show_word(const struct vv_setting *setting, double v, char *out, size_t capacity) {
    struct number_word word;
    for (const char *at = setting->words; next_word(&at, &word);) {
        if (v == word.number) {
            snprintf(out, capacity, "%.*s", word.size, word.text);
            return 1;
        }
    }
    return 0;
}

/* Bounds come from the table and always parse. */

static int set_int(const struct vv_setting *setting, const char *text, int *field) {
    int v, low = 0, high = INT_MAX;
    parse_int(setting->low, &low);
    if (setting->high)
        parse_int(setting->high, &high);
    if ((parse_word(setting, text, &v) < 0 && parse_int(text, &v) < 0) || v < low || v > high)
        return -1;
    *field = v;
    return 0;
}

static int set_bytes(const struct vv_setting *setting, const char *text, uint64_t *field) {
    uint64_t v, low = 0, high = UINT64_MAX;
    parse_bytes(setting->low, &low);
    if (setting->high)
        parse_bytes(setting->high, &high);
    int number;
    if (parse_word(setting, text, &number) == 0)
        v = (uint64_t)number;
    else if (parse_bytes(text, &v) < 0)
        return -1;
    if (v < low || v > high)
        return -1;
    *field = v;
    return 0;
}

static int set_double(const struct vv_setting *setting, const char *text, double *field) {
    double v, low = 0, high = HUGE_VAL;
    parse_double(setting->low, &low);
    if (setting->high)
        parse_double(setting->high, &high);
    int number;
    if (parse_word(setting, text, &number) == 0)
        v = number;
    else if (parse_double(text, &v) < 0)
        return -1;
    if (v < low || v > high)
        return -1;
    *field = v;
    return 0;
}

static int check_pattern(const char *text, struct varve_error *why) {
    struct vv_match *match = NULL;
    int rc = *text ? vv_match_open(text, &match, why) : 0;
    vv_match_close(match);
    return rc;
}

static int set_text(const struct vv_setting *setting, const char *text, char *field, struct varve_error *why) {
    enum vv_on_error on_error;
    unsigned retries;
    uint32_t data, parity;
    int rc;
    if (strlen(text) >= VV_SETTING_TEXT_BYTES)
        return vv_error(why, -EINVAL, "it is longer than %d bytes", VV_SETTING_TEXT_BYTES - 1);
    if (setting->offset == offsetof(struct vv_settings, match))
        rc = check_pattern(text, why);
    else if (setting->offset == offsetof(struct vv_settings, cpus))
        rc = vv_cpus_are_valid(text) ? 0 : -1;
    else if (setting->offset == offsetof(struct vv_settings, key))
        rc = !*text || strncmp(text, "file:", 5) == 0 || strncmp(text, "env:", 4) == 0 ||
                     strncmp(text, "command:", 8) == 0
                 ? 0
                 : -1;
    else if (setting->offset == offsetof(struct vv_settings, trigger_file) ||
             setting->offset == offsetof(struct vv_settings, exit_file) ||
             setting->offset == offsetof(struct vv_settings, tiers))
        rc = 0;
    else if (setting->offset == offsetof(struct vv_settings, parity))
        rc = parse_parity(text, &data, &parity);
    else
        rc = parse_on_error(text, &on_error, &retries);
    if (rc == 0)
        strcpy(field, text);
    return rc;
}

/* why: what is wrong, where the list of what is allowed does not tell. */
static int set_field(struct vv_settings *settings, const struct vv_setting *setting, const char *text,
                     struct varve_error *why) {
    void *field = (char *)settings + setting->offset;
    switch (setting->type) {
    case VV_TYPE_INT:
        return set_int(setting, text, field);
    case VV_TYPE_BYTES:
        return set_bytes(setting, text, field);
    case VV_TYPE_DOUBLE:
        return set_double(setting, text, field);
    case VV_TYPE_CHOICE:
        return parse_choice(setting->low, text, field);
    case VV_TYPE_TEXT:
        return set_text(setting, text, field, why);
    }
    return -1;
}

static void remember_origin(struct vv_settings *settings, const struct vv_setting *setting, const char *origin) {
    snprintf(settings->origins[setting - table], VV_SETTING_ORIGIN_BYTES, "%s", origin);
}

int vv_settings_may_show_key(const char *text) {
    static const char digits[] = "0123456789abcdefABCDEF";
    size_t size;
    for (; *text; text += size ? size : 1)
        if ((size = strspn(text, digits)) >= 32)
            return 1;
    return 0;
}

static int refuse_value(const struct vv_setting *setting, const char *value, const char *origin,
                        const struct varve_error *why, struct varve_error *error) {
    char allowed[256];
    if (setting->offset == offsetof(struct vv_settings, key) || vv_settings_may_show_key(value))
        value = "(not shown)";
    if (why->text[0])
        return vv_error(error, VARVE_SETTING, "%s: %s cannot be \"%s\": %s", origin, setting->name, value, why->text);
    vv_setting_allowed_text(setting, allowed, sizeof allowed);
    const char *more = setting->type == VV_TYPE_BYTES ? ", in bytes or with K, M, G or T after the number"
                       : setting->offset == offsetof(struct vv_settings, interval)
                           ? "; seconds are for interval_seconds"
                           : "";
    return vv_error(error, VARVE_SETTING, "%s: %s cannot be \"%s\"; allowed is %s%s", origin, setting->name, value,
                    allowed, more);
}

void vv_settings_init(struct vv_settings *settings) {
    *settings = (struct vv_settings){0};
    for (size_t i = 0; i < VV_SETTING_COUNT; i++) {
        int rc = set_field(settings, &table[i], table[i].standard, NULL);
        assert(rc == 0);
        (void)rc;
        remember_origin(settings, &table[i], "default");
    }
}

int vv_settings_set(struct vv_settings *settings, const char *name, const char *value, const char *origin,
                    struct varve_error *error) {
    const struct vv_setting *setting = vv_setting_find(name);
    if (!setting)
        return vv_error(error, VARVE_SETTING, "%s: there is no setting \"%s\"; varve(5) lists all", origin, name);
    struct varve_error why;
    vv_error_clear(&why);
    int rc = set_field(settings, setting, value, &why);
    if (rc == -ENOMEM)
        return vv_error_sys(error, rc, "%s: %s", origin, setting->name);
    if (rc < 0)
        return refuse_value(setting, value, origin, &why, error);
    if (settings->keep == 1)
        settings->keep = 2;
    if (settings->tiers_keep == 1)
        settings->tiers_keep = 2;
    remember_origin(settings, setting, origin);
    return 0;
}

int vv_settings_is_fine(uint64_t value) {
    return value <= 1 || (value >= 32 && value <= 4096 && (value & (value - 1)) == 0);
}

/* An address may have a comma where no other setting can follow, but not at its end or two of them. */
static int has_stray_comma(const char *text) {
    size_t size = strlen(text);
    return *text == ',' || (size > 0 && text[size - 1] == ',') || strstr(text, ",,") || strstr(text, ",;") ||
           strstr(text, ";,");
}

/* -1: one is empty, or there are too many. */
static int count_tiers(const char *text) {
    int count = 0;
    while (*text) {
        size_t size = strcspn(text, ";");
        if (size == 0 || (text[size] == ';' && !text[size + 1]) || ++count >= VV_TIERS_MOST)
            return -1;
        text += size + (text[size] == ';');
    }
    return count;
}

static int check_tier_addresses(const struct vv_settings *settings, struct varve_error *error) {
    struct vv_tier_address address;
    struct varve_error why = {.text = ""};
    const char *at = settings->tiers;
    int rc;
    do
        rc = vv_tier_address_next(&at, &address, &why);
    while (rc == 1);
    return rc < 0 ? vv_error(error, rc, "tiers (from %s): %s", settings->origins[VV_SETTING_tiers], why.text) : 0;
}

int vv_settings_check(const struct vv_settings *settings, struct varve_error *error) {
    if (!vv_settings_is_fine((uint64_t)settings->fine)) {
        return vv_error(error, VARVE_SETTING, "fine (%d, from %s) must be auto, off, or a power of two from 32 to 4096",
                        settings->fine, settings->origins[VV_SETTING_fine]);
    }
    if (settings->dead_seconds <= settings->beat_seconds) {
        return vv_error(error, VARVE_SETTING, "dead_seconds (%d, from %s) must be more than beat_seconds (%d, from %s)",
                        settings->dead_seconds, settings->origins[VV_SETTING_dead_seconds], settings->beat_seconds,
                        settings->origins[VV_SETTING_beat_seconds]);
    }
    if (settings->capture == VV_CHOOSE_CAPTURE_TRAP &&
        (settings->tracker == VV_CHOOSE_TRACKER_SCAN || settings->tracker == VV_CHOOSE_TRACKER_SOFTDIRTY ||
         settings->tracker == VV_CHOOSE_TRACKER_NONE)) {
        return vv_error(
            error, VARVE_SETTING,
            "capture=trap (from %s) stops writes, and the tracker chosen (from %s) does not: leave tracker at auto,"
            " or take trap-uffd or trap-mprotect",
            settings->origins[VV_SETTING_capture], settings->origins[VV_SETTING_tracker]);
    }
    int tiers = count_tiers(settings->tiers);
    if (has_stray_comma(settings->tiers))
        return vv_error(error, VARVE_SETTING, "tiers (from %s) has a stray comma: put a semicolon between addresses",
                        settings->origins[VV_SETTING_tiers]);
    if (tiers < 0)
        return vv_error(
            error, VARVE_SETTING,
            "tiers (from %s) must be at most %d addresses with a semicolon between them, none of them empty",
            settings->origins[VV_SETTING_tiers], VV_TIERS_MOST - 1);
    if (settings->durable > 1 + tiers)
        return vv_error(error, VARVE_SETTING,
                        "durable (%d, from %s) names a tier that is not there: tiers has %d, from 2 on",
                        settings->durable, settings->origins[VV_SETTING_durable], tiers);
    return check_tier_addresses(settings, error);
}

enum vv_on_error vv_settings_on_error(const struct vv_settings *settings, unsigned *retries_out) {
    enum vv_on_error on_error = VV_ON_ERROR_FAIL;
    *retries_out = 0;
    parse_on_error(settings->on_error, &on_error, retries_out);
    return on_error;
}

uint32_t vv_settings_parity(const struct vv_settings *settings, uint32_t *data_out) {
    uint32_t data, parity;
    parse_parity(settings->parity, &data, &parity);
    if (data_out)
        *data_out = data;
    return parity;
}

enum vv_capture_choice vv_settings_capture(const struct vv_settings *settings, const char **why) {
    unsigned retries;
    *why = NULL;
    if (settings->capture == VV_CHOOSE_CAPTURE_SYNC)
        return VV_CHOOSE_CAPTURE_SYNC;
    if (vv_settings_on_error(settings, &retries) == VV_ON_ERROR_RETRY)
        *why = "on_error=retry: a checkpoint can be tried again only inside its call";
    else if (settings->threads == 0)
        *why = "threads=0: the calling thread does everything";
    return *why ? VV_CHOOSE_CAPTURE_SYNC : (enum vv_capture_choice)settings->capture;
}

const char *vv_setting_tier_text(const struct vv_setting *setting) {
    static const char *const names[] = {"everyday", "advanced", "measuring"};
    return names[setting->tier];
}

const char *vv_setting_type_text(const struct vv_setting *setting) {
    static const char *const names[] = {"integer", "bytes", "number", "choice", "text"};
    return names[setting->type];
}

void vv_setting_allowed_text(const struct vv_setting *setting, char *out, size_t capacity) {
    struct number_word word;
    for (const char *at = setting->words; next_word(&at, &word);) {
        int written = snprintf(out, capacity, "%.*s, ", word.size, word.text);
        size_t used = (size_t)written < capacity ? (size_t)written : capacity;
        out += used;
        capacity -= used;
    }
    if (setting->type == VV_TYPE_CHOICE || setting->type == VV_TYPE_TEXT)
        snprintf(out, capacity, "%s", setting->low);
    else if (setting->high)
        snprintf(out, capacity, "%s to %s", setting->low, setting->high);
    else
        snprintf(out, capacity, "%s or more", setting->low);
}

static void show_int(const struct vv_setting *setting, int v, char *out, size_t capacity) {
    if (!show_word(setting, v, out, capacity))
        snprintf(out, capacity, "%d", v);
}

static void show_bytes(const struct vv_setting *setting, uint64_t v, char *out, size_t capacity) {
    static const char *const suffixes[] = {"", "K", "M", "G", "T"};
    unsigned steps = 0;
    if (show_word(setting, (double)v, out, capacity))
        return;
    while (v && v % 1024 == 0 && steps < sizeof suffixes / sizeof suffixes[0] - 1) {
        v /= 1024;
        steps++;
    }
    snprintf(out, capacity, "%" PRIu64 "%s", v, suffixes[steps]);
}

static void show_double(const struct vv_setting *setting, double v, char *out, size_t capacity) {
    locale_t before;
    if (show_word(setting, v, out, capacity))
        return;
    locale_t locale = enter_c_locale(&before);
    snprintf(out, capacity, "%.10g", v);
    leave_c_locale(locale, before);
}

static void show_choice(const char *words, int position, char *out, size_t capacity) {
    for (; position > 0 && strchr(words, '|'); position--)
        words = strchr(words, '|') + 1;
    snprintf(out, capacity, "%.*s", (int)strcspn(words, "|"), words);
}

void vv_setting_value_text(const struct vv_settings *settings, const struct vv_setting *setting, char *out,
                           size_t capacity) {
    const void *field = (const char *)settings + setting->offset;
    switch (setting->type) {
    case VV_TYPE_INT:
        show_int(setting, *(const int *)field, out, capacity);
        break;
    case VV_TYPE_BYTES:
        show_bytes(setting, *(const uint64_t *)field, out, capacity);
        break;
    case VV_TYPE_DOUBLE:
        show_double(setting, *(const double *)field, out, capacity);
        break;
    case VV_TYPE_CHOICE:
        show_choice(setting->low, *(const int *)field, out, capacity);
        break;
    case VV_TYPE_TEXT:
        snprintf(out, capacity, "%s", (const char *)field);
        break;
    }
}

int vv_setting_is_default(const struct vv_settings *settings, enum vv_setting_index index) {
    return strcmp(settings->origins[index], "default") == 0;
}

const char *vv_setting_origin(const struct vv_settings *settings, const struct vv_setting *setting) {
    return settings->origins[setting - table];
}
