/* Linked into a program that is tested with an old C library. Prints on stderr the version of the C library that the
 * program really uses. */
#include <gnu/libc-version.h>
#include <stdio.h>

__attribute__((constructor)) static void say(void)
{
    fprintf(stderr, "C library: %s\n", gnu_get_libc_version());
}
