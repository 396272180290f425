#ifndef CALLED_H
#define CALLED_H

#define EXPORT __attribute__((visibility("default")))

EXPORT double called_step(double *field, long count, long step, double weight, const char *name);

#endif
