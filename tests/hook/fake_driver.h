/* A driver that does nothing but remember who called it: enough to see what reaches it, and with which answer it is
 * believed. Each build has its own list of exports and its own version. */
#ifndef FAKE_DRIVER_H
#define FAKE_DRIVER_H

typedef struct fake_export {
    const char *name;
    void *address;
} fake_export;

extern int fake_version;
extern const fake_export fake_exports[];
extern const int fake_export_count;

/* What every export does: remember its name; answer 0, or what fake_set_result() said for it. */
int fake_called(const char *name);

#endif
