/* cadre-kernel: the program that a Jupyter client starts. */
#include "session/session.h"

#include "config.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: cadre-kernel [-f | --connection-file] FILE [--kernelspec-dir DIR]\n"
    "Serves the Jupyter kernel for C that FILE describes; Jupyter starts it. To install the\n"
    "kernel for Jupyter: cadre kernelspec install --user\n";

int main(int argc, char **argv)
{
    static const struct option known[] = {
        {"connection-file", required_argument, NULL, 'f'},
        {"kernelspec-dir", required_argument, NULL, 'k'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'v'},
        {0},
    };
    cadre_session_options options = {0};
    cadre_error error = {0};
    int option;
    while ((option = getopt_long(argc, argv, "f:h", known, NULL)) != -1) {
        switch (option) {
        case 'f': options.connection_file = optarg; break;
        case 'k': options.kernelspec_dir = optarg; break;
        case 'h': fputs(usage, stdout); return 0;
        case 'v': puts("cadre-kernel " PACKAGE_VERSION); return 0;
        default: fputs(usage, stderr); return 2;
        }
    }
    if (!options.connection_file && optind < argc) options.connection_file = argv[optind++];
    if (!options.connection_file || optind < argc) {
        fputs(usage, stderr);
        return 2;
    }
    if (cadre_session_run(&options, &error) < 0) {
        fprintf(stderr, "cadre-kernel: %s\n", error.message);
        return 1;
    }
    return 0;
}
