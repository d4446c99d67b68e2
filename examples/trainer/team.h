/* Synchronise the devices of a training. Each device has its own thread. */
#ifndef TRAINER_TEAM_H
#define TRAINER_TEAM_H

#include "trainer.h"

#include <pthread.h>

struct team {
    int count;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int arrived, left; /* protected by lock, like the fields below */
    uint64_t meetings;
    bool has_failed;
    struct reason reason; /* reason of the first device that failed */
};
void team_begin(struct team *team, int count);
void team_end(struct team *team);
/* Wait for all devices. After the call, every device sees what the others wrote before it. Returns false if a device
 * has failed. */
bool team_meet(struct team *team);
/* Report a failure of this device. All devices that wait in team_meet() return. */
void team_fail(struct team *team, const struct reason *reason);
/* Report a device that could not be started. The team counts it as failed and as having left. */
void team_miss(struct team *team, const struct reason *reason);
/* Leave the team. Each device calls this once, as its last action. After a failure the call waits until all devices
 * have left, because no device may release resources that another device still uses. If a device does not leave within
 * `wait_s` seconds, the process ends with status 3. */
void team_leave(struct team *team, int wait_s);

#endif
