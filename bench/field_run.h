/* The parts of bench-field: saving, restarting, and what they share. Everything here but field_pattern and field_new is
 * collective, and ends the program when something goes wrong. */
#ifndef FIELD_RUN_H
#define FIELD_RUN_H

#include <varve/varve.h>

#include "details.h"
#include "field.h"
#include "field_report.h"

/* What the command line says. */
struct field_setup {
    const char *folder;
    char bare_path[3100]; /* this rank's */
    char store_path[3100];
    size_t size;
    unsigned checkpoints;
    unsigned rounds;      /* of restarts */
    unsigned iterations;  /* of the work between two checkpoints that is timed */
    int is_scattered;     /* pattern p1 */
    const char *settings; /* more than the mode's; "" for none */
};

struct field_cost {
    double seconds, cpu;
    struct field_phases phases; /* of a restart */
};

/* ---- field_saving.c ---- */
const char *field_pattern(const struct field_setup *setup);
/* Without its memory: field_init makes it. */
struct field field_new(const struct field_setup *setup, const struct field_mode *mode);
struct varve_session *field_open(const struct field_setup *setup, const struct field_mode *mode);
void field_check(const struct varve_session *session, int rc, const char *what);
void field_protect(const struct field_setup *setup, const struct field_mode *mode, struct varve_session *session,
                   uint8_t *memory);
double field_bare_write(const struct field_setup *setup, const struct field_mode *mode, const void *data); /* seconds */
/* Of the whole store; while nobody writes. */
double field_store_bytes(const struct field_setup *setup);
/* Take down what a checkpoint stored. changed: bytes the program wrote before it; growth: of the store. */
void field_note_bytes(const struct field_setup *setup, struct field_result *result, const struct vv_details *stats,
                      unsigned checkpoint, uint64_t changed, double growth);
void field_fast_writes(const struct field_setup *setup, const void *data, struct field_result *result);
/* Checkpoints that the program waits for. */
void field_measure_saving(const struct field_setup *setup, struct field_result *result);

/* ---- field_async.c ---- */
/* Checkpoints beside which the program runs on. */
void field_measure_async(const struct field_setup *setup, struct field_result *result);

/* ---- field_restart.c ---- */
void field_measure_restart(const struct field_setup *setup, struct field_result *result);
/* what: "restart", "read", or "readN" for the N-th fast way. For the process that does nothing else. */
struct field_cost field_bring_back(const struct field_setup *setup, const struct field_mode *mode, const char *what);

#endif
