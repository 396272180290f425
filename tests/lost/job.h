/* What a rank of the jobs of this folder holds: eight regions, of which some have the same bytes on all ranks, some on
 * two, and some nowhere else; some never change, some do from version to version. Every byte follows from the rank and
 * the version, so that whoever comes back can tell whether it has come back exactly. */
#ifndef VARVE_LOST_JOB_H
#define VARVE_LOST_JOB_H

#include <stddef.h>
#include <stdint.h>
#include <varve/varve.h>

#define LOST_REGIONS 8

struct lost_job {
    uint32_t rank;
    uint8_t *data[LOST_REGIONS];
};

const char *lost_region(int number); /* its name */

/* All end the process when there is no memory. */
void lost_job_init(struct lost_job *job, uint32_t rank);
void lost_job_clear(struct lost_job *job);

/* 0 or the error of varve_protect. */
int lost_job_protect(struct lost_job *job, struct varve_session *session);

void lost_job_fill(struct lost_job *job, int64_t version);
void lost_job_spoil(struct lost_job *job); /* garbage, before a restart */
/* Is this the version, bit for bit? 1, or 0 and where it is not. */
int lost_job_is(const struct lost_job *job, int64_t version, char *where, size_t capacity);

#endif
