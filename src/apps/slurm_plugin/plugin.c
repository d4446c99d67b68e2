/* The SPANK plugin: `srun --gpuwhy` runs each task of a step under `gpuwhy run`.
 *
 * In srun, it chooses the folder of the recordings, and prints the verdict on the step when the step has ended. In
 * slurmstepd, it does as little as possible: right before a task is executed, in the task's own process and with the
 * user's rights, it replaces the task's command by gpuwhy-slurm-task and keeps the command in a variable
 * (task.c). Slurm gives no function for this; it gives a pointer to the list of arguments that it executes
 * (S_JOB_ARGV), whose first element is replaced. If anything is missing, the task runs as without the plugin. No
 * function fails: a failing plugin would end the job.
 *
 * plugstack.conf:  optional /usr/lib/gpuwhy/slurm/spank_gpuwhy.so [default=on|deep] [folder=/scratch] [prefix=/usr] */
#include "gwi_slurm_folder.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/spank.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

SPANK_PLUGIN(gpuwhy, 1)

/* ---- settings ---- */

static struct settings {
    char mode[8];          /* "on", "deep" or "off", as the option says; "": no option */
    char site_mode[8];     /* default= in plugstack.conf; "": off */
    char base[PATH_MAX];   /* folder= in plugstack.conf; "": the step's working folder */
    char prefix[PATH_MAX]; /* where gpuwhy is installed */
    char folder[PATH_MAX]; /* in srun: the folder of the recordings; "": the step is not recorded */
} settings;

static bool is_mode(const char *text)
{
    return strcmp(text, "on") == 0 || strcmp(text, "deep") == 0 || strcmp(text, "off") == 0;
}

static int take_option(int value, const char *argument, int is_remote)
{
    /* sbatch and salloc pass the option on to the sruns of the job, without an argument as "(null)" */
    bool is_plain = argument == NULL || argument[0] == '\0' || strcmp(argument, "(null)") == 0;
    const char *mode = is_plain ? "on" : argument;
    (void)value;
    if (!is_mode(mode)) {
        if (!is_remote)
            slurm_error("--gpuwhy=%s: expected on, deep or off", mode);
        return is_remote ? 0 : -1; /* srun then stops, before anything has started */
    }
    snprintf(settings.mode, sizeof settings.mode, "%s", mode);
    return 0;
}

static struct spank_option option = {(char *)"gpuwhy",
                                     (char *)"[on|deep|off]",
                                     (char *)"record the GPU calls of each task, and say why the step failed; deep: "
                                             "with the Python line of each allocation",
                                     2,
                                     0,
                                     take_option};

/* Read the arguments of plugstack.conf. A wrong one is reported in the log of slurmd, and ignored. */
static void read_arguments(int count, char **argument)
{
    for (int i = 0; i < count; i++) {
        const char *value = strchr(argument[i], '=') == NULL ? "" : strchr(argument[i], '=') + 1;
        if (strncmp(argument[i], "default=", 8) == 0 && is_mode(value))
            snprintf(settings.site_mode, sizeof settings.site_mode, "%s", value);
        else if (strncmp(argument[i], "folder=/", 8) == 0)
            snprintf(settings.base, sizeof settings.base, "%s", value);
        else if (strncmp(argument[i], "prefix=/", 8) == 0)
            snprintf(settings.prefix, sizeof settings.prefix, "%s", value);
        else
            slurm_info("gpuwhy: plugstack.conf: unknown argument %s", argument[i]);
    }
}

/* Find where gpuwhy is installed: this plugin is PREFIX/lib/gpuwhy/slurm/spank_gpuwhy.so. */
static void find_prefix(void)
{
    enum { PARTS = 4 };
    Dl_info info;
    if (settings.prefix[0] != '\0' || dladdr(&settings, &info) == 0 || info.dli_fname == NULL)
        return;
    snprintf(settings.prefix, sizeof settings.prefix, "%s", info.dli_fname);
    for (int i = 0; i < PARTS; i++) {
        char *slash = strrchr(settings.prefix, '/');
        if (slash == NULL)
            settings.prefix[0] = '\0';
        else
            *slash = '\0';
    }
}

/* Return the mode: that of the option, or else of the variable, or else of the site. */
static const char *mode_of(const char *variable)
{
    if (settings.mode[0] != '\0')
        return settings.mode;
    if (variable != NULL && is_mode(variable))
        return variable;
    return settings.site_mode[0] == '\0' ? "off" : settings.site_mode;
}

/* ---- callbacks ---- */

int slurm_spank_init(spank_t spank, int count, char **argument)
{
    spank_context_t context = spank_context();
    read_arguments(count, argument);
    find_prefix();
    if (context == S_CTX_LOCAL || context == S_CTX_REMOTE || context == S_CTX_ALLOCATOR)
        (void)spank_option_register(spank, &option);
    return 0;
}

/* srun, when job and step are known: choose the folder. The tasks get the variables with srun's environment. */
int slurm_spank_local_user_init(spank_t spank, int count, char **argument)
{
    uint32_t job = 0, step = 0;
    char here[PATH_MAX];
    const char *mode = mode_of(getenv(GWI_SLURM_MODE));
    (void)count;
    (void)argument;
    if (strcmp(mode, "off") == 0 || spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS || step >= SLURM_MAX_NORMAL_STEP_ID)
        return 0;
    const char *again = getenv("SLURM_RESTART_COUNT"); /* set if the job was requeued */
    bool is_again = again != NULL && strspn(again, "0123456789") == strlen(again) && strlen(again) < 8;
    const char *base = settings.base[0] != '\0' ? settings.base : getcwd(here, sizeof here);
    if (base == NULL || snprintf(settings.folder, sizeof settings.folder, "%s/gpuwhy-%u.%u%s%s", base, job, step,
                                 is_again ? "-restart" : "", is_again ? again : "") >= PATH_MAX)
        settings.folder[0] = '\0';
    if (settings.folder[0] != '\0') {
        setenv(GWI_SLURM_MODE, mode, 1);
        setenv(GWI_SLURM_FOLDER, settings.folder, 1);
    }
    return 0;
}

static bool is_program(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

/* True if Slurm will find the command. If not, the task must fail as without the plugin. */
static bool is_found(const char *command, const char *path)
{
    char file[PATH_MAX];
    if (strchr(command, '/') != NULL)
        return is_program(command);
    while (path != NULL && path[0] != '\0') {
        size_t bytes = strcspn(path, ":");
        if (snprintf(file, sizeof file, "%.*s/%s", (int)bytes, path, command) < PATH_MAX && is_program(file))
            return true;
        path += bytes + (path[bytes] == ':');
    }
    return false;
}

/* The task's own process, with the user's rights, right before execve(). */
int slurm_spank_task_init(spank_t spank, int count, char **argument)
{
    static char wrapper[PATH_MAX + 64]; /* the new argv[0]; it is used until execve() */
    static char path[1 << 14];
    char variable[64] = "", folder[PATH_MAX] = "";
    uint32_t step = 0;
    int argc = 0;
    char **argv = NULL;
    (void)count;
    (void)argument;
    (void)spank_getenv(spank, GWI_SLURM_MODE, variable, sizeof variable);
    const char *mode = mode_of(variable);
    if (strcmp(mode, "off") == 0 || spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS ||
        step >= SLURM_MAX_NORMAL_STEP_ID || spank_get_item(spank, S_JOB_ARGV, &argc, &argv) != ESPANK_SUCCESS ||
        argc < 1 || argv == NULL || argv[0] == NULL ||
        spank_getenv(spank, GWI_SLURM_FOLDER, folder, sizeof folder) != ESPANK_SUCCESS)
        return 0;
    snprintf(wrapper, sizeof wrapper, "%s/lib/gpuwhy/gpuwhy-slurm-task", settings.prefix);
    (void)spank_getenv(spank, "PATH", path, sizeof path);
    if (!is_program(wrapper) || !is_found(argv[0], path) ||
        spank_setenv(spank, GWI_SLURM_MODE, mode, 1) != ESPANK_SUCCESS ||
        spank_setenv(spank, GWI_SLURM_COMMAND, argv[0], 1) != ESPANK_SUCCESS)
        return 0;
    argv[0] = wrapper;
    return 0;
}

/* Print the verdict on the step. It goes where srun's own messages go. */
static void explain(void)
{
    static const char *const places[] = {"bin/gpuwhy", "gpuwhy"}; /* the second: in the build folder */
    char gpuwhy[PATH_MAX + 64] = "";
    for (size_t i = 0; i < sizeof places / sizeof places[0] && !is_program(gpuwhy); i++)
        snprintf(gpuwhy, sizeof gpuwhy, "%s/%s", settings.prefix, places[i]);
    int folder = gwi_slurm_folder_open(settings.folder); /* srun ends soon: it is not closed */
    pid_t pid = folder >= 0 && is_program(gpuwhy) ? fork() : -1;
    if (pid == 0) {
        sigset_t none; /* srun blocks signals, SIGALRM too */
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        alarm(600); /* a file system that hangs must not keep srun */
        dup2(STDERR_FILENO, STDOUT_FILENO);
        if (fchdir(folder) == 0) /* the path may lead elsewhere by now */
            execl(gpuwhy, gpuwhy, "explain", "--quiet", "--no-history", ".", (char *)NULL);
        _exit(1);
    }
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

int slurm_spank_exit(spank_t spank, int count, char **argument)
{
    (void)spank;
    (void)count;
    (void)argument;
    if (spank_context() == S_CTX_LOCAL && settings.folder[0] != '\0')
        explain();
    return 0;
}
