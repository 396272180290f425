/* Samples: a piece of a block is encoded to see what a coding makes of it. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "encode/choice_private.h"

#define WARM_UP (16u << 10)
#define SLICES 4u
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

static int64_t encode_piece(struct vv_chooser *chooser, struct vv_coder *coder, const struct vv_coding *coding,
                            const struct vv_content *content, const void *data, size_t size, double *seconds_out) {
    const struct vv_choice_seam *seam = chooser->seam;
    int level = chooser->plan.level;
    if (seam && seam->sample)
        return seam->sample(seam->arg, coder, coding, content, data, size, level, seconds_out);
    void *out = vv_malloc(size);
    if (!out)
        return -ENOMEM;
    uint64_t begin = vv_clock_thread_ns();
    int64_t got = vv_coder_encode(coder, coding, content, data, size, out, level);
    *seconds_out = (double)(vv_clock_thread_ns() - begin) * 1e-9;
    vv_free(out);
    return got;
}

/* Slices from all over the block: its parts may differ. Whole elements, in whatever type, vectors of three included. */
static const uint8_t *gather(const void *data, size_t size, size_t piece, uint8_t *out) {
    size_t slice = piece / SLICES / 48 * 48, step = (size - slice) / (SLICES - 1) / 48 * 48;
    if (slice == 0 || step < slice)
        return memcpy(out, data, piece);
    for (size_t i = 0; i < SLICES; i++)
        memcpy(out + i * slice, (const uint8_t *)data + i * step, slice);
    memcpy(out + SLICES * slice, data, piece - SLICES * slice);
    return out;
}

void vv_choice_candidate_sample(struct vv_chooser *chooser, struct vv_coder *coder, uint64_t number,
                                struct variable *variable, struct candidate *candidate,
                                const struct vv_content *content, const void *data, size_t size, size_t piece) {
    struct vv_coding coding = candidate->coding;
    double seconds = 0;
    int is_shared = variable == &chooser->shared;
    int is_first = chooser->general[candidate->name].weight < 1;
    candidate->is_busy = 1;
    variable->busy++;
    pthread_mutex_unlock(&chooser->mutex);

    uint8_t *sample = vv_malloc(piece);
    const uint8_t *at = sample ? gather(data, size, piece, sample) : (const uint8_t *)data;
    double spent = 0;
    if (is_first) { /* work space that is touched for the first time would be counted */
        encode_piece(chooser, coder, &coding, content, at, piece < WARM_UP ? piece : WARM_UP, &seconds);
        spent = seconds;
    }
    int64_t got = encode_piece(chooser, coder, &coding, content, at, piece, &seconds);
    spent += seconds;
    vv_free(sample);

    pthread_mutex_lock(&chooser->mutex);
    chooser->sums.seconds_sampled += spent;
    chooser->sums.seconds_encode += spent;
    chooser->lead -= spent / chooser->plan.workers;
    variable = is_shared ? &chooser->shared : vv_choice_variable_find(chooser, number); /* the table may have moved */
    candidate = vv_choice_candidate_of(variable, &coding);
    candidate->is_busy = 0;
    variable->busy--;
    candidate->knowledge = KNOW_SAMPLE;
    static const struct bias no_bias = {1, 1};
    const struct bias *bias = piece < size / 2 ? &chooser->bias[candidate->name] : &no_bias;
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

void vv_choice_smallest(struct vv_chooser *chooser, struct vv_coder *coder, const struct variable *variable,
                        const struct vv_content *content, const void *data, size_t size, struct vv_coding *out) {
    struct vv_coding list[CANDIDATES_MAX];
    uint32_t count = variable->count;
    int64_t least = (int64_t)size;
    double spent = 0;
    for (uint32_t i = 0; i < count; i++)
        list[i] = variable->candidates[i].coding;
    pthread_mutex_unlock(&chooser->mutex);
    *out = (struct vv_coding){0};
    for (uint32_t i = 1; i < count; i++) {
        double seconds = 0;
        int64_t got = encode_piece(chooser, coder, &list[i], content, data, size, &seconds);
        spent += seconds;
        if (got > 0 && got < least) {
            least = got;
            *out = list[i];
        }
    }
    pthread_mutex_lock(&chooser->mutex);
    chooser->sums.seconds_sampled += spent;
    chooser->sums.seconds_encode += spent;
}
