/* Named fault points: `VV_FAULT("store.record.before_create")` is a place where a test can stop the process, make the
 * function fail, or put it to sleep. Compiled out of builds without VARVE_FAULTS.
 *
 * VARVE_FAULT="name=kill", "name=kill:3" (third time it is met), "name=stop:1" (until SIGCONT), "name=error:28"
 * (fail with -28), "name=sleep:200" (milliseconds). VARVE_FAULT_LIST=path appends every point met to that file. */
#ifndef VV_FAULT_H
#define VV_FAULT_H

#ifdef VARVE_FAULTS
/* 0, or the negative error the caller should return. */
int vv_fault_hit(const char *name);
/* The same choice from inside a test process; NULL clears. */
void vv_fault_set(const char *spec);
#define VV_FAULT(name) vv_fault_hit(name)
#else
#define VV_FAULT(name) 0
#endif

#endif
