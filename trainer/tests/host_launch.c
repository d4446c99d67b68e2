/* Run kernels on the host, with a fiber for each thread: see host_kernels.h. */
#include "host_kernels.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

enum { THREADS_MAX = 1024, STACK_BYTES = 64 << 10 };

struct dims threadIdx, blockIdx, blockDim, gridDim;

/* Fibers are kept for the next launch. They switch by _setjmp() and _longjmp(), because swapcontext() makes a system
 * call, which takes four times as long as the arithmetic of the kernels. */
static struct fiber {
    char *stack; /* owned; NULL: the fiber has not begun */
    jmp_buf place;
    int is_over;
} fibers[THREADS_MAX];
static jmp_buf scheduler;
static struct fiber *running; /* NULL: no launch is running */
static const struct host_kernel *launched;
static void **launched_arguments;

static void leave(void)
{
    if (_setjmp(running->place) == 0)
        _longjmp(scheduler, 1);
}

void host_barrier(void)
{
    if (running == NULL) {
        fprintf(stderr, "%s: is said to have no barriers\n", launched->name);
        abort();
    }
    leave();
}

/* One round for each thread that the fiber runs. */
static void threads_of_fiber(void)
{
    for (;;) {
        launched->run(launched_arguments);
        running->is_over = 1;
        leave();
    }
}

static void begin(struct fiber *fiber)
{
    ucontext_t context;
    fiber->stack = malloc(STACK_BYTES);
    if (fiber->stack == NULL || getcontext(&context) != 0)
        abort();
    context.uc_stack.ss_sp = fiber->stack;
    context.uc_stack.ss_size = STACK_BYTES;
    context.uc_link = NULL;
    makecontext(&context, threads_of_fiber, 0);
    setcontext(&context);
}

/* Run a fiber to the next barrier or to the end of its thread. */
static void resume(struct fiber *fiber)
{
    running = fiber;
    if (_setjmp(scheduler) != 0)
        return;
    if (fiber->stack == NULL)
        begin(fiber);
    _longjmp(fiber->place, 1);
}

static void place(unsigned index)
{
    threadIdx = (struct dims){index % blockDim.x, index / blockDim.x % blockDim.y, index / blockDim.x / blockDim.y};
}

/* Run all threads to the next barrier or to their end. Returns how many have ended. */
static unsigned advance(unsigned threads)
{
    unsigned over = 0;
    for (unsigned i = 0; i < threads; i++) {
        place(i);
        resume(&fibers[i]);
        over += (unsigned)running->is_over;
    }
    running = NULL;
    return over;
}

static void run_block(unsigned threads)
{
    unsigned over = 0;
    for (unsigned i = 0; i < threads; i++)
        fibers[i].is_over = 0;
    while (over == 0)
        over = advance(threads);
    if (over != threads) {
        fprintf(stderr, "%s: %u of %u threads do not come to a barrier\n", launched->name, over, threads);
        abort();
    }
}

static void run_plain(unsigned threads)
{
    for (unsigned i = 0; i < threads; i++) {
        place(i);
        launched->run(launched_arguments);
    }
}

void host_launch(const struct host_kernel *kernel, struct dims grid, struct dims block, void **arguments)
{
    unsigned threads = block.x * block.y * block.z;
    if (threads == 0 || threads > THREADS_MAX || grid.x == 0 || grid.y == 0 || grid.y > 65535 || grid.z != 1) {
        fprintf(stderr, "%s: no card launches %u.%u.%u blocks of %u threads\n", kernel->name, grid.x, grid.y, grid.z,
                threads);
        abort();
    }
    launched = kernel;
    launched_arguments = arguments;
    gridDim = grid;
    blockDim = block;
    for (unsigned y = 0; y < grid.y; y++)
        for (unsigned x = 0; x < grid.x; x++) {
            blockIdx = (struct dims){x, y, 0};
            if (kernel->has_barriers)
                run_block(threads);
            else
                run_plain(threads);
        }
}
