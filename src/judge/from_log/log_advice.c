/* Advice that fits the program, platform and driver that a log names (log_advice.def). */
#include "gwi_log.h"

#include "gw_data.h"
#include "gw_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *words, *cause;
    bool replaces;
    const char *advice;
} rows[] = {
#define GWI_ADVICE(words, cause, replaces, advice) {words, cause, replaces, advice},
#include "log_advice.def"
#undef GWI_ADVICE
};
/* The cause in the rows for texts without a known fault */
static const char in_silence[] = "in-silence";
enum { ROW_COUNT = sizeof rows / sizeof rows[0], PACKAGE_MAX = 48, MARK_MAX = 240 };

static bool is_in(const gw_log *log, bool only_surroundings, const char *word, size_t bytes)
{
    for (size_t i = 0; i < log->find_count; i++) {
        const gw_log_find *find = &log->find[i];
        bool is_around = find->sign == GW_SAYS_SURROUNDINGS || find->sign == GW_SAYS_MACHINE;
        if ((!only_surroundings || is_around) && memmem(find->text, strlen(find->text), word, bytes) != NULL)
            return true;
    }
    return false;
}

/* True if the word is in the run that is judged, or if an earlier run of the text shows the same surroundings. */
static bool is_in_log(const gwi_log_case *c, const char *word, size_t bytes)
{
    return is_in(c->log, false, word, bytes) ||
           (c->told != NULL && c->told->run_count > 1 && is_in(&c->told->before, true, word, bytes));
}

/* True if the last frame of a traceback is in an installed package, not in the program, or if there is no frame. */
static bool is_raised_in_package(const gw_log *log)
{
    const gw_log_find *last = NULL;
    for (size_t i = 0; i < log->find_count; i++)
        last = log->find[i].sign == GW_SAYS_FRAME ? &log->find[i] : last;
    return last == NULL || strstr(last->text, "-packages") != NULL;
}

/* True if the last line that matches a sign has the text. */
static bool is_in_last(const gw_log *log, const char *text, const char *end)
{
    const gw_log_find *last = log->find_count > 0 ? &log->find[log->find_count - 1] : NULL;
    return last != NULL && memmem(last->text, strlen(last->text), text, (size_t)(end - text)) != NULL;
}

/* True if a package other than PyTorch raised the exception: frames of PyTorch, which it called, do not count. */
static bool is_raised_in_library(const gw_log *log)
{
    bool is_library = false;
    for (size_t i = 0; i < log->find_count; i++) {
        const char *at = log->find[i].sign == GW_SAYS_FRAME ? strstr(log->find[i].text, "-packages") : NULL;
        if (log->find[i].sign == GW_SAYS_FRAME &&
            (at == NULL || strncmp(at + strlen("-packages") + 1, "torch", 5) != 0))
            is_library = at != NULL;
    }
    return is_library;
}

/* Return the message of the last exception, "" if there is none. */
static const char *last_message(const gw_log *log)
{
    const char *message = NULL;
    for (size_t i = 0; i < log->find_count; i++) {
        if (log->find[i].sign == GW_SAYS_EXCEPTION && gw_log_text(&log->find[i], "text") != NULL)
            message = gw_log_text(&log->find[i], "text");
    }
    return message != NULL ? message : "";
}

/* True if the last exception's message says what to do or what is needed. */
static bool asks_for_something(const gw_log *log)
{
    static const char *const words[] = {"lease ",   "pip install",  "equires ", "is required", "nstead",
                                        "pgrade",   "must be",      "at least", "or higher",   "or newer",
                                        "or later", "only support", "ou need",  "ou can"};
    const char *message = last_message(log);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strstr(message, words[i]) != NULL)
            return true;
    }
    return false;
}

/* Return the name behind "No module named '", NULL if no message has it. */
static const char *missing_module(const gw_log *log)
{
    static const char before[] = "No module named '";
    const char *at = strstr(last_message(log), before);
    return at != NULL ? at + sizeof before - 1 : NULL;
}

/* True if the missing module is a part of a package, "package.part". */
static bool is_part_missing(const gw_log *log)
{
    const char *name = missing_module(log);
    return name != NULL && name[strcspn(name, ".'")] == '.';
}

/* True if far more memory was free on the card than was refused (log_memory.c). */
static bool is_much_free(const gwi_log_case *c)
{
    for (size_t i = 0; i < c->count; i++) {
        if (strstr(c->statement[i].why, "does not explain it") != NULL)
            return true;
    }
    return false;
}

/* True if one text of the group, which are separated by |, is in the log, or describes the card. */
static bool has_one_of(const gwi_log_case *c, const char *group, const char *end)
{
    const gw_version turing = gw_version_of(7, 5, 0), blackwell = gw_version_of(10, 0, 0);
    gw_version card = c->context.capability;
    while (group < end) {
        const char *stop = memchr(group, '|', (size_t)(end - group));
        size_t bytes = (size_t)((stop != NULL ? stop : end) - group);
        bool holds = gw_begins(group, "@older-card")   ? card != 0 && card < turing
                     : gw_begins(group, "@newer-card") ? card >= blackwell
                     : gw_begins(group, "@in-package") ? is_raised_in_package(c->log)
                     : gw_begins(group, "@library")    ? is_raised_in_library(c->log)
                     : gw_begins(group, "@asks")       ? asks_for_something(c->log)
                     : gw_begins(group, "@part")       ? is_part_missing(c->log)
                     : gw_begins(group, "@much-free")  ? is_much_free(c)
                     : gw_begins(group, "@end ")       ? is_in_last(c->log, group + strlen("@end "), group + bytes)
                                                       : is_in_log(c, group, bytes);
        if (holds)
            return true;
        group += bytes + 1;
    }
    return false;
}

/* True if all groups of a row's words hold. */
static bool applies(const gwi_log_case *c, const char *words)
{
    for (;;) {
        const char *end = words + strcspn(words, "&");
        bool is_absent = *words == '!';
        if (has_one_of(c, words + is_absent, end) == is_absent)
            return false;
        if (*end == '\0')
            return true;
        words = end + 1;
    }
}

/* Write the Python package in whose code the innermost frame of the log is to `out`: the last one of a traceback, the
 * first one below "Fatal Python error". Frames of PyTorch and of programs that only call others do not count. */
static void find_package(const gw_log *log, char out[MARK_MAX])
{
    static const char *const callers[] = {"torch", "accelerate", "ray", "gradio", "uvicorn", "starlette", "tqdm"};
    char name[PACKAGE_MAX];
    bool is_crash = false, is_found = false;
    snprintf(out, PACKAGE_MAX, "the library of the last frame");
    for (size_t i = 0; i < log->find_count && !(is_crash && is_found); i++) {
        const char *at = strstr(log->find[i].text, "-packages");
        if (strstr(log->find[i].text, "Fatal Python error") != NULL) {
            is_crash = true;
            is_found = false;
        }
        if (at == NULL)
            continue;
        at += strlen("-packages") + 1;
        size_t bytes = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
        snprintf(name, sizeof name, "%.*s", (int)(bytes < PACKAGE_MAX ? bytes : 0), at);
        is_found = name[0] != '\0' && (at[bytes] == '/' || at[bytes] == '\\') && !GW_IS_ONE_OF(name, callers);
        if (is_found)
            snprintf(out, PACKAGE_MAX, "%s", name);
    }
}

/* Write the last text of the signs' named group `group` to `out`. */
static void find_group(const gw_log *log, const char *group, char out[MARK_MAX])
{
    const char *text = "that the message names";
    for (size_t i = 0; i < log->find_count; i++) {
        const char *here = gw_log_text(&log->find[i], group);
        text = here != NULL ? here : text;
    }
    snprintf(out, PACKAGE_MAX, "%s", text);
}

/* Write the package whose compiled part lacks a symbol to `out`: "/site-packages/NAME/x.so: undefined symbol". */
static void find_extension(const gw_log *log, char out[MARK_MAX])
{
    static const char packages[] = "-packages/";
    snprintf(out, PACKAGE_MAX, "The extension");
    for (size_t i = 0; i < log->find_count; i++) {
        const char *at = strstr(log->find[i].text, packages), *symbol = strstr(log->find[i].text, "undefined symbol");
        if (at != NULL && symbol > at)
            snprintf(out, PACKAGE_MAX, "%.*s", (int)strcspn(at + sizeof packages - 1, "/.-"), at + sizeof packages - 1);
    }
}

/* Write the wheel that brings the missing library of CUDA to `out`: "nvidia-cublas-cu12" for libcublas.so.12. */
static void find_wheel(const gw_log *log, char out[MARK_MAX])
{
    /* from this major version of the library on; the last row that fits counts */
    static const struct {
        const char *library, *wheel;
        long version;
        int cuda;
    } wheels[] = {
        {"cudart", "cuda-runtime", 11, 11}, {"cudart", "cuda-runtime", 12, 12},  {"cudart", "cuda-runtime", 13, 13},
        {"cublas", "cublas", 11, 11},       {"cublas", "cublas", 12, 12},        {"cublas", "cublas", 13, 13},
        {"cufft", "cufft", 10, 11},         {"cufft", "cufft", 11, 12},          {"cufft", "cufft", 12, 13},
        {"curand", "curand", 10, 12},       {"cusparseLt", "cusparselt", 0, 12}, {"cusparse", "cusparse", 11, 11},
        {"cusparse", "cusparse", 12, 12},   {"cusolver", "cusolver", 11, 12},    {"nvrtc", "cuda-nvrtc", 11, 11},
        {"nvrtc", "cuda-nvrtc", 12, 12},    {"nvrtc", "cuda-nvrtc", 13, 13},     {"nvJitLink", "nvjitlink", 12, 12},
        {"cupti", "cuda-cupti", 11, 11},    {"cupti", "cuda-cupti", 12, 12},     {"nccl", "nccl", 2, 12}};
    enum { DLL_MIN = 100, TEN = 10 }; /* cudart64_110.dll is of CUDA 11.0 */
    snprintf(out, PACKAGE_MAX, "nvidia-cuda-runtime-cu12 nvidia-cublas-cu12");
    for (size_t i = 0; i < log->find_count; i++) {
        const char *line = log->find[i].sign == GW_SAYS_LIBRARY_ABSENT || log->find[i].sign == GW_SAYS_LIBRARY_MISSING
                               ? log->find[i].text
                               : "";
        for (size_t k = 0; k < sizeof wheels / sizeof wheels[0]; k++) {
            const char *at = strstr(line, wheels[k].library), *so = at != NULL ? strpbrk(at, "._") : NULL;
            long version = so != NULL ? strtol(so + strcspn(so, "0123456789: "), NULL, 10) : 0;
            if (so != NULL && (version >= DLL_MIN ? version / TEN : version) >= wheels[k].version)
                snprintf(out, PACKAGE_MAX, "nvidia-%s-cu%d", wheels[k].wheel, wheels[k].cuda);
        }
    }
}

static void find_message(const gw_log *log, char out[MARK_MAX])
{
    const char *said = last_message(log);
    size_t length = strlen(said);
    snprintf(out, MARK_MAX, "%.*s", (int)(length - (length > 0 && said[length - 1] == '.')), said);
}

static void find_module(const gw_log *log, char out[MARK_MAX])
{
    const char *missing = missing_module(log);
    snprintf(out, MARK_MAX, "%.*s", missing != NULL ? (int)strcspn(missing, ".'") : 0, missing != NULL ? missing : "");
}

/* Write what stands for a mark of an advice to `out`. Returns the mark's length, 0 if `text` begins with none. */
static size_t read_mark(const gw_log *log, const char *text, char out[MARK_MAX])
{
    static const struct {
        const char *mark;
        void (*find)(const gw_log *, char[MARK_MAX]);
    } marks[] = {{"{package}", find_package},
                 {"{extension}", find_extension},
                 {"{wheel}", find_wheel},
                 {"{message}", find_message},
                 {"{module}", find_module}};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        if (gw_begins(text, marks[i].mark)) {
            marks[i].find(log, out);
            return strlen(marks[i].mark);
        }
    }
    if (gw_begins(text, "{=")) {
        char name[PACKAGE_MAX];
        size_t length = strcspn(text, "}");
        snprintf(name, sizeof name, "%.*s", (int)(length - 2), text + 2);
        find_group(log, name, out);
        return length + 1;
    }
    return 0;
}

/* Add the lines of an advice, with the names of this log for its marks. */
static bool add_lines(const gw_log *log, const char *advice, gw_string_list *next)
{
    enum { ADVICE_MAX = 600 };
    bool good = true;
    while (*advice != '\0' && good) {
        char line[ADVICE_MAX], text[MARK_MAX];
        size_t length = 0;
        while (*advice != '\0' && *advice != '\n' && length < sizeof line - MARK_MAX) {
            size_t mark = read_mark(log, advice, text);
            length += (size_t)snprintf(line + length, sizeof line - length, "%.*s", mark != 0 ? MARK_MAX : 1,
                                       mark != 0 ? text : advice);
            advice += mark != 0 ? mark : 1;
        }
        good = gwi_list_add(next, line);
        advice += *advice == '\n';
    }
    return good;
}

/* True if the cause is about the driver's version, which decides which build of a library can be installed. */
static bool is_about_the_driver(const char *cause)
{
    return strcmp(cause, "driver-too-old") == 0 || strcmp(cause, "ptx-too-new") == 0;
}

/* Read the driver's CUDA version from PyTorch's message: "found version 11040" is 11.4. Returns 0 if the log has no
 * such message. */
static gw_version cuda_of_message(const gw_log *log)
{
    enum { MAJOR = 1000, MINOR = 10, MINORS = 100 };
    const gw_log_find *find = gwi_log_first(log, GW_SAYS_DRIVER_OLD);
    int64_t number;
    if (find == NULL || gw_log_text(find, "version") == NULL || !gw_log_number(find, "version", &number) ||
        number < MAJOR)
        return 0;
    return gw_version_of((unsigned)(number / MAJOR), (unsigned)(number / MINOR % MINORS), 0);
}

/* Advise a build for the newest CUDA version that the log's driver supports. Adds nothing if the driver is unknown. */
static bool add_for_driver(const gwi_log_case *c, gw_string_list *next)
{
    gw_version driver = 0, cuda = cuda_of_message(c->log);
    const char *end;
    char text[GW_VERSION_TEXT_MAX];
    if (cuda == 0 && c->context.driver != NULL && gw_version_parse(c->context.driver, &driver, &end)) {
        const gw_driver_row *row = gw_data_cuda_of_driver(driver);
        cuda = row != NULL ? row->cuda : 0;
    }
    if (cuda == 0)
        return true;
    return gwi_list_addf(next,
                         "The driver in the log supports CUDA %s: install a build for that version or an older one, or "
                         "a newer driver",
                         gw_version_text(text, cuda));
}

/* ---- what the log itself advises ---- */

/* Repeat the solution that suits the cause, if the log lists several in successive lines. Programs list the same ones
 * for each failure of a step. */
static bool add_own_solution(const gwi_log_case *c, const char *cause, gw_string_list *next)
{
    static const struct {
        const char *cause, *words;
    } fits[] = {{"gpu-oom", "smaller"}, {"gpu-oom", "educe"}, {"gpu-oom", "ower"}, {"graph-capture", "torch compile"}};
    const gw_log_find *first = NULL, *best = NULL, *before = NULL;
    for (size_t i = 0; i < c->log->find_count; i++) {
        const gw_log_find *find = &c->log->find[i];
        if (find->sign != GW_SAYS_OWN_SOLUTION)
            continue;
        if (before != NULL && find->order == before->order + 1 && first == NULL)
            first = before;
        before = find;
        for (size_t k = 0; k < sizeof fits / sizeof fits[0] && best == NULL; k++) {
            if (gw_begins(cause, fits[k].cause) && strstr(find->text, fits[k].words) != NULL)
                best = find;
        }
    }
    if (first == NULL)
        return true;
    char quote[GW_QUOTE_MAX];
    return gwi_list_addf(next, "The log lists solutions; this one suits it: %s",
                         gw_quote(quote, gw_log_text(best != NULL ? best : first, "solution"), SIZE_MAX, 300));
}

/* Say which CUDA toolkit knows the architecture that nvcc rejected. */
static bool add_for_toolkit(const gwi_log_case *c, gw_string_list *next)
{
    enum { TEN = 10 };
    const gw_log_find *find = gwi_log_first(c->log, GW_SAYS_TOOLKIT_ARCH);
    int64_t number;
    char first[GW_VERSION_TEXT_MAX], last[GW_VERSION_TEXT_MAX];
    if (find == NULL || !gw_log_number(find, "arch", &number))
        return true;
    const gw_capability *row = gw_data_capability(gw_version_of((unsigned)(number / TEN), (unsigned)(number % TEN), 0));
    if (row != NULL && row->cuda_last != 0)
        return gwi_list_addf(next,
                             "nvcc of a toolkit after CUDA %s no longer knows compute_%lld: remove it from the list of "
                             "architectures (TORCH_CUDA_ARCH_LIST, CMAKE_CUDA_ARCHITECTURES, -gencode)",
                             gw_version_text(last, row->cuda_last), (long long)number);
    return gwi_list_addf(
        next,
        "Build with a newer CUDA toolkit%s%s (nvcc in PATH, CUDACXX or CUDA_HOME must be its own), or only "
        "for architectures that this nvcc knows (nvcc --list-gpu-arch; %s)",
        row != NULL ? ", at least " : "", row != NULL ? gw_version_text(first, row->cuda_first) : "",
        is_in_log(c, "ggml", strlen("ggml")) || is_in_log(c, "CMake", strlen("CMake"))
            ? "CMAKE_CUDA_ARCHITECTURES"
            : "TORCH_CUDA_ARCH_LIST, CMAKE_CUDA_ARCHITECTURES");
}

/* Add the advice of the rows for the cause, until one replaces all others. Rows for all causes need one. */
static bool add_rows(const gwi_log_case *c, const char *cause, bool *ret_replaces, gw_string_list *next)
{
    bool good = true;
    for (size_t i = 0; i < ROW_COUNT && good && !*ret_replaces; i++) {
        bool fits = gw_begins(cause, rows[i].cause) && (cause != in_silence || rows[i].cause[0] != '\0');
        if (!fits || !applies(c, rows[i].words))
            continue;
        good = add_lines(c->log, rows[i].advice, next);
        *ret_replaces = rows[i].replaces;
    }
    return good;
}

bool gwi_log_add_advice(const gwi_log_case *c, const char *cause, bool *ret_replaces, gw_string_list *next)
{
    int64_t arch;
    const gw_log_find *find = gwi_log_first(c->log, GW_SAYS_TOOLKIT_ARCH);
    bool good = add_own_solution(c, cause, next) && (!is_about_the_driver(cause) || add_for_driver(c, next));
    *ret_replaces = find != NULL && gw_log_number(find, "arch", &arch) && gw_begins(cause, "library-too-old");
    if (*ret_replaces)
        return good && add_for_toolkit(c, next);
    return good && add_rows(c, cause, ret_replaces, next);
}

bool gwi_log_add_silent_advice(const gwi_log_case *c, gw_string_list *next)
{
    bool replaces = false;
    return add_rows(c, in_silence, &replaces, next);
}
