/* Write the steps and evaluations of a training as CSV (RFC 4180), which pandas and spreadsheets read. The first row
 * has the names of the columns. A step and an evaluation are two rows. A field is empty if its value is unknown or
 * belongs to the other kind of row. After a crash and a continuation, steps can occur twice, with the same numbers. */
#ifndef TRAINER_CSV_H
#define TRAINER_CSV_H

#include "report.h"

/* True if the path ends with ".csv". */
bool csv_is_path(const char *path);
/* Open a file to append to it. A new file gets the first row. An existing one must have the same first row; if its last
 * row is incomplete, the row is removed. The caller closes *ret_file. */
bool csv_open(const char *path, FILE **ret_file, struct reason *reason);
void csv_step(FILE *file, const struct step_report *step, const struct backend_watch *watch);
void csv_evaluation(FILE *file, const struct evaluation_report *evaluation);

#endif
