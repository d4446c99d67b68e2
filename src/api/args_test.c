/* Test the functions that read arguments behind pointers, with hostile values first. */
#include "gw_api_args.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void products_stop_at_the_top(void **state)
{
    (void)state;
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

static void lists_may_lie(void **state)
{
    (void)state;
    assert_int_equal(gw_sum(NULL, SIZE_MAX), 0);
    assert_int_equal(gw_first(NULL, 3), 0);
    assert_int_equal(gw_batch3d_bytes(NULL, 3), 0);
    assert_null(gw_list_function(NULL, 3));
}

static void arrays_are_measured(void **state)
{
    (void)state;
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

static void copies_have_two_ends(void **state)
{
    (void)state;
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

static void pool_values_have_two_widths(void **state)
{
    (void)state;
    struct {
        int value, beyond;
    } narrow = {1, -1};
    uint64_t wide = 1ull << 40;
    assert_int_equal(gw_pool_value(CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &narrow), 1);
    assert_int_equal(gw_pool_value(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &wide), 1ull << 40);
    assert_int_equal(gw_pool_value(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, NULL), 0);
}

static void nodes_name_their_object(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_stop_at_the_top),    cmocka_unit_test(lists_may_lie),
        cmocka_unit_test(arrays_are_measured),         cmocka_unit_test(copies_have_two_ends),
        cmocka_unit_test(pool_values_have_two_widths), cmocka_unit_test(nodes_name_their_object),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
