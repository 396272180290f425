#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char printed[VV_KEY_CAPACITY];
    char name[VV_NAME_MAX + 1];
    char component[VV_NAME_MAX * 3 + 1];
    struct vv_key key;
    uint64_t number;
    char *text = malloc(size + 1);
    FUZZ_CHECK(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    if (vv_key_parse(text, &key) == 0) {
        vv_key_print(&key, printed);
        FUZZ_CHECK(strcmp(printed, text) == 0);
    }
    if (vv_name_decode(text, name) == 0) {
        vv_name_encode(name, component);
        FUZZ_CHECK(strcmp(component, text) == 0);
    }
    if (vv_name_check(text) == 0) {
        vv_name_encode(text, component);
        FUZZ_CHECK(vv_name_decode(component, name) == 0 && strcmp(name, text) == 0);
    }
    if (vv_hex_parse(text, 8, &number) == 0)
        FUZZ_CHECK(number <= UINT32_MAX);
    free(text);
    return 0;
}
