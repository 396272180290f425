/* varve forget: checkpoints that are no longer wanted. Every one is named before it goes. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/error.h"
#include "terminal/cli.h"
#include "terminal/json.h"
#include "terminal/progress.h"
#include "terminal/text.h"

struct candidate {
    char *name;
    uint32_t generation;
    int64_t version;
    uint64_t bytes_protected;
    int is_damaged;
    int is_pinned;
    int is_chosen; /* to be forgotten */
    int counts;    /* as one of those that are kept */
};
struct candidates {
    struct candidate *list;
    size_t count;
};

struct forgetting {
    struct cli *cli;
    uint64_t forgotten;
    uint64_t failed;
    uint64_t kept;
    uint64_t pinned; /* of these, by nothing but their pin */
    int first_exit;  /* of the first failure */
    int is_stopped;  /* by an interrupt, between two checkpoints */
};

/* How far it is, in checkpoints; total 0: not known. Nonzero when it should stop. */
static int is_stopped(struct forgetting *forgetting, uint64_t done, uint64_t total) {
    return forgetting->is_stopped = progress_count(done, total, "checkpoints") != 0;
}

static void note_failure(struct forgetting *forgetting, int exit_code) {
    forgetting->failed++;
    forgetting->first_exit = forgetting->first_exit ? forgetting->first_exit : exit_code;
}

static void tell_action(struct cli *cli, const struct candidate *candidate, int is_dry_run) {
    char size[SIZE_CAPACITY];

    if (cli->is_json) {
        json_begin("action");
        json_text("action", "forget");
        json_bool("is_dry_run", is_dry_run);
        json_checkpoint(candidate->name, candidate->version, candidate->generation);
        json_u64("bytes_protected", candidate->bytes_protected);
        json_end();
        return;
    }
    progress_clear();
    text_size(size, candidate->bytes_protected);
    printf("%s ", is_dry_run ? "would forget" : "forget");
    text_put(candidate->name);
    printf("@%" PRId64 " of generation %" PRIu32 ", %s protected\n", candidate->version, candidate->generation, size);
    fflush(stdout);
}

static void forget_one(struct forgetting *forgetting, const struct candidate *candidate) {
    struct varve_error error = {.text = ""};
    struct varve_which which = {candidate->name, candidate->generation, candidate->version};
    int is_dry_run = has_option(forgetting->cli, OPTION_DRY_RUN);

    tell_action(forgetting->cli, candidate, is_dry_run);
    int rc = is_dry_run ? 0 : varve_store_forget(forgetting->cli->store, &which, &error);
    if (rc < 0)
        note_failure(forgetting, cli_fail(forgetting->cli, rc, &error));
    else
        forgetting->forgotten++;
}

/* ---- checkpoints that are named one by one ---- */

static void forget_named(struct forgetting *forgetting, const struct varve_which *given) {
    struct cli *cli = forgetting->cli;
    struct varve_error error = {.text = ""};
    struct varve_checkpoint_detail detail;
    struct varve_which which = *given;

    int rc = varve_store_resolve(cli->store, &which, &error);
    if (rc < 0) {
        note_failure(forgetting, cli_fail(cli, rc, &error));
        return;
    }
    struct candidate candidate = {(char *)which.name, which.generation, which.version, 0, 0, 0, 1, 0};
    if (varve_store_show(cli->store, &which, &detail, NULL, NULL, NULL) == 0)
        candidate.bytes_protected = detail.info.bytes_protected;
    forget_one(forgetting, &candidate);
}

/* All arguments are read before anything is forgotten: a typing mistake must not leave half of it done. */
static int run_named(struct forgetting *forgetting) {
    struct cli *cli = forgetting->cli;
    struct varve_which *which = calloc((size_t)cli->arg_count, sizeof *which);
    int rc = which ? 0 : cli_fail(cli, -ENOMEM, NULL);

    for (int i = 0; rc == 0 && i < cli->arg_count; i++) {
        rc = cli_which(cli, cli->args[i], &which[i]);
        if (rc == 0 && which[i].version < 0)
            rc = cli_usage(cli, "which version of %s? Give %s@VERSION, or --keep-last", which[i].name, which[i].name);
    }
    progress_begin("forgetting", cli->is_json);
    for (int i = 0; rc == 0 && i < cli->arg_count && !is_stopped(forgetting, (uint64_t)i, (uint64_t)cli->arg_count);
         i++)
        forget_named(forgetting, &which[i]);
    progress_end();
    free(which);
    return rc;
}

/* ---- all but the newest ---- */

static int collect(void *arg, const struct varve_checkpoint_info *info) {
    struct candidates *candidates = arg;
    struct candidate *list = realloc(candidates->list, (candidates->count + 1) * sizeof *list);

    if (!list)
        return -ENOMEM;
    candidates->list = list;
    char *name = strdup(info->name);
    if (!name)
        return -ENOMEM;
    list[candidates->count++] = (struct candidate){
        name, info->generation, info->version, info->bytes_protected, info->is_damaged, info->is_pinned, 0, 0};
    return progress_count(candidates->count, 0, "checkpoints");
}

static int see_region(void *arg, const struct varve_stored_region *region) {
    (void)arg, (void)region;
    return 0;
}

/* Only one whose regions can be listed on every rank counts as kept: otherwise damaged ones could push out the last
 * whole one. They are left alone. The data itself is not read: that is what verify does. */
static int counts_as_kept(struct forgetting *forgetting, const struct candidate *candidate) {
    struct varve_error error = {.text = ""};
    struct varve_which which = {candidate->name, candidate->generation, candidate->version};

    int rc = varve_store_show(forgetting->cli->store, &which, NULL, see_region, NULL, &error);
    if (rc < 0) {
        cli_note("%s@%" PRId64 " of generation %" PRIu32 " is kept but not counted: %s", candidate->name,
                 candidate->version, candidate->generation, error.text);
    }
    return rc == 0;
}

/* Of a version that is there twice, as a compaction leaves it that was killed, one counts. */
static int is_counted(const struct candidates *candidates, size_t index) {
    const struct candidate *candidate = &candidates->list[index];
    for (size_t i = index; i > 0 && strcmp(candidates->list[i - 1].name, candidate->name) == 0; i--)
        if (candidates->list[i - 1].version == candidate->version && candidates->list[i - 1].counts)
            return 1;
    return 0;
}

/* Does its version make it one of those that stay, however old? */
static int is_milestone(const struct cli *cli, const struct candidate *candidate) {
    return cli->keep_every > 0 && (uint64_t)candidate->version % cli->keep_every == 0;
}

/* The list has names together, newest first. */
static void choose_old(struct forgetting *forgetting, struct candidates *candidates) {
    uint64_t kept = 0;

    for (size_t i = 0; i < candidates->count && !is_stopped(forgetting, i, candidates->count); i++) {
        struct candidate *candidate = &candidates->list[i];
        if (i && strcmp(candidate->name, candidates->list[i - 1].name) != 0)
            kept = 0;
        if (kept < forgetting->cli->keep_last) {
            candidate->counts = !is_counted(candidates, i) && counts_as_kept(forgetting, candidate);
            kept += (uint64_t)candidate->counts;
        } else {
            int is_old = !candidate->is_damaged && !is_milestone(forgetting->cli, candidate);
            candidate->is_chosen = is_old && !candidate->is_pinned;
            forgetting->pinned += is_old && candidate->is_pinned;
        }
        forgetting->kept += !candidate->is_chosen;
    }
}

/* Oldest first: if it ends half-way, what is left is still the newest. */
static void forget_chosen(struct forgetting *forgetting, const struct candidates *candidates) {
    uint64_t done = 0, total = candidates->count - forgetting->kept;

    for (size_t i = candidates->count; i > 0 && !is_stopped(forgetting, done, total); i--) {
        if (!candidates->list[i - 1].is_chosen)
            continue;
        forget_one(forgetting, &candidates->list[i - 1]);
        done++;
    }
}

/* A name given twice would be counted twice, and lose what the first count kept. */
static int is_repeated(const struct cli *cli, int at) {
    for (int i = 0; i < at; i++)
        if (strcmp(cli->args[i], cli->args[at]) == 0)
            return 1;
    return 0;
}

static int list_candidates(struct cli *cli, struct candidates *candidates, struct varve_error *error) {
    int rc = 0;

    for (int i = 0; rc == 0 && i < cli->arg_count; i++) {
        size_t before = candidates->count;
        if (is_repeated(cli, i))
            continue;
        rc = varve_store_list(cli->store, cli->args[i], collect, candidates, error);
        if (rc == 0 && candidates->count == before)
            rc = files_error(error, VARVE_NO_CHECKPOINT, "%s has no checkpoint of \"%s\"; nothing was forgotten",
                             cli->address, cli->args[i]);
    }
    return cli->arg_count == 0 ? varve_store_list(cli->store, NULL, collect, candidates, error) : rc;
}

static int run_keep_last(struct forgetting *forgetting) {
    struct cli *cli = forgetting->cli;
    struct candidates candidates = {0};
    struct varve_error error = {.text = ""};

    progress_begin("listing", cli->is_json);
    int rc = list_candidates(cli, &candidates, &error);
    progress_end();
    if (rc == 0) {
        progress_begin("choosing", cli->is_json);
        choose_old(forgetting, &candidates);
        progress_end();
    }
    if (rc == 0 && !forgetting->is_stopped) {
        progress_begin("forgetting", cli->is_json);
        forget_chosen(forgetting, &candidates);
        progress_end();
    }
    for (size_t i = 0; i < candidates.count; i++)
        free(candidates.list[i].name);
    free(candidates.list);
    return rc < 0 ? cli_fail(cli, rc, &error) : 0;
}

static int finish_forgetting(const struct forgetting *forgetting) {
    struct cli *cli = forgetting->cli;
    int is_dry_run = has_option(cli, OPTION_DRY_RUN);

    if (cli->is_json) {
        json_begin("summary");
        json_bool("is_dry_run", is_dry_run);
        json_u64("forgotten", forgetting->forgotten);
        json_u64("failed", forgetting->failed);
        json_u64("kept", forgetting->kept);
        json_u64("pinned", forgetting->pinned);
        json_end();
    } else if (forgetting->forgotten == 0 && forgetting->failed == 0) {
        cli_note("nothing to forget");
    } else if (forgetting->forgotten && is_dry_run) {
        cli_note("%" PRIu64 " would be forgotten; nothing was changed", forgetting->forgotten);
    } else if (forgetting->forgotten) {
        cli_note("%" PRIu64 " forgotten; `varve prune` frees what no other checkpoint needs", forgetting->forgotten);
    }
    if (forgetting->pinned && !cli->is_json)
        cli_note("%" PRIu64 " pinned checkpoint%s kept; `varve unpin` lets go of them", forgetting->pinned,
                 forgetting->pinned == 1 ? " is" : "s are");
    if (forgetting->failed)
        return forgetting->forgotten ? EXIT_PARTIAL : forgetting->first_exit;
    return EXIT_OK;
}

/* Checkpoints of every name go only when somebody has asked for exactly that. */
static int check_usage(struct cli *cli) {
    int is_all = has_option(cli, OPTION_ALL_NAMES);

    if (!has_option(cli, OPTION_KEEP_LAST) && cli->keep_every)
        return cli_usage(cli, "--keep-every goes with --keep-last N: how many of the newest are kept in any case");
    if (!has_option(cli, OPTION_KEEP_LAST)) {
        if (is_all)
            return cli_usage(cli, "--all-names goes with --keep-last N; to forget a name whole, name its versions");
        return cli->arg_count ? 0 : cli_usage(cli, "what to forget? Give NAME@VERSION, or NAME --keep-last N");
    }
    if (is_all && cli->arg_count)
        return cli_usage(cli, "either --all-names or \"%s\", not both", cli->args[0]);
    if (!is_all && !cli->arg_count) {
        return cli_usage(cli, "of which names? Give them, or --all-names for every name of %s; nothing was forgotten",
                         cli->address);
    }
    return 0;
}

static int run_forget(struct cli *cli) {
    struct forgetting forgetting = {.cli = cli};

    int rc = check_usage(cli);
    if (rc)
        return rc;
    rc = has_option(cli, OPTION_KEEP_LAST) ? run_keep_last(&forgetting) : run_named(&forgetting);
    rc = rc ? rc : finish_forgetting(&forgetting);
    return forgetting.is_stopped ? cli_fail(cli, -EINTR, NULL) : rc;
}

const struct command command_forget = {
    .name = "forget",
    .summary = "give up checkpoints, by version or all but the newest",
    .usage = "forget STORE NAME@VERSION... | --keep-last N [--keep-every M] NAME...|--all-names",
    .help = "Give up checkpoints for good. Other checkpoints keep what they need. Space is freed by `varve prune`.\n"
            "What a running program continues from, and what is pinned, is refused, with exit code 11.\n\n"
            "  --keep-last N    all but the newest N whole ones of each of the given names\n"
            "  --keep-every M   with --keep-last: nor those whose version is a multiple of M; pinned ones stay, too\n"
            "  --all-names      of every name in the store\n"
            "  -n, --dry-run    only tell what would be forgotten\n"
            "  -g, --generation G   of this generation, when several have the version\n\n"
            "example: varve forget /scratch/ck heat2d --keep-last 3 -n\n",
    .options = OPTION_KEEP_LAST | OPTION_KEEP_EVERY | OPTION_ALL_NAMES | OPTION_DRY_RUN | OPTION_GENERATION,
    .most_args = -1,
    .run = run_forget,
};
