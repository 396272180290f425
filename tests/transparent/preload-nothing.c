/* Linked statically. */
int main(void) {
    return 0;
}
