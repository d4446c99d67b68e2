/* For causes in the software around a program: the call that prevented CUDA from starting or code from loading, the
 * versions of the components, and the certainty of a verdict that rests on a result code which names the problem
 * itself. */
#ifndef GWI_START_H
#define GWI_START_H

#include "gw_data.h"
#include "gwi_cause.h"

/* Versions of the components. 0, NULL: not known. */
typedef struct gwi_versions {
    unsigned api_major, api_minor; /* the CUDA version that the driver supports */
    gw_version driver;             /* 580.159.4, from the file's name */
    const char *driver_path;       /* borrowed from the model */
    const char *module;            /* of the kernel driver, as written */
    const gw_library *runtime;     /* the newest copy in the process */
    gw_version capability;         /* of the failing device */
    bool has_capability;
} gwi_versions;
gwi_versions gwi_versions_of(const gwi_case *c);
/* Report the known versions as evidence. */
void gwi_say_versions(const gwi_versions *versions, gwi_finding *finding);

/* The root failure if it has this result, else NULL. */
const gw_failure *gwi_root_with(const gwi_case *c, uint16_t result);
/* True if the failure was before the process had any context. */
bool gwi_is_before_context(const gwi_case *c, const gw_failure *failure);
/* Report call, result and place as evidence, set the verdict's place, and list the later failures as consequences. */
void gwi_say_failed_call(const gwi_case *c, gwi_finding *finding, const gw_failure *failure);
/* True if the program itself printed no line on stderr. */
bool gwi_stderr_is_empty(const gw_stderr_facts *facts);
/* True if the last line of stderr contains `part` or reports `failure`, and does not say that the program goes on.
 * Either may be NULL. */
bool gwi_are_last_words(const gwi_case *c, const char *part, const gw_failure *failure);
/* `most`, unless the run ended for another reason (an exception that is not about the GPU, or a signal) or ended well.
 * More than supported only if the program itself reports that it ended because of the failure: with an exception about
 * the GPU after which it did not go on, or as its last output, soon after the failure. */
gw_certainty gwi_sure_of_end(const gwi_case *c, const gw_failure *failure, gw_certainty most);
/* The certainty from the program's messages alone: supported if its driver calls were also recorded. */
gw_certainty gwi_sure_of_words(const gwi_case *c);
/* True if the recording shows that this file exists in /dev. *ret_known false: the recording has nothing about /dev. */
bool gwi_has_device_file(const gwi_case *c, const char *name, bool *ret_known);
/* The devices that the program may see, from its environment; NULL: not set. */
const char *gwi_visible_devices(const gwi_case *c);

/* For a clean run: advice if the framework is built for CUDA and the machine has a GPU, but the program did not use it.
 * False: no memory. */
bool gwi_advise_unused_gpu(const gwi_case *c, gw_string_list *advice);

#endif
