/* A library that only leaves a mark: the file that MARK names exists once it was loaded. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void mark(void) {
    const char *name = getenv("MARK");
    FILE *file = name ? fopen(name, "a") : NULL;
    if (file) {
        fputs("loaded\n", file);
        fclose(file);
    }
}
