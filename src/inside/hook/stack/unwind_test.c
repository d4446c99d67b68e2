/* Tests the native walk against the C library's backtrace(), and on corrupted stacks. The hook's files are compiled
 * into this program, so that a walk starts here. */
#include "gw_test_random.h"
#include "gw_unit_test.h"
#include "gwi_hook.h"
#include "gwi_unwind.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#define NOINLINE __attribute__((noinline, noclone))

/* Replacements for parts of the hook that are not compiled into this program. */
gwi_state gwi;
__thread gw_slot *gwi_slot;

bool gwi_lock(void)
{
    return true;
}

void gwi_unlock(void)
{
}

/* ---- walks ---- */

enum { PAGE_BYTES = 4096 };

static void *memory;
static __thread gwi_stack_known known_stack;
static volatile unsigned kept; /* changed after a call, so that the compiler does not turn the call into a jump */

static void begin_anew(bool without_loader)
{
    size_t bytes = GWI_UNWIND_BYTES + GWI_TRAIL_BYTES + GWI_MODULES_BYTES;
    if (memory != NULL)
        munmap(memory, bytes);
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    gwi_unwind_place(memory);
    gwi_trail_place((char *)memory + GWI_UNWIND_BYTES);
    gwi_modules_place((char *)memory + GWI_UNWIND_BYTES + GWI_TRAIL_BYTES);
    gwi_modules_begin(without_loader);
    known_stack = (gwi_stack_known){0};
}

static int set_up(void **state)
{
    begin_anew(false);
    return 0;
}

static NOINLINE void walk(gwi_walk *w, bool only_key)
{
    uint64_t reg[GWI_REGISTER_COUNT];
    w->known = &known_stack;
    w->skip_module = 0;
    w->salt = 0;
    w->only_key = only_key;
    gwi_unwind(w, reg, gwi_registers_here(reg));
    kept++;
}

/* The walk and the expected result for one stack. */
typedef struct finding {
    gwi_walk walk;
    void *expected[GW_SITE_NATIVE_MAX * 2];
    int expected_count;
} finding;

/* Check that our walk and the C library's found the same frames, from the caller of look() on (pc[2]). */
static void compare(const finding *f)
{
    uint32_t ours = 0;
    int theirs = 0;
    while (theirs < f->expected_count && (uintptr_t)f->expected[theirs] != f->walk.pc[2])
        theirs++;
    assert_true(f->walk.count > 2 && theirs < f->expected_count);
    for (ours = 2; ours < f->walk.count && theirs < f->expected_count; ours++, theirs++)
        assert_int_equal(f->walk.pc[ours], (uintptr_t)f->expected[theirs]);
    if ((f->walk.flags & GW_SITE_NATIVE_CUT) == 0) {
        assert_int_equal(ours, f->walk.count);
        assert_int_equal(theirs, f->expected_count);
    }
}

static NOINLINE void look(finding *f)
{
    f->expected_count = backtrace(f->expected, GW_SITE_NATIVE_MAX * 2);
    walk(&f->walk, false);
    kept++;
}

/* ---- shapes of stacks ---- */

typedef struct way {
    uint64_t bits; /* three bits for each level: which function of `shapes` is called */
    void (*end)(void *);
    void *user;
} way;

static void deeper(unsigned depth, way w);

static NOINLINE void plain(unsigned depth, way w)
{
    deeper(depth, w);
    kept++;
}

static NOINLINE void large(unsigned depth, way w)
{
    volatile char room[70000];
    room[depth] = 1;
    deeper(depth, w);
    kept += (unsigned char)room[depth];
}

static NOINLINE void of_unknown_size(unsigned depth, way w)
{
    volatile char *room = __builtin_alloca(16 + depth * 24 + (w.bits & 63));
    room[0] = 1;
    deeper(depth, w);
    kept += (unsigned char)room[0];
}

static NOINLINE void aligned(unsigned depth, way w)
{
    _Alignas(128) volatile char room[256];
    room[depth & 7] = 1;
    deeper(depth, w);
    kept += (unsigned char)room[depth & 7];
}

static NOINLINE void aligned_of_unknown_size(unsigned depth, way w)
{
    _Alignas(64) volatile char room[64];
    volatile char *more = __builtin_alloca(depth * 8 + 8);
    room[0] = more[0] = 1;
    deeper(depth, w);
    kept += (unsigned char)(room[0] + more[0]);
}

static void count_up(unsigned *what)
{
    kept += *what;
}

static NOINLINE void cleaned_up(unsigned depth, way w)
{
    __attribute__((cleanup(count_up))) unsigned cleaned = depth;
    deeper(depth, w);
}

static NOINLINE void many_registers(unsigned depth, way w)
{
    unsigned a = kept, b = a * 3, c = b + depth, d = c ^ 5, e = d * 7, f = e + 1, g = f ^ a;
    deeper(depth, w);
    kept += a + b * 2 + c * 3 + d * 4 + e * 5 + f * 6 + g * 7;
}

__attribute__((optimize("no-omit-frame-pointer"))) static NOINLINE void with_pointer(unsigned depth, way w)
{
    deeper(depth, w);
    kept++;
}

static void (*const shapes[])(unsigned, way) = {
    plain, large, of_unknown_size, aligned, aligned_of_unknown_size, cleaned_up, many_registers, with_pointer,
};

static void deeper(unsigned depth, way w)
{
    if (depth == 0) {
        w.end(w.user);
        kept++;
        return;
    }
    way next = w;
    next.bits = w.bits >> 3;
    if (next.bits == 0)
        next.bits = 0x123456789abcdefull * (depth | 1);
    shapes[w.bits & 7](depth - 1, next);
    kept++;
}

static void look_here(void *user)
{
    look(user);
    kept++;
}

GW_TEST_WITH(every_shape_of_stack, set_up, NULL)
{
    finding *f = calloc(1, sizeof *f);
    for (unsigned n = 0; n < 300; n++) {
        way w = {n * 0x9e3779b97f4a7c15ull, look_here, f};
        deeper(n % 60, w);
        compare(f);
        assert_int_equal(f->walk.flags & GW_SITE_NATIVE_LOST, 0);
        assert_true(f->walk.count >= n % 60);
    }
    free(f);
}

GW_TEST_WITH(without_the_loader, set_up, NULL)
{
    begin_anew(true);
    every_shape_of_stack(state);
}

/* ---- keys ---- */

static void take_key(void *user)
{
    gwi_walk *w = user;
    walk(w, true);
    kept++;
}

/* Check that a walk by trail and a walk by rules give the same key. */
GW_TEST_WITH(keys_by_trail_are_keys_by_rule, set_up, NULL)
{
    gwi_walk *w = calloc(1, sizeof *w);
    char *trails = (char *)memory + GWI_UNWIND_BYTES;
    unsigned short_ones = 0;
    for (unsigned n = 0; n < 200; n++) {
        uint64_t key[4];
        for (int round = 0; round < 4; round++) {
            gwi_trail_place(round == 3 ? NULL : trails); /* the last round uses only rules */
            deeper(8 + n % 50, (way){n * 0x9e3779b97f4a7c15ull, take_key, w});
            key[round] = w->key;
            short_ones += w->is_short;
        }
        assert_int_equal(key[0], key[1]);
        assert_int_equal(key[0], key[2]);
        assert_int_equal(key[0], key[3]);
    }
    assert_in_range(short_ones, 200, 600);
    free(w);
}

static int by_value(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Build a stack that depends on `path`: each bit chooses one of two lines for a call. The depth and the innermost
 * frames do not change. */
static NOINLINE void two_lines(unsigned depth, uint64_t path, gwi_walk *w)
{
    if (depth == 0) {
        walk(w, true);
    } else if (path & 1) {
        two_lines(depth - 1, path >> 1, w);
        kept += 1;
    } else {
        two_lines(depth - 1, path >> 1, w);
        kept += 2;
    }
    kept++;
}

GW_TEST_WITH(different_lines_are_different_keys, set_up, NULL)
{
    enum { PATHS = 1 << 12 };
    uint64_t *key = calloc(PATHS, sizeof *key), again;
    gwi_walk *w = calloc(1, sizeof *w);
    for (unsigned round = 0; round < 2; round++)
        for (unsigned path = 0; path < PATHS; path++) {
            two_lines(12, path, w);
            again = w->key;
            if (round == 1)
                assert_int_equal(key[path], again);
            key[path] = again;
        }
    qsort(key, PATHS, sizeof *key, by_value);
    for (unsigned i = 1; i < PATHS; i++)
        assert_int_not_equal(key[i - 1], key[i]);
    free(w);
    free(key);
}

GW_TEST_WITH(longer_than_what_is_kept, set_up, NULL)
{
    finding *f = calloc(1, sizeof *f);
    deeper(150, (way){5, look_here, f});
    compare(f);
    assert_int_equal(f->walk.flags, GW_SITE_NATIVE_CUT);
    assert_int_equal(f->walk.count, GW_SITE_NATIVE_MAX);
    free(f);
}

/* ---- other stacks ---- */

static void *look_in_thread(void *user)
{
    known_stack = (gwi_stack_known){0};
    deeper(20, (way){77, look_here, user});
    assert_true(known_stack.high != 0);
    return NULL;
}

GW_TEST_WITH(in_a_thread, set_up, NULL)
{
    finding *f = calloc(1, sizeof *f);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, look_in_thread, f), 0);
    pthread_join(thread, NULL);
    compare(f);
    assert_int_equal(f->walk.flags, 0);
    free(f);
}

static finding *of_signal;

static void on_signal(int number)
{
    look(of_signal);
    kept++;
}

static void raise_here(void *user)
{
    raise(SIGUSR1);
    kept++;
}

static void *stack_with_guard(size_t bytes)
{
    char *at = mmap(NULL, bytes + 2 * PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    assert_int_equal(mprotect(at + PAGE_BYTES, bytes, PROT_READ | PROT_WRITE), 0);
    return at + PAGE_BYTES;
}

GW_TEST_WITH(from_a_signal_handler, set_up, NULL)
{
    enum { STACK_BYTES = 256 << 10 };
    void *space = stack_with_guard(STACK_BYTES);
    of_signal = calloc(1, sizeof *of_signal);
    for (int other_stack = 0; other_stack < 2; other_stack++) {
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = other_stack ? SA_ONSTACK : 0};
        stack_t stack = {.ss_sp = space, .ss_size = STACK_BYTES};
        if (other_stack)
            assert_int_equal(sigaltstack(&stack, NULL), 0);
        assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
        deeper(20, (way){31337, raise_here, NULL});
        /* For the interrupted instruction, our address is one byte higher than the C library's, so make both equal. */
        for (uint32_t i = 0; i < of_signal->walk.count; i++)
            for (int k = 0; k < of_signal->expected_count; k++)
                if ((uintptr_t)of_signal->expected[k] + 1 == of_signal->walk.pc[i])
                    of_signal->walk.pc[i]--;
        compare(of_signal);
        assert_int_equal(of_signal->walk.flags, 0);
        assert_true(of_signal->walk.count > 22);
    }
    sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
    signal(SIGUSR1, SIG_DFL);
    free(of_signal);
}

static ucontext_t outside, inside;
static finding *of_coroutine;

static void coroutine(void)
{
    deeper(20, (way){99, look_here, of_coroutine});
    kept++;
}

GW_TEST_WITH(in_a_coroutine, set_up, NULL)
{
    enum { STACK_BYTES = 1 << 20 };
    of_coroutine = calloc(1, sizeof *of_coroutine);
    static int first;
    /* first with, then without known limits of the thread's own stack */
    for (first = 0; first < 2; first++) {
        /* static, because local variables are indeterminate after getcontext() */
        static void *space;
        space = stack_with_guard(STACK_BYTES);
        known_stack = (gwi_stack_known){0};
        if (first == 0)
            deeper(3, (way){1, look_here, of_coroutine});
        getcontext(&inside);
        inside.uc_stack.ss_sp = space;
        inside.uc_stack.ss_size = STACK_BYTES;
        inside.uc_link = &outside;
        makecontext(&inside, coroutine, 0);
        assert_int_equal(swapcontext(&outside, &inside), 0);
        compare(of_coroutine);
        /* The first frame of a makecontext() stack has no call frame information, so the walk may end there or be
         * lost. */
        assert_int_equal(of_coroutine->walk.flags & ~(unsigned)GW_SITE_NATIVE_LOST, 0);
        /* The coroutine's stack must not be taken for the thread's own, because it will be unmapped. */
        assert_true((uintptr_t)space >= known_stack.high || (uintptr_t)space + STACK_BYTES <= known_stack.low);
        munmap((char *)space - PAGE_BYTES, STACK_BYTES + 2 * PAGE_BYTES);
    }
    free(of_coroutine);
}

/* ---- corrupted stacks ---- */

/* A word of a corrupted stack: random, or similar to a real stack. */
static uint64_t harmful_word(uintptr_t low, uintptr_t high, const finding *f)
{
    switch (gw_test_random() % 8) {
    case 0:
        return gw_test_random();
    case 1:
        return low + gw_test_random() % (high - low + 64);
    case 2:
        return (low + gw_test_random() % (high - low)) & ~7ull;
    case 3:
        return gw_test_random() % 2 ? 0 : UINT64_MAX - gw_test_random() % 64;
    default:
        return f->walk.pc[gw_test_random() % f->walk.count];
    }
}

GW_TEST_WITH(a_broken_stack_never_faults, set_up, NULL)
{
    enum { WORDS = 512, ROUNDS = 40000 };
    finding *f = calloc(1, sizeof *f);
    uint64_t *word = stack_with_guard(PAGE_BYTES);
    uintptr_t low = (uintptr_t)word, high = low + WORDS * sizeof *word;
    gwi_stack_known whole = {.low = low, .high = high, .looks = 1000}, none = {.looks = 1000};
    unsigned long frames = 0;
    deeper(40, (way){4711, look_here, f});
    gwi_walk *w = calloc(1, sizeof *w);
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint64_t reg[GWI_REGISTER_COUNT];
        for (unsigned i = 0; i < WORDS; i++)
            word[i] = harmful_word(low, high, f);
        for (unsigned i = 0; i < GWI_REGISTER_COUNT; i++)
            reg[i] = harmful_word(low, high, f);
        reg[GWI_REG_SP] = low + gw_test_random() % (high - low);
        if (round % 8 != 0)
            reg[GWI_REG_SP] &= ~7ull;
        reg[GWI_REG_PC] = f->walk.pc[gw_test_random() % f->walk.count];
        w->known = round % 2 ? &whole : &none;
        w->only_key = round % 3 != 0;
        gwi_unwind(w, reg, (uint32_t)gw_test_random() | 1u << GWI_REG_SP | 1u << GWI_REG_PC);
        frames += w->count;
    }
    assert_true(frames > ROUNDS); /* more than one frame per walk on average */
    munmap((char *)word - PAGE_BYTES, 3 * PAGE_BYTES);
    free(w);
    free(f);
}

GW_TEST_WITH(what_may_be_read, set_up, NULL)
{
    char *page = stack_with_guard(PAGE_BYTES);
    assert_true(gwi_may_read((uintptr_t)page));
    assert_true(gwi_may_read((uintptr_t)page + PAGE_BYTES - 8));
    assert_false(gwi_may_read((uintptr_t)page + PAGE_BYTES));
    assert_false(gwi_may_read((uintptr_t)page - 8));
    assert_false(gwi_may_read(0));
    assert_false(gwi_may_read(~7ull));
    munmap(page - PAGE_BYTES, 3 * PAGE_BYTES);
}

/* ---- code without call frame information ---- */

#if defined(__x86_64__)
void call_with_pointer(void (*function)(void *), void *user);
void call_without_pointer(void (*function)(void *), void *user);
__asm__(".text\n"
        ".type call_with_pointer, @function\n"
        "call_with_pointer:\n"
        "    push %rbp\n"
        "    mov %rsp, %rbp\n"
        "    sub $32, %rsp\n"
        "    mov %rdi, %rax\n"
        "    mov %rsi, %rdi\n"
        "    call *%rax\n"
        "    leave\n"
        "    ret\n"
        ".size call_with_pointer, . - call_with_pointer\n"
        ".type call_without_pointer, @function\n"
        "call_without_pointer:\n"
        "    push %rbp\n"
        "    xor %ebp, %ebp\n"
        "    sub $32, %rsp\n"
        "    mov %rdi, %rax\n"
        "    mov %rsi, %rdi\n"
        "    call *%rax\n"
        "    add $32, %rsp\n"
        "    pop %rbp\n"
        "    ret\n"
        ".size call_without_pointer, . - call_without_pointer\n");

static void walk_here(void *user)
{
    gwi_walk *w = user;
    walk(w, false);
    kept++;
}

static bool has_frame_in(const gwi_walk *w, uintptr_t function)
{
    for (uint32_t i = 0; i < w->count; i++)
        if (w->pc[i] > function && w->pc[i] < function + 64)
            return true;
    return false;
}

static NOINLINE void from_hand_written_code(void (*by)(void (*)(void *), void *), gwi_walk *w)
{
    by(walk_here, w);
    kept++;
}

GW_TEST_WITH(code_without_information, set_up, NULL)
{
    gwi_walk *w = calloc(1, sizeof *w);
    from_hand_written_code(call_with_pointer, w);
    assert_true(has_frame_in(w, (uintptr_t)call_with_pointer));
    assert_true(has_frame_in(w, (uintptr_t)from_hand_written_code));
    assert_int_equal(w->flags & GW_SITE_NATIVE_LOST, 0);
    from_hand_written_code(call_without_pointer, w);
    assert_true(has_frame_in(w, (uintptr_t)call_without_pointer));
    assert_int_equal(w->flags, GW_SITE_NATIVE_LOST);
    free(w);
}
#endif

/* ---- a library is unloaded and another one loaded ---- */

typedef void through_function(void (*)(void *), void *);

/* Load and unload two files with the same code, each twice, usually at the same address. The call sites of both files
 * must get different keys. */
GW_TEST_WITH(another_library_at_the_same_place, set_up, NULL)
{
    static const char *const files[] = {PLUGIN_A, PLUGIN_B};
    gwi_walk *w = calloc(1, sizeof *w);
    uintptr_t place[4];
    uint64_t key[4];
    for (int n = 0; n < 4; n++) {
        const char *file = files[n / 2];
        void *plugin = dlopen(file, RTLD_NOW | RTLD_LOCAL);
        assert_non_null(plugin);
        through_function *through = NULL;
        void *found = dlsym(plugin, "plugin_through");
        memcpy(&through, &found, sizeof through);
        for (int round = 0; round < 3; round++) {
            through(take_key, w); /* uses a stored trail if one matches */
            key[n] = w->key;
        }
        through(walk_here, w);
        bool seen = false;
        for (uint32_t i = 0; i < w->count; i++) {
            const gwi_module *m = w->module[i] != 0 ? gwi_module_at(w->module[i]) : NULL;
            if (m != NULL && (uintptr_t)found >= m->start && (uintptr_t)found < m->end) {
                assert_string_equal(m->path, file);
                seen = true;
            }
        }
        assert_true(seen);
        assert_int_equal(w->flags, 0);
        place[n] = (uintptr_t)found;
        dlclose(plugin);
    }
    if (place[1] != place[2])
        print_message("the libraries lay at different places: the hard case was not met\n");
    for (int n = 0; n < 4; n += 2)
        if (place[n] == place[n + 1])
            assert_int_equal(key[n], key[n + 1]); /* the same file at the same address gives the same key */
    for (int n = 0; n < 2; n++)
        for (int k = 2; k < 4; k++)
            assert_int_not_equal(key[n], key[k]);
    free(w);
}

GW_TEST_WITH(the_same_without_the_loader, set_up, NULL)
{
    begin_anew(true);
    another_library_at_the_same_place(state);
}

GW_TEST_MAIN(NULL, NULL)
