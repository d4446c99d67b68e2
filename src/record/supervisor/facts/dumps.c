/* `gpuwhy run --core`: makes the driver write a small GPU core dump when a kernel faults, and reads it afterwards.
 *
 * The driver then aborts the process. Never set its flag skip_abort: the program would continue with garbage results,
 * and its calls would return success.
 *
 * The user's own settings for dumps are kept. */
#include "gwi_run.h"

#include "gw_clock.h"
#include "gw_fact.h"
#include "gw_gpucore.h"
#include "gw_own.h"
#include "gw_say.h"
#include "gw_text.h"

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
    PATH_BYTES_MAX = 1023, /* the driver's limit for the length of file names */
    DUMPS_MAX = 16
};
/* A file's time stamp may be earlier than the real time by this much, because the kernel uses the time of its last
 * clock tick. */
static const uint64_t stamp_slack_ns = 20000000u;

static const char file_variable[] = "CUDA_COREDUMP_FILE";
static const char flags_variable[] = "CUDA_COREDUMP_GENERATION_FLAGS";

/* ---- before the run ---- */

static bool choose_file(gwi_dumps *dumps, const gwi_record *record, const char *run_folder)
{
    int bytes = gwi_record_stem_bytes(record);
    dumps->is_temporary = record->path[0] == '\0' || record->is_temporary || strchr(record->path, '%') != NULL ||
                          (size_t)bytes + sizeof ".1234567890.cudacore" > PATH_BYTES_MAX;
    if (!dumps->is_temporary)
        return gw_path_format(dumps->pattern, NULL, "%.*s.%%p.cudacore", bytes, record->path) == GW_OK;
    return run_folder[0] != '\0' && gw_path_format(dumps->pattern, NULL, "%s/gpu.%%p.cudacore", run_folder) == GW_OK;
}

void gwi_dumps_ask(gwi_dumps *dumps, const gwi_record *record, const char *run_folder)
{
    const char *own = getenv(file_variable), *flags = getenv(flags_variable);
    *dumps = (gwi_dumps){.asked = true, .since_realtime_ns = gw_realtime_ns()};
    if (own != NULL && own[0] != '\0') {
        if (gw_path_format(dumps->pattern, NULL, "%s", own) != GW_OK)
            dumps->pattern[0] = '\0';
    } else if (choose_file(dumps, record, run_folder)) {
        dumps->is_our_name = setenv(file_variable, dumps->pattern, 1) == 0;
    }
    setenv("CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "1", 1);
    setenv("CUDA_ENABLE_LIGHTWEIGHT_COREDUMP", "1", 0);
    if (flags == NULL || flags[0] == '\0')
        setenv(flags_variable,
               "skip_nonrelocated_elf_images,skip_global_memory,skip_shared_memory,skip_local_memory,"
               "skip_constbank_memory",
               1);
    else if (strstr(flags, "skip_abort") != NULL)
        gw_say(
            "%s contains skip_abort: after a fault on the GPU the program will continue, and its results may be wrong",
            flags_variable);
}

/* ---- finding the files ---- */

typedef struct found_dump {
    gw_path path;
    uint64_t bytes, written_at_ns; /* written_at_ns: time in the run at which the file was written */
    uint32_t pid;                  /* pid in the file name; 0: the name has no pid of a recorded process */
} found_dump;

/* Convert a file name with the driver's placeholders %h, %p and %t to a pattern for fnmatch(). */
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

/* Return the last number in the name that is the pid of the command or of a recorded process; 0 if none. */
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
    if (gw_path_format(ret_dump->path, NULL, "%s/%s", folder, name) != GW_OK || stat(ret_dump->path, &facts) != 0 ||
        !S_ISREG(facts.st_mode))
        return false;
    uint64_t written_ns = (uint64_t)facts.st_mtim.tv_sec * 1000000000u + (uint64_t)facts.st_mtim.tv_nsec;
    if (written_ns + stamp_slack_ns < dumps->since_realtime_ns)
        return false; /* the file is from an earlier run */
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

/* Find the dumps of this run, at most DUMPS_MAX, and store them in *ret_list, oldest first. Returns their number. The
 * caller frees *ret_list. */
static size_t find_files(const gwi_dumps *dumps, const gwi_record *record, pid_t command, found_dump **ret_list)
{
    gw_path folder_copy, name_copy;
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

/* ---- recording their contents ---- */

static gw_fact_THREE three_of(const uint32_t value[3])
{
    return (gw_fact_THREE){{value[0], value[1], value[2]}};
}

static void put(gwi_record *record, const found_dump *found, gw_fact_key key, const gw_text *value)
{
    gw_item item = {.kind = GW_ITEM_SUPERVISOR, .t_ns = found->written_at_ns, .pid = found->pid};
    item.pair.key = gw_fact_key_text(key);
    item.pair.value = gw_text_str(value);
    if (!value->failed)
        gwi_record_put(record, &item);
}

static void put_fault(gwi_record *record, const found_dump *found, const gw_gpucore_fault *fault)
{
    char name[GW_GPUCORE_NAME_MAX];
    gw_text text = {0};
    const gw_fact_gpu_fault fact = {
        GW_FACT_SET(exception, fault->exception),
        GW_FACT_SET(name, gw_fact_text_of(gw_gpucore_exception_name(name, fault->exception))),
        GW_FACT_SET(result, gw_gpucore_exception_result(fault->exception)),
        GW_FACT_SET(device, fault->device),
        GW_FACT_SET(sm, fault->sm),
        GW_FACT_SET(count, fault->count),
        .has_block = fault->has_thread,
        .block = three_of(fault->block),
        .has_thread = fault->has_thread,
        .thread = three_of(fault->thread),
        .has_grid_dim = fault->has_grid,
        .grid_dim = three_of(fault->grid_dim),
        .has_block_dim = fault->has_grid,
        .block_dim = three_of(fault->block_dim),
        .has_pc = fault->has_pc,
        .pc = fault->pc,
        .has_kernel = fault->kernel != NULL,
        .kernel = gw_fact_text_of(fault->kernel),
        .has_function = fault->function != NULL,
        .function = gw_fact_text_of(fault->function),
        .has_offset = fault->function != NULL,
        .offset = fault->offset,
        .has_file = fault->file != NULL,
        .file = gw_fact_text_of(fault->file),
        .has_line = fault->file != NULL,
        .line = fault->line,
    };
    gw_fact_gpu_fault_write(&fact, &text);
    put(record, found, GW_FACT_GPUCORE_FAULT, &text);
    gw_text_free(&text);
}

static void put_file(gwi_record *record, const gwi_dumps *dumps, const found_dump *found, const gw_gpucore *core,
                     const char *refused)
{
    gw_text text = {0};
    gw_fact_gpu_dump fact = {
        GW_FACT_SET(path, gw_fact_text_of(found->path)),
        GW_FACT_SET(bytes, found->bytes),
        GW_FACT_SET(kept, !dumps->is_temporary),
        .has_refused = refused != NULL,
        .refused = gw_fact_text_of(refused),
    };
    if (core != NULL) {
        fact.has_faults = fact.has_beyond = fact.has_skip_abort = true;
        fact.faults = core->fault_count;
        fact.beyond = core->faults_beyond;
        fact.skip_abort = core->has_flags && (core->flags & GW_GPUCORE_SKIP_ABORT) != 0;
        fact.has_card = core->device_name != NULL;
        fact.card = gw_fact_text_of(core->device_name);
    }
    gw_fact_gpu_dump_write(&fact, &text);
    put(record, found, GW_FACT_GPUCORE_FILE, &text);
    gw_text_free(&text);
}

static void take_one(const gwi_dumps *dumps, gwi_record *record, const found_dump *found)
{
    gw_gpucore *core = NULL;
    gw_error err = {0};
    int fd = -1;
    gw_status st = gw_plain_open(found->path, false, &fd, &err);
    if (st != GW_OK)
        gw_wrap(&err, "open %s", found->path);
    else
        st = gw_gpucore_read(fd, found->path, &core, &err);
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

void gwi_dumps_end(gwi_dumps *dumps)
{
    if (dumps->is_our_name)
        unsetenv(file_variable);
    dumps->is_our_name = false;
}

void gwi_dumps_forbid(void)
{
    unsetenv("CUDA_ENABLE_COREDUMP_ON_EXCEPTION");
}
