/* Reads the signal, the thread that caused the signal and the mapped files from the notes in a process's core dump. */
#define _GNU_SOURCE
#include "gw_hostcore.h"

#include <elf.h>
#include <errno.h>
#include <gelf.h>
#include <libelf.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>
#include <unistd.h>

/* Read at most NOTE_BYTES_MAX bytes of a segment with notes. This is enough: the notes of a process with a thousand
 * threads take a few MiB. */
enum { NOTE_BYTES_MAX = 16 << 20, SEGMENTS_MAX = 64, SI_ADDR_OFFSET = 16, SI_CODE_OFFSET = 8 };

#if defined(__x86_64__)
enum { OWN_MACHINE = EM_X86_64, PC_OFFSET = offsetof(struct user_regs_struct, rip) };
#else
enum { OWN_MACHINE = EM_AARCH64, PC_OFFSET = offsetof(struct user_regs_struct, pc) };
#endif

static void take_status(const uint8_t *data, size_t bytes, bool is_own, gw_hostcore *core)
{
    struct elf_prstatus status;
    if (bytes < sizeof status || core->tid != 0)
        return; /* use only the first NT_PRSTATUS, which belongs to the thread that caused the fault */
    memcpy(&status, data, sizeof status);
    core->tid = (uint32_t)status.pr_pid;
    core->signal = core->signal != 0 ? core->signal : status.pr_cursig;
    if (!is_own)
        return;
    core->has_registers = true;
    memcpy(&core->instruction, data + offsetof(struct elf_prstatus, pr_reg) + PC_OFFSET, sizeof core->instruction);
}

static void take_siginfo(const uint8_t *data, size_t bytes, gw_hostcore *core)
{
    if (bytes < SI_ADDR_OFFSET + sizeof core->address || core->has_code)
        return;
    memcpy(&core->signal, data, sizeof core->signal);
    memcpy(&core->code, data + SI_CODE_OFFSET, sizeof core->code);
    memcpy(&core->address, data + SI_ADDR_OFFSET, sizeof core->address);
    core->has_code = true;
}

static void take_process(const uint8_t *data, size_t bytes, gw_hostcore *core)
{
    struct elf_prpsinfo info;
    if (bytes < sizeof info || core->pid != 0)
        return;
    memcpy(&info, data, sizeof info);
    core->pid = (uint32_t)info.pr_pid;
}

static uint64_t number_at(const uint8_t *data, size_t index)
{
    uint64_t number;
    memcpy(&number, data + index * sizeof number, sizeof number);
    return number;
}

/* Find the mapped file that contains the fault's address, in an NT_FILE note. The note has the number of mappings, the
 * page size, the begin, end and offset of each mapping, then all names. */
static void take_files(const uint8_t *data, size_t bytes, gw_hostcore *core)
{
    enum { HEAD = 2, EACH = 3, WORD = sizeof(uint64_t) };
    uint64_t count = bytes < HEAD * WORD ? UINT64_MAX : number_at(data, 0);
    if (core->has_files || count > (bytes - HEAD * WORD) / (EACH * WORD))
        return;
    core->has_files = true;
    size_t at = (HEAD + (size_t)count * EACH) * WORD;
    for (size_t i = 0; i < count && at < bytes; i++) {
        size_t length = strnlen((const char *)data + at, bytes - at);
        uint64_t begin = number_at(data, HEAD + i * EACH), end = number_at(data, HEAD + i * EACH + 1);
        if (core->has_code && core->address >= begin && core->address < end) {
            size_t kept = length < sizeof core->file - 1 ? length : sizeof core->file - 1;
            memcpy(core->file, data + at, kept);
            core->file[kept] = '\0';
            return;
        }
        at += length + 1;
    }
}

static void take_notes(Elf_Data *data, bool is_own, gw_hostcore *core)
{
    GElf_Nhdr note;
    size_t name, content;
    for (size_t at = 0, next; (next = gelf_getnote(data, at, &note, &name, &content)) > at; at = next) {
        const uint8_t *bytes = (const uint8_t *)data->d_buf + content;
        if (note.n_namesz != sizeof "CORE" || memcmp((const char *)data->d_buf + name, "CORE", sizeof "CORE") != 0)
            continue;
        if (note.n_type == NT_PRSTATUS)
            take_status(bytes, note.n_descsz, is_own, core);
        else if (note.n_type == NT_SIGINFO)
            take_siginfo(bytes, note.n_descsz, core);
        else if (note.n_type == NT_PRPSINFO)
            take_process(bytes, note.n_descsz, core);
        else if (note.n_type == NT_FILE) /* take_files() needs the siginfo, which the kernel writes before this note */
            take_files(bytes, note.n_descsz, core);
    }
}

static gw_status read_notes(Elf *elf, const char *name, bool is_own, gw_hostcore *core, gw_error *err)
{
    size_t count = 0;
    if (elf_getphdrnum(elf, &count) != 0)
        return gw_fail(err, GW_CORRUPT, "%s: %s", name, elf_errmsg(-1));
    /* Search only the first segments, because the kernel writes the notes into one of these. */
    for (size_t i = 0; i < count && i < SEGMENTS_MAX; i++) {
        GElf_Phdr segment;
        if (gelf_getphdr(elf, (int)i, &segment) == NULL)
            return gw_fail(err, GW_CORRUPT, "%s: %s", name, elf_errmsg(-1));
        if (segment.p_type != PT_NOTE)
            continue;
        size_t bytes = segment.p_filesz > NOTE_BYTES_MAX ? NOTE_BYTES_MAX : (size_t)segment.p_filesz;
        Elf_Data *data = segment.p_offset > INT64_MAX
                             ? NULL
                             : elf_getdata_rawchunk(elf, (int64_t)segment.p_offset, bytes, ELF_T_NHDR);
        if (data != NULL)
            take_notes(data, is_own, core);
    }
    if (core->tid == 0)
        return gw_fail(err, GW_CORRUPT, "%s: its notes contain no thread", name);
    return GW_OK;
}

gw_status gw_hostcore_read(int fd, const char *name, gw_hostcore *ret_core, gw_error *err)
{
    gw_hostcore core = {0};
    GElf_Ehdr head;
    (void)elf_version(EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
    if (elf == NULL)
        return gw_fail(err, GW_IO, "%s: %s", name, elf_errmsg(-1));
    gw_status st = GW_OK;
    if (elf_kind(elf) != ELF_K_ELF || gelf_getehdr(elf, &head) == NULL || head.e_type != ET_CORE)
        st = gw_fail(err, GW_CORRUPT, "%s: not a core dump", name);
    else if (gelf_getclass(elf) != ELFCLASS64 || head.e_ident[EI_DATA] != ELFDATA2LSB ||
             (head.e_machine != EM_X86_64 && head.e_machine != EM_AARCH64))
        st = gw_fail(err, GW_UNSUPPORTED, "%s: a core dump of another machine type", name);
    else
        st = read_notes(elf, name, head.e_machine == OWN_MACHINE, &core, err);
    elf_end(elf);
    if (st == GW_OK)
        *ret_core = core;
    return st;
}
