/* Mask secrets in command lines, environments and quoted text. A secret is recognised by the name in front of it or by
 * its own form. */
#include "gw_mask.h"
#include "gw_text.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* ---- names ---- */

static bool equals(const char *word, size_t bytes, const char *wanted)
{
    return strlen(wanted) == bytes && strncasecmp(word, wanted, bytes) == 0;
}

static bool ends_in(const char *word, size_t bytes, const char *end)
{
    size_t wanted = strlen(end);
    return bytes >= wanted && strncasecmp(word + bytes - wanted, end, wanted) == 0;
}

typedef enum name_kind {
    NAME_OPEN,
    NAME_KEY,      /* the value may be a secret: for example, "key" may mean an API key or a key of a dictionary */
    NAME_PASSWORD, /* the value is a secret in any form */
} name_kind;

static name_kind kind_of_word(const char *word, size_t bytes)
{
    /* compared with the end of a word, so that --tokenizer, --max-tokens and --keep are not masked */
    static const char *const key_ends[] = {"token", "key", "secret", "credential", "credentials", "jwt", "signature"};
    static const char *const password_ends[] = {"password", "passwd", "passphrase", "pwd"};
    /* compared with the whole word, so that --compass, --path and --author are not masked */
    static const char *const keys[] = {"auth", "authorization", "pat", "cred", "creds", "sig", "bearer", "apikey"};
    static const char *const passwords[] = {"pass", "pw"};
    for (size_t i = 0; i < sizeof password_ends / sizeof password_ends[0]; i++)
        if (ends_in(word, bytes, password_ends[i]))
            return NAME_PASSWORD;
    for (size_t i = 0; i < sizeof passwords / sizeof passwords[0]; i++)
        if (equals(word, bytes, passwords[i]))
            return NAME_PASSWORD;
    for (size_t i = 0; i < sizeof key_ends / sizeof key_ends[0]; i++)
        if (ends_in(word, bytes, key_ends[i]))
            return NAME_KEY;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (equals(word, bytes, keys[i]))
            return NAME_KEY;
    return NAME_OPEN;
}

static name_kind kind_of_name(const char *name, size_t bytes)
{
    name_kind kind = NAME_OPEN;
    for (size_t at = 0; at < bytes;) {
        size_t word = 0;
        while (at + word < bytes && isalnum((unsigned char)name[at + word]))
            word++;
        name_kind one = word == 0 ? NAME_OPEN : kind_of_word(name + at, word);
        if (one > kind)
            kind = one;
        at += word > 0 ? word : 1;
    }
    return kind;
}

bool gw_name_is_secret(const char *name)
{
    return kind_of_name(name, strlen(name)) != NAME_OPEN;
}

/* ---- values ---- */

/* True for a word that looks random: at least 8 letters and digits that alternate several times between letters and
 * digits, or between upper and lower case. layer4.0.conv1.weight and v2-final do not. */
static bool is_opaque(const char *value, size_t bytes)
{
    enum { PART_MIN = 8, KINDS_MIN = 2, CASES_MIN = 3 };
    size_t part = 0, kinds = 0, cases = 0;
    for (size_t i = 0; i <= bytes; i++) {
        unsigned char c = i < bytes ? (unsigned char)value[i] : 0, before = i > 0 ? (unsigned char)value[i - 1] : 0;
        if (!isalnum(c)) {
            if (part >= PART_MIN && (kinds >= KINDS_MIN || cases >= CASES_MIN))
                return true;
            part = kinds = cases = 0;
            continue;
        }
        if (part > 0) {
            kinds += (isdigit(c) != 0) != (isdigit(before) != 0);
            cases += isalpha(c) && isalpha(before) && (isupper(c) != 0) != (isupper(before) != 0);
        }
        part++;
    }
    return false;
}

/* True for an address (0x1f) or a number. */
static bool is_number(const char *value, size_t bytes)
{
    bool hex = bytes > 2 && value[0] == '0' && (value[1] == 'x' || value[1] == 'X');
    for (size_t i = hex ? 2 : 0; i < bytes; i++)
        if (hex ? !isxdigit((unsigned char)value[i])
                : !isdigit((unsigned char)value[i]) && strchr(".,:-+", value[i]) == NULL)
            return false;
    return bytes > 0;
}

static bool is_no_secret(const char *value, size_t bytes)
{
    static const char *const words[] = {"none",     "null",    "nil",     "true",      "false",
                                        "required", "missing", "invalid", "incorrect", "wrong",
                                        "empty",    "not",     "is",      "the",       GW_MASKED};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (equals(value, bytes, words[i]))
            return true;
    return bytes == 0;
}

/* True if the word looks like a token of a well-known service. Such tokens begin with a fixed prefix. */
static bool is_known_token(const char *word, size_t bytes)
{
    static const char *const beginnings[] = {"ghp_",   "gho_", "ghu_", "ghs_",  "ghr_",  "github_pat_",
                                             "glpat-", "hf_",  "sk-",  "xoxb-", "xoxp-", "AKIA",
                                             "ASIA",   "AIza", "eyJ",  "npm_",  "pypi-"};
    enum { TOKEN_MIN = 16 };
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++) {
        size_t length = strlen(beginnings[i]);
        if (bytes >= TOKEN_MIN && strncmp(word, beginnings[i], length) == 0 && is_opaque(word + length, bytes - length))
            return true;
    }
    return false;
}

/* ---- text ---- */

static bool is_name_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* A value assigned to a name: its position and how it is written. */
typedef struct assignment {
    size_t value, bytes;
    bool is_quoted; /* the value is in quotes */
    bool is_tight;  /* assigned by '=' without blanks */
    bool is_json;   /* the name is in quotes and a colon follows */
} assignment;

static size_t value_bytes(const char *text, size_t at, size_t bytes, char quote)
{
    size_t end = at;
    while (end < bytes && text[end] != '\n' &&
           (quote != '\0' ? text[end] != quote : strchr(" \t;,&\"'<>)}]\\", text[end]) == NULL))
        end += quote != '\0' && text[end] == '\\' && end + 1 < bytes ? 2 : 1;
    return (end > bytes ? bytes : end) - at;
}

/* Find the value of the name that ends at `at`. Returns false if no value follows. */
static bool find_value(const char *text, size_t at, size_t bytes, assignment *ret)
{
    bool name_quoted = at < bytes && (text[at] == '"' || text[at] == '\'');
    /* In JSON inside a string, the name ends with a backslash and a quote. */
    size_t escaped = at + 1 < bytes && text[at] == '\\' && text[at + 1] == '"' ? 2 : 0;
    size_t next = at + (escaped != 0 ? escaped : name_quoted), sign;
    while (next < bytes && is_blank(text[next]))
        next++;
    sign = next;
    if (next >= bytes || (text[next] != '=' && text[next] != ':'))
        return false;
    char operator= text[next++];
    /* "==", "::" and "://" do not assign a value. */
    if (next < bytes && (text[next] == '=' || text[next] == ':' || text[next] == '/'))
        return false;
    while (next < bytes && is_blank(text[next]))
        next++;
    char quote = '\0';
    if (next + 1 < bytes && text[next] == '\\' && text[next + 1] == '"') {
        next += 2;
        ret->is_quoted = true;
    } else if (next < bytes && (text[next] == '"' || text[next] == '\'')) {
        quote = text[next++];
        ret->is_quoted = true;
    }
    ret->is_tight = operator== '=' && sign == at && !is_blank(text[sign + 1]);
    ret->is_json = (name_quoted || escaped != 0) && operator== ':';
    ret->value = next;
    ret->bytes = value_bytes(text, next, bytes, quote);
    return true;
}

/* If `value` begins with "Bearer ", "Basic " or a similar word that a secret follows, return the length of this word.
 * Otherwise return 0. */
static size_t scheme_bytes(const char *value, size_t bytes)
{
    static const char *const schemes[] = {"Bearer ", "Basic ", "Token ", "Digest "};
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
        if (bytes > strlen(schemes[i]) && strncasecmp(value, schemes[i], strlen(schemes[i])) == 0)
            return strlen(schemes[i]);
    return 0;
}

static bool hides(name_kind kind, const char *value, const assignment *found, bool is_argument)
{
    if (kind == NAME_OPEN || is_no_secret(value, found->bytes))
        return false;
    if (kind == NAME_PASSWORD)
        return found->is_tight || found->is_json || found->is_quoted || found->bytes >= 4;
    if (is_argument && (found->is_tight || (found->is_json && found->is_quoted)))
        return true;
    return is_opaque(value, found->bytes) && !is_number(value, found->bytes);
}

/* Find "user:password@" at `at`, the position after "scheme://". Returns the position of the last @, 0 if there is no
 * password. The password may contain @ and /. */
static size_t find_userinfo(const char *text, size_t at, size_t bytes, size_t *ret_password)
{
    size_t end = at, colon = 0, last = 0;
    while (end < bytes && !isspace((unsigned char)text[end]) && strchr("\"'<>`", text[end]) == NULL)
        end++;
    for (size_t i = at; i < end; i++) {
        if (colon == 0 && (text[i] == '/' || text[i] == '@'))
            return 0;
        if (colon == 0 && text[i] == ':')
            colon = i;
        if (i + 3 < end && gw_begins(text + i, "://"))
            break; /* the next URL begins here */
        if (text[i] == '@')
            last = i;
    }
    size_t digits = colon + 1;
    while (colon != 0 && digits < end && isdigit((unsigned char)text[digits]))
        digits++;
    /* There is no password, or there is only a port number, as in "host:80/". */
    if (colon == 0 || last <= colon || (digits < last && text[digits] == '/' && digits > colon + 1))
        return 0;
    *ret_password = colon + 1;
    return last;
}

typedef struct masker {
    gw_text *out;
    const char *text;
    size_t bytes, copied;
    bool is_argument;
} masker;

static void mask_range(masker *m, size_t from, size_t to)
{
    gw_text_add(m->out, m->text + m->copied, from - m->copied);
    gw_text_add_str(m->out, GW_MASKED);
    m->copied = to;
}

/* Mask the word at `at` if it is a secret. After a word like "password", "Bearer" or a URL's scheme, mask the secret
 * that follows. Returns the position to continue from. */
static size_t mask_word(masker *m, size_t at)
{
    assignment found = {0};
    size_t end = at, password;
    while (end < m->bytes && is_name_char(m->text[end]))
        end++;
    if (is_known_token(m->text + at, end - at)) {
        mask_range(m, at, end);
        return end;
    }
    size_t scheme = scheme_bytes(m->text + at, m->bytes - at);
    if (scheme > 0) {
        size_t credentials = value_bytes(m->text, at + scheme, m->bytes, '\0');
        if (is_opaque(m->text + at + scheme, credentials)) {
            mask_range(m, at + scheme, at + scheme + credentials);
            return m->copied;
        }
    }
    if (end + 3 < m->bytes && gw_begins(m->text + end, "://")) {
        size_t last = find_userinfo(m->text, end + 3, m->bytes, &password);
        if (last > 0)
            mask_range(m, password, last);
        return last > 0 ? last : end + 3;
    }
    name_kind kind = kind_of_name(m->text + at, end - at);
    if (kind == NAME_OPEN || !find_value(m->text, end, m->bytes, &found))
        return end;
    size_t skipped = scheme_bytes(m->text + found.value, m->bytes - found.value);
    if (skipped > 0) {
        found.value += skipped;
        found.bytes = value_bytes(m->text, found.value, m->bytes, '\0');
        found.is_tight = true;
        kind = NAME_PASSWORD;
    }
    if (!hides(kind, m->text + found.value, &found, m->is_argument))
        return end;
    mask_range(m, found.value, found.value + found.bytes);
    return m->copied;
}

static void mask(gw_text *out, const char *text, size_t bytes, bool is_argument)
{
    masker m = {.out = out, .text = text, .bytes = bytes, .is_argument = is_argument};
    for (size_t at = 0; at < bytes;)
        at = is_name_char(text[at]) ? mask_word(&m, at) : at + 1;
    gw_text_add(out, text + m.copied, bytes - m.copied);
}

void gw_mask_text(gw_text *out, const char *text, size_t bytes)
{
    mask(out, text, bytes, false);
}

/* ---- arguments ---- */

/* True if the argument is the value of the option before it, and that option's name suggests a secret. A password may
 * begin with one hyphen. Any other value with a hyphen is taken for the next option. */
static bool is_value_of(const char *before, const char *argument)
{
    const char *equals = strchr(before, '=');
    if (before[0] != '-' || equals != NULL || strchr(before, ' ') != NULL)
        return false;
    name_kind kind = kind_of_name(before, strlen(before));
    return kind == NAME_PASSWORD ? !gw_begins(argument, "--") : kind == NAME_KEY && argument[0] != '-';
}

/* True for -pVALUE, a password in database clients, sshpass and smbclient. In other programs, VALUE must look random,
 * unlike -progress and -p8080. */
static bool is_short_password(const char *program, const char *argument)
{
    static const char *const programs[] = {"mysql", "mariadb", "sshpass", "mongo", "smbclient"};
    const char *name = strrchr(program, '/') == NULL ? program : strrchr(program, '/') + 1;
    if (!gw_begins(argument, "-p") || argument[2] == '\0' || argument[2] == '-')
        return false;
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++)
        if (gw_begins(name, programs[i]))
            return true;
    return is_opaque(argument + 2, strlen(argument + 2));
}

void gw_mask_argument(gw_text *text, char *const *argv, int index)
{
    const char *argument = argv[index];
    if (index > 1 && is_value_of(argv[index - 1], argument)) {
        gw_text_add_str(text, GW_MASKED);
    } else if (index > 0 && is_short_password(argv[0], argument)) {
        gw_text_add_str(text, "-p" GW_MASKED);
    } else {
        mask(text, argument, strlen(argument), true);
    }
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
        if (gw_begins(name, beginnings[i]))
            return true;
    return false;
}
