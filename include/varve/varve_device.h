/* Regions in the memory of a device: how a library that knows such memory (varve_cl.h does, for OpenCL) tells Varve
 * what changed in it. Programs do not need this header; it is for those who bring another kind of device.
 *
 * A device finds by itself what changed, and hands over only that. It compares a region with its last checkpoint in two
 * steps, granules of 4 KiB first, then, where a granule differs, chunks of `chunk` bytes, and gives each chunk one of
 * four labels. docs/design.md ("Fine chunks") says which one; two devices that follow it agree in every bit, whatever
 * the number and order of their threads. */
#ifndef VARVE_DEVICE_H
#define VARVE_DEVICE_H

#include <varve/varve.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VARVE_GRANULE 4096u

enum varve_label {
    VARVE_FIXED,   /* as it was, where it was: never reported */
    VARVE_ZERO,    /* zeros, and it was not before */
    VARVE_FIRST,   /* never seen: its bytes are handed over */
    VARVE_SHIFTED, /* seen before, at the place that is told */
};

/* Where bytes were stored: by which checkpoint, and at which address there. Both numbers are Varve's. */
struct varve_place {
    uint32_t source;
    uint32_t reserved; /* 0 */
    uint64_t address;
};

/* Chunks that follow each other with the same label, and from places that follow each other. Never joined beyond
 * `length` 2^31. */
struct varve_run {
    uint64_t offset; /* in the region */
    uint32_t length;
    uint32_t label;           /* enum varve_label */
    struct varve_place place; /* of VARVE_SHIFTED, the first byte's; of VARVE_FIRST the address it gets now */
};

/* A granule that differs from the last checkpoint. */
struct varve_granule {
    uint64_t index;
    uint64_t id[2]; /* XXH3-128 with the seed, low half first; both 0: all zero */
};

/* A part of a region is to be compared: whole granules, but for the region's last. Parts come in ascending order, each
 * once per attempt, and together they are the region. */
struct varve_ask {
    size_t size; /* sizeof(struct varve_ask) */
    uint64_t offset, length;
    uint64_t total;           /* of the region */
    uint64_t seed;            /* of all ids, of granules and chunks alike */
    uint64_t address;         /* that offset 0 of the region has in this checkpoint */
    uint32_t source;          /* this checkpoint */
    uint32_t chunk;           /* 32 to 4096, a power of two */
    uint64_t most;            /* so many chunks may be remembered in all; beyond that, new ones are not */
    const uint8_t *is_usable; /* per source: chunks that were stored there may be referred to */
    uint32_t source_count;
    int is_whole; /* nothing of what was there before counts, and nothing was ever seen: everything differs, and the
                   * runs tile the part, zeros included. All parts of an attempt have the same */
};

/* What differs; the memory is the device's and lives until its next call. */
struct varve_answer {
    const struct varve_granule *granules;
    size_t granule_count;
    const struct varve_run *runs; /* ascending */
    size_t run_count;
    const uint8_t *data; /* the bytes of all VARVE_FIRST runs, one after another */
    uint64_t data_bytes;
    uint64_t chunks_fixed, chunks_first, chunks_shifted, chunks_zero; /* of the granules that differ */
};

/* All are called by the thread that calls functions of the session, inside such a call, and must not call functions of
 * the session themselves. 0, or a negative error code. */
struct varve_device_ops {
    size_t size; /* sizeof(struct varve_device_ops) */
    const char *name;
    /* What differs in this part. Nothing the device remembers changes for good before `settle`. */
    int (*compare)(void *arg, const struct varve_ask *ask, struct varve_answer *answer);
    /* What was compared has become a checkpoint (1): it is what the next one is compared with, and its new chunks have
     * been seen. Or it has not (0): as if it had never been asked. Told when the program calls next, before anything
     * else is asked. */
    int (*settle)(void *arg, int is_committed);
    /* Bytes come back, in ascending order. */
    int (*write)(void *arg, uint64_t offset, const void *data, size_t size);
    /* All of them are back: name granules and chunks anew, whatever was known before. The runs tile the region, with
     * label VARVE_ZERO; VARVE_SHIFTED and where each is stored; or VARVE_FIRST: stored where nothing of ours may refer
     * to. A chunk that lies in the last kind, or in several runs, was never seen elsewhere. All chunks are as they were
     * (VARVE_FIXED) until they change. The ask has offset 0, the region's length, and no `address` and `source`. */
    int (*restored)(void *arg, const struct varve_ask *ask, const struct varve_run *runs, size_t count);
    /* The region is not protected any more. */
    void (*leave)(void *arg);
    /* Optional: why the last of these failed, for people; NULL: there is nothing to say. Lives until the next call. */
    const char *(*why)(void *arg);
};

/* Protect `bytes` bytes of a device's memory under a name. chunk: 32 to 4096, or 0 for the setting `fine` (where that
 * is 0 or 1, 128). Each rank for itself. */
VARVE_API int varve_protect_device(struct varve_session *session, const char *region, uint64_t bytes, uint32_t chunk,
                                   const struct varve_device_ops *ops, void *arg);

/* For whoever cannot even begin to: let varve_session_error tell this. Returns code. */
VARVE_API int varve_device_error(struct varve_session *session, int code, const char *text);

#ifdef __cplusplus
}
#endif
#endif
