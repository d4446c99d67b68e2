/* Check that a training does not write two of its results to the same file, or over a file that it reads. */
#ifndef TRAINER_OUTPUTS_H
#define TRAINER_OUTPUTS_H

#include "trainer.h"

/* A file that an option names. */
struct output {
    const char *what;    /* for messages, such as "--log" */
    const char *path;    /* NULL: not given */
    bool is_input;       /* only read; two inputs may be the same file */
    bool is_replaced;    /* written to path.new, which is then renamed (file_replace()) */
    const char *instead; /* the output, by its `what`, that may replace this input; NULL: none */
};

/* True if all outputs are different files, and none is an input. Other spellings of a path, links to a file, and
 * temporary files count. A link to a file that does not exist yet is not followed. */
bool outputs_differ(const struct output *outputs, size_t count, struct reason *reason);

#endif
