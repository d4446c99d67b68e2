/* Compiled into two files whose code differs only in one name: see unwind_test.c. */
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
