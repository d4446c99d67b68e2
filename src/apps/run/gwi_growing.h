/* Names the lines of a running program whose memory grows (`gpuwhy run --alarm-at`). */
#ifndef GWI_GROWING_H
#define GWI_GROWING_H

#include "gw_text.h"

#include <stdint.h>

/* A gw_run_lines: see gw_run_options.h. */
void gwi_growing_lines(const char *folder, uint64_t since_ns, gw_text *text);

#endif
