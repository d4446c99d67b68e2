/* The configuration: one table of keys, and their values with the place that each one comes from.
 *
 * A value comes from the first of these that sets it: an option of the command, an environment variable, the user's
 * file, the site's file, the standard value. An invalid value is reported and ignored; the next place then counts.
 *
 * Only gpuwhy's own process reads the configuration, never the hook. One thread may use a gw_config. */
#ifndef GW_CONFIG_H
#define GW_CONFIG_H

#include "gw_status.h"
#include "gw_text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GW_STANDARD_RECORD_LIMIT   "512MiB"
#define GW_STANDARD_WATCH_ALARM_AT "90%"

/* X(id, type, name, unit, standard, commands, option, help)
 * - name: in files, "a.b" is the member "b" of the object "a". The environment variable is GPUWHY_A_B.
 * - unit: NULL: none.
 * - standard: the built-in value, as a user would write it.
 * - commands, option: the commands whose option of this name sets the key for one run, separated by blanks; "": all
 *   commands. An option that begins with "--no-" sets the key to false. */
#define GW_CONFIG_KEYS(X)                                                                                              \
    X(OFF, BOOL, "off", NULL, "false", "run", "--off", "gpuwhy run starts the program without recording it")           \
    X(FOLDER, FOLDER, "folder", NULL, "", "", "--folder",                                                              \
      "folder of the recordings and of the list of runs; ~/ is your home, %u your user name")                          \
    X(KEEP_RECORDINGS, COUNT, "keep.recordings", "recordings", "500", "history", "--keep-recordings",                  \
      "how many recordings are kept; 0: no limit")                                                                     \
    X(KEEP_BYTES, SIZE, "keep.bytes", "bytes", "8GiB", "history", "--keep-bytes",                                      \
      "how much disk space they may take; 0: no limit")                                                                \
    X(KEEP_DAYS, COUNT, "keep.days", "days", "90", "history", "--keep-days",                                           \
      "how long they are kept after the last write; 0: no limit")                                                      \
    X(RECORD_LIMIT, SIZE, "record.limit", "bytes", GW_STANDARD_RECORD_LIMIT, "run", "--record-limit",                  \
      "largest recording; 0: no limit")                                                                                \
    X(RECORD_ENVIRONMENT, NAMES, "record.environment", NULL, "", "run", "--record-environment",                        \
      "environment variables that are recorded in addition to those that gpuwhy records anyway")                       \
    X(ADD_TO_HISTORY, BOOL, "add_to_history", NULL, "true", "run rehearse fit", "--no-history",                        \
      "list runs in gpuwhy history")                                                                                   \
    X(MEMORY, SIZE, "memory", "bytes", "0", "run", "--memory",                                                         \
      "limit of the GPU memory that a program sees; 0: no limit")                                                      \
    X(MEMORY_SHARED, BOOL, "memory_shared", NULL, "false", "run", "--memory-shared",                                   \
      "the processes of a run share this limit")                                                                       \
    X(HANG_AFTER, HANG, "hang_after", "seconds", "auto", "run", "--hang-after",                                        \
      "report a hang if nothing happens for this long; auto: off on a terminal, otherwise 300")                        \
    X(ASK_RAS, BOOL, "ask_ras", NULL, "true", "run", "--no-ras",                                                       \
      "when a hang is seen, ask NCCL's RAS on this machine how far the ranks are")                                     \
    X(QUIET, BOOL, "quiet", NULL, "false", "run", "--quiet", "gpuwhy run prints a verdict only on failure")            \
    X(COLOR, COLOR, "color", NULL, "auto", "", "--color", "colours: auto, always or never")                            \
    X(WATCH_ALARM_AT, THRESHOLD, "watch.alarm_at", NULL, GW_STANDARD_WATCH_ALARM_AT, "watch", "--alarm-at",            \
      "gpuwhy watch marks runs whose needed memory reaches this share of the card, or this size")

/* X(type, which values are valid) */
#define GW_CONFIG_TYPES(X)                                                                                             \
    X(BOOL, "true or false")                                                                                           \
    X(COUNT, "a whole number of at least 0")                                                                           \
    X(SIZE, "a size such as \"8GiB\"")                                                                                 \
    X(HANG, "a number of seconds from 0.1 to 1000000, \"off\" or \"auto\"")                                            \
    X(THRESHOLD, "a share such as \"90%\", or a size such as \"12GiB\"")                                               \
    X(COLOR, "\"auto\", \"always\" or \"never\"")                                                                      \
    X(FOLDER, "an absolute path, or one that begins with ~/")                                                          \
    X(NAMES, "names of environment variables; * at the end of a name stands for any text")

typedef enum gw_config_type {
#define GW_X(type, valid) GW_CONFIG_TYPE_##type,
    GW_CONFIG_TYPES(GW_X)
#undef GW_X
} gw_config_type;

typedef enum gw_config_id {
#define GW_X(id, type, name, unit, standard, commands, option, help) GW_CONFIG_##id,
    GW_CONFIG_KEYS(GW_X)
#undef GW_X
        GW_CONFIG_COUNT
} gw_config_id;

/* All strings are static. */
typedef struct gw_config_key {
    gw_config_type type;
    const char *name, *unit, *standard, *commands, *option, *help;
} gw_config_key;

/* The keys, indexed by gw_config_id. */
extern const gw_config_key gw_config_keys[GW_CONFIG_COUNT];
/* Return which values of this type are valid, as in "expected ...". Static. */
const char *gw_config_valid(gw_config_type type);
/* True if the text is a valid value of this type. */
bool gw_config_is_valid(gw_config_type type, const char *text);

/* A later source wins over an earlier one. */
typedef enum gw_config_source {
    GW_CONFIG_BUILT_IN,
    GW_CONFIG_SITE,
    GW_CONFIG_USER,
    GW_CONFIG_ENVIRONMENT,
    GW_CONFIG_OPTION
} gw_config_source;

typedef struct gw_config_value {
    const char *text; /* as the user wrote it; a list has commas, a boolean is "true" or "false" */
    char *owned;      /* the memory of `text`; NULL: it is static */
    uint64_t number;  /* BOOL: 0 or 1. COUNT, SIZE: the number. Otherwise 0 */
    gw_config_source source;
    unsigned line; /* in the file of the source; 0: not from a file, or unknown */
} gw_config_value;

typedef struct gw_config {
    gw_config_value value[GW_CONFIG_COUNT];
    gw_text path[GW_CONFIG_OPTION + 1]; /* the file of a source; empty: the source is no file, or the file is missing */
    gw_text errors;                     /* one line for each error */
    unsigned error_count;
} gw_config;

/* Set all values to the standard ones. */
void gw_config_init(gw_config *config);
/* Free the values and the errors, and set all values to the standard ones. */
void gw_config_free(gw_config *config);

/* Return the configuration of this process. It has the standard values until main() has read the files. */
gw_config *gw_config_process(void);

/* Set a value, unless a later source has set it. The text is copied. GW_USAGE: the text is not valid for the key; `err`
 * names the key and what is valid. */
GW_MUST_CHECK gw_status gw_config_set(gw_config *config, gw_config_id id, const char *text, gw_config_source source,
                                      unsigned line, gw_error *err);

/* Take the values of a file. Each error is added to `errors` with its place, and all other keys count. `is_trusted`:
 * accept the file whoever may write to it. Otherwise the file is refused if another user than root (for the site) or
 * than root and we (for the user) can have written it. GW_MISSING: there is no such file. GW_USAGE: it has errors. */
gw_status gw_config_read(gw_config *config, const char *path, gw_config_source source, bool is_trusted);
/* Like gw_config_read(), for a text with `bytes` bytes. `path` is for messages. */
gw_status gw_config_read_text(gw_config *config, const char *path, gw_config_source source, const char *text,
                              size_t bytes);
/* Take the values of the environment variables. A variable that is empty counts as not set. */
void gw_config_read_environment(gw_config *config);

enum { GW_CONFIG_VARIABLE_MAX = 64 };
/* Write the name of a key's environment variable to `out`, and return `out`. */
const char *gw_config_variable(gw_config_id id, char out[GW_CONFIG_VARIABLE_MAX]);
/* Find a key by its name. Returns false if there is none. */
bool gw_config_find(const char *name, gw_config_id *ret_id);
/* Return the name of a key or of a group of keys that is similar, or NULL. Static. */
const char *gw_config_suggest(const char *name);
/* Find the key that an option of a command sets. Returns false if there is none. `command`: such as "run". */
bool gw_config_find_option(const char *command, const char *option, gw_config_id *ret_id);
/* Append where a value comes from: "built in", "FILE:LINE", "GPUWHY_KEEP_DAYS" or "--keep-days". */
void gw_config_add_place(const gw_config *config, gw_config_id id, gw_text *text);

/* True if the text is a valid value of the type NAMES, or NULL. */
bool gw_config_names_are_valid(const char *names);
/* True if the name of an environment variable is in a value of the type NAMES. `names` may be NULL. */
bool gw_config_names_contain(const char *names, const char *name);

#endif
