/* Tests the options --wait-memory and --alarm-at, and which cards a program sees. */
#include "gw_rank.h"
#include "gw_test_folder.h"
#include "gwi_alarm.h"
#include "gwi_program.h"
#include "gwi_room_wait.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

GW_TEST(wait_memory_is_parsed)
{
    static const struct {
        const char *text;
        uint64_t bytes, timeout_s;
    } good[] = {{"12GiB", UINT64_C(12) << 30, 0}, {"512MiB:90", 512 << 20, 90}, {"512MiB:90s", 512 << 20, 90},
                {"1GiB:10m", 1 << 30, 600},       {"1GiB:2h", 1 << 30, 7200},   {"1GiB:1.5min", 1 << 30, 90}};
    static const char *const wrong[] = {"",        "0",       "x",        "12GiB:",    ":90",      "12GiB:0",
                                        "1GiB:-5", "1GiB:5d", "1GiB:nan", "1GiB:1e99", "1GiB:5:5", "0GiB:5"};
    gwi_room_wanted wanted;
    gw_error err;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(gwi_room_wanted_parse(good[i].text, &wanted, &err), GW_OK);
        assert_int_equal(wanted.bytes, good[i].bytes);
        assert_int_equal(wanted.timeout_ns, good[i].timeout_s * 1000000000);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (gwi_room_wanted_parse(wrong[i], &wanted, &err) != GW_USAGE)
            fail_msg("\"%s\" is accepted", wrong[i]);
    assert_int_equal(gwi_room_wanted_parse(NULL, &wanted, &err), GW_OK);
    assert_int_equal(wanted.bytes, 0);
}

GW_TEST(alarm_at_is_parsed)
{
    static const char *const wrong[] = {"", "%", "0%", "101%", "-5%", "90 %", "x", "0", "90%:", ":touch x", "nan%"};
    static gwi_alarm alarm;
    gw_error err;
    assert_int_equal(gwi_alarm_parse("90%", &alarm, &err), GW_OK);
    assert_true(alarm.on && alarm.ratio > 0.89 && alarm.ratio < 0.91 && alarm.command == NULL);
    assert_int_equal(gwi_alarm_parse("12GiB:kill -INT $GPUWHY_ALARM_PID: now", &alarm, &err), GW_OK);
    assert_int_equal(alarm.bytes, UINT64_C(12) << 30);
    assert_string_equal(alarm.command, "kill -INT $GPUWHY_ALARM_PID: now");
    assert_int_equal(gwi_alarm_parse(NULL, &alarm, &err), GW_OK);
    assert_false(alarm.on);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (gwi_alarm_parse(wrong[i], &alarm, &err) != GW_USAGE)
            fail_msg("\"%s\" is accepted", wrong[i]);
}

/* Expect these cards for a value of CUDA_VISIBLE_DEVICES: "0110" are the second and the third of four. */
static void expect_card(const char *visible, int device, const char *wanted)
{
    static const gw_room_card card[4] = {{.uuid = "GPU-aa11"}, {.uuid = "GPU-aa22"}, {.uuid = "GPU-bb"}, {.uuid = ""}};
    bool chosen[4] = {false};
    char found[5] = "";
    gw_error err;
    gw_status st = gwi_room_choose(visible, device, card, 4, chosen, &err);
    for (size_t i = 0; i < 4; i++)
        found[i] = chosen[i] ? '1' : '0';
    assert_string_equal(found, wanted);
    assert_int_equal(st, strchr(wanted, '1') == NULL ? GW_MISSING : GW_OK);
}

static void expect_cards(const char *visible, const char *wanted)
{
    expect_card(visible, -1, wanted);
}

GW_TEST(the_cards_of_the_program_are_chosen)
{
    expect_cards(NULL, "1111");
    expect_cards("", "0000");
    expect_cards("-1", "0000");
    expect_cards("2", "0010");
    expect_cards("0,3", "1001");
    expect_cards(" 3 , 0 ", "1001");
    expect_cards("1,9,0", "0100"); /* CUDA ignores what follows an index that does not exist */
    expect_cards("1,-1,0", "0100");
    expect_cards("GPU-bb", "0010");
    expect_cards("GPU-aa2,0", "1100");
    expect_cards("GPU-cc", "0000");
    expect_cards("GPU-", "0000");
    expect_cards("1x", "0000");
    expect_card(NULL, 2, "0010");
    expect_card(NULL, 4, "0000");
    expect_card("3,1", 0, "0001");
    expect_card("3,1", 1, "0100");
    expect_card("3,1", 2, "0000");
    expect_card("GPU-bb,0", 0, "0010");
    bool chosen[1];
    gw_error err;
    assert_int_equal(gwi_room_choose("MIG-123", -1, &(gw_room_card){.uuid = ""}, 1, chosen, &err), GW_UNSUPPORTED);
}

/* Tests the ranks of all known launchers, and environments without a rank. */

#define ENVIRONMENT(text) text, sizeof text - 1

static void expect_rank(const char *environment, size_t bytes, const char *wanted)
{
    gw_text text = {0};
    assert_int_equal(gw_rank_find(environment, bytes, &text), wanted != NULL);
    assert_string_equal(gw_text_str(&text), wanted == NULL ? "" : wanted);
    gw_text_free(&text);
}

GW_TEST(launchers_are_known)
{
    expect_rank(ENVIRONMENT("A=1\0RANK=3\0WORLD_SIZE=8\0LOCAL_RANK=1\0"), "rank=3 of=8 local=1 by=RANK");
    expect_rank(ENVIRONMENT("TORCHELASTIC_RESTART_COUNT=2\0RANK=3\0WORLD_SIZE=8\0LOCAL_RANK=1\0"),
                "rank=3 of=8 local=1 restart=2 by=RANK");
    expect_rank(ENVIRONMENT("TORCHELASTIC_RESTART_COUNT=2\0OMPI_COMM_WORLD_RANK=3\0"),
                "rank=3 by=OMPI_COMM_WORLD_RANK");
    expect_rank(ENVIRONMENT("TORCHELASTIC_RESTART_COUNT=no\0RANK=3\0"), "rank=3 by=RANK");
    expect_rank(ENVIRONMENT("OMPI_COMM_WORLD_RANK=2\0OMPI_COMM_WORLD_SIZE=4\0"), "rank=2 of=4 by=OMPI_COMM_WORLD_RANK");
    expect_rank(ENVIRONMENT("PMI_RANK=0\0"), "rank=0 by=PMI_RANK");
    expect_rank(ENVIRONMENT("SLURM_PROCID=7\0SLURM_LOCALID=3\0"), "rank=7 local=3 by=SLURM_PROCID");
    expect_rank(ENVIRONMENT("SLURM_PROCID=1\0RANK=9\0"), "rank=9 by=RANK");
    expect_rank(ENVIRONMENT("NODE_RANK=0\0LOCAL_RANK=1\0WORLD_SIZE=4\0"), "rank=1 of=4 local=1 by=LOCAL_RANK");
    expect_rank(ENVIRONMENT("NODE_RANK=0\0LOCAL_RANK=1\0SLURM_PROCID=0\0"), "rank=1 local=1 by=LOCAL_RANK");
    expect_rank(ENVIRONMENT("NODE_RANK=1\0LOCAL_RANK=1\0WORLD_SIZE=4\0"), NULL);
    expect_rank(ENVIRONMENT("LOCAL_RANK=1\0WORLD_SIZE=4\0"), NULL);
    expect_rank(ENVIRONMENT("NODE_RANK=1\0LOCAL_RANK=1\0SLURM_PROCID=5\0"), "rank=5 by=SLURM_PROCID");
    expect_rank(
        ENVIRONMENT("TF_CONFIG={\"cluster\": {\"worker\": [\"a\"]}, \"task\": {\"type\": \"worker\", \"index\": 1}}\0"),
        "rank=1 task=worker by=TF_CONFIG");
}

GW_TEST(odd_environments_have_no_rank)
{
    expect_rank("", 0, NULL);
    expect_rank(ENVIRONMENT("RANK=\0"), NULL);
    expect_rank(ENVIRONMENT("RANK=captain\0"), NULL);
    expect_rank(ENVIRONMENT("RANK=-1\0"), NULL);
    expect_rank(ENVIRONMENT("RANK=99999999999999999999\0"), NULL);
    expect_rank(ENVIRONMENT("FRANK=3\0RANKS=4\0RANK\0"), NULL);
    expect_rank("RANK=3", 6, NULL); /* truncated: more digits may be missing */
    expect_rank(ENVIRONMENT("TF_CONFIG={\"task\": {\"index\": \0"), NULL);
    expect_rank(ENVIRONMENT("TF_CONFIG={\"index\": 3}\0"), NULL);
    expect_rank(ENVIRONMENT("\0\0\0=\0"), NULL);
}

/* Tests gwi_program_find(), with programs of this machine, and with test files in a temporary folder. */

static void write_file(gw_path out, const char *name, const void *bytes, size_t count, mode_t mode)
{
    snprintf(out, sizeof(gw_path), "%s/%s", gw_test_folder, name);
    gw_test_write(out, bytes, count);
    assert_int_equal(chmod(out, mode), 0);
}

static gw_status find(const char *name, gwi_program *program, gw_error *err)
{
    char *argv[] = {(char *)(uintptr_t)name, NULL};
    return gwi_program_find(argv, program, err);
}

GW_TEST(what_cannot_run_has_a_reason)
{
    static gwi_program program;
    gw_error err;
    gw_path plain;
    assert_int_equal(find("no-such-program-here", &program, &err), GW_MISSING);
    assert_non_null(strstr(err.text, "no-such-program-here: command not found"));
    assert_int_equal(find("", &program, &err), GW_MISSING);
    assert_int_equal(find("/no/such/program", &program, &err), GW_MISSING);
    assert_int_equal(find(gw_test_folder, &program, &err), GW_IO);
    write_file(plain, "plain", "text", 4, 0600);
    assert_int_equal(find(plain, &program, &err), GW_IO);
    assert_non_null(strstr(err.text, "not executable"));
}

GW_TEST(damaged_files_are_harmless)
{
    static gwi_program program;
    gw_path path;
    unsigned char head[sizeof(Elf64_Ehdr)] = {0};
    memcpy(head, ELFMAG, SELFMAG);
    head[EI_CLASS] = ELFCLASS64;
    for (size_t bytes = 1; bytes <= sizeof head; bytes++) { /* truncated at every length */
        write_file(path, "short", head, bytes, 0700);
        assert_int_equal(find(path, &program, NULL), GW_OK);
    }
    memset(head + EI_NIDENT, 0xFF, sizeof head - EI_NIDENT); /* offsets and counts far out of range */
    write_file(path, "wild", head, sizeof head, 0700);
    assert_int_equal(find(path, &program, NULL), GW_OK);
    write_file(path, "empty", "", 0, 0700);
    assert_int_equal(find(path, &program, NULL), GW_OK);
    write_file(path, "loop", "#!", 2, 0700);
    assert_int_equal(find(path, &program, NULL), GW_OK);
}

GW_TEST(a_script_leads_to_its_interpreter)
{
    static gwi_program shell, script;
    gw_path path;
    assert_int_equal(find("sh", &shell, NULL), GW_OK);
    assert_false(shell.is_static);
    assert_false(shell.is_32_bit);
    static const char *const heads[] = {"#!/bin/sh\n", "#! /bin/sh -e\n", "#!/usr/bin/env sh\n",
                                        "#!/usr/bin/env -S A=1 sh -e\n"};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        write_file(path, "script", heads[i], strlen(heads[i]), 0700);
        assert_int_equal(find(path, &script, NULL), GW_OK);
        assert_string_equal(script.path, path);
        assert_true(script.image[0] == '/');
    }
    char self[PATH_MAX];
    snprintf(self, sizeof self, "#!%s/again\n", gw_test_folder); /* a script that is its own interpreter */
    write_file(path, "again", self, strlen(self), 0700);
    assert_int_equal(find(path, &script, NULL), GW_OK);
    assert_string_equal(script.image, "");
}

GW_TEST(classes_are_told_apart)
{
    static gwi_program program;
    gw_path path;
    Elf64_Ehdr head = {.e_type = ET_EXEC, .e_machine = EM_X86_64, .e_phentsize = sizeof(Elf64_Phdr)};
    memcpy(head.e_ident, ELFMAG, SELFMAG);
    head.e_ident[EI_CLASS] = ELFCLASS32;
    write_file(path, "old", &head, sizeof head, 0700);
    assert_int_equal(find(path, &program, NULL), GW_OK);
    assert_true(program.is_32_bit);
    head.e_ident[EI_CLASS] = ELFCLASS64;
    write_file(path, "static", &head, sizeof head, 0700);
    assert_int_equal(find(path, &program, NULL), GW_OK);
    assert_false(program.is_32_bit);
    assert_true(program.is_static);
}

GW_TEST(a_loader_is_no_static_program)
{
    static gwi_program program;
    static const char *const loaders[] = {"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"};
    for (size_t i = 0; i < sizeof loaders / sizeof loaders[0]; i++) {
        if (access(loaders[i], X_OK) == 0) {
            assert_int_equal(find(loaders[i], &program, NULL), GW_OK);
            assert_false(program.is_static);
            return;
        }
    }
    print_message("skipped: no dynamic loader at the usual places\n");
    skip();
}

GW_TEST_MAIN(gw_test_folder_make, gw_test_folder_remove)
