/* Fuzz the plan of --inject. The text after the first byte is put after a valid rule if this byte is below 128. */
#include "gw_inject.h"

#include "gw_api.h"
#include "seeds.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void write_seeds(const char *folder)
{
    static const char *const text[] = {"~oom@alloc:3,p=0.5,seed=7;700@sync:5+,after=1.5s,rank=2",
                                       "\xffslow=50ms@cuMemcpyHtoD,process=3;lost@any,process=python3.12,once",
                                       "~CUDA_ERROR_NOT_PERMITTED@cuStreamCreate:1,after=200us"};
    write_texts(folder, text, sizeof text / sizeof text[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[1024], reason[GW_INJECT_REASON_MAX] = "";
    gw_inject_plan plan;
    if (!fuzz_text_after("oom@alloc:3,p=0.5;", data, size, text, sizeof text))
        return 0;
    if (!gw_inject_parse(text, &plan, reason)) {
        if (reason[0] == '\0')
            abort(); /* a rejected plan needs a reason */
        return 0;
    }
    if (plan.count == 0 || plan.count > GW_INJECT_RULES_MAX)
        abort();
    for (size_t i = 0; i < plan.count; i++) {
        const gw_inject_rule *rule = &plan.rule[i];
        unsigned count = 0;
        for (unsigned fn = 0; fn < GW_FN_COUNT; fn++)
            count += gw_inject_names(rule, fn);
        if (count == 0 || rule->first == 0 || rule->first > rule->last || (rule->result == 0 && rule->slow_ns == 0))
            abort();
    }
    return 0;
}
