/* Variables, the codings that come into question for each, and what is known about them. What one variable taught is
 * kept by kind of content, too: a new variable begins with it. */
#include <stddef.h>
#include <string.h>
#include <varve/varve.h>

#include "base/alloc.h"
#include "encode/choice_private.h"

/* Before anything was measured; the order of magnitude is what counts. Of samples against whole blocks: after a filter
 * zstd needs some hundred KiB to get going. */
static const struct {
    float speed; /* bytes per second on one processor */
    struct bias bias;
} first[VV_CODING_NAMES] = {
    [VV_CODING_NONE] = {1e15F, {1, 1}},
    [VV_CODING_LZ4] = {1500e6F, {1, 1}},
    [VV_CODING_ZSTD] = {500e6F, {1, 1}},
    [VV_CODING_LZ4_ZSTD] = {450e6F, {1, 1}},
    [VV_CODING_SHUFFLE_LZ4] = {1200e6F, {0.97F, 1}},
    [VV_CODING_SHUFFLE_ZSTD] = {800e6F, {0.94F, 0.8F}},
    [VV_CODING_BITSHUFFLE_LZ4] = {1100e6F, {0.97F, 1}},
    [VV_CODING_BITSHUFFLE_ZSTD] = {650e6F, {0.94F, 0.75F}},
    [VV_CODING_DELTA_LZ4] = {1400e6F, {0.98F, 1}},
    [VV_CODING_DELTA_ZSTD] = {900e6F, {0.97F, 0.7F}},
    [VV_CODING_XOR_ZSTD] = {750e6F, {0.94F, 0.7F}},
    [VV_CODING_ROTATE_ZSTD] = {1300e6F, {1, 1}},
    [VV_CODING_FPZIP] = {85e6F, {0.97F, 0.95F}},
    [VV_CODING_ZFP] = {65e6F, {1, 0.9F}},
};

void vv_choice_lessons_init(struct vv_chooser *chooser) {
    for (int i = 0; i < VV_CODING_NAMES; i++) {
        chooser->general[i] = (struct lesson){.pace = 1 / first[i].speed};
        chooser->bias[i] = first[i].bias;
    }
}

int vv_choice_name(const struct vv_coding *coding) {
    int is_zstd = coding->codec == VV_CODEC_ZSTD;
    switch (coding->codec) {
    case VV_CODEC_LZ4:
    case VV_CODEC_ZSTD:
        break;
    case VV_CODEC_FPZIP:
        return VV_CODING_FPZIP;
    case VV_CODEC_ZFP:
    case VV_CODEC_ZFP_GRID:
        return VV_CODING_ZFP;
    case VV_CODEC_LZ4_ZSTD:
        return VV_CODING_LZ4_ZSTD;
    default:
        return VV_CODING_NONE;
    }
    switch (coding->filter[0]) {
    case VV_FILTER_SHUFFLE:
        return is_zstd ? VV_CODING_SHUFFLE_ZSTD : VV_CODING_SHUFFLE_LZ4;
    case VV_FILTER_BITSHUFFLE:
        return is_zstd ? VV_CODING_BITSHUFFLE_ZSTD : VV_CODING_BITSHUFFLE_LZ4;
    case VV_FILTER_DELTA:
        return is_zstd ? VV_CODING_DELTA_ZSTD : VV_CODING_DELTA_LZ4;
    case VV_FILTER_XOR:
        return VV_CODING_XOR_ZSTD;
    case VV_FILTER_ROTATE:
        return VV_CODING_ROTATE_ZSTD;
    default:
        return is_zstd ? VV_CODING_ZSTD : VV_CODING_LZ4;
    }
}

struct candidate *vv_choice_candidate_of(struct variable *variable, const struct vv_coding *coding) {
    for (uint32_t i = 0; i < variable->count; i++)
        if (memcmp(&variable->candidates[i].coding, coding, sizeof *coding) == 0)
            return &variable->candidates[i];
    return NULL;
}

static uint8_t kind_of(const struct vv_content *content, const struct vv_coding *coding) {
    if (content->type == VARVE_BYTES)
        return coding->element == 4 ? 15 : 0;
    if (content->grid > 0)
        return content->type == VARVE_F32 ? 16 : 17;
    return content->type < 15 ? content->type : 0;
}

static void add_candidate(struct vv_chooser *chooser, struct variable *variable, const struct vv_content *content,
                          int name, uint8_t element) {
    struct candidate candidate = {.name = (uint8_t)name};
    if (!vv_coding_fit(name, content, element, &candidate.coding) ||
        vv_choice_candidate_of(variable, &candidate.coding) || variable->count == CANDIDATES_MAX)
        return;
    candidate.kind = kind_of(content, &candidate.coding);
    const struct lesson *lesson = &chooser->lessons[candidate.kind][name];
    candidate.fraction = 1;
    candidate.pace = chooser->general[name].pace;
    if (name == VV_CODING_NONE) {
        candidate.knowledge = KNOW_BLOCKS;
        candidate.pace = 0;
    } else if (lesson->weight > 0) {
        candidate.knowledge = KNOW_ALIKE;
        candidate.fraction = lesson->fraction;
        candidate.pace = lesson->pace;
    }
    variable->candidates[variable->count++] = candidate;
}

static void fill_variable(struct vv_chooser *chooser, struct variable *variable, uint64_t number,
                          const struct vv_content *content, const void *data, size_t size) {
    uint32_t next = variable->next;
    *variable = (struct variable){.number = number, .next = next};
    variable->type = content->type;
    variable->is_lossy = content->grid > 0;
    unsigned elements = content->type == VARVE_BYTES ? vv_choice_elements(data, size) : 0;
    for (int name = 0; name < VV_CODING_NAMES; name++) {
        int has_filter = name >= VV_CODING_SHUFFLE_LZ4 && name <= VV_CODING_ROTATE_ZSTD;
        if (content->type != VARVE_BYTES || !has_filter)
            add_candidate(chooser, variable, content, name, 0);
        if (has_filter && (elements & 2))
            add_candidate(chooser, variable, content, name, 8);
        if (has_filter && (elements & 1))
            add_candidate(chooser, variable, content, name, 4);
    }
}

static uint32_t *chain_of(struct vv_chooser *chooser, uint64_t number) {
    return &chooser->chains[(number * UINT64_C(0x9e3779b97f4a7c15)) >> 48];
}

struct variable *vv_choice_variable_find(struct vv_chooser *chooser, uint64_t number) {
    if (!chooser->chains)
        return NULL;
    for (uint32_t i = *chain_of(chooser, number); i; i = chooser->variables[i - 1].next)
        if (chooser->variables[i - 1].number == number)
            return &chooser->variables[i - 1];
    return NULL;
}

static void unchain(struct vv_chooser *chooser, uint32_t index) {
    uint32_t *at = chain_of(chooser, chooser->variables[index].number);
    while (*at != index + 1)
        at = &chooser->variables[*at - 1].next;
    *at = chooser->variables[index].next;
}

/* Room for one more: a new one, or that of the oldest. UINT32_MAX if there is no memory or it is being sampled. */
static uint32_t take_capacity(struct vv_chooser *chooser) {
    if (chooser->used == VARIABLES_MAX) {
        uint32_t index = chooser->oldest;
        chooser->oldest = (chooser->oldest + 1) % VARIABLES_MAX;
        if (chooser->variables[index].busy)
            return UINT32_MAX;
        unchain(chooser, index);
        return index;
    }
    if (!chooser->chains)
        chooser->chains = vv_calloc(VARIABLES_MAX, sizeof *chooser->chains);
    if (!chooser->chains)
        return UINT32_MAX;
    if (VV_GROW(chooser->variables, chooser->used, chooser->capacity) != 0)
        return UINT32_MAX;
    return chooser->used++;
}

struct variable *vv_choice_variable_of(struct vv_chooser *chooser, uint64_t number, const struct vv_content *content,
                                       const void *data, size_t size) {
    struct variable *variable = vv_choice_variable_find(chooser, number);
    int is_new = !variable;
    if (is_new) {
        uint32_t index = take_capacity(chooser);
        if (index == UINT32_MAX) {
            variable = &chooser->shared;
        } else {
            uint32_t *chain = chain_of(chooser, number);
            variable = &chooser->variables[index];
            variable->next = *chain;
            variable->busy = 0;
            *chain = index + 1;
        }
    }
    int is_other = variable->type != content->type || variable->is_lossy != (content->grid > 0) || variable->count == 0;
    if (variable->busy == 0 && (is_other || (is_new && variable != &chooser->shared)))
        fill_variable(chooser, variable, number, content, data, size);
    return variable;
}

static void mix(float *average, double value, double weight) {
    *average = (float)(*average + (value - *average) * weight);
}

static void lesson_mix(struct lesson *lesson, double fraction, double pace, double weight) {
    double share = weight / (lesson->weight + weight);
    mix(&lesson->fraction, fraction, share);
    mix(&lesson->pace, pace, share);
    lesson->weight += (float)weight;
    if (lesson->weight > 8)
        lesson->weight = 8; /* so that older things are forgotten */
}

void vv_choice_lesson_add(struct vv_chooser *chooser, const struct candidate *candidate, double fraction, double pace,
                          double weight) {
    lesson_mix(&chooser->lessons[candidate->kind][candidate->name], fraction, pace, weight);
    lesson_mix(&chooser->general[candidate->name], fraction, pace, weight);
}

void vv_choice_variable_doubt(struct variable *variable) {
    for (uint32_t i = 1; i < variable->count; i++) {
        struct candidate *candidate = &variable->candidates[i];
        /* The data has become another: only what was used meanwhile is still known. */
        if (variable->drift > 0 && !(candidate->knowledge == KNOW_BLOCKS && candidate->blocks == 3))
            candidate->knowledge = KNOW_NOTHING;
        else if (candidate->knowledge > KNOW_ALIKE)
            candidate->knowledge = KNOW_ALIKE;
        candidate->blocks = 0;
    }
    variable->since_look = 0;
    variable->trials = 0;
    variable->drift = 0;
}

/* The others were not tried on this block. If it was harder than the blocks before it would have been for them, too. */
static void carry_over(struct variable *variable, const struct candidate *tried, double change) {
    for (uint32_t i = 1; i < variable->count; i++) {
        struct candidate *other = &variable->candidates[i];
        double fraction = other->fraction * change;
        if (other != tried && other->knowledge != KNOW_NOTHING && other->fraction < 0.98F)
            other->fraction = (float)(fraction < 1 ? fraction : 1);
    }
}

static double within(double value, double least, double most) {
    return value < least ? least : value > most ? most : value;
}

void vv_choice_candidate_encoded(struct vv_chooser *chooser, struct variable *variable, struct candidate *candidate,
                                 size_t size, size_t stored, double seconds) {
    double fraction = (double)stored / (double)size, pace = seconds / (double)size;
    double weight = (double)size / ((double)size + 1e6), expected = candidate->fraction;
    int knew = candidate->knowledge;
    /* A thread that was put aside for a while says nothing about the coding. */
    if (knew >= KNOW_SAMPLE && pace > 3 * candidate->pace)
        pace = 3 * candidate->pace;
    if (knew == KNOW_SAMPLE && candidate->pace > 0) {
        struct bias *bias = &chooser->bias[candidate->name];
        double change = within(pace / candidate->pace, 0.5, 1.5);
        mix(&bias->pace, within(bias->pace * change, 0.4, 3), 0.3 * weight);
        mix(&bias->fraction, within(bias->fraction * fraction / expected, 0.7, 1.1), 0.2 * weight);
    }
    /* In the first blocks work space is touched for the first time, which takes longer. */
    if (candidate->blocks < 3) {
        candidate->blocks++;
        weight = pace < candidate->pace ? 1.5 * weight : 0.5 * weight;
    }
    mix(&candidate->pace, pace, weight);
    mix(&candidate->fraction, fraction, knew < KNOW_BLOCKS && size > 500000 ? 0.8 : 0.5);
    if (knew == KNOW_BLOCKS && expected > 0) { /* the first block only shows how far the sample was off */
        carry_over(variable, candidate, within(candidate->fraction / expected, 0.8, 1.25));
        variable->drift = fraction > 1.1 * expected || fraction < 0.9 * expected ? variable->drift + 1 : 0;
    }
    candidate->knowledge = KNOW_BLOCKS;
    vv_choice_lesson_add(chooser, candidate, fraction, pace, (double)size / 1e6 < 1 ? (double)size / 1e6 : 1);
}
