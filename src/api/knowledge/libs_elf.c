/* Read the SONAME and version strings of libraries with elfutils, which handles damaged files. */
#include "gw_libs.h"
#include "gw_own.h"
#include "gw_text.h"

#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void read_soname(Elf *elf, gw_library *library)
{
    for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section)) != NULL;) {
        GElf_Shdr head;
        if (gelf_getshdr(section, &head) == NULL || head.sh_type != SHT_DYNAMIC || head.sh_entsize == 0)
            continue;
        Elf_Data *data = elf_getdata(section, NULL);
        size_t count = head.sh_size / head.sh_entsize;
        for (size_t i = 0; data != NULL && i < count && i <= 4096; i++) {
            GElf_Dyn entry;
            if (gelf_getdyn(data, (int)i, &entry) == NULL || entry.d_tag == DT_NULL)
                return;
            const char *name =
                entry.d_tag == DT_SONAME ? elf_strptr(elf, head.sh_link, (size_t)entry.d_un.d_val) : NULL;
            if (name == NULL)
                continue;
            free(library->soname);
            library->soname = strdup(name);
            return;
        }
    }
}

/* Find the version of NCCL, whose data contains a string such as "NCCL version 2.20.5+cuda12.4". */
static bool version_in(const Elf_Data *data, gw_version *ret_version)
{
    static const char mark[] = "NCCL version ";
    const char *at = data->d_buf, *end = at + data->d_size;
    while ((at = memmem(at, (size_t)(end - at), mark, sizeof mark - 1)) != NULL) {
        char text[GW_VERSION_TEXT_MAX] = "";
        at += sizeof mark - 1;
        size_t bytes = (size_t)(end - at) < sizeof text - 1 ? (size_t)(end - at) : sizeof text - 1;
        memcpy(text, at, bytes);
        const char *rest;
        if (gw_version_parse(text, ret_version, &rest))
            return true;
    }
    return false;
}

static void read_content(Elf *elf, gw_library *library)
{
    enum { BYTES_MAX = 32 << 20 };
    size_t names;
    if (library->kind != GW_LIBRARY_NCCL || (library->version != 0 && !library->is_major_only) ||
        elf_getshdrstrndx(elf, &names) != 0)
        return;
    for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section)) != NULL;) {
        GElf_Shdr head;
        const char *name = gelf_getshdr(section, &head) == NULL ? NULL : elf_strptr(elf, names, head.sh_name);
        if (name == NULL || strcmp(name, ".rodata") != 0 || head.sh_size > BYTES_MAX)
            continue;
        const Elf_Data *data = elf_rawdata(section, NULL);
        if (data == NULL || data->d_buf == NULL || !version_in(data, &library->version))
            continue;
        library->from = GW_VERSION_FROM_CONTENT;
        library->is_major_only = false;
        return;
    }
}

void gw_library_read(const char *root, gw_library *library)
{
    gw_text path = {0};
    gw_text_addf(&path, "%s%s", root, library->path == NULL ? "" : library->path);
    int fd = -1;
    (void)!gw_plain_open(gw_text_str(&path), true, &fd, NULL); /* the file may have been replaced since it was loaded */
    Elf *elf = fd < 0 || elf_version(EV_CURRENT) == EV_NONE ? NULL : elf_begin(fd, ELF_C_READ, NULL);
    if (elf != NULL && elf_kind(elf) == ELF_K_ELF) {
        read_soname(elf, library);
        read_content(elf, library);
    }
    elf_end(elf); /* elf_end() accepts NULL */
    if (fd >= 0)
        close(fd);
    gw_text_free(&path);
}
