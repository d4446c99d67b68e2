/* Helpers for causes outside the program, such as the driver and libraries. They find the call that prevented CUDA from
 * starting, report versions, and limit the certainty of a verdict that is based only on a result code. */
#ifndef GWI_START_H
#define GWI_START_H

#include "gw_data.h"
#include "gwi_cause.h"

/* Versions of the software components. 0 or NULL: not known. */
typedef struct gwi_versions {
    unsigned api_major, api_minor; /* the CUDA version that the driver supports */
    gw_version driver;             /* from the name of the driver's library, such as 580.159.4 */
    const char *driver_path;       /* borrowed from the model */
    const char *module;            /* version text of the kernel driver */
    const gw_library *runtime;     /* the newest CUDA runtime in the process */
    gw_version capability;         /* compute capability of the device of the root failure, or of device 0 */
    bool has_capability;
} gwi_versions;
gwi_versions gwi_versions_of(const gwi_case *c);
/* Report the known versions as evidence. */
void gwi_say_versions(const gwi_versions *versions, gwi_finding *finding);

/* Return the root failure if its result is `result`, otherwise NULL. */
const gw_failure *gwi_root_with(const gwi_case *c, uint16_t result);
/* True if the process had no context yet when the call failed. */
bool gwi_is_before_context(const gwi_case *c, const gw_failure *failure);
/* Report the failed call with its result and place as evidence, set the verdict's place, and list later failures as
 * consequences. */
void gwi_say_failed_call(const gwi_case *c, gwi_finding *finding, const gw_failure *failure);
/* True if an exception about the GPU ended the program. False if the program may have caught the exception. */
bool gwi_exception_is_end(const gwi_case *c);
/* Return the certainty of a cause that `failure` shows. It is `most`, or less:
 * - HYPOTHESIS: the run ended well, or for another reason: a signal, or an exception that is not about the GPU.
 * - SUPPORTED at most: the program does not report that the failure ended it. An uncaught exception about the GPU
 *   reports this, and so does a last output about the failure, soon after it. */
gw_certainty gwi_sure_of_end(const gwi_case *c, const gw_failure *failure, gw_certainty most);
/* True if the recording shows that /dev contained the file `name`. *ret_known is false if the recording does not list
 * the device files in /dev. */
bool gwi_has_device_file(const gwi_case *c, const char *name, bool *ret_known);
/* Return CUDA_VISIBLE_DEVICES, which limits the devices that the program can use. Returns NULL if it is not set. */
const char *gwi_visible_devices(const gwi_case *c);

/* True if a process of the run created a context. */
bool gwi_made_context(const gw_model *model);

#endif
