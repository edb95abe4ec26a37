#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#include "config.h"

typedef struct subcommand {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} subcommand;

static const subcommand subcommands[] = {
    {"run", "run a notebook with parameters and write it with its outputs", cadre_cli_run},
    {"env", "kernels of a fixed size: add, list, remove", cadre_cli_env},
    {"kernelspec", "show the kernel to Jupyter, or take it away: install, remove",
     cadre_cli_kernelspec},
    {"doctor", "check the installation and say what to do", cadre_cli_doctor},
};
enum { subcommand_count = sizeof subcommands / sizeof *subcommands };

static void usage(FILE *out)
{
    fprintf(out, "usage: cadre COMMAND [ARGUMENTS]\n\n");
    for (size_t i = 0; i < subcommand_count; i++)
        fprintf(out, "  %-12s %s\n", subcommands[i].name, subcommands[i].summary);
    fprintf(out, "\n`cadre COMMAND --help` tells more.\n");
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        usage(stderr);
        return 2;
    }
    const char *name = argv[1];
    if (!strcmp(name, "--version")) {
        printf("cadre %s\n", PACKAGE_VERSION);
        return 0;
    }
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
        usage(stdout);
        return 0;
    }
    for (size_t i = 0; i < subcommand_count; i++)
        if (!strcmp(name, subcommands[i].name)) return subcommands[i].run(argc - 1, argv + 1);
    fprintf(stderr, "cadre: there is no command %s\n\n", name);
    usage(stderr);
    return 2;
}
