/* What session_log.c remembers and session_log_lines.c prints. */
#ifndef VV_SESSION_LOG_PRIVATE_H
#define VV_SESSION_LOG_PRIVATE_H

#include <pthread.h>
#include <sys/types.h>

#include "base/bytes.h"
#include "joblog/session_log.h"

#define VV_LOG_FRESH 64u /* checkpoints that are kept one by one, */
#define VV_LOG_OLD 128u  /* and entries that older ones are added up in */
#define VV_LOG_EVENTS 64u
#define VV_LOG_CODECS 8u
#define VV_LOG_TEXT 200u

/* Of rank 0. */
enum vv_log_time {
    VV_LOG_BLOCKED,
    VV_LOG_WAITED,
    VV_LOG_DURABLE,
    VV_LOG_IDLE,
    VV_LOG_NAMED,
    VV_LOG_EXCHANGE,
    VV_LOG_FINE,
    VV_LOG_AUDIT,
    VV_LOG_ENCODE,
    VV_LOG_SAMPLED,
    VV_LOG_TIMES
};

/* One checkpoint, or several that were added up. */
struct vv_log_entry {
    uint64_t time_ns;    /* when the last of them ended */
    uint64_t version;    /* the same */
    uint32_t generation; /* the same */
    uint32_t count, failed;
    struct vv_tally tally;
    double seconds[VV_LOG_TIMES];
    double blocked_most, durable_most;
    uint64_t freed_bytes, freed_objects;
    char codec[16];
};

struct vv_log_event {
    uint64_t time_ns;
    const char *what;
    int64_t version;
    uint32_t generation;
    double seconds;
    uint64_t bytes;
    char text[VV_LOG_TEXT];
};

struct vv_log_codec {
    char name[16];
    uint64_t checkpoints, bytes_new, bytes_stored;
};

struct vv_session_log {
    struct vv_job *job;
    pid_t pid;
    uint32_t generation;     /* of its key; 0: nothing is claimed yet */
    pthread_mutex_t writing; /* the object; taken before the lock */
    unsigned failures;       /* to write it */
    pthread_mutex_t lock;    /* all that follows */
    int is_changed, is_written;
    int last_result;
    uint64_t opened_ns;
    struct vv_log_entry old[VV_LOG_OLD], fresh[VV_LOG_FRESH];
    size_t old_count, fresh_count;
    unsigned stride; /* requests that an old entry has, but for the last */
    struct vv_log_event events[VV_LOG_EVENTS];
    size_t event_count;
    uint64_t events_lost;
    struct vv_log_codec codecs[VV_LOG_CODECS];
    size_t codec_count;
    uint64_t checkpoints, failed, restarts;
    struct vv_prune_result freed;
    uint64_t blocked_ns, waited_ns, blocked_version; /* of the last call */
    int has_blocked;                                 /* its checkpoint has not ended yet */
    int awaits_call;                                 /* the newest checkpoint has ended before its call */
    char capture[16], tracker[16], dedup[16];
    double storage_speed;
    uint64_t memory;
};

/* All lines, VV_JOB_LOG_MAX bytes at the most. With the lock. */
void vv_session_log_print(const struct vv_session_log *log, const char *why, struct vv_buf *out);

#endif
