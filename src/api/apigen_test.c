/* Test that apigen rejects each bad row and names the file, the line and the reason, and that it accepts a good row. */
#include "gw_test_folder.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Write `text` to a file and run apigen on it. Returns apigen's exit status and stores its output in `said`. */
static int run(const char *text, size_t bytes, char *said, size_t said_bytes)
{
    char command[2048];
    gw_test_write(gw_test_file, text, bytes);
    snprintf(command, sizeof command, "%s %s %s 2>&1", GW_TEST_APIGEN, gw_test_file, gw_test_folder);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    said[fread(said, 1, said_bytes - 1, pipe)] = '\0';
    int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

GW_TEST(bad_rows_are_refused)
{
    static const struct {
        const char *text;
        const char *reason;
    } cases[] = {
        {"", ": no rows"},
        {"cuA | - | CALL\n", ":1: 3 columns"},
        {"cuA | - | CALL | void | more\n", ":1: more than four columns"},
        {"# fine\n\nmalloc | - | CALL | void\n", ":3: 'malloc' is no name"},
        {"cu A | - | CALL | void\n", "is no name of a driver function"},
        {"cuA | - | CALL | void\ncuA | - | CALL | void\n", ":2: cuA is already in line 1"},
        {"cuA | cuA | CALL | void\n", "expected name@version"},
        {"cuA | cuA@12x | CALL | void\n", "expected name@version"},
        {"cuA | cuA@1 | CALL | void\n", "expected name@version"},
        {"cuA | cuA@2000:fast | CALL | void\n", "only ptsz or ptds"},
        {"cuA | cuA@2000:ptsz | CALL | void\n", "does not fit the symbol"},
        {"cuA_ptsz | cuA@2000 | CALL | void\n", "does not fit the symbol"},
        {"cuA_ptsz | cuA@2000:ptds | CALL | void\n", "does not fit the symbol"},
        {"cuA | cuA@2000 | CALL | void\ncuB | cuA@2000 | CALL | void\n", ":2: route cuA@2000 of cuB leads to cuA"},
        {"cuA | =cuX, =cuY | CALL | void\n", "expected one =name"},
        {"cuA | - | WONDER | void\n", "no kind of call 'WONDER'"},
        {"cuA | - | TEXT | void\n", "no kind of call 'TEXT'"},
        {"cuA | - | FREE a0=x | void\n", "no parameter 'x'"},
        {"cuA | - | FREE a9=x | int x\n", "no known key="},
        {"cuA | - | FREE a0=x a0=x | int x\n", "a0= of cuA twice"},
        {"cuA | - | FREE a0= | int x\n", "is empty"},
        {"cuA | - | FREE a0=f(x | int x\n", "brackets do not match"},
        {"cuA | - | FREE a0=)x( | int x\n", "brackets do not match"},
        {"cuA | - | FREE a0=*x | int x\n", "is no pointer"},
        {"cuA | - | FREE a0=2 + *x | int *x\n", "must be the only expression"},
        {"cuA | - | FREE f0=x | int x\n", "only where a0= reads an output"},
        {"cuA | - | FREE refuse=x | int x\n", "expected refuse=bytes:"},
        {"cuA | - | FREE refuse=bytes:*x | int *x\n", "cannot read an output"},
        {"cuA | - | FREE device=x | int x\n", "needs refuse="},
        {"cuA | - | CALL a0=x | int x\n", "a CALL has no arguments"},
        {"cuA | - | CALL after=f(x) | int x\n", "expected a name"},
        {"cuA | - | CALL after=f | int x\ncuB | - | CALL after=f | long x\n", ":2: after=f of cuB: cuA (line 1)"},
        {"cuA | - | CALL | int\n", "expected a type and a name"},
        {"cuA | - | CALL | int x,\n", "expected a type and a name"},
        {"cuA | - | CALL | int x, int x\n", "two parameters 'x'"},
        {"cuA | - | CALL | int x[3]\n", "expected a type and a name"},
        {"cuA | - | CALL | int (*x)(int)\n", "cannot stand there"},
        {"cuA | - | JUMP | int x\n", "its parameters are '-'"},
        {"cuA | - | JUMP a0=x | -\n", "JUMP of cuA takes nothing"},
        {"cuA | - | GET after=f | int x\n", "GET of cuA takes nothing"},
        {"cuA | - | FENCE after=f | int x\n", "FENCE of cuA takes nothing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char said[1024];
        int status = run(cases[i].text, strlen(cases[i].text), said, sizeof said);
        if (status != 1 || strstr(said, cases[i].reason) == NULL || strstr(said, "/file:") == NULL)
            fail_msg("%sstatus %d, said: %swanted: %s", cases[i].text, status, said, cases[i].reason);
    }
}

GW_TEST(noise_is_refused)
{
    char said[1024], noise[4096];
    assert_int_equal(run("cuA\0 | - | CALL | void\n", 23, said, sizeof said), 1);
    assert_non_null(strstr(said, ":1: a zero byte"));
    srand(7);
    for (int round = 0; round < 50; round++) {
        for (size_t i = 0; i < sizeof noise; i++)
            noise[i] = "cu| @=*,()a0\nptszCALL-:"[rand() % 23];
        assert_int_equal(run(noise, sizeof noise, said, sizeof said), 1);
    }
}

GW_TEST(a_good_row_is_taken)
{
    static const char text[] = "cuMemAlloc_v2 | cuMemAlloc@3020, =cuMemAlloc | ALLOC a0=*dptr a1=bytesize | "
                               "CUdeviceptr *dptr, size_t bytesize\n";
    char said[1024], path[128], line[256];
    bool found = false;
    assert_int_equal(run(text, sizeof text - 1, said, sizeof said), 0);
    assert_string_equal(said, "");
    snprintf(path, sizeof path, "%s/gw_cuda_calls.h", gw_test_folder);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        found |= strcmp(line, "#define cuMemAlloc cuMemAlloc_v2\n") == 0;
    fclose(file);
    assert_true(found);
}

GW_TEST(files_may_be_missing)
{
    char command[512];
    snprintf(command, sizeof command, "%s %s/none.api %s 2>/dev/null", GW_TEST_APIGEN, gw_test_folder, gw_test_folder);
    assert_int_equal(WEXITSTATUS(system(command)), 1);
    snprintf(command, sizeof command, "%s 2>/dev/null", GW_TEST_APIGEN);
    assert_int_equal(WEXITSTATUS(system(command)), 2);
    snprintf(command, sizeof command, "%s %s/file %s/none 2>/dev/null", GW_TEST_APIGEN, gw_test_folder, gw_test_folder);
    assert_int_equal(WEXITSTATUS(system(command)), 1);
}

GW_TEST_MAIN(gw_test_folder_make, gw_test_folder_remove)
