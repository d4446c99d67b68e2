/* Opens, checks and writes the files that options name for output (gwi_output.h). */
#include "gwi_output.h"

#include "gw_buffer.h"
#include "gw_magic.h"
#include "gw_say.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { OPEN_FLAGS = O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, LINKS_MAX = 40, WAIT_MS = 100 };

static gw_status fail_errno(gw_error *err)
{
    return gw_fail(err, GW_IO, "%s", strerror(errno));
}

/* ---- paths ---- */

static gw_status parent_of(const char *path, gw_path ret_folder, gw_error *err)
{
    int bytes = (int)(gw_path_last(path) - path);
    return gw_path_format(ret_folder, err, "%.*s", bytes == 0 ? 1 : bytes, bytes == 0 ? "." : path);
}

static bool names_folder(const char *path)
{
    return path[0] == '\0' || gw_ends_with(path, "/");
}

/* Store the path that a new file will have. A link may already name it. */
static gw_status find_new(const char *path, gw_path ret_real, gw_error *err)
{
    gw_path at, folder, target;
    gw_status st = gw_path_format(at, err, "%s", path);
    for (size_t end = strlen(at); st == GW_OK && end > 1 && at[end - 1] == '/'; end--)
        at[end - 1] = '\0';
    if (st == GW_OK)
        st = parent_of(at, folder, err);
    for (int i = 0; st == GW_OK && i < LINKS_MAX; i++) {
        ssize_t bytes = readlink(at, target, sizeof target - 1);
        if (bytes <= 0)
            break;
        target[bytes] = '\0';
        st = gw_path_format(at, err, "%s/%s", target[0] == '/' ? "" : folder, target);
        if (st == GW_OK)
            st = parent_of(at, folder, err);
    }
    if (st == GW_OK && realpath(folder, target) == NULL)
        return gw_fail(err, GW_IO, "folder %s: %s", folder, strerror(errno));
    return st == GW_OK ? gw_path_format(ret_real, err, "%s/%s", target, gw_path_last(at)) : st;
}

/* Create a file with a new name in the folder of the output. Returns its descriptor, or -1: `err` has the reason. */
static int make_beside(const gwi_output *output, gw_path ret_name, gw_error *err)
{
    gw_path folder;
    if (parent_of(output->real, folder, err) != GW_OK ||
        gw_path_format(ret_name, err, "%s/.gpuwhy-XXXXXX", folder) != GW_OK)
        return -1;
    int fd = mkostemp(ret_name, O_CLOEXEC);
    if (fd < 0)
        gw_fail(err, GW_IO, "folder %s: %s", folder, strerror(errno));
    return fd;
}

/* Return the number of the descriptor that the path names, or -1. It has a name even where there is no /proc. */
static int descriptor_of(const gwi_output *output)
{
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    const char *path = output->path;
    if (strcmp(path, "/dev/stdout") == 0 || (output->may_be_stdout && strcmp(path, "-") == 0))
        return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0)
        return STDERR_FILENO;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        const char *number = path + strlen(folders[i]);
        size_t digits = gw_begins(path, folders[i]) ? strspn(number, "0123456789") : 0;
        if (digits > 0 && digits < 7 && number[digits] == '\0')
            return atoi(number);
    }
    return -1;
}

/* ---- checks ---- */

/* Refuse to overwrite files that nobody can make again. */
static gw_status check_contents(const char *path, gw_error *err)
{
    static const struct {
        const char *start;
        size_t bytes;
        const char *what;
    } precious[] = {{GW_RECORDING_MAGIC, sizeof GW_RECORDING_MAGIC - 1, "a recording"},
                    {GW_BUFFER_MAGIC, sizeof GW_BUFFER_MAGIC - 1, "a buffer of a run"},
                    {"SQLite format 3", 16, "a database"},
                    {"7\177\6", 3, "the journal of a database"},
                    {"\177ELF", 4, "a core dump or a program"}};
    char start[16];
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    ssize_t bytes = fd < 0 ? 0 : pread(fd, start, sizeof start, 0);
    if (fd >= 0)
        close(fd);
    for (size_t i = 0; i < sizeof precious / sizeof precious[0]; i++)
        if (bytes >= (ssize_t)precious[i].bytes && memcmp(start, precious[i].start, precious[i].bytes) == 0)
            return gw_fail(err, GW_USAGE, "would overwrite %s", precious[i].what);
    return GW_OK;
}

/* True for a terminal, /dev/null and /dev/full. Opening another device may change its state. */
static bool is_plain_device(const struct stat *info)
{
    enum { MEMORY = 1, NULL_MINOR = 3, FULL_MINOR = 7, CONSOLE = 4, TTY = 5, PTS = 136, PTS_LAST = 143 };
    unsigned kind = major(info->st_rdev), number = minor(info->st_rdev);
    bool is_null = kind == MEMORY && (number == NULL_MINOR || number == FULL_MINOR);
    return S_ISCHR(info->st_mode) && (is_null || kind == CONSOLE || kind == TTY || (kind >= PTS && kind <= PTS_LAST));
}

static gw_status check_type(const gwi_output *output, gw_error *err)
{
    mode_t mode = output->before.st_mode;
    if (S_ISDIR(mode))
        return gw_fail(err, GW_USAGE, "is a folder; name a file in it");
    if (S_ISREG(mode))
        return GW_OK;
    if (output->kind == GWI_OUTPUT_REPLACED)
        return gw_fail(err, GW_USAGE, "not a regular file, and would be replaced by one");
    if (S_ISFIFO(mode) || is_plain_device(&output->before))
        return GW_OK;
    return gw_fail(err, GW_USAGE, "is a %s", S_ISSOCK(mode) ? "socket" : "device");
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && !S_ISCHR(a->st_mode);
}

/* Refuse a file that the command reads, or that an earlier option names. */
static gw_status check_others(const gwi_output *outputs, size_t index, char *const *inputs, int input_count,
                              gw_error *err)
{
    const gwi_output *this = &outputs[index];
    struct stat info;
    for (int i = 0; i < input_count && this->existed && this->kind != GWI_OUTPUT_RECORDING; i++)
        if (stat(inputs[i], &info) == 0 && is_same_file(&info, &this->before))
            return gw_fail(err, GW_USAGE, "would overwrite %s, which this command reads", inputs[i]);
    for (size_t i = 0; i < index; i++) {
        const gwi_output *other = &outputs[i];
        bool is_new = !this->existed && !other->existed && this->real[0] != '\0';
        if (other->path != NULL && ((is_new && strcmp(this->real, other->real) == 0) ||
                                    (this->existed && other->existed && is_same_file(&this->before, &other->before))))
            return gw_fail(err, GW_USAGE, "%s names the same file", other->option);
    }
    return GW_OK;
}

/* The recording of this run keeps its name. If the option names the same new file, write the output beside it. */
static gw_status give_way(gwi_output *output, const gwi_output *recording, gw_error *err)
{
    gw_path real;
    if (output->beside == NULL || recording->kind != GWI_OUTPUT_RECORDING || recording->path == NULL ||
        recording->existed || names_folder(recording->path) || names_folder(output->path) ||
        descriptor_of(output) >= 0 || find_new(output->path, real, NULL) != GW_OK || strcmp(real, recording->real) != 0)
        return GW_OK;
    output->asked = output->path;
    output->path = output->moved;
    return gw_path_format(output->moved, err, "%s%s", recording->path, output->beside);
}

/* ---- opening ---- */

static gw_status open_descriptor(gwi_output *output, int number, gw_error *err)
{
    output->fd = fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (output->fd < 0 || fstat(output->fd, &output->before) != 0)
        return fail_errno(err);
    if ((fcntl(output->fd, F_GETFL) & O_ACCMODE) == O_RDONLY)
        return gw_fail(err, GW_USAGE, "is not open for writing");
    output->existed = true;
    gw_path path;
    if (!S_ISREG(output->before.st_mode) || gw_path_format(path, NULL, "/proc/self/fd/%d", output->fd) != GW_OK)
        return GW_OK;
    return check_contents(path, err);
}

static gw_status open_existing(gwi_output *output, gw_error *err)
{
    gw_path folder, recording;
    pid_t supervisor;
    gw_status st = check_type(output, err);
    bool is_regular = S_ISREG(output->before.st_mode);
    if (st == GW_OK && realpath(output->path, output->real) == NULL)
        st = fail_errno(err);
    if (st == GW_OK && is_regular)
        st = check_contents(output->real, err);
    if (st == GW_OK)
        st = parent_of(output->real, folder, err);
    if (st == GW_OK && is_regular && gw_run_meta_read(folder, recording, &supervisor))
        st = gw_fail(err, GW_USAGE, "would overwrite a file of the run folder %s", folder);
    int fd = st == GW_OK ? open(output->path, OPEN_FLAGS) : -1;
    if (st == GW_OK && fd < 0)
        st = errno == ENXIO && S_ISFIFO(output->before.st_mode) ? gw_fail(err, GW_USAGE, "no process reads this pipe")
                                                                : fail_errno(err);
    if (st != GW_OK)
        return st;
    if (is_regular)
        return close(fd) == 0 ? GW_OK : fail_errno(err);
    output->fd = fd;
    return fcntl(fd, F_SETFL, 0) == 0 ? GW_OK : fail_errno(err); /* a stream needs writes that wait */
}

/* A new file is created only when it is written. Creating another one shows that the folder allows it. */
static gw_status open_new(gwi_output *output, gw_error *err)
{
    gw_path name;
    if (output->path[0] == '\0')
        return gw_fail(err, GW_USAGE, "the name is empty");
    if (names_folder(output->path))
        return gw_fail(err, GW_USAGE, "is a folder; name a file in it");
    gw_status st = find_new(output->path, output->real, err);
    int fd = st == GW_OK ? make_beside(output, name, err) : -1;
    if (fd < 0)
        return GW_IO;
    (void)unlink(name);
    return close(fd) == 0 ? GW_OK : fail_errno(err);
}

/* Store the nearest folder that exists, at most `levels` above `path`. The supervisor makes the others. */
static gw_status find_above(const char *path, unsigned levels, gw_path ret_folder, gw_error *err)
{
    gw_path at;
    struct stat info;
    gw_status st = gw_path_format(at, err, "%s", path);
    while (st == GW_OK && stat(at, &info) != 0) {
        if (errno != ENOENT || levels-- == 0)
            return fail_errno(err);
        for (size_t end = strlen(at); end > 1 && at[end - 1] == '/'; end--)
            at[end - 1] = '\0';
        st = parent_of(at, ret_folder, err);
        memcpy(at, ret_folder, sizeof at);
    }
    if (st == GW_OK && !S_ISDIR(info.st_mode))
        return gw_fail(err, GW_USAGE, "%s: %s", at, strerror(ENOTDIR));
    return st == GW_OK ? gw_path_format(ret_folder, err, "%s", at) : st;
}

/* Check that the supervisor can create the recording, or the folder and a file in it. */
static gw_status check_recording(gwi_output *output, gw_error *err)
{
    gw_path folder;
    bool is_folder = output->existed && S_ISDIR(output->before.st_mode);
    if (output->existed && !is_folder)
        return gw_fail(err, GW_USAGE, "already exists; a recording is never overwritten");
    if (!is_folder && (output->path[0] == '\0' || !names_folder(output->path)))
        return open_new(output, err);
    gw_status st = find_above(output->path, output->makes_parents ? UINT_MAX : 1, folder, err);
    if (st == GW_OK)
        st = gw_path_format(output->real, err, "%s/.", folder);
    int fd = st == GW_OK ? make_beside(output, folder, err) : -1;
    if (fd < 0)
        return GW_IO;
    (void)unlink(folder);
    if (find_new(output->path, output->real, NULL) != GW_OK)
        output->real[0] = '\0'; /* no other output can be there */
    return close(fd) == 0 ? GW_OK : fail_errno(err);
}

static gw_status open_one(gwi_output *output, gw_error *err)
{
    struct stat link;
    int number = output->kind == GWI_OUTPUT_FILE ? descriptor_of(output) : -1;
    if (number >= 0)
        return open_descriptor(output, number, err);
    output->existed = stat(output->path, &output->before) == 0;
    int why = errno;
    if (output->kind == GWI_OUTPUT_RECORDING && (output->existed || why == ENOENT)) {
        errno = 0;
        gw_status st = check_recording(output, err);
        return errno == ENOSPC || errno == EDQUOT ? GW_OK : st; /* the recording is then only used for the verdict */
    }
    if (output->kind == GWI_OUTPUT_REPLACED && lstat(output->path, &link) == 0 && S_ISLNK(link.st_mode))
        return gw_fail(err, GW_USAGE, "is a link, and would be replaced by a file");
    if (output->existed)
        return open_existing(output, err);
    errno = why;
    return why == ENOENT ? open_new(output, err) : fail_errno(err);
}

gw_status gwi_outputs_open(gwi_output *outputs, size_t count, char *const *inputs, int input_count, gw_error *err)
{
    gw_status st = GW_OK;
    for (size_t i = 0; i < count; i++)
        outputs[i].fd = -1;
    for (size_t i = 0; i < count && st == GW_OK; i++) {
        if (outputs[i].path == NULL)
            continue;
        st = give_way(&outputs[i], &outputs[0], err);
        if (st == GW_OK)
            st = open_one(&outputs[i], err);
        if (st == GW_OK)
            st = check_others(outputs, i, inputs, input_count, err);
        if (st != GW_OK)
            gw_wrap(err, "%s %s", outputs[i].option, outputs[i].path);
    }
    for (size_t i = 0; i < count && st == GW_OK; i++)
        if (outputs[i].asked != NULL)
            gw_say("%s %s: that is this run's recording, so this output goes to %s", outputs[i].option,
                   outputs[i].asked, outputs[i].path);
    if (st != GW_OK)
        gwi_outputs_close(outputs, count);
    return st == GW_OK ? GW_OK : GW_USAGE;
}

void gwi_outputs_close(gwi_output *outputs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (outputs[i].fd >= 0)
            close(outputs[i].fd);
        outputs[i].fd = -1;
    }
}

/* ---- writing ---- */

static gw_status wait_for_room(const gwi_output *output, int fd, gw_error *err)
{
    struct pollfd room = {.fd = fd, .events = POLLOUT};
    sigset_t waiting;
    for (unsigned waited_ms = 0; poll(&room, 1, WAIT_MS) <= 0; waited_ms += WAIT_MS) {
        if (sigpending(&waiting) == 0 && (sigismember(&waiting, SIGINT) == 1 || sigismember(&waiting, SIGTERM) == 1 ||
                                          sigismember(&waiting, SIGQUIT) == 1))
            return gw_fail(err, GW_IO, "incomplete, because a signal ended the wait for its reader");
        if (output->wait_s_max > 0 && waited_ms >= output->wait_s_max * 1000)
            return gw_fail(err, GW_IO, "incomplete, because its reader has read nothing for %u s", output->wait_s_max);
    }
    return GW_OK;
}

/* A pipe that has room takes PIPE_BUF bytes at once. */
static gw_status copy(const gwi_output *output, FILE *from, int to, gw_error *err)
{
    char part[1 << 16];
    struct stat info;
    size_t bytes, bytes_max = fstat(to, &info) == 0 && S_ISREG(info.st_mode) ? sizeof part : PIPE_BUF;
    while ((bytes = fread(part, 1, bytes_max, from)) > 0) {
        for (size_t at = 0; at < bytes;) {
            gw_status st = wait_for_room(output, to, err);
            if (st != GW_OK)
                return st;
            ssize_t written = write(to, part + at, bytes - at);
            if (written < 0 && errno != EINTR && errno != EAGAIN)
                return fail_errno(err);
            at += written > 0 ? (size_t)written : 0;
        }
    }
    return ferror(from) ? fail_errno(err) : GW_OK;
}

/* Copy to an ordinary file, after its first `kept` bytes. */
static gw_status fill(const gwi_output *output, FILE *from, int to, off_t kept, gw_error *err)
{
    struct stat info;
    if (fstat(to, &info) != 0 || !S_ISREG(info.st_mode))
        return gw_fail(err, GW_IO, "is not a regular file any more");
    off_t bytes = fseeko(from, 0, SEEK_END) == 0 ? ftello(from) : -1;
    if (bytes < 0 || fseeko(from, 0, SEEK_SET) != 0 || lseek(to, kept, SEEK_SET) < 0)
        return fail_errno(err);
    if (bytes > 0 && fallocate(to, FALLOC_FL_KEEP_SIZE, kept, bytes) != 0 &&
        (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) /* otherwise, this file system cannot reserve */
        return fail_errno(err);
    gw_status st = copy(output, from, to, err);
    return st == GW_OK && ftruncate(to, kept + bytes) != 0 ? fail_errno(err) : st;
}

/* Write to an ordinary file. What has got its name since it was opened is checked, too. */
static gw_status write_file(const gwi_output *output, FILE *from, off_t kept, gw_error *err)
{
    gw_path fresh;
    struct stat info;
    bool is_replaced = output->kind == GWI_OUTPUT_REPLACED, existed = stat(output->path, &info) == 0;
    mode_t mode = output->mode == 0 ? 0600 : output->mode, mask = umask(0);
    umask(mask);
    gw_status st = existed ? check_contents(output->path, err) : GW_OK;
    if (st != GW_OK)
        return st;
    int fd = is_replaced ? make_beside(output, fresh, err) : open(output->path, OPEN_FLAGS | O_CREAT, mode);
    if (fd < 0)
        return is_replaced ? GW_IO : fail_errno(err);
    st = fill(output, from, fd, kept, err);
    if (st == GW_OK && is_replaced && fchmod(fd, mode & ~mask) != 0)
        st = fail_errno(err);
    if (close(fd) != 0 && st == GW_OK)
        st = fail_errno(err);
    if (st == GW_OK && is_replaced && rename(fresh, output->path) != 0)
        st = fail_errno(err);
    if (st != GW_OK && (is_replaced || !existed))
        (void)unlink(is_replaced ? fresh : output->real);
    return st;
}

gw_status gwi_output_write(const gwi_output *output, const gw_text *text, size_t kept_bytes, gw_error *err)
{
    FILE *from = text->failed || text->bytes == 0 ? NULL : fmemopen(text->data, text->bytes, "r");
    gw_status st;
    if (from == NULL)
        st = gw_fail(err, GW_NOMEM, "out of memory");
    else if (output->fd >= 0)
        st = copy(output, from, output->fd, err);
    else
        st = write_file(output, from, (off_t)kept_bytes, err);
    if (from != NULL)
        fclose(from);
    if (st != GW_OK)
        gw_wrap(err, "%s %s", output->option, output->path);
    return st;
}

/* ---- streams ---- */

/* The contents for an ordinary file are collected in a file without a name: the old ones are not lost if the work
 * fails, and nothing is left behind if a signal ends it. */
FILE *gwi_output_stream(const gwi_output *output, gw_error *err)
{
    gw_path name;
    int fd = output->fd >= 0 ? fcntl(output->fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1) : make_beside(output, name, NULL);
    if (output->fd < 0 && fd >= 0)
        (void)unlink(name);
    /* a file may be writable in a folder that is not */
    FILE *stream = fd >= 0 ? fdopen(fd, output->fd >= 0 ? "w" : "w+") : tmpfile();
    if (stream == NULL)
        gw_fail(err, GW_IO, "%s %s: %s", output->option, output->path, strerror(errno));
    if (stream == NULL && fd >= 0)
        close(fd);
    return stream;
}

gw_status gwi_output_finish(const gwi_output *output, FILE *stream, gw_status st, gw_error *err)
{
    bool is_good = st == GW_OK;
    if (is_good && (fflush(stream) != 0 || ferror(stream)))
        st = fail_errno(err);
    if (st == GW_OK && output->fd < 0)
        st = write_file(output, stream, 0, err);
    if (fclose(stream) != 0 && st == GW_OK)
        st = fail_errno(err);
    if (is_good && st != GW_OK)
        gw_wrap(err, "%s %s", output->option, output->path);
    return st;
}
