/* Lines of cuDNN's own log (`run --deep`) about the judged process. They serve as evidence; the causes interpret a
 * status. Warnings are normal, because cuDNN checks internally which of its algorithms is suitable. */
#ifndef GWI_VERDICT_CUDNN_LOG_H
#define GWI_VERDICT_CUDNN_LOG_H

#include "gwi_cause.h"

/* The last error of the judged process whose status holds one of these words (ending with NULL; NULL: any). NULL: none.
 */
const gw_cudnn_line *gwi_cudnn_error(const gwi_case *c, const char *const *words);
/* True if the line was read within a second of that time. */
bool gwi_cudnn_is_near(const gw_cudnn_line *line, uint64_t t_ns);
void gwi_cudnn_say(gwi_finding *finding, const gw_cudnn_line *line);
/* Calls gwi_judge_by_log(). If that finds nothing, the cause is supported if the process ended badly right after an
 * error with such a status and nothing else in the recording explains it. */
gw_certainty gwi_cudnn_judge(const gwi_case *c, gwi_finding *finding, const char *const *words, const char *headline);
/* Add "; cuDNN's own log ..." with its line about workspaces near that time, if there is one. */
void gwi_cudnn_add_workspace(const gwi_case *c, uint64_t t_ns, gw_text *text);

#endif
