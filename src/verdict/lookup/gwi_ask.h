/* Questions: a code, a name or one message, and what it may mean. ask.c reads the question, answer.c answers. Inside
 * src/verdict. */
#ifndef GWI_ASK_H
#define GWI_ASK_H

#include "gwi_log.h"

#include "gw_data.h"

enum { GWI_READINGS_MAX = 16, GWI_READING_TEXT_MAX = 400 };

/* One thing that a code or a name may be. */
typedef struct gwi_reading {
    const char *kind; /* static: "CUDA error", "cuDNN 9 status" */
    bool has_code;
    int code;
    char name[GWI_READING_TEXT_MAX];    /* "": none */
    char meaning[GWI_READING_TEXT_MAX]; /* "": not known */
    char hint[GWI_READING_TEXT_MAX];    /* "": none */
    gw_verified verified;
    const char *source; /* static; NULL: the C library's, or the message itself */
    int sign;           /* gw_sign, or GW_SAYS_CUDA: the key of the rules */
    char which[64];
    bool unlikely; /* nobody asks about it, unless it is all there is */
} gwi_reading;

typedef struct gwi_readings {
    gwi_reading reading[GWI_READINGS_MAX]; /* likelier first */
    size_t count;
} gwi_readings;

/* "700", "Xid 79", "CUDNN_STATUS_NOT_INITIALIZED", "exit code 137", "SIGKILL". False: it reads as none of these. */
bool gwi_read_question(const char *question, gwi_readings *ret_readings);
/* What a find of a log names: its code, or its status by name. */
void gwi_read_find(const gw_log_find *find, gwi_readings *readings);

#endif
