/* The devices of a training meet: each is a thread. */
#ifndef TRAINER_TEAM_H
#define TRAINER_TEAM_H

#include "trainer.h"

#include <pthread.h>

struct team {
    int count;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int arrived, left; /* guarded by lock, as the following */
    uint64_t meetings;
    bool has_failed;
    struct reason reason; /* of the first one that failed */
};
void team_begin(struct team *team, int count);
void team_end(struct team *team);
/* Waits for all. What each wrote before is seen by all after. false: one has failed. */
bool team_meet(struct team *team);
/* Nobody waits any more. */
void team_fail(struct team *team, const struct reason *reason);
/* One that never came: it has failed, and left. */
void team_miss(struct team *team, const struct reason *reason);
/* The last thing that each does, once. After a failure it waits until all have, so that nobody's things go away under
 * another's feet; where one does not come within `wait_s`, the process ends with status 3. */
void team_leave(struct team *team, int wait_s);

#endif
