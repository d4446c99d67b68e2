/* Lists of values. */
#include "gwi_values.h"

#include "gw_config.h"
#include "gw_export.h"
#include "gw_process.h"
#include "gw_verdict.h"
#include "gw_virt_spec.h"
#include "gwi_cmd.h"
#include "gwi_help_text.h"
#include "gwi_lesson.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

void gwi_values_add(gwi_values *values, const char *value, const char *meaning)
{
    if (!gw_begins(value, values->typed))
        return;
    gw_text_addf(values->text, "%s%s\t", values->before, value);
    for (const char *c = meaning == NULL ? "" : meaning; *c != '\0' && *c != '\n'; c++)
        gw_text_add(values->text, *c == '\t' ? " " : c, 1);
    gw_text_add_str(values->text, "\n");
}

/* ---- the lists. Each one adds values that begin with `begin` and end with `end`. ---- */

typedef struct edges {
    const char *begin, *end;
} edges;

static void add_between(gwi_values *values, const edges *around, const char *value, const char *meaning)
{
    gw_text whole = {0};
    gw_text_addf(&whole, "%s%s%s", around->begin, value, around->end);
    gwi_values_add(values, gw_text_str(&whole), meaning);
    gw_text_free(&whole);
}

static void add_causes(gwi_values *values, const edges *around)
{
    size_t count;
    const gw_cause_info *causes = gw_causes(&count);
    for (size_t i = 0; i < count; i++)
        add_between(values, around, causes[i].id, causes[i].summary);
}

static void add_cards(gwi_values *values, const edges *around)
{
    for (size_t i = 0; gw_virt_card_name(i) != NULL; i++)
        add_between(values, around, gw_virt_card_name(i), "a virtual card");
}

static void add_lessons(gwi_values *values, const edges *around)
{
    size_t count;
    const gwi_lesson *lessons = gwi_lessons(&count);
    for (size_t i = 0; i < count; i++)
        add_between(values, around, lessons[i].id, lessons[i].title);
}

static void add_formats(gwi_values *values, const edges *around)
{
    for (unsigned i = 0; gw_export_at(i) != NULL; i++)
        add_between(values, around, gw_export_at(i)->name, gw_export_at(i)->about);
}

static void add_commands(gwi_values *values, const edges *around)
{
    size_t count;
    const gwi_command_row *commands = gwi_commands(&count);
    for (size_t i = 0; i < count; i++)
        add_between(values, around, commands[i].name, commands[i].help);
}

static void add_topics(gwi_values *values, const edges *around)
{
    add_between(values, around, "topics", "list the documents");
    for (size_t i = 0; gwi_topic_at(i) != NULL; i++)
        add_between(values, around, gwi_topic_at(i)->name, gwi_topic_at(i)->about);
}

static void add_keys(gwi_values *values, const edges *around)
{
    for (gw_config_id id = 0; id < GW_CONFIG_COUNT; id++)
        add_between(values, around, gw_config_keys[id].name, gw_config_keys[id].help);
}

static void add_pids(gwi_values *values, const edges *around)
{
    char name[32];
    DIR *dir = opendir("/proc");
    if (dir == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (!isdigit((unsigned char)entry->d_name[0]) || !gw_begins(entry->d_name, values->typed))
            continue;
        gw_read_small(name, sizeof name, NULL, "/proc/%.20s/comm", entry->d_name);
        add_between(values, around, entry->d_name, name);
    }
    closedir(dir);
}

static const struct {
    const char *name; /* in a table of options */
    void (*add)(gwi_values *values, const edges *around);
    gwi_values_shell shell; /* if `add` is NULL */
} lists[] = {{"CAUSE", add_causes, GWI_VALUES_NOTHING},
             {"CARD", add_cards, GWI_VALUES_NOTHING},
             {"LESSON", add_lessons, GWI_VALUES_NOTHING},
             {"FORMAT", add_formats, GWI_VALUES_NOTHING},
             {"COMMAND", add_commands, GWI_VALUES_NOTHING},
             {"TOPIC", add_topics, GWI_VALUES_NOTHING},
             {"KEY", add_keys, GWI_VALUES_NOTHING},
             {"PID", add_pids, GWI_VALUES_NOTHING},
             {"FILE", NULL, GWI_VALUES_FILES},
             {"RECORDING", NULL, GWI_VALUES_RECORDINGS},
             {"DIR", NULL, GWI_VALUES_FOLDERS},
             {"PYTHON", NULL, GWI_VALUES_PROGRAM},
             {"CMD", NULL, GWI_VALUES_PROGRAM},
             {"PROGRAM", NULL, GWI_VALUES_PROGRAM}};

/* Add the values of a list. With several kinds of files, all files count. */
static void add_list(gwi_values *values, const char *name, const edges *around)
{
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        if (strcmp(lists[i].name, name) != 0)
            continue;
        if (lists[i].add != NULL)
            lists[i].add(values, around);
        else
            values->shell = values->shell == GWI_VALUES_NOTHING ? lists[i].shell : GWI_VALUES_FILES;
    }
}

/* Add the values of the part at `part`, such as "auto", "virtual:CARD[,..]" or "CAUSE:ACTION". */
static void add_part(gwi_values *values, const char *part, size_t bytes)
{
    enum { PART_MAX = 40 };
    char begin[PART_MAX + 1], name[PART_MAX + 1];
    size_t before = 0, after;
    if (bytes == 0 || bytes > PART_MAX)
        return;
    while (before < bytes && !isupper((unsigned char)part[before]))
        before++;
    after = before;
    while (after < bytes && isupper((unsigned char)part[after]))
        after++;
    memcpy(begin, part, before);
    begin[before] = '\0';
    memcpy(name, part + before, after - before);
    name[after - before] = '\0';
    if (before == bytes)
        gwi_values_add(values, begin, NULL);
    else
        add_list(values, name, &(edges){begin, after < bytes && part[after] == ':' ? ":" : ""});
}

void gwi_values_add_argument(gwi_values *values, const char *argument)
{
    while (argument != NULL && *argument != '\0') {
        size_t bytes = strcspn(argument, "|");
        add_part(values, argument, bytes);
        argument += bytes + (argument[bytes] != '\0');
    }
}
