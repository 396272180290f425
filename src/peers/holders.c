/* Node-local stores: which nodes have what. The leaders tell, and what they tell is spread over all ranks by the hash
 * of the key: no rank's share grows with their number. */
#include <string.h>

#include "base/search.h"
#include "peers/peers_private.h"

struct publication {
    struct vv_peers *peers;
    struct vv_buf questions; /* struct vv_question */
    uint8_t rank[4];         /* the data of all of them */
    struct vv_key at;        /* the attempt that is listed */
    char prefix[VV_KEY_CAPACITY];
};

const struct vv_holders *vv_holders_find(const struct vv_buf *list, struct vv_hash128 id) {
    const struct vv_holders *holders = (const struct vv_holders *)list->data;
    size_t at, count = list->size / sizeof *holders;
    VV_SEARCH(at, 0, count, vv_hash128_compare(holders[at].id, id) < 0);
    return at < count && vv_hash128_equal(holders[at].id, id) ? &holders[at] : NULL;
}

/* ---- a leader lists ---- */

static int add_object(void *arg, const char *name, int is_prefix) {
    struct publication *publication = arg;
    struct vv_key key;
    char text[VV_KEY_CAPACITY + 260];
    size_t size = strlen(publication->prefix), more = strlen(name);
    if (is_prefix || size + 1 + more >= VV_KEY_CAPACITY)
        return 0;
    memcpy(text, publication->prefix, size);
    text[size] = '/';
    memcpy(text + size + 1, name, more + 1);
    if (vv_key_parse(text, &key) < 0 ||
        (key.kind != VV_KIND_PACK && key.kind != VV_KIND_COPY && key.kind != VV_KIND_WRITERS))
        return 0;
    struct vv_question question = {.id = vv_peers_key_id(text),
                                   .home = VV_HOME_BY_ID,
                                   .size = sizeof publication->rank,
                                   .data = publication->rank};
    vv_buf_append(&publication->questions, &question, sizeof question);
    return publication->questions.failed;
}

static int list_attempt(struct publication *publication, const struct vv_attempt *attempt, struct varve_error *error) {
    const struct vv_peers *peers = publication->peers;
    publication->at = vv_attempt_key(peers->name, attempt, VV_KIND_WRITERS, 0, 0);
    vv_prefix_data(&publication->at, 3, publication->prefix);
    int rc = vv_backend_list(peers->own->backend, publication->prefix, NULL, 0, add_object, publication);
    return rc < 0 ? vv_error_sys(error, rc, "cannot list %s", publication->prefix) : 0;
}

/* ---- on the way, and at home ---- */

/* Several nodes have it. */
static int merge(void *arg, const struct vv_question *same, size_t count, struct vv_buf *out) {
    uint32_t size = 0;
    (void)arg;
    for (size_t i = 0; i < count; i++)
        for (uint32_t at = 0; at + 4 <= same[i].size && size < 4 * VV_HOLDERS_MAX; at += 4, size += 4)
            vv_buf_append(out, (const uint8_t *)same[i].data + at, 4);
    return out->failed;
}

static int keep(void *arg, const struct vv_question *questions, size_t count, struct vv_buf *out, uint32_t *sizes) {
    struct vv_peers *peers = ((struct publication *)arg)->peers;
    (void)out;
    for (size_t i = 0; i < count; i++) {
        struct vv_holders holders = {.id = questions[i].id};
        for (uint32_t at = 0; at + 4 <= questions[i].size && holders.count < VV_HOLDERS_MAX; at += 4) {
            uint32_t rank = vv_get32((const uint8_t *)questions[i].data + at);
            if (rank < peers->comm->ranks)
                holders.ranks[holders.count++] = rank;
        }
        vv_buf_append(&peers->directory, &holders, sizeof holders);
        sizes[i] = 0;
    }
    return peers->directory.failed;
}

static int take_nothing(void *arg, size_t index, const void *data, uint32_t size) {
    (void)arg, (void)index, (void)data, (void)size;
    return 0;
}

int vv_peers_look(struct vv_peers *peers, const struct vv_attempt *attempts, size_t count, struct varve_error *error) {
    static const struct vv_hops_ops ops = {.merge = merge, .answer = keep, .take = take_nothing};
    struct publication publication = {.peers = peers};
    int rc = 0;
    if (peers->mode != VV_PEERS_LOCAL)
        return 0;
    peers->directory.size = peers->known.size = 0;
    peers->directory.failed = 0;
    vv_put32(publication.rank, peers->comm->rank);
    vv_buf_init(&publication.questions);
    for (size_t i = 0; i < count && rc == 0 && peers->is_leader; i++)
        rc = list_attempt(&publication, &attempts[i], error);
    rc = vv_comm_agree(peers->comm, rc, error);
    if (rc == 0)
        rc = vv_hops_ask(peers->hops, (const struct vv_question *)publication.questions.data,
                         publication.questions.size / sizeof(struct vv_question), &ops, &publication, NULL, error);
    vv_buf_clear(&publication.questions);
    return rc;
}
