/* Finds out how a process was started, from its ancestors and its control group (gwi_watch.h).
 *
 * The nearest sign wins, except that a batch job and a container are named even inside of tmux: they say to whom the
 * process belongs. */
#include "gw_process.h"
#include "gwi_watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ANCESTORS_MAX = 64, FILE_BYTES = 4096, WORDS_MAX = 32 };

typedef struct ancestor {
    uint32_t pid, parent;
    char name[64];
    char command[FILE_BYTES];
    const char *word[WORDS_MAX + 1]; /* the words of `command`; NULL: no more */
} ancestor;

static void read_words(const char *root, ancestor *one)
{
    size_t count = 0;
    ssize_t bytes = gw_read_small(one->command, FILE_BYTES, NULL, "%s/proc/%" PRIu32 "/cmdline", root, one->pid);
    for (size_t at = 0; (ssize_t)at < bytes && count < WORDS_MAX; at += strlen(one->command + at) + 1)
        one->word[count++] = one->command + at;
    one->word[count] = NULL;
}

/* The name is in parentheses and may contain parentheses and blanks itself. */
static bool read_ancestor(const char *root, uint32_t pid, ancestor *ret)
{
    char text[FILE_BYTES];
    if (gw_read_small(text, sizeof text, NULL, "%s/proc/%" PRIu32 "/stat", root, pid) <= 0)
        return false;
    const char *from = strchr(text, '('), *to = strrchr(text, ')');
    if (from == NULL || to == NULL || to < from || sscanf(to + 1, " %*c %" SCNu32, &ret->parent) != 1)
        return false;
    ret->pid = pid;
    snprintf(ret->name, sizeof ret->name, "%.*s", (int)(to - from - 1), from + 1);
    read_words(root, ret);
    return true;
}

/* ---- signs ---- */

/* What a sign is compared with. */
typedef enum sign_of {
    PROGRAM, /* the name of the process or of its program */
    SCRIPT,  /* the script or module that an interpreter runs, or the program */
    FOLDER   /* a folder of the program or of the script */
} sign_of;

static const struct {
    sign_of of;
    const char *name, *means;
} signs[] = {
    {SCRIPT, "ipykernel_launcher", "notebook"},
    {SCRIPT, "ipykernel", "notebook"},
    {SCRIPT, "gpuwhy_kernel", "notebook"},
    {SCRIPT, "jupyter-lab", "notebook"},
    {SCRIPT, "jupyterlab", "notebook"},
    {SCRIPT, "jupyter-notebook", "notebook"},
    {SCRIPT, "notebook", "notebook"},
    {SCRIPT, "jupyterhub-singleuser", "notebook"},
    {PROGRAM, "slurmstepd", "Slurm"},
    {PROGRAM, "tmux", "tmux"},
    {PROGRAM, "screen", "screen"},
    {PROGRAM, "SCREEN", "screen"},
    {PROGRAM, "sshd", "ssh"},
    {PROGRAM, "sshd-session", "ssh"},
    {PROGRAM, "cron", "cron"},
    {PROGRAM, "crond", "cron"},
    {SCRIPT, "code-server", "VS Code"},
    {FOLDER, "/.vscode-server/", "VS Code"},
    {PROGRAM, "login", "login"},
};

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

/* Programs that change their title put a colon after their name: "tmux: server", "sshd: ann@pts/0". */
static bool is_title(const char *text, const char *name)
{
    size_t bytes = strlen(name);
    return strncmp(text, name, bytes) == 0 && (text[bytes] == '\0' || text[bytes] == ':');
}

static bool is_python(const char *program)
{
    size_t bytes = strlen("python");
    return strncmp(program, "python", bytes) == 0 && strspn(program + bytes, "0123456789.") == strlen(program + bytes);
}

/* Return the letter of the first option in a word of short options that has a value or ends the options, and what
 * follows it in the word; '\0': there is none. */
static char value_option(const char *word, const char **ret_rest)
{
    const char *at = word[0] == '-' && word[1] != '-' ? strpbrk(word, "mcWX") : NULL;
    *ret_rest = at == NULL ? NULL : at + 1;
    return at == NULL ? '\0' : *at;
}

/* Return the script of an interpreter's command line. Of Python's modules, store that it is one. NULL: none. */
static const char *script_of(const ancestor *one, bool *ret_is_module)
{
    static const char *const interpreters[] = {"node", "sh", "bash", "dash"};
    *ret_is_module = false;
    const char *program = one->word[0] == NULL ? "" : base_of(one->word[0]), *rest;
    bool is_known = is_python(program);
    for (size_t i = 0; i < sizeof interpreters / sizeof interpreters[0]; i++)
        is_known = is_known || strcmp(program, interpreters[i]) == 0;
    for (size_t i = 1; is_known && one->word[i] != NULL; i++) {
        char option = is_python(program) ? value_option(one->word[i], &rest) : '\0';
        if (option == 'c')
            return NULL;
        *ret_is_module = option == 'm';
        if (option == 'm')
            return rest[0] != '\0' ? rest : one->word[i + 1];
        if (option != '\0' && rest[0] == '\0' && one->word[i + 1] != NULL)
            i++;
        else if (option == '\0' && one->word[i][0] != '-')
            return one->word[i];
    }
    return NULL;
}

/* True if the script is `name`, with or without ".py", or a part of the module `name`. */
static bool is_script(const char *script, bool is_module, const char *name)
{
    const char *base = is_module ? script : base_of(script);
    size_t bytes = strlen(name);
    if (strncmp(base, name, bytes) != 0)
        return false;
    return base[bytes] == '\0' || (is_module ? base[bytes] == '.' : strcmp(base + bytes, ".py") == 0);
}

static const char *meaning_of(const ancestor *one)
{
    bool is_module;
    const char *program = one->word[0] == NULL ? "" : one->word[0], *script = script_of(one, &is_module);
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        const char *name = signs[i].name;
        bool is_there = false;
        if (signs[i].of == FOLDER)
            is_there = strstr(program, name) != NULL || (script != NULL && strstr(script, name) != NULL);
        else if (signs[i].of == SCRIPT)
            is_there = (script != NULL && is_script(script, is_module, name)) || strcmp(base_of(program), name) == 0;
        else
            is_there = is_title(one->name, name) || is_title(program, name) || strcmp(base_of(program), name) == 0;
        if (is_there)
            return signs[i].means;
    }
    return NULL;
}

/* ---- the control group ---- */

/* Return the first part of a path in the control group that begins with `name`, behind it; NULL: there is none. */
static const char *part_after(const char *cgroup, const char *name)
{
    for (const char *at = strchr(cgroup, '/'); at != NULL; at = strchr(at + 1, '/'))
        if (strncmp(at + 1, name, strlen(name)) == 0)
            return at + 1 + strlen(name);
    return NULL;
}

/* Return true if a batch job or a container is found in the control group. The id of a container has 64 digits. */
static bool add_job(gw_text *text, const char *cgroup)
{
    enum { ID_DIGITS_MIN = 12 };
    static const char *const containers[] = {"docker-", "docker/", "libpod-", "cri-containerd-"};
    const char *job = part_after(cgroup, "job_");
    size_t digits = job == NULL ? 0 : strspn(job, "0123456789");
    if (digits > 0 && strchr("/\n", job[digits]) != NULL && strstr(cgroup, "slurm") != NULL) {
        gw_text_addf(text, "Slurm job %.*s", (int)(digits > 20 ? 20 : digits), job);
        return true;
    }
    for (size_t i = 0; i < sizeof containers / sizeof containers[0]; i++) {
        const char *id = part_after(cgroup, containers[i]);
        if (id == NULL || strspn(id, "0123456789abcdef") < ID_DIGITS_MIN)
            continue;
        gw_text_addf(text, "container %.12s", id);
        return true;
    }
    if (part_after(cgroup, "kubepods") == NULL)
        return false;
    gw_text_add_str(text, "Kubernetes pod");
    return true;
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
    bool is_orphan,
        has_cgroup = gw_read_small(cgroup, sizeof cgroup, NULL, "%s/proc/%" PRIu32 "/cgroup", root, pid) > 0;
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
