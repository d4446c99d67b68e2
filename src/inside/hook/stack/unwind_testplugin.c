/* This file is compiled into two libraries that differ only in the name of one function: see unwind_test.c. */
void plugin_through(void (*function)(void *), void *user);
int PLUGIN_NAME(int value);

static volatile int after;

int PLUGIN_NAME(int value)
{
    return value + after;
}

void plugin_through(void (*function)(void *), void *user)
{
    function(user);
    after++;
}
