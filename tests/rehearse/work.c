/* Groups of calls that give the card work: copies, fills, launches, graphs, events, attributes. See calls.h. */
#include "calls.h"

#include <string.h>

/* ---- what is read back ---- */

static bool is_rehearsed(void)
{
    return getenv("CALLS_REHEARSED") != NULL;
}

/* Check bytes that were copied to the host: the content of a real run, or zeros in a rehearsal. */
static void content_of(const char *name, const char *back, const char *wanted, size_t bytes)
{
    static const char zeros[4096];
    value_of(name, memcmp(back, is_rehearsed() ? zeros : wanted, bytes) != 0);
}

static void fill_pattern(char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (char)(i % 100 + 1);
}

/* ---- copies ---- */

static char pattern[4096], back[4096];

/* Ends of a copy of two or three dimensions. */
#define FROM_HOST(pitch)   .srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = pattern, .srcPitch = (pitch)
#define FROM_DEVICE(pitch) .srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcPitch = (pitch)
#define TO_HOST(pitch)     .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = back, .dstPitch = (pitch)
#define TO_DEVICE(pitch)   .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstPitch = (pitch)

static void copies(void)
{
    CUdeviceptr a, b;
    CUstream stream = NULL;
    void *pinned = NULL;
    up();
    fill_pattern(pattern, sizeof pattern);
    need(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    need(cuMemAllocHost(&pinned, 4096), "cuMemAllocHost");
    a = must_alloc(4096);
    b = must_alloc(3 * MIB);
    CUdeviceptr p = (uintptr_t)pinned, q = (uintptr_t)back;
    result_of("to-device", cuMemcpyHtoD(a, pattern, 4096));
    result_of("to-device-over", cuMemcpyHtoD(a, pattern, 4097));
    result_of("to-device-inside-over", cuMemcpyHtoD(a + 4000, pattern, 97));
    result_of("to-device-async", cuMemcpyHtoDAsync(b, pattern, 4096, stream));
    result_of("to-device-async-over", cuMemcpyHtoDAsync(a, pattern, 4097, stream));
    result_of("between", cuMemcpyDtoD(b + 100, a, 2000));
    result_of("between-over", cuMemcpyDtoD(a + 3000, b, 2000));
    result_of("between-from-over", cuMemcpyDtoD(b, a + 3000, 2000));
    result_of("between-host", cuMemcpyDtoD(a, (uintptr_t)pattern, 10));
    result_of("between-to-host", cuMemcpyDtoD((uintptr_t)back, a, 10));
    result_of("between-pinned", cuMemcpyDtoD(a, p, 10));
    result_of("between-wild", cuMemcpyDtoD(a, 0x123450000, 10));
    result_of("between-async", cuMemcpyDtoDAsync(b + 100, a, 2000, stream));
    result_of("peer", cuMemcpyPeer(b, context, a, context, 4096));
    result_of("peer-over", cuMemcpyPeer(b, context, a, context, 4097));
    result_of("to-host", cuMemcpyDtoH(back, a, 4096));
    content_of("to-host-content", back + 10, pattern + 10, 4000);
    result_of("to-host-over", cuMemcpyDtoH(back, a + 1, 4096));
    result_of("to-host-async", cuMemcpyDtoHAsync(pinned, a, 4096, stream));
    result_of("synchronise", cuStreamSynchronize(stream));
    content_of("to-pinned-content", (char *)pinned + 10, pattern + 10, 4000);
    result_of("unified-in", cuMemcpy(a, p, 4096));
    result_of("unified-in-pageable", cuMemcpy(a, (uintptr_t)pattern, 4096));
    result_of("unified-out", cuMemcpy(q, a, 4096));
    result_of("unified-over", cuMemcpy(q, a, 4097));
    result_of("unified-async", cuMemcpyAsync(q, a, 4096, NULL));
    result_of("unified-hosts", cuMemcpy(q, (uintptr_t)pattern, 100));
    value_of("unified-hosts-content", memcmp(back, pattern, 100));
    result_of("device-as-host", cuMemcpyDtoH((void *)(uintptr_t)b, a, 10));
    result_of("zero-bytes", cuMemcpyDtoH(back, a, 0));
    result_of("free", cuMemFree(a));
    result_of("to-freed", cuMemcpyHtoD(a, pattern, 16));
    result_of("from-freed", cuMemcpyDtoH(back, a, 16));
    result_of("between-freed", cuMemcpyDtoD(b, a, 16));
    result_of("unified-freed", cuMemcpy(a, p, 16));
    result_of("zero-bytes-freed", cuMemcpyDtoH(back, a, 0));
    result_of("device-wild", cuMemcpyHtoD(0x1000, pattern, 16));
    result_of("in-gap", cuMemcpyHtoD(b + 4 * MIB, pattern, 16));
}

/* Rows in device memory lie 256 bytes apart, on the host 128. */
static void copies_2d(void)
{
    CUDA_MEMCPY2D in = {FROM_HOST(128), TO_DEVICE(256), .WidthInBytes = 60, .Height = 8};
    CUDA_MEMCPY2D out = {FROM_DEVICE(256), TO_HOST(128), .WidthInBytes = 50, .Height = 3};
    out.srcXInBytes = 2;
    out.srcY = 1;
    out.dstXInBytes = 4;
    out.dstY = 2;
    up();
    fill_pattern(pattern, sizeof pattern);
    in.dstDevice = must_alloc(8 * 256);
    out.srcDevice = in.dstDevice;
    result_of("in", cuMemcpy2D(&in));
    result_of("in-unaligned", cuMemcpy2DUnaligned(&in));
    result_of("in-async", cuMemcpy2DAsync(&in, NULL));
    memset(back, 'x', sizeof back);
    result_of("out", cuMemcpy2D(&out));
    content_of("out-first-row", back + 2 * 128 + 4, pattern + 128 + 2, 50);
    content_of("out-last-row", back + 4 * 128 + 4, pattern + 3 * 128 + 2, 50);
    value_of("out-around", back[2 * 128 + 3] == 'x' && back[2 * 128 + 54] == 'x' && back[5 * 128 + 4] == 'x');
    out.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    out.dstDevice = (uintptr_t)back;
    memset(back, 'x', sizeof back);
    result_of("out-unified", cuMemcpy2D(&out));
    content_of("out-unified-row", back + 2 * 128 + 4, pattern + 128 + 2, 50);
    out.Height = 8;
    result_of("out-over", cuMemcpy2D(&out));
    out.Height = 0;
    result_of("out-nothing", cuMemcpy2D(&out));
    out.Height = 1;
    out.srcPitch = 10;
    result_of("out-pitch-small", cuMemcpy2D(&out));
    out.srcPitch = 256;
    out.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    out.dstDevice = must_alloc(4096);
    result_of("between", cuMemcpy2D(&out));
    result_of("null", cuMemcpy2D(NULL));
    result_of("free", cuMemFree(in.dstDevice));
    result_of("from-freed", cuMemcpy2D(&out));
    result_of("to-freed", cuMemcpy2DAsync(&in, NULL));
}

static void copies_3d(void)
{
    CUDA_MEMCPY3D in = {FROM_HOST(64), TO_DEVICE(128), .WidthInBytes = 60, .Height = 4, .Depth = 3};
    CUDA_MEMCPY3D out = {FROM_DEVICE(128), TO_HOST(64), .WidthInBytes = 40, .Height = 2, .Depth = 2};
    in.srcHeight = in.dstHeight = out.srcHeight = out.dstHeight = 4;
    out.srcZ = 1;
    up();
    fill_pattern(pattern, sizeof pattern);
    in.dstDevice = out.srcDevice = must_alloc(3 * 4 * 128);
    result_of("in", cuMemcpy3D(&in));
    result_of("in-async", cuMemcpy3DAsync(&in, NULL));
    memset(back, 'x', sizeof back);
    result_of("out", cuMemcpy3D(&out));
    content_of("out-first", back, pattern + 256, 40);
    content_of("out-last", back + 256 + 64, pattern + 2 * 256 + 64, 40);
    value_of("out-around", back[40] == 'x' && back[2 * 64] == 'x' && back[2 * 256] == 'x');
    out.Depth = 3;
    result_of("out-over", cuMemcpy3D(&out));
    out.Depth = 1;
    result_of("free", cuMemFree(in.dstDevice));
    result_of("from-freed", cuMemcpy3D(&out));
    result_of("to-freed", cuMemcpy3D(&in));
}

/* Batches in which only the second copy names device memory. */
static void batches(void)
{
    up();
    fill_pattern(pattern, sizeof pattern);
    CUdeviceptr a = must_alloc(4096), to[2] = {(uintptr_t)back + 2048, a}, from[2] = {(uintptr_t)pattern, 0};
    size_t sizes[2] = {64, 128}, index = 0;
    CUmemcpyAttributes how = {.srcAccessOrder = 1};
    from[1] = (uintptr_t)pattern;
    result_of("in", cuMemcpyBatchAsync_v2(to, from, sizes, 2, &how, &index, 1, NULL));
    to[1] = (uintptr_t)back;
    from[1] = a;
    result_of("out", cuMemcpyBatchAsync_v2(to, from, sizes, 2, &how, &index, 1, NULL));
    result_of("prefetch", cuMemPrefetchBatchAsync(from + 1, sizes, 1, &(CUmemLocation){1, 0}, &index, 1, 0, NULL));
    result_of("discard", cuMemDiscardBatchAsync(from + 1, sizes, 1, 0, NULL));
    CUDA_MEMCPY3D_BATCH_OP op[2] = {0};
    for (int i = 0; i < 2; i++) {
        op[i].src = (CUmemcpy3DOperand){.type = 1, .op.ptr = {.ptr = i == 0 ? (uintptr_t)pattern : a}};
        op[i].dst = (CUmemcpy3DOperand){.type = 1, .op.ptr = {.ptr = (uintptr_t)back}};
        op[i].extent.width = op[i].extent.height = op[i].extent.depth = 1;
    }
    result_of("3d", cuMemcpy3DBatchAsync_v2(2, op, 0, NULL));
    result_of("synchronise", cuCtxSynchronize());
}

/* ---- fills ---- */

static void fills(void)
{
    CUstream stream = NULL;
    up();
    CUdeviceptr p = must_alloc(4096);
    need(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    result_of("d8", cuMemsetD8(p, 7, 4096));
    result_of("d8-over", cuMemsetD8(p, 7, 4097));
    result_of("d8-inside-over", cuMemsetD8(p + 4096, 7, 1));
    result_of("d8-none", cuMemsetD8(p, 7, 0));
    result_of("d16", cuMemsetD16(p, 7, 2048));
    result_of("d16-odd", cuMemsetD16(p + 1, 7, 1));
    result_of("d16-over", cuMemsetD16(p, 7, 2049));
    result_of("d32", cuMemsetD32(p, 7, 1024));
    result_of("d32-odd", cuMemsetD32(p + 2, 7, 1));
    result_of("d32-async", cuMemsetD32Async(p, 7, 1024, stream));
    result_of("d32-async-over", cuMemsetD32Async(p, 7, 1025, stream));
    result_of("2d8", cuMemsetD2D8(p, 1024, 7, 100, 4));
    result_of("2d8-over", cuMemsetD2D8(p, 1024, 7, 100, 5));
    result_of("2d32", cuMemsetD2D32(p, 1024, 7, 100, 4));
    result_of("2d32-async", cuMemsetD2D32Async(p, 1024, 7, 100, 4, stream));
    result_of("wild", cuMemsetD8(0x12345, 0, 4));
    result_of("free", cuMemFree(p));
    result_of("freed", cuMemsetD8(p, 0, 4));
    result_of("freed-async", cuMemsetD8Async(p, 0, 4, stream));
    result_of("freed-2d", cuMemsetD2D8(p, 1024, 7, 100, 4));
}

/* ---- launches, graphs, events ---- */

static void launches(void)
{
    up_with_module();
    CUdeviceptr p = must_alloc(64);
    unsigned value = 1;
    void *params[] = {&p, &value};
    CUstream stream = NULL;
    CUfunction nothing = function("nothing"), store = function("store");
    size_t before = free_bytes();
    need(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    for (int i = 0; i < 3; i++) {
        result_of("nothing", cuLaunchKernel(nothing, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
        result_of("store", cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
        value_of("takes", before - free_bytes());
    }
    result_of("cooperative", cuLaunchCooperativeKernel(nothing, 1, 1, 1, 32, 1, 1, 0, stream, NULL));
    result_of("synchronise", cuCtxSynchronize());
    CUlibrary library = NULL;
    CUkernel kernel = NULL;
    result_of("library", cuLibraryLoadData(&library, kernels_text(), NULL, NULL, 0, NULL, NULL, 0));
    result_of("kernel", cuLibraryGetKernel(&kernel, library, "nothing"));
}

static void values(void)
{
    up();
    CUdeviceptr p = must_alloc(64);
    result_of("write", cuStreamWriteValue32(NULL, p, 1, 0));
    result_of("wait", cuStreamWaitValue32(NULL, p, 1, 0));
    result_of("write-wide", cuStreamWriteValue64(NULL, p + 8, 1, 0));
    result_of("synchronise", cuCtxSynchronize());
}

static void graphs(void)
{
    CUDA_MEMSET_NODE_PARAMS fill = {.value = 1, .elementSize = 1, .width = 16, .height = 1};
    CUDA_MEMCPY3D copy = {FROM_DEVICE(0), TO_HOST(0), .WidthInBytes = 16, .Height = 1, .Depth = 1};
    CUgraph graph = NULL, captured = NULL;
    CUgraphExec exec = NULL;
    CUgraphNode node[3] = {NULL};
    CUstream stream = NULL;
    size_t count = 0;
    up_with_module();
    need(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    copy.srcDevice = fill.dst = must_alloc(64);
    result_of("create", cuGraphCreate(&graph, 0));
    result_of("fill", cuGraphAddMemsetNode(&node[0], graph, NULL, 0, &fill, context));
    result_of("copy", cuGraphAddMemcpyNode(&node[1], graph, node, 1, &copy, context));
    result_of("empty", cuGraphAddEmptyNode(&node[2], graph, node + 1, 1));
    result_of("nodes", cuGraphGetNodes(graph, NULL, &count));
    value_of("nodes-value", count);
    result_of("instantiate", cuGraphInstantiate(&exec, graph, 0));
    result_of("launch", cuGraphLaunch(exec, stream));
    result_of("set-fill", cuGraphExecMemsetNodeSetParams(exec, node[0], &fill, context));
    result_of("set-copy", cuGraphExecMemcpyNodeSetParams(exec, node[1], &copy, context));
    result_of("launch-again", cuGraphLaunch(exec, NULL));
    result_of("begin", cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    result_of("capture-launch", cuLaunchKernel(function("nothing"), 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    result_of("capture-fill", cuMemsetD8Async(fill.dst, 6, 10, stream));
    result_of("capture-copy", cuMemcpyDtoHAsync(back, fill.dst, 10, stream));
    result_of("capture-alloc", cuMemAlloc(&fill.dst, 10));
    result_of("end", cuStreamEndCapture(stream, &captured));
    result_of("captured-nodes", cuGraphGetNodes(captured, NULL, &count));
    value_of("captured-nodes-value", count);
    result_of("captured-instantiate", cuGraphInstantiate(&exec, captured, 0));
    result_of("captured-launch", cuGraphLaunch(exec, stream));
    result_of("synchronise", cuCtxSynchronize());
    result_of("destroy", cuGraphExecDestroy(exec));
}

static void events(void)
{
    CUevent begin = NULL, end = NULL, untimed = NULL;
    float ms = -1;
    up_with_module();
    CUdeviceptr p = must_alloc(MIB);
    CUfunction nothing = function("nothing");
    need(cuEventCreate(&begin, 0), "cuEventCreate");
    need(cuEventCreate(&end, 0), "cuEventCreate");
    need(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    result_of("elapsed-never-recorded", cuEventElapsedTime(&ms, begin, end));
    for (int i = 0; i < 3; i++) {
        result_of("record", cuEventRecord(begin, NULL));
        result_of("work", i == 0   ? cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL)
                          : i == 1 ? cuMemsetD8(p, 1, MIB)
                                   : cuMemcpyHtoD(p, pattern, 4096));
        result_of("record-end", cuEventRecordWithFlags(end, NULL, 0));
        result_of("wait", cuEventSynchronize(end));
        result_of("elapsed", cuEventElapsedTime(&ms, begin, end));
        value_of("is-positive", ms > 0);
    }
    result_of("untimed", cuEventRecord(untimed, NULL));
    result_of("untimed-elapsed", cuEventElapsedTime(&ms, begin, untimed));
    result_of("null-out", cuEventElapsedTime(NULL, begin, end));
    result_of("null", cuEventElapsedTime(&ms, NULL, end));
}

/* ---- attributes ---- */

/* Print each attribute of an address: the result; and the value, if it is no address. */
static void attributes_of(const char *name, CUdeviceptr address)
{
    for (int i = CU_POINTER_ATTRIBUTE_CONTEXT; i <= CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE; i++) {
        unsigned long long value = 0;
        char text[64];
        CUresult result = cuPointerGetAttribute(&value, (CUpointer_attribute)i, address);
        snprintf(text, sizeof text, "%s-%d", name, i);
        result_of(text, result);
        bool is_handle = i == CU_POINTER_ATTRIBUTE_CONTEXT || i == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE ||
                         i == CU_POINTER_ATTRIBUTE_BUFFER_ID || i == CU_POINTER_ATTRIBUTE_P2P_TOKENS;
        if (value >= 0x1000000)
            value -= address & ~(unsigned long long)0xfff;
        if (result == 0)
            value_of(text, is_handle ? value != 0 : value);
    }
}

static void attributes(void)
{
    CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc access = {.location = wanted.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr p = 0, mapped = 0;
    int number = 5, kind = 5;
    CUcontext owner = (CUcontext)0x5;
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_CONTEXT,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *told[] = {&number, &owner, &kind};
    up();
    attributes_of("plain", must_alloc(100) + 10);
    attributes_of("large", must_alloc(5 * MIB));
    need(cuMemAllocManaged(&p, 3 * MIB, CU_MEM_ATTACH_GLOBAL), "cuMemAllocManaged");
    attributes_of("managed", p);
    need(cuMemAllocAsync(&p, MIB, NULL), "cuMemAllocAsync");
    attributes_of("pool", p);
    need(cuMemCreate(&handle, 2 * MIB, &wanted, 0), "cuMemCreate");
    need(cuMemAddressReserve(&mapped, 4 * MIB, 0, 0, 0), "cuMemAddressReserve");
    need(cuMemMap(mapped, 2 * MIB, 0, handle, 0), "cuMemMap");
    need(cuMemSetAccess(mapped, 2 * MIB, &access, 1), "cuMemSetAccess");
    attributes_of("mapped", mapped);
    result_of("reserved", cuPointerGetAttribute(&number, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, mapped + 2 * MIB));
    result_of("many", cuPointerGetAttributes(3, asked, told, p));
    value_of("many-type", number);
    value_of("many-context", owner == context);
    value_of("many-device", kind);
    result_of("many-of-host", cuPointerGetAttributes(3, asked, told, (uintptr_t)back));
    value_of("many-of-host-type", number);
    result_of("many-null", cuPointerGetAttributes(3, NULL, told, p));
    p = must_alloc(5 * MIB);
    result_of("free", cuMemFree(p));
    result_of("freed", cuPointerGetAttribute(&number, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    result_of("many-of-freed", cuPointerGetAttributes(3, asked, told, p));
    value_of("many-of-freed-type", number);
    result_of("range-of-freed", cuMemGetAddressRange(NULL, NULL, p));
    result_of("data-null", cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, mapped));
    result_of("set", cuPointerSetAttribute(&(int){1}, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, must_alloc(10)));
    CUipcMemHandle shared;
    result_of("share", cuIpcGetMemHandle(&shared, must_alloc(10)));
}

const group work_groups[] = {{"copies", copies},
                             {"copies-2d", copies_2d},
                             {"copies-3d", copies_3d},
                             {"batches", batches},
                             {"fills", fills},
                             {"launches", launches},
                             {"values", values},
                             {"graphs", graphs},
                             {"events", events},
                             {"attributes", attributes},
                             {NULL, NULL}};
