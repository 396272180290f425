#include "analyze/report.h"

#include <errno.h>
#include <stdio.h>

#include "files/error.h"
#include "terminal/json.h"
#include "terminal/page.h"
#include "terminal/text.h"

static double share(uint64_t part, uint64_t whole) {
    return whole ? (double)part / (double)whole : 0;
}

/* ---- JSON ---- */

static void counts_json(const struct analyze_counts *counts) {
    json_u64("bytes", counts->bytes);
    json_u64("bytes_zero", counts->zero);
    json_u64("bytes_within", counts->within);
    json_u64("bytes_across", counts->across);
    json_u64("bytes_earlier", counts->earlier);
    json_u64("bytes_new", counts->fresh);
    json_u64("bytes_new_fine_zero", counts->fine_zero);
    json_u64("bytes_new_fine_known", counts->fine_known);
    json_u64("bytes_sampled", counts->sampled);
    json_u64("bytes_stored", counts->stored);
}

static void look_json(unsigned number, const struct analyze_look *look) {
    for (size_t i = 0; i < look->kind_count; i++) {
        json_begin("type");
        json_u64("look", number);
        json_text("type", look->kinds[i].name);
        counts_json(&look->kinds[i].counts);
        json_end();
    }
    json_begin("look");
    json_u64("look", number);
    json_text("what", look->label);
    json_u64("regions", look->regions);
    counts_json(&look->all);
    json_u64("bytes_metadata", look->all.metadata);
    json_u64("bytes_compared", look->compared);
    json_u64("bytes_changed", look->changed);
    json_u64("bytes_changed_fine", look->fine_changed);
    json_u64("bytes_plain", look->plain);
    json_u64("bytes_plain_known", look->plain_known);
    json_u64("bytes_plain_known_cdc", look->cut_known);
    json_number("share_named", look->share_named);
    json_number("share_named_fine", look->share_fine);
    json_number("seconds", look->seconds);
    json_number("seconds_read", look->seconds_read);
    json_end();
}

static void advice_json(const struct analyze_advice *advice, unsigned looks) {
    json_begin("summary");
    json_u64("looks", looks);
    json_u64("bytes", advice->bytes);
    json_u64("bytes_stored", advice->stored);
    json_number("ratio", advice->stored ? (double)advice->bytes / (double)advice->stored : 0);
    if (advice->changed >= 0)
        json_number("changed", advice->changed);
    json_u64("bytes_copied", advice->copied);
    json_number("seconds_blocked", advice->seconds_blocked);
    json_text("settings", advice->settings);
    json_text("why", advice->why);
    json_end();
}

/* ---- for people ---- */

static void add_row(struct table *table, const char *look, const char *type, const struct analyze_counts *counts) {
    table_text(table, look);
    table_text(table, type);
    table_size(table, counts->bytes);
    table_size(table, counts->zero);
    table_size(table, counts->within);
    table_size(table, counts->across);
    table_size(table, counts->earlier);
    table_size(table, counts->fresh);
    table_size(table, counts->fine_zero + counts->fine_known);
    table_size(table, counts->stored + counts->metadata);
}

static void tell_look(unsigned number, const struct analyze_look *look) {
    printf("%u: ", number);
    text_put(look->label);
    if (number > 0 && look->compared)
        printf(": %.3g %% of the pages changed, %.3g %% in chunks of %u bytes",
               100 * share(look->changed, look->compared), 100 * share(look->fine_changed, look->compared),
               ANALYZE_FINE);
    putchar('\n');
    if (look->plain && look->cut_known > look->plain_known)
        printf("   plain files: pages find %.3g %% known or zero, chunks by content %.3g %%\n",
               100 * share(look->plain_known, look->plain), 100 * share(look->cut_known, look->plain));
    if (look->all.sampled < look->all.fresh)
        printf("   encoded was a sample: %.3g %% of the new bytes\n", 100 * share(look->all.sampled, look->all.fresh));
    if (look->share_named < 1)
        printf("   there are more pages than names are kept of: equal ones are counted by a sample of 1 in %.0f\n",
               1 / look->share_named);
}

static int tell_table(const struct analyze *analyze) {
    static const char *const titles[] = {"<LOOK",  "<TYPE",   "BYTES", "ZERO", "WITHIN",
                                         "ACROSS", "EARLIER", "NEW",   "FINE", "STORED"};
    struct table *table = table_create(titles, 10);
    int rc = table ? 0 : -ENOMEM;

    for (unsigned i = 0; i < analyze_count(analyze) && rc == 0; i++) {
        const struct analyze_look *look = analyze_result(analyze, i);
        char number[12];
        snprintf(number, sizeof number, "%u", i);
        for (size_t j = 0; j < look->kind_count; j++)
            add_row(table, number, look->kinds[j].name, &look->kinds[j].counts);
        add_row(table, number, "all", &look->all);
    }
    rc = rc ? rc : table_print(table) < 0 ? -ENOMEM : 0;
    table_destroy(table);
    return rc;
}

static void tell_advice(const struct analyze_advice *advice) {
    char stored[SIZE_CAPACITY], bytes[SIZE_CAPACITY];

    text_size(stored, advice->stored);
    text_size(bytes, advice->bytes);
    printf("\nwith Varve this would be %s of %s, blocked about %.2g s\n", stored, bytes, advice->seconds_blocked);
    printf("settings: %s\n", advice->settings[0] ? advice->settings : "the defaults");
    if (advice->why[0])
        printf("%s\n", advice->why);
}

static int tell_text(const struct analyze *analyze, const struct analyze_advice *advice) {
    for (unsigned i = 0; i < analyze_count(analyze); i++)
        tell_look(i, analyze_result(analyze, i));
    putchar('\n');
    int rc = tell_table(analyze);
    if (rc == 0)
        tell_advice(advice);
    return rc;
}

/* Nothing that is there is overwritten. */
static int write_page(const struct cli *cli, const struct analyze *analyze, const struct analyze_advice *advice,
                      struct varve_error *error) {
    FILE *file = page_create(cli->output);

    if (!file && errno == EEXIST)
        return files_error(error, -EEXIST, "%s is there already; choose another file", cli->output);
    if (!file)
        return files_system_error(error, "make", cli->output);
    analyze_page(file, analyze, advice);
    int has_failed = ferror(file);
    if (fclose(file) != 0 || has_failed)
        return files_system_error(error, "write", cli->output);
    return 0;
}

int report_analyzed(struct cli *cli, const struct analyze *analyze, struct varve_error *error) {
    struct analyze_advice advice;
    int rc = 0;

    analyze_advise(analyze, &advice);
    if (has_option(cli, OPTION_OUTPUT))
        rc = write_page(cli, analyze, &advice, error);
    if (rc == 0 && cli->is_json) {
        for (unsigned i = 0; i < analyze_count(analyze); i++)
            look_json(i, analyze_result(analyze, i));
        advice_json(&advice, analyze_count(analyze));
    } else if (rc == 0) {
        rc = tell_text(analyze, &advice);
    }
    return rc;
}
