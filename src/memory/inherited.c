#include "memory/inherited.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

int vv_inherited_open(struct vv_inherited *inherited) {
    *inherited = (struct vv_inherited){.text = fopen("/proc/self/smaps", "re")};
    return inherited->text ? 0 : -errno;
}

void vv_inherited_close(struct vv_inherited *inherited) {
    fclose(inherited->text);
}

/* dc: not in the child; wf, dp: empty there; um: filled in when touched; io, pf, mm: of a device; ht: a pool's. */
static int is_inherited(const char *flags) {
    static const char *const others[] = {" dc", " wf", " dp", " um", " io", " pf", " mm", " ht"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strstr(flags, others[i]))
            return 0;
    return 1;
}

/* The next mapping, up to its last line, which has the flags; a kernel without that line has no end here. */
static int next_mapping(struct vv_inherited *inherited) {
    char line[512], mode[5] = "";
    uint64_t inode;
    int is_private = 0;
    while (fgets(line, sizeof line, inherited->text)) {
        if (strncmp(line, "VmFlags:", 8) == 0) {
            inherited->is_good = is_private && is_inherited(line);
            inherited->has_pool |= mode[3] == 'p' && strstr(line, " ht") != NULL;
            return 1;
        }
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*x %*x:%*x %" SCNu64, &inherited->start, &inherited->end, mode,
                   &inode) == 4)
            is_private = mode[0] == 'r' && mode[3] == 'p' && inode == 0;
        while (!strchr(line, '\n') && fgets(line, sizeof line, inherited->text))
            ;
    }
    inherited->start = inherited->end = UINT64_MAX;
    return 0;
}

int vv_inherited_has(struct vv_inherited *inherited, const void *ptr, uint64_t size) {
    uint64_t from = (uint64_t)(uintptr_t)ptr, to = from + size;
    if (to < from)
        return 0;
    while (from < to) {
        while (inherited->end <= from)
            if (!next_mapping(inherited))
                return 0;
        if (inherited->start > from || !inherited->is_good)
            return 0;
        from = inherited->end;
    }
    return 1;
}

int vv_inherited_has_pool(struct vv_inherited *inherited) {
    while (next_mapping(inherited))
        ;
    return inherited->has_pool;
}
