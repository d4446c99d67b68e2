/* The GPU computes wrong numbers without any error. A recording can only show library versions that are known to do
 * this on these cards.
 *
 * The versions are from JAX's check of CUDA's components, jax_plugins/cuda/__init__.py at 00070f85, which cites the
 * release notes of cuDNN 9.10.
 *
 * Never established: this is advice and never the cause of a failure. */
#include "gwi_cause.h"

enum { CAPABILITY_MAJOR = 75, TENSOR_MEMORY_FIRST = 10, TENSOR_MEMORY_LAST = 11 };

static const gw_library *find(const gw_process *process, gw_library_kind kind)
{
    for (size_t i = 0; i < process->libraries.count; i++)
        if (process->libraries.item[i].kind == kind && process->libraries.item[i].version != 0 &&
            !process->libraries.item[i].is_major_only)
            return &process->libraries.item[i];
    return NULL;
}

/* Return the number of devices that the process used. *ret_has: at least one of them has tensor memory (compute
 * capability 10.x or 11.x). */
static size_t devices_used(const gwi_case *c, const gw_process *process, bool *ret_has)
{
    size_t count = 0;
    *ret_has = false;
    for (int i = 0; i < GW_MODEL_DEVICES_MAX; i++) {
        const gw_device *device = &c->model->device[i];
        if (!process->usage[i].used)
            continue;
        count++;
        *ret_has = *ret_has || (device->has_attribute[CAPABILITY_MAJOR] &&
                                device->attribute[CAPABILITY_MAJOR] >= TENSOR_MEMORY_FIRST &&
                                device->attribute[CAPABILITY_MAJOR] <= TENSOR_MEMORY_LAST);
    }
    return count;
}

static bool advise_process(const gwi_case *c, const gw_process *process, gw_string_list *advice, bool *ret_said)
{
    char version[GW_VERSION_TEXT_MAX], other[GW_VERSION_TEXT_MAX];
    bool has_tensor_memory;
    size_t devices = devices_used(c, process, &has_tensor_memory);
    const gw_library *cublas = find(process, GW_LIBRARY_CUBLAS), *cublaslt = find(process, GW_LIBRARY_CUBLASLT),
                     *cudnn = find(process, GW_LIBRARY_CUDNN);
    cublas = cublas == NULL ? cublaslt : cublas;
    *ret_said = true;
    if (has_tensor_memory && cublas != NULL && cublas->version >= gw_version_of(12, 8, 0) &&
        cublas->version < gw_version_of(13, 2, 0))
        return gwi_list_addf(
            advice,
            "silent-data-corruption: cuBLAS %s on a card of compute capability 10 or 11 may compute wrong numbers when "
            "its kernels run concurrently with others (several streams); 13.2 does not",
            gw_library_version_text(version, cublas));
    if (devices > 1 && cudnn != NULL && cublaslt != NULL && cudnn->version < gw_version_of(9, 10, 1) &&
        cublaslt->version >= gw_version_of(12, 9, 0))
        return gwi_list_addf(advice,
                             "silent-data-corruption: cuDNN %s with cuBLASLt %s may compute wrong numbers when one "
                             "process uses a plan on several GPUs; cuDNN 9.10.1 does not",
                             gw_library_version_text(version, cudnn), gw_library_version_text(other, cublaslt));
    *ret_said = false;
    return true;
}

static bool advise(const gwi_case *c, gw_string_list *advice)
{
    bool said = false, good = true;
    for (size_t i = 0; i < c->model->process_count && good && !said; i++)
        good = advise_process(c, &c->model->process[i], advice, &said);
    return good;
}

const gw_cause gwi_cause_silent_data_corruption = {
    .id = "silent-data-corruption",
    .summary = "The numbers are wrong and nothing reports an error. Advice, never more than a suspicion.",
    .proof = "a batch that gives different numbers on one card only, with no Xid and no memory error; a recording only "
             "shows libraries with a known bug of this kind",
    .fixes = {[GW_FRAMEWORK_RAW] = "Run the same step with the same data on another card, twice\n"
                                   "Update the library with the known bug\n"
                                   "If cards copy to each other, check IOMMU and ACS first (gpuwhy doctor)\n"
                                   "Take the card out of service, and run the vendor's diagnostics (dcgmi diag -r 4)"},
    .advise = advise,
};
