/* The text list of past runs. The fields of a line are version, start, key, status, good, seconds, cause, end,
 * recording, folder and command, separated by tabs. For each attempt before the last one, cause, end and recording
 * follow; older versions of gpuwhy ignore these fields. Control characters and percent signs are written as %XX.
 *
 * The field `good` is 0 or 1, then "n" if no driver call was observed, "p" and the peak in bytes if it is known, and
 * "b" and the batch size if there is one: "1p12133138432b32". Older versions ignore what follows the number.
 *
 * If the file exceeds GWI_PAST_LIST_BYTES_MAX, only the newest lines are kept, up to half of these bytes. Damaged lines
 * and lines of newer versions are skipped. */
#include "gwi_past_store.h"

#include "gw_array.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_BYTES_MAX = 16 << 10 };
static const char version[] = "1";
static const char answer_letter = 'a'; /* older versions list the entry as a run that is not determined */

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

static char status_letter(const gwi_past *past)
{
    if (past->is_answer)
        return answer_letter;
    if (past->status == GW_VERDICT_FAULT)
        return 'f';
    if (past->status == GW_VERDICT_CLEAN)
        return 'c';
    return 'u';
}

/* Shorten a list that is too long to the complete lines in its last GWI_PAST_LIST_BYTES_MAX / 2 bytes. The caller holds
 * the lock on `fd`. A line that another run adds meanwhile may be lost. */
static void shorten(int fd, const char *path)
{
    gw_path fresh;
    char *bytes = malloc(GWI_PAST_LIST_BYTES_MAX / 2);
    off_t end = lseek(fd, 0, SEEK_END);
    ssize_t got = bytes == NULL ? -1 : pread(fd, bytes, GWI_PAST_LIST_BYTES_MAX / 2, end - GWI_PAST_LIST_BYTES_MAX / 2);
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

static bool append(const char *path, const gw_text *line)
{
    struct stat info;
    if (line->failed || line->bytes > LINE_BYTES_MAX)
        return false;
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return false;
    /* a single write keeps each line whole */
    bool is_written = write(fd, gw_text_str(line), line->bytes) == (ssize_t)line->bytes;
    if (fstat(fd, &info) == 0 && info.st_size > GWI_PAST_LIST_BYTES_MAX && flock(fd, LOCK_EX | LOCK_NB) == 0)
        shorten(fd, path);
    close(fd);
    return is_written;
}

void gwi_past_attempts_encode(const gwi_past *past, gw_text *text)
{
    for (size_t i = 0; i < past->attempt_count; i++) {
        add_field(text, past->attempt[i].cause);
        add_field(text, past->attempt[i].end);
        add_field(text, past->attempt[i].recording);
    }
}

bool gwi_past_list_add(const char *path, const gwi_past *past)
{
    gw_text line = {0};
    gw_text_addf(&line, "%s\t%" PRIu64 "\t%016" PRIx64 "\t%c\t%d%s", version, past->start_realtime_ns, past->key,
                 status_letter(past), past->good, past->unobserved ? "n" : "");
    if (past->has_peak)
        gw_text_addf(&line, "p%" PRIu64, past->peak_bytes);
    if (past->has_batch)
        gw_text_addf(&line, "b%" PRIu64, past->batch);
    gw_text_addf(&line, "\t%.3f", past->seconds < 0 ? 0 : past->seconds);
    add_field(&line, past->cause);
    add_field(&line, past->end);
    add_field(&line, past->recording);
    add_field(&line, past->folder);
    add_field(&line, past->command);
    gwi_past_attempts_encode(past, &line);
    gw_text_add(&line, "\n", 1);
    bool is_added = append(path, &line);
    gw_text_free(&line);
    return is_added;
}

/* ---- reading ---- */

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

enum { FIELD_COUNT = 11, ATTEMPT_FIELDS = 3 };

/* End the field at *at, and move *at to the next field, or to NULL after the last one. */
static char *next_field(char **at)
{
    char *field = *at;
    *at = field == NULL ? NULL : strchr(field, '\t');
    if (*at != NULL)
        *(*at)++ = '\0';
    return field;
}

/* Split the fields of a line. *ret_rest is the rest of the line, or NULL. */
static bool split(char *line, char *field[FIELD_COUNT], char **ret_rest)
{
    *ret_rest = line;
    for (size_t i = 0; i < FIELD_COUNT; i++)
        field[i] = next_field(ret_rest);
    return field[FIELD_COUNT - 1] != NULL && strcmp(field[0], version) == 0;
}

bool gwi_past_attempts_decode(char *rest, gwi_past *past)
{
    while (rest != NULL) {
        char *field[ATTEMPT_FIELDS];
        for (size_t i = 0; i < ATTEMPT_FIELDS; i++)
            field[i] = next_field(&rest);
        if (field[ATTEMPT_FIELDS - 1] == NULL)
            return true;
        if (!gw_array_more(&past->attempt, past->attempt_count, sizeof *past->attempt))
            return false;
        gwi_past_attempt *attempt = &past->attempt[past->attempt_count++];
        char **text[] = {&attempt->cause, &attempt->end, &attempt->recording};
        bool copied = true;
        for (size_t i = 0; i < ATTEMPT_FIELDS; i++) {
            unescape(field[i]);
            *text[i] = strdup(field[i]);
            copied = copied && *text[i] != NULL;
        }
        if (!copied)
            return false;
    }
    return true;
}

/* Parse an unsigned number that is the whole of `text`. */
static bool take_number(const char *text, int base, uint64_t *ret_value)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, base);
    if (!isxdigit((unsigned char)text[0]) || *end != '\0' || errno != 0)
        return false;
    *ret_value = value;
    return true;
}

/* Parse a duration in seconds. False for text that is no number, such as "nan". */
static bool take_seconds(const char *text, double *ret_seconds)
{
    char *end;
    double seconds = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(seconds) || seconds < 0)
        return false;
    *ret_seconds = seconds;
    return true;
}

/* Parse what follows the number in the field `good`. Letters of newer versions are skipped. */
static void take_marks(const char *at, gwi_past *past)
{
    while (*at != '\0') {
        char letter = *at++, *end = NULL;
        errno = 0;
        uint64_t value = isdigit((unsigned char)*at) ? strtoull(at, &end, 10) : 0;
        bool has_value = end != NULL && errno == 0;
        past->unobserved = past->unobserved || letter == 'n';
        if (letter == 'p' && has_value) {
            past->has_peak = true;
            past->peak_bytes = value;
        } else if (letter == 'b' && has_value) {
            past->has_batch = true;
            past->batch = value;
        }
        at = end != NULL ? end : at;
    }
}

/* Parse "exited 1" or "died of signal 9". */
static void take_exit(const char *end, gwi_past *past)
{
    if (sscanf(end, "exited %d", &past->exit_code) == 1) {
        past->has_exit = true;
    } else if (sscanf(end, "died of signal %d", &past->signal) == 1) {
        past->has_exit = true;
        past->exit_code = -1;
    }
}

static bool take_fields(char *field[FIELD_COUNT], gwi_past *past)
{
    char letter = field[3][0];
    if (!take_number(field[1], 10, &past->start_realtime_ns) || !take_number(field[2], 16, &past->key) ||
        letter == '\0' || !isdigit((unsigned char)field[4][0]) || !take_seconds(field[5], &past->seconds))
        return false;
    past->status = GW_VERDICT_UNDETERMINED;
    if (letter == 'f')
        past->status = GW_VERDICT_FAULT;
    else if (letter == 'c')
        past->status = GW_VERDICT_CLEAN;
    past->is_answer = letter == answer_letter;
    past->good = field[4][0] == '1' && !isdigit((unsigned char)field[4][1]);
    take_marks(field[4] + 1, past);
    return true;
}

/* Parse one line and add its run to the list. *ret_taken is false if the line is invalid. Returns false if out of
 * memory. */
static bool take_line(gwi_past_list *list, char *line, bool *ret_taken)
{
    char *field[FIELD_COUNT], *rest;
    gwi_past past = {0};
    *ret_taken = split(line, field, &rest) && take_fields(field, &past);
    if (!*ret_taken)
        return true;
    char **text[] = {&past.cause, &past.end, &past.recording, &past.folder, &past.command};
    bool copied = gw_str_copy("", &past.card);
    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++) {
        unescape(field[6 + i]);
        *text[i] = strdup(field[6 + i]);
        copied = copied && *text[i] != NULL;
    }
    if (copied && !past.is_answer)
        take_exit(past.end, &past);
    copied = copied && gwi_past_attempts_decode(rest, &past) && gwi_past_list_push(list, &past);
    if (!copied)
        gwi_past_clear(&past);
    return copied;
}

/* Read the newest bytes of the file, and end them with a zero byte. *ret_bytes is NULL if there is no such file. */
static gw_status read_newest(const char *path, char **ret_bytes, bool *ret_is_cut, gw_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    *ret_bytes = NULL;
    if (fd < 0)
        return errno == ENOENT ? GW_OK : gw_fail(err, GW_IO, "open %s: %s", path, strerror(errno));
    off_t end = lseek(fd, 0, SEEK_END);
    *ret_is_cut = end > GWI_PAST_LIST_BYTES_MAX;
    char *bytes = malloc(GWI_PAST_LIST_BYTES_MAX + 1);
    ssize_t got =
        bytes == NULL ? 0 : pread(fd, bytes, GWI_PAST_LIST_BYTES_MAX, *ret_is_cut ? end - GWI_PAST_LIST_BYTES_MAX : 0);
    int error = errno;
    close(fd);
    if (bytes == NULL)
        return gw_fail(err, GW_NOMEM, "the list of runs");
    if (got < 0) {
        free(bytes);
        return gw_fail(err, GW_IO, "read %s: %s", path, strerror(error));
    }
    bytes[got] = '\0';
    *ret_bytes = bytes;
    return GW_OK;
}

gw_status gwi_past_list_read(const char *path, gwi_past_list *ret_list, size_t *ret_skipped, gw_error *err)
{
    char *bytes, *rest = NULL;
    bool is_cut = false;
    *ret_list = (gwi_past_list){0};
    *ret_skipped = 0;
    gw_status st = read_newest(path, &bytes, &is_cut, err);
    if (st != GW_OK || bytes == NULL)
        return st;
    for (char *line = strtok_r(bytes, "\n", &rest); line != NULL && st == GW_OK; line = strtok_r(NULL, "\n", &rest)) {
        bool taken;
        if (!take_line(ret_list, line, &taken))
            st = gw_fail(err, GW_NOMEM, "the list of runs");
        else if (!taken && !is_cut) /* the first line of a part of the list may be incomplete */
            ++*ret_skipped;
        is_cut = false;
    }
    free(bytes);
    if (st != GW_OK)
        gwi_past_free(ret_list);
    return st;
}
