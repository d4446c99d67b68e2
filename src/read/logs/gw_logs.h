/* Read text logs and find lines that may explain a failure. A sign is a pattern of signs.def. A find is a line that
 * matches a sign. Any text is accepted, such as:
 * - terminal output with colours and progress bars;
 * - several ranks in one file;
 * - Windows line endings and invalid UTF-8;
 * - gigabytes, and files compressed with gzip, xz or zstd.
 *
 * A log is read once, in bounded memory. All finds of a sign are counted, but only the first and the last ones are
 * stored. src/judge judges them.
 *
 * Use each reader from one thread. The first reader of the process compiles the patterns, which all readers share until
 * the process ends. Line numbers are 1-based. Texts are copied without colours, truncated at GW_LOG_TEXT_MAX, and valid
 * until gw_log_free(). */
#ifndef GW_LOGS_H
#define GW_LOGS_H

#include "gw_signs.h"
#include "gw_status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_LOG_TEXT_MAX = 600, GW_LOG_FIELDS_MAX = 12, GW_LOG_AGAIN_MAX = 4 };

typedef struct gw_log_field {
    const char *name;  /* name of a group in the pattern, without digits: "code" for the group `code2` */
    const char *value; /* text of the group, as it is in the line */
} gw_log_field;

typedef struct gw_log_find {
    gw_sign sign;
    uint32_t file;
    uint64_t line;
    uint64_t order; /* line number, counted across all files in reading order */
    int rank;       /* rank named in the prefix of the line; -1: none */
    const char *text;
    gw_log_field field[GW_LOG_FIELDS_MAX];
    size_t field_count;
} gw_log_find;

typedef struct gw_log_file {
    const char *name; /* "-": standard input */
    uint64_t bytes;   /* size of the decompressed text */
    uint64_t line_count;
    const char *damage;  /* why only a part of the file could be read; NULL: all was read */
    uint64_t line_first; /* lines before this one belong to an earlier run (gw_log_split()); 0: there is none */
    /* the last lines in which the first lines of the file occur again, as when a program starts again; 0: none */
    uint64_t again[GW_LOG_AGAIN_MAX];
} gw_log_file;

typedef struct gw_log {
    gw_log_file *file;
    size_t file_count;
    gw_log_find *find; /* sorted by `order`, then by sign */
    size_t find_count;
    /* Number of lines with the sign, including lines that are not stored. It may be too high: once enough finds are
     * stored, lines are only searched for the sign's literals. Matching the pattern, too, would double the reader's
     * work. */
    uint64_t count[GW_SIGN_COUNT];
} gw_log;

/* True if this build has the matcher (Hyperscan and PCRE2). Without the matcher, gw_log_read() and gw_log_open() return
 * GW_UNSUPPORTED. */
bool gw_logs_are_supported(void);
/* Write the names and versions of the matcher's libraries, such as "Hyperscan 5.4.0, PCRE2 10.42". Returns false and
 * writes "" in a build without a matcher. */
enum { GW_LOGS_VERSION_MAX = 96 };
bool gw_logs_matcher_version(char out[GW_LOGS_VERSION_MAX]);
/* Return the version of zlib, for logs in gzip, or of liblzma, for logs in xz. NULL: not in this build. The string is
 * static. */
const char *gw_logs_gzip_version(void);
const char *gw_logs_xz_version(void);

/* Read these files in this order; "-" is standard input. On failure, `err` names the file. If reading fails later in a
 * file, the log has the part before the failure, and `damage` says why.
 * - GW_OK: the caller owns *ret_log.
 * - GW_IO: a file cannot be opened or read at all.
 * - GW_CORRUPT: a file is not text.
 * - GW_UNSUPPORTED: this build has no matcher, or cannot decompress a file.
 * - GW_NOMEM: out of memory. */
GW_MUST_CHECK gw_status gw_log_read(const char *const *path, size_t count, gw_log **ret_log, gw_error *err);

/* Like gw_log_read(), from an open file, which is closed. `name` stands for its path. Only the first `bytes_max` bytes
 * of the decompressed text are read. */
GW_MUST_CHECK gw_status gw_log_read_open(int fd, const char *name, uint64_t bytes_max, gw_log **ret_log, gw_error *err);

/* True if the file may be a text log. False for a directory, a recording or a binary file. A pipe or standard input
 * ("-") is not read, and the result is true. */
bool gw_log_is_text(const char *path);

/* A reader for text that is passed in pieces, such as the stderr in a recording or a message on the command line. */
typedef struct gw_log_reader gw_log_reader;
/* Create a reader. The caller must pass it to gw_log_finish() or gw_log_cancel(). Errors: GW_UNSUPPORTED, GW_NOMEM. */
GW_MUST_CHECK gw_status gw_log_open(gw_log_reader **ret_reader, gw_error *err);
/* Begin the next file of the log, with this name. Errors: GW_NOMEM, GW_UNSUPPORTED. */
GW_MUST_CHECK gw_status gw_log_begin(gw_log_reader *reader, const char *name, gw_error *err);
/* Scan the next bytes of the file. Errors: GW_NOMEM, GW_UNSUPPORTED. */
GW_MUST_CHECK gw_status gw_log_feed(gw_log_reader *reader, const char *bytes, size_t count, gw_error *err);
/* End the log and free the reader, even on an error. After GW_OK the caller owns *ret_log. */
GW_MUST_CHECK gw_status gw_log_finish(gw_log_reader *reader, gw_log **ret_log, gw_error *err);
void gw_log_cancel(gw_log_reader *reader); /* accepts NULL */

void gw_log_free(gw_log *log); /* accepts NULL */

/* How a program went on after a line of the log, and how it ended (ends.c).
 * - gw_log_went_on(): the program continued its work after the line `after`. The file later reports progress or another
 *   ended trial of the same rank, or a server that is ready or answers.
 * - gw_log_output_goes_on(): at least 10 lines follow the file's last problem, which is the line `after` or a later
 * one. False if an exception or a bad end is there, or anywhere in another file.
 * - gw_log_was_retried(): a line within 10 lines of `find` announces another attempt, and the log has a good end after
 *   `find`
 * - gw_log_was_ignored(): Python ignored this exception, or a server raised it during a normal shutdown */
bool gw_log_went_on(const gw_log *log, const gw_log_find *after);
bool gw_log_output_goes_on(const gw_log *log, const gw_log_find *after);
bool gw_log_was_retried(const gw_log *log, const gw_log_find *find);
bool gw_log_was_ignored(const gw_log *log, const gw_log_find *find);
/* Return a line that shows a file's good end, NULL if there is none:
 * - a message of success, exit status 0, or the last line of progress
 * - near the end of the file, with no problem reported after it
 * - later than `after`, if in the same file */
const gw_log_find *gw_log_good_end(const gw_log *log, const gw_log_find *after);
/* How a text without a failure ends (finish.c). Of these lines, `end` alone is set, or the others may be. */
typedef struct gw_log_ending {
    const gw_log_find *end;     /* shows that the program reached its end; NULL: no line does */
    bool is_sure;               /* the end's words, or exit status 0, can mean nothing else */
    const gw_log_find *open;    /* work that was not complete when the text stopped; NULL: none */
    const gw_log_find *serving; /* a server that no later line stops; NULL: none */
} gw_log_ending;
gw_log_ending gw_log_find_ending(const gw_log *log);

/* Split a text that holds several runs (runs.c): *ret_last has the finds of the last run of each file, *ret_before all
 * others, which may be several runs. Both borrow the texts of `log`; free them with gw_log_split_free(). Returns false
 * if there is only one run, or no memory. */
GW_MUST_CHECK bool gw_log_split(const gw_log *log, gw_log *ret_before, gw_log *ret_last);
void gw_log_split_free(gw_log *part);

/* Return the first line that looks like a failure, recognised or not, unless the program then continued or ended well.
 * NULL: none. */
const gw_log_find *gw_log_unanswered(const gw_log *log);
/* Return the exception that ended the program: the last one that the program did not survive. Without one, it is the
 * last one of a rank whose peer on gloo was gone, or else the last report of a parent about a child. NULL: none.
 * *ret_about_child: it only reports that another process failed. */
const gw_log_find *gw_log_exception(const gw_log *log, bool *ret_about_child);
/* True if a traceback stands above the exception, which may be this many lines long. */
enum { GW_LOG_TRACEBACK_LINES_MAX = 400 };
bool gw_log_has_traceback(const gw_log *log, const gw_log_find *exception);
/* True if the exception reports the end of another process. */
bool gw_log_is_about_child(const gw_log *log, const gw_log_find *exception);
/* True if the line begins a Python traceback or is a frame of one. */
bool gw_log_is_trace(const gw_log_find *find);

/* Return the find of this sign in the line with this order. Returns NULL if there is none. */
const gw_log_find *gw_log_in_line(const gw_log *log, gw_sign sign, uint64_t order);

/* Get a field of a find as text, as a number or as bytes. Returns NULL or false if the find lacks the field, or if the
 * value is no number or size. */
const char *gw_log_text(const gw_log_find *find, const char *field);
bool gw_log_number(const gw_log_find *find, const char *field, int64_t *ret_number); /* "1,024" is a number, too */
bool gw_log_bytes(const gw_log_find *find, const char *field, uint64_t *ret_bytes);  /* such as "2.20GiB" or "17" */

#endif
