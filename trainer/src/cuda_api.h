/* Declare the functions of NVIDIA's libraries that the back end `cuda` uses. They are loaded at run time, so a build
 * does not need their headers.
 *
 * The numbers and prototypes come from the documentation of cuDNN 8.9 and 9, cuBLAS 12 and 13, NVRTC 11 to 13 and NCCL
 * 2. trainer/tests/abi_check.py compares them with the real headers. Handles and descriptors are declared as pointers,
 * and enumerations as int. */
#ifndef TRAINER_CUDA_API_H
#define TRAINER_CUDA_API_H

#include <gpuwhy/scope.h>

#include <stddef.h>
#include <stdint.h>

/* ---- cuDNN ---- */

enum {
    CUDNN_DATA_FLOAT = 0,
    CUDNN_DATA_HALF = 2,
    CUDNN_DATA_BFLOAT16 = 9,
    CUDNN_TENSOR_NHWC = 1,
    CUDNN_CROSS_CORRELATION = 1,
    CUDNN_TENSOR_OP_MATH = 1,
    CUDNN_FMA_MATH = 3,
    CUDNN_DETERMINISTIC = 1
};

/* Has the layout of cudnnConvolutionFwdAlgoPerf_t. The types for BwdData and BwdFilter have the same layout. */
struct cudnn_algorithm {
    int algorithm, status;
    float time_ms;
    size_t workspace_bytes;
    int determinism, math_type;
    int reserved[3];
};
enum { ALGORITHMS_MAX = 10 };

/* Constants of the graph interface: kinds of descriptors, types of attributes, numerical notes and heuristic modes. */
enum {
    CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR = 1,
    CUDNN_BACKEND_ENGINE_DESCRIPTOR = 2,
    CUDNN_BACKEND_ENGINECFG_DESCRIPTOR = 3,
    CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR = 4,
    CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR = 5,
    CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR = 10,
    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR = 11,
    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR = 12,
    CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR = 15,
    CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR = 16,
    CUDNN_BACKEND_TENSOR_DESCRIPTOR = 17,

    CUDNN_TYPE_HANDLE = 0,
    CUDNN_TYPE_DATA_TYPE = 1,
    CUDNN_TYPE_INT64 = 3,
    CUDNN_TYPE_FLOAT = 4,
    CUDNN_TYPE_VOID_PTR = 6,
    CUDNN_TYPE_CONVOLUTION_MODE = 7,
    CUDNN_TYPE_HEUR_MODE = 8,
    CUDNN_TYPE_NUMERICAL_NOTE = 11,
    CUDNN_TYPE_BACKEND_DESCRIPTOR = 15,

    CUDNN_ATTR_CONVOLUTION_COMP_TYPE = 100,
    CUDNN_ATTR_CONVOLUTION_CONV_MODE = 101,
    CUDNN_ATTR_CONVOLUTION_DILATIONS = 102,
    CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES = 103,
    CUDNN_ATTR_CONVOLUTION_POST_PADDINGS = 104,
    CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS = 105,
    CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS = 106,
    CUDNN_ATTR_ENGINEHEUR_MODE = 200,
    CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH = 201,
    CUDNN_ATTR_ENGINEHEUR_RESULTS = 202,
    CUDNN_ATTR_ENGINECFG_ENGINE = 300,
    CUDNN_ATTR_EXECUTION_PLAN_HANDLE = 400,
    CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG = 401,
    CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE = 402,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA = 700,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA = 701,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC = 702,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W = 703,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X = 704,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y = 705,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA = 706,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA = 707,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC = 708,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W = 709,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX = 710,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY = 711,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA = 712,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA = 713,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC = 714,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW = 715,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X = 716,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY = 717,
    CUDNN_ATTR_OPERATIONGRAPH_HANDLE = 800,
    CUDNN_ATTR_OPERATIONGRAPH_OPS = 801,
    CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT = 900,
    CUDNN_ATTR_TENSOR_DATA_TYPE = 901,
    CUDNN_ATTR_TENSOR_DIMENSIONS = 902,
    CUDNN_ATTR_TENSOR_STRIDES = 903,
    CUDNN_ATTR_TENSOR_UNIQUE_ID = 906,
    CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS = 1000,
    CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS = 1001,
    CUDNN_ATTR_VARIANT_PACK_WORKSPACE = 1003,
    CUDNN_ATTR_ENGINE_NUMERICAL_NOTE = 1303,

    CUDNN_NUMERICAL_NOTE_TENSOR_CORE = 0,
    CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS = 1,
    CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION = 2,
    CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC = 4,
    CUDNN_HEUR_MODE_FALLBACK = 2,
    CUDNN_HEUR_MODE_A = 3
};

/* X(name, parameters). Every function returns a cudnnStatus_t. */
#define CUDNN_CALLS(X)                                                                                                 \
    X(cudnnCreateTensorDescriptor, (void **ret))                                                                       \
    X(cudnnSetTensor4dDescriptor, (void *tensor, int format, int type, int n, int c, int h, int w))                    \
    X(cudnnDestroyTensorDescriptor, (void *tensor))                                                                    \
    X(cudnnCreateFilterDescriptor, (void **ret))                                                                       \
    X(cudnnSetFilter4dDescriptor, (void *filter, int type, int format, int k, int c, int h, int w))                    \
    X(cudnnDestroyFilterDescriptor, (void *filter))                                                                    \
    X(cudnnCreateConvolutionDescriptor, (void **ret))                                                                  \
    X(cudnnSetConvolution2dDescriptor, (void *convolution, int pad_h, int pad_w, int stride_h, int stride_w,           \
                                        int dilation_h, int dilation_w, int mode, int compute_type))                   \
    X(cudnnSetConvolutionMathType, (void *convolution, int math_type))                                                 \
    X(cudnnSetConvolutionGroupCount, (void *convolution, int groups))                                                  \
    X(cudnnDestroyConvolutionDescriptor, (void *convolution))                                                          \
    X(cudnnGetConvolutionForwardAlgorithm_v7, (void *handle, void *x, void *w, void *convolution, void *y, int room,   \
                                               int *ret_count, struct cudnn_algorithm *ret))                           \
    X(cudnnGetConvolutionBackwardDataAlgorithm_v7, (void *handle, void *w, void *dy, void *convolution, void *dx,      \
                                                    int room, int *ret_count, struct cudnn_algorithm *ret))            \
    X(cudnnGetConvolutionBackwardFilterAlgorithm_v7, (void *handle, void *x, void *dy, void *convolution, void *dw,    \
                                                      int room, int *ret_count, struct cudnn_algorithm *ret))          \
    X(cudnnGetConvolutionForwardWorkspaceSize,                                                                         \
      (void *handle, void *x, void *w, void *convolution, void *y, int algorithm, size_t *ret_bytes))                  \
    X(cudnnGetConvolutionBackwardDataWorkspaceSize,                                                                    \
      (void *handle, void *w, void *dy, void *convolution, void *dx, int algorithm, size_t *ret_bytes))                \
    X(cudnnGetConvolutionBackwardFilterWorkspaceSize,                                                                  \
      (void *handle, void *x, void *dy, void *convolution, void *dw, int algorithm, size_t *ret_bytes))                \
    X(cudnnConvolutionForward, (void *handle, const void *alpha, void *x_tensor, const void *x, void *w_filter,        \
                                const void *w, void *convolution, int algorithm, void *workspace,                      \
                                size_t workspace_bytes, const void *beta, void *y_tensor, void *y))                    \
    X(cudnnConvolutionBackwardData, (void *handle, const void *alpha, void *w_filter, const void *w, void *dy_tensor,  \
                                     const void *dy, void *convolution, int algorithm, void *workspace,                \
                                     size_t workspace_bytes, const void *beta, void *dx_tensor, void *dx))             \
    X(cudnnConvolutionBackwardFilter,                                                                                  \
      (void *handle, const void *alpha, void *x_tensor, const void *x, void *dy_tensor, const void *dy,                \
       void *convolution, int algorithm, void *workspace, size_t workspace_bytes, const void *beta, void *dw_filter,   \
       void *dw))                                                                                                      \
    X(cudnnBackendCreateDescriptor, (int kind, void **ret))                                                            \
    X(cudnnBackendDestroyDescriptor, (void *descriptor))                                                               \
    X(cudnnBackendFinalize, (void *descriptor))                                                                        \
    X(cudnnBackendSetAttribute, (void *descriptor, int name, int type, int64_t count, const void *values))             \
    X(cudnnBackendGetAttribute,                                                                                        \
      (void *descriptor, int name, int type, int64_t room, int64_t *ret_count, void *ret_values))                      \
    X(cudnnBackendExecute, (void *handle, void *plan, void *variant_pack))

/* ---- cuBLAS ---- */

enum {
    CUBLAS_OP_N = 0,
    CUBLAS_OP_T = 1,
    CUDA_R_32F = 0,
    CUDA_R_16F = 2,
    CUDA_R_16BF = 14,
    CUBLAS_COMPUTE_32F = 68,
    CUBLAS_GEMM_DEFAULT = -1
};
#define CUBLAS_CALLS(X)                                                                                                \
    X(cublasGemmEx, (void *handle, int transpose_a, int transpose_b, int m, int n, int k, const void *alpha,           \
                     const void *a, int a_type, int a_leading, const void *b, int b_type, int b_leading,               \
                     const void *beta, void *c, int c_type, int c_leading, int compute_type, int algorithm))           \
    X(cublasSetWorkspace_v2, (void *handle, void *workspace, size_t bytes))

/* ---- NVRTC: compiles kernels for the GPU; not one of libgpuscope's libraries ---- */

#define NVRTC_CALLS(X)                                                                                                 \
    X(nvrtcCreateProgram, (void **ret, const char *source, const char *name, int header_count,                         \
                           const char *const *headers, const char *const *include_names))                              \
    X(nvrtcDestroyProgram, (void **program))                                                                           \
    X(nvrtcCompileProgram, (void *program, int option_count, const char *const *options))                              \
    X(nvrtcGetCUBINSize, (void *program, size_t *ret))                                                                 \
    X(nvrtcGetCUBIN, (void *program, char *ret))                                                                       \
    X(nvrtcGetProgramLogSize, (void *program, size_t *ret))                                                            \
    X(nvrtcGetProgramLog, (void *program, char *ret))                                                                  \
    X(nvrtcGetNumSupportedArchs, (int *ret))                                                                           \
    X(nvrtcGetSupportedArchs, (int *ret))

/* ---- NCCL ---- */

enum { NCCL_FLOAT = 7, NCCL_SUM = 0 };
#define NCCL_CALLS(X)                                                                                                  \
    X(ncclAllReduce,                                                                                                   \
      (const void *from, void *to, size_t count, int type, int operation, void *communicator, CUstream stream))

/* ---- the driver, beyond what libgpuscope does ---- */

enum { CU_ATTRIBUTE_MULTIPROCESSORS = 16, CU_ATTRIBUTE_MAJOR = 75, CU_ATTRIBUTE_MINOR = 76 };
#define DRIVER_CALLS(X)                                                                                                \
    X(cuDeviceGet, (int *ret, int ordinal))                                                                            \
    X(cuDeviceGetAttribute, (int *ret, int attribute, int device))

#endif
