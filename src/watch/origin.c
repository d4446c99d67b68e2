/* Finds out how a process was started, from its ancestors and its control group (gwi_watch.h).
 *
 * The nearest sign wins, except that a batch job and a container are named even inside of tmux: they say to whom the
 * process belongs. */
#include "gwi_watch.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANCESTORS_MAX = 64, FILE_BYTES = 4096 };

typedef struct ancestor {
    uint32_t pid, parent;
    char name[64];
    char command[1024]; /* words separated by blanks */
} ancestor;

/* Read up to FILE_BYTES - 1 bytes of /proc/PID/NAME. Zero bytes become blanks. Returns false if it cannot be read. */
static bool read_file(const char *root, uint32_t pid, const char *name, char out[FILE_BYTES])
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/proc/%" PRIu32 "/%s", root, pid, name);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    size_t bytes = fread(out, 1, FILE_BYTES - 1, file);
    fclose(file);
    for (size_t i = 0; i < bytes; i++)
        out[i] = out[i] == '\0' ? ' ' : out[i];
    out[bytes] = '\0';
    return true;
}

/* The name is in parentheses and may contain parentheses and blanks itself. */
static bool read_ancestor(const char *root, uint32_t pid, ancestor *ret)
{
    char text[FILE_BYTES];
    if (!read_file(root, pid, "stat", text))
        return false;
    const char *from = strchr(text, '('), *to = strrchr(text, ')');
    if (from == NULL || to == NULL || to < from || sscanf(to + 1, " %*c %" SCNu32, &ret->parent) != 1)
        return false;
    ret->pid = pid;
    snprintf(ret->name, sizeof ret->name, "%.*s", (int)(to - from - 1), from + 1);
    ret->command[0] = '\0';
    if (read_file(root, pid, "cmdline", text))
        snprintf(ret->command, sizeof ret->command, "%.1000s", text);
    return true;
}

/* ---- signs ---- */

typedef struct sign {
    const char *name;    /* beginning of the process's name; NULL: any */
    const char *command; /* part of its command line; NULL: any */
    const char *means;
} sign;

static const sign signs[] = {
    {NULL, "ipykernel_launcher", "notebook"},
    {NULL, "gpuwhy_kernel.py", "notebook"},
    {NULL, "jupyter-lab", "notebook"},
    {NULL, "jupyter-notebook", "notebook"},
    {NULL, "jupyterhub-singleuser", "notebook"},
    {NULL, "-m ipykernel", "notebook"},
    {"slurmstepd", NULL, "Slurm"},
    {"tmux", NULL, "tmux"},
    {"screen", NULL, "screen"},
    {"SCREEN", NULL, "screen"},
    {"sshd", NULL, "ssh"},
    {"cron", NULL, "cron"},
    {"code-server", NULL, "VS Code"},
    {NULL, ".vscode-server/", "VS Code"},
    {"login", NULL, "login"},
};

static const char *meaning_of(const ancestor *one)
{
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        const sign *s = &signs[i];
        if ((s->name == NULL || gw_begins(one->name, s->name)) &&
            (s->command == NULL || strstr(one->command, s->command) != NULL))
            return s->means;
    }
    return NULL;
}

/* ---- the control group ---- */

/* Copy the part of `path` from `from` up to the next slash or line break. */
static void copy_part(char *out, size_t room, const char *from)
{
    snprintf(out, room, "%.*s", (int)strcspn(from, "/\n"), from);
}

/* Return true if a batch job or a container is found in the control group. */
static bool add_job(gw_text *text, const char *cgroup)
{
    static const char *const containers[] = {"docker-", "docker/", "libpod-", "cri-containerd-", "kubepods"};
    char part[64];
    const char *job = strstr(cgroup, "/job_");
    if (job != NULL && strstr(cgroup, "slurm") != NULL) {
        copy_part(part, sizeof part, job + strlen("/job_"));
        gw_text_addf(text, "Slurm job %s", part);
        return true;
    }
    for (size_t i = 0; i < sizeof containers / sizeof containers[0]; i++) {
        const char *at = strstr(cgroup, containers[i]);
        if (at == NULL)
            continue;
        bool is_pod = strcmp(containers[i], "kubepods") == 0;
        copy_part(part, sizeof part, at + strlen(containers[i]));
        if (is_pod)
            gw_text_add_str(text, "Kubernetes pod");
        else
            gw_text_addf(text, "container %.12s", part);
        return true;
    }
    return false;
}

/* Return true if the process belongs to a systemd service that is not a session of a user. */
static bool add_service(gw_text *text, const char *cgroup)
{
    const char *end = strstr(cgroup, ".service\n");
    const char *from = end;
    if (end == NULL)
        return false;
    while (from > cgroup && from[-1] != '/' && from[-1] != ':')
        from--;
    if (gw_begins(from, "user@") || gw_begins(from, "ssh") || gw_begins(from, "cron"))
        return false;
    gw_text_addf(text, "systemd %.*s.service", (int)(end - from > 40 ? 40 : end - from), from);
    return true;
}

/* ---- all together ---- */

/* True if process 1 is an init system, so that its other children have lost their parents. */
static bool has_init(const char *root)
{
    ancestor one;
    return read_ancestor(root, 1, &one) && (gw_begins(one.name, "systemd") || gw_begins(one.name, "init"));
}

/* Look for a sign in the process and its ancestors. Returns NULL, and whether it has lost its parent, if there is
 * none. */
static const char *look_up(const char *root, uint32_t pid, bool *ret_is_orphan)
{
    ancestor one;
    *ret_is_orphan = false;
    for (unsigned i = 0; i < ANCESTORS_MAX && pid > 1 && read_ancestor(root, pid, &one); i++) {
        const char *means = meaning_of(&one);
        if (means != NULL)
            return means;
        ancestor parent;
        bool is_session = one.parent > 1 && read_ancestor(root, one.parent, &parent) &&
                          gw_begins(parent.name, "systemd"); /* a user's systemd adopts orphans, too */
        *ret_is_orphan = is_session || (one.parent == 1 && has_init(root));
        if (is_session)
            return NULL;
        pid = one.parent;
    }
    return NULL;
}

void gwi_origin_add(gw_text *text, const char *root, uint32_t pid)
{
    char cgroup[FILE_BYTES];
    bool is_orphan, has_cgroup = read_file(root, pid, "cgroup", cgroup);
    if (has_cgroup && add_job(text, cgroup))
        return;
    const char *means = look_up(root, pid, &is_orphan);
    if (means != NULL)
        gw_text_add_str(text, means);
    else if (has_cgroup && add_service(text, cgroup))
        return;
    else if (is_orphan)
        gw_text_add_str(text, "orphan");
}
