/* Tests for lookups in the tables of data/. */
#include "gw_cuda_results.h"
#include "gw_data.h"
#include "gw_libs.h"
#include "gw_regressions.h"
#include "gw_test_folder.h"
#include "gw_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static gw_version v(const char *text)
{
    gw_version version = 0;
    assert_true(gw_version_parse(text, &version, NULL));
    return version;
}

GW_TEST(versions_compare_and_hostile_ones_are_refused)
{
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

GW_TEST(errors_are_found_by_number_and_by_both_names)
{
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
GW_TEST(the_header_agrees_with_every_row)
{
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

GW_TEST(words_of_logs_lead_to_their_rows)
{
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
GW_TEST(sticky_results_are_those_of_the_headers)
{
    static const unsigned documented[] = {226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911};
    for (size_t i = 0; i < sizeof documented / sizeof documented[0]; i++) {
        assert_int_equal(gw_data_cuda_error(documented[i])->sticky, GW_STICKY_YES);
        assert_non_null(gw_data_cuda_error(documented[i])->sticky_source);
    }
    static const unsigned harmless[] = {0, 1, 2, 500, 600, 701, 704, 709, 720, 800, 801, 805, 806, 999};
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++)
        assert_false(gw_cuda_is_sticky(harmless[i]));
}

GW_TEST(cudnn_numbers_depend_on_the_major_version)
{
    assert_int_equal(gw_data_cudnn_status_named(0, "CUDNN_STATUS_NOT_INITIALIZED")->code, 1001);
    assert_int_equal(gw_data_cudnn_status_named(7, "CUDNN_STATUS_NOT_INITIALIZED")->code, 1);
    assert_null(gw_data_cudnn_status_named(0, "CUDNN_STATUS_"));
}

/* The claim "CUDA 12.2 crashes with a 525 driver" is wrong. The minimum for CUDA 12 is 525.60.13. From that version,
 * 525 drivers run CUDA 12.2 with limits. */
GW_TEST(a_525_driver_runs_cuda_12_2)
{
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

GW_TEST(code_runs_on_its_own_major_version)
{
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

GW_TEST(frameworks_are_found_by_release_and_cuda)
{
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

GW_TEST(statuses_of_libraries_are_found_by_number)
{
    assert_string_equal(gw_data_library_status_of(GW_STATUS_OF_CUBLAS, 3)->name, "CUBLAS_STATUS_ALLOC_FAILED");
    assert_string_equal(gw_data_library_status_of(GW_STATUS_OF_NCCL, 6)->name, "ncclRemoteError");
    assert_null(gw_data_library_status_of(GW_STATUS_OF_CUBLAS, 2));
}

/* Tests how libraries are recognised by their paths, and how conflicts between them are found. */

GW_TEST(paths_say_what_they_are)
{
    static const struct {
        const char *path;
        gw_library_kind kind;
        gw_library_place place;
        const char *part, *version;
        bool is_major_only;
    } cases[] = {
        {"/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04", GW_LIBRARY_DRIVER, GW_PLACE_SYSTEM, "", "580.159.4", false},
        {"/usr/lib/x86_64-linux-gnu/libcuda.so.1", GW_LIBRARY_DRIVER, GW_PLACE_SYSTEM, "", "?", false},
        {"/usr/local/cuda-12.4/lib64/stubs/libcuda.so", GW_LIBRARY_DRIVER, GW_PLACE_STUBS, "", "?", false},
        {"/usr/local/cuda-12.4/compat/libcuda.so.550.54.15", GW_LIBRARY_DRIVER, GW_PLACE_COMPAT, "", "550.54.15",
         false},
        {"/usr/local/cuda-12.4/lib64/libcudart.so.12.4.127", GW_LIBRARY_CUDART, GW_PLACE_TOOLKIT, "", "12.4.127",
         false},
        {"/v/lib/python3.11/site-packages/nvidia/cuda_runtime/lib/libcudart.so.12", GW_LIBRARY_CUDART, GW_PLACE_WHEEL,
         "", "12.0", true},
        {"/v/site-packages/torch/lib/libcudart-d0da41ae.so.11.0", GW_LIBRARY_CUDART, GW_PLACE_WHEEL, "", "11.0", true},
        {"/x/site-packages/nvidia/cudnn/lib/libcudnn_engines_precompiled.so.9", GW_LIBRARY_CUDNN, GW_PLACE_WHEEL,
         "engines_precompiled", "9.0", true},
        {"/usr/lib/x86_64-linux-gnu/libcudnn.so.8.9.7", GW_LIBRARY_CUDNN, GW_PLACE_SYSTEM, "", "8.9.7", false},
        {"/opt/conda/lib/libcublasLt.so.12.4.5.8", GW_LIBRARY_CUBLASLT, GW_PLACE_CONDA, "", "12.4.5.8", false},
        {"/opt/x/libcublas.so.12", GW_LIBRARY_CUBLAS, GW_PLACE_OTHER, "", "12.0", true},
        {"libnccl.so.2", GW_LIBRARY_NCCL, GW_PLACE_OTHER, "", "2.0", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gw_library library;
        char version[GW_VERSION_TEXT_MAX];
        if (!gw_library_of_path(cases[i].path, &library))
            fail_msg("%s is not known", cases[i].path);
        assert_int_equal(library.kind, cases[i].kind);
        assert_int_equal(library.place, cases[i].place);
        assert_string_equal(library.part, cases[i].part);
        assert_string_equal(gw_version_text(version, library.version), cases[i].version);
        assert_int_equal(library.is_major_only, cases[i].is_major_only);
        gw_library_free(&library);
    }
}

GW_TEST(other_paths_are_none)
{
    static const char *const paths[] = {"",
                                        "/",
                                        "/usr/lib/libcudacxx.so",
                                        "/usr/lib/libcuda",
                                        "/usr/lib/libcudart_static.a",
                                        "/usr/lib/libcudart.sox",
                                        "/usr/lib/libnvrtc-builtins.so.12.4",
                                        "/usr/lib/libcudadebugger.so.1",
                                        "/libcuda.so/",
                                        "libcublasx.so.1"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        gw_library library;
        if (gw_library_of_path(paths[i], &library))
            fail_msg("%s is taken for %s", paths[i], gw_library_kind_text(library.kind));
    }
}

GW_TEST(hostile_names_do_no_harm)
{
    gw_library library;
    char path[4300] = "/a/libcudnn_";
    memset(path + strlen(path), 'x', 4000);
    strcpy(path + 4012, ".so.99999999999.1");
    assert_true(gw_library_of_path(path, &library));
    assert_true(library.version == 0);
    assert_int_equal(strlen(library.part), GW_LIBRARY_PART_MAX - 1);
    gw_text line = {0};
    gw_library again;
    gw_library_to_line(&library, &line);
    assert_true(gw_library_from_line(gw_text_str(&line), &again));
    gw_text_free(&line);
    assert_string_equal(again.path, library.path);
    gw_library_free(&library);
    gw_library_free(&again);
    static const char *const lines[] = {"", "path=", " path=/x", " path=", " version=9 from=77 major_only=1"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        assert_false(gw_library_from_line(lines[i], &library));
    assert_true(gw_library_from_line("kind=zzz version=... from=-5 major_only= path=/a/libcudnn.so.9.1", &library));
    assert_true(library.version == 0);
    gw_library_free(&library);
}

GW_TEST(a_line_keeps_what_is_known)
{
    gw_library library, again;
    gw_text line = {0};
    assert_true(gw_library_of_path("/v/site-packages/nvidia/cudnn/lib/libcudnn_ops.so.9", &library));
    library.version = gw_version_of(9, 1, 0);
    library.is_major_only = false;
    library.from = GW_VERSION_FROM_PACKAGE;
    gw_library_to_line(&library, &line);
    assert_string_equal(gw_text_str(&line), "kind=cudnn part=ops place=wheel version=9.1 from=3 major_only=0 "
                                            "path=/v/site-packages/nvidia/cudnn/lib/libcudnn_ops.so.9");
    assert_true(gw_library_from_line(gw_text_str(&line), &again));
    gw_text_free(&line);
    assert_true(again.version == library.version);
    assert_int_equal(again.from, GW_VERSION_FROM_PACKAGE);
    assert_false(again.is_major_only);
    assert_string_equal(again.part, "ops");
    gw_library_free(&library);
    gw_library_free(&again);
}

static void add(gw_libraries *list, const char *path)
{
    gw_library library;
    assert_true(gw_library_of_path(path, &library));
    (void)gw_libraries_add(list, &library);
}

/* Check which conflicts are found between libraries at these paths. */
static void expect_clashes(const char *const *paths, const gw_clash_kind *kinds, size_t kind_count)
{
    gw_libraries list = {0};
    gw_clash clash[8];
    for (; *paths != NULL; paths++)
        add(&list, *paths);
    size_t count = gw_libraries_clashes(&list, clash, 8);
    assert_int_equal(count, kind_count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(clash[i].kind, kinds[i]);
    gw_libraries_free(&list);
}

GW_TEST(what_does_not_go_together_is_found)
{
    const char *one[] = {
        "/s/libcudnn.so.9.1.0",   "/s/libcudnn_ops.so.9.1.0", "/s/libcudnn_cnn.so.9.1.0", "/s/libcudnn.so.9.1.0",
        "/t/libcudart.so.12.4.1", "/u/libcublas.so.12.4.1",   "/u/libcublasLt.so.12.4.1", NULL};
    expect_clashes(one, NULL, 0);
    const char *versions[] = {"/s/libcudnn.so.9.1.0", "/t/libcudnn_ops.so.9.2.0", NULL};
    expect_clashes(versions, (gw_clash_kind[]){GW_CLASH_CUDNN_VERSIONS}, 1);
    const char *folders[] = {"/s/libcudnn.so.9", "/t/libcudnn_ops.so.9", "/t/libcudnn_cnn.so.9", NULL};
    expect_clashes(folders, (gw_clash_kind[]){GW_CLASH_CUDNN_FOLDERS}, 1);
    const char *copies[] = {"/s/libcudart.so.12", "/t/libcudart.so.12", NULL};
    expect_clashes(copies, (gw_clash_kind[]){GW_CLASH_COPIES}, 1);
    const char *majors[] = {"/s/libcudart.so.11.0", "/t/libcudart.so.12", NULL};
    expect_clashes(majors, NULL, 0);
    const char *halves[] = {"/s/libcublas.so.12", "/t/libcublasLt.so.12", NULL};
    expect_clashes(halves, (gw_clash_kind[]){GW_CLASH_CUBLAS_FOLDERS}, 1);
    const char *stub[] = {"/usr/local/cuda/lib64/stubs/libcuda.so", NULL};
    expect_clashes(stub, (gw_clash_kind[]){GW_CLASH_STUB}, 1);
    const char *drivers[] = {"/usr/lib/libcuda.so.580.1", "/opt/libcuda.so.570.2", NULL};
    expect_clashes(drivers, (gw_clash_kind[]){GW_CLASH_DRIVERS}, 1);
}

static void make(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s%s", gw_test_folder, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

GW_TEST_WITH(the_package_says_the_version, gw_test_folder_make, gw_test_folder_remove)
{
    gw_library library;
    make("/site-packages");
    make("/site-packages/nvidia_cudnn_cu12-9.1.0.70.dist-info");
    make("/site-packages/nvidia_cudnn_cu11-8.9.6.50.dist-info");
    make("/site-packages/nvidia_cudnn_frontend-1.2.dist-info");
    make("/site-packages/nvidia_nccl_cu12-2.20.5.dist-info");
    assert_true(gw_library_of_path("/site-packages/nvidia/cudnn/lib/libcudnn_cnn.so.9", &library));
    gw_library_ask_package(gw_test_folder, &library);
    char version[GW_VERSION_TEXT_MAX];
    assert_string_equal(gw_version_text(version, library.version), "9.1.0.70");
    assert_int_equal(library.from, GW_VERSION_FROM_PACKAGE);
    gw_library_free(&library);
    assert_true(gw_library_of_path("/site-packages/nvidia/nccl/lib/libnccl.so.2", &library));
    gw_library_ask_package(gw_test_folder, &library);
    assert_string_equal(gw_version_text(version, library.version), "2.20.5");
    gw_library_free(&library);
    /* this path is not in a package, so only the major version is known */
    assert_true(gw_library_of_path("/elsewhere/libcudnn.so.9", &library));
    gw_library_ask_package(gw_test_folder, &library);
    assert_true(library.is_major_only);
    gw_library_free(&library);
    make("/site-packages/nvidia_cudnn_cu13-9.2.0.dist-info");
    /* two packages match, so it is unknown which one contains the file */
    assert_true(gw_library_of_path("/site-packages/nvidia/cudnn/lib/libcudnn.so.9", &library));
    gw_library_ask_package(gw_test_folder, &library);
    assert_true(library.is_major_only);
    gw_library_read(gw_test_folder, &library); /* the file does not exist: this must not crash */
    gw_library_free(&library);
}

GW_TEST(a_real_file_has_a_soname)
{
    gw_library library = {.path = strdup("/proc/self/exe")};
    gw_library_read("", &library);
    assert_null(library.soname); /* a program has no SONAME */
    gw_library_free(&library);
    library.path = strdup("/proc/self/status"); /* not an ELF file */
    gw_library_read("", &library);
    assert_null(library.soname);
    gw_library_free(&library);
}

/* ---- known problems ---- */

static bool has_in(const void *text, const char *word, size_t bytes)
{
    char wanted[64];
    snprintf(wanted, sizeof wanted, "%.*s", (int)bytes, word);
    return strstr(text, wanted) != NULL;
}

GW_TEST(a_row_applies_only_if_all_of_it_holds)
{
    const gw_regression row = {.library = "PyTorch",
                               .first = v("2.9.1"),
                               .before = v("2.10"),
                               .needs = "cuDNN<9.15 capability>=8.0",
                               .card = "H20 H800",
                               .text = "computes slowly"};
    gw_software software = {0};
    assert_int_equal(gw_regression_applies(&row, &software), GW_APPLIES_NOT); /* without a version, nothing applies */
    gw_software_add_text(&software, "torch", "2.9.1+cu128");
    gw_software_add_text(&software, "torch", "2.8.0"); /* the first one stays */
    assert_int_equal(gw_regression_applies(&row, &software), GW_APPLIES_UNKNOWN);
    gw_software_add_text(&software, "nvidia-cudnn-cu12", "9.10.2.21");
    assert_int_equal(gw_regression_applies(&row, &software), GW_APPLIES_UNKNOWN);
    gw_software other = software;
    gw_software_add_card(&software, "NVIDIA H20");
    assert_true(gw_software_version(&software, "capability") == v("9.0"));
    assert_int_equal(gw_regression_applies(&row, &software), GW_APPLIES);
    gw_software_add_card(&other, "NVIDIA H200"); /* another card, whose name begins in the same way */
    assert_int_equal(gw_regression_applies(&row, &other), GW_APPLIES_NOT);
    gw_software newer = {0};
    gw_software_add_text(&newer, "PyTorch", "2.9.1");
    gw_software_add_text(&newer, "nvidia_cudnn_cu13", "9.15.1.9");
    assert_int_equal(gw_regression_applies(&row, &newer), GW_APPLIES_NOT);
    gw_text text = {0};
    gw_regression_say(&row, &software, &text);
    assert_string_equal(gw_text_str(&text), "PyTorch 2.9.1 computes slowly");
    gw_text_free(&text);
}

GW_TEST(conditions_compare_versions)
{
    gw_regression row = {.library = "PyTorch", .needs = "CUDA=12.1", .likely = "MONAI>=0 cards>=2"};
    gw_software software = {0};
    gw_software_add_text(&software, "torch", "2.1.0");
    gw_software_add_text(&software, "cudart", "12.1.105"); /* a 12.1 */
    assert_int_equal(gw_regression_applies(&row, &software), GW_APPLIES);
    gw_software early = {0};
    gw_software_add_text(&early, "torch", "2.1.0a0+32f93b1");
    gw_software_add_text(&early, "cudart", "12.1.105");
    assert_int_equal(gw_regression_applies(&row, &early), GW_APPLIES_UNKNOWN);
    row.needs = "CUDA=12.10";
    assert_int_equal(gw_regression_applies(&row, &software), GW_APPLIES_NOT);
    assert_false(gw_regression_is_likely(&row, &software));
    gw_software_add(&software, "cards", v("2.0"));
    assert_true(gw_regression_is_likely(&row, &software));
}

/* Check which package a file belongs to. "": none. */
static void expect_package(const char *path, const char *wanted)
{
    gw_text package = {0};
    gw_package_of_path(gw_test_folder, path, &package);
    assert_string_equal(gw_text_str(&package), wanted);
    gw_text_free(&package);
}

GW_TEST_WITH(files_belong_to_packages, gw_test_folder_make, gw_test_folder_remove)
{
    char command[2048];
    snprintf(command, sizeof command,
             "cd %s && mkdir -p v/site-packages && cd v/site-packages && mkdir torch_geometric-2.5.3.dist-info "
             "torch-2.9.0+cu128.dist-info cupy_cuda12x-13.6.0.dist-info flash_attn-2.8.0.post2.dist-info && "
             "echo torch_geometric >torch_geometric-2.5.3.dist-info/top_level.txt && "
             "printf 'cupy\\r\\ncupyx\\n' >cupy_cuda12x-13.6.0.dist-info/top_level.txt && "
             "printf 'flash_attn\\nflash_attn_2_cuda' >flash_attn-2.8.0.post2.dist-info/top_level.txt",
             gw_test_folder);
    assert_int_equal(system(command), 0);
    expect_package("/v/site-packages/torch/lib/libtorch_cuda.so", "torch 2.9.0+cu128");
    expect_package("/v/site-packages/cupy/_core/core.cpython-311-x86_64-linux-gnu.so", "cupy_cuda12x 13.6.0");
    expect_package("/v/site-packages/flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so", "flash_attn 2.8.0.post2");
    expect_package("/v/site-packages/torc/x.so", "");
    expect_package("/v/site-packages/nvidia/cudnn/lib/libcudnn.so.9", "");
    expect_package("/usr/lib/libtorch_cuda.so", "");
    expect_package("/none/site-packages/torch/x.so", "");
    assert_int_equal(gw_package_bytes("/v/site-packages/torch/lib/libtorch.so"), strlen("/v/site-packages/torch"));
    assert_int_equal(gw_package_bytes("/v/site-packages/nvidia/cudnn/lib/libcudnn.so.9"), 0);
}

GW_TEST(packages_have_the_names_of_the_table)
{
    static const char *const pairs[][2] = {{"cupy-cuda12x", "CuPy"},           {"flash_attn", "flash-attn"},
                                           {"nvidia-nccl-cu12", "NCCL"},       {"onnxruntime-gpu", "onnxruntime"},
                                           {"pytorch-lightning", "Lightning"}, {"nvidia-cublas", "cuBLAS"},
                                           {"tensorrt-cu12", "TensorRT"},      {"vllm", "vLLM"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        gw_software software = {0};
        gw_software_add_text(&software, pairs[i][0], "1.2.3");
        assert_true(gw_software_version(&software, pairs[i][1]) == v("1.2.3"));
    }
    gw_software software = {0};
    gw_software_add_text(&software, "a-name-that-is-longer-than-any-in-the-table", "1.2");
    gw_software_add_text(&software, "torch", "nightly");
    gw_software_add_text(&software, "", "1.2");
    gw_software_add_text(&software, "-cu12", NULL);
    assert_int_equal(software.count, 0);
    for (int i = 0; i < 2 * GW_SOFTWARE_MAX; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        gw_software_add(&software, name, v("1.0"));
    }
    assert_int_equal(software.count, GW_SOFTWARE_MAX);
}

GW_TEST(words_are_alternatives_of_lists)
{
    static const char words[] = "conv3d&bf16|vol2col";
    assert_false(gw_regression_has(words, has_in, "conv3d"));
    assert_true(gw_regression_has(words, has_in, "bf16 conv3d"));
    assert_true(gw_regression_has(words, has_in, "vol2col"));
    assert_false(gw_regression_has(words, has_in, "conv2d"));
    assert_false(gw_regression_has(NULL, has_in, "conv3d"));
}

GW_TEST(cards_are_known_by_name)
{
    assert_true(gw_data_capability_named("NVIDIA A100-SXM4-80GB") == v("8.0"));
    assert_true(gw_data_capability_named("NVIDIA GeForce RTX 4090") == v("8.9"));
    assert_true(gw_data_capability_named("NVIDIA GeForce RTX 5070 Ti") == v("12.0"));
    assert_true(gw_data_capability_named("Tesla T4") == v("7.5"));
    assert_true(gw_data_capability_named("NVIDIA L40S") == v("8.9"));
    assert_true(gw_data_capability_named("NVIDIA T400") == 0);
    assert_true(gw_data_capability_named("") == 0);
}

GW_TEST_MAIN(NULL, NULL)
