/* The two places where past runs are stored: the database (past_db.c) and the text list (past_list.c). */
#ifndef GWI_PAST_STORE_H
#define GWI_PAST_STORE_H

#include "gwi_past.h"

/* The text list is at most this long; see past_list.c. */
enum { GWI_PAST_LIST_BYTES_MAX = 512 << 10 };

/* Free the texts of a run. */
void gwi_past_clear(gwi_past *past);
/* Copy `past` to the end of the list. On success, the texts belong to the list. False: out of memory; the caller still
 * owns them. */
bool gwi_past_list_push(gwi_past_list *list, const gwi_past *past);
/* Encode the earlier attempts as in a line of the text list, and decode them. Decoding changes `text`, skips an
 * incomplete attempt, and returns false if out of memory. */
void gwi_past_attempts_encode(const gwi_past *past, gw_text *text);
bool gwi_past_attempts_decode(char *text, gwi_past *past);

/* ---- the text list ---- */

/* Append a run to the text list at `path`. Returns false if that was not possible. */
bool gwi_past_list_add(const char *path, const gwi_past *past);
/* Read the newest GWI_PAST_LIST_BYTES_MAX bytes of the list. Invalid lines are skipped and counted in *ret_skipped.
 * GW_OK: also if there is no such file. GW_IO, GW_NOMEM. */
GW_MUST_CHECK gw_status gwi_past_list_read(const char *path, gwi_past_list *ret_list, size_t *ret_skipped,
                                           gw_error *err);

/* ---- the database ---- */

/* Add a run to the database at `path`, which is created if it is missing. If the text list at `list_path` exists, take
 * it over first: *ret_skipped is the number of its lines that could not be read.
 *
 * Unless GW_OK, the run was not added. GW_UNSUPPORTED: the file cannot be opened, the file system has no locks, or this
 * build has no SQLite; the call did not wait. GW_IO: it cannot be written, or other programs kept it busy. GW_CORRUPT:
 * not a database, or damaged. GW_VERSION: a newer gpuwhy wrote it. `past` may be NULL: only take the list over. */
GW_MUST_CHECK gw_status gwi_past_db_add(const char *path, const char *list_path, const gwi_past *past,
                                        size_t *ret_skipped, gw_error *err);
/* Read the matching runs, oldest first. Opens the database only for reading. Errors as in gwi_past_db_add();
 * GW_MISSING: there is no database; GW_USAGE: query->where is not valid or not allowed; GW_NOMEM. */
GW_MUST_CHECK gw_status gwi_past_db_read(const char *path, const gwi_past_query *query, gwi_past_list *ret_list,
                                         gw_error *err);

#endif
