/* Recognise CUDA libraries by their paths, keep lists of them and find conflicts between them. */
#include "gw_array.h"
#include "gw_fact.h"
#include "gw_libs.h"
#include "gw_own.h"
#include "gw_process.h"
#include "gw_text.h"

#include <dirent.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* Read the SONAME and version strings of libraries with elfutils, which handles damaged files. */

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

static const struct {
    const char *word, *file, *package;
} kinds[] = {
#define GW_X(name, word, file, package) {word, file, package},
    GW_LIBRARIES(GW_X)
#undef GW_X
};
_Static_assert(sizeof kinds / sizeof kinds[0] == GW_LIBRARY_KIND_COUNT, "one row a kind");

static const struct {
    const char *word, *words;
} places[] = {
#define GW_X(name, word, text) {word, text},
    GW_LIBRARY_PLACES(GW_X)
#undef GW_X
};

static const char *const froms[] = {"unknown", "file name", "SONAME", "package", "content"};

const char *gw_library_kind_text(gw_library_kind kind)
{
    return kinds[kind].word;
}

const char *gw_library_place_text(gw_library_place place)
{
    return places[place].word;
}

const char *gw_library_place_words(gw_library_place place)
{
    return places[place].words;
}

const char *gw_version_from_text(gw_version_from from)
{
    return froms[from];
}

char *gw_library_version_text(char out[GW_VERSION_TEXT_MAX], const gw_library *library)
{
    if (!library->is_major_only || library->version == 0)
        return gw_version_text(out, library->version);
    snprintf(out, GW_VERSION_TEXT_MAX, "%u.x", gw_version_part(library->version, 0));
    return out;
}

/* ---- the path ---- */

static gw_library_place place_of(const char *path)
{
    if (strstr(path, "/stubs/") != NULL)
        return GW_PLACE_STUBS;
    if (strstr(path, "/compat/") != NULL)
        return GW_PLACE_COMPAT;
    if (strstr(path, "/site-packages/") != NULL || strstr(path, "/dist-packages/") != NULL)
        return GW_PLACE_WHEEL;
    if (strstr(path, "conda") != NULL || strstr(path, "/mambaforge/") != NULL || strstr(path, "/envs/") != NULL)
        return GW_PLACE_CONDA;
    if (gw_begins(path, "/usr/local/cuda") || gw_begins(path, "/opt/cuda"))
        return GW_PLACE_TOOLKIT;
    if (gw_begins(path, "/usr/lib") || gw_begins(path, "/lib") || gw_begins(path, "/usr/local/lib"))
        return GW_PLACE_SYSTEM;
    return GW_PLACE_OTHER;
}

/* Find the kind of library for a name such as "libcudart.so.12" or "libcudart-d0da41ae.so.11.0". *ret_rest is the text
 * after the library's name, from "-", "_" or ".so". */
static bool kind_of(const char *base, gw_library_kind *ret_kind, const char **ret_rest)
{
    for (int i = 0; i < GW_LIBRARY_KIND_COUNT; i++) {
        const char *rest = base + strlen(kinds[i].file);
        bool part = i == GW_LIBRARY_CUDNN && gw_begins(base, kinds[i].file) && *rest == '_';
        if (!gw_begins(base, kinds[i].file) || !(part || *rest == '-' || gw_begins(rest, ".so")))
            continue;
        *ret_kind = (gw_library_kind)i;
        *ret_rest = rest;
        return true;
    }
    return false;
}

/* True for a file that is not one of the libraries in `kinds`, although its name starts like the name of one of
 * them. */
static bool is_other(const char *base)
{
    return gw_begins(base, "libnvrtc-builtins") || gw_begins(base, "libcudadebugger");
}

static void version_of_name(const char *behind_so, gw_library *library)
{
    gw_version version;
    const char *end;
    if (behind_so[0] != '.' || !gw_version_parse(behind_so + 1, &version, &end) || *end != '\0')
        return;
    bool one = strchr(behind_so + 1, '.') == NULL;
    /* the 1 of libcuda.so.1 is not a driver version, and a file libcudart.so.11.0 may be any version 11.x */
    bool is_driver = library->kind == GW_LIBRARY_DRIVER || library->kind == GW_LIBRARY_NVML ||
                     library->kind == GW_LIBRARY_PTX_COMPILER;
    if (one && is_driver)
        return;
    library->version = version;
    library->from = one ? GW_VERSION_FROM_SONAME : GW_VERSION_FROM_NAME;
    library->is_major_only = one || (library->kind == GW_LIBRARY_CUDART && version == gw_version_of(11, 0, 0) &&
                                     strcmp(behind_so, ".11.0") == 0);
}

bool gw_library_of_path(const char *path, gw_library *ret_library)
{
    gw_library library = {0};
    const char *rest, *base = gw_path_last(path);
    if (path == NULL || is_other(base) || !kind_of(base, &library.kind, &rest))
        return false;
    const char *so = strstr(rest, ".so");
    if (so == NULL || (so[3] != '\0' && so[3] != '.'))
        return false;
    if (*rest == '_')
        snprintf(library.part, sizeof library.part, "%.*s", (int)strcspn(rest + 1, ".-"), rest + 1);
    library.place = place_of(path);
    version_of_name(so + 3, &library);
    library.path = strdup(path);
    *ret_library = library;
    return true;
}

void gw_library_free(gw_library *library)
{
    free(library->path);
    free(library->soname);
    *library = (gw_library){0};
}

/* ---- the package ---- */

/* True if a directory such as "nvidia_cudnn_cu12-9.1.0.70.dist-info" belongs to a package such as "nvidia_cudnn". */
static bool is_package(const char *entry, const char *package, gw_version *ret_version)
{
    gw_version version;
    const char *end, *rest = entry + strlen(package);
    if (!gw_begins(entry, package))
        return false;
    if (gw_begins(rest, "_cu"))
        rest += 3 + strspn(rest + 3, "0123456789");
    if (*rest != '-' || !gw_version_parse(rest + 1, &version, &end) || strstr(end, ".dist-info") == NULL)
        return false;
    *ret_version = version;
    return true;
}

/* Return the length of the path up to and including "site-packages" or "dist-packages", or 0 if this is not an NVIDIA
 * package. */
static size_t packages_folder(const char *path)
{
    static const char *const names[] = {"/site-packages/nvidia/", "/dist-packages/nvidia/"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *at = strstr(path, names[i]);
        if (at != NULL)
            return (size_t)(at - path) + strlen("/site-packages");
    }
    return 0;
}

void gw_library_ask_package(const char *root, gw_library *library)
{
    const char *package = kinds[library->kind].package;
    size_t bytes = library->path == NULL ? 0 : packages_folder(library->path);
    gw_text folder = {0};
    if (package == NULL || bytes == 0 || (library->version != 0 && !library->is_major_only))
        return;
    gw_text_addf(&folder, "%s%.*s", root, (int)bytes, library->path);
    DIR *dir = opendir(gw_text_str(&folder));
    gw_version found = 0;
    bool several = false;
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        gw_version version;
        if (!is_package(entry->d_name, package, &version))
            continue;
        if (library->is_major_only && library->kind != GW_LIBRARY_NCCL &&
            gw_version_part(version, 0) != gw_version_part(library->version, 0))
            continue; /* this package has the same library in another major version */
        several = several || (found != 0 && found != version);
        found = version;
    }
    if (found != 0 && !several) {
        library->version = found;
        library->from = GW_VERSION_FROM_PACKAGE;
        library->is_major_only = false;
    }
    if (dir != NULL)
        closedir(dir);
    gw_text_free(&folder);
}

/* ---- the package of any file ---- */

/* True if one of the lines of the package's list of modules is `top`. */
static bool lists_module(const char *folder, const char *entry, const char *top, size_t top_bytes)
{
    char text[4096];
    if (gw_read_small(text, sizeof text, NULL, "%s%s/top_level.txt", folder, entry) <= 0)
        return false;
    for (const char *at = text; *at != '\0'; at += *at == '\n') {
        size_t bytes = strcspn(at, "\r\n");
        if (bytes == top_bytes && memcmp(at, top, bytes) == 0)
            return true;
        at += bytes + (at[bytes] == '\r');
    }
    return false;
}

/* Append "torch 2.9.0+cu128" if "torch-2.9.0+cu128.dist-info" is the package of the module `top`. The names of a
 * package and of its module may differ ("cupy_cuda12x" and "cupy"), but they begin alike. */
static bool take_package(const char *folder, const char *entry, const char *top, size_t top_bytes, gw_text *package)
{
    enum { ALIKE_BYTES = 4 };
    const char *end = strstr(entry, ".dist-info");
    size_t name_bytes = strcspn(entry, "-");
    if (end == NULL || entry + name_bytes >= end)
        return false;
    bool is_equal = name_bytes == top_bytes && strncasecmp(entry, top, top_bytes) == 0;
    if (!is_equal && (strncasecmp(entry, top, ALIKE_BYTES) != 0 || !lists_module(folder, entry, top, top_bytes)))
        return false;
    gw_text_addf(package, "%.*s %.*s", (int)name_bytes, entry, (int)(end - entry - (ptrdiff_t)name_bytes - 1),
                 entry + name_bytes + 1);
    return true;
}

/* Return the module of a file in a package, such as "torch/lib/libtorch.so". NULL: it is in none. */
static const char *module_of(const char *path)
{
    const char *site = strstr(path, "/site-packages/");
    site = site == NULL ? strstr(path, "/dist-packages/") : site;
    return site == NULL || packages_folder(path) != 0 ? NULL : site + sizeof "/site-packages/" - 1;
}

size_t gw_package_bytes(const char *path)
{
    const char *top = module_of(path);
    return top == NULL ? 0 : (size_t)(top - path) + strcspn(top, "/.");
}

void gw_package_of_path(const char *root, const char *path, gw_text *ret_package)
{
    const char *top = module_of(path);
    gw_text folder = {0};
    if (top == NULL)
        return;
    size_t top_bytes = strcspn(top, "/.");
    gw_text_addf(&folder, "%s%.*s", root, (int)(top - path), path);
    DIR *dir = opendir(gw_text_str(&folder));
    bool found = false;
    for (struct dirent *entry; dir != NULL && !found && (entry = readdir(dir)) != NULL;)
        found = take_package(gw_text_str(&folder), entry->d_name, top, top_bytes, ret_package);
    if (dir != NULL)
        closedir(dir);
    gw_text_free(&folder);
}

/* ---- lists ---- */

bool gw_libraries_add(gw_libraries *list, gw_library *library)
{
    bool known = library->path == NULL || list->count == GW_LIBRARIES_MAX;
    for (size_t i = 0; i < list->count && !known; i++)
        known = strcmp(list->item[i].path, library->path) == 0;
    if (known || !gw_array_room(&list->item, list->count, &list->capacity, sizeof *list->item)) {
        gw_library_free(library);
        return false;
    }
    list->item[list->count++] = *library;
    *library = (gw_library){0};
    return true;
}

void gw_libraries_free(gw_libraries *list)
{
    for (size_t i = 0; i < list->count; i++)
        gw_library_free(&list->item[i]);
    free(list->item);
    *list = (gw_libraries){0};
}

const gw_library *gw_libraries_find(const gw_libraries *list, gw_library_kind kind)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->item[i].kind == kind && list->item[i].part[0] == '\0')
            return &list->item[i];
    }
    return NULL;
}

/* ---- conflicts ---- */

static bool same_folder(const gw_library *a, const gw_library *b)
{
    size_t x = (size_t)(gw_path_last(a->path) - a->path), y = (size_t)(gw_path_last(b->path) - b->path);
    return x == y && memcmp(a->path, b->path, x) == 0;
}

static unsigned major_of(const gw_library *library)
{
    return gw_version_part(library->version, 0);
}

/* True if the known parts of the versions differ. Returns false if a version is unknown. */
static bool versions_differ(const gw_library *a, const gw_library *b)
{
    if (a->version == 0 || b->version == 0)
        return false;
    if (a->is_major_only || b->is_major_only)
        return major_of(a) != major_of(b);
    return a->version != b->version;
}

/* True if the two libraries may be in different folders: their major versions differ, and so their file names. */
static bool may_stand_apart(const gw_library *a, const gw_library *b)
{
    return major_of(a) != 0 && major_of(b) != 0 && major_of(a) != major_of(b);
}

static bool clash_of(const gw_library *a, const gw_library *b, gw_clash_kind *ret_kind)
{
    if (a->kind == GW_LIBRARY_DRIVER && b->kind == GW_LIBRARY_DRIVER) {
        *ret_kind = GW_CLASH_DRIVERS;
        return true;
    }
    bool halves = (a->kind == GW_LIBRARY_CUBLAS && b->kind == GW_LIBRARY_CUBLASLT) ||
                  (a->kind == GW_LIBRARY_CUBLASLT && b->kind == GW_LIBRARY_CUBLAS);
    if (same_folder(a, b) || (a->kind != b->kind && !halves))
        return false;
    if (a->kind == GW_LIBRARY_CUDNN && strcmp(a->part, b->part) != 0) {
        *ret_kind = versions_differ(a, b) ? GW_CLASH_CUDNN_VERSIONS : GW_CLASH_CUDNN_FOLDERS;
        return true;
    }
    if (may_stand_apart(a, b))
        return false;
    *ret_kind = GW_CLASH_COPIES;
    if (halves)
        *ret_kind = GW_CLASH_CUBLAS_FOLDERS;
    else if (a->kind == GW_LIBRARY_CUDNN && versions_differ(a, b))
        *ret_kind = GW_CLASH_CUDNN_VERSIONS;
    return true;
}

static bool has_clash(const gw_clash *clash, size_t count, gw_clash_kind kind, gw_library_kind library)
{
    for (size_t i = 0; i < count; i++) {
        if (clash[i].kind == kind && clash[i].a->kind == library)
            return true;
    }
    return false;
}

size_t gw_libraries_clashes(const gw_libraries *list, gw_clash *clash, size_t room)
{
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++) {
        const gw_library *a = &list->item[i];
        gw_clash_kind kind;
        if (a->place == GW_PLACE_STUBS && count < room && !has_clash(clash, count, GW_CLASH_STUB, a->kind))
            clash[count++] = (gw_clash){GW_CLASH_STUB, a, a};
        for (size_t k = i + 1; k < list->count && count < room; k++) {
            if (clash_of(a, &list->item[k], &kind) && !has_clash(clash, count, kind, a->kind))
                clash[count++] = (gw_clash){kind, a, &list->item[k]};
        }
    }
    return count;
}

/* ---- one line ---- */

void gw_library_to_line(const gw_library *library, gw_text *line)
{
    char version[GW_VERSION_TEXT_MAX];
    const gw_fact_library fact = {
        GW_FACT_SET(kind, gw_fact_text_of(kinds[library->kind].word)),
        GW_FACT_SET(part, gw_fact_text_of(library->part)),
        GW_FACT_SET(place, gw_fact_text_of(places[library->place].word)),
        GW_FACT_SET(version, gw_fact_text_of(gw_version_text(version, library->version))),
        GW_FACT_SET(from, (uint32_t)library->from),
        GW_FACT_SET(is_major_only, library->is_major_only),
        GW_FACT_SET(path, gw_fact_text_of(library->path)),
    };
    gw_fact_library_write(&fact, line);
}

bool gw_library_from_line(const char *line, gw_library *ret_library)
{
    gw_fact_library fact;
    gw_library library;
    gw_fact_library_read(gw_fact_text_of(line), &fact);
    /* The path is the last field, so it ends with the line. */
    if (!fact.has_path || !gw_library_of_path(fact.path.data, &library))
        return false;
    if (fact.has_version) {
        char version[GW_VERSION_TEXT_MAX];
        const char *end;
        gw_fact_text_copy(version, sizeof version, fact.version);
        if (!gw_version_parse(version, &library.version, &end))
            library.version = 0;
        library.from = fact.has_from && fact.from < sizeof froms / sizeof froms[0] ? (gw_version_from)fact.from
                                                                                   : GW_VERSION_UNKNOWN;
        library.is_major_only = fact.has_is_major_only && fact.is_major_only;
    }
    *ret_library = library;
    return true;
}
