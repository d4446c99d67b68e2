/* Reads command lines and users of processes (gw_process.h). */
#define _GNU_SOURCE
#include "gw_process.h"

#include "gw_mask.h"

#include <pwd.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORDS_MAX = 32, COMMAND_BYTES_MAX = 200 };

void gw_process_command_add(gw_text *text, int pid)
{
    char path[64], bytes[4096], *words[WORDS_MAX + 1] = {NULL};
    snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
    FILE *file = fopen(path, "re");
    size_t count = file == NULL ? 0 : fread(bytes, 1, sizeof bytes - 1, file), word_count = 0, before = text->bytes;
    if (file != NULL)
        fclose(file);
    bytes[count] = '\0';
    for (size_t at = 0; at < count && word_count < WORDS_MAX; at += strlen(bytes + at) + 1)
        words[word_count++] = bytes + at;
    for (size_t i = 0; i < word_count && text->bytes - before < COMMAND_BYTES_MAX; i++) {
        gw_text_add_str(text, i == 0 ? "" : " ");
        gw_mask_argument(text, words, (int)i);
    }
}

void gw_user_name_add(gw_text *text, unsigned uid)
{
    FILE *list = fopen("/etc/passwd", "re");
    struct passwd place, *entry = NULL;
    char line[4096];
    while (list != NULL && fgetpwent_r(list, &place, line, sizeof line, &entry) == 0 && entry->pw_uid != uid)
        entry = NULL;
    if (entry != NULL)
        gw_text_add_str(text, entry->pw_name);
    else
        gw_text_addf(text, "%u", uid);
    if (list != NULL)
        fclose(list);
}

void gw_process_user_add(gw_text *text, int pid)
{
    char path[64];
    struct stat info;
    snprintf(path, sizeof path, "/proc/%d", pid);
    if (stat(path, &info) == 0)
        gw_user_name_add(text, info.st_uid);
}

bool gw_process_stat(int pid, char out[GW_PROCESS_STAT_MAX])
{
    char path[48], line[GW_PROCESS_STAT_MAX];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    const char *at = file != NULL && fgets(line, sizeof line, file) != NULL ? strrchr(line, ')') : NULL;
    if (file != NULL)
        fclose(file);
    if (at != NULL)
        snprintf(out, GW_PROCESS_STAT_MAX, "%s", at);
    return at != NULL;
}

/* The owner of /proc/PID is root if the process is not dumpable, so its status counts. */
bool gw_process_is_of(unsigned uid, int pid)
{
    char path[64], line[256];
    unsigned real, effective;
    bool is_of = false;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *status = fopen(path, "re");
    while (status != NULL && fgets(line, sizeof line, status) != NULL) {
        if (sscanf(line, "Uid: %u %u", &real, &effective) != 2)
            continue;
        is_of = real == uid || effective == uid;
        break;
    }
    if (status != NULL)
        fclose(status);
    return is_of;
}

bool gw_process_reads_all(void)
{
    enum { DAC_READ_SEARCH = 2 }; /* CAP_DAC_READ_SEARCH of linux/capability.h */
    char line[256];
    unsigned long long effective = 0;
    FILE *status = geteuid() == 0 ? NULL : fopen("/proc/self/status", "re");
    while (status != NULL && fgets(line, sizeof line, status) != NULL)
        if (sscanf(line, "CapEff: %llx", &effective) == 1)
            break;
    if (status != NULL)
        fclose(status);
    return geteuid() == 0 || (effective >> DAC_READ_SEARCH & 1) != 0;
}
