/* How blocks are encoded: the choice is encode/'s; here is what it needs to know about the settings, the storage and
 * the processors, and what became of it. */
#include <stdio.h>

#include "encode/choice.h"
#include "write/writing.h"

#define LEVEL_FOR_SIZE 9 /* at least, where time does not count; more gains little on numbers */

static unsigned ranks_here(const struct vv_job *job) {
    const struct varve_comm *comm = job->comm;
    uint32_t ranks = comm->nodes > 0 ? comm->ops->node_size(job->comm, comm->node) : comm->ranks;
    return ranks > 0 ? ranks : 1;
}

/* Threads that can encode at the same time. A program that computes meanwhile leaves fewer processors than there are.
 */
static double workers(const struct vv_writing *writing) {
    const struct vv_job *job = writing->outputs->job;
    double share = (double)writing->processors.count * writing->plan.owners / ranks_here(job);
    double threads = writing->plan.threads > 0 ? writing->plan.threads : 1;
    double free = vv_known_or(writing->outputs->measured->spare, share);
    free = free < threads ? free : threads;
    return free > 1 ? free : 1;
}

int vv_encoding_level(const struct vv_job *job) {
    int level = job->settings.zstd_level;
    return job->settings.codec == VV_CHOOSE_CODEC_SIZE && level < LEVEL_FOR_SIZE ? LEVEL_FOR_SIZE : level;
}

void vv_encoding_begin(struct vv_writing *writing) {
    const struct vv_job *job = writing->outputs->job;
    vv_processors_look(&writing->processors);
    struct vv_chooser_plan plan = {
        .name = job->settings.codec - VV_CHOOSE_CODEC_NAMED,
        .level = vv_encoding_level(job),
        .workers = workers(writing),
        .threads = writing->plan.threads,
        .storage_speed = writing->outputs->measured->stream_speed,
        .is_for_size = job->settings.codec == VV_CHOOSE_CODEC_SIZE,
        .is_thorough = job->settings.codec == VV_CHOOSE_CODEC_SIZE && writing->plan.owners > 1,
    };
    if (plan.name < 0)
        plan.name = -1;
    vv_chooser_begin(writing->outputs->chooser, &plan);
}

/* What nobody used, and what we used ourselves: encoding, and about a nanosecond for each byte that was looked at. */
static void learn_spare(struct vv_writing *writing, double seconds_encode) {
    struct vv_processors now;
    vv_processors_look(&now);
    double idle = vv_processors_idle(&writing->processors, &now);
    double seconds = (double)(now.now_ns - writing->processors.now_ns) * 1e-9;
    if (idle >= 0)
        writing->outputs->measured->spare = idle * writing->plan.owners / ranks_here(writing->outputs->job) +
                                            (seconds_encode + (double)writing->looked * 1e-9) / seconds;
}

void vv_encoding_end(struct vv_writing *writing, struct vv_details *stats) {
    struct vv_measured *measured = writing->outputs->measured;
    struct vv_choice_sums sums;
    vv_chooser_sums(writing->outputs->chooser, &sums, stats->codec_reason, sizeof stats->codec_reason);
    int most = VV_CODING_NONE;
    for (int i = 0; i < VV_CODING_NAMES; i++)
        if (sums.raw[i] > sums.raw[most])
            most = i;
    snprintf(stats->codec, sizeof stats->codec, "%s", vv_coding_text(most));
    stats->seconds_encode = sums.seconds_encode;
    stats->seconds_sampled = sums.seconds_sampled;
    if (sums.storage_speed > 0)
        vv_learn(&measured->stream_speed, sums.storage_speed);
    learn_spare(writing, sums.seconds_encode);
    stats->storage_speed = measured->stream_speed;
}
