/* The first bytes of a recording. The reader of text logs uses them to reject a recording, whatever its file name
 * is. */
#ifndef GW_MAGIC_H
#define GW_MAGIC_H

#define GW_RECORDING_MAGIC "GPUWHY\r\n" /* 8 bytes, without the terminating zero */

#endif
