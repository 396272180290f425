/* Memory that is freed, moved and taken away while a checkpoint is in flight. Who tells the library first may do what
 * he likes; who does not loses at most this checkpoint. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "living.h"

#define STAY (2 * MIB + 1)
#define GONE (4 * MIB)

struct scene {
    struct flight flight;
    struct scribblers *scribblers;
    uint8_t *stay, *gone;
};

static void begin(struct scene *scene, uint8_t *gone) {
    flight_open(&scene->flight);
    scene->stay = new_memory(STAY + PAGE) + 16;
    scene->gone = gone ? gone : new_memory(GONE);
    flight_protect(&scene->flight, "stay", scene->stay, STAY, 1);
    flight_protect(&scene->flight, "gone", scene->gone, GONE, 1);
    flight_launch(&scene->flight);
    flight_must_be_up(&scene->flight);
    scene->scribblers = flight_scribble(&scene->flight, "stay");
}

/* ---- told ---- */

static void end_told(struct scene *scene) {
    scribblers_stop(scene->scribblers);
    flight_land(&scene->flight);
    flight_close(&scene->flight);
}

static void told_unprotect(void) {
    struct scene scene;
    begin(&scene, NULL);
    if (varve_unprotect(scene.flight.session, "gone") != 0)
        fail("unprotect");
    memset(scene.gone, 1, GONE);
    munmap(scene.gone, GONE);
    flight_forget(&scene.flight, "gone");
    end_told(&scene);
}

static void told_move(void) {
    struct scene scene;
    begin(&scene, NULL);
    uint8_t *place = new_memory(GONE + MIB);
    flight_forget(&scene.flight, "gone");
    flight_protect(&scene.flight, "gone", place, GONE + MIB, 1);
    memset(scene.gone, 1, GONE);
    munmap(scene.gone, GONE);
    end_told(&scene);
}

static void told_realloc(void) {
    struct scene scene;
    uint8_t *gone = malloc(GONE);
    if (!gone)
        fail("no memory");
    fill(gone, GONE, 1);
    begin(&scene, gone);
    if (varve_unprotect(scene.flight.session, "gone") != 0)
        fail("unprotect");
    flight_forget(&scene.flight, "gone");
    gone = realloc(gone, 3 * GONE);
    if (!gone)
        fail("no memory");
    fill(gone, 3 * GONE, 2);
    flight_protect(&scene.flight, "gone", gone, 3 * GONE, 1);
    end_told(&scene);
    free(gone);
}

static void told_free(void) {
    struct flight flight;
    flight_open(&flight);
    uint8_t *lent = varve_alloc(flight.session, "lent", GONE), *stay = new_memory(STAY);
    if (!lent)
        fail("varve_alloc");
    fill(lent, GONE, 1);
    flight_protect(&flight, "lent", lent, GONE, 1);
    flight_protect(&flight, "stay", stay, STAY, 1);
    flight_launch(&flight);
    struct scribblers *scribblers = flight_scribble(&flight, "stay");
    varve_free(flight.session, lent);
    flight_forget(&flight, "lent");
    scribblers_stop(scribblers);
    flight_land(&flight);
    flight_close(&flight);
}

/* ---- untold ---- */

static void end_untold(struct scene *scene) {
    struct flight *flight = &scene->flight;
    int rc = varve_wait(flight->session);
    scribblers_stop(scene->scribblers);
    if (rc == 0)
        images_check(&flight->at_call, flight->store);
    else if (strstr(mode.settings, "capture=frozen")) /* it was the program's to do with as it liked */
        fail("varve_wait returns %d: %s", rc, varve_session_error(flight->session)->text);
    else if (rc != -EFAULT)
        fail("varve_wait returns %d instead of 0 or -EFAULT: %s", rc, varve_session_error(flight->session)->text);
    else if (!strstr(varve_session_error(flight->session)->text, "gone"))
        fail("the error does not name the region: %s", varve_session_error(flight->session)->text);
    else if (is_stored(flight->store, flight->version))
        fail("a failed checkpoint is stored");
    printf("        the checkpoint %s\n", rc == 0 ? "was right" : "failed with -EFAULT");
    fflush(stdout);
    if (varve_unprotect(flight->session, "gone") != 0)
        fail("unprotect: %s", varve_session_error(flight->session)->text);
    flight_forget(flight, "gone");
    flight_protect(flight, "fresh", new_memory(MIB), MIB, 1);
    for (int i = 0; i < 2; i++) {
        flight_again(flight);
        struct scribblers *scribblers = flight_scribble(flight, NULL);
        flight_arrive(flight);
        scribblers_stop(scribblers);
    }
    flight_close(flight);
}

static void untold_munmap(void) {
    struct scene scene;
    begin(&scene, NULL);
    munmap(scene.gone, GONE);
    end_untold(&scene);
}

static void untold_munmap_of_a_part(void) {
    struct scene scene;
    begin(&scene, NULL);
    munmap(scene.gone + GONE / 2, GONE / 4);
    memset(scene.gone, 1, GONE / 2);
    end_untold(&scene);
}

static void untold_mremap(void) {
    struct scene scene;
    begin(&scene, NULL);
    uint8_t *place = new_memory(GONE);
    if (mremap(scene.gone, GONE, GONE, MREMAP_MAYMOVE | MREMAP_FIXED, place) != place)
        fail("mremap: %s", strerror(errno));
    memset(place, 1, GONE); /* must not hang, either */
    end_untold(&scene);
}

static void untold_realloc(void) {
    struct scene scene;
    uint8_t *gone = malloc(GONE);
    if (!gone)
        fail("no memory");
    fill(gone, GONE, 1);
    begin(&scene, gone);
    gone = realloc(gone, 16 * GONE); /* the C library does it with mremap */
    if (!gone)
        fail("no memory");
    memset(gone, 1, 16 * GONE);
    end_untold(&scene);
    free(gone);
}

static void untold_free(void) {
    struct scene scene;
    uint8_t *gone = malloc(GONE);
    if (!gone)
        fail("no memory");
    fill(gone, GONE, 1);
    begin(&scene, gone);
    free(gone);
    end_untold(&scene);
}

/* The worst: something else lies there at once. */
static void untold_replace(void) {
    struct scene scene;
    begin(&scene, NULL);
    uint8_t *again = mmap(scene.gone, GONE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (again != scene.gone)
        fail("mmap");
    fill(again, GONE, 99);
    end_untold(&scene);
}

static void untold_dontneed(void) {
    struct scene scene;
    begin(&scene, NULL);
    madvise(scene.gone + GONE / 2, GONE / 2, MADV_DONTNEED);
    memset(scene.gone, 1, GONE / 4);
    end_untold(&scene);
}

/* Made unwritable by the program itself. */
static void untold_mprotect(void) {
    struct scene scene;
    begin(&scene, NULL);
    mprotect(scene.gone, GONE, PROT_READ);
    usleep(20000);
    mprotect(scene.gone, GONE, PROT_READ | PROT_WRITE);
    memset(scene.gone, 1, GONE);
    end_untold(&scene);
}

/* Nothing is in flight when it goes, and it is still said to be protected at the next checkpoint. */
static void untold_before_the_call(void) {
    struct scene scene;
    begin(&scene, NULL);
    struct flight *flight = &scene.flight;
    flight_arrive(flight);
    scribblers_stop(scene.scribblers);
    munmap(scene.gone, GONE);
    int rc = varve_checkpoint(flight->session, ++flight->version);
    if (rc == 0)
        rc = varve_wait(flight->session);
    if (rc != -EFAULT)
        fail("a checkpoint of memory that is not there gives %d", rc);
    if (varve_unprotect(flight->session, "gone") != 0)
        fail("unprotect: %s", varve_session_error(flight->session)->text);
    flight_forget(flight, "gone");
    flight_again(flight);
    flight_arrive(flight);
    flight_close(flight);
}

const struct living_case memory_cases[] = {
    {"told-unprotect", told_unprotect},
    {"told-move", told_move},
    {"told-realloc", told_realloc},
    {"told-free", told_free},
    {"untold-munmap", untold_munmap},
    {"untold-munmap-part", untold_munmap_of_a_part},
    {"untold-mremap", untold_mremap},
    {"untold-realloc", untold_realloc},
    {"untold-free", untold_free},
    {"untold-replace", untold_replace},
    {"untold-dontneed", untold_dontneed},
    {"untold-mprotect", untold_mprotect},
    {"untold-before-the-call", untold_before_the_call},
    {NULL, NULL},
};
