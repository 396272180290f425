/* What the files of the chooser share: the storage's speed, variables and their candidates, samples. */
#ifndef VV_CHOICE_PRIVATE_H
#define VV_CHOICE_PRIVATE_H

#include <pthread.h>

#include "encode/choice.h"

#define CANDIDATES_MAX                                                                                                 \
    20u /* of untyped content: 4 without filters, 7 with filters for each of two element sizes, rotate */
#define VARIABLES_MAX 65536u
#define KINDS 18u /* element types, untyped data seen as 4 bytes each, and the two lossy types */

/* choice_speed.c: how fast the storage takes the stream. */
struct stream {
    double speed;              /* bytes per second; 0: not known yet */
    double ceiling;            /* what live figures may raise it to */
    double held;               /* share of the time of writing for which a call holds its thread: 1 without buffers */
    double bytes, busy, pause; /* since the last call that had to wait: bytes, seconds in calls and between them */
    double total;              /* bytes since the checkpoint began */
    double mean_busy, mean_pause, variance, covariance; /* per byte, of the recent past */
    double slow_proof; /* of calls in a row that were far slower than thought; 1: no doubt */
    double calm;       /* bytes for which the speed does not grow although no call has to wait */
    int has_waited;    /* the last call did */
    uint64_t last_ns;
};
void vv_choice_stream_init(struct stream *stream);
void vv_choice_stream_begin(struct stream *stream, double planned, uint64_t now_ns);
void vv_choice_stream_wrote(struct stream *stream, size_t size, double seconds, uint64_t now_ns);

/* choice_table.c */
enum knowledge {
    KNOW_NOTHING,
    KNOW_ALIKE, /* from other variables of the same kind, or from long ago */
    KNOW_SAMPLE,
    KNOW_BLOCKS, /* from whole blocks */
};
struct candidate {
    struct vv_coding coding;
    uint8_t name;
    uint8_t kind; /* where what is learned is kept for other variables */
    uint8_t knowledge;
    uint8_t is_busy; /* some thread is sampling it */
    uint8_t blocks;  /* encoded with it, as far as it matters: up to 3 */
    float fraction;  /* stored over raw */
    float pace;      /* seconds per byte */
};
struct variable {
    uint64_t number;
    uint64_t bytes;      /* encoded so far */
    uint64_t since_look; /* of these, since candidates were compared */
    uint32_t next;       /* in the chain of its hash, or of free ones */
    uint32_t count;
    uint32_t busy;   /* candidates that are being sampled */
    uint32_t trials; /* blocks that were encoded to try a candidate */
    uint8_t type, is_lossy;
    uint8_t drift;                               /* blocks in a row that came out otherwise than expected */
    struct candidate candidates[CANDIDATES_MAX]; /* the first is none */
};
/* What is known of a coding whatever the variable. */
struct lesson {
    float fraction;
    float pace;
    float weight; /* blocks and samples behind it; 0: pace is a guess and fraction not known */
};
/* Of whole blocks over samples. */
struct bias {
    float fraction, pace;
};
struct vv_choice_seam; /* below */

struct vv_chooser {
    pthread_mutex_t mutex; /* never held while sampling */
    pthread_cond_t sampled;
    struct vv_chooser_plan plan;
    struct stream stream;
    const struct vv_choice_seam *seam;

    struct variable *variables;
    uint32_t *chains; /* of VARIABLES_MAX hashes, +1; made with the first variable */
    size_t capacity;
    uint32_t used, oldest;
    struct variable shared; /* when there is no memory for one more */
    struct lesson lessons[KINDS][VV_CODING_NAMES];
    struct lesson general[VV_CODING_NAMES];
    struct bias bias[VV_CODING_NAMES];

    uint64_t checkpoints; /* begun */
    uint64_t begin_ns;
    double lead;        /* seconds by which the storage is behind the processors (less than 0: they are) */
    double flight_lead; /* the same for blocks that are still being encoded, as expected */
    double idle;        /* seconds per thread in which they waited for the storage, by the same account */
    uint32_t in_flight;
    double regret[3], ideal[3]; /* before the speed is known: cost so far of what was taken and of the best */
    struct vv_choice_sums sums;
};

void vv_choice_lessons_init(struct vv_chooser *chooser);
/* The variable; made if need be. Never NULL. Pointers hold while the mutex does. */
struct variable *vv_choice_variable_of(struct vv_chooser *chooser, uint64_t number, const struct vv_content *content,
                                       const void *data, size_t size);
struct variable *vv_choice_variable_find(struct vv_chooser *chooser, uint64_t number); /* NULL if there is none */
struct candidate *vv_choice_candidate_of(struct variable *variable, const struct vv_coding *coding);
int vv_choice_name(const struct vv_coding *coding); /* enum vv_coding_name */
void vv_choice_lesson_add(struct vv_chooser *chooser, const struct candidate *candidate, double fraction, double pace,
                          double weight);
/* A whole block came out like this. */
void vv_choice_candidate_encoded(struct vv_chooser *chooser, struct variable *variable, struct candidate *candidate,
                                 size_t size, size_t stored, double seconds);
/* Where time does not count: encode the block with everything that comes into question for the variable; the smallest.
 * Unlocks the mutex meanwhile. */
void vv_choice_smallest(struct vv_chooser *chooser, struct vv_coder *coder, const struct variable *variable,
                        const struct vv_content *content, const void *data, size_t size, struct vv_coding *out);
/* Candidates are to be compared again: what is known becomes a guess. */
void vv_choice_variable_doubt(struct variable *variable);

/* choice_sample.c */
/* Which element sizes untyped bytes look like they have: bit 0 for 4, bit 1 for 8. */
unsigned vv_choice_elements(const void *data, size_t size);
/* Encode a piece of the block with the candidate and note what came out. Called with the mutex held, which is free
 * meanwhile; the candidate must not be busy. */
void vv_choice_candidate_sample(struct vv_chooser *chooser, struct vv_coder *coder, uint64_t number,
                                struct variable *variable, struct candidate *candidate,
                                const struct vv_content *content, const void *data, size_t size, size_t piece);

/* Tests put a clock and a table of costs in place of real ones. */
struct vv_choice_seam {
    uint64_t (*now_ns)(void *arg);
    /* As vv_coder_encode; says how long it took. */
    int64_t (*sample)(void *arg, struct vv_coder *coder, const struct vv_coding *coding,
                      const struct vv_content *content, const void *data, size_t size, int level, double *seconds_out);
    void *arg;
};
void vv_chooser_use(struct vv_chooser *chooser, const struct vv_choice_seam *seam);

#endif
