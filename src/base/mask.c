/* Hides secrets in command lines and environments before they are recorded, by the words in their names. */
#include "gw_mask.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static bool word_ends_in(const char *word, size_t bytes, const char *end)
{
    size_t wanted = strlen(end);
    return bytes >= wanted && strncasecmp(word + bytes - wanted, end, wanted) == 0;
}

bool gw_name_is_secret(const char *name)
{
    /* ends of words, so that --tokenizer, --max-tokens and --keep stay readable */
    static const char *const ends[] = {"token",      "key",        "secret",      "password", "passwd",
                                       "passphrase", "credential", "credentials", "jwt",      "pwd"};
    while (*name != '\0') {
        size_t bytes = 0;
        while (isalnum((unsigned char)name[bytes]))
            bytes++;
        for (size_t i = 0; bytes > 0 && i < sizeof ends / sizeof ends[0]; i++)
            if (word_ends_in(name, bytes, ends[i]))
                return true;
        name += bytes > 0 ? bytes : 1;
    }
    return false;
}

static bool name_before_is_secret(const char *argument, const char *end)
{
    char name[128];
    size_t bytes = (size_t)(end - argument);
    if (bytes >= sizeof name)
        return false; /* this is no option's name, but a sentence with an equals sign */
    memcpy(name, argument, bytes);
    name[bytes] = '\0';
    return strchr(name, ' ') == NULL && gw_name_is_secret(name);
}

/* scheme://user:password@host: mask the password. */
static void add_url_masked(gw_text *text, const char *argument)
{
    const char *scheme = strstr(argument, "://");
    const char *at = scheme == NULL ? NULL : strchr(scheme + 3, '@');
    const char *colon = scheme == NULL ? NULL : strchr(scheme + 3, ':');
    const char *slash = scheme == NULL ? NULL : strchr(scheme + 3, '/');
    if (at == NULL || colon == NULL || colon > at || (slash != NULL && slash < at)) {
        gw_text_add_str(text, argument);
        return;
    }
    gw_text_add(text, argument, (size_t)(colon + 1 - argument));
    gw_text_add_str(text, GW_MASKED);
    gw_text_add_str(text, at);
}

void gw_mask_argument(gw_text *text, char *const *argv, int index)
{
    const char *argument = argv[index];
    const char *equals = strchr(argument, '=');
    if (equals != NULL && name_before_is_secret(argument, equals)) {
        gw_text_add(text, argument, (size_t)(equals + 1 - argument));
        gw_text_add_str(text, GW_MASKED);
        return;
    }
    const char *before = index > 0 ? argv[index - 1] : "";
    if (index > 1 && before[0] == '-' && strchr(before, '=') == NULL && argument[0] != '-' &&
        name_before_is_secret(before, before + strlen(before))) {
        gw_text_add_str(text, GW_MASKED);
        return;
    }
    add_url_masked(text, argument);
}

bool gw_environment_is_recorded(const char *name)
{
    static const char *const beginnings[] = {"CUDA_",  "NVIDIA_", "CUDNN_",        "CUBLAS_", "NCCL_",  "PYTORCH_",
                                             "TORCH_", "XLA_",    "JAX_",          "TF_",     "KERAS_", "SLURM_",
                                             "OMPI_",  "PMI_",    "TORCHELASTIC_", "GPUWHY_"};
    static const char *const whole[] = {"LD_LIBRARY_PATH", "LD_PRELOAD",   "OMP_NUM_THREADS",  "RANK",
                                        "WORLD_SIZE",      "LOCAL_RANK",   "LOCAL_WORLD_SIZE", "MASTER_ADDR",
                                        "MASTER_PORT",     "CONDA_PREFIX", "VIRTUAL_ENV",      "MALLOC_ARENA_MAX"};
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++)
        if (strcmp(name, whole[i]) == 0)
            return true;
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++)
        if (strncmp(name, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return false;
}
