/* userfaultfd by system call, or by /dev/userfaultfd where an administrator gave access to it. */
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory/uffd.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif

static int request(int fd, unsigned long what, void *arg) {
    return ioctl(fd, what, arg) == 0 ? 0 : -errno;
}

static int open_device(int flags) {
    int device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
    if (device < 0)
        return -errno;
    int fd = ioctl(device, USERFAULTFD_IOC_NEW, flags);
    if (fd < 0)
        fd = -errno;
    close(device);
    return fd;
}

int vv_uffd_open(enum vv_uffd_kind kind, uint64_t features) {
    int flags = O_CLOEXEC | O_NONBLOCK | (kind == VV_UFFD_USER_ONLY ? UFFD_USER_MODE_ONLY : 0);
    int fd = (int)syscall(SYS_userfaultfd, flags);
    if (fd < 0) {
        int reason = -errno;
        fd = open_device(flags);
        if (fd < 0)
            return reason; /* the more telling one: the device is usually just not there */
    }
    struct uffdio_api api = {.api = UFFD_API, .features = features};
    int rc = request(fd, UFFDIO_API, &api);
    if (rc == 0 && (api.features & features) != features)
        rc = -EINVAL;
    if (rc != 0)
        close(fd);
    return rc != 0 ? rc : fd;
}

int vv_uffd_register(int fd, uintptr_t start, size_t length) {
    struct uffdio_register arg = {.range = {start, length}, .mode = UFFDIO_REGISTER_MODE_WP};
    return request(fd, UFFDIO_REGISTER, &arg);
}

int vv_uffd_unregister(int fd, uintptr_t start, size_t length) {
    struct uffdio_range range = {start, length};
    return request(fd, UFFDIO_UNREGISTER, &range);
}

/* By trying: the kernel tells it in another way only together with a walk over all pages (smaps). One page is enough,
 * as registrations are of mappings; and for write protection, which stops nobody until something is protected. */
int vv_uffd_is_taken(uintptr_t page) {
    const size_t length = 4096;
    int fd = vv_uffd_open(VV_UFFD_USER_ONLY, 0);
    if (fd == -EINVAL)
        fd = vv_uffd_open(VV_UFFD_KERNEL_CAPABLE, 0); /* before Linux 5.11 */
    if (fd < 0)
        return 0;
    int rc = vv_uffd_register(fd, page, length);
    if (rc == 0)
        vv_uffd_unregister(fd, page, length);
    close(fd);
    return rc == -EBUSY;
}

/* Only registered mappings can be filled in; one that is registered already, and with us, may be so again. */
int vv_uffd_is_ours(int fd, uintptr_t page) {
    struct uffdio_zeropage arg = {.range = {page, 4096}};
    int rc = request(fd, UFFDIO_ZEROPAGE, &arg);
    return (rc == 0 || rc == -EEXIST) && vv_uffd_register(fd, page, 4096) == 0;
}

static int write_protect(int fd, uintptr_t start, size_t length, uint64_t mode) {
    struct uffdio_writeprotect arg = {.range = {start, length}, .mode = mode};
    return request(fd, UFFDIO_WRITEPROTECT, &arg);
}

int vv_uffd_protect(int fd, uintptr_t start, size_t length) {
    return write_protect(fd, start, length, UFFDIO_WRITEPROTECT_MODE_WP);
}

int vv_uffd_unprotect(int fd, uintptr_t start, size_t length) {
    return write_protect(fd, start, length, 0);
}

int vv_uffd_wake(int fd, uintptr_t start, size_t length) {
    struct uffdio_range range = {start, length};
    return request(fd, UFFDIO_WAKE, &range);
}
