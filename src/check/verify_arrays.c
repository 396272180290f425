/* The arrays of a checkpoint as a whole. It can be restored on as many ranks as it has, whatever is found here. */
#include <errno.h>

#include "arrays/global_array.h"
#include "base/error.h"
#include "check/verify_private.h"

int vv_verify_arrays(struct vv_verifier *verifier, struct vv_view *view, const char *key) {
    struct vv_global_arrays arrays = {0};
    struct varve_error why = {0};
    uint32_t ranks = vv_view_record(view)->ranks;
    int rc = 0;
    if (ranks == 1 || vv_verify_is_local(verifier)) /* one node does not see them all */
        return 0;
    for (uint32_t owner = 0; owner < ranks && rc == 0; owner++) {
        rc = vv_global_arrays_add(&arrays, view, owner, NULL, &why);
        if (rc == 0 && vv_verify_progress(verifier, 0) != 0)
            rc = -EINTR;
    }
    rc = rc ? rc : vv_global_arrays_check(&arrays, 0, &why);
    for (size_t i = 0; i < arrays.count && rc == 0; i++)
        if (arrays.list[i].is_ambiguous || arrays.list[i].missing > 0)
            vv_verify_finding(verifier, VV_FINDING_NOTE, key, "array %s is not whole: %s", arrays.list[i].name,
                              arrays.list[i].problem ? arrays.list[i].problem : "no memory to say why");
    vv_global_arrays_clear(&arrays);
    if (rc == -E2BIG || rc == -ENOMEM) { /* which says nothing about the checkpoint */
        vv_verify_finding(verifier, VV_FINDING_NOTE, key, "its arrays were not looked at: %s", why.text);
        return 0;
    }
    return vv_verify_evaluate(verifier, key, rc, &why);
}
