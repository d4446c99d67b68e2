/* Parses the words of a specification: numbers, and names with a count. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gwi_spec.h"

bool gwi_number_parse(const char *text, long long min, long long max, long long *ret)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || value < min || value > max)
        return false;
    *ret = value;
    return true;
}

bool gwi_name_count(const char *text, gw_virt_fault *fault)
{
    size_t bytes = strcspn(text, ":");
    long long count = 1;
    if (bytes == 0 || bytes >= sizeof fault->name)
        return false;
    if (text[bytes] == ':' && !gwi_number_parse(text + bytes + 1, 1, INT64_MAX, &count))
        return false;
    memcpy(fault->name, text, bytes);
    fault->name[bytes] = '\0';
    fault->count = (uint64_t)count;
    return true;
}
