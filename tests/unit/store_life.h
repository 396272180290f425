/* For the tests of claims, records and prune: stores, leases, and packs without data. */
#ifndef VARVE_TEST_STORE_LIFE_H
#define VARVE_TEST_STORE_LIFE_H

#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commit_votes.h"

#include "base/fault.h"
#include "base/thread.h"
#include "check/verify.h"
#include "lifecycle/catalogue.h"
#include "lifecycle/commit.h"
#include "lifecycle/lifecycle.h"
#include "storage/storage.h"
#include "store/pack_writer.h"

#define NAME "heat 2d"

static const struct vv_log quiet = {.level = VV_LOG_ERROR, .rank = -1};

#define ok(call)                                                                                                       \
    do {                                                                                                               \
        int ok_rc = (call);                                                                                            \
        if (ok_rc < 0)                                                                                                 \
            fail_msg("%s: %d (%s)", #call, ok_rc, error.text);                                                         \
    } while (0)

static struct varve_error error;

static inline struct vv_store *open_store(const char *uri, int mode) {
    struct vv_backend_options options = {.may_create = 1};
    struct varve_backend *backend = NULL;
    struct vv_store *store = NULL;
    ok(vv_backend_open(uri, &options, &backend, &error));
    ok(vv_store_open(backend, mode, &quiet, &store, &error));
    return store;
}

/* The address of a store in memory that nobody has used yet; valid until the next call. */
static inline const char *fresh_uri(void) {
    static char uri[64];
    static int next;
    snprintf(uri, sizeof uri, "mem://life-%d-%d", (int)getpid(), next++);
    return uri;
}

static inline int take(struct vv_store *store, uint32_t dead, uint32_t takeover, struct vv_lease **out) {
    struct vv_lease_options options = {
        .ranks = 1, .beat_seconds = 1, .dead_seconds = dead, .takeover_seconds = takeover, .program = "test"};
    return vv_lease_take(store, NAME, &options, out, &error);
}

static inline struct vv_attempt at(uint32_t generation, uint64_t version, uint32_t attempt) {
    return (struct vv_attempt){.generation = generation, .attempt = attempt, .version = version};
}

struct pack_spec {
    uint32_t writer;
    uint32_t writers;
    struct vv_attempt parent;
    const struct vv_dependency *dependencies;
    uint32_t dependency_count;
    int has_part; /* two blocks, the first in an earlier part */
};

/* A pack of one owner with no regions; if wanted, with a block of 5,000 bytes in a part and one in the pack. */
static inline int write_pack(struct vv_store *store, struct vv_attempt attempt, const struct pack_spec *spec) {
    struct vv_pack_options options = {.writer = spec->writer,
                                      .writers = spec->writers,
                                      .ranks = spec->writers,
                                      .first_owner = spec->writer,
                                      .owners = 1,
                                      .parent = spec->parent,
                                      .part_size = 4096,
                                      .program = "test"};
    struct vv_manifest_head head = {.owner = spec->writer, .layout_bytes = 16384};
    struct vv_pack_writer *pack = NULL;
    ok(vv_pack_begin(store, NAME, &attempt, &options, &pack, &error));
    for (uint64_t i = 0; spec->has_part && i < 2; i++) {
        static uint8_t bytes[5000];
        struct vv_extent extent = {.owner = spec->writer, .address = i * 8192, .length = sizeof bytes};
        struct vv_block block = {.stored = sizeof bytes, .raw = sizeof bytes, .owner = spec->writer};
        ok(vv_pack_block(pack, &block, bytes, &extent, 1, NULL, 0, &error));
    }
    ok(vv_pack_dependencies(pack, spec->dependencies, spec->dependency_count, &error));
    ok(vv_pack_manifest_begin(pack, &head, &error));
    ok(vv_pack_manifest_end(pack, NULL, &error));
    return vv_pack_seal(pack, 0, 0, NULL, &error);
}

static inline void write_single(struct vv_store *store, struct vv_attempt attempt, struct vv_attempt parent,
                                const struct vv_dependency *dependencies, uint32_t count) {
    struct pack_spec spec = {.writers = 1, .parent = parent, .dependencies = dependencies, .dependency_count = count};
    ok(write_pack(store, attempt, &spec));
}

/* Write, commit, and name in the heartbeat. Leans on the parent and on all it depends on. */
static inline struct vv_dependency checkpoint(struct vv_store *store, struct vv_lease *lease, struct vv_attempt attempt,
                                              struct vv_attempt parent, const struct vv_dependency *dependencies,
                                              uint32_t count) {
    struct vv_record record;
    write_single(store, attempt, parent, dependencies, count);
    ok(commit_votes(store, lease, NAME, &attempt, &record, &error));
    struct vv_dependency dependency = {.attempt = attempt, .writers_digest = record.writers_digest};
    vv_record_clear(&record);
    ok(vv_lease_refer(lease, &attempt, &error));
    return dependency;
}

static inline void key_text(struct vv_attempt attempt, int kind, uint32_t writer, uint32_t part, char *out) {
    struct vv_key key = vv_attempt_key(NAME, &attempt, kind, writer, part);
    vv_key_print(&key, out);
}

static inline int exists(struct vv_store *store, struct vv_attempt attempt, int kind) {
    char text[VV_KEY_CAPACITY];
    uint64_t size;
    key_text(attempt, kind, 0, 0, text);
    int rc = vv_backend_stat(store->backend, text, &size);
    assert_true(rc == 0 || rc == -ENOENT);
    return rc == 0;
}

/* 0 a record, VARVE_FORGOTTEN, VARVE_NO_CHECKPOINT, ... */
static inline int record_state(struct vv_store *store, uint32_t generation, uint64_t version) {
    struct vv_record record;
    int rc = vv_record_load(store, NAME, generation, version, &record, &error);
    if (rc == 0)
        vv_record_clear(&record);
    return rc;
}

/* Every record of the name can be read, and all it depends on is there with the digest it names. */
static inline int check_whole(void *arg, uint32_t generation, uint64_t version) {
    struct vv_store *store = arg;
    struct vv_record record, other;
    struct vv_writers writers;
    int rc = vv_record_load(store, NAME, generation, version, &record, &error);
    if (rc == VARVE_FORGOTTEN)
        return 0;
    ok(rc);
    struct vv_dependency self = {.attempt = at(generation, version, record.attempt),
                                 .writers_digest = record.writers_digest};
    for (uint32_t i = 0; i <= record.dependency_count; i++) {
        const struct vv_dependency *dependency = i ? &record.dependencies[i - 1] : &self;
        assert_int_equal(vv_votes_read(store, NAME, &dependency->attempt, &writers, &other, &error), 1);
        assert_true(vv_hash128_equal(other.writers_digest, dependency->writers_digest));
        assert_true(exists(store, dependency->attempt, VV_KIND_WRITERS));
        vv_writers_clear(&writers);
        vv_record_clear(&other);
    }
    vv_record_clear(&record);
    return 0;
}

static inline void assert_whole(struct vv_store *store) {
    ok(vv_records_list(store, NAME, check_whole, store, &error));
}

static inline int prune(struct vv_store *store, struct vv_prune_result *out) {
    struct vv_prune_options options = {0};
    struct vv_prune_result result;
    int rc = vv_prune(store, NAME, &options, &result, &error);
    if (out)
        *out = result;
    return rc;
}

static inline int keep_newest(struct vv_store *store, struct vv_lease *lease, uint32_t keep) {
    struct vv_keep_options options = {.keep = keep};
    return vv_keep(store, lease, NAME, &options, &error);
}

/* Flip a byte of an object; a negative offset counts from its end. */
static inline void damage(struct vv_store *store, const char *key, int64_t offset) {
    struct vv_buf buf;
    vv_buf_init(&buf);
    assert_int_equal(vv_backend_get_all(store->backend, key, 1 << 20, &buf), 0);
    offset += offset < 0 ? (int64_t)buf.size : 0;
    assert_true(offset >= 0 && offset < (int64_t)buf.size);
    buf.data[offset] ^= 0x40;
    assert_int_equal(vv_backend_replace(store->backend, key, buf.data, buf.size), 0);
    vv_buf_clear(&buf);
}

#endif
