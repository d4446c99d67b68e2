/* Linked into a program for another C library: prints on stderr which C library it really runs on. */
#include <gnu/libc-version.h>
#include <stdio.h>

__attribute__((constructor)) static void say(void)
{
    fprintf(stderr, "C library: %s\n", gnu_get_libc_version());
}
