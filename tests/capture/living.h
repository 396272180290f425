/* Living in somebody's program: each case is a program that does something of its own with its memory, its signals or
 * the kernel while a checkpoint is in flight. */
#ifndef CAPTURE_LIVING_H
#define CAPTURE_LIVING_H

#include "flight.h"

struct living_case {
    const char *name;
    void (*run)(void);
};
extern const struct living_case signal_cases[], memory_cases[], kernel_cases[], kinds_cases[], system_cases[];

#endif
