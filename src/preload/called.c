/* Programs that never call Varve (`varve run --restart-after SYMBOL`), in address-true mode: calls of one function by
 * way of the dynamic linker come here first. At the first one a session is opened and the program's memory comes back.
 * At later ones a checkpoint is made, if one is due.
 *
 * Both happen at the same place, just before the function runs, so all that the program has there must come back or be
 * the same. The heap and the static variables come back, and so do the arguments in registers. The stack, and the
 * registers that functions leave as they were, do not: they must be what they were at the first call, byte by byte, or
 * no checkpoint is made. A loop that counts in a register or on the stack is found by this, and whatever else the
 * compiler keeps there across the call. */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <varve/varve.h>

#include "preload_private.h"

#define STACK_MOST ((size_t)64 << 20)
#define ARGS 8
#define TELL(...) dprintf(STDERR_FILENO, "varve: " __VA_ARGS__)

/* At the begin of the function, as called_entry lays them out. */
struct registers {
    uint64_t args[ARGS]; /* rdi rsi rdx rcx r8 r9 rax r10: those that say how a function is called, too */
    uint64_t kept[7];    /* rbx rbp r12 to r15, and how numbers are rounded */
    uint64_t sp;
    unsigned char numbers[8][16]; /* xmm0 to xmm7 */
};

static struct { char symbol[256], store[4096], name[256], library[4096]; } asked;
static void *real;             /* the function */
static struct registers first; /* at its first call */
static unsigned char *stack;   /* and all of the stack from there on */
static size_t stack_bytes;
static pid_t owner; /* this process, and its first thread */
static int is_told, is_saved;
static struct varve_session *session;

/* What a checkpoint holds of the call. */
static struct {
    uint64_t count; /* calls at the place of the first one, without that one */
    uint64_t place; /* where it returns to */
    struct registers first, now;
} call;

extern void *__libc_stack_end;

/* ---- libvarve, which the program does not have ---- */

static struct {
    __typeof__(varve_open) *open;
    __typeof__(varve_protect) *protect;
    __typeof__(varve_restart) *restart;
    __typeof__(varve_need) *need;
    __typeof__(varve_checkpoint) *checkpoint;
    __typeof__(varve_should_exit) *should_exit;
    __typeof__(varve_close) *close;
    __typeof__(varve_session_error) *error;
} varve;

static void find_varve(void) {
    const struct {
        const char *name;
        void *to;
    } list[] = {{"varve_open", &varve.open},
                {"varve_protect", &varve.protect},
                {"varve_restart", &varve.restart},
                {"varve_need", &varve.need},
                {"varve_checkpoint", &varve.checkpoint},
                {"varve_should_exit", &varve.should_exit},
                {"varve_close", &varve.close},
                {"varve_session_error", &varve.error}};
    void *library = dlopen(asked.library, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        void *found = library ? dlsym(library, list[i].name) : NULL;
        if (!found)
            preload_refuse("libvarve cannot be opened", asked.library);
        memcpy(list[i].to, &found, sizeof found);
    }
}

/* ---- the place ---- */

/* The first word that is not what it was at the first call. NULL: all are. */
static const char *find_change(const struct registers *now) {
    static char text[128];
    if (memcmp(now->kept, first.kept, sizeof first.kept) != 0)
        return "a register that it keeps across the call";
    for (size_t i = 0; i < stack_bytes; i++)
        if (((const unsigned char *)now->sp)[i] != stack[i]) {
            snprintf(text, sizeof text, "its stack, %zu bytes above the call", i - i % 8);
            return text;
        }
    return NULL;
}

static uint64_t return_address(const struct registers *now) {
    return *(const uint64_t *)now->sp;
}

static void keep_stack(const struct registers *now) {
    stack_bytes = (uintptr_t)__libc_stack_end - now->sp;
    stack = stack_bytes > STACK_MOST
                ? MAP_FAILED
                : mmap(NULL, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED)
        preload_refuse("the function is called on a stack of its own, or a very large one", asked.symbol);
    memcpy(stack, (const void *)now->sp, stack_bytes);
}

/* An argument that was the same in both calls of that run is this run's: it may point to what does not come back. */
static void put_arguments(struct registers *now) {
    for (int i = 0; i < ARGS; i++) {
        uint64_t value = call.now.args[i];
        if (value == call.first.args[i])
            continue;
        now->args[i] = value - call.now.sp < stack_bytes ? value - call.now.sp + now->sp : value;
    }
    memcpy(now->numbers, call.now.numbers, sizeof now->numbers);
}

/* ---- the session ---- */

static void end_session(void) {
    if (!session || owner != getpid())
        return;
    if (varve.close(session) != 0)
        TELL("the session does not close\n");
    session = NULL;
    if (!is_saved && !is_told)
        TELL("warn: no checkpoint was made: %s was not called again where it was called first, or none was due\n",
             asked.symbol);
}

static _Noreturn void fail_start(const char *what, const char *text) {
    TELL("%s: %s\n", what, text);
    _exit(1);
}

static void begin_session(struct registers *now) {
    struct varve_error error = {.text = ""};
    int64_t version;
    first = *now;
    keep_stack(now);
    find_varve();
    if (varve.open(asked.store, asked.name, NULL, &session, &error) != 0)
        fail_start("open", error.text);
    atexit(end_session);
    int rc = varve.protect(session, "varve.call", &call, sizeof call);
    rc = rc ? rc : varve.restart(session, VARVE_LATEST, &version);
    if (rc == 0 && call.place != return_address(now))
        fail_start("restart",
                   "the checkpoint was made where the function is called at another place; the memory was overwritten");
    if (rc == 0)
        put_arguments(now);
    else if (rc != VARVE_NO_CHECKPOINT)
        fail_start("restart", varve.error(session)->text);
    is_saved = rc == 0;
    call.place = return_address(now);
}

static void call_again(const struct registers *now) {
    call.count++;
    int is_wanted = varve.need(session);
    const char *change = is_wanted == 1 ? find_change(now) : NULL;
    if (change && !is_told)
        TELL(
            "warn: no checkpoint: %s has changed since the first call of %s, and does not come back: keep what changes "
            "in memory of malloc or in static variables, or store the process (varve dump)\n",
            change, asked.symbol);
    is_told |= change != NULL;
    if (is_wanted == 1 && !change) {
        call.first = first;
        call.now = *now;
        if (varve.checkpoint(session, (int64_t)call.count) == 0)
            is_saved = 1;
        else if (!is_told++)
            TELL("warn: no checkpoint: %s\n", varve.error(session)->text);
    }
    if (varve.should_exit(session) == 1)
        exit(0);
}

/* From called_entry, which goes on to what this returns. */
__attribute__((used, visibility("hidden"))) void *called_before(struct registers *now);
void *called_before(struct registers *now) {
    if (!stack && gettid() == owner)
        begin_session(now);
    else if (session && now->sp == first.sp && return_address(now) == call.place && gettid() == owner)
        call_again(now);
    return real;
}

#ifdef __x86_64__
/* As a function that is called: nothing may change but what called_before puts there. */
__asm__(".text\n.p2align 4\n.hidden called_entry\n.globl called_entry\n.type called_entry, @function\n"
        "called_entry:\n"
        "endbr64\n movq %rsp, %r11\n subq $256, %rsp\n andq $-64, %rsp\n"
        "movq %rdi, (%rsp)\n movq %rsi, 8(%rsp)\n movq %rdx, 16(%rsp)\n movq %rcx, 24(%rsp)\n"
        "movq %r8, 32(%rsp)\n movq %r9, 40(%rsp)\n movq %rax, 48(%rsp)\n movq %r10, 56(%rsp)\n"
        "movq %rbx, 64(%rsp)\n movq %rbp, 72(%rsp)\n movq %r12, 80(%rsp)\n movq %r13, 88(%rsp)\n"
        "movq %r14, 96(%rsp)\n movq %r15, 104(%rsp)\n"
        "movq $0, 112(%rsp)\n fnstcw 112(%rsp)\n stmxcsr 116(%rsp)\n andl $0xffffffc0, 116(%rsp)\n"
        "movq %r11, 120(%rsp)\n"
        "movaps %xmm0, 128(%rsp)\n movaps %xmm1, 144(%rsp)\n movaps %xmm2, 160(%rsp)\n movaps %xmm3, 176(%rsp)\n"
        "movaps %xmm4, 192(%rsp)\n movaps %xmm5, 208(%rsp)\n movaps %xmm6, 224(%rsp)\n movaps %xmm7, 240(%rsp)\n"
        "movq %rsp, %rdi\n call called_before\n movq %rax, %r11\n"
        "movq (%rsp), %rdi\n movq 8(%rsp), %rsi\n movq 16(%rsp), %rdx\n movq 24(%rsp), %rcx\n"
        "movq 32(%rsp), %r8\n movq 40(%rsp), %r9\n movq 48(%rsp), %rax\n movq 56(%rsp), %r10\n"
        "movaps 128(%rsp), %xmm0\n movaps 144(%rsp), %xmm1\n movaps 160(%rsp), %xmm2\n movaps 176(%rsp), %xmm3\n"
        "movaps 192(%rsp), %xmm4\n movaps 208(%rsp), %xmm5\n movaps 224(%rsp), %xmm6\n movaps 240(%rsp), %xmm7\n"
        "movq 120(%rsp), %rsp\n jmp *%r11\n"
        ".size called_entry, .-called_entry\n");
extern void called_entry(void) __attribute__((visibility("hidden")));

/* ---- the loader's tables ---- */

/* Where the loader has put the function's address; its page may be read-only by now. */
static void put_entry(uintptr_t at) {
    void **slot = (void **)at, *page = (void *)(at & ~(uintptr_t)4095);
    Dl_info info;
    if (!*slot || *slot == (void *)(uintptr_t)called_entry)
        return;
    if (real && real != *slot)
        preload_refuse("libraries of the program call different functions of this name", asked.symbol);
    real = *slot;
    if (!dladdr(real, &info) || mprotect(page, 4096, PROT_READ | PROT_WRITE) != 0)
        preload_refuse("calls of this function cannot be seen", asked.symbol);
    *slot = (void *)(uintptr_t)called_entry;
}

struct table {
    const ElfW(Rela) * entries;
    size_t bytes;
};

static int look_at_object(struct dl_phdr_info *info, size_t size, void *arg) {
    struct table tables[2] = {{NULL, 0}, {NULL, 0}};
    const ElfW(Sym) *symbols = NULL;
    const char *texts = NULL;
    const ElfW(Dyn) *entry = NULL;
    char name[SITE_TEXT];
    (void)size, (void)arg;
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            entry = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    if (!site_is_program(info->dlpi_name, name, sizeof name))
        return 0;
    for (; entry && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_RELA || entry->d_tag == DT_JMPREL)
            tables[entry->d_tag == DT_JMPREL].entries = (const void *)entry->d_un.d_ptr;
        if (entry->d_tag == DT_RELASZ || entry->d_tag == DT_PLTRELSZ)
            tables[entry->d_tag == DT_PLTRELSZ].bytes = entry->d_un.d_val;
        if (entry->d_tag == DT_SYMTAB)
            symbols = (const void *)entry->d_un.d_ptr;
        if (entry->d_tag == DT_STRTAB)
            texts = (const void *)entry->d_un.d_ptr;
    }
    for (const struct table *table = tables; symbols && texts && table < tables + 2; table++)
        for (size_t i = 0; table->entries && i < table->bytes / sizeof *table->entries; i++) {
            uint64_t kind = ELF64_R_TYPE(table->entries[i].r_info), number = ELF64_R_SYM(table->entries[i].r_info);
            if ((kind == R_X86_64_JUMP_SLOT || kind == R_X86_64_GLOB_DAT) &&
                strcmp(texts + symbols[number].st_name, asked.symbol) == 0)
                put_entry(info->dlpi_addr + table->entries[i].r_offset);
        }
    return 0;
}
#else
static int look_at_object(struct dl_phdr_info *info, size_t size, void *arg) {
    (void)info, (void)size, (void)arg;
    return 0;
}
#endif

static int take_text(const char *variable, char *out, size_t capacity) {
    const char *text = secure_getenv(variable);
    int length = text ? snprintf(out, capacity, "%s", text) : -1;
    unsetenv(variable);
    return length > 0 && (size_t)length < capacity;
}

void called_start(void) {
    int is_asked = getenv("VARVE_PRELOAD_AFTER") != NULL,
        is_whole = take_text("VARVE_PRELOAD_AFTER", asked.symbol, 256);
    is_whole &= take_text("VARVE_PRELOAD_STORE", asked.store, sizeof asked.store);
    is_whole &= take_text("VARVE_PRELOAD_NAME", asked.name, sizeof asked.name);
    is_whole &= take_text("VARVE_PRELOAD_LIBRARY", asked.library, sizeof asked.library);
    const char *bind = getenv("LD_BIND_NOW");
    if (!is_asked)
        return;
    if (bind && strcmp(bind, "varve") == 0) /* for this program alone */
        unsetenv("LD_BIND_NOW");
    if (!is_whole || !bind || fixed_state != FIXED_ON || strncmp(asked.symbol, "_ZGV", 4) == 0)
        preload_refuse("start it by `varve run --restart-after`, with a function that takes no vectors", asked.symbol);
    if (dlsym(RTLD_DEFAULT, "varve_open"))
        preload_refuse("the program calls Varve itself: leave out --restart-after", asked.symbol);
    owner = getpid();
    dl_iterate_phdr(look_at_object, NULL);
    if (!real)
        preload_refuse("the program calls no such function of a library, or it is linked statically or opened later: "
                       "`nm -D --undefined-only` lists them",
                       asked.symbol);
}
