/* The report as JSON lines. */
#include "terminal/json.h"
#include "report/report.h"

static void put_sums(const struct report_point *point) {
    json_u64("checkpoints", point->count);
    json_u64("failed", point->failed);
    for (unsigned i = 0; i < REPORT_BYTES; i++)
        json_u64(report_bytes_keys[i], point->bytes[i]);
    for (unsigned i = 0; i < REPORT_SECONDS; i++)
        json_number(report_seconds_keys[i], point->seconds[i]);
    json_number("blocked_most", point->blocked_most);
    json_number("durable_most", point->durable_most);
    if (point->writers == 0)
        return;
    json_number("took_least", point->took.least);
    json_number("took_most", point->took.most);
    json_u64("took_rank", point->took.rank);
    json_number("written_least", point->written.least);
    json_number("written_median", point->written.middle);
    json_number("written_most", point->written.most);
    json_u64("written_rank", point->written.rank);
    json_u64("writers", point->writers);
}

static void put_run(const struct report_life *life) {
    json_begin("run");
    json_u64("generation", life->generation);
    json_text("program", life->program);
    json_text("host", life->host);
    json_u64("ranks", life->ranks);
    json_time("opened", life->opened);
    json_time("written", life->written);
    json_u64("checkpoints", life->checkpoints);
    json_u64("failed", life->failed);
    json_u64("restarts", life->restarts);
    json_u64("freed_bytes", life->freed_bytes);
    json_u64("freed_objects", life->freed_objects);
    json_u64("bytes_memory", life->bytes_memory);
    json_number("storage_speed", life->storage_speed);
    json_text("capture", life->capture);
    json_text("tracker", life->tracker);
    json_text("dedup", life->dedup);
    json_bool("is_running", life->is_running);
    json_time("ended", life->ended);
    json_text("end", report_end_of(life));
    json_end();
}

static void put_event(const struct report_event *event) {
    json_begin("event");
    json_text("what", event->what);
    json_time("time", event->time);
    json_i64("version", event->version);
    json_u64("generation", event->generation);
    json_number("seconds", event->seconds);
    json_u64("bytes", event->bytes);
    json_text("text", event->text);
    json_end();
}

void report_json(const struct report *report) {
    for (size_t i = 0; i < report->life_count; i++)
        put_run(&report->lives[i]);
    for (size_t i = 0; i < report->event_count; i++)
        put_event(&report->events[i]);
    for (size_t i = 0; i < report->codec_count; i++) {
        json_begin("codec");
        json_text("codec", report->codecs[i].name);
        json_u64("checkpoints", report->codecs[i].checkpoints);
        json_u64("bytes_new", report->codecs[i].bytes_new);
        json_u64("bytes_stored", report->codecs[i].bytes_stored);
        json_end();
    }
    for (size_t i = 0; i < report->point_count; i++) {
        json_begin("checkpoint");
        json_u64("version", report->points[i].version);
        json_u64("generation", report->points[i].generation);
        json_time("time", report->points[i].time);
        put_sums(&report->points[i]);
        json_end();
    }
    json_begin("summary");
    json_text("name", report->name);
    json_u64("runs", report->life_count);
    json_u64("restarts", report->restarts);
    json_u64("ranks", report->ranks_most);
    json_u64("freed_objects", report->freed_objects);
    json_u64("lines_skipped", report->lines_skipped);
    put_sums(&report->sum);
    json_end();
}
