/* cuDNN, cuBLAS or another library found no memory for its handle or workspace, but its error names another problem.
 *
 * Never established: no record links the refused request to the library's status.
 *
 * What filled the card is another question. If PyTorch's memory was recorded at the refusal (gw_model.allocator), the
 * causes before this one in causes.def answer it first: a leak, a later phase, another process. If none of them is
 * supported, this cause names the unused cache, or the places of the live tensors. */
#include "gwi_cudnn_log.h"

#include <inttypes.h>
#include <string.h>

/* Name what filled the card, as far as PyTorch's memory was recorded. */
static void say_headline(const gwi_case *c, gwi_finding *finding)
{
    const gwi_memory *memory = &c->memory;
    char held[GW_BYTES_TEXT_MAX], limit[GW_BYTES_TEXT_MAX];
    gw_bytes_text(limit, memory->limit_bytes);
    if (gwi_cache_is_much(memory))
        gwi_headline(
            finding,
            "a GPU library could not allocate memory for its handle or workspace, while PyTorch's cache kept %s "
            "that was not in use",
            gw_bytes_text(held, memory->cached_bytes));
    else if (memory->is_other_request && memory->own_bytes * 2 >= memory->limit_bytes && memory->limit_bytes != 0)
        gwi_headline(
            finding,
            "a GPU library could not allocate memory for its handle or workspace: PyTorch's live tensors held %s "
            "of %s",
            gw_bytes_text(held, memory->own_bytes), limit);
    else
        gwi_headline(
            finding,
            "a GPU library could not allocate memory for its handle or workspace; its message names another problem");
}

static void say_cache(const gwi_memory *memory, gwi_finding *finding)
{
    char cached[GW_BYTES_TEXT_MAX], empty[GW_BYTES_TEXT_MAX];
    gw_bytes_text(cached, memory->cached_bytes);
    gw_bytes_text(empty, memory->empty_bytes);
    if (memory->cached_bytes == 0)
        return;
    gwi_measure(finding, memory->t_ns, "observer", (double)memory->cached_bytes, "bytes",
                "the framework had %s cached and not in use: the library cannot use that memory", cached);
    gwi_weigh(finding, gwi_cache_is_much(memory) ? GW_WEIGHT_DECIDES : GW_WEIGHT_ASIDE);
    if (memory->empty_known)
        gwi_measure(finding, memory->t_ns, "ledger", (double)memory->empty_bytes, "bytes",
                    "%s of the cache was in segments without a live tensor, which torch.cuda.empty_cache() returns",
                    empty);
    if (gwi_cache_may_explain(memory) && memory->empty_known)
        gwi_next(finding,
                 "Call torch.cuda.empty_cache() before the first operation that uses the library: it would have "
                 "returned %s",
                 empty);
    else if (gwi_cache_may_explain(memory))
        gwi_next(finding, "Call torch.cuda.empty_cache() before the first operation that uses the library");
    else if (gwi_cache_is_much(memory))
        gwi_next(
            finding,
            "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, so that torch.cuda.empty_cache() can return the "
            "unused pieces between live tensors, too");
}

static void say_others(const gwi_memory *memory, gwi_finding *finding)
{
    char bytes[GW_BYTES_TEXT_MAX];
    if (!memory->is_other_request || !memory->foreign_known || memory->foreign_pid == 0 || memory->limit_is_guard ||
        !gwi_would_fit(memory, memory->foreign_bytes))
        return;
    gwi_measure(finding, memory->t_ns, memory->foreign_recorded ? "ledger" : "card", (double)memory->foreign_bytes,
                "bytes", "other processes held %s; pid %" PRIu32 " held most of it%s%s",
                gw_bytes_text(bytes, memory->foreign_bytes), memory->foreign_pid,
                memory->foreign_command[0] != '\0' ? ": " : "", memory->foreign_command);
}

static void say_live(const gwi_case *c, gwi_finding *finding)
{
    size_t before = finding->evidence_count;
    gwi_say_live_holder(c, finding, "PyTorch's live memory");
    if (c->memory.is_other_request && finding->evidence_count > before)
        gwi_weigh(finding, gwi_cache_is_much(&c->memory) ? GW_WEIGHT_ASIDE : GW_WEIGHT_DECIDES);
}

/* True if the status of a library on stderr has one of these words in its name, or is this number. */
static bool has_status(const gw_stderr_facts *facts, const char *const *words)
{
    static const struct {
        gw_sign sign;
        const char *field;
    } places[] = {{GW_SAYS_CUDNN_STATUS, "name"},
                  {GW_SAYS_CUBLAS_STATUS, "name"},
                  {GW_SAYS_LIBRARY_ERROR, "name"},
                  {GW_SAYS_LIBRARY_ERROR, "code"}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const char *status = gw_stderr_field(facts, &facts->library_status, places[i].sign, places[i].field);
        for (size_t k = 0; status != NULL && words[k] != NULL; k++) {
            if (strstr(status, words[k]) != NULL)
                return true;
        }
    }
    return false;
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gw_stderr_facts *facts = &c->model->stderr_facts;
    const gwi_memory *memory = &c->memory;
    static const char *const words[] = {"NOT_INITIALIZED",  "ALLOC_FAILED", "INTERNAL_ERROR",
                                        "EXECUTION_FAILED", "4004",         NULL};
    bool fits = has_status(facts, words);
    const gw_cudnn_line *logged = gwi_cudnn_error(c, words);
    if (logged != NULL && !gwi_cudnn_is_near(logged, memory->t_ns))
        logged = NULL;
    /* If an error destroyed the context, that error explains the library's message better. */
    if ((!fits && logged == NULL) || c->sticky != NULL || !memory->known)
        return GW_CERTAINTY_NONE;
    bool told_by_framework = c->exception == GW_EXCEPTION_OOM;
    say_headline(c, finding);
    if (fits)
        gwi_say_line(c, finding, &facts->library_status, "");
    if (logged != NULL)
        gwi_cudnn_say(finding, logged);
    gwi_say_request(c, finding);
    say_cache(memory, finding);
    say_others(memory, finding);
    say_live(c, finding);
    if (memory->is_other_request)
        gwi_say_loop(c, finding);
    gwi_rule_out(c, finding, GWI_OF_PROCESS,
                 "a broken installation of the library (the driver refused memory just before)");
    gwi_rule_out(c, finding, GWI_OF_PROCESS, "an earlier fault on the device (no earlier call reported one)");
    if (memory->is_other_request)
        gwi_say_memory_ruled_out(c, finding, GWI_NOT_FOREIGN | GWI_NOT_GROWTH);
    return told_by_framework ? GW_HYPOTHESIS : GW_SUPPORTED;
}

const gw_cause gwi_cause_gpu_oom_library_handle = {
    .id = "gpu-oom-library-handle",
    .summary = "No memory was left for the handle or workspace of cuDNN, cuBLAS or another library.",
    .proof =
        "a refused request for memory and a library status such as NOT_INITIALIZED or ALLOC_FAILED right after it, "
        "with no fault on the device before; the status is on stderr or, with --deep, in cuDNN's own log",
    .fixes =
        {[GW_FRAMEWORK_RAW] =
             "If nvidia-smi shows a nearly full card, end other processes or use less memory; if not, an "
             "older copy of the library may be loaded (LD_LIBRARY_PATH)\n"
             "Create the library's handles early, before the memory is taken\n"
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
