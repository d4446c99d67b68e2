/* Tests the reader with dumps of a real GPU and with damaged copies of them. For a damaged copy, the reader must
 * fail, or return the right result or a part of it. */
#define _GNU_SOURCE
#include "gw_unit_test.h"
#include <elf.h>
#include <signal.h>
#include <sys/procfs.h>
#include <sys/user.h>

#include "gw_gpucore.h"
#include "gw_hostcore.h"
#include "gw_test_random.h"
#include "gw_text.h"

#include <fcntl.h>
#include <stdio.h>
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

static gw_error err; /* of the last failure */

static gw_gpucore *read_whole(const dump *file)
{
    gw_gpucore *core = NULL;
    gw_status st = gw_gpucore_read(file->fd, "dump", &core, &err);
    if (st != GW_OK)
        print_error("%s\n", err.text);
    assert_int_equal(st, GW_OK);
    return core;
}

/* Check what both dumps have in common: the machine, one grid, one fault, and that the flag GW_GPUCORE_SKIP_ABORT is
 * not set (the default). */
static void assert_common(const gw_gpucore *core)
{
    assert_string_equal(core->device_name, "NVIDIA H200");
    assert_string_equal(core->device_sm, "sm_90");
    assert_true(core->has_version);
    assert_int_equal(core->driver_version[0], 580);
    assert_int_equal(core->driver_version[1], 159);
    assert_int_equal(core->cuda_version[0], 13);
    assert_int_equal(core->image_count, 10);
    assert_true(core->has_flags);
    assert_false(core->flags & GW_GPUCORE_SKIP_ABORT);
    assert_int_equal(core->grid_count, 1);
    assert_int_equal(core->fault_count, 1);
}

/* The faulting warp had left its SM before the fault was detected. The SM records the exception and the PC, but no
 * warp is marked as faulting. So the reader finds the kernel by the image that contains the PC. Block and thread
 * are unknown. */
GW_TEST(test_illegal_address)
{
    dump file = dump_open("illegal-address.cudacore");
    gw_gpucore *core = read_whole(&file);
    const gw_gpucore_fault *fault = &core->fault[0];
    char name[GW_GPUCORE_NAME_MAX];
    assert_common(core);
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
    gw_gpucore_free(core);
    dump_close(&file);
}

/* The warp waits at its failed assertion, so the dump has its grid, block and thread. The PC is after the call of
 * the assertion handler. */
GW_TEST(test_device_assert)
{
    dump file = dump_open("device-assert.cudacore");
    gw_gpucore *core = read_whole(&file);
    assert_common(core);
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

/* Collect the ranges of the file that the test will damage: headers and tables. `tells` marks a range where
 * undetected damage may change the result. Such ranges are the image that contains the PC, and rows that have an
 * exception or could have one after damage. */
static void find_ranges(const dump *file, ranges *all)
{
    static const struct {
        const char *name;
        bool tells;
    } damaged[] = {{".shstrtab", false},        {".cudbg.ctxtbl", false}, {".cudbg.modtbl", false},
                   {".cudbg.cbankstbl", false}, {".cudbg.devtbl", true},  {".cudbg.smtbl", true},
                   {".strtab", true},           {".cudbg.meta", true},    {".cudbg.gridtbl", true},
                   {".cudbg.ctatbl", true},     {".cudbg.wptbl", true},   {".cudbg.lntbl", true}};
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
        bool has_pc = number_at(header + 44, 4) == 9; /* in both files, the PC is in image number 9, the last one */
        if (gw_begins(name, ".cudbg.relfimg"))
            add_range(all, begin, has_pc ? bytes : 64, has_pc);
        for (size_t k = 0; k < sizeof damaged / sizeof damaged[0]; k++)
            if (gw_begins(name, damaged[k].name))
                add_range(all, begin, bytes, damaged[k].tells);
    }
}

/* Overwrite up to eight bytes. Returns true if they are in a range marked `tells`. */
static bool damage(const dump *file, const ranges *all, size_t *ret_at, size_t *ret_count)
{
    const range *in = &all->item[gw_test_random() % all->count];
    size_t at = in->begin + gw_test_random() % in->count;
    size_t left = in->begin + in->count - at, count = 1u << gw_test_random() % 4;
    uint8_t bytes[8];
    count = count > left ? left : count;
    memcpy(bytes, file->bytes + at, count);
    switch (gw_test_random() % 4) {
    case 0:
        bytes[0] ^= (uint8_t)(1u << gw_test_random() % 8);
        break;
    case 1:
        memset(bytes, 0, count);
        break;
    case 2:
        memset(bytes, 0xff, count);
        break;
    default:
        for (size_t i = 0; i < count; i++)
            bytes[i] = (uint8_t)gw_test_random();
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
    find_ranges(&file, &all);
    for (int i = 0; i < DAMAGED_COPIES; i++) {
        size_t at, count;
        bool tells = damage(&file, &all, &at, &count);
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

GW_TEST(test_damaged)
{
    damage_many("illegal-address.cudacore");
    damage_many("device-assert.cudacore");
}

GW_TEST(test_cut_short)
{
    dump file = dump_open("device-assert.cudacore");
    for (size_t left = file.count; left-- > 0; left -= left > 997 ? 997 : left) {
        gw_gpucore *core = NULL;
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
    assert_int_equal(write(fd, bytes, count), (ssize_t)count);
    assert_int_equal(gw_gpucore_read(fd, "file", &core, &err), wanted);
    assert_non_null(strstr(err.text, part));
    assert_null(core);
    close(fd);
}

GW_TEST(test_other_files)
{
    assert_refused("", 0, GW_CORRUPT, "empty");
    assert_refused("hello", 5, GW_CORRUPT, "not an ELF file");
    assert_refused("\x1f\x8b\x08", 3, GW_UNSUPPORTED, "gzip");
    assert_refused("\177ELF", 4, GW_CORRUPT, "file: ");
    int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    gw_gpucore *core = NULL;
    assert_int_equal(gw_gpucore_read(self, "self", &core, &err), GW_CORRUPT);
    assert_non_null(strstr(err.text, "not a GPU core dump"));
    close(self);
}

GW_TEST(test_exceptions)
{
    char name[GW_GPUCORE_NAME_MAX];
    assert_string_equal(gw_gpucore_exception_name(name, 6), "WARP_MISALIGNED_ADDRESS");
    assert_int_equal(gw_gpucore_exception_result(6), 716);
    assert_string_equal(gw_gpucore_exception_name(name, 4000000000u), "EXCEPTION_4000000000");
    assert_int_equal(gw_gpucore_exception_result(4000000000u), 719);
    for (uint32_t i = 1; i < 64; i++)
        assert_true(gw_gpucore_exception_result(i) >= 700);
}

/* Tests the reader with core dumps that the test builds, both intact and damaged. */

#if defined(__x86_64__)
enum { OWN_MACHINE = EM_X86_64, PC_INDEX = offsetof(struct user_regs_struct, rip) / sizeof(long) };
#else
enum { OWN_MACHINE = EM_AARCH64, PC_INDEX = offsetof(struct user_regs_struct, pc) / sizeof(long) };
#endif
enum { PID = 4242, TID = 4243, OTHER_TID = 4244 };

typedef struct image {
    uint8_t bytes[16 << 10];
    size_t count;
} image;

static void add(image *it, const void *bytes, size_t count)
{
    assert_true(it->count + count <= sizeof it->bytes);
    memcpy(it->bytes + it->count, bytes, count);
    it->count += count;
}

static void add_note(image *it, uint32_t type, const void *content, size_t bytes)
{
    Elf64_Nhdr head = {.n_namesz = sizeof "CORE", .n_descsz = (Elf64_Word)bytes, .n_type = type};
    static const uint8_t padding[4];
    add(it, &head, sizeof head);
    add(it, "CORE\0\0\0", 8);
    add(it, content, bytes);
    add(it, padding, -bytes & 3);
}

static void add_thread(image *it, int tid, long pc)
{
    struct elf_prstatus status = {.pr_pid = tid, .pr_cursig = SIGSEGV};
    memcpy((uint8_t *)&status.pr_reg + PC_INDEX * sizeof pc, &pc, sizeof pc);
    add_note(it, NT_PRSTATUS, &status, sizeof status);
}

static void make(image *it, uint16_t type, uint16_t machine, int code, uint64_t address)
{
    siginfo_t info = {.si_signo = SIGSEGV, .si_code = code};
    struct elf_prpsinfo process = {.pr_pid = PID, .pr_fname = "python3"};
    Elf64_Ehdr head = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                       .e_type = type,
                       .e_machine = machine,
                       .e_version = EV_CURRENT,
                       .e_phoff = sizeof(Elf64_Ehdr),
                       .e_ehsize = sizeof(Elf64_Ehdr),
                       .e_phentsize = sizeof(Elf64_Phdr),
                       .e_phnum = 1};
    Elf64_Phdr segment = {.p_type = PT_NOTE, .p_offset = sizeof head + sizeof segment, .p_align = 4};
    info.si_addr = (void *)(uintptr_t)address;
    it->count = 0;
    add(it, &head, sizeof head);
    add(it, &segment, sizeof segment);
    add_thread(it, TID, 0x401234);
    add_note(it, NT_PRPSINFO, &process, sizeof process);
    add_note(it, NT_SIGINFO, &info, sizeof info);
    add_thread(it, OTHER_TID, 0x405678);
    segment.p_filesz = it->count - segment.p_offset;
    memcpy(it->bytes + sizeof head, &segment, sizeof segment);
}

static image it;
static gw_hostcore core;

static gw_status read_bytes(const image *from, size_t count)
{
    int fd = memfd_create("core", 0);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, from->bytes, count), (ssize_t)count);
    gw_status st = gw_hostcore_read(fd, "core", &core, &err);
    close(fd);
    return st;
}

GW_TEST(the_fault)
{
    make(&it, ET_CORE, OWN_MACHINE, SEGV_MAPERR, 0x7f0000001000);
    assert_int_equal(read_bytes(&it, it.count), GW_OK);
    assert_int_equal(core.pid, PID);
    assert_int_equal(core.tid, TID);
    assert_int_equal(core.signal, SIGSEGV);
    assert_true(core.has_code && core.has_registers);
    assert_int_equal(core.code, SEGV_MAPERR);
    assert_true(core.address == 0x7f0000001000);
    assert_true(core.instruction == 0x401234);
}

/* Make a dump with an NT_FILE note that contains two mappings, but declares `claimed` mappings. */
static void make_with_files(uint64_t address, uint64_t claimed)
{
    static const char names[] = "/data/train.bin\0/dev/shm/torch_1 (deleted)";
    uint64_t files[8] = {claimed, 4096, 0x10000, 0x20000, 0, 0x7000, 0x9000, 5};
    uint8_t note[sizeof files + sizeof names];
    Elf64_Phdr segment;
    memcpy(note, files, sizeof files);
    memcpy(note + sizeof files, names, sizeof names);
    make(&it, ET_CORE, OWN_MACHINE, BUS_ADRERR, address);
    add_note(&it, NT_FILE, note, sizeof note);
    memcpy(&segment, it.bytes + sizeof(Elf64_Ehdr), sizeof segment);
    segment.p_filesz = it.count - segment.p_offset;
    memcpy(it.bytes + sizeof(Elf64_Ehdr), &segment, sizeof segment);
}

GW_TEST(the_mapped_file)
{
    static const struct {
        uint64_t address, claimed;
        const char *file;
        bool known;
    } rows[] = {{0x10000, 2, "/data/train.bin", true},
                {0x1ffff, 2, "/data/train.bin", true},
                {0x7abc, 2, "/dev/shm/torch_1 (deleted)", true},
                {0x20000, 2, "", true},
                {0x7abc, 1, "", true},
                {0x7abc, 1ull << 61, "", false},
                {0x7abc, UINT64_MAX, "", false},
                {0x7abc, 0, "", true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        make_with_files(rows[i].address, rows[i].claimed);
        assert_int_equal(read_bytes(&it, it.count), GW_OK);
        assert_string_equal(core.file, rows[i].file);
        assert_int_equal(core.has_files, rows[i].known);
        for (size_t cut = 0; i == 2 && cut < it.count; cut++)
            (void)!read_bytes(&it, cut);
    }
}

GW_TEST(of_another_machine)
{
    make(&it, ET_CORE, OWN_MACHINE == EM_X86_64 ? EM_AARCH64 : EM_X86_64, SEGV_MAPERR, 0x1000);
    assert_int_equal(read_bytes(&it, it.count), GW_OK);
    assert_true(core.has_code && !core.has_registers && core.address == 0x1000);
    make(&it, ET_CORE, EM_RISCV, SEGV_MAPERR, 0x1000);
    assert_int_equal(read_bytes(&it, it.count), GW_UNSUPPORTED);
}

GW_TEST(no_core)
{
    core.pid = 7;
    make(&it, ET_EXEC, OWN_MACHINE, SEGV_MAPERR, 0x1000);
    assert_int_equal(read_bytes(&it, it.count), GW_CORRUPT);
    memcpy(it.bytes, "hello", 5);
    assert_int_equal(read_bytes(&it, it.count), GW_CORRUPT);
    assert_int_not_equal(read_bytes(&it, 0), GW_OK);
    assert_int_equal(core.pid, 7);
}

/* Read dumps that are truncated at every possible length, and dumps with one damaged byte. The reader must
 * not crash.
 */
GW_TEST(cut_and_damaged)
{
    static image bad;
    make(&it, ET_CORE, OWN_MACHINE, SEGV_MAPERR, 0x7f0000001000);
    for (size_t count = 0; count < it.count; count++)
        (void)!read_bytes(&it, count);
    for (size_t at = 0; at < sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr) + 400 && at < it.count; at++)
        for (int value = 0; value < 256; value += 51) {
            bad = it;
            bad.bytes[at] = (uint8_t)value;
            (void)!read_bytes(&bad, bad.count);
        }
}

GW_TEST_MAIN(NULL, NULL)
