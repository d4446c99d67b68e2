/* Fake versions of the functions of cuDNN, cuBLAS, cuBLASLt and NCCL that libgpuscope calls. They create, destroy and
 * count handles. */
#include <gpuwhy/scope.h>

#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int fake_alive;       /* handles that were not destroyed */
EXPORT int fake_next_result; /* result of the next call, except a destroy; that call resets it to 0 */
EXPORT char fake_order[64];  /* one letter per destroyed handle, in the order of destruction */

static int result(void)
{
    int code = fake_next_result;
    fake_next_result = 0;
    return code;
}

static int create(void **ret)
{
    int code = result();
    if (code != 0)
        return code;
    *ret = malloc(1);
    fake_alive++;
    return *ret == NULL;
}

static int destroy(void *handle, const char *letter)
{
    free(handle);
    fake_alive--;
    if (strlen(fake_order) + 1 < sizeof fake_order)
        strcat(fake_order, letter);
    return 0;
}

#define LIBRARY(create_name, destroy_name, error_name, letter)                                                         \
    EXPORT int create_name(void **ret);                                                                                \
    int create_name(void **ret)                                                                                        \
    {                                                                                                                  \
        return create(ret);                                                                                            \
    }                                                                                                                  \
    EXPORT int destroy_name(void *handle);                                                                             \
    int destroy_name(void *handle)                                                                                     \
    {                                                                                                                  \
        return destroy(handle, letter);                                                                                \
    }                                                                                                                  \
    EXPORT const char *error_name(int code);                                                                           \
    const char *error_name(int code)                                                                                   \
    {                                                                                                                  \
        return code == 0 ? "fine" : "not fine";                                                                        \
    }
LIBRARY(cudnnCreate, cudnnDestroy, cudnnGetErrorString, "d")
LIBRARY(cublasCreate_v2, cublasDestroy_v2, cublasGetStatusString, "b")
LIBRARY(cublasLtCreate, cublasLtDestroy, cublasLtGetStatusString, "l")

EXPORT int cudnnSetStream(void *handle, CUstream stream);
int cudnnSetStream(void *handle, CUstream stream)
{
    (void)handle;
    (void)stream;
    return result();
}

EXPORT int cublasSetStream_v2(void *handle, CUstream stream);
int cublasSetStream_v2(void *handle, CUstream stream)
{
    (void)handle;
    (void)stream;
    return 0;
}

EXPORT int ncclGetUniqueId(gs_nccl_id *ret);
int ncclGetUniqueId(gs_nccl_id *ret)
{
    memset(ret->bytes, 7, sizeof ret->bytes);
    return 0;
}

EXPORT int ncclCommInitRank(void **ret, int ranks, gs_nccl_id id, int rank);
int ncclCommInitRank(void **ret, int ranks, gs_nccl_id id, int rank)
{
    return id.bytes[127] == 7 && ranks == 2 && rank == 1 ? create(ret) : 4;
}

EXPORT int ncclCommDestroy(void *handle);
int ncclCommDestroy(void *handle)
{
    return destroy(handle, "n");
}
