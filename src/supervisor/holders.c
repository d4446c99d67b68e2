/* Who holds a card at a failed allocation: a virtual one by its own account, a real one by NVML's. */
#include "gwi_mask.h"
#include "gwi_run.h"

#include "gw_virt_state.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
    gw_text_add_str(text, "cmd=");
    size_t begin = text->bytes;
    for (size_t i = 0; i < word_count && text->bytes - begin < COMMAND_BYTES_MAX; i++) {
        gw_text_add_str(text, i == 0 ? "" : " ");
        gwi_mask_argument(text, words, (int)i);
    }
}

/* "user=NAME ": from the machine's own list alone, because others are asked over a network. */
static void add_user(gw_text *text, int pid)
{
    char path[64];
    struct stat info;
    snprintf(path, sizeof path, "/proc/%d", pid);
    if (stat(path, &info) != 0)
        return;
    FILE *list = fopen("/etc/passwd", "re");
    struct passwd *entry = NULL;
    while (list != NULL && (entry = fgetpwent(list)) != NULL && entry->pw_uid != info.st_uid)
        ;
    if (entry != NULL)
        gw_text_addf(text, "user=%.60s ", entry->pw_name);
    else
        gw_text_addf(text, "user=%u ", info.st_uid);
    if (list != NULL)
        fclose(list);
}

static void put_holder(gwi_record *record, const gw_virt_process *process, unsigned device)
{
    gw_text text = {0};
    gw_text_addf(&text, "pid=%d bytes=%" PRIu64 " device=%u ", process->pid, process->used_bytes[device], device);
    add_user(&text, process->pid);
    add_command(&text, process->pid);
    gwi_record_fact(record, "card.holder", "%s", gw_text_str(&text));
    gw_text_free(&text);
}

void gwi_holders_record(gwi_record *record, const gwi_doors *doors)
{
    const uint64_t apart_ns = 1000000000u; /* the verdict takes those of one moment together */
    uint64_t now_ns = gwi_record_now_ns(record), told_ns = record->holders_told_at_ns;
    if (record->out_of_memory_at_ns <= told_ns || record->holders_told >= GWI_HOLDERS_TOLD_MAX ||
        (record->holders_told > 0 && now_ns < told_ns + apart_ns) || doors->virtual_folder[0] == '\0')
        return;
    gw_virt_state *state = malloc(sizeof *state);
    if (state != NULL && gw_virt_state_read(doors->virtual_folder, state, NULL) == GW_OK) {
        for (unsigned i = 0; i < state->process_count; i++)
            for (unsigned device = 0; device < state->device_count; device++)
                if (state->processes[i].used_bytes[device] != 0)
                    put_holder(record, &state->processes[i], device);
        record->holders_told_at_ns = now_ns;
        record->holders_told++;
    }
    free(state);
}

void gwi_holder_record(void *user, uint32_t card, uint32_t pid, uint64_t bytes, bool matched)
{
    gwi_record *record = user;
    gw_text text = {0};
    gw_text_addf(&text, "pid=%" PRIu32 " ", pid);
    if (bytes != UINT64_MAX)
        gw_text_addf(&text, "bytes=%" PRIu64 " ", bytes);
    if (card != GW_NO_DEVICE)
        gw_text_addf(&text, "card=%" PRIu32 " ", card);
    if (matched) { /* else it is another process's number here */
        add_user(&text, (int)pid);
        add_command(&text, (int)pid);
    }
    gwi_record_fact(record,
                    card == GW_NO_DEVICE ? "device.holder"
                    : matched            ? "card.holder"
                                         : "card.holder.unmatched",
                    "%s", gw_text_str(&text));
    gw_text_free(&text);
}
