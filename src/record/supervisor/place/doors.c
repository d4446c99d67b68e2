/* Gets the hook into the program, by libraries that the code calls "doors". The facade is preloaded under the
 * driver's name, and its folder is first in the library path. This folder also has the library that PyTorch's
 * allocator calls (gw_c10_door.h).
 *
 * The supervisor and the libraries in the program talk by environment variables. gwi_doors_enter() sets all but
 * those with a star, which are for tests and experiments.
 *
 *   GPUWHY_RUN_DIR         the run folder, where the hook creates its buffers; unset: nothing is recorded
 *   GPUWHY_STDERR          the ring to which libgpuwhy-stderr.so copies what is written to stderr (gw_stderr_door.h)
 *   GPUWHY_HANDOUT         the socket from which a process that cannot create a buffer gets one (gw_handout.h)
 *   GPUWHY_FILTERS         number of filters of system calls (seccomp) that let the supervisor's rare calls pass
 *   GPUWHY_OFF=1           * the hook passes everything through
 *   GPUWHY_MEMORY          the guard's limit in bytes for each device
 *   GPUWHY_MEMORY_SHARED   1: the processes of the run share this limit
 *   GPUWHY_INJECT          the plan of injected failures (gw_inject.h)
 *   GPUWHY_FENCE           on, exit: what to do with calls after a sticky error
 *   GPUWHY_REHEARSE        BYTES[,iterations=N]: rehearse for a card of that size (0: the card's own)
 *   GPUWHY_ATTACH=0        no observer in PyTorch or JAX
 *   GPUWHY_SITES=0         no call sites
 *   GPUWHY_CATCH_CRASH=1   record address and stack of SIGSEGV, SIGBUS, SIGILL and SIGFPE
 *   GPUWHY_DEEP=1          PyTorch's memory history with Python stacks, from the start
 *   GPUWHY_COURSE=0        * do not follow PyTorch's allocations (gwi_course.h)
 *   GPUWHY_ALLOCATIONS=1   write PyTorch's latest allocations at the program's end, too (gwi_course.h)
 *   GPUWHY_HISTORY         * entries of PyTorch's memory history; 0: none; unset: see gwi_observer.h
 *   GPUWHY_VIRTUAL         the virtual card's specification, such as 2xh200,memory=16GiB
 *   GPUWHY_VIRTUAL_DIR     the folder in which the processes of a run share the cards' state */
#include "gw_virt_spec.h"
#include "gwi_run.h"

#include "gw_c10_door.h"
#include "gw_facade.h"
#include "gw_filter.h"
#include "gw_hash.h"
#include "gw_own.h"
#include "gw_stderr_door.h"
#include "gw_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Finds the driver library and NVML of the virtual cards. They are installed beside our other libraries. */

static gw_status choose_virtual(gwi_doors *doors, const char *specification, const gwi_program *program, gw_error *err)
{
    (void)program;
    doors->is_virtual = true;
    doors->virtual_specification = specification;
    if (specification[0] == '\0')
        return gw_fail(err, GW_USAGE, "--gpu virtual: name a card, for example virtual:h200");
    gw_status st = gw_virt_spec_check(specification, err);
    if (st != GW_OK) {
        gw_wrap(err, "--gpu virtual:%s", specification);
        return st;
    }
    st = gw_library_find("virtual/nvml", doors->nvml_folder, err);
    return st == GW_OK ? gw_library_find("virtual/libcuda.so.1", doors->driver, err) : st;
}

const gwi_gpu_source gwi_source_virtual = {"virtual", choose_virtual};

/* Finds the real driver: the one that the program would load without gpuwhy. */

static gw_status choose_real(gwi_doors *doors, const char *specification, const gwi_program *program, gw_error *err)
{
    if (specification[0] != '\0')
        return gw_fail(err, GW_USAGE, "--gpu real:%s: the real GPU has no specification", specification);
    char *found = NULL;
    gw_status st = gw_driver_locate(program->image[0] == '\0' ? program->path : program->image,
                                    getenv("LD_LIBRARY_PATH"), &found, err);
    if (st == GW_OK)
        st = gw_path_format(doors->driver, err, "%s", found);
    else
        doors->closed_why = "no driver";
    free(found);
    return st;
}

const gwi_gpu_source gwi_source_real = {"real", choose_real};

static const gwi_gpu_source *const sources[] = {&gwi_source_real, &gwi_source_virtual};

static gw_status choose_driver(gwi_doors *doors, const gw_run_options *options, const gwi_program *program,
                               gw_error *err)
{
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        size_t bytes = strlen(sources[i]->name);
        bool named = strncmp(options->gpu, sources[i]->name, bytes) == 0;
        if (named && (options->gpu[bytes] == '\0' || options->gpu[bytes] == ':'))
            return sources[i]->choose(doors, options->gpu + bytes + (options->gpu[bytes] == ':'), program, err);
    }
    return gw_fail(err, GW_USAGE, "--gpu %s: must be real or virtual:CARD", options->gpu);
}

/* Return a hash of the driver, the hook and the facade's version. It is in the name of the facade's folder, so
 * different facades never share one. */
static uint64_t facade_hash(const char *driver, const char *build_id, const char *hook)
{
    const char *const parts[] = {driver, "\n", build_id, "\n", hook};
    uint64_t hash = GW_HASH_START + GW_FACADE_VERSION;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        hash = gw_hash_bytes(hash, parts[i], strlen(parts[i]));
    struct stat stat_;
    /* a driver without a build id may be replaced by another one of the same name: add its size and time */
    if (stat(driver, &stat_) == 0) {
        hash = gw_hash_step(hash, (uint64_t)stat_.st_size);
        hash = gw_hash_step(hash, (uint64_t)stat_.st_mtim.tv_sec);
    }
    return hash;
}

/* If we are root and other users cannot read the installed hook, set `hook` to a readable copy in the facade's
 * folder. A program that starts as root may continue as another user, who must be able to read it. */
static gw_status make_readable(gw_path hook, const char *folder, gw_error *err)
{
    if (geteuid() != 0 || gw_own_is_public(hook))
        return GW_OK;
    gw_status st = gwi_folder_make(folder, 0755, err);
    if (st == GW_OK)
        st = gw_own_file_copy(folder, "libgpuwhy-hook.so", hook, err);
    return st == GW_OK ? gw_path_format(hook, err, "%s/libgpuwhy-hook.so", folder) : st;
}

static gw_status write_facade_in(gwi_doors *doors, const char *base, const char *build_id, const gw_path installed,
                                 gw_error *err)
{
    gw_path hook;
    memcpy(hook, installed, sizeof hook);
    gw_status st = gw_path_format(doors->folder, err, "%s/facade-%016" PRIx64, base,
                                  facade_hash(doors->driver, build_id, installed));
    if (st == GW_OK)
        st = make_readable(hook, doors->folder, err);
    return st == GW_OK ? gw_facade_write(doors->driver, hook, doors->folder, err) : st;
}

/* Write the facade into the first of the folders of gwi_code_folder() in which this succeeds. */
static gw_status write_facade(gwi_doors *doors, const char *run_folder, gw_error *err)
{
    gw_path hook, base;
    gw_facade_info info;
    gw_status st = gw_library_find("libgpuwhy-hook.so", hook, err);
    if (st == GW_OK)
        st = gw_facade_driver_info(doors->driver, &info, err);
    if (st != GW_OK)
        return st;
    st = gw_fail(err, GW_IO,
                 "no folder for gpuwhy's library (tried XDG_CACHE_HOME, /var/tmp, /tmp): it must be writable by you "
                 "alone, without spaces or colons in its path, and not mounted noexec");
    for (size_t i = 0; st != GW_OK && i < GWI_CODE_FOLDERS; i++)
        if (gwi_code_folder(i, run_folder, base))
            st = write_facade_in(doors, base, info.build_id, hook, err);
    if (st != GW_OK)
        doors->folder[0] = '\0';
    return st;
}

/* Copy the library that PyTorch's allocator calls into the facade's folder, whose path has no space or colon.
 * Without it, PyTorch's blocks are not tracked. */
static void copy_c10(gwi_doors *doors)
{
    gw_path library;
    doors->has_c10 = gw_library_find(GW_C10_DOOR_FILE, library, NULL) == GW_OK &&
                     gw_own_file_copy(doors->folder, GW_C10_DOOR_FILE, library, NULL) == GW_OK;
}

/* The virtual cards belong to this run, unless the user names a folder in which several runs share them. Inside another
 * run the variable is not the user's: it names that run's own cards. */
static gw_status choose_virtual_folder(gwi_doors *doors, const char *run_folder, gw_error *err)
{
    const char *shared = getenv("GPUWHY_VIRTUAL_DIR");
    if (shared != NULL && shared[0] == '/' && getenv("GPUWHY_RUN_DIR") == NULL)
        return gw_path_format(doors->virtual_folder, err, "%s", shared);
    gw_status st = gw_path_format(doors->virtual_folder, err, "%s/virtual", run_folder);
    return st == GW_OK ? gwi_folder_make(doors->virtual_folder, 0700, err) : st;
}

gw_status gwi_doors_prepare(gwi_doors *doors, const gw_run_options *options, const gwi_program *program,
                            const char *run_folder, gw_error *err)
{
    *doors = (gwi_doors){.closed_why = "failed"};
    gw_status st = choose_driver(doors, options, program, err);
    if (st != GW_OK)
        return st;
    if (program->is_32_bit) {
        doors->closed_why = "32-bit";
        return gw_fail(err, GW_UNSUPPORTED, "%s is a 32-bit program: its GPU calls cannot be recorded", program->image);
    }
    st = write_facade(doors, run_folder, err);
    if (st == GW_OK)
        copy_c10(doors);
    if (st == GW_OK && doors->is_virtual && run_folder[0] != '\0')
        st = choose_virtual_folder(doors, run_folder, err);
    doors->open = st == GW_OK;
    return st;
}

/* Copy the library that copies stderr into the facade's folder, or into a folder of its own if there is no facade. Its
 * path then has no space or colon. */
static bool copy_stderr_library(gwi_doors *doors, const char *run_folder)
{
    gw_path library, base, folder;
    bool found = gw_library_find(GW_STDERR_DOOR_FILE, library, NULL) == GW_OK;
    memcpy(folder, doors->folder, sizeof folder);
    for (size_t i = 0; found && folder[0] == '\0' && i < GWI_CODE_FOLDERS; i++)
        if (!gwi_code_folder(i, run_folder, base) || gw_path_format(folder, NULL, "%s/stderr", base) != GW_OK ||
            gwi_folder_make(folder, 0755, NULL) != GW_OK)
            folder[0] = '\0';
    return found && folder[0] != '\0' && gw_own_file_copy(folder, GW_STDERR_DOOR_FILE, library, NULL) == GW_OK &&
           gw_path_format(doors->stderr_library, NULL, "%s/" GW_STDERR_DOOR_FILE, folder) == GW_OK;
}

void gwi_doors_stderr(gwi_doors *doors, const gwi_program *program, const char *run_folder, gwi_stderr *capture)
{
    if (capture->ring_path[0] == '\0')
        return;
    if (program->is_32_bit)
        capture->not_recorded = "stderr is a terminal, and the program is a 32-bit program";
    else if (!copy_stderr_library(doors, run_folder))
        capture->not_recorded = "stderr is a terminal, and the library that copies the text cannot be loaded";
}

/* Put `first` in front of the variable's old value. If the old value is empty, add no colon: an empty element would
 * mean the current folder. */
static void put_first(const char *variable, const char *first, const char *old)
{
    gw_text value = {0};
    gw_text_add_str(&value, first);
    if (old != NULL && old[0] != '\0')
        gw_text_addf(&value, ":%s", old);
    if (!value.failed)
        setenv(variable, gw_text_str(&value), 1);
    gw_text_free(&value);
}

void gwi_doors_path(const gw_run_options *options)
{
    gw_path tools;
    if (gw_begins(options->gpu, "virtual:") && gw_library_find("virtual/bin", tools, NULL) == GW_OK)
        put_first("PATH", tools, getenv("PATH"));
}

static void set_preload(const gwi_doors *doors, const gwi_program *program)
{
    const char *old = getenv("LD_PRELOAD");
    gw_text first = {0};
    if (program->sanitizer[0] != '\0' && (old == NULL || strstr(old, program->sanitizer) == NULL))
        gw_text_addf(&first, "%s:", program->sanitizer);
    /* the runtimes of sanitizers that are already preloaded must stay first: keep them in front of the facade */
    size_t kept = 0;
    while (old != NULL && strstr(old + kept, "san.so") != NULL) {
        const char *runtime = strstr(old + kept, "san.so");
        kept = (size_t)(runtime - old) + strcspn(runtime, " :");
        kept += old[kept] != '\0';
    }
    if (kept > 0) {
        gw_text_add(&first, old, kept);
        if (old[kept - 1] != ':' && old[kept - 1] != ' ')
            gw_text_add(&first, ":", 1);
    }
    gw_text_addf(&first, "%s/libcuda.so.1", doors->folder);
    if (doors->has_c10)
        gw_text_addf(&first, ":%s/" GW_C10_DOOR_FILE, doors->folder);
    if (!first.failed)
        put_first("LD_PRELOAD", gw_text_str(&first), old == NULL ? NULL : old + kept);
    gw_text_free(&first);
}

static void set_or_unset(const char *variable, const char *value)
{
    if (value == NULL || value[0] == '\0')
        unsetenv(variable);
    else
        setenv(variable, value, 1);
}

static void set_filters(void)
{
    char count[16];
    int filters = gw_rare_calls_are_safe() ? gw_filter_count() : 0;
    snprintf(count, sizeof count, "%d", filters == INT_MAX ? 0 : filters);
    set_or_unset(GW_FILTER_VARIABLE, filters == 0 ? NULL : count);
}

/* The library is last, so that other preloaded libraries stay in front of the C library's functions that it defines. */
static void add_stderr_library(const char *library, const char *ring_path)
{
    const char *old = getenv("LD_PRELOAD");
    gw_text value = {0};
    set_or_unset(GW_STDERR_VARIABLE, library[0] == '\0' ? NULL : ring_path);
    gw_text_addf(&value, "%s%s%s", old == NULL ? "" : old, old == NULL || old[0] == '\0' ? "" : ":", library);
    if (library[0] != '\0' && !value.failed)
        setenv("LD_PRELOAD", gw_text_str(&value), 1);
    gw_text_free(&value);
}

void gwi_doors_enter(const gwi_doors *doors, const gw_run_options *options, const gwi_program *program,
                     const char *run_folder, const char *handout, const char *ring_path)
{
    add_stderr_library(doors->stderr_library, ring_path);
    if (!doors->open)
        return;
    char bytes[32] = "", rehearse[64] = "";
    if (options->rehearse)
        gwi_rehearsal_setting(options, rehearse, sizeof rehearse);
    else if (options->memory_bytes != 0)
        snprintf(bytes, sizeof bytes, "%" PRIu64, options->memory_bytes);
    set_preload(doors, program);
    if (doors->nvml_folder[0] != '\0')
        put_first("LD_LIBRARY_PATH", doors->nvml_folder, getenv("LD_LIBRARY_PATH"));
    put_first("LD_LIBRARY_PATH", doors->folder, getenv("LD_LIBRARY_PATH"));
    set_or_unset("GPUWHY_RUN_DIR", run_folder);
    set_or_unset(GW_HANDOUT_VARIABLE, handout);
    set_filters();
    set_or_unset("GPUWHY_MEMORY", bytes);
    set_or_unset("GPUWHY_REHEARSE", rehearse);
    set_or_unset("GPUWHY_MEMORY_SHARED", options->memory_shared ? "1" : NULL);
    set_or_unset("GPUWHY_INJECT", options->inject);
    set_or_unset("GPUWHY_FENCE", options->fence == NULL || options->fence[0] != '\0' ? options->fence : "on");
    set_or_unset("GPUWHY_ATTACH", options->no_attach ? "0" : NULL);
    if (options->deep)
        setenv("GPUWHY_DEEP", "1", 1);
    if (options->allocations)
        setenv("GPUWHY_ALLOCATIONS", "1", 1);
    if (options->no_sites)
        setenv("GPUWHY_SITES", "0", 1);
    set_or_unset("GPUWHY_CATCH_CRASH", options->catch_crash ? "1" : NULL);
    set_or_unset("GPUWHY_VIRTUAL", doors->virtual_specification);
    set_or_unset("GPUWHY_VIRTUAL_DIR", doors->virtual_folder);
}
