/* The search for the largest number that fits: see gw_fit_search.h. */
#include "gw_fit_search.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The command of `gpuwhy fit` and its placeholders: see gw_fit_search.h. */

static const char batch[] = "batch";

/* ---- placeholders ---- */

/* Return the length of the name that begins at `text`, or 0 if none does. */
static size_t name_bytes(const char *text)
{
    size_t bytes = 0;
    if (!isalpha((unsigned char)text[0]) && text[0] != '_')
        return 0;
    while (isalnum((unsigned char)text[bytes]) || text[bytes] == '_')
        bytes++;
    return bytes;
}

/* A part of a word: `bytes` bytes of the word, of which `name` is the placeholder's name if there is one. */
typedef struct part {
    size_t bytes;
    const char *name; /* NULL: ordinary text */
    size_t name_bytes;
    bool is_escaped; /* {{name}}: stands for {name} */
} part;

/* The first part of `text`, which is not empty: a placeholder, or one byte. */
static part part_at(const char *text)
{
    bool is_escaped = text[0] == '{' && text[1] == '{';
    size_t open = is_escaped ? 2 : 1, bytes = text[0] == '{' ? name_bytes(text + open) : 0;
    const char *close = text + open + bytes;
    if (bytes == 0 || close[0] != '}' || (is_escaped && close[1] != '}'))
        return (part){.bytes = 1};
    return (part){.bytes = bytes + 2 * open, .name = text + open, .name_bytes = bytes, .is_escaped = is_escaped};
}

static bool is_name(const part *it, const char *name)
{
    return it->name != NULL && strlen(name) == it->name_bytes && memcmp(it->name, name, it->name_bytes) == 0;
}

static size_t index_of(const gw_fit_plan *plan, const part *it)
{
    size_t i = 0;
    while (i < plan->name_count && !is_name(it, plan->name[i].name))
        i++;
    return i;
}

static bool is_in_command(const gw_fit_plan *plan, const char *name)
{
    for (size_t i = 0; plan->command[i] != NULL; i++)
        for (const char *at = plan->command[i]; *at != '\0';) {
            part it = part_at(at);
            if (!it.is_escaped && is_name(&it, name))
                return true;
            at += it.bytes;
        }
    return false;
}

/* ---- reading ---- */

static gw_status add_value(gw_fit_values *values, const char *value, size_t bytes, gw_error *err)
{
    if (bytes == 0)
        return gw_fail(err, GW_USAGE, "--values %s: a value is empty", values->name);
    if (values->count == GW_FIT_VALUES_MAX)
        return gw_fail(err, GW_USAGE, "--values %s: more than %d values", values->name, GW_FIT_VALUES_MAX);
    char *copy = strndup(value, bytes);
    if (copy == NULL)
        return gw_fail(err, GW_NOMEM, "--values %s", values->name);
    values->value[values->count++] = copy;
    return GW_OK;
}

static gw_status check_name(const gw_fit_plan *plan, const char *word, size_t bytes, gw_error *err)
{
    part it = {.name = word, .name_bytes = bytes};
    if (bytes == 0 || word[bytes] != '=')
        return gw_fail(err, GW_USAGE, "--values %s: must be a name and its values, such as precision=fp32,bf16", word);
    if (is_name(&it, batch))
        return gw_fail(err, GW_USAGE, "--values %s: the batch is what is searched; see --from, --max and --step", word);
    if (index_of(plan, &it) < plan->name_count)
        return gw_fail(err, GW_USAGE, "--values %s: %.*s has values already", word, (int)bytes, word);
    if (plan->name_count == GW_FIT_NAMES_MAX)
        return gw_fail(err, GW_USAGE, "--values %s: more than %d names", word, GW_FIT_NAMES_MAX);
    return GW_OK;
}

static gw_status add_values(gw_fit_plan *plan, const char *word, gw_error *err)
{
    size_t bytes = name_bytes(word);
    gw_status st = check_name(plan, word, bytes, err);
    if (st != GW_OK)
        return st;
    gw_fit_values *values = &plan->name[plan->name_count];
    values->name = strndup(word, bytes);
    if (values->name == NULL)
        return gw_fail(err, GW_NOMEM, "--values %s", word);
    plan->name_count++;
    if (!is_in_command(plan, values->name))
        return gw_fail(err, GW_USAGE, "--values %s: the command does not contain {%s}", word, values->name);
    for (const char *at = word + bytes + 1; st == GW_OK;) {
        size_t length = strcspn(at, ",");
        st = add_value(values, at, length, err);
        if (at[length] == '\0')
            break;
        at += length + 1;
    }
    plan->combination_count *= values->count == 0 ? 1 : values->count;
    if (st == GW_OK && plan->combination_count > GW_FIT_COMBINATIONS_MAX)
        return gw_fail(err, GW_USAGE, "--values: more than %d combinations", GW_FIT_COMBINATIONS_MAX);
    return st;
}

static gw_status check_placeholders(const gw_fit_plan *plan, gw_error *err)
{
    for (size_t i = 0; plan->command[i] != NULL; i++)
        for (const char *at = plan->command[i]; *at != '\0';) {
            part it = part_at(at);
            bool is_open = it.name != NULL && !it.is_escaped && !is_name(&it, batch);
            if (is_open && index_of(plan, &it) == plan->name_count)
                return gw_fail(err, GW_USAGE,
                               "{%.*s} has no values: add --values %.*s=A,B, or write {{%.*s}} for the text itself",
                               (int)it.name_bytes, it.name, (int)it.name_bytes, it.name, (int)it.name_bytes, it.name);
            at += it.bytes;
        }
    return GW_OK;
}

gw_status gw_fit_plan_make(char *const *command, const char *const *values, size_t count, gw_fit_plan *ret_plan,
                           gw_error *err)
{
    *ret_plan = (gw_fit_plan){.command = command, .combination_count = 1};
    if (!is_in_command(ret_plan, batch))
        return gw_fail(err, GW_USAGE,
                       "the command does not contain {batch}; for example: gpuwhy fit -- python train.py "
                       "--batch-size {batch}");
    for (size_t i = 0; i < count; i++) {
        gw_status st = add_values(ret_plan, values[i], err);
        if (st != GW_OK)
            return st;
    }
    return check_placeholders(ret_plan, err);
}

void gw_fit_plan_free(gw_fit_plan *plan)
{
    for (size_t i = 0; i < plan->name_count; i++) {
        free(plan->name[i].name);
        for (size_t k = 0; k < plan->name[i].count; k++)
            free(plan->name[i].value[k]);
    }
    *plan = (gw_fit_plan){0};
}

/* ---- commands ---- */

const char *gw_fit_plan_value(const gw_fit_plan *plan, size_t combination, size_t name)
{
    for (size_t i = plan->name_count; i-- > name + 1;)
        combination /= plan->name[i].count;
    return plan->name[name].value[combination % plan->name[name].count];
}

static char *filled(const gw_fit_plan *plan, const char *word, size_t combination, uint64_t number)
{
    gw_text text = {0};
    char *copy = NULL;
    for (const char *at = word; *at != '\0';) {
        part it = part_at(at);
        if (it.name == NULL)
            gw_text_add(&text, at, it.bytes);
        else if (it.is_escaped)
            gw_text_add(&text, at + 1, it.bytes - 2);
        else if (is_name(&it, batch))
            gw_text_addf(&text, "%" PRIu64, number);
        else
            gw_text_add_str(&text, gw_fit_plan_value(plan, combination, index_of(plan, &it)));
        at += it.bytes;
    }
    if (!text.failed)
        (void)gw_str_copy(gw_text_str(&text), &copy);
    gw_text_free(&text);
    return copy;
}

char **gw_fit_plan_command(const gw_fit_plan *plan, size_t combination, uint64_t number)
{
    size_t count = 0;
    while (plan->command[count] != NULL)
        count++;
    char **command = calloc(count + 1, sizeof *command);
    for (size_t i = 0; command != NULL && i < count; i++) {
        command[i] = filled(plan, plan->command[i], combination, number);
        if (command[i] == NULL) {
            gw_fit_command_free(command);
            return NULL;
        }
    }
    return command;
}

void gw_fit_command_free(char **command)
{
    for (size_t i = 0; command != NULL && command[i] != NULL; i++)
        free(command[i]);
    free(command);
}

/* While the upper end is unknown, a number at most LEAD times the largest that fits is tried: a program may take host
 * memory in proportion to the number. BEYOND: programs and libraries like multiples of this many steps. */
enum { LEAD = 8, BEYOND = 8 };

gw_status gw_fit_search_begin(gw_fit_search *search, uint64_t from, uint64_t max, uint64_t step, gw_error *err)
{
    if (from == 0 || max == 0 || step == 0)
        return gw_fail(err, GW_USAGE, "the first number, the largest number and the step must be at least 1");
    if (max > UINT64_MAX / (2 * LEAD))
        return gw_fail(err, GW_USAGE, "%" PRIu64 " is too large", max);
    uint64_t first = from > max ? max + 1 : (from + step - 1) / step * step;
    if (first > max)
        return gw_fail(err, GW_USAGE, "there is no multiple of %" PRIu64 " from %" PRIu64 " to %" PRIu64, step, from,
                       max);
    *search = (gw_fit_search){.from = first, .max = max / step * step, .step = step};
    return GW_OK;
}

static const gw_fit_trial *find(const gw_fit_search *search, uint64_t number)
{
    for (size_t i = 0; i < search->count; i++)
        if (search->trial[i].number == number)
            return &search->trial[i];
    return NULL;
}

void gw_fit_search_result(gw_fit_search *search, uint64_t number, gw_fit fit)
{
    for (size_t i = 0; i < search->count; i++)
        if (search->trial[i].number == number)
            search->trial[i].fit = fit;
}

/* The largest number that fits; 0: none. */
static uint64_t lower_end(const gw_fit_search *search)
{
    uint64_t largest = 0;
    for (size_t i = 0; i < search->count; i++)
        if (search->trial[i].fit == GW_FIT_YES && search->trial[i].number > largest)
            largest = search->trial[i].number;
    return largest;
}

/* The smallest number above `low` that does not fit; 0: none. */
static uint64_t upper_end(const gw_fit_search *search, uint64_t low)
{
    uint64_t smallest = 0;
    for (size_t i = 0; i < search->count; i++) {
        const gw_fit_trial *trial = &search->trial[i];
        bool fails = trial->fit == GW_FIT_NO || trial->fit == GW_FIT_UNKNOWN;
        if (fails && trial->number > low && (smallest == 0 || trial->number < smallest))
            smallest = trial->number;
    }
    return smallest;
}

/* ---- which number is tried next; 0: none ---- */

static uint64_t doubled(const gw_fit_search *search, uint64_t low)
{
    uint64_t most = (low == 0 ? search->from : low) * LEAD;
    for (uint64_t number = search->from;; number *= 2) {
        uint64_t wanted = number < search->max ? number : search->max;
        if (wanted > low && find(search, wanted) == NULL)
            return wanted <= most ? wanted : 0;
        if (number >= search->max)
            return 0;
    }
}

/* The smallest number above `at` and below `high` that was tried, or `high`. */
static uint64_t next_tried(const gw_fit_search *search, uint64_t at, uint64_t high)
{
    for (size_t i = 0; i < search->count; i++)
        if (search->trial[i].number > at && search->trial[i].number < high)
            high = search->trial[i].number;
    return high;
}

/* The middle of the widest gap that no trial has divided. */
static uint64_t divided(const gw_fit_search *search, uint64_t low, uint64_t high)
{
    uint64_t widest = 0, middle = 0;
    for (uint64_t at = low; at < high;) {
        uint64_t to = next_tried(search, at, high), steps = (to - at) / search->step;
        if (steps > 1 && steps > widest) {
            widest = steps;
            middle = at + steps / 2 * search->step;
        }
        at = to;
    }
    return middle;
}

static uint64_t beyond(const gw_fit_search *search, uint64_t high)
{
    uint64_t round = search->step * BEYOND;
    const uint64_t wanted[] = {high + search->step, (high / round + 1) * round};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        if (wanted[i] <= search->max && find(search, wanted[i]) == NULL)
            return wanted[i];
    return 0;
}

static uint64_t choose(const gw_fit_search *search)
{
    uint64_t low = lower_end(search), high = upper_end(search, low);
    if (low == 0 && high != 0)
        return 0;
    if (high == 0)
        return doubled(search, low);
    return high - low > search->step ? divided(search, low, high) : beyond(search, high);
}

bool gw_fit_search_next(gw_fit_search *search, uint64_t *ret_number)
{
    uint64_t number = search->count == GW_FIT_TRIALS_MAX ? 0 : choose(search);
    if (number == 0)
        return false;
    search->trial[search->count++] = (gw_fit_trial){.number = number};
    *ret_number = number;
    return true;
}

/* ---- the answer ---- */

static bool is_running(const gw_fit_search *search)
{
    for (size_t i = 0; i < search->count; i++)
        if (search->trial[i].fit == GW_FIT_RUNNING)
            return true;
    return false;
}

static gw_fit_end end_of(const gw_fit_search *search, uint64_t low, uint64_t high)
{
    if (is_running(search))
        return GW_FIT_END_OPEN;
    if (choose(search) != 0)
        return search->count == GW_FIT_TRIALS_MAX ? GW_FIT_END_FULL : GW_FIT_END_OPEN;
    if (high == 0)
        return low == search->max ? GW_FIT_END_MAX : GW_FIT_END_OPEN;
    if (find(search, high)->fit == GW_FIT_UNKNOWN)
        return GW_FIT_END_UNKNOWN;
    return low == 0 ? GW_FIT_END_NONE : GW_FIT_END_FOUND;
}

gw_fit_answer gw_fit_search_answer(const gw_fit_search *search)
{
    uint64_t low = lower_end(search), high = upper_end(search, low), hole = upper_end(search, 0);
    return (gw_fit_answer){
        .end = end_of(search, low, high), .largest = low, .next = high, .hole = hole < low ? hole : 0};
}
