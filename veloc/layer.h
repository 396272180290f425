/* What the files of this folder share. A name of VELOC is a name of Varve, and has a session of its own, opened when
 * the name is first used. A region is called by its id. Memory is in one session at a time: the one that was used last.
 */
#ifndef VARVE_VELOC_LAYER_H
#define VARVE_VELOC_LAYER_H

#include "veloc.h"

#include <stdint.h>

#define FILE_REGION "file" /* what VELOC_Route_file has routed */

struct region {
    int id;
    char *group; /* the name it is for, or "" */
    void *ptr;
    size_t bytes;
    uint64_t digest; /* at VELOC_Checkpoint_mem */
};

struct name {
    char *name;                    /* for people: as the program says it */
    char *own;                     /* in the store: a process for itself has its id in it */
    struct varve_session *session; /* NULL: it did not open */
    int unseen; /* why the last VELOC_Restart_test could not look, or 0: no checkpoint is begun then */
    int *known; /* ids that the session has */
    size_t known_count;
    int has_file; /* the session has FILE_REGION */
    int *bad;     /* versions that were found damaged in this run, and not stored anew */
    size_t bad_count;
    int newest;             /* the version that was given to varve_checkpoint last */
    int is_in_flight;       /* it was begun, and what became of it was not asked yet */
    int is_told;            /* it has failed, and a call has said so */
    int has_earlier_failed; /* one before the last: VELOC_Checkpoint_wait says so once */
    char *file;             /* of the checkpoint in flight, in scratch, or NULL */
    int tried;              /* the version whose restart has begun last, or -1 */
};

struct stored {
    int id;
    uint64_t bytes;
};

/* A checkpoint or a restart between its begin and its end. */
struct phase {
    struct name *name; /* NULL: there is none */
    int version;
    int is_chosen; /* regions were chosen */
    int *chosen;
    size_t chosen_count;
    struct stored *stored; /* of a restart: what there is */
    size_t stored_count;
    int is_short;              /* there was no memory for all of it */
    int has_file;              /* this rank has routed one, or one is stored */
    char file[VELOC_MAX_NAME]; /* where */
    int fd;
};

struct layer {
    MPI_Comm comm; /* a duplicate; MPI_COMM_NULL after VELOC_Init_single */
    int is_open, rank, ranks;
    char *store, *scratch;
    char settings[32];
    int is_sync, is_quick; /* mode = sync; chksum = false */
    struct region *regions;
    size_t count;
    struct name **names;
    size_t name_count;
    struct phase saving, restoring;
};
extern struct layer vl_layer;

/* names.c: print why a call fails. vl_result is for codes of Varve, which all ranks have: rank 0 prints them. */
int vl_fail(const char *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
int vl_result(const char *call, const struct name *name, int version, int rc);
int vl_is_teller(void);   /* one of all ranks prints what they have in common */
int vl_on_all(int is_so); /* collective: 1 if it is so on all ranks; or what is least on one, of 1, 0 and errors */
/* Collective. All ranks call it, or none: is_right says whether this one's arguments are. NULL after a message. */
struct name *vl_name(const char *call, const char *text, int version, int is_right);
int vl_open(const char *call,
            struct name *name); /* collective: its session is there; 0, or the error after a message */
void *vl_grow(void *array, size_t count,
              size_t size); /* with room for one more, or NULL; the caller keeps the old one */
void vl_close_phase(struct phase *phase);

/* config.c: fills store, scratch, settings and the flags. */
int vl_configure(const char *path);

/* regions.c */
struct region *vl_find(const struct name *name, int id);
int vl_choose(const char *call, struct phase *phase, int mode, const int *ids, int count, int is_restart);
int vl_hand_over(struct phase *phase, int is_restart); /* the session gets what was chosen, and nothing else */
void vl_forget_regions(void);
void vl_note_digests(const struct phase *phase);
int vl_changed(const struct phase *phase, int *id); /* 1 if a region differs from its digest, and which */

/* save.c: wait for the checkpoint in flight, if there is one. If it fails, the next VELOC_Checkpoint_wait does. */
void vl_settle_earlier(struct name *name);

/* file.c */
int vl_file_open(const char *call, struct phase *phase, int is_new);
int vl_file_protect(struct phase *phase);
void vl_file_remove(struct phase *phase);
#endif
