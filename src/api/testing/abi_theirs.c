/* Builds the table of ABI facts (abi_facts.h) from a toolkit's cuda.h. The prototypes generated from api/driver.api are
 * included: one that differs from cuda.h is a compile error. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "abi_facts.h"

/* Prevent gw_cuda_calls.h from including our own types: its prototypes must use the toolkit's. Types missing in older
 * toolkits are declared here without fields. */
#define GW_CUDA_ABI_H
typedef struct CUeglFrame_st CUeglFrame;
typedef struct CUeglStreamConnection_st *CUeglStreamConnection;
typedef int CUGLDeviceList, CUoutput_mode;
#if GW_HEADER_VERSION < 13050
typedef int CUgraphRecaptureStatus, CUlogicalEndpointIpcHandleType, CUtensorMapAllocClass;
typedef unsigned int CUlogicalEndpointId;
typedef void *CUcoredumpCallbackHandle, *CUcheckpointOperationHandle;
typedef void (*CUcoredumpStatusCallback)(void *userData, int pid, CUdevice dev);
typedef void *CUgraphRecaptureCallback;
typedef struct CUcliqueInfo_st CUcliqueInfo;
typedef struct CUlogicalEndpointProp_struct CUlogicalEndpointProp;
typedef struct CUstreamCigCaptureParams_st CUstreamCigCaptureParams;
typedef struct CU_DEV_SM_RESOURCE_GROUP_PARAMS_st CU_DEV_SM_RESOURCE_GROUP_PARAMS;
typedef struct CUDA_FABRIC_COPY_BATCH_OP_st CUDA_FABRIC_COPY_BATCH_OP;
#endif
#include "gw_cuda_calls.h"

#define ABI_TABLE abi_theirs
#define ABI_COUNT abi_theirs_count
#include "abi_table.inc"
