/* The causes in by_result.def, and the judge that they share.
 *
 * Established only by: see by_result.def. */
#include "gwi_start.h"

#include <string.h>

enum { RESULTS_MAX = 2 };

typedef struct row {
    enum { ANY_CALL, ONLY_INIT } calls;
    struct {
        uint16_t result;
        const char *headline;
    } results[RESULTS_MAX];
    bool (*decide)(const gwi_case *c, const gwi_versions *versions, gwi_finding *finding); /* NULL: always proved */
    const char *excluded;
} row;

static gw_certainty judge_result(const gwi_case *c, gwi_finding *finding, const row *it)
{
    const gw_failure *failure = NULL;
    for (size_t i = 0; i < RESULTS_MAX && it->results[i].headline != NULL && failure == NULL; i++) {
        failure = gwi_root_with(c, it->results[i].result);
        if (failure != NULL)
            gwi_headline(finding, "%s", it->results[i].headline);
    }
    if (failure == NULL || (it->calls == ONLY_INIT && failure->kind != GW_EV_INIT))
        return GW_CERTAINTY_NONE;
    gwi_versions versions = gwi_versions_of(c);
    gwi_say_failed_call(c, finding, failure);
    gwi_say_versions(&versions, finding);
    bool is_proved = it->decide == NULL || it->decide(c, &versions, finding);
    if (it->excluded != NULL)
        gwi_rule_out(c, finding, GWI_OF_PROCESS, "%s", it->excluded);
    return gwi_sure_of_end(c, failure, is_proved ? GW_ESTABLISHED : GW_SUPPORTED);
}

static bool say_jit_disabled(const gwi_case *c, const gwi_versions *versions, gwi_finding *finding)
{
    const char *disabled = gw_model_meta(c->model, "env.CUDA_DISABLE_JIT");
    (void)versions;
    if (disabled != NULL)
        gwi_evidence(finding, GWI_NO_TIME, "host", "CUDA_DISABLE_JIT=%s", disabled);
    return true;
}

/* True if the driver's library is in a folder with this name. Reports a library path with such a folder. */
static bool is_in_folder(const gwi_case *c, const gwi_versions *versions, gwi_finding *finding, const char *folder)
{
    const char *path = gw_model_meta(c->model, "env.LD_LIBRARY_PATH");
    if (path != NULL && strstr(path, folder) != NULL)
        gwi_evidence(finding, GWI_NO_TIME, "host", "LD_LIBRARY_PATH=%s", path);
    return versions->driver_path != NULL && strstr(versions->driver_path, folder) != NULL;
}

static bool is_stub(const gwi_case *c, const gwi_versions *versions, gwi_finding *finding)
{
    return is_in_folder(c, versions, finding, "stubs");
}

static bool is_compat(const gwi_case *c, const gwi_versions *versions, gwi_finding *finding)
{
    return is_in_folder(c, versions, finding, "/compat");
}

/* Equal versions are evidence against a mismatch, but the result of cuInit is stronger evidence. */
static bool versions_may_differ(const gwi_case *c, const gwi_versions *versions, gwi_finding *finding)
{
    gw_version module = 0;
    const char *end;
    (void)c;
    (void)finding;
    if (versions->module == NULL || !gw_version_parse(versions->module, &module, &end))
        return true;
    return module == 0 || module != versions->driver;
}

static bool has_switch(const gwi_case *c, const gwi_versions *versions, gwi_finding *finding)
{
    bool known, found = gwi_has_device_file(c, "nvidia-nvswitchctl", &known);
    (void)versions;
    if (found)
        gwi_evidence(finding, GWI_NO_TIME, "host", "the machine has NVSwitches (/dev/nvidia-nvswitchctl)");
    return found;
}

#define RESULT_IS_PROOF NULL
#define RESULTS(...)                                                                                                   \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
#define GWI_BY_RESULT(name, id_text, calls, results, decide, excluded, summary_text, proof_text, ...)                  \
    static gw_certainty judge_##name(const gwi_case *c, gwi_finding *finding)                                          \
    {                                                                                                                  \
        static const row it = {calls, results, decide, excluded};                                                      \
        return judge_result(c, finding, &it);                                                                          \
    }                                                                                                                  \
    const gw_cause gwi_cause_##name = {                                                                                \
        .id = id_text, .summary = summary_text, .proof = proof_text, .fixes = {__VA_ARGS__}, .judge = judge_##name}
#include "by_result.def"
