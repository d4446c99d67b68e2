/* Build tool that writes text files into one C table: embed OUTPUT TABLE FILE... The key of each file is its name
 * without the extension. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int add_file(FILE *out, const char *path)
{
    FILE *in = fopen(path, "rb");
    if (in == NULL) {
        fprintf(stderr, "embed: cannot read %s\n", path);
        return 1;
    }
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;
    const char *dot = strchr(base, '.');
    int name_bytes = dot != NULL ? (int)(dot - base) : (int)strlen(base);
    fprintf(out, "    {\"%.*s\",\n     \"", name_bytes, base);
    for (int c = getc(in); c != EOF; c = getc(in)) {
        if (c == '\n')
            fputs("\\n\"\n     \"", out);
        else if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 32 || c > 126)
            fprintf(out, "\\%03o", (unsigned)c);
        else
            putc(c, out);
    }
    fputs("\"},\n", out);
    fclose(in);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: embed OUTPUT TABLE FILE...\n");
        return 2;
    }
    FILE *out = fopen(argv[1], "wb");
    if (out == NULL) {
        fprintf(stderr, "embed: cannot write %s\n", argv[1]);
        return 1;
    }
    fprintf(out, "/* Generated; do not edit. */\n#include \"gw_embedded.h\"\n\nconst gw_embedded %s[] = {\n", argv[2]);
    int failed = 0;
    for (int i = 3; i < argc; i++)
        failed |= add_file(out, argv[i]);
    fprintf(out, "    {0, 0},\n};\n");
    if (fclose(out) != 0 || failed) {
        remove(argv[1]);
        return 1;
    }
    return 0;
}
