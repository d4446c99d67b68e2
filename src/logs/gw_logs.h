/* Text logs: what was printed, read as evidence. Any text will do: terminal output with colours and progress bars,
 * several ranks in one file, Windows line ends, broken UTF-8, gigabytes; compressed by gzip, xz or zstd.
 *
 * A log is read once, from front to end, in bounded memory: of each meaning (signs.def) the first finds and the last
 * ones are kept, all are counted. Nothing here decides what a find is worth: that is src/verdict's.
 *
 * One thread a reader. What all readers look for is made by the first one of the process and kept until it ends. Lines
 * count from 1. Texts are the log's own, cut at GW_LOG_TEXT_MAX, without colours, and stay until gw_log_free(). */
#ifndef GW_LOGS_H
#define GW_LOGS_H

#include "gw_status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum gw_sign_kind {
    GW_SIGN_FAULT,
    GW_SIGN_STATUS,
    GW_SIGN_END,
    GW_SIGN_CONTEXT,
    GW_SIGN_TRACE,
    GW_SIGN_NOISE,
    GW_SIGN_BEFORE
} gw_sign_kind;

typedef enum gw_sign {
#define GWI_SIGN(name, kind, pattern) GW_SAYS_##name,
#include "signs.def"
#undef GWI_SIGN
    GW_SIGN_COUNT
} gw_sign;

enum { GW_LOG_TEXT_MAX = 600, GW_LOG_FIELDS_MAX = 8 };

typedef struct gw_log_field {
    const char *name;  /* of the pattern's group, without the digits that tell alternatives apart */
    const char *value; /* as it stands in the line */
} gw_log_field;

typedef struct gw_log_find {
    gw_sign sign;
    uint32_t file;
    uint64_t line;
    uint64_t order; /* over all files as they were named; finds of one line have the same */
    int rank;       /* as the line's prefix says; -1: it has none */
    const char *text;
    gw_log_field field[GW_LOG_FIELDS_MAX];
    size_t field_count;
} gw_log_find;

typedef struct gw_log_file {
    const char *name; /* "-": standard input */
    uint64_t bytes;   /* of text, after decompression */
    uint64_t line_count;
    const char *damage; /* it could be read up to here only: why; NULL: whole */
} gw_log_file;

typedef struct gw_log {
    gw_log_file *file;
    size_t file_count;
    gw_log_find *find; /* in order */
    size_t find_count;
    uint64_t count[GW_SIGN_COUNT]; /* lines that say so, also those that are not kept */
} gw_log;

/* False: this build lacks the matcher (Hyperscan and PCRE2), and every call below answers GW_UNSUPPORTED. */
bool gw_logs_are_supported(void);

/* Read these files, in this order; "-" is standard input. GW_OK: *ret_log is the caller's. GW_IO: one cannot be opened
 * or read at all; GW_CORRUPT: one is no text (a file that breaks off later is kept as far as it goes, see `damage`);
 * GW_UNSUPPORTED: no matcher, or compressed by a codec this build lacks; GW_NOMEM. `err` names the file. */
GW_MUST_CHECK gw_status gw_log_read(const char *const *path, size_t count, gw_log **ret_log, gw_error *err);

/* May it be a text log: no folder, no recording, not binary? It is opened and its start is looked at, but for pipes. */
bool gw_log_is_text(const char *path);

/* The same for text at hand, piece by piece: a recording's stderr, a message on the command line. */
typedef struct gw_log_reader gw_log_reader;
GW_MUST_CHECK gw_status gw_log_open(gw_log_reader **ret_reader, gw_error *err);
GW_MUST_CHECK gw_status gw_log_begin(gw_log_reader *reader, const char *name, gw_error *err); /* of a file: its name */
GW_MUST_CHECK gw_status gw_log_feed(gw_log_reader *reader, const char *bytes, size_t count, gw_error *err);
/* The log is the caller's; the reader is gone, whatever the answer. */
GW_MUST_CHECK gw_status gw_log_finish(gw_log_reader *reader, gw_log **ret_log, gw_error *err);
void gw_log_cancel(gw_log_reader *reader); /* takes NULL */

void gw_log_free(gw_log *log); /* takes NULL */

gw_sign_kind gw_sign_kind_of(gw_sign sign);

/* A field of a find. NULL, or false: it has none, or that is no number. */
const char *gw_log_text(const gw_log_find *find, const char *field);
bool gw_log_number(const gw_log_find *find, const char *field, int64_t *ret_number); /* "1,024" too */
bool gw_log_bytes(const gw_log_find *find, const char *field, uint64_t *ret_bytes);  /* "381.50 MiB", "2.20GiB", "17" */

#endif
