/* The states that bench-codec compresses. All are made from fixed seeds: the same size gives the same bytes.
 *
 *   hydro     a solver with refined patches after 200 steps (hydro.h)
 *   storm     bench-storm's fields (storm.h) as one rank has them, after 30 steps; no more than 16 MiB
 *   float32   smooth fields in two dimensions with noise
 *   counters  integers, most of them 0
 *   text      a heap: strings, lengths, pointers
 *   random    doubles with random bits
 *   normal-bf16, normal-f16, normal-f32
 *             what weights are before they are trained: normally distributed, of standard deviation 0.02
 *
 * and files, whose bytes are taken as an array of a type. */
#ifndef CODEC_DATA_H
#define CODEC_DATA_H

#include "arrays.h"

#define DATA_NAME 24

struct data {
    char name[DATA_NAME];
    struct arrays arrays;
    char about[160];
};

extern const char *const data_names[]; /* ends with NULL */

/* A state of about so many bytes. 0, or -1 for a name that is none of these. */
int data_make(const char *name, size_t bytes, struct data *out);
/* "NAME=PATH", "NAME=PATH:TYPE" (f64, i32, ..; bytes if there is none) or "NAME=PATH:TYPExCOLUMNS": a state that is a
 * file, or one array more of the state if out has this name already. -1 if it is not of this form; ends the program if
 * the file cannot be read. */
int data_file(const char *text, struct data *out);
void data_clear(struct data *data);

/* All of it over what gzip -6 makes of it; goes through a file in this folder. 0 if there is no gzip. */
double data_gzip(const struct data *data, const char *folder);

#endif
