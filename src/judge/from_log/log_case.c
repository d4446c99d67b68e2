/* Turns the log lines that matched a sign into statements (gwi_statement): what may have caused the problem
 * (log_rules.def), and whether the program survived it. Finds the framework that was running. */
#include "gwi_log.h"

#include "gw_data.h"
#include "gw_text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct rule {
    int sign; /* gw_sign, or GW_SAYS_CUDA */
    const char *which;
    gwi_depth depth;
    gw_certainty certainty;
    const char *causes;
} rule;

#define ROOT        GWI_ROOT
#define DIRECT      GWI_DIRECT
#define ECHO        GWI_ECHO
#define LAST        GWI_LAST
#define NOTICE      GWI_NOTICE
#define ESTABLISHED GW_ESTABLISHED
#define SUPPORTED   GW_SUPPORTED
#define HYPOTHESIS  GW_HYPOTHESIS
static const rule rules[] = {
#define GWI_SAYS(sign, which, depth, certainty, causes) {GW_SAYS_##sign, which, depth, certainty, causes},
#include "log_rules.def"
#undef GWI_SAYS
};
#undef ROOT
#undef DIRECT
#undef ECHO
#undef LAST
#undef NOTICE
#undef ESTABLISHED
#undef SUPPORTED
#undef HYPOTHESIS
enum { RULE_COUNT = sizeof rules / sizeof rules[0] };

/* True if the line seems to be about host memory, but another sign in it shows that it is about the card's. True for
 * the reverse, too. Libraries use the same words for both. */
static bool is_about_other_memory(const gw_log *log, const gw_log_find *find)
{
    /* A notebook prints only the exception's type above the traceback; its text follows below. */
    if (find->sign == GW_SAYS_HOST_MEMORY && strstr(find->text, "Traceback (most recent call last)") != NULL)
        return true;
    if (find->sign == GW_SAYS_HOST_MEMORY) /* the RMM library raises MemoryError for the card's memory, too */
        return gw_log_in_line(log, GW_SAYS_NO_MEMORY_LEFT, find->order) != NULL ||
               gw_log_in_line(log, GW_SAYS_CUDA_RUNTIME_NAME, find->order) != NULL;
    bool words = find->sign == GW_SAYS_TF_OOM_TENSOR || find->sign == GW_SAYS_BFC_OOM || find->sign == GW_SAYS_XLA_OOM;
    return words && gw_log_in_line(log, GW_SAYS_HOST_MEMORY, find->order) != NULL;
}

/* True if the matched line is a parent's report about the end of a child, and another sign in the same line shows how
 * the child ended. */
static bool is_told_by_signal(const gw_log *log, const gw_log_find *find)
{
    static const gw_sign ends[] = {GW_SAYS_SEGFAULT,    GW_SAYS_BUS_ERROR,  GW_SAYS_KILLED,
                                   GW_SAYS_ABORTED,     GW_SAYS_TERMINATED, GW_SAYS_ILLEGAL_INSTRUCTION,
                                   GW_SAYS_ELASTIC_EXIT};
    if (find->sign != GW_SAYS_CHILD_FAILED && find->sign != GW_SAYS_PROCESS_GONE)
        return false;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        if (gw_log_in_line(log, ends[i], find->order) != NULL)
            return true;
    }
    return false;
}

/* True if find[at] is ignored because another sign in its line is more precise. For example, an error's name is
 * unambiguous, while the meaning of its number depends on the CUDA release. */
static bool is_told_better(const gw_log *log, size_t at)
{
    const gw_log_find *find = &log->find[at];
    if (is_about_other_memory(log, find) || is_told_by_signal(log, find))
        return true;
    return (find->sign == GW_SAYS_CUDA_NUMBER || find->sign == GW_SAYS_CUDA_SHORT_TEXT) &&
           (gw_log_in_line(log, GW_SAYS_CUDA_TEXT, find->order) != NULL ||
            gw_log_in_line(log, GW_SAYS_CUDA_NAME, find->order) != NULL ||
            gw_log_in_line(log, GW_SAYS_CUDA_RUNTIME_NAME, find->order) != NULL);
}

/* ---- statements ---- */

bool gwi_log_is_listed(const char *list, const char *value)
{
    size_t bytes = strlen(value);
    if (bytes == 0)
        return false;
    for (const char *at = strstr(list, value); at != NULL; at = strstr(at + 1, value)) {
        bool begins = at == list || at[-1] == ' ';
        bool ends = at[bytes] == '\0' || at[bytes] == ' ';
        if (begins && ends)
            return true;
    }
    return false;
}

/* Return the value that selects the row of log_rules.def: the first of these fields that the matched line contains, or
 * "". */
const char *gwi_log_value(const gw_log_find *find)
{
    static const char *const fields[] = {"name", "code", "text", "signal", "exit"};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const char *value = gw_log_text(find, fields[i]);
        if (value != NULL)
            return value;
    }
    return "";
}

static const rule *rule_for(int sign, const char *value, bool *ret_is_exact)
{
    const rule *general = NULL;
    *ret_is_exact = false;
    for (size_t i = 0; i < RULE_COUNT; i++) {
        if (rules[i].sign != sign)
            continue;
        if (rules[i].which[0] == '\0') {
            general = &rules[i];
        } else if (gwi_log_is_listed(rules[i].which, value)) {
            *ret_is_exact = true;
            return &rules[i];
        }
    }
    return general;
}

/* Return the rule for a cuDNN status. The names of cuDNN 9 may end with details. Such a name is shortened until a row
 * matches: BAD_PARAM_SHAPE_MISMATCH becomes BAD_PARAM. */
static const rule *rule_of_status(const char *name, bool *ret_is_exact)
{
    char head[64];
    snprintf(head, sizeof head, "%s", name);
    for (;;) {
        const rule *found = rule_for(GW_SAYS_CUDNN_STATUS, head, ret_is_exact);
        char *tail = strrchr(head, '_');
        if (*ret_is_exact || tail == NULL)
            return found;
        *tail = '\0';
    }
}

static const rule *rule_of(const gw_log_find *find)
{
    unsigned code;
    char number[16];
    bool exact;
    if (find->sign == GW_SAYS_CUDNN_STATUS)
        return rule_of_status(gwi_log_value(find), &exact);
    if (!gw_log_cuda_code(find, &code))
        return rule_for((int)find->sign, gwi_log_value(find), &exact);
    snprintf(number, sizeof number, "%u", code);
    return rule_for(GW_SAYS_CUDA, number, &exact);
}

void gwi_log_add_causes(gwi_statement *statement, const char *ids)
{
    char name[64];
    for (size_t bytes; *ids != '\0'; ids += bytes + (ids[bytes] == ' ')) {
        bytes = strcspn(ids, " ");
        snprintf(name, sizeof name, "%.*s", (int)bytes, ids);
        const gw_cause *cause = gwi_cause_of(name);
        if (cause != NULL && statement->cause_count < GWI_LOG_CAUSES_MAX)
            statement->cause[statement->cause_count++] = cause->id;
    }
}

bool gwi_log_is_notice(const char *text)
{
    enum { HEAD_BYTES = 160 };
    static const char *const levels[] = {
        "WARN", "Warning:", "INFO",    "[W ", ": I external/", ": W external/", ": I tensorflow/", ": W tensorflow/",
        "[W]",  "[I]",      "warning:"};
    static const char *const ways[] = {"alling back",     "will be skipped", "Skipping tactic",
                                       "will be ignored", "used by default", "has no effect"};
    char head[HEAD_BYTES + 1];
    snprintf(head, sizeof head, "%s", text);
    bool is_glog = (text[0] == 'W' || text[0] == 'I') && isdigit((unsigned char)text[1]);
    return strstr(head, "NCCL") == NULL && (is_glog || GW_HAS_ONE_OF(head, levels) || GW_HAS_ONE_OF(text, ways));
}

static bool is_message(gw_sign sign)
{
    switch (sign) {
#define GWI_MESSAGE(name, kind, depth, certainty, causes, pattern) case GW_SAYS_##name:
#include "messages.def"
#undef GWI_MESSAGE
        return true;
    default:
        return false;
    }
}

static gwi_statement state(const gw_log_find *find, const rule *said)
{
    gwi_statement statement = {.find = find, .depth = said->depth, .certainty = said->certainty};
    unsigned code;
    if (find != NULL && gw_log_cuda_code(find, &code))
        statement.code = code;
    gwi_log_add_causes(&statement, said->causes);
    return statement;
}

bool gwi_log_rule(int sign, const char *value, gwi_statement *ret_statement, bool *ret_is_exact)
{
    const rule *said =
        sign == (int)GW_SAYS_CUDNN_STATUS ? rule_of_status(value, ret_is_exact) : rule_for(sign, value, ret_is_exact);
    if (said != NULL)
        *ret_statement = state(NULL, said);
    return said != NULL;
}

/* ---- what the program survived ---- */

/* True for messages that a program may print because a card, a library or a connection is missing, before it continues
 * in another way. */
static bool is_notice(const gwi_statement *it)
{
    static const gw_sign signs[] = {GW_SAYS_NO_DRIVER,
                                    GW_SAYS_CPU_BUILD,
                                    GW_SAYS_LIBRARY_MISSING,
                                    GW_SAYS_LIBRARY_ABSENT,
                                    GW_SAYS_NO_DEVICE,
                                    GW_SAYS_TF_NO_LIBRARIES,
                                    GW_SAYS_CUDA_UNAVAILABLE,
                                    GW_SAYS_NETWORK,
                                    GW_SAYS_CONNECT_REFUSED,
                                    GW_SAYS_PORT_CLASH,
                                    GW_SAYS_THROTTLE,
                                    GW_SAYS_PEER_GONE,
                                    GW_SAYS_HEARTBEAT,
                                    GW_SAYS_STORE_TIMEOUT,
                                    GW_SAYS_DISK_FULL,
                                    GW_SAYS_LIMITS,
                                    GW_SAYS_NAN};
    enum { NO_DEVICE = 100 };
    unsigned code;
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        if (it->find->sign == signs[i])
            return true;
    }
    return gw_log_cuda_code(it->find, &code) && code == NO_DEVICE;
}

/* True for problems that programs often survive: they continue without the card or library, or they try again. */
static bool is_often_survived(const gwi_statement *it)
{
    return it->depth != GWI_LAST && it->find->sign != GW_SAYS_SUMMARY_OOMS &&
           (it->depth == GWI_ECHO || it->certainty == GW_HYPOTHESIS || is_notice(it));
}

/* True if the line may be only a notice, after which the program continued. This includes TensorFlow's line about a
 * failed cuInit(), although TensorFlow logs it as an error. */
static bool is_only_noticed(const gwi_statement *it)
{
    if (is_message(it->find->sign) || it->find->sign == GW_SAYS_NO_DRIVER)
        return gwi_log_is_notice(it->find->text);
    return is_notice(it) && strstr(it->find->text, "failed call to cuInit") != NULL;
}

/* Decide whether the program survived the problem. It did if it continued to work, or if programs often survive this
 * problem and the log has a good end. `is_open` means that it is unknown: only lines of unknown meaning follow a
 * notice. */
static void weigh_survival(const gw_log *log, gwi_statement *it)
{
    it->survived =
        gw_log_went_on(log, it->find) || gw_log_was_retried(log, it->find) || gw_log_was_ignored(log, it->find);
    if (it->survived || !is_often_survived(it) || !(it->depth == GWI_NOTICE || gw_log_output_goes_on(log, it->find)))
        return;
    it->survived = gw_log_good_end(log, it->find) != NULL;
    it->is_open = !it->survived && is_notice(it) && gw_log_output_goes_on(log, it->find);
}

/* ---- what was running ---- */

static gw_framework framework_in(const char *text)
{
    static const struct {
        const char *word;
        gw_framework framework;
    } words[] = {{"org_tensorflow/tensorflow/compiler/xla", GW_FRAMEWORK_JAX}, /* jaxlib prints this path, too */
                 {"external/xla/", GW_FRAMEWORK_JAX},
                 {"external/xla+/xla/", GW_FRAMEWORK_JAX},
                 {"JaxRuntimeError", GW_FRAMEWORK_JAX},
                 {"keras/src/backend/jax", GW_FRAMEWORK_JAX},
                 {"Outdated cuDNN installation found", GW_FRAMEWORK_JAX},
                 {"CUDA backend failed to initialize", GW_FRAMEWORK_JAX},
                 {"torch", GW_FRAMEWORK_TORCH},
                 {"PyTorch", GW_FRAMEWORK_TORCH},
                 {"ProcessGroupNCCL", GW_FRAMEWORK_TORCH},
                 {"tensorflow", GW_FRAMEWORK_TENSORFLOW},
                 {"keras", GW_FRAMEWORK_TENSORFLOW},
                 {"jax", GW_FRAMEWORK_JAX},
                 {"xla", GW_FRAMEWORK_JAX}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strstr(text, words[i].word) != NULL)
            return words[i].framework;
    }
    return GW_FRAMEWORK_RAW;
}

static gw_framework find_framework(const gw_log *log)
{
    size_t votes[GW_FRAMEWORK_COUNT] = {0}, most = GW_FRAMEWORK_RAW;
    for (size_t i = 0; i < log->find_count; i++)
        votes[framework_in(log->find[i].text)]++;
    for (size_t i = GW_FRAMEWORK_RAW + 1; i < GW_FRAMEWORK_COUNT; i++) {
        if (votes[i] > (most == GW_FRAMEWORK_RAW ? 0 : votes[most]))
            most = i;
    }
    return (gw_framework)most;
}

bool gwi_log_is_between(const gw_log *log, gw_sign sign, const gw_log_find *first, const gw_log_find *last)
{
    for (size_t i = 0; i < log->find_count; i++) {
        const gw_log_find *find = &log->find[i];
        if (find->sign == sign && find->order > first->order && find->order < last->order && find->rank == last->rank)
            return true;
    }
    return false;
}

/* ---- several ranks ---- */

static bool tells_of_a_peer(const gwi_statement *statement)
{
    return statement->depth == GWI_ECHO && strcmp(statement->cause[0], "peer-died") == 0;
}

bool gwi_log_is_stated(const gwi_log_case *c, uint64_t order)
{
    for (size_t i = 0; i < c->count; i++) {
        if (c->statement[i].find->order == order)
            return true;
    }
    return false;
}

/* True if the exception may have been raised before `echo`, a report of a lost peer. Ranks write with a delay: another
 * rank's exception may be earlier, but up to LINES_WOVEN lines later in the log. */
static bool may_be_before(const gw_log_find *exception, const gw_log_find *echo)
{
    enum { LINES_WOVEN = 200 };
    bool other_rank = exception->rank >= 0 && echo->rank >= 0 && exception->rank != echo->rank;
    return exception->order < echo->order || (other_rank && exception->order < echo->order + LINES_WOVEN);
}

/* If one rank raised an exception of its own, and other ranks reported that they had lost a peer, this exception
 * becomes the root. */
static void find_first_rank(gwi_log_case *c)
{
    const gwi_statement *echo = NULL;
    for (size_t i = 0; i < c->count && echo == NULL; i++) {
        if (tells_of_a_peer(&c->statement[i]) && !c->statement[i].survived)
            echo = &c->statement[i];
    }
    for (size_t i = 0; echo != NULL && i < c->log->find_count; i++) {
        const gw_log_find *find = &c->log->find[i];
        bool same_rank = find->rank >= 0 && find->rank == echo->find->rank;
        if (!may_be_before(find, echo->find) || find->sign != GW_SAYS_EXCEPTION || same_rank ||
            gwi_log_is_stated(c, find->order) || !gw_log_has_traceback(c->log, find) || gw_log_went_on(c->log, find) ||
            gwi_log_is_between(c->log, GW_SAYS_CHAINED, find, echo->find))
            continue;
        c->exception = find;
        c->exception_about_child = false;
        for (size_t k = 0; k < c->count; k++) {
            if (tells_of_a_peer(&c->statement[k]))
                c->statement[k].depth = GWI_LAST;
        }
        return;
    }
}

/* True if torchrun names a rank that a signal ended, other than SIGTERM or SIGABRT. torchrun itself ends the other
 * ranks with SIGTERM, and a rank that lost its peer ends itself with SIGABRT. */
static bool is_rank_ended_by_signal(const gwi_statement *statement)
{
    enum { ILL = -4, FPE = -8, KILL = -9, SEGV = -11 };
    int64_t exit;
    bool has_exit = gw_log_number(statement->find, "exit", &exit) || gw_log_number(statement->find, "exit2", &exit);
    return statement->find->sign == GW_SAYS_ELASTIC_EXIT && has_exit &&
           (exit == ILL || exit == FPE || exit == KILL || exit == SEGV);
}

/* If a signal ended one rank and other ranks reported a lost peer, the statement about the signal explains their
 * reports. */
static void find_killed_rank(gwi_log_case *c)
{
    gwi_statement *killed = NULL;
    for (size_t i = 0; i < c->count && killed == NULL; i++) {
        if (is_rank_ended_by_signal(&c->statement[i]))
            killed = &c->statement[i];
    }
    for (size_t i = 0; killed != NULL && i < c->count; i++) {
        if (tells_of_a_peer(&c->statement[i]))
            killed->depth = GWI_DIRECT;
    }
}

/* ---- caught, and told ---- */

bool gwi_log_lacks_value(const gw_log *log, const gw_log_find *exception)
{
    return gw_log_in_line(log, GW_SAYS_NO_VALUE, exception->order) != NULL;
}

static bool is_out_of_memory(const gw_log *log, uint64_t order)
{
    return gw_log_in_line(log, GW_SAYS_TORCH_OOM, order) != NULL ||
           gw_log_in_line(log, GW_SAYS_OOM_WORDS, order) != NULL || gw_log_in_line(log, GW_SAYS_XLA_OOM, order) != NULL;
}

/* Mark an out-of-memory message of PyTorch as survived if the program caught the exception. The line then lacks the
 * exception's type, because the program printed only its text. A later exception must have ended the program. It must
 * not be about a missing value (such as None), which the failed step may have left. */
static void forgive_caught(gwi_log_case *c)
{
    const gw_log_find *end = c->exception;
    if (end == NULL || c->exception_about_child || gwi_log_lacks_value(c->log, end) ||
        is_out_of_memory(c->log, end->order))
        return;
    for (size_t i = 0; i < c->count; i++) {
        const gw_log_find *find = c->statement[i].find;
        if (find->order < end->order && find->rank == end->rank &&
            gw_log_in_line(c->log, GW_SAYS_TORCH_OOM, find->order) != NULL &&
            gw_log_in_line(c->log, GW_SAYS_EXCEPTION, find->order) == NULL &&
            gwi_log_is_between(c->log, GW_SAYS_TRACEBACK, find, end))
            c->statement[i].survived = true;
    }
}

static bool is_ended_from_outside(const gwi_statement *it)
{
    return it->find->sign == GW_SAYS_TERMINATED || it->find->sign == GW_SAYS_ENDED_OUTSIDE ||
           it->find->sign == GW_SAYS_INTERRUPTED;
}

/* Mark the warning that the driver must compile kernels as survived, if the run was ended from outside and nothing else
 * failed. */
static void forgive_compiling(gwi_log_case *c)
{
    bool is_ended = false, is_other = c->exception != NULL;
    for (size_t i = 0; i < c->count; i++) {
        is_ended = is_ended || is_ended_from_outside(&c->statement[i]);
        is_other = is_other || !(c->statement[i].survived || is_ended_from_outside(&c->statement[i]) ||
                                 c->statement[i].find->sign == GW_SAYS_ARCH_COMPILED);
    }
    for (size_t i = 0; i < c->count; i++) {
        if (is_ended && !is_other && c->statement[i].find->sign == GW_SAYS_ARCH_COMPILED)
            c->statement[i].survived = true;
    }
}

/* True if an error of CUDA's own, or a full card, shows that kernels of this card ran. */
static bool shows_kernels(const gwi_statement *it)
{
    enum { NO_BINARY = 209, INVALID_FUNCTION = 98, INVALID_IMAGE = 200, BAD_PTX = 218, NEWER_PTX = 222 };
    static const unsigned no_kernel[] = {0, NO_BINARY, INVALID_FUNCTION, INVALID_IMAGE, BAD_PTX, NEWER_PTX};
    bool is_code = it->depth >= GWI_DIRECT && it->certainty >= GW_SUPPORTED;
    for (size_t i = 0; i < sizeof no_kernel / sizeof no_kernel[0]; i++)
        is_code = is_code && it->code != no_kernel[i];
    return !it->survived && (is_code || gw_log_text(it->find, "wanted") != NULL);
}

/* Mark PyTorch's warning about the card's architecture as survived, if a later failure shows that kernels ran. */
static void forgive_start(gwi_log_case *c)
{
    for (size_t i = 0; i < c->count; i++) {
        gwi_statement *it = &c->statement[i];
        bool is_warning =
            (it->find->sign == GW_SAYS_ARCH || it->find->sign == GW_SAYS_GPU_UNSUPPORTED) &&
            (strstr(it->find->text, "Found GPU") != NULL || strstr(it->find->text, "with the current PyTorch") != NULL);
        for (size_t k = i + 1; is_warning && k < c->count; k++)
            it->survived = it->survived || shows_kernels(&c->statement[k]);
    }
}

/* ---- the case ---- */

gw_status gwi_log_open(const gw_log *log, const gw_stderr_facts *recorded, gwi_log_case *ret_case, gw_error *err)
{
    gwi_log_case c = {.log = log, .source = recorded == NULL ? "log" : "stderr", .recorded = recorded};
    c.statement = calloc(log->find_count + 1, sizeof *c.statement);
    if (c.statement == NULL)
        return gw_fail(err, GW_NOMEM, "judge a log");
    for (size_t i = 0; i < log->find_count; i++) {
        const rule *said = is_told_better(log, i) ? NULL : rule_of(&log->find[i]);
        if (said == NULL)
            continue;
        gwi_statement statement = state(&log->find[i], said);
        if (is_only_noticed(&statement)) {
            statement.depth = GWI_NOTICE;
            statement.certainty = GW_HYPOTHESIS;
        }
        weigh_survival(log, &statement);
        if (statement.cause_count > 0)
            c.statement[c.count++] = statement;
    }
    c.framework = find_framework(log);
    c.exception = gw_log_exception(log, &c.exception_about_child);
    find_first_rank(&c);
    find_killed_rank(&c);
    forgive_caught(&c);
    forgive_compiling(&c);
    forgive_start(&c);
    gwi_log_look_around(&c);
    gwi_log_weigh_memory(&c);
    gwi_log_weigh_loss(&c);
    *ret_case = c;
    return GW_OK;
}

void gwi_log_close(gwi_log_case *c)
{
    free(c->statement);
    *c = (gwi_log_case){0};
}

/* Return the exception with a traceback whose message contains the line `find`: no other traceback begins in between.
 * NULL: none. */
static const gw_log_find *exception_around(const gw_log *log, const gw_log_find *find)
{
    enum { MESSAGE_LINES_MAX = 40 };
    const gw_log_find *found = NULL;
    for (size_t i = 0; i < log->find_count && log->find[i].order < find->order; i++) {
        const gw_log_find *at = &log->find[i];
        if (at->file != find->file || at->rank != find->rank)
            continue;
        if (gw_log_is_trace(at))
            found = NULL;
        else if (at->sign == GW_SAYS_EXCEPTION && find->order - at->order <= MESSAGE_LINES_MAX &&
                 gw_log_has_traceback(log, at))
            found = at;
    }
    return found;
}

const gw_log_find *gwi_log_exception_of(const gwi_log_case *c, const gw_log_find *find)
{
    enum { NEAR_LINES = 300 };
    for (size_t i = 0; i < c->log->find_count; i++) {
        const gw_log_find *at = &c->log->find[i];
        bool same = at->rank < 0 || find->rank < 0 || at->rank == find->rank;
        if (at->sign == GW_SAYS_EXCEPTION && at->order >= find->order && at->order - find->order <= NEAR_LINES &&
            same && gw_log_has_traceback(c->log, at) && !gw_log_is_about_child(c->log, at))
            return at;
    }
    const gw_log_find *around = exception_around(c->log, find);
    return around != NULL ? around : c->exception;
}
