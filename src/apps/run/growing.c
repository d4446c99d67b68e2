/* Reads the recording in progress, and sums up by line the memory that was allocated lately and is still live. */
#include "gwi_blame.h"

#include "gw_model.h"
#include "gw_model_facts.h"
#include "gw_sites.h"

#include <stdlib.h>
#include <string.h>

enum { LINES_MAX = 64, SHOWN_MAX = 3 };

typedef struct line {
    char text[GW_PLACE_TEXT_MAX];
    uint64_t bytes;
} line;

/* True if a group of equal blocks still grew after `since_ns`. */
static bool is_growing(const gw_group *group, uint64_t since_ns)
{
    return group->cls <= GW_CLASS_DEVICE_LAST && group->live_count > 1 && group->t_last_ns >= since_ns;
}

static void add_line(line *lines, size_t *count, const gw_model *model, const gw_group *group)
{
    char text[GW_PLACE_TEXT_MAX];
    const gw_stack *stack = group->site == 0 ? NULL : gw_sites_stack(model->sites, group->site);
    if (stack == NULL || stack->user == stack->count)
        return;
    gw_frame_text(model->sites, &stack->frame[stack->user], text);
    size_t i = 0;
    while (i < *count && strcmp(lines[i].text, text) != 0)
        i++;
    if (i == LINES_MAX)
        return;
    if (i == *count)
        memcpy(lines[(*count)++].text, text, sizeof text);
    lines[i].bytes += group->bytes * group->live_count;
}

static int by_bytes(const void *left, const void *right)
{
    const line *a = left, *b = right;
    return a->bytes > b->bytes ? -1 : a->bytes < b->bytes;
}

static void add_lines(const gw_model *model, uint64_t since_ns, gw_text *text)
{
    line lines[LINES_MAX] = {{.bytes = 0}};
    size_t count = 0;
    for (size_t i = 0; i < model->group_count; i++)
        if (is_growing(&model->group[i], since_ns))
            add_line(lines, &count, model, &model->group[i]);
    qsort(lines, count, sizeof *lines, by_bytes);
    for (size_t i = 0; i < count && i < SHOWN_MAX; i++) {
        char bytes[GW_BYTES_TEXT_MAX];
        gw_text_addf(text, "%s%s (%s)", i == 0 ? "" : ", ", lines[i].text, gw_bytes_text(bytes, lines[i].bytes));
    }
}

void gwi_growing_lines(const char *folder, uint64_t since_ns, gw_text *text)
{
    gw_reader *reader = NULL;
    gw_model *model = NULL;
    if (gw_reader_open(folder, &reader, NULL) == GW_OK && gw_model_build(reader, &model, NULL) == GW_OK) {
        (void)!gw_model_name_sites(model, GW_NAMES_SOFT_MS, GW_NAMES_HARD_MS, NULL);
        add_lines(model, since_ns, text);
    }
    gw_model_free(model);
    gw_reader_close(reader);
}
