/* Answers questions about a code, a name or one message. ask.c reads the question and answer.c answers it. Only for
 * src/judge. */
#ifndef GWI_ASK_H
#define GWI_ASK_H

#include "gwi_log.h"

#include "gw_data.h"

enum { GWI_READINGS_MAX = 16, GWI_READING_TEXT_MAX = 400 };

/* One possible meaning of a code or a name. */
typedef struct gwi_reading {
    const char *kind; /* static: "CUDA error", "cuDNN 9 status" */
    bool has_code;
    int code;
    char name[GWI_READING_TEXT_MAX];    /* "": none */
    char meaning[GWI_READING_TEXT_MAX]; /* "": not known */
    char hint[GWI_READING_TEXT_MAX];    /* "": none */
    gw_verified verified;
    const char *source; /* static: where the meaning was found; NULL: the C library, or the message itself */
    int sign;           /* gw_sign, or GW_SAYS_CUDA; selects the row of log_rules.def */
    char which[64];
    bool unlikely; /* ignored unless all readings are unlikely */
} gwi_reading;

typedef struct gwi_readings {
    gwi_reading reading[GWI_READINGS_MAX]; /* most likely first */
    size_t count;
} gwi_readings;

/* List the possible meanings of "700", "Xid 79", "CUDNN_STATUS_NOT_INITIALIZED", "exit code 137" or "SIGKILL".
 * Returns false if `question` is not a known code or name. */
bool gwi_read_question(const char *question, gwi_readings *ret_readings);
/* Add the possible meanings of the code or status name in this log line. If there are none, add the message itself. */
void gwi_read_find(const gw_log_find *find, gwi_readings *readings);

/* A page of `gpuwhy help`. Both strings are static. */
typedef struct gwi_page_found {
    const char *command; /* prints the page */
    const char *tells;   /* what the page answers */
} gwi_page_found;
/* Find the page whose words a question in plain words has. NULL: there is none. */
const gwi_page_found *gwi_page_for(const char *question);

#endif
