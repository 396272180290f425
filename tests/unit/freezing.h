/* For tests that need a frozen copy of the process. */
#ifndef FREEZING_H
#define FREEZING_H

#include "frozen/frozen.h"
#include "test.h"

/* 0, with the reason: this system makes none. */
static inline int can_freeze(void) {
    char why[160] = "";
    if (vv_frozen_works(why, sizeof why) == 0)
        return 1;
    print_message("skipped: %s\n", why);
    return 0;
}

#endif
