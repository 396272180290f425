/* What the work of a rank asks others: whom, in which words, and how it waits. */
#include <string.h>

#include "peers/peers_private.h"
#include "store/read_costs.h"

/* ---- whom: packs that are shared are read by several ranks ---- */

static struct vv_shared_pack *find_spread(const struct vv_peers *peers, const struct vv_attempt *attempt) {
    struct vv_shared_pack *list = (struct vv_shared_pack *)peers->spreads.data;
    for (size_t i = peers->spreads.size / sizeof *list; i > 0; i--)
        if (vv_attempt_compare(&list[i - 1].attempt, attempt) == 0)
            return &list[i - 1];
    return NULL;
}

uint32_t vv_peers_span(const struct vv_peers *peers, const struct vv_attempt *attempt) {
    const struct vv_shared_pack *spread = find_spread(peers, attempt);
    return spread ? spread->span : 1;
}

uint32_t vv_peers_home(const struct vv_peers *peers, const struct vv_key *key, uint64_t offset) {
    struct vv_attempt attempt = {key->generation, key->attempt, key->version};
    uint64_t span = vv_peers_span(peers, &attempt);
    return (uint32_t)((key->writer * span + (key->part + offset / VV_QUESTION) % span) % peers->comm->ranks);
}

int vv_peers_shared_pack(struct vv_peers *peers, const struct vv_attempt *attempt, uint32_t writers) {
    struct vv_shared_pack spread = {*attempt, writers ? peers->comm->ranks / writers : 1};
    if (spread.span < 2 || find_spread(peers, attempt))
        return 0;
    vv_buf_append(&peers->spreads, &spread, sizeof spread);
    return peers->spreads.failed;
}

/* ---- in which words ---- */

struct vv_hash128 vv_peers_key_id(const char *key) {
    return vv_digest(key, strlen(key));
}

void vv_peers_begin_question(struct vv_buf *buf, int kind, const char *key, uint64_t offset) {
    size_t size = strnlen(key, VV_KEY_CAPACITY - 1);
    vv_buf_u32(buf, (uint32_t)kind);
    vv_buf_u32(buf, 0);
    vv_buf_u64(buf, offset);
    vv_buf_u16(buf, (uint16_t)size);
    vv_buf_append(buf, key, size);
}

/* ---- putting questions, and waiting for answers ---- */

static int has_answers(const struct vv_asking *list, size_t count) {
    while (count > 0 && list[count - 1].is_answered)
        count--;
    return count == 0;
}

/* The same question to the same rank has the same id, whoever asks. */
static struct vv_hash128 question_id(const struct vv_asking *asking) {
    if (asking->home == VV_HOME_BY_ID) /* who has an object: that of the publication */
        return vv_digest(asking->data + VV_QUESTION_HEAD, asking->size - VV_QUESTION_HEAD);
    struct vv_hash128 id = vv_digest(asking->data, asking->size);
    uint64_t words[3] = {id.low, id.high, asking->home};
    return vv_digest(words, sizeof words);
}

int vv_peers_put(struct vv_peers *peers, struct vv_asking *list, size_t count, const struct vv_buf *data) {
    int rc = 0;
    for (size_t i = 0; i < count; i++) {
        list[i].data = data->data + list[i].at;
        list[i].id = question_id(&list[i]);
    }
    pthread_mutex_lock(&peers->lock);
    size_t before = peers->waiting.size;
    for (size_t i = 0; i < count; i++) {
        struct vv_asking *asking = &list[i];
        vv_buf_append(&peers->waiting, &asking, sizeof asking);
    }
    if (peers->broken || peers->waiting.failed) {
        rc = peers->broken ? peers->broken : peers->waiting.failed;
        peers->waiting.size = before;
        peers->waiting.failed = 0;
    } else
        pthread_cond_signal(&peers->is_asked);
    pthread_mutex_unlock(&peers->lock);
    return rc;
}

void vv_peers_wait(struct vv_peers *peers, const struct vv_asking *list, size_t count) {
    uint64_t begin = vv_clock_ns();
    pthread_mutex_lock(&peers->lock);
    while (!has_answers(list, count))
        pthread_cond_wait(&peers->is_answered, &peers->lock);
    pthread_mutex_unlock(&peers->lock);
    vv_cost(&peers->own->costs->waiting_ns, begin);
}
