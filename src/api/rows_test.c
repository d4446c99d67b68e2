/* Check the rows of api/driver.api against facts that are known about drivers. */
#include "gw_api.h"
#include "gw_api_args.h"
#include "gw_event.h"
#include "gw_inject.h"
#include "gw_text.h"
#include "gw_unit_test.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

GW_TEST(every_export_has_a_row)
{
    char line[256];
    int count = 0, jump_count = 0;
    FILE *file = fopen(GW_TEST_EXPORTS, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '#' || line[0] == '\0')
            continue;
        int fn = gw_api_find_symbol(line);
        if (fn < 0)
            fail_msg("%s has no row", line);
        assert_string_equal(gw_api_fns[fn].symbol, line);
        count++;
        jump_count += !(gw_api_fns[fn].flags & GW_API_PUBLIC);
    }
    fclose(file);
    assert_int_equal(count, 682);
    /* JUMP rows: three cu symbols and eight cudbg symbols, which no header declares */
    assert_int_equal(jump_count, 11);
    assert_int_equal(gw_api_find_symbol("cuNoSuchThing"), -1);
    assert_int_equal(gw_api_find_symbol(""), -1);
}

GW_TEST(variants_say_per_thread)
{
    for (int fn = 0; fn < GW_FN_COUNT; fn++) {
        const char *symbol = gw_api_fns[fn].symbol;
        bool wanted = gw_ends_with(symbol, "_ptsz") || gw_ends_with(symbol, "_ptds");
        if (((gw_api_fns[fn].flags & GW_API_PER_THREAD) != 0) != wanted)
            fail_msg("%s: per-thread flag", symbol);
    }
}

/* Copy the symbol to `ret_stem` without suffixes such as _v2 or _ptsz. */
static void stem(const char *symbol, char *ret_stem, size_t bytes)
{
    size_t n = strlen(symbol);
    if (gw_ends_with(symbol, "_ptsz") || gw_ends_with(symbol, "_ptds"))
        n -= 5;
    if (n > 3 && isdigit((unsigned char)symbol[n - 1]) && gw_begins(symbol + n - 3, "_v"))
        n -= 3;
    assert_true(n < bytes);
    memcpy(ret_stem, symbol, n);
    ret_stem[n] = '\0';
}

/* All variants of a call (such as _v2 and _ptsz) must have the same kind. */
GW_TEST(variants_agree)
{
    for (int a = 0; a < GW_FN_COUNT; a++)
        for (int b = 0; b < a; b++) {
            char x[128], y[128];
            stem(gw_api_fns[a].symbol, x, sizeof x);
            stem(gw_api_fns[b].symbol, y, sizeof y);
            if (strcmp(x, y) == 0 && gw_api_fns[a].kind != gw_api_fns[b].kind)
                fail_msg("%s and %s differ in kind", gw_api_fns[a].symbol, gw_api_fns[b].symbol);
        }
}

static const struct {
    const char *begin;
    const char *kinds; /* names of the permitted kinds, each followed by a space */
} wanted[] = {
    {"cuMemAllocHost", "HOST_ALLOC "},
    {"cuMemHostAlloc", "HOST_ALLOC "},
    {"cuMemHostRegister", "HOST_REGISTER "},
    {"cuMemHostUnregister", "HOST_UNREGISTER "},
    {"cuMemFreeHost", "HOST_FREE "},
    {"cuMemAllocAsync", "ALLOC_ASYNC "},
    {"cuMemAllocFromPoolAsync", "ALLOC_ASYNC "},
    {"cuMemAlloc", "ALLOC "},
    {"cuMemFreeAsync", "FREE_ASYNC "},
    {"cuMemFree", "FREE "},
    {"cuMemCreate", "VMM_CREATE "},
    {"cuMemRelease", "VMM_RELEASE "},
    {"cuMemRetainAllocationHandle", "VMM_RETAIN "},
    {"cuMemMapArray", "CALL "},
    {"cuMemMap", "VMM_MAP "},
    {"cuMemUnmap", "VMM_UNMAP "},
    {"cuMemAddressReserve", "VMM_RESERVE "},
    {"cuMemAddressFree", "VMM_UNRESERVE "},
    {"cuMemImportFrom", "VMM_IMPORT "},
    {"cuMemExportTo", "IPC_EXPORT "},
    {"cuMemPoolCreate", "POOL_CREATE "},
    {"cuMemPoolDestroy", "POOL_DESTROY "},
    {"cuMemPoolTrimTo", "POOL_TRIM "},
    {"cuMemPoolSetAttribute", "POOL_SET "},
    {"cuMemPoolImportFrom", "POOL_CREATE "},
    {"cuMemPoolImportPointer", "IPC_OPEN "},
    {"cuMemPoolExportPointer", "IPC_EXPORT "},
    {"cuMemcpy", "COPY "},
    {"cuMemset", "FILL "},
    {"cuMemPrefetch", "PREFETCH "},
    {"cuArrayCreate", "ALLOC "},
    {"cuArray3DCreate", "ALLOC "},
    {"cuArrayDestroy", "FREE "},
    {"cuMipmappedArrayCreate", "ALLOC "},
    {"cuMipmappedArrayDestroy", "FREE "},
    {"cuIpcGetMem", "IPC_EXPORT "},
    {"cuIpcOpenMem", "IPC_OPEN "},
    {"cuIpcCloseMem", "IPC_CLOSE "},
    {"cuImportExternalMemory", "EXT_IMPORT "},
    {"cuExternalMemoryGetMapped", "EXT_MAP "},
    {"cuDestroyExternalMemory", "EXT_DESTROY "},
    {"cuMulticastCreate", "VMM_CREATE "},
    {"cuCtxCreate", "CTX_CREATE "},
    {"cuGreenCtxCreate", "CTX_CREATE "},
    {"cuCtxFromGreenCtx", "CTX_CREATE "},
    {"cuGLCtxCreate", "CTX_CREATE "},
    {"cuVDPAUCtxCreate", "CTX_CREATE "},
    {"cuCtxDestroy", "CTX_DESTROY "},
    {"cuGreenCtxDestroy", "CTX_DESTROY "},
    {"cuDevicePrimaryCtxRetain", "CTX_CREATE "},
    {"cuDevicePrimaryCtxRelease", "CTX_RELEASE "},
    {"cuDevicePrimaryCtxReset", "CTX_RESET "},
    {"cuModuleLoad", "MODULE_LOAD "},
    {"cuModuleUnload", "MODULE_UNLOAD "},
    {"cuLibraryLoad", "LIBRARY_LOAD "},
    {"cuLibraryUnload", "LIBRARY_UNLOAD "},
    {"cuStreamCreate", "STREAM_CREATE "},
    {"cuGreenCtxStreamCreate", "STREAM_CREATE "},
    {"cuStreamDestroy", "STREAM_DESTROY "},
    {"cuEventCreate", "EVENT_CREATE "},
    {"cuIpcOpenEvent", "EVENT_CREATE "},
    {"cuEventDestroy", "EVENT_DESTROY "},
    {"cuGraphCreate", "GRAPH_CREATE "},
    {"cuGraphClone", "GRAPH_CREATE "},
    {"cuGraphInstantiate", "GRAPH_EXEC_CREATE "},
    {"cuGraphExecDestroy", "GRAPH_EXEC_DESTROY "},
    {"cuGraphAddDependencies", "CALL "},
    {"cuGraphAdd", "GRAPH_NODE "},
    {"cuGraphLaunch", "GRAPH_LAUNCH "},
    {"cuLaunchHostFunc", "HOST_FUNC "},
    {"cuStreamAddCallback", "HOST_FUNC "},
    {"cuLaunch", "LAUNCH "},
    {"cuStreamBegin", "CAPTURE_BEGIN "},
    {"cuStreamEndCapture", "CAPTURE_END "},
    {"cuStreamWaitEvent", "STREAM_WAIT "},
    {"cuStreamSynchronize", "SYNC "},
    {"cuEventSynchronize", "SYNC "},
    {"cuCtxSynchronize", "SYNC "},
    {"cuStreamQuery", "QUERY "},
    {"cuEventQuery", "QUERY "},
    {"cuEventRecord", "EVENT_RECORD "},
    {"cuCtxSetLimit", "LIMIT_SET "},
    {"cuInit", "INIT "},
};

/* A function's name must fit its row's kind: the first entry of `wanted` that the name begins with has the required
 * kind. */
GW_TEST(names_have_their_effect)
{
    static const char *const names[] = {
#define GW_X(name, ...) #name " ",
        GW_EVENT_KINDS(GW_X)
#undef GW_X
    };
    bool used[GW_EV_COUNT] = {false};
    for (int fn = 0; fn < GW_FN_COUNT; fn++) {
        const gw_api_fn *row = &gw_api_fns[fn];
        used[row->kind] = true;
        for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
            if (strncmp(row->symbol, wanted[i].begin, strlen(wanted[i].begin)) == 0) {
                if (strcmp(wanted[i].kinds, names[row->kind]) != 0)
                    fail_msg("%s is %s, wanted %s", row->symbol, names[row->kind], wanted[i].kinds);
                break;
            }
    }
    for (int kind = 0; kind < GW_EV_TEXT; kind++) /* the kinds from GW_EV_TEXT on are facts, which have no rows */
        if (!used[kind])
            fail_msg("no row has the kind %s", names[kind]);
}

/* The guard must be able to refuse every call that takes device memory. */
GW_TEST(the_guard_sees_all)
{
    for (int fn = 0; fn < GW_FN_COUNT; fn++) {
        const gw_api_fn *row = &gw_api_fns[fn];
        bool takes =
            row->kind == GW_EV_ALLOC || row->kind == GW_EV_ALLOC_ASYNC || strcmp(row->symbol, "cuMemCreate") == 0;
        if (takes && !(row->flags & GW_API_REFUSABLE))
            fail_msg("%s cannot be refused", row->symbol);
    }
}

GW_TEST(routes_lead_where_the_driver_leads)
{
    static const struct {
        const char *name;
        int version, per_thread;
        const char *symbol; /* expected symbol; NULL: the lookup must fail */
    } cases[] = {
        {"cuCtxCreate", 1000, 0, NULL},
        {"cuCtxCreate", 2000, 0, "cuCtxCreate"},
        {"cuCtxCreate", 11030, 0, "cuCtxCreate_v2"},
        {"cuCtxCreate", 11040, 0, "cuCtxCreate_v3"},
        {"cuCtxCreate", 12040, 1, "cuCtxCreate_v3"},
        {"cuCtxCreate", 12050, 0, "cuCtxCreate_v4"},
        {"cuCtxGetDevice", 12090, 0, "cuCtxGetDevice"},
        {"cuCtxGetDevice", 13000, 0, "cuCtxGetDevice_v2"},
        {"cuCtxSynchronize", 12090, 0, "cuCtxSynchronize"},
        {"cuCtxSynchronize", 13000, 1, "cuCtxSynchronize_v2"},
        {"cuMemAdvise", 8000, 0, "cuMemAdvise"},
        {"cuMemAdvise", 13000, 0, "cuMemAdvise_v2"},
        {"cuMemPrefetchAsync", 13000, 1, "cuMemPrefetchAsync_v2_ptsz"},
        {"cuMemcpyHtoD", 2000, 0, "cuMemcpyHtoD"},
        {"cuMemcpyHtoD", 3020, 0, "cuMemcpyHtoD_v2"},
        {"cuMemcpyHtoD", 3020, 1, NULL},
        {"cuMemcpyHtoD", 7000, 1, "cuMemcpyHtoD_v2_ptds"},
        {"cuGetProcAddress", 11030, 0, "cuGetProcAddress"},
        {"cuGetProcAddress", 12000, 1, "cuGetProcAddress_v2"},
        {"cuGraphInstantiate", 10000, 0, "cuGraphInstantiate"},
        {"cuGraphInstantiate", 12000, 0, "cuGraphInstantiate_v2"},
        {"cuGraphAddNode", 13000, 0, "cuGraphAddNode_v2"},
        {"cuEventElapsedTime", 12080, 0, "cuEventElapsedTime_v2"},
        {"cuStreamGetCaptureInfo", 11030, 1, "cuStreamGetCaptureInfo_v2_ptsz"},
        {"cuStreamGetCaptureInfo", 13000, 0, "cuStreamGetCaptureInfo_v3"},
        {"cuMemAlloc_v2", 13000, 0, NULL}, /* programs look up names without a suffix such as _v2 */
        {"cuNoSuchThing", 13000, 0, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int fn = gw_api_resolve(cases[i].name, cases[i].version, cases[i].per_thread);
        const char *symbol = fn < 0 ? NULL : gw_api_fns[fn].symbol;
        if ((symbol == NULL) != (cases[i].symbol == NULL) || (symbol && strcmp(symbol, cases[i].symbol) != 0))
            fail_msg("%s@%d per thread %d: %s, wanted %s", cases[i].name, cases[i].version, cases[i].per_thread,
                     symbol ? symbol : "nowhere", cases[i].symbol ? cases[i].symbol : "nowhere");
    }
}

/* Test the functions that read arguments behind pointers, with hostile values first. */

GW_TEST(products_stop_at_the_top)
{
    size_t sizes[] = {SIZE_MAX, 1};
    CUDA_MEMCPY3D copy = {.WidthInBytes = SIZE_MAX, .Height = 2, .Depth = 1};
    CUDA_ARRAY3D_DESCRIPTOR array = {SIZE_MAX, SIZE_MAX, SIZE_MAX, CU_AD_FORMAT_FLOAT, UINT32_MAX, 0};
    CUDA_MEMCPY3D_BATCH_OP ops[2] = {{.extent = {SIZE_MAX, 1, 1}}, {.extent = {1, 1, 1}}};
    assert_int_equal(gw_product(UINT64_MAX, 2), UINT64_MAX);
    assert_int_equal(gw_sum(sizes, 2), UINT64_MAX);
    assert_int_equal(gw_copy3d_bytes(&copy), UINT64_MAX);
    assert_int_equal(gw_array3d_bytes(&array), UINT64_MAX);
    assert_int_equal(gw_mipmap_bytes(&array, UINT32_MAX), UINT64_MAX);
    assert_int_equal(gw_batch3d_bytes(ops, 2), UINT64_MAX);
    assert_int_equal(gw_block(UINT64_MAX, 0, UINT64_MAX), 0x1fffffull | 0x1fffffull << 42);
}

GW_TEST(lists_may_lie)
{
    assert_int_equal(gw_sum(NULL, SIZE_MAX), 0);
    assert_int_equal(gw_first(NULL, 3), 0);
    assert_int_equal(gw_batch3d_bytes(NULL, 3), 0);
    assert_null(gw_list_function(NULL, 3));
}

GW_TEST(arrays_are_measured)
{
    CUDA_ARRAY_DESCRIPTOR line = {100, 0, CU_AD_FORMAT_FLOAT, 4};
    CUDA_ARRAY_DESCRIPTOR_v1 old = {10, 10, CU_AD_FORMAT_HALF, 2};
    CUDA_ARRAY_DESCRIPTOR strange = {10, 10, (CUarray_format)4711, 2};
    CUDA_ARRAY_DESCRIPTOR block = {64, 64, CU_AD_FORMAT_BC1_UNORM, 4};
    CUDA_ARRAY3D_DESCRIPTOR box = {8, 8, 8, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0};
    CUDA_ARRAY3D_DESCRIPTOR layers = {8, 8, 6, CU_AD_FORMAT_UNSIGNED_INT8, 1, CUDA_ARRAY3D_LAYERED};
    CUDA_ARRAY3D_DESCRIPTOR sparse = {8, 8, 8, CU_AD_FORMAT_UNSIGNED_INT8, 1, CUDA_ARRAY3D_SPARSE};
    assert_int_equal(gw_array_bytes(&line), 1600);
    assert_int_equal(gw_array_bytes_v1(&old), 400);
    assert_int_equal(gw_array_bytes(&strange), 0);
    assert_int_equal(gw_array_bytes(&block), 2048);
    assert_int_equal(gw_array3d_bytes(&box), 512);
    assert_int_equal(gw_array3d_bytes(&sparse), 0);
    assert_int_equal(gw_mipmap_bytes(&box, 4), 512 + 64 + 8 + 1);
    assert_int_equal(gw_mipmap_bytes(&layers, 2), 384 + 96);
}

GW_TEST(copies_have_two_ends)
{
    int there;
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = &there,
                          .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .dstDevice = 0x7000,
                          .WidthInBytes = 3,
                          .Height = 5};
    assert_int_equal(gw_copy2d_from(&copy), (uintptr_t)&there);
    assert_int_equal(gw_copy2d_to(&copy), 0x7000);
    assert_int_equal(gw_copy2d_bytes(&copy), 15);
}

GW_TEST(pool_values_have_two_widths)
{
    struct {
        int value, beyond;
    } narrow = {1, -1};
    uint64_t wide = 1ull << 40;
    assert_int_equal(gw_pool_value(CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &narrow), 1);
    assert_int_equal(gw_pool_value(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &wide), 1ull << 40);
    assert_int_equal(gw_pool_value(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, NULL), 0);
}

GW_TEST(nodes_name_their_object)
{
    CUgraphNodeParams node = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
    node.kernel.kern = (CUkernel)(uintptr_t)0x42;
    assert_int_equal(gw_node_object(&node), 0x42);
    node = (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    node.alloc.bytesize = 1025;
    node.alloc.dptr = 0x9000;
    assert_int_equal(gw_node_object(&node), 0);
    assert_int_equal(gw_out_node_object(&node), 0x9000);
    assert_int_equal(gw_node_kib(&node), 2);
    node.alloc.bytesize = SIZE_MAX;
    assert_int_equal(gw_node_kib(&node), UINT32_MAX);
    node.type = (CUgraphNodeType)12345;
    assert_int_equal(gw_out_node_object(&node), 0);
}

/* Tests the parser of plans for --inject, the functions that a rule names, and its draws. */

static gw_inject_plan plan_of(const char *text)
{
    gw_inject_plan plan;
    char reason[GW_INJECT_REASON_MAX] = "";
    if (!gw_inject_parse(text, &plan, reason))
        fail_msg("'%s' was rejected: %s", text, reason);
    return plan;
}

static bool names(const char *text, unsigned fn)
{
    gw_inject_plan plan = plan_of(text);
    return gw_inject_names(&plan.rule[0], fn);
}

GW_TEST(a_rule_is_read)
{
    gw_inject_plan plan =
        plan_of("oom@alloc:3,once;700@sync:5+,p=0.25,seed=7,after=1.5s,rank=2,process=python3.12;"
                "slow=50ms@cuMemcpyHtoD,process=3;lost@any,after=200us;CUDA_ERROR_NOT_PERMITTED@init");
    assert_int_equal(plan.count, 5);
    const gw_inject_rule *rule = plan.rule;
    assert_string_equal(rule[0].text, "oom@alloc:3,once");
    assert_int_equal(rule[0].result, 2);
    assert_true(rule[0].first == 3 && rule[0].last == 3 && rule[0].once && !rule[0].closes && rule[0].rank == -1);
    assert_true(rule[1].first == 5 && rule[1].last == UINT64_MAX && rule[1].closes && rule[1].has_chance);
    assert_true(rule[1].seed == 7 && rule[1].after_ns == 1500000000 && rule[1].rank == 2);
    assert_string_equal(rule[1].program, "python3.12");
    assert_true(rule[2].slow_ns == 50000000 && rule[2].result == 0 && rule[2].process == 3 && rule[2].first == 1);
    assert_string_equal(rule[2].function, "cuMemcpyHtoD");
    assert_true(rule[3].result == 999 && rule[3].closes && rule[3].after_ns == 200000);
    assert_int_equal(rule[4].result, 800);
}

GW_TEST(bad_plans_have_a_reason)
{
    static const char *const cases[][2] = {
        {"", "empty"},
        {"oom@alloc;", "empty"},
        {"oom", "no '@'"},
        {"@alloc", "action"},
        {"oom@", "unknown calls"},
        {"oom@allocs", "unknown calls"},
        {"oom@cuMemAllocX", "unknown calls"},
        {"oom@cuMem", "unknown calls"},
        {"0@alloc", "1 to 999"},
        {"1000@alloc", "1 to 999"},
        {"700x@alloc", "1 to 999"},
        {"CUDA_SUCCESS@alloc", "action"},
        {"CUDA_ERROR_NONE@alloc", "action"},
        {"slow=0ms@copy", "time"},
        {"slow=5@copy", "time"},
        {"slow=.5s@copy", "time"},
        {"slow=1.s@copy", "time"},
        {"slow=9999999s@copy", "time"},
        {"oom@alloc:0", "number"},
        {"oom@alloc:", "number"},
        {"oom@alloc:+", "number"},
        {"oom@alloc:99999999999999999999", "number"},
        {"oom@alloc:3,p=1.5", "probability"},
        {"oom@alloc,p=", "probability"},
        {"oom@alloc,p=0.5x", "probability"},
        {"oom@alloc,seed=7", "needs p="},
        {"oom@alloc,p=1,seed=x", "number"},
        {"oom@alloc,rank=-1", "rank"},
        {"oom@alloc,process=0", "from 1"},
        {"oom@alloc,process=", "process"},
        {"oom@alloc,after=5", "time"},
        {"oom@alloc,sometimes", "condition"},
        {"oom@alloc,", "condition"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gw_inject_plan plan;
        char reason[GW_INJECT_REASON_MAX] = "";
        if (gw_inject_parse(cases[i][0], &plan, reason))
            fail_msg("'%s' was accepted", cases[i][0]);
        if (strstr(reason, cases[i][1]) == NULL)
            fail_msg("'%s': '%s' does not contain '%s'", cases[i][0], reason, cases[i][1]);
    }
}

GW_TEST(long_plans_are_rejected)
{
    char text[4096] = "";
    char reason[GW_INJECT_REASON_MAX];
    gw_inject_plan plan;
    for (int i = 0; i <= GW_INJECT_RULES_MAX; i++)
        strcat(text, i == 0 ? "oom@any" : ";oom@any");
    assert_false(gw_inject_parse(text, &plan, reason));
    assert_non_null(strstr(reason, "more than 16 rules"));
    memset(text, 'x', 1000);
    assert_false(gw_inject_parse(text, &plan, reason));
    assert_non_null(strstr(reason, "159 characters"));
}

GW_TEST(rules_name_functions)
{
    assert_true(names("oom@alloc", GW_FN_cuMemAlloc_v2) && names("oom@alloc", GW_FN_cuMemAllocAsync_ptsz));
    assert_true(names("oom@alloc", GW_FN_cuMemCreate) && names("oom@alloc", GW_FN_cuArrayCreate_v2));
    assert_false(names("oom@alloc", GW_FN_cuMemFree_v2));
    assert_true(names("oom@cuMemAlloc", GW_FN_cuMemAlloc) && names("oom@cuMemAlloc", GW_FN_cuMemAlloc_v2));
    assert_false(names("oom@cuMemAlloc", GW_FN_cuMemAllocAsync));
    assert_true(names("1@cuLaunchKernel", GW_FN_cuLaunchKernel_ptsz));
    assert_false(names("1@cuLaunchKernel", GW_FN_cuLaunchKernelEx));
    assert_true(names("oom@cuMemAlloc_v2", GW_FN_cuMemAlloc_v2));
    assert_false(names("oom@cuMemAlloc_v2", GW_FN_cuMemAlloc));
    assert_true(names("1@any", GW_FN_cuMemFree_v2));
    assert_false(names("1@any", GW_FN_cuGetErrorString) || names("1@any", GW_FN_cuCtxGetCurrent));
    assert_true(names("1@cuCtxGetCurrent", GW_FN_cuCtxGetCurrent)); /* a rule can name a harmless function */
}

/* Each class of the list names at least one function, and no class is missing from the list. */
GW_TEST(every_class_names_something)
{
    char list[256];
    snprintf(list, sizeof list, "%s", gw_inject_classes());
    for (char *name = strtok(list, ", "); name != NULL; name = strtok(NULL, ", ")) {
        char text[64];
        unsigned count = 0;
        snprintf(text, sizeof text, "1@%s", name);
        gw_inject_plan plan = plan_of(text);
        for (unsigned fn = 0; fn < GW_FN_COUNT; fn++)
            count += gw_inject_names(&plan.rule[0], fn);
        if (count == 0)
            fail_msg("class %s has no function", name);
    }
}

GW_TEST(draws_can_be_repeated)
{
    enum { CALLS = 100000 };
    gw_inject_plan plan = plan_of("1@any,p=0.01,seed=7;1@any,p=0.01,seed=8;1@any,p=0;1@any,p=1;1@any,p=0.01,seed=7");
    unsigned count[5] = {0}, equal = 0, same_rule = 0;
    for (uint64_t n = 1; n <= CALLS; n++) {
        for (size_t i = 0; i < 5; i++)
            count[i] += gw_inject_draws(&plan.rule[i], i, n);
        equal += gw_inject_draws(&plan.rule[0], 0, n) && gw_inject_draws(&plan.rule[1], 0, n);
        same_rule += gw_inject_draws(&plan.rule[0], 0, n) != gw_inject_draws(&plan.rule[4], 0, n);
    }
    assert_in_range(count[0], 900, 1100);
    assert_in_range(count[1], 900, 1100);
    assert_int_equal(count[2], 0);
    assert_int_equal(count[3], CALLS);
    assert_in_range(equal, 0, 40); /* other seeds choose other calls */
    assert_int_equal(same_rule, 0);
}

GW_TEST_MAIN(NULL, NULL)
