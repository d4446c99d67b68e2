/* A library for test_poke.py, which loads copies of it under the names of CUDA's driver and of OpenBLAS. */
#include <pthread.h>
#include <unistd.h>

int cuStreamSynchronize(const char *until);
int start_pool(int count);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;

/* Wait until the file exists. */
int cuStreamSynchronize(const char *until)
{
    while (access(until, F_OK) != 0)
        usleep(10000);
    return 0;
}

static void *wait_for_work(void *nothing)
{
    pthread_mutex_lock(&lock);
    for (;;)
        pthread_cond_wait(&work, &lock);
    return nothing;
}

int start_pool(int count)
{
    int started = 0;
    pthread_t thread;
    while (started < count && pthread_create(&thread, NULL, wait_for_work, NULL) == 0)
        started++;
    return started;
}
