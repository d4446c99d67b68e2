/* Judges failures of drivers, libraries and device files before the program does any work on the GPU. This file also
 * decides whether the program reported a failed call as its end. */
#include "gw_text.h"
#include "gwi_output.h"
#include "gwi_start.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76 };

static const gw_library *newest_runtime(const gw_process *process)
{
    const gw_library *found = NULL;
    for (size_t i = 0; i < process->libraries.count; i++) {
        const gw_library *library = &process->libraries.item[i];
        if (library->kind == GW_LIBRARY_CUDART && library->version != 0 &&
            (found == NULL || library->version > found->version))
            found = library;
    }
    return found;
}

static void find_driver(const gwi_case *c, gwi_versions *versions)
{
    const gw_library *driver = gw_libraries_find(&c->process->libraries, GW_LIBRARY_DRIVER);
    gw_library library = {0};
    versions->driver_path = driver != NULL ? driver->path : c->process->driver_path;
    if (versions->driver_path == NULL)
        versions->driver_path = gw_model_meta(c->model, "driver");
    if (versions->driver_path != NULL && gw_library_of_path(versions->driver_path, &library))
        versions->driver = library.version;
    gw_library_free(&library);
}

gwi_versions gwi_versions_of(const gwi_case *c)
{
    gwi_versions versions = {.module = gw_model_meta(c->model, "driver.module")};
    if (c->process == NULL)
        return versions;
    versions.api_major = c->process->driver_api / 1000;
    versions.api_minor = c->process->driver_api % 1000 / 10;
    versions.runtime = newest_runtime(c->process);
    find_driver(c, &versions);
    const gw_device *device = &c->model->device[c->root == NULL || c->root->device < 0 ? 0 : c->root->device];
    versions.has_capability = device->has_attribute[CAPABILITY_MAJOR] && device->has_attribute[CAPABILITY_MINOR];
    if (versions.has_capability)
        versions.capability = gw_version_of((unsigned)device->attribute[CAPABILITY_MAJOR],
                                            (unsigned)device->attribute[CAPABILITY_MINOR], 0);
    return versions;
}

void gwi_say_versions(const gwi_versions *versions, gwi_finding *finding)
{
    char text[GW_VERSION_TEXT_MAX];
    if (versions->api_major != 0)
        gwi_evidence(finding, GWI_NO_TIME, "driver", "the driver supports CUDA %u.%u", versions->api_major,
                     versions->api_minor);
    if (versions->driver_path != NULL)
        gwi_evidence(finding, GWI_NO_TIME, "host", "the driver's library is %s", versions->driver_path);
    if (versions->module != NULL)
        gwi_evidence(finding, GWI_NO_TIME, "host", "the kernel driver's version is %s", versions->module);
    if (versions->runtime != NULL)
        gwi_evidence(finding, GWI_NO_TIME, "host", "the CUDA runtime in the process is %s (%s, according to its %s)",
                     gw_library_version_text(text, versions->runtime), versions->runtime->path,
                     gw_version_from_text(versions->runtime->from));
}

const gw_failure *gwi_root_with(const gwi_case *c, uint16_t result)
{
    return c->root != NULL && c->root->result == result ? c->root : NULL;
}

bool gwi_is_before_context(const gwi_case *c, const gw_failure *failure)
{
    for (int device = 0; c->process != NULL && device < GW_MODEL_DEVICE_PLACES; device++) {
        if (c->process->usage[device].class_made[GW_CLASS_CONTEXT] > 0)
            return false;
    }
    return failure->kind == GW_EV_INIT || failure->kind == GW_EV_CTX_CREATE || failure->context == 0;
}

void gwi_say_failed_call(const gwi_case *c, gwi_finding *finding, const gw_failure *failure)
{
    char call[GWI_CALL_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
    const gw_cuda_error *error = gw_data_cuda_error(failure->result);
    gwi_evidence(finding, failure->t_ns, "driver", "%s%s returned %u (%s)%s%s%s%s",
                 gwi_call_text(call, failure->fn_name), gwi_at(c, failure->site, at), failure->result,
                 gw_result_name(failure->result), error != NULL && error->meaning != NULL ? ": " : "",
                 error != NULL && error->meaning != NULL ? error->meaning : "", failure->text != NULL ? "; " : "",
                 failure->text != NULL ? failure->text : "");
    gwi_where(finding, failure->site, "the call that failed");
    gwi_say_consequences(c, finding, failure);
}

/* Return the word that programs usually use for this kind of call in their messages, or NULL if there is no such
 * word. */
static const char *subject_of(const gw_failure *failure)
{
    switch (failure->kind) {
    case GW_EV_LAUNCH:
        return "launch";
    case GW_EV_HOST_ALLOC:
    case GW_EV_HOST_REGISTER:
        return "pinned";
    default:
        return NULL;
    }
}

/* True if the line reports that this call failed. A number below 200 alone is not enough: it is more often a count or a
 * percentage. */
static bool names_failure(const gwi_case *c, const gw_stderr_line *line, const gw_failure *failure)
{
    enum { RESULT_MIN = 200 };
    const gw_stderr_facts *facts = &c->model->stderr_facts;
    const char *call = gw_stderr_field(facts, line, GW_SAYS_CALL_FAILED, "call");
    const char *work = gw_stderr_field(facts, line, GW_SAYS_CALL_FAILED, "work"), *subject = subject_of(failure);
    const char *number = gw_stderr_field(facts, line, GW_SAYS_CALL_FAILED, "number");
    char name[GWI_CALL_TEXT_MAX];
    bool has_number = number != NULL && strtoul(number, NULL, 10) == failure->result;
    bool has_call = call != NULL && gw_begins(call, gwi_call_text(name, failure->fn_name));
    bool is_about = has_call || (work != NULL && subject != NULL && strcmp(work, subject) == 0) ||
                    gw_stderr_field(facts, line, GW_SAYS_CALL_FAILED, "gpu") != NULL;
    if (gw_stderr_code(facts, line) == failure->result || (has_call && has_number))
        return true;
    return gw_stderr_field(facts, line, GW_SAYS_CALL_FAILED, "bad") != NULL &&
           (is_about || (failure->result >= RESULT_MIN && has_number));
}

/* True if the last line of stderr reports the failure. False if a logger wrote the line, or if it says that the program
 * continues. */
static bool are_last_words(const gwi_case *c, const gw_failure *failure)
{
    const gw_stderr_facts *facts = &c->model->stderr_facts;
    return names_failure(c, &facts->last, failure) &&
           gw_stderr_field(facts, &facts->last, GW_SAYS_GOES_ON, NULL) == NULL &&
           gw_stderr_field(facts, &facts->last, GW_SAYS_LOGGED, NULL) == NULL;
}

/* True if the program may have caught the exception that is on stderr. gpuwhy's code in the Python interpreter reports
 * every exception that ends the interpreter, and this report is missing. Always false before the first driver call,
 * because gpuwhy does not observe the interpreter until then. */
static bool may_be_caught(const gwi_case *c)
{
    const char *exe = c->process != NULL && c->process->t_first_call_ns != 0 ? c->process->exe : NULL;
    const char *name = exe == NULL ? NULL : strrchr(exe, '/');
    name = name == NULL ? exe : name + 1;
    return name != NULL && gw_begins(name, "python") && c->process->raised == NULL && c->model->asked_phase == NULL;
}

/* True if an exception about the GPU ended the program, with a signal or the exit status 1. With any other status,
 * there may be another reason for the end. */
bool gwi_exception_is_end(const gwi_case *c)
{
    return c->ended && c->exception == GW_EXCEPTION_GPU && (c->exit_code == 1 || c->signal != 0) &&
           !gwi_exception_is_uncertain(c) && !may_be_caught(c) && !c->model->stderr_facts.exception_goes_on;
}

/* True if the program reports that the failure ended it: by an exception about the GPU, or by its last output soon
 * after the failure. A silent program may have gone on without a GPU. */
static bool is_its_end(const gwi_case *c, const gw_failure *failure)
{
    const uint64_t soon_ns = 5000000000u;
    uint64_t end_ns = c->process != NULL && c->process->exit_known ? c->process->t_exit_ns : c->model->t_end_ns;
    if (!c->ended)
        return false;
    if (c->exception == GW_EXCEPTION_GPU)
        return gwi_exception_is_end(c);
    return failure->t_last_ns + soon_ns >= end_ns && are_last_words(c, failure);
}

/* True if a shell uses this exit status to report that a signal other than SIGABRT ended its child. */
static bool is_status_of_signal(int exit_code)
{
    enum { BASE = 128, ABRT = 6, SIGNALS_MAX = 31 };
    return exit_code > BASE && exit_code <= BASE + SIGNALS_MAX && exit_code != BASE + ABRT;
}

gw_certainty gwi_sure_of_end(const gwi_case *c, const gw_failure *failure, gw_certainty most)
{
    enum { ABORT = 6 };
    if (c->ended && !c->bad_end)
        return GW_HYPOTHESIS;
    bool other = c->exception == GW_EXCEPTION_SCRIPT || c->exception == GW_EXCEPTION_OOM ||
                 (c->signal != 0 && c->signal != ABORT) || (c->ended && is_status_of_signal(c->exit_code)) ||
                 c->process == NULL || c->process->pid != failure->pid;
    /* If the program later launched kernels and waited for them with success, it did not need the failed call. */
    other = other || (c->exception != GW_EXCEPTION_GPU && failure->after.launches > 0 && failure->after.synced);
    if (other)
        return GW_HYPOTHESIS;
    return most > GW_SUPPORTED && !is_its_end(c, failure) ? GW_SUPPORTED : most;
}

bool gwi_has_device_file(const gwi_case *c, const char *name, bool *ret_known)
{
    const char *files = gw_model_meta(c->model, "device.files");
    size_t bytes = strlen(name);
    *ret_known = files != NULL;
    for (const char *at = files; at != NULL && (at = strstr(at, name)) != NULL; at += bytes) {
        if ((at == files || at[-1] == ' ') && (at[bytes] == '\0' || at[bytes] == ' '))
            return true;
    }
    return false;
}

const char *gwi_visible_devices(const gwi_case *c)
{
    return gw_model_meta(c->model, "env.CUDA_VISIBLE_DEVICES");
}

bool gwi_made_context(const gw_model *model)
{
    for (size_t i = 0; i < model->process_count; i++) {
        for (int device = 0; device < GW_MODEL_DEVICE_PLACES; device++) {
            if (model->process[i].usage[device].class_made[GW_CLASS_CONTEXT] > 0)
                return true;
        }
    }
    return false;
}
