/* Writes facts about a program for a test that compares them with a verdict. The facts are lines `truth key=value` in a
 * separate file, apart from the program's own output. truth() writes nothing before truth_open() is called with a path;
 * truth_open(NULL) does nothing. */
#ifndef EXAMPLE_TRUTH_H
#define EXAMPLE_TRUTH_H

void truth_open(const char *path);
/* Write one line. It reaches the file before the function returns, because the next call may kill the program. */
__attribute__((format(printf, 2, 3))) void truth(const char *key, const char *format, ...);

#endif
