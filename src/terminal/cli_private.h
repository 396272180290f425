/* The options of the command line, for what reads it and for what completes it. */
#ifndef CLI_PRIVATE_H
#define CLI_PRIVATE_H

#include <getopt.h>

#include "terminal/cli.h"

#define SHORT_OPTIONS ":s:nfqr:g:o:C:lLhV"

extern const struct option cli_options[]; /* ends with a NULL */
/* The bit of an option that only some commands take; 0 for those of all. */
uint64_t cli_option_bit(int letter);
const struct command *cli_find_command(const struct command *const *commands, const char *name);
/* With VARVE_STORE set, an argument is taken for an address only by its form, never because a folder of that name is
 * there. */
int cli_looks_like_address(const char *text);

/* `varve complete WORD...`, for shells: what the last word, which may be empty, can become, a line each. Nothing: a
 * file, or anything. The words before it are those behind "varve". Always EXIT_OK. */
int cli_complete(int count, char **words, const struct command *const *commands);

#endif
