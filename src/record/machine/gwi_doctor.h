/* Declarations shared by the files of src/record/machine. Each file check_*.c implements one group of checks. */
#ifndef GWI_DOCTOR_H
#define GWI_DOCTOR_H

#include "gw_doctor.h"
#include "gw_fact.h"
#include "gw_version.h"

/* Append a result to `checkup`. `todo` is the advice to the user; NULL or "" if there is nothing to do. */
__attribute__((format(printf, 6, 7))) void gwi_check(gw_checkup *checkup, const char *section, const char *id,
                                                     gw_check_state state, const char *todo, const char *format, ...);

void gwi_check_driver(const gw_facts *facts, gw_checkup *checkup);
void gwi_check_cards(const gw_facts *facts, gw_checkup *checkup);
void gwi_check_libraries(const gw_facts *facts, gw_checkup *checkup);
void gwi_check_python(const gw_facts *facts, gw_checkup *checkup);
void gwi_check_known(const gw_facts *facts, gw_checkup *checkup);
void gwi_check_host(const gw_facts *facts, gw_checkup *checkup);
void gwi_check_environment(const gw_facts *facts, gw_checkup *checkup);

/* Parse a fact as a version. Returns 0 if `text` is NULL or not a version. */
gw_version gwi_version(const char *text);
/* Return the version of the kernel driver, or else the version from NVML, or else from the driver library; NULL:
 * unknown. */
const char *gwi_driver(const gw_facts *facts);
/* True if the device file "/dev/NAME" exists. The fact "device.files" lists all device files; a missing one does
 * not exist. */
bool gwi_has_device(const gw_facts *facts, const char *name);
long long gwi_number_or(const gw_facts *facts, const char *key, long long otherwise);
bool gwi_is(const char *value, const char *wanted); /* True if both texts are equal; false if `value` is NULL. */

/* Store the libraries that are found as facts "library.N", in the format of gw_library_to_line(). */
void gwi_look_libraries(gw_facts *facts, const char *root);
/* Store facts "pci.acs.*" about the PCI bridges above each card (see the facts "pci.card.N.pci"). */
void gwi_look_acs(gw_facts *facts, const char *root);
long long gwi_library_count(const gw_facts *facts); /* number of facts "library.N"; at most GWI_LIBRARIES_MAX */
/* Return the fact "library.N" for N = `index`; no field is set if there is none. Its path, the last field, is a C
 * string. */
gw_fact_library gwi_library_fact(const gw_facts *facts, long long index);
/* Return the number of cards in the machine, from the best source available. Returns -1 if the number is unknown. */
long long gwi_card_count(const gw_facts *facts);
/* Return a fact about a card, such as "name", as reported by NVML or else by the driver's own files. NULL: unknown. */
const char *gwi_card(const gw_facts *facts, long long index, const char *what);

enum { GWI_FACT_KEY_MAX = 128, GWI_FILE_BYTES_MAX = 64 << 10, GWI_CARDS_MAX = 64, GWI_LIBRARIES_MAX = 512 };

/* Read the beginning of a file. The caller frees the result. Returns NULL if the file cannot be read. */
char *gwi_read_file(const char *root, const char *path);

#endif
