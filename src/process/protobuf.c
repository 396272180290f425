#include "process/protobuf.h"

#include <errno.h>

enum wire { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

void process_pb_open(struct process_pb *pb, const void *data, size_t size) {
    pb->at = data;
    pb->end = pb->at + size;
}

static int take_varint(struct process_pb *pb, uint64_t *out) {
    *out = 0;
    for (unsigned shift = 0; shift < 64 && pb->at < pb->end; shift += 7) {
        uint8_t byte = *pb->at++;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return 0;
    }
    return -EBADMSG;
}

static int take_fixed(struct process_pb *pb, size_t size, uint64_t *out) {
    if ((size_t)(pb->end - pb->at) < size)
        return -EBADMSG;
    *out = 0;
    for (size_t i = 0; i < size; i++)
        *out |= (uint64_t)*pb->at++ << (8 * i);
    return 0;
}

static int take_data(struct process_pb *pb, struct process_pb_field *field) {
    uint64_t length;

    if (take_varint(pb, &length) < 0 || length > (uint64_t)(pb->end - pb->at))
        return -EBADMSG;
    field->bytes = pb->at;
    field->length = (size_t)length;
    pb->at += length;
    return 0;
}

int process_pb_next(struct process_pb *pb, struct process_pb_field *field) {
    uint64_t tag;
    int rc;

    *field = (struct process_pb_field){.number = 0};
    if (pb->at == pb->end)
        return 0;
    if (take_varint(pb, &tag) < 0 || tag >> 3 == 0 || tag >> 3 > UINT32_MAX)
        return -EBADMSG;
    field->number = (uint32_t)(tag >> 3);
    switch (tag & 7) {
    case WIRE_VARINT:
        rc = take_varint(pb, &field->value);
        break;
    case WIRE_64:
        rc = take_fixed(pb, 8, &field->value);
        break;
    case WIRE_32:
        rc = take_fixed(pb, 4, &field->value);
        break;
    case WIRE_BYTES:
        rc = take_data(pb, field);
        break;
    default:
        rc = -EBADMSG;
    }
    return rc < 0 ? rc : 1;
}
