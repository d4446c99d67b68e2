/* Detects a refused request whose size is impossible. Also names the GPU of the request if there are several. */
#ifndef GWI_REQUEST_H
#define GWI_REQUEST_H

#include "gwi_cause.h"

/* True for a size that no card can have, such as a negative number or an overflowed product. `device_bytes` is the
 * card's memory; 0: unknown. */
bool gwi_is_impossible_size(uint64_t bytes, uint64_t device_bytes);
/* Advice for a request of an impossible size; the list ends with NULL. */
extern const char *const gwi_impossible_fixes[];
/* True if gwi_is_impossible_size() holds for the refused request. */
bool gwi_request_is_impossible(const gwi_case *c);
/* Add a headline about the impossible size, and gwi_impossible_fixes as next steps. */
void gwi_say_impossible_request(const gwi_case *c, gwi_finding *finding);

/* Format " on GPU 1 of 2" if the program sees several GPUs, otherwise "". */
enum { GWI_GPU_TEXT_MAX = 40 };
char *gwi_on_gpu(const gwi_case *c, int device, char out[GWI_GPU_TEXT_MAX]);

#endif
