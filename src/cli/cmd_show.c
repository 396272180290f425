/* varve show: one checkpoint and its regions; or one region and its blocks. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "show_arrays.h"
#include "terminal/cli.h"
#include "terminal/json.h"
#include "terminal/text.h"

#define RANGES_MOST 10000 /* regions in a checkpoint whose ranges are told unasked: some have to be read for it */
#define WORDS_CAPACITY 1100

struct showing {
    struct cli *cli;
    const struct varve_which *which;
    struct table *table;
    const char *region; /* NULL: all */
    int has_ranges;
    uint64_t left_out; /* ranges that were not asked for */
};

/* ---- arrays and values, in words ---- */

/* Dimensions one by one. */
struct dims {
    uint64_t local[VARVE_DIMS_MAX], first[VARVE_DIMS_MAX], global[VARVE_DIMS_MAX];
    unsigned count;
    int is_part; /* of a larger array */
};

static void split_dims(const struct varve_array *array, struct dims *out) {
    *out = (struct dims){.count = array->dims < VARVE_DIMS_MAX ? array->dims : VARVE_DIMS_MAX};
    for (unsigned i = 0; i < out->count; i++) {
        out->local[i] = array->dim[i].local;
        out->first[i] = array->dim[i].first;
        out->global[i] = array->dim[i].global;
        out->is_part |= out->first[i] != 0 || out->local[i] != out->global[i];
    }
}

/* Three times 16 dimensions of 20 digits just fit. */
static size_t put_dims(char *out, size_t used, const char *before, const uint64_t *values, unsigned count,
                       const char *between) {
    for (unsigned i = 0; i < count; i++)
        used += (size_t)snprintf(out + used, WORDS_CAPACITY - used, "%s%" PRIu64, i ? between : before, values[i]);
    return used;
}

/* "512x512", "512x512 of 4096x4096 at 512,0". */
static void text_shape(char out[WORDS_CAPACITY], const struct varve_array *array) {
    struct dims dims;

    split_dims(array, &dims);
    out[0] = '\0';
    size_t used = put_dims(out, 0, "", dims.local, dims.count, "x");
    if (dims.is_part) {
        used = put_dims(out, used, " of ", dims.global, dims.count, "x");
        used = put_dims(out, used, " at ", dims.first, dims.count, ",");
    }
    for (unsigned i = 0; i < dims.count && used < WORDS_CAPACITY; i++)
        if (array->stride[i].every)
            used += (size_t)snprintf(out + used, WORDS_CAPACITY - used, ", dim %u: %" PRIu64 " every %" PRIu64, i,
                                     array->stride[i].block, array->stride[i].every);
}

/* "f64", "f64 ±1e-06". */
static void text_type(char out[WORDS_CAPACITY], const struct varve_stored_region *region) {
    size_t used = (size_t)snprintf(out, WORDS_CAPACITY, "%s", region->type);
    if (region->array->lossy)
        snprintf(out + used, WORDS_CAPACITY - used, " \u00b1%g", region->array->bound);
}

static int is_whole_number(int type) {
    return type >= VARVE_I8 && type <= VARVE_U64;
}

static void text_value(char *out, size_t capacity, int type, double value) {
    snprintf(out, capacity, is_whole_number(type) ? "%.0f" : "%.6g", value);
}

/* "-1.2 .. 3.4", "within -1 .. 2", "-1.2 .. 3.4 NaN!", "400" if all are the same; "?" if it is not known, nothing for
 * what has no values. */
static void text_range(char out[WORDS_CAPACITY], const struct varve_range *range,
                       const struct varve_stored_region *region) {
    int type = region->array->type;
    char low[400], high[400];
    const char *nan = !range->has_nan ? "" : range->is_exact ? " NaN!" : " NaN?";

    if (!range->is_known) {
        snprintf(out, WORDS_CAPACITY, "%s", type == VARVE_BYTES || region->bytes == 0 ? "" : "?");
    } else if (isnan(range->low)) {
        snprintf(out, WORDS_CAPACITY, "NaN!");
    } else if (range->is_exact && range->low == range->high) {
        text_value(low, sizeof low, type, range->low);
        snprintf(out, WORDS_CAPACITY, "%s%s", low, nan);
    } else {
        text_value(low, sizeof low, type, range->low);
        text_value(high, sizeof high, type, range->high);
        snprintf(out, WORDS_CAPACITY, "%s%s .. %s%s", range->is_exact ? "" : "within ", low, high, nan);
    }
}

static void json_range(const struct varve_range *range) {
    if (range->is_known) {
        json_value("low", range->low);
        json_value("high", range->high);
        json_bool("has_nan", range->has_nan);
        json_bool("is_exact", range->is_exact);
    }
}

static void json_dims(const struct varve_array *array) {
    struct dims dims;

    split_dims(array, &dims);
    json_array("local", dims.local, dims.count);
    json_array("first", dims.first, dims.count);
    json_array("global", dims.global, dims.count);
    uint64_t block[VARVE_DIMS_MAX], every[VARVE_DIMS_MAX];
    for (unsigned i = 0; i < dims.count; i++) {
        block[i] = array->stride[i].block;
        every[i] = array->stride[i].every;
    }
    json_array("block", block, dims.count);
    json_array("every", every, dims.count);
}

/* ---- regions ---- */

/* What cannot be read is not known; `varve verify` is there to tell why. */
static void look_at_values(struct showing *showing, const struct varve_stored_region *region, struct varve_range *out) {
    struct varve_error ignored;

    *out = (struct varve_range){0};
    if (region->array->type == VARVE_BYTES)
        return;
    if (!showing->has_ranges) {
        showing->left_out++;
        return;
    }
    if (varve_store_range(showing->cli->store, showing->which, region->rank, region->name, out, &ignored) < 0)
        *out = (struct varve_range){0};
}

static const char *distribution_of(const struct varve_stored_region *region) {
    static const char *const names[] = {"", "joined", "replicated", "by rank", "dropped"};
    return region->distribution >= 0 && region->distribution <= VARVE_DROPPED ? names[region->distribution] : "?";
}

static void region_json(const struct varve_stored_region *region, const struct varve_range *range) {
    json_begin("region");
    json_u64("rank", region->rank);
    json_text("region", region->name);
    json_text("type", region->type);
    json_dims(region->array);
    json_text("distribution", distribution_of(region));
    if (region->array->lossy) {
        json_text("lossy", region->array->lossy);
        json_value("bound", region->array->bound);
    }
    json_u64("bytes", region->bytes);
    json_u64("bytes_zero", region->bytes_zero);
    json_u64("bytes_blocks", region->bytes_blocks);
    json_text("codec", region->codec);
    json_range(range);
    json_u64("runs", region->runs);
    json_text("digest", region->digest);
    json_end();
}

static void region_row(struct showing *showing, const struct varve_stored_region *region,
                       const struct varve_range *range) {
    struct table *table = showing->table;
    char words[WORDS_CAPACITY];

    table_number(table, region->rank);
    table_text(table, region->name);
    text_type(words, region);
    table_text(table, words);
    text_shape(words, region->array);
    table_text(table, words);
    table_size(table, region->bytes);
    table_size(table, region->bytes_blocks);
    table_text(table, region->codec);
    text_range(words, range, region);
    table_text(table, showing->has_ranges ? words : "");
    text_size(words, region->bytes_zero);
    table_text(table, region->bytes_zero ? words : "");
    if (has_option(showing->cli, OPTION_LONG)) {
        table_number(table, region->runs);
        table_text(table, region->digest);
    }
}

static int on_region(void *arg, const struct varve_stored_region *region) {
    struct showing *showing = arg;
    struct varve_range range;

    if (showing->region && (region->rank != showing->cli->rank || strcmp(region->name, showing->region) != 0))
        return 0;
    look_at_values(showing, region, &range);
    if (showing->cli->is_json)
        region_json(region, &range);
    else
        region_row(showing, region, &range);
    return showing->region != NULL; /* there is only one of this name */
}

/* ---- blocks of one region ---- */

static int on_block(void *arg, const struct varve_block_range *block) {
    const struct showing *showing = arg;
    const struct varve_range *range = &block->range;
    char words[2][WORDS_CAPACITY] = {"", ""};

    if (showing->cli->is_json) {
        json_begin("block");
        json_u64("offset", block->offset);
        json_u64("bytes", block->size);
        json_text("codec", block->codec);
        json_range(range);
        json_end();
        return 0;
    }
    table_number(showing->table, block->offset);
    table_size(showing->table, block->size);
    table_text(showing->table, block->codec);
    if (range->is_known) {
        snprintf(words[0], WORDS_CAPACITY, "%.10g", range->low);
        snprintf(words[1], WORDS_CAPACITY, "%.10g", range->high);
    }
    table_text(showing->table, words[0]);
    table_text(showing->table, words[1]);
    table_alarm(showing->table, range->is_known && range->has_nan ? "NaN!" : "");
    table_text(showing->table, range->is_known && !range->is_exact ? "part of a block: values are within" : "");
    return 0;
}

static int show_blocks(struct showing *showing, struct varve_error *error) {
    static const char *const titles[] = {"OFFSET", "SIZE", "<CODEC", "MIN", "MAX", "<NAN", "<NOTE"};
    struct showing blocks = {.cli = showing->cli, .table = table_create(titles, 7)};

    if (!blocks.table)
        return -ENOMEM;
    int rc = varve_store_ranges(showing->cli->store, showing->which, (uint32_t)showing->cli->rank, showing->region,
                                on_block, &blocks, error);
    if (rc == 0 && !showing->cli->is_json) {
        putchar('\n');
        rc = table_print(blocks.table) < 0 ? -ENOMEM : 0;
    }
    table_destroy(blocks.table);
    return rc;
}

/* ---- the checkpoint ---- */

static void pin_json(const struct varve_pin *pin) {
    json_bool("is_pinned", pin != NULL);
    if (!pin)
        return;
    json_time("pin_time", pin->time_ns);
    json_text("pin_host", pin->host);
    json_text("pin_reason", pin->reason);
}

static void show_json(const struct varve_checkpoint_detail *detail, const struct varve_pin *pin) {
    const struct varve_checkpoint_info *info = &detail->info;

    json_begin("checkpoint");
    json_checkpoint(info->name, info->version, info->generation);
    json_time("time", info->time_ns);
    json_text("program", detail->program);
    json_u64("ranks", info->ranks);
    json_u64("writers", detail->writers);
    json_u64("attempt", detail->attempt);
    json_u64("regions", info->regions);
    json_u64("bytes_protected", info->bytes_protected);
    json_u64("bytes_stored", info->bytes_stored);
    json_u64("bytes_metadata", info->bytes_metadata);
    json_u64("leans", detail->dependencies);
    if (detail->parent_generation) {
        json_i64("parent_version", detail->parent_version);
        json_u64("parent_generation", detail->parent_generation);
    }
    pin_json(pin);
    json_end();
}

static void put_size(const char *what, uint64_t bytes) {
    char size[SIZE_CAPACITY];
    text_size(size, bytes);
    printf("%-11s %s (%" PRIu64 " bytes)\n", what, size, bytes);
}

static void tell_pin(const struct varve_pin *pin) {
    char time[TIME_CAPACITY];

    text_time_local(time, pin->time_ns);
    printf("pinned      %s%s", pin->time_ns ? time : "yes", pin->host[0] ? " on " : "");
    text_put(pin->host);
    fputs(pin->reason[0] ? ": " : "", stdout);
    text_put(pin->reason);
    putchar('\n');
}

static void tell_text(const struct varve_checkpoint_detail *detail, const struct varve_pin *pin) {
    const struct varve_checkpoint_info *info = &detail->info;
    char time[TIME_CAPACITY];

    text_time_local(time, info->time_ns);
    fputs("name        ", stdout);
    text_bold(info->name);
    printf("\nversion     %" PRId64 "\ngeneration  %" PRIu32 "\ntime        %s\nprogram     ", info->version,
           info->generation, time);
    text_put(detail->program);
    printf("\nranks       %" PRIu32 ", written by %" PRIu32 "\n", info->ranks, detail->writers);
    printf("regions     %" PRIu64 "\n", info->regions);
    put_size("protected", info->bytes_protected);
    put_size("stored", info->bytes_stored);
    put_size("metadata", info->bytes_metadata);
    if (detail->parent_generation) {
        printf("parent      version %" PRId64 " of generation %" PRIu32 "\n", detail->parent_version,
               detail->parent_generation);
    } else {
        printf("parent      none\n");
    }
    printf("depends on  %" PRIu32 " other checkpoint%s\n", detail->dependencies, plural(detail->dependencies));
    if (detail->attempt)
        printf("attempt     %" PRIu32 "\n", detail->attempt);
    if (pin)
        tell_pin(pin);
}

static int on_attribute(void *arg, const char *name, const char *value) {
    const struct showing *showing = arg;
    if (showing->cli->is_json) {
        json_attribute(showing->which->name, showing->which->version, showing->which->generation, name, value);
        return 0;
    }
    fputs("attribute   ", stdout);
    text_put(name);
    fputs(" = ", stdout);
    text_put(value);
    putchar('\n');
    return 0;
}

static int show_regions(struct showing *showing, struct varve_error *error) {
    int rc = varve_store_show(showing->cli->store, showing->which, NULL, on_region, showing, error);

    if (rc == 0 && !showing->cli->is_json) {
        putchar('\n');
        rc = table_print(showing->table) < 0 ? -ENOMEM : 0;
    }
    if (rc == 0 && showing->left_out) {
        cli_note("the ranges of %" PRIu64 " arrays are left out, since there are more than %d regions; --ranges tells "
                 "them",
                 showing->left_out, RANGES_MOST);
    }
    return rc;
}

/* The details first: they come before the regions in the output, too, and then the very same checkpoint is shown. */
static int show(struct showing *showing, struct varve_which *which, struct varve_error *error) {
    struct cli *cli = showing->cli;
    struct varve_checkpoint_detail detail;
    struct varve_pin pin = {.size = sizeof pin};

    int rc = varve_store_resolve(cli->store, which, error);
    int pinned = rc < 0 ? rc : varve_store_pinned(cli->store, which, &pin, error);
    rc = pinned < 0 ? pinned : varve_store_show(cli->store, which, &detail, NULL, NULL, error);
    if (rc < 0)
        return rc;
    if (cli->is_json)
        show_json(&detail, pinned ? &pin : NULL);
    else
        tell_text(&detail, pinned ? &pin : NULL);
    showing->which = which;
    if (varve_store_attributes(cli->store, which, on_attribute, showing, error) < 0) {
        cli_note("the attributes are left out: %s", error->text);
        error->text[0] = '\0';
    }
    showing->has_ranges = has_option(cli, OPTION_RANGES) || showing->region || detail.info.regions <= RANGES_MOST;
    if (detail.info.ranks > 1 && !showing->region && show_arrays(cli, which, error) < 0) {
        cli_note("the arrays of all ranks are left out: %s", error->text); /* regions are shown as far as it goes */
        error->text[0] = '\0';
    }
    rc = show_regions(showing, error);
    return rc == 0 && showing->region ? show_blocks(showing, error) : rc;
}

static int run_show(struct cli *cli) {
    static const char *const titles[] = {"RANK",   "<REGION", "<TYPE", "<SHAPE", "SIZE",  "STORED",
                                         "<CODEC", "<RANGE",  "ZERO",  "RUNS",   "DIGEST"};
    struct showing showing = {.cli = cli, .region = cli->arg_count > 1 ? cli->args[1] : NULL};
    struct varve_error error = {.text = ""};
    struct varve_which which;

    int rc = cli_which(cli, cli->args[0], &which);
    if (rc == 0 && !showing.region && has_option(cli, OPTION_RANK))
        rc = cli_usage(cli, "--rank goes with the name of a region");
    rc = rc == 0 && showing.region ? cli_choose_rank(cli, &which) : rc;
    if (rc)
        return rc;
    showing.table = table_create(titles, has_option(cli, OPTION_LONG) ? 11 : 9);
    rc = showing.table ? show(&showing, &which, &error) : -ENOMEM;
    table_destroy(showing.table);
    return rc < 0 ? cli_fail(cli, rc, &error) : EXIT_OK;
}

const struct command command_show = {
    .name = "show",
    .summary = "show one checkpoint and its regions",
    .usage = "show STORE NAME[@VERSION] [REGION [--rank R]] [--long] [--ranges]",
    .help = "Show a checkpoint; the arrays that its ranks hold together, and whether every element of them is stored;\n"
            "and every region of every rank: type, shape, size, what it takes on storage and how it was compressed,\n"
            "the least and the greatest value, and how much of it is zeros. With a REGION, only that one, and the\n"
            "same of each block. Without a version, or with @latest, the newest one whose tables\n"
            "are whole.\n\n"
            "  -g, --generation G  of this generation, when several have the version\n"
            "  -r, --rank R        the region of this rank; may be left out when there is one rank only\n"
            "  --long              runs and digests, too\n"
            "  --ranges            ranges of values also when there are more than 10000 regions\n\n"
            "example: varve show /scratch/ck heat2d@400\n",
    .options = OPTION_GENERATION | OPTION_RANK | OPTION_LONG | OPTION_RANGES,
    .least_args = 1,
    .most_args = 2,
    .run = run_show,
};
