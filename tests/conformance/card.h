/* The card of a program that checks the driver's calls, and the calls that every group of checks depends on: if one of
 * them fails, the process prints that and exits with status 1. */
#ifndef CARD_H
#define CARD_H

#include <stddef.h>

#include "gw_cuda_calls.h"

#define MIB ((size_t)1 << 20)

extern const char *group_name; /* for the lines that are printed */
extern CUdevice device;
extern CUcontext context; /* the primary one */
extern CUmodule module;

/* Exit if a call failed. `what` is the call. */
void need(CUresult result, const char *what);
/* Make the primary context of device 0 current. up_with_module() also loads kernels.ptx, whose text is kernels_text().
 */
void up(void);
void up_with_module(void);
const char *kernels_text(void);
CUfunction function(const char *name);
CUdeviceptr must_alloc(size_t bytes);
size_t free_bytes(void);

#endif
