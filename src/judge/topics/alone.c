/* Reports streams that the program never waits for while it waits for other work. A kernel there that never ends would
 * remain unnoticed. There are two harmless explanations:
 * - the kernel is meant to keep running;
 * - it ended long ago, which gpuwhy cannot see without a query to the driver.
 * So these streams are only a hypothesis, and only in a run that was ended from outside or still runs. */
#include "gwi_alone.h"
#include "gwi_suspects.h"

#include "gw_text.h"

#include <inttypes.h>
#include <stdio.h>

enum { SAID_MAX = 3 };
/* A stream is reported only if nothing has waited for it for this long. Few kernels run for more than 5 s, and few
 * programs wait longer to synchronise. */
static const uint64_t long_ns = 5000000000u;

bool gwi_was_ended_from_outside(const gwi_case *c)
{
    enum { OF_TIMEOUT = 124, OF_SIGNAL = 128 }; /* exit status of timeout(1); a shell adds 128 to a signal's number */
    int signal = 0;
    if (c->signal != 0)
        signal = c->signal;
    else if (c->exit_code > OF_SIGNAL)
        signal = c->exit_code - OF_SIGNAL;
    return signal == 1 || signal == 2 || signal == 3 || signal == 9 || signal == 15 || signal == 24 ||
           c->exit_code == OF_TIMEOUT;
}

bool gwi_alone_matters(const gwi_case *c)
{
    return c->process != NULL && c->root == NULL && (!c->ended || gwi_was_ended_from_outside(c));
}

/* Return the time at which the process ended. If it still runs, return the latest time at which it was observed. */
static uint64_t now_ns(const gwi_case *c, uint32_t pid)
{
    const gw_process *process = gw_model_process(c->model, pid);
    bool has_ended = process != NULL && process->exit_known;
    uint64_t now = has_ended ? process->t_exit_ns : c->model->t_end_ns;
    for (size_t i = 0; !has_ended && i < c->model->hang_count; i++)
        if (c->model->hang[i].pid == pid && c->model->hang[i].t_ns > now)
            now = c->model->hang[i].t_ns;
    return now;
}

/* True if the stream belongs to the judged process. If that process made no driver call, it is a launcher such as
 * timeout(1). The streams of all processes then belong to the case. */
static bool is_of_case(const gwi_case *c, const gw_alone *it)
{
    return it->pid == c->process->pid || (c->process->t_first_call_ns == 0 && !c->process->init_ok);
}

const gw_alone *gwi_alone(const gwi_case *c, size_t index)
{
    for (size_t i = 0; c->process != NULL && i < c->model->alone_count; i++) {
        const gw_alone *it = &c->model->alone[i];
        if (is_of_case(c, it) && it->t_ns + long_ns <= now_ns(c, it->pid) && index-- == 0)
            return it;
    }
    return NULL;
}

bool gwi_is_any_alone(const gwi_case *c)
{
    const gw_alone *first = gwi_alone(c, 0);
    return first != NULL && first->on_record && gwi_alone_matters(c);
}

/* Format "12.3 s before the program ended" or "12.3 s ago". */
static const char *when_text(const gwi_case *c, const gw_alone *it, char out[64])
{
    uint64_t now = now_ns(c, it->pid);
    double s = now < it->t_ns ? 0 : (double)(now - it->t_ns) / 1e9;
    snprintf(out, 64, c->ended ? "%.1f s before the program ended" : "%.1f s ago", s);
    return out;
}

static void add_sentence(const gwi_case *c, const gw_alone *it, gw_text *text)
{
    char kernel[GWI_KERNEL_TEXT_MAX], stream[GWI_STREAM_TEXT_MAX], launched[GWI_LAUNCHED_TEXT_MAX], when[64];
    char at[GWI_PLACE_TEXT_MAX], of[24] = "";
    gwi_at(c, it->site, at);
    launched[0] = '\0';
    if (at[0] == '\0')
        gwi_launched_text(launched, c, it->pid, it->kernel);
    if (it->pid != c->process->pid)
        snprintf(of, sizeof of, "pid %" PRIu32 ": ", it->pid);
    gw_text_addf(text, "%s%s was launched%s on %s%s %s", of,
                 it->kernel != NULL ? gwi_kernel_text(kernel, it->kernel) : "an unnamed kernel",
                 it->is_graph_launch ? " from a graph" : "", gwi_stream_text(stream, it->stream), at,
                 when_text(c, it, when));
    if (it->on_record)
        gw_text_addf(
            text,
            ", and the program has not waited for that stream since; meanwhile it waited for other work %" PRIu64
            " time%s",
            it->waits_after, GWI_PLURAL(it->waits_after));
    else
        gw_text_addf(text,
                     "; it may have ended: the recording contains only the last %d calls of each thread, and none of "
                     "these concerned that stream",
                     GW_RING_ENTRIES);
    if (it->on_record && it->launches > 1)
        gw_text_addf(text, "; %" PRIu64 " more launch%s followed on that stream", it->launches - 1,
                     it->launches == 2 ? "" : "es");
    if (launched[0] != '\0')
        gw_text_addf(text, "; %s", launched);
}

static void say(const gwi_case *c, gwi_finding *finding, const gw_alone *it)
{
    gw_text text = {0};
    add_sentence(c, it, &text);
    gwi_evidence(finding, it->t_ns, "driver", "%s", gw_text_str(&text));
    if (!it->on_record)
        gwi_weigh(finding, GW_WEIGHT_ASIDE);
    finding->failed = finding->failed || text.failed;
    gw_text_free(&text);
}

void gwi_say_alone(const gwi_case *c, gwi_finding *finding)
{
    const gw_alone *it;
    if (!gwi_alone_matters(c))
        return;
    for (size_t i = 0; i < SAID_MAX && (it = gwi_alone(c, i)) != NULL; i++)
        say(c, finding, it);
    if (gwi_is_any_alone(c))
        gwi_next(finding, "If that kernel should have ended, check its loops, and make the program wait for its "
                          "stream; a kernel that is meant to keep running looks the same");
}

void gwi_say_off_record(const gwi_case *c, gwi_finding *finding)
{
    size_t said = 0;
    for (size_t i = 0; c->process != NULL && i < c->model->alone_count && said < SAID_MAX; i++) {
        const gw_alone *it = &c->model->alone[i];
        if (!is_of_case(c, it) || it->on_record)
            continue;
        say(c, finding, it);
        gwi_weigh(finding, GW_WEIGHT_PLAIN);
        said++;
    }
}

bool gwi_fill_alone(const gwi_case *c, gw_verdict *verdict)
{
    const gw_alone *it;
    bool good = true;
    for (size_t i = 0; gwi_alone_matters(c) && good && i < SAID_MAX && (it = gwi_alone(c, i)) != NULL; i++) {
        gw_text text = {0};
        add_sentence(c, it, &text);
        good = !text.failed && gwi_list_add(&verdict->left_alone, gw_text_str(&text));
        gw_text_free(&text);
    }
    return good;
}
