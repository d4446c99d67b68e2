/* Creates the recording, writes its first facts, and drains the processes' buffers into it. */
#include "gwi_run.h"

#include "gw_api.h"
#include "gw_clock.h"
#include "gw_config.h"
#include "gw_fact.h"
#include "gw_mask.h"
#include "gw_process.h"
#include "gw_rank.h"
#include "gw_say.h"
#include "gw_sites.h"
#include "gw_text.h"
#include "gwi_held.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static const uint64_t sync_every_ns = 1000000000u;
/* Size limit in bytes of a recording in the run folder, because a run folder on a tmpfs occupies memory. */
static const uint64_t temporary_bytes_max = 64u << 20;

static const char *const *function_names(void)
{
    static const char *names[GW_FN_COUNT];
    for (size_t i = 0; i < GW_FN_COUNT; i++)
        names[i] = gw_api_fns[i].symbol;
    return names;
}

uint64_t gwi_record_now_ns(const gwi_record *record)
{
    return gw_monotonic_ns() - record->t0_monotonic_ns;
}

void gwi_record_init(gwi_record *record)
{
    *record = (gwi_record){.t0_monotonic_ns = gw_monotonic_ns(), .lock_fd = -1};
}

int gwi_record_stem_bytes(const gwi_record *record)
{
    static const char ending[] = ".gpuwhy";
    size_t bytes = strlen(record->path);
    return (int)(gw_ends_with(record->path, ending) ? bytes - strlen(ending) : bytes);
}

/* ---- opening ---- */

static gw_status create(gwi_record *record, const char *path, uint64_t bytes_max, gw_error *err)
{
    gw_status st = gw_path_format(record->path, err, "%s", path);
    if (st == GW_OK)
        st = gw_writer_create(path, bytes_max, function_names(), GW_FN_COUNT, &record->writer, err);
    gw_path absolute;
    if (st == GW_OK && realpath(path, absolute) != NULL)
        memcpy(record->path, absolute, sizeof absolute);
    if (st != GW_OK)
        record->path[0] = '\0';
    return st;
}

static void create_temporary(gwi_record *record, const char *run_folder)
{
    gw_path path;
    gw_error err;
    if (run_folder[0] == '\0' || gw_path_format(path, NULL, "%s/recording.gpuwhy", run_folder) != GW_OK)
        return;
    if (create(record, path, temporary_bytes_max, &err) == GW_OK)
        record->is_temporary = true;
    else
        gw_say("cannot record: %s", err.text);
}

/* Prepare for a full disk. If the disk becomes full, the writer continues the recording in the run folder, so that a
 * verdict is still possible. */
static void use_spare(gwi_record *record, const char *run_folder)
{
    gw_path path = "";
    if (record->writer != NULL && !record->is_temporary &&
        gw_path_format(path, NULL, "%s/spare.gpuwhy", run_folder) == GW_OK)
        gw_writer_set_spare(record->writer, path, temporary_bytes_max);
    memcpy(record->spare_path, path, sizeof path);
}

static void look_at_spare(gwi_record *record)
{
    const char *why = record->writer == NULL ? NULL : gw_writer_spare_reason(record->writer);
    if (record->is_on_spare || why == NULL)
        return;
    record->is_on_spare = record->is_temporary = true;
    gw_say("%s; the rest of the recording is used for the verdict but not saved", why);
    snprintf(record->path, sizeof record->path, "%s", record->spare_path);
}

enum { NAMES_MAX = 100 };

static gw_status create_anywhere(gwi_record *record, const gw_run_options *options, const char *run_folder,
                                 gw_error *err)
{
    gw_error why;
    gw_status st;
    if (options->output != NULL && gwi_is_folder(options->output)) {
        gw_path name;
        st = gwi_recording_name_in(options->output, name, &why);
        if (st == GW_OK)
            st = create(record, name, options->record_bytes_max, &why);
    } else if (options->output != NULL) {
        if (access(options->output, F_OK) == 0)
            return gw_fail(err, GW_USAGE, "-o %s: already exists; a recording is never overwritten", options->output);
        st = create(record, options->output, options->record_bytes_max, &why);
    } else {
        gw_path name;
        st = gwi_recording_name(name, 0, &why);
        for (unsigned again = 1; st == GW_OK && again < NAMES_MAX && access(name, F_OK) == 0; again++)
            st = gwi_recording_name(name, again, &why);
        if (st == GW_OK)
            st = create(record, name, options->record_bytes_max, &why);
    }
    if (st != GW_OK) {
        gw_say("the recording will not be saved: %s", why.text);
        create_temporary(record, run_folder);
    }
    return GW_OK;
}

/* Return the command line with masked secrets, as a NULL-terminated list. Returns NULL if there is no memory. */
static char **masked(char *const *argv)
{
    size_t count = 0;
    while (argv[count] != NULL)
        count++;
    char **list = calloc(count + 1, sizeof *list);
    for (size_t i = 0; list != NULL && i < count; i++) {
        gw_text value = {0};
        gw_mask_argument(&value, argv, (int)i);
        list[i] = strdup(gw_text_str(&value));
        gw_text_free(&value);
    }
    return list;
}

static void free_list(char **list)
{
    for (size_t i = 0; list != NULL && list[i] != NULL; i++)
        free(list[i]);
    free(list);
}

/* Lock the run folder. A process that asks whether the run is going on has the lock for a moment. */
static int lock(const char *run_folder)
{
    enum { TRIES = 1000 };
    const struct timespec pause = {.tv_nsec = 1000000};
    int fd = gwi_run_folder_lock(run_folder, false);
    for (int i = 0; fd < 0 && errno == EWOULDBLOCK && i < TRIES; i++) {
        nanosleep(&pause, NULL);
        fd = gwi_run_folder_lock(run_folder, false);
    }
    return fd;
}

gw_status gwi_record_open(gwi_record *record, const gw_run_options *options, const char *run_folder, char *const *argv,
                          gw_error *err)
{
    gw_status st = create_anywhere(record, options, run_folder, err);
    if (st != GW_OK || run_folder[0] == '\0')
        return st;
    use_spare(record, run_folder);
    char **shown = masked(argv);
    gw_run_meta meta = {.recording = record->path,
                        .t0_monotonic_ns = record->t0_monotonic_ns,
                        .supervisor_pid = (uint32_t)getpid(),
                        .argv = (const char *const *)shown};
    gw_error why;
    if (gw_run_meta_write(run_folder, &meta, function_names(), GW_FN_COUNT, &why) != GW_OK)
        gw_say("if gpuwhy is killed, this run cannot be explained: %s", why.text);
    record->lock_fd = lock(run_folder);
    free_list(shown);
    if (gw_drain_open(run_folder, record->t0_monotonic_ns, &record->drain, &why) != GW_OK)
        gw_say("GPU calls are not recorded: %s", why.text);
    else
        gw_drain_expect(record->drain, GW_FN_COUNT, gw_api_hash);
    return GW_OK;
}

/* ---- writing ---- */

static void stop_writing(gwi_record *record, const char *why)
{
    gw_say("the recording stops here, but the program continues: %s", why);
    gw_status ignored = gw_writer_close(record->writer, NULL); /* the part already written stays readable */
    (void)ignored;
    record->writer = NULL;
}

void gwi_record_put(gwi_record *record, const gw_item *item)
{
    gw_error err;
    if (record->writer != NULL && record->sites == NULL)
        record->sites = gw_sites_new();
    if (record->sites != NULL && item->kind != GW_ITEM_SYMBOL)
        (void)gw_sites_feed(record->sites, item); /* if there is no memory, some sites have no names */
    if (record->writer != NULL && gw_writer_put(record->writer, item, &err) != GW_OK)
        stop_writing(record, err.text);
    look_at_spare(record);
}

static void put_pair(gwi_record *record, gw_item_kind kind, const char *key, const char *value)
{
    gw_item item = {.kind = kind, .t_ns = gwi_record_now_ns(record)};
    item.pair.key = key;
    item.pair.value = value;
    gwi_record_put(record, &item);
}

void gwi_record_fact(gwi_record *record, const char *key, const char *format, ...)
{
    char value[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(value, sizeof value, format, args);
    va_end(args);
    put_pair(record, GW_ITEM_SUPERVISOR, key, value);
}

/* ---- the first facts ---- */

static void put_meta(gwi_record *record, const char *key, const char *value)
{
    put_pair(record, GW_ITEM_META, key, value);
}

static void put_meta_number(gwi_record *record, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    put_meta(record, key, text);
}

static void put_arguments(gwi_record *record, char *const *argv)
{
    for (int i = 0; argv[i] != NULL; i++) {
        gw_text value = {0};
        gw_mask_argument(&value, argv, i);
        put_meta(record, "argv", gw_text_str(&value));
        gw_text_free(&value);
    }
}

/* `more`: names of variables that are recorded, too. */
static void put_environment(gwi_record *record, const char *more)
{
    for (char **entry = environ; *entry != NULL; entry++) {
        char key[128];
        const char *equals = strchr(*entry, '=');
        if (equals == NULL || (size_t)(equals - *entry) >= sizeof key - 4)
            continue;
        snprintf(key, sizeof key, "env.%.*s", (int)(equals - *entry), *entry);
        if (gw_environment_is_recorded(key + 4) || gw_config_names_contain(more, key + 4))
            put_meta(record, key, gw_name_is_secret(key + 4) ? GW_MASKED : equals + 1);
    }
}

static void put_limits(gwi_record *record)
{
    static const struct {
        __rlimit_resource_t resource;
        const char *key;
    } limits[] = {{RLIMIT_AS, "rlimit.as"},         {RLIMIT_DATA, "rlimit.data"},   {RLIMIT_MEMLOCK, "rlimit.memlock"},
                  {RLIMIT_NOFILE, "rlimit.nofile"}, {RLIMIT_NPROC, "rlimit.nproc"}, {RLIMIT_STACK, "rlimit.stack"}};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        struct rlimit limit;
        if (getrlimit(limits[i].resource, &limit) < 0)
            continue;
        if (limit.rlim_cur == RLIM_INFINITY)
            put_meta(record, limits[i].key, "unlimited");
        else
            put_meta_number(record, limits[i].key, limit.rlim_cur);
    }
}

/* Record facts for comparing times between hosts: the kernel's estimate of the clock error, and the boot_id. Each boot
 * has its own monotonic clock. */
static void put_clock(gwi_record *record)
{
    struct timex clock = {0};
    char boot[GW_BOOT_ID_MAX];
    int state = adjtimex(&clock); /* read-only, because no mode is set */
    if (state >= 0) {
        put_meta_number(record, "clock.error_max_us", (uint64_t)clock.maxerror);
        put_meta(record, "clock.synchronised", state == TIME_ERROR || (clock.status & STA_UNSYNC) != 0 ? "0" : "1");
    }
    if (gw_boot_id(boot)) {
        put_meta(record, "boot_id", boot);
        put_meta_number(record, "start_monotonic_ns", record->t0_monotonic_ns);
    }
}

/* Record the kernel side of the driver: the version of the loaded module, and the device files that exist. */
static void put_kernel_side(gwi_record *record)
{
    char version[64] = "";
    gw_text nodes = {0};
    gw_read_small(version, sizeof version, NULL, "/sys/module/nvidia/version");
    version[strcspn(version, "\n")] = '\0';
    if (version[0] != '\0')
        put_meta(record, "driver.module", version);
    DIR *folder = opendir("/dev");
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        if (gw_begins(entry->d_name, "nvidia"))
            gw_text_addf(&nodes, "%s%.64s", nodes.bytes == 0 ? "" : " ", entry->d_name);
    }
    if (folder != NULL) {
        put_meta(record, "device.files", gw_text_str(&nodes));
        closedir(folder);
    }
    gw_text_free(&nodes);
}

static void put_machine(gwi_record *record)
{
    struct utsname name;
    gw_path cwd;
    if (uname(&name) == 0) {
        put_meta(record, "host", name.nodename);
        put_meta(record, "kernel", name.release);
        put_meta(record, "machine", name.machine);
    }
    if (getcwd(cwd, sizeof cwd) != NULL)
        put_meta(record, "cwd", cwd);
    put_kernel_side(record);
    put_meta_number(record, "start_realtime_ns", gw_realtime_ns() - gwi_record_now_ns(record));
    put_meta(record, GW_META_WORK, "1");
    put_meta_number(record, "uid", getuid());
    put_clock(record);
}

static void put_options(gwi_record *record, const gw_run_options *options)
{
    const struct {
        bool is_set;
        const char *key;
    } flags[] = {{options->core, "option.core"},           {options->blame, "option.blame"},
                 {options->deep, "option.deep"},           {options->allocations, "option.allocations"},
                 {options->no_attach, "option.no_attach"}, {options->catch_crash, "option.catch_crash"},
                 {options->no_sites, "option.no_sites"},   {options->no_stderr, "option.no_stderr"},
                 {options->no_sense, "option.no_sense"}};
    put_meta(record, "option.gpu", options->gpu);
    if (options->memory_bytes != 0)
        put_meta_number(record, "option.memory", options->memory_bytes);
    if (options->memory_shared)
        put_meta(record, "option.memory_shared", "1");
    if (options->inject != NULL)
        put_meta(record, GW_META_INJECT, options->inject);
    if (options->fence != NULL)
        put_meta(record, GW_META_FENCE, options->fence[0] == '\0' ? "on" : options->fence);
    if (options->leaks != NULL)
        put_meta(record, GW_META_LEAKS, options->leaks);
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (flags[i].is_set)
            put_meta(record, flags[i].key, "1");
}

void gwi_record_meta(gwi_record *record, const gw_run_options *options, char *const *argv, const gwi_doors *doors)
{
    put_meta(record, "version", GW_PROGRAM_VERSION);
    put_arguments(record, argv);
    put_machine(record);
    put_options(record, options);
    put_meta(record, "driver", doors->driver);
    put_limits(record);
    put_environment(record, options->record_environment);
    if (!doors->open)
        gwi_record_fact(record, gw_fact_key_text(GW_FACT_DOORS_CLOSED), "%s", doors->closed_why);
}

/* ---- draining ---- */

/* Return true for success, and for errors that programs often cause on purpose, for example to look for a GPU. The run
 * is not judged after these. */
static bool is_probe(uint16_t result)
{
    return result == 0 || result == 100 || result == 201 || result == 500 || result == 600 || result == 704 ||
           result == 705 || result == 801;
}

/* Name the first call that a rehearsal refuses at once: the program may now wait for ever, for example for what another
 * process would have done with shared memory. */
static void tell_refusal(gwi_record *record, const char *call)
{
    if (!record->is_refusal_told)
        gw_say("rehearse: %s cannot be rehearsed, so it was refused. If the program now waits for ever, stop it: "
               "gpuwhy then reports what it has rehearsed so far",
               call != NULL ? call : "a call");
    record->is_refusal_told = true;
}

static void look_at(gwi_record *record, const gw_item *item)
{
    if (item->kind == GW_ITEM_PROCESS) {
        if (record->processes < sizeof record->pids / sizeof record->pids[0])
            record->pids[record->processes] = item->pid;
        record->processes++;
    } else if (item->kind == GW_ITEM_EVENT) {
        bool is_failed_call = !is_probe(item->event.result);
        if (is_failed_call || item->event.kind == GW_EV_ALLOCATOR_OOM)
            record->failure_at_ns = record->failed_at_ns = gwi_record_now_ns(record);
        if (is_failed_call) {
            record->failed_pid = item->event.pid;
            record->failed_fn = item->event.fn;
            record->failed_result = item->event.result;
            record->failure_count++;
        }
        if (item->event.kind == GW_EV_REHEARSAL && item->event.arg[0] == GW_REHEARSAL_STEADY)
            record->is_steady = true;
        if (item->event.kind == GW_EV_REHEARSAL && item->event.arg[0] == GW_REHEARSAL_REFUSED)
            tell_refusal(record, item->event.text);
        if (item->event.kind == GW_EV_NOTE && item->event.arg[0] == GW_NOTE_QUIET)
            gwi_record_fact(record, gw_fact_key_text(GW_FACT_UNOBSERVED_DRIVER),
                            "pid %u forbade %s, which recording needs: its later calls were not recorded",
                            item->event.pid, item->event.text != NULL ? item->event.text : "system calls");
        if (item->event.result == 2)
            record->out_of_memory_at_ns = gwi_record_now_ns(record);
    }
}

/* Record the rank of a new process: from the variables that its hook has noted, or else from its environment. */
static void put_rank(gwi_record *record, const gw_item *process)
{
    const char *noted = process->process.launcher;
    gw_text rank = {0};
    if ((noted != NULL && gw_rank_find(noted, GW_LAUNCHER_BYTES, &rank)) || gw_rank_of_process(process->pid, &rank)) {
        gw_item item = {.kind = GW_ITEM_SUPERVISOR, .t_ns = gwi_record_now_ns(record), .pid = process->pid};
        item.pair.key = gw_fact_key_text(GW_FACT_PROCESS_RANK);
        item.pair.value = gw_text_str(&rank);
        gwi_record_put(record, &item);
    }
    gw_text_free(&rank);
}

static gw_status sink(void *user, const gw_item *item, gw_error *err)
{
    (void)err;
    gwi_record *record = user;
    look_at(record, item);
    if (record->held != NULL)
        gwi_held_take(record->held, item);
    gwi_record_put(record, item);
    if (item->kind == GW_ITEM_PROCESS)
        put_rank(record, item);
    return GW_OK; /* keep draining even if the disk is full, otherwise the program's buffers would fill up */
}

void gwi_record_drain(gwi_record *record, bool last)
{
    gw_error err;
    if (record->drain != NULL && gw_drain_run(record->drain, last, sink, record, &err) != GW_OK)
        gwi_record_fact(record, "drain.failed", "%s", err.text);
    uint64_t now = gw_monotonic_ns();
    bool sync = now - record->synced_at_ns >= sync_every_ns;
    if (sync)
        record->synced_at_ns = now;
    if (record->writer != NULL && gw_writer_flush(record->writer, sync, &err) != GW_OK)
        stop_writing(record, err.text);
    look_at_spare(record);
    if (record->drain != NULL)
        gw_drain_commit(record->drain);
}

size_t gwi_record_signal(const gwi_record *record, pid_t except, int signal)
{
    enum { PIDS_MAX = 256 };
    uint32_t pid[PIDS_MAX];
    size_t alive = record->drain == NULL ? 0 : gw_drain_alive(record->drain, pid, PIDS_MAX), count = 0;
    for (size_t i = 0; i < alive && i < PIDS_MAX; i++)
        count += (pid_t)pid[i] != except && kill((pid_t)pid[i], signal) == 0;
    return count;
}

bool gwi_record_has_process(const gwi_record *record, uint32_t pid)
{
    for (uint32_t i = 0; i < record->processes && i < sizeof record->pids / sizeof record->pids[0]; i++)
        if (record->pids[i] == pid)
            return true;
    /* if there was no room for all pids, assume that `pid` is among the others */
    return record->processes > sizeof record->pids / sizeof record->pids[0];
}

void gwi_record_stderr(gwi_record *record, gwi_stderr *capture)
{
    char *bytes = NULL;
    size_t count = gwi_stderr_take(capture, &bytes);
    if (count == 0)
        return;
    gw_text masked = {0};
    gw_mask_text(&masked, bytes, count);
    gw_item item = {.kind = GW_ITEM_STDERR, .t_ns = gwi_record_now_ns(record)};
    item.stderr_part.bytes = masked.failed ? "" : gw_text_str(&masked);
    item.stderr_part.count = masked.failed ? 0 : (uint32_t)masked.bytes;
    gwi_record_put(record, &item);
    gw_text_free(&masked);
    free(bytes);
}

/* If the path does not lead to the file any more, the verdict is made from the open file. Takes over `fd`, which then
 * stays open until gpuwhy ends. */
static void look_for_file(gwi_record *record, int fd)
{
    struct stat ours, named;
    bool is_known = fd >= 0 && fstat(fd, &ours) == 0;
    if (is_known && (stat(record->path, &named) != 0 || ours.st_dev != named.st_dev || ours.st_ino != named.st_ino)) {
        gw_say("%s was removed or renamed while the program ran", record->path);
        record->is_temporary = true;
        snprintf(record->path, sizeof record->path, "/proc/self/fd/%d", fd);
    } else if (fd >= 0) {
        close(fd);
    }
}

void gwi_record_close(gwi_record *record)
{
    gw_error err;
    if (record->writer != NULL && gw_writer_flush(record->writer, false, NULL) == GW_OK)
        look_at_spare(record);
    int fd = record->writer == NULL ? -1 : gw_writer_file(record->writer);
    if (record->writer != NULL && gw_writer_close(record->writer, &err) != GW_OK)
        gw_say("the recording may be incomplete: %s", err.text);
    record->writer = NULL;
    look_for_file(record, fd);
    gw_drain_close(record->drain);
    record->drain = NULL;
    gw_sites_free(record->sites);
    record->sites = NULL;
    if (record->lock_fd >= 0)
        close(record->lock_fd);
    record->lock_fd = -1;
}
