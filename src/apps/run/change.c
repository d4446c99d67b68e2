/* Parses the rules of --on, finds the options that they name in a command line, and changes their values. */
#include "gw_model_replay.h"
#include "gw_whatif.h"
#include "gwi_change.h"

#include "gw_mask.h"
#include "gw_verdict.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The search for cures: a replay of PyTorch's allocations with other settings. */

/* A leak fills any card: a setting would only delay the failure. */
static bool can_be_cured(const gw_verdict *verdict)
{
    return verdict->cause != NULL && strncmp(verdict->cause, "gpu-oom", 7) == 0 &&
           strcmp(verdict->cause, "gpu-oom-leak") != 0;
}

/* Replay the allocations before the refused request. Returns false if the replay is not equal to the recording. */
static bool replay(const gw_model *model, gw_whatif *whatif)
{
    const gw_allocator_report *report = gw_model_replay_report(model);
    gw_replay_input input = {0};
    gw_whatif_options options = {.version = model->torch_version};
    if (report == NULL || !report->is_oom || gw_model_replay_input(model, report, &input, NULL) != GW_OK)
        return false;
    gw_status st = gw_whatif_make(&input, &options, whatif, NULL);
    gw_replay_input_free(&input);
    return st == GW_OK && whatif->check.is_exact && whatif->room_is_sure;
}

/* Settings that the user made stay; the new one comes last, and the last one counts. */
static bool write_value(const gw_whatif_row *row, const gw_model *model, gwi_cure *cure)
{
    char key[sizeof cure->name + 4];
    snprintf(cure->name, sizeof cure->name, "%s", gw_whatif_variable(model->torch_version));
    snprintf(key, sizeof key, "env.%s", cure->name);
    const char *now = gw_model_meta(model, key);
    if (now == NULL) /* PyTorch reads the old name only if the new one is not set */
        now = gw_model_meta(model, "env.PYTORCH_CUDA_ALLOC_CONF");
    bool is_set = now != NULL && now[0] != '\0';
    int bytes = snprintf(cure->value, sizeof cure->value, "%s%s%s", is_set ? now : "", is_set ? "," : "", row->name);
    return bytes > 0 && (size_t)bytes < sizeof cure->value;
}

static bool find(const gw_model *model, gwi_cure *cure)
{
    gw_whatif *whatif = calloc(1, sizeof *whatif); /* large */
    const gw_whatif_row *row = whatif != NULL && replay(model, whatif) ? gw_whatif_cure(whatif) : NULL;
    bool found = row != NULL && row->is_setting && !row->needs_fraction && write_value(row, model, cure);
    if (found) {
        cure->peak_bytes = row->result.reserved_most;
        cure->peak_bytes_before = whatif->unlimited.reserved_most;
    }
    free(whatif);
    return found;
}

static bool find_by_replay(const char *recording, const gw_verdict *verdict, gwi_cure *ret_cure)
{
    gw_reader *reader = NULL;
    gw_model *model = NULL;
    if (!can_be_cured(verdict) || gw_reader_open(recording, &reader, NULL) != GW_OK)
        return false;
    bool found = gw_model_build(reader, &model, NULL) == GW_OK && find(model, ret_cure);
    gw_model_free(model);
    gw_reader_close(reader);
    return found;
}

gwi_cure_find_fn *const gwi_cure_find = find_by_replay;

/* ---- the command ---- */

void gwi_command_free(gwi_command *command)
{
    for (size_t i = 0; i < command->count; i++)
        free(command->argv[i]);
    free(command->argv);
    *command = (gwi_command){0};
}

bool gwi_command_copy(char *const *argv, gwi_command *ret_command)
{
    gwi_command copy = {0};
    size_t count = 0;
    while (argv[count] != NULL)
        count++;
    copy.argv = calloc(count + 1, sizeof *copy.argv);
    for (size_t i = 0; copy.argv != NULL && i < count; i++) {
        copy.argv[i] = strdup(argv[i]);
        copy.count++;
        if (copy.argv[i] == NULL) {
            gwi_command_free(&copy);
            return false;
        }
    }
    *ret_command = copy;
    return copy.argv != NULL;
}

/* ---- parsing ---- */

static bool is_for(const gwi_rule *rule, const char *cause)
{
    return strncmp(cause, rule->text, rule->cause_bytes) == 0 &&
           (cause[rule->cause_bytes] == '\0' || cause[rule->cause_bytes] == '-');
}

static gw_status check_cause(const gwi_rule *rule, gw_error *err)
{
    char word[64];
    size_t count = 0;
    const gw_cause_info *causes = gw_causes(&count);
    for (size_t i = 0; i < count; i++)
        if (!causes[i].is_advice && is_for(rule, causes[i].id))
            return GW_OK;
    snprintf(word, sizeof word, "%.*s", (int)rule->cause_bytes, rule->text);
    const char *near = gw_suggest_name(word);
    return gw_fail(err, GW_USAGE, "--on %s: unknown cause %s%s%s; `gpuwhy causes` lists them", rule->text, word,
                   near == NULL ? "" : "; did you mean ", near == NULL ? "" : near);
}

static bool parse_number(const char *text, uint64_t *ret_number)
{
    char *end = NULL;
    errno = 0;
    uint64_t number = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end != '\0' || errno != 0)
        return false;
    *ret_number = number;
    return true;
}

static gw_status parse_action(gwi_rule *rule, const char *action, gw_error *err)
{
    static const char environment[] = "env:";
    bool is_environment = gw_begins(action, environment);
    const char *name = action + (is_environment ? strlen(environment) : 0), *equals = strchr(name, '=');
    if (equals == NULL || equals == name || (size_t)(equals - name) >= sizeof rule->name)
        return gw_fail(err, GW_USAGE, "--on %s: expected NAME=/2, NAME=VALUE or env:NAME=VALUE after the colon",
                       rule->text);
    snprintf(rule->name, sizeof rule->name, "%.*s", (int)(equals - name), name);
    rule->value = equals + 1;
    rule->kind = is_environment ? GWI_RULE_ENVIRONMENT : GWI_RULE_SET;
    if (is_environment || equals[1] != '/')
        return GW_OK;
    rule->kind = GWI_RULE_DIVIDE;
    if (!parse_number(equals + 2, &rule->divisor) || rule->divisor < 2)
        return gw_fail(err, GW_USAGE, "--on %s: expected a number of at least 2 after the slash", rule->text);
    return GW_OK;
}

gw_status gwi_rules_parse(const gw_option_list *list, gwi_rules *ret_rules, gw_error *err)
{
    gw_status st = GW_OK;
    *ret_rules = (gwi_rules){0};
    for (size_t i = 0; i < list->count && st == GW_OK; i++) {
        gwi_rule *rule = &ret_rules->rule[ret_rules->count++];
        const char *colon = strchr(list->item[i], ':');
        rule->text = list->item[i];
        if (colon == NULL || colon == rule->text)
            return gw_fail(err, GW_USAGE, "--on %s: expected CAUSE:ACTION, such as gpu-oom-capacity:batch=/2",
                           rule->text);
        rule->cause_bytes = (size_t)(colon - rule->text);
        st = check_cause(rule, err);
        if (st == GW_OK)
            st = parse_action(rule, colon + 1, err);
    }
    return st;
}

/* ---- finding an option ---- */

/* The value of an option in a command line. */
typedef struct found {
    size_t word;       /* index of the word that contains the value */
    size_t name_bytes; /* length of "--name=" in that word; 0: the word is the value, and the name is the word before */
} found;

static bool is_same_letter(char a, char b)
{
    return a == b || (a == '_' && b == '-') || (a == '-' && b == '_');
}

/* True if the name of an option, without its leading hyphens, is `wanted` followed by `suffix`. */
static bool is_named(const char *name, size_t bytes, const char *wanted, const char *suffix)
{
    size_t wanted_bytes = strlen(wanted), suffix_bytes = strlen(suffix);
    if (strchr(wanted, '.') == NULL) {
        for (size_t i = bytes; i-- > 0;) {
            if (name[i] == '.') { /* "train.batch_size": compare "batch_size" */
                name += i + 1;
                bytes -= i + 1;
                break;
            }
        }
    }
    if (bytes != wanted_bytes + suffix_bytes)
        return false;
    for (size_t i = 0; i < bytes; i++)
        if (!is_same_letter(name[i], i < wanted_bytes ? wanted[i] : suffix[i - wanted_bytes]))
            return false;
    return true;
}

/* Find the last option of this name. Returns false if there is none. */
static bool find_named(const gwi_command *command, const char *wanted, const char *suffix, found *ret_found)
{
    bool any = false;
    for (size_t i = 1; i < command->count; i++) {
        const char *word = command->argv[i];
        size_t hyphens = strspn(word, "-"), bytes = strcspn(word, "=");
        bool has_value = word[bytes] == '=';
        if (hyphens > 2 || hyphens >= bytes || (hyphens == 0 && !has_value) ||
            !is_named(word + hyphens, bytes - hyphens, wanted, suffix))
            continue;
        /* a flag, whose next word is another option, has no value */
        if (!has_value && (i + 1 == command->count || gw_begins(command->argv[i + 1], "--")))
            continue;
        any = true;
        *ret_found = has_value ? (found){i, bytes + 1} : (found){i + 1, 0};
    }
    return any;
}

static bool find_option(const gwi_command *command, const char *name, found *ret_found)
{
    static const char *const suffixes[] = {"", "-size", "size"};
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++)
        if (find_named(command, name, suffixes[i], ret_found))
            return true;
    return false;
}

gw_status gwi_rules_check(const gwi_rules *rules, const gwi_command *command, gw_error *err)
{
    for (size_t i = 0; i < rules->count; i++) {
        const gwi_rule *rule = &rules->rule[i];
        found at = {0};
        uint64_t number;
        if (rule->kind == GWI_RULE_ENVIRONMENT)
            continue;
        if (!find_option(command, rule->name, &at))
            return gw_fail(
                err, GW_USAGE,
                "--on %s: the command has no option %s or %s-size with a value (looked for --%s V, --%s=V and "
                "%s=V)",
                rule->text, rule->name, rule->name, rule->name, rule->name, rule->name);
        const char *value = command->argv[at.word] + at.name_bytes;
        if (rule->kind == GWI_RULE_DIVIDE && !parse_number(value, &number))
            return gw_fail(err, GW_USAGE, "--on %s: the value %s of %s is not a number, and cannot be divided",
                           rule->text, value, rule->name);
    }
    return GW_OK;
}

/* ---- applying ---- */

/* Append the option with a value, as it is written in the command: "--batch 32", "batch_size=32". */
static void add_option(gw_text *text, const gwi_command *command, const found *at, const char *value)
{
    if (at->name_bytes == 0)
        gw_text_addf(text, "%s %s", command->argv[at->word - 1], value);
    else
        gw_text_addf(text, "%.*s%s", (int)at->name_bytes, command->argv[at->word], value);
}

static bool set_option(const gwi_rule *rule, gwi_command *command, const char *value, gw_text *change, gw_text *why_not)
{
    found at = {0};
    gw_text word = {0};
    if (!find_option(command, rule->name, &at))
        return false;
    const char *old = command->argv[at.word] + at.name_bytes;
    if (strcmp(old, value) == 0) {
        gw_text_addf(why_not, "%s is already %s", rule->name, old);
        return false;
    }
    gw_text_add_str(change, change->bytes > 0 ? ", " : "");
    add_option(change, command, &at, value);
    gw_text_addf(change, " instead of %s", old);
    gw_text_addf(&word, "%.*s%s", (int)at.name_bytes, command->argv[at.word], value);
    char *copy = word.failed ? NULL : strdup(gw_text_str(&word));
    gw_text_free(&word);
    if (copy == NULL)
        return false;
    free(command->argv[at.word]);
    command->argv[at.word] = copy;
    return true;
}

static bool divide_option(const gwi_rule *rule, gwi_command *command, gw_text *change, gw_text *why_not)
{
    found at = {0};
    char value[24];
    uint64_t number;
    if (!find_option(command, rule->name, &at) || !parse_number(command->argv[at.word] + at.name_bytes, &number))
        return false;
    uint64_t less = number / rule->divisor;
    snprintf(value, sizeof value, "%" PRIu64, less == 0 && number > 0 ? 1 : less);
    return set_option(rule, command, value, change, why_not);
}

static bool set_environment(const gwi_rule *rule, gw_text *change, gw_text *why_not)
{
    const char *old = getenv(rule->name);
    if (old != NULL && strcmp(old, rule->value) == 0) {
        gw_text_addf(why_not, "%s is already set", rule->name);
        return false;
    }
    if (setenv(rule->name, rule->value, 1) != 0)
        return false;
    gw_text_addf(change, "%s%s=%s in the environment", change->bytes > 0 ? ", " : "", rule->name,
                 gw_name_is_secret(rule->name) ? GW_MASKED : rule->value);
    return true;
}

bool gwi_rules_apply(const gwi_rules *rules, const char *cause, gwi_command *command, gw_text *change, gw_text *why_not)
{
    bool changed = false;
    for (size_t i = 0; i < rules->count; i++) {
        const gwi_rule *rule = &rules->rule[i];
        if (!is_for(rule, cause))
            continue;
        if (rule->kind == GWI_RULE_DIVIDE)
            changed = divide_option(rule, command, change, why_not) || changed;
        else if (rule->kind == GWI_RULE_SET)
            changed = set_option(rule, command, rule->value, change, why_not) || changed;
        else
            changed = set_environment(rule, change, why_not) || changed;
    }
    return changed;
}
