/* varve unlock: who holds a name, since when, and is it alive? Frees what is dead, and refuses what is not. */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "terminal/cli.h"
#include "terminal/json.h"
#include "terminal/progress.h"
#include "terminal/text.h"

static const char *const words[] = {"nobody", "dead", "unknown", "alive"};

static void unlock_json(const struct cli *cli, const struct varve_holder *holder) {
    json_begin("holder");
    json_text("name", cli->args[0]);
    json_text("state", words[holder->holding]);
    json_text("evidence", holder->evidence);
    json_u64("generation", holder->generation);
    json_text("host", holder->host);
    json_u64("pid", holder->pid);
    json_text("program", holder->program);
    json_u64("ranks", holder->ranks);
    json_time("claimed", holder->claimed_ns);
    json_time("heartbeat", holder->beat_ns);
    json_u64("beat_seconds", holder->beat_seconds);
    json_u64("dead_seconds", holder->dead_seconds);
    json_end();
}

/* Since when, by the holder's clock against ours: for people, and nothing is decided by it. */
static void put_age(const char *what, uint64_t ns) {
    struct timespec now;
    char text[TIME_CAPACITY];

    clock_gettime(CLOCK_REALTIME, &now);
    text_time_local(text, ns);
    int64_t seconds = (int64_t)now.tv_sec - (int64_t)(ns / 1000000000);
    printf("%s%s, %" PRId64 " s ago\n", what, text, seconds > 0 ? seconds : 0);
}

static void tell_holder(const struct cli *cli, const struct varve_holder *holder) {
    if (cli->is_json) {
        unlock_json(cli, holder);
        return;
    }
    printf("name       ");
    text_put(cli->args[0]);
    if (holder->claimed_ns) {
        printf("\nprocess    %" PRIu32 " (", holder->pid);
        text_put(holder->program);
        printf(") on host ");
        text_put(holder->host);
        printf("\nranks      %" PRIu32 "\n", holder->ranks);
        put_age("claimed    ", holder->claimed_ns);
    } else {
        printf("\nprocess    not known\n");
    }
    if (holder->beat_ns)
        put_age("heartbeat  ", holder->beat_ns);
    printf("held by    %s%s%s\n", holder->holding == VARVE_HELD_BY_NOBODY ? "" : "a process that is ",
           words[holder->holding], holder->holding == VARVE_HELD_BY_UNKNOWN ? " to be alive or dead" : "");
    if (holder->evidence[0])
        printf("evidence   %s\n", holder->evidence);
    fflush(stdout);
}

static void unlock_summary(const struct cli *cli, int is_freed, int is_dry_run, const struct varve_holder *holder) {
    if (cli->is_json) {
        json_begin("summary");
        json_bool("is_dry_run", is_dry_run);
        json_bool("is_freed", is_freed);
        json_text("state", words[holder->holding]);
        json_end();
    } else if (holder->holding == VARVE_HELD_BY_NOBODY) {
        cli_note("%s is free; nothing was changed", cli->args[0]);
    } else if (is_dry_run) {
        cli_note("nothing was changed");
    } else {
        cli_note("%s is free: %s", cli->args[0], holder->evidence);
    }
}

static int unlock(struct cli *cli, struct varve_holder *holder, struct varve_error *error) {
    int is_dead = has_option(cli, OPTION_DEAD);

    if (holder->holding == VARVE_HELD_BY_UNKNOWN && !cli->is_json) {
        uint64_t some = 2 * (uint64_t)holder->beat_seconds + 1;
        cli_note("watching its heartbeat, for %" PRIu64 " s%s",
                 is_dead && some < holder->dead_seconds ? some : holder->dead_seconds,
                 is_dead ? ": you say that it is dead" : "; --dead, if you know that it is dead, makes it shorter");
    }
    progress_begin("watching", cli->is_json);
    int rc = varve_store_unlock(cli->store, cli->args[0], is_dead, progress_callback, NULL, holder, error);
    progress_end();
    return rc;
}

static int run_unlock(struct cli *cli) {
    struct varve_holder holder = {.size = sizeof holder};
    struct varve_error error = {.text = ""};
    int is_dry_run = has_option(cli, OPTION_DRY_RUN);

    int rc = varve_store_holder(cli->store, cli->args[0], &holder, &error);
    if (rc < 0)
        return cli_fail(cli, rc, &error);
    tell_holder(cli, &holder);
    int was_held = holder.holding != VARVE_HELD_BY_NOBODY;
    if (was_held && !is_dry_run)
        rc = unlock(cli, &holder, &error);
    if (rc < 0)
        return cli_fail(cli, rc, &error);
    unlock_summary(cli, was_held && !is_dry_run, is_dry_run, &holder);
    return EXIT_OK;
}

const struct command command_unlock = {
    .name = "unlock",
    .summary = "tell who holds a name, and free it if that is dead",
    .usage = "unlock STORE NAME [--dead] [-n]",
    .help = "Tell which process holds NAME and since when, and free the name if the process is dead, so that the next\n"
            "start need not wait. Refused, with exit code 11, while it is alive. If that cannot be seen from here,\n"
            "its heartbeat is watched: dead is what does not renew it for dead_seconds (60). Nothing of the other\n"
            "process is changed: if it is alive after all, its next checkpoint fails with VARVE_FENCED, and no data\n"
            "is lost.\n\n"
            "  --dead          I know that it is dead: watch for two periods of its heartbeat only\n"
            "  -n, --dry-run   only tell who holds it\n\n"
            "example: varve unlock /scratch/ck heat2d\n",
    .options = OPTION_DEAD | OPTION_DRY_RUN,
    .least_args = 1,
    .most_args = 1,
    .run = run_unlock,
};
