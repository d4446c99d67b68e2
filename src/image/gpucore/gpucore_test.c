/* Tests the reader with dumps of a real GPU and with damaged copies of them. For a damaged copy, the reader must
 * fail, or return the right result or a part of it. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gw_gpucore.h"
#include "gw_text.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <zstd.h>

enum { DAMAGED_COPIES = 10000, DUMP_BYTES_MAX = 16 << 20 };

typedef struct dump {
    int fd;
    uint8_t *bytes; /* contents of the undamaged file */
    size_t count;
} dump;

static dump dump_open(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s.zst", GW_FIXTURES, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    static uint8_t packed[1 << 20];
    size_t packed_count = fread(packed, 1, sizeof packed, file);
    fclose(file);
    dump ret = {.bytes = malloc(DUMP_BYTES_MAX), .fd = memfd_create(name, MFD_CLOEXEC)};
    ret.count = ZSTD_decompress(ret.bytes, DUMP_BYTES_MAX, packed, packed_count);
    assert_false(ZSTD_isError(ret.count));
    assert_true(ret.fd >= 0);
    assert_int_equal(write(ret.fd, ret.bytes, ret.count), (ssize_t)ret.count);
    return ret;
}

static void dump_close(dump *file)
{
    close(file->fd);
    free(file->bytes);
}

static gw_gpucore *read_whole(const dump *file)
{
    gw_gpucore *core = NULL;
    gw_error err = {0};
    gw_status st = gw_gpucore_read(file->fd, "dump", &core, &err);
    if (st != GW_OK)
        print_error("%s\n", err.text);
    assert_int_equal(st, GW_OK);
    return core;
}

static void assert_device(const gw_gpucore *core)
{
    assert_string_equal(core->device_name, "NVIDIA H200");
    assert_string_equal(core->device_sm, "sm_90");
    assert_true(core->has_version);
    assert_int_equal(core->driver_version[0], 580);
    assert_int_equal(core->driver_version[1], 159);
    assert_int_equal(core->cuda_version[0], 13);
    assert_int_equal(core->image_count, 10);
}

/* Check what both dumps have in common: one grid, one fault, and the flag GW_GPUCORE_SKIP_ABORT is not set (the
 * default). */
static void assert_made_with_abort(const gw_gpucore *core)
{
    assert_true(core->has_flags);
    assert_false(core->flags & GW_GPUCORE_SKIP_ABORT);
    assert_int_equal(core->grid_count, 1);
    assert_int_equal(core->fault_count, 1);
}

/* The faulting warp had left its SM before the fault was detected. The SM records the exception and the PC, but no
 * warp is marked as faulting. So the reader finds the kernel by the image that contains the PC. Block and thread
 * are unknown. */
static void assert_illegal_address(const gw_gpucore *core)
{
    const gw_gpucore_fault *fault = &core->fault[0];
    char name[GW_GPUCORE_NAME_MAX];
    assert_string_equal(gw_gpucore_exception_name(name, fault->exception), "WARP_ILLEGAL_ADDRESS");
    assert_int_equal(gw_gpucore_exception_result(fault->exception), 700);
    assert_int_equal(fault->sm, 124);
    assert_int_equal(fault->count, 1);
    assert_false(fault->has_thread);
    assert_false(fault->has_grid);
    assert_true(fault->has_pc);
    assert_string_equal(fault->kernel, "_Z4fillPfm");
    assert_string_equal(fault->function, "_Z4fillPfm");
    assert_int_equal(fault->offset, 0xa0);
    assert_string_equal(gw_path_last(fault->file), "s12_bad_address.cu");
    assert_int_equal(fault->line, 7);
}

static void test_illegal_address(void **state)
{
    (void)state;
    dump file = dump_open("illegal-address.cudacore");
    gw_gpucore *core = read_whole(&file);
    assert_device(core);
    assert_made_with_abort(core);
    assert_illegal_address(core);
    gw_gpucore_free(core);
    dump_close(&file);
}

/* The warp waits at its failed assertion, so the dump has its grid, block and thread. The PC is after the call of
 * the assertion handler. */
static void test_device_assert(void **state)
{
    (void)state;
    dump file = dump_open("device-assert.cudacore");
    gw_gpucore *core = read_whole(&file);
    assert_device(core);
    assert_made_with_abort(core);
    const gw_gpucore_fault *fault = &core->fault[0];
    char name[GW_GPUCORE_NAME_MAX];
    assert_string_equal(gw_gpucore_exception_name(name, fault->exception), "WARP_ASSERT");
    assert_int_equal(gw_gpucore_exception_result(fault->exception), 710);
    assert_int_equal(fault->sm, 124);
    assert_true(fault->has_thread);
    assert_int_equal(fault->warp, 1);
    assert_int_equal(fault->lane, 17);
    static const uint32_t zero[3], one[3] = {1, 1, 1}, thread[3] = {17}, threads[3] = {64, 1, 1};
    assert_memory_equal(fault->block, zero, sizeof zero);
    assert_memory_equal(fault->thread, thread, sizeof thread);
    assert_true(fault->has_grid);
    assert_memory_equal(fault->grid_dim, one, sizeof one);
    assert_memory_equal(fault->block_dim, threads, sizeof threads);
    assert_string_equal(fault->kernel, "_Z4pickPKfPKiPfi");
    assert_string_equal(fault->function, "_Z4pickPKfPKiPfi");
    assert_int_equal(fault->offset, 0x1c0);
    assert_string_equal(gw_path_last(fault->file), "s13_assert.cu");
    assert_int_equal(fault->line, 9);
    gw_gpucore_free(core);
    dump_close(&file);
}

/* ---- damage ---- */

typedef struct range {
    size_t begin, count;
    bool tells; /* damage in this range may change the result without being detected */
} range;

typedef struct ranges {
    range item[512];
    size_t count;
} ranges;

static uint64_t number_at(const uint8_t *at, size_t bytes)
{
    uint64_t value = 0;
    memcpy(&value, at, bytes); /* correct only on little-endian machines, where these tests run */
    return value;
}

static void add_range(ranges *all, size_t begin, size_t count, bool tells)
{
    if (count == 0)
        return;
    assert_true(all->count < sizeof all->item / sizeof all->item[0]);
    all->item[all->count++] = (range){begin, count, tells};
}

static bool has_prefix(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* Collect the ranges of the file that the test will damage: headers and tables. `tells` marks a range where
 * undetected damage may change the result. Such ranges are the image that contains the PC, and rows that have an
 * exception or could have one after damage. */
static void find_ranges(const dump *file, ranges *all)
{
    size_t table = number_at(file->bytes + 40, 8), count = number_at(file->bytes + 60, 2);
    size_t names = number_at(file->bytes + table + 64 * number_at(file->bytes + 62, 2) + 24, 8);
    add_range(all, 0, 64, false);
    for (int i = 0; i < 8; i++) /* add the section headers several times, because the many similar sections would
                                   otherwise get most of the damage */
        add_range(all, table, 64 * count, false);
    for (size_t i = 1; i < count; i++) {
        const uint8_t *header = file->bytes + table + 64 * i;
        const char *name = (const char *)file->bytes + names + number_at(header, 4);
        size_t begin = number_at(header + 24, 8), bytes = number_at(header + 32, 8);
        if (has_prefix(name, ".cudbg.relfimg")) {
            /* in both files, the PC is in image number 9, the last one */
            if (number_at(header + 44, 4) == 9)
                add_range(all, begin, bytes, true);
            else
                add_range(all, begin, 64, false);
        } else if (has_prefix(name, ".shstrtab") || has_prefix(name, ".cudbg.ctxtbl") ||
                   has_prefix(name, ".cudbg.modtbl") || has_prefix(name, ".cudbg.cbankstbl")) {
            add_range(all, begin, bytes, false);
        } else if (has_prefix(name, ".cudbg.devtbl") || has_prefix(name, ".cudbg.smtbl") ||
                   has_prefix(name, ".strtab") || has_prefix(name, ".cudbg.meta") ||
                   has_prefix(name, ".cudbg.gridtbl") || has_prefix(name, ".cudbg.ctatbl") ||
                   has_prefix(name, ".cudbg.wptbl") || has_prefix(name, ".cudbg.lntbl")) {
            add_range(all, begin, bytes, true);
        }
    }
}

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* Overwrite up to eight bytes. Returns true if they are in a range marked `tells`. */
static bool damage(const dump *file, const ranges *all, uint64_t *seed, size_t *ret_at, size_t *ret_count)
{
    const range *in = &all->item[next_random(seed) % all->count];
    size_t at = in->begin + next_random(seed) % in->count;
    size_t left = in->begin + in->count - at, count = 1u << next_random(seed) % 4;
    uint8_t bytes[8];
    count = count > left ? left : count;
    memcpy(bytes, file->bytes + at, count);
    switch (next_random(seed) % 4) {
    case 0:
        bytes[0] ^= (uint8_t)(1u << next_random(seed) % 8);
        break;
    case 1:
        memset(bytes, 0, count);
        break;
    case 2:
        memset(bytes, 0xff, count);
        break;
    default:
        for (size_t i = 0; i < count; i++)
            bytes[i] = (uint8_t)next_random(seed);
    }
    assert_int_equal(pwrite(file->fd, bytes, count, (off_t)at), (ssize_t)count);
    *ret_at = at;
    *ret_count = count;
    return in->tells;
}

static bool same_or_unknown(const char *now, const char *before)
{
    return now == NULL || (before != NULL && strcmp(now, before) == 0);
}

/* True if each value is unknown or the same as in the undamaged file. */
static bool says_no_more(const gw_gpucore *core, const gw_gpucore *whole)
{
    const gw_gpucore_fault *now = &core->fault[0], *before = &whole->fault[0];
    if (!same_or_unknown(core->device_name, whole->device_name) || !same_or_unknown(core->device_sm, whole->device_sm))
        return false;
    if (core->fault_count == 0)
        return true;
    return core->fault_count == 1 && now->exception == before->exception && now->sm == before->sm &&
           now->count == before->count && (!now->has_thread || before->has_thread) &&
           (!now->has_thread || (memcmp(now->block, before->block, sizeof now->block) == 0 &&
                                 memcmp(now->thread, before->thread, sizeof now->thread) == 0)) &&
           (!now->has_pc || now->pc == before->pc) && same_or_unknown(now->kernel, before->kernel) &&
           same_or_unknown(now->function, before->function) && same_or_unknown(now->file, before->file) &&
           (now->file == NULL || now->line == before->line) &&
           (now->function == NULL || now->offset == before->offset) &&
           (!now->has_grid || memcmp(now->grid_dim, before->grid_dim, sizeof now->grid_dim) == 0);
}

static void look_at_all(const gw_gpucore *core)
{
    char name[GW_GPUCORE_NAME_MAX];
    size_t bytes = 0;
    assert_true(core->fault_count <= GW_GPUCORE_FAULTS_MAX);
    for (size_t i = 0; i < core->fault_count; i++) {
        const gw_gpucore_fault *fault = &core->fault[i];
        bytes += strlen(gw_gpucore_exception_name(name, fault->exception));
        bytes += fault->kernel == NULL ? 0 : strlen(fault->kernel);
        bytes += fault->function == NULL ? 0 : strlen(fault->function);
        bytes += fault->file == NULL ? 0 : strlen(fault->file);
        assert_true(fault->count > 0);
        assert_true(fault->sm < 132);
    }
    assert_true(bytes > 0 || core->fault_count == 0);
}

typedef struct tally {
    unsigned whole, less, other, refused;
} tally;

static void judge_copy(const dump *file, const gw_gpucore *whole, bool tells, tally *sum)
{
    gw_gpucore *core = NULL;
    gw_error err = {0};
    gw_status st = gw_gpucore_read(file->fd, "copy", &core, &err);
    if (st != GW_OK) {
        assert_int_equal(st, GW_CORRUPT);
        assert_true(strlen(err.text) > strlen("copy: "));
        assert_null(core);
        sum->refused++;
        return;
    }
    look_at_all(core);
    bool right = says_no_more(core, whole);
    assert_true(right || tells);
    if (!right)
        sum->other++;
    else if (core->fault_count == 0 || core->fault[0].function == NULL || core->device_name == NULL)
        sum->less++;
    else
        sum->whole++;
    gw_gpucore_free(core);
}

static void damage_many(const char *name)
{
    dump file = dump_open(name);
    gw_gpucore *whole = read_whole(&file);
    ranges all = {0};
    tally sum = {0};
    uint64_t seed = 0x9e3779b97f4a7c15u;
    find_ranges(&file, &all);
    for (int i = 0; i < DAMAGED_COPIES; i++) {
        size_t at, count;
        bool tells = damage(&file, &all, &seed, &at, &count);
        judge_copy(&file, whole, tells, &sum);
        assert_int_equal(pwrite(file.fd, file.bytes + at, count, (off_t)at), (ssize_t)count);
    }
    print_message("%s: %d copies: %u as the whole, %u say less, %u say what their own bytes say, %u refused\n", name,
                  DAMAGED_COPIES, sum.whole, sum.less, sum.other, sum.refused);
    assert_true(sum.refused > DAMAGED_COPIES / 10); /* if few copies are refused, the damage missed the checked bytes */
    assert_true(sum.whole > 0);
    gw_gpucore *again = read_whole(&file);
    assert_true(says_no_more(again, whole) && again->fault_count == whole->fault_count);
    gw_gpucore_free(again);
    gw_gpucore_free(whole);
    dump_close(&file);
}

static void test_damaged_illegal_address(void **state)
{
    (void)state;
    damage_many("illegal-address.cudacore");
}

static void test_damaged_device_assert(void **state)
{
    (void)state;
    damage_many("device-assert.cudacore");
}

static void test_cut_short(void **state)
{
    (void)state;
    dump file = dump_open("device-assert.cudacore");
    for (size_t left = file.count; left-- > 0; left -= left > 997 ? 997 : left) {
        gw_gpucore *core = NULL;
        gw_error err = {0};
        assert_int_equal(ftruncate(file.fd, (off_t)left), 0);
        assert_int_equal(gw_gpucore_read(file.fd, "cut", &core, &err), GW_CORRUPT);
        assert_true(strlen(err.text) > 5);
    }
    dump_close(&file);
}

static void assert_refused(const void *bytes, size_t count, gw_status wanted, const char *part)
{
    int fd = memfd_create("other", MFD_CLOEXEC);
    gw_gpucore *core = NULL;
    gw_error err = {0};
    assert_int_equal(write(fd, bytes, count), (ssize_t)count);
    assert_int_equal(gw_gpucore_read(fd, "file", &core, &err), wanted);
    assert_non_null(strstr(err.text, part));
    assert_null(core);
    close(fd);
}

static void test_other_files(void **state)
{
    (void)state;
    assert_refused("", 0, GW_CORRUPT, "empty");
    assert_refused("hello", 5, GW_CORRUPT, "not an ELF file");
    assert_refused("\x1f\x8b\x08", 3, GW_UNSUPPORTED, "gzip");
    assert_refused("\177ELF", 4, GW_CORRUPT, "file: ");
    int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    gw_gpucore *core = NULL;
    gw_error err = {0};
    assert_int_equal(gw_gpucore_read(self, "self", &core, &err), GW_CORRUPT);
    assert_non_null(strstr(err.text, "not a GPU core dump"));
    close(self);
}

static void test_exceptions(void **state)
{
    (void)state;
    char name[GW_GPUCORE_NAME_MAX];
    assert_string_equal(gw_gpucore_exception_name(name, 6), "WARP_MISALIGNED_ADDRESS");
    assert_int_equal(gw_gpucore_exception_result(6), 716);
    assert_string_equal(gw_gpucore_exception_name(name, 4000000000u), "EXCEPTION_4000000000");
    assert_int_equal(gw_gpucore_exception_result(4000000000u), 719);
    for (uint32_t i = 1; i < 64; i++)
        assert_true(gw_gpucore_exception_result(i) >= 700);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_files),
        cmocka_unit_test(test_exceptions),
        cmocka_unit_test(test_illegal_address),
        cmocka_unit_test(test_device_assert),
        cmocka_unit_test(test_cut_short),
        cmocka_unit_test(test_damaged_illegal_address),
        cmocka_unit_test(test_damaged_device_assert),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
