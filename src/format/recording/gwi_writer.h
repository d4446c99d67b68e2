/* Functions of the writer that only format/ uses. */
#ifndef GWI_WRITER_H
#define GWI_WRITER_H

#include "gwi_block_out.h"
#include "gwi_item_code.h"

/* Create a writer for the open and empty file `fd`, and take ownership of it. All else is as for
 * gw_writer_create(). */
gw_status gwi_writer_on_fd(int fd, const char *path, uint64_t bytes_max, const char *const *fn_names, uint32_t fn_count,
                           gw_writer **ret_writer, gw_error *err);

#endif
