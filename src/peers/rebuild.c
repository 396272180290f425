/* Node-local stores with parity: bytes of a pack that no node has any more (docs/format.md 6).
 *
 * They are read as if the pack were there: what is asked for is put together from data and parity of the other members
 * of its group, a few slices at a time. A slice whose sum is wrong counts as lost. Whoever reads checks the bytes by
 * what checks all packs: parity is believed for nothing. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "encode/erasure.h"
#include "peers/peers_private.h"
#include "store/parity_reader.h"
#include "store/read_costs.h"

#define SPAN VV_QUESTION /* bytes of a row that are rebuilt at a time */

/* The parity object of a member. */
struct kept {
    uint32_t rank, writer;
    uint8_t *sums; /* NULL: it is not there, or damaged */
};

struct vv_group {
    struct vv_group *next;
    struct vv_attempt attempt;
    struct vv_parity parity; /* of whichever was read first: its member means nothing */
    struct kept kept[VV_PARITY_MEMBERS_MAX];
    uint32_t told; /* members whose loss was logged: a bit for each */
};

static void free_group(struct vv_group *group) {
    for (uint32_t i = 0; i < VV_PARITY_MEMBERS_MAX; i++)
        vv_free(group->kept[i].sums);
    vv_parity_clear(&group->parity);
    vv_free(group);
}

void vv_groups_clear(struct vv_peers *peers) {
    while (peers->groups) {
        struct vv_group *group = peers->groups;
        peers->groups = group->next;
        free_group(group);
    }
}

/* ---- parity objects ---- */

struct asked {
    struct vv_peers *peers;
    uint32_t rank;
    struct vv_key key;
};

static int asked_size(void *arg, uint64_t *out, struct varve_error *error) {
    const struct asked *asked = arg;
    int rc = vv_peers_size_from(asked->peers, asked->rank, &asked->key, out);
    return rc < 0 ? vv_error_sys(error, rc, "parity of rank %u", asked->rank) : 0;
}

static int asked_get(void *arg, uint64_t offset, void *data, size_t size, struct varve_error *error) {
    const struct asked *asked = arg;
    int64_t got = vv_peers_get_from(asked->peers, asked->rank, &asked->key, offset, data, size);
    if (got >= 0 && (size_t)got < size)
        return vv_error(error, VARVE_CORRUPT, "parity of rank %u ends too early", asked->rank);
    return got < 0 ? vv_error_sys(error, (int)got, "parity of rank %u", asked->rank) : 0;
}

/* Do both say the same of the group? */
static int is_same_group(const struct vv_parity *a, const struct vv_parity *b) {
    if (a->data != b->data || a->parity != b->parity || a->count != b->count)
        return 0;
    for (uint32_t i = 0; i < a->count; i++) {
        const struct vv_covered *x = &a->list[i], *y = &b->list[i];
        if (x->member != y->member || x->writer != y->writer || x->part != y->part || x->is_pack != y->is_pack ||
            x->length != y->length)
            return 0;
    }
    return 1;
}

/* What cannot be read is as if it were lost; only no memory ends it. */
static int load_kept(struct vv_peers *peers, struct vv_group *group, uint32_t rank, uint32_t writer) {
    struct asked asked = {peers, rank, vv_attempt_key(peers->name, &group->attempt, VV_KIND_PARITY, writer, 0)};
    struct vv_parity_source source = {asked.key, peers->own->id, asked_size, asked_get, &asked};
    struct vv_parity parity;
    struct varve_error why = {0};
    uint8_t *sums = NULL;
    int rc = vv_parity_load(&source, &parity, &why);
    if (rc == 0)
        rc = vv_parity_sums_load(&source, &parity, &sums, &why);
    else
        parity = (struct vv_parity){0};
    if (rc == 0 && !group->parity.list) {
        group->parity = parity;
        parity.list = NULL;
    } else if (rc == 0 && !is_same_group(&group->parity, &parity))
        rc = vv_error(&why, VARVE_CORRUPT, "parity of writer %u is of another group", writer);
    if (rc == 0 && !group->kept[parity.member].sums) {
        group->kept[parity.member] = (struct kept){rank, writer, sums};
        sums = NULL;
    }
    vv_free(sums);
    vv_parity_clear(&parity);
    if (rc < 0 && rc != -ENOMEM)
        vv_log(peers->own->log, VV_LOG_WARN, "parity is passed over: %s", why.text);
    return rc == -ENOMEM ? rc : 0;
}

/* ---- groups ---- */

/* The pack or part in the list; where its stream is before it. */
static const struct vv_covered *find_object(const struct vv_parity *parity, const struct vv_key *key,
                                            uint64_t *before_out) {
    int is_pack = key->kind != VV_KIND_PART;
    uint64_t before = 0;
    for (uint32_t i = 0; i < parity->count; i++) {
        const struct vv_covered *at = &parity->list[i];
        if (i && at->member != at[-1].member)
            before = 0;
        if (at->writer == key->writer && (int)at->is_pack == is_pack && (is_pack || at->part == key->part)) {
            *before_out = before;
            return at;
        }
        before += at->length;
    }
    return NULL;
}

static int load_group(struct vv_peers *peers, const struct vv_key *key, struct vv_group **out) {
    struct vv_key asked = *key;
    struct vv_holders holders;
    uint64_t before;
    asked.kind = VV_KIND_PARITY;
    asked.part = 0;
    int rc = vv_peers_find_holders(peers, &asked, &holders);
    if (rc < 0 || holders.count == 0)
        return rc < 0 ? rc : -ENOENT;
    struct vv_group *group = vv_calloc(1, sizeof *group);
    if (!group)
        return -ENOMEM;
    group->attempt = (struct vv_attempt){key->generation, key->attempt, key->version};
    for (uint32_t i = 0; i < holders.count && rc == 0; i++)
        rc = load_kept(peers, group, holders.ranks[i], holders.writers[i]);
    if (rc == 0 && !find_object(&group->parity, key, &before))
        rc = -ENOENT;
    if (rc < 0) {
        free_group(group);
        return rc;
    }
    group->next = peers->groups;
    *out = peers->groups = group;
    return 0;
}

/* Once it is there it stays, and only `told` changes. */
static int use_group(struct vv_peers *peers, const struct vv_key *key, struct vv_group **out) {
    struct vv_attempt attempt = {key->generation, key->attempt, key->version};
    struct vv_group *group = NULL;
    uint64_t before;
    int rc = 0;
    if (!peers->is_running || (key->kind != VV_KIND_PACK && key->kind != VV_KIND_PART))
        return -ENOENT;
    pthread_mutex_lock(&peers->groups_lock);
    for (group = peers->groups; group; group = group->next)
        if (vv_attempt_compare(&group->attempt, &attempt) == 0 && find_object(&group->parity, key, &before))
            break;
    if (!group)
        rc = load_group(peers, key, &group);
    pthread_mutex_unlock(&peers->groups_lock);
    *out = group;
    return rc;
}

/* ---- sources ---- */

static struct vv_key key_of(const struct vv_peers *peers, const struct vv_group *group,
                            const struct vv_covered *covered) {
    return vv_attempt_key(peers->name, &group->attempt, covered->is_pack ? VV_KIND_PACK : VV_KIND_PART, covered->writer,
                          covered->is_pack ? 0 : covered->part);
}

/* Bytes of the stream of a member whose packs are there; zeros behind its end. 0 or an error. */
static int read_stream(struct vv_peers *peers, const struct vv_group *group, uint32_t member, uint64_t from,
                       uint8_t *data, size_t size) {
    uint64_t before = 0;
    size_t done = 0;
    for (uint32_t i = 0; i < group->parity.count && done < size; i++) {
        const struct vv_covered *at = &group->parity.list[i];
        uint64_t x = from + done;
        if (at->member != member)
            continue;
        if (x < before + at->length) {
            size_t part = before + at->length - x < size - done ? (size_t)(before + at->length - x) : size - done;
            struct vv_key key = key_of(peers, group, at);
            struct vv_holders holders;
            int rc = vv_peers_find_holders(peers, &key, &holders);
            int64_t got = rc < 0 ? rc : -ENOENT;
            for (uint32_t h = 0; h < holders.count && got < 0; h++)
                got = vv_peers_get_from(peers, holders.ranks[h], &key, x - before, data + done, part);
            if (got < 0 || (size_t)got < part)
                return got < 0 ? (int)got : -EIO;
            done += part;
        }
        before += at->length;
    }
    memset(data + done, 0, size - done);
    return 0;
}

static int has_stream(struct vv_peers *peers, const struct vv_group *group, uint32_t member) {
    for (uint32_t i = 0; i < group->parity.count; i++) {
        const struct vv_covered *at = &group->parity.list[i];
        struct vv_key key = key_of(peers, group, at);
        struct vv_holders holders;
        if (at->member != member || !at->is_pack)
            continue;
        int rc = vv_peers_find_holders(peers, &key, &holders);
        if (rc < 0 || holders.count == 0)
            return rc < 0 ? rc : 0;
    }
    return 1;
}

/* Symbol number `symbol` of a row, its data or, from there on, its parity. */
static uint32_t member_with(const struct vv_parity *parity, uint32_t row, uint32_t symbol) {
    return symbol < parity->data ? vv_parity_data_member(parity, row, symbol)
                                 : vv_parity_member(parity, row, symbol - parity->data);
}

/* The sums of a row's slice, from this parity of it: of the data, then of itself. */
static const uint8_t *sums_of(const struct vv_group *group, uint32_t row, uint32_t number, uint64_t slice) {
    struct vv_parity of = group->parity;
    of.member = vv_parity_member(&of, row, number);
    const uint8_t *sums = group->kept[of.member].sums;
    return sums ? sums + vv_parity_sums_at(&of, number) + slice * (of.data + 1) * VV_PARITY_SUM : NULL;
}

/* ---- a span of a row ---- */

struct span {
    struct vv_peers *peers;
    struct vv_group *group;
    uint32_t row;
    uint64_t from; /* at a slice */
    size_t size;
};

static int read_symbol(const struct span *span, uint32_t symbol, uint8_t *data) {
    const struct vv_group *group = span->group;
    uint32_t member = member_with(&group->parity, span->row, symbol);
    if (symbol < group->parity.data) {
        /* what follows the piece in its stream is in another row */
        uint64_t piece = vv_parity_piece(&group->parity, member), left = piece > span->from ? piece - span->from : 0;
        size_t size = left < span->size ? (size_t)left : span->size;
        memset(data + size, 0, span->size - size);
        return size ? read_stream(span->peers, group, member, piece * symbol + span->from, data, size) : 0;
    }
    struct vv_parity of = group->parity;
    const struct kept *kept = &group->kept[member];
    of.member = member;
    if (!kept->sums)
        return -ENOENT;
    struct vv_key key = vv_attempt_key(span->peers->name, &group->attempt, VV_KIND_PARITY, kept->writer, 0);
    int64_t got = vv_peers_get_from(span->peers, kept->rank, &key, vv_parity_offset(&of, symbol - of.data) + span->from,
                                    data, span->size);
    return got < 0 ? (int)got : (size_t)got < span->size ? -EIO : 0;
}

/* Are all slices of it as their sums say? Those of data are told by each parity. */
static int is_right(const struct span *span, uint32_t symbol, const uint8_t *data) {
    const struct vv_parity *parity = &span->group->parity;
    uint32_t number = symbol < parity->data ? 0 : symbol - parity->data;
    for (size_t at = 0; at < span->size; at += VV_PARITY_SLICE) {
        size_t size = span->size - at < VV_PARITY_SLICE ? span->size - at : VV_PARITY_SLICE;
        const uint8_t *sums = NULL;
        for (uint32_t i = number; !sums && i < (symbol < parity->data ? parity->parity : number + 1); i++)
            sums = sums_of(span->group, span->row, i, (span->from + at) / VV_PARITY_SLICE);
        uint32_t place = symbol < parity->data ? symbol : parity->data;
        if (!sums || vv_get64(sums + (size_t)place * VV_PARITY_SUM) != vv_sum64(data + at, size))
            return 0;
    }
    return 1;
}

/* As many right symbols as there are data, whichever: into room for that many spans. Which they are. */
static int gather(const struct span *span, uint32_t wanted, uint8_t *room, uint32_t *have) {
    const struct vv_parity *parity = &span->group->parity;
    uint32_t count = 0;
    int worst = -ENOENT;
    for (uint32_t symbol = 0; symbol < vv_parity_members(parity) && count < parity->data; symbol++) {
        uint8_t *data = room + (size_t)count * span->size;
        if (symbol == wanted)
            continue;
        int rc = read_symbol(span, symbol, data);
        if (rc == 0 && is_right(span, symbol, data))
            have[count++] = symbol;
        else
            worst = rc == -ENOMEM || rc == -EPROTO ? rc : worst;
    }
    return count == parity->data ? 0 : worst;
}

static int solve(const struct span *span, uint32_t wanted, uint8_t *out) {
    uint32_t data = span->group->parity.data, have[VV_PARITY_MEMBERS_MAX];
    uint8_t factors[VV_PARITY_MEMBERS_MAX], *room = vv_malloc((size_t)data * span->size);
    const uint8_t *sources[VV_PARITY_MEMBERS_MAX];
    int rc = room ? gather(span, wanted, room, have) : -ENOMEM;
    if (rc == 0)
        rc = vv_erasure_solve(data, have, wanted, factors);
    for (uint32_t i = 0; i < data; i++)
        sources[i] = room + (size_t)i * span->size;
    if (rc == 0)
        vv_erasure_sum(factors, sources, data, span->size, out);
    if (rc == 0 && !is_right(span, wanted, out))
        rc = -EIO;
    vv_free(room);
    return rc;
}

/* Slices of a row; one by one where all of them together lack too much. */
static int rebuild_span(struct span *span, uint32_t wanted, uint8_t *out) {
    int rc = solve(span, wanted, out);
    struct span one = *span;
    if (rc == 0 || rc == -ENOMEM || span->size <= VV_PARITY_SLICE)
        return rc;
    rc = 0;
    for (size_t at = 0; at < span->size && rc == 0; at += VV_PARITY_SLICE) {
        one.from = span->from + at;
        one.size = span->size - at < VV_PARITY_SLICE ? span->size - at : VV_PARITY_SLICE;
        rc = solve(&one, wanted, out + at);
    }
    return rc;
}

/* ---- what is asked for ---- */

static void tell_rebuilt(struct vv_peers *peers, struct vv_group *group, uint32_t member, const struct vv_key *key) {
    char text[VV_KEY_CAPACITY];
    pthread_mutex_lock(&peers->groups_lock);
    int is_told = (int)(group->told >> member & 1);
    group->told |= 1u << member;
    pthread_mutex_unlock(&peers->groups_lock);
    vv_key_print(key, text);
    if (!is_told)
        vv_log(peers->own->log, VV_LOG_WARN, "%s is on no node of this job: it is rebuilt from parity", text);
}

/* From byte x of a member's stream on, up to the end of its piece and of a span: how many, or an error. */
static int64_t rebuild_some(struct vv_peers *peers, struct vv_group *group, uint32_t member, uint64_t x, uint8_t *data,
                            size_t size) {
    const struct vv_parity *parity = &group->parity;
    uint64_t piece = vv_parity_piece(parity, member), number = x / piece, from = x % piece;
    struct span span = {peers, group, vv_parity_data_row(parity, member, (uint32_t)number),
                        from / VV_PARITY_SLICE * VV_PARITY_SLICE, 0};
    uint64_t row_left = vv_parity_row_length(parity, span.row) - span.from, skip = from - span.from;
    uint64_t wanted = piece - from < size ? piece - from : size;
    uint64_t end = (skip + wanted + VV_PARITY_SLICE - 1) / VV_PARITY_SLICE * VV_PARITY_SLICE;
    end = end < SPAN ? end : SPAN;
    span.size = (size_t)(end < row_left ? end : row_left);
    wanted = wanted < span.size - skip ? wanted : span.size - skip;
    uint8_t *out = vv_malloc(span.size);
    int rc = out ? rebuild_span(&span, (uint32_t)number, out) : -ENOMEM;
    if (rc == 0)
        memcpy(data, out + skip, (size_t)wanted);
    vv_free(out);
    return rc ? rc : (int64_t)wanted;
}

int64_t vv_peers_rebuild(struct vv_peers *peers, const struct vv_key *key, uint64_t offset, void *data, size_t size) {
    struct vv_group *group = NULL;
    uint64_t before = 0;
    int rc = use_group(peers, key, &group);
    if (rc < 0)
        return rc;
    const struct vv_covered *at = find_object(&group->parity, key, &before);
    if (offset >= at->length)
        return 0;
    size_t wanted = at->length - offset < size ? (size_t)(at->length - offset) : size, done = 0;
    tell_rebuilt(peers, group, at->member, key);
    while (done < wanted) {
        int64_t some =
            rebuild_some(peers, group, at->member, before + offset + done, (uint8_t *)data + done, wanted - done);
        if (some < 0)
            return some;
        done += (size_t)some;
    }
    peers->own->costs->bytes_rebuilt += done;
    return (int64_t)done;
}

int vv_peers_rebuild_size(struct vv_peers *peers, const struct vv_key *key, uint64_t *out) {
    struct vv_group *group = NULL;
    uint64_t before = 0;
    int rc = use_group(peers, key, &group);
    if (rc == 0)
        *out = find_object(&group->parity, key, &before)->length;
    return rc;
}

/* ---- what there is ---- */

static int not_asked(struct varve_error *error, int rc) {
    return vv_error_sys(error, rc, "the other nodes cannot be asked for parity");
}

int vv_peers_can_rebuild(struct vv_peers *peers, const struct vv_key *key, struct varve_error *error) {
    int has[VV_PARITY_MEMBERS_MAX], is_enough = 1;
    struct vv_group *group = NULL;
    uint64_t before;
    int rc = use_group(peers, key, &group);
    if (rc < 0)
        return rc == -ENOENT ? 0 : not_asked(error, rc);
    const struct vv_parity *parity = &group->parity;
    for (uint32_t i = 0; i < vv_parity_members(parity); i++)
        if ((has[i] = has_stream(peers, group, i)) < 0)
            return not_asked(error, has[i]);
    uint32_t member = find_object(parity, key, &before)->member;
    has[member] = 0;
    for (uint32_t number = 0; number < parity->data; number++) {
        uint32_t row = vv_parity_data_row(parity, member, number), count = 0;
        for (uint32_t symbol = 0; symbol < vv_parity_members(parity); symbol++) {
            uint32_t with = member_with(parity, row, symbol);
            count += symbol < parity->data ? has[with] != 0 : group->kept[with].sums != NULL;
        }
        is_enough &= count >= parity->data;
    }
    return is_enough;
}

int vv_peers_parity(struct vv_peers *peers, const struct vv_key *key, struct varve_error *error) {
    struct vv_group *group = NULL;
    uint64_t before;
    int rc = use_group(peers, key, &group);
    if (rc < 0)
        return rc == -ENOENT ? 0 : not_asked(error, rc);
    uint32_t own = find_object(&group->parity, key, &before)->member;
    for (uint32_t i = 0; i < vv_parity_members(&group->parity); i++)
        if (i != own && !group->kept[i].sums)
            return 0;
    return (int)group->parity.parity;
}
