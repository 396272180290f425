/* Settings as a program or a file gives them: any text is taken or refused with a message, and what is taken is within
 * bounds. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct vv_settings settings;
    struct varve_error error = {0};
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    vv_settings_init(&settings);
    int result = vv_settings_set_text(&settings, text, "program", &error);
    if (result < 0 && (error.code != result || !error.text[0]))
        abort();
    unsigned retries;
    vv_settings_on_error(&settings, &retries);
    if (settings.threads < 0 || settings.threads > 64 || settings.block_size < (64u << 10) ||
        settings.block_size > (16u << 20) || settings.table_share < 0 || settings.table_share > 0.5)
        abort();
    free(text);
    return 0;
}
