/* Adds the uncaught exception that ended a Python interpreter to the stored text of stderr, as its last lines.
 *
 * stderr may have gone to /dev/null. If it already contains the exception, nothing is added.
 * hook/torch/observer_raised.c records the exception. */
#include "gw_array.h"
#include "gwi_inner.h"

#include "gw_text.h"

#include <stdlib.h>
#include <string.h>

enum { RAISED_BYTES_MAX = 32 << 10, INTERRUPTED = 130, SIGNAL_INTERRUPT = 2 };

void gwi_raised_event(gw_model *model, gw_process *process, const gw_event *event)
{
    size_t bytes = event->text == NULL ? 0 : event->text_bytes;
    if (process->raised_bytes + bytes + 2 > RAISED_BYTES_MAX)
        return;
    if (!gw_array_resize(&process->raised, process->raised_bytes + bytes + 2, 1)) {
        model->inner->nomem = true;
        return;
    }
    if (bytes > 0)
        memcpy(process->raised + process->raised_bytes, event->text, bytes);
    process->raised_bytes += bytes;
    process->raised[process->raised_bytes++] = '\n';
    process->raised[process->raised_bytes] = '\0';
    process->t_raised_ns = event->t_ns;
}

/* True if the exception ended the process: its status is 1, or 130 or SIGINT after an interrupt. Otherwise the
 * program had continued. Debuggers and test runners also set Python's last exception, which the hook reads. If the
 * status is unknown, the result is true for a child process and false for the command. */
static bool ended_by_it(const gw_process *process)
{
    if (process->raised == NULL)
        return false;
    if (!process->exit_known || !process->exit.status_known || process->is_own_stop)
        return !process->is_command || process->is_own_stop;
    return process->exit.exit_code == 1 || process->exit.exit_code == INTERRUPTED ||
           process->exit.signal == SIGNAL_INTERRUPT;
}

/* Return the last line that begins a message, such as "ValueError: ...", or NULL. *ret_bytes is its length, at
 * least 1. Empty lines are skipped: a class may have an empty name, and a damaged recording may contain any text. */
static const char *exception_line(const gw_process *process, size_t *ret_bytes)
{
    const char *found = NULL, *end = process->raised + process->raised_bytes;
    bool after_frames = false;
    for (const char *line = process->raised, *next; line < end; line = next) {
        size_t bytes = strcspn(line, "\n");
        next = line + bytes + 1;
        if (bytes == 0)
            continue;
        bool is_frame = gw_begins(line, "  File \"") || gw_begins(line, "Traceback (");
        if (!is_frame && after_frames) {
            found = line;
            *ret_bytes = bytes;
        }
        after_frames = is_frame;
    }
    return found;
}

/* Return the process whose exception is reported, or NULL. This is the command, unless its exception only reports a
 * failed child. Otherwise it is the process with the first exception: later ones may only follow from it. */
static const gw_process *first_raised(const gw_model *model)
{
    const gw_process *first = NULL;
    for (size_t i = 0; i < model->process_count; i++) {
        const gw_process *process = &model->process[i];
        size_t bytes;
        if (!ended_by_it(process))
            continue;
        const char *line = process == model->command ? exception_line(process, &bytes) : NULL;
        if (line != NULL && !gwi_stderr_is_about_child(line))
            return process;
        if (first == NULL || process->t_raised_ns < first->t_raised_ns)
            first = process;
    }
    return first;
}

/* True if the last traceback begins at the top level of a program, not in a function. Input to the interactive
 * console is not a program. */
static bool is_from_top(const char *raised)
{
    const char *last = NULL;
    for (const char *at = raised; (at = strstr(at, "Traceback (most recent call last):\n")) != NULL; at++)
        last = at;
    const char *frame = last == NULL ? NULL : strchr(last, '\n') + 1;
    if (frame == NULL || !gw_begins(frame, "  File \""))
        return false;
    size_t bytes = strcspn(frame, "\n");
    const char *module = strstr(frame, ", in <module>"), *runner = strstr(frame, "runpy");
    return (module != NULL && module < frame + bytes && !gw_begins(frame, "  File \"<console>")) ||
           (runner != NULL && runner < frame + bytes);
}

static bool is_said(const gw_stderr_facts *facts, const char *line, size_t bytes)
{
    if (facts->output == NULL)
        return false;
    const char *at = facts->output->text, *end = at + facts->output->bytes;
    while (at != NULL && (size_t)(end - at) >= bytes &&
           (at = memchr(at, line[0], (size_t)(end - at) - bytes + 1)) != NULL) {
        if (memcmp(at, line, bytes) == 0)
            return true;
        at++;
    }
    return false;
}

/* True if the exception reports that nothing reads the program's output any more, and gpuwhy had died. gpuwhy reads
 * stderr, so the exception is a consequence of this death. An exception that gpuwhy has read itself is on stderr, and
 * came before. */
static bool follows_from_our_death(const gw_model *model, const char *line, size_t bytes)
{
    const char *number = strstr(line, "[Errno 32]");
    return model->truncated && (gw_begins(line, "BrokenPipeError") || (number != NULL && number < line + bytes));
}

/* Forget the exceptions that gpuwhy caused by ending the program. */
static void drop_own(gw_model *model)
{
    uint64_t own_ns = model->inner->own_stop_ns;
    for (size_t i = 0; own_ns != 0 && i < model->process_count; i++) {
        gw_process *process = &model->process[i];
        if (process->raised == NULL || process->t_raised_ns < own_ns)
            continue;
        free(process->raised);
        process->raised = NULL;
        process->raised_bytes = 0;
    }
}

void gwi_raised_finish(gw_model *model)
{
    drop_own(model);
    gw_stderr_facts *facts = &model->stderr_facts;
    const gw_process *process = first_raised(model);
    size_t bytes = 0;
    if (process == NULL)
        return;
    const char *line = exception_line(process, &bytes);
    bool wanted = line != NULL && !is_said(facts, line, bytes);
    model->output_lost = wanted && follows_from_our_death(model, line, bytes);
    if (!wanted || model->output_lost)
        return;
    uint64_t said = facts->bytes;
    if (facts->output != NULL && facts->output->bytes > 0 && facts->output->text[facts->output->bytes - 1] != '\n')
        gwi_stderr_part(model, process->t_raised_ns, "\n", 1);
    facts->inside_pid = process->pid;
    /* A child's exception counts as having ended the command only if the command has an exception, too. */
    const gw_process *command = model->command;
    facts->inside_from_top =
        is_from_top(process->raised) && (process == command || (command != NULL && command->raised != NULL));
    gwi_stderr_part(model, process->t_raised_ns, process->raised, process->raised_bytes);
    if (facts->output != NULL)
        facts->output->inside_at = facts->output->bytes - process->raised_bytes;
    facts->bytes = said;
}
