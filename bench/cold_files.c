#include "cold_files.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include "bench.h"
#include "new_files.h"
#include "ranks.h"
#include "together.h"

double cold_files_read(const char *folder) {
    struct new_files files = {0};
    struct stat st;
    together_cool(folder);
    new_files_look(folder, &files);
    double begin = ranks_start();
    for (size_t i = ranks_own(); i < files.count; i += ranks_all()) {
        bench_check(stat(files.names[i], &st) == 0, files.names[i]);
        uint8_t *data = bench_pages((size_t)st.st_size + 1);
        (void)bench_bare_read(files.names[i], data, (size_t)st.st_size);
        munmap(data, (size_t)st.st_size + 1);
    }
    double seconds = ranks_stop(begin);
    new_files_clear(&files);
    return seconds;
}
