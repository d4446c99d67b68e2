/* Reads the line of the user's frame and the lines around it from the source file, if the file is unchanged since the
 * run. */
#include "gw_own.h"
#include "gwi_source.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t ns_of(struct timespec time)
{
    return time.tv_sec < 0 ? 0 : (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Return the time at which the file's contents, name or attributes last changed. */
static uint64_t changed_ns(const struct stat *info)
{
    uint64_t content = ns_of(info->st_mtim), inode = ns_of(info->st_ctim);
    return content > inode ? content : inode;
}

/* True if the run was on this machine. A file of the same name on another machine may be different. */
static bool is_this_machine(const gw_verdict_run *run)
{
    char host[256] = "";
    return run->host != NULL && gethostname(host, sizeof host - 1) == 0 && strcmp(host, run->host) == 0;
}

static bool path_of(const gw_verdict *verdict, const gw_where_frame *frame, char path[PATH_MAX])
{
    int bytes;
    if (frame->file[0] == '/')
        bytes = snprintf(path, PATH_MAX, "%s", frame->file);
    else if (verdict->run.cwd == NULL)
        bytes = -1;
    else
        bytes = snprintf(path, PATH_MAX, "%s/%s", verdict->run.cwd, frame->file);
    return bytes > 0 && bytes < PATH_MAX;
}

static bool may_have_changed(const gw_verdict *verdict, const gw_where_frame *frame, const struct stat *info)
{
    struct stat built;
    if (changed_ns(info) > verdict->run.start_realtime_ns)
        return true;
    return !frame->python &&
           (frame->module == NULL || stat(frame->module, &built) != 0 || ns_of(info->st_mtim) > ns_of(built.st_mtim));
}

typedef struct scan {
    gwi_source *source;
    uint32_t wanted, at; /* line numbers, from 1 */
    size_t bytes;        /* number of bytes of line `at` that were stored so far */
} scan;

static void end_line(scan *it)
{
    if (it->at + 1 >= it->wanted && it->at <= it->wanted + 1)
        it->source->count = it->at - it->source->first + 1;
    it->at++;
    it->bytes = 0;
}

static void take(scan *it, const char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes && it->at <= it->wanted + 1; i++) {
        if (data[i] == '\n')
            end_line(it);
        else if (it->at >= it->source->first && it->bytes < GWI_SOURCE_LINE_MAX - 1)
            it->source->line[it->at - it->source->first][it->bytes++] = data[i];
    }
}

static bool read_lines(int fd, uint32_t wanted, gwi_source *source)
{
    char data[16384];
    size_t total = 0;
    ssize_t bytes = 0;
    *source = (gwi_source){.first = wanted > 1 ? wanted - 1 : 1};
    scan it = {.source = source, .wanted = wanted, .at = 1};
    while (it.at <= wanted + 1 && total < GWI_SOURCE_BYTES_MAX && (bytes = read(fd, data, sizeof data)) > 0) {
        take(&it, data, (size_t)bytes);
        total += (size_t)bytes;
    }
    if (bytes == 0 && it.bytes > 0)
        end_line(&it); /* the last line may have no newline */
    return source->first + source->count > wanted;
}

gwi_source_state gwi_source_read(const gw_verdict *verdict, gwi_source *ret_source)
{
    char path[PATH_MAX];
    struct stat info;
    const gw_where *where = verdict->where;
    const gw_where_frame *frame = where == NULL ? NULL : &where->frame[where->user];
    if (frame == NULL || frame->file == NULL || frame->line == 0 || frame->line == UINT32_MAX ||
        !verdict->run.has_start || !is_this_machine(&verdict->run) || !path_of(verdict, frame, path))
        return GWI_SOURCE_NONE;
    int fd;
    if (gw_plain_open(path, true, &fd, NULL) != GW_OK)
        return GWI_SOURCE_NONE;
    gwi_source_state state = GWI_SOURCE_NONE;
    if (fstat(fd, &info) == 0) {
        if (may_have_changed(verdict, frame, &info))
            state = GWI_SOURCE_CHANGED;
        else if (read_lines(fd, frame->line, ret_source))
            state = GWI_SOURCE_READ;
    }
    close(fd);
    return state;
}
