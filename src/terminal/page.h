/* Pages of HTML that need nothing beside them, in the colours that the reader prefers: what all of them share. */
#ifndef TERMINAL_PAGE_H
#define TERMINAL_PAGE_H

#include <stdint.h>
#include <stdio.h>

/* Head and style. style: more of it, or "". The page ends with page_end. */
void page_begin(FILE *out, const char *title, const char *style);
void page_end(FILE *out);
/* What somebody else has named stays text: as text_safe has it, without what HTML would read. */
void page_put(FILE *out, const char *text);
/* "12.3 MiB". Returns text. */
const char *page_size(char text[32], uint64_t bytes);

/* Parts of something: a colour (a class of the style) and a name. */
struct page_part {
    const char *class, *name;
};
void page_key(FILE *out, const struct page_part *parts, size_t count);
/* One bar of these values; most: the value that is as wide as the page. */
void page_bar(FILE *out, const struct page_part *parts, const uint64_t *values, size_t count, uint64_t most);

/* A new file; nothing that is there is overwritten. NULL: errno says why. */
FILE *page_create(const char *path);

#endif
