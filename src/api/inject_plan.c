/* Reads the plan of injected failures, and finds the functions that a rule names. */
#include "gw_inject.h"

#include "gw_api.h"
#include "gw_cuda_results.h"
#include "gw_event.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- classes ---- */

/* A class has the calls of up to five event kinds. */
enum { KINDS_MAX = 6 };
typedef struct class_row {
    const char *name;
    int kind[KINDS_MAX]; /* ends with -1 if shorter */
} class_row;

static const class_row classes[] = {
    {"any", {-1}},
    {"alloc", {GW_EV_ALLOC, GW_EV_ALLOC_ASYNC, GW_EV_VMM_CREATE, -1}},
    {"free", {GW_EV_FREE, GW_EV_FREE_ASYNC, GW_EV_VMM_RELEASE, GW_EV_VMM_UNMAP, -1}},
    {"host", {GW_EV_HOST_ALLOC, GW_EV_HOST_REGISTER, -1}},
    {"copy", {GW_EV_COPY, -1}},
    {"fill", {GW_EV_FILL, -1}},
    {"launch", {GW_EV_LAUNCH, GW_EV_GRAPH_LAUNCH, -1}},
    {"sync", {GW_EV_SYNC, -1}},
    {"query", {GW_EV_QUERY, -1}},
    {"stream", {GW_EV_STREAM_CREATE, GW_EV_STREAM_DESTROY, GW_EV_STREAM_WAIT, -1}},
    {"event", {GW_EV_EVENT_CREATE, GW_EV_EVENT_DESTROY, GW_EV_EVENT_RECORD, -1}},
    {"module", {GW_EV_MODULE_LOAD, GW_EV_LIBRARY_LOAD, GW_EV_FUNCTION, -1}},
    {"graph",
     {GW_EV_GRAPH_CREATE, GW_EV_GRAPH_NODE, GW_EV_GRAPH_EXEC_CREATE, GW_EV_CAPTURE_BEGIN, GW_EV_CAPTURE_END, -1}},
    {"context", {GW_EV_CTX_CREATE, -1}},
    {"init", {GW_EV_INIT, -1}},
    {"vmm", {GW_EV_VMM_CREATE, GW_EV_VMM_RESERVE, GW_EV_VMM_MAP, GW_EV_VMM_UNMAP, GW_EV_VMM_RELEASE, -1}},
    {"pool", {GW_EV_POOL_CREATE, GW_EV_POOL_DESTROY, GW_EV_POOL_SET, GW_EV_POOL_TRIM, -1}},
};
enum { CLASS_COUNT = sizeof classes / sizeof classes[0], CLASS_ANY = 0 };

const char *gw_inject_classes(void)
{
    return "any, alloc, free, host, copy, fill, launch, sync, query, stream, event, module, graph, context, init, vmm, "
           "pool";
}

bool gw_inject_is_harmless(unsigned fn)
{
    static const uint16_t harmless[] = {GW_FN_cuGetErrorString, GW_FN_cuGetErrorName,      GW_FN_cuDriverGetVersion,
                                        GW_FN_cuGetProcAddress, GW_FN_cuGetProcAddress_v2, GW_FN_cuGetExportTable};
    if ((gw_api_fns[fn].flags & GW_API_READ) != 0)
        return true;
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++)
        if (harmless[i] == fn)
            return true;
    return false;
}

/* ---- names of functions ---- */

/* Return the length of a symbol without the suffixes _v2 to _v9, _ptsz and _ptds. */
static size_t base_length(const char *symbol)
{
    size_t length = strlen(symbol);
    if (length > 5 && (strcmp(symbol + length - 5, "_ptsz") == 0 || strcmp(symbol + length - 5, "_ptds") == 0))
        length -= 5;
    if (length > 3 && symbol[length - 3] == '_' && symbol[length - 2] == 'v' && symbol[length - 1] >= '2' &&
        symbol[length - 1] <= '9')
        length -= 3;
    return length;
}

static bool is_named(const char *name, const char *symbol)
{
    size_t length = base_length(symbol);
    return strcmp(name, symbol) == 0 || (strlen(name) == length && strncmp(name, symbol, length) == 0);
}

bool gw_inject_names(const gw_inject_rule *rule, unsigned fn)
{
    if ((gw_api_fns[fn].flags & GW_API_PUBLIC) == 0)
        return false;
    if (rule->class_index < 0)
        return is_named(rule->function, gw_api_fns[fn].symbol);
    if (rule->class_index == CLASS_ANY)
        return !gw_inject_is_harmless(fn);
    const int *kind = classes[rule->class_index].kind;
    for (int i = 0; i < KINDS_MAX && kind[i] >= 0; i++)
        if (gw_api_fns[fn].kind == kind[i])
            return true;
    return false;
}

static bool is_known_function(const char *name)
{
    for (unsigned fn = 0; fn < GW_FN_COUNT; fn++)
        if ((gw_api_fns[fn].flags & GW_API_PUBLIC) != 0 && is_named(name, gw_api_fns[fn].symbol))
            return true;
    return false;
}

/* ---- chance ---- */

static uint64_t mixed(uint64_t value)
{
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}

bool gw_inject_draws(const gw_inject_rule *rule, size_t index, uint64_t number)
{
    uint64_t start = mixed(rule->seed + 0x9e3779b97f4a7c15u * (index + 1));
    return !rule->has_chance || mixed(start + 0x9e3779b97f4a7c15u * number) >> 11 < rule->chance;
}

/* ---- numbers ---- */

/* Read a number that ends the text. */
static bool read_number(const char *text, uint64_t max, uint64_t *ret_number)
{
    uint64_t number = 0;
    if (text[0] == '\0')
        return false;
    for (; *text >= '0' && *text <= '9'; text++) {
        if (number > (max - (uint64_t)(*text - '0')) / 10)
            return false;
        number = number * 10 + (uint64_t)(*text - '0');
    }
    *ret_number = number;
    return *text == '\0';
}

/* Read digits with an optional fraction of up to nine digits. Returns the first character after them, or NULL. The
 * value is number / 10^9. */
static const char *read_decimal(const char *text, uint64_t whole_max, uint64_t *ret_billionths)
{
    uint64_t whole = 0, part = 0, unit = 1000000000;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        whole = whole * 10 + (uint64_t)(*at - '0');
        if (whole > whole_max)
            return NULL;
    }
    if (at == text)
        return NULL;
    if (*at == '.') {
        for (at++; *at >= '0' && *at <= '9' && unit > 1; at++) {
            unit /= 10;
            part += (uint64_t)(*at - '0') * unit;
        }
        if (at[-1] == '.')
            return NULL;
    }
    *ret_billionths = whole * 1000000000 + part;
    return at;
}

static bool read_time(const char *text, uint64_t *ret_ns)
{
    enum { LARGEST = 1000000 };
    static const struct {
        const char *name;
        uint64_t divisor; /* of the number in billionths */
    } units[] = {{"us", 1000000}, {"ms", 1000}, {"s", 1}};
    uint64_t number;
    const char *unit = read_decimal(text, LARGEST, &number);
    for (size_t i = 0; unit != NULL && i < sizeof units / sizeof units[0]; i++)
        if (strcmp(unit, units[i].name) == 0) {
            *ret_ns = number / units[i].divisor;
            return true;
        }
    return false;
}

/* ---- the parts of a rule ---- */

typedef struct reader {
    gw_inject_rule *rule;
    char *reason; /* GW_INJECT_REASON_MAX bytes */
} reader;

__attribute__((format(printf, 2, 3))) static bool wrong(const reader *in, const char *format, ...)
{
    va_list args;
    int length = snprintf(in->reason, GW_INJECT_REASON_MAX, "rule '%s': ", in->rule->text);
    va_start(args, format);
    if (length >= 0 && length < GW_INJECT_REASON_MAX)
        vsnprintf(in->reason + length, (size_t)(GW_INJECT_REASON_MAX - length), format, args);
    va_end(args);
    return false;
}

static bool result_by_name(const char *name, uint16_t *ret_result)
{
    static const struct {
        const char *name;
        uint16_t result;
    } results[] = {
#define GW_X(name, number) {#name, number},
        GW_CUDA_RESULTS(GW_X)
#undef GW_X
    };
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++)
        if (strcmp(results[i].name, name) == 0) {
            *ret_result = results[i].result;
            return true;
        }
    return false;
}

static bool read_action(const reader *in, const char *text)
{
    enum { OUT_OF_MEMORY = 2, UNKNOWN = 999, RESULT_MAX = 999 };
    gw_inject_rule *rule = in->rule;
    uint64_t number;
    if (strcmp(text, "oom") == 0) {
        rule->result = OUT_OF_MEMORY;
    } else if (strcmp(text, "lost") == 0) {
        rule->result = UNKNOWN;
        rule->closes = rule->is_lost = true;
    } else if (strncmp(text, "slow=", 5) == 0) {
        if (!read_time(text + 5, &rule->slow_ns) || rule->slow_ns == 0)
            return wrong(in, "'%s' is not a time such as slow=50ms", text);
    } else if (text[0] >= '0' && text[0] <= '9') {
        if (!read_number(text, RESULT_MAX, &number) || number == 0)
            return wrong(in, "'%s' is not a result of the driver: use 1 to 999", text);
        rule->result = (uint16_t)number;
    } else if (!result_by_name(text, &rule->result) || rule->result == 0) {
        return wrong(in, "unknown action '%s': use oom, lost, slow=TIME, a number or a CUDA_ERROR_ name", text);
    }
    rule->closes = rule->closes || gw_cuda_is_sticky(rule->result);
    return true;
}

static bool read_calls(const reader *in, char *text)
{
    gw_inject_rule *rule = in->rule;
    char *number = strchr(text, ':');
    rule->first = 1;
    rule->last = UINT64_MAX;
    if (number != NULL) {
        *number++ = '\0';
        size_t length = strlen(number);
        bool is_open = length > 0 && number[length - 1] == '+';
        if (is_open)
            number[length - 1] = '\0';
        if (!read_number(number, UINT64_MAX - 1, &rule->first) || rule->first == 0)
            return wrong(in, "':%s' is not the number of a call: use :N for the N-th, :N+ from the N-th on", number);
        rule->last = is_open ? UINT64_MAX : rule->first;
    }
    rule->class_index = -1;
    for (int i = 0; i < CLASS_COUNT; i++)
        if (strcmp(text, classes[i].name) == 0)
            rule->class_index = i;
    if (rule->class_index >= 0)
        return true;
    if (strlen(text) >= sizeof rule->function || !is_known_function(text))
        return wrong(in, "unknown calls '%s': use a function of the driver, such as cuMemAlloc, or %s", text,
                     gw_inject_classes());
    strcpy(rule->function, text);
    return true;
}

static bool read_chance(const reader *in, const char *value)
{
    uint64_t billionths;
    const char *end = read_decimal(value, 1, &billionths);
    if (end == NULL || *end != '\0' || billionths > 1000000000)
        return wrong(in, "p=%s is not a probability from 0 to 1", value);
    in->rule->has_chance = true;
    in->rule->chance = (uint64_t)((double)billionths / 1e9 * (double)((uint64_t)1 << 53));
    return true;
}

static bool read_process(const reader *in, const char *value)
{
    uint64_t number;
    if (value[0] == '\0' || strlen(value) >= sizeof in->rule->program)
        return wrong(in, "process=%s is neither a number nor the name of a program", value);
    if (value[0] >= '0' && value[0] <= '9' && read_number(value, UINT32_MAX, &number)) {
        in->rule->process = (uint32_t)number;
        return number > 0 || wrong(in, "process=0: processes are counted from 1");
    }
    strcpy(in->rule->program, value);
    return true;
}

static bool read_condition(const reader *in, const char *text)
{
    gw_inject_rule *rule = in->rule;
    uint64_t number;
    if (strcmp(text, "once") == 0) {
        rule->once = true;
        return true;
    }
    if (strncmp(text, "p=", 2) == 0)
        return read_chance(in, text + 2);
    if (strncmp(text, "process=", 8) == 0)
        return read_process(in, text + 8);
    if (strncmp(text, "after=", 6) == 0)
        return read_time(text + 6, &rule->after_ns) || wrong(in, "'%s' is not a time such as after=30s", text);
    if (strncmp(text, "seed=", 5) == 0) {
        rule->has_seed = true;
        return read_number(text + 5, UINT64_MAX, &rule->seed) || wrong(in, "'%s' is not a number", text);
    }
    if (strncmp(text, "rank=", 5) == 0) {
        bool good = read_number(text + 5, UINT32_MAX, &number);
        rule->rank = good ? (int64_t)number : -1;
        return good || wrong(in, "'%s' is not a rank", text);
    }
    return wrong(in, "unknown condition '%s': use p=, seed=, after=, rank=, process= or once", text);
}

static bool read_rule(const reader *in, char *text)
{
    char *calls = strchr(text, '@');
    in->rule->rank = -1;
    if (calls == NULL)
        return wrong(in, "no '@': a rule is ACTION@CALLS, such as oom@alloc:3");
    *calls++ = '\0';
    char *conditions = strchr(calls, ',');
    if (conditions != NULL)
        *conditions++ = '\0';
    if (!read_action(in, text) || !read_calls(in, calls))
        return false;
    while (conditions != NULL) {
        char *condition = conditions;
        conditions = strchr(condition, ',');
        if (conditions != NULL)
            *conditions++ = '\0';
        if (!read_condition(in, condition))
            return false;
    }
    if (in->rule->has_seed && !in->rule->has_chance)
        return wrong(in, "seed= needs p=");
    return true;
}

bool gw_inject_parse(const char *text, gw_inject_plan *ret_plan, char reason[GW_INJECT_REASON_MAX])
{
    char copy[GW_INJECT_TEXT_MAX];
    memset(ret_plan, 0, sizeof *ret_plan);
    while (true) {
        size_t length = strcspn(text, ";");
        gw_inject_rule *rule = &ret_plan->rule[ret_plan->count];
        if (ret_plan->count == GW_INJECT_RULES_MAX) {
            snprintf(reason, GW_INJECT_REASON_MAX, "more than %d rules", GW_INJECT_RULES_MAX);
            return false;
        }
        if (length == 0) {
            snprintf(reason, GW_INJECT_REASON_MAX, "an empty rule");
            return false;
        }
        if (length >= sizeof rule->text) {
            snprintf(reason, GW_INJECT_REASON_MAX, "a rule of more than %d characters", GW_INJECT_TEXT_MAX - 1);
            return false;
        }
        memcpy(rule->text, text, length);
        memcpy(copy, rule->text, sizeof copy);
        if (!read_rule(&(reader){rule, reason}, copy))
            return false;
        ret_plan->count++;
        if (text[length] == '\0')
            return true;
        text += length + 1;
    }
}
