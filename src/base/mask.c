/* Mask secrets in command lines, environments and quoted text. A secret is recognised by the name in front of it or by
 * its own form. */
#define _GNU_SOURCE
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
    NAME_COOKIE,   /* the value is a list of names and values, as in "Cookie: id=a1b2; theme=dark" */
    NAME_PASSWORD, /* the value is a secret in any form */
} name_kind;

static name_kind kind_of_word(const char *word, size_t bytes)
{
    /* compared with the end of a word, so that --tokenizer, --max-tokens and --keep are not masked */
    static const char *const key_ends[] = {"token", "key", "secret", "credential", "credentials", "jwt", "signature"};
    static const char *const password_ends[] = {"password", "passwd", "passphrase", "passcode", "pwd"};
    /* compared with the whole word, so that --compass, --path and --author are not masked */
    static const char *const keys[] = {"auth", "authorization", "pat", "cred", "creds", "sig", "bearer", "apikey"};
    static const char *const passwords[] = {"pass", "pw", "storepass", "keypass", "mnemonic"};
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
    return equals(word, bytes, "cookie") ? NAME_COOKIE : NAME_OPEN;
}

static name_kind kind_of_name(const char *name, size_t bytes)
{
    /* compared with the whole name, so that --pin-memory and "pin: 4" are not masked */
    static const char *const passwords[] = {"--pin",         "--otp",           "--totp",        "--mfa-code",
                                            "--otp-code",    "--2fa",           "--mfa",         "--sas",
                                            "--seed-phrase", "--recovery-code", "--backup-code", "--session-id"};
    name_kind kind = NAME_OPEN;
    for (size_t i = 0; i < sizeof passwords / sizeof passwords[0]; i++)
        if (equals(name, bytes, passwords[i]))
            return NAME_PASSWORD;
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
    static const char *const beginnings[] = {"ghp_",      "gho_",     "ghu_",
                                             "ghs_",      "ghr_",     "github_pat_",
                                             "glpat-",    "hf_",      "sk-",
                                             "xoxb-",     "xoxp-",    "AKIA",
                                             "ASIA",      "AIza",     "eyJ",
                                             "npm_",      "pypi-",    "nvapi-",
                                             "sk_live_",  "rk_live_", "sk_test_",
                                             "xapp-",     "xoxa-",    "xoxs-",
                                             "dckr_pat_", "gsk_",     "r8_",
                                             "ya29.",     "SG.",      "glrt-",
                                             "hvs.",      "hvb.",     "dapi",
                                             "xai-",      "pplx-",    "csk-",
                                             "fw_",       "tgp_v1_",  "rpa_",
                                             "wandb_v1_", "local-",   "ATATT",
                                             "ATCTT",     "CFPAT-",   "lin_api_",
                                             "ntn_",      "figd_",    "whsec_",
                                             "shpat_",    "shpss_",   "sq0csp-",
                                             "bkua_",     "glsa_",    "dop_v1_",
                                             "doo_v1_",   "tskey-",   "AGE-SECRET-KEY-"};
    enum { TOKEN_MIN = 16 };
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++) {
        size_t length = strlen(beginnings[i]);
        if (bytes >= TOKEN_MIN && strncmp(word, beginnings[i], length) == 0 && is_opaque(word + length, bytes - length))
            return true;
    }
    return false;
}

/* ---- text ---- */

/* How far a secret and a command may reach: without a limit, the time could grow with the square of a hostile text. */
enum { SECRET_BYTES_MAX = 4096, COMMAND_BYTES_MAX = 512 };

/* Return the end of the text, or of the longest secret at `at`. */
static size_t reach(size_t at, size_t bytes)
{
    return bytes - at < SECRET_BYTES_MAX ? bytes : at + SECRET_BYTES_MAX;
}

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
    bool is_json;   /* the name is in quotes, and a colon follows, or the name is an index */
    char quote;     /* that encloses the value; 0: none, or an escaped one */
} assignment;

static size_t value_bytes(const char *text, size_t at, size_t bytes, char quote)
{
    size_t end = at;
    while (end < bytes && text[end] != '\n' &&
           (quote != '\0' ? text[end] != quote : strchr(" \t;,&\"'<>)}]\\", text[end]) == NULL))
        end += quote != '\0' && text[end] == '\\' && end + 1 < bytes ? 2 : 1;
    return (end > bytes ? bytes : end) - at;
}

/* Lists of variables have the name and the value in two fields, as in `name: TOKEN`, `value: abc` (Kubernetes) or
 * <add key="Token" value="abc"/>. If a field "value" follows the name that ends at `at`, return the end of the word
 * "value", otherwise `at`. */
static size_t skip_to_value(const char *text, size_t at, size_t bytes)
{
    static const char wanted[] = "value";
    size_t next = at;
    while (next < bytes && strchr("\\\"', \t\r\n", text[next]) != NULL && text[next] != '\0')
        next++;
    size_t length = sizeof wanted - 1;
    return next > at && bytes - next > length && strncasecmp(text + next, wanted, length) == 0 &&
                   !is_name_char(text[next + length])
               ? next + length
               : at;
}

/* Find the value of the name that ends at `at`. Returns false if no value follows. */
static bool find_value(const char *text, size_t at, size_t bytes, assignment *ret)
{
    if (at < bytes && text[at] == '>') { /* an element of XML: <password>abc</password> */
        *ret = (assignment){.value = at + 1, .bytes = value_bytes(text, at + 1, bytes, '\0'), .is_quoted = true};
        size_t end = ret->value + ret->bytes;
        return end + 1 < bytes && text[end] == '<' && text[end + 1] == '/';
    }
    at = skip_to_value(text, at, bytes);
    bool name_quoted = at < bytes && (text[at] == '"' || text[at] == '\'');
    /* In JSON inside a string, the name ends with a backslash and a quote. */
    size_t escaped = at + 1 < bytes && text[at] == '\\' && text[at + 1] == '"' ? 2 : 0;
    size_t next = at + (escaped != 0 ? escaped : name_quoted), sign;
    bool is_index = name_quoted && next < bytes && text[next] == ']'; /* os.environ["TOKEN"] = .. */
    next += is_index;
    while (next < bytes && is_blank(text[next]))
        next++;
    sign = next;
    bool is_escaped = bytes - next >= 3 && strncasecmp(text + next, "%3D", 3) == 0; /* in a URL */
    if (next >= bytes || (text[next] != '=' && text[next] != ':' && !is_escaped))
        return false;
    char operator= is_escaped ? '=' : text[next];
    next += is_escaped ? 3 : 1;
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
    ret->is_tight = operator== '=' && sign == at && sign + 1<bytes && !is_blank(text[sign + 1]);
    ret->is_json = (name_quoted || escaped != 0) && (operator== ':' || is_index);
    ret->quote = quote;
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
    if (kind == NAME_COOKIE)
        return (is_argument && found->is_tight) || memchr(value, '=', found->bytes) != NULL ||
               (is_opaque(value, found->bytes) && !is_number(value, found->bytes));
    if (kind == NAME_PASSWORD)
        return found->is_tight || found->is_json || found->is_quoted || found->bytes >= 4;
    if (is_argument && (found->is_tight || (found->is_json && found->is_quoted)))
        return true;
    return is_opaque(value, found->bytes) && !is_number(value, found->bytes);
}

/* Find "user:password@" or "token@" at `at`, the position after "scheme://". Returns the position of the last @, 0 if
 * there is no secret. The password may contain @ and /. */
static size_t find_userinfo(const char *text, size_t at, size_t bytes, size_t *ret_password)
{
    size_t end = at, colon = 0, last = 0;
    bytes = reach(at, bytes);
    while (end < bytes && !isspace((unsigned char)text[end]) && strchr("\"'<>`", text[end]) == NULL)
        end++;
    for (size_t i = at; i < end; i++) {
        if (colon == 0 && (text[i] == '/' || text[i] == '@')) {
            *ret_password = at;
            return text[i] == '@' && is_opaque(text + at, i - at) ? i : 0;
        }
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

/* ---- secrets without a name: paths of webhooks, passwords after a user's name, keys of a login ---- */

/* True if `start` is at this position. The text has no final zero. */
static bool is_at(const masker *m, size_t at, const char *start)
{
    size_t bytes = strlen(start);
    return at <= m->bytes && m->bytes - at >= bytes && memcmp(m->text + at, start, bytes) == 0;
}

/* Return the position of `wanted` between two positions, or `to`. */
static size_t find(const masker *m, size_t from, size_t to, const char *wanted)
{
    const char *found = from < to ? memmem(m->text + from, to - from, wanted, strlen(wanted)) : NULL;
    return found == NULL ? to : (size_t)(found - m->text);
}

static size_t word_bytes(const masker *m, size_t at)
{
    size_t end = at;
    while (end < m->bytes && is_name_char(m->text[end]))
        end++;
    return end - at;
}

static size_t path_end(const masker *m, size_t at)
{
    size_t end = reach(at, m->bytes);
    while (at < end && !isspace((unsigned char)m->text[at]) && strchr("\"'<>`?#()", m->text[at]) == NULL)
        at++;
    return at;
}

/* True for the path after /services/ of Slack: T0123/B0123/secret. */
static bool is_services_path(const char *path, size_t bytes)
{
    const char *slash = memchr(path, '/', bytes);
    return bytes > 0 && path[0] == 'T' && slash != NULL && slash + 1 < path + bytes && slash[1] == 'B' &&
           memchr(slash + 1, '/', bytes - (size_t)(slash + 1 - path)) != NULL;
}

/* The path of a webhook's URL is its secret: https://hooks.slack.com/services/.., https://discord.com/api/webhooks/..,
 * https://x.webhook.office.com/webhookb2/... Errors often print the path alone. The word from `at` to `end` is a host
 * or a part of a path. Returns the position to continue from; 0: not a webhook. */
static size_t mask_webhook(masker *m, size_t at, size_t end)
{
    const char *word = m->text + at;
    bool is_host = at >= 3 && (is_at(m, at - 3, "://") || word[-1] == '@');
    bool is_part = at >= 1 && word[-1] == '/' && !is_host;
    bool is_hook_host = is_host && (is_at(m, at, "hooks.") || find(m, at, end, ".webhook.") < end);
    size_t from = end + 1;
    if ((!is_host && !is_part) || end >= m->bytes)
        return 0;
    size_t to = path_end(m, from);
    if (is_part && is_at(m, at, "bot") && m->text[end] == ':' && isdigit((unsigned char)word[3]))
        to = from + word_bytes(m, from); /* https://api.telegram.org/bot123:SECRET/sendMessage */
    else if (m->text[end] != '/')
        return 0;
    else if (is_part && !(end - at >= 7 && strncasecmp(word, "webhook", 7) == 0) &&
             !(equals(word, end - at, "services") && is_services_path(m->text + from, to - from)))
        return 0;
    else if (is_host && !is_hook_host)
        return 0;
    if (from >= to || is_no_secret(m->text + from, to - from) ||
        (!is_hook_host && !is_opaque(m->text + from, to - from)))
        return 0;
    mask_range(m, from, to);
    return to;
}

/* True for options whose value is "name:password". */
static bool is_user_option(const char *word, size_t bytes)
{
    static const char *const options[] = {"-u", "--user", "--proxy-user", "--userpwd", "-U", "--login"};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (strlen(options[i]) == bytes && memcmp(word, options[i], bytes) == 0)
            return true;
    return false;
}

enum { KEY_BYTES_MIN = 16 }; /* of a key after `login`, as in `wandb login KEY` */

/* Return the offset of the password in "name:password"; 0 if it is none: "1000:1000", "localhost:8080", a URL. */
static size_t find_password(const char *value, size_t bytes)
{
    enum { PORT_DIGITS_MAX = 5 };
    const char *colon = memchr(value, ':', bytes);
    size_t name = colon == NULL ? 0 : (size_t)(colon - value), from = name + 1;
    for (size_t i = 0; i < name; i++)
        if (!is_name_char(value[i]) && strchr("@\\+", value[i]) == NULL)
            return 0;
    if (name == 0 || from >= bytes || value[from] == '/' || value[from] == ':' ||
        is_no_secret(value + from, bytes - from))
        return 0;
    bool is_host = memchr(value, '.', name) != NULL || equals(value, name, "localhost");
    bool is_port = is_number(value + from, bytes - from) && bytes - from <= PORT_DIGITS_MAX;
    return is_number(value, name) || (is_host && is_port) ? 0 : from;
}

/* Mask the value of an option that is separated by a blank or, for name:password, by '='. The option is the word from
 * `at` to `end`. Returns the position to continue from; 0: there is no secret. */
static size_t mask_option(masker *m, size_t at, size_t end)
{
    bool is_user = is_user_option(m->text + at, end - at), is_login = equals(m->text + at, end - at, "login");
    name_kind kind = is_at(m, at, "--") ? kind_of_name(m->text + at, end - at) : NAME_OPEN;
    size_t next = end;
    if (is_user && next < m->bytes && m->text[next] == '=')
        next++;
    while (next < m->bytes && is_blank(m->text[next]))
        next++;
    if (next == end || next >= m->bytes || (!is_user && !is_login && kind == NAME_OPEN))
        return 0;
    char quote = m->text[next] == '"' || m->text[next] == '\'' ? m->text[next++] : '\0';
    size_t bytes = value_bytes(m->text, next, reach(next, m->bytes), quote), skipped = 0;
    const char *value = m->text + next;
    if (is_user)
        skipped = find_password(value, bytes);
    if (bytes == 0 || value[0] == '-' || is_no_secret(value, bytes) || (is_user && skipped == 0) ||
        (is_login && (bytes < KEY_BYTES_MIN || !is_opaque(value, bytes))) ||
        (!is_user && !is_login && !m->is_argument && (!is_opaque(value, bytes) || is_number(value, bytes))))
        return 0;
    mask_range(m, next + skipped, next + bytes);
    return m->copied;
}

/* Mask the password after "sshpass -p" or "mysql .. -p" in the command of a shell. The option is the word from `at` to
 * `end`. Returns the position to continue from; 0: there is no such password. */
static size_t mask_short_option(masker *m, size_t at, size_t end)
{
    static const char *const programs[] = {"sshpass ", "mysql ", "mariadb ", "mysqldump "};
    size_t begin = at, from = at + 2;
    if (!is_at(m, at, "-p") || at == 0 || !is_blank(m->text[at - 1]))
        return 0;
    while (begin > 0 && at - begin < COMMAND_BYTES_MAX && strchr("\n;&|(`", m->text[begin - 1]) == NULL)
        begin--;
    bool is_found = false;
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++)
        is_found = is_found || find(m, begin, at, programs[i]) < at;
    if (from == end && find(m, begin, at, programs[0]) < at) /* only sshpass takes the password in the next word */
        while (from < m->bytes && is_blank(m->text[from]))
            from++;
    char quote = from < m->bytes && (m->text[from] == '"' || m->text[from] == '\'') ? m->text[from++] : '\0';
    size_t bytes = value_bytes(m->text, from, reach(from, m->bytes), quote);
    if (!is_found || bytes == 0 || is_no_secret(m->text + from, bytes))
        return 0;
    mask_range(m, from, from + bytes);
    return m->copied;
}

/* Mask a private key in the format of PEM or PGP from its first line to its last. Returns the position after it; 0:
 * none. */
static size_t mask_private_key(masker *m, size_t at)
{
    static const char begin[] = "-----BEGIN ", kind[] = "PRIVATE KEY", block[] = " BLOCK", dashes[] = "-----";
    enum { KIND_BYTES_MAX = 48 };
    if (!is_at(m, at, begin))
        return 0;
    size_t most = m->bytes - at < KIND_BYTES_MAX ? m->bytes : at + KIND_BYTES_MAX;
    size_t from = find(m, at, most, kind);
    if (from == most)
        return 0;
    from += strlen(kind);
    from += is_at(m, from, block) ? strlen(block) : 0; /* of PGP */
    if (!is_at(m, from, dashes))
        return 0;
    from += strlen(dashes);
    size_t to = find(m, from, m->bytes, "-----END ");
    if (to > from && !is_no_secret(m->text + from, to - from))
        mask_range(m, from, to);
    return to;
}

/* Mask what `echo` writes for a program that reads its password from standard input. Returns the position to continue
 * from; 0: there is no such program. */
static size_t mask_echoed(masker *m, size_t at, size_t end)
{
    size_t most = m->bytes - end < COMMAND_BYTES_MAX ? m->bytes : end + COMMAND_BYTES_MAX;
    bool is_echo = equals(m->text + at, end - at, "echo") || equals(m->text + at, end - at, "printf");
    size_t pipe = is_echo ? find(m, end, most, "|") : most;
    if (pipe == most || find(m, pipe, find(m, pipe, most, "\n"), "--password-stdin") == find(m, pipe, most, "\n"))
        return 0;
    while (end < pipe && is_blank(m->text[end]))
        end++;
    if (end == pipe || is_no_secret(m->text + end, pipe - end))
        return 0;
    mask_range(m, end, pipe);
    return pipe;
}

/* Mask a password in a sentence: "the password is abc", "password for bob: abc", "machine h password abc" (netrc).
 * There, only a value that looks random is masked, or one word in quotes: smtp password "abc". The word "password" ends
 * at `end`. Returns the position to continue from; 0: no password follows. */
static size_t mask_in_sentence(masker *m, size_t end)
{
    enum { WORDS_MAX = 4 };
    size_t first = end;
    while (first < m->bytes && is_blank(m->text[first]))
        first++;
    if (first > end && first < m->bytes && (m->text[first] == '"' || m->text[first] == '\'')) {
        size_t bytes = word_bytes(m, first + 1), last = first + 1 + bytes;
        if (bytes > 0 && last < m->bytes && m->text[last] == m->text[first] &&
            !is_no_secret(m->text + first + 1, bytes)) {
            mask_range(m, first + 1, last);
            return m->copied;
        }
    }
    for (int words = 0; words < WORDS_MAX; words++) {
        size_t from = end;
        while (from < m->bytes && (is_blank(m->text[from]) || m->text[from] == ':'))
            from++;
        end = from + word_bytes(m, from);
        if (end == from)
            return 0;
        if (is_opaque(m->text + from, end - from) && !is_number(m->text + from, end - from)) {
            mask_range(m, from, from + value_bytes(m->text, from, reach(from, m->bytes), '\0'));
            return m->copied;
        }
    }
    return 0;
}

/* ---- words ---- */

/* Mask what is a secret by its own form or by the word in front of it, without an assignment. The word is from `at` to
 * `end`. Returns the position to continue from; 0: it is not one. */
static size_t mask_by_form(masker *m, size_t at, size_t end)
{
    size_t password, next;
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
    next = mask_private_key(m, at);
    if (next == 0)
        next = mask_webhook(m, at, end);
    if (next == 0)
        next = mask_short_option(m, at, end);
    if (next == 0)
        next = mask_echoed(m, at, end);
    return next != 0 ? next : mask_option(m, at, end);
}

/* Mask the word at `at` if it is a secret. After a word like "password", "Bearer" or a URL's scheme, mask the secret
 * that follows. Returns the position to continue from. */
static size_t mask_word(masker *m, size_t at)
{
    assignment found = {0};
    size_t end = at + word_bytes(m, at), next = mask_by_form(m, at, end);
    if (next != 0)
        return next;
    name_kind kind = kind_of_name(m->text + at, end - at);
    bool is_in_query = at > 0 && (m->text[at - 1] == '?' || m->text[at - 1] == '&');
    if (is_in_query && equals(m->text + at, end - at, "code"))
        kind = NAME_KEY; /* what OAuth exchanges for a token: ?code=abc&state=1 */
    if (kind == NAME_OPEN || !find_value(m->text, end, m->bytes, &found)) {
        next = kind == NAME_PASSWORD ? mask_in_sentence(m, end) : 0;
        return next != 0 ? next : end;
    }
    size_t skipped = scheme_bytes(m->text + found.value, m->bytes - found.value);
    bool is_digest = skipped > 0 && strncasecmp(m->text + found.value, "Digest", strlen("Digest")) == 0;
    if (skipped > 0) {
        found.value += skipped;
        found.bytes = value_bytes(m->text, found.value, m->bytes, '\0');
        found.is_tight = true;
        kind = NAME_PASSWORD;
    }
    if (!hides(kind, m->text + found.value, &found, m->is_argument))
        return end;
    /* Cookies are separated by "; ", up to the end of the line or of the string that it stands in. The fields of a
     * digest are separated by commas, and have quotes. */
    const char *ends = is_digest ? "\n" : "\n\"'";
    if ((kind == NAME_COOKIE || is_digest) && found.quote == '\0')
        while (found.value + found.bytes < m->bytes && strchr(ends, m->text[found.value + found.bytes]) == NULL)
            found.bytes++;
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
    return kind == NAME_PASSWORD ? !gw_begins(argument, "--") : kind != NAME_OPEN && argument[0] != '-';
}

/* True if one of the words before `index` is a program whose name begins with one of these. */
static bool is_after(char *const *argv, int index, const char *const *programs, size_t count)
{
    for (int k = 0; k < index; k++)
        for (size_t i = 0; i < count; i++)
            if (gw_begins(gw_path_last(argv[k]), programs[i]))
                return true;
    return false;
}

/* True for -pVALUE, a password in database clients, sshpass and smbclient. In other programs, VALUE must look random,
 * unlike -progress and -p8080. */
static bool is_short_password(char *const *argv, int index)
{
    static const char *const programs[] = {"mysql", "mariadb", "sshpass", "mongo", "smbclient"};
    const char *argument = argv[index];
    if (!gw_begins(argument, "-p") || argument[2] == '\0' || argument[2] == '-')
        return false;
    return is_after(argv, index, programs, sizeof programs / sizeof programs[0]) ||
           is_opaque(argument + 2, strlen(argument + 2));
}

/* True for the word after a short option that takes a password in some programs only. */
static bool is_after_short_option(char *const *argv, int index)
{
    static const struct {
        const char *option, *program;
    } rows[] = {{"-p", "sshpass"},   {"-p", "mongo"}, {"-p", "login"}, /* docker login, helm registry login */
                {"-a", "redis-cli"}, {"-b", "curl"},                   /* a cookie */
                {"-w", "ldap"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(argv[index - 1], rows[i].option) == 0 && is_after(argv, index - 1, &rows[i].program, 1))
            return true;
    return false;
}

/* Return the offset of the password in an argument such as -ubob:secret of curl, or bob:secret after -u; 0: none. */
static size_t password_offset(char *const *argv, int index)
{
    static const char *const programs[] = {"curl", "wget"};
    const char *argument = argv[index];
    size_t bytes = strlen(argument), skipped = 0;
    if (index > 1 && is_user_option(argv[index - 1], strlen(argv[index - 1])))
        return find_password(argument, bytes);
    if (gw_begins(argument, "-u") && is_after(argv, index, programs, sizeof programs / sizeof programs[0]))
        skipped = find_password(argument + 2, bytes - 2);
    return skipped == 0 ? 0 : skipped + 2;
}

/* If the whole argument is NAME=VALUE or --NAME=VALUE with a secret name, return the offset of the value; otherwise 0.
 * The value may have blanks. The command of a shell may only begin with an assignment. */
static size_t assigned_offset(char *const *argv, int index)
{
    const char *argument = argv[index], *sign = strchr(argument, '=');
    size_t name = 0;
    while (is_name_char(argument[name]))
        name++;
    bool is_command =
        index > 0 && gw_begins(argv[index - 1], "-") && ends_in(argv[index - 1], strlen(argv[index - 1]), "c");
    if (is_command || sign == NULL || (size_t)(sign - argument) != name || strpbrk(sign, " \t") == NULL)
        return 0;
    return kind_of_name(argument, name) == NAME_OPEN ? 0 : name + 1;
}

void gw_mask_argument(gw_text *text, char *const *argv, int index)
{
    const char *argument = argv[index];
    size_t open = index > 0 ? password_offset(argv, index) : 0, bytes = strlen(argument);
    open = open == 0 ? assigned_offset(argv, index) : open;
    bool is_key = index > 1 && strcmp(argv[index - 1], "login") == 0 && bytes >= KEY_BYTES_MIN &&
                  is_opaque(argument, bytes); /* wandb login KEY */
    if (index > 1 && (is_key || is_value_of(argv[index - 1], argument) || is_after_short_option(argv, index))) {
        gw_text_add_str(text, GW_MASKED);
    } else if (index > 0 && is_short_password(argv, index)) {
        gw_text_add_str(text, "-p" GW_MASKED);
    } else if (open > 0) {
        gw_text_add(text, argument, open);
        gw_text_add_str(text, GW_MASKED);
    } else {
        mask(text, argument, bytes, true);
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
