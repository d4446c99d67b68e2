/* Parts of the screen. All append text, with marks (gw_watch.h) and without control characters. */
#ifndef GWI_SCREEN_H
#define GWI_SCREEN_H

#include "gw_watch.h"

/* ---- pieces of a line (screen_parts.c) ---- */

void gwi_mark(gw_text *text, gw_watch_mark which);
bool gwi_is_mark(char byte);
/* Append a line of `bytes` bytes, cut to `width` columns, and a line break. Marks have no width. A cut line ends with
 * "~". */
void gwi_add_cut(gw_text *text, const char *line, size_t bytes, unsigned width);
/* Append a word from elsewhere in a column of `width`: cut if it is longer, filled with blanks if it is shorter. */
void gwi_add_column(gw_text *text, const char *word, unsigned width);
/* Append a command line without the folder of the program. */
void gwi_add_command(gw_text *text, const char *command);
/* Append a time: "12 s", "3 min", "2 h 05 min", "3 d 04 h". */
void gwi_add_time(gw_text *text, uint64_t seconds);
void gwi_add_idle(gw_text *text, const gw_watch_process *process);
/* Return the bytes as text in `out`, or `otherwise` if they are unknown. */
const char *gwi_bytes_or(char out[GW_BYTES_TEXT_MAX], uint64_t bytes, const char *otherwise);

/* ---- sections, as whole lines ---- */

void gwi_draw_cards(gw_text *text, const gw_watch_snapshot *s, unsigned width);
void gwi_draw_runs(gw_text *text, const gw_watch_snapshot *s, const gw_watch_view *view);
void gwi_draw_processes(gw_text *text, const gw_watch_snapshot *s, const gw_watch_view *view);

#endif
