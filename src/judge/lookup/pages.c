/* Finds the page that answers a question in plain words, such as "Why does my CNN fail on the second run?". */
#include "gwi_ask.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* The pages (topics of `gpuwhy help`), and the beginnings of words that a question about each of them has, with
 * weights. */
static const struct {
    gwi_page_found page;
    const char *words;
} pages[] = {{{"gpuwhy help second-run", "why a second run, cell or model fails after the first one worked"},
              "second:2 2nd:2 again:2 twice:2 rerun:4 run:2 cell:1 fold:2 fit:1 first:1 notebook:1 re-run:4 restart:1 "
              "consecutive:2"},
             {{"gpuwhy help long-training", "why a program fails after hours of training"},
              "after:1 long:2 hour:3 day:2 night:3 overnight:3 extended:2 epoch:1 random:1 crash:1 dies:1 train:1 "
              "grow:2 eventual:2 slowly:2 leak:3"},
             {{"gpuwhy help second-call", "why the second call fails with a CUDA error"},
              "second:2 2nd:2 again:2 twice:2 call:3 time:1 function:1 reset:3 invo:2 cudadevicereset:4"},
             {{"gpuwhy help cudnn", "why cuDNN cannot allocate memory or create a handle"},
              "cudnn:2 alloc:2 memory:1 initial:2 handle:2 convolution:2 algorithm:2 workspace:2"},
             {{"gpuwhy help kernel-errors", "what errors of kernels mean, and which line is at fault"},
              "kernel:3 assert:3 illegal:3 misalign:3 launch:1 access:1 error:1 train:1 address:1 blocking:2"}};
enum { PAGE_COUNT = sizeof pages / sizeof pages[0], SCORE_MIN = 4 };

static bool is_in(const char *text, const char *word, size_t bytes)
{
    for (const char *at = text; *at != '\0'; at++) {
        bool begins = at == text || !isalnum((unsigned char)at[-1]);
        if (begins && strncasecmp(at, word, bytes) == 0)
            return true;
    }
    return false;
}

/* Add up the weights of the words that the question has. */
static int score_of(const char *question, const char *words)
{
    int score = 0;
    for (const char *word = words; *word != '\0';) {
        size_t bytes = strcspn(word, ":");
        if (is_in(question, word, bytes))
            score += word[bytes + 1] - '0';
        word += strcspn(word, " ");
        word += *word == ' ';
    }
    return score;
}

const gwi_page_found *gwi_page_for(const char *question)
{
    const gwi_page_found *best = NULL;
    int most = SCORE_MIN - 1;
    for (size_t i = 0; i < PAGE_COUNT; i++) {
        int score = score_of(question, pages[i].words);
        if (score > most)
            best = &pages[i].page;
        most = score > most ? score : most;
    }
    return best;
}
