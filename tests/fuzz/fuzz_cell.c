/* Any bytes as a cell: completeness and the names it declares, which run the tokens, macros,
 * conditions and the splitting that completion and inspection begin with. */
#include "fuzz.h"

#include "cell/cell.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char indent[64] = "";
    const char *code = (const char *)data;
    const char *state = cadre_cell_is_complete(code, size, indent);
    if (strcmp(state, "complete") != 0 && strcmp(state, "incomplete") != 0 &&
        strcmp(state, "invalid") != 0)
        abort();
    if (strlen(indent) >= 32) abort();
    char **names = cadre_cell_declared_names(code, size);
    for (size_t i = 0; names && names[i]; i++)
        free(names[i]);
    free(names);
    cadre_cell_is_raw(code, size);
    return 0;
}
