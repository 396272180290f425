/* A guard that guards nothing: it records what is armed, and a test that writes through fake_write meets it.
 * Deterministic where the test has one thread (fake_try_write), and usable under thread sanitizer where it has more. */
#ifndef VARVE_FAKE_GUARD_H
#define VARVE_FAKE_GUARD_H

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "memory/guard.h"
#include "memory/tracked_range.h"

#define FAKE_AREAS 64

struct fake_area {
    uintptr_t start, end; /* 0: unused */
    uint8_t *armed;
};

struct fake_guard {
    struct vv_guard base;
    vv_guard_fn fn;
    void *arg;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct fake_area areas[FAKE_AREAS];
    uint64_t arms; /* calls */
    int fail_arm;  /* with this */
    int fail_disarm;
};

static struct fake_area *fake_find(struct fake_guard *fake, uintptr_t page) {
    for (int i = 0; i < FAKE_AREAS; i++)
        if (page >= fake->areas[i].start && page < fake->areas[i].end)
            return &fake->areas[i];
    return NULL;
}

static int fake_attach(struct vv_guard *base, uintptr_t start, size_t length) {
    struct fake_guard *fake = (struct fake_guard *)base;
    int i = 0;
    pthread_mutex_lock(&fake->lock);
    while (i < FAKE_AREAS && fake->areas[i].end)
        i++;
    if (i < FAKE_AREAS)
        fake->areas[i] = (struct fake_area){start, start + length, calloc(length / VV_PAGE, 1)};
    pthread_mutex_unlock(&fake->lock);
    return i < FAKE_AREAS ? 0 : -ENOSPC;
}

static void fake_detach(struct vv_guard *base, uintptr_t start, size_t length) {
    struct fake_guard *fake = (struct fake_guard *)base;
    (void)length;
    pthread_mutex_lock(&fake->lock);
    struct fake_area *area = fake_find(fake, start);
    if (area) {
        free(area->armed);
        *area = (struct fake_area){0};
    }
    pthread_cond_broadcast(&fake->changed);
    pthread_mutex_unlock(&fake->lock);
}

static int fake_set(struct fake_guard *fake, uintptr_t start, size_t length, uint8_t value) {
    pthread_mutex_lock(&fake->lock);
    struct fake_area *area = fake_find(fake, start);
    int rc = area && start + length <= area->end ? 0 : -EINVAL;
    if (rc == 0)
        memset(area->armed + (start - area->start) / VV_PAGE, value, length / VV_PAGE);
    pthread_cond_broadcast(&fake->changed);
    pthread_mutex_unlock(&fake->lock);
    return rc;
}

static int fake_arm(struct vv_guard *base, uintptr_t start, size_t length) {
    struct fake_guard *fake = (struct fake_guard *)base;
    fake->arms++;
    return fake->fail_arm ? fake->fail_arm : fake_set(fake, start, length, 1);
}

static int fake_disarm(struct vv_guard *base, uintptr_t start, size_t length) {
    struct fake_guard *fake = (struct fake_guard *)base;
    int rc = fake_set(fake, start, length, 0);
    return fake->fail_disarm ? fake->fail_disarm : rc;
}

static void fake_close(struct vv_guard *base) {
    struct fake_guard *fake = (struct fake_guard *)base;
    for (int i = 0; i < FAKE_AREAS; i++)
        free(fake->areas[i].armed);
    pthread_mutex_destroy(&fake->lock);
    pthread_cond_destroy(&fake->changed);
    free(fake);
}

static const struct vv_guard_ops fake_ops = {"fake", 1, fake_attach, fake_detach, fake_arm, fake_disarm, fake_close};

static struct fake_guard *fake_open(void) {
    struct fake_guard *fake = calloc(1, sizeof *fake);
    fake->base.ops = &fake_ops;
    pthread_mutex_init(&fake->lock, NULL);
    pthread_cond_init(&fake->changed, NULL);
    return fake;
}

static int fake_is_armed(struct fake_guard *fake, uintptr_t page) {
    struct fake_area *area = fake_find(fake, page);
    return area && area->armed[(page - area->start) / VV_PAGE];
}

/* 1: may be written now; 0: not yet. */
static int fake_try(struct fake_guard *fake, const volatile void *address) {
    uintptr_t page = (uintptr_t)address & ~(uintptr_t)(VV_PAGE - 1);
    pthread_mutex_lock(&fake->lock);
    int is_armed = fake_is_armed(fake, page);
    pthread_mutex_unlock(&fake->lock);
    if (!is_armed)
        return 1;
    if (!fake->fn(fake->arg, page))
        return 0;
    fake_set(fake, page, VV_PAGE, 0);
    return 1;
}

static inline int fake_try_write(struct fake_guard *fake, uint8_t *address, uint8_t value) {
    if (!fake_try(fake, address))
        return 0;
    *address = value;
    return 1;
}

/* Waits as somebody does whom a real guard stops. The write itself is under the lock: nobody arms in between. */
static inline void fake_write(struct fake_guard *fake, uint8_t *address, uint8_t value) {
    uintptr_t page = (uintptr_t)address & ~(uintptr_t)(VV_PAGE - 1);
    fake_try(fake, address);
    pthread_mutex_lock(&fake->lock);
    while (fake_is_armed(fake, page))
        pthread_cond_wait(&fake->changed, &fake->lock);
    *(volatile uint8_t *)address = value;
    pthread_mutex_unlock(&fake->lock);
}

#endif
