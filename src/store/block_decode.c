/* The bytes of a block from what is stored of it. */
#include "store/block_decode.h"

#include <errno.h>

int vv_block_decode(struct vv_coders *coders, const char *key, const struct vv_block *block, const void *stored,
                    void *raw, struct varve_error *error) {
    const struct vv_coding coding = {block->codec, {block->filter[0], block->filter[1]}, block->element};
    struct varve_error why;
    vv_error_clear(&why);
    int rc = vv_coding_check(&coding, &why);
    if (rc < 0) {
        return vv_error(error, rc, "%s: block at byte %llu of part %u: %s", key, (unsigned long long)block->offset,
                        block->part, why.text);
    }
    struct vv_lent_coder *lent = vv_coders_borrow(coders);
    rc = lent ? vv_coder_decode(lent->coder, &coding, stored, block->stored, raw, block->raw) : -ENOMEM;
    vv_coders_return(coders, lent);
    if (rc == -ENOMEM)
        return vv_error_sys(error, rc, "%s: decode a block", key);
    return rc < 0 ? vv_error(error, rc, "%s: block at byte %llu of part %u cannot be decoded with %s", key,
                             (unsigned long long)block->offset, block->part, vv_coding_describe(&coding))
                  : 0;
}
