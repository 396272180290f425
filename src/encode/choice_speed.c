/* How fast the storage takes the stream, from calls that write to it.
 *
 * A call says less than it seems: buffers in front of the storage (write-behind, an allowance for bursts) take some
 * MiB at once, and do so again whenever the encoding threads were too slow to keep the storage busy.
 * - A call that has to wait for a buffer ends when there is room for just its bytes. So between the ends of two such
 *   calls the storage took exactly the bytes that were handed over between them, whatever the pauses: this is its
 * speed.
 * - Without buffers a call takes as long as the storage does, and pauses do not count. Which of the two it is shows in
 *   whether calls are shorter after a longer pause (held).
 * - While no call has to wait the storage may be much faster than thought: the guess grows, unless
 *   the speed was measured not long ago. Calls that are far slower than thought are believed at once. */
#include <float.h>

#include "encode/choice_private.h"

#define MEBI 1048576.0
#define GUESS 1e9          /* where the search begins */
#define BLIND (1.1 * MEBI) /* after so much without a sign of slowness the guess is used; buffers may yet fill up */
#define REST (32 * MEBI)   /* bytes that a measured speed is believed although calls do not wait any more */
#define HAND_OVER 2.5e9    /* a call that is faster only copies */
#define HELD 0.1           /* share of the time of writing for which calls hold their threads: what is assumed */

/* About exp(-x). */
static double faded(double x) {
    return 1 / (1 + x + x * x / 2);
}

static double within(double value, double least, double most) {
    return value < least ? least : value > most ? most : value;
}

void vv_choice_stream_init(struct stream *stream) {
    *stream = (struct stream){.held = HELD, .ceiling = DBL_MAX};
}

void vv_choice_stream_begin(struct stream *stream, double planned, uint64_t now_ns) {
    if (planned > 0) {
        /* The commits know what calls do not show, the time until all is durable: do not go far beyond. */
        stream->speed = planned;
        stream->ceiling = planned * 1.25;
    }
    stream->bytes = stream->busy = stream->pause = stream->total = stream->slow_proof = 0;
    stream->has_waited = 0;
    stream->last_ns = now_ns;
}

/* A call that took far longer than expected: the first moves the guess some way (it may be a hiccup, and part of it may
 * have gone into a buffer), the next settle it. Returns 1 if it was one. */
static int note_slow(struct stream *stream, double bytes, double seconds) {
    double speed = stream->speed > 0 ? stream->speed : GUESS, one = bytes / seconds;
    if (seconds < 0.5e-3 || one > speed / 2) {
        stream->slow_proof = 0;
        return 0;
    }
    double proof = bytes / (0.4 * MEBI) > seconds / 8e-3 ? bytes / (0.4 * MEBI) : seconds / 8e-3;
    double most = stream->calm > 0 ? 0.5 : 7; /* against a measured speed one call does not count for much */
    double lower = speed / (1 + most * (proof < 1 ? proof : 1));
    stream->speed = stream->slow_proof >= 1 || lower < one ? one : lower;
    stream->slow_proof += proof;
    return 1;
}

/* By how much a call is shorter if the pause before it was longer, per byte: a line through the recent past, of calls
 * that found a full buffer, if there is one. Too little variation says nothing: then it is assumed that there is. */
static void note_hold(struct stream *stream, double bytes, double seconds, double pause) {
    double weight = 0.15 * within(bytes / MEBI, 0, 1);
    double x = pause / bytes - stream->mean_pause, y = seconds / bytes - stream->mean_busy;
    if (stream->mean_busy <= 0) {
        x = y = 0;
        stream->mean_pause = pause / bytes;
        stream->mean_busy = seconds / bytes;
    }
    stream->mean_pause += weight * x;
    stream->mean_busy += weight * y;
    stream->variance += weight * (x * x - stream->variance);
    stream->covariance += weight * (x * y - stream->covariance);
    double full = stream->mean_pause + stream->mean_busy, doubt = full * full / 400;
    double slope = within(-stream->covariance, 0, stream->variance);
    stream->held = 1 - (slope + (1 - HELD) * doubt) / (stream->variance + doubt);
}

static void become_known(struct stream *stream, double bytes, double seconds) {
    if (stream->total > MEBI && bytes >= MEBI / 4 && seconds >= 0.5e-3)
        stream->speed = bytes / seconds;
    else if (stream->total > BLIND)
        stream->speed = GUESS;
}

/* A call had to wait: the speed since the last one that had to. */
static void measure_speed(struct stream *stream) {
    double time = stream->busy + (1 - stream->held) * stream->pause, speed = stream->bytes / time;
    if (speed > stream->ceiling)
        speed = stream->ceiling;
    stream->speed = speed + (stream->speed - speed) * faded(1.5 * stream->bytes / MEBI);
    stream->calm = REST;
}

static void add_bytes(struct stream *stream, double bytes) {
    if (stream->calm > 0) {
        stream->calm -= bytes;
        return;
    }
    stream->speed *= 1 + bytes / (6 * MEBI);
    if (stream->speed > stream->ceiling)
        stream->speed = stream->ceiling;
    if (stream->speed > 4 * HAND_OVER)
        stream->speed = 4 * HAND_OVER;
}

void vv_choice_stream_wrote(struct stream *stream, size_t size, double seconds, uint64_t now_ns) {
    double bytes = (double)size, pause = (double)(now_ns - stream->last_ns) * 1e-9 - seconds;
    stream->last_ns = now_ns;
    if (size == 0)
        return;
    if (seconds < 1e-7)
        seconds = 1e-7;
    if (pause < 0 || stream->total <= 0)
        pause = 0;
    int has_waited = seconds > bytes / HAND_OVER && seconds > 50e-6;
    stream->total += bytes;
    stream->bytes += bytes;
    stream->busy += seconds;
    stream->pause += pause;
    if (stream->has_waited)
        note_hold(stream, bytes, seconds, pause);
    stream->has_waited = has_waited;
    if (!note_slow(stream, bytes, seconds)) {
        if (stream->speed <= 0)
            become_known(stream, bytes, seconds);
        else if (has_waited && stream->bytes < stream->total) /* else the first bytes went into a buffer */
            measure_speed(stream);
        else if (!has_waited)
            add_bytes(stream, bytes);
    }
    if (has_waited)
        stream->bytes = stream->busy = stream->pause = 0;
}
