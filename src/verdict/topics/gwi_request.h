/* The request that was refused: sizes that no card can have, and on which of several GPUs it was. */
#ifndef GWI_REQUEST_H
#define GWI_REQUEST_H

#include "gwi_cause.h"

/* No card has so much, nor will: a negative number taken for a size, or a product that went wrong. `device_bytes`: what
 * the card has in all; 0: not known. */
bool gwi_is_impossible_size(uint64_t bytes, uint64_t device_bytes);
/* What to do about it; the last one is NULL. */
extern const char *const gwi_impossible_fixes[];
/* The refused request of the case is of such a size. */
bool gwi_request_is_impossible(const gwi_case *c);
/* Then headline and advice: look at how the size is computed. */
void gwi_say_impossible_request(const gwi_case *c, gwi_finding *finding);

/* " on GPU 1 of 2" where the program sees several; else "". */
enum { GWI_GPU_TEXT_MAX = 40 };
char *gwi_on_gpu(const gwi_case *c, int device, char out[GWI_GPU_TEXT_MAX]);

#endif
