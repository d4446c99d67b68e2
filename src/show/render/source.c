/* Reads the line of the user's frame and the lines around it from the source file, if the file is unchanged since the
 * run. */
#include "gw_own.h"
#include "gw_sites.h"
#include "gwi_source.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* True if the run was on this machine. A file of the same name on another machine may be different. */
static bool is_this_machine(const gw_verdict_run *run)
{
    char host[256] = "";
    return run->host != NULL && gethostname(host, sizeof host - 1) == 0 && strcmp(host, run->host) == 0;
}

static bool take_lines(const char *data, size_t bytes, uint32_t wanted, gwi_source *source)
{
    const char *at = data, *end = data + bytes;
    *source = (gwi_source){.first = wanted > 1 ? wanted - 1 : 1};
    for (uint32_t line = 1; at < end && line <= wanted + 1; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((stop == NULL ? end : stop) - at);
        if (line >= source->first)
            memcpy(source->line[source->count++], at, length < GWI_SOURCE_LINE_MAX ? length : GWI_SOURCE_LINE_MAX - 1);
        at = stop == NULL ? end : stop + 1;
    }
    return source->first + source->count > wanted;
}

/* Open the file if its lines may be shown. Returns -1 if not. */
static int open_source(const gw_verdict *verdict, const char *path, struct stat *ret_info)
{
    bool has_hash = verdict->where->sha256[0] != '\0';
    int fd = -1;
    if (verdict->run.owner == geteuid())
        (void)!gw_plain_open(path, true, &fd, NULL);
    else if (has_hash)
        fd = gw_foreign_open(path, verdict->run.owner);
    if (fd < 0 || (fstat(fd, ret_info) == 0 && (has_hash || ret_info->st_uid == geteuid())))
        return fd;
    close(fd);
    return -1;
}

gwi_source_state gwi_source_read(const gw_verdict *verdict, gwi_source *ret_source)
{
    char path[PATH_MAX], sha256[GW_SHA256_TEXT_MAX];
    struct stat info;
    size_t bytes;
    const gw_where *where = verdict->where;
    const gw_verdict_run *run = &verdict->run;
    const gw_where_frame *frame = where == NULL ? NULL : &where->frame[where->user];
    if (frame == NULL || frame->file == NULL || frame->line == 0 || frame->line == UINT32_MAX || !run->has_start ||
        !is_this_machine(run) || !gw_source_path(run->cwd, frame->file, path))
        return GWI_SOURCE_NONE;
    int fd = open_source(verdict, path, &info);
    if (fd < 0)
        return GWI_SOURCE_NONE;
    char *data = gw_source_read(fd, GW_SOURCE_BYTES_MAX, &bytes, sha256);
    bool changed = where->sha256[0] != '\0'
                       ? data != NULL && strcmp(sha256, where->sha256) != 0
                       : gw_source_may_have_changed(&info, run->start_realtime_ns, frame->python, frame->module);
    gwi_source_state state = changed ? GWI_SOURCE_CHANGED : GWI_SOURCE_NONE;
    if (!changed && data != NULL && take_lines(data, bytes, frame->line, ret_source))
        state = GWI_SOURCE_READ;
    free(data);
    close(fd);
    return state;
}
