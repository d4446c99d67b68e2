/* What a program knows about itself, for whoever wants to compare: lines `truth key=value` in a file of their own,
 * so that stdout stays the program's. Nothing is written before truth_open(), nor after truth_open(NULL). */
#ifndef EXAMPLE_TRUTH_H
#define EXAMPLE_TRUTH_H

void truth_open(const char *path);
/* Written at once: the next call may be the one that kills the program. */
__attribute__((format(printf, 2, 3))) void truth(const char *key, const char *format, ...);

#endif
