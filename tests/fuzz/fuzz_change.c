/* Fuzz the rules of --on and the command that they change. The input has one word per line: first the rule, then the
 * command. If its first byte is below 'n', the rule gets a valid beginning. */
#include "gwi_change.h"
#include "seeds.h"

#include <stdlib.h>
#include <string.h>

static void write_seeds(const char *folder)
{
    static const char *const seeds[] = {"batch=/2\ntrain\n--batch\n64",
                                        "batch=/3\ntrain\n--lr=1\ndata.batch_size=7\n--batch-size=64",
                                        "mode=small\ntrain\n-mode\nlarge\n--\nx=1", "z:gpu-oom-capacity:batch=/2"};
    write_texts(folder, seeds, sizeof seeds / sizeof seeds[0]);
}

static size_t count_words(const gwi_command *command)
{
    size_t count = 0;
    while (command->argv[count] != NULL)
        count++;
    return count;
}

static void apply(const gwi_rules *rules, char *const *argv)
{
    gwi_command command;
    gw_text change = {0}, why_not = {0};
    if (!gwi_command_copy(argv, &command))
        return;
    size_t count = command.count;
    bool has_options = gwi_rules_check(rules, &command, NULL) == GW_OK;
    bool changed = gwi_rules_apply(rules, "gpu-oom-capacity", &command, &change, &why_not);
    if (command.count != count || count_words(&command) != count || changed != (change.bytes > 0))
        abort();
    if (has_options && gwi_rules_check(rules, &command, NULL) != GW_OK && rules->rule[0].kind == GWI_RULE_DIVIDE)
        abort(); /* the value is still a number */
    gwi_command_free(&command);
    gw_text_free(&change);
    gw_text_free(&why_not);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { WORDS_MAX = 16 };
    char text[1024], front[] = "gpu-oom:", rule[sizeof text + sizeof front], *argv[WORDS_MAX + 1] = {NULL};
    gwi_rules rules;
    gw_error err = {""};
    size_t count = 0;
    if (size == 0 || size >= sizeof text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    for (size_t i = 0; i < size; i++)
        text[i] = text[i] == '\n' ? '\0' : text[i];
    for (size_t at = strlen(text) + 1; at < size && count < WORDS_MAX; at += strlen(text + at) + 1)
        argv[count++] = text + at;
    strcpy(rule, data[0] < 'n' ? front : "");
    strcat(rule, text);
    if (strstr(rule, "env:") != NULL)
        return 0; /* do not change the environment of the fuzzer */
    const gw_option_list list = {.item = {rule}, .count = 1};
    gw_status st = gwi_rules_parse(&list, &rules, &err);
    if (st != GW_OK && err.text[0] == '\0')
        abort(); /* a rejected rule needs a reason */
    if (st == GW_OK && count > 0)
        apply(&rules, argv);
    return 0;
}
