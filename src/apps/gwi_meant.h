/* A command line whose first word is not a command. */
#ifndef GWI_MEANT_H
#define GWI_MEANT_H

/* Do what was meant if it only reads: `gpuwhy run.gpuwhy` and `gpuwhy train.log` explain the file. Otherwise, print the
 * command that was probably meant, in one line. A program is never started, because `gpuwhy run` changes how it runs
 * and the word may be a mistyped command. argv[1] is the word. Returns the exit status. */
int gwi_meant(int argc, char **argv);

#endif
