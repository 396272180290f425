/* varve flush: what a further tier does not have yet is copied there, for jobs that ended before it was. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "terminal/cli.h"
#include "terminal/json.h"
#include "terminal/progress.h"
#include "terminal/text.h"

struct one {
    uint32_t generation;
    int64_t version;
    uint64_t time_ns;
    int damage; /* VARVE_CORRUPT, -EIO or 0: of its record, and then the time is not known */
    char reason[160];
};

/* Checkpoints of a name, the newest first. */
struct one_list {
    struct one *list;
    size_t count;
};

struct flushed {
    struct cli *cli;
    const char *to;
    struct one_list here, there;
    uint64_t copied, new_bytes, written;
    int is_other; /* what is there is no copy of what is here */
};

static int take_checkpoint(void *arg, const struct varve_checkpoint_info *info) {
    struct one_list *all = arg;
    struct one *list = realloc(all->list, (all->count + 1) * sizeof *list);
    if (!list)
        return -ENOMEM;
    all->list = list;
    struct one *one = &list[all->count++];
    *one = (struct one){.generation = info->generation, .version = info->version, .time_ns = info->time_ns};
    if (info->is_damaged)
        one->damage = info->is_unreadable ? -EIO : VARVE_CORRUPT;
    snprintf(one->reason, sizeof one->reason, "%s", info->reason);
    return 0;
}

static int take_there(void *arg, const struct varve_checkpoint_info *info) {
    return info->is_damaged ? 0 : take_checkpoint(arg, info);
}

static int look_at_target(struct flushed *flushed, const char *name, struct varve_error *error) {
    struct varve_store *other = NULL;
    int rc = varve_store_open(flushed->to, NULL, &other, error);
    flushed->there.count = 0;
    if (rc == 0)
        rc = varve_store_list(other, name, take_there, &flushed->there, error);
    varve_store_close(other);
    return rc == VARVE_NO_STORE || rc == VARVE_NO_CHECKPOINT ? 0 : rc;
}

/* Copies keep version and time; generations are not comparable. */
static int is_in(const struct one_list *there, const struct one *one) {
    int is_there = 0;
    for (size_t i = 0; i < there->count; i++)
        is_there |= there->list[i].version == one->version && there->list[i].time_ns == one->time_ns;
    return is_there;
}

/* Is it there, or older than what is? One with a lower time and no lower version may be of another life of the job. */
static int is_passed(const struct one_list *there, const struct one *one) {
    if (is_in(there, one))
        return 1;
    return there->count > 0 && one->version < there->list[0].version && one->time_ns < there->list[0].time_ns;
}

/* How many to take from the newest down. Of one whose record is damaged nobody knows: it does not end them. */
static size_t count_newer(const struct flushed *flushed) {
    size_t count = 0;
    while (count < flushed->here.count &&
           (flushed->here.list[count].damage || !is_passed(&flushed->there, &flushed->here.list[count])))
        count++;
    return count;
}

static void tell_one(const struct flushed *flushed, const char *name, const struct varve_copy_result *result) {
    char protected_bytes[SIZE_CAPACITY], new_bytes[SIZE_CAPACITY], written[SIZE_CAPACITY];
    if (flushed->cli->is_json) {
        json_begin("copied");
        json_checkpoint(name, result->version, result->generation);
        json_text("to", flushed->to);
        json_bool("was_there", result->is_there);
        json_u64("bytes_protected", result->bytes_protected);
        json_u64("bytes_new", result->bytes_new);
        json_u64("bytes_resumed", result->bytes_resumed);
        json_u64("bytes_written", result->bytes_written);
        json_end();
        return;
    }
    text_size(protected_bytes, result->bytes_protected);
    text_size(new_bytes, result->bytes_new);
    text_size(written, result->bytes_written);
    text_put(name);
    const char *what = result->is_there                           ? "was already in"
                       : has_option(flushed->cli, OPTION_DRY_RUN) ? "would go to"
                                                                  : "copied to";
    printf("@%" PRId64 " %s ", result->version, what);
    text_put(flushed->to);
    printf(": %s of %s are new there; %s written\n", new_bytes, protected_bytes, written);
}

static int copy_one(struct flushed *flushed, const char *name, const struct one *one) {
    struct varve_which which = {.name = name, .generation = one->generation, .version = one->version};
    struct varve_copy_result result = {.size = sizeof result};
    struct varve_error error = {.text = ""};
    struct varve_copy_options options = {.size = sizeof options,
                                         .is_dry_run = has_option(flushed->cli, OPTION_DRY_RUN),
                                         .progress = progress_callback,
                                         .may_go_back = 1};
    progress_begin("copying", flushed->cli->is_json);
    int rc = varve_store_copy(flushed->cli->store, &which, flushed->to, name, &options, &result, &error);
    progress_end();
    flushed->is_other = rc == VARVE_MISMATCH;
    if (rc < 0)
        return cli_fail(flushed->cli, rc, &error);
    flushed->copied += !result.is_there;
    flushed->new_bytes += result.bytes_new;
    flushed->written += result.bytes_written;
    tell_one(flushed, name, &result);
    return EXIT_OK;
}

/* Nobody can tell whether it is there. */
static int refuse_damaged(const struct flushed *flushed, const char *name, const struct one *one) {
    struct varve_error error = {.text = ""};
    snprintf(error.text, sizeof error.text, "%.100s@%" PRId64 " of generation %" PRIu32 " is not copied: it %s: %s",
             name, one->version, one->generation,
             one->damage == VARVE_CORRUPT ? "is damaged" : "may be whole, but its record was not read", one->reason);
    return cli_fail(flushed->cli, one->damage, &error);
}

/* The newest there was saved later than what would be copied, or than all that is here. If its version is here, they
 * are compared first. If not, it may be of a life of the job that went on elsewhere: that shall stay the newest, and
 * what is here is not there. */
static int check_later(struct flushed *flushed, const char *name, size_t count) {
    const struct one_list *here = &flushed->here, *there = &flushed->there;
    struct varve_error error = {.text = ""};
    int is_later = count == 0 && here->count > 0 && !is_in(there, &here->list[0]); /* all of it is older */
    for (size_t i = 0; i < count && there->count > 0; i++)
        is_later |= !here->list[i].damage && here->list[i].time_ns < there->list[0].time_ns;
    for (size_t i = 0; i < here->count && is_later; i++)
        is_later = here->list[i].version != there->list[0].version;
    if (!is_later)
        return EXIT_OK;
    snprintf(error.text, sizeof error.text,
             "version %" PRId64 " of %.100s in %.200s was saved later than version %" PRId64
             " here, and is not here: nothing is copied over it; `varve copy` does if that is meant",
             there->list[0].version, name, flushed->to, here->list[0].version);
    return cli_fail(flushed->cli, VARVE_MISMATCH, &error);
}

/* One that is damaged does not keep newer ones from being copied, an interrupt does, and one that is of another life of
 * the job there. */
static int flush_name(struct flushed *flushed, const char *name) {
    struct varve_error error = {.text = ""};
    flushed->here.count = 0;
    int rc = varve_store_list(flushed->cli->store, name, take_checkpoint, &flushed->here, &error);
    if (rc == 0)
        rc = look_at_target(flushed, name, &error);
    if (rc < 0)
        return cli_fail(flushed->cli, rc, &error);
    size_t count = count_newer(flushed);
    int exit_code = check_later(flushed, name, count);
    flushed->is_other = exit_code != EXIT_OK;
    for (size_t i = count; i-- > 0 && exit_code != EXIT_INTERRUPTED && !flushed->is_other;) {
        const struct one *one = &flushed->here.list[i];
        int code = one->damage ? refuse_damaged(flushed, name, one) : copy_one(flushed, name, one);
        exit_code = code == EXIT_INTERRUPTED || exit_code == EXIT_OK ? code : exit_code;
    }
    return exit_code;
}

static void tell_summary(const struct flushed *flushed) {
    if (flushed->cli->is_json) {
        json_begin("summary");
        json_text("to", flushed->to);
        json_bool("dry_run", has_option(flushed->cli, OPTION_DRY_RUN));
        json_u64("copied", flushed->copied);
        json_u64("bytes_new", flushed->new_bytes);
        json_u64("bytes_written", flushed->written);
        json_end();
    } else if (flushed->copied == 0) { /* and nothing has failed */
        text_put(flushed->to);
        printf(" has the newest already\n");
    }
}

static int flush_to(struct cli *cli, const char *to, const struct name_list *names) {
    struct flushed flushed = {.cli = cli, .to = to};
    int exit_code = EXIT_OK;
    for (size_t i = 0; i < names->count && exit_code != EXIT_INTERRUPTED; i++) {
        int code = flush_name(&flushed, names->list[i]);
        exit_code = code == EXIT_INTERRUPTED || exit_code == EXIT_OK ? code : exit_code;
    }
    if (exit_code == EXIT_OK || cli->is_json)
        tell_summary(&flushed);
    free(flushed.here.list);
    free(flushed.there.list);
    return exit_code;
}

static int take_tiers(void *arg, const struct varve_setting_info *setting) {
    if (strcmp(setting->name, "tiers") != 0)
        return 0;
    *(char **)arg = strdup(setting->value);
    return 1;
}

/* What an address in tiers says of its tier is not for the storage. */
static void drop_parameters(char *address) {
    static const char *const own[] = {"keep=", "waiting="};
    char *out = strchr(address, '?'), *mark = out;
    for (char *at = mark; at && *at;) {
        size_t size = strcspn(++at, "&");
        if (strncmp(at, own[0], strlen(own[0])) != 0 && strncmp(at, own[1], strlen(own[1])) != 0) {
            *out = out == mark ? '?' : '&';
            out++;
            memmove(out, at, size);
            out += size;
        }
        at += size;
    }
    if (out)
        *out = '\0';
}

/* A tier that cannot be reached does not keep the others from getting theirs. */
static int flush_all(struct cli *cli, const struct name_list *names) {
    struct varve_error error = {.text = ""};
    char *tiers = NULL, *at = NULL;
    int exit_code = EXIT_OK;
    if (cli->to)
        return flush_to(cli, cli->to, names);
    int rc = varve_settings_list(NULL, take_tiers, &tiers, &error);
    if (rc < 0 || !tiers || !*tiers)
        exit_code = rc < 0 ? cli_fail(cli, rc, &error)
                           : cli_usage(cli, "where to? Give --to ADDRESS, or set tiers (VARVE_TIERS)");
    for (char *to = tiers && exit_code == EXIT_OK ? strtok_r(tiers, ";", &at) : NULL; to;
         to = strtok_r(NULL, ";", &at)) {
        drop_parameters(to);
        int code = exit_code == EXIT_INTERRUPTED ? EXIT_OK : flush_to(cli, to, names);
        exit_code = code == EXIT_INTERRUPTED || exit_code == EXIT_OK ? code : exit_code;
    }
    free(tiers);
    return exit_code;
}

static int run_flush(struct cli *cli) {
    struct name_list names = {0};
    struct varve_error error = {.text = ""};
    int rc = varve_store_list(cli->store, cli->arg_count ? cli->args[0] : NULL, take_name, &names, &error);
    if (rc == 0 && cli->arg_count && names.count == 0) {
        snprintf(error.text, sizeof error.text, "there is no checkpoint of %.200s", cli->args[0]);
        rc = VARVE_NO_CHECKPOINT;
    }
    int exit_code = rc < 0 ? cli_fail(cli, rc, &error) : flush_all(cli, &names);
    clear_names(&names);
    return exit_code;
}

const struct command command_flush = {
    .name = "flush",
    .summary = "copy to a further tier what it does not have yet",
    .usage = "flush STORE [NAME] [--to ADDRESS] [--dry-run]",
    .help =
        "Copy the checkpoints of a name, or of all names, that are newer than what the store at ADDRESS has, oldest "
        "first.\n"
        "It is for the end of a job that died before its tiers had everything, and works as `varve copy`: verified, "
        "only\n"
        "what is missing, and given again it goes on. Without --to it copies to all stores that the setting tiers "
        "names.\n\n"
        "  --to ADDRESS   the store to copy to, which is made if it is missing\n"
        "  --dry-run      say how much is not there; reads all of the checkpoints\n\n"
        "example: varve flush /dev/shm/ck heat2d --to /lustre/me/ck\n",
    .options = OPTION_DRY_RUN | OPTION_TO,
    .most_args = 1,
    .run = run_flush,
};
