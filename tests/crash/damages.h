/* Damage to the objects of a store that is at rest: a bit that flips, an object that ends early, is missing, is longer,
 * or lies under another's key. For the campaigns that try it, one damage at a time.
 *
 * Each point works on a copy made of hard links; only the object that is damaged is a file of its own. */
#ifndef VARVE_CRASH_DAMAGES_H
#define VARVE_CRASH_DAMAGES_H

#include "campaign.h"
#include "format/key.h"

#define DAMAGE_TEXT (2 * VV_KEY_CAPACITY + 64)

struct object {
    char key[VV_KEY_CAPACITY];
    char name[VV_NAME_MAX + 1]; /* "": of the whole store */
    size_t size;
    int kind;
};

struct objects {
    const char *root;
    struct object *list;
    size_t count;
};

/* All objects below root, in the order of their keys; -1 if that fails. root must live as long. */
int objects_list(const char *root, struct objects *out);
void objects_clear(struct objects *objects);
/* How many of each kind. */
void objects_print(const struct objects *objects, const char *who);

enum damage_kind { DAMAGE_FLIP, DAMAGE_CUT, DAMAGE_REMOVE, DAMAGE_SWAP, DAMAGE_APPEND };

struct damage {
    enum damage_kind kind;
    const struct object *object;
    const struct object *other; /* of a swap */
    uint64_t at;                /* byte to flip, new length, or bytes to append */
    int bit;
};

/* The damage as text for --replay (DAMAGE_TEXT bytes), and back. */
void damage_print(const struct damage *damage, char *text);
int damage_parse(const struct objects *objects, const char *text, struct damage *out);

/* Does it hurt objects of this name? Those of the whole store concern all. */
int damage_hurts(const struct damage *damage, const char *name);
/* May verify find nothing? A claim, a heartbeat, a catalogue, a tombstone or a session's log may be absent without
 * anything being wrong. */
int damage_is_allowed(const struct damage *damage);

/* Make the copy and damage it; -1 if it cannot be made. */
int damage_copy(const struct objects *objects, const struct damage *damage, const char *folder);

/* Kinds of objects alike, although there are few of some; half of the places where the tables are. */
struct damage damage_flip(struct campaign *campaign, const struct objects *objects);
/* All that can be done to an object but flips; out has room for 16. Returns how many. */
size_t damage_others(struct campaign *campaign, const struct objects *objects, const struct object *object,
                     struct damage *out);

/* Is the flip, or the other damage, of this number to be tried? By its number: where it hits depends on how well this
 * store was compressed. */
int damage_is_taken(const struct campaign *campaign, const char *what, uint64_t number);

/* Does verify find it, and say what it is? Call in a child; ends it with 1 if not. */
void damage_verify(const struct damage *damage, const char *folder);

#endif
