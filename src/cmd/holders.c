/* Who holds a virtual card at a failed allocation. A real card's holders are for the senses to tell. */
#include "gwi_mask.h"
#include "gwi_run.h"

#include "gw_virt_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 32, COMMAND_BYTES_MAX = 200 };

/* The command line of a process as it may be recorded. */
static void add_command(gw_text *text, int pid)
{
    char path[64], bytes[4096], *words[WORDS_MAX + 1] = {NULL};
    snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
    FILE *file = fopen(path, "re");
    size_t count = file == NULL ? 0 : fread(bytes, 1, sizeof bytes - 1, file), word_count = 0;
    if (file != NULL)
        fclose(file);
    bytes[count] = '\0';
    for (size_t at = 0; at < count && word_count < WORDS_MAX; at += strlen(bytes + at) + 1)
        words[word_count++] = bytes + at;
    size_t begin = text->bytes;
    for (size_t i = 0; i < word_count && text->bytes - begin < COMMAND_BYTES_MAX; i++) {
        gw_text_add_str(text, i == 0 ? "" : " ");
        gwi_mask_argument(text, words, (int)i);
    }
}

static void put_holder(gwi_record *record, const gw_virt_process *process, unsigned device)
{
    gw_text text = {0};
    gw_text_addf(&text, "pid=%d bytes=%" PRIu64 " device=%u cmd=", process->pid, process->used_bytes[device], device);
    add_command(&text, process->pid);
    gwi_record_fact(record, "card.holder", "%s", gw_text_str(&text));
    gw_text_free(&text);
}

void gwi_holders_record(gwi_record *record, const gwi_doors *doors)
{
    if (!record->saw_out_of_memory || record->holders_told || doors->virtual_folder[0] == '\0')
        return;
    gw_virt_state *state = malloc(sizeof *state);
    if (state != NULL && gw_virt_state_read(doors->virtual_folder, state, NULL) == GW_OK) {
        for (unsigned i = 0; i < state->process_count; i++)
            for (unsigned device = 0; device < state->device_count; device++)
                if (state->processes[i].used_bytes[device] != 0)
                    put_holder(record, &state->processes[i], device);
        record->holders_told = true; /* once: the verdict adds up what it is told */
    }
    free(state);
}
