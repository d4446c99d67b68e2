/* Finds and reports lines of cuDNN's own log (`run --deep`) about the judged process. The causes interpret the status
 * of a line. Warnings are normal, because cuDNN tests which of its algorithms are suitable. */
#ifndef GWI_VERDICT_CUDNN_LOG_H
#define GWI_VERDICT_CUDNN_LOG_H

#include "gwi_cause.h"

/* Return the last error of the judged process whose status contains one of `words`. The list ends with NULL; a NULL
 * list matches any status. Returns NULL if there is no such error. */
const gw_cudnn_line *gwi_cudnn_error(const gwi_case *c, const char *const *words);
/* True if the line was read within a second of `t_ns`. */
bool gwi_cudnn_is_near(const gw_cudnn_line *line, uint64_t t_ns);
void gwi_cudnn_say(gwi_finding *finding, const gw_cudnn_line *line);
/* The cause is supported if the process ended badly right after an error with such a status, and no other record
 * explains the end. Call gwi_judge_by_log() first, which also reports the line of the log. */
gw_certainty gwi_cudnn_judge(const gwi_case *c, gwi_finding *finding, const char *const *words, const char *headline);
/* Append "; cuDNN's own log ..." with the line about workspaces near that time, if there is one. */
void gwi_cudnn_add_workspace(const gwi_case *c, uint64_t t_ns, gw_text *text);

#endif
