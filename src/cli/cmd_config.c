/* varve config: the settings, from the library's one table, and what they lead to on this machine. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "terminal/cli.h"
#include "terminal/json.h"
#include "terminal/text.h"

struct configuration {
    struct cli *cli;
    struct table *table;
    const char *tier; /* of the setting before this one; NULL: this is the first */
};

static void config_json(const struct varve_setting_info *setting) {
    json_begin("setting");
    json_text("name", setting->name);
    json_text("tier", setting->tier);
    json_text("type", setting->type);
    json_text("bounds", setting->bounds);
    json_text("default", setting->initial);
    json_text("value", setting->value);
    json_text("origin", setting->origin);
    json_text("help", setting->help);
    json_end();
}

/* Nothing is a value, too. */
static const char *visible(const char *value) {
    return *value ? value : "\"\"";
}

/* The settings of a tier come together; its heading goes before the first of them. */
static int begins_tier(struct configuration *configuration, const struct varve_setting_info *setting) {
    int begins = !configuration->tier || strcmp(configuration->tier, setting->tier) != 0;
    configuration->tier = setting->tier;
    return begins;
}

static const char *tier_heading(const char *tier) {
    static const char *const headings[][2] = {
        {"everyday", "EVERYDAY: what the user of a program may want to set"},
        {"advanced", "ADVANCED: for special machines, stores and programs"},
        {"measuring", "MEASURING: to compare ways of working; leave the defaults otherwise"},
    };
    for (size_t i = 0; i < sizeof headings / sizeof headings[0]; i++)
        if (strcmp(headings[i][0], tier) == 0)
            return headings[i][1];
    return tier;
}

static void list_one(struct configuration *configuration, const struct varve_setting_info *setting) {
    int is_first = !configuration->tier;
    if (begins_tier(configuration, setting))
        printf("%s%s\n\n", is_first ? "" : "\n", tier_heading(setting->tier));
    printf("%s (%s)\n    allowed %s, default %s\n    %s\n", setting->name, setting->type, setting->bounds,
           visible(setting->initial), setting->help);
}

/* scdoc gives '_' '*' '\' '#' a meaning. */
static void put_scdoc(const char *text) {
    for (; *text; text++) {
        if (*text == '_' || *text == '*' || *text == '\\' || *text == '#' || *text == '<')
            putchar('\\');
        putchar(*text);
    }
}

static void man_one(struct configuration *configuration, const struct varve_setting_info *setting) {
    if (begins_tier(configuration, setting)) {
        fputs("## ", stdout);
        put_scdoc(tier_heading(setting->tier));
        fputs("\n\n", stdout);
    }
    putchar('*');
    put_scdoc(setting->name);
    printf("* (%s: ", setting->type);
    put_scdoc(setting->bounds);
    fputs("; default ", stdout);
    put_scdoc(visible(setting->initial));
    fputs(")\n\t", stdout);
    put_scdoc(setting->help);
    fputs(" Environment: VARVE\\_", stdout);
    for (const char *at = setting->name; *at; at++) {
        fputs(*at == '_' ? "\\" : "", stdout);
        putchar(toupper((unsigned char)*at));
    }
    fputs(".\n\n", stdout);
}

static int on_setting(void *arg, const struct varve_setting_info *setting) {
    struct configuration *configuration = arg;

    if (has_option(configuration->cli, OPTION_MAN)) {
        man_one(configuration, setting);
    } else if (configuration->cli->is_json) {
        config_json(setting);
    } else if (has_option(configuration->cli, OPTION_LIST)) {
        list_one(configuration, setting);
    } else {
        table_text(configuration->table, setting->name);
        table_text(configuration->table, visible(setting->value));
        table_text(configuration->table, setting->origin);
    }
    return 0;
}

static int on_choice(void *arg, const struct varve_choice_info *choice) {
    struct configuration *configuration = arg;

    if (configuration->cli->is_json) {
        json_begin("choice");
        json_text("what", choice->what);
        json_text("choice", choice->choice);
        json_text("reason", choice->reason);
        json_end();
    } else {
        table_text(configuration->table, choice->what);
        table_text(configuration->table, choice->choice);
        table_text(configuration->table, choice->reason);
    }
    return 0;
}

static int tell_settings(struct cli *cli, struct varve_error *error) {
    static const char *const titles[] = {"<NAME", "<VALUE", "<ORIGIN"};
    struct configuration configuration = {.cli = cli, .table = table_create(titles, 3)};

    int rc = configuration.table ? varve_settings_list(NULL, on_setting, &configuration, error) : -ENOMEM;
    if (rc == 0 && table_print(configuration.table) < 0)
        rc = -ENOMEM;
    table_destroy(configuration.table);
    return rc;
}

/* What is known is told even if a session could not be opened. */
static int tell_choices(struct cli *cli, struct varve_error *error) {
    static const char *const titles[] = {"<HERE", "<CHOICE", "<REASON"};
    struct configuration configuration = {.cli = cli, .table = table_create(titles, 3)};

    int rc = configuration.table ? varve_choices_list(NULL, on_choice, &configuration, error) : -ENOMEM;
    if (configuration.table && !cli->is_json) {
        putchar('\n');
        if (table_print(configuration.table) < 0)
            rc = -ENOMEM;
    }
    table_destroy(configuration.table);
    return rc;
}

static int run_config(struct cli *cli) {
    struct varve_error error = {.text = ""};

    int rc = tell_settings(cli, &error);
    if (rc == 0 && !has_option(cli, OPTION_LIST) && !has_option(cli, OPTION_MAN))
        rc = tell_choices(cli, &error);
    return rc < 0 ? cli_fail(cli, rc, &error) : EXIT_OK;
}

const struct command command_config = {
    .name = "config",
    .summary = "tell the settings and where they come from",
    .usage = "config [--list]",
    .help = "Tell the settings in effect and where each value comes from, and what they lead to on this machine: how\n"
            "changed pages are found and held. varve(5) describes files and environment.\n\n"
            "  -l, --list   all settings with type, allowed values, default and what they do, in three tiers:\n"
            "               everyday, advanced, and those for measuring\n"
            "  --man        the same as the text of varve(5), for scdoc\n\n"
            "example: VARVE_KEEP=3 varve config\n",
    .options = OPTION_LIST | OPTION_MAN,
    .is_storeless = 1,
    .run = run_config,
};
