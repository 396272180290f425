/* How the ranks find each other.
 *
 * All connect to rank 0 and tell it where they listen. When all have come, rank 0 tells everybody about all of them,
 * and a number drawn by lot, from which the key of this group is made. Then the ranks build the tree of their monitors.
 * The connections to rank 0 stay until all are ready, so that a rank that dies meanwhile is missed at once. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "comm_env.h"

#define ATTEMPT_SECONDS 5
#define PAUSE_NS 50000000
#define PAUSE_LEAST_NS 2000000 /* rank 0 is mostly there a moment later */
#define PAUSE_MOST_NS 500000000
#define OTHER_FILES 64 /* that a process has open, beside one for each rank */
#define TICK_MS 50
#define GRACE_SECONDS 5

/* ---- addresses ---- */

static int resolve(const struct vv_env_plan *plan, struct addrinfo **out) {
    char port[8];
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    snprintf(port, sizeof port, "%u", plan->port);
    return getaddrinfo(plan->host, port, &hints, out);
}

/* FNV-1a. */
static uint64_t hash_text(uint64_t hash, const char *text) {
    for (; *text; text++)
        hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    return (hash ^ 0xff) * UINT64_C(0x100000001b3);
}

/* Containers of one host have its boot id, and names of their own. */
static void name_node(struct vv_env_card *card) {
    char boot[64] = "", host[256] = "";
    const char *domain = secure_getenv("VARVE_DOMAIN");
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file) {
        if (!fgets(boot, sizeof boot, file))
            boot[0] = 0;
        fclose(file);
    }
    gethostname(host, sizeof host - 1);
    card->host = hash_text(hash_text(UINT64_C(0xcbf29ce484222325), boot), host);
    card->has_domain = domain && *domain;
    card->domain = card->has_domain ? hash_text(UINT64_C(0xcbf29ce484222325), domain) : 0;
}

/* ::1 or 127.0.0.1, whichever there is, where no other host takes part. */
static int listen_at(const struct vv_env_plan *plan, uint16_t port) {
    struct addrinfo *all = NULL;
    int fd = -EADDRNOTAVAIL;
    if (!plan->is_loopback || resolve(plan, &all) != 0)
        return vv_env_listen_any(plan->is_loopback, port);
    for (struct addrinfo *one = all; one && fd < 0 && fd != -EADDRINUSE; one = one->ai_next) {
        struct sockaddr_storage address = {0};
        memcpy(&address, one->ai_addr, one->ai_addrlen);
        vv_env_set_port(&address, port);
        fd = vv_env_listen((struct sockaddr *)&address, one->ai_addrlen);
    }
    freeaddrinfo(all);
    return fd;
}

static int listen_here(struct vv_env_group *group, struct vv_env_card *card, struct varve_error *error) {
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    int fd = listen_at(&group->plan, 0);
    int rc = fd >= 0 && getsockname(fd, (struct sockaddr *)&address, &size) != 0 ? -errno : 0;
    group->door.listener = fd >= 0 ? fd : -1;
    card->port = vv_env_port_of(&address);
    group->root = address; /* 127.0.1.1, say: all listen there, though what connects to it comes from 127.0.0.1 */
    rc = fd < 0 ? fd : rc;
    return rc == 0 ? 0 : vv_env_refuse(error, rc, "rank %u cannot listen: %s", group->plan.rank, strerror(-rc));
}

/* Of the table and the cards, for the connection that this proof was sent on. */
static int mac_table(const struct vv_env_group *group, const struct vv_env_table *table, const uint8_t *proof,
                     uint8_t out[VV_ENV_KEY]) {
    uint8_t cards[VV_ENV_KEY];
    const struct vv_env_part parts[] = {{table, sizeof *table}, {cards, sizeof cards}, {proof, VV_ENV_KEY}};
    int rc =
        vv_env_mac_of(table->token, sizeof table->token, group->cards, group->plan.ranks * sizeof *group->cards, cards);
    return rc ? rc : vv_env_mac(group->plan.key, "table", parts, 3, out);
}

/* When all have come, perhaps at the last moment, there is time to build the tree. Rank 0 gives up first: it knows
 * which rank is late. */
static void give_grace(struct vv_env_limit *limit, int times) {
    int64_t until = vv_env_now() + times * GRACE_SECONDS * VV_ENV_SECOND;
    limit->until = until > limit->until ? until : limit->until;
}

/* ---- rank 0 ---- */

struct root {
    struct vv_env_group *group;
    struct vv_env_limit limit;
    struct vv_env_door door;
    int *fds; /* of the ranks that have joined; -1: not yet */
    struct vv_env_proof *proofs;
    uint8_t *is_ready;
    struct pollfd *polled;
    uint32_t joined, ready;
    int is_full; /* all have come: nobody may go any more */
};

static enum vv_env_verdict judge_join(void *arg, const struct vv_env_hello *hello) {
    const struct root *root = arg;
    if (hello->purpose != VV_ENV_JOIN)
        return VV_ENV_NOT_HERE;
    return root->fds[hello->from] < 0 ? VV_ENV_WELCOME : VV_ENV_IS_TAKEN;
}

static void take_join(void *arg, const struct vv_env_hello *hello, const struct vv_env_proof *proof, int fd) {
    struct root *root = arg;
    root->fds[hello->from] = fd;
    root->proofs[hello->from] = *proof;
    root->group->cards[hello->from] = proof->card;
    root->joined++;
}

/* The job before may still be ending, or a session of this one be opening. */
static int open_port(struct root *root, struct varve_error *error) {
    const struct vv_env_plan *plan = &root->group->plan;
    int fd = listen_at(plan, plan->port);
    while (fd == -EADDRINUSE && vv_env_now() < root->limit.until) {
        vv_env_pause(PAUSE_NS);
        fd = listen_at(plan, plan->port);
    }
    root->door.listener = fd >= 0 ? fd : -1;
    return fd >= 0
               ? 0
               : vv_env_refuse(error, fd, "rank 0 cannot listen at port %u of %s: %s; VARVE_PORT names another port",
                               plan->port, plan->host, strerror(-fd));
}

static int report_late(const struct root *root, struct varve_error *error) {
    const struct vv_env_plan *plan = &root->group->plan;
    char names[160] = "";
    size_t used = 0;
    uint32_t late = 0;
    for (uint32_t rank = 1; rank < plan->ranks; rank++)
        if (root->is_full ? !root->is_ready[rank] : root->fds[rank] < 0) {
            if (late++ < 10 && used < sizeof names)
                used += (size_t)snprintf(names + used, sizeof names - used, "%s%u", late > 1 ? ", " : "", rank);
        }
    return vv_env_refuse(error, -ECOMM,
                         "%u of %u ranks %s rank 0 at %s, port %u, in %d s (VARVE_CONNECT_SECONDS): rank%s %s%s", late,
                         plan->ranks, root->is_full ? "were not ready for" : "did not come to", plan->host, plan->port,
                         plan->connect_seconds, late == 1 ? "" : "s", names, late > 10 ? " and others" : "");
}

/* A rank that has joined is ready, or gone. */
static int hear_joined(struct root *root, uint32_t rank, struct varve_error *error) {
    uint8_t byte = 0;
    ssize_t got = recv(root->fds[rank], &byte, 1, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return 0;
    if (got == 1 && byte == VV_ENV_READY && root->is_full && !root->is_ready[rank]) {
        root->is_ready[rank] = 1;
        root->ready++;
        return 0;
    }
    if (root->is_full)
        return vv_env_refuse(error, -ECOMM, "rank %u has gone while the job was starting", rank);
    vv_env_close_fd(root->fds[rank]); /* it may come again */
    root->fds[rank] = -1;
    root->joined--;
    return 0;
}

static int wait_once(struct root *root, struct varve_error *error) {
    uint32_t ranks = root->group->plan.ranks;
    size_t guests = root->is_full ? 0 : vv_env_door_poll(&root->door, root->polled), count = guests;
    for (uint32_t rank = 1; rank < ranks; rank++)
        root->polled[count++] = (struct pollfd){.fd = root->fds[rank], .events = POLLIN};
    int rc = poll(root->polled, count, TICK_MS);
    if (rc < 0)
        return errno == EINTR ? 0 : vv_env_refuse(error, -errno, "rank 0 cannot wait: %s", strerror(errno));
    for (uint32_t rank = 1; rank < ranks; rank++)
        if (root->polled[guests + rank - 1].revents && (rc = hear_joined(root, rank, error)) < 0)
            return rc;
    if (guests)
        vv_env_door_serve(&root->door, root->polled, guests);
    return vv_env_now() < root->limit.until ? 0 : report_late(root, error);
}

static int tell_rank(struct root *root, uint32_t rank, const void *data, size_t size, struct varve_error *error) {
    int rc = vv_env_send_all(root->fds[rank], data, size, &root->limit);
    return rc == 0
               ? 0
               : vv_env_refuse(error, -ECOMM, "rank %u has gone while the job was starting: %s", rank, strerror(-rc));
}

static int tell_go(struct root *root, struct varve_error *error) {
    uint8_t go = VV_ENV_GO;
    int rc = 0;
    for (uint32_t rank = 1; rank < root->group->plan.ranks && rc == 0; rank++)
        rc = tell_rank(root, rank, &go, 1, error);
    return rc;
}

static int make_group_key(struct vv_env_group *group, const uint8_t *token, struct varve_error *error) {
    const struct vv_env_part part = {token, VV_ENV_KEY};
    int rc = vv_env_mac(group->plan.key, "group", &part, 1, group->key);
    return rc ? vv_env_refuse(error, rc, "libcrypto cannot compute HMAC-SHA256") : 0;
}

static int tell_table(struct root *root, struct varve_error *error) {
    struct vv_env_group *group = root->group;
    struct vv_env_table table = {.magic = VV_ENV_MAGIC, .ranks = group->plan.ranks};
    int rc = vv_env_random(table.token, sizeof table.token);
    rc = rc ? vv_env_refuse(error, rc, "no random numbers: %s", strerror(-rc))
            : make_group_key(group, table.token, error);
    for (uint32_t rank = 1; rank < group->plan.ranks && rc == 0; rank++) {
        uint8_t mac[VV_ENV_KEY];
        if (mac_table(group, &table, root->proofs[rank].mac, mac) != 0)
            return vv_env_refuse(error, -EIO, "libcrypto cannot compute HMAC-SHA256");
        rc = tell_rank(root, rank, &table, sizeof table, error);
        if (rc == 0)
            rc = tell_rank(root, rank, group->cards, group->plan.ranks * sizeof *group->cards, error);
        if (rc == 0)
            rc = tell_rank(root, rank, mac, sizeof mac, error);
    }
    return rc;
}

static int is_tree_whole(struct vv_env_group *group) {
    pthread_mutex_lock(&group->lock);
    int is_whole = group->missing == 0;
    pthread_mutex_unlock(&group->lock);
    return is_whole;
}

/* Said at once: later, the kernel would only leave the last ranks waiting. */
static int check_files(const struct vv_env_plan *plan, struct varve_error *error) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= (rlim_t)plan->ranks + OTHER_FILES)
        return 0;
    return vv_env_refuse(error, -EMFILE,
                         "rank 0 of %u ranks may open %llu files, and needs %u while the job starts: "
                         "raise it with `ulimit -n`",
                         plan->ranks, (unsigned long long)files.rlim_cur, plan->ranks + OTHER_FILES);
}

static int lead(struct root *root, struct varve_error *error) {
    struct vv_env_group *group = root->group;
    int rc = check_files(&group->plan, error);
    if (rc == 0)
        rc = open_port(root, error);
    while (rc == 0 && root->joined + 1 < group->plan.ranks)
        rc = wait_once(root, error);
    root->is_full = 1;
    give_grace(&root->limit, 1);
    vv_env_door_close(&root->door); /* for the next session of the job */
    if (rc == 0)
        rc = tell_table(root, error);
    if (rc == 0)
        rc = vv_env_monitor_start(group, &root->limit, error);
    while (rc == 0 && (root->ready + 1 < group->plan.ranks || !is_tree_whole(group)))
        rc = wait_once(root, error);
    return rc ? rc : tell_go(root, error);
}

static int meet_as_root(struct vv_env_group *group, const struct vv_env_limit *limit, struct varve_error *error) {
    uint32_t ranks = group->plan.ranks;
    struct root *root = calloc(1, sizeof *root);
    int rc = -ENOMEM;
    if (!root)
        return vv_env_refuse(error, rc, "no memory to start the job");
    root->group = group;
    root->limit = *limit;
    root->door = (struct vv_env_door){.listener = -1,
                                      .key = group->plan.key,
                                      .ranks = ranks,
                                      .peer_seconds = group->plan.peer_seconds,
                                      .judge = judge_join,
                                      .welcome = take_join,
                                      .arg = root};
    root->fds = malloc(ranks * sizeof *root->fds);
    root->proofs = calloc(ranks, sizeof *root->proofs);
    root->is_ready = calloc(ranks, 1);
    root->polled = calloc((size_t)ranks + VV_ENV_GUESTS + 1, sizeof *root->polled);
    for (uint32_t rank = 0; root->fds && rank < ranks; rank++)
        root->fds[rank] = -1;
    if (root->fds && root->proofs && root->is_ready && root->polled)
        rc = lead(root, error);
    else
        vv_env_refuse(error, rc, "no memory to start the job");
    vv_env_door_close(&root->door);
    for (uint32_t rank = 0; root->fds && rank < ranks; rank++)
        vv_env_close_fd(root->fds[rank]);
    free(root->fds);
    free(root->proofs);
    free(root->is_ready);
    free(root->polled);
    free(root);
    return rc;
}

/* ---- the others ---- */

/* -EAGAIN: worth another attempt, with the reason if there is none. */
static int judge_failure(struct vv_env_group *group, int rc, const struct vv_env_answer *answer,
                         struct varve_error *error) {
    const struct vv_env_plan *plan = &group->plan;
    int is_answer = rc == -EACCES || rc == -EPROTO || rc == -EREMOTEIO;
    if (group->was_answered && !is_answer) /* tells less: rank 0 has given up meanwhile, or there was too little time */
        return -EAGAIN;
    group->was_answered = is_answer;
    const char *why = rc == -EACCES   ? "it does not have the secret of this job, or is of another job"
                      : rc == -EPROTO ? "it is no rank 0 of a job with Varve"
                                      : strerror(-rc);
    if (rc == -EREMOTEIO && answer->verdict == VV_ENV_OTHER_SIZE)
        return vv_env_refuse(error, -EINVAL, "WORLD_SIZE is %u on rank %u, and %u on rank 0", plan->ranks, plan->rank,
                             answer->ranks);
    if (rc == -EREMOTEIO && answer->verdict == VV_ENV_IS_TAKEN)
        why = "another process with this RANK has come";
    else if (rc == -EREMOTEIO)
        why = "refused";
    vv_env_refuse(error, -ECOMM, "rank %u cannot join rank 0 at %s, port %u, in %d s (VARVE_CONNECT_SECONDS): %s",
                  plan->rank, plan->host, plan->port, plan->connect_seconds, why);
    return -EAGAIN;
}

/* One attempt, at all addresses of the name: a connection, -EAGAIN, or an error that stays. */
static int try_root(struct vv_env_group *group, const struct vv_env_card *card, const struct vv_env_limit *limit,
                    struct varve_error *error) {
    const struct vv_env_plan *plan = &group->plan;
    struct vv_env_call call = {.purpose = VV_ENV_JOIN,
                               .from = plan->rank,
                               .ranks = plan->ranks,
                               .key = plan->key,
                               .card = card,
                               .proof = group->proof,
                               .peer_seconds = plan->peer_seconds};
    struct addrinfo *all = NULL;
    int fd = -EAGAIN, rc = resolve(plan, &all);
    if (rc) {
        vv_env_refuse(error, -ECOMM, "rank %u cannot find the host of rank 0, MASTER_ADDR \"%s\": %s", plan->rank,
                      plan->host, gai_strerror(rc));
        return -EAGAIN;
    }
    for (struct addrinfo *one = all; one && fd == -EAGAIN; one = one->ai_next) {
        struct vv_env_limit attempt = {vv_env_now() + ATTEMPT_SECONDS * VV_ENV_SECOND, NULL};
        struct vv_env_answer answer = {0};
        attempt.until = attempt.until < limit->until ? attempt.until : limit->until;
        memcpy(&call.address, one->ai_addr, one->ai_addrlen);
        fd = vv_env_connect(&call, &attempt, &answer);
        if (fd < 0)
            fd = judge_failure(group, fd, &answer, error);
        else
            group->root = call.address;
    }
    freeaddrinfo(all);
    return fd;
}

/* Who has joined waits longer than rank 0, which knows who is missing and says so before all leave. */
static int join_root(struct vv_env_group *group, const struct vv_env_card *card, const struct vv_env_limit *limit,
                     struct vv_env_table *table, struct varve_error *error) {
    const struct vv_env_plan *plan = &group->plan;
    const struct vv_env_limit patient = {limit->until + GRACE_SECONDS * VV_ENV_SECOND, NULL};
    int64_t pause = PAUSE_LEAST_NS;
    vv_env_refuse(error, -ECOMM, "%s", "");
    for (;;) {
        int fd = try_root(group, card, limit, error);
        if (fd < 0 && fd != -EAGAIN)
            return fd;
        int rc = fd >= 0 ? vv_env_receive_all(fd, table, sizeof *table, &patient) : -EAGAIN;
        if (rc == 0)
            return fd;
        vv_env_close_fd(fd);
        if (fd >= 0)
            vv_env_refuse(error, -ECOMM,
                          "rank %u had joined rank 0 at %s, port %u, which then gave up: %s; what it "
                          "says itself tells more",
                          plan->rank, plan->host, plan->port, strerror(-rc));
        vv_env_pause(pause + pause * (int64_t)(plan->rank % 64) / 64); /* not all at the same time */
        pause = 2 * pause < PAUSE_MOST_NS ? 2 * pause : PAUSE_MOST_NS;
        if (vv_env_now() >= limit->until)
            return -ECOMM;
    }
}

/* The cards are as good as their makers, which have the key. */
static int take_table(struct vv_env_group *group, int fd, const struct vv_env_table *table,
                      const struct vv_env_limit *limit, struct varve_error *error) {
    if (table->magic != VV_ENV_MAGIC || table->ranks != group->plan.ranks)
        return vv_env_refuse(error, -EPROTO, "rank 0 has sent a table that makes no sense");
    uint8_t sent[VV_ENV_KEY], mac[VV_ENV_KEY];
    int rc = vv_env_receive_all(fd, group->cards, group->plan.ranks * sizeof *group->cards, limit);
    if (rc == 0)
        rc = vv_env_receive_all(fd, sent, sizeof sent, limit);
    if (rc)
        return vv_env_refuse(error, -ECOMM, "rank 0 has gone while the job was starting: %s", strerror(-rc));
    if (mac_table(group, table, group->proof, mac) != 0 || !vv_env_is_same(mac, sent, sizeof mac))
        return vv_env_refuse(error, -EPROTO,
                             "the table of ranks is not as rank 0 has sent it to rank %u: "
                             "something between them has changed it",
                             group->plan.rank);
    return make_group_key(group, table->token, error);
}

static int follow(struct vv_env_group *group, int fd, const struct vv_env_table *table,
                  const struct vv_env_limit *limit, struct varve_error *error) {
    const struct vv_env_limit or_broken = {limit->until, &group->is_broken};
    uint8_t byte = VV_ENV_READY;
    int rc = take_table(group, fd, table, limit, error);
    if (rc == 0)
        rc = vv_env_monitor_start(group, limit, error);
    if (rc == 0)
        rc = vv_env_monitor_await(group, limit, error);
    if (rc)
        return rc;
    rc = vv_env_send_all(fd, &byte, 1, &or_broken);
    if (rc == 0)
        rc = vv_env_receive_all(fd, &byte, 1, &or_broken);
    if (rc || byte != VV_ENV_GO)
        return vv_env_refuse(error, -ECOMM, "rank %u was ready, and the job did not start: %s", group->plan.rank,
                             rc == -ECANCELED ? group->reason : strerror(rc ? -rc : EPROTO));
    return 0;
}

int vv_env_meet(struct vv_env_group *group, struct varve_error *error) {
    struct vv_env_limit limit = {vv_env_now() + group->plan.connect_seconds * VV_ENV_SECOND, NULL};
    struct vv_env_table table;
    struct vv_env_card *card = &group->cards[group->plan.rank];
    int rc = listen_here(group, card, error);
    if (rc)
        return rc;
    name_node(card);
    card->is_loopback = 1; /* rank 0 has no other address than the one at which it was reached */
    if (group->plan.rank == 0)
        return meet_as_root(group, &limit, error);
    struct vv_env_card own = *card;
    int fd = join_root(group, &own, &limit, &table, error);
    if (fd < 0)
        return fd;
    give_grace(&limit, 2);
    rc = follow(group, fd, &table, &limit, error);
    vv_env_close_fd(fd);
    return rc;
}
