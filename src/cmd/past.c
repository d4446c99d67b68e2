/* The list of past runs. The fields of a line are version, start, key, status, good, seconds, cause, end, recording,
 * folder and command, separated by tabs. Control characters and percent signs are written as %XX. */
#include "gwi_past.h"

#include "gw_array.h"
#include "gw_hash.h"
#include "gw_text.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAST_BYTES_MAX = 512 << 10, LINE_BYTES_MAX = 16 << 10, COMMAND_BYTES_MAX = 2 << 10 };
static const char version[] = "1";
static const char answer_letter = 'a'; /* older versions list the entry as a run that is not determined */

static gw_status list_path(gw_path out, gw_error *err)
{
    gw_path folder;
    gw_status st = gw_state_folder(folder, err);
    return st == GW_OK ? gw_path_format(out, err, "%s/runs", folder) : st;
}

/* ---- keys ---- */

uint64_t gwi_past_key(const gw_string_list *argv, const char *folder)
{
    /* Hash the final zero of each word, too. It separates the words: "a b" and "a", "b" get different keys. */
    uint64_t hash = gw_hash_bytes(GW_HASH_START, folder, strlen(folder) + 1);
    for (size_t i = 0; i < argv->count; i++)
        hash = gw_hash_bytes(hash, argv->item[i], strlen(argv->item[i]) + 1);
    return hash;
}

/* ---- writing ---- */

static void add_field(gw_text *line, const char *value)
{
    gw_text_add(line, "\t", 1);
    for (; *value != '\0'; value++) {
        unsigned char byte = (unsigned char)*value;
        if (byte < ' ' || byte == '%' || byte == 0x7f)
            gw_text_addf(line, "%%%02X", byte);
        else
            gw_text_add(line, value, 1);
    }
}

static void add_end(gw_text *line, const gw_verdict *verdict)
{
    char end[48] = "unknown";
    if (verdict->exit_known && verdict->signal != 0)
        snprintf(end, sizeof end, "died of signal %d", verdict->signal);
    else if (verdict->exit_known)
        snprintf(end, sizeof end, "exited %d", verdict->exit_code);
    add_field(line, end);
}

static void add_command(gw_text *line, const gw_string_list *argv)
{
    gw_text command = {0};
    for (size_t i = 0; i < argv->count && command.bytes < COMMAND_BYTES_MAX; i++)
        gw_text_addf(&command, "%s%.*s", i == 0 ? "" : " ", (int)COMMAND_BYTES_MAX, argv->item[i]);
    add_field(line, gw_text_str(&command));
    line->failed = line->failed || command.failed;
    gw_text_free(&command);
}

/* Return the mark that follows `good` in a line: "n" if no driver call was observed, otherwise "". Older versions
 * ignore the mark. */
static const char *observed_mark(const gw_verdict *verdict)
{
    return verdict->is_coverage_known && verdict->observed_count == 0 ? "n" : "";
}

static char status_letter(gw_verdict_status status)
{
    if (status == GW_VERDICT_FAULT)
        return 'f';
    if (status == GW_VERDICT_CLEAN)
        return 'c';
    return 'u';
}

/* Called if the list is too long. Keep only the complete lines among its last PAST_BYTES_MAX / 2 bytes. The caller
 * holds the lock on `fd`. A line that another run adds at the same time may be lost. */
static void shorten(int fd, const char *path)
{
    gw_path fresh;
    char *bytes = malloc(PAST_BYTES_MAX / 2);
    off_t end = lseek(fd, 0, SEEK_END);
    ssize_t got = bytes == NULL ? -1 : pread(fd, bytes, PAST_BYTES_MAX / 2, end - PAST_BYTES_MAX / 2);
    char *line = got <= 0 ? NULL : memchr(bytes, '\n', (size_t)got);
    if (line != NULL && gw_path_format(fresh, NULL, "%s.%d", path, (int)getpid()) == GW_OK) {
        size_t left = (size_t)got - (size_t)(line + 1 - bytes);
        int out = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        bool whole = out >= 0 && write(out, line + 1, left) == (ssize_t)left;
        if (out >= 0 && (close(out) != 0 || !whole || rename(fresh, path) != 0))
            unlink(fresh);
    }
    free(bytes);
}

static void append(const gw_text *line)
{
    gw_path path;
    struct stat info;
    if (line->failed || line->bytes > LINE_BYTES_MAX || list_path(path, NULL) != GW_OK)
        return;
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return;
    ssize_t ignored = write(fd, gw_text_str(line), line->bytes); /* a single write keeps each line whole */
    (void)ignored;
    if (fstat(fd, &info) == 0 && info.st_size > PAST_BYTES_MAX && flock(fd, LOCK_EX | LOCK_NB) == 0)
        shorten(fd, path);
    close(fd);
}

void gwi_past_add_answer(const gw_string_list *argv, uint64_t start_realtime_ns, double seconds, const char *answer)
{
    gw_path folder;
    gw_text line = {0};
    if (getcwd(folder, sizeof folder) == NULL)
        return;
    gw_text_addf(&line, "%s\t%" PRIu64 "\t%016" PRIx64 "\t%c\t1\t%.3f", version, start_realtime_ns,
                 gwi_past_key(argv, folder), answer_letter, seconds);
    add_field(&line, "");
    add_field(&line, answer);
    add_field(&line, "");
    add_field(&line, folder);
    add_command(&line, argv);
    gw_text_add(&line, "\n", 1);
    append(&line);
    gw_text_free(&line);
}

void gwi_past_add(const gw_verdict *verdict, const char *recording)
{
    gw_path folder;
    gw_text line = {0};
    if (getcwd(folder, sizeof folder) == NULL || !verdict->run.has_start)
        return;
    bool good =
        verdict->status == GW_VERDICT_CLEAN && verdict->exit_known && verdict->signal == 0 && verdict->exit_code == 0;
    gw_text_addf(&line, "%s\t%" PRIu64 "\t%016" PRIx64 "\t%c\t%d%s\t%.3f", version, verdict->run.start_realtime_ns,
                 gwi_past_key(&verdict->argv, folder), status_letter(verdict->status), good, observed_mark(verdict),
                 verdict->seconds);
    add_field(&line, verdict->cause == NULL ? "" : verdict->cause);
    add_end(&line, verdict);
    add_field(&line, recording);
    add_field(&line, folder);
    add_command(&line, &verdict->argv);
    gw_text_add(&line, "\n", 1);
    append(&line);
    gw_text_free(&line);
}

/* ---- reading ---- */

static void past_free(gwi_past *past)
{
    free(past->cause);
    free(past->end);
    free(past->recording);
    free(past->folder);
    free(past->command);
}

void gwi_past_free(gwi_past_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        past_free(&list->item[i]);
    free(list->item);
    *list = (gwi_past_list){0};
}

/* Decode %XX in place. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0';) {
        char digits[3] = "";
        if (from[0] == '%' && isxdigit((unsigned char)from[1]) && isxdigit((unsigned char)from[2])) {
            memcpy(digits, from + 1, 2);
            *to++ = (char)strtoul(digits, NULL, 16);
            from += 3;
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
}

enum { FIELD_COUNT = 11 };

static bool split(char *line, char *field[FIELD_COUNT])
{
    size_t count = 0;
    for (char *at = line; at != NULL && count < FIELD_COUNT; count++) {
        field[count] = at;
        at = strchr(at, '\t');
        if (at != NULL)
            *at++ = '\0';
    }
    return count == FIELD_COUNT && strcmp(field[0], version) == 0;
}

/* Parse one line and add its run to the list. Skips an invalid line. Returns false if out of memory. */
static bool take_line(gwi_past_list *list, char *line)
{
    char *field[FIELD_COUNT], letter;
    int good;
    gwi_past past = {0};
    if (!split(line, field) || sscanf(field[1], "%" SCNu64, &past.start_realtime_ns) != 1 ||
        sscanf(field[2], "%" SCNx64, &past.key) != 1 || sscanf(field[3], "%c", &letter) != 1 ||
        sscanf(field[4], "%d", &good) != 1 || sscanf(field[5], "%lf", &past.seconds) != 1)
        return true;
    past.status = GW_VERDICT_UNDETERMINED;
    if (letter == 'f')
        past.status = GW_VERDICT_FAULT;
    else if (letter == 'c')
        past.status = GW_VERDICT_CLEAN;
    else if (letter == answer_letter)
        past.is_answer = true;
    past.good = good == 1;
    past.unobserved = strchr(field[4], 'n') != NULL;
    char **text[] = {&past.cause, &past.end, &past.recording, &past.folder, &past.command};
    bool copied = true;
    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++) {
        unescape(field[6 + i]);
        *text[i] = strdup(field[6 + i]);
        copied = copied && *text[i] != NULL;
    }
    copied = copied && gw_array_room(&list->item, list->count, &list->capacity, sizeof *list->item);
    if (copied)
        list->item[list->count++] = past;
    else
        past_free(&past);
    return copied;
}

gw_status gwi_past_read(gwi_past_list *ret_list, gw_error *err)
{
    gw_path path;
    *ret_list = (gwi_past_list){0};
    gw_status st = list_path(path, err);
    if (st != GW_OK)
        return st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? GW_OK : gw_fail(err, GW_IO, "open %s: %s", path, strerror(errno));
    off_t end = lseek(fd, 0, SEEK_END), from = end > PAST_BYTES_MAX ? end - PAST_BYTES_MAX : 0;
    char *bytes = malloc(PAST_BYTES_MAX + 1);
    ssize_t got = bytes == NULL ? 0 : pread(fd, bytes, PAST_BYTES_MAX, from);
    close(fd);
    if (bytes == NULL)
        return gw_fail(err, GW_NOMEM, "the list of runs");
    bytes[got < 0 ? 0 : got] = '\0';
    char *rest = NULL;
    for (char *line = strtok_r(bytes, "\n", &rest); line != NULL && st == GW_OK; line = strtok_r(NULL, "\n", &rest))
        if (!take_line(ret_list, line))
            st = gw_fail(err, GW_NOMEM, "the list of runs");
    free(bytes);
    if (st != GW_OK)
        gwi_past_free(ret_list);
    return st;
}

char *gwi_age_text(char out[GWI_AGE_TEXT_MAX], uint64_t ns)
{
    static const struct {
        uint64_t seconds;
        const char *word;
    } units[] = {{86400, "day"}, {3600, "h"}, {60, "min"}, {1, "s"}};
    uint64_t seconds = ns / 1000000000u;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (seconds < units[i].seconds && i + 1 < sizeof units / sizeof units[0])
            continue;
        uint64_t count = seconds / units[i].seconds;
        snprintf(out, GWI_AGE_TEXT_MAX, "%" PRIu64 " %s%s", count, units[i].word, i == 0 && count != 1 ? "s" : "");
        break;
    }
    return out;
}
