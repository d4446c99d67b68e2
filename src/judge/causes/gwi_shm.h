/* What speaks for a full /dev/shm, and how certain it makes the cause. */
#ifndef GWI_SHM_H
#define GWI_SHM_H

#include "gw_verdict.h"

typedef struct gwi_shm {
    bool told;         /* the line that ended the program is about /dev/shm */
    bool ambiguous;    /* that line does not say what was full, or how a worker died */
    bool told_of_room; /* only a lack of room explains that line */
    bool died;         /* of SIGBUS, and the record of the fault names no other reason */
    bool in_file;      /* the fault's address is in a file of /dev/shm */
    bool known;        /* the free room was sampled; false: the next six are false, too */
    bool is_small;     /* /dev/shm is not larger than in a container of Docker */
    bool was_short;    /* less than a tenth was free */
    bool was_full;     /* less than 64 KiB or 0.5 % were free */
    bool became_full;  /* it had had room before */
    bool full_at_end;  /* in the last five seconds, or at the last sample */
    bool without_room; /* full_at_end, by less than 64 KiB */
    bool refused;      /* a request for the card's memory was refused, or the context was lost */
    bool failed;       /* any driver call failed */
} gwi_shm;
/* Return the certainty for a program that failed. */
gw_certainty gwi_shm_decide(const gwi_shm *it);

#endif
