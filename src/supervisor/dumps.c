/* `gpuwhy run --core`: ask the driver for a small GPU core dump when a kernel commits a fault, and read it afterwards.
 *
 * The driver writes the dump itself, then aborts the process. Its flag skip_abort is never asked for: with it a program
 * goes on after the fault with calls that answer success, and prints garbage. What the user has set stays: names of
 * files, and what the dump holds. */
#include "gwi_run.h"

#include "gw_clock.h"
#include "gw_gpucore.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PATH_BYTES_MAX = 1023, /* the driver's own limit for the name */
    DUMPS_MAX = 16,
    NAME_BYTES_MAX = 1000 /* of kernels and files, in the recording */
};
/* File systems stamp with the clock of the last tick. */
static const uint64_t stamp_slack_ns = 20000000u;

static const char file_variable[] = "CUDA_COREDUMP_FILE";
static const char flags_variable[] = "CUDA_COREDUMP_GENERATION_FLAGS";

/* ---- before ---- */

static bool choose_file(gwi_dumps *dumps, const gwi_record *record, const char *run_folder)
{
    const char *ending = strrchr(record->path, '.');
    size_t bytes =
        ending != NULL && strcmp(ending, ".gpuwhy") == 0 ? (size_t)(ending - record->path) : strlen(record->path);
    dumps->is_temporary = record->path[0] == '\0' || record->is_temporary || strchr(record->path, '%') != NULL ||
                          bytes + sizeof ".1234567890.cudacore" > PATH_BYTES_MAX;
    if (!dumps->is_temporary)
        return gwi_path_format(dumps->pattern, NULL, "%.*s.%%p.cudacore", (int)bytes, record->path) == GW_OK;
    return run_folder[0] != '\0' && gwi_path_format(dumps->pattern, NULL, "%s/gpu.%%p.cudacore", run_folder) == GW_OK;
}

void gwi_dumps_ask(gwi_dumps *dumps, const gwi_record *record, const char *run_folder)
{
    const char *own = getenv(file_variable), *flags = getenv(flags_variable);
    *dumps = (gwi_dumps){.asked = true, .since_realtime_ns = gw_realtime_ns()};
    if (own != NULL && own[0] != '\0') {
        if (gwi_path_format(dumps->pattern, NULL, "%s", own) != GW_OK)
            dumps->pattern[0] = '\0';
    } else if (choose_file(dumps, record, run_folder)) {
        setenv(file_variable, dumps->pattern, 1);
    }
    setenv("CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "1", 1);
    setenv("CUDA_ENABLE_LIGHTWEIGHT_COREDUMP", "1", 0);
    if (flags == NULL || flags[0] == '\0')
        setenv(flags_variable,
               "skip_nonrelocated_elf_images,skip_global_memory,skip_shared_memory,skip_local_memory,"
               "skip_constbank_memory",
               1);
    else if (strstr(flags, "skip_abort") != NULL)
        gwi_say(
            "%s holds skip_abort: after a fault on the GPU the program will go on, and what it then computes is not "
            "to be trusted",
            flags_variable);
}

/* ---- finding the files ---- */

typedef struct found_dump {
    gwi_path path;
    uint64_t bytes, written_at_ns; /* run time */
    uint32_t pid;                  /* 0: its name holds no number of a recorded process */
} found_dump;

/* The driver's %h, %p and %t as a pattern of fnmatch; other signs stand for themselves. */
static bool as_fnmatch(const char *name, char *out, size_t bytes_max)
{
    size_t used = 0;
    for (const char *at = name; *at != '\0'; at++) {
        if (used + 3 > bytes_max)
            return false;
        if (*at == '%' && at[1] != '\0') {
            out[used++] = '*';
            at++;
            continue;
        }
        if (strchr("*?[]\\", *at) != NULL)
            out[used++] = '\\';
        out[used++] = *at;
    }
    out[used] = '\0';
    return true;
}

/* The last run of digits in the name that is the number of a process we know. */
static uint32_t pid_in(const char *name, const gwi_record *record, pid_t command)
{
    uint32_t pid = 0;
    for (const char *at = name; *at != '\0'; at++) {
        if (!isdigit((unsigned char)*at))
            continue;
        char *end;
        unsigned long number = strtoul(at, &end, 10);
        if (number == (unsigned long)command ||
            (number <= UINT32_MAX && gwi_record_has_process(record, (uint32_t)number)))
            pid = (uint32_t)number;
        at = end - 1;
    }
    return pid;
}

static bool look_at_file(const gwi_dumps *dumps, const gwi_record *record, pid_t command, const char *folder,
                         const char *name, found_dump *ret_dump)
{
    struct stat facts;
    if (gwi_path_format(ret_dump->path, NULL, "%s/%s", folder, name) != GW_OK || stat(ret_dump->path, &facts) != 0 ||
        !S_ISREG(facts.st_mode))
        return false;
    uint64_t written_ns = (uint64_t)facts.st_mtim.tv_sec * 1000000000u + (uint64_t)facts.st_mtim.tv_nsec;
    if (written_ns + stamp_slack_ns < dumps->since_realtime_ns)
        return false; /* an earlier run's */
    uint64_t now_ns = gwi_record_now_ns(record), realtime_ns = gw_realtime_ns();
    uint64_t ago_ns = realtime_ns > written_ns ? realtime_ns - written_ns : 0;
    ret_dump->bytes = (uint64_t)facts.st_size;
    ret_dump->written_at_ns = now_ns > ago_ns ? now_ns - ago_ns : 0;
    ret_dump->pid = pid_in(name, record, command);
    return true;
}

static int by_time(const void *a, const void *b)
{
    const found_dump *x = a, *y = b;
    return x->written_at_ns < y->written_at_ns ? -1 : x->written_at_ns > y->written_at_ns;
}

/* The dumps of this run, oldest first. Their count; *ret_list is the caller's. */
static size_t find_files(const gwi_dumps *dumps, const gwi_record *record, pid_t command, found_dump **ret_list)
{
    gwi_path folder_copy, name_copy;
    char pattern[2 * NAME_MAX + 3];
    size_t count = 0;
    *ret_list = NULL;
    snprintf(folder_copy, sizeof folder_copy, "%s", dumps->pattern);
    snprintf(name_copy, sizeof name_copy, "%s", dumps->pattern);
    const char *folder = dirname(folder_copy), *name = basename(name_copy);
    if (strchr(folder, '%') != NULL || !as_fnmatch(name, pattern, sizeof pattern))
        return 0;
    DIR *entries = opendir(folder);
    found_dump *list = entries == NULL ? NULL : calloc(DUMPS_MAX, sizeof *list);
    for (struct dirent *entry; list != NULL && count < DUMPS_MAX && (entry = readdir(entries)) != NULL;)
        if (fnmatch(pattern, entry->d_name, 0) == 0 &&
            look_at_file(dumps, record, command, folder, entry->d_name, &list[count]))
            count++;
    if (entries != NULL)
        closedir(entries);
    if (count > 0)
        qsort(list, count, sizeof *list, by_time);
    *ret_list = list;
    return count;
}

/* ---- what they say, into the recording ---- */

/* A line "name=value". A line's end within the value would begin another one. */
static void add_text(gw_text *text, const char *name, const char *value)
{
    if (value == NULL)
        return;
    gw_text_addf(text, "%s=", name);
    size_t begin = text->bytes;
    gw_text_addf(text, "%.*s", NAME_BYTES_MAX, value);
    for (size_t i = begin; text->data != NULL && i < text->bytes; i++)
        if (text->data[i] == '\n')
            text->data[i] = '?';
    gw_text_add_str(text, "\n");
}

static void add_three(gw_text *text, const char *name, const uint32_t value[3])
{
    gw_text_addf(text, "%s=%u,%u,%u\n", name, value[0], value[1], value[2]);
}

static void put(gwi_record *record, const found_dump *found, const char *key, const gw_text *value)
{
    gw_item item = {.kind = GW_ITEM_SUPERVISOR, .t_ns = found->written_at_ns, .pid = found->pid};
    item.pair.key = key;
    item.pair.value = gw_text_str(value);
    if (!value->failed)
        gwi_record_put(record, &item);
}

static void put_fault(gwi_record *record, const found_dump *found, const gw_gpucore_fault *fault)
{
    char name[GW_GPUCORE_NAME_MAX];
    gw_text text = {0};
    gw_text_addf(&text, "exception=%u\nname=%s\nresult=%u\ndevice=%u\nsm=%u\ncount=%" PRIu64 "\n", fault->exception,
                 gw_gpucore_exception_name(name, fault->exception), gw_gpucore_exception_result(fault->exception),
                 fault->device, fault->sm, fault->count);
    if (fault->has_thread) {
        add_three(&text, "block", fault->block);
        add_three(&text, "thread", fault->thread);
    }
    if (fault->has_grid) {
        add_three(&text, "grid_dim", fault->grid_dim);
        add_three(&text, "block_dim", fault->block_dim);
    }
    if (fault->has_pc)
        gw_text_addf(&text, "pc=0x%" PRIx64 "\n", fault->pc);
    add_text(&text, "kernel", fault->kernel);
    add_text(&text, "function", fault->function);
    if (fault->function != NULL)
        gw_text_addf(&text, "offset=%" PRIu64 "\n", fault->offset);
    add_text(&text, "file", fault->file);
    if (fault->file != NULL)
        gw_text_addf(&text, "line=%u\n", fault->line);
    put(record, found, "gpucore.fault", &text);
    gw_text_free(&text);
}

static void put_file(gwi_record *record, const gwi_dumps *dumps, const found_dump *found, const gw_gpucore *core,
                     const char *refused)
{
    gw_text text = {0};
    add_text(&text, "path", found->path);
    gw_text_addf(&text, "bytes=%" PRIu64 "\nkept=%d\n", found->bytes, !dumps->is_temporary);
    add_text(&text, "refused", refused);
    if (core != NULL) {
        gw_text_addf(&text, "faults=%zu\nbeyond=%" PRIu64 "\nskip_abort=%d\n", core->fault_count, core->faults_beyond,
                     core->has_flags && (core->flags & GW_GPUCORE_SKIP_ABORT) != 0);
        add_text(&text, "card", core->device_name);
    }
    put(record, found, "gpucore.file", &text);
    gw_text_free(&text);
}

static void take_one(const gwi_dumps *dumps, gwi_record *record, const found_dump *found)
{
    gw_gpucore *core = NULL;
    gw_error err = {0};
    int fd = open(found->path, O_RDONLY | O_CLOEXEC);
    gw_status st = fd < 0 ? gw_fail(&err, GW_IO, "open %s: %s", found->path, strerror(errno))
                          : gw_gpucore_read(fd, found->path, &core, &err);
    put_file(record, dumps, found, core, st == GW_OK ? NULL : err.text);
    for (size_t i = 0; core != NULL && i < core->fault_count; i++)
        put_fault(record, found, &core->fault[i]);
    gw_gpucore_free(core);
    if (fd >= 0)
        close(fd);
}

void gwi_dumps_take(const gwi_dumps *dumps, gwi_record *record, pid_t command)
{
    found_dump *list = NULL;
    size_t count = dumps->asked && dumps->pattern[0] != '\0' ? find_files(dumps, record, command, &list) : 0;
    for (size_t i = 0; i < count; i++)
        take_one(dumps, record, &list[i]);
    free(list);
}

void gwi_dumps_forbid(void)
{
    unsetenv("CUDA_ENABLE_COREDUMP_ON_EXCEPTION");
}
