/* How fast a coding is without the library around it, on one thread, relative to memcpy of the same bytes. */
#ifndef CODEC_SPEED_H
#define CODEC_SPEED_H

#include "arrays.h"

struct codec_speed {
    double compress, decompress; /* over memcpy; 0: there was nothing to do */
    double ratio;                /* of the bytes alone */
    double memcpy_speed;         /* bytes per second */
};

/* codec: a value of the setting codec. One that is not a coding (auto, size) lets the chooser pick per piece, as it
 * would with storage of this speed (bytes per second; 0: not known) and all processors free; what looking for it takes
 * is in the time. The best of so many rounds. Ends the program if what is decoded is not what was encoded. */
void codec_speed(const struct arrays *arrays, const char *codec, double storage_speed, unsigned rounds,
                 struct codec_speed *out);

int codec_is_fixed(const char *codec); /* is it one coding? */
int codec_is_known(const char *codec); /* and was its library built in? */
/* Is there anything in it that it is made for? fpzip and zfp are not made for states without floating-point numbers. */
int codec_fits(const char *codec, const struct arrays *arrays);

#endif
