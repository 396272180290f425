/* varve interval: how often checkpoints should be made. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "terminal/cli.h"
#include "terminal/json.h"

static int take_cost(void *arg, const char *name, const char *value) {
    if (!strcmp(name, "varve.cost")) /* programs with interval=auto, or an end, store it */
        *(double *)arg = strtod(value, NULL);
    return 0;
}

static int read_cost(struct cli *cli) {
    struct varve_error error = {.text = ""};
    struct varve_which which;
    int rc = cli_which(cli, cli->args[1], &which);
    if (rc)
        return rc;
    cli->cost = -1;
    rc = varve_store_open(cli->args[0], NULL, &cli->store, &error);
    if (rc == 0)
        rc = varve_store_resolve(cli->store, &which, &error);
    if (rc == 0)
        rc = varve_store_attributes(cli->store, &which, take_cost, &cli->cost, &error);
    if (rc == 0 && !(cli->cost >= 0 && isfinite(cli->cost)))
        return cli_usage(cli, "%s does not tell what its checkpoints cost: programs with interval=auto or end_time do",
                         which.name);
    return rc < 0 ? cli_fail(cli, rc, &error) : 0;
}

/* If failures have no memory, work and its checkpoint take mtbf (exp((best + cost) / mtbf) - 1), with what is lost. */
static int run_interval(struct cli *cli) {
    if (!has_option(cli, OPTION_MTBF) || cli->mtbf <= 0)
        return cli_usage(cli, "how often does the job fail? Give --mtbf SECONDS, above 0");
    if (cli->arg_count == 1 || (cli->arg_count == 0) != has_option(cli, OPTION_COST))
        return cli_usage(cli, "give either STORE NAME or --cost SECONDS");
    int rc = cli->arg_count ? read_cost(cli) : 0;
    if (rc)
        return rc;
    double best = varve_best_interval(cli->cost, cli->mtbf), young = sqrt(2 * cli->cost * cli->mtbf);
    double took = cli->mtbf * expm1((best + cli->cost) / cli->mtbf), lost = took > 0 ? 1 - best / took : 0;
    if (!cli->is_json) {
        printf("A checkpoint costs %.3g s of the program's time, and the job fails every %.6g s on average.\n"
               "Begin one %.4g s after the end of the last (Daly; Young says %.4g s): interval_seconds=%.4g.\n"
               "The job then spends %.1f %% of its time on checkpoints and on work that it has to do again.\n",
               cli->cost, cli->mtbf, best, young, best, 100 * lost);
        return EXIT_OK;
    }
    json_begin("interval");
    json_number("cost_seconds", cli->cost);
    json_number("mtbf_seconds", cli->mtbf);
    json_number("young_seconds", young);
    json_number("interval_seconds", best);
    json_number("lost_share", lost);
    json_end();
    return EXIT_OK;
}

const struct command command_interval = {
    .name = "interval",
    .summary = "tell how often checkpoints should be made",
    .usage = "interval (STORE NAME[@VERSION] | --cost SECONDS) --mtbf SECONDS",
    .help = "Tell the interval between checkpoints with which a job loses least time (Young 1974, Daly 2006).\n\n"
            "  --mtbf SECONDS   mean time between failures of the whole job\n"
            "  --cost SECONDS   what one checkpoint takes of the program's time; else what a run with interval=auto\n"
            "                   has stored with this checkpoint\n\n"
            "example: varve interval --cost 30 --mtbf 86400\n",
    .options = OPTION_MTBF | OPTION_COST,
    .is_storeless = 1,
    .most_args = 2,
    .run = run_interval,
};
