/* How a process that cannot create its own buffer gets one from the supervisor.
 *
 * The process may run as another user, in a chroot, or with a limit on the size of files. It sends a datagram with the
 * run's token to the supervisor's socket. The socket is in Linux's abstract namespace, which needs no file system. The
 * supervisor creates the buffer in the run folder and replies with its file descriptor.
 *
 * Only processes of the run and root can read the token, in the environment variable GW_HANDOUT_VARIABLE. The name of
 * the socket is not secret. */
#ifndef GW_HANDOUT_H
#define GW_HANDOUT_H

#include <stdint.h>

/* The variable's value is "<name>:<token>", each of 32 hexadecimal digits. <name> is the socket's name without the
 * prefix GW_HANDOUT_NAME. */
#define GW_HANDOUT_VARIABLE "GPUWHY_HANDOUT"
enum { GW_HANDOUT_DIGITS = 32, GW_HANDOUT_TEXT = 2 * GW_HANDOUT_DIGITS + 2 };

/* Prefix of the socket's name, without the leading zero byte of abstract names. */
#define GW_HANDOUT_NAME "gpuwhy-"

typedef struct gw_handout_request {
    char magic[8]; /* GW_HANDOUT_MAGIC */
    char token[GW_HANDOUT_DIGITS];
} gw_handout_request;
#define GW_HANDOUT_MAGIC "GWHAND1"

#endif
