/* What compression is worth: how soon a checkpoint is durable with each coding, on storage of different speeds.
 *
 *   bench-codec [--data NAME,...] [--file NAME=PATH[:TYPE[xCOLUMNS]]]... [--codec NAME,...] [--speed MB,...]
 *               [--size MIB] [--checkpoints N] [--rounds N] [--settings TEXT] [--held FOLDER] [--quick] [--check]
 *               [FOLDER]
 *
 * For each state (codec_data.h), each speed and each value of the setting codec: a new store that is held to that speed
 * (the parameter limit of its address; 0: not held), a session, and five checkpoints, each waited for: `durable` are
 * the seconds of these calls. Between two of them all data moves by a few elements, so that all of it is new. In the
 * first one auto knows neither the data nor the storage; `first` are its seconds alone. Codings take turns, round by
 * round, and the median of the rounds counts; on fast storage there are more rounds, but not for what has taken twice
 * as long as the best. In the first round the checkpoint is restored into other memory and compared: one wrong byte
 * ends the program.
 *
 * One line of JSON for each state, with what gzip -6 makes of it, then one for each coding and speed:
 *   ratio                  protected bytes that are not zeros, over data as it was stored; bytes that are there twice
 *                          are stored once, whatever the coding
 *   ratio_coding           what was encoded over what it became
 *   compress_over_memcpy   speed of the coding alone, on one thread (codec_speed.h); null if it has nothing to do
 *   memcpy_speed           that of memcpy, of the same pieces in the same rounds; bytes per second
 *   durable_least, cpu     the shortest round; seconds of processor time, the median of the rounds
 *   auto_over_best         durable of the best fixed choice, over that of auto
 *   auto_over_best_least   the same with the shortest rounds: what others do on the machine is hardly in it
 *   auto_over_best_first   the same of the first checkpoint alone
 *   auto_over_none         on storage that is not held: durable of auto, over that of none
 *
 * Stores that are held to a speed lie in the folder of --held, if it is given: in memory, for example, so that the
 * disk's own ups and downs are not in it. --data '' is for files only. --quick: small states, two speeds; only whether
 * everything comes back.
 * --check fails when a bound is not kept. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "codec_data.h"
#include "codec_speed.h"
#include "details.h"
#include "options.h"
#include "varve/varve.h"
#include "varve/varve_inspect.h"

#define CODECS_MAX 32
#define ROUNDS_MAX 64
#define FILES_MAX 16
#define BOUND_BEST 0.97 /* auto_over_best, at least */
#define BOUND_NONE 1.05 /* auto_over_none, at most */
#define GZIP_LEAST 1.1  /* of hydro: neither noise nor emptiness */
#define GZIP_MOST 3.0
#define FAST 500     /* MB/s from which times are short, */
#define FAST_TURNS 3 /* and there are that many times as many rounds */
#define HOPELESS 2   /* times the best: no more of these rounds */

struct codec {
    char name[24];
    double durable[ROUNDS_MAX], first[ROUNDS_MAX], cpu[ROUNDS_MAX];
    size_t rounds;
    int is_out;              /* not for this state */
    struct vv_details stats; /* of the last round */
    struct codec_speed speed;
};

static struct codec codecs[CODECS_MAX];
static size_t codec_count;
static struct numbers speeds = {{20, 100, 1000, 0}, 4};
static struct data files[FILES_MAX];
static size_t file_count;
static const char *only_data, *only_codecs, *more_settings = "", *folder = ".", *held = "";
static size_t size = 32 * BENCH_MIB;
static unsigned rounds = 5, checkpoints = 5;
static int is_quick, is_check, failed;
static char store[3100];

/* ---- a checkpoint ---- */

static void check(const struct varve_session *session, int rc, const char *what) {
    if (rc < 0) {
        fprintf(stderr, "%s: %s\n", what, varve_session_error(session)->text);
        exit(1);
    }
}

static struct varve_session *open_session(const struct arrays *arrays, const char *codec, double speed) {
    char address[3200], settings[512];
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    struct varve_error error;
    snprintf(address, sizeof address, speed > 0 ? "%s?limit=%gMB" : "%s", store, speed);
    snprintf(settings, sizeof settings, "codec=%s%s%s", codec, *more_settings ? "," : "", more_settings);
    options.settings = settings;
    if (varve_open(address, "codec", &options, &session, &error) != 0) {
        fprintf(stderr, "open: %s\n", error.text);
        exit(1);
    }
    for (size_t i = 0; i < arrays->count; i++) {
        const struct array *from = &arrays->list[i];
        struct varve_array array = {.size = sizeof array, .type = from->type, .dims = from->dims};
        for (unsigned d = 0; d < from->dims; d++)
            array.dim[d].local = from->dim[d];
        check(session, varve_protect_array(session, from->name, from->data, &array), "protect");
    }
    return session;
}

static void compare(const struct data *data, const char *codec) {
    struct arrays other;
    int64_t version = -1;
    arrays_alike(&data->arrays, &other);
    for (size_t i = 0; i < other.count; i++)
        memset(other.list[i].data, 0xa5, other.list[i].bytes);
    struct varve_session *session = open_session(&other, codec, 0);
    check(session, varve_restart(session, VARVE_LATEST, &version), "restart");
    for (size_t i = 0; i < other.count; i++)
        if (memcmp(other.list[i].data, data->arrays.list[i].data, other.list[i].bytes) != 0) {
            fprintf(stderr, "%s of %s with codec=%s: what was restored is not what was saved\n", other.list[i].name,
                    data->name, codec);
            exit(1);
        }
    check(session, varve_close(session), "close");
    arrays_clear(&other);
}

static double save_one(struct varve_session *session, unsigned version) {
    double begin = bench_now();
    check(session, varve_checkpoint(session, version), "checkpoint");
    check(session, varve_wait(session), "wait");
    return bench_now() - begin;
}

static void save(struct data *data, struct codec *codec, double speed) {
    bench_remove(store);
    struct varve_session *session = open_session(&data->arrays, codec->name, speed);
    double *durable = &codec->durable[codec->rounds], *cpu = &codec->cpu[codec->rounds];
    *durable = *cpu = 0;
    for (unsigned i = 0; i < checkpoints; i++) {
        double before = bench_cpu(), took = save_one(session, i);
        *cpu += bench_cpu() - before;
        *durable += took;
        if (i == 0)
            codec->first[codec->rounds] = took;
        if (i + 1 < checkpoints)
            arrays_turn(&data->arrays);
    }
    codec->rounds++;
    codec->stats = (struct vv_details){0};
    check(session, vv_details_get(session, &codec->stats), "stats");
    check(session, varve_close(session), "close");
    if (codec->rounds == 1)
        compare(data, codec->name);
    bench_remove(store);
}

/* ---- what is said ---- */

static void print_text(const char *key, const char *text) {
    printf(",\"%s\":\"", key);
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else if ((unsigned char)*text >= ' ')
            putchar(*text);
    putchar('"');
}

static void print_number(const char *key, double value) {
    if (value > 0)
        printf(",\"%s\":%.4g", key, value);
    else
        printf(",\"%s\":null", key);
}

static double median_of(const struct codec *codec) {
    return bench_median(codec->durable, codec->rounds);
}

static double first_of(const struct codec *codec) {
    return bench_median(codec->first, codec->rounds);
}

static double least_of(const struct codec *codec) {
    double low = codec->durable[0];
    for (size_t i = 1; i < codec->rounds; i++)
        low = codec->durable[i] < low ? codec->durable[i] : low;
    return low;
}

static const struct codec *find(const char *name) {
    for (size_t i = 0; i < codec_count; i++)
        if (strcmp(codecs[i].name, name) == 0)
            return &codecs[i];
    return NULL;
}

static const struct codec *find_best(double (*seconds_of)(const struct codec *)) {
    const struct codec *best = NULL;
    for (size_t i = 0; i < codec_count; i++)
        if (!codecs[i].is_out && codec_is_fixed(codecs[i].name) && (!best || seconds_of(&codecs[i]) < seconds_of(best)))
            best = &codecs[i];
    return best;
}

static void judge(const struct data *data, double speed, const char *what, double value, double bound, int is_least) {
    if (!is_check || (is_least ? value >= bound : value <= bound))
        return;
    fprintf(stderr, "%s at %g MB/s: %s is %.3f, which is %s %.3f\n", data->name, speed, what, value,
            is_least ? "under" : "over", bound);
    failed = 1;
}

static void report_auto(const struct data *data, double speed, const struct codec *codec) {
    const struct codec *best = find_best(median_of), *least = find_best(least_of), *none = find("none");
    if (best) {
        print_number("auto_over_best", median_of(best) / median_of(codec));
        print_text("best", best->name);
        print_number("auto_over_best_least", least_of(least) / least_of(codec));
        print_number("auto_over_best_first", first_of(find_best(first_of)) / first_of(codec));
    }
    if (best && speed > 0)
        judge(data, speed, "auto_over_best", median_of(best) / median_of(codec), BOUND_BEST, 1);
    if (speed > 0 || !none)
        return;
    print_number("auto_over_none", median_of(codec) / median_of(none));
    judge(data, speed, "auto_over_none", median_of(codec) / median_of(none), BOUND_NONE, 0);
}

static void report(const struct data *data, double speed, const struct codec *codec) {
    const struct vv_details *stats = &codec->stats;
    double used = (double)(stats->bytes_protected - stats->bytes_zero), stored = (double)stats->bytes_stored;
    printf("{\"bench\":\"codec\",\"data\":\"%s\",\"bytes\":%zu,\"codec\":\"%s\",\"speed\":%g", data->name,
           data->arrays.bytes, codec->name, speed);
    print_number("ratio", stored > 0 ? used / stored : 0);
    print_number("ratio_coding", stored > 0 ? (double)stats->bytes_new / stored : 0);
    print_number("compress_over_memcpy", codec->speed.compress);
    print_number("decompress_over_memcpy", codec->speed.decompress);
    print_number("memcpy_speed", codec->speed.memcpy_speed);
    printf(",\"checkpoints\":%u,\"durable\":%.5f,\"durable_least\":%.5f,\"first\":%.5f,\"cpu\":%.5f,\"rounds\":%zu",
           checkpoints, median_of(codec), least_of(codec), first_of(codec), bench_median(codec->cpu, codec->rounds),
           codec->rounds);
    if (strcmp(codec->name, "auto") == 0)
        report_auto(data, speed, codec);
    print_text("codec_used", stats->codec);
    print_text("codec_reason", stats->codec_reason);
    printf(",\"seconds_encode\":%.5f,\"seconds_sampled\":%.5f,\"storage_speed\":%.4g}\n", stats->seconds_encode,
           stats->seconds_sampled, stats->storage_speed);
    fflush(stdout);
}

/* ---- all of it ---- */

static int is_hopeless(const struct codec *codec) {
    const struct codec *best = find_best(median_of);
    return strcmp(codec->name, "auto") != 0 && best && median_of(codec) > HOPELESS * median_of(best);
}

/* There and back again in turns, so that what drifts meets all alike. */
static void take_turns(struct data *data, double speed) {
    int is_fast = !is_quick && (speed == 0 || speed >= FAST);
    unsigned all = is_fast && rounds * FAST_TURNS <= ROUNDS_MAX ? rounds * FAST_TURNS : rounds;
    for (unsigned round = 0; round < all; round++)
        for (size_t i = 0; i < codec_count; i++) {
            struct codec *codec = &codecs[round % 2 ? codec_count - 1 - i : i];
            if (!codec->is_out && (round < rounds || !is_hopeless(codec)))
                save(data, codec, speed);
        }
}

static void run_speed(struct data *data, double speed) {
    snprintf(store, sizeof store, "%s/bench-codec.store", speed > 0 && *held ? held : folder);
    for (size_t i = 0; i < codec_count; i++) {
        codecs[i].rounds = 0;
        if (!codec_is_fixed(codecs[i].name))
            codec_speed(&data->arrays, codecs[i].name, speed * 1e6, 1, &codecs[i].speed);
    }
    take_turns(data, speed);
    for (size_t i = 0; i < codec_count; i++)
        if (!codecs[i].is_out)
            report(data, speed, &codecs[i]);
}

static void report_data(const struct data *data) {
    double gzip = data_gzip(data, folder);
    printf("{\"bench\":\"codec\",\"data\":\"%s\",\"bytes\":%zu,\"arrays\":%zu", data->name, data->arrays.bytes,
           data->arrays.count);
    print_number("gzip6_ratio", gzip);
    print_text("about", data->about);
    printf("}\n");
    fflush(stdout);
    if (strcmp(data->name, "hydro") == 0 && gzip > 0 && (gzip < GZIP_LEAST || gzip > GZIP_MOST)) {
        fprintf(stderr, "hydro: gzip -6 gains a factor of %.2f, which is not between %.1f and %.1f\n", gzip, GZIP_LEAST,
                GZIP_MOST);
        failed = 1;
    }
}

static void run_data(struct data *data) {
    report_data(data);
    for (size_t i = 0; i < codec_count; i++) {
        codecs[i].is_out = !codec_fits(codecs[i].name, &data->arrays);
        if (codec_is_fixed(codecs[i].name) && !codecs[i].is_out)
            codec_speed(&data->arrays, codecs[i].name, 0, is_quick ? 1 : 3, &codecs[i].speed);
    }
    for (size_t i = 0; i < speeds.count; i++)
        run_speed(data, speeds.value[i]);
}

static int on_setting(void *arg, const struct varve_setting_info *setting) {
    char list[512], *rest = NULL;
    (void)arg;
    if (strcmp(setting->name, "codec") != 0)
        return 0;
    snprintf(list, sizeof list, "%s", setting->bounds);
    for (char *name = strtok_r(list, "|", &rest); name && codec_count < CODECS_MAX; name = strtok_r(NULL, "|", &rest)) {
        if (only_codecs && !options_has(only_codecs, name))
            continue;
        if (!codec_is_known(name)) {
            fprintf(stderr, "codec=%s is left out: its library was not built in\n", name);
            continue;
        }
        snprintf(codecs[codec_count++].name, sizeof codecs[0].name, "%s", name);
    }
    return 0;
}

/* ---- the command line ---- */

static int take_file(const char *text) {
    size_t length = strcspn(text, "=");
    for (size_t i = 0; i < file_count; i++)
        if (strlen(files[i].name) == length && strncmp(files[i].name, text, length) == 0)
            return data_file(text, &files[i]);
    return file_count < FILES_MAX ? data_file(text, &files[file_count++]) : -1;
}

static void be_quick(void) {
    is_quick = 1, rounds = 1, checkpoints = 2, size = 3 * BENCH_MIB;
    speeds = (struct numbers){{100, 1000}, 2};
}

static const struct bench_option command_line[] = {
    {"--data", "hydro,storm,float32,counters,text,random,normal-bf16,normal-f16,normal-f32", .list = &only_data},
    {"--file", "NAME=PATH[:TYPE[xCOLUMNS]]", .take = take_file},
    {"--codec", "NAME,...", .text = &only_codecs},
    {"--speed", "MB,...", .numbers = &speeds},
    {"--size", "MIB", .size = &size, .least = 1},
    {"--checkpoints", .number = &checkpoints, .least = 1},
    {"--rounds", .number = &rounds, .least = 1, .most = ROUNDS_MAX},
    {"--settings", "TEXT", .text = &more_settings},
    {"--held", "FOLDER", .text = &held},
    {"--quick", .act = be_quick},
    {"--check", .flag = &is_check},
    {"FOLDER", .text = &folder},
    {0},
};

int main(int argc, char **argv) {
    struct varve_error error;
    options_read(command_line, argc, argv);
    /* What the environment says would win over what is compared here. */
    unsetenv("VARVE_CODEC");
    if (varve_settings_list(NULL, on_setting, NULL, &error) != 0 || codec_count == 0) {
        fprintf(stderr, "codecs: %s\n", codec_count ? error.text : "none");
        return 1;
    }
    for (size_t i = 0; data_names[i]; i++) {
        struct data data;
        if (only_data && !options_has(only_data, data_names[i]))
            continue;
        data_make(data_names[i], size, &data);
        run_data(&data);
        data_clear(&data);
    }
    for (size_t i = 0; i < file_count; i++) {
        run_data(&files[i]);
        data_clear(&files[i]);
    }
    return failed;
}
