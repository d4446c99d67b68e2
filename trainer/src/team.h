/* Let the device threads of a training wait for each other, and share the first failure. Each device has one thread. */
#ifndef TRAINER_TEAM_H
#define TRAINER_TEAM_H

#include "trainer.h"

#include <pthread.h>

struct team {
    int count;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* These fields and the ones below are protected by the lock.
     * - arrived: devices that wait in team_meet()
     * - left: devices that have called team_leave() or could not be started
     * - meetings: how many times all devices have met in team_meet() */
    int arrived, left;
    uint64_t meetings;
    bool has_failed;
    struct reason reason; /* reason of the first device that failed */
};
void team_begin(struct team *team, int count);
void team_end(struct team *team);
/* Wait until all devices have called this function. Every device then sees what the others wrote before. Returns
 * false if any device has failed. */
bool team_meet(struct team *team);
/* Report that this device has failed. From then on, team_meet() returns false on all devices, also on those that
 * already wait in it. */
void team_fail(struct team *team, const struct reason *reason);
/* Report that a device could not be started. The team treats it as failed and as having left. */
void team_miss(struct team *team, const struct reason *reason);
/* Leave the team. Each device calls this once, as its last action. After a failure, the call waits until all
 * devices have left, because they may still use each other's resources. If this takes longer than `wait_s` seconds,
 * the process ends with status 3. */
void team_leave(struct team *team, int wait_s);

#endif
