/* Write TensorBoard's event files. Each record has a CRC-32C and contains a protocol buffer (tensorflow.Event).
 * Only what scalars need is implemented.
 *
 * A record:
 * - u64: size of the data in bytes
 * - u32: masked CRC-32C of these 8 bytes
 * - the data
 * - u32: masked CRC-32C of the data
 * Numbers are little-endian. A crash leaves at most an incomplete last record, which TensorBoard ignores. After a
 * failed write nothing more is written, and events_close() reports it. One thread may use an object. */
#ifndef TRAINER_EVENTS_H
#define TRAINER_EVENTS_H

#include "trainer.h"

struct events;

struct scalar {
    const char *tag; /* for example "train/loss" */
    double value;    /* stored as fp32 */
};

/* Create a new file in a folder, and the folder if it does not exist. The name follows TensorBoard's rule
 * (events.out.tfevents.TIME.HOST.PID.NUMBER). */
bool events_open(const char *folder, struct events **ret_events, struct reason *reason);
/* Begin or continue a training whose next step is `step`. TensorBoard then drops what older files have from this step
 * on, because the training repeats it after a crash. */
void events_begin(struct events *events, uint64_t step);
void events_write(struct events *events, uint64_t step, const struct scalar *scalars, size_t count);
/* Close the file; accepts NULL. False: something could not be written. */
bool events_close(struct events *events, struct reason *reason);

/* Return the CRC-32C (Castagnoli) of some bytes. */
uint32_t events_crc(const void *data, size_t bytes);

#endif
