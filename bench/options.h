/* The command line of a benchmark as a table: what options are called, what they take, and where it goes. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stddef.h>

#define OPTIONS_LONGEST 2900 /* bytes of a value: paths are made of it, in arrays of 3000 and more */
#define OPTIONS_NUMBERS 16

struct numbers {
    double value[OPTIONS_NUMBERS];
    size_t count;
};

/* One pointer of these is set: it says of which kind the option is. A name without dashes, such as FOLDER, is an
 * argument: they are taken in this order. help stands for the value in the usage line; number can do without, and text
 * without help is not shown. */
struct bench_option {
    const char *name, *help;
    int *flag;                       /* no value: becomes 1 */
    void (*act)(void);               /* no value either */
    const char **text;               /* any */
    const char **choice;             /* one of the words of help, which | separates */
    const char **list;               /* words of help, and commas between them; may be empty */
    unsigned *number;                /* whole */
    double *real;                    /* any number */
    size_t *size;                    /* 64M, 512K, 1G, or 64, which is 64M */
    size_t *bytes;                   /* the same, but 64 is 64 bytes */
    struct numbers *numbers, *sizes; /* several of them, and commas between */
    int (*take)(const char *value);  /* takes it itself; 0, or it is refused */
    double least, most;              /* what numbers may be; most is 0: no bound */
    size_t step;                     /* and whole multiples of what; 0: of nothing */
};

/* Fill in what the command line says, in its order. The last entry of the table has no name. Whatever is wrong ends the
 * program with a message, the usage line and 2. */
void options_read(const struct bench_option *table, int argc, char **argv);
/* End in the same way unless ok: for what one entry alone cannot say. */
void options_demand(const struct bench_option *table, int ok, const char *what);

int options_has(const char *list, const char *word); /* is it one of the words between the commas? */

#endif
