/* cmocka with all that its header wants before it. */
#ifndef VARVE_TEST_H
#define VARVE_TEST_H

/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
/* clang-format on */

#endif
