"""How papermill writes parameters into a C notebook: as one line of JSON for the kernel.

The kernel knows the declared type of every parameter and checks each value against it; papermill
does not. So nothing is turned into C here: no question of escapes, of the size of a number, or of
a second declaration of the same name.

    // Parameters
    %parameters {"cpu_count": 2, "data_slice": "UA/EWR"}
"""
import json
import re

from papermill.engines import NBClientEngine
from papermill.exceptions import PapermillException
from papermill.models import Parameter
from papermill.translators import Translator, papermill_translators

# type, name, array bounds, initialiser, and a comment behind it
DECLARATION = re.compile(
    r"^\s*(?P<type>(?:(?:const|static|unsigned|signed|long|short|struct|enum)\s+)*[A-Za-z_]\w*"
    r"(?:\s+(?:const|int|long))*)(?:\s*(?P<stars>\*+)\s*|\s+)(?P<name>[A-Za-z_]\w*)\s*"
    r"(?P<bounds>(?:\[[^\]]*\]\s*)*)=\s*"
    r"(?P<default>(?:\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|[^;\"'])*);"
    r"\s*(?://\s*(?P<line>.*?)|/\*\s*(?P<block>.*?)\s*\*/)?\s*$"
)
NOT_TYPES = {"return", "else", "typedef", "goto"}


class CTranslator(Translator):
    """papermill's view of C."""

    @classmethod
    def comment(cls, text):
        return f"// {text}"

    @classmethod
    def codify(cls, parameters, comment="Parameters"):
        for name in parameters:
            if not re.fullmatch(r"[A-Za-z_]\w*", str(name), re.ASCII):
                raise PapermillException(f"{name!r} cannot be the name of a C variable")
        try:
            text = json.dumps(parameters, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise PapermillException(f"a parameter has no form in JSON: {error}") from error
        return f"{cls.comment(comment)}\n%parameters {text}\n"

    @classmethod
    def inspect(cls, parameters_cell):
        """The declarations of the cell, for `papermill --help-notebook`."""
        found = []
        for line in parameters_cell["source"].splitlines():
            match = DECLARATION.match(line)
            if not match or match["type"].split()[0] in NOT_TYPES:
                continue
            kind = " ".join(match["type"].split()) + (" " + match["stars"] if match["stars"] else "")
            found.append(Parameter(
                name=match["name"],
                inferred_type_name=kind + match["bounds"].strip(),
                default=match["default"].strip(),
                help=(match["line"] or match["block"] or "").strip(),
            ))
        return found


# By language, and by the name of the kernel for notebooks that say no language.
for known in ("c", "C", "cadre"):
    papermill_translators.register(known, CTranslator)


class CadreEngine(NBClientEngine):
    """papermill's own engine: the entry point is there so that this module is imported."""
