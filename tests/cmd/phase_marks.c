/* Marks phases in a thread and in a forked child, and prints whether each mark was recorded. Also works without
 * gpuwhy. */
#include <gpuwhy.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *mark(void *name)
{
    printf("thread %d\n", gpuwhy_phase(name));
    return NULL;
}

int main(void)
{
    typedef int init_function(unsigned);
    static char name[] = "by a thread", longest[1000];
    init_function *init = NULL;
    printf("before %d\n", gpuwhy_phase("before the driver"));
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *found = driver == NULL ? NULL : dlsym(driver, "cuInit");
    if (found != NULL) {
        memcpy(&init, &found, sizeof found);
        printf("init %d\n", init(0));
    }
    printf("first %d\n", gpuwhy_phase("first"));
    pthread_t thread;
    if (pthread_create(&thread, NULL, mark, name) != 0 || pthread_join(thread, NULL) != 0)
        return 1;
    memset(longest, 'x', sizeof longest - 1);
    printf("long %d\n", gpuwhy_phase(longest));
    printf("none %d\n", gpuwhy_phase(NULL));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (init != NULL)
            init(0);
        gpuwhy_phase("in the child");
        _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    int recorded = 0;
    for (int i = 0; i < 5000; i++)
        recorded += gpuwhy_phase("again");
    printf("many %d\n", recorded);
    return status != 0;
}
