/* Keys of objects: between struct vv_key and text. Parsing is strict: a text is a key only if printing gives it
 * back. */
#include "format/key.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define COMPONENT_CAPACITY (VV_NAME_MAX * 3 + 1)
#define RECORD_DIGITS 24
#define VERSION_END (UINT64_C(1) << 63)
#define WRITER_END 0x7fffffffu
#define PART_END 1048576u

const char *vv_kind_name(int kind) {
    static const char *const names[] = {
        [VV_KIND_STORE] = "store",
        [VV_KIND_CLAIM] = "claim",
        [VV_KIND_HEARTBEAT] = "beat",
        [VV_KIND_PACK] = "pack",
        [VV_KIND_PART] = "part",
        [VV_KIND_WRITERS] = "writers",
        [VV_KIND_RECORD] = "record",
        [VV_KIND_TOMBSTONE] = "tombstone",
        [VV_KIND_CATALOGUE] = "catalogue",
        [VV_KIND_COPY] = "copy",
        [VV_KIND_PIN] = "pin",
        [VV_KIND_TRIGGER] = "trigger",
        [VV_KIND_LOG] = "log",
        [VV_KIND_SEALED] = "sealed",
        [VV_KIND_PARITY] = "parity",
    };
    return kind >= VV_KIND_STORE && kind <= VV_KIND_LAST ? names[kind] : "unknown";
}

int vv_name_check(const char *name) {
    size_t size = name ? strnlen(name, VV_NAME_MAX + 1) : 0;
    return size >= 1 && size <= VV_NAME_MAX ? 0 : -EINVAL;
}

static int stands_for_itself(unsigned char c, int is_first) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           (c == '.' && !is_first);
}

void vv_name_encode(const char *name, char *out) {
    static const char digits[] = "0123456789ABCDEF";
    assert(vv_name_check(name) == 0);
    size_t size = strnlen(name, VV_NAME_MAX);
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)name[i];
        if (stands_for_itself(c, i == 0)) {
            *out++ = (char)c;
        } else {
            *out++ = '%';
            *out++ = digits[c >> 4];
            *out++ = digits[c & 15];
        }
    }
    *out = '\0';
}

static int hex_digit(char c, char first_letter) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= first_letter && c < first_letter + 6)
        return c - first_letter + 10;
    return -1;
}

int vv_name_decode(const char *component, char out[VV_NAME_MAX + 1]) {
    char name[VV_NAME_MAX + 1];
    size_t size = 0;
    for (const char *p = component; *p; size++) {
        unsigned char c = (unsigned char)*p++;
        if (size == VV_NAME_MAX)
            return -EINVAL;
        if (c == '%') {
            int high = hex_digit(p[0], 'A');
            int low = high < 0 ? -1 : hex_digit(p[1], 'A');
            if (low < 0)
                return -EINVAL;
            c = (unsigned char)(high << 4 | low);
            if (c == 0 || stands_for_itself(c, size == 0))
                return -EINVAL;
            p += 2;
        } else if (!stands_for_itself(c, size == 0)) {
            return -EINVAL;
        }
        name[size] = (char)c;
    }
    if (size == 0)
        return -EINVAL;
    memcpy(out, name, size);
    out[size] = '\0';
    return 0;
}

int vv_hex_parse(const char *text, int digits, uint64_t *out) {
    uint64_t value = 0;
    assert(digits >= 1 && digits <= 16);
    for (int i = 0; i < digits; i++) {
        int digit = hex_digit(text[i], 'a');
        if (digit < 0)
            return -EINVAL;
        value = value << 4 | (unsigned)digit;
    }
    if (text[digits] != '\0')
        return -EINVAL;
    *out = value;
    return 0;
}

void vv_record_component(uint32_t generation, uint64_t version, char out[25]) {
    snprintf(out, RECORD_DIGITS + 1, "%08" PRIx32 "%016" PRIx64, (uint32_t)~generation, ~version);
}

int vv_record_component_parse(const char *component, uint32_t *generation, uint64_t *version) {
    char high[9];
    uint64_t g, v;
    if (strnlen(component, RECORD_DIGITS + 1) != RECORD_DIGITS)
        return -EINVAL;
    memcpy(high, component, 8);
    high[8] = '\0';
    if (vv_hex_parse(high, 8, &g) < 0 || vv_hex_parse(component + 8, 16, &v) < 0)
        return -EINVAL;
    if ((uint32_t)~g == 0 || ~v >= VERSION_END)
        return -EINVAL;
    *generation = (uint32_t)~g;
    *version = ~v;
    return 0;
}

static void print_below_name(const char *name, const char *rest, char *out) {
    char component[COMPONENT_CAPACITY];
    vv_name_encode(name, component);
    snprintf(out, VV_KEY_CAPACITY, "n/%s/%s", component, rest);
}

void vv_prefix_claims(const char *name, char *out) {
    print_below_name(name, "claim", out);
}

void vv_prefix_heartbeats(const char *name, char *out) {
    print_below_name(name, "beat", out);
}

void vv_prefix_records(const char *name, char *out) {
    print_below_name(name, "record", out);
}

void vv_prefix_logs(const char *name, char *out) {
    print_below_name(name, "log", out);
}

void vv_prefix_name(const char *name, char *out) {
    char component[COMPONENT_CAPACITY];
    vv_name_encode(name, component);
    snprintf(out, VV_KEY_CAPACITY, "n/%s", component);
}

void vv_prefix_data(const struct vv_key *key, int depth, char *out) {
    char rest[64];
    int at = snprintf(rest, sizeof rest, "data");
    assert(depth >= 0 && depth <= 3);
    if (depth >= 1)
        at += snprintf(rest + at, sizeof rest - (size_t)at, "/%08" PRIx32, key->generation);
    if (depth >= 2)
        at += snprintf(rest + at, sizeof rest - (size_t)at, "/%016" PRIx64, key->version);
    if (depth >= 3)
        snprintf(rest + at, sizeof rest - (size_t)at, "/%08" PRIx32, key->attempt);
    print_below_name(key->name, rest, out);
}

static void print_data(const struct vv_key *key, char *out) {
    vv_prefix_data(key, 3, out);
    size_t size = strlen(out);
    char *at = out + size;
    size_t capacity = VV_KEY_CAPACITY - size;
    switch (key->kind) {
    case VV_KIND_PACK:
        snprintf(at, capacity, "/%08" PRIx32, key->writer);
        break;
    case VV_KIND_PART:
        snprintf(at, capacity, "/%08" PRIx32 ".%08" PRIx32, key->writer, key->part);
        break;
    case VV_KIND_COPY:
        snprintf(at, capacity, "/%08" PRIx32 ".copy", key->writer);
        break;
    case VV_KIND_PARITY:
        snprintf(at, capacity, "/%08" PRIx32 ".parity", key->writer);
        break;
    default:
        snprintf(at, capacity, "/writers");
        break;
    }
}

void vv_key_print(const struct vv_key *key, char *out) {
    char rest[64];
    switch (key->kind) {
    case VV_KIND_STORE:
        snprintf(out, VV_KEY_CAPACITY, "varve");
        return;
    case VV_KIND_CLAIM:
        snprintf(rest, sizeof rest, "claim/%08" PRIx32, key->generation);
        break;
    case VV_KIND_HEARTBEAT:
        snprintf(rest, sizeof rest, "beat/%08" PRIx32, key->generation);
        break;
    case VV_KIND_LOG:
        snprintf(rest, sizeof rest, "log/%08" PRIx32, key->generation);
        break;
    case VV_KIND_RECORD:
        memcpy(rest, "record/", 7);
        vv_record_component(key->generation, key->version, rest + 7);
        break;
    case VV_KIND_PIN:
        memcpy(rest, VV_PIN_BEGIN, strlen(VV_PIN_BEGIN));
        vv_record_component(key->generation, key->version, rest + strlen(VV_PIN_BEGIN));
        break;
    case VV_KIND_CATALOGUE:
        snprintf(rest, sizeof rest, "catalogue");
        break;
    case VV_KIND_TRIGGER:
        snprintf(rest, sizeof rest, "trigger");
        break;
    default:
        assert(key->kind == VV_KIND_PACK || key->kind == VV_KIND_PART || key->kind == VV_KIND_COPY ||
               key->kind == VV_KIND_PARITY || key->kind == VV_KIND_WRITERS);
        print_data(key, out);
        return;
    }
    print_below_name(key->name, rest, out);
}

/* The next component of *at into out, which has COMPONENT_ROOM bytes; *at moves past its slash. 1 if one follows. */
static int take_component(const char **at, char *out) {
    size_t size = strcspn(*at, "/");
    int has_more = (*at)[size] == '/';
    if (size == 0 || size >= COMPONENT_CAPACITY)
        return -EINVAL;
    memcpy(out, *at, size);
    out[size] = '\0';
    *at += size + (size_t)has_more;
    return has_more;
}

static int take_number(const char **at, int digits, uint64_t *out) {
    char component[COMPONENT_CAPACITY];
    if (take_component(at, component) != 1)
        return -EINVAL;
    return vv_hex_parse(component, digits, out);
}

/* WRITER, WRITER.PART, WRITER.copy, WRITER.parity or writers */
static int parse_data_object(const char *text, struct vv_key *out) {
    char writer[9];
    uint64_t value;
    if (strcmp(text, "writers") == 0) {
        out->kind = VV_KIND_WRITERS;
        return 0;
    }
    if (strnlen(text, 9) < 8)
        return -EINVAL;
    memcpy(writer, text, 8);
    writer[8] = '\0';
    if (vv_hex_parse(writer, 8, &value) < 0 || value >= WRITER_END)
        return -EINVAL;
    out->writer = (uint32_t)value;
    if (text[8] == '\0') {
        out->kind = VV_KIND_PACK;
        return 0;
    }
    if (strcmp(text + 8, ".copy") == 0) {
        out->kind = VV_KIND_COPY;
        return 0;
    }
    if (strcmp(text + 8, ".parity") == 0) {
        out->kind = VV_KIND_PARITY;
        return 0;
    }
    if (text[8] != '.' || vv_hex_parse(text + 9, 8, &value) < 0 || value >= PART_END)
        return -EINVAL;
    out->kind = VV_KIND_PART;
    out->part = (uint32_t)value;
    return 0;
}

static int parse_data(const char *at, struct vv_key *out) {
    uint64_t generation, version, attempt;
    if (take_number(&at, 8, &generation) < 0 || take_number(&at, 16, &version) < 0 || take_number(&at, 8, &attempt) < 0)
        return -EINVAL;
    if (generation == 0 || version >= VERSION_END)
        return -EINVAL;
    out->generation = (uint32_t)generation;
    out->version = version;
    out->attempt = (uint32_t)attempt;
    return parse_data_object(at, out);
}

static int parse_generation(int kind, const char *at, struct vv_key *out) {
    uint64_t generation;
    if (vv_hex_parse(at, 8, &generation) < 0 || generation == 0)
        return -EINVAL;
    out->kind = kind;
    out->generation = (uint32_t)generation;
    return 0;
}

static int parse_below_name(const char *at, struct vv_key *out) {
    char component[COMPONENT_CAPACITY];
    int has_more = take_component(&at, component);
    if (has_more == 0 && strcmp(component, "catalogue") == 0) {
        out->kind = VV_KIND_CATALOGUE;
        return 0;
    }
    if (has_more == 0 && strcmp(component, "trigger") == 0) {
        out->kind = VV_KIND_TRIGGER;
        return 0;
    }
    if (has_more == 0 && strncmp(component, VV_PIN_BEGIN, strlen(VV_PIN_BEGIN)) == 0) {
        out->kind = VV_KIND_PIN;
        return vv_record_component_parse(component + strlen(VV_PIN_BEGIN), &out->generation, &out->version);
    }
    if (has_more != 1)
        return -EINVAL;
    if (strcmp(component, "claim") == 0)
        return parse_generation(VV_KIND_CLAIM, at, out);
    if (strcmp(component, "beat") == 0)
        return parse_generation(VV_KIND_HEARTBEAT, at, out);
    if (strcmp(component, "log") == 0)
        return parse_generation(VV_KIND_LOG, at, out);
    if (strcmp(component, "data") == 0)
        return parse_data(at, out);
    if (strcmp(component, "record") == 0) {
        out->kind = VV_KIND_RECORD;
        return vv_record_component_parse(at, &out->generation, &out->version);
    }
    return -EINVAL;
}

int vv_key_parse(const char *text, struct vv_key *out) {
    struct vv_key key = {0};
    char component[COMPONENT_CAPACITY];
    const char *at = text;
    if (strcmp(text, "varve") == 0) {
        key.kind = VV_KIND_STORE;
        *out = key;
        return 0;
    }
    if (take_component(&at, component) != 1 || strcmp(component, "n") != 0)
        return -EINVAL;
    if (take_component(&at, component) != 1 || vv_name_decode(component, key.name) < 0)
        return -EINVAL;
    int rc = parse_below_name(at, &key);
    if (rc == 0)
        *out = key;
    return rc;
}
