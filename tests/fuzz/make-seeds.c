/* make-seeds FOLDER: write the first inputs of every format target below FOLDER (the corpus), from the encoders. */
#include "../format/samples.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static int failed;

static void write_seed(const char *root, const char *kind, const char *name, const void *data, size_t size) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", root, kind);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/%s", root, kind, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size)
        failed = 1;
    if (file && fclose(file) != 0)
        failed = 1;
    if (failed)
        perror(path);
}

static void write_buf(const char *root, const char *kind, const char *name, struct vv_buf *buf) {
    write_seed(root, kind, name, buf->data, buf->size);
    if (buf->size >= VV_HEAD_SIZE && buf->data[0] == 0x89)
        write_seed(root, "head", kind, buf->data, VV_HEAD_SIZE);
    vv_buf_clear(buf);
}

static void write_small(const char *root) {
    struct vv_buf buf;
    vv_buf_init(&buf);
    sample_store(&buf);
    write_buf(root, "store", "one", &buf);
    sample_claim(&buf);
    write_buf(root, "claim", "one", &buf);
    sample_beat(&buf);
    write_buf(root, "beat", "one", &buf);
    sample_writers(&buf);
    write_buf(root, "writers", "three", &buf);
    sample_record(&buf);
    write_buf(root, "record", "leans", &buf);
    sample_tombstone(&buf, VV_KIND_RECORD);
    write_buf(root, "record", "tombstone", &buf);
    sample_tombstone(&buf, VV_KIND_PACK);
    write_buf(root, "tombstone", "failed", &buf);
    sample_catalogue(&buf);
    write_buf(root, "catalogue", "three", &buf);
    sample_manifest_base(&buf);
    write_buf(root, "manifest", "base", &buf);
    sample_manifest_overlay(&buf);
    write_buf(root, "manifest", "overlay", &buf);
}

/* Footer and tables, taken out of a pack. */
static void write_pack(const char *root) {
    struct vv_buf buf, tables;
    vv_buf_init(&buf);
    vv_buf_init(&tables);
    sample_pack(&buf);
    uint8_t *end = buf.data + buf.size - VV_END_SIZE;
    uint8_t *list = end - SAMPLE_PACK_SECTIONS * 40;
    uint64_t footer = vv_get64(end);
    uint64_t blocks = vv_get64(list + 8), blocks_size = vv_get64(list + 16);
    write_seed(root, "footer", "pack", buf.data + footer, buf.size - footer);
    write_seed(root, "head", "pack", buf.data, VV_HEAD_SIZE);
    vv_buf_u8(&tables, (uint8_t)(blocks_size / VV_BLOCK_ENTRY_SIZE));
    vv_buf_append(&tables, buf.data + blocks, blocks_size + vv_get64(list + 40 + 16));
    write_seed(root, "tables", "pack", tables.data, tables.size);
    vv_buf_clear(&tables);
    vv_buf_clear(&buf);
}

static void write_moved(const char *root) {
    struct vv_extent_coder coder = {.owner = 3};
    struct vv_buf buf;
    vv_buf_init(&buf);
    vv_buf_u8(&buf, 0);
    for (uint64_t i = 0; i < 4; i++) {
        struct vv_moved moved = {{.owner = 3 + (uint32_t)i / 2, .address = i << 45}, UINT64_C(1) << 33, (uint32_t)i};
        vv_moved_encode(&buf, &coder, &moved);
    }
    write_seed(root, "tables", "moved", buf.data, buf.size);
    vv_buf_clear(&buf);
}

static void write_keys(const char *root) {
    for (int kind = VV_KIND_STORE; kind <= VV_KIND_COPY; kind++) {
        char text[VV_KEY_ROOM];
        struct vv_key key = sample_key(kind);
        if (kind == VV_KIND_TOMBSTONE)
            continue;
        vv_key_print(&key, text);
        write_seed(root, "key", vv_kind_name(kind), text, strlen(text));
    }
    write_seed(root, "key", "name", "%2Ea.b%2F", 9);
    write_seed(root, "key", "number", "0123cdef", 8);
}

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    write_small(argv[1]);
    write_pack(argv[1]);
    write_moved(argv[1]);
    write_keys(argv[1]);
    return failed;
}
