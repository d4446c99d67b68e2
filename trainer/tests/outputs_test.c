/* Tests that results which would be written to the same file are refused. */
#include "outputs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/trainer-outputs-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL || chdir(folder) != 0;
}

static int drop_folder(void **state)
{
    (void)state;
    return chdir("/") != 0 || rmdir(folder) != 0;
}

static void write_file(const char *path)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
}

static void compare(const char *log, const char *checkpoint, const char *why)
{
    const struct output outputs[] = {{.what = "--log", .path = log},
                                     {.what = "--csv"},
                                     {.what = "--checkpoint", .path = checkpoint, .is_replaced = true}};
    struct reason reason = {0};
    bool differ = outputs_differ(outputs, 3, &reason);
    if (differ != (why == NULL) || (why != NULL && strstr(reason.text, why) == NULL))
        fail_msg("%s and %s: '%s'", log, checkpoint, reason.text);
}

/* Neither file exists yet. */
static void compares_new_names(void **state)
{
    (void)state;
    char path[64];
    compare("a", "b", NULL);
    compare("a", "a", "--log (a) and --checkpoint (a) are the same file");
    compare("a", "./a", "are the same file");
    compare("./a/", "a", "are the same file");
    snprintf(path, sizeof path, "%s/../%s/a", folder, strrchr(folder, '/') + 1);
    compare("a", path, "are the same file");
    compare("a", "/a", NULL);
    compare("a", "..", NULL);
    compare("aa", "a", NULL);
    compare("/nowhere/a", "/nowhere/a", "are the same file");
    compare("/nowhere/a", "/nowhere/else/a", NULL);
    compare("a.new", "a", "--log (a.new) is the temporary file of --checkpoint (a)");
    compare("a", "a.new", NULL);
    compare(NULL, "a", NULL);
    compare("a", NULL, NULL);
}

static void compares_files(void **state)
{
    (void)state;
    write_file("a");
    compare("a", "./a", "are the same file");
    compare("a", "b", NULL);
    assert_int_equal(symlink("a", "b"), 0);
    compare("a", "b", "--log (a) and --checkpoint (b) are the same file");
    assert_int_equal(unlink("b"), 0);
    assert_int_equal(link("a", "b"), 0);
    compare("a", "b", "are the same file");
    assert_int_equal(unlink("b"), 0);
    write_file("b");
    compare("a", "b", NULL);
    assert_int_equal(unlink("a") + unlink("b"), 0);
}

static void keeps_inputs(void **state)
{
    (void)state;
    struct output outputs[] = {{.what = "--weights", .path = "a", .is_input = true, .instead = "--save-weights"},
                               {.what = "--model", .path = "a", .is_input = true},
                               {.what = "--export", .path = "b", .is_replaced = true},
                               {.what = "--save-weights", .path = "c", .is_replaced = true}};
    struct reason reason;
    assert_true(outputs_differ(outputs, 4, &reason));
    outputs[2].path = "a";
    assert_false(outputs_differ(outputs, 4, &reason));
    assert_non_null(strstr(reason.text, "--weights (a) and --export (a) are the same file"));
    outputs[2].path = "b";
    outputs[3].path = "a";
    assert_false(outputs_differ(outputs, 4, &reason));
    assert_non_null(strstr(reason.text, "--model (a) and --save-weights (a) are the same file"));
    outputs[1].path = "m";
    assert_true(outputs_differ(outputs, 4, &reason));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compares_new_names),
        cmocka_unit_test(compares_files),
        cmocka_unit_test(keeps_inputs),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
