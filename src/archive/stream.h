/* The content of a gzip or zstd file, step by step, from bytes that nobody vouches for: memory is bounded, whatever the
 * file says. */
#ifndef ARCHIVE_STREAM_H
#define ARCHIVE_STREAM_H

#include "archive/pack.h"

struct archive_stream;

/* 1, 0 when it is no such file, or a kind that this program cannot read, or -ENOMEM. Fills what the recipe can know
 * before the content. */
int archive_stream_open(int fd, uint64_t size, struct archive_stream **out, struct archive_recipe *recipe);
/* As read: bytes of the content, 0 at its end, -EBADMSG when it is damaged or cut, -EIO. */
int64_t archive_stream_read(struct archive_stream *stream, void *buffer, size_t size);
/* At the end: what follows the content goes into the recipe. -EBADMSG when that is too much. */
int archive_stream_end(struct archive_stream *stream, struct archive_recipe *recipe);
void archive_stream_close(struct archive_stream *stream);

#endif
