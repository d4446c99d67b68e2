/* Find out what a word that is not a command was meant to be. */
#include "gwi_help_text.h"

#include "gw_logs.h"
#include "gw_say.h"
#include "gw_text.h"
#include "gw_torch.h"
#include "gw_verdict.h"
#include "gwi_cmd.h"
#include "gwi_folder.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

static bool is_executable(const char *path)
{
    return is_file(path) && access(path, X_OK) == 0;
}

/* True if a shell would find a program with this name. */
static bool is_program(const char *word)
{
    const char *path = getenv("PATH");
    if (strchr(word, '/') != NULL)
        return is_executable(word);
    while (path != NULL && word[0] != '\0') {
        size_t bytes = strcspn(path, ":");
        gw_text candidate = {0};
        gw_text_addf(&candidate, "%.*s/%s", (int)bytes, path, word);
        bool found = bytes > 0 && is_executable(gw_text_str(&candidate));
        gw_text_free(&candidate);
        if (found)
            return true;
        path = path[bytes] == ':' ? path + bytes + 1 : NULL;
    }
    return false;
}

/* True if the word is a file that only `gpuwhy explain` could be meant for. */
static bool is_explainable(const char *word)
{
    if (!is_file(word) || is_executable(word))
        return false;
    if (gwi_folder_is_recording(word) || gw_torch_is_snapshot(word))
        return true;
    return strchr(gw_path_last(word), '.') != NULL && gwi_folder_has_name_of_log(word) && gw_log_is_text(word);
}

static bool is_question(const char *word)
{
    gw_verdict *verdict = NULL;
    bool known = gw_judge_question(word, &verdict, NULL) == GW_OK;
    gw_verdict_free(verdict);
    return known;
}

static const char *nearest_command(const char *word)
{
    size_t count;
    gw_nearest nearest = {.word = word};
    const gwi_command_row *commands = gwi_commands(&count);
    for (size_t i = 0; i < count; i++)
        gw_nearest_add(&nearest, commands[i].name);
    return nearest.found;
}

int gwi_meant(int argc, char **argv)
{
    const char *word = argv[1], *nearest = nearest_command(word);
    if (is_explainable(word) || word[0] == '@') {
        argv[0] = (char[]){"explain"};
        return gwi_cmd_explain(argc, argv);
    }
    gw_text words = {0};
    gw_add_shell_words(&words, argv + 1, "");
    if (word[0] == '-')
        gw_say("unknown option %s; `gpuwhy help` lists the commands", word);
    else if (is_program(word))
        gw_say("%s is not a command, but a program; to run it: gpuwhy run --%s", word, gw_text_str(&words));
    else if (is_file(word) && gw_ends_with(word, ".py"))
        gw_say("%s is not a command, but a file; to run it: gpuwhy run -- python3%s", word, gw_text_str(&words));
    else if (access(word, F_OK) == 0)
        gw_say("%s is not a command, but a file; to explain it: gpuwhy explain%s", word, gw_text_str(&words));
    else if (is_question(word))
        gw_say("%s is not a command; to explain it: gpuwhy explain%s", word, gw_text_str(&words));
    else if (nearest != NULL)
        gw_say("unknown command %s; did you mean %s?", word, nearest);
    else
        gw_say("unknown command %s; `gpuwhy help` lists the commands", word);
    gw_text_free(&words);
    return GW_EXIT_USAGE;
}
