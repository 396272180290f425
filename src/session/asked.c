/* What signals, a file and the store ask of this session (asked.h). */
#include "session/asked.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/thread.h"
#include "lifecycle/trigger.h"

#define LOOK_NS UINT64_C(1000000000) /* not more often */
#define LOOK_SHARE 100               /* and this many times as long as a look takes */
#define OLD_NS (5 * LOOK_NS)         /* clocks of hosts differ by less, and a job is not queued again so soon */

static int take(int number, const char *setting, struct varve_error *error) {
    int rc = number ? vv_signal_take(number) : 0;
    if (rc == -EBUSY)
        return vv_error(error, rc,
                        "the setting %s: a handler that was installed after varve_open took the signal (%s); install"
                        " handlers before varve_open",
                        setting, strsignal(number));
    return rc ? vv_error_sys(error, rc, "the setting %s: no handler can be installed", setting) : 0;
}

int vv_asked_open(struct vv_asked *asked, const struct vv_settings *settings, uint64_t now_ns, uint64_t wall_ns,
                  struct varve_error *error) {
    int number = vv_signal_number(settings->signal), exit_number = vv_signal_number(settings->exit_signal);
    *asked = (struct vv_asked){.pending = VV_WISH_NONE, .look_ns = now_ns + LOOK_NS, .opened_wall_ns = wall_ns};
    asked->signals_seen = vv_signal_count(number); /* before: one that comes from now on is for this session */
    asked->exits_seen = vv_signal_count(exit_number);
    int rc = take(number, "signal", error);
    if (rc)
        return rc;
    asked->signal = number;
    rc = take(exit_number, "exit_signal", error);
    if (rc == 0)
        asked->exit_signal = exit_number;
    return rc;
}

void vv_asked_close(struct vv_asked *asked) {
    if (asked->signal)
        vv_signal_leave(asked->signal);
    if (asked->exit_signal)
        vv_signal_leave(asked->exit_signal);
    asked->signal = asked->exit_signal = 0;
}

static int has_come(int number, unsigned *seen) {
    unsigned count = number ? vv_signal_count(number) : *seen;
    int is_new = count != *seen;
    *seen = count;
    return is_new;
}

enum vv_wish vv_asked_signals(struct vv_asked *asked) {
    int is_asked = has_come(asked->signal, &asked->signals_seen);
    if (has_come(asked->exit_signal, &asked->exits_seen))
        return VV_WISH_EXIT;
    return is_asked ? VV_WISH_CHECKPOINT : VV_WISH_NONE;
}

void vv_asked_begun(struct vv_asked *asked) {
    asked->pending = VV_WISH_NONE;
    asked->has_begun = 1;
}

int vv_asked_check_word(const char *path, struct varve_error *error) {
    char folder[VV_SETTING_TEXT_BYTES];
    const char *slash = strrchr(path, '/');
    if (!*path)
        return 0;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path + 1) : 1, slash ? path : ".");
    if (faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) == 0)
        return 0;
    return vv_error_sys(error, -errno, "the setting exit_file must name a file in a folder that rank 0 can write: %s",
                        folder);
}

static int make_word(const char *path) {
    if (!*path)
        return 0;
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    return file < 0 ? -1 : close(file);
}

/* Asked once more while the last checkpoint was in flight: the next life of the job must not take it for its own. */
static void drop_trigger(const struct vv_asked_look *look) {
    struct vv_trigger trigger = {0};
    struct varve_error why = {.rank = -1};
    uint64_t sum = 0;
    if (look->settings->trigger && look->store && vv_trigger_take(look->store, look->name, &trigger, &sum, &why) == 1)
        vv_log(look->log, VV_LOG_INFO, "`varve trigger` on %s asks a job that is leaving: that is dropped",
               trigger.host);
}

void vv_asked_leave_word(struct vv_asked *asked, const struct vv_asked_look *look) {
    const char *path = look->settings->exit_file;
    if (asked->has_left_word)
        return;
    asked->has_left_word = make_word(path) == 0;
    if (!asked->has_left_word && !asked->is_word_stuck)
        vv_log(look->log, VV_LOG_WARN,
               "%s cannot be made: %s; whoever started the job cannot tell that it leaves before it is done", path,
               strerror(errno));
    asked->is_word_stuck = !asked->has_left_word;
    drop_trigger(look); /* afterwards: whoever sees the word asks no more */
}

/* ---- what lies somewhere ---- */

/* A file that cannot be removed counts when it appears, and not again before it was away. */
static enum vv_wish look_at_file(struct vv_asked *asked, const struct vv_asked_look *look) {
    const char *path = look->settings->trigger_file;
    struct stat found;
    if (!*path)
        return VV_WISH_NONE;
    if (lstat(path, &found) != 0) {
        asked->is_file_stuck &= errno != ENOENT;
        return VV_WISH_NONE;
    }
    if (S_ISREG(found.st_mode) && unlink(path) == 0)
        return VV_WISH_CHECKPOINT;
    int is_new = !asked->is_file_stuck;
    asked->is_file_stuck = 1;
    if (is_new)
        vv_log(look->log, VV_LOG_WARN,
               "%s asks for a checkpoint, but cannot be removed: remove it, or it is not seen again: %s", path,
               S_ISREG(found.st_mode) ? strerror(errno) : "it is no plain file");
    return is_new ? VV_WISH_CHECKPOINT : VV_WISH_NONE;
}

/* One that was made for an earlier session, and nobody has taken, must not end this one. */
static enum vv_wish obey(const struct vv_asked *asked, const struct vv_asked_look *look,
                         const struct vv_trigger *trigger) {
    int is_exit = trigger->wish == VV_TRIGGER_EXIT, is_old = trigger->time_ns + OLD_NS < asked->opened_wall_ns;
    vv_log(look->log, VV_LOG_INFO, "`varve trigger` on %s asks for %s%s", trigger->host,
           is_exit ? "a checkpoint and the end of the job" : "a checkpoint",
           is_old ? ": it is older than this session, and is dropped" : "");
    if (is_old)
        return VV_WISH_NONE;
    return is_exit ? VV_WISH_EXIT : VV_WISH_CHECKPOINT;
}

static enum vv_wish look_into_store(struct vv_asked *asked, const struct vv_asked_look *look) {
    struct vv_trigger trigger = {0};
    struct varve_error why = {.rank = -1};
    uint64_t sum = 0;
    if (!look->settings->trigger || !look->store)
        return VV_WISH_NONE;
    int rc = vv_trigger_take(look->store, look->name, &trigger, &sum, &why);
    int is_stuck = sum != 0 && sum == asked->stuck;
    asked->stuck = rc == 1 ? 0 : sum;
    if ((rc < 0 || rc == 2) && !is_stuck)
        vv_log(look->log, VV_LOG_WARN, "what `varve trigger` has asked of %s %s: %s", look->name,
               rc == 2 ? "is done once, but the request stays in the store" : "cannot be read, and is not done",
               why.text);
    return rc > 0 && !is_stuck ? obey(asked, look, &trigger) : VV_WISH_NONE;
}

enum vv_wish vv_asked_look(struct vv_asked *asked, const struct vv_asked_look *look) {
    if (look->now_ns < asked->look_ns)
        return VV_WISH_NONE;
    uint64_t begin = vv_clock_ns();
    enum vv_wish file = look_at_file(asked, look), store = look_into_store(asked, look);
    uint64_t pause = LOOK_SHARE * (vv_clock_ns() - begin);
    asked->look_ns = look->now_ns + (pause > LOOK_NS ? pause : LOOK_NS);
    return file < store ? file : store;
}
