/* varve report and varve top. */
#include <errno.h>
#include <stdio.h>

#include "files/error.h"
#include "report/report.h"
#include "report/top.h"
#include "terminal/page.h"

static int write_page(const struct cli *cli, const struct report *report, struct varve_error *error) {
    FILE *file = page_create(cli->output);

    if (!file && errno == EEXIST)
        return files_error(error, -EEXIST, "%s is there already; choose another file", cli->output);
    if (!file)
        return files_system_error(error, "make", cli->output);
    report_page(file, report, cli->address);
    int has_failed = ferror(file);
    if (fclose(file) != 0 || has_failed)
        return files_system_error(error, "write", cli->output);
    return 0;
}

static int run_report(struct cli *cli) {
    static struct report report; /* too large for a stack */
    struct varve_error error = {.text = ""};

    int rc = report_load(&report, cli->store, cli->args[0], REPORT_LIVES, &error);
    if (rc == 0 && has_option(cli, OPTION_OUTPUT))
        rc = write_page(cli, &report, &error);
    if (rc == 0 && cli->is_json)
        report_json(&report);
    else if (rc == 0 && !has_option(cli, OPTION_OUTPUT))
        report_text(&report);
    report_clear(&report);
    return rc < 0 ? cli_fail(cli, rc, &error) : EXIT_OK;
}

static int run_top(struct cli *cli) {
    return report_top(cli, cli->args[0]);
}

const struct command command_report = {
    .name = "report",
    .summary = "tell what the checkpoints of a name have cost, and what happened",
    .usage = "report STORE NAME [-o PAGE]",
    .help = "Tell what the sessions of a name have logged: how much was protected, changed and stored, how long the "
            "program was\n"
            "blocked and a checkpoint took until it was durable, where the time went, how even the ranks were, codecs, "
            "space,\n"
            "restarts and failures. As text with small curves, or as a page of HTML that needs no network. A running "
            "session\n"
            "writes its log with its heartbeat, and at its end.\n\n"
            "  -o, --output PAGE    write a page of HTML; it must not be there yet\n\n"
            "example: varve report /scratch/ck heat2d -o report.html\n",
    .options = OPTION_OUTPUT,
    .least_args = 1,
    .most_args = 1,
    .run = run_report,
};

const struct command command_top = {
    .name = "top",
    .summary = "follow a running job",
    .usage = "top STORE NAME",
    .help = "Show each second whether a session has the name open, its newest checkpoint, and what its log tells. q or "
            "an interrupt\n"
            "ends it. With --json: one line for each change, until no session has the name open. Without a terminal it "
            "looks once.\n\n"
            "example: varve top /scratch/ck heat2d\n",
    .least_args = 1,
    .most_args = 1,
    .run = run_top,
};
