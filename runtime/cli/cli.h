/* runtime/cli: the program `cadre`.
 *
 * main.c holds the table of subcommands; each subcommand is one function in a file of its name,
 * called with what follows its name (argv[0] is the subcommand itself), and its value is the
 * exit status: 0 done, 1 failed, 2 called wrongly. Messages for a person go to stderr, what was
 * asked for to stdout.
 */
#ifndef CADRE_CLI_H
#define CADRE_CLI_H

#include <stdbool.h>
#include <string.h>

/* Is there a --help or -h among the arguments, before any `--`? */
static inline bool cadre_cli_wants_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) return true;
    return false;
}

int cadre_cli_run(int argc, char **argv);        /* runs a notebook */
int cadre_cli_env(int argc, char **argv);        /* env add|list|remove|exec */
int cadre_cli_doctor(int argc, char **argv);     /* checks the installation */
int cadre_cli_kernelspec(int argc, char **argv); /* kernelspec install|remove */

#endif
