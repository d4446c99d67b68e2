/* The list of past runs. The fields of a line are version, start, key, status, good, seconds, cause, end, recording,
 * folder and command, separated by tabs. For each attempt before the last one, cause, end and recording follow; older
 * versions of gpuwhy ignore these fields. Control characters and percent signs are written as %XX. */
#include "gwi_past.h"

#include "gw_array.h"
#include "gw_hash.h"
#include "gw_mask.h"
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

/* Return the text directly after the field `good`: "n" if no driver call was observed, otherwise "". Older versions
 * ignore it. */
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

/* Shorten a list that is too long to the complete lines in its last PAST_BYTES_MAX / 2 bytes. The caller holds the lock
 * on `fd`. A line that another run adds meanwhile may be lost. */
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

/* Copy a command line with secrets masked. If memory runs out, the copy is shorter. */
static void mask_command(char *const *program, gw_string_list *ret_argv)
{
    size_t count = 0;
    while (program[count] != NULL)
        count++;
    *ret_argv = (gw_string_list){.item = calloc(count + 1, sizeof *ret_argv->item)};
    for (size_t i = 0; ret_argv->item != NULL && i < count; i++) {
        gw_text word = {0};
        gw_mask_argument(&word, program, (int)i);
        ret_argv->item[i] = strdup(gw_text_str(&word));
        gw_text_free(&word);
        if (ret_argv->item[i] == NULL)
            return;
        ret_argv->count++;
    }
}

static void add_attempts(gw_text *line, const gw_verdict *verdict)
{
    for (size_t i = 0; i + 1 < verdict->attempt_count; i++) {
        const gw_verdict_attempt *attempt = &verdict->attempts[i];
        add_field(line, attempt->cause == NULL ? "" : attempt->cause);
        add_field(line, attempt->ended == NULL ? "" : attempt->ended);
        add_field(line, attempt->recording == NULL ? "" : attempt->recording);
    }
}

void gwi_past_add(const gw_verdict *verdict, const char *recording, char *const *program)
{
    gw_path folder;
    gw_text line = {0};
    gw_string_list masked = {0};
    if (getcwd(folder, sizeof folder) == NULL || !verdict->run.has_start)
        return;
    if (program != NULL)
        mask_command(program, &masked);
    const gw_string_list *argv = program != NULL ? &masked : &verdict->argv;
    uint64_t key = gwi_past_key(argv, folder);
    if (verdict->rehearsal != NULL) /* a real run must not be compared with a rehearsal of its command */
        key = gw_hash_bytes(key, "rehearsal", 9);
    bool good =
        verdict->status == GW_VERDICT_CLEAN && verdict->exit_known && verdict->signal == 0 && verdict->exit_code == 0;
    gw_text_addf(&line, "%s\t%" PRIu64 "\t%016" PRIx64 "\t%c\t%d%s\t%.3f", version, verdict->run.start_realtime_ns, key,
                 status_letter(verdict->status), good, observed_mark(verdict), verdict->seconds);
    add_field(&line, verdict->cause == NULL ? "" : verdict->cause);
    add_end(&line, verdict);
    add_field(&line, recording);
    add_field(&line, folder);
    add_command(&line, argv);
    add_attempts(&line, verdict);
    gw_text_add(&line, "\n", 1);
    append(&line);
    gw_text_free(&line);
    for (size_t i = 0; i < masked.count; i++)
        free(masked.item[i]);
    free(masked.item);
}

/* ---- reading ---- */

static void past_free(gwi_past *past)
{
    free(past->cause);
    free(past->end);
    free(past->recording);
    free(past->folder);
    free(past->command);
    for (size_t i = 0; i < past->attempt_count; i++) {
        free(past->attempt[i].cause);
        free(past->attempt[i].end);
        free(past->attempt[i].recording);
    }
    free(past->attempt);
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

/* Parse the attempts in the rest of a line. An incomplete one is skipped. Returns false if out of memory. */
static bool take_attempts(gwi_past *past, char *rest)
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

/* Parse one line and add its run to the list. Skips an invalid line. Returns false if out of memory. */
static bool take_line(gwi_past_list *list, char *line)
{
    char *field[FIELD_COUNT], *rest, letter;
    int good;
    gwi_past past = {0};
    if (!split(line, field, &rest) || sscanf(field[1], "%" SCNu64, &past.start_realtime_ns) != 1 ||
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
    copied = copied && take_attempts(&past, rest);
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
