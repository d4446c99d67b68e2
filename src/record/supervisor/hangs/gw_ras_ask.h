/* Asks NCCL's RAS on this machine how far the ranks of a job are (gw_ras.h reads the answers).
 *
 * RAS is a thread of each process with NCCL 2.24 or later. It listens on a TCP port, which all processes of a user may
 * share, so a question may reach a stopped process, or one of another job. So several connections ask at once, the
 * first whole answer counts, and an answer without one of the given pids is discarded. Only an address of this machine
 * is asked, and only if no other user than root listens there. */
#ifndef GW_RAS_ASK_H
#define GW_RAS_ASK_H

#include "gw_text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_RAS_ANSWERS = 2 };

/* Ask twice, 0.3 s apart: equal counts show that the ranks are stuck. Takes at most 2 s, in which `meanwhile`, which
 * may be NULL, is called at least every 50 ms. Appends each answer to ret_answer[0], ret_answer[1], which the caller
 * frees. Returns the number of answers, or -1 if none of the processes has RAS. */
int gw_ras_ask(const uint32_t *pid, size_t pid_count, void (*meanwhile)(void *user), void *user,
               gw_text ret_answer[GW_RAS_ANSWERS]);

#endif
