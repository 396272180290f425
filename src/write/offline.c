/* How tools make blocks: see offline.h. */
#include "write/offline.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/match.h"
#include "encode/grid.h"

#define RANKS_MOST 64u /* blocks of so many are open at a time */
#define LEVEL_LEAST 9  /* time does not count */

int vv_offline_init(struct vv_offline *offline, const struct vv_settings *settings, struct varve_error *error) {
    unsigned threads = (unsigned)settings->threads;
    *offline = (struct vv_offline){.settings = settings};
    offline->orders = vv_calloc(VV_KNOWN_ORDERS, sizeof *offline->orders);
    int rc = offline->orders ? vv_pool_create(threads, threads + 2, NULL, &offline->pool) : -ENOMEM;
    if (rc == 0)
        rc = vv_chooser_create(&offline->chooser);
    if (rc < 0)
        return vv_error_sys(error, rc, "cannot start %u threads that encode", threads);
    return vv_match_open(settings->match, &offline->match, error);
}

void vv_offline_clear(struct vv_offline *offline) {
    vv_match_close(offline->match);
    vv_chooser_destroy(offline->chooser);
    vv_pool_destroy(offline->pool);
    vv_free(offline->orders);
    *offline = (struct vv_offline){0};
}

void vv_offline_variable(const struct vv_offline *offline, uint32_t owner, const char *name, uint64_t number,
                         uint64_t length, const struct vv_region_shape *shape, struct vv_variable *out) {
    uint64_t row = shape->dims > 1 ? shape->dim[shape->dims - 1].local : 0;
    *out = (struct vv_variable){
        .key = vv_match_name(offline->match, name) ^ shape->type,
        .region = number,
        .length = length,
        .owner = owner,
        .content = {.type = shape->type,
                    .row = row < UINT32_MAX ? (uint32_t)row : 0,
                    .grid = shape->is_lossy ? vv_grid_of(shape->bound) : 0},
    };
}

static int plan_coding(const struct vv_offline *offline) {
    const struct vv_settings *settings = offline->settings;
    struct vv_chooser_plan plan = {
        .name = settings->codec - VV_CHOOSE_CODEC_NAMED,
        .level = settings->zstd_level > LEVEL_LEAST ? settings->zstd_level : LEVEL_LEAST,
        .workers = 1,
        .threads = 1,
        .is_for_size = settings->codec < VV_CHOOSE_CODEC_NAMED,
    };
    if (!plan.is_for_size)
        plan.level = settings->zstd_level;
    if (plan.name < 0)
        plan.name = -1;
    vv_chooser_begin(offline->chooser, &plan);
    return plan.level;
}

int vv_offline_blocks(struct vv_offline *offline, struct vv_pack_writer *pack, uint32_t ranks, struct vv_blocks **out) {
    const struct vv_settings *settings = offline->settings;
    struct vv_blocks_options options = {
        .pack = pack,
        .pool = offline->pool,
        .chooser = offline->chooser,
        .block_size = (uint32_t)settings->block_size,
        .blocks = (unsigned)settings->threads + 2,
        .ranks = ranks < RANKS_MOST ? ranks : RANKS_MOST,
        .grouping = settings->grouping,
        .turn = 4096,
        .level = plan_coding(offline),
        .orders = offline->orders,
    };
    return vv_blocks_create(&options, out);
}
