/* Advice that fits the program, platform and driver that a log names (log_advice.def). */
#include "gwi_log.h"

#include "gw_data.h"
#include "gw_text.h"

#include <stdio.h>
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
enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

static bool is_in_log(const gw_log *log, const char *word, size_t bytes)
{
    for (size_t i = 0; i < log->find_count; i++) {
        if (memmem(log->find[i].text, strlen(log->find[i].text), word, bytes) != NULL)
            return true;
    }
    return false;
}

/* True if all texts of the list, which are separated by &, are in the log. */
static bool are_in_log(const gw_log *log, const char *list, size_t bytes)
{
    const char *end = list + bytes;
    while (list < end) {
        const char *stop = memchr(list, '&', (size_t)(end - list));
        size_t word = (size_t)((stop != NULL ? stop : end) - list);
        if (!is_in_log(log, list, word))
            return false;
        list += word + 1;
    }
    return true;
}

/* True if the log contains all texts of one alternative. `words` has the alternatives, separated by |. */
static bool applies(const gw_log *log, const char *words)
{
    for (;;) {
        size_t bytes = strcspn(words, "|");
        if (are_in_log(log, words, bytes))
            return true;
        if (words[bytes] == '\0')
            return false;
        words += bytes + 1;
    }
}

static bool add_lines(const char *advice, gw_string_list *next)
{
    bool good = true;
    while (*advice != '\0' && good) {
        size_t bytes = strcspn(advice, "\n");
        good = gwi_list_addf(next, "%.*s", (int)bytes, advice);
        advice += bytes + (advice[bytes] == '\n');
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

bool gwi_log_add_advice(const gwi_log_case *c, const char *cause, bool *ret_replaces, gw_string_list *next)
{
    bool good = !is_about_the_driver(cause) || add_for_driver(c, next);
    *ret_replaces = false;
    for (size_t i = 0; i < ROW_COUNT && good; i++) {
        if (!gw_begins(cause, rows[i].cause) || !applies(c->log, rows[i].words))
            continue;
        good = add_lines(rows[i].advice, next);
        *ret_replaces = *ret_replaces || rows[i].replaces;
    }
    return good;
}
