/* Samples: a piece of a block is encoded to see what a coding makes of it. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "encode/choice_private.h"

#define LOOK (8u << 10) /* bytes that tell whether there are elements */

static unsigned matches(const uint8_t *data, size_t size, size_t distance) {
    unsigned count = 0;
    for (size_t i = 0; i < size; i++)
        count += data[i + distance] == data[i];
    return count;
}

unsigned vv_choice_elements(const void *data, size_t size) {
    if (size < LOOK + 8)
        return 3;
    /* Numbers have bytes in common with their neighbours: equal bytes are more frequent one element apart than at the
     * next byte. */
    const uint8_t *middle = (const uint8_t *)data + (size - LOOK) / 2 / 16 * 16;
    size_t looked = LOOK - 8;
    unsigned next = matches(middle, looked, 1), four = matches(middle, looked, 4), eight = matches(middle, looked, 8);
    unsigned clear = (unsigned)looked / 40;
    unsigned looks = 0;
    if (four > next + clear && four + clear > eight)
        looks |= 1;
    if (eight > next + clear && eight > four + clear / 2)
        looks |= 2;
    if (!looks && next > looked - looked / 8)
        looks = 2; /* nearly all alike: small numbers among zeros */
    return looks;
}

/* Of the processor: a sample is so short that a thread that is put aside would seem to be slow beyond measure. */
static double thread_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int64_t encode_piece(struct vv_chooser *chooser, struct vv_coder *coder, const struct vv_coding *coding,
                            const struct vv_content *content, const void *data, size_t size, double *seconds_out) {
    const struct vv_choice_seam *seam = chooser->seam;
    int level = chooser->plan.level;
    if (seam && seam->sample)
        return seam->sample(seam->arg, coder, coding, content, data, size, level, seconds_out);
    void *out = vv_malloc(size);
    if (!out)
        return -ENOMEM;
    double begin = thread_seconds();
    int64_t got = vv_coder_encode(coder, coding, content, data, size, out, level);
    *seconds_out = thread_seconds() - begin;
    vv_free(out);
    return got;
}

void vv_choice_candidate_sample(struct vv_chooser *chooser, struct vv_coder *coder, uint64_t number,
                                struct variable *variable, struct candidate *candidate,
                                const struct vv_content *content, const void *data, size_t size, size_t piece) {
    struct vv_coding coding = candidate->coding;
    double expected = candidate->pace * (double)piece, seconds = 0, again;
    int is_shared = variable == &chooser->shared;
    int is_first = chooser->general[candidate->name].weight < 1;
    candidate->is_busy = 1;
    variable->busy++;
    pthread_mutex_unlock(&chooser->mutex);

    const uint8_t *at = (const uint8_t *)data + (size - piece) / 2 / 16 * 16;
    int64_t got = encode_piece(chooser, coder, &coding, content, at, piece, &seconds);
    double spent = seconds;
    /* The first time includes work space that is touched for the first time. */
    if (got >= 0 && seconds < 0.2e-3 && (is_first || seconds > 2 * expected)) {
        again = seconds;
        got = encode_piece(chooser, coder, &coding, content, at, piece, &again);
        spent += again;
        seconds = again < seconds ? again : seconds;
    }

    pthread_mutex_lock(&chooser->mutex);
    chooser->sums.seconds_sampled += spent;
    chooser->sums.seconds_encode += spent;
    chooser->lead -= spent / chooser->plan.workers;
    variable = is_shared ? &chooser->shared : vv_choice_variable_find(chooser, number); /* the table may have moved */
    candidate = vv_choice_candidate_of(variable, &coding);
    candidate->is_busy = 0;
    variable->busy--;
    candidate->knowledge = KNOW_SAMPLE;
    const struct bias *bias = &chooser->bias[candidate->name];
    int is_smaller = got > 0 && (size_t)got < piece;
    float fraction = is_smaller ? (float)got / (float)piece : 1;
    /* What hardly gets smaller will not do so in larger blocks either. */
    float share = fraction < 0.75F ? 1 : 4 * (1 - fraction);
    candidate->fraction = fraction * (1 - share * (1 - bias->fraction));
    if (got >= 0) {
        candidate->pace = (float)(seconds / (double)piece) * bias->pace;
        vv_choice_lesson_add(chooser, candidate, candidate->fraction, candidate->pace, 0.3);
    }
    pthread_cond_broadcast(&chooser->sampled);
}
