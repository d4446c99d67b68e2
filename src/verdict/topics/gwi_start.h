/* For causes of the software around a program: a call that kept CUDA from starting or code from loading, the versions
 * in play, and how sure a verdict can be that rests on a code that says itself what is wrong. */
#ifndef GWI_START_H
#define GWI_START_H

#include "gw_data.h"
#include "gwi_cause.h"

/* What came together. 0, NULL: not known. */
typedef struct gwi_versions {
    unsigned api_major, api_minor; /* the CUDA version that the driver says it is for */
    gw_version driver;             /* 580.159.4, of the file's name */
    const char *driver_path;       /* borrowed from the model */
    const char *module;            /* of the kernel driver, as written */
    const gw_library *runtime;     /* the newest copy in the process */
    gw_version capability;         /* of the device where it failed */
    bool has_capability;
} gwi_versions;
gwi_versions gwi_versions_of(const gwi_case *c);
/* What is known of them, as evidence. */
void gwi_say_versions(const gwi_versions *versions, gwi_finding *finding);

/* The root, where it is this result; NULL: it is another one. */
const gw_failure *gwi_root_with(const gwi_case *c, uint16_t result);
/* Did it come before the process had any context? */
bool gwi_is_before_context(const gwi_case *c, const gw_failure *failure);
/* Call, result and place as evidence and as the verdict's place; then what followed, as consequences. */
void gwi_say_failed_call(const gwi_case *c, gwi_finding *finding, const gw_failure *failure);
/* Is there no line of the program's own on stderr? */
bool gwi_stderr_is_empty(const gw_stderr_facts *facts);
/* Does the last line of stderr hold `part`, or say that `failure` happened, and not that the program goes on? Either
 * may be NULL. */
bool gwi_are_last_words(const gwi_case *c, const char *part, const gw_failure *failure);
/* `most`, unless the run ended of something else: an exception that is not about the GPU, a signal, or well. More than
 * supported only where the program itself says that it ended of the failure: by an exception about the GPU that it did
 * not go on after, or as its last words, soon after the failure. */
gw_certainty gwi_sure_of_end(const gwi_case *c, const gw_failure *failure, gw_certainty most);
/* How sure the program's words alone make it: supported where its driver calls were seen, too. */
gw_certainty gwi_sure_of_words(const gwi_case *c);
/* Does the recording say that this file is in /dev? False and *ret_known false: nothing is recorded of /dev. */
bool gwi_has_device_file(const gwi_case *c, const char *name, bool *ret_known);
/* The devices that the program may see, as its environment says; NULL: it says nothing. */
const char *gwi_visible_devices(const gwi_case *c);

/* For a clean run: a framework built for CUDA, a GPU in the machine, and nobody used it. False: no memory. */
bool gwi_advise_unused_gpu(const gwi_case *c, gw_string_list *advice);

#endif
