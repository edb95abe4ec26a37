/* What the manual page of a library function says in short: "formatted output conversion".
 *
 * Read from the pages that are installed (man3 and man2 below /usr/share/man, or the folders of
 * MANPATH), packed or not; a system without them has none. New; NULL: there is nothing.
 */
#ifndef CADRE_SESSION_MANUAL_H
#define CADRE_SESSION_MANUAL_H

/* *section becomes 2 or 3. */
char *manual_summary(const char *name, int *section);

#endif
