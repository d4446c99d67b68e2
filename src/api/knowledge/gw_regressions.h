/* Known problems of library versions (data/regressions.tsv), and the software that a log, a machine or a process has.
 *
 * A row applies if the version of its library is in its range and its other conditions hold. That alone is no proof:
 * the program may not use what is broken. Only words of a message (`seen`) or of a kernel's name (`kernel`) show that
 * it did.
 *
 * Texts are static, and NULL where the table has "-". Any thread may use the table. docs/HOWTO_ADD_REGRESSION.md
 * describes how to add a row. */
#ifndef GW_REGRESSIONS_H
#define GW_REGRESSIONS_H

#include "gw_data.h"
#include "gw_text.h"

/* What the problem does: too much memory of the card or of the host, wrong numbers, the process dies, an exception, no
 * progress, too slow. */
typedef enum gw_harm {
    GW_HARM_MEMORY,
    GW_HARM_HOST_MEMORY,
    GW_HARM_WRONG,
    GW_HARM_CRASH,
    GW_HARM_ERROR,
    GW_HARM_HANG,
    GW_HARM_SLOW,
    GW_HARM_COUNT
} gw_harm;

typedef struct gw_regression {
    const char *library;      /* such as "PyTorch"; the sentence `text` follows the name and the version */
    gw_version first, before; /* from `first` to below `before`; `before` 0: no version without the problem is known */
    const char *needs;        /* other versions, such as "cuDNN<9.15 capability>=10.0 cards>=2"; all must hold */
    const char *card;         /* words of a card's name, such as "H20 H800"; one of them must be in it */
    const char *seen;         /* words of messages: "a&b|c" is (a and b) or c; NULL: no message betrays it */
    const char *kernel;       /* words of the names of kernels, or of functions that launch them, in the same form */
    gw_harm effect;
    const char *text; /* "computes conv3d in bf16 without cuDNN" */
    const char *cure;
    const char *withdraws; /* words of fixes that must not be advised beside this row, separated by |; NULL: none */
    const char *likely; /* software whose programs probably use what is broken: one of these conditions; NULL: none */
    gw_verified verified;
    const char *source;                   /* such as "pytorch/pytorch#166643" */
    const char *first_text, *before_text; /* as in the table */
} gw_regression;
extern const gw_regression gw_data_regressions[];
extern const size_t gw_data_regressions_count;

const char *gw_harm_text(gw_harm effect); /* "memory", "wrong", ...; static */

/* Versions of software, by the names of the table. The card's compute capability is "capability", and the number of
 * cards that one process uses is "cards". */
enum { GW_SOFTWARE_MAX = 64, GW_SOFTWARE_NAME_MAX = 32, GW_SOFTWARE_CARD_MAX = 96 };
typedef struct gw_software_item {
    char name[GW_SOFTWARE_NAME_MAX];
    gw_version version;
    char text[GW_VERSION_TEXT_MAX]; /* the version as it was written, without a suffix such as "+cu128" */
    bool is_early;                  /* a build from before the release, such as "2.9.0a0+git" or "2.9.0.dev20250812" */
} gw_software_item;
typedef struct gw_software {
    gw_software_item item[GW_SOFTWARE_MAX];
    size_t count;
    char card[GW_SOFTWARE_CARD_MAX]; /* name of a card; "": not known */
} gw_software;
/* Add a version by the name of a package, such as "torch" or "nvidia-cudnn-cu12", or by a name of the table. The first
 * version of a name stays. A version of 0 and a name that does not fit are ignored. */
void gw_software_add(gw_software *software, const char *package, gw_version version);
/* Like gw_software_add(), with a version such as "2.9.0+cu128", which adds CUDA 12.8, too. Text that is no version is
 * ignored. */
void gw_software_add_text(gw_software *software, const char *package, const char *version);
/* Set the card's name, and its compute capability if the name shows it and it is not known. The first card stays. */
void gw_software_add_card(gw_software *software, const char *name);
gw_version gw_software_version(const gw_software *software, const char *name); /* 0: not known */

/* Whether a row applies. UNKNOWN: its library has such a version and nothing contradicts the row, but a condition
 * cannot be checked, or the library is a build from before the release. */
typedef enum gw_applies { GW_APPLIES_NOT, GW_APPLIES_UNKNOWN, GW_APPLIES } gw_applies;
gw_applies gw_regression_applies(const gw_regression *row, const gw_software *software);
/* True if all words of one alternative of `words` (`seen` or `kernel` of a row) satisfy `has`. False for NULL. */
bool gw_regression_has(const char *words, bool (*has)(const void *context, const char *word, size_t bytes),
                       const void *context);
/* True if a condition of `likely` holds. */
bool gw_regression_is_likely(const gw_regression *row, const gw_software *software);
/* Append "PyTorch 2.9.0 computes conv3d in bf16 without cuDNN". */
void gw_regression_say(const gw_regression *row, const gw_software *software, gw_text *text);

/* Return the compute capability of a card by its name, such as "NVIDIA A100-SXM4-80GB". Returns 0 if it is unknown. */
gw_version gw_data_capability_named(const char *card);

#endif
