/* Reads the command line, opens the store, runs one command, and turns failures into messages and exit codes. */
#include "terminal/cli_private.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve_version.h>

#include "terminal/json.h"
#include "terminal/progress.h"
#include "terminal/text.h"

/* ---- messages and exit codes ---- */

static int exit_code_of(int code) {
    switch (code) {
    case VARVE_NO_STORE:
        return EXIT_NO_STORE;
    case VARVE_BUSY:
        return EXIT_LOCKED;
    case VARVE_CORRUPT:
        return EXIT_CORRUPT;
    case -EINTR:
        return EXIT_INTERRUPTED;
    default:
        return code < 0 ? EXIT_FAILED : EXIT_OK;
    }
}

void cli_note(const char *format, ...) {
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    progress_clear();
    fflush(stdout);
    fputs("varve: ", stderr);
    text_put_error(text);
    fputc('\n', stderr);
}

static void tell_error(struct cli *cli, const char *name, const char *text, int exit_code) {
    cli->failures++;
    if (cli->is_json) {
        json_begin("error");
        json_text("code", name);
        json_text("message", text);
        json_i64("exit_code", exit_code);
        json_end();
    }
    cli_note("%s", text);
}

int cli_fail(struct cli *cli, int code, const struct varve_error *error) {
    const char *text = error && error->text[0] ? error->text : varve_error_text(code);
    if (code == -EINTR)
        text = "interrupted; nothing is lost, the command can be given again";
    int exit_code = exit_code_of(code) == EXIT_FAILED ? cli->exit_failed : exit_code_of(code);
    tell_error(cli, varve_error_name(code), text, exit_code);
    return exit_code;
}

int cli_usage(struct cli *cli, const char *format, ...) {
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tell_error(cli, "USAGE", text, cli->exit_failed);
    if (cli->command) {
        cli_note("usage: varve %s", cli->command->usage);
        cli_note("see `varve help %s`", cli->command->name);
    } else {
        cli_note("see `varve help`");
    }
    return cli->exit_failed;
}

/* ---- arguments ---- */

/* A number without sign; -1 if it is none or above most. */
static int parse_number(const char *text, uint64_t most, uint64_t *out) {
    char *end;

    if (*text < '0' || *text > '9')
        return -1;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || *end || value > most)
        return -1;
    *out = value;
    return 0;
}

int cli_which(struct cli *cli, char *text, struct varve_which *out) {
    uint64_t number;
    char *at = strrchr(text, '@');
    char *colon = at ? strchr(at, ':') : NULL;

    *out = (struct varve_which){.name = text, .generation = cli->generation, .version = -1};
    if (colon) {
        *colon = '\0';
        if (parse_number(colon + 1, UINT32_MAX, &number) < 0 || number == 0)
            return cli_usage(cli, "\"%s\" is no generation: it must be a number from 1 on", colon + 1);
        out->generation = (uint32_t)number;
    }
    if (at) {
        *at = '\0';
        if (!strcmp(at + 1, "latest"))
            number = UINT64_MAX;
        else if (parse_number(at + 1, INT64_MAX, &number) < 0)
            return cli_usage(cli, "\"%s\" is no version: give a number or \"latest\" after the @", at + 1);
        out->version = number == UINT64_MAX ? -1 : (int64_t)number;
    }
    if (!*text)
        return cli_usage(cli, "the name of a checkpoint is missing before the @");
    return 0;
}

int cli_choose_rank(struct cli *cli, struct varve_which *which) {
    struct varve_checkpoint_detail detail;
    struct varve_error error = {.text = ""};

    int rc = varve_store_resolve(cli->store, which, &error);
    if (rc == 0 && cli->rank < 0) {
        rc = varve_store_show(cli->store, which, &detail, NULL, NULL, &error);
        if (rc == 0 && detail.info.ranks > 1) {
            return cli_usage(cli,
                             "%s@%" PRId64 " has %" PRIu32
                             " ranks: say which with --rank; without a region, `varve show` lists those of all",
                             which->name, which->version, detail.info.ranks);
        }
        cli->rank = 0;
    }
    return rc < 0 ? cli_fail(cli, rc, &error) : 0;
}

const struct option cli_options[] = {
    {"store", required_argument, NULL, 's'},
    {"json", no_argument, NULL, 'j'},
    {"dry-run", no_argument, NULL, 'n'},
    {"force", no_argument, NULL, 'f'},
    {"quick", no_argument, NULL, 'q'},
    {"rank", required_argument, NULL, 'r'},
    {"generation", required_argument, NULL, 'g'},
    {"output", required_argument, NULL, 'o'},
    {"keep-last", required_argument, NULL, 'k'},
    {"keep-every", required_argument, NULL, 'K'},
    {"all-names", no_argument, NULL, 'A'},
    {"dead", no_argument, NULL, 'D'},
    {"list", no_argument, NULL, 'l'},
    {"man", no_argument, NULL, 'm'},
    {"directory", required_argument, NULL, 'C'},
    {"long", no_argument, NULL, 'L'},
    {"ranges", no_argument, NULL, 'R'},
    {"format", required_argument, NULL, 'F'},
    {"slice", required_argument, NULL, 'S'},
    {"arrays", required_argument, NULL, 'Y'},
    {"tolerance", required_argument, NULL, 'T'},
    {"relative", required_argument, NULL, 'E'},
    {"reason", required_argument, NULL, 'W'},
    {"pid", required_argument, NULL, 'p'},
    {"stop", no_argument, NULL, 'x'},
    {"criu", required_argument, NULL, 'c'},
    {"to", required_argument, NULL, 't'},
    {"exclude", required_argument, NULL, 'X'},
    {"memory", required_argument, NULL, 'M'},
    {"exit", no_argument, NULL, 'Z'},
    {"mtbf", required_argument, NULL, 'B'},
    {"cost", required_argument, NULL, 'O'},
    {"again", required_argument, NULL, 'G'},
    {"include", required_argument, NULL, 'I'},
    {"fixed", no_argument, NULL, 'i'},
    {"restart-after", required_argument, NULL, 'u'},
    {"name", required_argument, NULL, 'N'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {"build", no_argument, NULL, 'b'},
    {NULL, 0, NULL, 0},
};

/* The letters of the options that only some commands take: that of OPTION(n) at place n. */
static const char option_letters[] = "nfqrgoklmCLRFTEADSYKWpxctXMZBOGIiuN";

uint64_t cli_option_bit(int letter) {
    const char *place = strchr(option_letters, letter);
    return place ? OPTION(place - option_letters) : 0;
}

static const char *option_name(char letter) {
    size_t i = 0;
    while (cli_options[i].val != letter)
        i++;
    return cli_options[i].name;
}

static int take_number(struct cli *cli, const char *name, uint64_t least, uint64_t most, uint64_t *out) {
    if (parse_number(optarg, most, out) < 0 || *out < least) {
        return cli_usage(cli, "--%s needs a number from %" PRIu64 " to %" PRIu64 ", not \"%s\"", name, least, most,
                         optarg);
    }
    return 0;
}

/* As settings have them: K, M, G and T are powers of 1024. */
static int take_size(struct cli *cli, const char *name, uint64_t *out) {
    static const char suffixes[] = "KMGT";
    char *end;

    errno = 0;
    unsigned long long value = strtoull(optarg, &end, 10);
    const char *suffix = *end ? strchr(suffixes, *end) : NULL;
    unsigned shift = suffix ? 10 * (unsigned)(suffix - suffixes + 1) : 0;
    if (errno || !isdigit((unsigned char)*optarg) || (*end && (!suffix || end[1])) ||
        value > (uint64_t)INT64_MAX >> shift)
        return cli_usage(cli, "--%s needs a number of bytes such as 512M, not \"%s\"", name, optarg);
    *out = (uint64_t)value << shift;
    return 0;
}

static int take_bound(struct cli *cli, const char *name, double *out) {
    char *end;

    *out = strtod(optarg, &end);
    if (end == optarg || *end || !isfinite(*out) || *out < 0)
        return cli_usage(cli, "--%s needs a number that is 0 or more, such as 1e-6, not \"%s\"", name, optarg);
    return 0;
}

static int take_option(struct cli *cli, int letter) {
    uint64_t number = 0;
    int rc = 0;

    cli->given |= cli_option_bit(letter);
    switch (letter) {
    case 's':
        cli->address = optarg;
        break;
    case 'j':
        cli->is_json = 1;
        break;
    case 'h':
        cli->is_help = 1;
        break;
    case 'V':
        cli->is_version = 1;
        break;
    case 'b':
        cli->is_version = cli->is_build = 1;
        break;
    case 'r':
        rc = take_number(cli, "rank", 0, UINT32_MAX, &number);
        cli->rank = (int64_t)number;
        break;
    case 'g':
        rc = take_number(cli, "generation", 1, UINT32_MAX, &number);
        cli->generation = (uint32_t)number;
        break;
    case 'k':
        rc = take_number(cli, "keep-last", 1, UINT32_MAX, &cli->keep_last);
        break;
    case 'K':
        rc = take_number(cli, "keep-every", 1, INT64_MAX, &cli->keep_every);
        break;
    case 'o':
        cli->output = optarg;
        break;
    case 'C':
        cli->folder = optarg;
        break;
    case 'F':
        cli->format = optarg;
        break;
    case 'S':
        cli->slice = optarg;
        break;
    case 'Y':
        cli->arrays = optarg;
        break;
    case 'W':
        cli->reason = optarg;
        break;
    case 'p':
        rc = take_number(cli, "pid", 1, INT32_MAX, &number);
        if (rc == 0 && cli->pid_count == CLI_PIDS_MOST)
            rc = cli_usage(cli, "--pid can be given %d times at the most", CLI_PIDS_MOST);
        if (rc == 0)
            cli->pids[cli->pid_count++] = (pid_t)number;
        break;
    case 'M':
        rc = take_size(cli, "memory", &cli->memory);
        break;
    case 'c':
        cli->criu = optarg;
        break;
    case 't':
        cli->to = optarg;
        break;
    case 'X':
        cli->excludes[cli->exclude_count++] = optarg;
        break;
    case 'I':
        cli->includes[cli->include_count++] = optarg;
        break;
    case 'u':
        cli->after = optarg;
        break;
    case 'N':
        cli->name = optarg;
        break;
    case 'T':
        rc = take_bound(cli, "tolerance", &cli->tolerance);
        break;
    case 'E':
        rc = take_bound(cli, "relative", &cli->relative);
        break;
    case 'B':
        rc = take_bound(cli, "mtbf", &cli->mtbf);
        break;
    case 'O':
        rc = take_bound(cli, "cost", &cli->cost);
        break;
    case 'G':
        rc = take_bound(cli, "again", &cli->again);
        break;
    default:
        break;
    }
    return rc;
}

const struct command *cli_find_command(const struct command *const *commands, const char *name) {
    for (const struct command *const *c = commands; *c; c++)
        if (!strcmp((*c)->name, name) || ((*c)->alias && !strcmp((*c)->alias, name)))
            return *c;
    return NULL;
}

/* How a mistake in the options ends depends on the command, wherever in the line that is. On a copy, which is put in
 * another order. */
static void find_exit_failed(struct cli *cli, int argc, char **argv) {
    char **copy = calloc((size_t)argc + 1, sizeof *copy);

    opterr = 0;
    cli->exit_failed = EXIT_FAILED;
    if (!copy)
        return;
    memcpy(copy, argv, (size_t)argc * sizeof *copy);
    while (getopt_long(argc, copy, SHORT_OPTIONS, cli_options, NULL) != -1) {
    }
    const struct command *command = optind < argc ? cli_find_command(cli->commands, copy[optind]) : NULL;
    if (command && command->exit_failed)
        cli->exit_failed = command->exit_failed;
    free(copy);
    optind = 0; /* from the start again */
}

/* getopt_long also accepts the beginning of a long option. A tool that deletes must not guess, and an option added
 * later must not change the meaning of a script. number: of the long option just found, or -1. */
static int refuse_beginning(struct cli *cli, int number, char **argv) {
    if (number < 0)
        return 0;
    const char *word = argv[optind - 1];
    if (optarg && optarg == word) /* the value is a word of its own */
        word = argv[optind - 2];
    size_t size = strcspn(word, "=");
    const char *name = cli_options[number].name;
    return size == strlen("--") + strlen(name)
               ? 0
               : cli_usage(cli, "there is no option %.*s; write --%s if that is meant", (int)size, word, name);
}

static int take_options(struct cli *cli, int argc, char **argv) {
    int letter;
    int number = -1;
    int rc = 0;

    for (int i = 1; i < argc; i++) /* also a mistake before it is told in JSON */
        cli->is_json |= strcmp(argv[i], "--json") == 0;
    while (rc == 0 && (letter = getopt_long(argc, argv, SHORT_OPTIONS, cli_options, &number)) != -1) {
        if (letter == '?') {
            rc = cli_usage(cli, "there is no option %s", argv[optind - 1]);
        } else if (letter == ':') {
            rc = cli_usage(cli, "the option %s needs a value", argv[optind - 1]);
        } else {
            rc = refuse_beginning(cli, number, argv);
            rc = rc ? rc : take_option(cli, letter);
        }
        number = -1;
    }
    cli->args = argv + optind;
    cli->arg_count = argc - optind;
    return rc;
}

static int help_all(const struct cli *cli) {
    printf("usage: varve COMMAND STORE [...]\n\nLook at a store of checkpoints and look after it.\n\n");
    for (const struct command *const *c = cli->commands; *c; c++)
        printf("  %-8s  %s\n", (*c)->name, (*c)->summary);
    printf("\nSTORE is file:///path, a path, or s3://bucket/prefix. It may be left out when -s/--store gives it,\n"
           "or VARVE_STORE.\n"
           "--json makes every command print one JSON object per line.\n\n"
           "example: varve ls /scratch/ck\n"
           "`varve help COMMAND` tells more about one, varve(1) everything.\n");
    return EXIT_OK;
}

static int help_command(const struct command *command) {
    printf("usage: varve %s\n", command->usage);
    if (command->alias)
        printf("       (or: varve %s)\n", command->alias);
    printf("\n%s", command->help);
    return EXIT_OK;
}

/* Tool and library come from one build, unless the loader has found another library. */
static int tell_version(const struct cli *cli) {
    if (cli->is_json) {
        json_begin("version");
        json_text("version", VARVE_VERSION);
        json_text("library_version", varve_version());
        json_text("build", varve_build());
        json_end();
        return EXIT_OK;
    }
    printf("varve %s\n", VARVE_VERSION);
    if (strcmp(varve_version(), VARVE_VERSION) != 0)
        printf("library %s\n", varve_version());
    if (cli->is_build)
        fputs(varve_build(), stdout);
    return EXIT_OK;
}

/* The checkpoints of a name follow one another. */
int take_name(void *arg, const struct varve_checkpoint_info *info) {
    struct name_list *names = arg;

    if (names->count && !strcmp(names->list[names->count - 1], info->name))
        return 0;
    char **list = realloc(names->list, (names->count + 1) * sizeof *list);
    if (!list)
        return -ENOMEM;
    names->list = list;
    list[names->count] = strdup(info->name);
    if (!list[names->count])
        return -ENOMEM;
    names->count++;
    return 0;
}

void clear_names(struct name_list *names) {
    for (size_t i = 0; i < names->count; i++)
        free(names->list[i]);
    free(names->list);
}

/* ---- the store ---- */

int cli_looks_like_address(const char *text) {
    return strstr(text, "://") || text[0] == '/' || !strncmp(text, "./", 2) || !strncmp(text, "../", 3);
}

static void find_address(struct cli *cli) {
    const char *environment = secure_getenv("VARVE_STORE");

    if (cli->address)
        return;
    int is_set = environment && *environment;
    if (cli->arg_count > 0 && (!is_set || cli_looks_like_address(cli->args[0]))) {
        cli->address = cli->args[0];
        cli->args++;
        cli->arg_count--;
    } else if (is_set) {
        cli->address = environment;
    }
}

static int check_arguments(struct cli *cli) {
    const struct command *command = cli->command;

    for (size_t i = 0; option_letters[i]; i++)
        if (cli->given & OPTION(i) & ~command->options)
            return cli_usage(cli, "%s takes no --%s", command->name, option_name(option_letters[i]));
    if (!command->is_storeless) {
        find_address(cli);
        if (!cli->address)
            return cli_usage(cli, "which store? Give its address, or set VARVE_STORE");
    }
    if (cli->arg_count < command->least_args)
        return cli_usage(cli, "an argument is missing");
    if (command->most_args >= 0 && cli->arg_count > command->most_args)
        return cli_usage(cli, "\"%s\" is one argument too many", cli->args[command->most_args]);
    return 0;
}

static int run_command(struct cli *cli) {
    struct varve_error error;
    int rc = check_arguments(cli);

    if (rc)
        return rc;
    if (!cli->command->is_storeless && !cli->command->makes_store) {
        rc = (cli->command->is_source ? varve_store_open_source : varve_store_open)(cli->address, NULL, &cli->store,
                                                                                    &error);
        if (rc < 0)
            return cli_fail(cli, rc, &error);
    }
    rc = cli->command->run(cli);
    varve_store_close(cli->store);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        error.text[0] = '\0';
        rc = rc && (rc != EXIT_DIFFERENT || cli->failures) ? rc : cli_fail(cli, -EIO, &error);
    }
    return rc;
}

static int dispatch(struct cli *cli) {
    if (cli->is_version)
        return tell_version(cli);
    if (cli->arg_count == 0)
        return cli->is_help ? help_all(cli) : cli_usage(cli, "which command?");
    const char *name = cli->args[0];
    if (!strcmp(name, "help")) {
        if (cli->arg_count == 1)
            return help_all(cli);
        cli->is_help = 1;
        name = cli->args[1];
    }
    cli->command = cli_find_command(cli->commands, name);
    if (!cli->command)
        return cli_usage(cli, "there is no command \"%s\"", name);
    if (cli->is_help)
        return help_command(cli->command);
    cli->args++;
    cli->arg_count--;
    return run_command(cli);
}

int cli_run(int argc, char **argv, const struct command *const *commands) {
    struct cli cli = {.commands = commands, .rank = -1};

    if (argc > 1 && strcmp(argv[1], "complete") == 0) /* the options behind it are not ours */
        return cli_complete(argc - 2, argv + 2, commands);
    interrupts_init();
    find_exit_failed(&cli, argc, argv);
    cli.excludes = calloc((size_t)argc + 1, sizeof *cli.excludes);
    cli.includes = calloc((size_t)argc + 1, sizeof *cli.includes);
    int rc = cli.excludes && cli.includes ? take_options(&cli, argc, argv) : EXIT_FAILED;
    rc = rc ? rc : dispatch(&cli);
    free(cli.excludes);
    free(cli.includes);
    return rc;
}
