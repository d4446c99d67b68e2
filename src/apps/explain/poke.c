/* `gpuwhy poke PID`: prints what the threads of a process are doing now. For a process that gpuwhy records, it also
 * says whether the process hangs; poke_outside.c prints all others. */
#include "gw_say.h"
#include "gwi_cmd.h"
#include "gwi_judge.h"
#include "gwi_manual.h"
#include "gwi_options.h"
#include "gwi_poke.h"

#include "gw_api.h"
#include "gw_clock.h"
#include "gw_hang_watch.h"
#include "gw_model_facts.h"
#include "gw_place.h"
#include "gw_render.h"
#include "gw_sites.h"
#include "gw_stacks.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GWI_POKE_OPTIONS(X)                                                                                            \
    X(FLAG, bool, json, "--json", NULL, NULL, "print JSON; for a recorded process, only the verdict")                  \
    X(FLAG, bool, job, "--job", NULL, NULL, "show the process and all its descendants, the odd one out first")         \
    X(FLAG, bool, no_ras, "--no-ras", NULL, NULL, "do not ask NCCL's RAS about the ranks")                             \
    X(STRING, const char *, seconds, "--seconds", "SECONDS", "1", "time between the two looks at the process")

GWI_OPTIONS(poke_options, GWI_POKE_OPTIONS);
enum { SECONDS_MAX = 60 };

typedef struct poke {
    uint32_t pid;
    double window_s;     /* time between the two samples */
    gw_path folder;      /* the run folder of the process; "" until found */
    gw_outside *outside; /* owned; what /proc says about the process */
    gw_hang_watch watch;
    /* number of driver calls that the process had made at the first and at the second sample */
    uint64_t calls_before, calls_after;
    gw_model *model;
    uint64_t now_ns; /* of the second sample, as the times in the model */
    bool nomem;
} poke;

/* True if the file was written since the process started, so it is not that of an older process with the same pid. Both
 * times are only known to about a second. */
static bool is_its_own(const poke *it, int folder, const char *name)
{
    enum { SLACK_S = 2 };
    struct stat info;
    return fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
           (uint64_t)info.st_mtime + SLACK_S >= it->outside->start_realtime_ns / 1000000000u;
}

/* Check whether this run folder has a buffer of the process. Buffers are named PID-*.buf. */
static void look_into(void *user, const char *folder)
{
    poke *it = user;
    DIR *dir = it->folder[0] != '\0' ? NULL : opendir(folder);
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        char *rest;
        unsigned long pid = strtoul(entry->d_name, &rest, 10);
        if (pid == it->pid && rest[0] == '-' && gw_ends_with(entry->d_name, ".buf") &&
            is_its_own(it, dirfd(dir), entry->d_name))
            snprintf(it->folder, sizeof it->folder, "%s", folder);
    }
    if (dir != NULL)
        closedir(dir);
}

static void see(void *user, const gw_thread_look *look)
{
    poke *it = user;
    if (look->pid == it->pid)
        it->calls_after += look->calls;
    gw_hang_watch_see(&it->watch, look);
}

/* Sample the process twice, window_s apart, so that show() can find out whether it makes progress. */
static gw_status watch_it(poke *it, gw_error *err)
{
    gw_status st = GW_OK;
    for (int i = 0; i < 2 && st == GW_OK; i++) {
        it->calls_before = it->calls_after;
        it->calls_after = 0;
        gw_hang_watch_begin(&it->watch, gw_monotonic_ns());
        st = gw_drain_peek(it->folder, 0, see, it, err);
        gw_hang_watch_end(&it->watch);
        if (i == 0)
            poll(NULL, 0, (int)(it->window_s * 1e3));
    }
    if (st == GW_OK && gw_outside_end(it->outside, NULL, NULL, NULL, NULL) == GW_OK)
        gw_outside_cards(&it->outside, 1);
    return st;
}

static const gw_watched_process *find(const poke *it)
{
    for (size_t i = 0; i < it->watch.process_count; i++) {
        if (it->watch.process[i].pid == it->pid)
            return &it->watch.process[i];
    }
    return NULL;
}

/* ---- output ---- */

/* Append what a thread does, and its stack. */
static void add_thread(gw_text *text, gw_sites *sites, const gw_hang_thread *thread)
{
    char doing[GW_DOING_TEXT_MAX];
    if (thread->inside_fn[0] != '\0')
        gw_text_addf(text, "inside %s\n", thread->inside_fn);
    else if (thread->questions > 0)
        gw_text_addf(text, "queried the GPU %" PRIu64 " times whether its work is done\n", thread->questions);
    else if (strcmp(thread->wait, "lock") == 0 && thread->owner_tid != 0)
        gw_text_addf(text, "waiting for a lock of thread %" PRIu32 "%s\n", thread->owner_tid,
                     thread->owner_ended ? ", which has exited" : "");
    else if (strcmp(thread->wait, "join") == 0 && thread->owner_tid != 0)
        gw_text_addf(text, "waiting for thread %" PRIu32 " to end\n", thread->owner_tid);
    else
        gw_text_addf(text, "%s\n", gw_doing_text(doing, thread));
    gwi_poke_add_stack(text, sites, thread->site);
}

/* Print the thread with this index, and how many others do the same at the same place. Print nothing if an earlier one
 * does. */
static void print_thread(const gw_hang *hang, const gw_text *text, size_t index)
{
    size_t others = 0;
    for (size_t i = 0; i < hang->thread_count; i++) {
        if (i == index || strcmp(gw_text_str(&text[i]), gw_text_str(&text[index])) != 0)
            continue;
        if (i < index)
            return;
        others++;
    }
    gw_print("  thread %" PRIu32 " (%s)", hang->thread[index].tid, hang->thread[index].name);
    if (others > 0)
        gw_print(", and %zu more that %s the same", others, others == 1 ? "does" : "do");
    gw_print(": %s", gw_text_str(&text[index]));
}

static void print_hang(gw_sites *sites, const gw_hang *hang)
{
    gw_text *text = calloc(hang->thread_count + 1, sizeof *text);
    for (size_t i = 0; text != NULL && i < hang->thread_count; i++)
        add_thread(&text[i], sites, &hang->thread[i]);
    for (size_t i = 0; text != NULL && i < hang->thread_count; i++)
        print_thread(hang, text, i);
    for (size_t i = 0; text != NULL && i < hang->thread_count; i++)
        gw_text_free(&text[i]);
    free(text);
}

/* Return the label of a fact that says what could not be read. Returns NULL for other facts. */
static const char *gap_text(gw_fact_key what)
{
    if (what == GW_FACT_HANG_NO_WAITS)
        return "waits unknown";
    if (what == GW_FACT_HANG_NO_STACKS)
        return "stacks unknown";
    return what == GW_FACT_HANG_NO_PYTHON ? "Python frames unknown" : NULL;
}

static void print_all(const poke *it, bool goes_on, bool no_ras)
{
    const gw_model *model = it->model;
    gw_print("pid %" PRIu32 ": %" PRIu64 " driver calls in %.1f s%s\n", it->pid, it->calls_after - it->calls_before,
             it->window_s, goes_on ? " (making progress)" : "");
    if (!it->outside->is_ended)
        gwi_poke_print_progress(it->outside);
    gwi_poke_print_nccl(model, it->pid, it->now_ns);
    gw_text ras = {0};
    if (!no_ras)
        gwi_poke_ask_ras(&ras, &it->pid, 1);
    gw_print("%s", gw_text_str(&ras));
    gw_text_free(&ras);
    for (size_t i = model->hang_count; i-- > 0;) {
        if (model->hang[i].pid != it->pid)
            continue;
        print_hang(model->sites, &model->hang[i]);
        break;
    }
    for (size_t i = model->fact_count; i-- > 0;) {
        const gw_pair *fact = &model->fact[i];
        const char *gap = gap_text(fact->what);
        if (fact->pid == it->pid && gap != NULL)
            gw_print("  %s: %s\n", gap, fact->value);
        else if (fact->pid == it->pid && fact->what == GW_FACT_HANG)
            break; /* the facts before this one belong to an earlier hang */
    }
    fflush(stdout);
}

static void feed_item(void *user, const gw_item *item)
{
    poke *it = user;
    gw_error err;
    if (gw_model_feed(it->model, item, &err) != GW_OK)
        it->nomem = true;
}

/* Build a model from the recording so far and the samples of the threads that were just taken. The caller frees
 * it->model, even on failure. */
static gw_status read_model(poke *it, const gw_watched_process *process, gw_error *err)
{
    /* a copy of the samples, with times that count from the start of the run, like those in the model */
    static gw_hang_watch shifted;
    gw_reader *reader = NULL;
    gw_status st = gw_reader_open(it->folder, &reader, err);
    if (st == GW_OK)
        st = gw_model_read(reader, &it->model, err);
    gw_reader_close(reader);
    if (st != GW_OK)
        return st;
    const char *t0 = gw_model_meta(it->model, "start_monotonic_ns");
    uint64_t t0_ns = t0 == NULL ? 0 : strtoull(t0, NULL, 10);
    t0_ns = t0_ns < process->since_ns ? t0_ns : process->since_ns;
    shifted = it->watch;
    it->now_ns = shifted.now_ns -= t0_ns;
    for (size_t i = 0; i < shifted.thread_count; i++) {
        shifted.thread[i].inside_since_ns -= t0_ns;
        shifted.thread[i].not_ready_at_ns -= t0_ns;
    }
    shifted.sites_told = shifted.codes_told = GW_STACKS_IDS_MAX;
    gw_watched_process shifted_process = *process;
    shifted_process.since_ns -= t0_ns;
    gw_hang_tell(&shifted, &shifted_process, true, feed_item, it);
    st = it->nomem ? gw_fail(err, GW_NOMEM, "judge pid %" PRIu32, it->pid) : gw_model_finish(it->model, err);
    if (st == GW_OK) /* if naming the sites fails, frames are printed as file and address */
        (void)!gw_model_name_sites(it->model, GW_NAMES_SOFT_MS, GW_NAMES_HARD_MS, NULL);
    return st;
}

static int fail(const char *text)
{
    gw_say("poke: %s", text);
    return GW_EXIT_USAGE;
}

static int show_verdict(const gw_verdict *verdict, const poke_options *options)
{
    gw_error err;
    if (options->json && gwi_verdict_write_json(verdict, NULL, &err) != GW_OK)
        return fail(err.text);
    if (!options->json) {
        gw_print("\n");
        fflush(stdout);
        gwi_verdict_print(verdict, &(gwi_print){.running = true, .all = true}, STDOUT_FILENO);
    }
    return verdict->status == GW_VERDICT_UNDETERMINED ? GW_EXIT_UNDETERMINED : GW_EXIT_OK;
}

static int show(poke *it, const poke_options *options)
{
    gw_error err;
    gw_verdict *verdict = NULL;
    const gw_watched_process *process = find(it);
    int status = GW_EXIT_OK;
    bool goes_on = process->since_ns == it->watch.now_ns;
    if (read_model(it, process, &err) != GW_OK || gw_judge(it->model, &verdict, &err) != GW_OK) {
        status = fail(err.text);
        goto out;
    }
    if (!options->json)
        print_all(it, goes_on, options->no_ras);
    for (size_t i = 0; goes_on && !options->json && i < verdict->left_alone.count; i++)
        gw_print("  no wait: %s\n", verdict->left_alone.item[i]);
    if (!goes_on || options->json)
        status = show_verdict(verdict, options);
out:
    gw_verdict_free(verdict);
    gw_model_free(it->model);
    return status;
}

const gwi_manual gwi_manual_poke = {
    .usage = "gpuwhy poke [options] PID\n",
    .about = "Shows what the threads of a process are doing right now: what each of them waits for, its Python and "
             "native stack, and whether the process makes progress. The process can be any of the same user. Takes "
             "about a second and does not disturb the process.\n\nFor a process under gpuwhy run, it also shows the "
             "driver calls, and prints the verdict if the process hangs.",
    .words = "PID",
    .group = {{.options = options_table, .count = OPTION_COUNT}},
    .exits = {{GW_EXIT_OK, "the process was inspected; under gpuwhy run, it makes progress, or there is a verdict"},
              {GW_EXIT_UNDETERMINED,
               "under gpuwhy run, the process hangs, and the reason is not proved; otherwise, this user may not read "
               "the process, and the output has what is known without it"},
              {GW_EXIT_USAGE, "usage error, or the process cannot be inspected; one line on stderr gives the reason"}},
    .examples = {{"gpuwhy poke 1234", "what is process 1234 doing?"},
                 {"gpuwhy poke --job 1234", "what do a launcher and all processes below it do?"}},
    .see_also = "run explain"};

int gwi_cmd_poke(int argc, char **argv)
{
    static poke it; /* too large for the stack */
    poke_options options = {0};
    gw_error err = {0};
    int words = 0;
    if (gwi_options_parse_mixed(options_table, OPTION_COUNT, &options, argc, argv, &words, &err) != GW_OK)
        return fail(err.text);
    if (options.help)
        return gwi_manual_print(&gwi_manual_poke);
    char *end = NULL;
    unsigned long pid = words == 1 ? strtoul(argv[1], &end, 10) : 0;
    if (words != 1 || *end != '\0' || pid == 0 || pid > INT32_MAX)
        return fail("exactly one process id is required, for example: gpuwhy poke 1234");
    it.pid = (uint32_t)pid;
    char *rest = NULL;
    it.window_s = strtod(options.seconds, &rest);
    if (rest == options.seconds || *rest != '\0' || !(it.window_s > 0 && it.window_s <= SECONDS_MAX))
        return fail("--seconds must be a number above 0, and at most 60");
    if (gw_outside_begin(it.pid, &it.outside, &err) != GW_OK)
        return gwi_refuse("poke", &err);
    if (!options.job)
        gw_run_folders_visit(look_into, &it);
    int status = GW_EXIT_OK;
    if (it.folder[0] != '\0' && watch_it(&it, &err) != GW_OK)
        status = fail(err.text);
    else if (find(&it) != NULL)
        status = show(&it, &options);
    else
        status = gwi_poke_outside(it.pid, options.job, it.window_s, options.no_ras, options.json);
    gw_outside_free(it.outside);
    return status;
}
