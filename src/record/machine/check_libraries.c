/* Check for several copies of CUDA libraries. Only a copy in a folder of LD_LIBRARY_PATH is a problem: every
 * process uses it. */
#include "gw_libs.h"
#include "gwi_doctor.h"

#include <stdio.h>
#include <string.h>

static const char section[] = "libraries";

static void read_all(const gw_facts *facts, gw_libraries *list)
{
    long long count = gwi_library_count(facts);
    for (long long i = 0; i < count; i++) {
        gw_library library;
        const char *line = gw_facts_getf(facts, "library.%03lld", i);
        if (line != NULL && gw_library_from_line(line, &library))
            (void)gw_libraries_add(list, &library);
    }
}

/* True if the file is in a folder of LD_LIBRARY_PATH. */
static bool is_forced(const gw_facts *facts, const gw_library *library)
{
    const char *path = gw_facts_get(facts, "env.LD_LIBRARY_PATH");
    size_t folder = (size_t)(gw_path_last(library->path) - library->path);
    for (const char *at = path; at != NULL && *at != '\0';) {
        size_t bytes = strcspn(at, ":");
        while (bytes > 1 && at[bytes - 1] == '/')
            bytes--;
        if (bytes + 1 == folder && memcmp(at, library->path, bytes) == 0)
            return true;
        at += strcspn(at, ":");
        at += *at == ':';
    }
    return false;
}

static const gw_library *find_copy(const gw_libraries *list, gw_library_kind kind, gw_library_place place,
                                   bool is_place)
{
    for (size_t i = 0; i < list->count; i++) {
        const gw_library *library = &list->item[i];
        if (library->kind == kind && library->part[0] == '\0' && (library->place == place) == is_place)
            return library;
    }
    return NULL;
}

/* Report a copy in LD_LIBRARY_PATH that the loader uses instead of the copy of an installed Python package. */
static bool check_forced(const gw_facts *facts, gw_checkup *checkup, const gw_libraries *list, gw_library_kind kind)
{
    const gw_library *own = find_copy(list, kind, GW_PLACE_WHEEL, true);
    for (size_t i = 0; i < list->count; i++) {
        const gw_library *library = &list->item[i];
        char version[GW_VERSION_TEXT_MAX], own_version[GW_VERSION_TEXT_MAX];
        if (library->kind != kind || library->place == GW_PLACE_WHEEL || own == NULL || !is_forced(facts, library))
            continue;
        if (library->version != 0 && own->version != 0 &&
            gw_version_part(library->version, 0) != gw_version_part(own->version, 0))
            continue; /* libraries of different major versions have different file names, so they do not conflict */
        if (library->version == own->version && !library->is_major_only && !own->is_major_only)
            continue;
        gwi_check(checkup, section, "cudnn-mixed-libraries", GW_CHECK_WARN,
                  "Unset LD_LIBRARY_PATH, or remove that folder from it: the package has its own copy",
                  "LD_LIBRARY_PATH puts %s (%s) before the package's %s (%s)", library->path,
                  gw_library_version_text(version, library), gw_library_kind_text(kind),
                  gw_library_version_text(own_version, own));
        return true;
    }
    return false;
}

static void say_copies(gw_checkup *checkup, const gw_libraries *list, gw_library_kind kind)
{
    gw_text text = {0};
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++) {
        char version[GW_VERSION_TEXT_MAX];
        if (list->item[i].kind != kind || list->item[i].part[0] != '\0')
            continue;
        gw_text_addf(&text, "%s%s in %s", count > 0 ? ", " : "", gw_library_version_text(version, &list->item[i]),
                     gw_library_place_words(list->item[i].place));
        count++;
    }
    if (count > 0)
        gwi_check(checkup, section, gw_library_kind_text(kind), GW_CHECK_PASS, NULL, "%s: %s",
                  gw_library_kind_text(kind), gw_text_str(&text));
    gw_text_free(&text);
}

/* Report cuDNN libraries of different versions in one folder: all parts of cuDNN must have the same version. */
static void check_parts(gw_checkup *checkup, const gw_libraries *list)
{
    for (size_t i = 0; i < list->count; i++) {
        for (size_t k = i + 1; k < list->count; k++) {
            const gw_library *a = &list->item[i], *b = &list->item[k];
            size_t folder = (size_t)(gw_path_last(a->path) - a->path);
            if (a->kind != GW_LIBRARY_CUDNN || b->kind != GW_LIBRARY_CUDNN || a->is_major_only || b->is_major_only ||
                a->version == 0 || b->version == 0 || a->version == b->version ||
                gw_version_part(a->version, 0) != gw_version_part(b->version, 0) ||
                folder != (size_t)(gw_path_last(b->path) - b->path) || memcmp(a->path, b->path, folder) != 0)
                continue;
            gwi_check(checkup, section, "cudnn-mixed-libraries", GW_CHECK_FAIL, "Install one complete version of cuDNN",
                      "%s and %s are in one folder: parts of two versions", a->path, gw_path_last(b->path));
            return;
        }
    }
}

void gwi_check_libraries(const gw_facts *facts, gw_checkup *checkup)
{
    static const gw_library_kind forced[] = {GW_LIBRARY_CUDNN, GW_LIBRARY_CUBLAS, GW_LIBRARY_CUBLASLT, GW_LIBRARY_NCCL};
    gw_libraries list = {0};
    read_all(facts, &list);
    check_parts(checkup, &list);
    for (size_t i = 0; i < sizeof forced / sizeof forced[0]; i++)
        (void)check_forced(facts, checkup, &list, forced[i]);
    say_copies(checkup, &list, GW_LIBRARY_CUDNN);
    say_copies(checkup, &list, GW_LIBRARY_NCCL);
    gw_libraries_free(&list);
}
