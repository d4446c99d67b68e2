/* Linked into a program that is to run on another C library: says on stderr which one it really runs on. */
#include <gnu/libc-version.h>
#include <stdio.h>

__attribute__((constructor)) static void say(void)
{
    fprintf(stderr, "C library: %s\n", gnu_get_libc_version());
}
