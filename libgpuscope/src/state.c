/* The lock and the per-thread values that all files of libgpuscope share. */
#include "gwi_scope.h"

pthread_mutex_t gwi_lock = PTHREAD_MUTEX_INITIALIZER;
_Thread_local bool gwi_is_trial;
_Thread_local gwi_last_launch gwi_launched;
