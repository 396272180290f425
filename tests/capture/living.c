/* living --settings "capture=..." [--must-hold] [--flags no-kernel] [CASE...]: the cases in living_*.c, each in a
 * process of its own. */
#include "living.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CASE_SECONDS 60

/* ---- running cases ---- */

static int run_case(const struct living_case *it) {
    int status = 0;
    fflush(stdout);
    double start = kit_seconds();
    pid_t pid = fork();
    if (pid == 0) {
        snprintf(kit_where, sizeof kit_where, "%s, %s", mode.settings, it->name);
        alarm(CASE_SECONDS);
        it->run();
        _exit(0);
    }
    waitpid(pid, &status, 0);
    int is_skipped = WIFEXITED(status) && WEXITSTATUS(status) == 77;
    if (WIFSIGNALED(status))
        printf("FAILED  %s: %s (signal %d)\n", it->name, WTERMSIG(status) == SIGALRM ? "it hangs" : "it was killed",
               WTERMSIG(status));
    else
        printf("%s %s, %.2f s\n",
               status == 0  ? "ok     "
               : is_skipped ? "skipped"
                            : "FAILED ",
               it->name, kit_seconds() - start);
    return status == 0 ? 0 : is_skipped ? 77 : 1;
}

static int run_all(void) {
    const struct living_case *lists[] = {signal_cases, memory_cases, kernel_cases, kinds_cases, system_cases};
    size_t count = sizeof lists / sizeof *lists;
    int ran = 0, failed = 0;
    for (size_t i = 0; i < count * mode.rounds; i++)
        for (const struct living_case *it = lists[i % count]; it->name; it++)
            if (is_asked_for(it->name)) {
                int result = run_case(it);
                ran += result != 77;
                failed += result == 1;
            }
    printf("%s: %d cases, %d failed, in %u something was held or frozen\n", mode.settings, ran, failed, *mode.held);
    if (mode.must_hold && ran && *mode.held == 0) {
        printf("FAILED: nothing was ever held: this tested nothing\n");
        failed++;
    }
    return failed ? 1 : ran ? 0 : 77;
}

int main(int argc, char **argv) {
    mode.rounds = 1;
    mode_parse(argc, argv);
    return run_all();
}
