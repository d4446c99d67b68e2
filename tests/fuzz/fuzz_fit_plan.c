/* Fuzz the command and the values of `gpuwhy fit`. Lines that begin with `=` are values, the others are words of the
 * command. */
#include "gw_fit_search.h"
#include "seeds.h"

#include <stdlib.h>
#include <string.h>

static void write_seeds(const char *folder)
{
    static const char *const seeds[] = {
        "train\n--batch={batch}\n{p}{{p}}\n=p=fp32,bf16\n",
        "{batch}\n{a}{b}\n=a=1,2,3\n=b=x,y\n",
        "{batch}{_x9}\n{\"lr\": {batch}}\n=_x9=1,2,3,4,5,6,7,8\n",
        "{{batch}}\n",
    };
    write_texts(folder, seeds, sizeof seeds / sizeof seeds[0]);
}

enum { WORDS = 16 };

/* Every combination must give a command with as many words. */
static void check_commands(const gw_fit_plan *plan, size_t words)
{
    if (plan->combination_count == 0 || plan->combination_count > GW_FIT_COMBINATIONS_MAX)
        abort();
    for (size_t i = 0; i < plan->combination_count; i++) {
        char **command = gw_fit_plan_command(plan, i, UINT64_MAX);
        for (size_t k = 0; command != NULL && k < words; k++)
            if (command[k] == NULL)
                abort();
        gw_fit_command_free(command);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[1024], *command[WORDS + 1] = {NULL}, *rest = NULL;
    const char *values[WORDS];
    size_t words = 0, count = 0;
    if (size >= sizeof text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        if (line[0] == '=' && count < WORDS)
            values[count++] = line + 1;
        else if (line[0] != '=' && words < WORDS)
            command[words++] = line;
    gw_fit_plan plan;
    gw_error err = {{0}};
    gw_status st = gw_fit_plan_make(command, values, count, &plan, &err);
    if (st != GW_OK && err.text[0] == '\0')
        abort(); /* a rejected text needs a reason */
    if (st == GW_OK)
        check_commands(&plan, words);
    gw_fit_plan_free(&plan);
    return 0;
}
