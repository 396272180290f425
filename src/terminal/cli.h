/* What the sub-commands of `varve` share: the parsed command line, the table entry of a command, and how failures
 * become messages and exit codes. The tool uses public headers only. */
#ifndef CLI_H
#define CLI_H

#include <stdint.h>
#include <sys/types.h>
#include <varve/varve_inspect.h>

/* Scripts read these; they are part of the tool's promise (varve(1), EXIT STATUS). */
enum exit_code {
    EXIT_OK = 0,
    EXIT_FAILED = 1,
    EXIT_DIFFERENT = 1, /* of diff, whose failures are others */
    EXIT_TROUBLE = 2,   /* EXIT_FAILED of diff */
    EXIT_PARTIAL = 3,
    EXIT_NO_STORE = 10,
    EXIT_LOCKED = 11,
    EXIT_CORRUPT = 20, /* EXIT_INTERRUPTED: progress.h */
};

/* Options that only some commands take; the others (--store, --json, --help) belong to all. */
#define OPTION(bit) (UINT64_C(1) << (bit))
#define OPTION_DRY_RUN OPTION(0)
#define OPTION_FORCE OPTION(1)
#define OPTION_QUICK OPTION(2)
#define OPTION_RANK OPTION(3)
#define OPTION_GENERATION OPTION(4)
#define OPTION_OUTPUT OPTION(5)
#define OPTION_KEEP_LAST OPTION(6)
#define OPTION_LIST OPTION(7)
#define OPTION_MAN OPTION(8)
#define OPTION_FOLDER OPTION(9)
#define OPTION_LONG OPTION(10)
#define OPTION_RANGES OPTION(11)
#define OPTION_FORMAT OPTION(12)
#define OPTION_TOLERANCE OPTION(13)
#define OPTION_RELATIVE OPTION(14)
#define OPTION_ALL_NAMES OPTION(15)
#define OPTION_DEAD OPTION(16)
#define OPTION_SLICE OPTION(17)
#define OPTION_ARRAYS OPTION(18)
#define OPTION_KEEP_EVERY OPTION(19)
#define OPTION_REASON OPTION(20)
#define OPTION_PID OPTION(21)
#define OPTION_STOP OPTION(22)
#define OPTION_CRIU OPTION(23)
#define OPTION_TO OPTION(24)
#define OPTION_EXCLUDE OPTION(25)
#define OPTION_MEMORY OPTION(26)
#define OPTION_EXIT OPTION(27)
#define OPTION_MTBF OPTION(28)
#define OPTION_COST OPTION(29)
#define OPTION_AGAIN OPTION(30)
#define OPTION_INCLUDE OPTION(31)
#define OPTION_FIXED OPTION(32)
#define OPTION_RESTART_AFTER OPTION(33)
#define OPTION_NAME OPTION(34)

#define CLI_PIDS_MOST 1024

/* One command line. */
struct cli {
    const struct command *const *commands; /* all there are */
    const struct command *command;         /* that was asked for */
    const char *address;                   /* of the store, NULL if none was given */
    struct varve_store *store;             /* open while a command runs that needs one */
    uint64_t given;                        /* option bits that were used */
    int is_json;
    int is_help;
    int is_version;
    int is_build; /* tell how it was built, too */
    int64_t rank;
    uint32_t generation;
    uint64_t keep_last;
    uint64_t keep_every; /* 0: not asked for */
    const char *output;
    const char *format;
    const char *slice;     /* of an array */
    const char *arrays;    /* a file for them */
    const char *folder;    /* of -C */
    const char **excludes; /* patterns */
    size_t exclude_count;
    const char **includes; /* libraries */
    size_t include_count;
    const char *reason; /* of a pin */
    const char *after;  /* a function */
    const char *name;   /* of checkpoints */
    pid_t pids[CLI_PIDS_MOST];
    int pid_count;
    uint64_t memory;  /* for images of processes */
    const char *criu; /* the program */
    const char *to;   /* a folder for images, or the address of a store */
    double tolerance;
    double relative;
    double mtbf, cost; /* seconds */
    double again;      /* the same */
    char **args;       /* what is left for the command */
    int arg_count;
    int failures;    /* errors told so far */
    int exit_failed; /* what ends with EXIT_FAILED elsewhere ends with this */
};

struct command {
    const char *name;
    const char *alias;   /* NULL: none */
    const char *summary; /* one line in the list of commands */
    const char *usage;   /* one line after "varve " */
    const char *help;    /* what it does, its options, an example */
    uint64_t options;    /* option bits it takes */
    int is_storeless;
    int makes_store; /* it opens the store itself, which need not be there yet */
    int is_source;   /* the store is that of a copy: it may be plain although encrypt=on */
    int least_args;
    int most_args;   /* -1: any number */
    int exit_failed; /* instead of EXIT_FAILED, when that means something else; 0: the same */
    int (*run)(struct cli *cli);
};

/* The whole tool, with these commands; a NULL is behind the last. Its exit code. */
int cli_run(int argc, char **argv, const struct command *const *commands);

static inline int has_option(const struct cli *cli, uint64_t bit) {
    return (cli->given & bit) != 0;
}

/* Tell about a failed call and give the exit code that belongs to it. */
int cli_fail(struct cli *cli, int code, const struct varve_error *error);
/* Tell about a mistake in the command line, with a hint; EXIT_FAILED, or what the command has instead. */
int cli_usage(struct cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "varve: ..." on stderr, for people; nothing in JSON. */
void cli_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* NAME, NAME@VERSION, NAME@latest, each with :GENERATION behind the version if wanted. Cuts text in place. 0, or the
 * exit code after the mistake was told. */
int cli_which(struct cli *cli, char *text, struct varve_which *out);
/* Fill in the version and generation of `which`, and cli->rank: a checkpoint of one rank leaves no choice, for others
 * it must have been said. 0, or the exit code after it was told. */
int cli_choose_rank(struct cli *cli, struct varve_which *which);
/* The names that have checkpoints, for varve_store_list. */
struct name_list {
    char **list;
    size_t count;
};
int take_name(void *arg, const struct varve_checkpoint_info *info);
void clear_names(struct name_list *names);

#endif
