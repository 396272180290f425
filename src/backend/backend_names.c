/* Names collected by list(), sorted and handed out. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend_parts.h"
#include "base/alloc.h"

void vv_name_list_clear(struct vv_name_list *list) {
    for (size_t i = 0; i < list->count; i++)
        vv_free(list->items[i].name);
    vv_free(list->items);
    *list = (struct vv_name_list){0};
}

int vv_name_list_add(struct vv_name_list *list, const char *name, size_t size, int is_prefix) {
    if (VV_GROW(list->items, list->count, list->capacity) != 0)
        return -ENOMEM;
    char *copy = vv_malloc(size + 1);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, name, size);
    copy[size] = '\0';
    list->items[list->count++] = (struct vv_found){.name = copy, .is_prefix = is_prefix};
    return 0;
}

static int compare(const void *a, const void *b) {
    return strcmp(((const struct vv_found *)a)->name, ((const struct vv_found *)b)->name);
}

int vv_name_list_emit(struct vv_name_list *list, size_t limit, varve_list_fn fn, void *arg) {
    if (list->count)
        qsort(list->items, list->count, sizeof(*list->items), compare);
    size_t given = 0;
    for (size_t i = 0; i < list->count && (limit == 0 || given < limit); given++) {
        const char *name = list->items[i].name;
        int is_prefix = 0;
        for (; i < list->count && strcmp(list->items[i].name, name) == 0; i++)
            is_prefix |= list->items[i].is_prefix;
        int result = fn(arg, name, is_prefix);
        if (result)
            return result < 0 ? result : 0;
    }
    return 0;
}
