/* The header is read front to back, with a window into the file; numbers are big-endian, names and values padded to
 * multiples of four. Only the places of the variables are wanted: attributes are passed over. What the header says
 * about the size of a variable (vsize) is not used: it is computed from the dimensions, as it is not kept for large
 * ones. */
#include "files/netcdf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW 65536u
#define DIMS_MOST 65536u
#define ATTRIBUTES_MOST 1000000u
#define TAG_DIMENSION 10u
#define TAG_VARIABLE 11u
#define TAG_ATTRIBUTE 12u

struct reader {
    files_read_fn fn;
    void *arg;
    uint64_t size; /* of the file */
    uint64_t at;
    int is_wide; /* counts have 64 bits: CDF-5 */
    int version;
    uint8_t window[WINDOW];
    uint64_t window_at;
    size_t window_size;
};

struct shape {
    uint64_t *lengths; /* of all dimensions of the file; 0: the one that grows with records */
    size_t count;
};

/* One variable as the header has it. */
struct entry {
    char *name;
    struct files_variable like;
    uint64_t begin, bytes; /* bytes of one record, or of all of it */
    int is_record;
};

struct header {
    struct shape shape;
    struct entry *entries;
    size_t count;
    uint64_t records;     /* how many */
    uint64_t record_size; /* of all variables together */
};

int files_is_netcdf(const void *start, size_t size) {
    const uint8_t *byte = start;
    return size >= 4 && !memcmp(byte, "CDF", 3) && (byte[3] == 1 || byte[3] == 2 || byte[3] == 5);
}

static int bytes(struct reader *reader, void *out, size_t size) {
    if (size > reader->size || reader->at > reader->size - size)
        return -EBADMSG;
    if (reader->at < reader->window_at || reader->at + size > reader->window_at + reader->window_size) {
        uint64_t left = reader->size - reader->at;
        size_t wanted = left < WINDOW ? (size_t)left : WINDOW;
        int rc = reader->fn(reader->arg, reader->at, reader->window, wanted);
        if (rc < 0)
            return rc;
        reader->window_at = reader->at;
        reader->window_size = wanted;
    }
    memcpy(out, reader->window + (reader->at - reader->window_at), size);
    reader->at += size;
    return 0;
}

static int number(struct reader *reader, size_t width, uint64_t *out) {
    uint8_t raw[8];
    int rc = bytes(reader, raw, width);
    *out = 0; /* also when it fails: loops run over it */
    for (size_t i = 0; i < width && rc == 0; i++)
        *out = *out << 8 | raw[i];
    return rc;
}

static int count_of(struct reader *reader, uint64_t *out) {
    return number(reader, reader->is_wide ? 8 : 4, out);
}

static int skip(struct reader *reader, uint64_t size) {
    if (size > reader->size - reader->at)
        return -EBADMSG;
    reader->at += size;
    return 0;
}

static uint64_t padded(uint64_t size) {
    return size + 3 < size ? UINT64_MAX : (size + 3) & ~UINT64_C(3);
}

static int name(struct reader *reader, char out[FILES_NAME_MOST + 1]) {
    uint64_t length;
    int rc = count_of(reader, &length);
    if (rc == 0 && length > FILES_NAME_MOST)
        rc = -E2BIG;
    rc = rc ? rc : bytes(reader, out, (size_t)length);
    if (rc < 0)
        return rc;
    out[length] = '\0';
    return skip(reader, padded(length) - length);
}

static unsigned element_size(uint64_t type) {
    static const unsigned sizes[] = {0, 1, 1, 2, 4, 4, 8, 1, 2, 4, 8, 8};
    return type < sizeof sizes / sizeof sizes[0] ? sizes[type] : 0;
}

/* The head of a list: a tag and a count, both zero when the list is absent. */
static int list(struct reader *reader, uint64_t tag, uint64_t most, uint64_t *count) {
    uint64_t got;
    int rc = number(reader, 4, &got);
    rc = rc ? rc : count_of(reader, count);
    if (rc < 0)
        return rc;
    if ((got != tag || *count > most) && (got != 0 || *count != 0))
        return got == tag ? -E2BIG : -EBADMSG;
    return 0;
}

static int attributes(struct reader *reader) {
    char text[FILES_NAME_MOST + 1];
    uint64_t count = 0, type, values;
    int rc = list(reader, TAG_ATTRIBUTE, ATTRIBUTES_MOST, &count);
    for (uint64_t i = 0; i < count && rc == 0; i++) {
        rc = name(reader, text);
        rc = rc ? rc : number(reader, 4, &type);
        rc = rc ? rc : count_of(reader, &values);
        if (rc == 0 && (element_size(type) == 0 || values > reader->size))
            rc = -EBADMSG;
        rc = rc ? rc : skip(reader, padded(values * element_size(type)));
    }
    return rc;
}

static int dimensions(struct reader *reader, struct shape *shape) {
    char text[FILES_NAME_MOST + 1];
    uint64_t count = 0;
    int rc = list(reader, TAG_DIMENSION, DIMS_MOST, &count);
    if (rc == 0)
        shape->lengths = calloc((size_t)count + 1, sizeof *shape->lengths);
    if (rc == 0 && !shape->lengths)
        rc = -ENOMEM;
    for (uint64_t i = 0; i < count && rc == 0; i++) {
        rc = name(reader, text);
        rc = rc ? rc : count_of(reader, &shape->lengths[i]);
        shape->count++;
    }
    return rc;
}

static int take_dims(struct reader *reader, const struct shape *shape, struct entry *entry, uint64_t *elements) {
    uint64_t count, id;
    int rc = count_of(reader, &count);
    if (rc == 0 && count > DIMS_MOST)
        rc = -E2BIG;
    *elements = 1;
    entry->like.dims = rc == 0 && count <= VARVE_DIMS_MAX ? (unsigned)count : 0;
    for (uint64_t i = 0; rc == 0 && i < count; i++) {
        rc = count_of(reader, &id);
        if (rc < 0 || id >= shape->count)
            return rc ? rc : -EBADMSG;
        uint64_t length = shape->lengths[id];
        if (i == 0 && length == 0)
            entry->is_record = 1;
        else if (length == 0 || __builtin_mul_overflow(*elements, length, elements))
            return -EBADMSG;
        if (i < entry->like.dims)
            entry->like.dim[i] = length;
    }
    return rc;
}

static int variable(struct reader *reader, const struct shape *shape, struct entry *entry) {
    char text[FILES_NAME_MOST + 1];
    uint64_t elements = 0, type = 0, unused;
    int rc = name(reader, text);
    if (rc == 0 && !(entry->name = strdup(text)))
        rc = -ENOMEM;
    rc = rc ? rc : take_dims(reader, shape, entry, &elements);
    rc = rc ? rc : attributes(reader);
    rc = rc ? rc : number(reader, 4, &type);
    rc = rc ? rc : count_of(reader, &unused);
    rc = rc ? rc : number(reader, reader->version == 1 ? 4 : 8, &entry->begin);
    if (rc == 0 && (element_size(type) == 0 || __builtin_mul_overflow(elements, element_size(type), &entry->bytes)))
        rc = -EBADMSG;
    /* Numbers are big-endian, so only those of one byte have a type of ours. */
    entry->like.type = type == 1 ? VARVE_I8 : type == 7 ? VARVE_U8 : VARVE_BYTES;
    return rc;
}

static int variables(struct reader *reader, struct header *header) {
    uint64_t count = 0;
    int rc = list(reader, TAG_VARIABLE, FILES_VARIABLES_MOST, &count);
    if (rc == 0 && !(header->entries = calloc((size_t)count + 1, sizeof *header->entries)))
        rc = -ENOMEM;
    while (rc == 0 && header->count < count)
        rc = variable(reader, &header->shape, &header->entries[header->count++]);
    return rc;
}

/* Each record has a slab of every record variable, padded unless there is only one of them. A file that was written as
 * a stream does not say how many records it has: as many as fit. */
static int measure_records(struct header *header, int is_streamed, uint64_t file_size) {
    uint64_t first = UINT64_MAX, sum = 0;
    size_t count = 0;
    for (size_t i = 0; i < header->count; i++) {
        const struct entry *entry = &header->entries[i];
        if (!entry->is_record)
            continue;
        if (__builtin_add_overflow(sum, padded(entry->bytes), &sum))
            return -EBADMSG;
        header->record_size = entry->bytes;
        first = entry->begin < first ? entry->begin : first;
        count++;
    }
    if (count > 1)
        header->record_size = sum;
    if (is_streamed)
        header->records = header->record_size && first < file_size ? (file_size - first) / header->record_size : 0;
    return 0;
}

/* Where the slab of a record lies; -EBADMSG when that is not in the file. */
static int slab(const struct header *header, const struct entry *entry, uint64_t record, uint64_t file_size,
                uint64_t *offset) {
    if (__builtin_mul_overflow(record, header->record_size, offset) ||
        __builtin_add_overflow(*offset, entry->begin, offset) || *offset > file_size ||
        entry->bytes > file_size - *offset)
        return -EBADMSG;
    return 0;
}

static int add_entry(const struct header *header, struct entry *entry, uint64_t file_size, struct files_found *found) {
    uint64_t count = entry->is_record ? header->records : 1, first, last;
    if (entry->is_record)
        entry->like.dim[0] = count;
    if (entry->bytes == 0 || count == 0)
        return 0;
    int rc = slab(header, entry, 0, file_size, &first);
    rc = rc ? rc : slab(header, entry, count - 1, file_size, &last);
    if (rc < 0)
        return rc;
    int is_one = last - first == (count - 1) * entry->bytes;
    if (!is_one && entry->bytes < FILES_EXTENT_LEAST)
        return 0; /* not worth it, and there may be very many */
    rc = files_found_variable(found, entry->name, &entry->like);
    if (rc == 0 && is_one)
        return files_found_extent(found, first, count * entry->bytes);
    for (uint64_t i = 0; i < count && rc == 0; i++)
        rc = files_found_extent(found, first + i * header->record_size, entry->bytes);
    return rc;
}

static int parse(struct reader *reader, struct header *header) {
    uint8_t magic[4];
    int rc = bytes(reader, magic, sizeof magic);
    if (rc == 0 && !files_is_netcdf(magic, sizeof magic))
        rc = -EBADMSG;
    reader->version = magic[3];
    reader->is_wide = magic[3] == 5;
    rc = rc ? rc : count_of(reader, &header->records);
    rc = rc ? rc : dimensions(reader, &header->shape);
    rc = rc ? rc : attributes(reader);
    rc = rc ? rc : variables(reader, header);
    int is_streamed = header->records == (reader->is_wide ? UINT64_MAX : UINT32_MAX);
    return rc ? rc : measure_records(header, is_streamed, reader->size);
}

int files_netcdf(files_read_fn fn, void *arg, uint64_t file_size, struct files_found *found) {
    struct reader *reader = calloc(1, sizeof *reader);
    struct header header = {.count = 0};
    if (!reader)
        return -ENOMEM;
    reader->fn = fn;
    reader->arg = arg;
    reader->size = file_size;
    int rc = parse(reader, &header);
    for (size_t i = 0; i < header.count && rc == 0; i++)
        rc = add_entry(&header, &header.entries[i], file_size, found);
    for (size_t i = 0; i < header.count; i++)
        free(header.entries[i].name);
    free(header.entries);
    free(header.shape.lengths);
    free(reader);
    return rc;
}
