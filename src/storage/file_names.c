/* Names of files that stay for a moment only: made here so that no two are the same, and known again here.
 *
 * ".WORD.,HOST-PID-N-RANDOM", or in the folder tmp without what comes before HOST. The comma keeps it out of listings:
 * no key has one. HOST stands for one boot of one machine and one PID namespace: 16 hex digits or "unknown". RANDOM has
 * 16, too. Whatever is not called so from the first character to the last is not ours. */
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/file_private.h"
#include "base/hash.h"
#include "base/thread.h"

/* Process numbers mean something only within one boot of one machine and one PID namespace. */
void vv_file_host_token(char out[17]) {
    char text[128] = "";
    struct stat st;
    ssize_t size = -1;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        size = read(fd, text, 64);
        close(fd);
    }
    if (size <= 0 || stat("/proc/self/ns/pid", &st) < 0) {
        out[0] = '\0';
        return;
    }
    int length = snprintf(text + size, sizeof(text) - (size_t)size, "/%llu", (unsigned long long)st.st_ino);
    snprintf(out, 17, "%016llx", (unsigned long long)vv_sum64(text, (size_t)(size + length)));
}

int vv_file_own_name(struct file_backend *file, const char *before, char out[FILE_OWN_CAPACITY]) {
    uint64_t random = 0;
    int result = vv_random(&random, sizeof(random));
    if (result < 0)
        return result;
    snprintf(out, FILE_OWN_CAPACITY, "%s%s-%ld-%u-%016" PRIx64, before, *file->host ? file->host : "unknown",
             (long)getpid(), atomic_fetch_add(&file->counter, 1), random);
    return 0;
}

static int take_hex(const char **at, char *out) {
    size_t size = strspn(*at, "0123456789abcdef");
    if (size != 16)
        return 0;
    if (out)
        snprintf(out, 17, "%.16s", *at);
    *at += size;
    return 1;
}

/* As printf writes it: digits without a sign and without a zero before them, then a minus sign. */
static int take_number(const char **at, unsigned long most, unsigned long *out) {
    size_t size = strspn(*at, "0123456789");
    if (size < 1 || size > 10 || ((*at)[0] == '0' && size > 1) || (*at)[size] != '-')
        return 0;
    *out = strtoul(*at, NULL, 10);
    *at += size + 1;
    return *out <= most;
}

/* "HOST-PID-N-RANDOM", and nothing else. */
static int maker_parse(const char *text, struct file_maker *out) {
    unsigned long pid, counter;
    *out = (struct file_maker){.host = ""};
    if (strncmp(text, "unknown-", 8) == 0)
        text += 7;
    else if (!take_hex(&text, out->host))
        return 0;
    if (*text++ != '-' || !take_number(&text, INT_MAX, &pid) || pid == 0 || !take_number(&text, UINT_MAX, &counter))
        return 0;
    out->pid = (long)pid;
    return take_hex(&text, NULL) && !*text;
}

/* Is it a name of ours? In tmp that is the maker alone, elsewhere ".NAME.," and the maker, where NAME is of a key. */
int vv_file_name_parse(const char *name, int is_tmp, struct file_maker *out) {
    char own[NAME_MAX + 1];
    const char *mark = strrchr(name, ',');
    if (is_tmp)
        return maker_parse(name, out);
    if (name[0] != '.' || !mark || mark < name + 3 || mark[-1] != '.' || (size_t)(mark - name) > sizeof(own))
        return 0;
    snprintf(own, sizeof(own), "%.*s", (int)(mark - name) - 2, name + 1);
    return vv_backend_key_check(own) == 0 && maker_parse(mark + 1, out);
}

int vv_file_is_temporary(const char *name) {
    struct file_maker maker;
    return vv_file_name_parse(name, 0, &maker);
}
