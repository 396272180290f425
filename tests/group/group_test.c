#include "group.h"
#include "test.h"

void group_must_run(uint32_t ranks, group_fn fn, const void *arg, const struct group_options *options,
                    const char *about) {
    struct group_end end;
    char text[512];
    if (group_run(ranks, fn, (void *)(uintptr_t)arg, options, &end) == 0)
        return;
    group_describe(&end, text, sizeof text);
    fail_msg("%u ranks%s%s: %s", ranks, about && *about ? ", " : "", about ? about : "", text);
}
