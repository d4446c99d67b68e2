/* The search for cures. It needs a replay of the recorded allocations with other settings. */
#include "gwi_cure.h"

#include <stddef.h>

gwi_cure_find_fn *const gwi_cure_find = NULL;
