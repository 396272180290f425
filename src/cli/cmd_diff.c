/* varve diff: what changed from one checkpoint to another. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "terminal/cli.h"
#include "terminal/json.h"
#include "terminal/progress.h"
#include "terminal/text.h"

#define WORDS_CAPACITY 256

enum what { SAME, CHANGED, REMOVED, ADDED, RESIZED, WITHIN };

struct comparison {
    struct cli *cli;
    struct table *table;
    int is_quick;
    uint64_t bytes_changed;
};

static const char *what_name(int what) {
    static const char *const names[] = {"same", "changed", "removed", "added", "resized", "within"};
    return what >= 0 && what <= WITHIN ? names[what] : "unknown";
}

/* ---- one region ---- */

/* Whether there is a first element to tell of. */
static int has_element(const struct varve_difference *difference) {
    return difference->elements_changed != 0;
}

static void diff_json(const struct comparison *comparison, const struct varve_difference *difference) {
    json_begin("difference");
    if (difference->is_array)
        json_bool("is_array", 1);
    else
        json_u64("rank", difference->rank);
    json_text("region", difference->region);
    json_text("what", what_name(difference->what));
    json_u64("bytes_first", difference->bytes_first);
    json_u64("bytes_second", difference->bytes_second);
    json_u64("bytes_changed", difference->bytes_changed);
    if (!comparison->is_quick && difference->what != REMOVED && difference->what != ADDED) {
        json_text("type", difference->type);
        json_u64("elements", difference->elements);
        json_u64("elements_changed", difference->elements_changed);
        json_u64("elements_differing", difference->elements_differing);
        json_u64("elements_nan", difference->elements_nan);
    }
    if (has_element(difference)) {
        json_u64("first_element", difference->first_element);
        json_u64("first_offset", difference->first_offset);
        json_text("value_first", difference->value_first);
        json_text("value_second", difference->value_second);
        json_value("largest", difference->largest);
        json_value("largest_relative", difference->largest_relative);
        json_u64("largest_element", difference->largest_element);
    }
    json_end();
}

static void put_number(struct table *table, double value) {
    char words[WORDS_CAPACITY] = "";
    if (!isnan(value))
        snprintf(words, sizeof words, "%.6g", value);
    table_text(table, words);
}

static void put_elements(struct table *table, const struct varve_difference *difference) {
    char words[WORDS_CAPACITY];

    table_text(table, difference->type);
    if (!has_element(difference)) {
        for (int i = 0; i < 5; i++)
            table_text(table, "");
        return;
    }
    table_number(table, difference->elements_differing);
    table_number(table, difference->first_element);
    snprintf(words, sizeof words, "%s -> %s", difference->value_first, difference->value_second);
    table_text(table, words);
    put_number(table, difference->largest);
    put_number(table, difference->largest_relative);
}

static void tell_row(const struct comparison *comparison, const struct varve_difference *difference) {
    struct table *table = comparison->table;

    if (difference->is_array)
        table_text(table, "all");
    else
        table_number(table, difference->rank);
    table_text(table, difference->region);
    table_text(table, what_name(difference->what));
    table_size(table, difference->bytes_first);
    table_size(table, difference->bytes_second);
    table_size(table, difference->bytes_changed);
    put_elements(table, difference);
}

static int on_difference(void *arg, const struct varve_difference *difference) {
    struct comparison *comparison = arg;

    comparison->bytes_changed += difference->bytes_changed;
    if (comparison->cli->is_json)
        diff_json(comparison, difference);
    else if (difference->what != SAME)
        tell_row(comparison, difference);
    return 0;
}

/* ---- all ---- */

static void json_summary(const struct comparison *comparison, const struct varve_compare_result *result) {
    json_begin("summary");
    json_u64("regions", result->regions);
    json_u64("differing", result->regions_differing);
    json_u64("within", result->regions_within);
    json_u64("ranks_left_out", result->ranks_left_out);
    json_u64("bytes_changed", comparison->bytes_changed);
    json_u64("bytes_digest", result->bytes_digest);
    json_u64("bytes_place", result->bytes_place);
    json_u64("bytes_zero", result->bytes_zero);
    json_u64("bytes_id", result->bytes_id);
    json_u64("bytes_compared", result->bytes_compared);
    json_u64("bytes_read", result->bytes_read);
    json_number("seconds", progress_seconds());
    json_end();
}

static void text_summary(const struct comparison *comparison, const struct varve_compare_result *result) {
    uint64_t all =
        result->bytes_digest + result->bytes_place + result->bytes_zero + result->bytes_id + result->bytes_compared;
    char size[SIZE_CAPACITY];
    char total[SIZE_CAPACITY];

    text_size(size, comparison->bytes_changed);
    if (result->regions_differing) {
        printf("\n%" PRIu64 " of %" PRIu64 " region%s differ%s, in %s%s", result->regions_differing, result->regions,
               plural(result->regions), result->regions == 1 ? "s" : "", comparison->is_quick ? "at most " : "", size);
    } else {
        printf("%sno difference in %" PRIu64 " region%s", result->regions_within ? "\n" : "", result->regions,
               plural(result->regions));
    }
    if (result->regions_within)
        printf("; %" PRIu64 " changed within the tolerance", result->regions_within);
    putchar('\n');
    if (!comparison->is_quick) {
        text_size(size, result->bytes_compared);
        text_size(total, all);
        printf("%s of %s were compared, the rest is known to be the same; ", size, total);
        text_size(size, result->bytes_read);
        printf("%s read\n", size);
    }
}

static int compare_checkpoints(struct comparison *comparison, const struct varve_which *which,
                               struct varve_store *second, struct varve_compare_result *result,
                               struct varve_error *error) {
    static const char *const titles[] = {"RANK",  "<REGION",   "<WHAT", "FIRST",  "SECOND",  "CHANGED",
                                         "<TYPE", "DIFFERING", "AT",    "<VALUE", "LARGEST", "RELATIVE"};
    struct cli *cli = comparison->cli;
    struct varve_compare_options options = {
        .size = sizeof options,
        .second = second,
        .is_quick = comparison->is_quick,
        .is_by_value = has_option(cli, OPTION_TOLERANCE | OPTION_RELATIVE),
        .tolerance = cli->tolerance,
        .relative = cli->relative,
        .difference = on_difference,
        .progress = progress_callback,
        .arg = comparison,
    };

    comparison->table = table_create(titles, 12);
    progress_begin("comparing", cli->is_json);
    int rc =
        comparison->table ? varve_store_compare(cli->store, &which[0], &which[1], &options, result, error) : -ENOMEM;
    progress_end();
    if (rc >= 0 && table_print(comparison->table) < 0)
        rc = -ENOMEM;
    table_destroy(comparison->table);
    return rc;
}

static int run_with(struct cli *cli, const struct varve_which *which, struct varve_store *second) {
    struct comparison comparison = {.cli = cli, .is_quick = has_option(cli, OPTION_QUICK)};
    struct varve_compare_result result = {.size = sizeof result};
    struct varve_error error = {.text = ""};

    int rc = compare_checkpoints(&comparison, which, second, &result, &error);
    if (rc < 0)
        return cli_fail(cli, rc, &error);
    if (cli->is_json)
        json_summary(&comparison, &result);
    else
        text_summary(&comparison, &result);
    if (result.regions_differing)
        return EXIT_DIFFERENT;
    return result.ranks_left_out ? EXIT_PARTIAL : EXIT_OK;
}

/* NAME@VERSION [STORE] NAME@VERSION */
static int run_diff(struct cli *cli) {
    struct varve_error error = {.text = ""};
    struct varve_which which[2];
    struct varve_store *second = NULL;
    int is_two_stores = cli->arg_count == 3;

    if (has_option(cli, OPTION_QUICK) && has_option(cli, OPTION_TOLERANCE | OPTION_RELATIVE))
        return cli_usage(cli, "--quick reads no data, so it cannot tell how far values are apart");
    int rc = cli_which(cli, cli->args[0], &which[0]);
    rc = rc ? rc : cli_which(cli, cli->args[1 + is_two_stores], &which[1]);
    if (rc)
        return rc;
    if (is_two_stores) {
        rc = varve_store_open(cli->args[1], NULL, &second, &error);
        if (rc < 0)
            return cli_fail(cli, rc, &error);
    }
    rc = run_with(cli, which, second);
    varve_store_close(second);
    return rc;
}

const struct command command_diff = {
    .name = "diff",
    .summary = "tell which regions changed between two checkpoints, and by how much",
    .usage = "diff STORE NAME[@VERSION] [STORE] NAME[@VERSION] [--tolerance T] [--relative R] [--quick]",
    .help = "Compare two checkpoints region by region: of one name, of two, or in two stores. Only what digests,\n"
            "places and ids leave open is read. For each region that differs: how many elements do (DIFFERING), the\n"
            "number of the first that does (AT) and its values, the greatest distance of two values, and that\n"
            "relative to the greater magnitude. If the two are of other numbers of ranks, arrays are compared as a\n"
            "whole: their elements are counted through in the order of C. NAME@VERSION:GENERATION picks one of\n"
            "several of the same version.\n\n"
            "Exit code: 0 the same, or within the tolerance; 1 different; 3 the same, but some ranks are not on this\n"
            "node; any other, trouble.\n\n"
            "  --tolerance T   floating-point values at a distance of T or less are the same\n"
            "  --relative R    so are those at a distance of R times the greater magnitude or less\n"
            "  -q, --quick     read no data: CHANGED is then an upper bound, in pieces of 4 KiB\n"
            "  --json          one \"difference\" line per region, also for those that are the same\n\n"
            "Without a tolerance every bit counts: 0 and -0 differ, and so do NaNs of different bits. With one, 0 and\n"
            "-0 are the same, and all NaNs are. NaN and a number always differ, and so do an infinity and anything\n"
            "else.\n\n"
            "example: varve diff /scratch/ck heat2d@400 heat2d@500\n"
            "         varve diff /scratch/run1 heat2d@500 /scratch/run2 heat2d@500 --relative 1e-12\n",
    .options = OPTION_QUICK | OPTION_TOLERANCE | OPTION_RELATIVE,
    .least_args = 2,
    .most_args = 3,
    .exit_failed = EXIT_TROUBLE,
    .run = run_diff,
};
