/* Finds the rank of a process in the environment variables of common launchers. */
#include "gw_rank.h"

#include "gw_fact.h"
#include "gw_process.h"
#include "gw_rank_variables.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct launcher {
    const char *rank, *of, *local;
} launchers[] = {
#define GW_X(rank, of, local) {rank, of, local},
    GW_RANK_VARIABLES(GW_X)
#undef GW_X
};

const char *gw_environment_value(const char *environment, size_t bytes, const char *name)
{
    size_t wanted = strlen(name);
    for (size_t at = 0; at < bytes;) {
        size_t length = strnlen(environment + at, bytes - at);
        if (at + length == bytes)
            return NULL; /* the last variable is truncated */
        if (length > wanted && environment[at + wanted] == '=' && strncmp(environment + at, name, wanted) == 0)
            return environment + at + wanted + 1;
        at += length + 1;
    }
    return NULL;
}

static bool is_number(const char *value)
{
    size_t digits = value == NULL ? 0 : strspn(value, "0123456789");
    return digits > 0 && digits < 10 && value[digits] == '\0';
}

static uint32_t number_of(const char *value)
{
    return is_number(value) ? (uint32_t)strtoul(value, NULL, 10) : 0;
}

/* Read the rank from TensorFlow's TF_CONFIG: {"cluster": {...}, "task": {"type": "worker", "index": 1}}. The fact has
 * the type, too, because each type counts its own indexes. */
static bool find_task(const char *config, gw_text *text)
{
    const char *task = config == NULL ? NULL : strstr(config, "\"task\"");
    const char *type = task == NULL ? NULL : strstr(task, "\"type\""),
               *index = task == NULL ? NULL : strstr(task, "\"index\"");
    if (index == NULL)
        return false;
    index += strlen("\"index\"");
    index += strspn(index, " :\"\t");
    size_t digits = strspn(index, "0123456789");
    if (digits == 0 || digits > 9)
        return false;
    gw_fact_rank fact = {GW_FACT_SET(rank, (uint32_t)strtoul(index, NULL, 10)),
                         GW_FACT_SET(by, gw_fact_text_of("TF_CONFIG"))};
    if (type != NULL) {
        type += strlen("\"type\"");
        type += strspn(type, " :\"\t");
        size_t letters = strspn(type, "abcdefghijklmnopqrstuvwxyz_");
        fact.has_task = letters > 0 && letters < 32;
        fact.task = (gw_fact_text){type, letters};
    }
    gw_fact_rank_write(&fact, text);
    return true;
}

/* Lightning sets the number of the machine and of the process on it, and the program computes the rank from them. On
 * the first machine both numbers are the same; on the others, the number of processes before them is unknown. */
static bool find_on_first_machine(const char *environment, size_t bytes, gw_text *text)
{
    const char *node = gw_environment_value(environment, bytes, GW_NODE_VARIABLE);
    const char *local = gw_environment_value(environment, bytes, "LOCAL_RANK");
    const char *of = gw_environment_value(environment, bytes, "WORLD_SIZE");
    if (!is_number(node) || number_of(node) != 0 || !is_number(local))
        return false;
    const gw_fact_rank fact = {
        GW_FACT_SET(rank, number_of(local)),
        .has_of = is_number(of),
        .of = number_of(of),
        GW_FACT_SET(local, number_of(local)),
        GW_FACT_SET(by, gw_fact_text_of("LOCAL_RANK")),
    };
    gw_fact_rank_write(&fact, text);
    return true;
}

bool gw_rank_find(const char *environment, size_t bytes, gw_text *text)
{
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
        const struct launcher *launcher = &launchers[i];
        if (i == 1 && find_on_first_machine(environment, bytes, text))
            return true; /* Lightning starts its processes inside those of the other launchers */
        const char *rank = gw_environment_value(environment, bytes, launcher->rank);
        if (!is_number(rank))
            continue;
        const char *of = launcher->of == NULL ? NULL : gw_environment_value(environment, bytes, launcher->of);
        const char *local = launcher->local == NULL ? NULL : gw_environment_value(environment, bytes, launcher->local);
        /* torchrun counts its restarts; the processes of each start have the same ranks */
        const char *restart = i > 0 ? NULL : gw_environment_value(environment, bytes, GW_RESTART_VARIABLE);
        const gw_fact_rank fact = {
            GW_FACT_SET(rank, number_of(rank)),
            .has_of = is_number(of),
            .of = number_of(of),
            .has_local = is_number(local),
            .local = number_of(local),
            .has_restart = is_number(restart),
            .restart = number_of(restart),
            GW_FACT_SET(by, gw_fact_text_of(launcher->rank)),
        };
        gw_fact_rank_write(&fact, text);
        return true;
    }
    return find_on_first_machine(environment, bytes, text) ||
           find_task(gw_environment_value(environment, bytes, "TF_CONFIG"), text);
}

bool gw_rank_of_process(uint32_t pid, gw_text *text)
{
    enum { ENVIRONMENT_BYTES_MAX = 256 << 10 };
    char *bytes = malloc(ENVIRONMENT_BYTES_MAX);
    ssize_t count =
        bytes == NULL ? 0 : gw_read_small(bytes, ENVIRONMENT_BYTES_MAX, NULL, "/proc/%" PRIu32 "/environ", pid);
    bool found = count > 0 && gw_rank_find(bytes, (size_t)count, text);
    free(bytes);
    return found;
}
