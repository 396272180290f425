/* The output of a rank that writes a pack by itself, and sends replicas of it to its partners if it has some. */
#include "base/alloc.h"
#include "write/writing.h"

struct output_pack {
    struct vv_output output; /* first */
    int is_begun;
    struct vv_writing writing;
};

static struct vv_writing *writing_of(struct vv_output *output) {
    return &((struct output_pack *)output)->writing;
}

static int pack_begin(struct vv_output *output, struct varve_error *error) {
    const struct varve_comm *comm = output->outputs->job->comm;
    (void)error;
    output->writer = comm->rank;
    output->writers = comm->ranks;
    output->group = 1;
    return 0;
}

static int pack_open(struct vv_output *output, struct varve_error *error) {
    struct output_pack *pack = (struct output_pack *)output;
    struct vv_outputs *outputs = output->outputs;
    const struct varve_comm *comm = outputs->job->comm;
    if (pack->is_begun)
        return 0;
    struct vv_writing_plan plan = {
        .attempt = output->plan.attempt,
        .parent = output->plan.parent,
        .writer = comm->rank,
        .writers = comm->ranks,
        .first_owner = comm->rank,
        .owners = 1,
        .block_size = output->block_size,
        .blocks = output->blocks,
        .pool = outputs->pool,
        .threads = (unsigned)outputs->job->settings.threads,
    };
    int rc = vv_writing_begin(&pack->writing, outputs, &plan, error);
    if (rc)
        vv_writing_end(&pack->writing);
    pack->is_begun = rc == 0;
    return rc;
}

static int pack_expect(struct vv_output *output, int rc, uint64_t bytes, struct varve_error *error) {
    (void)output, (void)bytes, (void)error;
    return rc;
}

static void pack_region(struct vv_output *output, const struct vv_variable *variable) {
    vv_blocks_variable(writing_of(output)->blocks, variable);
}

static int pack_add(struct vv_output *output, const struct vv_new_chunk *chunk, const void *data) {
    if (output->outputs->replicas.count > 0)
        vv_replicas_send(output, chunk, data);
    return vv_blocks_add(writing_of(output)->blocks, chunk, data);
}

static int pack_consume(struct vv_output *output, int rc, vv_step_fn step, void *arg, struct varve_error *error) {
    return output->outputs->replicas.count > 0 ? vv_replicas_consume(output, rc, step, arg, error)
                                               : vv_output_consume_alone(rc, step, arg, error);
}

static int pack_finish(struct vv_output *output, int rc, struct varve_error *error) {
    struct varve_error why = {.rank = -1};
    int finished = ((struct output_pack *)output)->is_begun ? vv_writing_finish(writing_of(output), &why) : 0;
    if (finished) /* a scan that stops because a block failed knows only that */
        *error = why;
    return finished ? finished : rc;
}

static int pack_dependencies(struct vv_output *output, const struct vv_dependency *dependencies, uint32_t count,
                             struct vv_buf *out, struct varve_error *error) {
    if (count)
        vv_buf_append(out, dependencies, count * sizeof *dependencies);
    return out->failed ? out->failed : vv_pack_dependencies(writing_of(output)->pack, dependencies, count, error);
}

static int pack_manifest_begin(struct vv_output *output, const struct vv_manifest_head *head,
                               struct varve_error *error) {
    return vv_pack_manifest_begin(writing_of(output)->pack, head, error);
}

static int pack_manifest_add(struct vv_output *output, const void *data, size_t size, struct varve_error *error) {
    return vv_pack_manifest_add(writing_of(output)->pack, data, size, error);
}

static int pack_manifest_end(struct vv_output *output, struct vv_hash128 *digest_out, struct varve_error *error) {
    return vv_pack_manifest_end(writing_of(output)->pack, digest_out, error);
}

static int pack_seal(struct vv_output *output, const struct vv_output_sums *sums, struct vv_details *stats,
                     struct varve_error *error) {
    writing_of(output)->looked = sums->looked;
    int rc = vv_writing_seal(writing_of(output), sums->protected_bytes, sums->regions, stats, error);
    output->bytes_stored = stats->bytes_stored;
    return rc;
}

static int pack_settle(struct vv_output *output, int rc, struct varve_error *error) {
    if (output->outputs->lost_most > 0)
        return vv_parity_settle(output, rc, error);
    return output->outputs->replicas.count > 0 ? vv_replicas_settle(output, rc, error) : rc;
}

static void pack_end(struct vv_output *output, const struct varve_error *why) {
    struct output_pack *pack = (struct output_pack *)output;
    (void)why;
    if (pack->is_begun)
        vv_writing_end(&pack->writing);
    pack->is_begun = 0;
}

static const struct vv_output_ops pack_ops = {
    .begin = pack_begin,
    .open = pack_open,
    .expect = pack_expect,
    .region = pack_region,
    .add = pack_add,
    .explain = vv_output_adds_nothing,
    .consume = pack_consume,
    .finish = pack_finish,
    .dependencies = pack_dependencies,
    .manifest_begin = pack_manifest_begin,
    .manifest_add = pack_manifest_add,
    .manifest_end = pack_manifest_end,
    .seal = pack_seal,
    .settle = pack_settle,
    .end = pack_end,
};

struct vv_output *vv_output_pack_create(void) {
    struct output_pack *pack = vv_calloc(1, sizeof *pack);
    if (pack)
        pack->output.ops = &pack_ops;
    return pack ? &pack->output : NULL;
}
