/* Tests the reader with core dumps that the test builds, both intact and damaged. */
#define _GNU_SOURCE
#include "gw_hostcore.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <elf.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/procfs.h>
#include <sys/user.h>
#include <unistd.h>

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

static gw_status read_bytes(const image *it, size_t count, gw_hostcore *core)
{
    gw_error err;
    int fd = memfd_create("core", 0);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, it->bytes, count), (ssize_t)count);
    gw_status st = gw_hostcore_read(fd, "core", core, &err);
    close(fd);
    return st;
}

static void the_fault(void **state)
{
    static image it;
    gw_hostcore core = {0};
    (void)state;
    make(&it, ET_CORE, OWN_MACHINE, SEGV_MAPERR, 0x7f0000001000);
    assert_int_equal(read_bytes(&it, it.count, &core), GW_OK);
    assert_int_equal(core.pid, PID);
    assert_int_equal(core.tid, TID);
    assert_int_equal(core.signal, SIGSEGV);
    assert_true(core.has_code && core.has_registers);
    assert_int_equal(core.code, SEGV_MAPERR);
    assert_true(core.address == 0x7f0000001000);
    assert_true(core.instruction == 0x401234);
}

/* Make a dump with an NT_FILE note that contains two mappings, but declares `claimed` mappings. */
static void make_with_files(image *it, uint64_t address, uint64_t claimed)
{
    static const char names[] = "/data/train.bin\0/dev/shm/torch_1 (deleted)";
    uint64_t files[8] = {claimed, 4096, 0x10000, 0x20000, 0, 0x7000, 0x9000, 5};
    uint8_t note[sizeof files + sizeof names];
    Elf64_Phdr segment;
    memcpy(note, files, sizeof files);
    memcpy(note + sizeof files, names, sizeof names);
    make(it, ET_CORE, OWN_MACHINE, BUS_ADRERR, address);
    add_note(it, NT_FILE, note, sizeof note);
    memcpy(&segment, it->bytes + sizeof(Elf64_Ehdr), sizeof segment);
    segment.p_filesz = it->count - segment.p_offset;
    memcpy(it->bytes + sizeof(Elf64_Ehdr), &segment, sizeof segment);
}

static void the_mapped_file(void **state)
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
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        static image it;
        gw_hostcore core = {0};
        make_with_files(&it, rows[i].address, rows[i].claimed);
        assert_int_equal(read_bytes(&it, it.count, &core), GW_OK);
        assert_string_equal(core.file, rows[i].file);
        assert_int_equal(core.has_files, rows[i].known);
        for (size_t cut = 0; i == 2 && cut < it.count; cut++)
            (void)!read_bytes(&it, cut, &core);
    }
}

static void of_another_machine(void **state)
{
    static image it;
    gw_hostcore core = {0};
    (void)state;
    make(&it, ET_CORE, OWN_MACHINE == EM_X86_64 ? EM_AARCH64 : EM_X86_64, SEGV_MAPERR, 0x1000);
    assert_int_equal(read_bytes(&it, it.count, &core), GW_OK);
    assert_true(core.has_code && !core.has_registers && core.address == 0x1000);
    make(&it, ET_CORE, EM_RISCV, SEGV_MAPERR, 0x1000);
    assert_int_equal(read_bytes(&it, it.count, &core), GW_UNSUPPORTED);
}

static void no_core(void **state)
{
    static image it;
    gw_hostcore core = {.pid = 7};
    (void)state;
    make(&it, ET_EXEC, OWN_MACHINE, SEGV_MAPERR, 0x1000);
    assert_int_equal(read_bytes(&it, it.count, &core), GW_CORRUPT);
    memcpy(it.bytes, "hello", 5);
    assert_int_equal(read_bytes(&it, it.count, &core), GW_CORRUPT);
    assert_int_not_equal(read_bytes(&it, 0, &core), GW_OK);
    assert_int_equal(core.pid, 7);
}

/* Read dumps that are truncated at every possible length, and dumps with one damaged byte. The reader must not crash.
 */
static void cut_and_damaged(void **state)
{
    static image it, bad;
    gw_hostcore core;
    (void)state;
    make(&it, ET_CORE, OWN_MACHINE, SEGV_MAPERR, 0x7f0000001000);
    for (size_t count = 0; count < it.count; count++)
        (void)!read_bytes(&it, count, &core);
    for (size_t at = 0; at < sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr) + 400 && at < it.count; at++)
        for (int value = 0; value < 256; value += 51) {
            bad = it;
            bad.bytes[at] = (uint8_t)value;
            (void)!read_bytes(&bad, bad.count, &core);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_fault), cmocka_unit_test(the_mapped_file),
                                       cmocka_unit_test(of_another_machine), cmocka_unit_test(no_core),
                                       cmocka_unit_test(cut_and_damaged)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
