/* Run kernels on the host, with a fiber for each thread: see host_kernels.h. */
#include "host_kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

enum { THREADS_MAX = 1024, STACK_BYTES = 64 << 10 };

struct dims threadIdx, blockIdx, blockDim, gridDim;

static struct fiber {
    ucontext_t context;
    char *stack; /* owned; kept for the next launch */
    int is_over;
} fibers[THREADS_MAX];
static ucontext_t scheduler;
static struct fiber *running; /* NULL: no launch is running */
static const struct host_kernel *launched;
static void **launched_arguments;

void host_barrier(void)
{
    if (running == NULL) {
        fprintf(stderr, "%s: is said to have no barriers\n", launched->name);
        abort();
    }
    swapcontext(&running->context, &scheduler);
}

static void thread(void)
{
    launched->run(launched_arguments);
    running->is_over = 1;
    swapcontext(&running->context, &scheduler); /* this fiber is never resumed */
}

static void begin(struct fiber *fiber)
{
    if (fiber->stack == NULL)
        fiber->stack = malloc(STACK_BYTES);
    if (fiber->stack == NULL || getcontext(&fiber->context) != 0)
        abort();
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = STACK_BYTES;
    fiber->context.uc_link = NULL;
    fiber->is_over = 0;
    makecontext(&fiber->context, thread, 0);
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
        running = &fibers[i];
        swapcontext(&scheduler, &running->context);
        over += (unsigned)running->is_over;
    }
    running = NULL;
    return over;
}

static void run_block(unsigned threads)
{
    unsigned over = 0;
    for (unsigned i = 0; i < threads; i++)
        begin(&fibers[i]);
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
