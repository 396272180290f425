/* Storage that fails on command, for tests.
 *
 * Every call of a verb (close apart) is one operation, counted from 1. A specification is a list of faults separated by
 * commas; K is the number of the operation:
 *
 *   kill:K            the process is killed (SIGKILL) instead of doing it
 *   kill-after:K      it is done, then the process is killed
 *   fail:K:ERRNO      it is not done, and fails
 *   fail-after:K:ERRNO  it is done, and fails all the same: the ambiguous case
 *   fail-from:K:ERRNO   operation K and all later ones are not done, and fail
 *   short:K           a write stores half and fails with EIO; a get returns half of what was asked for
 *   torn:K            a write or replace stores half and reports success, as storage that lies
 *   flip:K            one bit of what is written or read is wrong
 *
 * ERRNO is a number or a name such as EIO. "none" is a specification without faults. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend_wrap_private.h"
#include "base/alloc.h"

#define FAULTS_MAX 16

enum fault_kind { KILL, KILL_AFTER, FAIL, FAIL_AFTER, FAIL_FROM, SHORT, TORN, FLIP };

static const struct {
    const char *name;
    enum fault_kind kind;
    int has_errno;
} kinds[] = {
    {"kill", KILL, 0},           {"kill-after", KILL_AFTER, 0}, {"fail", FAIL, 1}, {"fail-after", FAIL_AFTER, 1},
    {"fail-from", FAIL_FROM, 1}, {"short", SHORT, 0},           {"torn", TORN, 0}, {"flip", FLIP, 0},
};

static const struct {
    const char *name;
    int number;
} errors[] = {
    {"EIO", EIO},       {"ENOSPC", ENOSPC}, {"EAGAIN", EAGAIN}, {"EINTR", EINTR},           {"ETIMEDOUT", ETIMEDOUT},
    {"EBUSY", EBUSY},   {"EACCES", EACCES}, {"EPERM", EPERM},   {"ECONNRESET", ECONNRESET}, {"ENOENT", ENOENT},
    {"EEXIST", EEXIST}, {"EROFS", EROFS},   {"EDQUOT", EDQUOT}, {"ESTALE", ESTALE},         {"ENOMEM", ENOMEM},
};

struct fault {
    enum fault_kind kind;
    uint64_t at;
    int number;
};

struct fault_set {
    struct fault faults[FAULTS_MAX];
    size_t count;
};

struct faulty {
    struct wrap wrap;
    struct fault_set set;
    atomic_uint_least64_t operations;
};

static int parse_number(const char *text, uint64_t max, uint64_t *out) {
    char *end = NULL;
    if (*text < '0' || *text > '9')
        return -EINVAL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || *end || value < 1 || value > max)
        return -EINVAL;
    *out = value;
    return 0;
}

static int parse_errno(const char *text, int *out) {
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++)
        if (strcmp(errors[i].name, text) == 0) {
            *out = errors[i].number;
            return 0;
        }
    if (parse_number(text, 4095, &value) < 0)
        return -EINVAL;
    *out = (int)value;
    return 0;
}

static int parse_fault(char *text, struct fault *out) {
    char *number = strchr(text, ':');
    if (!number)
        return -EINVAL;
    *number++ = '\0';
    char *error = strchr(number, ':');
    if (error)
        *error++ = '\0';
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        if (strcmp(kinds[i].name, text) != 0)
            continue;
        out->kind = kinds[i].kind;
        if (kinds[i].has_errno != (error != NULL) || (error && parse_errno(error, &out->number) < 0))
            return -EINVAL;
        return parse_number(number, INT64_MAX, &out->at);
    }
    return -EINVAL;
}

static int parse_spec(const char *spec, struct fault_set *out) {
    char text[256];
    out->count = 0;
    if (strcmp(spec, "none") == 0)
        return 0;
    if (strlen(spec) >= sizeof(text))
        return -EINVAL;
    strcpy(text, spec);
    for (char *at = text; at;) {
        char *next = strchr(at, ',');
        if (next)
            *next++ = '\0';
        if (out->count == FAULTS_MAX || parse_fault(at, &out->faults[out->count]) < 0)
            return -EINVAL;
        out->count++;
        at = next;
    }
    return 0;
}

int vv_fault_spec_check(const char *spec) {
    struct fault_set set;
    return parse_spec(spec, &set);
}

static const struct fault *fault_at(const struct faulty *faulty, uint64_t operation) {
    for (size_t i = 0; i < faulty->set.count; i++) {
        const struct fault *fault = &faulty->set.faults[i];
        if (fault->at == operation || (fault->kind == FAIL_FROM && fault->at < operation))
            return fault;
    }
    return NULL;
}

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

static int is_writing(const struct wrap_op *op) {
    return op->verb == VV_VERB_WRITE || op->verb == VV_VERB_REPLACE;
}

/* The bytes to write, with one bit wrong: a copy, freed in leave. */
static int flip_input(struct wrap_op *op) {
    if (op->size == 0)
        return 0;
    uint8_t *copy = vv_malloc(op->size);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, op->data_in, op->size);
    copy[op->size / 2] ^= 0x10;
    op->data_in = op->owned = copy;
    return 0;
}

static int fault_enter(struct wrap *wrap, struct wrap_op *op) {
    struct faulty *faulty = (struct faulty *)wrap;
    op->mark = atomic_fetch_add(&faulty->operations, 1) + 1;
    const struct fault *fault = fault_at(faulty, op->mark);
    if (!fault)
        return 0;
    if (fault->kind == KILL)
        die();
    if (fault->kind == FAIL || fault->kind == FAIL_FROM)
        return -fault->number;
    if ((fault->kind == SHORT && (op->verb == VV_VERB_WRITE || op->verb == VV_VERB_GET)) ||
        (fault->kind == TORN && is_writing(op)))
        op->size /= 2;
    return fault->kind == FLIP && is_writing(op) ? flip_input(op) : 0;
}

static int64_t fault_leave(struct wrap *wrap, struct wrap_op *op, int64_t result) {
    const struct fault *fault = fault_at((struct faulty *)wrap, op->mark);
    if (!fault)
        return result;
    if (fault->kind == KILL_AFTER)
        die();
    if (fault->kind == FAIL_AFTER)
        return -fault->number;
    if (fault->kind == SHORT && op->verb == VV_VERB_WRITE)
        return -EIO;
    vv_free(op->owned);
    op->owned = NULL;
    if (fault->kind == FLIP && op->verb == VV_VERB_GET && result > 0)
        ((uint8_t *)op->data_out)[result / 2] ^= 0x10;
    return result;
}

static const struct wrap_hooks fault_hooks = {.name = "fault", .enter = fault_enter, .leave = fault_leave};

int vv_fault_backend_wrap(struct varve_backend *inner, const char *spec, struct varve_backend **out) {
    struct faulty *faulty = vv_calloc(1, sizeof(*faulty));
    if (!faulty)
        return -ENOMEM;
    if (parse_spec(spec, &faulty->set) < 0) {
        vv_free(faulty);
        return -EINVAL;
    }
    vv_wrap_init(&faulty->wrap, &fault_hooks, inner);
    *out = &faulty->wrap.base;
    return 0;
}

uint64_t vv_fault_count(struct varve_backend *backend) {
    struct faulty *faulty = (struct faulty *)vv_wrap_find(backend, &fault_hooks);
    return faulty ? atomic_load(&faulty->operations) : 0;
}
