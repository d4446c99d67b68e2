/* Finds and reports lines of cuDNN's own log (`run --deep`) about the judged process. Warnings are normal: cuDNN tries
 * algorithms to find suitable ones. */
#ifndef GWI_VERDICT_CUDNN_LOG_H
#define GWI_VERDICT_CUDNN_LOG_H

#include "gwi_cause.h"

/* Return the judged process's last error with a status that contains one of `words` (NULL-terminated), NULL if none.
 * `words` NULL: any error. */
const gw_cudnn_line *gwi_cudnn_error(const gwi_case *c, const char *const *words);
/* True if the line was read within a second of `t_ns`. */
bool gwi_cudnn_is_near(const gw_cudnn_line *line, uint64_t t_ns);
void gwi_cudnn_say(gwi_finding *finding, const gw_cudnn_line *line);
/* Judge a cause by cuDNN's log.
 * SUPPORTED needs all of these, otherwise NONE:
 * - the last error has a status that contains one of `words`
 * - the process ended badly within 5 s of it
 * - no other record explains the end
 *
 * HYPOTHESIS instead if an exception that is not about the GPU may explain the end. */
gw_certainty gwi_cudnn_judge(const gwi_case *c, gwi_finding *finding, const char *const *words, const char *headline);
/* Append "; cuDNN's own log ..." if the log has a line about a workspace, read within a second of `t_ns`. */
void gwi_cudnn_add_workspace(const gwi_case *c, uint64_t t_ns, gw_text *text);

#endif
