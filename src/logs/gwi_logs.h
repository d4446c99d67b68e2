/* Inside src/logs. */
#ifndef GWI_LOGS_H
#define GWI_LOGS_H

#include "gw_logs.h"

/* ---- source.c: where bytes come from ---- */

typedef struct gwi_log_source gwi_log_source;
/* GW_IO, GW_UNSUPPORTED, GW_NOMEM. */
GW_MUST_CHECK gw_status gwi_log_source_open(const char *path, gwi_log_source **ret_source, gw_error *err);
/* Up to `room` bytes of text. GW_OK with *ret_count > 0; GW_END; GW_IO, GW_CORRUPT: no more can be had. */
GW_MUST_CHECK gw_status gwi_log_source_read(gwi_log_source *source, char *bytes, size_t room, size_t *ret_count,
                                            gw_error *err);
void gwi_log_source_close(gwi_log_source *source); /* takes NULL */

/* ---- plain.c: terminal text without what is no text ---- */

typedef struct gwi_plain { /* {0} at the start of a file */
    uint8_t state;
    uint8_t wide; /* 1: UTF-16, low byte first; 2: high byte first */
    bool began;
    unsigned char held; /* of UTF-16: half a unit */
    bool has_held;
} gwi_plain;
/* In place: takes out colours and other escape sequences, makes bytes of UTF-16. Returns how many are left. */
size_t gwi_plain_make(gwi_plain *plain, char *bytes, size_t count);
/* Does a start like this belong to no text? */
bool gwi_is_binary(const char *bytes, size_t count);

/* ---- literals.c: what a line must hold ---- */

enum { GWI_LITERALS_MAX = 64, GWI_LITERAL_MAX = 20 };
typedef struct gwi_literals {
    char text[GWI_LITERALS_MAX][GWI_LITERAL_MAX + 1];
    size_t count; /* 0: none are known */
} gwi_literals;
void gwi_literals_find(const char *pattern, gwi_literals *ret);

/* ---- match.c: which signs are in a line ---- */

typedef struct gwi_matcher gwi_matcher; /* of one thread; what is dear to make is shared by all of a process */
GW_MUST_CHECK gw_status gwi_matcher_open(gwi_matcher **ret_matcher, gw_error *err);
void gwi_matcher_close(gwi_matcher *matcher); /* takes NULL */

/* Called for each sign that may be in the text before `end`, in order of `end`. False stops. */
typedef bool (*gwi_hit)(void *user, gw_sign sign, size_t end);
GW_MUST_CHECK gw_status gwi_matcher_scan(gwi_matcher *matcher, const char *bytes, size_t count, gwi_hit hit, void *user,
                                         gw_error *err);

/* A sign looked for in one line, exactly. Values point into `line`. */
typedef struct gwi_match {
    struct {
        const char *name; /* static */
        size_t begin, end;
    } field[GW_LOG_FIELDS_MAX];
    size_t field_count;
} gwi_match;
bool gwi_matcher_line(gwi_matcher *matcher, gw_sign sign, const char *line, size_t bytes, gwi_match *ret_match);

/* ---- rank.c ---- */

/* Which rank a launcher's prefix of the line names; -1: none. */
int gwi_rank_of(const char *line, size_t bytes);

#endif
