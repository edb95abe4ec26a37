#include "cli/cli.h"
#include "cli/specs.h"

#include <stdio.h>
#include <string.h>

static const char usage[] =
    "usage: cadre kernelspec install [--user | --sys-prefix | --prefix DIR]\n"
    "       cadre kernelspec remove  [--user | --sys-prefix | --prefix DIR]\n"
    "\n"
    "install makes \"C (Cadre)\" known to Jupyter: for this user (--user, when nothing is said), "
    "in\n"
    "the active Python environment (--sys-prefix), or below DIR/share/jupyter. remove takes it "
    "away\n"
    "again; kernels of environments are removed with `cadre env remove NAME`.\n";

static int install(const cadre_spec_place *place, cadre_error *error)
{
    json_t *spec = cadre_spec_pattern(error);
    if (!spec) return error->code;
    int status = cadre_spec_write(place, "cadre", spec, error);
    json_decref(spec);
    if (status == 0) printf("installed %s/cadre\n", place->folder);
    return status;
}

static int take_away(const cadre_spec_place *place, cadre_error *error)
{
    int status = cadre_spec_remove(place->folder, "cadre", error);
    if (status == 0) printf("removed %s/cadre\n", place->folder);
    return status;
}

int cadre_cli_kernelspec(int argc, char **argv)
{
    cadre_error error = {0};
    cadre_spec_place place = {0};
    const char *verb = argc > 1 ? argv[1] : "";
    if (cadre_cli_wants_help(argc, argv)) {
        fputs(usage, stdout);
        return 0;
    }
    if (strcmp(verb, "install") != 0 && strcmp(verb, "remove") != 0) {
        fputs(usage, stderr);
        return 2;
    }
    for (int i = 2; i < argc;) {
        int used = cadre_spec_place_parse(&place, argc - i, argv + i, &error);
        if (used == 0) {
            fprintf(stderr, "cadre kernelspec %s: what is %s?\n\n%s", verb, argv[i], usage);
            return 2;
        }
        if (used < 0) goto failed;
        i += used;
    }
    if (!place.folder[0] && cadre_spec_place_user(&place, &error) < 0) goto failed;
    if ((verb[0] == 'i' ? install : take_away)(&place, &error) == 0) return 0;
failed:
    fprintf(stderr, "cadre kernelspec %s: %s\n", verb, error.message);
    return 1;
}
