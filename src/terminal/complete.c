/* What a word of the command line can become. The table of commands and that of options say it, and the store, so that
 * scripts for shells have no list of their own (tools/completions). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "terminal/cli_private.h"
#include "terminal/text.h"

/* The words before the last one. */
struct given {
    const struct command *const *commands;
    const struct command *command; /* NULL: none yet */
    int is_help;                   /* of a command, which is still to be named */
    const char *address;
    int wants_value; /* the last word belongs to an option */
    const char *last;
};

static void offer(const struct given *given, const char *text) {
    if (strncmp(text, given->last, strlen(given->last)) == 0)
        puts(text);
}

static void offer_commands(const struct given *given) {
    for (const struct command *const *c = given->commands; *c; c++)
        offer(given, (*c)->name);
    if (!given->is_help)
        offer(given, "help");
}

static void offer_options(const struct given *given) {
    for (const struct option *o = cli_options; o->name; o++) {
        char text[64];
        uint64_t bit = cli_option_bit(o->val);
        int is_of_tool = o->val == 'V' || o->val == 'b';
        if (given->command ? is_of_tool || (bit & ~given->command->options) : bit != 0)
            continue;
        snprintf(text, sizeof text, "--%s", o->name);
        offer(given, text);
    }
}

/* Names that a terminal would obey, or that are two words to a shell, are not for completing. */
static int is_plain(const char *name) {
    for (size_t length; *name; name += length) {
        length = utf8_length(name);
        if (length == 0 || is_control_point(utf8_point(name, length)) || strchr(" \"'\\$`*?[]{}()<>|&;!#~", *name))
            return 0;
    }
    return 1;
}

/* A name as soon as it fits; its versions when the name is there, with or without @. */
static int offer_checkpoint(void *arg, const struct varve_checkpoint_info *info) {
    const struct given *given = arg;
    char text[256];
    static char before[256]; /* the checkpoints of a name follow one another */

    if (!is_plain(info->name))
        return 0;
    if (strcmp(before, info->name) != 0) {
        snprintf(before, sizeof before, "%s", info->name);
        offer(given, info->name);
    }
    if (strncmp(given->last, info->name, strlen(info->name)) == 0) {
        snprintf(text, sizeof text, "%s@%" PRId64, info->name, info->version);
        offer(given, text);
    }
    return 0;
}

static void offer_checkpoints(struct given *given) {
    struct varve_store *store;
    if (varve_store_open(given->address, NULL, &store, NULL) < 0)
        return;
    (void)varve_store_list(store, NULL, offer_checkpoint, given, NULL); /* what could be read is offered */
    varve_store_close(store);
}

/* The option that a word is, or NULL. */
static const struct option *find_option(const char *word) {
    size_t size = strcspn(word, "=");
    for (const struct option *o = cli_options; o->name; o++) {
        int is_long =
            strncmp(word, "--", 2) == 0 && size == strlen(o->name) + 2 && strncmp(word + 2, o->name, size - 2) == 0;
        int is_short = word[0] == '-' && word[1] == o->val && !word[2] && strchr(SHORT_OPTIONS, o->val);
        if (is_long || is_short)
            return o;
    }
    return NULL;
}

static void take_word(struct given *given, const char *word) {
    const char *environment = secure_getenv("VARVE_STORE");
    int is_set = environment && *environment;

    if (given->is_help || !given->command) {
        given->command = cli_find_command(given->commands, word);
        given->is_help |= strcmp(word, "help") == 0;
    } else if (!given->address && (!is_set || cli_looks_like_address(word))) {
        given->address = word;
    }
    if (given->command && !given->address && is_set)
        given->address = environment;
}

static void take_words(struct given *given, int count, char **words) {
    const struct option *option = NULL;

    for (int i = 0; i < count; i++) {
        const char *equals = strchr(words[i], '=');
        if (option) { /* this is its value */
            given->address = option->val == 's' ? words[i] : given->address;
            option = NULL;
            continue;
        }
        option = find_option(words[i]);
        if (option && option->val == 's' && equals)
            given->address = equals + 1;
        if (option && (equals || option->has_arg == no_argument))
            option = NULL;
        else if (!option && words[i][0] != '-')
            take_word(given, words[i]);
    }
    given->wants_value = option != NULL;
}

int cli_complete(int count, char **words, const struct command *const *commands) {
    struct given given = {.commands = commands, .last = count ? words[count - 1] : ""};

    take_words(&given, count ? count - 1 : 0, words);
    if (given.wants_value)
        return EXIT_OK;
    if (given.last[0] == '-')
        offer_options(&given);
    else if (!given.command)
        offer_commands(&given);
    else if (!given.is_help && !given.command->is_storeless && given.address)
        offer_checkpoints(&given);
    return EXIT_OK;
}
