/* How blocks are encoded: the choice is encode/'s; here is what it needs to know about the settings, the storage and the
 * processors, and what became of it. */
#include <stdio.h>

#include "engine/engine_private.h"

static unsigned ranks_here(const struct vv_session *session) {
    const struct varve_comm *comm = session->comm;
    uint32_t ranks = comm->nodes > 0 ? comm->ops->node_size(session->comm, comm->node) : comm->ranks;
    return ranks > 0 ? ranks : 1;
}

/* Threads that can encode at the same time. A program that computes meanwhile leaves fewer processors than there are. */
static double workers(const struct vv_session *session, const struct vv_processors *processors) {
    double share = (double)processors->count / ranks_here(session);
    double threads = session->settings.threads > 0 ? session->settings.threads : 1;
    double free = session->spare > 0 ? session->spare : share;
    free = free < threads ? free : threads;
    return free > 1 ? free : 1;
}

void vv_encoding_begin(struct vv_save *save) {
    const struct vv_session *session = save->session;
    vv_processors_look(&save->processors);
    struct vv_chooser_plan plan = {
        .name = session->settings.codec - VV_CHOOSE_CODEC_NAMED,
        .level = session->settings.zstd_level,
        .workers = workers(session, &save->processors),
        .threads = session->settings.threads,
        .storage_speed = session->stream_speed,
        .is_for_size = session->settings.codec == VV_CHOOSE_CODEC_SIZE,
    };
    if (plan.name < 0)
        plan.name = -1;
    vv_chooser_begin(session->chooser, &plan);
}

static void learn_speed(struct vv_session *session, double speed) {
    if (speed > 0)
        session->stream_speed = session->stream_speed > 0 ? (session->stream_speed + speed) / 2 : speed;
}

/* What nobody used, and what we used ourselves: encoding, and about a nanosecond for each byte that was looked at. */
static void learn_spare(struct vv_save *save, double seconds_encode) {
    struct vv_processors now;
    vv_processors_look(&now);
    double idle = vv_processors_idle(&save->processors, &now);
    double seconds = (double)(now.now_ns - save->processors.now_ns) * 1e-9;
    if (idle >= 0)
        save->session->spare =
            idle / ranks_here(save->session) + (seconds_encode + (double)save->sums.looked * 1e-9) / seconds;
}

void vv_encoding_end(struct vv_save *save) {
    struct vv_choice_sums sums;
    struct varve_stats *stats = &save->stats;
    vv_chooser_sums(save->session->chooser, &sums, stats->codec_reason, sizeof stats->codec_reason);
    int most = VV_CODING_NONE;
    for (int i = 0; i < VV_CODING_NAMES; i++)
        if (sums.raw[i] > sums.raw[most])
            most = i;
    snprintf(stats->codec, sizeof stats->codec, "%s", vv_coding_text(most));
    stats->seconds_encode = sums.seconds_encode;
    stats->seconds_sampled = sums.seconds_sampled;
    learn_speed(save->session, sums.storage_speed);
    learn_spare(save, sums.seconds_encode);
    stats->storage_speed = save->session->stream_speed;
}
