/* The ABI facts (abi_facts.h) as defined by our own header, gw_cuda_abi.h. */
#include "abi_facts.h"

#include "gw_cuda_abi.h"

#define ABI_TABLE abi_ours
#define ABI_COUNT abi_ours_count
#include "abi_table.inc"
