/* Finds and reports lines of cuDNN's own log (`run --deep`) about the judged process. What the status in a line means
 * is decided by the causes that use these functions. Warnings are normal, because cuDNN tries out which of its
 * algorithms are suitable. */
#ifndef GWI_VERDICT_CUDNN_LOG_H
#define GWI_VERDICT_CUDNN_LOG_H

#include "gwi_cause.h"

/* Return the last error of the judged process whose status contains one of `words`, a list that ends with NULL. If
 * `words` is NULL, any status matches. Returns NULL if there is no such error. */
const gw_cudnn_line *gwi_cudnn_error(const gwi_case *c, const char *const *words);
/* True if the line was read within a second of `t_ns`. */
bool gwi_cudnn_is_near(const gw_cudnn_line *line, uint64_t t_ns);
void gwi_cudnn_say(gwi_finding *finding, const gw_cudnn_line *line);
/* Judge a cause by cuDNN's log. SUPPORTED: the last error in the log has a status with one of `words`, the process
 * ended badly within 5 s of the error, and no other record explains the end. HYPOTHESIS: the same, but an exception
 * that is not about the GPU may explain the end. Otherwise NONE. Call this only if gwi_judge_by_log() returned NONE,
 * because that function reports the error, too. */
gw_certainty gwi_cudnn_judge(const gwi_case *c, gwi_finding *finding, const char *const *words, const char *headline);
/* Append "; cuDNN's own log ..." with the line about a workspace that was read within a second of `t_ns`, if there is
 * one. */
void gwi_cudnn_add_workspace(const gwi_case *c, uint64_t t_ns, gw_text *text);

#endif
