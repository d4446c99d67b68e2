/* Finds the program in PATH and reads its header: whether it is an ELF file or a script, statically linked, and
 * privileged. */
#include "gwi_program.h"

#include "gw_text.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { SCRIPT_DEPTH_MAX = 5 };

/* ---- finding the program ---- */

static gw_status check_file(const char *path, gw_error *err)
{
    struct stat stat_;
    if (stat(path, &stat_) < 0)
        return gw_fail(err, errno == EACCES ? GW_IO : GW_MISSING, "%s: %s", path, strerror(errno));
    if (S_ISDIR(stat_.st_mode))
        return gw_fail(err, GW_IO, "%s: is a folder", path);
    if (access(path, X_OK) < 0)
        return gw_fail(err, GW_IO, "%s: not executable (%s)", path, strerror(errno));
    return GW_OK;
}

static gw_status find_in_path(const char *name, gw_path out, gw_error *err)
{
    const char *path = getenv("PATH");
    if (path == NULL)
        path = "/bin:/usr/bin";
    gw_status found = gw_fail(err, GW_MISSING, "%s: command not found", name);
    while (true) {
        size_t bytes = strcspn(path, ":");
        gw_path candidate;
        if (gw_path_format(candidate, NULL, "%.*s%s%s", (int)bytes, path, bytes > 0 ? "/" : "", name) == GW_OK) {
            gw_error why;
            gw_status st = check_file(candidate, &why);
            if (st == GW_OK) {
                memcpy(out, candidate, sizeof candidate);
                return GW_OK;
            }
            if (st == GW_IO && found == GW_MISSING && access(candidate, F_OK) == 0)
                /* keep searching: a later folder may contain an executable file with this name */
                found = gw_fail(err, GW_IO, "%s", why.text);
        }
        if (path[bytes] == '\0')
            return found;
        path += bytes + 1;
    }
}

static gw_status find(const char *name, gw_path out, gw_error *err)
{
    if (name[0] == '\0')
        return gw_fail(err, GW_MISSING, "'': command not found");
    if (strchr(name, '/') == NULL)
        return find_in_path(name, out, err);
    gw_status st = gw_path_format(out, err, "%s", name);
    return st == GW_OK ? check_file(out, err) : st;
}

/* ---- reading its header ---- */

typedef struct elf_file {
    const unsigned char *data;
    size_t bytes;
} elf_file;

static bool within(const elf_file *image, uint64_t offset, uint64_t bytes)
{
    return offset <= image->bytes && bytes <= image->bytes - offset;
}

/* Copy the next word of a #! line, starting at *cursor. */
static bool next_word(const char **cursor, char *out, size_t bytes_max)
{
    *cursor += strspn(*cursor, " \t");
    size_t bytes = strcspn(*cursor, " \t\r\n");
    if (bytes == 0 || bytes >= bytes_max)
        return false;
    memcpy(out, *cursor, bytes);
    out[bytes] = '\0';
    *cursor += bytes;
    return true;
}

/* Find the program that `#! interpreter` or `#! /usr/bin/env [-S] [NAME=value] program` starts. */
static bool interpreter_of(const elf_file *image, gw_path out)
{
    char line[512] = "";
    size_t bytes = image->bytes - 2 < sizeof line - 1 ? image->bytes - 2 : sizeof line - 1;
    memcpy(line, image->data + 2, bytes);
    line[strcspn(line, "\n")] = '\0';
    const char *cursor = line;
    char word[256];
    if (!next_word(&cursor, word, sizeof word))
        return false;
    const char *base = strrchr(word, '/');
    if (base != NULL && strcmp(base, "/env") == 0) {
        do {
            if (!next_word(&cursor, word, sizeof word))
                return false;
        } while (word[0] == '-' || strchr(word, '=') != NULL);
    }
    return find(word, out, NULL) == GW_OK;
}

static const Elf64_Phdr *program_header(const elf_file *image, uint32_t type)
{
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)(const void *)image->data;
    if (head->e_phentsize != sizeof(Elf64_Phdr) || (head->e_phoff & 7) != 0 ||
        !within(image, head->e_phoff, (uint64_t)head->e_phnum * sizeof(Elf64_Phdr)))
        return NULL;
    const Elf64_Phdr *header = (const Elf64_Phdr *)(const void *)(image->data + head->e_phoff);
    for (uint16_t i = 0; i < head->e_phnum; i++)
        if (header[i].p_type == type)
            return &header[i];
    return NULL;
}

static uint64_t file_offset(const elf_file *image, uint64_t address)
{
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)(const void *)image->data;
    const Elf64_Phdr *header = (const Elf64_Phdr *)(const void *)(image->data + head->e_phoff);
    for (uint16_t i = 0; i < head->e_phnum; i++)
        if (header[i].p_type == PT_LOAD && address >= header[i].p_vaddr &&
            address - header[i].p_vaddr < header[i].p_filesz)
            return header[i].p_offset + (address - header[i].p_vaddr);
    return UINT64_MAX;
}

/* Return the entries of the dynamic section before DT_NULL. *ret_count is 0 if the section is missing or damaged. */
static const Elf64_Dyn *dynamic_entries(const elf_file *image, size_t *ret_count)
{
    *ret_count = 0;
    const Elf64_Phdr *dynamic = program_header(image, PT_DYNAMIC);
    if (dynamic == NULL || (dynamic->p_offset & 7) != 0 || !within(image, dynamic->p_offset, dynamic->p_filesz))
        return NULL;
    const Elf64_Dyn *entry = (const Elf64_Dyn *)(const void *)(image->data + dynamic->p_offset);
    while (*ret_count < dynamic->p_filesz / sizeof *entry && entry[*ret_count].d_tag != DT_NULL)
        (*ret_count)++;
    return entry;
}

/* A file without PT_INTERP is static. But one with a SONAME is a loader that was started directly (`ld.so program`),
 * and a loader honours LD_PRELOAD. */
static bool is_static(const elf_file *image)
{
    if (program_header(image, PT_INTERP) != NULL)
        return false;
    size_t count;
    const Elf64_Dyn *entry = dynamic_entries(image, &count);
    for (size_t i = 0; i < count; i++)
        if (entry[i].d_tag == DT_SONAME)
            return false;
    return true;
}

static bool is_sanitizer(const char *soname)
{
    static const char *const names[] = {"libasan.so", "libtsan.so", "liblsan.so", "libhwasan.so"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (gw_begins(soname, names[i]))
            return true;
    return false;
}

/* Find what the program is linked with: a sanitizer's runtime library (the program does not start if another library is
 * loaded before it), the driver, and the CUDA runtime. */
static void find_needed(const elf_file *image, gwi_program *program)
{
    size_t count;
    const Elf64_Dyn *entry = dynamic_entries(image, &count);
    uint64_t strings = UINT64_MAX, string_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        if (entry[i].d_tag == DT_STRTAB)
            strings = file_offset(image, entry[i].d_un.d_ptr);
        if (entry[i].d_tag == DT_STRSZ)
            string_bytes = entry[i].d_un.d_val;
    }
    if (strings == UINT64_MAX || string_bytes == 0 || !within(image, strings, string_bytes) ||
        image->data[strings + string_bytes - 1] != '\0')
        return;
    for (size_t i = 0; i < count; i++) {
        const char *soname = (const char *)image->data + strings + entry[i].d_un.d_val;
        if (entry[i].d_tag != DT_NEEDED || entry[i].d_un.d_val >= string_bytes)
            continue;
        if (is_sanitizer(soname))
            snprintf(program->sanitizer, sizeof program->sanitizer, "%s", soname);
        program->needs_driver = program->needs_driver || gw_begins(soname, "libcuda.so");
        program->needs_runtime = program->needs_runtime || gw_begins(soname, "libcudart.so") ||
                                 gw_begins(soname, "libtorch") || gw_begins(soname, "libtensorflow");
    }
}

static void look_into_elf(const elf_file *image, gwi_program *program)
{
    if (image->data[EI_CLASS] == ELFCLASS32) {
        program->is_32_bit = true;
        return;
    }
    if (image->bytes < sizeof(Elf64_Ehdr))
        return;
    program->is_static = is_static(image);
    find_needed(image, program);
}

static bool is_privileged(const char *path)
{
    struct stat stat_;
    if (stat(path, &stat_) < 0)
        return false;
    return ((stat_.st_mode & S_ISUID) != 0 && stat_.st_uid != geteuid()) ||
           ((stat_.st_mode & S_ISGID) != 0 && stat_.st_gid != getegid()) ||
           (geteuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0);
}

static void look_into(const char *path, gwi_program *program, int depth)
{
    elf_file image = {.data = MAP_FAILED};
    struct stat stat_;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return; /* executable but not readable, so its header is unknown */
    if (fstat(fd, &stat_) < 0 || !S_ISREG(stat_.st_mode) || stat_.st_size < 2)
        goto out;
    image.bytes = (size_t)stat_.st_size;
    image.data = mmap(NULL, image.bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (image.data == MAP_FAILED)
        goto out;
    if (image.bytes >= EI_NIDENT && memcmp(image.data, ELFMAG, SELFMAG) == 0) {
        snprintf(program->image, sizeof program->image, "%s", path);
        program->is_privileged = is_privileged(path);
        look_into_elf(&image, program);
    } else if (memcmp(image.data, "#!", 2) == 0 && depth < SCRIPT_DEPTH_MAX) {
        gw_path interpreter;
        if (interpreter_of(&image, interpreter))
            look_into(interpreter, program, depth + 1);
    }
out:
    if (image.data != MAP_FAILED)
        munmap((void *)(uintptr_t)image.data, image.bytes);
    close(fd);
}

gw_status gwi_program_find(char *const *argv, gwi_program *ret_program, gw_error *err)
{
    *ret_program = (gwi_program){0};
    gw_status st = find(argv[0], ret_program->path, err);
    if (st == GW_OK)
        look_into(ret_program->path, ret_program, 0);
    return st;
}

void gwi_program_meant(char *const *argv, const char *command, gw_text *text)
{
    struct stat info;
    char start[64] = "";
    const char *name = argv[0];
    int fd = stat(name, &info) == 0 && S_ISREG(info.st_mode) ? open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd < 0)
        return;
    bool is_script = read(fd, start, sizeof start - 1) > 2 && gw_begins(start, "#!");
    close(fd);
    start[strcspn(start, "\n")] = '\0';
    bool is_here = !gw_ends_with(name, ".sh") && !is_script;
    if (gw_ends_with(name, ".py") || (is_script && strstr(start, "python") != NULL))
        gw_text_addf(text, "; %s is a Python script: %s python3", name, command);
    else if (!is_here)
        gw_text_addf(text, "; %s is a script: %s sh", name, command);
    else if (strchr(name, '/') == NULL && access(name, X_OK) == 0)
        gw_text_addf(text, "; this folder has it: %s", command);
    else
        return;
    gw_add_shell_words(text, argv, is_here && !gw_ends_with(name, ".py") ? "./" : "");
}
