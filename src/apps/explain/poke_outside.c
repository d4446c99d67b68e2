/* `gpuwhy poke` for processes that gpuwhy did not start: reads them, and prints them as text. */
#include "gwi_cmd.h"
#include "gwi_poke.h"

#include "gw_process.h"
#include "gw_say.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CHILDREN_SHOWN_MAX = 8, TIDS_SHOWN_MAX = 6, TIME_MAX = 32 };

/* ---- the process ---- */

/* Format a time as "2026-01-31 23:59:59", in the zone of the user. */
static char *time_text(char out[TIME_MAX], uint64_t realtime_s)
{
    time_t at = (time_t)realtime_s;
    struct tm parts;
    if (localtime_r(&at, &parts) == NULL || strftime(out, TIME_MAX, "%Y-%m-%d %H:%M:%S", &parts) == 0)
        out[0] = '\0';
    return out;
}

static const char *command_of(const gw_outside *process)
{
    return process->command.bytes > 0 ? gw_text_str(&process->command) : process->name;
}

static void print_head(const gw_outside *process)
{
    char start[TIME_MAX];
    gw_print_words("pid %" PRIu32 ": %.200s", process->pid, command_of(process));
    gw_print("\n  user %s, parent %" PRIu32, gw_text_str(&process->user), process->parent);
    if (process->start_realtime_ns != 0)
        gw_print(", started %s", time_text(start, process->start_realtime_ns / 1000000000u));
    if (process->rank >= 0)
        gw_print(", rank %d", process->rank);
    if (process->rank >= 0 && process->rank_count >= 0)
        gw_print(" of %d", process->rank_count);
    gw_print("\n");
    if (process->is_ended) {
        gw_print("  it ended while gpuwhy read it\n");
        return;
    }
    if (process->state == 'T')
        gw_print("  stopped by a signal; kill -CONT %" PRIu32 " lets it go on\n", process->pid);
    if (process->tracer != 0) {
        gw_print_words("  traced by process %" PRIu32 " (%s)", process->tracer, process->tracer_name);
        gw_print(": its threads are not stopped by gpuwhy, so running ones have no stack\n");
    }
    if (process->is_init)
        gw_print("  the first process of this machine: gpuwhy does not stop its threads, so they have no stack\n");
    if (process->refused[0] != '\0')
        gw_print("  not readable: %s\n  possible: %s\n", process->refused, process->allow);
}

/* ---- progress ---- */

static void print_output(const gw_outside_output *output)
{
    char bytes[GW_BYTES_TEXT_MAX], when[TIME_MAX];
    const char *name = output->fd == 1 ? "stdout" : output->fd == 2 ? "stderr" : "file";
    if (!output->is_file) {
        gw_print_words("    %s is %s", name, output->path);
        gw_print("\n");
        return;
    }
    gw_print_words("    %s %s: ", name, output->path);
    if (output->grew_bytes > 0)
        gw_print("grew by %s; ", gw_bytes_text(bytes, output->grew_bytes));
    else
        gw_print("did not grow; ");
    gw_print("last written %s\n", time_text(when, output->written_realtime_s));
}

static void print_network(const gw_outside_network *network)
{
    char unread[GW_BYTES_TEXT_MAX], unsent[GW_BYTES_TEXT_MAX];
    if (!network->is_known || network->connections == 0)
        return;
    gw_print("    %u TCP connection%s: %s unread, %s not sent yet", network->connections,
             network->connections == 1 ? "" : "s", gw_bytes_text(unread, network->unread_bytes),
             gw_bytes_text(unsent, network->unsent_bytes));
    gw_print(network->peer[0] == '\0' ? "\n" : ", most of it with %s\n", network->peer);
}

static void print_cards(const gw_outside *process)
{
    char bytes[GW_BYTES_TEXT_MAX], when[TIME_MAX];
    for (size_t i = 0; i < process->card_count; i++) {
        const gw_outside_card *card = &process->card[i];
        gw_print("    GPU %" PRIu32 ": %s", card->index,
                 card->bytes == UINT64_MAX ? "memory unknown" : gw_bytes_text(bytes, card->bytes));
        if (card->busy_realtime_s != 0)
            gw_print(", last seen busy %s\n", time_text(when, card->busy_realtime_s));
        else
            gw_print(", not seen busy lately\n");
    }
    if (process->gpu == GW_OUTSIDE_GPU_USED && process->no_cards[0] != '\0')
        gw_print("    GPU: unknown: %s\n", process->no_cards);
    else if (process->gpu == GW_OUTSIDE_GPU_USED && process->card_count == 0)
        gw_print("    GPU: the driver is loaded, but NVML lists no memory of this process\n");
    else if (process->gpu == GW_OUTSIDE_GPU_NONE)
        gw_print("    GPU: none; the process has not loaded the driver\n");
}

void gwi_poke_print_progress(const gw_outside *process)
{
    char read_[GW_BYTES_TEXT_MAX], written[GW_BYTES_TEXT_MAX];
    const gw_outside_sample *before = &process->before, *after = &process->after;
    gw_print("  in %.1f s: ", (double)(after->t_ns - before->t_ns) / 1e9);
    if (before->cpu_known && after->cpu_known)
        gw_print("%.2f s of processor time", (double)(after->cpu_ms - before->cpu_ms) / 1e3);
    else
        gw_print("processor time unknown");
    if (before->io_known && after->io_known)
        gw_print(", read %s, wrote %s\n", gw_bytes_text(read_, after->read_bytes - before->read_bytes),
                 gw_bytes_text(written, after->written_bytes - before->written_bytes));
    else
        gw_print(", input and output unknown\n");
    for (size_t i = 0; i < process->output_count; i++)
        print_output(&process->output[i]);
    print_network(&process->network);
    print_cards(process);
}

/* ---- threads ---- */

static void add_notes(gw_text *text, const gw_stack *stack)
{
#define GW_X(name, value, told)                                                                                        \
    if (stack != NULL && (stack->flags & GW_SITE_##name) != 0)                                                         \
        gw_text_addf(text, "      note: %s\n", told);
    GW_SITE_FLAGS(GW_X)
#undef GW_X
}

static void add_frame(gw_text *text, gw_sites *sites, const gw_stack *stack, size_t index)
{
    char place[GW_PLACE_TEXT_MAX];
    gw_text_addf(text, "    %s %s\n", index == stack->user ? ">" : " ",
                 gw_frame_text(sites, &stack->frame[index], place));
}

void gwi_poke_add_stack(gw_text *text, gw_sites *sites, uint32_t site)
{
    const gw_stack *stack = gw_sites_stack(sites, site);
    for (size_t i = 0; stack != NULL && i < stack->count; i++)
        add_frame(text, sites, stack, i);
    add_notes(text, stack);
}

/* Print the frames that matter: the innermost one, the user's and the libraries', and those of Python's own library in
 * between. The interpreter's functions, and what started the thread, are left out; --json has all frames. */
static void print_short_stack(gw_sites *sites, uint32_t site)
{
    gw_text text = {0};
    const gw_stack *stack = gw_sites_stack(sites, site);
    size_t end = 0;
    for (size_t i = 0; stack != NULL && i < stack->count; i++)
        if (stack->frame[i].whose != GW_WHOSE_RUNTIME)
            end = i + 1;
    for (size_t i = 0; i < end; i++) {
        const gw_frame *frame = &stack->frame[i];
        const char *module = frame->python || frame->module == NULL ? "" : gw_path_last(frame->module);
        if (i == 0 || strstr(module, "python") == NULL)
            add_frame(&text, sites, stack, i);
    }
    if (end > 0)
        add_notes(&text, stack);
    else
        gwi_poke_add_stack(&text, sites, site);
    gw_print("%s", gw_text_str(&text));
    gw_text_free(&text);
}

static const gw_frame *user_frame(gw_sites *sites, uint32_t site)
{
    const gw_stack *stack = gw_sites_stack(sites, site);
    return stack == NULL || stack->user >= stack->count ? NULL : &stack->frame[stack->user];
}

static void print_owner(const gwi_poked *poked, const gw_outside *process, const gw_outside_thread *thread)
{
    char place[GW_PLACE_TEXT_MAX];
    const gw_outside_thread *owner = gw_outside_owner(process, thread);
    const gw_frame *frame = owner == NULL ? NULL : user_frame(poked->sites, owner->site);
    gw_print("%" PRIu32, thread->is->owner_tid);
    if (owner == NULL)
        gw_print(", which has exited");
    else
        gw_print_words(" (%s)%s%s", owner->is->name, frame == NULL ? "" : ", now at ",
                       frame == NULL ? "" : gw_frame_text(poked->sites, frame, place));
}

static void print_wait(const gwi_poked *poked, const gw_outside *process, const gw_outside_thread *thread)
{
    static const char *const text[] = {[GW_WAIT_UNKNOWN] = "in an unknown state",
                                       [GW_WAIT_RUNNING] = "running",
                                       [GW_WAIT_LOCK] = "waiting for a lock",
                                       [GW_WAIT_JOIN] = "waiting for the end of another thread",
                                       [GW_WAIT_TIMED_LOCK] = "waiting for a lock with a time limit",
                                       [GW_WAIT_SHARED_LOCK] = "waiting for a lock that another process can release",
                                       [GW_WAIT_INPUT] = "waiting for input or output",
                                       [GW_WAIT_SLEEP] = "sleeping",
                                       [GW_WAIT_CHILD] = "waiting for a child process to end",
                                       [GW_WAIT_DEVICE] = "waiting for a kernel driver",
                                       [GW_WAIT_OTHER] = "waiting"};
    _Static_assert(sizeof text / sizeof text[0] == GW_WAIT_COUNT, "a text for each wait");
    const gw_stack_thread *is = thread->is;
    const char *what = is->state == 'T' ? "stopped by a signal" : text[is->wait];
    if (is->wait == GW_WAIT_UNKNOWN && is->state != 'T')
        what = is->state == 'R' ? "running" : is->state == 'D' ? "waiting in the kernel" : "waiting";
    if (thread->gpu_call[0] != '\0')
        gw_print("inside %s, ", thread->gpu_call);
    gw_print("%s%s", is->state == 't' ? "stopped by a debugger while " : "", what);
    if (is->owner_tid != 0 && is->state != 'T') {
        gw_print(is->wait == GW_WAIT_JOIN ? ": thread " : " that is held by thread ");
        print_owner(poked, process, thread);
    }
    if (thread->target[0] != '\0')
        gw_print_words(": %s", thread->target);
    if (is->where[0] != '\0' && is->wait != GW_WAIT_RUNNING)
        gw_print(" (in %s)", is->where);
    gw_print("\n");
    if (gw_outside_is_deadlocked(process, thread))
        gw_print("      deadlock: the threads of this chain wait for each other\n");
}

/* Print the numbers of the threads of a group. */
static void print_group_tids(const gw_outside *process, size_t group)
{
    size_t shown = 0;
    for (size_t i = group + 1; i < process->threads->thread_count; i++) {
        if (process->thread[i].group != group)
            continue;
        if (shown++ == TIDS_SHOWN_MAX) {
            gw_print(", ..");
            break;
        }
        gw_print(", %" PRIu32, process->thread[i].is->tid);
    }
}

static void print_group(const gwi_poked *poked, const gw_outside *process, size_t group)
{
    const gw_outside_thread *thread = &process->thread[group];
    if (thread->group_count > 1 && thread->pool[0] != '\0') {
        gw_print_words("  %zu idle threads of %s (such as %" PRIu32 ", %s)", thread->group_count, thread->pool,
                       thread->is->tid, thread->is->name);
        gw_print("\n");
        return;
    }
    bool is_main = thread->is->tid == process->pid;
    if (thread->group_count > 1)
        gw_print("  %zu threads, %" PRIu32, thread->group_count, thread->is->tid);
    else
        gw_print("  %s %" PRIu32, is_main ? "main thread" : "thread", thread->is->tid);
    print_group_tids(process, group);
    gw_print_words(" (%s): ", thread->is->name);
    if (thread->pool[0] != '\0') {
        gw_print("idle thread of %s\n", thread->pool);
        return;
    }
    print_wait(poked, process, thread);
    print_short_stack(poked->sites, thread->site);
}

/* Return the position of a thread in the output: the main thread first, then threads in the user's own lines, those in
 * CUDA, others, and idle ones last. */
static unsigned order_of(const gwi_poked *poked, const gw_outside *process, const gw_outside_thread *thread)
{
    if (thread->is->tid == process->pid)
        return 0;
    if (thread->pool[0] != '\0')
        return 4;
    if (user_frame(poked->sites, thread->site) != NULL)
        return 1;
    return thread->gpu_call[0] != '\0' || thread->is->owner_tid != 0 ? 2 : 3;
}

static void print_gaps(const gw_stack_process *threads)
{
    const char *const gaps[][2] = {{"waits", threads->no_waits},
                                   {"some native stacks", threads->no_stacks},
                                   {"some Python frames", threads->no_python}};
    for (size_t i = 0; i < sizeof gaps / sizeof gaps[0]; i++)
        if (gaps[i][1][0] != '\0')
            gw_print("  %s unknown: %s\n", gaps[i][0], gaps[i][1]);
    if (threads->threads_left_out > 0)
        gw_print("  %" PRIu64 " more threads were not read\n", threads->threads_left_out);
}

static void print_threads(const gwi_poked *poked, const gw_outside *process)
{
    enum { ORDERS = 5 };
    if (process->threads == NULL)
        return;
    for (unsigned order = 0; order < ORDERS; order++)
        for (size_t i = 0; i < process->threads->thread_count; i++)
            if (process->thread[i].group == i && order_of(poked, process, &process->thread[i]) == order)
                print_group(poked, process, i);
    if (process->refused[0] == '\0')
        print_gaps(process->threads);
    if (process->threads->stops > 0)
        gw_print("  gpuwhy stopped %" PRIu64 " threads, each for at most %.1f ms\n", process->threads->stops,
                 (double)process->threads->stop_ns_max / 1e6);
}

static void print_process(const gwi_poked *poked, const gw_outside *process)
{
    print_head(process);
    if (process->is_ended)
        return;
    gwi_poke_print_progress(process);
    print_threads(poked, process);
}

static void print_children(const gwi_poked *poked)
{
    gw_text command = {0};
    if (poked->child_count == 0 || poked->process[0]->is_init)
        return;
    gw_print("children: %zu; gpuwhy poke --job %" PRIu32 " shows what they do\n", poked->child_count,
             poked->process[0]->pid);
    for (size_t i = 0; i < poked->child_count && i < CHILDREN_SHOWN_MAX; i++) {
        gw_text_clear(&command);
        gw_process_command_add(&command, (int)poked->child[i]);
        gw_print("  %" PRIu32 " %.100s\n", poked->child[i], gw_text_str(&command));
    }
    gw_text_free(&command);
}

/* ---- a job ---- */

static bool does_same(const gw_outside *a, const gw_outside *b)
{
    return !a->is_ended && !b->is_ended && a->signature.bytes > 0 &&
           strcmp(gw_text_str(&a->signature), gw_text_str(&b->signature)) == 0;
}

/* Return how many processes do the same as this one. 0: an earlier process stands for them. */
static size_t equal_count(const gwi_poked *poked, size_t index)
{
    size_t count = 1;
    for (size_t i = 0; i < poked->count; i++) {
        if (i == index || !does_same(poked->process[i], poked->process[index]))
            continue;
        if (i < index)
            return 0;
        count++;
    }
    return count;
}

static void print_equal(const gwi_poked *poked, size_t index, size_t count)
{
    const gw_outside *first = poked->process[index];
    gw_print("%zu processes whose main threads do the same at the same place:", count);
    for (size_t i = index; i < poked->count; i++) {
        const gw_outside *process = poked->process[i];
        if (i != index && !does_same(process, first))
            continue;
        gw_print("%s %" PRIu32, i == index ? "" : ",", process->pid);
        if (process->rank >= 0)
            gw_print(" (rank %d)", process->rank);
    }
    gw_print("\n");
}

/* Print the processes in groups that do the same. The smallest groups come first: the odd one out explains the most. */
static void print_job(const gwi_poked *poked)
{
    gw_print("job of process %" PRIu32 ": %zu process%s\n", poked->process[0]->pid, poked->count,
             poked->count == 1 ? "" : "es");
    gw_print("%s", poked->ras);
    for (size_t size = 1; size <= poked->count; size++) {
        for (size_t i = 0; i < poked->count; i++) {
            if (equal_count(poked, i) != size)
                continue;
            gw_print("\n");
            if (size > 1)
                print_equal(poked, i, size);
            print_process(poked, poked->process[i]);
        }
    }
    if (poked->left_out[0] != '\0')
        gw_print("\nnot inspected:\n%s", poked->left_out);
}

void gwi_poke_print(const gwi_poked *poked)
{
    if (poked->is_job) {
        print_job(poked);
        return;
    }
    print_process(poked, poked->process[0]);
    gw_print("%s", poked->ras);
    print_children(poked);
}

/* ---- reading ---- */

/* Take both samples of all processes. *count is the number that could be begun. */
static gw_status look(gw_outside **process, size_t *count, const uint32_t *pid, size_t pid_count, double window_s,
                      gw_sites *sites, gw_text *left_out, gw_error *err)
{
    uint32_t sites_told = 0, codes_told = 0;
    gw_error ignored;
    for (size_t i = 0; i < pid_count; i++) {
        gw_status st = gw_outside_begin(pid[i], &process[*count], i == 0 ? err : &ignored);
        if (st != GW_OK && (i == 0 || st == GW_NOMEM))
            return st;
        if (i == 0 && pid_count > 1 && process[0]->is_init) {
            *count = 1;
            return gw_fail(err, GW_UNSUPPORTED,
                           "process %" PRIu32 " is the first process of this machine, so its job "
                           "would be every process",
                           pid[0]);
        }
        *count += st == GW_OK;
        if (st == GW_UNSUPPORTED) /* a zombie, or gpuwhy itself */
            gw_text_addf(left_out, "%s\n", ignored.text);
    }
    poll(NULL, 0, (int)(window_s * 1e3));
    for (size_t i = 0; i < *count; i++) {
        gw_status st = gw_outside_end(process[i], sites, &sites_told, &codes_told, err);
        if (st != GW_OK)
            return st;
    }
    gw_stacks_let_go();
    /* if naming fails, frames are printed as file and address */
    (void)!gw_sites_resolve(sites, GW_NAMES_SOFT_MS, GW_NAMES_HARD_MS, NULL);
    gw_outside_cards(process, *count);
    gw_status st = GW_OK;
    for (size_t i = 0; i < *count && st == GW_OK; i++)
        st = gw_outside_group(process[i], sites, err);
    return st;
}

/* Ask RAS about the processes that were read. */
static void ask_ras(gw_text *text, gw_outside *const *process, size_t count)
{
    uint32_t pid[GW_OUTSIDE_PROCESSES_MAX];
    for (size_t i = 0; i < count; i++)
        pid[i] = process[i]->pid;
    gwi_poke_ask_ras(text, pid, count);
}

int gwi_poke_outside(uint32_t pid, bool is_job, double window_s, bool no_ras, bool json)
{
    static uint32_t tree[GW_OUTSIDE_PROCESSES_MAX];
    static gw_outside *process[GW_OUTSIDE_PROCESSES_MAX];
    gw_error err = {0};
    gw_text left_out = {0}, ras = {0};
    size_t count = 0, tree_count = gw_outside_tree(pid, tree, GW_OUTSIDE_PROCESSES_MAX);
    gw_sites *sites = gw_sites_new();
    gw_status st = sites == NULL ? gw_fail(&err, GW_NOMEM, "out of memory") : gw_outside_check(pid, &err);
    if (st == GW_OK)
        st = look(process, &count, tree, is_job ? tree_count : 1, window_s, sites, &left_out, &err);
    if (st == GW_OK && !no_ras)
        ask_ras(&ras, process, count);
    const gwi_poked poked = {process,
                             count,
                             sites,
                             is_job,
                             window_s,
                             gw_text_str(&left_out),
                             gw_text_str(&ras),
                             tree + 1,
                             is_job ? 0 : tree_count - 1};
    bool refused = false;
    for (size_t i = 0; i < count; i++)
        refused = refused || process[i]->refused[0] != '\0';
    if (st == GW_OK && json)
        st = gwi_poke_print_json(&poked, &err);
    else if (st == GW_OK)
        gwi_poke_print(&poked);
    for (size_t i = 0; i < count; i++)
        gw_outside_free(process[i]);
    gw_sites_free(sites);
    gw_text_free(&left_out);
    gw_text_free(&ras);
    if (st != GW_OK)
        return gwi_refuse("poke", &err);
    return refused ? GW_EXIT_UNDETERMINED : GW_EXIT_OK;
}
