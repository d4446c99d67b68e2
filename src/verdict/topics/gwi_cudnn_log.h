/* What cuDNN's own log (`run --deep`) says of the judged process. It bears evidence; what a status means in the end is
 * for the causes. Warnings are normal traffic: cuDNN asks itself which of its algorithms would do. */
#ifndef GWI_VERDICT_CUDNN_LOG_H
#define GWI_VERDICT_CUDNN_LOG_H

#include "gwi_cause.h"

/* The last error of the judged process whose status holds one of these words (ending with NULL; NULL: any). NULL: none.
 */
const gw_cudnn_line *gwi_cudnn_error(const gwi_case *c, const char *const *words);
/* Was it read within a second of that instant? */
bool gwi_cudnn_is_near(const gw_cudnn_line *line, uint64_t t_ns);
void gwi_cudnn_say(gwi_finding *finding, const gw_cudnn_line *line);
/* gwi_judge_by_log(); where that finds nothing: the process ended badly right after an error with such a status, and
 * nothing else that was recorded explains it. */
gw_certainty gwi_cudnn_judge(const gwi_case *c, gwi_finding *finding, const char *const *words, const char *headline);
/* ", and cuDNN's own log ...": what it says of workspaces near that instant. */
void gwi_cudnn_add_workspace(const gwi_case *c, uint64_t t_ns, gw_text *text);

#endif
