/* The texts of `gpuwhy help`. */
#ifndef GWI_HELP_TEXT_H
#define GWI_HELP_TEXT_H

#include "gw_text.h"

#include <stdio.h>

/* Print the list of commands. */
void gwi_help_overview(FILE *out);

/* ---- documents that `gpuwhy help TOPIC` shows ---- */

/* One document. The strings are static. */
typedef struct gwi_topic {
    const char *name;
    const char *about;    /* what it answers, in one line */
    const char *document; /* for gwi_document_add(); NULL: `command` prints it */
    const char *command;  /* name of a command without arguments, or NULL */
} gwi_topic;

/* Return a topic; NULL: there are no more. */
const gwi_topic *gwi_topic_at(size_t index);
/* NULL: there is no such topic. */
const gwi_topic *gwi_topic_find(const char *name);

/* Append a document as plain text for a terminal of `width` columns. */
void gwi_document_add(const char *document, unsigned width, gw_text *text);

/* ---- complete.c ---- */

/* Append what can take the place of the last word of a command line, one per line: the value, a tab, and what it means
 * (may be empty). words[0] is `gpuwhy`. The last line begins with a colon. It says what else the shell should
 * complete:
 *
 *     :nothing
 *     :files            names of files
 *     :files ENDING     names of files with this ending
 *     :folders          names of folders
 *     :program N        the command line of a program, which begins at words[N]
 *
 * A value that ends with ':', ',' or '=' is not complete: no space follows it. */
void gwi_complete(int count, char *const *words, gw_text *text);

/* A command line whose first word is not a command. */

/* Do what was meant if it only reads: `gpuwhy @3`, `gpuwhy run.gpuwhy` and `gpuwhy train.log` explain the run or file.
 * Otherwise, print the command that was probably meant, in one line. A program is never started, because `gpuwhy run`
 * changes how it runs and the word may be a mistyped command. argv[1] is the word. Returns the exit status. */
int gwi_meant(int argc, char **argv);

#endif
