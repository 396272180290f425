/* The process's SIGSEGV: our handler goes first, and what is not ours goes to the handler that was there before. */
#ifndef VV_SIGNALS_H
#define VV_SIGNALS_H

#include <signal.h>

/* In the handler, with all signals blocked. 1: dealt with, the instruction is tried again; 0: none of ours. */
typedef int (*vv_signals_fn)(const siginfo_t *info);

/* Be the first to see faults. Again and again is fine, and needed: a handler the program installs meanwhile takes the
 * place of ours, and gets faults that are ours; this puts ours on top and passes on to theirs. Theirs may pass on to
 * ours in turn. Ours stays for good: a thread may be on its way into it. 0 or -errno. */
int vv_signals_take(vv_signals_fn fn);

/* While a lock is held that a handler of the program's, interrupting this thread, might need in order to go on. */
void vv_signals_block(sigset_t *old_out);
void vv_signals_restore(const sigset_t *old);

#endif
