/* Decides what a text shows about the end of its program, and says it.
 *
 * A statement (gwi_statement) is a log line that reports an error. Its depth says how many other statements it
 * explains. One statement, the root, decides the verdict. It is the first one of the greatest depth, or a more certain
 * one of equal depth. A statement that the program survived cannot be the root.
 *
 * A log proves little, so its verdict is supported at most. One exception: a message with only one possible meaning, if
 * the log also shows its consequences. */
#include "gwi_log.h"

#include "gw_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the root ---- */

/* True if both statements report that the card's memory ran out, and `it` is more certain because it has numbers. A
 * program may report one failure twice. */
static bool is_same_but_surer(const gwi_statement *it, const gwi_statement *root)
{
    enum { LINES_NEAR = 100 };
    bool near_by = it->find->file != root->find->file || it->find->order - root->find->order <= LINES_NEAR;
    return near_by && it->certainty > root->certainty && gw_begins(it->cause[0], "gpu-oom-") &&
           gw_begins(root->cause[0], "gpu-oom-");
}

/* True if `it` follows the root closely and is at least supported, but the root is only a hypothesis. False if the root
 * reports a full card, which explains the errors after it, unless `it` is the text of that C++ exception:
 * rmm::bad_alloc has several reasons. */
static bool is_close_and_sure(const gw_log *log, const gwi_statement *it, const gwi_statement *root)
{
    enum { LINES_NEAR = 100 };
    uint64_t lines = it->find->order - root->find->order;
    bool is_what = lines == 1 && gw_log_in_line(log, GW_SAYS_UNCAUGHT, root->find->order) != NULL &&
                   gw_log_in_line(log, GW_SAYS_UNCAUGHT, it->find->order) != NULL;
    return it->find->file == root->find->file && lines <= LINES_NEAR && it->certainty >= GW_SUPPORTED &&
           root->certainty < GW_SUPPORTED && (is_what || !gw_begins(root->cause[0], "gpu-oom-"));
}

/* True if `it` is only a notice, such as one of the start, and the message of the exception that ended the program
 * states a problem that is as deep. The message may have several lines. */
static bool is_outdone(const gwi_log_case *c, const gwi_statement *it)
{
    enum { MESSAGE_LINES_MAX = 40 };
    const gw_log_find *end = c->exception;
    if (end == NULL || c->exception_about_child || it->find->order >= end->order || it->find->file != end->file ||
        !gw_log_has_traceback(c->log, end) || !gwi_log_is_notice(it->find->text))
        return false;
    for (size_t i = 0; i < c->count; i++) {
        const gwi_statement *other = &c->statement[i];
        if (!other->survived && other->depth >= it->depth && other->certainty >= it->certainty &&
            other->find->file == end->file && other->find->order >= end->order &&
            other->find->order - end->order <= MESSAGE_LINES_MAX)
            return true;
    }
    return false;
}

const gwi_statement *gwi_log_root(const gwi_log_case *c)
{
    const gwi_statement *root = NULL;
    for (size_t i = 0; i < c->count; i++) {
        const gwi_statement *it = &c->statement[i];
        if (it->survived || it->is_open || is_outdone(c, it))
            continue;
        bool better =
            root == NULL || it->depth > root->depth ||
            (it->depth == root->depth && (is_same_but_surer(it, root) || is_close_and_sure(c->log, it, root))) ||
            (it->depth == root->depth && it->certainty > root->certainty &&
             (it->depth <= GWI_LAST || it->find->order == root->find->order));
        if (better)
            root = it;
    }
    return root;
}

/* True if `cause` is the statement's first cause. */
static bool is_of(const gwi_statement *it, const char *cause)
{
    return it->cause_count > 0 && strcmp(it->cause[0], cause) == 0;
}

static bool speaks_of_gpu(const gw_log_find *exception)
{
    static const char *const words[] = {"CUDA", "cuda", "GPU", "cuDNN", "CUDNN", "cublas", "CUBLAS", "NCCL", "XLA"};
    return GW_HAS_ONE_OF(exception->text, words);
}

/* True if a later exception ended the program, and this exception is neither about the GPU nor about a killed process.
 * The program had then survived the root's problem. */
static bool ended_by_another(const gwi_log_case *c, const gwi_statement *root)
{
    static const char *const words[] = {"DNN", "Xla", "killed", "Killed", "libcu"};
    const gw_log_find *end = c->exception;
    return end != NULL && end->order > root->find->order && !c->exception_about_child && !speaks_of_gpu(end) &&
           !GW_HAS_ONE_OF(end->text, words);
}

static bool has_consequence(const gwi_log_case *c, const gwi_statement *root)
{
    for (size_t i = 0; i < c->log->find_count; i++) {
        const gw_log_find *find = &c->log->find[i];
        gw_sign_kind kind = gw_sign_kind_of(find->sign);
        bool bad =
            kind == GW_SIGN_FAULT || kind == GW_SIGN_STATUS || kind == GW_SIGN_END || find->sign == GW_SAYS_EXCEPTION;
        if (bad && find->order > root->find->order && strcmp(find->text, root->find->text) != 0)
            return true;
    }
    return c->exception != NULL && c->exception->order == root->find->order &&
           gw_log_has_traceback(c->log, c->exception);
}

/* ---- the conclusion ---- */

/* True for types of exceptions that are usually a mistake in the program's own code, even if the text names a GPU
 * library. */
static bool is_own_mistake(const char *type)
{
    static const char *const types[] = {"AttributeError", "NameError",   "UnboundLocalError",  "TypeError",
                                        "KeyError",       "SyntaxError", "ModuleNotFoundError"};
    return type != NULL && GW_IS_ONE_OF(type, types);
}

/* True if the program survived the problem, because a later exception of its own ended it. The problem was only logged
 * as a warning, or the exception is a mistake of the program's code. */
static bool is_outlived(const gwi_log_case *c, const gwi_statement *it)
{
    const gw_log_find *end = c->exception;
    return ended_by_another(c, it) && gw_log_has_traceback(c->log, end) && !gwi_log_lacks_value(c->log, end) &&
           !gwi_log_is_stated(c, end->order) && !gwi_log_is_between(c->log, GW_SAYS_CHAINED, it->find, end) &&
           (gwi_log_is_notice(it->find->text) || is_own_mistake(gw_log_text(end, "type")));
}

/* True if the program's last exception explains the end better than the statement `end`. Example: one process raises an
 * exception, and then a launcher ends the others with a signal. */
static bool is_told_by_exception(const gwi_log_case *c, const gwi_statement *end)
{
    if (c->exception == NULL || c->exception_about_child)
        return false;
    if (end->depth > GWI_LAST)
        return is_outlived(c, end);
    if (end->depth == GWI_NOTICE && speaks_of_gpu(c->exception))
        return false;
    return end->certainty < GW_SUPPORTED ||
           ((end->find->sign == GW_SAYS_TERMINATED || end->find->sign == GW_SAYS_ENDED_OUTSIDE) &&
            c->exception->order < end->find->order);
}

static gwi_conclusion conclude_exception(const gwi_log_case *c)
{
    gwi_conclusion end = {.kind = GWI_ENDED_BY_EXCEPTION, .it = {.find = c->exception}};
    const char *guess = speaks_of_gpu(c->exception) ? gwi_log_guess(c->exception->text) : NULL;
    bool own = !speaks_of_gpu(c->exception) || is_own_mistake(gw_log_text(c->exception, "type"));
    if (guess == NULL && !own)
        return end;
    gwi_log_add_causes(&end.it, guess != NULL ? guess : "script-exception");
    bool sure = !speaks_of_gpu(c->exception) && gw_log_has_traceback(c->log, c->exception);
    end.it.certainty = sure ? GW_SUPPORTED : GW_HYPOTHESIS;
    return end;
}

static gwi_conclusion conclude_silence(const gwi_log_case *c)
{
    const gw_log_find *open = gw_log_unanswered(c->log);
    gwi_conclusion end = {.kind = GWI_ENDED_IN_SILENCE, .it = {.find = open}};
    gw_log_ending ending = open == NULL ? gw_log_find_ending(c->log) : (gw_log_ending){0};
    end.good = ending.end;
    end.open = ending.open;
    end.serving = ending.serving;
    const char *guess = open == NULL ? NULL : gwi_log_guess(open->text);
    if (guess != NULL)
        gwi_log_add_causes(&end.it, guess);
    for (size_t i = 0; i < c->count; i++) {
        if (c->statement[i].is_open)
            gwi_log_add_causes(&end.it, c->statement[i].cause[0]);
    }
    return end;
}

gwi_conclusion gwi_log_conclude(const gwi_log_case *c)
{
    const gwi_statement *root = gwi_log_root(c);
    if (root == NULL || is_told_by_exception(c, root))
        return c->exception != NULL ? conclude_exception(c) : conclude_silence(c);
    gwi_conclusion end = {.kind = GWI_ENDED_BY_FAULT, .it = *root};
    if (root->certainty == GW_ESTABLISHED && (!has_consequence(c, root) || ended_by_another(c, root)))
        end.it.certainty = GW_SUPPORTED;
    return end;
}

/* ---- words ---- */

static const char *file_of(const gwi_log_case *c, const gw_log_find *find)
{
    const char *name = c->log->file[find->file].name;
    return strcmp(name, "-") == 0 ? "standard input" : gw_path_last(name);
}

uint64_t gwi_log_t_ns(const gwi_log_case *c, const gw_log_find *find)
{
    return c->recorded == NULL ? GWI_NO_TIME : gw_stderr_line_t_ns(c->recorded, find->file, find->line);
}

void gwi_log_say_line(const gwi_log_case *c, gwi_finding *finding, const gw_log_find *find)
{
    enum { TEXT_SHOWN = 300 };
    char rank[24] = "", quote[GW_QUOTE_MAX];
    gw_quote(quote, find->text, SIZE_MAX, TEXT_SHOWN);
    if (c->recorded != NULL && gw_stderr_is_inside(c->recorded, find)) {
        gwi_evidence(finding, gwi_log_t_ns(c, find), "python", "%s", quote);
        return;
    }
    if (find->rank >= 0)
        snprintf(rank, sizeof rank, " (rank %d)", find->rank);
    gwi_evidence(finding, gwi_log_t_ns(c, find), c->source, "%s:%" PRIu64 "%s: %s", file_of(c, find), find->line, rank,
                 quote);
}

static void say_same_cause(const gwi_log_case *c, gwi_finding *finding, const gwi_statement *root)
{
    enum { SHOWN_MAX = 3 };
    size_t shown = 0;
    uint64_t last = root->find->order;
    for (size_t i = 0; i < c->count && shown < SHOWN_MAX; i++) {
        const gwi_statement *it = &c->statement[i];
        if (it->find->order == last || it->survived || !is_of(it, root->cause[0]) ||
            strcmp(it->find->text, root->find->text) == 0)
            continue;
        gwi_log_say_line(c, finding, it->find);
        last = it->find->order;
        shown++;
    }
}

static void say_consequences(const gwi_log_case *c, gwi_finding *finding, const gwi_statement *root)
{
    enum { SHOWN_MAX = 4, TEXT_SHOWN = 140 };
    size_t shown = 0;
    char quote[GW_QUOTE_MAX];
    uint64_t last = root->find->order;
    for (size_t i = 0; i < c->count && shown < SHOWN_MAX; i++) {
        const gwi_statement *it = &c->statement[i];
        if (it->find->order <= last || is_of(it, root->cause[0]))
            continue;
        gwi_consequence(finding, "%s:%" PRIu64 ": %s", file_of(c, it->find), it->find->line,
                        gw_quote(quote, it->find->text, SIZE_MAX, TEXT_SHOWN));
        last = it->find->order;
        shown++;
    }
}

/* Report the card and the versions that appear in the log. */
static void say_context(const gwi_log_case *c, gwi_finding *finding, const gw_where *at)
{
    const gwi_log_context *context = &c->context;
    char bytes[GW_BYTES_TEXT_MAX];
    if (context->card != NULL && context->card_bytes != 0)
        gwi_evidence(finding, GWI_NO_TIME, c->source, "the card is a %s with %s", context->card,
                     gw_bytes_text(bytes, context->card_bytes));
    else if (context->card != NULL)
        gwi_evidence(finding, GWI_NO_TIME, c->source, "the card is a %s", context->card);
    else if (context->card_bytes != 0)
        gwi_evidence(finding, GWI_NO_TIME, c->source, "the card has %s", gw_bytes_text(bytes, context->card_bytes));
    if (context->driver != NULL)
        gwi_evidence(finding, GWI_NO_TIME, c->source, "the driver is %s", context->driver);
    if (context->version_text != NULL)
        gwi_evidence(finding, GWI_NO_TIME, c->source, "%s is %s%s", context->framework, context->version_text,
                     context->version_by_message ? " or older, judging by its message" : "");
    if (at != NULL && at->frame[0].python)
        gwi_evidence(finding, GWI_NO_TIME, c->source, "the exception was raised at %s", at->frame[0].text);
}

/* Report further log lines that support the root's cause: the first line for each sign in the table `rows`. */
static void say_beside(const gwi_log_case *c, gwi_finding *finding, const gwi_statement *root)
{
    static const struct {
        const char *begin; /* beginning of the cause's id */
        gw_sign sign;
    } rows[] = {{"numeric-divergence", GW_SAYS_LOSS_NAN},
                {"numeric-divergence", GW_SAYS_SCALE_SKIPPED},
                {"peer-died", GW_SAYS_NCCL_WORK},
                {"collective-desync", GW_SAYS_NCCL_WORK},
                {"straggler", GW_SAYS_NCCL_WORK},
                {"arch-not-in-binary", GW_SAYS_ARCH_LIST},
                {"library-version-mismatch", GW_SAYS_JAX_BUILT_AGAINST},
                {"gpu-off-bus", GW_SAYS_AER},
                {"faulty-gpu", GW_SAYS_AER},
                {"gpu-oom", GW_SAYS_TF_CARD},
                {"gpu-oom", GW_SAYS_BFC_IN_USE}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const gw_log_find *find = gwi_log_first(c->log, rows[i].sign);
        if (gw_begins(root->cause[0], rows[i].begin) && find != NULL && find->order != root->find->order)
            gwi_log_say_line(c, finding, find);
    }
}

const char *gwi_log_decider(const char *cause)
{
    static const struct {
        const char *begin, *option;
    } rows[] = {
        {"gpu-oom", "gpuwhy run -- COMMAND (shows who held how much memory, and where it was allocated)"},
        {"gpu-context", "gpuwhy run -- COMMAND (shows which process created a context on which card)"},
        {"illegal-address", "gpuwhy run --core -- COMMAND (shows the kernel and the line)"},
        {"device-assert", "gpuwhy run --blame -- COMMAND (shows the launch at fault)"},
        {"misaligned", "gpuwhy run --core -- COMMAND (shows the kernel and the line)"},
        {"kernel-fault", "gpuwhy run --core -- COMMAND (shows the kernel and the line)"},
        {"launch-timeout", "gpuwhy run -- COMMAND (shows which kernel ran for how long)"},
        {"cross-stream", "gpuwhy run -- COMMAND (shows the order of frees and copies on the streams)"},
        {"peer-died", "gpuwhy run on every host, then gpuwhy explain with all recordings (shows who failed first)"},
        {"collective", "gpuwhy run on every host, then gpuwhy explain with all recordings (shows who waits where)"},
        {"host-oom", "gpuwhy run -- COMMAND (shows the memory control group's kill count), or the kernel log"},
        {"killed-by",
         "gpuwhy run -- COMMAND (shows the signal, and whether the memory control group's kill count rose)"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (gw_begins(cause, rows[i].begin))
            return rows[i].option;
    }
    return NULL;
}

/* Find the place of the exception that belongs to the line `find`. *ret_at is NULL if there is none; the caller frees
 * it. Returns false if there is no memory. */
static bool find_place(const gwi_log_case *c, const gwi_conclusion *end, gw_where **ret_at)
{
    const char *cause = end->it.cause_count > 0 ? end->it.cause[0] : NULL;
    return gwi_where_in_text(c->log, gwi_log_exception_of(c, end->it.find), cause, c->recorded != NULL, ret_at);
}

/* ---- the verdict ---- */

/* True for signs of a build that failed. */
static bool is_of_build(gw_sign sign)
{
    return sign == GW_SAYS_SOURCE_NOT_COMPILED || sign == GW_SAYS_SOURCE_OF_OTHER_VERSION ||
           sign == GW_SAYS_BUILD_LACKS;
}

static void say_fault(const gwi_log_case *c, const gwi_statement *root, gwi_finding *finding)
{
    const char *summary = gwi_cause_of(root->cause[0])->summary;
    if (root->find->sign == GW_SAYS_INTERRUPTED)
        gwi_headline(finding, "the program was interrupted (Ctrl-C, a notebook's stop button, or SIGINT)");
    else if (is_of_build(root->find->sign))
        gwi_headline(finding, "a build failed: the compiler or the linker rejected the source");
    else if (root->why[0] != '\0')
        gwi_headline(finding, "%s", root->why);
    else
        gwi_headline(finding, "%.*s", (int)strcspn(summary, "."), summary);
    gwi_log_say_line(c, finding, root->find);
    say_same_cause(c, finding, root);
    say_beside(c, finding, root);
}

/* Add the advice for an end that no known cause explains. Returns false if there is none. */
static bool advise_without_cause(const gwi_log_case *c, const char *cause, gwi_finding *finding)
{
    bool replaces;
    size_t before = finding->next.count;
    finding->failed = !gwi_log_add_advice(c, cause, &replaces, &finding->next) || finding->failed;
    return finding->next.count > before;
}

static void say_exception(const gwi_log_case *c, const gwi_statement *end, gwi_finding *finding)
{
    const char *type = gw_log_text(end->find, "type"), *what = c->recorded == NULL ? "log" : "output";
    bool own = end->cause_count > 0 && strcmp(end->cause[0], "script-exception") == 0;
    if (own && speaks_of_gpu(end->find))
        gwi_headline(finding, "the program raised %s, which is a mistake of its own code in most cases", type);
    else if (own)
        gwi_headline(finding, "the program raised %s; no line of the %s is about the GPU", type, what);
    else
        gwi_headline(finding, "the %s ends with %s about the GPU, which this version of gpuwhy does not recognise%s",
                     what, type, end->cause_count > 0 ? "; its words suggest this cause" : "");
    if (!own && end->cause_count == 0 && !advise_without_cause(c, "unknown", finding))
        gwi_next(finding,
                 "Do what the message asks for, if it asks for something; if not, look for its text in the issues "
                 "of the library that raised it");
    gwi_log_say_line(c, finding, end->find);
}

bool gwi_log_add_alternatives(gw_verdict *verdict, const gwi_conclusion *end)
{
    bool decided = end->it.certainty != GW_CERTAINTY_NONE;
    for (size_t i = decided; i < end->it.cause_count && end->it.certainty != GW_ESTABLISHED; i++) {
        if (!gwi_add_alternative(verdict, end->it.cause[i], GW_HYPOTHESIS))
            return false;
    }
    return true;
}

static uint64_t count_lines(const gw_log *log)
{
    uint64_t lines = 0;
    for (size_t i = 0; i < log->file_count; i++) {
        const gw_log_file *file = &log->file[i];
        lines += file->line_count - (file->line_first > 0 ? file->line_first - 1 : 0);
    }
    return lines;
}

/* Report a text that stops before its program ended, and how to find out what ended it. */
static void say_stop(const gwi_log_case *c, const gwi_conclusion *end, gwi_finding *finding)
{
    if (end->open != NULL) {
        gwi_headline(finding, "no fault is in the text, but it stops in the middle of the work");
        gwi_log_say_line(c, finding, end->open);
        gwi_next(finding, "If the program still runs, wait for its end, or watch it: gpuwhy watch");
        gwi_next(finding,
                 "If it is gone, look at its exit status (echo $?; 137 is SIGKILL, 143 SIGTERM), at the end of "
                 "dmesg for the out-of-memory killer and Xid messages, at the scheduler's account of the "
                 "job (sacct -j JOB), and at whether the terminal or the connection was closed");
        gwi_next(finding, "Before the next run: gpuwhy run -- COMMAND records how the program ends");
    } else {
        gwi_headline(finding, "no fault is in the text; the server was running when the text stopped");
        gwi_log_say_line(c, finding, end->serving);
        gwi_next(finding,
                 "If the server is gone, look at its exit status, and at the end of dmesg for the out-of-memory "
                 "killer and Xid messages. If it does not answer: gpuwhy poke PID");
    }
}

/* Return the line that shows that the program computed on the CPU, NULL if none does or a card is named. */
static const gw_log_find *find_cpu_used(const gw_log *log)
{
    return gwi_log_first(log, GW_SAYS_GPU_NAME) == NULL ? gwi_log_first(log, GW_SAYS_CPU_USED) : NULL;
}

/* Returns false if the log does not show that the program computed on the CPU. */
static bool say_cpu_used(const gwi_log_case *c, gwi_finding *finding)
{
    const gw_log_find *cpu = find_cpu_used(c->log);
    if (cpu == NULL)
        return false;
    gwi_log_say_line(c, finding, cpu);
    advise_without_cause(c, "no-device-visible", finding);
    gwi_next(finding, "If it should use the card: gpuwhy doctor shows what keeps the card from being used");
    return true;
}

/* Report how the program ended, if no known fault ended it. */
static void say_silence(const gwi_log_case *c, const gwi_conclusion *end, gwi_finding *finding)
{
    uint64_t lines = count_lines(c->log);
    if (end->good == NULL && !gwi_log_add_silent_advice(c, &finding->next))
        finding->failed = true;
    if (end->it.find != NULL) {
        gwi_headline(finding,
                     "a line looks like a failure that gpuwhy does not recognise, and no later line shows that "
                     "the program recovered");
        gwi_log_say_line(c, finding, end->it.find);
        advise_without_cause(c, "unknown", finding);
    } else if (end->good != NULL) {
        const gw_log_find *cpu = find_cpu_used(c->log);
        gwi_headline(finding, "no fault found in %" PRIu64 " line%s%s", lines, GWI_PLURAL(lines),
                     cpu != NULL ? ", but the program computed on the CPU" : "");
        gwi_evidence(finding, GWI_NO_TIME, c->source, "the run reached its end");
        gwi_log_say_line(c, finding, end->good);
        say_cpu_used(c, finding);
    } else if (end->open != NULL || end->serving != NULL) {
        say_stop(c, end, finding);
    } else {
        gwi_headline(finding,
                     "the log (%" PRIu64
                     " line%s) has no fault that gpuwhy recognises and does not show how the run ended",
                     lines, GWI_PLURAL(lines));
        if (!say_cpu_used(c, finding))
            advise_without_cause(c, "unknown", finding);
    }
    for (size_t i = 0; i < c->count; i++) {
        if (c->statement[i].survived) {
            gwi_evidence(finding, GWI_NO_TIME, c->source, "the program continued after what looked like a fault");
            gwi_log_say_line(c, finding, c->statement[i].find);
            break;
        }
    }
}

void gwi_log_say(const gwi_log_case *c, const gwi_conclusion *end, gwi_finding *finding)
{
    gw_where *at;
    if (end->kind == GWI_ENDED_IN_SILENCE) {
        say_silence(c, end, finding);
        return;
    }
    if (end->kind == GWI_ENDED_BY_FAULT)
        say_fault(c, &end->it, finding);
    else
        say_exception(c, &end->it, finding);
    finding->failed = !find_place(c, end, &at) || finding->failed;
    say_context(c, finding, at);
    gwi_where_free(at);
    if (end->kind == GWI_ENDED_BY_FAULT)
        say_consequences(c, finding, &end->it);
}

/* Take the place of the exception that belongs to the conclusion, and the fixes for its cause. */
static bool take_place_and_next(const gwi_log_case *c, const gwi_conclusion *end, gw_verdict *verdict)
{
    if (!find_place(c, end, &verdict->where))
        return false;
    const char *at = verdict->where == NULL ? "" : verdict->where->frame[0].text;
    if (verdict->where == NULL &&
        !gw_str_copy(c->recorded == NULL ? "the log has no traceback with a line of the program itself"
                                         : "the output has no traceback with a line of the program itself",
                     &verdict->where_reason))
        return false;
    if (end->it.cause_count == 0)
        return true;
    const char *option = c->recorded == NULL && end->kind == GWI_ENDED_BY_FAULT && verdict->certainty != GW_ESTABLISHED
                             ? gwi_log_decider(end->it.cause[0])
                             : NULL;
    return gwi_log_add_fixes(c, gwi_cause_of(end->it.cause[0]), at, &verdict->next) &&
           (option == NULL || gwi_list_addf(&verdict->next, "To confirm: %s", option));
}

bool gwi_log_take(const gwi_log_case *c, const gwi_conclusion *end, gwi_finding *finding, gw_verdict *verdict)
{
    return !finding->failed && gwi_take_words(finding, verdict) &&
           (end->kind == GWI_ENDED_IN_SILENCE || take_place_and_next(c, end, verdict));
}

/* Store the names of the log's files, and how far damaged ones were read. */
static bool name_files(const gw_log *log, gw_verdict *verdict)
{
    gw_text names = {0};
    for (size_t i = 0; i < log->file_count; i++)
        gw_text_addf(&names, "%s%s", i == 0 ? "" : ", ",
                     strcmp(log->file[i].name, "-") == 0 ? "standard input" : log->file[i].name);
    bool good = !names.failed && gw_str_copy(gw_text_str(&names), &verdict->log);
    gw_text_free(&names);
    return good;
}

/* Say which files were damaged. */
static bool add_damage(const gw_log *log, gw_verdict *verdict)
{
    bool good = true;
    for (size_t i = 0; i < log->file_count && good; i++) {
        char text[512];
        if (log->file[i].damage == NULL)
            continue;
        snprintf(text, sizeof text, "%.200s was read only up to line %" PRIu64 ": %.200s", log->file[i].name,
                 log->file[i].line_count, log->file[i].damage);
        good = gwi_list_add(&verdict->advice, text);
    }
    return good;
}

/* Say that the text holds earlier runs, and how the one before the last ended. */
static bool add_earlier(const gwi_log_case *c, gw_verdict *verdict)
{
    enum { TEXT_SHOWN = 160 };
    char quote[GW_QUOTE_MAX];
    const gwi_told *told = c->told;
    if (told == NULL || told->run_count < 2)
        return true;
    uint64_t first = 1, line = 0;
    for (size_t i = 0; i < c->log->file_count; i++)
        first = c->log->file[i].line_first > 0 ? c->log->file[i].line_first : first;
    const gwi_conclusion *end = &told->earlier_end;
    const char *cause = end->kind == GWI_ENDED_IN_SILENCE || end->it.cause_count == 0 ? NULL : end->it.cause[0];
    line = end->it.find != NULL ? end->it.find->line : 0;
    if (!gwi_list_addf(&verdict->advice,
                       "The text holds %zu runs. This verdict is about the last one, from line %" PRIu64,
                       told->run_count, first))
        return false;
    if (end->it.find == NULL)
        return gwi_list_addf(&verdict->advice, "The run before it shows no failure");
    return gwi_list_addf(&verdict->advice, "The run before it failed%s%s: line %" PRIu64 ": %s",
                         cause == NULL ? "" : " with ", cause == NULL ? "" : cause, line,
                         gw_quote(quote, end->it.find->text, SIZE_MAX, TEXT_SHOWN));
}

bool gwi_log_fill(const gwi_log_case *c, const gwi_conclusion *end, gw_verdict *verdict)
{
    if (c->context.card != NULL && end->kind != GWI_ENDED_IN_SILENCE) {
        verdict->gpus = calloc(1, sizeof *verdict->gpus);
        if (verdict->gpus == NULL || !gw_str_copy(c->context.card, &verdict->gpus[0].name))
            return false;
        verdict->gpus[0].bytes_total = c->context.card_bytes;
        verdict->gpu_count = 1;
    }
    return name_files(c->log, verdict) && add_damage(c->log, verdict) && add_earlier(c, verdict);
}
