/* Records the uncaught exception when the interpreter shuts down, in case stderr is redirected.
 *
 * Python stores it in sys.last_exc (sys.last_value before 3.12). Then our atexit handler runs in the main thread with
 * the interpreter's lock, before anything is torn down.
 *
 * Reading the exception runs no code of the program: no __str__, and no attribute that the program may have replaced.
 * The recorded text is what Python prints, without source lines. Each line is one fact. */
#include "gwi_observer_inside.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    CHAIN_MAX = 4,      /* record at most this many exceptions that are linked by cause or context */
    FRAMES_OUTER = 8,   /* record this many frames from the outer end of a traceback */
    FRAMES_INNER = 24,  /* record this many frames from the inner end, where the exception was raised */
    FRAMES_MAX = 10000, /* record no frames of a traceback that has this many or more */
    MESSAGE_LINES_MAX = 8
};
static const unsigned long is_exception_flag = 1ul << 30; /* Py_TPFLAGS_BASE_EXC_SUBCLASS */

static void write_line(const char *text)
{
    gwi_obs.port->fact(GW_EV_PYTHON_RAISED, 0, 0, 0, 0, text);
}

/* ---- reading without running the program's code ---- */

/* Return an attribute as a new reference, without running code of the program. Returns NULL if there is none. */
static py_object *own_attribute(py_object *object, const char *name)
{
    py_object *key = object == NULL ? NULL : gwi_obs.py.PyUnicode_FromString(name);
    py_object *value = key == NULL ? NULL : gwi_obs.py.PyObject_GenericGetAttr(object, key);
    gwi_py_give_back(key);
    gwi_obs.py.PyErr_Clear();
    return value;
}

static bool text_attribute(py_object *object, const char *name, char *buffer, size_t buffer_bytes)
{
    return gwi_py_take_text(own_attribute(object, name), buffer, buffer_bytes);
}

static bool has_type(py_object *object, const py_object *type)
{
    py_object *own = object == NULL ? NULL : gwi_obs.py.PyObject_Type(object);
    bool same = own != NULL && own == type;
    gwi_py_give_back(own);
    return same;
}

static bool is_plain(py_object *object)
{
    const python_types *types = &gwi_obs.py.types;
    return object == gwi_obs.py.none || has_type(object, types->PyUnicode_Type) ||
           has_type(object, types->PyLong_Type) || has_type(object, types->PyFloat_Type) ||
           has_type(object, types->PyBool_Type) || has_type(object, types->PyBytes_Type);
}

static bool is_exception(py_object *object)
{
    py_object *type = object == NULL || object == gwi_obs.py.none ? NULL : gwi_obs.py.PyObject_Type(object);
    bool is = type != NULL && (gwi_obs.py.PyType_GetFlags(type) & is_exception_flag) != 0;
    gwi_py_give_back(type);
    return is;
}

/* True if str(exception) runs no code of the program: __str__ is a C function, and all values that it formats are of
 * built-in types. */
static bool has_plain_text(py_object *type, py_object *exception, py_object *arguments)
{
    py_object *method = gwi_obs.py.PyObject_GetAttrString(type, "__str__");
    bool plain = has_type(method, gwi_obs.py.types.PyWrapperDescr_Type);
    gwi_py_give_back(method);
    gwi_obs.py.PyErr_Clear();
    static const char *const parts[] = {"filename", "filename2"}; /* attributes of OSError that str() formats */
    for (size_t i = 0; plain && i < sizeof parts / sizeof parts[0]; i++) {
        py_object *part = own_attribute(exception, parts[i]);
        plain = part == NULL || is_plain(part);
        gwi_py_give_back(part);
    }
    for (ptrdiff_t i = 0; plain && i < gwi_obs.py.PyTuple_Size(arguments); i++)
        plain = is_plain(gwi_obs.py.PyTuple_GetItem(arguments, i));
    return plain;
}

/* Write the exception's message to `buffer` without running code of the program. If str() would do that, use the first
 * argument if it is a string, otherwise "". */
static void message_of(py_object *type, py_object *exception, char *buffer, size_t buffer_bytes)
{
    buffer[0] = '\0';
    py_object *arguments = own_attribute(exception, "args");
    if (has_type(arguments, gwi_obs.py.types.PyTuple_Type)) {
        py_object *first =
            gwi_obs.py.PyTuple_Size(arguments) > 0 ? gwi_obs.py.PyTuple_GetItem(arguments, 0) : NULL; /* borrowed */
        py_object *text =
            has_plain_text(type, exception, arguments) ? gwi_obs.py.PyObject_Str(exception) : NULL; /* new */
        if (!gwi_py_text(text, buffer, buffer_bytes) && has_type(first, gwi_obs.py.types.PyUnicode_Type))
            gwi_py_text(first, buffer, buffer_bytes);
        gwi_py_give_back(text);
    }
    gwi_py_give_back(arguments);
    gwi_obs.py.PyErr_Clear();
}

/* ---- writing ---- */

static void write_frame(py_object *traceback)
{
    char file[600], function[200], line[GW_TEXT_BYTES_MAX];
    bool known = false;
    py_object *frame = own_attribute(traceback, "tb_frame"), *code = own_attribute(frame, "f_code");
    py_object *number = own_attribute(traceback, "tb_lineno");
    uint64_t at = gwi_py_number(number, &known);
    if (code != NULL && known && text_attribute(code, "co_filename", file, sizeof file) &&
        text_attribute(code, "co_name", function, sizeof function)) {
        snprintf(line, sizeof line, "  File \"%s\", line %llu, in %s", file, (unsigned long long)at, function);
        write_line(line);
    }
    gwi_py_give_back(number);
    gwi_py_give_back(code);
    gwi_py_give_back(frame);
}

/* Release the given entry of a traceback and return the next one as a new reference. Returns NULL at the end. */
static py_object *next_of(py_object *traceback)
{
    py_object *next = own_attribute(traceback, "tb_next");
    gwi_py_give_back(traceback);
    if (next != gwi_obs.py.none)
        return next;
    gwi_py_give_back(next);
    return NULL;
}

static void write_frames(py_object *exception)
{
    int count = 0, at = 0;
    for (py_object *tb = gwi_obs.py.PyException_GetTraceback(exception); tb != NULL; tb = next_of(tb))
        if (++count == FRAMES_MAX) {
            gwi_py_give_back(tb);
            return;
        }
    for (py_object *tb = gwi_obs.py.PyException_GetTraceback(exception); tb != NULL; tb = next_of(tb), at++)
        if (at < FRAMES_OUTER || at >= count - FRAMES_INNER)
            write_frame(tb);
}

static void write_message(const char *name, char *message)
{
    char line[GW_TEXT_BYTES_MAX];
    char *rest = message;
    char *first = strsep(&rest, "\n");
    snprintf(line, sizeof line, "%s%s%s", name, first[0] == '\0' ? "" : ": ", first);
    write_line(line);
    for (int i = 1; rest != NULL && i < MESSAGE_LINES_MAX; i++)
        write_line(strsep(&rest, "\n"));
}

static void write_exception(py_object *exception)
{
    char module[120], name[120], whole[260], message[GW_TEXT_BYTES_MAX - sizeof whole - 4];
    py_object *type = gwi_obs.py.PyObject_Type(exception);
    if (!text_attribute(type, "__qualname__", name, sizeof name))
        snprintf(name, sizeof name, "Exception");
    bool own = text_attribute(type, "__module__", module, sizeof module) && strcmp(module, "builtins") != 0 &&
               strcmp(module, "__main__") != 0;
    snprintf(whole, sizeof whole, "%s%s%s", own ? module : "", own ? "." : "", name);
    write_line("Traceback (most recent call last):");
    write_frames(exception);
    message_of(type, exception, message, sizeof message);
    write_message(whole, message);
    gwi_py_give_back(type);
}

/* Return the cause or the context of an exception as a new reference. Returns NULL if there is neither. */
static py_object *origin_of(py_object *exception, bool *ret_is_cause)
{
    py_object *cause = gwi_obs.py.PyException_GetCause(exception);
    *ret_is_cause = cause != NULL;
    if (cause != NULL)
        return cause;
    py_object *hidden = own_attribute(exception, "__suppress_context__");
    bool is_hidden = hidden != NULL && gwi_obs.py.PyObject_IsTrue(hidden) != 0;
    gwi_py_give_back(hidden);
    return is_hidden ? NULL : gwi_obs.py.PyException_GetContext(exception);
}

static void write_chain(py_object *exception)
{
    py_object *chain[CHAIN_MAX] = {exception};
    bool is_cause[CHAIN_MAX] = {false};
    int count = 1;
    while (count < CHAIN_MAX && (chain[count] = origin_of(chain[count - 1], &is_cause[count])) != NULL)
        count++;
    for (int i = count; i-- > 0;) {
        write_exception(chain[i]);
        if (i > 0) {
            write_line(is_cause[i] ? "The above exception was the direct cause of the following exception:"
                                   : "During handling of the above exception, another exception occurred:");
            gwi_py_give_back(chain[i]);
        }
    }
}

static py_object *on_raised(py_object *self, py_object *arguments)
{
    (void)self;
    (void)arguments;
    if (getpid() != gwi_obs.raised_pid)
        return gwi_py_none();
    gwi_obs_saved before = gwi_obs_enter();
    py_object *last = gwi_obs.py.PySys_GetObject("last_exc"); /* borrowed */
    if (!is_exception(last))
        last = gwi_obs.py.PySys_GetObject("last_value");
    if (is_exception(last)) {
        gwi_obs.py.Py_IncRef(last);
        write_chain(last);
        gwi_obs.py.Py_DecRef(last);
    }
    gwi_obs_leave(&before);
    return gwi_py_none();
}

/* ---- registering ---- */

static py_method raised_method = {"gpuwhy_raised", on_raised, PY_METHOD_NOARGS, NULL};

/* Register the exit handler, importing atexit if necessary. PyImport_ImportModuleLevel() does not call __import__,
 * which the program may have replaced. */
static void register_raised(void)
{
    py_object *module = gwi_obs.py.PyImport_ImportModuleLevel("atexit", NULL, NULL, NULL, 0);
    py_object *dict = module == NULL ? NULL : gwi_obs.py.PyModule_GetDict(module);
    py_object *function = dict == NULL ? NULL : gwi_obs.py.PyDict_GetItemString(dict, "register");
    py_object *method = gwi_obs.py.PyCFunction_NewEx(&raised_method, NULL, NULL);
    py_object *arguments = gwi_py_tuple(&method, 1);
    py_object *done =
        function == NULL || arguments == NULL ? NULL : gwi_obs.py.PyObject_CallObject(function, arguments);
    gwi_py_give_back(done);
    gwi_py_give_back(arguments);
    gwi_py_give_back(module);
    gwi_obs.py.PyErr_Clear();
}

void gwi_obs_raised_begin(void)
{
    if (gwi_obs.raised_begun)
        return;
    gwi_obs.raised_begun = true;
    gwi_obs.raised_pid = getpid();
    register_raised();
}

void gwi_obs_raised_forked(void)
{
    if (gwi_obs.raised_begun)
        gwi_obs.raised_pid = getpid(); /* the child has inherited the handler */
}
