/* Codings alone: encode and decode pieces of 1 MiB, as the library cuts its blocks. */
#include "codec_speed.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "encode/choice.h"
#include "encode/coding.h"

#define PIECE BENCH_MIB
#define SMALL 65536u /* arrays below this share pieces with others of their type */
#define LEVEL 1      /* of zstd: the library's default */

struct piece {
    struct vv_content content;
    uint64_t variable;
    const uint8_t *data;
    size_t size;
    uint8_t *shared; /* of small arrays; NULL if data lies in the array */
    /* What the last encoding has made of it. */
    struct vv_coding coding;
    uint8_t *stored;
    int64_t stored_size; /* 0: not smaller, as it is */
};

struct pieces {
    struct piece *list;
    size_t count, capacity;
    size_t bytes;
    uint8_t *out; /* PIECE */
};

/* ---- what is coded ---- */

static struct piece *next_piece(struct pieces *pieces) {
    if (pieces->count == pieces->capacity) {
        pieces->capacity = pieces->capacity ? 2 * pieces->capacity : 64;
        pieces->list = realloc(pieces->list, pieces->capacity * sizeof *pieces->list);
        bench_check(pieces->list != NULL, "memory");
    }
    pieces->list[pieces->count] = (struct piece){.stored = malloc(PIECE)};
    bench_check(pieces->list[pieces->count].stored != NULL, "memory");
    return &pieces->list[pieces->count++];
}

static void cut_large(struct pieces *pieces, const struct array *array, uint64_t variable) {
    for (size_t at = 0; at < array->bytes; at += PIECE) {
        struct piece *piece = next_piece(pieces);
        piece->content.type = (uint8_t)array->type;
        piece->content.row = (uint32_t)array->dim[array->dims - 1];
        piece->variable = variable;
        piece->data = (const uint8_t *)array->data + at;
        piece->size = array->bytes - at < PIECE ? array->bytes - at : PIECE;
    }
}

static void gather_small(struct pieces *pieces, const struct arrays *arrays, int type) {
    struct piece *piece = NULL;
    for (size_t i = 0; i < arrays->count; i++) {
        const struct array *array = &arrays->list[i];
        if (array->type != type || array->bytes >= SMALL)
            continue;
        if (!piece || piece->size + array->bytes > PIECE) {
            piece = next_piece(pieces);
            piece->content.type = (uint8_t)type;
            piece->variable = UINT64_C(1) << 32 | (unsigned)type;
            piece->shared = malloc(PIECE);
            bench_check(piece->shared != NULL, "memory");
            piece->data = piece->shared;
        }
        memcpy(piece->shared + piece->size, array->data, array->bytes);
        piece->size += array->bytes;
    }
}

static void cut(struct pieces *pieces, const struct arrays *arrays) {
    *pieces = (struct pieces){.out = malloc(PIECE)};
    bench_check(pieces->out != NULL, "memory");
    for (size_t i = 0; i < arrays->count; i++)
        if (arrays->list[i].bytes >= SMALL)
            cut_large(pieces, &arrays->list[i], i);
    for (int type = VARVE_BYTES; type <= VARVE_C128; type++)
        gather_small(pieces, arrays, type);
    for (size_t i = 0; i < pieces->count; i++)
        pieces->bytes += pieces->list[i].size;
    memset(pieces->out, 1, PIECE);
}

static void pieces_clear(struct pieces *pieces) {
    for (size_t i = 0; i < pieces->count; i++) {
        free(pieces->list[i].shared);
        free(pieces->list[i].stored);
    }
    free(pieces->list);
    free(pieces->out);
}

/* ---- coding it ---- */

static double copy_all(const struct pieces *pieces) {
    double begin = bench_now();
    for (size_t i = 0; i < pieces->count; i++) {
        memcpy(pieces->out, pieces->list[i].data, pieces->list[i].size);
        __asm__ volatile("" ::: "memory");
    }
    return bench_now() - begin;
}

/* Seconds. What comes out is kept for decode_all; keeping it is not in the time. */
static double encode_all(struct pieces *pieces, struct vv_coder *coder, struct vv_chooser *chooser, int name) {
    double sum = 0;
    for (size_t i = 0; i < pieces->count; i++) {
        struct piece *piece = &pieces->list[i];
        double begin = bench_now();
        if (chooser)
            vv_chooser_pick(chooser, coder, piece->variable, &piece->content, piece->data, piece->size, &piece->coding);
        else
            vv_coding_fit(name, &piece->content, 0, &piece->coding);
        double encoding = bench_now();
        piece->stored_size =
            vv_coder_encode(coder, &piece->coding, &piece->content, piece->data, piece->size, pieces->out, LEVEL);
        double end = bench_now();
        bench_check(piece->stored_size >= 0, "encode");
        sum += end - begin;
        size_t stored = piece->stored_size ? (size_t)piece->stored_size : piece->size;
        memcpy(piece->stored, piece->stored_size ? pieces->out : piece->data, stored);
        if (!piece->stored_size)
            piece->coding = (struct vv_coding){0};
        if (chooser)
            vv_chooser_encoded(chooser, piece->variable, &piece->coding, piece->size, stored, end - encoding);
    }
    return sum;
}

static double decode_all(struct pieces *pieces, struct vv_coder *coder) {
    double sum = 0;
    for (size_t i = 0; i < pieces->count; i++) {
        struct piece *piece = &pieces->list[i];
        size_t stored = piece->stored_size ? (size_t)piece->stored_size : piece->size;
        double begin = bench_now();
        int rc = vv_coder_decode(coder, &piece->coding, piece->stored, stored, pieces->out, piece->size);
        sum += bench_now() - begin;
        bench_check(rc == 0 && memcmp(pieces->out, piece->data, piece->size) == 0,
                    "what was decoded is not what was encoded");
    }
    return sum;
}

static int number_of(const char *codec) {
    for (int i = 0; i < VV_CODING_NAMES; i++)
        if (strcmp(vv_coding_text(i), codec) == 0)
            return i;
    return -1;
}

int codec_is_fixed(const char *codec) {
    return number_of(codec) >= 0;
}

int codec_is_known(const char *codec) {
    struct vv_content content = {.type = VARVE_F32}; /* which everything takes */
    struct vv_coding coding;
    int number = number_of(codec);
    return number < 0 || vv_coding_fit(number, &content, 0, &coding);
}

int codec_fits(const char *codec, const struct arrays *arrays) {
    int number = number_of(codec), fits = number < 0;
    for (size_t i = 0; i < arrays->count && !fits; i++) {
        struct vv_content content = {.type = (uint8_t)arrays->list[i].type};
        struct vv_coding coding;
        fits = vv_coding_fit(number, &content, 0, &coding);
    }
    return fits;
}

static double least(double a, double b) {
    return a == 0 || b < a ? b : a;
}

void codec_speed(const struct arrays *arrays, const char *codec, double storage_speed, unsigned rounds,
                 struct codec_speed *out) {
    int number = number_of(codec);
    double copy = 0, encode = 0, decode = 0, stored = 0;
    struct vv_chooser_plan plan = {.name = -1,
                                   .level = LEVEL,
                                   .workers = (double)sysconf(_SC_NPROCESSORS_ONLN),
                                   .storage_speed = storage_speed,
                                   .is_for_size = strcmp(codec, "size") == 0};
    struct pieces pieces;
    struct vv_coder *coder = NULL;
    cut(&pieces, arrays);
    bench_check(vv_coder_create(&coder) == 0, "memory");
    for (unsigned i = 0; i < rounds; i++) {
        struct vv_chooser *chooser = NULL;
        bench_check(number >= 0 || vv_chooser_create(&chooser) == 0, "memory");
        if (chooser)
            vv_chooser_begin(chooser, &plan);
        copy = least(copy, copy_all(&pieces));
        encode = least(encode, encode_all(&pieces, coder, chooser, number));
        decode = least(decode, decode_all(&pieces, coder));
        vv_chooser_destroy(chooser);
    }
    for (size_t i = 0; i < pieces.count; i++)
        stored += (double)(pieces.list[i].stored_size ? (size_t)pieces.list[i].stored_size : pieces.list[i].size);
    *out = (struct codec_speed){number == VV_CODING_NONE ? 0 : copy / encode, copy / decode,
                                (double)pieces.bytes / stored, (double)pieces.bytes / copy};
    vv_coder_destroy(coder);
    pieces_clear(&pieces);
}
