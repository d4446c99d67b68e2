/* Inside src/doctor: one file a group of checks. */
#ifndef GWI_DOCTOR_H
#define GWI_DOCTOR_H

#include "gw_doctor.h"
#include "gw_version.h"

/* A line of the page. `todo` NULL or "": nothing to do. */
__attribute__((format(printf, 6, 7))) void gwi_check(gw_checkup *checkup, const char *section, const char *id,
                                                     gw_check_state state, const char *todo, const char *format, ...);

void gwi_check_driver(const gw_facts *facts, gw_checkup *checkup);
void gwi_check_cards(const gw_facts *facts, gw_checkup *checkup);
void gwi_check_libraries(const gw_facts *facts, gw_checkup *checkup);
void gwi_check_python(const gw_facts *facts, gw_checkup *checkup);
void gwi_check_host(const gw_facts *facts, gw_checkup *checkup);
void gwi_check_environment(const gw_facts *facts, gw_checkup *checkup);

/* A fact as a version; 0: not known, or none. */
gw_version gwi_version(const char *text);
/* The driver's version: of the kernel driver, else as NVML says, else of the library. NULL: not known. */
const char *gwi_driver(const gw_facts *facts);
/* Does "/dev/x" stand among the device files? Every look lists them all: what is not there is missing. */
bool gwi_has_device(const gw_facts *facts, const char *name);
long long gwi_number_or(const gw_facts *facts, const char *key, long long otherwise);
bool gwi_is(const char *value, const char *wanted); /* NULL is nothing */

/* Facts about libraries that were found: "library.N" in the words of gw_library_to_line(). */
void gwi_look_libraries(gw_facts *facts, const char *root);
/* Facts "pci.acs.*": what can be read of the bridges above the cards of "pci.card.N.pci". */
void gwi_look_acs(gw_facts *facts, const char *root);
long long gwi_library_count(const gw_facts *facts); /* never more than GWI_LIBRARIES_MAX */
/* How many cards the machine has, by the best source that there is. -1: not known. */
long long gwi_card_count(const gw_facts *facts);
/* The fact of a card by NVML, else by the driver's own files. */
const char *gwi_card(const gw_facts *facts, long long index, const char *what);

enum { GWI_FACT_KEY_MAX = 128, GWI_FILE_BYTES_MAX = 64 << 10, GWI_CARDS_MAX = 64, GWI_LIBRARIES_MAX = 512 };

/* The beginning of a file, for the caller to free; NULL: it cannot be read. */
char *gwi_read_file(const char *root, const char *path);

#endif
