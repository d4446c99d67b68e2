/* Facts about a program, written for a test that compares them with a verdict: lines `truth key=value` in a separate
 * file, so that stdout belongs to the program. Nothing is written before truth_open(), or after truth_open(NULL). */
#ifndef EXAMPLE_TRUTH_H
#define EXAMPLE_TRUTH_H

void truth_open(const char *path);
/* The line is written at once, because the next call may kill the program. */
__attribute__((format(printf, 2, 3))) void truth(const char *key, const char *format, ...);

#endif
