/* Write the steps and evaluations of a training as CSV: see csv.h. */
#include "csv.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static const char columns[] = "step,epoch,loss,accuracy,top5,rate,gradient_norm,images_per_s,loader_wait,scale,broken,"
                              "memory_bytes,temperature,test_loss,test_accuracy,test_top5\n";

bool csv_is_path(const char *path)
{
    size_t bytes = strlen(path);
    return bytes > 4 && strcmp(path + bytes - 4, ".csv") == 0;
}

/* Return the size of the file up to its last line end; 0 if there is none. */
static off_t complete_bytes(FILE *file)
{
    char piece[4096];
    off_t at = 0, complete = 0;
    size_t count;
    rewind(file);
    while ((count = fread(piece, 1, sizeof piece, file)) > 0) {
        const char *end = memrchr(piece, '\n', count);
        if (end != NULL)
            complete = at + (end - piece) + 1;
        at += (off_t)count;
    }
    return complete;
}

static bool begin(FILE *file, const char *path, struct reason *reason)
{
    char first[sizeof columns];
    rewind(file);
    size_t count = fread(first, 1, sizeof columns - 1, file);
    if (memcmp(first, columns, count) != 0) /* before the file is changed; a killed run may have written only a part */
        return because(reason, "%s: line 1: the columns are not those of this program", path);
    off_t complete = complete_bytes(file);
    if (ferror(file) || ftruncate(fileno(file), complete) != 0)
        return because(reason, "%s: %s", path, strerror(errno));
    fseek(file, 0, SEEK_END);
    if (complete == 0)
        fputs(columns, file);
    return fflush(file) == 0 || because(reason, "%s: %s", path, strerror(errno));
}

bool csv_open(const char *path, FILE **ret_file, struct reason *reason)
{
    FILE *file = fopen(path, "a+e");
    if (file == NULL)
        return because(reason, "%s: %s", path, strerror(errno));
    if (!begin(file, path, reason)) {
        fclose(file);
        return false;
    }
    *ret_file = file;
    return true;
}

static const char *known(double number, char out[32])
{
    *out = '\0';
    if (!(number < 0)) /* an infinite loss and a NaN are written as inf and nan */
        snprintf(out, 32, "%.12g", number);
    return out;
}

void csv_step(FILE *file, const struct step_report *step, const struct backend_watch *watch)
{
    char texts[10][32];
    fprintf(file, "%" PRIu64 ",%" PRIu64 ",%s,%s,%s,%s,%s,%s,%s,%s,%d,%s,%s,,,\n", step->step, step->epoch,
            known(step->loss, texts[0]), known(step->accuracy, texts[1]), known(step->top, texts[2]),
            known(step->rate, texts[3]), known(step->norm, texts[4]), known(step->images_per_s, texts[5]),
            known(step->loader_wait, texts[9]), known(step->scale, texts[6]), step->is_broken,
            known((double)watch->own_bytes, texts[7]), known(watch->temperature, texts[8]));
    fflush(file);
}

void csv_evaluation(FILE *file, const struct evaluation_report *evaluation)
{
    char texts[3][32];
    fprintf(file, "%" PRIu64 ",,,,,,,,,,,,,%s,%s,%s\n", evaluation->step, known(evaluation->loss, texts[0]),
            known(evaluation->accuracy, texts[1]), known(evaluation->top, texts[2]));
    fflush(file);
}
