/* Tests the CSV file and the event files for TensorBoard. runs.py reads them with other programs. */
#include "csv.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static struct reason reason;
static char folder[] = "/tmp/trainer-curves-XXXXXX", path[64];
static const char columns[] = "step,epoch,loss,accuracy,top5,rate,gradient_norm,images_per_s,loader_wait,scale,broken,"
                              "memory_bytes,temperature,test_loss,test_accuracy,test_top5\n";

static int make_folder(void **state)
{
    (void)state;
    strcpy(strrchr(folder, '-') + 1, "XXXXXX");
    if (mkdtemp(folder) == NULL)
        return 1;
    snprintf(path, sizeof path, "%s/x.csv", folder);
    return 0;
}

static int drop_folder(void **state)
{
    (void)state;
    remove(path);
    return rmdir(folder);
}

static void write_text(const char *text)
{
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
}

static void has_text(const char *text)
{
    char is[4096] = "";
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    is[fread(is, 1, sizeof is - 1, file)] = '\0';
    fclose(file);
    assert_string_equal(is, text);
}

static void append_rows(void)
{
    const struct step_report step = {.step = 7,
                                     .epoch = 1,
                                     .loss = 0.5,
                                     .accuracy = 0.25,
                                     .top = 0.75,
                                     .norm = -1,
                                     .rate = 0.125,
                                     .images_per_s = INFINITY,
                                     .loader_wait = 0.0625,
                                     .scale = 1,
                                     .is_broken = true};
    const struct backend_watch watch = {.own_bytes = -1, .temperature = 40};
    const struct evaluation_report evaluation = {.step = 7, .loss = (double)NAN, .accuracy = 0.5, .top = 1};
    FILE *file;
    if (!csv_open(path, &file, &reason))
        fail_msg("%s", reason.text);
    csv_step(file, &step, &watch);
    csv_evaluation(file, &evaluation);
    assert_int_equal(fclose(file), 0);
}

static void rows_are_appended(void **state)
{
    (void)state;
    static const char rows[] = "7,1,0.5,0.25,0.75,0.125,,inf,0.0625,1,1,,40,,,\n7,,,,,,,,,,,,,nan,0.5,1\n";
    char text[1000], again[2000];
    snprintf(text, sizeof text, "%s%s", columns, rows);
    append_rows();
    has_text(text);
    snprintf(again, sizeof again, "%s%s", text, "8,1,0.2"); /* a killed process wrote the beginning of a row */
    write_text(again);
    append_rows();
    snprintf(again, sizeof again, "%s%s", text, rows);
    has_text(again);
    write_text("step,epo"); /* it was killed when it wrote the first row */
    append_rows();
    has_text(text);
}

static void other_files_are_refused(void **state)
{
    (void)state;
    FILE *file;
    static const char *const others[] = {"a,b\n1,2\n", "a,b\n1,2", "not a table", "\n", "step,epoch\n"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) { /* they stay as they are */
        write_text(others[i]);
        assert_false(csv_open(path, &file, &reason));
        assert_non_null(strstr(reason.text, "/x.csv: line 1: the columns are not those of this program"));
        has_text(others[i]);
    }
    assert_false(csv_open("/nowhere/x.csv", &file, &reason));
    assert_string_equal(reason.text, "/nowhere/x.csv: No such file or directory");
    assert_true(csv_is_path("a.csv") && !csv_is_path(".csv") && !csv_is_path("a.csv.gz") && !csv_is_path("log"));
}

/* The beginning of a line that a killed process left stays a line of its own. */
static void logs_begin_a_line(void **state)
{
    (void)state;
    static const char *const befores[] = {"", "{\"step\":1}\n", "{\"step\":1}\n{\"ste", "{"};
    for (size_t i = 0; i < sizeof befores / sizeof *befores; i++) {
        const char *before = befores[i];
        bool is_cut = *before != '\0' && before[strlen(before) - 1] != '\n';
        char text[100];
        struct report_options options = {0};
        write_text(before);
        if (!report_open_log(path, &options.log, &reason))
            fail_msg("%s", reason.text);
        struct report report = report_begin(&options);
        report_log(&report, "{\"a\":%d}", 2);
        assert_int_equal(fclose(options.log), 0);
        snprintf(text, sizeof text, "%s%s{\"a\":2}\n", before, is_cut ? "\n" : "");
        has_text(text);
    }
    struct report_options options = {0};
    assert_false(report_open_log("/nowhere/x", &options.log, &reason));
    assert_string_equal(reason.text, "No such file or directory");
}

static void checksum_is_the_standard_one(void **state)
{
    (void)state;
    static const uint8_t zeros[32] = {0};
    assert_int_equal(events_crc("123456789", 9), 0xE3069283);
    assert_int_equal(events_crc(zeros, sizeof zeros), 0x8A9136AA); /* RFC 3720, B.4 */
    assert_int_equal(events_crc("", 0), 0);
}

static void slow_speeds_are_not_0(void **state)
{
    (void)state;
    char text[32];
    assert_string_equal(speed_text(0.02134, text), "0.0213");
    assert_string_equal(speed_text(85.72, text), "85.7");
    assert_string_equal(speed_text(12345.6, text), "12346");
}

static void events_say_what_failed(void **state)
{
    (void)state;
    struct events *events;
    write_text("");
    assert_false(events_open(path, &events, &reason)); /* a file, not a folder */
    assert_non_null(strstr(reason.text, "/x.csv: cannot create a file in it: Not a directory"));
    assert_false(events_open("/nowhere/at/all", &events, &reason));
    assert_non_null(strstr(reason.text, "/nowhere/at/all: cannot create the folder: No such file or directory"));
    assert_true(events_close(NULL, &reason));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_are_appended, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(other_files_are_refused, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(logs_begin_a_line, make_folder, drop_folder),
        cmocka_unit_test(checksum_is_the_standard_one),
        cmocka_unit_test(slow_speeds_are_not_0),
        cmocka_unit_test_setup_teardown(events_say_what_failed, make_folder, drop_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
