/* How all modules report failure: a status, and optionally a text.
 *
 * The function that detects the failure describes it with gw_fail(). Each caller may prepend what it was trying to do,
 * with gw_wrap(). The caller that handles the failure prints or records the text.
 *
 * `err` may be NULL everywhere. No function allocates memory or takes a lock. Only one thread may use a gw_error. */
#ifndef GW_STATUS_H
#define GW_STATUS_H

#define GW_STATUSES(X)                                                                                                 \
    X(OK, "success")                                                                                                   \
    X(END, "nothing more to read")                                                                                     \
    X(IO, "cannot open, read or write")                                                                                \
    X(CORRUPT, "the data are damaged")                                                                                 \
    X(VERSION, "the data were written by a newer version")                                                             \
    X(UNSUPPORTED, "not supported by this build")                                                                      \
    X(USAGE, "invalid request")                                                                                        \
    X(NOMEM, "out of host memory")                                                                                     \
    X(MISSING, "not found")

typedef enum gw_status {
#define GW_X(name, text) GW_##name,
    GW_STATUSES(GW_X)
#undef GW_X
        GW_STATUS_COUNT
} gw_status;

typedef struct gw_error {
    char text[512]; /* "" until something fails; longer texts are cut */
} gw_error;

#define GW_MUST_CHECK __attribute__((warn_unused_result))

/* Return a short description of the status. Static; never NULL, even for values out of range. */
const char *gw_status_text(gw_status status);

/* Write the formatted text to `err` and return `status`, for use as `return gw_fail(...)`. */
__attribute__((format(printf, 3, 4))) gw_status gw_fail(gw_error *err, gw_status status, const char *format, ...);

/* Prepend the formatted text and ": " to the text of `err`. */
__attribute__((format(printf, 2, 3))) void gw_wrap(gw_error *err, const char *format, ...);

#endif
