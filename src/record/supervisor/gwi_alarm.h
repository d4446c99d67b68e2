/* `gpuwhy run --alarm-at`: reports once that the program keeps more and more device memory, before the card is full. */
#ifndef GWI_ALARM_H
#define GWI_ALARM_H

#include "gw_status.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct gwi_alarm {
    bool on;
    double ratio;        /* of the card's memory; 0: use `bytes` */
    uint64_t bytes;      /* threshold */
    const char *command; /* NULL: none */
    pid_t command_pid;   /* 0: not running */
} gwi_alarm;

struct gw_supervisor;
/* Parse the option: "90%", "12GiB", "90%:command". NULL: no alarm. GW_USAGE: `err` has the reason. */
GW_MUST_CHECK gw_status gwi_alarm_parse(const char *text, gwi_alarm *ret_alarm, gw_error *err);
/* Report growth once. Call it after gwi_memory_look(). */
void gwi_alarm_look(struct gw_supervisor *run);
/* Wait for the command. */
void gwi_alarm_end(gwi_alarm *alarm);

#endif
