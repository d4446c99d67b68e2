/* cuDNN, cuBLAS or another library found no memory for its handle or workspace, but its error names another problem.
 *
 * Never established: no record links the refused request to the library's status. */
#include "gwi_cudnn_log.h"

#include <string.h>

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gw_stderr_facts *facts = &c->model->stderr_facts;
    const gwi_memory *memory = &c->memory;
    static const char *const words[] = {"NOT_INITIALIZED",  "ALLOC_FAILED", "INTERNAL_ERROR",
                                        "EXECUTION_FAILED", "4004",         NULL};
    bool fits = false;
    for (size_t i = 0; words[i] != NULL; i++)
        fits = fits || (facts->library_status.seen && strstr(facts->library_status.text, words[i]) != NULL);
    const gw_cudnn_line *logged = gwi_cudnn_error(c, words);
    if (logged != NULL && !gwi_cudnn_is_near(logged, memory->t_ns))
        logged = NULL;
    /* If an error destroyed the context, that error explains the library's message better. */
    if ((!fits && logged == NULL) || c->sticky != NULL || !memory->known)
        return GW_CERTAINTY_NONE;
    bool told_by_framework = c->exception == GW_EXCEPTION_OOM;
    gwi_headline(
        finding,
        "a GPU library could not allocate memory for its handle or workspace; its message names another problem");
    if (fits)
        gwi_evidence(finding, facts->library_status.t_ns, "stderr", "%s", facts->library_status.text);
    if (logged != NULL)
        gwi_cudnn_say(finding, logged);
    gwi_say_request(c, finding);
    if (memory->cached_bytes > 0) {
        char cached[GW_BYTES_TEXT_MAX];
        gwi_measure(finding, memory->t_ns, "observer", (double)memory->cached_bytes, "bytes",
                    "the framework had %s cached and not in use: the library cannot use that memory",
                    gw_bytes_text(cached, memory->cached_bytes));
    }
    gwi_rule_out(finding, "a broken installation of the library (the driver refused memory just before)");
    gwi_rule_out(finding, "an earlier fault on the device (no earlier call reported one)");
    return told_by_framework ? GW_HYPOTHESIS : GW_SUPPORTED;
}

const gw_cause gwi_cause_gpu_oom_library_handle = {
    .id = "gpu-oom-library-handle",
    .summary = "No memory was left for the handle or workspace of cuDNN, cuBLAS or another library.",
    .proof =
        "a refused request for memory and a library status such as NOT_INITIALIZED or ALLOC_FAILED right after it, "
        "with no fault on the device before; the status is on stderr or, with --deep, in cuDNN's own log",
    .fixes =
        {[GW_FRAMEWORK_RAW] = "Create the library's handles early, before the memory is taken\n"
                              "Limit workspaces: CUBLAS_WORKSPACE_CONFIG=:4096:2, cuDNN's workspace limit",
         [GW_FRAMEWORK_TORCH] = "Leave room: torch.cuda.set_per_process_memory_fraction(0.9), or a smaller batch\n"
                                "Create the handles early: run one small convolution and one matmul first\n"
                                "Set torch.backends.cudnn.benchmark = False; set CUBLAS_WORKSPACE_CONFIG=:4096:2",
         [GW_FRAMEWORK_TENSORFLOW] =
             "Set TF_FORCE_GPU_ALLOW_GROWTH=true, or call tf.config.experimental.set_memory_growth(card, True) "
             "before the first operation: TensorFlow's pool otherwise takes nearly all memory, and cuDNN gets none\n"
             "If it still fails: install the cuDNN version that this TensorFlow was built with",
         [GW_FRAMEWORK_JAX] = "Leave room beside JAX's pool: XLA_PYTHON_CLIENT_MEM_FRACTION=.7\n"
                              "Create the handles early: run one small convolution and one matmul first"},
    .judge = judge,
};
