/* `run --deep`: chooses a file for cuDNN's own log, reads the log while cuDNN writes it, and frees the disk space of
 * the parts that were read. */
#include "gwi_cudnn.h"

#include "gw_fact.h"
#include "gw_hash.h"
#include "gw_text.h"
#include "gwi_run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const char destination_variable[] = "CUDNN_LOGDEST_DBG";
/* cuDNN 9 uses CUDNN_LOGLEVEL_DBG. Version 8 and older use the other variables, and version 9 still reads them. */
static const struct {
    const char *name, *value;
} level_variables[] = {
    {"CUDNN_LOGLEVEL_DBG", "2"}, {"CUDNN_LOGERR_DBG", "1"}, {"CUDNN_LOGWARN_DBG", "1"}, {"CUDNN_LOGINFO_DBG", NULL}};
enum { LEVELS = sizeof level_variables / sizeof level_variables[0], PIECE = 64 << 10, LAST_LOOKS_MAX = 16 };
/* Limits of one call of gwi_cudnn_look():
 * - It reads at most look_bytes_max bytes of the log.
 * - If more than waiting_bytes_max bytes are unread, it skips all but the last look_bytes_max.
 * - It frees disk space in steps of at least give_back_bytes. */
static const uint64_t look_bytes_max = 1 << 20, waiting_bytes_max = 8 << 20, give_back_bytes = 1 << 20;

/* ---- before the run ---- */

void gwi_cudnn_init(gwi_cudnn *log)
{
    *log = (gwi_cudnn){.fd = -1};
}

/* Return why gpuwhy may not request a log from cuDNN, as a static string; NULL if it may. */
static const char *why_not(const gwi_record *record)
{
    struct rlimit limit;
    bool is_own = getenv(destination_variable) != NULL;
    for (size_t i = 0; i < LEVELS; i++)
        is_own = is_own || getenv(level_variables[i].name) != NULL;
    if (is_own)
        return "the environment already configures cuDNN's log";
    if (record->path[0] == '\0' || record->is_temporary)
        return "the recording is temporary, and the log is written beside the recording";
    if (strchr(record->path, '%') != NULL)
        return "the recording's path contains a %";
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY)
        return "the size of files is limited (ulimit -f): a log that reaches the limit would end the program";
    return NULL;
}

static bool name_file(gwi_cudnn *log, const gwi_record *record)
{
    return gw_path_format(log->path, NULL, "%.*s.cudnn.log", gwi_record_stem_bytes(record), record->path) == GW_OK;
}

static bool give_back(int fd, uint64_t from, uint64_t to)
{
    return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)(to - from)) == 0;
}

void gwi_cudnn_ask(gwi_cudnn *log, gwi_record *record)
{
    const char *why = why_not(record);
    if (why == NULL && !name_file(log, record))
        why = "the name of the log is too long";
    if (why == NULL) {
        log->fd = open(log->path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        why = log->fd < 0 ? strerror(errno) : NULL;
    }
    if (why == NULL && !give_back(log->fd, 0, PIECE)) {
        why = "the file system cannot release parts of a file";
        unlink(log->path);
        close(log->fd);
        log->fd = -1;
    }
    if (why != NULL)
        gwi_record_fact(record, "cudnn.log.none", "%s", why);
    log->record = record;
}

void gwi_cudnn_enter(const gwi_cudnn *log)
{
    if (log->fd < 0)
        return;
    setenv(destination_variable, log->path, 1);
    for (size_t i = 0; i < LEVELS; i++)
        if (level_variables[i].value != NULL)
            setenv(level_variables[i].name, level_variables[i].value, 1);
}

/* ---- recording entries ---- */

static void put_kind(gwi_cudnn *log, uint32_t index)
{
    const gw_cudnn_message *message = &log->kind[index].message;
    gw_text text = {0};
    const gw_fact_cudnn_log fact = {
        GW_FACT_SET(severity, gw_fact_text_of(message->is_error ? "error" : "warning")),
        GW_FACT_SET(version, message->version),
        GW_FACT_SET(count, log->kind[index].count),
        GW_FACT_SET(more, message->more),
        GW_FACT_SET(function, gw_fact_text_of(message->function)),
        GW_FACT_SET(status, gw_fact_text_of(message->status)),
        GW_FACT_SET(reason, gw_fact_text_of(message->reason)),
    };
    gw_fact_cudnn_log_write(&fact, &text);
    gw_item item = {.kind = GW_ITEM_SUPERVISOR, .t_ns = log->kind[index].t_ns, .pid = message->pid};
    item.pair.key = gw_fact_key_text(GW_FACT_CUDNN_LOG);
    item.pair.value = gw_text_str(&text);
    if (!text.failed)
        gwi_record_put(log->record, &item);
    gw_text_free(&text);
    log->kind[index].told = log->kind[index].count;
}

static uint64_t hash_of(const gw_cudnn_message *message)
{
    const char *const texts[] = {message->function, message->status, message->reason};
    uint64_t hash = GW_HASH_START ^ message->pid ^ (uint64_t)message->is_error << 32;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        hash = gw_hash_bytes(hash, texts[i], strlen(texts[i]));
    return hash;
}

/* Record the first entry of a kind at once. After that, record the count each time it has doubled. gwi_cudnn_end()
 * records the final counts. */
static void take(void *user, const gw_cudnn_message *message)
{
    gwi_cudnn *log = user;
    uint64_t hash = hash_of(message);
    uint32_t i = 0;
    *(message->is_error ? &log->errors : &log->warnings) += 1;
    while (i < log->kind_count && log->kind[i].hash != hash)
        i++;
    /* there may be hundreds of kinds of warnings: reserve half of the table for errors */
    if (i == GWI_CUDNN_KINDS_MAX || (i == log->kind_count && !message->is_error && i >= GWI_CUDNN_KINDS_MAX / 2)) {
        log->untold++;
        return;
    }
    if (i == log->kind_count) {
        log->kind[i].hash = hash;
        log->kind[i].message = *message;
        log->kind_count++;
    }
    log->kind[i].count++;
    log->kind[i].t_ns = gwi_record_now_ns(log->record);
    if (log->kind[i].count >= 2 * log->kind[i].told)
        put_kind(log, i);
}

/* ---- during the run ---- */

static void skip(gwi_cudnn *log, uint64_t to)
{
    gw_cudnn_log_end(&log->reader, take, log);
    log->skipped_bytes += to - log->taken;
    log->taken = to;
}

static void hold_down(gwi_cudnn *log)
{
    if (log->taken - log->given_back < give_back_bytes)
        return;
    if (give_back(log->fd, log->given_back, log->taken))
        log->given_back = log->taken;
}

void gwi_cudnn_look(gwi_cudnn *log)
{
    static char piece[PIECE];
    struct stat facts;
    ssize_t got = 1;
    if (log->fd < 0 || fstat(log->fd, &facts) != 0)
        return;
    uint64_t size = (uint64_t)facts.st_size;
    if (size < log->taken) { /* another process of the run has truncated the file */
        gw_cudnn_log_end(&log->reader, take, log);
        log->taken = log->given_back = 0;
    }
    if (size - log->taken > waiting_bytes_max)
        skip(log, size - look_bytes_max);
    for (uint64_t end = log->taken + look_bytes_max; got > 0 && log->taken < end; log->taken += (uint64_t)got) {
        got = pread(log->fd, piece, sizeof piece, (off_t)log->taken);
        if (got <= 0)
            break;
        gw_cudnn_log_feed(&log->reader, piece, (size_t)got, take, log);
    }
    hold_down(log);
}

/* ---- after the run ---- */

void gwi_cudnn_end(gwi_cudnn *log)
{
    if (log->fd < 0)
        return;
    uint64_t before = UINT64_MAX;
    for (int looks = 0; looks < LAST_LOOKS_MAX && before != log->taken; looks++) {
        before = log->taken;
        gwi_cudnn_look(log);
    }
    gw_cudnn_log_end(&log->reader, take, log);
    for (uint32_t i = 0; i < log->kind_count; i++)
        if (log->kind[i].told < log->kind[i].count)
            put_kind(log, i);
    gw_text text = {0};
    const gw_fact_cudnn_read read = {GW_FACT_SET(errors, log->errors), GW_FACT_SET(warnings, log->warnings),
                                     GW_FACT_SET(untold, log->untold), GW_FACT_SET(skipped_bytes, log->skipped_bytes)};
    gw_fact_cudnn_read_write(&read, &text);
    gwi_record_fact(log->record, gw_fact_key_text(GW_FACT_CUDNN_LOG_READ), "%s", gw_text_str(&text));
    gw_text_free(&text);
    unlink(log->path);
    close(log->fd);
    log->fd = -1;
}
