/* For the tests of the past runs: a state folder, and runs to add. Included once by each test, after cmocka.h. */
#ifndef PAST_TESTLIB_H
#define PAST_TESTLIB_H

#include "gwi_past_store.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char place[] = "/tmp/gpuwhy-past-XXXXXX";
static gw_path runs, runs_old, database, journal;

static inline void remove_all(void)
{
    unlink(runs);
    unlink(runs_old);
    unlink(database);
    unlink(journal);
}

static inline int begin(void **state)
{
    (void)state;
    if (mkdtemp(place) == NULL || setenv("XDG_STATE_HOME", place, 1) != 0)
        return -1;
    bool is_good = gw_path_format(runs, NULL, "%s/gpuwhy/runs", place) == GW_OK &&
                   gw_path_format(runs_old, NULL, "%s.old", runs) == GW_OK &&
                   gw_path_format(database, NULL, "%s.db", runs) == GW_OK &&
                   gw_path_format(journal, NULL, "%s-journal", database) == GW_OK;
    return is_good ? 0 : -1;
}

static inline int end(void **state)
{
    (void)state;
    remove_all();
    *strrchr(runs, '/') = '\0';
    rmdir(runs);
    return rmdir(place);
}

static inline int clear(void **state)
{
    (void)state;
    remove_all();
    return 0;
}

static inline void add_with_peak(char *command, uint64_t start_ns, int exit_code, bool has_peak, uint64_t peak_bytes)
{
    char *words[] = {command, (char[]){"two\twords\n"}};
    gw_verdict verdict = {.status = exit_code == 0 ? GW_VERDICT_CLEAN : GW_VERDICT_FAULT,
                          .cause = exit_code == 0 ? NULL : "gpu-oom-leak",
                          .certainty = GW_ESTABLISHED,
                          .argv = {words, 2},
                          .exit_known = true,
                          .exit_code = exit_code,
                          .seconds = 1.5};
    verdict.run.has_start = true;
    verdict.run.start_realtime_ns = start_ns;
    verdict.peak.is_known = has_peak;
    verdict.peak.bytes = peak_bytes;
    gwi_past_add(&verdict, "/srv/100%/a.gpuwhy", NULL);
}

static inline void add(char *command, uint64_t start_ns, int exit_code)
{
    add_with_peak(command, start_ns, exit_code, false, 0);
}

static inline gwi_past_list list_where(const char *where)
{
    gwi_past_list list;
    gw_error err = {""};
    if (gwi_past_read(&(gwi_past_query){.where = where, .wait_ms = 60000}, &list, &err) != GW_OK)
        fail_msg("%s", err.text);
    return list;
}

static inline gwi_past_list list_now(void)
{
    return list_where(NULL);
}

static inline void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

#endif
