/* gpuwhy-slurm-task: runs a task of Slurm under `gpuwhy run`. The plugin (plugin.c) puts it in place of the task's
 * command, which is in a variable. Whatever is missing here, the command runs, without gpuwhy if need be.
 *
 * The first task also links the folder of the recordings into the state folder, for `gpuwhy explain slurm:JOBID`. */
#include "gwi_slurm_folder.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OPTIONS_MAX = 64, OWN_WORDS_MAX = 8, CANNOT_RUN = 127 };

/* Store the path of gpuwhy: this program is in PREFIX/lib/gpuwhy, or in the build folder's lib/gpuwhy. */
static bool find_gpuwhy(char out[PATH_MAX])
{
    static const char *const places[] = {"/../../bin/gpuwhy", "/../../gpuwhy"};
    char own[PATH_MAX];
    ssize_t bytes = readlink("/proc/self/exe", own, sizeof own - 1);
    if (bytes <= 0)
        return false;
    own[bytes] = '\0';
    char *slash = strrchr(own, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (snprintf(out, PATH_MAX, "%s%s", own, places[i]) < PATH_MAX && access(out, X_OK) == 0)
            return true;
    }
    return false;
}

/* Create a folder and its parents. Errors show when the folder is used. */
static void make_folders(char *path)
{
    for (char *at = path + 1; *at != '\0'; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        (void)mkdir(path, 0700);
        *at = '/';
    }
    (void)mkdir(path, 0700);
}

/* Link the folder as STATE/gpuwhy/slurm/JOBID.STEP. */
static void link_folder(const char *folder)
{
    char links[PATH_MAX], name[64];
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    const char *job = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID"), *rank = getenv("SLURM_PROCID");
    if (job == NULL || step == NULL || rank == NULL || strcmp(rank, "0") != 0)
        return;
    int bytes = -1;
    if (state != NULL && state[0] == '/')
        bytes = snprintf(links, sizeof links, "%s/gpuwhy/slurm", state);
    else if (home != NULL && home[0] == '/')
        bytes = snprintf(links, sizeof links, "%s/.local/state/gpuwhy/slurm", home);
    if (bytes <= 0 || bytes >= (int)sizeof links)
        return;
    make_folders(links);
    int in = gwi_slurm_folder_open(links);
    if (in < 0)
        return;
    snprintf(name, sizeof name, "%.20s.%.20s", job, step);
    (void)unlinkat(in, name, 0);        /* numbers of jobs repeat after years */
    (void)!symlinkat(folder, in, name); /* if this fails, the user can still name the folder */
    close(in);
}

/* Split the options at spaces. Returns their number. */
static int split(char *text, char **ret_word)
{
    int count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(text, " \t", &rest); word != NULL && count < OPTIONS_MAX;
         word = strtok_r(NULL, " \t", &rest))
        ret_word[count++] = word;
    return count;
}

/* Report that the step is not recorded: once, and not for each task. */
static void refuse(const char *folder)
{
    const char *rank = getenv("SLURM_PROCID");
    if (rank == NULL || strcmp(rank, "0") == 0)
        fprintf(stderr,
                "gpuwhy: not recorded: %s could not be created, or another user owns it, may write to it, or made a "
                "link of this name\n",
                folder);
}

/* Replace this process by gpuwhy. Returns only if that fails. */
static void run_recorded(const char *command, int argc, char **argv)
{
    static char gpuwhy[PATH_MAX], folder[PATH_MAX + 1];
    const char *mode = getenv(GWI_SLURM_MODE), *wanted = getenv(GWI_SLURM_FOLDER), *options = getenv(GWI_SLURM_OPTIONS);
    char **word = calloc((size_t)argc + OPTIONS_MAX + OWN_WORDS_MAX + 1, sizeof *word);
    char *copy = strdup(options == NULL ? "" : options);
    if (word == NULL || copy == NULL || wanted == NULL || !find_gpuwhy(gpuwhy) ||
        snprintf(folder, sizeof folder, "%s", wanted) >= PATH_MAX - 1)
        return;
    make_folders(folder);
    if (gwi_slurm_folder_open(folder) < 0) { /* execve() closes it */
        refuse(folder);
        return;
    }
    link_folder(folder);
    strcat(folder, "/");
    int count = 0;
    word[count++] = gpuwhy;
    word[count++] = (char *)"run";
    word[count++] = (char *)"--no-verdict";
    word[count++] = (char *)"--no-history";
    word[count++] = (char *)"-o";
    word[count++] = folder;
    if (mode != NULL && strcmp(mode, "deep") == 0)
        word[count++] = (char *)"--deep";
    count += split(copy, word + count);
    word[count++] = (char *)"--";
    word[count++] = (char *)command;
    for (int i = 1; i < argc; i++)
        word[count++] = argv[i];
    execv(gpuwhy, word);
}

int main(int argc, char **argv)
{
    const char *value = getenv(GWI_SLURM_COMMAND);
    char *command = value == NULL ? NULL : strdup(value);
    if (command == NULL || argc < 1) {
        fprintf(stderr, "gpuwhy-slurm-task: only gpuwhy's plugin for Slurm starts this program\n");
        return CANNOT_RUN;
    }
    unsetenv(GWI_SLURM_COMMAND);
    run_recorded(command, argc, argv);
    argv[0] = command;
    execvp(command, argv);
    fprintf(stderr, "%s: %s\n", command, strerror(errno));
    return CANNOT_RUN;
}
