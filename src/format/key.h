/* Keys of objects (docs/format.md 3). */
#ifndef VV_KEY_H
#define VV_KEY_H

#include <stddef.h>
#include <stdint.h>

#define VV_NAME_MAX 80
#define VV_KEY_CAPACITY 512 /* enough for every key, with NUL */

enum vv_kind {
    VV_KIND_STORE = 1,
    VV_KIND_CLAIM = 2,
    VV_KIND_HEARTBEAT = 3,
    VV_KIND_PACK = 4,
    VV_KIND_PART = 5,
    VV_KIND_WRITERS = 6,
    VV_KIND_RECORD = 7,
    VV_KIND_TOMBSTONE = 8,
    VV_KIND_CATALOGUE = 9,
    VV_KIND_COPY = 10,
    VV_KIND_PIN = 11,
    VV_KIND_TRIGGER = 12,
    VV_KIND_LOG = 13,
    VV_KIND_SEALED = 14, /* any of them, encrypted (backend/sealed.h) */
    VV_KIND_PARITY = 15,
    VV_KIND_LAST = VV_KIND_PARITY,
};
const char *vv_kind_name(int kind);

/* What a key stands for. Fields that the kind does not have are 0. */
struct vv_key {
    int kind;
    char name[VV_NAME_MAX + 1];
    uint32_t generation;
    uint32_t attempt;
    uint64_t version;
    uint32_t writer;
    uint32_t part;
};

/* 1 to 80 bytes? 0 or -EINVAL. */
int vv_name_check(const char *name);
/* The component for a name; out has VV_NAME_MAX * 3 + 1 bytes. */
void vv_name_encode(const char *name, char *out);
/* The reverse; -EINVAL if it is not the encoding of a name. */
int vv_name_decode(const char *component, char out[VV_NAME_MAX + 1]);

/* The key as text; out has VV_KEY_CAPACITY bytes. */
void vv_key_print(const struct vv_key *key, char *out);
/* The reverse; -EINVAL if it is no key of this format. */
int vv_key_parse(const char *text, struct vv_key *out);

/* The prefixes to list: "n", "n/NAME/claim", "n/NAME/data/G/V/A", ... depth counts how many of generation, version and
 * attempt to include. out has VV_KEY_CAPACITY bytes. */
void vv_prefix_claims(const char *name, char *out);
void vv_prefix_heartbeats(const char *name, char *out);
void vv_prefix_records(const char *name, char *out);
void vv_prefix_logs(const char *name, char *out);
void vv_prefix_name(const char *name, char *out); /* pins are beside the other prefixes */
void vv_prefix_data(const struct vv_key *key, int depth, char *out);
/* The component of a record below its prefix, and the reverse; of a pin, what comes after VV_PIN_BEGIN. */
#define VV_PIN_BEGIN "pin."
void vv_record_component(uint32_t generation, uint64_t version, char out[25]);
int vv_record_component_parse(const char *component, uint32_t *generation, uint64_t *version);
/* A fixed-width lower-case hexadecimal number of 8 or 16 digits; -EINVAL otherwise. */
int vv_hex_parse(const char *text, int digits, uint64_t *out);

#endif
