/* Tests how libraries are recognised by their paths, and how conflicts between them are found. */
#include "gw_libs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static void paths_say_what_they_are(void **state)
{
    (void)state;
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

static void other_paths_are_none(void **state)
{
    (void)state;
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

static void hostile_names_do_no_harm(void **state)
{
    (void)state;
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

static void a_line_keeps_what_is_known(void **state)
{
    (void)state;
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

static void what_does_not_go_together_is_found(void **state)
{
    (void)state;
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

static void make(const char *format, const char *root)
{
    char path[512];
    snprintf(path, sizeof path, format, root);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void the_package_says_the_version(void **state)
{
    (void)state;
    char root[] = "/tmp/gw-libs-XXXXXX", command[64];
    gw_library library;
    assert_non_null(mkdtemp(root));
    make("%s/site-packages", root);
    make("%s/site-packages/nvidia_cudnn_cu12-9.1.0.70.dist-info", root);
    make("%s/site-packages/nvidia_cudnn_cu11-8.9.6.50.dist-info", root);
    make("%s/site-packages/nvidia_cudnn_frontend-1.2.dist-info", root);
    make("%s/site-packages/nvidia_nccl_cu12-2.20.5.dist-info", root);
    assert_true(gw_library_of_path("/site-packages/nvidia/cudnn/lib/libcudnn_cnn.so.9", &library));
    gw_library_ask_package(root, &library);
    char version[GW_VERSION_TEXT_MAX];
    assert_string_equal(gw_version_text(version, library.version), "9.1.0.70");
    assert_int_equal(library.from, GW_VERSION_FROM_PACKAGE);
    gw_library_free(&library);
    assert_true(gw_library_of_path("/site-packages/nvidia/nccl/lib/libnccl.so.2", &library));
    gw_library_ask_package(root, &library);
    assert_string_equal(gw_version_text(version, library.version), "2.20.5");
    gw_library_free(&library);
    /* this path is not in a package, so only the major version is known */
    assert_true(gw_library_of_path("/elsewhere/libcudnn.so.9", &library));
    gw_library_ask_package(root, &library);
    assert_true(library.is_major_only);
    gw_library_free(&library);
    make("%s/site-packages/nvidia_cudnn_cu13-9.2.0.dist-info", root);
    /* two packages match, so it is unknown which one contains the file */
    assert_true(gw_library_of_path("/site-packages/nvidia/cudnn/lib/libcudnn.so.9", &library));
    gw_library_ask_package(root, &library);
    assert_true(library.is_major_only);
    gw_library_read(root, &library); /* the file does not exist: this must not crash */
    gw_library_free(&library);
    snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

static void a_real_file_has_a_soname(void **state)
{
    (void)state;
    gw_library library = {.path = strdup("/proc/self/exe")};
    gw_library_read("", &library);
    assert_null(library.soname); /* a program has no SONAME */
    gw_library_free(&library);
    library.path = strdup("/proc/self/status"); /* not an ELF file */
    gw_library_read("", &library);
    assert_null(library.soname);
    gw_library_free(&library);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_say_what_they_are),
        cmocka_unit_test(other_paths_are_none),
        cmocka_unit_test(hostile_names_do_no_harm),
        cmocka_unit_test(a_line_keeps_what_is_known),
        cmocka_unit_test(what_does_not_go_together_is_found),
        cmocka_unit_test(the_package_says_the_version),
        cmocka_unit_test(a_real_file_has_a_soname),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
