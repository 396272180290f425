/* What a session would choose here, and why: settings say what is wanted, the kernel what is possible. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "inspect/inspect_private.h"

#include "base/error.h"
#include "capture/capture.h"
#include "frozen/frozen.h"
#include "memory/peek.h"

#define REASON_CAPACITY 256

struct choices {
    const struct vv_settings *settings;
    varve_choice_fn fn;
    void *arg;
};

static int tell_choice(const struct choices *choices, const char *what, const char *choice, const char *reason) {
    struct varve_choice_info info = {.what = what, .choice = choice, .reason = reason};
    return choices->fn(choices->arg, &info);
}

static int choose_capture(const struct vv_settings *settings, char *reason) {
    const char *why;
    int mode = vv_settings_capture(settings, &why);
    if (why) {
        snprintf(reason, REASON_CAPACITY, "%s", why);
    } else {
        snprintf(reason, REASON_CAPACITY, "the setting capture (%.200s)",
                 vv_setting_origin(settings, vv_setting_find("capture")));
    }
    return mode;
}

static int let_pass(void *arg, uintptr_t page) {
    (void)arg;
    (void)page;
    return 1;
}

static int tell_guard(const struct choices *choices, int capture, const char *tracker) {
    char why[192] = "";
    char reason[REASON_CAPACITY];
    struct vv_guard *guard = NULL;

    if (capture == VV_CHOOSE_CAPTURE_SYNC)
        return tell_choice(choices, "guard", "none", "nothing is held: everything is stored inside the call");
    if (sysconf(_SC_PAGESIZE) != VV_PAGE || !vv_peek_works()) {
        return tell_choice(choices, "guard", "none",
                           "nothing is held: pages have another size, or cannot be read safely");
    }
    int rc = strcmp(tracker, "trap-mprotect") == 0 ? 0 : vv_guard_uffd(let_pass, NULL, &guard, why, sizeof why);
    if (rc == 0 && guard) {
        snprintf(reason, sizeof reason, "userfaultfd stops whoever writes a held page, system calls too");
    } else {
        char why_not[192] = "";
        rc = vv_guard_mprotect(let_pass, NULL, &guard, why_not, sizeof why_not);
        if (rc < 0) {
            snprintf(reason, sizeof reason, "nothing is held: no userfaultfd (%.100s), no mprotect (%.100s)", why,
                     why_not);
            return tell_choice(choices, "guard", "none", reason);
        }
        snprintf(reason, sizeof reason, "only regions with VARVE_NO_KERNEL_WRITES are held%s%.190s", *why ? ": " : "",
                 why);
    }
    const char *name = guard->ops->name; /* constant */
    guard->ops->close(guard);
    return tell_choice(choices, "guard", name, reason);
}

static int tell_frozen(const struct choices *choices, int capture) {
    char why[160] = "";

    if (capture == VV_CHOOSE_CAPTURE_AUTO || capture == VV_CHOOSE_CAPTURE_FROZEN) {
        return vv_frozen_works(why, sizeof why) == 0
                   ? tell_choice(choices, "frozen", "works", "a copy of the process can be made, and is as it was")
                   : tell_choice(choices, "frozen", "none", why);
    }
    return tell_choice(choices, "frozen", "none", "nothing is frozen: the setting capture says so");
}

/* "scan: the kernel notes writes" of scan. */
static const char *without_name(const char *reason, const char *name) {
    size_t length = strlen(name);
    return strncmp(reason, name, length) == 0 && strncmp(reason + length, ": ", 2) == 0 ? reason + length + 2 : reason;
}

static int tell_all(const struct choices *choices, struct varve_error *error) {
    static const char *const names[] = {"auto", "sync", "trap", "frozen", "held"};
    const struct vv_log log = {.level = VV_LOG_ERROR, .rank = -1};
    const struct vv_settings *settings = choices->settings;
    struct vv_capture *capture = NULL;
    char tracker[32] = "";
    char reason[REASON_CAPACITY] = "";

    int mode = choose_capture(settings, reason);
    int rc = tell_choice(choices, "capture", names[mode], reason);
    if (rc != 0)
        return rc;
    struct vv_capture_options options = {mode, settings->order, settings->tracker, &log};
    rc = vv_capture_create(&options, &capture, error);
    if (rc < 0)
        return rc;
    snprintf(tracker, sizeof tracker, "%s", vv_capture_tracker(capture));
    rc = tell_choice(choices, "tracker", tracker, without_name(vv_capture_reason(capture), tracker));
    vv_capture_destroy(capture); /* memory has one guard at a time */
    if (rc == 0)
        rc = tell_guard(choices, mode, tracker);
    return rc != 0 ? rc : tell_frozen(choices, mode);
}

int varve_choices_list(const char *settings, varve_choice_fn fn, void *arg, struct varve_error *error) {
    struct vv_settings values;
    struct choices choices = {.settings = &values, .fn = fn, .arg = arg};

    vv_error_clear(error);
    if (!fn)
        return vv_error(error, -EINVAL, "varve_choices_list needs a function");
    int rc = vv_settings_load(&values, settings, NULL, error);
    if (rc == 0)
        rc = tell_all(&choices, error);
    return rc < 0 ? vv_error_default(error, rc, "no session could be opened here: %s", varve_error_text(rc)) : 0;
}
