/* `gpuwhy run --alarm-at`: reports once that the program keeps more and more device memory, before the card is full. */
#ifndef GWI_ALARM_H
#define GWI_ALARM_H

#include "gwi_forecast.h"
#include "gwi_held.h"

#include <sys/types.h>

enum { GWI_ALARM_SAMPLES_MAX = 256, GWI_ALARM_OTHERS = 9 };

typedef struct gwi_alarm_device {
    uint64_t reserved_bytes, allocated_bytes; /* of the frameworks' allocators */
    /* the newest values of what was held beyond reserved_bytes; a ring */
    int64_t other_bytes[GWI_ALARM_OTHERS];
    size_t other_count;
    gwi_held_sample sample[GWI_ALARM_SAMPLES_MAX];
    size_t count;
} gwi_alarm_device;

typedef struct gwi_alarm {
    bool on;
    double ratio;          /* of the card's memory; 0: use `bytes` */
    uint64_t bytes;        /* threshold */
    const char *command;   /* NULL: none */
    pid_t command_pid;     /* 0: not running */
    uint64_t looked_at_ns; /* run time */
    uint64_t launches, waits, rounds;
    uint64_t now_launches, now_waits; /* while looking at the threads */
    gwi_held held;
    gwi_alarm_device device[GWI_HELD_DEVICES_MAX];
} gwi_alarm;

struct gw_supervisor;
/* Parse the option: "90%", "12GiB", "90%:command". NULL: no alarm. GW_USAGE: `err` has the reason. */
GW_MUST_CHECK gw_status gwi_alarm_parse(const char *text, gwi_alarm *ret_alarm, gw_error *err);
/* Look at the memory if a look is due, and report growth once. Call it after a drain. */
void gwi_alarm_look(struct gw_supervisor *run);
/* Wait for the command, and free the memory. */
void gwi_alarm_end(gwi_alarm *alarm);

#endif
