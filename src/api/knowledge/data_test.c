/* Tests for lookups in the tables of data/. */
#include "gw_cuda_results.h"
#include "gw_data.h"
#include "gw_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static gw_version v(const char *text)
{
    gw_version version = 0;
    assert_true(gw_version_parse(text, &version, NULL));
    return version;
}

static void versions_compare_and_hostile_ones_are_refused(void **state)
{
    (void)state;
    assert_true(v("525.60.13") < v("525.105.17"));
    assert_true(v("9.10") > v("9.9"));
    assert_true(v("12.4") == v("12.4.0"));
    static const char *const bad[] = {
        "", ".", "x", "-1", "1.", "1..2", "1.2.3.4.5", "65536", "99999999999999999999", "12.4 ", "v1", "12,4"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gw_version version = 7;
        assert_false(gw_version_parse(bad[i], &version, NULL));
        assert_true(version == 7);
    }
    const char *end;
    gw_version version;
    assert_true(gw_version_parse("2.11.0+cu130", &version, &end));
    assert_string_equal(end, "+cu130");
    char text[GW_VERSION_TEXT_MAX];
    assert_string_equal(gw_version_text(text, v("8.9.2.26")), "8.9.2.26");
    assert_string_equal(gw_version_text(text, v("12")), "12.0");
    assert_string_equal(gw_version_text(text, UINT64_MAX), "65535.65535.65535.65535");
    assert_string_equal(gw_version_text(text, 0), "?");
}

static void errors_are_found_by_number_and_by_both_names(void **state)
{
    (void)state;
    const gw_cuda_error *error = gw_data_cuda_error(700);
    assert_string_equal(error->driver_name, "CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_int_equal(error->sticky, GW_STICKY_YES);
    assert_true(error->documented);
    assert_ptr_equal(gw_data_cuda_error_named("cudaErrorIllegalAddress"), error);
    assert_ptr_equal(gw_data_cuda_error_named("CUDA_ERROR_ILLEGAL_ADDRESS"), error);
    assert_null(gw_data_cuda_error(35)->driver_name); /* only the runtime has a name for this code */
    assert_false(gw_data_cuda_error(214)->documented);
    assert_int_equal(gw_data_cuda_error(214)->sticky, GW_STICKY_PRACTICE);
    assert_null(gw_data_cuda_error(65535));
    assert_null(gw_data_cuda_error_named("-"));
    assert_int_equal(gw_data_xid_of(79)->kind, GW_XID_KIND_XID);
    assert_string_equal(gw_data_xid_of(31)->class, "app-first");
    assert_null(gw_data_xid_of(11004));
    assert_non_null(gw_data_sxid_of(11004));
    assert_int_equal(gw_data_xid_of(176)->verified, GW_VERIFIED_PARTLY); /* only the name of this Xid was verified */
}

/* gw_cuda_results.h must have the same codes as the table. datagen generates it. The hook, the virtual card and the log
 * reader use it. */
static void the_header_agrees_with_every_row(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        unsigned code;
    } results[] = {
#define GW_X(name, code) {#name, code},
        GW_CUDA_RESULTS(GW_X)
#undef GW_X
    };
    static const struct {
        unsigned code;
        const char *text;
    } texts[] = {
#define GW_X(code, text) {code, text},
        GW_CUDA_TEXTS(GW_X)
#undef GW_X
    };
    static const struct {
        unsigned code;
        const char *driver_name, *runtime_name, *text, *meaning;
        int sticks;
    } errors[] = {
#define GW_X(...) {__VA_ARGS__},
        GW_CUDA_ERRORS(GW_X)
#undef GW_X
    };
    size_t name_count = 0, text_count = 0, count = 0;
    assert_int_equal(sizeof errors / sizeof errors[0], gw_data_cuda_errors_count);
    for (size_t i = 0; i < gw_data_cuda_errors_count; i++) {
        const gw_cuda_error *error = &gw_data_cuda_errors[i];
        bool is_sticky = error->sticky == GW_STICKY_YES || error->sticky == GW_STICKY_PRACTICE;
        assert_int_equal(gw_cuda_is_sticky(error->code) != 0, is_sticky);
        count += is_sticky;
        assert_int_equal(errors[i].code, error->code);
        assert_true(gw_str_same(errors[i].driver_name, error->driver_name));
        assert_true(gw_str_same(errors[i].runtime_name, error->runtime_name));
        assert_true(gw_str_same(errors[i].text, error->text) && gw_str_same(errors[i].meaning, error->meaning));
        if (is_sticky || error->sticky == GW_STICKY_NO)
            assert_int_equal(errors[i].sticks, is_sticky || error->usable == GW_USABLE_NO);
        else
            assert_int_equal(errors[i].sticks, -1);
        if (error->driver_name != NULL) {
            assert_string_equal(error->driver_name, results[name_count].name);
            assert_int_equal(error->code, results[name_count++].code);
        }
        if (error->text != NULL) {
            assert_int_equal(error->code, texts[text_count].code);
            assert_string_equal(error->text, texts[text_count++].text);
        }
    }
    assert_int_equal(name_count, sizeof results / sizeof results[0]);
    assert_int_equal(text_count, sizeof texts / sizeof texts[0]);
    for (unsigned code = 0; code < 65536; code++)
        count -= gw_cuda_is_sticky(code) != 0;
    assert_int_equal(count, 0);
}

/* Check that the table contains every alternative of a pattern. Returns the number of alternatives. */
static size_t walk_pattern(const char *pattern)
{
    size_t count = 0;
    for (const char *at = pattern; *at != '\0'; at += *at == '|', count++) {
        char part[256];
        size_t bytes = strcspn(at, "|");
        snprintf(part, sizeof part, "%.*s", (int)bytes, at);
        if (gw_data_cuda_error_said(part) == NULL)
            fail_msg("no row has the words \"%s\"", part);
        at += bytes;
    }
    return count;
}

static void words_of_logs_lead_to_their_rows(void **state)
{
    (void)state;
    assert_true(walk_pattern(GW_CUDA_LOG_TEXTS) > 30);
    assert_true(walk_pattern(GW_CUDA_SHORT_LOG_TEXTS) > 3);
    assert_int_equal(gw_data_cuda_error_said("misaligned address")->code, 716);
    assert_int_equal(gw_data_cuda_error_said("invalid value")->code, 1);
    assert_int_equal(gw_data_cuda_error_said("CUDA unknown error")->code, 999);
    assert_null(gw_data_cuda_error_said("misaligned"));
    assert_null(gw_data_cuda_error_said(""));
    assert_int_equal(gw_data_cuda_error_old(77)->code, 700);
    assert_null(gw_data_cuda_error_old(0));
}

/* According to the headers of CUDA 13.0, the process must be terminated and relaunched after these errors. */
static void sticky_results_are_those_of_the_headers(void **state)
{
    (void)state;
    static const unsigned documented[] = {226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911};
    for (size_t i = 0; i < sizeof documented / sizeof documented[0]; i++) {
        assert_int_equal(gw_data_cuda_error(documented[i])->sticky, GW_STICKY_YES);
        assert_non_null(gw_data_cuda_error(documented[i])->sticky_source);
    }
    static const unsigned harmless[] = {0, 1, 2, 500, 600, 701, 704, 709, 720, 800, 801, 805, 806, 999};
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++)
        assert_false(gw_cuda_is_sticky(harmless[i]));
}

static void cudnn_numbers_depend_on_the_major_version(void **state)
{
    (void)state;
    assert_int_equal(gw_data_cudnn_status_named(0, "CUDNN_STATUS_NOT_INITIALIZED")->code, 1001);
    assert_int_equal(gw_data_cudnn_status_named(7, "CUDNN_STATUS_NOT_INITIALIZED")->code, 1);
    assert_null(gw_data_cudnn_status_named(0, "CUDNN_STATUS_"));
}

/* The claim "CUDA 12.2 crashes with a 525 driver" is wrong. The minimum for CUDA 12 is 525.60.13. From that version,
 * 525 drivers run CUDA 12.2 with limits. */
static void a_525_driver_runs_cuda_12_2(void **state)
{
    (void)state;
    const gw_driver_row *row = NULL;
    assert_int_equal(gw_data_driver_fit(v("525.60.13"), v("12.2"), &row), GW_DRIVER_MINOR);
    assert_string_equal(row->driver_minimum_text, "525.60.13");
    assert_int_equal(gw_data_driver_fit(v("525.125.06"), v("12.2.2"), NULL), GW_DRIVER_MINOR);
    assert_int_equal(gw_data_driver_fit(v("525.60.11"), v("12.2"), NULL), GW_DRIVER_TOO_OLD);
    assert_int_equal(gw_data_driver_fit(v("515.105.01"), v("12.2"), NULL), GW_DRIVER_TOO_OLD);
    assert_int_equal(gw_data_driver_fit(v("535.54.03"), v("12.2"), NULL), GW_DRIVER_FULL);
    assert_int_equal(gw_data_driver_fit(v("525.60.13"), v("13.0"), NULL), GW_DRIVER_TOO_OLD);
    assert_int_equal(gw_data_driver_fit(v("580.65.06"), v("11.4"), NULL), GW_DRIVER_FULL);
    /* CUDA 10 has no row in cuda_families.tsv */
    assert_int_equal(gw_data_driver_fit(v("418.39"), v("10.2"), NULL), GW_DRIVER_TOO_OLD);
    assert_int_equal(gw_data_driver_fit(v("580.65.06"), v("13.9"), NULL),
                     GW_DRIVER_MINOR); /* 13.9 has no row, so the row of CUDA 13 in cuda_families.tsv is used */
    assert_int_equal(gw_data_driver_fit(v("580.65.06"), v("14.0"), NULL), GW_DRIVER_UNKNOWN);
    assert_int_equal(gw_data_driver_fit(0, v("12.2"), NULL), GW_DRIVER_UNKNOWN);
    assert_true(gw_data_cuda_of_driver(v("525.60.13"))->cuda == v("12.0"));
    assert_true(gw_data_cuda_of_driver(v("580.159.04"))->cuda == v("13.0"));
    assert_null(gw_data_cuda_of_driver(v("300.1")));
}

static void code_runs_on_its_own_major_version(void **state)
{
    (void)state;
    assert_int_equal(gw_data_covers("7.5 8.0 8.6 9.0", v("8.9")), GW_COVER_NATIVE);
    assert_int_equal(gw_data_covers("7.5 8.6 9.0", v("8.0")), GW_COVER_NONE); /* 8.6 is newer than the card */
    assert_int_equal(gw_data_covers("7.5 8.0 9.0", v("12.0")), GW_COVER_NONE);
    assert_int_equal(gw_data_covers("7.5 9.0+PTX", v("12.0")), GW_COVER_PTX);
    assert_int_equal(gw_data_covers("12.0+PTX", v("9.0")), GW_COVER_NONE);
    assert_int_equal(gw_data_covers("", v("9.0")), GW_COVER_NONE);
    assert_int_equal(gw_data_covers("junk 9.0", v("9.0")), GW_COVER_NONE);
    assert_string_equal(gw_data_capability(v("9.0"))->architecture, "Hopper");
    assert_true(gw_data_capability(v("7.0"))->cuda_last == v("12.9"));
    assert_null(gw_data_capability(v("99.0")));
}

static void frameworks_are_found_by_release_and_cuda(void **state)
{
    (void)state;
    const gw_framework_row *row = gw_data_framework("pytorch", "2.1.2+cu121", v("12.1"));
    assert_string_equal(row->cudnn, "8.9.2.26");
    assert_string_equal(gw_data_framework("PyTorch", "2.11.0", v("12.6"))->cuda, "12.6.3");
    assert_null(gw_data_framework("pytorch", "2.11.0", v("11.8")));
    assert_null(gw_data_framework("pytorch", "nonsense", 0));
    assert_null(gw_data_framework("paddle", "2.1.2", 0));
    assert_int_equal(gw_data_covers(gw_data_framework("pytorch", "2.11.0", v("12.8"))->architectures, v("7.0")),
                     GW_COVER_NONE);
    const gw_framework_row *volta = gw_data_framework_for("pytorch", v("7.0"));
    assert_non_null(volta);
    assert_int_equal(gw_version_part(v("12.6"), 0), 12);
    assert_true(gw_begins(volta->cuda, "12.6"));
    assert_true(gw_data_cudnn_support_of(v("9.20"))->capability_first == v("7.5"));
    assert_true(gw_data_cudnn_support_of(v("9.10.2"))->capability_first == v("5.0"));
    assert_true(gw_data_cudnn_support_of(v("9.5.1"))->cuda_last == v("12.6"));
    assert_null(gw_data_cudnn_support_of(v("9.7.1"))); /* 9.7.1 lies between two rows, so it is unknown */
}

static void statuses_of_libraries_are_found_by_number(void **state)
{
    (void)state;
    assert_string_equal(gw_data_library_status_of(GW_STATUS_OF_CUBLAS, 3)->name, "CUBLAS_STATUS_ALLOC_FAILED");
    assert_string_equal(gw_data_library_status_of(GW_STATUS_OF_NCCL, 6)->name, "ncclRemoteError");
    assert_null(gw_data_library_status_of(GW_STATUS_OF_CUBLAS, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statuses_of_libraries_are_found_by_number),
        cmocka_unit_test(versions_compare_and_hostile_ones_are_refused),
        cmocka_unit_test(errors_are_found_by_number_and_by_both_names),
        cmocka_unit_test(the_header_agrees_with_every_row),
        cmocka_unit_test(words_of_logs_lead_to_their_rows),
        cmocka_unit_test(sticky_results_are_those_of_the_headers),
        cmocka_unit_test(cudnn_numbers_depend_on_the_major_version),
        cmocka_unit_test(a_525_driver_runs_cuda_12_2),
        cmocka_unit_test(code_runs_on_its_own_major_version),
        cmocka_unit_test(frameworks_are_found_by_release_and_cuda),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
