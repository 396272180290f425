/* Is the process that wrote a claim still there? Only a certain "gone" counts; everything doubtful is unknown, and
 * then the heartbeat decides. */
#include <string.h>
#include <unistd.h>

#include "base/alive.h"
#include "lifecycle/lifecycle.h"

static void read_boot_id(uint8_t out[16]) {
    char text[64];
    size_t digits = 0;
    uint8_t id[16] = {0};
    memset(out, 0, 16);
    if (vv_read_proc("/proc/sys/kernel/random/boot_id", text, sizeof text) < 0)
        return;
    for (const char *p = text; *p && digits < 32; p++) {
        const char *hex = "0123456789abcdef";
        const char *at = strchr(hex, *p);
        if (at)
            id[digits / 2] |= (uint8_t)((at - hex) << (digits % 2 ? 0 : 4)), digits++;
    }
    if (digits == 32)
        memcpy(out, id, 16);
}

void vv_process_self(struct vv_claim *claim) {
    struct vv_alive_id self;
    vv_alive_self(&self);
    claim->pid = (uint32_t)self.pid;
    claim->pid_namespace = self.pid_space;
    claim->pid_start = self.start;
    read_boot_id(claim->boot_id);
    if (gethostname(claim->host, sizeof claim->host) < 0)
        claim->host[0] = '\0';
    claim->host[sizeof claim->host - 1] = '\0';
}

int vv_process_look(const struct vv_claim *claim) {
    static const uint8_t none[16];
    uint8_t boot_id[16];
    struct vv_alive_id id = {claim->pid, claim->pid_start, claim->pid_namespace};
    read_boot_id(boot_id);
    if (memcmp(claim->boot_id, none, 16) == 0 || memcmp(claim->boot_id, boot_id, 16) != 0)
        return VV_PROCESS_UNKNOWN;
    enum vv_alive alive = vv_alive_look(&id);
    return alive == VV_ALIVE_UNKNOWN ? VV_PROCESS_UNKNOWN : alive == VV_ALIVE_NO ? VV_PROCESS_GONE : VV_PROCESS_THERE;
}
