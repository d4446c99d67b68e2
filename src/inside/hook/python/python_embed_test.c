/* Tests the hook with a Python interpreter that is loaded late, with local scope, then finalised and unloaded.
 *
 *   python_embed_test LIBPYTHON 3.11     run by python_embed_test.py */
#include "gwi_python.h"
#include "python_testlib.h"

#include <dlfcn.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { IS_MAIN = 1 << 16 };

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                    \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* ---- the parts of Python's API that an embedding program needs ---- */

typedef struct method {
    const char *name;
    void *(*function)(void *self, void *arguments);
    int flags;
    const char *doc;
} method;

#define FUNCTIONS(X)                                                                                                   \
    X(Py_InitializeEx, void, (int))                                                                                    \
    X(Py_FinalizeEx, int, (void))                                                                                      \
    X(PyRun_SimpleString, int, (const char *))                                                                         \
    X(PyImport_AddModule, void *, (const char *))                                                                      \
    X(PyObject_SetAttrString, int, (void *, const char *, void *))                                                     \
    X(PyCFunction_NewEx, void *, (method *, void *, void *))                                                           \
    X(PyLong_FromLong, void *, (long))                                                                                 \
    X(PyEval_SaveThread, void *, (void))                                                                               \
    X(PyEval_RestoreThread, void, (void *))

static struct {
#define GW_X(name, result, parameters) result(*name) parameters;
    FUNCTIONS(GW_X)
#undef GW_X
} py;

static void *load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    EXPECT(library != NULL);
#define GW_X(name, result, parameters)                                                                                 \
    {                                                                                                                  \
        void *found = dlsym(library, #name);                                                                           \
        EXPECT(found != NULL);                                                                                         \
        memcpy(&py.name, &found, sizeof found);                                                                        \
    }
    FUNCTIONS(GW_X)
#undef GW_X
    return library;
}

/* ---- stops ---- */

static int minor;             /* minor version number of Python */
static int stops, deeper;     /* stops: number of calls of stop(); deeper: 1 once stop() has run more Python code */
static const char *wanted[8]; /* expected function names of the frames, innermost first */

static const char *name_of(uint32_t code)
{
    static char name[64];
    for (uint32_t i = test_fact_count(); i-- > 0;) {
        const test_fact *fact = test_fact_at(i);
        if (fact->kind == GW_EV_PYTHON_CODE && fact->arg[0] == code) {
            snprintf(name, sizeof name, "%.*s", (int)strcspn(fact->text, "\n"), fact->text);
            return name;
        }
    }
    return "?";
}

static void *stop(void *self, void *arguments)
{
    test_frame frame[32];
    uint32_t count, entries = 0, expected = 0;
    (void)self;
    (void)arguments;
    uint32_t flags = test_stop(frame, 32, &count);
    EXPECT(flags == IS_MAIN);
    while (wanted[expected] != NULL)
        expected++;
    EXPECT(count == expected);
    for (uint32_t i = 0; i < count; i++) {
        EXPECT(strcmp(name_of(frame[i].code), wanted[i]) == 0);
        entries += (uint32_t)frame[i].is_entry;
        EXPECT((strcmp(wanted[i], "<module>") != 0 || frame[i].is_entry) && frame[i].instruction >= 0);
    }
    EXPECT(entries == (minor < 11 ? count : (uint32_t)deeper + 1));
    stops++;
    if (deeper == 0) { /* run Python code from this C function, which Python has called */
        deeper = 1;
        memmove(wanted + 2, wanted, 3 * sizeof wanted[0]);
        wanted[0] = "h";
        wanted[1] = "<module>";
        EXPECT(py.PyRun_SimpleString("def h(): stop()\nh()\n") == 0);
    }
    return py.PyLong_FromLong(0);
}

static void expect_nothing(uint32_t expected_flags)
{
    test_frame frame[4];
    uint32_t count;
    uint32_t flags = test_stop(frame, 4, &count);
    EXPECT(count == 0 && flags == expected_flags);
}

static void run_python(void)
{
    static method stop_method = {"stop", stop, 4 /* METH_NOARGS */, NULL};
    memset(wanted, 0, sizeof wanted);
    wanted[0] = "g";
    wanted[1] = "f";
    wanted[2] = "<module>";
    stops = deeper = 0;
    py.Py_InitializeEx(0);
    expect_nothing(IS_MAIN); /* Python runs no function yet */
    void *function = py.PyCFunction_NewEx(&stop_method, NULL, NULL);
    EXPECT(py.PyObject_SetAttrString(py.PyImport_AddModule("__main__"), "stop", function) == 0);
    EXPECT(py.PyRun_SimpleString("def f():\n    g()\ndef g():\n    stop()\nf()\n") == 0);
    EXPECT(stops == 2);
    expect_nothing(IS_MAIN);
    test_thread_stop other;
    gwi_python_main_site(5);
    EXPECT(test_stop_native(&other) == 0 && other.count == 0 && other.flags == GW_SITE_PYTHON_BORROWED);
    gwi_python_main_site(0);
    EXPECT(py.Py_FinalizeEx() == 0);
    test_frame frame[4];
    uint32_t count;
    EXPECT((test_stop(frame, 4, &count) & ~(uint32_t)GW_SITE_PYTHON_UNKNOWN) == 0 && count == 0);
}

/* ---- the interpreter is finalised while a daemon thread's frames are read ---- */

static struct {
    void *(*get_thread)(void); /* the original function, which answer_late() replaces */
    sem_t left, go, asked, over, read;
    uint32_t flags, count;
} late;
static __thread bool answers_late;

/* Replaces PyGILState_GetThisThreadState(). If answers_late is set, it returns a thread state that no longer exists, as
 * if the interpreter was finalised just after the hook's check. */
static void *answer_late(void)
{
    void *answer = late.get_thread();
    if (answers_late) {
        answers_late = false;
        sem_post(&late.asked);
        sem_wait(&late.over);
    }
    return answer;
}

/* Release the interpreter's lock as before a driver call, and read this thread's frames twice (test_stop()). The
 * interpreter is finalised during the second read. */
static void *leave(void *self, void *arguments)
{
    test_frame frame[32];
    (void)self;
    (void)arguments;
    py.PyEval_SaveThread();
    uint32_t flags = test_stop(frame, 32, &late.count); /* the first call also records the code objects */
    EXPECT(flags == 0 && late.count >= 21 && strcmp(name_of(frame[0].code), "deep") == 0);
    sem_post(&late.left);
    sem_wait(&late.go);
    answers_late = true;
    late.flags = test_stop(frame, 32, &late.count);
    sem_post(&late.read);
    for (;;) /* the interpreter is gone, so this thread must not return to Python */
        pause();
}

static void end_under_a_reader(void)
{
    static method leave_method = {"leave", leave, 4 /* METH_NOARGS */, NULL};
    sem_t *all[] = {&late.left, &late.go, &late.asked, &late.over, &late.read};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        EXPECT(sem_init(all[i], 0, 0) == 0);
    py.Py_InitializeEx(0);
    void *function = py.PyCFunction_NewEx(&leave_method, NULL, NULL);
    EXPECT(py.PyObject_SetAttrString(py.PyImport_AddModule("__main__"), "leave", function) == 0);
    EXPECT(py.PyRun_SimpleString("import threading\n"
                                 "def deep(n):\n    deep(n - 1) if n else leave()\n"
                                 "threading.Thread(target=deep, args=(20,), daemon=True).start()\n") == 0);
    void *mine = py.PyEval_SaveThread();
    sem_wait(&late.left);
    py.PyEval_RestoreThread(mine);
    gwi_python_interpreter *last = &gwi_python_interpreter_list[gwi_python_interpreter_count - 1];
    late.get_thread = last->get_thread;
    last->get_thread = answer_late;
    last->stays = true; /* skip the check for an unloaded interpreter, which would fail with the replaced function */
    sem_post(&late.go);
    sem_wait(&late.asked);
    (void)py.Py_FinalizeEx();
    sem_post(&late.over);
    sem_wait(&late.read);
    EXPECT(late.flags == GW_SITE_PYTHON_UNKNOWN && late.count == 0);
}

int main(int argc, char **argv)
{
    EXPECT(argc == 3);
    alarm(240);
    minor = atoi(strchr(argv[2], '.') + 1);
    EXPECT(test_look() == 0);
    expect_nothing(0);
    void *library = load(argv[1]);
    EXPECT(test_look() == 1);
    expect_nothing(0); /* the library is loaded, but Python is not initialised */
    run_python();
    EXPECT(dlclose(library) == 0);
    void *still = dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD);
    bool gone = still == NULL;
    test_frame frame[4];
    uint32_t count;
    EXPECT((test_stop(frame, 4, &count) & ~(uint32_t)GW_SITE_PYTHON_UNKNOWN) == 0 && count == 0);
    if (gone) { /* load the library again, possibly at another address */
        (void)load(argv[1]);
        (void)test_look();
        run_python();
    }
    end_under_a_reader();
    printf("%s: loaded late, ended, %s, ended under a reader\n", argv[1],
           gone ? "unloaded, loaded again" : "stays loaded");
    return 0;
}
