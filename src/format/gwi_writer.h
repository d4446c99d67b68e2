/* Inside format/: a writer on a file that is open already. */
#ifndef GWI_WRITER_H
#define GWI_WRITER_H

#include "gwi_block_out.h"
#include "gwi_item_code.h"

/* Take over `fd`, an empty file. As gw_writer_create() else. */
gw_status gwi_writer_on_fd(int fd, const char *path, uint64_t bytes_max, const char *const *fn_names, uint32_t fn_count,
                           gw_writer **ret_writer, gw_error *err);

#endif
