/* Reads a run folder as if it were a recording: run.meta, the recording so far, and the events still in the buffers. */
#define _GNU_SOURCE
#include "gw_filter.h"
#include "gw_own.h"
#include "gwi_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define KEY_RECORDING  "run.recording"
#define KEY_T0         "run.t0_monotonic_ns"
#define KEY_SUPERVISOR "run.supervisor_pid"
#define KEY_ARGV       "argv"

static gw_status put_pair(gw_writer *writer, const char *key, const char *value, gw_error *err)
{
    gw_item item = {.kind = GW_ITEM_META, .pair = {key, value}};
    return gw_writer_put(writer, &item, err);
}

static gw_status put_number(gw_writer *writer, const char *key, uint64_t value, gw_error *err)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    return put_pair(writer, key, text, err);
}

gw_status gw_run_meta_write(const char *run_folder, const gw_run_meta *meta, const char *const *fn_names,
                            uint32_t fn_count, gw_error *err)
{
    gw_writer *writer = NULL;
    char *path = NULL;
    if (asprintf(&path, "%s/run.meta", run_folder) < 0)
        return gw_fail(err, GW_NOMEM, "%s: no memory for run.meta", run_folder);
    gw_status st = gw_writer_create(path, 0, fn_names, fn_count, &writer, err);
    if (st == GW_OK)
        st = put_pair(writer, KEY_RECORDING, meta->recording, err);
    if (st == GW_OK)
        st = put_number(writer, KEY_T0, meta->t0_monotonic_ns, err);
    if (st == GW_OK)
        st = put_number(writer, KEY_SUPERVISOR, meta->supervisor_pid, err);
    for (unsigned i = 0; st == GW_OK && meta->argv != NULL && meta->argv[i] != NULL; i++)
        st = put_pair(writer, KEY_ARGV, meta->argv[i], err);
    gw_status closed = gw_writer_close(writer, st == GW_OK ? err : NULL);
    free(path);
    return st == GW_OK ? closed : st;
}

typedef struct run_facts {
    char *record_path; /* owned */
    uint64_t t0_monotonic_ns;
    uint64_t supervisor_pid;
    bool t0_known;
} run_facts;

static gw_status take_fact(run_facts *facts, const gw_item *item)
{
    if (item->kind != GW_ITEM_META)
        return GW_OK;
    if (strcmp(item->pair.key, KEY_RECORDING) == 0 && facts->record_path == NULL) {
        facts->record_path = strdup(item->pair.value);
        return facts->record_path == NULL ? GW_NOMEM : GW_OK;
    }
    if (strcmp(item->pair.key, KEY_T0) == 0) {
        facts->t0_monotonic_ns = strtoull(item->pair.value, NULL, 10);
        facts->t0_known = true;
    } else if (strcmp(item->pair.key, KEY_SUPERVISOR) == 0) {
        facts->supervisor_pid = strtoull(item->pair.value, NULL, 10);
    }
    return GW_OK;
}

/* Read the facts about the run and the dictionary of functions from run.meta. */
static gw_status read_meta(const char *folder_path, run_facts *facts, gwi_dict *ret_dict, gw_error *err)
{
    gwi_source source = {.in.fd = -1};
    char *path = NULL;
    if (asprintf(&path, "%s/run.meta", folder_path) < 0)
        return gw_fail(err, GW_NOMEM, "%s: no memory for the reader", folder_path);
    gw_status st;
    int fd;
    st = gw_plain_open(path, false, &fd, err);
    if (st != GW_OK) {
        gw_wrap(err, "%s: not a run folder: run.meta", folder_path);
        goto out;
    }
    const gw_item *item;
    st = gwi_source_start(&source, fd, path, err);
    while (st == GW_OK || st == GW_CORRUPT) {
        st = gwi_source_next(&source, &item, err);
        if (st == GW_OK && (st = take_fact(facts, item)) != GW_OK)
            gw_fail(err, st, "%s: no memory for the reader", path);
    }
    st = st == GW_END ? GW_OK : st;
    if (st == GW_OK && !facts->t0_known)
        st = gw_fail(err, GW_CORRUPT, "%s: contains no start time", path);
    if (st == GW_OK) {
        *ret_dict = source.dict;
        source.dict = (gwi_dict){0};
    }
out:
    gwi_source_close(&source);
    free(path);
    return st;
}

static bool process_alive(uint64_t pid)
{
    return pid > 0 && pid <= INT32_MAX && (kill((pid_t)pid, 0) == 0 || errno == EPERM);
}

gw_status gwi_folder_open(const char *path, gwi_folder *ret_folder, gw_error *err)
{
    gwi_folder folder = {0};
    run_facts facts = {0};
    gw_status st = read_meta(path, &facts, &folder.dict, err);
    if (st == GW_OK)
        st = gwi_drain_open_copy(path, facts.t0_monotonic_ns, &folder.drain, err);
    folder.record_path = facts.record_path;
    folder.supervisor_alive = process_alive(facts.supervisor_pid);
    if (st == GW_OK)
        *ret_folder = folder;
    else
        gwi_folder_close(&folder);
    return st;
}

void gwi_folder_close(gwi_folder *folder)
{
    gw_drain_close(folder->drain);
    gwi_dict_free(&folder->dict);
    free(folder->record_path);
    *folder = (gwi_folder){0};
}

void gwi_folder_mark(void *user, const gwi_mark *mark)
{
    gwi_folder *folder = user;
    gwi_drain_pass_over(folder->drain, mark);
}

static gw_status put_into(void *user, const gw_item *item, gw_error *err)
{
    return gw_writer_put(user, item, err);
}

gw_status gwi_folder_drain(gwi_folder *folder, const gwi_dict *dict, int *ret_fd, gw_error *err)
{
    gw_writer *writer = NULL;
    int fd = gw_rare_calls_are_safe() ? memfd_create("gpuwhy", MFD_CLOEXEC)
                                      : open("/tmp", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    int kept = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (kept < 0) {
        int reason = errno;
        if (fd >= 0)
            close(fd);
        return gw_fail(err, GW_IO, "memory for the contents of the buffers: %s", strerror(reason));
    }
    gw_status st = gwi_writer_on_fd(fd, "(buffers)", 0, dict->fn_name, dict->fn_count, &writer, err);
    if (st == GW_OK)
        st = gw_drain_run(folder->drain, true, put_into, writer, err);
    gw_status closed = gw_writer_close(writer, st == GW_OK ? err : NULL);
    st = st == GW_OK ? closed : st;
    if (st == GW_OK)
        *ret_fd = kept;
    else
        close(kept);
    return st;
}
