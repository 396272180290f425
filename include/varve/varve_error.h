/* Errors of Varve: one convention from top to bottom.
 *
 * Functions that can fail return int: 0 or a positive count is success, a negative value is the error. System errors
 * are -errno; conditions of our own are the VARVE_ codes below. Their numbers are never changed. Where a person will
 * read the reason, the last parameter is an optional struct varve_error; the innermost function that knows the cause
 * fills it, the functions above pass it on untouched. */
#ifndef VARVE_ERROR_H
#define VARVE_ERROR_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define VARVE_API __attribute__((visibility("default")))
#else
#define VARVE_API
#endif

/* X(name, number, sentence). Every code is something a caller can act on. */
#define VARVE_ERROR_MAP(X)                                                                                             \
    X(NO_CHECKPOINT, -20001, "there is no checkpoint of this name")                                                    \
    X(CORRUPT, -20002, "stored data is damaged")                                                                       \
    X(UNKNOWN_FORMAT, -20003, "stored by a newer or different program: a field has a value this one does not know")    \
    X(BUSY, -20004, "another session is writing this name")                                                            \
    X(FENCED, -20005, "this session was declared dead and a newer one has taken its name")                             \
    X(MISMATCH, -20006, "what is stored and what is protected differ")                                                 \
    X(NO_STORE, -20007, "there is no store at this address")                                                           \
    X(FORGOTTEN, -20008, "the checkpoint was forgotten")                                                               \
    X(SETTING, -20009, "a setting is unknown or has a value that is not allowed")                                      \
    X(UNSUPPORTED, -20010, "not supported by this backend, build or kernel")                                           \
    X(DISAGREED, -20011, "the ranks did not agree")                                                                    \
    X(EARLIER_FAILED, -20012, "this checkpoint was begun, but an earlier one failed after its call had returned")    \
    X(KEY, -20013, "the store is encrypted and the key is missing or wrong, or it is not and should be")

#define VARVE_ERROR_ENUM(name, number, sentence) VARVE_##name = number,
enum varve_code { VARVE_OK = 0, VARVE_ERROR_MAP(VARVE_ERROR_ENUM) };
#undef VARVE_ERROR_ENUM

/* What went wrong, for people. Owned by the caller; the library only fills it. */
struct varve_error {
    int code;       /* the value the function returned, or 0; with VARVE_EARLIER_FAILED, why the earlier one failed */
    int rank;       /* the rank on which it happened, or -1 */
    char text[492]; /* what happened, to which object, and what to do; no line end */
};

/* "CORRUPT", "ENOSPC", ... Any thread. The string is constant. */
VARVE_API const char *varve_error_name(int code);

/* One sentence. Any thread. The string is constant. */
VARVE_API const char *varve_error_text(int code);

#ifdef __cplusplus
}
#endif
#endif
