/* Reads the fields of a protobuf message one after another, from bytes that nobody vouches for. */
#ifndef PROCESS_PROTOBUF_H
#define PROCESS_PROTOBUF_H

#include <stddef.h>
#include <stdint.h>

struct process_pb {
    const uint8_t *at, *end;
};

struct process_pb_field {
    uint32_t number;
    uint64_t value;       /* of a number */
    const uint8_t *bytes; /* of a text or a message; NULL: it is a number */
    size_t length;
};

void process_pb_open(struct process_pb *pb, const void *data, size_t size);
/* 1, 0 at the end, -EBADMSG where the bytes are no message. */
int process_pb_next(struct process_pb *pb, struct process_pb_field *field);

#endif
