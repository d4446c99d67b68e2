/* Finds the stderr line that reports a full disk or a reached limit, if this refusal ended the program. */
#include "gwi_host.h"

#include <string.h>

/* If a program ends because the host refused something, it usually reports the refusal at most this long before its
 * end. */
static const uint64_t near_end_ns = 5000000000u;

static bool is_shared_memory(const char *text)
{
    return strstr(text, "/dev/shm") != NULL || strstr(text, "shared memory") != NULL || strstr(text, "shm_") != NULL ||
           strstr(text, "psm_") != NULL || strstr(text, "</torch_") != NULL;
}

const gw_stderr_line *gwi_host_words(const gwi_case *c, gwi_host_refusal refusal)
{
    enum { ABORTED = 6 };
    const gw_stderr_facts *facts = &c->model->stderr_facts;
    const gw_stderr_line *line = refusal == GWI_HOST_DISK ? &facts->disk_full : &facts->limit;
    bool by_itself = c->ended && c->bad_end && (c->signal == 0 || c->signal == ABORTED);
    if (!line->seen || !by_itself || c->root != NULL || is_shared_memory(line->text))
        return NULL;
    if (facts->exception.seen && c->signal == 0)
        return strcmp(facts->exception.text, line->text) == 0 ? line : NULL;
    if (facts->terminate.seen && c->signal == ABORTED)
        return strcmp(facts->terminate.text, line->text) == 0 ? line : NULL;
    return c->signal == 0 && line->t_ns + near_end_ns >= c->model->t_end_ns ? line : NULL;
}
