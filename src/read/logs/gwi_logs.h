/* Private header of src/read/logs. */
#ifndef GWI_LOGS_H
#define GWI_LOGS_H

#include "gw_logs.h"
#include "gw_text.h"

/* ---- source.c: reading and decompressing files ---- */

typedef struct gwi_log_source gwi_log_source;
/* Open a file, or standard input for "-". If `fd` is not -1, take this open file; `path` is then only for messages.
 * Errors: GW_IO, GW_UNSUPPORTED, GW_NOMEM. */
GW_MUST_CHECK gw_status gwi_log_source_open(const char *path, int fd, gwi_log_source **ret_source, gw_error *err);
/* Read up to `room` bytes of text. GW_OK: *ret_count > 0. GW_END: end of the file. After GW_IO or GW_CORRUPT,
 * nothing more can be read. */
GW_MUST_CHECK gw_status gwi_log_source_read(gwi_log_source *source, char *bytes, size_t room, size_t *ret_count,
                                            gw_error *err);
void gwi_log_source_close(gwi_log_source *source); /* accepts NULL */

/* ---- plain.c: removing escape sequences and decoding UTF-16 ---- */

typedef struct gwi_plain { /* set to {0} at the start of a file */
    uint8_t state;
    uint8_t wide; /* 0: not UTF-16; 1: little-endian UTF-16; 2: big-endian UTF-16 */
    bool began;
    unsigned char held; /* first byte of an incomplete UTF-16 unit */
    bool has_held;
} gwi_plain;
/* Remove colours and other escape sequences and convert UTF-16 to bytes, in place. Returns the new number of bytes. */
size_t gwi_plain_make(gwi_plain *plain, char *bytes, size_t count);
bool gwi_are_zeros(const char *bytes, size_t count); /* False if count is 0. */
/* True if a file that starts with these bytes is not text. A block of zeros before them does not matter. */
bool gwi_is_binary(const char *bytes, size_t count);

/* ---- reflow.c: undoing what copying does to lines ---- */

/* True if a text that starts with these bytes is one string with `\n` for its line ends. */
bool gwi_is_escaped(const char *bytes, size_t count);
/* Replace the escapes in place. Returns the new number of bytes. */
size_t gwi_unescape(char *bytes, size_t count);
typedef struct gwi_flow { /* set to {0} at the start of a file; the first piece of the text decides all */
    bool began;
    const char *mark;  /* static: the mark before each line ("ERROR"), which ends after mark_bytes */
    size_t mark_bytes; /* 0: no mark */
    size_t width;      /* the lines were cut at this width; 0: they were not */
} gwi_flow;
/* Remove the marks and join cut lines, in place. `bytes`: whole lines. Returns the new number of bytes. */
size_t gwi_reflow(gwi_flow *flow, char *bytes, size_t count);

/* ---- notebook.c: text inside JSON: a Jupyter notebook, or an error file of torchrun ---- */

/* True if a file that starts with these bytes is a notebook or an error file. */
bool gwi_is_notebook(const char *bytes, size_t count);
/* Append the outputs of the notebook's cells, or the exception of the error file, to *ret_text. If the JSON is damaged,
 * append all strings in it. */
void gwi_notebook_outputs(const char *bytes, size_t count, gw_text *ret_text);

/* ---- literals.c: literals that a matching line must contain ---- */

enum { GWI_LITERALS_MAX = 160, GWI_LITERAL_MAX = 20 };
typedef struct gwi_literals {
    char text[GWI_LITERALS_MAX][GWI_LITERAL_MAX + 1];
    size_t count; /* 0: no literals found */
} gwi_literals;
void gwi_literals_find(const char *pattern, gwi_literals *ret);

/* ---- patterns.c: the signs, by number ---- */

typedef struct gwi_sign {
    gw_sign_kind kind;
    const char *pattern;
} gwi_sign;
extern const gwi_sign gwi_signs[GW_SIGN_COUNT];
/* Compile the literals of all signs with Hyperscan, for this processor if `platform` is NULL. Errors: GW_NOMEM,
 * GW_UNSUPPORTED. */
struct hs_platform_info;
struct hs_database;
GW_MUST_CHECK gw_status gwi_patterns_compile(const struct hs_platform_info *platform, struct hs_database **ret_database,
                                             gw_error *err);

/* ---- match.c: finding the signs in a line ---- */

typedef struct gwi_matcher gwi_matcher; /* one per thread; all matchers share the compiled patterns */
GW_MUST_CHECK gw_status gwi_matcher_open(gwi_matcher **ret_matcher, gw_error *err);
void gwi_matcher_close(gwi_matcher *matcher); /* accepts NULL */

/* Called for each literal found, in text order. Its line may match `sign`. `end` is the offset after the literal.
 * Return false to stop. */
typedef bool (*gwi_hit)(void *user, gw_sign sign, size_t end);
GW_MUST_CHECK gw_status gwi_matcher_scan(gwi_matcher *matcher, const char *bytes, size_t count, gwi_hit hit, void *user,
                                         gw_error *err);

/* The exact match of a sign's pattern in one line. `begin` and `end` of a field are offsets in the line. */
typedef struct gwi_match {
    struct {
        const char *name; /* static */
        size_t begin, end;
    } field[GW_LOG_FIELDS_MAX];
    size_t field_count;
} gwi_match;
bool gwi_matcher_line(gwi_matcher *matcher, gw_sign sign, const char *line, size_t bytes, gwi_match *ret_match);

/* ---- counters.c: the counters in a line about progress ---- */

/* The counters of a line such as "Epoch 3/90 step 20: loss 0.5". Values are compared only between lines of the same
 * shape, which have the same counters. */
enum { GWI_COUNTERS_MAX = 4 };
typedef struct gwi_counters {
    uint64_t value[GWI_COUNTERS_MAX];
    uint64_t total[GWI_COUNTERS_MAX]; /* 0: the line has no total for this counter */
    bool is_epoch[GWI_COUNTERS_MAX];
    size_t count;
    uint64_t shape;   /* hash of the counters' names and totals */
    bool has_name;    /* a counter has a name, such as "epoch" */
    bool has_measure; /* the line also has a total, a fraction or a time: "3/90", "0.5", "12s" */
} gwi_counters;
gwi_counters gwi_counters_read(const char *line);

/* ---- rank.c: recognising the rank of a line ---- */

/* Return the rank in the prefix that a launcher or library prints before a line. Returns -1 if there is none. */
int gwi_rank_of(const char *line, size_t bytes);

#endif
