/* The answers of S3 are small documents without attributes that matter. This reads elements and their text, and trusts
 * nothing: every element ends by its own name, nothing follows the outermost one, and what answers never have (DOCTYPE,
 * CDATA, entities of the document's own) is refused. A cut document is refused, too: its outermost element has no end.
 */
#include <errno.h>
#include <string.h>

#include "s3_private.h"

#define DEPTH_MOST 16
#define PATH_MOST 256

struct xml {
    const char *at;
    const char *end;
    char path[PATH_MOST]; /* names joined by / */
    size_t starts[DEPTH_MOST];
    int depth;
    int has_root;
    int is_leaf; /* no element has ended since the last one began */
    struct vv_s3_text text;
};

static int is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static int is_name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.' || c == ':';
}

static size_t name_size(const struct xml *xml) {
    size_t size = 0;
    while (xml->at + size < xml->end && is_name_char(xml->at[size]))
        size++;
    return size;
}

/* Past the next occurrence of mark, or -EPROTO. */
static int skip_past(struct xml *xml, const char *mark) {
    const char *found = memmem(xml->at, (size_t)(xml->end - xml->at), mark, strlen(mark));
    if (!found)
        return -EPROTO;
    xml->at = found + strlen(mark);
    return 0;
}

static int begins(const struct xml *xml, const char *mark) {
    size_t size = strlen(mark);
    return (size_t)(xml->end - xml->at) >= size && memcmp(xml->at, mark, size) == 0;
}

/* A character as UTF-8. */
static int add_character(struct vv_s3_text *text, unsigned long c) {
    char bytes[4];
    size_t size = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char heads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    if (c == 0 || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return -EPROTO;
    bytes[0] = (char)(heads[size] | c >> 6 * (size - 1));
    for (size_t i = 1; i < size && i < sizeof bytes; i++)
        bytes[i] = (char)(0x80 | (c >> 6 * (size - 1 - i) & 0x3f));
    vv_s3_text_add(text, bytes, size);
    return 0;
}

static int digit_value(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : 99;
}

/* &#38; or &#x26;, at the character after #. */
static int take_character_number(struct xml *xml) {
    unsigned long c = 0;
    int base = 10, digits = 0;
    if (xml->at < xml->end && *xml->at == 'x') {
        base = 16;
        xml->at++;
    }
    for (; xml->at < xml->end && digit_value(*xml->at) < base; xml->at++, digits++) {
        c = c * (unsigned)base + (unsigned)digit_value(*xml->at);
        if (digits == 7)
            return -EPROTO;
    }
    if (digits == 0 || xml->at == xml->end || *xml->at++ != ';')
        return -EPROTO;
    return add_character(&xml->text, c);
}

static int take_entity(struct xml *xml) {
    static const struct {
        const char *name;
        char c;
    } known[] = {{"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}, {"&quot;", '"'}, {"&apos;", '\''}};
    if (begins(xml, "&#")) {
        xml->at += 2;
        return take_character_number(xml);
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (begins(xml, known[i].name)) {
            xml->at += strlen(known[i].name);
            vv_s3_text_add(&xml->text, &known[i].c, 1);
            return 0;
        }
    return -EPROTO;
}

static int take_text(struct xml *xml) {
    while (xml->at < xml->end && *xml->at != '<') {
        const char *plain = xml->at;
        if (xml->depth == 0 && !is_space(*plain))
            return -EPROTO;
        if (*plain == '\0')
            return -EPROTO;
        if (*plain == '&') {
            int rc = take_entity(xml);
            if (rc < 0)
                return rc;
            continue;
        }
        while (xml->at < xml->end && *xml->at != '<' && *xml->at != '&' && *xml->at &&
               (xml->depth || is_space(*xml->at)))
            xml->at++;
        vv_s3_text_add(&xml->text, plain, (size_t)(xml->at - plain));
    }
    return xml->text.failed;
}

static int end_element(struct xml *xml, vv_s3_leaf_fn fn, void *arg) {
    int rc = fn(arg, xml->path, !xml->is_leaf ? NULL : xml->text.size ? xml->text.data : "");
    xml->is_leaf = 0;
    xml->text.size = 0;
    xml->depth--;
    size_t start = xml->starts[xml->depth];
    xml->path[start ? start - 1 : 0] = '\0';
    return rc;
}

/* Attributes are looked over for their quotes only. 1 if the element is empty: <Name/>. */
static int skip_attributes(struct xml *xml) {
    while (xml->at < xml->end && *xml->at != '>') {
        char c = *xml->at++;
        if (c == '<' || c == '\0')
            return -EPROTO;
        if (c == '/' && xml->at < xml->end && *xml->at == '>') {
            xml->at++;
            return 1;
        }
        if (c != '"' && c != '\'')
            continue;
        xml->at = memchr(xml->at, c, (size_t)(xml->end - xml->at));
        if (!xml->at)
            return -EPROTO;
        xml->at++;
    }
    if (xml->at == xml->end)
        return -EPROTO;
    xml->at++;
    return 0;
}

static int begin_element(struct xml *xml, vv_s3_leaf_fn fn, void *arg) {
    size_t size = name_size(xml), used = strlen(xml->path);
    size_t start = used ? used + 1 : 0;
    if (size == 0 || (xml->depth == 0 && xml->has_root) || xml->depth == DEPTH_MOST || start + size >= PATH_MOST)
        return -EPROTO;
    if (used)
        xml->path[used] = '/';
    memcpy(xml->path + start, xml->at, size);
    xml->path[start + size] = '\0';
    xml->starts[xml->depth++] = start;
    xml->at += size;
    xml->has_root = 1;
    xml->is_leaf = 1;
    xml->text.size = 0;
    if (xml->at < xml->end && !is_space(*xml->at) && *xml->at != '>' && *xml->at != '/')
        return -EPROTO;
    int rc = skip_attributes(xml);
    return rc == 1 ? end_element(xml, fn, arg) : rc;
}

static int close_element(struct xml *xml, vv_s3_leaf_fn fn, void *arg) {
    size_t size = name_size(xml);
    if (xml->depth == 0)
        return -EPROTO;
    const char *name = xml->path + xml->starts[xml->depth - 1];
    if (strlen(name) != size || memcmp(name, xml->at, size) != 0)
        return -EPROTO;
    xml->at += size;
    while (xml->at < xml->end && is_space(*xml->at))
        xml->at++;
    if (xml->at == xml->end || *xml->at++ != '>')
        return -EPROTO;
    return end_element(xml, fn, arg);
}

static int take_markup(struct xml *xml, vv_s3_leaf_fn fn, void *arg) {
    if (begins(xml, "<?"))
        return skip_past(xml, "?>");
    if (begins(xml, "<!--"))
        return skip_past(xml, "-->");
    if (begins(xml, "<!"))
        return -EPROTO;
    if (begins(xml, "</")) {
        xml->at += 2;
        return close_element(xml, fn, arg);
    }
    xml->at++;
    return begin_element(xml, fn, arg);
}

int vv_s3_xml_walk(const char *data, size_t size, vv_s3_leaf_fn fn, void *arg) {
    struct xml xml = {.at = data, .end = data + size};
    int rc = 0;
    if (size >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0)
        xml.at += 3;
    while (rc == 0 && xml.at < xml.end)
        rc = *xml.at == '<' ? take_markup(&xml, fn, arg) : take_text(&xml);
    if (rc == 0 && (xml.depth || !xml.has_root))
        rc = -EPROTO;
    if (rc == 0)
        rc = xml.text.failed;
    vv_s3_text_clear(&xml.text);
    return rc;
}
