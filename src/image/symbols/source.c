/* Finds and identifies the source files of frames. */
#include "gwi_sites.h"

#include "gw_clock.h"
#include "gw_hash.h"
#include "gw_own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t ns_of(struct timespec time)
{
    return time.tv_sec < 0 ? 0 : (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

bool gw_source_path(const char *cwd, const char *file, char out[PATH_MAX])
{
    bool is_absolute = file[0] == '/';
    if (!is_absolute && cwd == NULL)
        return false;
    int bytes = snprintf(out, PATH_MAX, "%s%s%s", is_absolute ? "" : cwd, is_absolute ? "" : "/", file);
    return bytes > 0 && bytes < PATH_MAX;
}

bool gw_source_may_have_changed(const struct stat *info, uint64_t begun_realtime_ns, bool python, const char *module)
{
    struct stat built;
    /* the contents, the name or an attribute */
    if (ns_of(info->st_mtim) > begun_realtime_ns || ns_of(info->st_ctim) > begun_realtime_ns)
        return true;
    return !python && (module == NULL || stat(module, &built) != 0 || ns_of(info->st_mtim) > ns_of(built.st_mtim));
}

char *gw_source_read(int fd, size_t bytes_max, size_t *ret_bytes, char sha256[GW_SHA256_TEXT_MAX])
{
    struct stat info;
    if (fstat(fd, &info) != 0 || (uint64_t)info.st_size > bytes_max)
        return NULL;
    size_t total = 0, wanted = (size_t)info.st_size;
    char *data = malloc(wanted + 1); /* one byte more shows whether the file grows */
    ssize_t got = -1;
    while (data != NULL && (got = read(fd, data + total, wanted + 1 - total)) > 0)
        total += (size_t)got;
    if (got < 0 || total != wanted) {
        free(data);
        return NULL;
    }
    gw_sha256(data, total, sha256);
    *ret_bytes = total;
    return data;
}

/* ---- the files of all sites ---- */

enum { SOURCES_MAX = 1024 };

typedef struct source_list { /* distinct source files */
    gw_frame frame[SOURCES_MAX];
    uint64_t hash[SOURCES_MAX]; /* of the name */
    size_t count;
} source_list;

static void add_source(source_list *list, const gw_sites *sites, gw_frame frame)
{
    if (frame.file == NULL || list->count == SOURCES_MAX)
        return;
    uint64_t hash = gw_hash_bytes(GW_HASH_START, frame.file, strlen(frame.file));
    for (size_t i = 0; i < list->count; i++)
        if (list->hash[i] == hash)
            return;
    frame.whose = (uint8_t)gwi_whose(sites, &frame);
    if (frame.whose >= GW_WHOSE_RUNTIME)
        return;
    list->hash[list->count] = hash;
    list->frame[list->count++] = frame;
}

static void list_sources(const gw_sites *sites, source_list *list)
{
    for (uint32_t i = 0; i < sites->program_count * GWI_WRITERS; i++) {
        const gwi_codes *codes = &sites->program[i / GWI_WRITERS]->codes[i % GWI_WRITERS];
        for (uint32_t k = 0; k < codes->count; k++) {
            const gwi_code *code = &codes->code[k];
            if (code->file != NULL && gwi_is_python(code))
                add_source(list, sites, (gw_frame){.function = code->function, .file = code->file, .python = true});
        }
    }
    for (size_t i = 0; i < sites->symbol_count; i++) {
        const gw_symbol *symbol = &sites->symbol[i];
        for (uint32_t k = 0; k < symbol->count; k++) {
            const gw_symbol_frame *frame = &symbol->frame[k];
            add_source(list, sites,
                       (gw_frame){.function = frame->function, .file = frame->file, .module = symbol->path});
        }
    }
}

/* Compute the hash of a frame's file, if it has at most *left bytes and has not changed. */
static void hash_source(const gw_sites *sites, const gw_frame *frame, size_t *left, gw_source_sink *sink, void *user)
{
    char path[PATH_MAX], sha256[GW_SHA256_TEXT_MAX], *data = NULL;
    struct stat info;
    size_t bytes;
    int fd;
    if (!gw_source_path(sites->cwd, frame->file, path) || gw_plain_open(path, true, &fd, NULL) != GW_OK)
        return;
    if (fstat(fd, &info) == 0 &&
        !gw_source_may_have_changed(&info, sites->begun_realtime_ns, frame->python, frame->module))
        data = gw_source_read(fd, *left, &bytes, sha256);
    if (data != NULL) {
        *left -= bytes;
        sink(user, frame->file, sha256);
    }
    free(data);
    close(fd);
}

void gw_sites_sources(const gw_sites *sites, gw_source_sink *sink, void *user)
{
    enum { CPU_NS_MAX = 20000000 };
    uint64_t until_ns = gw_processor_ns() + CPU_NS_MAX;
    size_t left = GW_SOURCE_BYTES_MAX;
    source_list *list = calloc(1, sizeof *list);
    if (list == NULL)
        return;
    list_sources(sites, list);
    for (int whose = GW_WHOSE_OWN; whose < GW_WHOSE_RUNTIME; whose++)
        for (size_t i = 0; i < list->count && gw_processor_ns() < until_ns; i++)
            if (list->frame[i].whose == whose)
                hash_source(sites, &list->frame[i], &left, sink, user);
    free(list);
}
