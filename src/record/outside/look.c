/* Reads the threads of a process, finds those that do the same, and names what they are in. */
#define _GNU_SOURCE
#include "gwi_outside.h"

#include "gw_process.h"
#include "gw_recording.h"
#include "gw_room.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- reading ---- */

typedef struct feeding {
    gw_sites *sites;
    bool nomem;
} feeding;

static void feed(void *user, const gw_item *item)
{
    feeding *it = user;
    it->nomem = !gw_sites_feed(it->sites, item) || it->nomem;
}

static void feed_pair(feeding *it, const char *key, const char *value)
{
    gw_item item = {.kind = GW_ITEM_META};
    item.pair.key = key;
    item.pair.value = value;
    feed(it, &item);
}

/* Tell `sites` what the process is, so that the user's own files are recognised. */
static void feed_process(feeding *it, const gw_outside *process)
{
    char text[4096], path[48], number[24];
    gw_item item = {.kind = GW_ITEM_PROCESS, .pid = process->pid};
    ssize_t bytes = gw_read_small(text, sizeof text, NULL, "/proc/%u/cmdline", process->pid);
    for (size_t at = 0; (ssize_t)at < bytes; at += strlen(text + at) + 1)
        feed_pair(it, "argv", text + at);
    snprintf(number, sizeof number, "%llu", (unsigned long long)process->start_realtime_ns);
    feed_pair(it, "start_realtime_ns", number);
    snprintf(path, sizeof path, "/proc/%u/cwd", process->pid);
    bytes = readlink(path, text, sizeof text - 1);
    text[bytes > 0 ? bytes : 0] = '\0';
    if (bytes > 0)
        feed_pair(it, "cwd", text);
    snprintf(path, sizeof path, "/proc/%u/exe", process->pid);
    bytes = readlink(path, text, sizeof text - 1);
    text[bytes > 0 ? bytes : 0] = '\0';
    item.process.start_realtime_ns = process->start_realtime_ns;
    item.process.exe = text;
    feed(it, &item);
}

/* Return the thread as it was at gw_outside_begin(). NULL: it was started later. */
static const gw_stack_thread *earlier_of(const gw_outside *process, const gw_stack_thread *thread)
{
    for (size_t i = 0; i < process->earlier->thread_count; i++)
        if (process->earlier->thread[i].tid == thread->tid)
            return &process->earlier->thread[i];
    return NULL;
}

static uint64_t cpu_since(const gw_outside *process, const gw_stack_thread *thread)
{
    const gw_stack_thread *earlier = earlier_of(process, thread);
    return earlier == NULL || earlier->cpu_ms > thread->cpu_ms ? thread->cpu_ms : thread->cpu_ms - earlier->cpu_ms;
}

static void find_target(const gw_outside *process, gw_outside_thread *thread)
{
    gwi_identity child;
    if (thread->is->child != 0 && gwi_identity_read(thread->is->child, &child))
        snprintf(thread->target, sizeof thread->target, "process %u (%s)", child.pid, child.name);
    else if (thread->is->fd >= 0)
        gwi_file_text(process->pid, thread->is->fd, thread->target, sizeof thread->target);
}

/* Find out whether the process has opened a card, or has loaded the driver. */
static gw_outside_gpu uses_gpu(uint32_t pid)
{
    char path[48], *line = NULL;
    size_t room = 0;
    snprintf(path, sizeof path, "/proc/%u/maps", pid);
    FILE *maps = fopen(path, "re");
    gw_outside_gpu found = maps == NULL ? GW_OUTSIDE_GPU_UNKNOWN : GW_OUTSIDE_GPU_NONE;
    while (found == GW_OUTSIDE_GPU_NONE && getline(&line, &room, maps) > 0)
        if (strstr(line, "/libcuda.so") != NULL || strstr(line, "/dev/nvidia") != NULL)
            found = GW_OUTSIDE_GPU_USED;
    free(line);
    if (maps != NULL)
        fclose(maps);
    return found;
}

gw_status gw_outside_end(gw_outside *process, gw_sites *sites, uint32_t *sites_told, uint32_t *codes_told,
                         gw_error *err)
{
    gwi_identity is;
    feeding to = {sites, false};
    process->is_ended = !gwi_identity_read(process->pid, &is) || is.state == 'Z' || is.state == 'X' ||
                        is.start_realtime_ns != process->start_realtime_ns;
    if (process->is_ended)
        return GW_OK;
    gwi_sample_take(process->pid, &process->after);
    gwi_outputs_compare(process);
    gwi_network_read(process);
    process->gpu = uses_gpu(process->pid);
    if (sites == NULL)
        return GW_OK;
    bool stacks = process->refused[0] == '\0' && !process->is_init;
    gw_status st = gw_stacks_look(process->pid, stacks, &process->threads, err);
    if (st == GW_MISSING)
        process->is_ended = true;
    if (st != GW_OK)
        return st == GW_NOMEM ? st : GW_OK;
    process->thread = calloc(process->threads->thread_count + 1, sizeof *process->thread);
    if (process->thread == NULL)
        return gw_fail(err, GW_NOMEM, "inspect process %u", process->pid);
    feed_process(&to, process);
    gw_item like = {.pid = process->pid};
    gw_stacks_writer writer = {process->threads, &like, feed, &to, sites_told, codes_told, 0, false};
    gw_stacks_write_begin(&writer);
    for (size_t i = 0; i < process->threads->thread_count; i++) {
        gw_outside_thread *thread = &process->thread[i];
        thread->is = &process->threads->thread[i];
        uint32_t id = gw_stacks_write(&writer, thread->is);
        thread->site = id == 0 ? 0 : gw_sites_number(sites, process->pid, id);
        thread->cpu_ms = cpu_since(process, thread->is);
        find_target(process, thread);
    }
    return to.nomem ? gw_fail(err, GW_NOMEM, "inspect process %u", process->pid) : GW_OK;
}

/* ---- cards ---- */

static void take_card(gw_outside *process, uint32_t index, const gw_room_card *card)
{
    for (size_t i = 0; i < card->holder_count; i++) {
        const gw_room_holder *holder = &card->holder[i];
        if (holder->pid != process->pid || process->card_count == GW_OUTSIDE_CARDS_MAX)
            continue;
        process->card[process->card_count++] = (gw_outside_card){index, holder->bytes, holder->busy_at_us / 1000000u};
    }
}

void gw_outside_cards(gw_outside *const *process, size_t count)
{
    enum { WAIT_MS = 2000 };
    gw_error err = {0};
    const gw_sense_options options = {.nvml_path = NULL};
    gw_room *room = NULL;
    const gw_room_card *card = NULL;
    size_t card_count = 0;
    bool any = false;
    for (size_t i = 0; i < count; i++)
        any = any || process[i]->gpu == GW_OUTSIDE_GPU_USED;
    if (!any)
        return;
    gw_status st = gw_room_open(&options, &room, &err);
    if (st == GW_OK)
        st = gw_room_read(room, WAIT_MS, &card, &card_count, &err);
    const char *why = st != GW_OK ? err.text
                      : gw_room_pids_are_ours(room)
                          ? ""
                          : "NVML reports the processes by their numbers outside of this container";
    for (size_t i = 0; i < count; i++) {
        snprintf(process[i]->no_cards, sizeof process[i]->no_cards, "%.159s", why);
        for (size_t k = 0; st == GW_OK && why[0] == '\0' && k < card_count; k++)
            take_card(process[i], (uint32_t)k, &card[k]);
    }
    gw_room_close(room);
}

/* ---- calls of CUDA, and idle threads ---- */

/* Functions by which a program enters CUDA: the library's name, and how their names begin. */
static const char *const cuda_libraries[][2] = {
    {"libcuda.so*", "cu"},        {"libcudart*", "cuda"},       {"libcublas*", "cublas"},
    {"libcudnn*", "cudnn"},       {"libnccl*", "nccl"},         {"libcufft*", "cufft"},
    {"libcusparse*", "cusparse"}, {"libcusolver*", "cusolver"}, {"libnvidia-ml*", "nvml"}};

/* Whose idle threads these are, by a mapped file or a Python file in the stack. */
static const char *const pools[][2] = {{"*openblas*", "OpenBLAS"},
                                       {"*libmkl_*", "MKL"},
                                       {"*libgomp*", "OpenMP"},
                                       {"*libomp*", "OpenMP"},
                                       {"*libiomp*", "OpenMP"},
                                       {"*libtbb*", "TBB"},
                                       {"*libnccl*", "NCCL"},
                                       {"*libcuda.so*", "the CUDA driver"},
                                       {"*libtorch*", "PyTorch"},
                                       {"*libc10*", "PyTorch"},
                                       {"*libtensorflow*", "TensorFlow"},
                                       {"*libarrow*", "Arrow"},
                                       {"*libuv*", "libuv"},
                                       {"*/concurrent/futures/thread.py", "a Python thread pool"},
                                       {"*/multiprocessing/pool.py", "multiprocessing.Pool"},
                                       {"*/multiprocessing/queues.py", "a multiprocessing queue"},
                                       {"*/asyncio/*", "asyncio"}};

static void find_gpu_call(const gw_stack *stack, gw_outside_thread *thread)
{
    bool in_driver = false;
    for (size_t i = 0; i < stack->count; i++) {
        const gw_frame *frame = &stack->frame[i];
        const char *module = frame->module == NULL ? "" : gw_path_last(frame->module);
        bool is_driver = gw_begins(module, "libcuda.so");
        for (size_t k = 0; k < sizeof cuda_libraries / sizeof cuda_libraries[0]; k++)
            if (frame->function != NULL && gw_begins(frame->function, cuda_libraries[k][1]) &&
                fnmatch(cuda_libraries[k][0], module, 0) == 0)
                snprintf(thread->gpu_call, sizeof thread->gpu_call, "%s", frame->function);
        /* a caller outside of the driver: this is no thread of the driver itself */
        if (in_driver && !is_driver && frame->whose != GW_WHOSE_RUNTIME && thread->gpu_call[0] == '\0')
            snprintf(thread->gpu_call, sizeof thread->gpu_call, "the CUDA driver");
        in_driver = in_driver || is_driver;
    }
}

static const char *pool_of(const gw_frame *frame)
{
    const char *file = frame->python ? frame->file : frame->module;
    for (size_t k = 0; file != NULL && k < sizeof pools / sizeof pools[0]; k++)
        if (fnmatch(pools[k][0], file, 0) == 0)
            return pools[k][1];
    return NULL;
}

/* A thread is idle if it sleeps, and nothing but a library's own function, and what lies below it, is on its stack. */
static void find_pool(const gw_stack *stack, gw_outside_thread *thread)
{
    const char *found = NULL;
    bool is_idle = thread->is->wait != GW_WAIT_RUNNING && thread->is->owner_tid == 0 && thread->cpu_ms == 0;
    for (size_t i = 0; is_idle && i < stack->count; i++) {
        const gw_frame *frame = &stack->frame[i];
        const char *pool = pool_of(frame);
        if (pool != NULL)
            found = pool;
        else
            is_idle = frame->whose > GW_WHOSE_USER && (!frame->python || frame->whose >= GW_WHOSE_RUNTIME);
    }
    if (is_idle && found != NULL)
        snprintf(thread->pool, sizeof thread->pool, "%s", found);
}

/* ---- groups ---- */

/* Append what a thread does and where. Threads with equal texts are one group. */
static void add_signature(gw_sites *sites, const gw_outside_thread *thread, gw_text *text)
{
    char place[GW_PLACE_TEXT_MAX];
    const gw_stack *stack = gw_sites_stack(sites, thread->site);
    if (thread->pool[0] != '\0') {
        gw_text_addf(text, "pool %s", thread->pool);
        return;
    }
    gw_text_addf(text, "%d %u %s", (int)thread->is->wait, thread->is->owner_tid, thread->target);
    if (stack == NULL || stack->count == 0) /* nothing is known about it but its name */
        gw_text_addf(text, " %s %s", thread->is->name, thread->is->where);
    for (size_t i = 0; stack != NULL && i < stack->count; i++)
        gw_text_addf(text, "\n%s", gw_frame_text(sites, &stack->frame[i], place));
}

gw_status gw_outside_group(gw_outside *process, gw_sites *sites, gw_error *err)
{
    size_t count = process->threads == NULL ? 0 : process->threads->thread_count;
    gw_text *signature = calloc(count + 1, sizeof *signature);
    bool failed = signature == NULL;
    for (size_t i = 0; !failed && i < count; i++) {
        gw_outside_thread *thread = &process->thread[i];
        const gw_stack *stack = gw_sites_stack(sites, thread->site);
        if (stack != NULL) {
            find_gpu_call(stack, thread);
            find_pool(stack, thread);
        }
        add_signature(sites, thread, &signature[i]);
        thread->group = i;
        for (size_t k = 0; k < i && thread->group == i; k++)
            if (process->thread[k].group == k && strcmp(gw_text_str(&signature[k]), gw_text_str(&signature[i])) == 0)
                thread->group = k;
        process->thread[thread->group].group_count++;
        failed = signature[i].failed;
    }
    for (size_t i = 0; signature != NULL && i < count; i++) {
        if (process->thread[i].is->tid == process->pid && process->signature.data == NULL) {
            process->signature = signature[i];
            signature[i] = (gw_text){0};
        }
        gw_text_free(&signature[i]);
    }
    free(signature);
    return failed ? gw_fail(err, GW_NOMEM, "inspect process %u", process->pid) : GW_OK;
}

/* ---- locks ---- */

const gw_outside_thread *gw_outside_owner(const gw_outside *process, const gw_outside_thread *thread)
{
    for (size_t i = 0; thread->is->owner_tid != 0 && i < process->threads->thread_count; i++)
        if (process->thread[i].is->tid == thread->is->owner_tid)
            return &process->thread[i];
    return NULL;
}

/* True if the thread waits without a time limit, for the same lock and thread as at gw_outside_begin(). */
static bool waits_since(const gw_outside *process, const gw_outside_thread *thread)
{
    const gw_stack_thread *now = thread->is, *earlier = earlier_of(process, now);
    return (now->wait == GW_WAIT_LOCK || now->wait == GW_WAIT_JOIN) && earlier != NULL && earlier->wait == now->wait &&
           earlier->owner_tid == now->owner_tid && earlier->lock_address == now->lock_address && thread->cpu_ms == 0;
}

bool gw_outside_is_deadlocked(const gw_outside *process, const gw_outside_thread *thread)
{
    const gw_outside_thread *at = thread;
    for (size_t i = 0; i < process->threads->thread_count && at != NULL && waits_since(process, at); i++) {
        at = gw_outside_owner(process, at);
        if (at == thread)
            return true;
    }
    return false;
}
