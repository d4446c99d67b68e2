/* Tests the state of a run in progress: what was written is read, and damaged or foreign files are refused. */
#define _GNU_SOURCE
#include "gw_live.h"
#include "gw_test_folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[100];
static gw_live written, got;
static gw_error err;

static int make_folder(void **state)
{
    int failed = gw_test_folder_make(state);
    snprintf(path, sizeof path, "%s/" GW_LIVE_NAME, gw_test_folder);
    return failed;
}

static void write_one(void)
{
    written = (gw_live){.supervisor_pid = 7, .pid_count = 1, .pid = {9}};
    written.device[3].live_bytes = UINT64_MAX;
    snprintf(written.command, sizeof written.command, "python train.py");
    assert_int_equal(gw_live_write(gw_test_folder, &written, NULL), GW_OK);
}

static void change(off_t at, const void *bytes, size_t count)
{
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, count, at), count);
    close(fd);
}

GW_TEST(what_was_written_is_read)
{
    assert_int_equal(gw_live_read(gw_test_folder, getuid(), &got, &err), GW_MISSING);
    write_one();
    assert_int_equal(gw_live_read(gw_test_folder, getuid(), &got, &err), GW_OK);
    assert_memory_equal(&got, &written, sizeof got);
    write_one(); /* a second state replaces the first one */
    assert_int_equal(gw_live_read(gw_test_folder, getuid(), &got, &err), GW_OK);
}

GW_TEST(a_damaged_file_is_refused)
{
    write_one();
    for (off_t at = 0; at < (off_t)sizeof got; at += 97) {
        uint8_t byte = (uint8_t)(~((const uint8_t *)&written)[at]);
        change(at, &byte, 1);
        assert_true(gw_live_read(gw_test_folder, getuid(), &got, &err) != GW_OK);
        assert_non_null(strstr(err.text, gw_test_folder));
        change(at, (const uint8_t *)&written + at, 1);
    }
    for (off_t bytes = 0; bytes < (off_t)sizeof got; bytes += 1001) {
        assert_int_equal(truncate(path, bytes), 0);
        assert_int_equal(gw_live_read(gw_test_folder, getuid(), &got, &err), GW_CORRUPT);
    }
}

GW_TEST(foreign_files_and_links_are_refused)
{
    write_one();
    assert_int_equal(gw_live_read(gw_test_folder, getuid() + 1, &got, &err), GW_UNSUPPORTED);
    unlink(path);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_int_equal(gw_live_read(gw_test_folder, getuid(), &got, &err), GW_IO);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0); /* must not wait for a writer */
    assert_true(gw_live_read(gw_test_folder, getuid(), &got, &err) != GW_OK);
}

/* A checksum can be forged, so counts and texts must be confined. */
GW_TEST(forged_counts_and_texts_are_confined)
{
    memset(&written, 0xff, sizeof written);
    assert_int_equal(gw_live_write(gw_test_folder, &written, NULL), GW_OK);
    assert_int_equal(gw_live_read(gw_test_folder, getuid(), &got, &err), GW_OK);
    assert_true(got.pid_count <= GW_LIVE_PIDS_MAX);
    assert_true(strlen(got.command) < sizeof got.command && strlen(got.recording) < sizeof got.recording);
    assert_true(strlen(got.failed_call) < sizeof got.failed_call);
    assert_true(strlen(got.virtual_cards) < sizeof got.virtual_cards);
    assert_true(strlen(got.virtual_folder) < sizeof got.virtual_folder);
}

GW_TEST_MAIN(make_folder, gw_test_folder_remove)
