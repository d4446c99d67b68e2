/* Let the device threads of a training wait for each other: see team.h. */
#include "team.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

void team_begin(struct team *team, int count)
{
    pthread_condattr_t attributes;
    *team = (struct team){.count = count};
    pthread_mutex_init(&team->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&team->changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

void team_end(struct team *team)
{
    pthread_cond_destroy(&team->changed);
    pthread_mutex_destroy(&team->lock);
}

bool team_meet(struct team *team)
{
    pthread_mutex_lock(&team->lock);
    uint64_t meeting = team->meetings;
    bool is_met = false;
    if (!team->has_failed && ++team->arrived == team->count) {
        team->arrived = 0;
        team->meetings++;
        pthread_cond_broadcast(&team->changed);
        is_met = true;
    }
    while (!is_met && !team->has_failed) {
        pthread_cond_wait(&team->changed, &team->lock);
        is_met = team->meetings != meeting;
    }
    pthread_mutex_unlock(&team->lock);
    return is_met;
}

void team_fail(struct team *team, const struct reason *reason)
{
    pthread_mutex_lock(&team->lock);
    if (!team->has_failed)
        team->reason = *reason;
    team->has_failed = true;
    pthread_cond_broadcast(&team->changed);
    pthread_mutex_unlock(&team->lock);
}

void team_miss(struct team *team, const struct reason *reason)
{
    team_fail(team, reason);
    pthread_mutex_lock(&team->lock);
    team->left++;
    pthread_cond_broadcast(&team->changed);
    pthread_mutex_unlock(&team->lock);
}

void team_leave(struct team *team, int wait_s)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += wait_s;
    pthread_mutex_lock(&team->lock);
    team->left++;
    pthread_cond_broadcast(&team->changed);
    while (team->has_failed && team->left < team->count)
        if (pthread_cond_timedwait(&team->changed, &team->lock, &until) != 0) {
            fprintf(stderr,
                    "trainer: %s\n"
                    "trainer: another device did not respond for %d s: ending the process\n",
                    team->reason.text, wait_s);
            _exit(3);
        }
    pthread_mutex_unlock(&team->lock);
}
