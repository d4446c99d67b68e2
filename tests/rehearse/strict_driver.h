/* A driver that ends the program if it is given an address that a rehearsal keeps in its books. Behind it is the
 * virtual card. */
#ifndef STRICT_DRIVER_H
#define STRICT_DRIVER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "gw_api_proto.h"

/* End the program if the value lies in a range that the books have reserved, or is a handle of theirs. */
void strict_look(const char *symbol, uint64_t value);
/* The same for all words of `count` structures. */
void strict_look_in(const char *symbol, const void *structures, size_t count, size_t bytes);
/* Return the virtual card's function; NULL if it has none of this name. */
void *strict_next(const char *symbol);

#define LOOK(symbol, parameter)                                                                                        \
    do {                                                                                                               \
        uint64_t word_ = 0;                                                                                            \
        if (sizeof(parameter) == sizeof word_)                                                                         \
            memcpy(&word_, &(parameter), sizeof word_);                                                                \
        strict_look(symbol, word_);                                                                                    \
    } while (0)

#endif
