/* What varve.f90 calls: the public functions of Varve, with arrays as Fortran describes them (ISO_Fortran_binding.h).
 *
 * Every function returns what its sister in varve.h does, and on failure fills the error, with the text of the
 * session's error where there is one. */
#ifndef VARVE_FORTRAN_BINDING_H
#define VARVE_FORTRAN_BINDING_H

#include <ISO_Fortran_binding.h>
#include <stdint.h>
#include <varve/varve.h>

/* type(varve_session) of the module: zeros when it is not open. */
struct fortran_session {
    struct varve_session *session;
    struct held *held; /* what a restart has brought and nobody has taken yet */
};

VARVE_API int varve_fortran_check_closed(struct fortran_session *self, struct varve_error *error);
VARVE_API int varve_fortran_open(const char *store, const char *name, const char *settings,
                                 struct fortran_session *self, struct varve_error *error);
/* Ends the session in any case. Does nothing if it is not open. */
VARVE_API int varve_fortran_close(struct fortran_session *self, struct varve_error *error);

/* An array of an intrinsic type, of which one has `element` bytes. first (from 1) and global: integers of any kind, one
 * for each dimension, or both NULL. */
VARVE_API int varve_fortran_protect(struct fortran_session *self, const char *region, const CFI_cdesc_t *array,
                                    size_t element, const CFI_cdesc_t *first, const CFI_cdesc_t *global,
                                    struct varve_error *error);
VARVE_API int varve_fortran_protect_bytes(struct fortran_session *self, const char *region, void *ptr, int64_t bytes,
                                          struct varve_error *error);
/* Memory that is protected from the start, and lives until varve_fortran_free or varve_fortran_close. */
VARVE_API int varve_fortran_alloc(struct fortran_session *self, const char *region, int64_t bytes, void **out,
                                  struct varve_error *error);
VARVE_API void varve_fortran_free(struct fortran_session *self, void *ptr);
VARVE_API int varve_fortran_unprotect(struct fortran_session *self, const char *region, struct varve_error *error);
VARVE_API int varve_fortran_distribute(struct fortran_session *self, const char *region, int how,
                                       struct varve_error *error);
VARVE_API int varve_fortran_attribute(struct fortran_session *self, const char *name, const char *value,
                                      struct varve_error *error);

VARVE_API int varve_fortran_checkpoint(struct fortran_session *self, int64_t version, struct varve_error *error);
VARVE_API int varve_fortran_wait(struct fortran_session *self, struct varve_error *error);
VARVE_API int varve_fortran_release(struct fortran_session *self, struct varve_error *error);
VARVE_API int varve_fortran_test(struct fortran_session *self, struct varve_error *error);
VARVE_API int varve_fortran_need(struct fortran_session *self, struct varve_error *error);
VARVE_API int varve_fortran_should_exit(struct fortran_session *self, struct varve_error *error);
VARVE_API double varve_fortran_time_left(const struct fortran_session *self);

VARVE_API int varve_fortran_restart(struct fortran_session *self, int64_t version, int64_t *version_out,
                                    struct varve_error *error);
/* Regions that are not protected, or with another size, come into memory of the binding, until they are taken. */
VARVE_API int varve_fortran_restart_alloc(struct fortran_session *self, int64_t version, int64_t *version_out,
                                          struct varve_error *error);
VARVE_API int varve_fortran_reject(struct fortran_session *self, int64_t version, struct varve_error *error);
/* Allocate the array with the shape that is stored, fill and protect it. */
VARVE_API int varve_fortran_take(struct fortran_session *self, const char *region, CFI_cdesc_t *array,
                                 struct varve_error *error);

#endif
