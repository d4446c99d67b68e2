/* A program that makes every kind of driver call and prints what the driver answers. rehearse.py runs it on the virtual
 * card and rehearsed, and compares the lines.
 *
 * Each group runs in a process of its own and prints `GROUP.NAME RESULT`, or `GROUP.NAME = VALUE`. A value is never an
 * address, because a rehearsal has others. */
#ifndef CALLS_H
#define CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "card.h"

/* Print the result of a call. */
#define result_of(name, call) printf("%s.%s %d\n", group_name, name, (int)(call))
#define value_of(name, value) printf("%s.%s = %lld\n", group_name, name, (long long)(value))

typedef struct group {
    const char *name;
    void (*run)(void);
} group;

/* memory.c and work.c; each ends with a name of NULL. */
extern const group memory_groups[], work_groups[];

#endif
