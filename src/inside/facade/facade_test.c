/* Tests the code that reads drivers and writes facades, first with damaged files. The test driver is itself a facade: a
 * small ELF file. */
#include "gw_facade.h"
#include "gw_test_folder.h"
#include "gwi_elf.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char driver[300]; /* path of a facade of the hook library; the tests use it as the driver */
static uint8_t good[1 << 16];
static size_t good_bytes;

static int set_up(void **state)
{
    char out[200];
    gw_error err;
    if (gw_test_folder_make(state) != 0)
        return -1;
    snprintf(out, sizeof out, "%s/driver", gw_test_folder);
    if (gw_facade_write(HOOK, HOOK, out, &err) != GW_OK) {
        print_error("%s\n", err.text);
        return -1;
    }
    snprintf(driver, sizeof driver, "%s/libcuda.so.1", out);
    int fd = open(driver, O_RDONLY);
    ssize_t n = read(fd, good, sizeof good);
    close(fd);
    good_bytes = n > 0 ? (size_t)n : 0;
    return good_bytes > 1000 && good_bytes < sizeof good ? 0 : -1;
}

/* Use a file as the driver. Each error in reading must name the file. Writing a facade from it must succeed or give a
 * reason. */
static void try_file(const char *path)
{
    char out[200];
    gw_error err = {""};
    gw_facade_info info = {.export_count = 12345};
    gw_status st = gw_facade_driver_info(path, &info, &err);
    if (st != GW_OK) {
        assert_non_null(strstr(err.text, path));
        assert_int_equal(info.export_count, 12345);
        return;
    }
    snprintf(out, sizeof out, "%s/again", gw_test_folder);
    st = gw_facade_write(path, HOOK, out, &err);
    if (st != GW_OK)
        assert_true(err.text[0] != '\0');
}

GW_TEST(every_byte_damaged)
{
    char path[200];
    snprintf(path, sizeof path, "%s/damaged.so", gw_test_folder);
    static const uint8_t patterns[] = {0x00, 0xff, 0x80};
    static uint8_t copy[sizeof good];
    for (size_t i = 0; i < good_bytes; i++) {
        for (size_t p = 0; p < sizeof patterns; p++) {
            memcpy(copy, good, good_bytes);
            copy[i] = p == 2 ? copy[i] ^ patterns[p] : patterns[p];
            if (copy[i] == good[i])
                continue;
            gw_test_write(path, copy, good_bytes);
            try_file(path);
        }
    }
}

GW_TEST(every_truncation)
{
    char path[200];
    snprintf(path, sizeof path, "%s/short.so", gw_test_folder);
    for (size_t bytes = 0; bytes < good_bytes; bytes += bytes < 600 ? 1 : 13) {
        gw_test_write(path, good, bytes);
        try_file(path);
    }
}

GW_TEST(not_a_driver)
{
    gw_error err;
    gw_facade_info info;
    char path[200];
    snprintf(path, sizeof path, "%s/text.so", gw_test_folder);
    gw_test_write(path, "not an ELF file, though longer than the head of one would be: 64 bytes", 70);
    assert_int_equal(gw_facade_driver_info(path, &info, &err), GW_CORRUPT);
    assert_int_equal(gw_facade_driver_info(gw_test_folder, &info, &err), GW_IO);
    assert_int_equal(gw_facade_driver_info("/nonexistent", &info, &err), GW_IO);
    memcpy(good + 4, "\001", 1); /* a 32-bit file */
    gw_test_write(path, good, good_bytes);
    memcpy(good + 4, "\002", 1);
    assert_int_equal(gw_facade_driver_info(path, &info, &err), GW_UNSUPPORTED);
    uint8_t machine = good[18];
    good[18] = 0x28;
    gw_test_write(path, good, good_bytes);
    good[18] = machine;
    assert_int_equal(gw_facade_driver_info(path, &info, &err), GW_UNSUPPORTED);
}

GW_TEST(wrong_use)
{
    gw_error err;
    char out[200];
    snprintf(out, sizeof out, "%s/out", gw_test_folder);
    assert_int_equal(gw_facade_write("relative.so", HOOK, out, &err), GW_USAGE);
    assert_int_equal(gw_facade_write(driver, "hook.so", out, &err), GW_USAGE);
    assert_int_equal(gw_facade_write(driver, "/nonexistent/hook.so", out, &err), GW_MISSING);
    assert_int_equal(gw_facade_write(driver, HOOK, "/proc/no/such", &err), GW_IO);
    assert_int_not_equal(access(out, F_OK), 0);
}

GW_TEST(names_survive)
{
    gw_facade_info info;
    gw_error err;
    gwi_elf elf;
    /* All names that the hook exports. The facade calls gw_hook_attach. Programs call the others (include/gpuwhy.h). */
    static const char *const exported[] = {"gw_hook_attach", "gpuwhy_phase_mark", "gpuwhy_phase_mark_since",
                                           "gpuwhy_failure_count", "gpuwhy_record"};
    enum { EXPORTED = sizeof exported / sizeof exported[0] };
    int names = 0;
    assert_int_equal(gw_facade_driver_info(driver, &info, &err), GW_OK);
    assert_string_equal(info.soname, "libcuda.so.1");
    assert_int_equal(info.export_count, EXPORTED);
    assert_int_equal(gwi_elf_open(driver, &elf, &err), GW_OK);
    for (uint32_t i = 0; i < elf.symbol_count; i++) {
        if (gwi_elf_symbol_exported(&elf.symbol[i])) {
            const char *name = gwi_elf_symbol_name(&elf, &elf.symbol[i]);
            bool known = false;
            for (int k = 0; k < EXPORTED; k++)
                known = known || strcmp(name, exported[k]) == 0;
            assert_true(known);
            names++;
        }
    }
    gwi_elf_close(&elf);
    assert_int_equal(names, EXPORTED);
}

GW_TEST(located_as_the_loader_does)
{
    gw_error err;
    char a[100], b[100], path[300], list[400], *found = NULL;
    snprintf(a, sizeof a, "%s/a", gw_test_folder);
    snprintf(b, sizeof b, "%s/b", gw_test_folder);
    mkdir(a, 0700);
    mkdir(b, 0700);
    snprintf(path, sizeof path, "%s/libcuda.so.1", b);
    gw_test_write(path, good, good_bytes);
    snprintf(list, sizeof list, "/nonexistent:%s:%s", a, b);
    assert_int_equal(gw_driver_locate("/bin/sh", list, &found, &err), GW_OK);
    assert_string_equal(found, path);
    free(found);
    /* A libcuda.so.1 that cannot be loaded is skipped. The error names the file if no other one is found. */
    char wrong[300];
    snprintf(wrong, sizeof wrong, "%s/libcuda.so.1", a);
    gw_test_write(wrong, "short", 5);
    assert_int_equal(gw_driver_locate("/bin/sh", list, &found, &err), GW_OK);
    assert_string_equal(found, path);
    free(found);
    assert_int_equal(gw_driver_locate("/nonexistent/program", list, &found, &err), GW_IO);
    unlink(path);
    found = NULL;
    gw_status st = gw_driver_locate("/bin/sh", list, &found, &err);
    if (st == GW_OK) { /* this machine has a driver in a default folder */
        assert_int_equal(found[0], '/');
        free(found);
    } else {
        assert_int_equal(st, GW_MISSING);
        assert_non_null(strstr(err.text, wrong));
    }
}

GW_TEST_MAIN(set_up, gw_test_folder_remove)
