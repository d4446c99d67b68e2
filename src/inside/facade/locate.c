/* Find the libcuda.so.1 that the loader would give a program. The loader skips files for another machine. It searches
 * in this order:
 * - the program's DT_RPATH (only without DT_RUNPATH);
 * - LD_LIBRARY_PATH;
 * - DT_RUNPATH;
 * - the cache and the default folders. For these, we call the loader itself, in a child process. */
#include "gw_facade.h"
#include "gwi_elf.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char driver_name[] = "libcuda.so.1";

typedef struct search {
    char found[PATH_MAX];
    char passed_over[300]; /* the last driver file that exists but cannot be used, and the reason; "": none */
} search;

static bool usable(search *s, const char *path)
{
    gwi_elf elf;
    gw_error why;
    if (access(path, F_OK) != 0)
        return false;
    if (gwi_elf_open(path, &elf, &why) != GW_OK) {
        snprintf(s->passed_over, sizeof s->passed_over, "%.*s", (int)sizeof s->passed_over - 1, why.text);
        return false;
    }
    bool fits = elf.machine == GWI_ELF_MACHINE && elf.type == ET_DYN;
    if (!fits)
        snprintf(s->passed_over, sizeof s->passed_over, "%.200s: not a shared library for this machine", path);
    gwi_elf_close(&elf);
    return fits;
}

/* Copy one folder of a list, with $ORIGIN, ${ORIGIN}, $LIB and ${LIB} replaced. Returns false if the result is too
 * long. */
static bool expand(const char *part, size_t bytes, const char *origin, char *out, size_t out_bytes)
{
    static const struct {
        const char *token;
        int is_origin;
    } tokens[] = {{"$ORIGIN", 1}, {"${ORIGIN}", 1}, {"$LIB", 0}, {"${LIB}", 0}};
    size_t used = 0;
    for (size_t i = 0; i < bytes;) {
        const char *value = NULL;
        for (size_t t = 0; t < sizeof tokens / sizeof tokens[0]; t++) {
            size_t token_bytes = strlen(tokens[t].token);
            if (bytes - i >= token_bytes && memcmp(part + i, tokens[t].token, token_bytes) == 0) {
                value = tokens[t].is_origin ? origin : "lib64";
                i += token_bytes;
                break;
            }
        }
        size_t value_bytes = value != NULL ? strlen(value) : 1;
        if (used + value_bytes >= out_bytes)
            return false;
        memcpy(out + used, value != NULL ? value : &part[i++], value_bytes);
        used += value_bytes;
    }
    if (used == 0)
        out[used++] = '.'; /* an empty entry is the current folder */
    out[used] = '\0';
    return true;
}

static bool search_list(search *s, const char *list, const char *separators, const char *origin)
{
    if (list == NULL || list[0] == '\0')
        return false;
    for (const char *part = list;; part++) {
        char folder[PATH_MAX], path[PATH_MAX + sizeof driver_name + 1];
        size_t bytes = strcspn(part, separators);
        if (expand(part, bytes, origin, folder, sizeof folder)) {
            snprintf(path, sizeof path, "%s/%s", folder, driver_name);
            if (usable(s, path) && realpath(folder, s->found) != NULL) {
                size_t used = strlen(s->found);
                if (used + 1 + sizeof driver_name <= sizeof s->found) {
                    snprintf(s->found + used, sizeof s->found - used, "/%s", driver_name);
                    return true;
                }
            }
        }
        part += bytes;
        if (*part == '\0')
            return false;
    }
}

static void read_run_paths(const char *program, char rpath[PATH_MAX], char runpath[PATH_MAX])
{
    gwi_elf elf;
    rpath[0] = runpath[0] = '\0';
    if (gwi_elf_open(program, &elf, NULL) != GW_OK)
        return; /* a script (its interpreter's run path almost never leads to a driver) or an unreadable file */
    const char *value = gwi_elf_dyn_string(&elf, DT_RUNPATH, 0);
    if (value != NULL)
        snprintf(runpath, PATH_MAX, "%s", value);
    else if ((value = gwi_elf_dyn_string(&elf, DT_RPATH, 0)) != NULL)
        snprintf(rpath, PATH_MAX, "%s", value);
    gwi_elf_close(&elf);
}

/* In the child: find the library with the loader, and write its path to `fd`. If the loader finds none, write '!' and
 * the reason. */
static void probe(int fd)
{
    char text[PATH_MAX];
    struct link_map *map = NULL;
    alarm(10); /* SIGALRM ends the child: a driver on a dead network file system must not block us forever */
    void *lib = dlopen(driver_name, RTLD_LAZY | RTLD_LOCAL);
    if (lib == NULL)
        snprintf(text, sizeof text, "!%s", dlerror());
    else if (dlinfo(lib, RTLD_DI_LINKMAP, &map) != 0 || map == NULL || map->l_name[0] != '/')
        snprintf(text, sizeof text, "!the loader does not report the path of the library");
    else
        snprintf(text, sizeof text, "%s", map->l_name);
    size_t bytes = strlen(text);
    _exit(write(fd, text, bytes) == (ssize_t)bytes ? 0 : 1);
}

static gw_status ask_loader(search *s, gw_error *err)
{
    int ends[2], status;
    char text[PATH_MAX];
    size_t used = 0;
    if (pipe(ends) != 0)
        return gw_fail(err, GW_IO, "pipe: %s", strerror(errno));
    pid_t child = fork();
    if (child < 0) {
        close(ends[0]);
        close(ends[1]);
        return gw_fail(err, GW_IO, "fork: %s", strerror(errno));
    }
    if (child == 0) {
        close(ends[0]);
        probe(ends[1]);
    }
    close(ends[1]);
    for (ssize_t n; used < sizeof text - 1;) {
        n = read(ends[0], text + used, sizeof text - 1 - used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        used += (size_t)n;
    }
    close(ends[0]);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    text[used] = '\0';
    if (text[0] == '/')
        snprintf(s->found, sizeof s->found, "%s", text);
    else if (s->passed_over[0] == '\0' && used > 1)
        snprintf(s->passed_over, sizeof s->passed_over, "%.280s", text + 1);
    return GW_OK;
}

gw_status gw_driver_locate(const char *program, const char *library_path, char **ret_path, gw_error *err)
{
    search s = {0};
    char rpath[PATH_MAX], runpath[PATH_MAX], origin[PATH_MAX];
    if (realpath(program, origin) == NULL)
        return gw_fail(err, GW_IO, "%s: %s", program, strerror(errno));
    read_run_paths(origin, rpath, runpath);
    char *slash = strrchr(origin, '/');
    *(slash == origin ? slash + 1 : slash) = '\0';
    if (!search_list(&s, rpath, ":", origin) && !search_list(&s, library_path, ":;", origin) &&
        !search_list(&s, runpath, ":", origin)) {
        gw_status st = ask_loader(&s, err);
        if (st != GW_OK)
            return st;
    }
    if (s.found[0] == '\0')
        return gw_fail(err, GW_MISSING,
                       "no %s in the program's run path, LD_LIBRARY_PATH, the loader's cache and folders%s%s",
                       driver_name, s.passed_over[0] != '\0' ? ": " : "", s.passed_over);
    *ret_path = strdup(s.found);
    return *ret_path != NULL ? GW_OK : gw_fail(err, GW_NOMEM, "%s", s.found);
}
