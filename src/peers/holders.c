/* Node-local stores: which nodes have what. The leaders tell, and what they tell is spread over all ranks by the hash
 * of the key: no rank's share grows with their number. */
#include <errno.h>
#include <string.h>

#include "base/search.h"
#include "peers/peers_private.h"
#include "store/parity_reader.h"

struct publication {
    struct vv_peers *peers;
    struct vv_buf questions; /* struct vv_question */
    struct vv_buf data;      /* of each: this rank, and the writer */
    struct vv_buf parities;  /* struct vv_key: those of the attempt that is listed, */
    struct vv_key at;        /* and which that is */
    char prefix[VV_KEY_CAPACITY];
};

const struct vv_holders *vv_holders_find(const struct vv_buf *list, struct vv_hash128 id) {
    const struct vv_holders *holders = (const struct vv_holders *)list->data;
    size_t at, count = list->size / sizeof *holders;
    VV_SEARCH(at, 0, count, vv_hash128_compare(holders[at].id, id) < 0);
    return at < count && vv_hash128_equal(holders[at].id, id) ? &holders[at] : NULL;
}

/* ---- a leader lists ---- */

static int publish_key(struct publication *publication, const char *text, uint32_t writer) {
    struct vv_question question = {.id = vv_peers_key_id(text), .home = VV_HOME_BY_ID, .size = VV_HOLDER_SIZE};
    vv_buf_append(&publication->questions, &question, sizeof question);
    vv_buf_u32(&publication->data, publication->peers->comm->rank);
    vv_buf_u32(&publication->data, writer);
    return publication->questions.failed ? publication->questions.failed : publication->data.failed;
}

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
    if (vv_key_parse(text, &key) < 0)
        return 0;
    if (key.kind == VV_KIND_PARITY)
        vv_buf_append(&publication->parities, &key, sizeof key);
    if (publication->parities.failed ||
        (key.kind != VV_KIND_PACK && key.kind != VV_KIND_COPY && key.kind != VV_KIND_WRITERS))
        return publication->parities.failed;
    return publish_key(publication, text, key.writer);
}

/* Parity is looked for by any pack of its group, whose number alone does not tell with whom it was in a group. What
 * cannot be read is not there. */
static int publish_parity(struct publication *publication, const struct vv_key *key) {
    struct vv_store *own = publication->peers->own;
    struct vv_parity_here here;
    struct vv_parity_source source = vv_parity_here(&here, own, key);
    struct vv_parity parity;
    struct varve_error why = {0};
    int rc = vv_parity_load(&source, &parity, &why);
    if (rc < 0) {
        vv_log(own->log, VV_LOG_WARN, "parity is passed over: %s", why.text);
        return rc == -ENOMEM ? rc : 0;
    }
    for (uint32_t i = 0; i < parity.count && rc == 0; i++) {
        struct vv_key of = *key;
        char text[VV_KEY_CAPACITY];
        of.writer = parity.list[i].writer;
        vv_key_print(&of, text);
        if (parity.list[i].is_pack)
            rc = publish_key(publication, text, key->writer);
    }
    vv_parity_clear(&parity);
    return rc;
}

static int list_attempt(struct publication *publication, const struct vv_attempt *attempt, struct varve_error *error) {
    const struct vv_peers *peers = publication->peers;
    publication->at = vv_attempt_key(peers->name, attempt, VV_KIND_WRITERS, 0, 0);
    vv_prefix_data(&publication->at, 3, publication->prefix);
    publication->parities.size = 0;
    int rc = vv_backend_list(peers->own->backend, publication->prefix, NULL, 0, add_object, publication);
    const struct vv_key *parities = (const struct vv_key *)publication->parities.data;
    for (size_t i = 0; i < publication->parities.size / sizeof *parities && rc == 0; i++)
        rc = publish_parity(publication, &parities[i]);
    return rc < 0 ? vv_error_sys(error, rc, "cannot list %s", publication->prefix) : 0;
}

/* ---- on the way, and at home ---- */

/* Several nodes have it. */
static int merge(void *arg, const struct vv_question *same, size_t count, struct vv_buf *out) {
    uint32_t size = 0;
    (void)arg;
    for (size_t i = 0; i < count; i++)
        for (uint32_t at = 0; at + VV_HOLDER_SIZE <= same[i].size && size < VV_HOLDER_SIZE * VV_HOLDERS_MAX;
             at += VV_HOLDER_SIZE, size += VV_HOLDER_SIZE)
            vv_buf_append(out, (const uint8_t *)same[i].data + at, VV_HOLDER_SIZE);
    return out->failed;
}

static int keep(void *arg, const struct vv_question *questions, size_t count, struct vv_buf *out, uint32_t *sizes) {
    struct vv_peers *peers = ((struct publication *)arg)->peers;
    (void)out;
    for (size_t i = 0; i < count; i++) {
        struct vv_holders holders = {.id = questions[i].id};
        for (uint32_t at = 0; at + VV_HOLDER_SIZE <= questions[i].size && holders.count < VV_HOLDERS_MAX;
             at += VV_HOLDER_SIZE) {
            const uint8_t *data = (const uint8_t *)questions[i].data + at;
            holders.ranks[holders.count] = vv_get32(data);
            holders.writers[holders.count] = vv_get32(data + 4);
            holders.count += holders.ranks[holders.count] < peers->comm->ranks;
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
    vv_groups_clear(peers);
    vv_buf_init(&publication.questions);
    vv_buf_init(&publication.data);
    vv_buf_init(&publication.parities);
    for (size_t i = 0; i < count && rc == 0 && peers->is_leader; i++)
        rc = list_attempt(&publication, &attempts[i], error);
    rc = vv_comm_agree(peers->comm, rc, error);
    struct vv_question *questions = (struct vv_question *)publication.questions.data;
    size_t published = publication.questions.size / sizeof *questions;
    for (size_t i = 0; i < published; i++)
        questions[i].data = publication.data.data + i * VV_HOLDER_SIZE;
    if (rc == 0)
        rc = vv_hops_ask(peers->hops, questions, published, &ops, &publication, NULL, error);
    vv_buf_clear(&publication.questions);
    vv_buf_clear(&publication.data);
    vv_buf_clear(&publication.parities);
    return rc;
}
