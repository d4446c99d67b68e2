#include "gw_libs.h"

void gw_library_read(const char *root, gw_library *library)
{
    (void)root;
    (void)library;
}
