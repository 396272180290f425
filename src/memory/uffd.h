/* A thin layer on userfaultfd: the calls, with -errno and without what the build machine's headers may lack.
 * Everything here takes whole pages. */
#ifndef VV_UFFD_H
#define VV_UFFD_H

#include <linux/userfaultfd.h> /* struct uffd_msg and the features of Linux 5.19 */
#include <stddef.h>
#include <stdint.h>

/* Features that headers older than the running kernel do not name. */
#define VV_UFFD_WP_UNPOPULATED (UINT64_C(1) << 13) /* Linux 6.4 */
#define VV_UFFD_WP_ASYNC (UINT64_C(1) << 15)       /* Linux 6.7: writes are noted, nobody waits */

enum vv_uffd_kind {
    VV_UFFD_USER_ONLY,     /* unprivileged; without WP_ASYNC, system calls that write an armed page give EFAULT */
    VV_UFFD_KERNEL_CAPABLE /* needs a capability, vm.unprivileged_userfaultfd, or access to /dev/userfaultfd */
};

/* A descriptor (close-on-exec, reads never block) on which all these features are on, or -errno: -EPERM not allowed,
 * -ENOSYS no userfaultfd, -EINVAL a feature is missing. Closing it unregisters everything and wakes everybody. A child
 * of fork does not inherit registrations. */
int vv_uffd_open(enum vv_uffd_kind kind, uint64_t features);

/* Holes are no error for any of these, as long as something is mapped in the range. */

/* For write protection. -EBUSY: another context has a part of it. -EINVAL: nothing is mapped there, or memory of a kind
 * that cannot be protected. -ENOMEM: also when there are too many mappings. Protects nothing yet. */
int vv_uffd_register(int fd, uintptr_t start, size_t length);
/* Unprotects and wakes, too. Parts that are not registered are no error; -EINVAL: nothing is mapped there, or something
 * that cannot be registered, or, with newer kernels, another context has a part of it. */
int vv_uffd_unregister(int fd, uintptr_t start, size_t length);

/* Has somebody else registered the mapping of this page, so that what is absent there need not be zeros? 1 or 0; 0 also
 * where no userfaultfd may be opened: then others have none, either. Changes nothing. */
int vv_uffd_is_taken(uintptr_t page);

/* Is the mapping of this page, which is there, registered with this descriptor? 1 or 0. */
int vv_uffd_is_ours(int fd, uintptr_t page);

/* -ENOENT: nothing is mapped there, or not all of it is registered with this descriptor; then nothing, or only the
 * part below, was done. */
int vv_uffd_protect(int fd, uintptr_t start, size_t length);
/* The same the other way round; wakes who waits there. */
int vv_uffd_unprotect(int fd, uintptr_t start, size_t length);
/* Wakes without unprotecting: who still meets protection reports again. */
int vv_uffd_wake(int fd, uintptr_t start, size_t length);

#endif
