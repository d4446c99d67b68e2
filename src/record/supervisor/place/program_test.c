/* Tests gwi_program_find(), with programs of this machine, and with test files in a temporary folder. */
#include "gwi_program.h"

#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/gpuwhy-program-test-XXXXXX";

static void write_file(gw_path out, const char *name, const void *bytes, size_t count, mode_t mode)
{
    snprintf(out, sizeof(gw_path), "%s/%s", folder, name);
    FILE *file = fopen(out, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    fclose(file);
    assert_int_equal(chmod(out, mode), 0);
}

static gw_status find(const char *name, gwi_program *program, gw_error *err)
{
    char *argv[] = {(char *)(uintptr_t)name, NULL};
    return gwi_program_find(argv, program, err);
}

static void what_cannot_run_has_a_reason(void **state)
{
    (void)state;
    static gwi_program program;
    gw_error err;
    gw_path plain;
    assert_int_equal(find("no-such-program-here", &program, &err), GW_MISSING);
    assert_non_null(strstr(err.text, "no-such-program-here: command not found"));
    assert_int_equal(find("", &program, &err), GW_MISSING);
    assert_int_equal(find("/no/such/program", &program, &err), GW_MISSING);
    assert_int_equal(find(folder, &program, &err), GW_IO);
    write_file(plain, "plain", "text", 4, 0600);
    assert_int_equal(find(plain, &program, &err), GW_IO);
    assert_non_null(strstr(err.text, "not executable"));
}

static void damaged_files_are_harmless(void **state)
{
    (void)state;
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

static void a_script_leads_to_its_interpreter(void **state)
{
    (void)state;
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
    snprintf(self, sizeof self, "#!%s/again\n", folder); /* a script that is its own interpreter */
    write_file(path, "again", self, strlen(self), 0700);
    assert_int_equal(find(path, &script, NULL), GW_OK);
    assert_string_equal(script.image, "");
}

static void classes_are_told_apart(void **state)
{
    (void)state;
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

static void a_loader_is_no_static_program(void **state)
{
    (void)state;
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

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    gwi_folder_remove(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_run_has_a_reason),      cmocka_unit_test(damaged_files_are_harmless),
        cmocka_unit_test(a_script_leads_to_its_interpreter), cmocka_unit_test(classes_are_told_apart),
        cmocka_unit_test(a_loader_is_no_static_program),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
