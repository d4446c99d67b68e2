/* The lessons of `gpuwhy lab`. tests/cmd/test_lab.py runs each of them, and compares its command, card and cause with
 * the table of tests/e2e/scenarios.py. */
#include "gwi_lesson.h"

#include "gw_text.h"

#include <string.h>
#include <strings.h>

/* What a lesson is about. The cause is NULL if nothing fails. */
#define ABOUT(name, cause_id, says) .id = name, .cause = cause_id, .title = says

/* The program of a lesson, its faulty and its repaired arguments, and its card. */
#define RUNS(name, arguments, repaired_arguments, its_card)                                                            \
    .program = name, .faulty = arguments, .repaired = repaired_arguments, .card = its_card

/* A lesson that needs PyTorch: the memory that its run sees, and its script. */
#define TORCH(name, says, cause_id, memory_option, script)                                                             \
    {                                                                                                                  \
        .needs = GWI_LAB_TORCH, .by_hand = "gpuwhy run" memory_option " -- python tests/gpu/torch/" script,            \
        ABOUT(name, cause_id, says)                                                                                    \
    }

static const gwi_lesson lessons[] = {
    {ABOUT("S01", "gpu-oom-leak", "A second training run does not fit, because the first one is still in memory"),
     RUNS("cnn", "--runs 2 --batch 16384 --save weights.bin --keep-runs", "--runs 2 --batch 16384 --save weights.bin",
          "h200,memory=16GiB"),
     .memory = "16GiB",
     .happens = "The program trains the same network twice. The first run fits. Its tensors are never freed, so the "
                "second run finds the card full of them and an allocation fails.",
     .believed = "The network is too large for the card. But the first run had the same size, and it fitted.",
     .change = "Free everything that a run allocated before the next run begins. In PyTorch, delete the model, the "
               "optimizer and the outputs; emptying the cache does not free what is still referenced."},
    {ABOUT("S02", NULL, "Memory in an allocator's cache is no leak"),
     RUNS("cnn", "--runs 2 --batch 8192 --allocator pool", NULL, "h200,memory=16GiB"), .memory = "16GiB",
     .happens = "The program trains twice, and it takes its memory from a caching allocator. After the first run, the "
                "card still looks full, but the memory is only in the cache. The second run uses it again.",
     .believed = "What nvidia-smi shows as used is lost to the program. But a caching allocator keeps freed memory on "
                 "purpose, because requests to the driver are slow.",
     .change = "Nothing. Look at what the program has allocated, not at what its allocator has reserved."},
    TORCH("S03", "An out-of-memory exception is caught, and the program fails later because of it", "gpu-oom-capacity",
          " --memory 4GiB", "s03_caught.py same_site"),
    {ABOUT("S04", "gpu-oom-other-process", "Another process holds the memory of the card"),
     RUNS("s04_other_process", "", "--repaired", "h200,memory=16GiB"),
     .happens = "Two processes share a card. The first one has allocated 60 % of the memory. The second one requests "
                "another 60 % and is refused.",
     .believed =
         "The program that fails needs too much memory. But on an empty card it would fit; the verdict names the "
         "process that holds the rest.",
     .change = "End the other process, choose another card, or wait until it has ended (gpuwhy run --wait-memory)."},
    {ABOUT("S05", "gpu-oom-leak", "Each batch is copied to the card, and the previous one is never freed"),
     RUNS("cnn", "--batch 512 --iterations 1000 --leak-batch", "--batch 512 --iterations 300", "h200,memory=2GiB"),
     .memory = "2GiB",
     .happens =
         "The loader allocates memory for each batch and never frees the memory of the previous one. The use grows "
         "by the same amount in each iteration until an allocation fails.",
     .believed = "The batch is too large, because the failure goes away with a smaller one. But a smaller batch only "
                 "fails later.",
     .change =
         "Free each batch after its last use, or use one buffer again. In PyTorch, keep no reference to old batches, "
         "outputs or losses; store loss.item() instead of loss."},
    {ABOUT("S06", "gpu-oom-capacity", "An allocation fails, the program does not check it, and a kernel uses the NULL"),
     RUNS("cnn", "--batch 16384 --unchecked", "--batch 8192 --unchecked", "h200,memory=8GiB"), .memory = "8GiB",
     .happens =
         "An allocation is refused, but the program ignores the result and passes the NULL address to a kernel. The "
         "kernel fails with an illegal address, and so does every call after it.",
     .believed =
         "There is a bug in the kernel, because the message says \"illegal address\". But the first failed call is "
         "the allocation; everything else follows from it.",
     .change = "Check the result of every call. Then the message names the real problem: the batch does not fit."},
    TORCH("S07", "Enough memory is in PyTorch's cache, but no block is large enough", "gpu-oom-fragmentation",
          " --memory 5000MiB", "s07_fragmented.py"),
    {ABOUT("S08", "gpu-oom-fragmentation", "Small blocks keep half-used pages, and a large block does not fit"),
     RUNS("s08_small_blocks", "", "--repaired", "h200,memory=8GiB"),
     .happens =
         "The program fills the card with blocks of 1 MiB and frees every other one. The driver gives out pages of "
         "2 MiB, so each page still holds one block. No page becomes free, and a block of 2 GiB is refused.",
     .believed = "Half of the memory was freed, so half of the card is free. But memory returns to the card in whole "
                 "pages only.",
     .change = "Allocate few large blocks and divide them yourself, or free blocks that were allocated together."},
    TORCH("S09", "A library cannot create its handle, because memory is short", "gpu-oom-library-handle", "",
          "s09_handle.py"),
    {ABOUT("S10", "gpu-oom-leak", "Streams are created for each request and never destroyed"),
     RUNS("s10_handles", "", "--repaired", "h200,memory=3GiB"), .virtual_only = true,
     .happens =
         "A server creates a stream for each request and never destroys it. Each stream takes some device memory. "
         "After thousands of requests, no memory is left.",
     .believed =
         "Only tensors use device memory. But streams, events, contexts and modules need memory, too, and it is "
         "in no list of tensors.",
     .change = "Create a few streams at the start and use them again, or destroy each stream after its request."},
    {ABOUT("S10b", "gpu-oom-leak", "Contexts are created for each request and never destroyed"),
     RUNS("s10_handles", "--kind context", "--kind context --repaired --requests 40", "h200,memory=3GiB"),
     .virtual_only = true,
     .happens =
         "A server creates a context for each request. A context takes hundreds of MiB, so the card is full after a "
         "few requests.",
     .believed = "A context is a cheap handle. In fact it is the most expensive object of CUDA.",
     .change = "Use one context in each process: the primary context that the runtime uses."},
    {ABOUT("S11", NULL, "A leak that does no harm yet"),
     RUNS("cnn", "--iterations 60 --leak-workspace", "--iterations 60", "h200,memory=16GiB"), .memory = "16GiB",
     .happens =
         "The program frees everything in each iteration, except one kind of workspace. The run ends well, because "
         "it ends before the card is full. The verdict is clean, with a list of possible leaks.",
     .believed = "A program that exits with status 0 has no leak. But a longer run, or a smaller card, would fail.",
     .change = "Free the block at the line that the list names."},
    {ABOUT("S12", "illegal-address", "A kernel writes to a bad address, and a later call reports it"),
     RUNS("cnn", "--runs 2 --bad-address", "--runs 2", "h200,memory=16GiB"), .memory = "16GiB",
     .happens =
         "A kernel writes to an address outside of all blocks. Launches do not wait for the kernel, so the error "
         "appears in a later call that has nothing to do with it.",
     .believed = "The call that returned the error is wrong. But it only reports a fault of a kernel that was launched "
                 "before it. A device reset does not help: the process must end.",
     .change = "Look at the last launches that the verdict lists. Run again with gpuwhy run --blame, which waits after "
               "each launch, and check the bounds in that kernel."},
    TORCH("S13", "A label is out of range: an assertion in a kernel", "device-assert-index", "", "s13_label.py"),
    {ABOUT("S14", "misaligned-access", "A kernel reads a misaligned address"), .needs = GWI_LAB_NVCC,
     .by_hand = "nvcc -lcuda -o s14_faults tests/gpu/cuda/s14_faults.cu && gpuwhy run -- ./s14_faults misaligned"},
    {ABOUT("S15", "launch-config-invalid", "A launch with more threads in a block than any card supports"),
     RUNS("s15_launch_config", "", "--repaired", "h200"),
     .happens =
         "The program launches a kernel with 4096 threads in a block. The limit is 1024, so the driver refuses the "
         "launch. The kernel does not run.",
     .believed =
         "Everything after such an error is broken. But this error is not sticky: the next correct launch works.",
     .change = "Use at most 1024 threads in a block and more blocks instead. Check the result of each launch."},
    {ABOUT("S16", "cross-stream-use-after-free",
           "Memory is freed on one stream while a copy on another stream uses it"),
     RUNS("s16_order", "", "--repaired", "h200"),
     .happens =
         "A copy on stream B uses a block, and the program frees the block on stream A. Nothing orders the two "
         "streams, so the memory may get another owner before the copy has ended. The program exits with status 0 "
         "and may have computed with wrong data.",
     .believed = "Calls take effect in the order in which the program makes them. That is true only inside one stream.",
     .change = "Record an event on stream B after the copy, and let stream A wait for it before the free."},
    {ABOUT("S17", "gpu-oom-capacity", "The whole data set is copied to the card"),
     RUNS("cnn", "--batch 1600 --whole-data-set 1200MiB", "--batch 1600", "h200,memory=2GiB"), .memory = "2GiB",
     .happens =
         "The program copies its whole data set to the card in one block. What is left is too little for training.",
     .believed = "The model is too large. But the verdict shows that the largest block is the data set.",
     .change = "Keep the data in host memory and copy one batch at a time."},
    TORCH("S18", "The batch is too large for the card", "gpu-oom-capacity", " --memory 8GiB", "s18_batch.py"),
    TORCH("S19", "Validation without no_grad() needs more memory than training", "gpu-oom-peak-phase", " --memory 6GiB",
          "s19_validation.py"),
    {ABOUT("S20", "gpu-oom-preallocation", "JAX has reserved most of the card in advance"), .needs = GWI_LAB_JAX,
     .by_hand = "gpuwhy run --memory 8GiB -- python tests/gpu/jax/s20_preallocation.py"},
    {ABOUT("S21", "fork-after-init", "A child of fork() uses the card after its parent did"),
     RUNS("s21_fork", "", "--repaired", "h200"),
     .happens = "The parent initialises CUDA and then calls fork(). CUDA does not work in the child, so its first call "
                "fails.",
     .believed = "The child has no access to the card, or the driver is broken. But CUDA cannot be used in a child of "
                 "fork() once the parent has initialised it.",
     .change = "Fork before the first use of CUDA, or start new processes instead. In PyTorch, use the start method "
               "\"spawn\"."},
    {ABOUT("S22", "gpu-context-pileup", "All workers use the first card, and the second one is idle"),
     RUNS("s22_pileup", "", "--repaired", "2xh200,memory=8GiB"), .virtual_only = true,
     .happens =
         "Four workers run on a machine with two cards. Each one creates its context on card 0, which has no room "
         "for all of them. Card 1 is idle.",
     .believed = "The work needs a larger card. But half of the machine's memory was never used.",
     .change = "Choose the card by the worker's number, for example with torch.cuda.set_device(local_rank), before the "
               "first use of CUDA."},
    {ABOUT("S23", "killed-by-scheduler-or-user", "Somebody kills the program"), .needs = GWI_LAB_TERMINAL,
     .by_hand = "gpuwhy run --gpu virtual:h200 -- sh -c 'exec sleep 1000'; then kill -9 the sleep"},
    {ABOUT("S24", "shm-exhausted", "Workers of a DataLoader fill /dev/shm"), .needs = GWI_LAB_TORCH,
     .by_hand = "in a container with --shm-size=1m: gpuwhy run -- python and a DataLoader with num_workers=2"},
    {ABOUT("S25", "gpu-off-bus", "The card falls off the bus"),
     RUNS("cnn", "--iterations 8000", "--iterations 1000", "h200,fault=lost@launch:192000"), .repaired_card = "h200",
     .virtual_only = true,
     .happens =
         "During the training, the card stops answering. Every call fails from then on, and the kernel log contains "
         "Xid 79.",
     .believed = "The program did something wrong. But no program can cause this error; it is a fault of the card, its "
                 "power supply or its slot.",
     .change = "Nothing in the program. Give the verdict to the administrator, and run on another card."},
    {ABOUT("S26", "arch-not-in-binary", "The program has no code for this card"),
     RUNS("s26_versions", "", "", "h200,memory=2GiB,fault=209@cuModuleLoadData"), .repaired_card = "h200,memory=2GiB",
     .virtual_only = true,
     .happens =
         "The program was compiled for other cards than this one. The driver finds no code that the card can run, "
         "and refuses to load the module.",
     .believed = "The driver is broken, because other programs work. But each program contains code for certain "
                 "architectures only.",
     .change = "Build the program for this architecture (-gencode), or install a newer release of the framework."},
    {ABOUT("S27", "kernel-never-ends", "A kernel never ends"),
     RUNS("s27_hang", "--kind kernel", "--kind kernel --repaired", "h200"), .options = "--hang-after 2 --kill-on-hang",
     .happens =
         "A kernel waits in a loop for a value that never changes. The program waits for the kernel. gpuwhy reports "
         "this while the program hangs, and stops it.",
     .believed =
         "The program is slow, or the driver hangs. But the verdict names the call in which the program waits and "
         "the kernel that it waits for.",
     .change = "Look at the loops in that kernel: which condition ends them, and who makes it true?"},
    {ABOUT("S27b", "host-deadlock", "Two threads wait for each other's lock"),
     RUNS("s27_hang", "--kind locks", "--kind locks --repaired", "h200"), .options = "--hang-after 2 --kill-on-hang",
     .happens = "Two threads of the host take two locks in opposite order. Each one holds the lock that the other one "
                "needs, so the next kernel is never launched.",
     .believed =
         "The GPU hangs, because its utilisation falls to zero. But the GPU has finished its work; the host does "
         "not send more.",
     .change = "Take the locks in the same order everywhere."},
    {ABOUT("S28", "host-crash-of-process", "The program crashes, and the card has nothing to do with it"),
     RUNS("s28_host", "--end crash", "", "h200"),
     .happens =
         "The work on the card ends without an error. Then the host code writes through an invalid pointer, and the "
         "process dies of SIGSEGV.",
     .believed = "A program that uses a GPU died, so the GPU is the reason. But every driver call succeeded.",
     .change = "Find the line in a debugger, or run again with gpuwhy run --catch-crash."},
    {ABOUT("S29", "pinned-memory-failure", "The same host memory is registered twice"),
     RUNS("s29_pinned", "", "--repaired", "h200"),
     .happens =
         "The program registers a range of host memory for fast copies, and registers it again later. The driver "
         "refuses the second call.",
     .believed = "The card has no memory left. But page-locked memory is host memory; the card is almost empty.",
     .change = "Register each range once, and unregister it before it is freed."},
    TORCH("S30", "A healthy training run", NULL, "", "s30_healthy.py plain"),
    TORCH("S31", "A kept exception object keeps all tensors of the failed run", "gpu-oom-leak", " --memory 8GiB",
          "s31_kept_exception.py"),
    {ABOUT("S32", "context-destroyed", "The device is reset, and an old pointer is used afterwards"),
     RUNS("s32_reset", "--use pointer", "--repaired", "h200"),
     .happens =
         "Between two calls of a model, the program resets the device. The reset frees all memory. The second call "
         "passes an old pointer to a kernel.",
     .believed = "A reset only cleans up. In fact it destroys everything in the context: memory, streams, events and "
                 "modules, including those of libraries.",
     .change = "Do not reset the device while anything is still used. After a reset, create every object again."},
    {ABOUT("S33", "host-touched-device-memory", "Host code reads a device pointer"),
     RUNS("s33_host_touch", "", "--repaired", "h200,memory=4GiB"), .memory = "4GiB", .options = "--catch-crash",
     .happens =
         "The program reads the memory of the card through an ordinary pointer. The address means nothing to the "
         "processor, so the process dies of SIGSEGV.",
     .believed = "The pointer is damaged. But it is correct, for the card.",
     .change = "Copy the data to the host first (cuMemcpyDtoH), or use managed memory."},
    {ABOUT("S34", "first-error-lost", "A failed copy is ignored, and a correct launch is blamed"),
     RUNS("s34_lost_error", "", "--repaired", "h200,memory=4GiB"), .memory = "4GiB",
     .happens =
         "A copy fails, and the program ignores its result. The error is stored. The program next checks for errors "
         "after a correct launch, and reports the error there.",
     .believed = "The launch is wrong, because the message appears after it. But the error is older.",
     .change = "Check the result of every call where it is made."},
    TORCH("S35", "Whole arrays are given to the device at once", "gpu-oom-capacity", " --memory 8GiB",
          "s35_whole_array.py"),
    {ABOUT("S36", "illegal-address", "A child fails on the card, and the parent exits with status 0"),
     RUNS("s36_children", "", "--repaired", "h200"),
     .happens =
         "A parent starts several children. A kernel of one of them uses a bad address, and this child ends with an "
         "error. The parent does not check how its children ended, and exits with status 0.",
     .believed = "Exit status 0 means that all work was done. But it is only the status of the parent.",
     .change = "Check the exit status of each child, and fail if one of them failed."},
    {ABOUT("S37", "no-device-visible", "A script that is meant for the GPU runs on the CPU"), .needs = GWI_LAB_TORCH,
     .by_hand = "gpuwhy run -- python -c 'import torch; print(torch.ones(1000).sum())'"},
};

const gwi_lesson *gwi_lessons(size_t *ret_count)
{
    *ret_count = sizeof lessons / sizeof lessons[0];
    return lessons;
}

const gwi_lesson *gwi_lesson_find(const char *id)
{
    for (size_t i = 0; i < sizeof lessons / sizeof lessons[0]; i++)
        if (strcasecmp(lessons[i].id, id) == 0)
            return &lessons[i];
    return NULL;
}

GW_WORDS(gwi_lab_needs_text, gwi_lab_needs, GWI_LAB_NEEDS, "?")
