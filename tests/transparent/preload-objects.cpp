// A program of C++ that names nothing: what it has lies in vectors. Usage: preload-objects STORE STEPS KILL_AT
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <unistd.h>
#include <varve/varve.h>
#include <vector>

namespace {

constexpr std::size_t count = 30000;

struct alignas(64) Cell {
    double value[8];
};

// Outside of main: a compiler may keep what never leaves a function in registers.
std::vector<double> field;
std::vector<Cell> cells;
std::unique_ptr<std::int64_t[]> hits;

void begin() {
    for (std::size_t i = 0; i < count; i++) // it grows, and leaves smaller ones behind
        field.push_back(static_cast<double>(i));
    field.shrink_to_fit();
    cells.resize(count / 8);
    hits.reset(new std::int64_t[count]());
}

void advance(std::int64_t step) {
    std::vector<double> before(field);
    for (std::size_t i = 1; i < count; i++) {
        field[i] = 0.5 * before[i] + 0.5 * before[i - 1] + static_cast<double>(step);
        cells[i / 8].value[i % 8] += field[i];
        hits[i] += field[i] > before[i];
    }
}

void mix(std::uint64_t &hash, const void *data, std::size_t size) {
    for (std::size_t i = 0; i < size; i++)
        hash = (hash ^ static_cast<const unsigned char *>(data)[i]) * 0x100000001b3u;
}

int stop(const char *call, const char *text) {
    std::fprintf(stderr, "%s: %s\n", call, text);
    return 4;
}

} // namespace

int main(int argc, char **argv) {
    varve_session *session;
    varve_error error;
    std::int64_t step = -1;
    if (argc != 4)
        return 2;
    if (varve_open(argv[1], "objects", nullptr, &session, &error) != 0)
        return stop("open", error.text);
    begin();
    int rc = varve_restart(session, VARVE_LATEST, &step);
    if (rc != 0 && rc != VARVE_NO_CHECKPOINT)
        return stop("restart", varve_session_error(session)->text);
    std::fprintf(stderr, "begins at %d\n", static_cast<int>(step) + 1);
    for (step++; step < std::atoi(argv[2]); step++) {
        advance(step);
        if (step % 4 == 0 && varve_checkpoint(session, step) != 0)
            return stop("checkpoint", varve_session_error(session)->text);
        if (step == std::atoi(argv[3]) && varve_wait(session) == 0)
            kill(getpid(), SIGKILL);
    }
    if (varve_close(session) != 0)
        return stop("close", "the last checkpoint is not safe");
    std::uint64_t hash = 0xcbf29ce484222325u;
    mix(hash, field.data(), count * sizeof(double));
    mix(hash, cells.data(), cells.size() * sizeof(Cell));
    mix(hash, hits.get(), count * sizeof(std::int64_t));
    std::printf("%016llx\n", static_cast<unsigned long long>(hash));
    return 0;
}
