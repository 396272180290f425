/* What the kinds of backends share, and what opens them (storage/). */
#ifndef VV_BACKEND_PARTS_H
#define VV_BACKEND_PARTS_H

#include "backend/backend.h"

/* What an address says. */
enum vv_uri_kind { VV_URI_FILE, VV_URI_MEM, VV_URI_LOADED };

#define VV_URI_OPTIONS 15 /* more than any library knows */

struct vv_uri { /* not copied: it points into itself */
    enum vv_uri_kind kind;
    char scheme[8];                           /* of VV_URI_LOADED: which library */
    char path[VV_BACKEND_PATH_MAX + 1];       /* folder, name of the memory store, or what that library knows */
    uint64_t limit;                           /* bytes per second, 0: none */
    char limit_file[VV_BACKEND_PATH_MAX + 1]; /* "", or where processes share it */
    uint64_t latency_ns;
    unsigned retry;
    int count;
    char fault[256];                                         /* "" or the specification */
    struct varve_backend_option options[VV_URI_OPTIONS + 1]; /* of VV_URI_LOADED: for that library, then one of NULLs */
    char query[VV_BACKEND_PATH_MAX + 1024];                  /* what the options point into */
};

/* Take an address apart; VARVE_SETTING or VARVE_UNSUPPORTED, and error says what is wrong. Pure: touches nothing. */
int vv_uri_parse(const char *text, struct vv_uri *out, struct varve_error *error);
/* Is it a fault specification? 0 or -EINVAL. */
int vv_fault_spec_check(const char *spec);

int vv_mem_open(const char *name, int may_create, struct varve_backend **out, struct varve_error *error);

/* Does this backend, perhaps compiled against an older header, have the member? */
#define VV_BACKEND_HAS(backend, member)                                                                                \
    ((backend)->ops->size >= offsetof(struct varve_backend_ops, member) + sizeof((backend)->ops->member) &&            \
     (backend)->ops->member != NULL)

/* What it is behind its wrappers. */
struct varve_backend *vv_backend_innermost(struct varve_backend *backend);

/* The names a list() found: collect, sort, then call back with no lock held. */
struct vv_name_list {
    struct vv_found *items;
    size_t count;
    size_t capacity;
};
struct vv_found {
    char *name;
    int is_prefix;
};

void vv_name_list_clear(struct vv_name_list *list);
int vv_name_list_add(struct vv_name_list *list, const char *name, size_t size, int is_prefix);
/* Sort, join equal names, and hand at most limit (0: all) of them to fn. What list() returns. */
int vv_name_list_emit(struct vv_name_list *list, size_t limit, varve_list_fn fn, void *arg);

#endif
