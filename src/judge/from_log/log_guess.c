/* Guesses the possible causes of a message that gpuwhy does not recognise, from its words (log_guess.def). */
#include "gwi_log.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

typedef struct guess {
    const char *words, *causes;
} guess;

static const guess guesses[] = {
#define GWI_GUESS(words, causes) {words, causes},
#include "log_guess.def"
#undef GWI_GUESS
};

static bool is_letter(char c)
{
    return isalpha((unsigned char)c) != 0;
}

/* True if the text contains `word`, ignoring case, as a whole word or with an s at its end. "gpu" is found in "gpu0",
 * but not in "gpusim". */
static bool has_word(const char *text, const char *word)
{
    size_t bytes = strlen(word);
    for (const char *at = strcasestr(text, word); at != NULL; at = strcasestr(at + 1, word)) {
        const char *end = at + bytes;
        bool begins = at == text || !is_letter(at[-1]) || !is_letter(word[0]);
        end += *end == 's';
        if (begins && (!is_letter(*end) || !is_letter(word[bytes - 1])))
            return true;
    }
    return false;
}

/* True if the text contains one of the words of a list such as "gpu|no_cuda". The list ends at `end`. */
static bool has_one_of(const char *text, const char *list, const char *end)
{
    char word[48];
    while (list < end) {
        size_t bytes = strcspn(list, "| ");
        snprintf(word, sizeof word, "%.*s", (int)bytes, list);
        for (char *at = word; *at != '\0'; at++)
            *at = *at == '_' && at[1] != '\0' ? ' ' : *at;
        if (has_word(text, word))
            return true;
        list += bytes + 1;
    }
    return false;
}

static bool fits(const char *text, const char *words)
{
    while (*words != '\0') {
        const char *end = words + strcspn(words, " ");
        if (!has_one_of(text, words, end))
            return false;
        words = end + (*end == ' ');
    }
    return true;
}

const char *gwi_log_guess(const char *text)
{
    for (size_t i = 0; i < sizeof guesses / sizeof guesses[0]; i++) {
        if (fits(text, guesses[i].words))
            return guesses[i].causes;
    }
    return NULL;
}
