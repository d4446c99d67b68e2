/* How a process that cannot create its own buffer gets one from the supervisor.
 *
 * A process may be unable to create a file in the run folder, because it runs as another user, in a chroot, or with a
 * limit on the size of files. It then sends a datagram with the run's token to the supervisor's socket in Linux's
 * abstract namespace, which needs no file system. The supervisor creates the buffer in the run folder and replies with
 * a file descriptor of the buffer. The token is in the environment variable GW_HANDOUT_VARIABLE, which only processes
 * of the run and root can read. The name of the socket is not secret. */
#ifndef GW_HANDOUT_H
#define GW_HANDOUT_H

#include <stdint.h>

/* The variable's value is "<name>:<token>": the name of the socket without its prefix, and the token, both 32
 * hexadecimal digits. */
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
