/* A library that is linked with another one, whose functions the program uses. */
int odd_seen(void);
int fixed_linked(void);
__attribute__((visibility("default"))) int fixed_linked(void) {
    return odd_seen();
}
