/* A rank and the writer it shares with others: what it says, and what it hears. */
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "write/team.h"

#define LOOK_MS 1000

void vv_client_open(struct vv_client *client, struct vv_team *team, uint32_t local) {
    *client = (struct vv_client){.team = team, .number = team->attempts};
    client->up = vv_post_up(team->post, local, team->team, team->local_first);
    client->down = vv_post_down(team->post, local);
}

/* ---- hearing ---- */

static int lost(struct vv_client *client, struct varve_error *error) {
    client->is_over = client->is_last = 1; /* nobody is there to talk to */
    vv_error(error, -ECOMM, "the process of rank %u, which writes for this one, has died", client->team->first);
    client->result.error = *error;
    return -ECOMM;
}

/* The writer's last word. 0 if it is a good one. */
static int take_result(struct vv_client *client, const void *data, size_t size, struct varve_error *error) {
    if (size != sizeof client->result)
        return vv_error(error, -EPROTO, "the writer's answer has %zu bytes", size);
    memcpy(&client->result, data, sizeof client->result);
    client->is_over = 1;
    if (client->result.number != client->number)
        return vv_error(error, -EPROTO, "the writer's answer is about another checkpoint");
    if (client->result.error.code)
        *error = client->result.error;
    return client->result.error.code;
}

static const void *wait_for_message(struct vv_client *client, uint32_t *size_out, int *rc, struct varve_error *error) {
    for (;;) {
        uint32_t seen = vv_doorbell_look(client->down.bell);
        int is_broken = 0;
        const void *message = vv_ring_peek(client->down.ring, size_out, &is_broken);
        if (message && *size_out >= sizeof(uint64_t))
            return message;
        if (message || is_broken) {
            *rc = vv_error(error, -EPROTO, "the writer's answer makes no sense");
            client->is_over = client->is_last = 1;
            return NULL;
        }
        vv_doorbell_wait(client->down.bell, seen, LOOK_MS);
        if (vv_doorbell_look(client->down.bell) == seen &&
            !vv_post_is_alive(client->down.post, client->team->local_first)) {
            *rc = lost(client, error);
            return NULL;
        }
    }
}

/* Until the writer's last word, which may come early: then something has failed. take may be NULL. */
static int hear(struct vv_client *client, int (*take)(void *arg, uint64_t kind, const uint8_t *data, size_t size),
                void *arg, struct varve_error *error) {
    int rc = 0, is_enough = 0;
    while (!is_enough && !client->is_over && rc == 0) {
        uint32_t size;
        const uint8_t *message = wait_for_message(client, &size, &rc, error);
        if (!message)
            return rc;
        uint64_t kind;
        memcpy(&kind, message, sizeof kind);
        if (kind == VV_SAY_RESULT)
            rc = take_result(client, message, size, error);
        else if (take)
            is_enough = take(arg, kind, message + sizeof kind, size - sizeof kind);
        vv_ring_drop(client->down.ring);
        if (is_enough < 0)
            rc = vv_error(error, is_enough, "the writer's list could not be taken: %s", varve_error_text(is_enough));
    }
    return rc;
}

/* ---- saying ---- */

static int say(struct vv_client *client, const void *head, size_t head_size, const void *data, size_t size,
               struct varve_error *error) {
    if (client->is_over) { /* it has told why */
        *error = client->result.error;
        return vv_error_default(error, error->code ? error->code : -ECOMM,
                                "the writer of this rank has ended the checkpoint");
    }
    int rc = vv_post_send(&client->up, head, head_size, data, size);
    if (rc == -ECOMM)
        return lost(client, error);
    return rc ? vv_error(error, rc, "new data could not be passed on: %s", varve_error_text(rc)) : 0;
}

/* Has the writer failed already? Then there is no need to send more. */
static int look_for_result(struct vv_client *client, struct varve_error *error) {
    uint32_t size;
    int is_broken = 0;
    if (client->is_over || !vv_ring_peek(client->down.ring, &size, &is_broken))
        return 0;
    return hear(client, NULL, NULL, error);
}

int vv_client_begin(struct vv_client *client, const struct vv_say_begin *begin, struct varve_error *error) {
    return say(client, begin, sizeof *begin, NULL, 0, error);
}

int vv_client_amount(struct vv_client *client, uint64_t bytes, struct varve_error *error) {
    struct vv_say_amount amount = {VV_SAY_AMOUNT, bytes};
    return say(client, &amount, sizeof amount, NULL, 0, error);
}

void vv_client_variable(struct vv_client *client, const struct vv_variable *variable) {
    client->variable = *variable;
    client->is_told = 0;
}

int vv_client_add(struct vv_client *client, const struct vv_say_chunk *chunk, const void *data,
                  struct varve_error *error) {
    int rc = look_for_result(client, error);
    if (rc == 0 && !client->is_told) {
        struct vv_say_variable variable = {VV_SAY_VARIABLE, client->variable};
        rc = say(client, &variable, sizeof variable, NULL, 0, error);
        client->is_told = 1;
    }
    return rc ? rc : say(client, chunk, sizeof *chunk, data, chunk->size, error);
}

int vv_client_moved(struct vv_client *client, const struct vv_say_chunk *chunk, uint32_t writer,
                    struct varve_error *error) {
    struct vv_say_moved moved = {VV_SAY_MOVED, chunk->address, chunk->size, writer};
    return say(client, &moved, sizeof moved, NULL, 0, error);
}

int vv_client_data_end(struct vv_client *client, struct varve_error *error) {
    uint64_t kind = VV_SAY_DATA_END;
    return say(client, &kind, sizeof kind, NULL, 0, error);
}

/* In as many messages as it takes. */
static int say_list(struct vv_client *client, uint64_t kind, const void *data, size_t size, size_t unit,
                    struct varve_error *error) {
    size_t most = (vv_post_longest(client->up.post) - sizeof kind) / unit * unit;
    int rc = 0;
    for (size_t at = 0; at < size && rc == 0; at += most)
        rc = say(client, &kind, sizeof kind, (const uint8_t *)data + at, size - at < most ? size - at : most, error);
    return rc;
}

static int take_dependencies(void *arg, uint64_t kind, const uint8_t *data, size_t size) {
    struct vv_buf *out = arg;
    if (kind == VV_SAY_DEPENDENCIES_END)
        return 1;
    if (kind != VV_SAY_DEPENDENCIES || size % sizeof(struct vv_dependency) != 0)
        return -EPROTO;
    vv_buf_append(out, data, size);
    return out->failed;
}

int vv_client_dependencies(struct vv_client *client, const struct vv_dependency *dependencies, uint32_t count,
                           struct vv_buf *out, struct varve_error *error) {
    uint64_t end = VV_SAY_DEPENDENCIES_END;
    int rc =
        say_list(client, VV_SAY_DEPENDENCIES, dependencies, count * sizeof *dependencies, sizeof *dependencies, error);
    if (rc == 0)
        rc = say(client, &end, sizeof end, NULL, 0, error);
    return rc ? rc : hear(client, take_dependencies, out, error);
}

int vv_client_manifest(struct vv_client *client, const struct vv_manifest_head *head, struct varve_error *error) {
    struct vv_say_manifest manifest = {VV_SAY_MANIFEST, *head};
    return say(client, &manifest, sizeof manifest, NULL, 0, error);
}

int vv_client_bytes(struct vv_client *client, const void *data, size_t size, struct varve_error *error) {
    return say_list(client, VV_SAY_BYTES, data, size, 1, error);
}

int vv_client_end(struct vv_client *client, const struct vv_say_end *end, struct varve_error *error) {
    int rc = say(client, end, sizeof *end, NULL, 0, error);
    client->is_last = 1;
    return rc ? rc : hear(client, NULL, NULL, error);
}

void vv_client_close(struct vv_client *client, const struct varve_error *why) {
    struct varve_error ignored = {0};
    if (!client->is_last) {
        struct vv_say_failed failed = {VV_SAY_FAILED, *why};
        client->is_last = 1;
        if (vv_post_send(&client->up, &failed, sizeof failed, NULL, 0) != 0)
            client->is_over = 1;
    }
    while (!client->is_over)
        hear(client, NULL, NULL, &ignored);
}
