/* One process has loaded parts of cuDNN, or cuBLAS and cuBLASLt, that do not belong together.
 *
 * Established only by: all of these:
 * - Parts of two cuDNN versions are mapped in the process.
 * - cuDNN reported its status VERSION_MISMATCH.
 * - The status is in the exception that ended the program, or in a message of the last five seconds.
 *
 * Supported by:
 * - two versions without this status
 * - this status with one version in two places */
#include "gwi_cudnn_log.h"
#include "gwi_start.h"

#include <stdio.h>
#include <string.h>

/* A message about the libraries. */
typedef struct told_line {
    const char *source; /* NULL: no message */
    uint64_t t_ns;
    const gw_stderr_line *line; /* NULL: the message is not on stderr */
    char status[96];            /* cuDNN's status, such as "CUDNN_STATUS_VERSION_MISMATCH"; "": none */
    bool is_certain;            /* cuDNN's own status for mismatched versions */
} told_line;

static bool is_near_end(const gwi_case *c, uint64_t t_ns)
{
    const uint64_t before_end_ns = 5000000000u;
    return t_ns + before_end_ns >= c->model->t_end_ns;
}

static told_line find_told(const gwi_case *c)
{
    /* A message that a part did not load is not certain: the part may be missing. */
    static const char *const certain[] = {"VERSION_MISMATCH", NULL};
    const gw_stderr_facts *facts = &c->model->stderr_facts;
    const gw_stderr_line *lines[] = {&facts->library_status, &facts->exception, &facts->fatal};
    told_line told = {0};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        const char *status = gw_stderr_field(facts, lines[i], GW_SAYS_CUDNN_STATUS, "name");
        if (status == NULL && gw_stderr_field(facts, lines[i], GW_SAYS_CUBLAS_VERSION, NULL) == NULL)
            continue;
        told = (told_line){.source = "stderr", .t_ns = lines[i]->t_ns, .line = lines[i]};
        if (status != NULL)
            snprintf(told.status, sizeof told.status, "CUDNN_STATUS_%.80s", status);
        told.is_certain = strstr(told.status, certain[0]) != NULL;
        return told;
    }
    const gw_cudnn_line *logged = gwi_cudnn_error(c, certain);
    if (logged != NULL) {
        told = (told_line){.source = "library log", .t_ns = logged->t_last_ns};
        snprintf(told.status, sizeof told.status, "%.95s", logged->status);
        told.is_certain = is_near_end(c, logged->t_last_ns);
    }
    return told;
}

/* True if the message belongs to the end of the run. A GPU exception must have ended the program. Without one, the
 * message must be from the last five seconds. */
static bool is_the_end(const gwi_case *c, const told_line *told)
{
    return c->exception == GW_EXCEPTION_GPU ? gwi_exception_is_end(c) : is_near_end(c, told->t_ns);
}

/* Add the meaning of the cuDNN status in the message, from the status table of cuDNN version `major`. */
static void say_status(gwi_finding *finding, const told_line *told, unsigned major)
{
    const gw_cudnn_status *status = gw_data_cudnn_status_named(major, told->status);
    if (status != NULL && status->verified == GW_VERIFIED_YES && status->meaning != NULL)
        gwi_evidence(finding, GWI_NO_TIME, told->source, "%s (%u) means: %s", told->status, status->code,
                     status->meaning);
}

static void say_library(gwi_finding *finding, const gw_library *library)
{
    char version[GW_VERSION_TEXT_MAX];
    gwi_evidence(finding, GWI_NO_TIME, "host", "%s%s%s %s (according to its %s) from %s: %s",
                 gw_library_kind_text(library->kind), library->part[0] != '\0' ? "_" : "", library->part,
                 gw_library_version_text(version, library), gw_version_from_text(library->from),
                 gw_library_place_words(library->place), library->path);
}

static const gw_clash *find_clash(const gw_clash *clash, size_t count)
{
    const gw_clash *found = NULL; /* first weaker clash; returned if no two cuDNN versions clash */
    for (size_t i = 0; i < count; i++) {
        if (clash[i].kind == GW_CLASH_CUDNN_VERSIONS)
            return &clash[i];
        if (clash[i].kind == GW_CLASH_CUDNN_FOLDERS || clash[i].kind == GW_CLASH_CUBLAS_FOLDERS ||
            (clash[i].kind == GW_CLASH_COPIES && clash[i].a->kind == GW_LIBRARY_CUDNN))
            found = found == NULL ? &clash[i] : found;
    }
    return found;
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    enum { CLASHES_MAX = 16 };
    gw_clash clashes[CLASHES_MAX];
    if (c->process == NULL || c->root != NULL || (c->ended && !c->bad_end))
        return GW_CERTAINTY_NONE; /* the run ended well, or a failed driver call is stronger evidence */
    size_t count = gw_libraries_clashes(&c->process->libraries, clashes, CLASHES_MAX);
    const gw_clash *clash = find_clash(clashes, count);
    told_line told = find_told(c);
    const gw_cudnn_line *logged = gwi_cudnn_error(c, NULL);
    /* The libraries of the process are known, and they do belong together. */
    finding->refutes_text = clash == NULL && gw_libraries_find(&c->process->libraries, GW_LIBRARY_CUDNN) != NULL;
    if (clash == NULL || (told.source == NULL && c->exception != GW_EXCEPTION_GPU))
        return GW_CERTAINTY_NONE;
    if (clash->kind == GW_CLASH_CUDNN_VERSIONS)
        gwi_headline(finding, "the process has loaded parts of two different cuDNN versions");
    else if (clash->kind == GW_CLASH_CUBLAS_FOLDERS)
        gwi_headline(finding, "the process has loaded cuBLAS and cuBLASLt from different places");
    else
        gwi_headline(finding, "the process has loaded parts of cuDNN from different places");
    say_library(finding, clash->a);
    say_library(finding, clash->b);
    if (told.line != NULL)
        gwi_say_line(c, finding, told.line, "");
    if (logged != NULL)
        gwi_cudnn_say(finding, logged);
    if (clash->a->kind == GW_LIBRARY_CUDNN)
        say_status(finding, &told, gw_version_part(clash->a->version, 0));
    const char *path = gw_model_meta(c->model, "env.LD_LIBRARY_PATH");
    if (path != NULL && path[0] != '\0')
        gwi_evidence(finding, GWI_NO_TIME, "host", "LD_LIBRARY_PATH=%s", path);
    gwi_rule_out_failed_call(c, finding);
    /* Another exception ended the program, so the program had survived the cuDNN error. */
    if (c->exception == GW_EXCEPTION_SCRIPT || c->exception == GW_EXCEPTION_OOM)
        return GW_HYPOTHESIS;
    if (clash->kind == GW_CLASH_CUDNN_VERSIONS && told.is_certain && is_the_end(c, &told))
        return GW_ESTABLISHED;
    return clash->kind == GW_CLASH_CUDNN_VERSIONS || told.is_certain ? GW_SUPPORTED : GW_HYPOTHESIS;
}

const gw_cause gwi_cause_cudnn_mixed_libraries = {
    .id = "cudnn-mixed-libraries",
    .summary = "One process has loaded parts of cuDNN (or cuBLAS) that do not belong together.",
    .proof = "parts of different cuDNN versions mapped into the process, and the cuDNN status for that at its end",
    .fixes = {[GW_FRAMEWORK_RAW] = "Unset LD_LIBRARY_PATH, or remove the other copy's folder from it\n"
                                   "Remove the system's cuDNN, or install the version that the program was built with\n"
                                   "Never mix conda's and pip's CUDA packages in one environment",
              [GW_FRAMEWORK_JAX] = "Unset LD_LIBRARY_PATH: the wheels of jax[cuda12] and jax[cuda13] include cuDNN\n"
                                   "pip install -U \"jax[cuda12]\" or \"jax[cuda13]\" in a fresh environment\n"
                                   "Never mix conda's and pip's CUDA packages in one environment"},
    .judge = judge,
};
