/* Read whole files of limited size into memory, and replace files. */
#ifndef TRAINER_FILE_H
#define TRAINER_FILE_H

#include "trainer.h"

struct bytes {
    uint8_t *data; /* owned: free with bytes_clear() */
    size_t count;
};
/* Read a regular file of at most `most` bytes. On failure, `reason` names the file and the problem. */
bool bytes_read(const char *path, uint64_t most, struct bytes *ret, struct reason *reason);
void bytes_clear(struct bytes *bytes); /* accepts a zeroed struct */

/* Write a file: `put` writes the content to `fd`, with file_write(), and returns false with errno set if it fails.
 * The content goes to a temporary file, path.new, which is synced and renamed. Then the folder is synced. So even after
 * a crash, the file is complete, old or new. Fails if the name is that of something other than a regular file, such as
 * a device. Only one process at a time may write to a name. */
bool file_replace(const char *path, bool (*put)(int fd, const void *user), const void *user, struct reason *reason);
/* Check early, before long work, that file_replace() will probably succeed: the temporary file can be created. It is
 * removed again. */
bool file_can_replace(const char *path, struct reason *reason);
/* Write all bytes. Returns false with errno set on failure. */
bool file_write(int fd, const void *data, size_t bytes);

/* Return the big-endian number at `at`. Works on machines of any byte order. */
static inline uint32_t big_u32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

#endif
