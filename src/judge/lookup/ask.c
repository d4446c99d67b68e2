/* Finds the codes or names that a question such as "CUDA error 700" may mean. A plain number has one meaning for
 * each table that contains it. */
#include "gwi_ask.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static gwi_reading *add(gwi_readings *readings, const char *kind, int sign)
{
    static gwi_reading spare; /* overwritten by each meaning beyond the maximum, and never read */
    gwi_reading *reading = readings->count < GWI_READINGS_MAX ? &readings->reading[readings->count++] : &spare;
    *reading = (gwi_reading){.kind = kind, .sign = sign, .verified = GW_VERIFIED_YES};
    return reading;
}

/* True for a status that is not an error, so no cause is listed for it. */
static bool is_harmless(const char *name)
{
    return strstr(name, "SUCCESS") != NULL || strstr(name, "Success") != NULL || strstr(name, "IN_PROGRESS") != NULL ||
           strstr(name, "InProgress") != NULL || strstr(name, "DEPRECATED") != NULL;
}

#define SET(field, text) snprintf(reading->field, sizeof reading->field, "%s", (text) == NULL ? "" : (text))

/* ---- CUDA ---- */

static void add_cuda(gwi_readings *readings, const gw_cuda_error *error)
{
    bool capture = error->code >= 900 && error->code <= 908;
    gwi_reading *reading = add(readings, "CUDA error", capture ? (int)GW_SAYS_CAPTURE : GW_SAYS_CUDA);
    const char *driver = error->driver_name, *runtime = error->runtime_name;
    reading->has_code = true;
    reading->code = (int)error->code;
    snprintf(reading->name, sizeof reading->name, "%s%s%s", driver != NULL ? driver : "",
             driver != NULL && runtime != NULL ? ", " : "", runtime != NULL ? runtime : "");
    snprintf(reading->meaning, sizeof reading->meaning, "%s%s%s", error->meaning,
             error->reported == GW_REPORTED_ASYNC ? "; reported by a later call" : "",
             error->sticky == GW_STICKY_YES || error->sticky == GW_STICKY_PRACTICE ? "; the context is lost" : "");
    SET(hint, error->hint);
    reading->verified = error->verified;
    reading->source = error->source;
    snprintf(reading->which, sizeof reading->which, "%u", error->code);
    reading->unlikely = error->hint != NULL && strcmp(error->hint, "not seen in training") == 0;
}

static void add_cuda_code(gwi_readings *readings, unsigned code)
{
    const gw_cuda_error *error = gw_data_cuda_error(code);
    unsigned now;
    if (error != NULL)
        add_cuda(readings, error);
    if (gw_log_old_cuda_code(code, &now) && (error = gw_data_cuda_error(now)) != NULL) {
        add_cuda(readings, error);
        gwi_reading *reading = &readings->reading[readings->count - 1];
        reading->kind = "CUDA error of the runtime before 10.1";
        reading->code = (int)code;
        reading->source = "as frameworks printed it at that time";
        reading->verified = GW_VERIFIED_NO;
    }
}

/* ---- libraries ---- */

static void add_cudnn(gwi_readings *readings, const gw_cudnn_status *status)
{
    enum { PREFIX_BYTES = sizeof "CUDNN_STATUS_" - 1 };
    const char *kind = "cuDNN 7 and 8 status";
    if (status->major_first >= 9)
        kind = "cuDNN 9 status";
    else if (status->major_first == 8)
        kind = "cuDNN 8 status";
    else if (status->major_first == 7 && status->major_last == 7)
        kind = "cuDNN 7 status";
    gwi_reading *reading = add(readings, kind, (int)GW_SAYS_CUDNN_STATUS);
    reading->has_code = true;
    reading->code = (int)status->code;
    SET(name, status->name);
    SET(meaning, status->meaning);
    SET(hint, status->hint);
    reading->verified = status->verified;
    reading->source = status->source;
    snprintf(reading->which, sizeof reading->which, "%.60s", status->name + PREFIX_BYTES);
    if (is_harmless(status->name))
        reading->sign = GW_SAYS_NOTHING;
}

static void add_library(gwi_readings *readings, const gw_library_status *status)
{
    bool cublas = status->library == GW_STATUS_OF_CUBLAS;
    gwi_reading *reading = add(readings, cublas ? "cuBLAS status" : "NCCL result",
                               cublas ? (int)GW_SAYS_CUBLAS_STATUS : (int)GW_SAYS_NCCL_ERROR);
    reading->has_code = true;
    reading->code = (int)status->code;
    SET(name, status->name);
    SET(meaning, status->meaning);
    SET(hint, status->hint);
    reading->verified = status->verified;
    reading->source = status->source;
    snprintf(reading->which, sizeof reading->which, "%.60s",
             status->name + (cublas ? strlen("CUBLAS_STATUS_") : strlen("nccl")));
    if (is_harmless(status->name))
        reading->sign = GW_SAYS_NOTHING;
}

static void add_cudnn_code(gwi_readings *readings, unsigned code)
{
    for (size_t i = 0; i < gw_data_cudnn_status_count; i++) {
        if (gw_data_cudnn_status[i].code == code)
            add_cudnn(readings, &gw_data_cudnn_status[i]);
    }
}

static void add_library_code(gwi_readings *readings, gw_status_library library, unsigned code)
{
    const gw_library_status *status = gw_data_library_status_of(library, code);
    if (status != NULL)
        add_library(readings, status);
}

/* ---- the kernel module ---- */

static void add_xid(gwi_readings *readings, gw_xid_kind kind, unsigned code)
{
    const gw_xid *xid = kind == GW_XID_KIND_XID ? gw_data_xid_of(code) : gw_data_sxid_of(code);
    if (xid == NULL)
        return;
    gwi_reading *reading = add(readings, kind == GW_XID_KIND_XID ? "Xid" : "SXid",
                               kind == GW_XID_KIND_XID ? (int)GW_SAYS_XID : (int)GW_SAYS_SXID);
    reading->has_code = true;
    reading->code = (int)code;
    SET(name, xid->mnemonic);
    SET(meaning, xid->meaning);
    snprintf(reading->hint, sizeof reading->hint, "%s%s%s%s", xid->hint != NULL ? xid->hint : "",
             xid->hint != NULL && xid->action != NULL ? "; " : "",
             xid->action != NULL ? "the vendor's catalogue says: " : "", xid->action != NULL ? xid->action : "");
    reading->verified = xid->verified;
    reading->source = xid->source;
    snprintf(reading->which, sizeof reading->which, "%u", code);
    reading->unlikely = strcmp(xid->class, "unused") == 0 || strcmp(xid->class, "not-training") == 0;
}

/* ---- exit statuses and signals ---- */

static const struct {
    int number;
    const char *name;
    int sign;
} signals[] = {{SIGHUP, "SIGHUP", GW_SAYS_TERMINATED},
               {SIGINT, "SIGINT", GW_SAYS_INTERRUPTED},
               {SIGILL, "SIGILL", GW_SAYS_ILLEGAL_INSTRUCTION},
               {SIGABRT, "SIGABRT", GW_SAYS_ABORTED},
               {SIGBUS, "SIGBUS", GW_SAYS_BUS_ERROR},
               {SIGFPE, "SIGFPE", GW_SAYS_SEGFAULT},
               {SIGKILL, "SIGKILL", GW_SAYS_KILLED},
               {SIGSEGV, "SIGSEGV", GW_SAYS_SEGFAULT},
               {SIGTERM, "SIGTERM", GW_SAYS_TERMINATED}};

static void add_signal(gwi_readings *readings, int number, const char *kind, int code)
{
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        if (signals[i].number != number)
            continue;
        gwi_reading *reading = add(readings, kind, signals[i].sign);
        reading->has_code = true;
        reading->code = code;
        SET(name, signals[i].name);
        snprintf(reading->meaning, sizeof reading->meaning, "the process was ended by signal %d (%s)", number,
                 strsignal(number));
    }
}

static void add_exit(gwi_readings *readings, int code)
{
    enum { SHELL_SIGNAL = 128, NOT_EXECUTABLE = 126, NOT_FOUND = 127 };
    if (code < 0)
        add_signal(readings, -code, "exit status as Python's subprocess reports it", code);
    else if (code > SHELL_SIGNAL)
        add_signal(readings, code - SHELL_SIGNAL, "exit status", code);
    if (code == NOT_EXECUTABLE || code == NOT_FOUND) {
        gwi_reading *reading = add(readings, "exit status", GW_SAYS_NOTHING);
        reading->has_code = true;
        reading->code = code;
        SET(meaning,
            code == NOT_FOUND ? "the shell did not find the command" : "the shell could not execute the command");
    }
}

static void add_exit_unknown(gwi_readings *readings, int code)
{
    if (readings->count > 0)
        return;
    gwi_reading *reading = add(readings, "exit status", GW_SAYS_NOTHING);
    reading->has_code = true;
    reading->code = code;
    SET(meaning, code == 0 ? "success" : "chosen by the program: its earlier output shows why");
}

/* ---- the question ---- */

enum { NAME_MAX_BYTES = 96, WORDS_MAX = 8 };

static bool read_name(const char *name, gwi_readings *readings)
{
    for (size_t i = 0; i < gw_data_cuda_errors_count; i++) {
        const gw_cuda_error *error = &gw_data_cuda_errors[i];
        if ((error->driver_name != NULL && strcasecmp(error->driver_name, name) == 0) ||
            (error->runtime_name != NULL && strcasecmp(error->runtime_name, name) == 0))
            add_cuda(readings, error);
    }
    for (size_t i = gw_data_cudnn_status_count; i-- > 0;) { /* the newest version first */
        if (strcasecmp(gw_data_cudnn_status[i].name, name) == 0)
            add_cudnn(readings, &gw_data_cudnn_status[i]);
    }
    for (size_t i = 0; i < gw_data_library_status_count; i++) {
        if (strcasecmp(gw_data_library_status[i].name, name) == 0)
            add_library(readings, &gw_data_library_status[i]);
    }
    for (size_t i = 0; i < gw_data_xid_count; i++) {
        if (gw_data_xid[i].mnemonic != NULL && strcasecmp(gw_data_xid[i].mnemonic, name) == 0)
            add_xid(readings, gw_data_xid[i].kind, gw_data_xid[i].code);
    }
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        if (strcasecmp(signals[i].name, name) == 0)
            add_signal(readings, signals[i].number, "signal", signals[i].number);
    }
    return readings->count > 0;
}

typedef enum subject { ANY, CUDA, CUDNN, CUBLAS, NCCL, XID, SXID, EXIT, SIGNAL } subject;

/* True if a question with a number may contain this word, such as "error" or "xid". Sets *ret_subject if the word
 * shows the number's kind. */
static bool word_means(const char *word, subject *ret_subject)
{
    static const struct {
        const char *word;
        subject subject;
    } words[] = {{"cuda", CUDA},   {"driver", CUDA},   {"runtime", CUDA},  {"curesult", CUDA}, {"cudaerror", CUDA},
                 {"cudnn", CUDNN}, {"cublas", CUBLAS}, {"nccl", NCCL},     {"xid", XID},       {"sxid", SXID},
                 {"exit", EXIT},   {"exited", EXIT},   {"exitcode", EXIT}, {"rc", EXIT},       {"returncode", EXIT},
                 {"return", EXIT}, {"signal", SIGNAL}, {"sig", SIGNAL},    {"killed", SIGNAL}, {"error", ANY},
                 {"code", ANY},    {"status", ANY},    {"with", ANY},      {"by", ANY},        {"number", ANY},
                 {"result", ANY},  {"value", ANY},     {"was", ANY},       {"is", ANY},        {"failed", ANY},
                 {"err", ANY},     {"errno", CUDA},    {"the", ANY}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcasecmp(words[i].word, word) == 0) {
            if (words[i].subject != ANY && (*ret_subject == ANY || words[i].subject == EXIT))
                *ret_subject = words[i].subject;
            return true;
        }
    }
    return false;
}

/* Read a number and the words around it: "Xid 79", "xid:79", "CUDA error (700)", "exit code -9". Returns false if a
 * word is unknown, or unless there is exactly one number. */
static bool read_number(const char *question, subject *ret_subject, int *ret_number)
{
    char text[NAME_MAX_BYTES];
    size_t words = 0, numbers = 0;
    *ret_subject = ANY;
    if (strlen(question) >= sizeof text)
        return false;
    snprintf(text, sizeof text, "%s", question);
    for (char *at = text; *at != '\0';) {
        size_t gap = strspn(at, " \t\n:=#()[],.'\"`"), bytes;
        at += gap;
        bool negative = *at == '-' && isdigit((unsigned char)at[1]);
        at += negative;
        if (isdigit((unsigned char)*at)) {
            bytes = strspn(at, "0123456789");
            if (bytes > 5 || ++numbers > 1)
                return false;
            *ret_number = (int)strtol(at, NULL, 10) * (negative ? -1 : 1);
        } else {
            char word[NAME_MAX_BYTES];
            bytes = strcspn(at, "0123456789 \t\n:=#()[],.'\"`-");
            if (bytes == 0 && *at != '\0')
                return false;
            snprintf(word, sizeof word, "%.*s", (int)bytes, at);
            if (bytes > 0 && (!word_means(word, ret_subject) || ++words > WORDS_MAX))
                return false;
        }
        at += bytes;
    }
    return numbers == 1;
}

static void read_as(subject what, int number, gwi_readings *readings)
{
    unsigned code = number < 0 ? UINT32_MAX : (unsigned)number;
    enum { SIGNAL_EXIT_FIRST = 129, SIGNAL_EXIT_LAST = 143 };
    bool exit_first = number < 0 || (number >= SIGNAL_EXIT_FIRST && number <= SIGNAL_EXIT_LAST);
    if (what == EXIT || (what == ANY && exit_first))
        add_exit(readings, number);
    if (what == ANY || what == CUDA)
        add_cuda_code(readings, code);
    if (what == ANY || what == CUDNN)
        add_cudnn_code(readings, code);
    if (what == ANY || what == CUBLAS)
        add_library_code(readings, GW_STATUS_OF_CUBLAS, code);
    if (what == ANY || what == NCCL)
        add_library_code(readings, GW_STATUS_OF_NCCL, code);
    if (what == ANY || what == XID)
        add_xid(readings, GW_XID_KIND_XID, code);
    if (what == ANY || what == SXID)
        add_xid(readings, GW_XID_KIND_SXID, code);
    if (what == SIGNAL || (what == ANY && !exit_first))
        add_signal(readings, number, "signal", number);
    if (what == EXIT)
        add_exit_unknown(readings, number);
}

/* Drop the meanings that are marked as unlikely, unless all are. */
static void drop_unlikely(gwi_readings *readings)
{
    size_t kept = 0;
    for (size_t i = 0; i < readings->count; i++)
        kept += !readings->reading[i].unlikely;
    if (kept == 0)
        return;
    size_t count = 0;
    for (size_t i = 0; i < readings->count; i++) {
        if (!readings->reading[i].unlikely)
            readings->reading[count++] = readings->reading[i];
    }
    readings->count = count;
}

bool gwi_read_question(const char *question, gwi_readings *ret_readings)
{
    subject what;
    int number;
    char name[NAME_MAX_BYTES];
    *ret_readings = (gwi_readings){0};
    question += strspn(question, " \t\n");
    size_t bytes = strcspn(question, " \t\n");
    if (question[bytes + strspn(question + bytes, " \t\n")] == '\0' && bytes > 0 && bytes < sizeof name) {
        snprintf(name, sizeof name, "%.*s", (int)bytes, question);
        if (read_name(name, ret_readings))
            return true;
    }
    if (!read_number(question, &what, &number))
        return false;
    read_as(what, number, ret_readings);
    drop_unlikely(ret_readings);
    return ret_readings->count > 0;
}

/* ---- finds of a log ---- */

void gwi_read_find(const gw_log_find *find, gwi_readings *readings)
{
    unsigned code;
    char name[NAME_MAX_BYTES];
    const char *word = gw_log_text(find, "name");
    int64_t number = 0;
    bool has_number = gw_log_number(find, "code", &number) && number >= 0 && number <= UINT16_MAX;
    size_t before = readings->count;
    if (gw_log_cuda_code(find, &code)) {
        add_cuda(readings, gw_data_cuda_error(code));
        return;
    }
    if (word != NULL && (find->sign == GW_SAYS_CUDNN_STATUS || find->sign == GW_SAYS_CUBLAS_STATUS ||
                         find->sign == GW_SAYS_NCCL_ERROR)) {
        const char *prefix = "nccl";
        if (find->sign == GW_SAYS_CUDNN_STATUS)
            prefix = "CUDNN_STATUS_";
        else if (find->sign == GW_SAYS_CUBLAS_STATUS)
            prefix = "CUBLAS_STATUS_";
        snprintf(name, sizeof name, "%s%.60s", prefix, word);
        read_name(name, readings);
    } else if (has_number && find->sign == GW_SAYS_XID) {
        add_xid(readings, GW_XID_KIND_XID, (unsigned)number);
    } else if (has_number && find->sign == GW_SAYS_SXID) {
        add_xid(readings, GW_XID_KIND_SXID, (unsigned)number);
    }
    if (readings->count == before) {
        gwi_reading *reading = add(readings, "message", (int)find->sign);
        SET(meaning, find->text);
        snprintf(reading->which, sizeof reading->which, "%.60s", gwi_log_value(find));
    }
}
