/* Checkpoints that somebody asks for while the program runs: signals, a file, `varve trigger`, the end of the job.
 *
 * Each rank counts its signals; rank 0 alone looks at the file, the store and the clock. What one rank has found
 * reaches all of them with the agreement of the next varve_need (need.c), in the message that it sends anyway. From
 * then on it is known on all ranks, until a checkpoint is begun. */
#ifndef VV_ASKED_H
#define VV_ASKED_H

#include "base/log.h"
#include "base/settings.h"
#include "store/store.h"

/* The strongest first: the least of all ranks' wishes is that of the job. */
enum vv_wish {
    VV_WISH_EXIT,       /* a checkpoint, and the job should end */
    VV_WISH_CHECKPOINT, /* somebody has asked for one */
    VV_WISH_DUE,        /* by the interval */
    VV_WISH_NONE
};

struct vv_asked {
    int signal, exit_signal;           /* numbers; 0: none */
    unsigned signals_seen, exits_seen; /* how many there were when this session last looked */
    uint64_t look_ns;                  /* files and the store are not looked at before */
    uint64_t opened_wall_ns;           /* older requests were not meant for this session */
    uint64_t stuck;                    /* the sum of a request that could not be removed: it counts once */
    int is_file_stuck;                 /* the same for the file */
    enum vv_wish pending;              /* agreed by all ranks, until a checkpoint is begun */
    int is_leaving;                    /* agreed by all ranks: the job should end */
    int has_begun;                     /* a checkpoint, since then */
    int has_left_word;                 /* in the file for it */
    int is_word_stuck;                 /* it could not be made, and somebody was told to leave */
};

/* Count the signals of this session from now on. 0 or -errno. */
int vv_asked_open(struct vv_asked *asked, const struct vv_settings *settings, uint64_t now_ns, uint64_t wall_ns,
                  struct varve_error *error);
void vv_asked_close(struct vv_asked *asked);

/* What signals of this process have asked since the last look. */
enum vv_wish vv_asked_signals(struct vv_asked *asked);

/* A checkpoint was begun: what was asked for before is on its way. */
void vv_asked_begun(struct vv_asked *asked);

/* The file and the store, for rank 0: at most once a second, and with a hundredth of the time at most. What is found
 * is removed, and counts once even if that fails. */
struct vv_asked_look {
    const struct vv_settings *settings;
    struct vv_store *store; /* NULL: it is only read */
    const char *name;
    const struct vv_log *log;
    uint64_t now_ns;
};
enum vv_wish vv_asked_look(struct vv_asked *asked, const struct vv_asked_look *look);

/* The setting exit_file ("": none), for rank 0 when a session is opened: 0, or why it could not be made. */
int vv_asked_check_word(const char *path, struct varve_error *error);

/* The job is told to end: in that file as well, for whoever started it. Once, and again as long as it fails. What the
 * store still asks of this session is dropped. */
void vv_asked_leave_word(struct vv_asked *asked, const struct vv_asked_look *look);

/* ---- asked_signals.c: handlers are the process's, and counts only rise ---- */
/* The number of a signal by the position of its word in the setting; 0: off. */
int vv_signal_number(int choice);
int vv_signal_take(int number); /* 0 or -errno */
void vv_signal_leave(int number);
unsigned vv_signal_count(int number);

#endif
