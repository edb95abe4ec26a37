/* Which installed library has a symbol that a cell wants and nothing defines?
 *
 *     char *library = cadre_library_with("zlibVersion");     "-lz"
 */
#ifndef CADRE_CELL_LIBRARY_SEARCH_H
#define CADRE_CELL_LIBRARY_SEARCH_H

/* What to give to %ldflags: -lNAME where the library can be linked by its name, else the path of
 * its file; new. NULL: none of those in the system's folders has it, or looking took too long
 * (half a second). */
char *cadre_library_with(const char *symbol);

#endif
