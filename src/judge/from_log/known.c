/* Finds the known problems of libraries that may explain the end of a program. */
#include "gwi_known.h"

#include "gw_text.h"
#include "gwi_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76 };

/* ---- the software ---- */

static void add_from_text(const gwi_log_case *text, gw_software *software)
{
    for (size_t i = 0; i < text->log->find_count; i++) {
        const gw_log_find *find = &text->log->find[i];
        if (find->sign == GW_SAYS_VERSION && gw_log_text(find, "package") != NULL)
            gw_software_add_text(software, gw_log_text(find, "package"), gw_log_text(find, "version"));
    }
    gw_software_add_text(software, "driver", text->context.driver);
    gw_software_add_card(software, text->context.card);
}

static void add_card(const gw_model *model, const gw_process *process, gw_software *software)
{
    unsigned cards = 0;
    for (int i = 0; i < GW_MODEL_DEVICES_MAX; i++) {
        const gw_device *device = &model->device[i];
        if (!process->usage[i].used)
            continue;
        cards++;
        if (device->has_attribute[CAPABILITY_MAJOR] && device->has_attribute[CAPABILITY_MINOR])
            gw_software_add(software, "capability",
                            gw_version_of((unsigned)device->attribute[CAPABILITY_MAJOR],
                                          (unsigned)device->attribute[CAPABILITY_MINOR], 0));
        gw_software_add_card(software, device->name);
    }
    if (cards > 0)
        gw_software_add(software, "cards", gw_version_of(cards, 0, 0));
}

/* Add the packages whose native code was mapped in the process. */
static void add_packages(const gw_model *model, const gw_process *process, gw_software *software)
{
    for (size_t i = 0; i < model->fact_count; i++) {
        const gw_pair *fact = &model->fact[i];
        char name[GW_SOFTWARE_NAME_MAX], version[GW_VERSION_TEXT_MAX];
        if (fact->what == GW_FACT_PACKAGE && fact->pid == process->pid &&
            sscanf(fact->value, "%31s %23s", name, version) == 2)
            gw_software_add_text(software, name, version);
    }
    gw_software_add_text(software, "torch", process->torch_release);
}

static void software_of_process(const gw_model *model, const gw_process *process, gw_software *software)
{
    for (size_t i = 0; i < process->libraries.count; i++) {
        const gw_library *library = &process->libraries.item[i];
        if (!library->is_major_only && library->part[0] == '\0')
            gw_software_add(software, gw_library_kind_text(library->kind), library->version);
    }
    add_card(model, process, software);
    add_packages(model, process, software);
}

static void software_of(const gwi_case *c, gw_software *ret_software)
{
    *ret_software = (gw_software){0};
    if (c->process != NULL)
        software_of_process(c->model, c->process, ret_software);
    if (c->text != NULL)
        add_from_text(c->text, ret_software);
}

/* ---- what betrays a problem ---- */

/* What shows that the program used what is broken. */
typedef struct trace {
    const char *kernel;   /* mangled name of a kernel that the process launched; NULL: none */
    const char *function; /* function that requested the memory that was refused; NULL: none */
    bool is_printed;      /* a line of the output or the log */
} trace;

static bool is_printed(const void *context, const char *word, size_t bytes)
{
    const gw_log *log = context;
    for (size_t i = 0; log != NULL && i < log->find_count; i++) {
        if (memmem(log->find[i].text, strlen(log->find[i].text), word, bytes) != NULL)
            return true;
    }
    return false;
}

static bool is_in(const void *context, const char *word, size_t bytes)
{
    return memmem(context, strlen(context), word, bytes) != NULL;
}

static const char *launched(const gw_model *model, uint32_t pid, const char *words)
{
    for (size_t i = 0; i < model->launch_site_count; i++) {
        const gw_launch_site *launch = &model->launch_site[i];
        if (launch->pid == pid && launch->kernel != NULL && gw_regression_has(words, is_in, launch->kernel))
            return launch->kernel;
    }
    for (const gw_thread *thread = gw_model_first_thread(model, pid); thread != NULL;
         thread = gw_model_next_thread(model, thread)) {
        for (size_t i = 0; i < thread->ring_count; i++) {
            if (thread->ring[i].kernel != NULL && gw_regression_has(words, is_in, thread->ring[i].kernel))
                return thread->ring[i].kernel;
        }
    }
    return NULL;
}

static const char *requested_by(const gwi_case *c, const char *words)
{
    const gw_stack *stack = gw_sites_stack(c->model->sites, gwi_request_site(c));
    for (size_t i = 0; stack != NULL && i < stack->count; i++) {
        const char *function = stack->frame[i].function;
        if (function != NULL && gw_regression_has(words, is_in, function))
            return function;
    }
    return NULL;
}

static trace trace_of(const gwi_case *c, const gw_regression *row)
{
    const gw_log *log = c->text == NULL ? NULL : c->text->log;
    trace found = {.is_printed = gw_regression_has(row->seen, is_printed, log) ||
                                 gw_regression_has(row->kernel, is_printed, log)};
    if (c->process != NULL && row->kernel != NULL) {
        found.kernel = launched(c->model, c->process->pid, row->kernel);
        found.function = requested_by(c, row->kernel);
    }
    return found;
}

static bool is_traced(const trace *found)
{
    return found->kernel != NULL || found->function != NULL || found->is_printed;
}

static bool is_cause(const gw_verdict *verdict, const char *beginning)
{
    return verdict->cause != NULL && gw_begins(verdict->cause, beginning);
}

/* True if the problem's effect can be the failure that the verdict is about. Words that are seen (`seen`) are part of a
 * message for most effects, but only an operation's name for memory. */
static bool fits(const gw_verdict *verdict, gw_harm effect, bool seen)
{
    bool is_clean = verdict->status == GW_VERDICT_CLEAN, is_host = is_cause(verdict, "host-oom");
    bool is_card = is_cause(verdict, "gpu-oom") || is_cause(verdict, "gpu-hidden");
    /* A library's failure may only look like one of memory. */
    bool is_guess = is_cause(verdict, "gpu-oom-library-handle") && verdict->certainty < GW_SUPPORTED;
    bool is_memory = (is_card || is_host) && !is_guess;
    switch (effect) {
    case GW_HARM_MEMORY:
        return is_card;
    case GW_HARM_HOST_MEMORY:
        return is_host;
    case GW_HARM_HANG:
        return !is_clean && (seen || verdict->is_hang);
    case GW_HARM_WRONG:
        return is_cause(verdict, "numeric-divergence");
    case GW_HARM_SLOW:
        return seen && is_clean;
    case GW_HARM_CRASH:
        return !is_clean && !is_memory && (seen || verdict->context_lost || verdict->signal != 0);
    default:
        return !is_clean && !is_memory && (seen || !verdict->is_hang);
    }
}

/* ---- the verdict ---- */

/* Remove from the advice what this row contradicts. */
static void withdraw(const gw_regression *row, gw_string_list *next)
{
    size_t kept = 0;
    for (size_t i = 0; i < next->count; i++) {
        bool is_against = false;
        for (const char *at = row->withdraws; at != NULL && *at != '\0'; at += *at == '|') {
            size_t bytes = strcspn(at, "|");
            is_against = is_against || memmem(next->item[i], strlen(next->item[i]), at, bytes) != NULL;
            at += bytes;
        }
        if (is_against)
            free(next->item[i]);
        else
            next->item[kept++] = next->item[i];
    }
    next->count = kept;
}

static bool add_cure(const gw_regression *row, bool is_first, gw_string_list *next)
{
    if (!gwi_list_add(next, row->cure))
        return false;
    for (size_t i = next->count - 1; is_first && i > 0; i--) {
        char *before = next->item[i - 1];
        next->item[i - 1] = next->item[i];
        next->item[i] = before;
    }
    return true;
}

/* Append the observation that betrays the problem in a recording. */
static void say_trace(const trace *found, gw_text *text)
{
    char name[GWI_KERNEL_TEXT_MAX];
    if (found->function != NULL)
        gw_text_addf(text, "; the refused request came from %s", gwi_kernel_text(name, found->function));
    else if (found->kernel != NULL)
        gw_text_addf(text, "; the program launched %s", gwi_kernel_text(name, found->kernel));
}

static bool add_known(const gw_regression *row, const gw_software *software, const trace *found, gw_certainty certainty,
                      gw_verdict *verdict)
{
    gw_text text = {0};
    gw_verdict_known *more = realloc(verdict->known, (verdict->known_count + 1) * sizeof *more);
    if (more == NULL)
        return false;
    verdict->known = more;
    gw_regression_say(row, software, &text);
    say_trace(found, &text);
    bool good = !text.failed && gw_str_copy(gw_text_str(&text), &more[verdict->known_count].text);
    gw_text_free(&text);
    if (!good)
        return false;
    more[verdict->known_count].cure = row->cure;
    more[verdict->known_count].source = row->source;
    more[verdict->known_count++].certainty = certainty;
    if (certainty == GW_SUPPORTED)
        withdraw(row, &verdict->next);
    return add_cure(row, certainty == GW_SUPPORTED, &verdict->next);
}

/* True if the memory is missing for another reason than that the work needs much. Then a launched kernel does not show
 * that its memory is what is missing. */
static bool is_missing_elsewhere(const gw_verdict *verdict)
{
    static const char *const causes[] = {"gpu-oom-leak", "gpu-oom-other-process", "gpu-oom-fragmentation",
                                         "gpu-oom-preallocation"};
    return verdict->cause != NULL && verdict->certainty >= GW_SUPPORTED && GW_IS_ONE_OF(verdict->cause, causes);
}

/* Return how certain it is that the program met the problem of a row. NONE: nothing shows it. In a recording, the
 * kernels show what a program did, so a word of its output, such as the name of an operation, is less than that. */
static gw_certainty judge_row(const gwi_case *c, const gw_regression *row, const gw_software *software,
                              const gw_verdict *verdict, trace *ret_found)
{
    gw_applies applies = gw_regression_applies(row, software);
    *ret_found = applies != GW_APPLIES_NOT ? trace_of(c, row) : (trace){0};
    bool is_seen = is_traced(ret_found), has_words = row->seen != NULL || row->kernel != NULL;
    if (applies == GW_APPLIES_NOT || (has_words && !is_seen) || (!has_words && applies != GW_APPLIES) ||
        !fits(verdict, row->effect, is_seen))
        return GW_CERTAINTY_NONE;
    bool is_launched = ret_found->kernel != NULL && !(row->effect == GW_HARM_MEMORY && is_missing_elsewhere(verdict));
    bool is_used = is_seen && (is_launched || ret_found->function != NULL || row->kernel == NULL || c->process == NULL);
    return is_used && applies == GW_APPLIES && row->verified == GW_VERIFIED_YES ? GW_SUPPORTED : GW_HYPOTHESIS;
}

bool gwi_fill_known(const gwi_case *c, gw_verdict *verdict)
{
    enum { KNOWN_MAX = 4 };
    gw_software software;
    software_of(c, &software);
    for (gw_certainty certainty = GW_SUPPORTED; certainty >= GW_HYPOTHESIS; certainty--) {
        for (size_t i = 0; i < gw_data_regressions_count && verdict->known_count < KNOWN_MAX; i++) {
            const gw_regression *row = &gw_data_regressions[i];
            trace found;
            if (judge_row(c, row, &software, verdict, &found) == certainty &&
                !add_known(row, &software, &found, certainty, verdict))
                return false;
        }
    }
    return true;
}

bool gwi_advise_known(const gwi_case *c, const char *cause, gw_string_list *advice)
{
    for (size_t i = 0; i < c->model->process_count; i++) {
        gw_software software = {0};
        software_of_process(c->model, &c->model->process[i], &software);
        for (size_t k = 0; k < gw_data_regressions_count; k++) {
            const gw_regression *row = &gw_data_regressions[k];
            if (row->effect != GW_HARM_WRONG || row->seen != NULL || row->kernel != NULL ||
                row->verified != GW_VERIFIED_YES || gw_regression_applies(row, &software) != GW_APPLIES)
                continue;
            gw_text text = {0};
            gw_text_addf(&text, "%s: ", cause);
            gw_regression_say(row, &software, &text);
            gw_text_addf(&text, ". %s", row->cure);
            bool good = !text.failed && gwi_list_add(advice, gw_text_str(&text));
            gw_text_free(&text);
            return good;
        }
    }
    return true;
}
