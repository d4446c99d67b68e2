/* The options of a command as a table: type, field, name, argument, default and help in one row.
 *
 *     #define GWI_X_OPTIONS(X)                                                    \
 *         X(FLAG, bool, quiet, "--quiet", NULL, NULL, "print nothing unless there is a fault")
 *     GWI_OPTIONS(x_options, GWI_X_OPTIONS);
 *
 * The struct, the parser's table, the defaults and the help are generated from these rows. The parser accepts `--name
 * value`, `--name=value`, `-o value` and `-ovalue`. Options end at `--` or at the first other word. `-h` is `--help`.
 *
 * Every command also accepts the options of gwi_terminal.h, and its help lists them. */
#ifndef GWI_OPTIONS_H
#define GWI_OPTIONS_H

#include "gw_option_list.h"
#include "gw_status.h"
#include "gw_text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* FLAG: bool. STRING: const char *, borrowed from argv or from the configuration. MAYBE: like STRING, but the value is
 * optional and must be in the same word (`--name=value`); "" without a value, NULL without the option. LIST:
 * gw_option_list, one value for each time that the option is given. BYTES: uint64_t, a size such as 16GiB. COUNT:
 * uint32_t, a small number. NUMBER: uint64_t. */
typedef enum gwi_option_type {
    GWI_OPTION_FLAG,
    GWI_OPTION_STRING,
    GWI_OPTION_MAYBE,
    GWI_OPTION_LIST,
    GWI_OPTION_BYTES,
    GWI_OPTION_COUNT,
    GWI_OPTION_NUMBER
} gwi_option_type;

typedef struct gwi_option {
    gwi_option_type type;
    size_t offset; /* position of the field in the command's struct, in bytes */
    const char *name;
    const char *argument; /* name of the value in the help, or of the words that follow a flag; NULL: none */
    const char *standard; /* the default value, as a user would write it, or NULL */
    const char *help;
} gwi_option;

#define GWI_OPTION_FIELD(type, ctype, field, name, argument, standard, help) ctype field;
/* One row of the parser's table. Define OPTIONS_STRUCT as the command's struct first, unless GWI_OPTIONS does so. */
#define GWI_OPTION_ROW(type, ctype, field, name, argument, standard, help)                                             \
    {GWI_OPTION_##type, offsetof(OPTIONS_STRUCT, field), name, argument, standard, help},
#define GWI_HELP_OPTION(X) X(FLAG, bool, help, "--help", NULL, NULL, "print this help")
#define GWI_OPTION_CHECK(type, ctype, field, name, argument, standard, help)                                           \
    _Static_assert(__builtin_types_compatible_p(ctype, __typeof__(((OPTIONS_STRUCT *)NULL)->field)), "type of " name);
/* Define the parser's table, with --help as its last row, and the number of its rows. */
#define GWI_OPTION_TABLE(table, count, rows)                                                                           \
    rows(GWI_OPTION_CHECK) static const gwi_option table[] = {rows(GWI_OPTION_ROW) GWI_HELP_OPTION(GWI_OPTION_ROW)};   \
    enum { count = sizeof table / sizeof table[0] }
/* Define the struct of a file's only command as `name`, with the fields in `...` besides those of the options, and the
 * parser's table as options_table and OPTION_COUNT. */
#define GWI_OPTIONS(name, rows, ...)                                                                                   \
    typedef struct name {                                                                                              \
        rows(GWI_OPTION_FIELD) GWI_HELP_OPTION(GWI_OPTION_FIELD) __VA_ARGS__                                           \
    } name, OPTIONS_STRUCT;                                                                                            \
    GWI_OPTION_TABLE(options_table, OPTION_COUNT, rows)

/* Set `fields` to the defaults, then to the values of the configuration of this process, then apply the options in
 * argv[1] and the following words. argv[0] is the command's name. Options that set a key of the configuration are also
 * stored there. GW_OK: *ret_index is the first word that is not an option. GW_USAGE: `err` names the option and the
 * reason. */
GW_MUST_CHECK gw_status gwi_options_parse(const gwi_option *options, size_t count, void *fields, int argc, char **argv,
                                          int *ret_index, gw_error *err);

/* Like gwi_options_parse(), but options may also follow other words. On success, the *ret_words other words are in
 * argv[1] and after it. */
GW_MUST_CHECK gw_status gwi_options_parse_mixed(const gwi_option *options, size_t count, void *fields, int argc,
                                                char **argv, int *ret_words, gw_error *err);

/* Apply the options of gwi_terminal.h in argv[1] and the following words, up to the first word that is none of them:
 * *ret_index. GW_USAGE: `err` names the option and the reason. */
GW_MUST_CHECK gw_status gwi_options_parse_common(int argc, char **argv, int *ret_index, gw_error *err);

/* Add the words of --folder for a gpuwhy that this one starts, if this one has the option. `words` has room for
 * GWI_FOLDER_WORDS. Returns their number. The words are static or borrowed from argv. */
enum { GWI_FOLDER_WORDS = 2 };
size_t gwi_add_folder(const char **words);

/* Return the options of all commands. */
const gwi_option *gwi_options_common(size_t *ret_count);

/* Append the help of the options, one option per line. */
void gwi_options_add_rows(const gwi_option *options, size_t count, gw_text *text);

#endif
