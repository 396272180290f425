/* Run-time settings: one table (settings_table.h), read from files, the program and the environment.
 *
 * The strongest first: environment (VARVE_KEEP=3), the text the program gave, ./varve.conf,
 * $XDG_CONFIG_HOME/varve/varve.conf (or ~/.config/varve/varve.conf), /etc/varve.conf, the default. If VARVE_CONFIG
 * names a file, it is read instead of the three. Files have a "name = value" per line; "#" begins a comment. Files that
 * others may have written are ignored with a warning. */
#ifndef VV_SETTINGS_H
#define VV_SETTINGS_H

#include "base/log.h"
#include "base/settings_table.h"

#include <varve/varve_error.h>

#include <stddef.h>
#include <stdint.h>

/* The words of each CHOICE, in the order of the table. */
/* From the third on as enum vv_coding_name (encode/coding.h). */
enum vv_codec_choice { VV_CHOOSE_CODEC_AUTO, VV_CHOOSE_CODEC_SIZE, VV_CHOOSE_CODEC_NAMED };
enum vv_dedup_choice {
    VV_CHOOSE_DEDUP_AUTO,
    VV_CHOOSE_DEDUP_NONE,
    VV_CHOOSE_DEDUP_LOCAL,
    VV_CHOOSE_DEDUP_TOP_K,
    VV_CHOOSE_DEDUP_EXACT
};
enum vv_grouping_choice {
    VV_CHOOSE_GROUPING_AUTO,
    VV_CHOOSE_GROUPING_AGNOSTIC,
    VV_CHOOSE_GROUPING_AGNOSTIC_BLOCK,
    VV_CHOOSE_GROUPING_AWARE,
    VV_CHOOSE_GROUPING_AWARE_BLOCK
};
enum vv_fine_method_choice { VV_CHOOSE_FINE_METHOD_TREE, VV_CHOOSE_FINE_METHOD_BASIC, VV_CHOOSE_FINE_METHOD_FULL };
enum vv_chunk_choice { VV_CHOOSE_CHUNK_FIXED, VV_CHOOSE_CHUNK_CDC };
enum vv_chunk_size_choice { VV_CHOOSE_CHUNK_SIZE_512, VV_CHOOSE_CHUNK_SIZE_4K, VV_CHOOSE_CHUNK_SIZE_32K };
enum vv_direct_choice { VV_CHOOSE_DIRECT_AUTO, VV_CHOOSE_DIRECT_ON, VV_CHOOSE_DIRECT_OFF };
enum vv_storage_choice { VV_CHOOSE_STORAGE_SHARED, VV_CHOOSE_STORAGE_LOCAL };
enum vv_encrypt_choice { VV_CHOOSE_ENCRYPT_OFF, VV_CHOOSE_ENCRYPT_ON };
enum vv_owner_choice { VV_CHOOSE_OWNER_SELF, VV_CHOOSE_OWNER_ANY };
enum vv_heap_choice {
    VV_CHOOSE_HEAP_AUTO,
    VV_CHOOSE_HEAP_OFF,
    VV_CHOOSE_HEAP_DATA,
    VV_CHOOSE_HEAP_UNCHECKED,
    VV_CHOOSE_HEAP_FIXED
};
enum vv_access_choice { VV_CHOOSE_ACCESS_WRITE, VV_CHOOSE_ACCESS_READ };
enum vv_mode_choice { VV_CHOOSE_MODE_PRIVATE, VV_CHOOSE_MODE_GROUP, VV_CHOOSE_MODE_UMASK };
enum vv_capture_choice {
    VV_CHOOSE_CAPTURE_AUTO,
    VV_CHOOSE_CAPTURE_SYNC,
    VV_CHOOSE_CAPTURE_TRAP,
    VV_CHOOSE_CAPTURE_FROZEN,
    VV_CHOOSE_CAPTURE_HELD
};
enum vv_interval_choice { VV_CHOOSE_INTERVAL_GIVEN, VV_CHOOSE_INTERVAL_AUTO, VV_CHOOSE_INTERVAL_ASKED };
enum vv_order_choice { VV_CHOOSE_ORDER_LEARNED, VV_CHOOSE_ORDER_ADDRESS };
enum vv_tracker_choice {
    VV_CHOOSE_TRACKER_AUTO,
    VV_CHOOSE_TRACKER_SCAN,
    VV_CHOOSE_TRACKER_SOFTDIRTY,
    VV_CHOOSE_TRACKER_TRAP_UFFD,
    VV_CHOOSE_TRACKER_TRAP_MPROTECT,
    VV_CHOOSE_TRACKER_NONE
};
/* The words of `log` are enum vv_log_level; those of `signal` and `exit_signal` are in session/asked_signals.c. */

enum vv_on_error { VV_ON_ERROR_FAIL, VV_ON_ERROR_WARN, VV_ON_ERROR_RETRY };

#define VV_SETTING_TEXT_BYTES 256
#define VV_TIERS_MOST 8 /* stores of a session, the first one included */
#define VV_SETTING_ORIGIN_BYTES 256

#define VV_SETTING_INDEX(tier, type, name, low, high, words, standard, help) VV_SETTING_##name,
enum vv_setting_index { VV_SETTINGS_TABLE(VV_SETTING_INDEX) VV_SETTING_COUNT };
#undef VV_SETTING_INDEX

#define VV_FIELD_INT(name) int name;
#define VV_FIELD_BYTES(name) uint64_t name;
#define VV_FIELD_DOUBLE(name) double name;
#define VV_FIELD_CHOICE(name) int name;
#define VV_FIELD_TEXT(name) char name[VV_SETTING_TEXT_BYTES];
#define VV_SETTING_FIELD(tier, type, name, low, high, words, standard, help) VV_FIELD_##type(name)

/* Owns nothing; may be copied. */
struct vv_settings {
    VV_SETTINGS_TABLE(VV_SETTING_FIELD)
    char origins[VV_SETTING_COUNT][VV_SETTING_ORIGIN_BYTES]; /* "default", "program", "environment", "path:line" */
};

#undef VV_SETTING_FIELD

void vv_settings_init(struct vv_settings *settings); /* all defaults */

/* Everything, the weakest first; text is what the program gave (NULL for nothing). Unknown names and values that are
 * not allowed are VARVE_SETTING; an unknown VARVE_ variable in the environment is only a warning. */
int vv_settings_load(struct vv_settings *settings, const char *text, const struct vv_log *log,
                     struct varve_error *error);

/* One setting. The origin is remembered, and begins the message if there is one. */
int vv_settings_set(struct vv_settings *settings, const char *name, const char *value, const char *origin,
                    struct varve_error *error);
/* "name=value" items, separated by commas or line ends. */
int vv_settings_set_text(struct vv_settings *settings, const char *text, const char *origin, struct varve_error *error);
/* A file that does not exist is -ENOENT; one that others may have written, or that is no plain file, -EPERM. */
int vv_settings_set_file(struct vv_settings *settings, const char *path, int may_be_link, struct varve_error *error);
int vv_settings_set_environment(struct vv_settings *settings, const struct vv_log *log, struct varve_error *error);
/* Has this text so many hexadecimal digits that it may be the key of a store, which somebody has written where its
 * source belongs, or without the name and the =? Then no message shows it. */
int vv_settings_may_show_key(const char *text);
/* Rules between settings. */
int vv_settings_check(const struct vv_settings *settings, struct varve_error *error);

/* 0, 1, or a power of two from 32 to 4096? */
int vv_settings_is_fine(uint64_t value);

/* What on_error says; retries_out is 0 unless it is VV_ON_ERROR_RETRY. */
enum vv_on_error vv_settings_on_error(const struct vv_settings *settings, unsigned *retries_out);
/* What parity says: how many nodes of a group may be lost, 0 if it is off; data_out (may be NULL): how many others. */
uint32_t vv_settings_parity(const struct vv_settings *settings, uint32_t *data_out);

/* How checkpoints are captured by these settings, which may be another way than `capture` says: then *why is the
 * reason, else NULL. */
enum vv_capture_choice vv_settings_capture(const struct vv_settings *settings, const char **why);

/* Whom a setting is for; see settings_table.h. */
enum vv_setting_tier { VV_TIER_EVERYDAY, VV_TIER_ADVANCED, VV_TIER_MEASURING };
enum vv_setting_type { VV_TYPE_INT, VV_TYPE_BYTES, VV_TYPE_DOUBLE, VV_TYPE_CHOICE, VV_TYPE_TEXT };

/* A row of the table, for listings. Constant. */
struct vv_setting {
    const char *name;
    enum vv_setting_tier tier;
    enum vv_setting_type type;
    const char *low;      /* or what is allowed, for VV_TYPE_CHOICE and VV_TYPE_TEXT */
    const char *high;     /* NULL: no bound */
    const char *words;    /* that stand for numbers, "auto=0|off=1"; NULL: none */
    const char *standard; /* the default */
    const char *help;
    size_t offset; /* of the field in struct vv_settings */
};

const struct vv_setting *vv_setting_at(size_t index); /* NULL from VV_SETTING_COUNT on */
const struct vv_setting *vv_setting_find(const char *name);
const char *vv_setting_tier_text(const struct vv_setting *setting); /* "everyday", "advanced" or "measuring" */
const char *vv_setting_type_text(const struct vv_setting *setting);
/* "64K to 16M", "0 or more", "auto|on|off", "auto, off, 0 to 4096" */
void vv_setting_allowed_text(const struct vv_setting *setting, char *out, size_t capacity);
void vv_setting_value_text(const struct vv_settings *settings, const struct vv_setting *setting, char *out,
                           size_t capacity);
int vv_setting_is_default(const struct vv_settings *settings, enum vv_setting_index index); /* nobody has set it */
const char *vv_setting_origin(const struct vv_settings *settings, const struct vv_setting *setting);

#endif
